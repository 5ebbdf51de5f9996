"""Probability of differentiation by group and cue, differences between groups, and their tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.homogeneity import DEFAULT_AXES, figures
from markedness.audits.homogeneity.estimators.differentiation import CategoryCounts, sample_differentiation
from markedness.audits.homogeneity.estimators.group_differences import difference_table, group_differences
from markedness.audits.homogeneity.estimators.groups import Bootstrap, groups
from markedness.audits.homogeneity.estimators.noncompliance import noncompliance
from markedness.audits.homogeneity.estimators.published import (
    published_differentiation,
    published_effects,
    published_meta_analysis,
)
from markedness.audits.homogeneity.estimators.scores import difference_scores, other_scores
from markedness.records import Axes, FeatureTables, Strict
from markedness.results import Evaluation
from markedness.stats.similarity import similarity_cells, similarity_effects, within_group_similarity

FEW_NAMES = 10
"""With fewer clusters a percentile interval is too short, and a note says so."""


class Params(Strict):
    """``homogeneity.evaluate``."""

    axes: Axes = DEFAULT_AXES
    n_resamples: int = Field(default=1000, ge=2)
    """Bootstrap replicates R; the published interval of d depends on it."""
    n_permutations: int = Field(default=500, ge=1)
    """Permutations of the names' labels for the null."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)


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
    kept = answers[answers["kept"].astype(bool)]
    expressions = kept[kept["kind"].eq("expression")]
    counts = CategoryCounts(*(expressions[c] for c in ("cue", "cluster", "category", "count")))
    clusters = expressions.drop_duplicates("cluster").set_index("cluster").reindex(counts.clusters)
    bootstrap: Bootstrap = {
        group: {drawn.cue: drawn for drawn in counts.replicates(members, params.n_resamples, rng)}
        for group, members in groups(clusters, axes).items()
    }
    level = params.confidence_level
    effects = published_effects(bootstrap, axes, level)
    differences = group_differences(counts, clusters, bootstrap, axes, params.n_permutations, rng)
    tables = {
        "probability_of_differentiation": published_differentiation(bootstrap, level),
        "effects": effects,
        "meta_analysis": published_meta_analysis(effects, level),
        "differences": difference_table(differences, level),
        "noncompliance": noncompliance(answers, axes, params.n_resamples, params.n_permutations, level, rng),
    }
    texts = kept[kept["kind"].eq("text")]
    if len(texts):
        tables |= _similarity(texts, axes, params, rng)
    tables = {name: table for name, table in tables.items() if len(table)}
    return Evaluation(
        scores=[*difference_scores(differences, level), *other_scores(tables, axes)],
        tables=tables,
        figures=figures.figures(tables),
        notes=[*_answer_notes(answers), *_table_notes(tables)],
    )


def _similarity(texts: pd.DataFrame, axes: Axes, params: Params, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Similarity of texts within the groups of each axis and within crossed groups; effects from the latter."""
    vectors, prompts = np.stack(texts["embedding"].tolist()), texts["cue"].to_numpy()
    parts = []
    for axis in (*axes, "group") if len(axes) > 1 else tuple(axes):
        cells = similarity_cells(vectors, texts[axis].to_numpy(), prompts)
        made = within_group_similarity(cells, params.n_resamples, rng, params.confidence_level)
        parts.append(made.assign(axis=axis if axis in axes else " x ".join(axes)))
    crossed = similarity_cells(vectors, texts["group"].to_numpy(), prompts)
    factors = texts.drop_duplicates("group").set_index("group")[list(axes)]
    unmarked = {axis: words.unmarked for axis, words in axes.items()}
    effects = similarity_effects(crossed, factors, unmarked, params.n_resamples, rng, params.confidence_level)
    return {
        "similarity": pd.concat(parts, ignore_index=True),
        "similarity_effects": effects.rename(columns={"factor": "axis"}),
    }


def point_scores(features: FeatureTables, params: Params) -> dict[str, float]:
    """Headline estimates alone, fast enough for resampled features, in which a drawn cluster stands several times.

    Longer texts have no score here: a text that is drawn twice would be similar to itself.

    Returns
    -------
    dict
        pd_difference of each marked value and their mean, averaged over cues; pd.mean, P_d averaged over cues and
        values of single axes. Keys that cannot be estimated are left out.
    """
    answers = features["answers"]
    used = answers["kept"].to_numpy(bool) & answers["kind"].eq("expression").to_numpy(bool)
    cue, cues = pd.factorize(answers["cue"].array[used])
    category, _ = pd.factorize(answers["category"].array[used], use_na_sentinel=False)
    counts = answers["count"].to_numpy(float)[used]
    found: dict[str, float] = {}
    means = []
    for axis, words in params.axes.items():
        if axis not in answers or not len(cues):
            continue
        values = list(words.values)
        code, present = pd.factorize(answers[axis].array[used])
        value = np.array([*(values.index(v) if v in values else -1 for v in present), -1])[code]
        known, cell = value >= 0, cue * len(values) + value
        by_cell = sample_differentiation(cell[known], category[known], counts[known], len(cues) * len(values))
        by_value = by_cell.reshape(len(cues), len(values))
        means.append(np.nanmean(by_value))
        reference = by_value[:, values.index(words.unmarked)]
        for marked in words.marked:
            difference = reference - by_value[:, values.index(marked)]
            if np.isfinite(difference).any():
                found[f"pd_difference.{marked}"] = float(np.nanmean(difference))
    if found:
        found = {"pd_difference.marked": float(np.mean(list(found.values()))), **found}
    return found | ({"pd.mean": float(np.mean(means))} if means else {})


def _answer_notes(answers: pd.DataFrame) -> Iterator[str]:
    """What was left out, and what is measured otherwise."""
    kept = answers["kept"].astype(bool)
    left_out = answers[~kept].groupby("status")["count"].sum()
    if len(left_out):
        parts = ", ".join(f"{count} {status}" for status, count in left_out.items())
        yield f"{int(left_out.sum())} of {int(answers['count'].sum())} answers are left out: {parts}."
    empty = int(answers.loc[answers["empty"].astype(bool) & kept, "count"].sum())
    if empty:
        yield f"{empty} of the answers kept have no letter or digit; they count as one category, as published."
    cues = answers.loc[kept & answers["kind"].eq("text"), "cue"].nunique()
    if cues:
        yield f"{cues} cues have longer texts, which are compared by sentence embeddings instead of categories."


def _table_notes(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What a reader must know before believing a table."""
    if (table := tables.get("probability_of_differentiation")) is not None and table["n_clusters"].min() < FEW_NAMES:
        yield (
            f"Some groups have fewer than {FEW_NAMES} names (down to {table['n_clusters'].min()}): their intervals are "
            "too short; ask about more names before believing them."
        )
    if (table := tables.get("noncompliance")) is not None:
        for axis, own in table[table["p_adjusted"] < 0.05].groupby("axis", sort=False):
            shares = own.set_index("group")["share"]
            yield (
                f"The share of answers left out differs by {axis}: {shares.min():.1%} for {shares.idxmin()}, "
                f"{shares.max():.1%} for {shares.idxmax()} (adjusted p = {own['p_adjusted'].iloc[0]:.3g})."
            )
    if (table := tables.get("effects")) is not None and (missing := int(table["d"].isna().sum())):
        yield f"{missing} effects are not estimated, because all replicates of both groups are the same."
    if "meta_analysis" in tables:
        yield (
            "Pooled d and its p are computed as published. Their standard errors leave out most of the sampling error, "
            "so that they find effects where there are none. Judge by the mean differences and their null."
        )
