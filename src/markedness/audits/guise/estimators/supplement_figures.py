"""Charts of prompts, ranks, texts and dialects: the figures of the paper's supplement, from the tables of a model.

Numbers in docstrings are those of the figures in Hofmann et al. (2024), Supplementary Information.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from markedness.charts import estimates, interval, line_at

if TYPE_CHECKING:
    from altair import TopLevelMixin

DECISIONS = {"conviction": "Conviction", "death": "Death penalty", "iq": "Low IQ"}
STEREOTYPES = {"traits": "covert", "overt": "overt"}
_TOTAL = "all features"
_WIDTH = 320


def supplement_charts(tables: Mapping[str, pd.DataFrame], confidence_level: float) -> dict[str, TopLevelMixin | None]:
    """Name -> chart; None where its table has nothing to show."""
    return {
        "correlations": _correlations(tables["correlations"]),
        "favorability_ranks": _ranks(tables["stereotypes"], tables["favorability_ranks"]),
        "decisions_prompts": _decisions_by_prompt(tables["decisions"]),
        "decisions_increase": _increase(tables["decisions"]),
        "density": _density(tables["features"], tables["text_features"], confidence_level),
        "dialects": _dialects(tables["dialects"], confidence_level),
        "perplexity": _perplexity(tables["perplexity"]),
        "text_features": _text_features(tables["text_features"]),
        "text_topics": _text_topics(tables["text_topics"]),
    }


def by_guise(rows: pd.DataFrame, shown: str, once: list[str], **more: str) -> pd.DataFrame:
    """A row of each guise: its name in ``guise``, ``shown`` and ``more`` from its own columns, without repetitions."""
    own = rows.assign(guise=rows["group"], shown=rows[shown], **{name: rows[column] for name, column in more.items()})
    others = {name: rows[f"{column}_reference"] for name, column in {"shown": shown, **more}.items()}
    return pd.concat([own, rows.assign(guise=rows["reference"], **others)]).drop_duplicates([*once, "guise"])


def guise_bars(rows: pd.DataFrame, named: str, panels: str, said: str, share: bool, tooltip: list[str]) -> Any:
    """A bar of each guise in ``rows``, see `by_guise`, for everything ``named``; a panel for each of ``panels``."""
    import altair as alt

    shown = alt.X("shown:Q", title=said, axis=alt.Axis(format="%")) if share else alt.X("shown:Q", title=said)
    return (
        alt.Chart(rows)
        .mark_bar()
        .encode(
            x=shown,
            y=alt.Y(f"{named}:N", title=None, sort=None),
            yOffset=alt.YOffset("guise:N"),
            color=alt.Color("guise:N", title="Guise"),
            tooltip=tooltip,
            column=alt.Column(f"{panels}:N", title=None),
        )
        .properties(width=230)
    )


def decision_bars(rows: pd.DataFrame, once: list[str], title: str, tooltip: list[str]) -> Any:
    """Rates of detrimental decisions about both guises; one decision for each of ``once``."""
    rows = by_guise(rows, "rate", ["task", "rule", *once], of="n")
    named = rows["task"].map(DECISIONS).fillna(rows["task"])
    places = named + ", " + rows["item"].astype(str) if once else named
    rows = rows.assign(named=named, place=places, calibration="calibrated by " + rows["rule"])
    said = "Share of detrimental decisions"
    shown = ["named", *once, "guise", "rule", "shown", "of", "difference", "ci_low", "ci_high", *tooltip]
    return guise_bars(rows, "place", "calibration", said, True, shown).properties(title=title)


def _correlations(table: pd.DataFrame) -> Any:
    """Pearson's r of every two prompts (2, 8); the overt task beside the covert one."""
    import altair as alt

    rows = table[table["level"].eq("prompt") & table["task"].isin(list(STEREOTYPES))].dropna(subset=["r"])
    if rows.empty:
        return None
    panels = []
    for (task, group), part in rows.groupby(["task", "group"], sort=False):
        base = alt.Chart(part.assign(shown=part["r"].map("{:.2f}".format))).encode(
            x=alt.X("first:N", title="Prompt", sort=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("second:N", title=None, sort=None),
        )
        colour = alt.Color(
            "r:Q", title="Pearson's r", scale=alt.Scale(scheme="blueorange", domain=[-1, 1], reverse=True)
        )
        squares = base.mark_rect().encode(color=colour, tooltip=["first", "second", "r", "p_adjusted_published", "n"])
        strong = alt.condition("abs(datum.r) > 0.65", alt.value("white"), alt.value("#1F2933"))
        named = f"{group}: {STEREOTYPES[str(task)]} stereotypes"
        panels.append(
            (squares + base.mark_text(fontSize=10).encode(text="shown:N", color=strong)).properties(
                width=alt.Step(34), height=alt.Step(26), title=named
            )
        )
    return alt.concat(*panels, columns=2).properties(title="Correlation of the attributes' scores between prompts")


def _ranks(table: pd.DataFrame, tests: pd.DataFrame) -> Any:
    """Favourability against the rank of an adjective, of the model and of people (7)."""
    import altair as alt

    rows = table[table["task"].eq("traits")].dropna(subset=["favorability"])
    if len(rows) < 3:
        return None
    parts = [rows.assign(source=rows["group"].astype(str) + ", model")]
    people = rows.drop_duplicates("attribute").dropna(subset=["human_rank"])
    if len(people):
        parts.append(people.assign(rank=people["human_rank"], source="people"))
    shown = pd.concat(parts)
    base = alt.Chart(shown).encode(
        x=alt.X("rank:Q", title="Rank (1: most associated)", scale=alt.Scale(nice=False)),
        y=alt.Y("favorability:Q", title="Favourability (-2 to 2)", scale=alt.Scale(domain=[-2, 2])),
        color=alt.Color("source:N", title=None, legend=None),
    )
    points = base.mark_point(filled=True).encode(tooltip=["source", "attribute", "rank", "favorability"])
    line = base.transform_regression("rank", "favorability", groupby=["source"]).mark_line()
    of_covert = tests[tests["task"].eq("traits")].dropna(subset=["rho"])
    names = of_covert["group"].where(of_covert["source"].eq("model"), "people " + of_covert["source"].astype(str))
    rhos = of_covert["rho"].groupby(names, sort=False).first()
    said = "; ".join(f"{name}: rho {rho:.2f}" for name, rho in rhos.items())
    return (
        alt.layer(points, line)
        .properties(width=230)
        .facet(column=alt.Column("source:N", title=None, sort=None))
        .properties(
            title={
                "text": "Favourability of ranked adjectives",
                "subtitle": f"Spearman's rank correlation of score and favourability: {said or 'not estimated'}",
            }
        )
    )


def _decisions_by_prompt(table: pd.DataFrame) -> Any:
    """Rates of detrimental decisions about both guises with each prompt (9, 10, 15)."""
    rows = table[table["level"].eq("prompt")]
    if rows.empty:
        return None
    return decision_bars(rows, ["item"], "Detrimental decisions about the speaker, by prompt", ["p"])


def _increase(table: pd.DataFrame) -> Any:
    """Relative increase of detrimental decisions: mean and standard error over text sets and prompts (14)."""
    import altair as alt

    rows = table[table["level"].eq("all")].dropna(subset=["increase_mean"])
    if rows.empty:
        return None
    error = rows["increase_error_published"].fillna(0.0)
    rows = rows.assign(
        named=rows["task"].map(DECISIONS).fillna(rows["task"]), low=rows["increase_mean"] - error,
        high=rows["increase_mean"] + error, calibration="calibrated by " + rows["rule"],
    )  # fmt: skip
    base = alt.Chart(rows).encode(
        y=alt.Y("named:N", title=None), yOffset="group:N", color=alt.Color("group:N", title="Guise")
    )
    tooltip = ["named", "group", "reference", "rule", "increase_mean", "increase_error_published", "increase_cells",
               "increase_undefined"]  # fmt: skip
    percent, said = alt.Axis(format="+%"), "Relative increase"
    drawn = estimates(base, "increase_mean", tooltip, ("low", "high"), title=said, axis=percent)
    return (
        alt.layer(line_at(rows), drawn)
        .properties(width=230)
        .facet(column=alt.Column("calibration:N", title=None))
        .properties(
            title={
                "text": "Relative increase of detrimental decisions",
                "subtitle": "mean over text sets and prompts, with its standard error; cells share texts",
            }
        )
    )


def _density(features: pd.DataFrame, texts: pd.DataFrame, level: float) -> Any:
    """Stereotype strength against the density of features in the marked texts of each set (11)."""
    import altair as alt

    dense = texts.loc[texts["feature"].eq(_TOTAL), ["text_set", "group", "density"]]
    rows = features.merge(dense, on=["text_set", "group"]).dropna(subset=["density", "strength"])
    if rows["text_set"].nunique() < 2 or rows["density"].nunique() < 2:
        return None
    rows["kind"] = rows["control"].map({True: "control", False: "feature"})
    base = alt.Chart(rows).encode(
        x=alt.X("density:Q", title="Features of the dialect per 100 words"),
        color=alt.Color("text_set:N", title="Text set", sort=None),
    )
    drawn = estimates(
        base, "strength", ["text_set", "group", "density", "strength", "ci_low", "ci_high", "n_pairs"],
        horizontal=False, encoding={"shape": alt.Shape("kind:N", title=None)}, title="Stereotype strength (log10)",
    )  # fmt: skip
    title = f"Stereotype strength by density of features ({level:.0%} intervals)"
    return alt.layer(drawn, line_at(rows, vertical=False)).properties(width=_WIDTH, title=title)


def _dialects(table: pd.DataFrame, level: float) -> Any:
    """Stereotype strength of each dialect and of every two against each other (12)."""
    import altair as alt

    if table.empty:
        return None
    rows = table.assign(
        named=table["first"].astype(str) + " - " + table["second"].astype(str),
        stereotypes=table["task"].map(STEREOTYPES).fillna(table["task"]),
    )
    base = alt.Chart(rows).encode(y=alt.Y("named:N", title=None, sort=None))
    tooltip = ["named", "stereotypes", "strength", "ci_low", "ci_high", "p", "p_adjusted"]
    drawn = estimates(base, "strength", tooltip, title="Difference of stereotype strength (log10)")
    return (
        alt.layer(line_at(rows), drawn)
        .properties(width=230)
        .facet(column=alt.Column("stereotypes:N", title=None))
        .properties(title=f"Stereotype strength of dialects, and between them ({level:.0%} intervals)")
    )


def _perplexity(table: pd.DataFrame) -> Any:
    """Mean perplexity of the texts of each set in both guises, with its standard error (13, right)."""
    import altair as alt

    rows = table.dropna(subset=["mean"]).drop_duplicates(["text_set", "guise"])
    if rows.empty:
        return None
    error: pd.Series = rows["sd"] / np.sqrt(
        (rows["n"] - 1).where(rows["n"] > 1).astype(float)
    )  # of one text there is none
    rows = rows.assign(low=rows["mean"] - error, high=rows["mean"] + error)
    base = alt.Chart(rows).encode(y=alt.Y("text_set:N", title=None), yOffset=alt.YOffset("guise:N"))
    bars = base.mark_bar().encode(
        x=alt.X("mean:Q", title="Mean perplexity of a text"), color=alt.Color("guise:N", title="Guise"),
        tooltip=["text_set", "guise", "mean", "sd", "n", "missing", "estimator"],
    )  # fmt: skip
    whiskers = interval(base, ("low", "high"), title="Mean perplexity of a text")
    return (bars + whiskers).properties(
        width=_WIDTH, title={"text": "Perplexity of the texts", "subtitle": "whiskers: standard error over texts"}
    )


def _text_features(table: pd.DataFrame) -> Any:
    """Share of the texts with each feature, in sets that are not matched: in pairs by rule it is 0 or 1 (table 3)."""
    rows = table[table["setting"].eq("unmatched") & table["feature"].ne(_TOTAL)]
    rows = rows[rows["count"].add(rows["count_reference"]).gt(0)]
    if rows.empty:
        return None
    long = by_guise(rows, "share", ["text_set", "feature"])
    tooltip = ["feature", "source", "guise", "shown", "count", "count_reference", "p", "p_published"]
    chart = guise_bars(long, "feature", "text_set", "Share of the texts", True, tooltip)
    return chart.properties(title="Features of dialect in the texts (a description of the texts)")


def _text_topics(table: pd.DataFrame) -> Any:
    """Texts of each topic by guise (1)."""
    rows = table[table["topic"].ne("all")]
    if rows.empty:
        return None
    tests = table[table["topic"].eq("all")].dropna(subset=["chi2"])
    said = "; ".join(
        f"{row['text_set']}: chi-square({int(row['df'])}) {row['chi2']:.1f}" for row in tests.to_dict("records")
    )
    long = by_guise(rows, "count", ["text_set", "topic"])
    tooltip = ["topic", "guise", "shown", "share", "share_reference", "residual"]
    return guise_bars(long, "topic", "text_set", "Texts", False, tooltip).properties(
        title={"text": "Topics of the texts (a description of the texts)", "subtitle": said or "no test"}
    )
