"""Probability of differentiation by group and cue, differences between groups, and their tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from markedness.audits.homogeneity import figures
from markedness.audits.homogeneity.estimators.differentiation import CategoryCounts
from markedness.audits.homogeneity.estimators.group_differences import PairCounts
from markedness.audits.homogeneity.estimators.groups import Bootstrap, groups
from markedness.audits.homogeneity.estimators.noncompliance import (
    noncompliance,
    published_noncompliance_by_cue,
)
from markedness.audits.homogeneity.estimators.params import Params
from markedness.audits.homogeneity.estimators.published import (
    published_closing_rows,
    published_differentiation,
    published_effects,
    published_meta_analysis,
)
from markedness.audits.homogeneity.estimators.scores import (
    ceiling_scores,
    difference_table,
    other_scores,
    pairs,
    scores,
)
from markedness.audits.homogeneity.estimators.variance import across as variance_across
from markedness.audits.homogeneity.estimators.variance import variance_components
from markedness.axes import Axes, as_written
from markedness.cards import are
from markedness.records import FeatureTables, Status
from markedness.results import Evaluation
from markedness.stats.similarity import similarity_effects, similarity_simple_effects, within_group_similarity
from markedness.stats.similarity_cells import similarity_cells

FEW_NAMES = 10
"""With fewer clusters the published percentile interval is too short, and a note says so."""

__all__ = ["Params", "across", "evaluate"]


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """P_d with a cluster bootstrap, effects, meta-analysis, a permutation null, noncompliance, similarity.

    Parameters
    ----------
    features
        ``answers``: counts of categories by cue and cluster, and embedded texts; see featurize.
    params
        Axes, replicates, permutations, confidence level.
    rng
        Seeded generator.

    Returns
    -------
    Evaluation
        Differences are unmarked minus marked; positive: the marked group has less variety. NaN where a group
        has fewer than two clusters or its replicates do not vary.
    """
    answers = features["answers"]
    axes = {axis: words for axis, words in params.axes.items() if axis in answers}
    level = params.confidence_level
    kept = answers[answers["kept"].astype(bool)]
    made = scores(features, params, rng)
    tables = {
        "noncompliance": noncompliance(answers, axes, level, rng),
        "noncompliance_by_cue": published_noncompliance_by_cue(answers),
    }
    if (found := pairs(features, axes)) is not None:
        tables |= _expressions(kept[kept["kind"].eq("expression")], found[0], axes, params, rng)
        tables["differences"] = difference_table(made, axes, len(found[0].cues))
        made += ceiling_scores(*found, rng)
        tables["variance"] = variance_components({"": found}, rng)
    texts = kept[kept["kind"].eq("text")]
    if len(texts):
        tables |= _similarity(texts, axes, params)
    tables = {name: table for name, table in tables.items() if len(table)}
    return Evaluation(
        scores=[*made, *other_scores(tables, axes)],
        tables=tables,
        figures=figures.figures(tables, params.confidence_level),
        notes=[*_answer_notes(answers), *_table_notes(tables)],
    )


def across(features: Mapping[str, FeatureTables], versions: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """``homogeneity_variance``: how much the differences of one model family vary with the wording; {} without one."""
    found = {model: study for model, tables in features.items() if (study := pairs(tables, params.axes)) is not None}
    table = variance_across(found, versions, np.random.default_rng(0))
    return {"homogeneity_variance": table} if len(table) else {}


def _expressions(
    rows: pd.DataFrame, counts: PairCounts, axes: Axes, params: Params, rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """The published tables of short answers."""
    cells = CategoryCounts(*(rows[column] for column in ("cue", "cluster", "category", "count")))
    names = rows.drop_duplicates("cluster").set_index("cluster")
    bootstrap: Bootstrap = {
        group: {drawn.cue: drawn for drawn in cells.replicates(own, params.n_resamples, rng)}
        for group, own in groups(names.reindex(cells.clusters), axes).items()
    }
    members = groups(names.reindex(counts.names), axes)
    level = params.confidence_level
    effects = published_effects(bootstrap, axes, level, counts, members)
    differentiation = published_differentiation(bootstrap, level)
    return {
        "probability_of_differentiation": differentiation,
        "closing_rows": published_closing_rows(differentiation),
        "effects": effects,
        "meta_analysis": published_meta_analysis(effects, level),
    }


def _similarity(texts: pd.DataFrame, axes: Axes, params: Params) -> dict[str, pd.DataFrame]:
    """Similarity of texts within the groups of each axis and within crossed groups; effects from the latter."""
    vectors, prompts, names = (
        np.stack(texts["embedding"].tolist()),
        texts["cue"].to_numpy(),
        texts["cluster"].to_numpy(),
    )
    parts = []
    for axis in (*axes, "group") if len(axes) > 1 else tuple(axes):
        cells = similarity_cells(vectors, texts[axis].to_numpy(), prompts, names)
        made = within_group_similarity(cells, params.confidence_level)
        parts.append(made.assign(axis=axis if axis in axes else " x ".join(as_written(axes))))
    crossed = similarity_cells(vectors, texts["group"].to_numpy(), prompts, names)
    factors = texts.drop_duplicates("group").set_index("group")[list(axes)]
    unmarked = {axis: words.unmarked for axis, words in axes.items()}
    effects = similarity_effects(crossed, factors, unmarked, params.confidence_level)
    simple = similarity_simple_effects(crossed, factors, unmarked, params.confidence_level)
    return {
        "similarity": pd.concat(parts, ignore_index=True),
        "similarity_effects": effects.rename(columns={"factor": "axis"}),
        "similarity_simple_effects": simple.rename(columns={"factor": "axis"}),
    }


def _answer_notes(answers: pd.DataFrame) -> Iterator[str]:
    """Which prompts were asked, what was left out, and what is measured otherwise."""
    if "study" in answers:
        yield f"Asked with the prompts of the study {', '.join(answers['study'].unique())} (studies.yaml)."
    elif nameless := _nameless(answers[answers["kind"].eq("expression")]):
        yield (
            f"{nameless} of {int(answers['count'].sum())} answers are short and have no name: each counts as drawn "
            "independently of all others. Where several are of one person or source, or are stored more than once, p "
            "and intervals do not hold: name in a column name what belongs together."
        )
    kept = answers["kept"].astype(bool)
    left_out = answers[~kept].groupby("status")["count"].sum()
    if len(left_out):
        left_out = left_out.rename({Status.OK.value: "empty or unreadable"})
        parts = ", ".join(f"{count} {status}" for status, count in left_out.items())
        n = int(left_out.sum())
        yield f"{n} of {int(answers['count'].sum())} answers {are(n)} left out: {parts}."
    empty = int(answers.loc[answers["empty"].astype(bool) & kept, "count"].sum())
    if empty:
        yield (
            f"{empty} of the answers kept have no letter or digit, or name nothing ('N/A', 'unknown'); they count as "
            "categories, as published."
        )
    cues = answers.loc[kept & answers["kind"].eq("text"), "cue"].nunique()
    if cues:
        yield (
            f"{cues} cues have longer texts, which are compared by sentence embeddings instead of categories: pairs of "
            "texts of different names."
        )


def _nameless(answers: pd.DataFrame) -> int:
    """Answers that featurize gave a cluster of their own."""
    groups = answers["group"].astype("string").fillna("")
    alone = [str(one).startswith(f"{group} #") for one, group in zip(answers["cluster"], groups, strict=True)]
    return int(answers.loc[alone, "count"].sum())


def _table_notes(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What a reader must know before believing a table."""
    if (table := tables.get("probability_of_differentiation")) is not None and table["n_clusters"].min() < FEW_NAMES:
        yield (
            f"Some groups have fewer than {FEW_NAMES} names (down to {table['n_clusters'].min()}): their intervals are "
            "too short, as published; judge by differences, which has no interval with fewer than six names."
        )
    if (table := tables.get("noncompliance")) is not None:
        found = table.loc[table["p_adjusted"] < 0.05, "axis"]
        for axis, own in table[table["axis"].isin(found)].groupby("axis", sort=False):
            shares = own.set_index("group")["share"]
            yield (
                f"The share of answers left out differs by {axis}: {shares.min():.1%} for {shares.idxmin()}, "
                f"{shares.max():.1%} for {shares.idxmax()} (adjusted p = {own['p_adjusted'].min():.3g})."
            )
    if (table := tables.get("effects")) is not None and (missing := int(table["d"].isna().sum())):
        yield f"{missing} effects are not estimated, because all replicates of both groups are the same."
    if "meta_analysis" in tables:
        yield (
            "Pooled d and its p are computed as published. Their standard errors leave out most of the sampling error, "
            "so that they find effects where there are none. Judge by the mean differences and their null."
        )
