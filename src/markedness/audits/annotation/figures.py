"""The charts of the annotation audit, from its tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from markedness.charts import estimates, interval, line_at

MAX_TASKS = 60
"""Tasks drawn per group, those with the largest gaps first."""


MARGINS = (
    ("group", "favorable_gap", "by group: favorable gap"), ("domain", "favorable_gap", "by domain: favorable gap"),
    ("task", "gap", "by task: gap"),
)  # fmt: skip
"""Margin, measure and title of each panel."""


def figures(
    gaps: pd.DataFrame, dialect_gaps: pd.DataFrame, marginal: pd.DataFrame, missing: pd.DataFrame,
    confidence_level: float,
) -> dict[str, Any]:  # fmt: skip
    """File stem -> chart; a table without rows has none."""
    made = {}
    if gaps["gap"].notna().any():
        made["gaps"] = _name_gaps(gaps, confidence_level)
    if dialect_gaps["gap"].notna().any():
        made["dialect_gaps"] = _dialect_bars(dialect_gaps, confidence_level)
    if (chart := _marginal(marginal, confidence_level)) is not None:
        made["marginal_gaps"] = chart
    if missing["rate"].gt(0).any():
        made["missing"] = _missing_bars(missing)
    return made


def _name_gaps(gaps: pd.DataFrame, confidence_level: float) -> Any:
    import altair as alt

    panels = []
    bound = float(gaps[["ci_low", "ci_high", "gap"]].abs().max().max()) * 1.05 or 1.0
    scale = alt.Scale(domain=[-bound, bound])
    for group, table in gaps.dropna(subset=["gap"]).groupby("group", sort=False):
        table = table.reindex(table["gap"].abs().sort_values(ascending=False).index)[:MAX_TASKS].sort_values("gap")
        columns = ["task", "gap", "ci_low", "ci_high", "p_adjusted", "n_pairs"]
        data = table[columns].assign(
            task=table["task"].astype(str).str.replace("_", " "),
            significant=np.where(table["significant"], "yes", "no"),
        )
        base = alt.Chart(data).encode(y=alt.Y("task:N", sort=list(data["task"])[::-1], title=None))
        said = "gap (difference of yes-rates)"
        drawn = estimates(base, "gap", columns, encoding={"color": _significant()}, scale=scale, title=said)
        panels.append(alt.layer(line_at(data), drawn).properties(title=str(group), width=240))
    reference = ", ".join(gaps["reference"].astype(str).unique())
    return alt.concat(*panels, columns=2).properties(
        title=alt.TitleParams(
            "What a name changes in the labels",
            subtitle=f"Yes-rate with the group's names minus {reference} names, same text; {confidence_level:.0%} "
            "intervals",
        )
    )


def _dialect_bars(dialect_gaps: pd.DataFrame, confidence_level: float) -> Any:
    import altair as alt

    data = dialect_gaps[
        ["task", "group", "reference", "gap", "paired_gap", "ci_low", "ci_high", "p_adjusted", "n_texts"]
    ]
    data = data.assign(task=data["task"].astype(str).str.replace("_", " ")).sort_values("gap")
    order = list(dict.fromkeys(data["task"]))
    base = alt.Chart(data).encode(y=alt.Y("task:N", sort=order, title=None))
    bar = base.mark_bar().encode(
        x=alt.X("gap:Q", title="gap (difference of yes-rates)"),
        tooltip=["task", "gap", "ci_low", "ci_high", "p_adjusted", "n_texts"],
    )
    if data["group"].nunique() > 1:
        bar = bar.encode(color=alt.Color("group:N", title="dialect"), yOffset="group:N")
    marked, unmarked = (", ".join(data[name].astype(str).unique()) for name in ("group", "reference"))
    return alt.layer(bar, interval(base)).properties(
        title=alt.TitleParams(
            "What a dialect changes in the labels",
            subtitle=f"Yes-rate of {marked} texts minus {unmarked} texts of the same content; {confidence_level:.0%} "
            "intervals",
        )
    )


def _marginal(marginal: pd.DataFrame, confidence_level: float) -> Any:
    """Means over cells with their intervals, a panel per paradigm and margin of `MARGINS`; None where there is none."""
    import altair as alt

    panels = []
    for paradigm, table in marginal.groupby("paradigm", sort=False):
        shown = table[table["measure"].ne("margin_gap") & table["by"].isin([by for by, *_ in MARGINS])]
        bound = 1.05 * float(shown[["ci_low", "ci_high", "estimate"]].abs().max().max()) or 1.0
        for by, measure, title in MARGINS:
            rows = shown[shown["by"].eq(by) & shown["measure"].eq(measure) & shown["estimate"].notna()]
            if len(rows):
                drawn = _marginal_panel(rows, alt.Scale(domain=[-bound, bound]), confidence_level)
                panels.append(drawn.properties(title=f"{str(paradigm).capitalize()}, {title}", width=260))
    if not panels:
        return None
    said = [
        f"Means over cells, every group and task alike, with {confidence_level:.0%} intervals. Favorable gap:",
        "unfavorable tasks count with the opposite sign; below 0 the marked group is judged less favorably",
    ]
    return alt.concat(*panels, columns=2).properties(title=alt.TitleParams("Marginal gaps", subtitle=said))


def _marginal_panel(rows: pd.DataFrame, scale: Any, confidence_level: float) -> Any:
    """Items of one margin, the largest estimate first."""
    import altair as alt

    rows = rows.reindex(rows["estimate"].abs().sort_values(ascending=False).index)[:MAX_TASKS]
    rows = rows.sort_values("estimate", ascending=False)
    data = rows[["item", "estimate", "ci_low", "ci_high", "p_adjusted", "n", "cells"]].assign(
        item=rows["item"].str.replace("_", " "),
        significant=np.where(rows["p_adjusted"] < 1 - confidence_level, "yes", "no"),
    )
    base = alt.Chart(data).encode(y=alt.Y("item:N", sort=list(data["item"]), title=None))
    drawn = estimates(
        base, "estimate", ["item", "estimate", "ci_low", "ci_high", "p_adjusted", "n"],
        encoding={"color": _significant()}, title="difference of yes-rates", scale=scale,
    )  # fmt: skip
    return alt.layer(line_at(data), drawn)


def _significant() -> Any:
    import altair as alt

    scale = alt.Scale(domain=["yes", "no"], range=["#D55E00", "#6E6E6E"])
    return alt.Color("significant:N", title="significant", scale=scale)


def _missing_bars(missing: pd.DataFrame) -> Any:
    import altair as alt

    data = missing[missing["task"] == "all tasks"][["paradigm", "group", "rate", "missing", "n"]]
    bar = (
        alt.Chart(data.assign(rate=data["rate"] * 100))
        .mark_bar()
        .encode(
            y=alt.Y("group:N", title=None, sort=None),
            x=alt.X("rate:Q", title="missing judgments (%)", scale=alt.Scale(domainMin=0)),
            tooltip=["group", "rate", "missing", "n"],
        )
    )
    return (
        bar.facet(row=alt.Row("paradigm:N", title=None))
        .resolve_scale(y="independent")
        .properties(
            title=alt.TitleParams("Judgments without an answer", subtitle="by the group of the text, over all tasks")
        )
    )
