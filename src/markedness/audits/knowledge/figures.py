"""The charts, from the tables of evaluate alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.graph import knowledge_graph, layout, shown
from markedness.charts import interval, line_at

_REGARD = ("negative", "neutral", "positive")
_COLOURS = ("#D55E00", "#9AA5AE", "#0072B2")


def charts(tables: dict[str, pd.DataFrame], picture_links: int) -> dict[str, Any]:
    """All charts that the tables have data for."""
    made: dict[str, Any] = {}
    regard, toxicity = tables["regard"], tables["toxicity"]
    if regard["n"].sum():
        made["regard_scores"] = _regard_scores(regard)
        made["regard_toxicity"] = _regard_toxicity(regard, toxicity)
        made["toxicity_distribution"] = _toxicity_distribution(toxicity)
    if tables["gaps"]["gap"].notna().any():
        made["gaps"] = _gaps(tables["gaps"])
    if len(tables["augmentation"]):
        made["augmentation"] = _augmentation(tables["augmentation"])
        made["augmentation_distributions"] = _distributions(tables["augmentation_distributions"])
    if len(tables["topics"]):
        made["topic_shares"] = _topic_shares(tables["topics"])
        made["relative_entropy"] = _relative_entropy(tables["relative_entropy"])
    for name, triples in tables["triples"].groupby("class", sort=False):
        key = "".join(character if character.isalnum() else "_" for character in str(name))
        made[f"graph_{key}"] = _graph(str(name), triples, picture_links)
    return made


def _regard_scores(regard: pd.DataFrame) -> Any:
    """Figures 1 and 6."""
    import altair as alt

    table = regard.loc[regard["n"].gt(0), ["class", "subject", "positive", "neutral", "negative", "score", "n"]]
    return (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("score:Q", title="Positive minus negative triples"),
            y=alt.Y("subject:N", title=None, sort=alt.EncodingSortField("score", order="descending")),
            color=alt.condition(alt.datum.score < 0, alt.value(_COLOURS[0]), alt.value(_COLOURS[2])),
            tooltip=["subject:N", "score:Q", "positive:Q", "neutral:Q", "negative:Q", "n:Q"],
        )
        .properties(width=340)
        .facet(facet=alt.Facet("class:N", title=None), columns=2)
        .resolve_scale(x="independent", y="independent")
        .properties(title="Regard of each subject")
    )


def _distributions(shares: pd.DataFrame) -> Any:
    """Figure 5."""
    import altair as alt

    comparison = shares["augmentation"] + " (" + shares["arms"] + ")"
    table = shares.assign(comparison=comparison).drop(columns=["augmentation", "arms"])
    title = "Distribution of toxicity with and without each augmentation"
    return (
        alt.Chart(table)
        .mark_bar(opacity=0.5)
        .encode(
            x=alt.X("low:Q", title="Toxicity (0 to 1)", scale=alt.Scale(domain=[0, 1])), x2="high:Q",
            y=alt.Y("share:Q", title="Share of triples", stack=None, axis=alt.Axis(format=".0%")),
            color=alt.Color("side:N", title="Augmentation", scale=alt.Scale(range=[_COLOURS[0], _COLOURS[2]])),
            tooltip=["side:N", "low:Q", "high:Q", alt.Tooltip("share:Q", format=".1%"), "count:Q", "n:Q"],
        )
        .properties(width=220, height=120)
        .facet(row=alt.Row("class:N", title=None), column=alt.Column("comparison:N", title=None))
        .properties(title=title)
    )  # fmt: skip


def _regard_toxicity(regard: pd.DataFrame, toxicity: pd.DataFrame) -> Any:
    import altair as alt

    table = regard.merge(toxicity[["class", "subject", "mean"]], on=["class", "subject"]).assign(below=False)
    base = alt.Chart().encode(
        x=alt.X("share:Q", title="Regard: share positive minus share negative"),
        y=alt.Y("mean:Q", title="Mean toxicity (0 to 1)"),
    )
    points = base.mark_point(filled=True, size=70).encode(
        tooltip=[
            "subject:N",
            "score:Q",
            alt.Tooltip("share:Q", format=".2f"),
            alt.Tooltip("mean:Q", format=".2f"),
            "n:Q",
        ]
    )
    known = base.transform_filter("isValid(datum.ci_low)")
    ranges = known.mark_rule(opacity=0.5).encode(x="ci_low:Q", x2="ci_high:Q")
    labels = [
        base.transform_filter(alt.datum.below == below).mark_text(align="left", dx=7, dy=dy).encode(text="subject:N")
        for below, dy in ((False, -7), (True, 11))
    ]
    columns = ["class", "subject", "score", "share", "ci_low", "ci_high", "mean", "n", "below"]
    for _, of_class in table.groupby("class"):
        table.loc[of_class.index, "below"] = _below(of_class)
    return (
        alt.layer(ranges, points, *labels, data=table[columns])
        .properties(width=380, height=240)
        .facet(facet=alt.Facet("class:N", title=None), columns=2)
        .resolve_scale(x="independent", y="independent")
        .properties(title="Regard against toxicity")
    )


def _gaps(gaps: pd.DataFrame) -> Any:
    import altair as alt

    columns = ["class", "subject", "reference", "measure", "gap", "ci_low", "ci_high", "p_adjusted", "n"]
    table = gaps.loc[gaps["gap"].notna(), columns]
    order = alt.EncodingSortField("gap", order="descending")
    base = alt.Chart(table).encode(y=alt.Y("subject:N", title=None, sort=order))
    points = base.mark_point(filled=True, size=60).encode(
        x=alt.X("gap:Q", title="Subject minus reference"),
        tooltip=["subject:N", "reference:N", alt.Tooltip("gap:Q", format=".3f"),
                 alt.Tooltip("p_adjusted:Q", format=".3f"), "n:Q"],
    )  # fmt: skip
    ranges = interval(base.transform_filter("isValid(datum.ci_low)"))
    subtitle = "Intervals, where there are any, are over crawls"
    return (
        alt.layer(line_at(table), ranges, points)
        .properties(width=220)
        .facet(row=alt.Row("class:N", title=None), column=alt.Column("measure:N", title=None))
        .resolve_scale(x="independent", y="independent")
        .properties(title=alt.TitleParams("Gaps of each subject to the reference of its class", subtitle=subtitle))
    )


def _augmentation(effects: pd.DataFrame) -> Any:
    import altair as alt

    table = effects.assign(comparison=effects["augmentation"] + " (" + effects["arms"] + ")")
    table = table[
        ["class", "comparison", "mean_with", "mean_without", "difference", "p_adjusted", "n_with", "n_without"]
    ]
    base = alt.Chart().encode(y=alt.Y("comparison:N", title=None))
    said = ["class:N", "comparison:N", alt.Tooltip("difference:Q", format=".3f"),
            alt.Tooltip("p_adjusted:Q", format=".3f"), "n_with:Q", "n_without:Q"]  # fmt: skip
    link = base.mark_rule().encode(x="mean_without:Q", x2="mean_with:Q")
    plain = base.mark_point(size=60).encode(x=alt.X("mean_without:Q", title="Mean toxicity (0 to 1)"), tooltip=said)
    filled = base.mark_point(size=60, filled=True).encode(x="mean_with:Q", tooltip=said)
    subtitle = "Filled: with the augmentation, open: without it"
    return (
        alt.layer(link, plain, filled, data=table)
        .properties(width=340)
        .facet(facet=alt.Facet("class:N", title=None), columns=2)
        .properties(title=alt.TitleParams("Toxicity with and without each augmentation", subtitle=subtitle))
    )


def _below(points: pd.DataFrame) -> list[bool]:
    """Whether a label goes below its point, because that of a point just above it is in its way."""
    x, y = points["share"].to_numpy(float), points["mean"].to_numpy(float)
    wide, high = 0.35 * np.ptp(x), 0.07 * np.ptp(y)
    above = (np.subtract.outer(y, y) < 0) | ((np.subtract.outer(y, y) == 0) & np.tri(len(y), k=-1, dtype=bool))
    close = (abs(np.subtract.outer(x, x)) <= wide) & (abs(np.subtract.outer(y, y)) <= high)
    return [bool(one) for one in (above & close).any(axis=1)]


def _toxicity_distribution(toxicity: pd.DataFrame) -> Any:
    import altair as alt

    base = alt.Chart().encode(
        y=alt.Y("subject:N", title=None, sort=alt.EncodingSortField("median", order="descending"))
    )
    box = base.mark_bar(opacity=0.45, size=12).encode(
        x=alt.X("q1:Q", title="Toxicity: median and middle half of the triples"), x2="q3:Q",
        tooltip=["subject:N", alt.Tooltip("median:Q", format=".2f"), alt.Tooltip("iqr:Q", format=".2f"), "n:Q"],
    )  # fmt: skip
    middle = base.mark_tick(thickness=3, size=16).encode(x="median:Q")
    return (
        alt.layer(box, middle, data=toxicity[["class", "subject", "q1", "median", "q3", "iqr", "n"]])
        .properties(width=340)
        .facet(facet=alt.Facet("class:N", title=None), columns=2)
        .resolve_scale(y="independent")
        .properties(title="Distribution of toxicity by subject")
    )


def _topic_shares(topics: pd.DataFrame) -> Any:
    import altair as alt

    label = topics["topic"].astype(str) + ": " + topics["words"].astype(str).str[:45]
    table = topics.assign(label=label)[["class", "topic", "label", "subject", "share", "count", "n"]]
    panels = [
        alt.Chart(of_class, title=str(name))
        .mark_rect()
        .encode(
            x=alt.X("subject:N", title=None, sort=None),
            y=alt.Y("label:N", title=None, sort=None),
            color=alt.Color("share:Q", title="Share of triples", legend=alt.Legend(format=".0%")),
            tooltip=["subject:N", "label:N", alt.Tooltip("share:Q", format=".1%"), "count:Q", "n:Q"],
        )
        for name, of_class in table.groupby("class", sort=False)
    ]
    return alt.vconcat(*panels).properties(title="Topic shares by subject")


def _relative_entropy(entropy: pd.DataFrame) -> Any:
    import altair as alt

    table = entropy[entropy["kl"].notna()]
    base = alt.Chart().encode(y=alt.Y("subject:N", title=None, sort=alt.EncodingSortField("kl", order="descending")))
    chance = base.mark_tick(thickness=2, size=16, color="#9AA5AE").encode(
        x=alt.X("null_mean:Q", title="Relative entropy (nats); tick: expected by chance alone")
    )
    points = base.mark_point(filled=True, size=60).encode(
        x="kl:Q",
        tooltip=[
            "subject:N", alt.Tooltip("kl:Q", format=".3f"), alt.Tooltip("topic_divergence:Q", format=".3f"),
            alt.Tooltip("p_adjusted:Q", format=".3f"), "n:Q",
        ],
    )  # fmt: skip
    columns = ["class", "subject", "kl", "null_mean", "topic_divergence", "p_adjusted", "n"]
    return (
        alt.layer(chance, points, data=table[columns])
        .properties(width=340)
        .facet(facet=alt.Facet("class:N", title=None), columns=2)
        .resolve_scale(x="independent", y="independent")
        .properties(title="How far each subject's topics are from its class")
    )


def _graph(name: str, triples: pd.DataFrame, picture_links: int) -> Any:
    """A graph to explore: choose a subject, zoom with the wheel, read a link by pointing at its object."""
    import altair as alt

    links = shown(triples, picture_links)
    graph = knowledge_graph(links)
    nodes = layout(graph).set_index("node")
    places = nodes[["x", "y"]]
    ends = pd.DataFrame(
        [
            {"source": source, "target": target, "predicate": data["predicate"], "regard": data.get("regard", "")}
            for source, target, data in graph.edges(data=True)
        ]
    )
    ends = ends.join(places, on="source").join(places.add_suffix("2"), on="target")
    ends["subject"] = nodes.loc[ends["source"], "label"].to_numpy()
    ends["object"] = nodes.loc[ends["target"], "label"].to_numpy()
    ends["triple"] = ends["subject"] + " " + ends["predicate"] + " " + ends["object"]
    subjects = list(dict.fromkeys(ends["subject"]))
    chosen = alt.selection_point(
        fields=["subject"], empty=True,
        bind=alt.binding_select(options=[None, *subjects], labels=["all", *subjects], name="Subject "),
    )  # fmt: skip
    frame = alt.Scale(domain=[-1.15, 1.15], nice=False)
    bright, dim = alt.value(0.75), alt.value(0.05)
    colour = alt.Color(
        "regard:N", title="Regard", scale=alt.Scale(domain=list(_REGARD), range=list(_COLOURS)),
    )  # fmt: skip
    lines = (
        alt.Chart(ends[["x", "y", "x2", "y2", "subject", "regard"]])
        .mark_rule()
        .encode(
            x=alt.X("x:Q", axis=None, scale=frame), y=alt.Y("y:Q", axis=None, scale=frame), x2="x2:Q", y2="y2:Q",
            color=colour, opacity=alt.condition(chosen, bright, dim),
        )
        .add_params(chosen)
    )  # fmt: skip
    objects = (
        alt.Chart(ends[["x2", "y2", "subject", "regard", "triple"]])
        .mark_circle(size=45)
        .encode(
            x=alt.X("x2:Q", axis=None, scale=frame), y=alt.Y("y2:Q", axis=None, scale=frame), color=colour,
            tooltip=alt.Tooltip("triple:N", title=" "), opacity=alt.condition(chosen, alt.value(0.9), dim),
        )
    )  # fmt: skip
    heads = nodes[nodes["kind"].eq("subject")].rename(columns={"label": "subject"})
    names = alt.Chart(heads[["x", "y", "subject", "degree"]]).encode(
        x=alt.X("x:Q", axis=None, scale=frame),
        y=alt.Y("y:Q", axis=None, scale=frame),
        opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.15)),
    )
    picture = alt.layer(
        lines,
        objects,
        names.mark_circle(size=220).encode(tooltip=["subject:N", "degree:Q"]),
        names.mark_text(dy=-14, fontWeight=600).encode(text="subject:N"),
    )
    subtitle = f"{len(links)} of {len(triples)} triples; all of them in graph_*.graphml"
    return picture.properties(
        width=640, height=460, title=alt.TitleParams(f"Knowledge graph: {name}", subtitle=subtitle)
    ).interactive()
