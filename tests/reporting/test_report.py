"""The pages say what is there, what is missing, and never let a model's text become markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from markedness.reporting import report
from markedness.reporting.report import Pages
from markedness.reporting.results import statuses, unequal


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
    return report.model_page(pages, "tiny")


def test_card_holds_headline_scores_notes_and_controls(card: str) -> None:
    text = " ".join(Elements(card).text.split())
    assert "Word share: Black" in text
    assert "0.8" in text and "0.7 to 0.9" in text  # share 0.5 + 0.3, interval +- 0.1
    assert "not estimated" in text  # share.absent
    assert "12 texts were left out." in text
    assert "control-none" in text


def test_card_warns_of_small_n_and_of_unequal_refusals(card: str) -> None:
    text = " ".join(Elements(card).text.split())
    assert "1 of 3 estimates rest on fewer than 30 units (the fewest: 5): Black." in text
    # Black has samples 0, 3, 6, ...: half of its 20 rows are refused, none of the others'.
    assert "'refusal' are unequally spread over groups" in text
    assert "Black 50.0%" in text


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
    for page in (report.index_page(pages), report.model_page(pages, "tiny")):
        outside = re.sub(r"(?s)<script.*?</script>", "", page)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', outside)
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
        assert policy is not None
        assert "default-src &#39;none&#39;" in policy.group(1)
        assert "unsafe-eval" not in policy.group(1)


def test_card_of_a_model_that_was_not_run_says_so(pages: Pages) -> None:
    text = Elements(report.model_page(pages, "never-run")).text
    assert "not run yet: markedness run personas --model never-run" in text


def test_index_links_every_card_and_shows_comparisons(pages: Pages) -> None:
    elements = Elements(report.index_page(pages))
    links = {attributes.get("href") for tag, attributes in elements.tags if tag == "a"}
    assert {"tiny.html", "control-none.html", "never-run.html", "../results/compare/differences.csv"} <= links
    assert "not run" in elements.text


def test_long_table_embeds_its_first_rows_and_links_the_rest(pages: Pages) -> None:
    shorter = Pages(pages.store, pages.audits, pages.models, pages.card, table_rows=20)
    page = report.model_page(shorter, "tiny")
    block = re.search(r'(?s)id="table-personas-share">(.*?)</script>', page)
    assert block is not None
    assert len(json.loads(block.group(1))["rows"]) == 20
    assert "The first 20 of 60 rows" in page


def test_write_leaves_no_page_of_a_model_that_is_gone(pages: Pages) -> None:
    stale = pages.store.reports() / "gone.html"
    pages.store.write_bytes(stale, b"old")
    report.write(pages)
    assert not stale.exists()
    assert (pages.store.reports() / "index.html").exists()


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
    assert report.shown(value) == text


def test_unequal_with_equal_refusals_is_silent_at_the_nominal_rate() -> None:
    rng = np.random.default_rng(5)
    accused = 0
    for _ in range(40):
        status = np.where(rng.random(300) < 0.1, "refusal", "ok")
        rows = pd.DataFrame({"group": np.resize(["a", "b", "c"], 300), "status": status})
        accused += bool(list(unequal(statuses(rows))))
    assert accused <= 6  # 2 expected of 40; P(more than 6) = 0.003


def test_unequal_without_any_ok_row_or_with_one_group_is_silent() -> None:
    assert not list(unequal(statuses(pd.DataFrame({"group": ["a", "b"], "status": ["failed", "failed"]}))))
    assert not list(unequal(statuses(pd.DataFrame({"group": ["a", "a"], "status": ["ok", "failed"]}))))
