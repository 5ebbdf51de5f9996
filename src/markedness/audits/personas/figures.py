"""Charts of the personas audit, drawn from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

_TOP = 8
"""Words shown per group."""


def charts(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """File stem -> altair chart; a table without rows has none."""
    drawn = {
        "marked_words": _marked_words(tables["marked_words"]),
        "marked_words_null": _marked_words_null(tables["marked_words_by_group"]),
        "jsd": _jsd(tables["jsd"]),
        "lexicon": _lexicon(tables["lexicon"]),
        "word_share": _word_share(tables["word_share"]),
        "similarity": _similarity(tables["similarity"]),
    }
    return {name: chart for name, chart in drawn.items() if chart is not None}


def _marked_words(table: pd.DataFrame) -> Any:
    import altair as alt

    rows = table[table["rank"] <= _TOP] if len(table) else table
    if not len(rows):
        return None
    rows = rows[["kind", "group", "word", "rank", "z", "count_target", "null_mean"]]
    return (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("z:Q", title="z of the log-odds, summed over comparisons"),
            y=alt.Y("word:N", title=None, sort=alt.SortField("rank")),
            tooltip=["kind", "group", "word", "z", "count_target"],
        )
        .properties(width=150, height=alt.Step(13))
        .facet(facet=alt.Facet("label:N", title=None, sort=list(dict.fromkeys(_labels(rows)))), columns=3)
        .transform_calculate(label=_LABEL)
        .resolve_scale(y="independent")
        .properties(title=f"The {_TOP} words that most set each group apart from the unmarked groups")
    )


def _marked_words_null(table: pd.DataFrame) -> Any:
    import altair as alt

    if not len(table) or not table["null_mean"].notna().any():
        return None
    columns = ["kind", "group", "n_words", "null_mean", "null_ci_low", "null_ci_high", "p", "n"]
    base = alt.Chart(table[columns].astype({"p": float})).transform_calculate(label=_LABEL)
    order = list(dict.fromkeys(_labels(table)))
    y = alt.Y("label:N", title=None, sort=order)
    chance = base.mark_rule(strokeWidth=5, opacity=0.35).encode(
        x=alt.X("null_ci_low:Q", title="Marked words"), x2="null_ci_high:Q", y=y
    )
    found = base.mark_point(filled=True, size=60).encode(
        x="n_words:Q", y=y, tooltip=["kind", "group", "n_words", "null_mean", "p", "n"]
    )
    return (chance + found).properties(title="Marked words found (point), and by chance with shuffled labels (band)")


def _jsd(table: pd.DataFrame) -> Any:
    import altair as alt

    if not len(table):
        return None
    rows = table[table["rank"] <= _TOP][["kind", "group", "word", "rank", "share"]]
    return (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="Share of the divergence", axis=alt.Axis(format="%")),
            y=alt.Y("word:N", title=None, sort=alt.SortField("rank")),
            tooltip=["kind", "group", "word", "share"],
        )
        .properties(width=150, height=alt.Step(13))
        .facet(facet=alt.Facet("label:N", title=None, sort=list(dict.fromkeys(_labels(rows)))), columns=3)
        .transform_calculate(label=_LABEL)
        .resolve_scale(y="independent")
        .properties(title="Words that contribute most to the Jensen-Shannon divergence from the unmarked groups")
    )


def _lexicon(table: pd.DataFrame) -> Any:
    """Figure 1 of the paper, for each lexicon of one value: its own group and the others."""
    import altair as alt

    single = table["lexicon"].isin(set(table["group"])) & ~table["lexicon"].astype(str).str.contains(" ")
    rows = table[single & ~table["group"].astype(str).str.contains(" ")].copy()
    if not len(rows):
        return None
    rows["low"] = rows["mean_percent"] - rows["standard_error"]
    rows["high"] = rows["mean_percent"] + rows["standard_error"]
    rows["label"] = _labels(rows)
    base = alt.Chart(rows[["lexicon", "label", "mean_percent", "low", "high", "n"]])
    y = alt.Y("label:N", title=None, sort=list(dict.fromkeys(rows["label"])))
    bars = base.mark_bar().encode(
        x=alt.X("mean_percent:Q", title="Mean percentage of words in the lexicon"),
        y=y,
        tooltip=["lexicon", "label", "mean_percent", "n"],
    )
    errors = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q", y=y)
    return (
        (bars + errors)
        .properties(width=190, height=alt.Step(14))
        .facet(facet=alt.Facet("lexicon:N", title=None, sort=list(dict.fromkeys(rows["lexicon"]))), columns=3)
        .properties(title="Words of stereotype lexicons (Ghavami & Peplau 2013), mean and standard error")
    )


def _word_share(table: pd.DataFrame) -> Any:
    import altair as alt

    if not len(table):
        return None
    rows = table.assign(label=_labels(table))[["words", "label", "share", "ci_low", "ci_high", "n"]].head(2000)
    base = alt.Chart(rows)
    y = alt.Y("label:N", title=None, sort=list(dict.fromkeys(rows["label"])))
    bars = base.mark_bar().encode(
        x=alt.X("share:Q", title="Share of texts", axis=alt.Axis(format="%")),
        y=y,
        tooltip=["words", "label", "share", "n"],
    )
    errors = base.mark_rule(strokeWidth=2).encode(x="ci_low:Q", x2="ci_high:Q", y=y)
    return (
        (bars + errors)
        .properties(width=260, height=alt.Step(14))
        .facet(facet=alt.Facet("words:N", title=None), columns=2)
        .properties(title="Texts that contain any of the words, with Wilson interval")
    )


def _similarity(table: pd.DataFrame) -> Any:
    import altair as alt

    rows = table[table["mean_cosine"].notna()]
    if not len(rows):
        return None
    rows = rows.assign(label=_labels(rows))[["label", "mean_cosine", "ci_low", "ci_high", "n"]]
    base = alt.Chart(rows)
    y = alt.Y("label:N", title=None, sort=list(dict.fromkeys(rows["label"])))
    ranges = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("ci_low:Q", title="Mean cosine between texts of the group", scale=alt.Scale(zero=False)),
        x2="ci_high:Q",
        y=y,
    )
    points = base.mark_point(filled=True, size=60).encode(x="mean_cosine:Q", y=y, tooltip=["label", "mean_cosine", "n"])
    return (ranges + points).properties(title="How alike the texts of each group are, within prompts")


_LABEL = "datum.kind == 'persona' ? datum.group : datum.group + ' (' + datum.kind + ')'"


def _labels(table: pd.DataFrame) -> list[str]:
    """Group, with the kind where it is not persona."""
    return [
        str(group) if kind == "persona" else f"{group} ({kind})"
        for kind, group in zip(table["kind"], table["group"], strict=True)
    ]
