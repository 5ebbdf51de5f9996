"""Charts and sentences of the compare stage."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from markedness.asked import OTHERWISE
from markedness.cards import count
from markedness.charts import estimates, interval, line_at
from markedness.stats.inference import ALPHA


def charts(
    differences: pd.DataFrame, overlap: pd.DataFrame, replication: pd.DataFrame, effects: pd.DataFrame
) -> dict[str, Any]:
    """File stem -> altair chart; what has no rows has no chart."""
    made = {}
    known = differences[differences["difference"].notna()]
    for audit, rows in known.groupby("audit", sort=False):
        made[f"differences_{audit}"] = _differences(rows, str(audit))
    if len(overlap) and overlap["jaccard"].notna().any():
        made["word_overlap"] = _overlap(overlap[overlap["jaccard"].notna()])
    if len(replication) and replication["share"].notna().any():
        made["replication"] = _replication(replication)
    if len(effects):
        made["replicated_effects"] = _effects(effects)
    return made


def gap_charts(
    gaps: pd.DataFrame, controls: Collection[str] = (), marginal: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Label gaps over models: a panel per group, tasks by their mean gap, a point per model; dialect as bars.

    ``controls``: scripted models, which are drawn and are in no mean. ``marginal``: marginal gaps of all models.
    """
    made = {}
    names = gaps[gaps["paradigm"].eq("names") & gaps["gap"].notna()]
    if len(names):
        made["annotation_names"] = _name_gaps(names, controls)
    dialect = gaps[gaps["paradigm"].eq("dialect") & gaps["gap"].notna()]
    if len(dialect):
        made["annotation_dialect"] = _dialect_gaps(dialect)
    if marginal is not None and len(rows := _favorable(marginal)):
        made["annotation_marginal"] = _marginal_gaps(rows)
    return made


def _favorable(marginal: pd.DataFrame) -> pd.DataFrame:
    """Favorable gaps by model: of each group of names, and of all marked names and dialects."""
    rows = marginal[marginal["measure"].eq("favorable_gap") & marginal["by"].isin(["all", "group"])]
    rows = rows[rows["estimate"].notna()]
    panel = rows["paradigm"].astype(str) + ": " + rows["item"].astype(str)
    return rows.assign(panel=panel.str.replace(": all", ", all groups"))


def _marginal_gaps(rows: pd.DataFrame) -> Any:
    import altair as alt

    columns = ["model", "panel", "estimate", "ci_low", "ci_high", "p_adjusted_models", "n"]
    rows = rows[columns]
    base = alt.Chart(rows).encode(y=alt.Y("model:N", title=None))
    layers = alt.layer(line_at(rows), estimates(base, "estimate", columns, title="favorable gap")).properties(width=230)
    facet = layers.facet(alt.Facet("panel:N", title=None, sort=None), columns=2)
    said = "Mean over tasks, unfavorable ones with the opposite sign; below 0 the marked group is judged less favorably"
    return facet.properties(title=alt.TitleParams("Favorable gaps by model", subtitle=said))


def _name_gaps(rows: pd.DataFrame, controls: Collection[str]) -> Any:
    import altair as alt

    panels = []
    rows = rows.assign(control=rows["model"].isin(list(controls)))
    asked = not rows["control"].all()
    shape = alt.Shape(
        "control:N", title=None, scale=alt.Scale(domain=[False, True], range=["circle", "diamond"]),
        legend=alt.Legend(labelExpr="datum.value ? 'control' : 'model'", orient="bottom"),
    )  # fmt: skip
    for group, part in rows.groupby("group", sort=False):
        ordered = part[~part["control"]] if asked else part
        order = ordered.groupby("task")["gap"].mean().sort_values().index.tolist()
        base = alt.Chart(part).encode(y=alt.Y("task:N", sort=order, title=None))
        point = base.mark_point(filled=True, size=50).encode(
            x=alt.X("gap:Q", title="gap in share of yes"), shape=shape,
            color=alt.Color("model:N", title=None, legend=alt.Legend(orient="bottom")),
            tooltip=["model", "task", "gap", "ci_low", "ci_high", "p_adjusted_models"],
        )  # fmt: skip
        mean = base.transform_filter("!datum.control").mark_tick(thickness=3, color="#6E6E6E").encode(x="mean(gap):Q")
        panels.append((line_at(part) + mean + point).properties(title=str(group), width=250))
    said = "Group minus unmarked" + ("; grey: mean over models, controls left out" if asked else "")
    return alt.concat(*panels, columns=2, title=alt.TitleParams("Name gaps by task", subtitle=said))


def _dialect_gaps(rows: pd.DataFrame) -> Any:
    import altair as alt

    base = alt.Chart(rows).encode(y=alt.Y("model:N", title=None), tooltip=["model", "task", "gap", "p_adjusted"])
    bar = base.mark_bar().encode(
        x=alt.X("gap:Q", title="gap in share of yes"), color=alt.Color("model:N", title=None, legend=None)
    )
    facet = (bar + interval(base)).properties(width=230).facet(alt.Facet("task:N", title=None, sort=None), columns=2)
    return facet.properties(title="Dialect gaps by task")


def _differences(rows: pd.DataFrame, audit: str) -> Any:
    """A dot with its interval per score and pair; each score on its own scale, zero marked."""
    import altair as alt

    rows = rows.assign(
        pair=rows["model_a"] + " minus " + rows["model_b"],
        verdict=_differ(rows).map({True: "differs", False: "no difference shown"}),
    )
    otherwise = rows["note"].str.contains(OTHERWISE, regex=False)
    rows.loc[otherwise, "verdict"] += ", asked otherwise"
    tooltip = ["score", "pair", "a", "b", "difference", "ci_low", "ci_high", "p_adjusted", "n_clusters", "note"]
    colors = {
        "differs": "#D55E00", "no difference shown": "#6E6E6E",
        "differs, asked otherwise": "#E69F00", "no difference shown, asked otherwise": "#BBBBBB",
    }  # fmt: skip
    colors = {name: color for name, color in colors.items() if otherwise.any() or "otherwise" not in name}
    shown = alt.Scale(domain=list(colors), range=list(colors.values()))
    base = alt.Chart(rows).encode(
        y=alt.Y("pair:N", title=None, sort=None), color=alt.Color("verdict:N", title=None, scale=shown)
    )
    drawn = estimates(base, "difference", tooltip, title="difference")
    layered = alt.layer(line_at(rows), drawn).properties(width=230)
    facet = layered.facet(alt.Facet("score:N", title=None, sort=None), columns=2, title=f"{audit}: differences")
    return facet.resolve_scale(x="independent")


def _overlap(rows: pd.DataFrame) -> Any:
    import altair as alt

    rows = rows.assign(pair=rows["model_a"] + " and " + rows["model_b"])
    encoded = {
        "x": alt.X("group:N", title=None, axis=alt.Axis(labelAngle=-45)),
        "y": alt.Y("pair:N", title=None, axis=alt.Axis(labelLimit=300)),
        "color": alt.Color("jaccard:Q", title="shared / in either", scale=alt.Scale(domain=[0, 1])),
        "tooltip": ["kind", "group", "pair", "n_a", "n_b", "n_shared", "jaccard", "shared"],
    }
    chart = alt.Chart(rows, title="Marked words that two models share").mark_rect().encode(**encoded)
    return chart.facet(row=alt.Row("kind:N", title=None)) if rows["kind"].nunique() > 1 else chart


def _replication(rows: pd.DataFrame) -> Any:
    import altair as alt

    rows = rows.assign(pair=rows["model_a"] + " in " + rows["model_b"])
    drawn = estimates(
        alt.Chart(rows).encode(y=alt.Y("pair:N", title=None)), "share",
        ["pair", "n", "hits", "share", "expected", "p", "same_sign"], ("share_ci_low", "share_ci_high"),
        title="share of effects (dashed: expected)",
    )  # fmt: skip
    layers = alt.layer(line_at(rows, float(rows["expected"].iloc[0])), drawn)
    return layers.properties(title="Effects of one model that replicate in another")


def _effects(rows: pd.DataFrame) -> Any:
    """Cohen's d of each effect in two models against each other; of many pairs the first six."""
    import altair as alt

    rows = rows.assign(
        pair=rows["model_a"] + " (across) and " + rows["model_b"] + " (up)",
        outcome=rows["hit"].map({True: "replicates", False: "does not"}),
    )
    rows = rows[rows["pair"].isin(rows["pair"].unique()[:6])]
    shown = alt.Scale(domain=["replicates", "does not"], range=["#0072B2", "#D55E00"])
    base = alt.Chart(rows)
    line = base.mark_line(strokeDash=[3, 3], color="#8C959C").encode(x="d_first:Q", y="d_first:Q")
    point = base.mark_point(filled=True, size=50).encode(
        x=alt.X("d_first:Q", title="Cohen's d in the first"),
        y=alt.Y("d_second:Q", title="Cohen's d in the second"),
        color=alt.Color("outcome:N", title="first in second", scale=shown),
        shape=alt.Shape("comparison:N", title="comparison"),
        tooltip=["comparison", "cue", "d_first", "d_second", "hit"],
    )
    layered = (line + point).properties(width=240, height=240)
    facet = layered.facet(alt.Facet("pair:N", title=None, sort=None), columns=2)
    return facet.properties(title="Effects of two models against each other (dashed: equal)")


def sentences(differences: pd.DataFrame, limit: int = 20) -> list[str]:
    """What differs, in words; what could not be compared, and why; at most so many, the last counts the others."""
    found = []
    for audit, rows in differences.groupby("audit", sort=False):
        for correction, tested in rows[rows["p_adjusted"].notna()].groupby("correction", sort=False):
            ways = zip(tested["method"], tested["n_clusters"].astype(int).tolist(), strict=True)
            how = ", ".join(sorted({f"{method}, {count(n, 'cluster')}" for method, n in ways}))
            found.append(
                f"{audit}: {int(_differ(tested).sum())} of {len(tested)} differences of headline scores are "
                f"significant after {correction} ({how})."
            )
        for note, noted in rows[rows["note"].ne("")].groupby("note", sort=False):
            untested = noted["p_adjusted"].isna().all()
            some = sorted({*noted["score"]} - {""}) if noted["score"].nunique() < rows["score"].nunique() else []
            what = " are not compared" if untested else ""
            what += f" in {', '.join(some[:4])}{', ...' if len(some) > 4 else ''}" if some else ""
            found.append(f"{audit}: {_pairs(noted)}{what}: {str(note).rstrip('.')}.")
    more = len(found) - limit + 1
    return [*found[: limit - 1], f"{more} further sentences: see the notes of differences.csv."] if more > 1 else found


def _differ(rows: pd.DataFrame) -> pd.Series:
    return rows["p_adjusted"].le(ALPHA)


def _pairs(rows: pd.DataFrame, most: int = 4) -> str:
    """The pairs of models of these rows; beyond so many the number of the others."""
    pairs = sorted({f"{row.model_a} and {row.model_b}" for row in rows.itertuples()})
    more = f", and {count(len(pairs) - most, 'further pair')}" if len(pairs) > most else ""
    return ", ".join(pairs[:most]) + more
