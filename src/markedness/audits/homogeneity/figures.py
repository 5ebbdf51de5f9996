"""Charts of the homogeneity audit, from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from markedness.charts import estimates, interval, line_at

if TYPE_CHECKING:
    import altair as alt

_INTERVAL = "#0072B2"
_MOST_CUES = 40
"""A chart of more cues is too long to read."""


def figures(tables: Mapping[str, pd.DataFrame], confidence_level: float) -> dict[str, alt.TopLevelMixin]:
    """File stem -> chart, of the tables that exist."""
    charts: dict[str, alt.TopLevelMixin] = {}
    if "probability_of_differentiation" in tables:
        table = tables["probability_of_differentiation"]
        for axis in [axis for axis in table["axis"].unique() if " x " not in axis][:2]:
            charts[f"probability_of_differentiation_{axis}"] = differentiation(
                table[table["axis"].eq(axis)], axis, confidence_level
            )
    if "effects" in tables and "meta_analysis" in tables:
        charts["effects"] = forest(tables["effects"], tables["meta_analysis"])
    if "differences" in tables:
        charts["differences"] = differences(tables["differences"])
    if "similarity" in tables:
        charts["similarity"] = similarity(tables["similarity"], confidence_level)
        if len(tables.get("similarity_effects", ())):
            simple = tables.get("similarity_simple_effects", pd.DataFrame())
            charts["similarity_effects"] = similarity_effects(tables["similarity_effects"], simple, confidence_level)
    return charts


def differentiation(table: pd.DataFrame, axis: str, confidence_level: float) -> alt.TopLevelMixin:
    """P_d of each group in each cue, with intervals (the publication's figures 2 and 3)."""
    import altair as alt

    groups = list(dict.fromkeys(table["group"]))
    rows = table[table["cue"].isin(table["cue"].unique()[:_MOST_CUES])].assign(cue=lambda t: _words(t["cue"]))
    base = alt.Chart(rows).encode(
        y=alt.Y("cue:N", title=None, sort=None),
        yOffset=alt.YOffset("group:N", sort=groups),
        color=alt.Color("group:N", title=axis, sort=groups),
    )
    layers = estimates(
        base, "pd", ["cue", "group", "pd", "ci_low", "ci_high", "n", "n_clusters"],
        title="Probability of differentiation (0: all answers are the same)", scale=alt.Scale(domain=[0, 1]),
    )  # fmt: skip
    title = alt.Title(
        f"Variety of answers by {axis}", subtitle=f"Median and {confidence_level:.0%} interval over resampled names"
    )
    return layers.properties(title=title, height=alt.Step(9))


def forest(effects: pd.DataFrame, pooled: pd.DataFrame) -> alt.TopLevelMixin:
    """Cohen's d of each cue, and the pooled effect as a diamond, for each comparison of a single axis."""
    import altair as alt

    single = ~effects["axis"].str.contains(" x ", regex=False)
    own = effects[single & effects["cue"].isin(effects["cue"].unique()[:_MOST_CUES])]
    order = [*_words(own["cue"]).unique(), "all cues"]
    columns = ["comparison", "cue", "d", "ci_low", "ci_high"]
    cues = own.assign(cue=_words(own["cue"]))[[*columns, "z", "p_adjusted"]].dropna(subset=["d"])
    whole = pooled[pooled["comparison"].isin(own["comparison"])].assign(cue="all cues")[[*columns, "i2", "k"]]
    y = alt.Y("cue:N", title=None, sort=order)
    cues["found"] = cues["p_adjusted"].lt(0.05).map({True: "yes", False: "no"})
    rows = pd.concat([cues.assign(pooled=False), whole.assign(pooled=True)], ignore_index=True)
    base = alt.Chart(rows).encode(y=y)
    bars = interval(base, color="#6E6E6E", title="Cohen's d")
    found = alt.Scale(domain=["yes", "no"], range=["#D55E00", "#8C959C"])
    color = alt.Color("found:N", title="Adjusted p < 0.05", scale=found)
    points = base.transform_filter("!datum.pooled").mark_point(size=40)
    points = points.encode(x="d:Q", color=color, tooltip=[*columns, "z", "p_adjusted"])
    diamond = base.transform_filter("datum.pooled").mark_point(shape="diamond", size=140, color="#0072B2")
    diamond = diamond.encode(x="d:Q", tooltip=["comparison", "d", "ci_low", "ci_high", "i2", "k"])
    title = alt.Title(
        "Effects by cue and pooled",
        subtitle=[
            "Positive: the second group has less variety. Lines are the published intervals, which shrink with the",
            "number of replicates and are no sampling error. The colour is of the test over names",
        ],
    )
    layers = alt.layer(line_at(rows), bars, points, diamond).properties(width=200, height=alt.Step(13))
    facet = alt.Facet("comparison:N", title=None, sort=list(dict.fromkeys(own["comparison"])))
    return layers.facet(facet=facet, columns=2).properties(title=title)


def differences(table: pd.DataFrame) -> alt.TopLevelMixin:
    """Mean difference over cues with its interval, and its range under permuted labels as a band."""
    import altair as alt

    base = alt.Chart(table).encode(y=alt.Y("comparison:N", title=None, sort=None))
    band = base.mark_bar(opacity=0.25, color="#6E6E6E").encode(
        x=alt.X("null_low:Q", title="Mean difference in P_d (positive: second group less varied)"),
        x2="null_high:Q",
    )
    tooltip = ["comparison", "difference", "ci_low", "ci_high", "null_low", "null_high", "p", "p_adjusted"]
    drawn = estimates(base, "difference", tooltip, color=_INTERVAL)
    title = alt.Title("Mean differences over cues", subtitle="Grey: 95 % of the differences under exchanged labels")
    return alt.layer(band, drawn).properties(title=title, height=alt.Step(26))


def similarity(table: pd.DataFrame, confidence_level: float) -> alt.TopLevelMixin:
    """Mean cosine of two texts of a group, with intervals."""
    import altair as alt

    base = alt.Chart(table).encode(y=alt.Y("group:N", title=None, sort=None))
    layers = estimates(
        base, "mean_cosine", ["group", "mean_cosine", "ci_low", "ci_high", "n"], color=_INTERVAL,
        title="Mean cosine of two texts of a group (1: alike)", scale=alt.Scale(zero=False),
    )  # fmt: skip
    title = alt.Title(
        "Similarity of texts within a group", subtitle=f"Mean and {confidence_level:.0%} interval over prompts"
    )
    return layers.properties(title=title, height=alt.Step(18))


def similarity_effects(effects: pd.DataFrame, simple: pd.DataFrame, confidence_level: float) -> alt.TopLevelMixin:
    """Differences in similarity between groups, over all and within each value of the other axis, with intervals."""
    import altair as alt

    rows = pd.concat([effects.assign(within=""), simple], ignore_index=True).dropna(subset=["difference"])
    where = (" (" + rows["within"].astype(str) + ")").where(rows["within"].astype(str).ne(""), "")
    rows = rows.assign(label=rows["group"].astype(str) + " - " + rows["reference"].astype(str) + where)
    columns = ["label", "axis", "difference", "ci_low", "ci_high", "p", "n_prompts"]
    rows = rows[columns]
    base = alt.Chart(rows).encode(y=alt.Y("label:N", title=None, sort=None))
    axis = "Difference in mean cosine (positive: first group more alike)"
    drawn = estimates(base, "difference", columns, color=_INTERVAL, title=axis)
    said = f"Means over prompts with {confidence_level:.0%} intervals; in brackets: within one value of the other axis"
    layers = alt.layer(line_at(rows), drawn).properties(height=alt.Step(16))
    return layers.properties(title=alt.Title("Differences in the similarity of texts", subtitle=said))


def _words(cues: pd.Series) -> pd.Series:
    return cues.astype(str).str.replace("_", " ")
