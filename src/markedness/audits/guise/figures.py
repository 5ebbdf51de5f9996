"""The charts of the matched guise audit, from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from markedness.audits.guise.estimators.supplement_figures import decision_bars, supplement_charts
from markedness.charts import estimates, interval, line_at

if TYPE_CHECKING:
    from altair import TopLevelMixin

SHOWN = 8
"""Attributes at each end of the ranking."""


def charts(tables: Mapping[str, pd.DataFrame], confidence_level: float) -> dict[str, TopLevelMixin]:
    """One chart per table that has something to show."""
    made = {
        "associations": _associations(tables["stereotypes"], confidence_level),
        "agreement": _agreement(tables["agreement"], confidence_level),
        "favorability": _favorability(tables["favorability"]),
        "prestige": _prestige(tables["employability"], tables["employability_tests"]),
        "decisions": _decisions(tables["decisions"]),
        "features": _features(tables["features"], confidence_level),
        **supplement_charts(tables, confidence_level),
    }
    return {name: chart for name, chart in made.items() if chart is not None}


def _associations(table: pd.DataFrame, level: float) -> Any:
    """The attributes at both ends, with intervals."""
    import altair as alt

    rows = table[table["task"].isin(["traits", "overt"])]
    if rows.empty:
        return None
    last = rows.groupby(["task", "group"])["rank"].transform("max")
    rows = rows[rows["rank"].le(SHOWN) | rows["rank"].gt(last - SHOWN)]
    colour = alt.Color("favorability:Q", title="Favourability", scale=alt.Scale(scheme="redblue", domain=[-2, 2]))
    panels = []
    for (task, group), part in rows.groupby(["task", "group"], sort=False):
        base = alt.Chart(part).encode(y=alt.Y("attribute:N", sort=part["attribute"].tolist(), title=None))
        tooltip = ["attribute", "rank", "log_ratio", "ci_low", "ci_high", "shown", "favorability"]
        drawn = estimates(base, "log_ratio", tooltip, encoding={"color": colour}, title="Association (log10 ratio)")
        named = f"{group}: {'texts in the guise' if task == 'traits' else 'the group named'}"
        panels.append(alt.layer(line_at(part), drawn).properties(width=210, title=named))
    return alt.hconcat(*panels).properties(
        title=f"Attributes most and least associated with the guise ({level:.0%} intervals)"
    )


def _agreement(table: pd.DataFrame, level: float) -> Any:
    """Agreement by year of the human study, with the chance level."""
    import altair as alt

    rows = table[table["setting"].eq("all")]
    if rows.empty:
        return None
    rows = rows.assign(named=rows["task"].map({"traits": "covert", "overt": "overt"}).fillna(rows["task"]))
    x = alt.X("year:O", title="Year of the human study")
    base = alt.Chart(rows).encode(x=x, xOffset=alt.XOffset("named:N"), color=alt.Color("named:N", title="Stereotypes"))
    chart = base.mark_point(filled=True).encode(
        y=alt.Y("agreement:Q", title="Agreement (mean average precision)", scale=alt.Scale(domainMin=0)),
        tooltip=["named", "year", "agreement", "ci_low", "ci_high", "chance", "p_adjusted", "human"],
    )
    chart += interval(base, horizontal=False)
    chart += alt.Chart(rows).mark_rule(strokeDash=[3, 3]).encode(y="mean(chance):Q")
    return chart.properties(
        width=320,
        title={"text": f"Agreement with human stereotypes ({level:.0%} intervals)", "subtitle": "dashed: chance"},
    )


def _favorability(table: pd.DataFrame) -> Any:
    """Favourability of the top attributes of people and of the model."""
    import altair as alt

    rows = table.melt(["task", "source", "attributes"], ["weighted", "unweighted"], "mean", "favorability")
    rows = rows.dropna(subset=["favorability"])
    if rows.empty:
        return None
    covert = rows["task"].map({"traits": "covert, model", "overt": "overt, model"}).fillna(rows["task"])
    rows["named"] = covert.where(rows["source"].eq("model"), "people")
    rows = rows.drop_duplicates(["source", "named", "mean"])
    return (
        alt.Chart(rows)
        .mark_point(filled=True)
        .encode(
            x=alt.X("favorability:Q", title="Favourability of the top attributes", scale=alt.Scale(domain=[-2, 2])),
            y=alt.Y("source:N", title=None),
            color=alt.Color("named:N", title="Stereotypes"),
            shape=alt.Shape("mean:N", title="Mean"),
            tooltip=["source", "named", "mean", "favorability", "attributes"],
        )
        .properties(width=320, title="Favourability of the stereotypes of people, by year, and of the model")
    )


def _prestige(occupations: pd.DataFrame, tests: pd.DataFrame) -> Any:
    """Prestige against association, with the least squares line."""
    import altair as alt

    rows = occupations.dropna(subset=["prestige", "log_ratio"])
    if len(rows) < 3:
        return None
    line = tests[tests["level"].eq("all")].dropna(subset=["slope"])
    points = alt.Chart(rows).mark_point().encode(
        x=alt.X("log_ratio:Q", title="Association with the guise (log10 ratio)"),
        y=alt.Y("prestige:Q", title="Prestige (1 to 9)", scale=alt.Scale(zero=False)),
        tooltip=["occupation", "log_ratio", "ci_low", "ci_high", "shown", "prestige", "group"],
    )  # fmt: skip
    if line.empty:
        return points.properties(title="Prestige of occupations and their association with the guise")
    ends = pd.DataFrame(
        [
            {"log_ratio": x, "prestige": row["intercept"] + row["slope"] * x, "group": row["group"]}
            for row in line.to_dict("records")
            for x in (rows["log_ratio"].min(), rows["log_ratio"].max())
        ]
    )
    fit = alt.Chart(ends).mark_line().encode(x="log_ratio:Q", y="prestige:Q", detail="group:N")
    first = line.iloc[0]
    return (points + fit).properties(
        title={
            "text": "Prestige of occupations and their association with the guise",
            "subtitle": f"slope {first['slope']:.1f}, R2 {first['r_squared']:.3f}, n {int(first['n_prestige'])}",
        }
    )


def _decisions(table: pd.DataFrame) -> Any:
    """Rates of detrimental decisions about both guises."""
    rows = table[table["level"].eq("all")]
    if rows.empty:
        return None
    return decision_bars(rows, [], "Detrimental decisions about the speaker", ["p_adjusted"])


def _features(table: pd.DataFrame, level: float) -> Any:
    """Stereotype strength of each set of texts."""
    import altair as alt

    if table.empty:
        return None
    rows = table.assign(kind=table["control"].map({True: "control", False: "feature"}))
    y = alt.Y("text_set:N", sort="-x", title=None)
    base = alt.Chart(rows).encode(y=y, color=alt.Color("kind:N", title=None))
    tooltip = ["text_set", "group", "strength", "ci_low", "ci_high", "p_adjusted", "n_prompts", "n_pairs"]
    drawn = estimates(base, "strength", tooltip, title="Stereotype strength (log10)")
    chart = alt.layer(drawn, line_at(rows))
    return chart.properties(width=320, title=f"Stereotype strength by feature ({level:.0%} intervals)")
