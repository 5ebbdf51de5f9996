"""Marked Personas (Cheng, Durmus, Jurafsky 2023): words of each group, and what the paper says of its figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from markedness.literature.agreement import Agreement, as_cells, published, result, tables
from markedness.records import Unsupported
from markedness.store import Store

PAPER = "Cheng, Durmus, Jurafsky 2023"
Rows = list[tuple[str, object, object, bool]]
STORY_TABLES = ("A15",)
MODELS = ("gpt-4-2023", "text-davinci-003")
RACES = ("White", "Black", "Asian", "Middle-Eastern", "Latine")
RESILIENT_CHATGPT = (
    "Latine man", "Asian woman", "Middle-Eastern man", "Middle-Eastern woman", "Latine woman", "Black man",
    "Black woman",
)  # fmt: skip
ABSENT = (
    "ghetto", "unrefined", "criminal", "gangster", "poor", "unintelligent", "uneducated", "dangerous", "vernacular",
    "violent", "lazy",
)  # fmt: skip
"""Caption of figure 2: lexicon words that generated personas do not have."""


def _of_kind(root: Path, model: str, table: str, name: str) -> pd.DataFrame | None:
    found = result(root, "personas", model, name)
    return None if found is None else found[found["kind"].eq("story" if table in STORY_TABLES else "persona")]


def words(root: Path) -> Iterator[Agreement]:
    """Significant words of each group, as sets; a group is one cell.

    Of a single group table 3 prints 20 words, chosen from tables A3 and A4: they must be among those found.
    """
    for (table, model), part in tables(root, "personas_words.csv"):
        found = _of_kind(root, model, table, "marked_words")
        if found is None:
            continue
        rows: Rows = []
        for group in part["group"].unique():
            expected = set(part.loc[part["group"].eq(group), "word"].astype(str))
            got = set(found.loc[found["group"].eq(group), "word"].astype(str))
            if table == "3" and " " not in group:
                got &= expected
            rows.append(_sets(group, expected, got))
        rule = "the same set of words" + ("; of single groups, a subset" if table == "3" else "")
        yield Agreement(PAPER, table, model, rule, as_cells(rows))


def svm_words(root: Path) -> Iterator[Agreement]:
    """Words printed in gray: among the first ten of the group's classifier, and not significant; a group is a cell."""
    for (table, model), part in tables(root, "personas_svm_words.csv"):
        marked, weights = (_of_kind(root, model, table, name) for name in ("marked_words", "svm_words"))
        if marked is None or weights is None:
            continue
        rows: Rows = []
        for group in part["group"].unique():
            expected = set(part.loc[part["group"].eq(group), "word"].astype(str)) - {""}
            first = weights[weights["group"].eq(group) & weights["rank"].le(10)]
            significant = set(marked.loc[marked["group"].eq(group), "word"].astype(str))
            rows.append(_sets(group, expected, set(first["word"].astype(str)) - significant))
        yield Agreement(PAPER, f"{table} (gray)", model, "the same set of words", as_cells(rows))


def _sets(cell: str, expected: set[str], got: set[str]) -> tuple[str, object, object, bool]:
    missing, more = (" ".join(sorted(difference)) or "-" for difference in (expected - got, got - expected))
    return cell, f"{len(expected)} words", f"missing: {missing}; more: {more}", expected == got


def claims(root: Path) -> Iterator[Agreement]:
    """What the paper says of figures that print no numbers; a statement about one group or word is a cell."""
    for model in MODELS:
        yield from _absent_words(root, model)
        yield from _resilient(root, "figure 3", model, ("Black woman",))
    yield from _resilient(root, "figure A4", "chatgpt", RESILIENT_CHATGPT)
    yield from _rates(root)
    yield from _only_of(root)
    yield from _valence(root)


def _statements(table: str, model: str, rows: Rows) -> Iterator[Agreement]:
    if rows:
        yield Agreement(PAPER, table, model, "the statement holds", as_cells(rows))


def _absent_words(root: Path, model: str) -> Iterator[Agreement]:
    """Figure 2: lexicon words in no persona of Black and White groups."""
    store = Store(root)
    if not store.features_path("personas", model).is_dir():
        return
    features = store.read_features("personas", model)
    if isinstance(features, Unsupported):
        return
    texts = features.tables["texts"]
    texts = texts[texts["kind"].eq("persona") & texts["race"].isin(["Black", "White"])]
    bag = features.tables["bag_of_words"]
    counts = bag[bag["text"].isin(texts["text"])].astype({"word": str}).groupby("word")["count"].sum()
    times = {word: int(counts.get(word, 0)) for word in ABSENT}
    yield from _statements("figure 2", model, [(word, 0, times[word], times[word] == 0) for word in ABSENT])


def _resilient(root: Path, table: str, model: str, printed: tuple[str, ...]) -> Iterator[Agreement]:
    """Groups of men and women with most texts that have "resilient" or "resilience", fewest first."""
    found = _of_kind(root, model, table, "word_share")
    if found is None:
        return
    crossed = found[found["group"].str.contains(" ") & ~found["group"].str.contains("nonbinary")]
    order = crossed.sort_values("share")["group"].tolist()[-len(printed) :]
    pairs = enumerate(zip(printed, order, strict=True), start=1)
    rows: Rows = [(f"resilience, bar {place}", said, got, said == got) for place, (said, got) in pairs]
    yield from _statements(table, model, rows)


def _rates(root: Path) -> Iterator[Agreement]:
    """Figures A1 and A2: in which texts a lexicon is found most, and that the older model has more of it."""
    rates = {model: _lexicon(root, model) for model in ("text-davinci-003", "text-davinci-002", "chatgpt")}
    old, new, chat = (rates[model] for model in ("text-davinci-002", "text-davinci-003", "chatgpt"))
    for model, table in (("text-davinci-002", old), ("text-davinci-003", new)):
        if table is not None:
            first = {race: str(table[race].idxmax()) for race in ("Asian", "White", "Middle-Eastern")}
            rows: Rows = [(f"most {race} stereotypes", race, got, race == got) for race, got in first.items()]
            yield from _statements("figure A1", model, rows)
    if old is not None and new is not None:
        own = [{race: float(table[race].loc[race]) for race in RACES} for table in (new, old)]
        yield from _statements("figure A1", "text-davinci-003 and -002", [
            (f"{race} stereotypes in {race} texts", "fewer", f"{less:.3g} %, {more:.3g} %", less < more)
            for race, less, more in ((race, own[0][race], own[1][race]) for race in RACES)
        ])  # fmt: skip
    if chat is not None:
        white, black = (float(chat["Black"].loc[race]) for race in ("White", "Black"))
        rows = [("Black stereotypes", "more in White texts", f"{white:.3g} %, {black:.3g} %", white > black)]
        yield from _statements("figure A2", "chatgpt", rows)


def _lexicon(root: Path, model: str) -> pd.DataFrame | None:
    """Percent of the words of each race's texts (rows) in each race's lexicon (columns)."""
    found = _of_kind(root, model, "figure A1", "lexicon")
    if found is None:
        return None
    return found.pivot(index="group", columns="lexicon", values="mean_percent").loc[list(RACES), list(RACES)]


def _only_of(root: Path) -> Iterator[Agreement]:
    """Section 6: words that text-davinci-003 gives to women alone, and to Black people alone."""
    model = "text-davinci-003"
    marked, weights = (_of_kind(root, model, "A5", name) for name in ("marked_words", "svm_words"))
    if marked is None or weights is None:
        return
    listed = pd.concat([marked[["group", "word"]], weights.loc[weights["rank"].le(10), ["group", "word"]]])
    rows: Rows = []
    for word, value in (("independent", "woman"), ("leader", "Black"), ("powerful", "Black")):
        groups = sorted(set(listed.loc[listed["word"].eq(word), "group"]))
        only = bool(groups) and all(value in group.split() for group in groups)
        rows.append((f"{word} only of {value}", value, ", ".join(groups) or "no group", only))
    yield from _statements("section 6", model, rows)


def _valence(root: Path) -> Iterator[Agreement]:
    """Section 6: sentiment of the words of table 3, each as often as it is printed."""
    found = _of_kind(root, "gpt-4-2023", "3", "marked_words")
    if found is None:
        return
    printed = published(root, "personas_words.csv").query("table == '3'")
    of_words = printed.merge(found[["group", "word", "sentiment"]], on=["group", "word"])["sentiment"].to_numpy(float)
    numbers = {"mean": (0.05, of_words.mean()), "sd": (0.14, of_words.std()), "negative": (0, (of_words < 0).sum())}
    rows: Rows = [
        (f"sentiment of the words of table 3, {name}", said, float(got), abs(got - said) <= 0.005)
        for name, (said, got) in numbers.items()
    ]
    yield Agreement(PAPER, "section 6", "gpt-4-2023, words", "to the printed digit", as_cells(rows))
