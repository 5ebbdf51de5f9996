"""The pages say what is there, what is missing, and never let a model's text become markup."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest
from tests.reporting.conftest import CARD

from markedness.asked import OTHERWISE
from markedness.lm.config import OpenAIModel, ScriptedModel
from markedness.reporting import report
from markedness.reporting.answers import direction
from markedness.reporting.card import model_page
from markedness.reporting.index import index_page
from markedness.reporting.pages import Pages, facts
from markedness.reporting.render import shown
from markedness.results import NAN, Score


class Elements(HTMLParser):
    """Collects tags, attributes and the visible text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data


@pytest.fixture
def card(pages: Pages) -> str:
    return model_page(pages, "tiny")


def test_card_holds_headline_scores_notes_and_controls(card: str) -> None:
    text = " ".join(Elements(card).text.split())
    assert "Word share: Black" in text
    assert "0.8" in text and "0.7 to 0.9" in text  # share 0.5 + 0.3, interval +- 0.1
    assert "not estimated" in text  # share.absent
    assert "12 texts were left out." in text
    assert "control-none" in text


def test_card_says_the_size_of_what_was_asked(pages: Pages) -> None:
    path = pages.store.table_path("generations", "personas", "tiny")
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"group": ["a"], "prompt_id": ["p"]}).to_parquet(path)
    sized = replace(pages, sizes={"personas": "size quick but for samples"})
    assert "1 group, 1 prompt, size quick but for samples" in Elements(model_page(sized, "tiny")).text
    assert "size" not in dict(facts(pages, "tiny"))["Asked"]
    config = pages.models["tiny"].model_copy(update={"generate": {"personas": {"temperature": 0.2, "samples": 3}}})
    own = replace(sized, models={**pages.models, "tiny": config})
    assert dict(facts(own, "tiny"))["Asked"].endswith(
        "size quick but for samples, with temperature, samples of its own"
    )


def test_card_and_index_say_that_different_weights_answered_as_one_model(pages: Pages) -> None:
    both = replace(pages, audits=["personas", "homogeneity"], cards=dict.fromkeys(("personas", "homogeneity"), CARD))
    for audit, who in (("personas", "weights:old"), ("homogeneity", "weights:new")):
        path = pages.store.ledger_path(audit, "tiny")
        path.parent.mkdir(parents=True, exist_ok=True)
        header = {"answers": 1, "first": None, "last": None, "models": {}, "served_by": {who: 1}, "version": 2}
        path.write_text(json.dumps({"ledger": header}) + "\n")
    said = "answered as this one model: personas by weights:old; homogeneity by weights:new. Run again what is older"
    assert said in dict(facts(both, "tiny"))["Warning"]
    assert said in Elements(model_page(both, "tiny")).text
    assert "Warning" not in dict(facts(pages, "tiny"))


@pytest.mark.parametrize(("names", "warned"), [(["model-a"], False), (["model-a", "model-b"], True)])
def test_card_says_that_the_server_reported_several_models(names: list[str], warned: bool, pages: Pages) -> None:
    path = pages.store.table_path("generations", "personas", "tiny")
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"group": "a", "prompt_id": "p", "served_model": names}).to_parquet(path)
    assert ("The server reported several models" in dict(facts(pages, "tiny")).get("Warning", "")) is warned
    asked = replace(pages, models={**pages.models, "tiny": OpenAIModel(backend="openai", model="model-b-2027")})
    others = dict(facts(asked, "tiny"))["Warning"]
    assert others.endswith(f"the server reports for 1 of {len(names)} answers that model-a gave them")


def test_card_warns_of_small_n(card: str) -> None:
    text = " ".join(Elements(card).text.split())
    assert "1 of 4 estimates rest on fewer than 30 units (the fewest: 5): Black." in text


def test_card_with_hostile_text_opens_no_element_of_it(card: str) -> None:
    tags = Elements(card).tags
    assert not [tag for tag, attributes in tags if tag == "img" or "onerror" in attributes]
    scripts = [attributes for tag, attributes in tags if tag == "script"]
    assert sum("type" not in attributes for attributes in scripts) == 2  # the charts' and the page's own
    assert "window.harmed = true</script>" not in card
    data = re.findall(r'(?s)<script type="application/json"[^>]*>(.*?)</script>', card)
    assert data and not [sign for sign in "<>&\u2028" if sign in "".join(data)]


def test_page_data_survives_its_escaping(card: str) -> None:
    block = re.search(r'(?s)id="examples-personas">(.*?)</script>', card)
    assert block is not None
    texts = json.loads(block.group(1))["texts"]
    assert texts[0]["text"].startswith("A strong person. </script><script>")


def test_pages_name_no_other_host_and_allow_only_their_own_scripts(pages: Pages) -> None:
    for page in (index_page(pages), model_page(pages, "tiny")):
        outside = re.sub(r"(?s)<script.*?</script>", "", page)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', outside)
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
        assert policy is not None
        assert "default-src &#39;none&#39;" in policy.group(1)
        assert "unsafe-eval" not in policy.group(1)


def test_card_of_a_model_that_was_not_run_says_so(pages: Pages) -> None:
    text = Elements(model_page(pages, "never-run")).text
    assert "not run yet: markedness run personas --model never-run" in text


def test_index_links_every_card_and_shows_comparisons(pages: Pages) -> None:
    elements = Elements(index_page(pages))
    links = {attributes.get("href") for tag, attributes in elements.tags if tag == "a"}
    assert {"tiny.html", "control-none.html", "never-run.html", "tables/compare/differences.csv"} <= links
    assert "not run" in elements.text


def test_direction_of_a_score_is_from_its_own_null() -> None:
    score = Score("share.Black", 0.6, p=0.01, family=2, null_mean=0.5)
    assert direction(score) == "away from the null is worse"
    assert (
        direction(replace(score, null_mean=0.0)) == direction(replace(score, null_mean=NAN)) == "away from 0 is worse"
    )
    assert direction(replace(score, worse=1)) == "higher is worse" and direction(replace(score, family=0)) == ""


def test_index_says_how_many_pairs_were_asked_otherwise(pages: Pages) -> None:
    path = pages.store.compared() / "differences.csv"
    before = path.read_bytes()
    plain = Elements(index_page(pages)).text
    assert "asked the same" not in plain and "on what both were asked." in plain and "asked otherwise" not in plain
    note = f"Half of the answers are missing. {OTHERWISE}: personas.generate.temperature is 1.0 in tiny, 0.2 in new"
    rows = [
        ("personas", "tiny", "control-none", ""),
        ("personas", "tiny", "new", note),
        ("personas", "tiny", "new", note),
    ]
    try:  # two pairs, one of which was asked otherwise
        pd.DataFrame(rows, columns=["audit", "model_a", "model_b", "note"]).to_csv(path, index=False)
        assert f"Of 2 pairs by audit, 1 was {OTHERWISE}." in Elements(index_page(pages)).text
    finally:
        path.write_bytes(before)


def test_pages_name_the_level_of_the_intervals_of_each_audit(pages: Pages) -> None:
    known = Pages(pages.store, pages.audits, pages.models, pages.cards, levels={"personas": 0.5})
    assert "Estimate and interval (50%)" in index_page(known) and "95%" not in index_page(known)
    assert "50%" in Elements(model_page(known, "tiny")).text
    assert "personas 50%, guise 90%" in index_page(replace(known, levels={"personas": 0.5, "guise": 0.9}))


def test_long_table_embeds_its_first_rows_and_links_the_rest(pages: Pages) -> None:
    shorter = Pages(pages.store, pages.audits, pages.models, pages.cards, table_rows=20)
    page = model_page(shorter, "tiny")
    block = re.search(r'(?s)id="table-personas-share">(.*?)</script>', page)
    assert block is not None
    assert len(json.loads(block.group(1))["rows"]) == 20
    assert "The first 20 of 60 rows" in page


@pytest.mark.slow
def test_write_leaves_no_page_of_a_model_that_is_gone(pages: Pages) -> None:
    stale = pages.store.reports() / "gone.html"
    pages.store.write_bytes(stale, b"old")
    report.write(pages)
    assert not stale.exists()
    assert (pages.store.reports() / "index.html").exists()


def test_card_dates_the_answers_by_the_ledger_not_by_the_files(pages: Pages) -> None:
    """After a pull every file is as new as the pull; the card must not show that day."""
    header = {"answers": 3, "first": "2025-03-04T10:00:00+00:00", "last": "2025-03-06T10:00:00+00:00"}
    line = json.dumps({"ledger": header}) + "\n"
    pages.store.write_bytes(pages.store.ledger_path("personas", "tiny"), line.encode())
    text = " ".join(Elements(model_page(pages, "tiny")).text.split())
    assert "04 Mar 2025 to 06 Mar 2025" in text


@pytest.mark.parametrize("content", [None, b"", b'{"torn', b"[]\n", b'{"key": 1, "answered": 7}\n'])
def test_card_without_a_readable_ledger_names_no_date(pages: Pages, content: bytes | None) -> None:
    if content is not None:
        pages.store.write_bytes(pages.store.ledger_path("personas", "tiny"), content)
    assert "<dt>When</dt>" not in model_page(pages, "tiny")


@pytest.mark.slow
def test_pages_with_answers_of_any_length_stay_small(pages: Pages) -> None:
    """200 answers of 1 MB, in examples, tables, words, graph, notes, figures and the reported name."""
    before = len(model_page(pages, "tiny")) + len(index_page(pages))
    store, long = pages.store, "a" * 1_000_000
    folder = store.results("personas", "tiny")
    texts = [f"{n} {long}" for n in range(200)]
    table = pd.DataFrame({"kind": "persona", "group": "Black", "word": texts, "rank": range(200), "z": 2.0})
    store.write_csv(folder / "tables" / "marked_words.csv", table)
    store.write_csv(folder / "tables" / "share.csv", pd.DataFrame({text: [text] for text in texts[:20]}))
    nodes = [{"id": text, "label": text} for text in texts]
    links = [{"source": texts[0], "target": text, "predicate": text, "class": text[:5]} for text in texts[1:]]
    store.write_json(folder / "tables" / "graph.json", {"nodes": nodes, "links": links})
    store.write_json(folder / "notes.json", texts[:100])
    store.write_json(folder / "figures" / "share.json", {"title": "Large", "data": {"values": texts[:3]}})
    path = store.table_path("responses", "personas", "tiny")
    rows = pd.read_parquet(path).assign(text=texts[0], prompt=texts[1], served_model=texts[2])
    store.write_table("responses", "personas", "tiny", rows)
    store.write_table("generations", "personas", "tiny", rows.assign(served_model=texts[: len(rows)]))
    after = len(model_page(pages, "tiny")) + len(index_page(pages))
    assert after - before < 4_000_000
    assert "too large for this page" in model_page(pages, "tiny")


def test_table_that_is_wide_shows_as_many_rows_as_fit(pages: Pages) -> None:
    store = pages.store
    wide = pd.DataFrame({f"c{n}": ["x" * 900] * 400 for n in range(20)})
    store.write_csv(store.results("personas", "tiny") / "tables" / "share.csv", wide)
    page = model_page(pages, "tiny")
    assert re.search(r"The first 5\d of 400 rows; the CSV file has all", page)  # 1 MB / (20 x 0.9 kB)


@pytest.mark.slow
def test_downloads_hold_no_formula_and_every_number(pages: Pages) -> None:
    store = pages.store
    cells = ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", "\r=1", "plain", "-x", "－1x", "x" * 40_000]
    table = pd.DataFrame({"=head": cells, "n": [0.1 + 0.2, -1.5, float("nan"), *range(7)]})
    results = store.results("personas", "tiny") / "tables" / "share.csv"
    store.write_csv(results, table)
    report.write(pages)
    with (store.reports() / "tables" / "personas" / "tiny" / "share.csv").open(encoding="utf-8", newline="") as file:
        copy = list(csv.reader(file))
    assert copy[0] == ["'=head", "n"]
    assert [row[0] for row in copy[1:9]] == [
        "'=1+1", "'+cmd|' /C calc'!A0", "-2", "'@SUM(A1)", "'\t=1", "'\n=1", "plain", "'-x",
    ]  # fmt: skip
    assert copy[9][0] == "'－1x"
    assert len(copy[10][0]) == 32_767
    assert copy[1][1] == "0.30000000000000004" and copy[2][1] == "-1.5"
    assert pd.read_csv(results)["=head"].tolist()[0] == "=1+1"  # what code reads back is as it was
    page = (store.reports() / "tiny.html").read_text(encoding="utf-8")
    assert 'href="tables/personas/tiny/share.csv"' in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), ""),
        (None, ""),
        (3.0, "3"),
        (0.12345, "0.123"),
        (0.00012, "1.2e-04"),
        (12345.6, "12346"),
        (-2, "-2"),
    ],
)
def test_shown_keeps_three_significant_digits(value: float | None, text: str) -> None:
    assert shown(value) == text


def test_card_opens_with_its_answers_before_any_number(pages: Pages) -> None:
    text = Elements(model_page(pages, "tiny")).text
    shown_at, table_at = text.index("The answer"), text.index("Headline scores")
    assert shown_at < text.index("Texts about Black people use ") < table_at
    assert text.index("Not shown that texts about women use more of these words") < table_at
    assert text.index("share.absent") < table_at, "what could not be measured is named, too"
    assert text.index("half of the answers are missing") < table_at, "a caveat stands at its sentence"


def test_control_with_a_planted_stereotype_says_what_is_planted(pages: Pages) -> None:
    planted = ScriptedModel(backend="scripted", rule="planted")
    of_control = replace(pages, models={**pages.models, "control-none": planted})
    assert "Every text about Black people says strong." in Elements(model_page(of_control, "control-none")).text
    assert "says strong" not in Elements(model_page(pages, "control-none")).text


def test_index_marks_each_score_by_its_verdict(pages: Pages) -> None:
    marks = [dict(attrs) for tag, attrs in Elements(index_page(pages)).tags if dict(attrs).get("role") == "img"]
    assert {"found", "not found", "not measured"} <= {mark["aria-label"] for mark in marks}
