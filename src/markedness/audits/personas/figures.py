"""Charts of the personas audit, drawn from its tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from markedness.charts import estimates

if TYPE_CHECKING:
    import altair as alt

_TOP = 8
"""Words shown per group."""
_MAX_ROWS = 2000


def charts(tables: Mapping[str, pd.DataFrame]) -> dict[str, alt.TopLevelMixin]:
    """File stem -> altair chart; a table without rows has none."""
    drawn = {
        "marked_words": _top_words(
            tables["marked_words"], "z", "z, summed", "~g",
            f"The {_TOP} words that most distinguish each group from the unmarked groups",
            "z of the log-odds, summed over the comparisons with the unmarked groups",
        ),
        "marked_words_null": _marked_words_null(tables["marked_words_by_group"]),
        "jsd": _top_words(
            tables["jsd"], "share", "share", "%",
            "Words that contribute most to the divergence of each group",
            "Share of the Jensen-Shannon divergence from the unmarked groups",
        ),
        "lexicon": _lexicon(tables["lexicon"]),
        "word_share": _word_share(tables["word_share"]),
        "similarity": _similarity(tables["similarity"]),
    }  # fmt: skip
    return {name: chart for name, chart in drawn.items() if chart is not None}


def _top_words(
    table: pd.DataFrame, value: str, axis: str, number_format: str, title: str, subtitle: str
) -> alt.FacetChart | None:
    """Bars of the first words of each group."""
    import altair as alt

    if not len(table):
        return None
    rows = table[table["rank"] <= _TOP]
    rows = rows[[name for name in ("kind", "group", "word", "rank", value, "count_target") if name in rows]]
    chart: alt.FacetChart = (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            x=alt.X(f"{value}:Q", title=axis, axis=alt.Axis(format=number_format), stack=None),
            y=alt.Y("word:N", title=None, sort=alt.SortField("rank")),
            tooltip=[name for name in rows if name != "rank"],
        )
        .properties(width=150, height=alt.Step(13))
        .facet(facet=alt.Facet("label:N", title=None, sort=list(dict.fromkeys(_labels(rows)))), columns=3)
        .transform_calculate(label=_LABEL)
        .resolve_scale(y="independent")
        .properties(title=alt.TitleParams(title, subtitle=subtitle))
    )
    return chart


def _marked_words_null(table: pd.DataFrame) -> alt.LayerChart | None:
    import altair as alt

    if not len(table) or not table["null_mean"].notna().any():
        return None
    columns = ["kind", "group", "n_words_equal", "null_mean", "null_ci_low", "null_ci_high", "p", "n"]
    base = alt.Chart(table[columns].astype({"p": float})).transform_calculate(label=_LABEL)
    order = list(dict.fromkeys(_labels(table)))
    y = alt.Y("label:N", title=None, sort=order)
    chance = base.mark_rule(strokeWidth=5, opacity=0.35).encode(
        x=alt.X("null_ci_low:Q", title="Marked words"), x2="null_ci_high:Q", y=y
    )
    mean = base.mark_tick(thickness=3, color="#6E6E6E").encode(x="null_mean:Q", y=y)
    found = base.mark_point(filled=True, size=60).encode(
        x="n_words_equal:Q", y=y, tooltip=["kind", "group", "n_words_equal", "null_mean", "p", "n"]
    )
    layers: alt.LayerChart = chance + mean + found
    said = "Of texts cut to equal lengths. Grey: by chance, with labels exchanged (mean and range)"
    return layers.properties(title=alt.TitleParams("Marked words found", subtitle=said))


def _bars_with_interval(
    rows: pd.DataFrame, facet: str, value: str, bounds: tuple[str, ...], axis: alt.X, n_columns: int
) -> alt.FacetChart:
    """A bar per group with a line from its lower to its upper bound, one panel per value of ``facet``.

    ``bounds``: of the line; two more names are of a thick one.
    """
    import altair as alt

    rows = rows.assign(label=_labels(rows))[[facet, "label", value, *bounds, "n"]].head(_MAX_ROWS)
    base = alt.Chart(rows)
    y = alt.Y("label:N", title=None, sort=list(dict.fromkeys(rows["label"])))
    bars = base.mark_bar().encode(x=axis, y=y, tooltip=[facet, "label", value, "n"])
    lines = [
        base.mark_rule(strokeWidth=width, color="#1F2328").encode(x=f"{low}:Q", x2=f"{high}:Q", y=y)
        for width, low, high in zip((1, 4), bounds[::2], bounds[1::2], strict=False)
    ]
    panels = alt.Facet(f"{facet}:N", title=None, sort=list(dict.fromkeys(rows[facet])))
    layers = alt.LayerChart(layer=[bars, *lines])
    chart: alt.FacetChart = layers.properties(width=190, height=alt.Step(14)).facet(facet=panels, columns=n_columns)
    return chart


def _lexicon(table: pd.DataFrame) -> alt.FacetChart | None:
    """Figure 1 of the paper, for each lexicon of one value: its own group and the others."""
    import altair as alt

    single = table["lexicon"].isin(set(table["group"])) & ~table["lexicon"].astype(str).str.contains(" ")
    rows = table[single & ~table["group"].astype(str).str.contains(" ")]
    if not len(rows):
        return None
    mean, error = rows["mean_percent"], rows["standard_error"]
    x = alt.X("mean_percent:Q", title="% of words")
    chart = _bars_with_interval(
        rows.assign(low=mean - error, high=mean + error), "lexicon", "mean_percent",
        ("ci_low", "ci_high", "low", "high"), x, n_columns=3,
    )  # fmt: skip
    said = [
        "Mean percentage of words in the lexicon (Ghavami & Peplau 2013). Thick lines: standard error over texts, as",
        "published; thin lines: the interval of lexicon.csv",
    ]
    return chart.properties(title=alt.TitleParams("Words of stereotype lexicons", subtitle=said))


def _word_share(table: pd.DataFrame) -> alt.FacetChart | None:
    import altair as alt

    if not len(table):
        return None
    x = alt.X("share:Q", title="Share of texts", axis=alt.Axis(format="%"))
    chart = _bars_with_interval(table, "words", "share", ("ci_low", "ci_high"), x, n_columns=2)
    return chart.properties(title="Texts that contain any of the words, with Wilson interval")


def _similarity(table: pd.DataFrame) -> alt.LayerChart | None:
    import altair as alt

    rows = table[table["mean_cosine"].notna()]
    if not len(rows):
        return None
    rows = rows.assign(label=_labels(rows))[["label", "mean_cosine", "ci_low", "ci_high", "n"]]
    base = alt.Chart(rows).encode(y=alt.Y("label:N", title=None, sort=list(dict.fromkeys(rows["label"]))))
    layers = estimates(
        base, "mean_cosine", ["label", "mean_cosine", "n"], title="Mean cosine between texts of the group",
        scale=alt.Scale(zero=False),
    )  # fmt: skip
    return layers.properties(title="How alike the texts of each group are, within prompts")


_LABEL = "datum.kind == 'persona' ? datum.group : datum.group + ' (' + datum.kind + ')'"


def _labels(table: pd.DataFrame) -> list[str]:
    """Group, with the kind where it is not persona."""
    return [
        str(group) if kind == "persona" else f"{group} ({kind})"
        for kind, group in zip(table["kind"], table["group"], strict=True)
    ]
