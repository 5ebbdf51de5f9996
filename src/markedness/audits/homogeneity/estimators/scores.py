"""The Scores of the audit, all made by the inference engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from markedness.audits.homogeneity import SPEC
from markedness.audits.homogeneity.estimators.ceiling import ceiling
from markedness.audits.homogeneity.estimators.group_differences import (
    GroupDifference,
    PairCounts,
    comparable,
    mean_difference,
    value_differences,
)
from markedness.audits.homogeneity.estimators.groups import (
    AxisLabels,
    axis_labels,
    exchangeable,
    of_like_names,
)
from markedness.audits.homogeneity.estimators.noncompliance import contrasts, merged, noncompliance_difference
from markedness.audits.homogeneity.estimators.params import Params
from markedness.axes import Axes
from markedness.records import FeatureTables
from markedness.results import NAN, Score, named_contrasts, not_estimated
from markedness.stats import inference

LESS_VARIETY = "the marked group is described with less variety"
_MEANS = "answers about {group} vary {how} than those about {reference}"
_UNTESTED = "no name of {groups} shares the values of the other axes with a name of the unmarked group"
_NO_PAIRS = "no cue has answers from two names of both groups, or all of them rest on the same two names"
TESTED = 2
"""Headline Scores that have a p-value: the family that is corrected."""
METHOD = (
    "share of pairs of answers from different names; labels of one axis exchanged among names that share their other "
    "values, studentised; interval by leaving out one name"
)


def pairs(features: FeatureTables, axes: Axes) -> tuple[PairCounts, list[AxisLabels]] | None:
    """Kept answers by name and cue, and the axes' labels; None without short answers."""
    answers = features["answers"]
    axes = {axis: words for axis, words in axes.items() if axis in answers}
    used = answers[answers["kept"].astype(bool) & answers["kind"].eq("expression")]
    if used.empty:
        return None
    counts = PairCounts(used)
    names = used.drop_duplicates("cluster").set_index("cluster").reindex(counts.names)
    return counts, axis_labels(names, axes)


def scores(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """Every Score with a test: the difference in P_d, unequal noncompliance; then single values.

    Parameters
    ----------
    features, params, rng
        As in `markedness.audits.homogeneity.evaluate.evaluate`.

    Returns
    -------
    list of Score
        pd_difference is averaged over cues; positive: the marked group is described with less variety. NaN where a
        group has no pair of names with answers to one cue.
    """
    answers = features["answers"]
    axes = {axis: words for axis, words in params.axes.items() if axis in answers}
    found = pairs(features, params.axes)
    made = []
    if found is not None:
        counts, labels = found
        apart = comparable(counts, labels)
        tested = exchangeable(apart)
        n_answers = np.zeros((len(counts.names), len(counts.cues)))
        for place, cue in enumerate(counts.cues):
            n_answers[cue.names, place] = cue.matrix.sum(axis=1)
        mean = mean_difference(counts, tested, rng, TESTED, params.n_permutations)
        values = [*value_differences(counts, labels, rng, params.n_permutations), *_nameless(labels, axes)]
        if mean is not None:
            score = _marked_score(mean, tested, values, params.confidence_level)
            asked = answers.loc[answers["kind"].eq("expression"), "cluster"].nunique()
            score = replace(score, n_missing=asked - len(counts.names))
            made.append(of_like_names(score, tested, {value for one in tested for value in one.values}, n_answers))
        elif values:
            why = _UNTESTED.format(groups="any marked group") if apart else _NO_PAIRS
            made.append(not_estimated("pd_difference.marked", why))
        adjusted = inference.benjamini_hochberg([one.null.p for one in values])
        for one, p in zip(values, adjusted, strict=True):
            score = _difference_score(one.group, one, params.confidence_level, len(values))
            made.append(of_like_names(replace(score, p_adjusted=float(p)), labels, {one.group}, n_answers))
        if sentence := _of_empty_answers(answers, axes, rng):
            made = [_warned(one, sentence) for one in made]
    elif answers["kind"].eq("text").any():
        why = "the answers are longer texts, which are compared by sentence embeddings (similarity_difference)"
        made.append(not_estimated("pd_difference.marked", why))
    made.append(noncompliance_difference(answers, axes, rng, TESTED, params.confidence_level))
    return inference.adjusted(made, SPEC.headline)


def _nameless(labels: Sequence[AxisLabels], axes: Axes) -> Iterator[GroupDifference]:
    """The marked values of the params that have no names with answers, or whose unmarked value has none."""
    there = {(one.axis, value) for one in labels for value in one.values}
    for axis, words in axes.items():
        for value in words.marked:
            if (axis, value) not in there:
                yield GroupDifference(axis, value, words.unmarked, NAN, inference.NO_SPREAD, inference.Null(), 0, 0)


def _warned(score: Score, sentence: str) -> Score:
    """With a caveat, where there is one and something that it is about."""
    return score.warned(sentence) if sentence and not score.missing else score


def _marked_score(
    mean: GroupDifference, tested: Sequence[AxisLabels], values: Sequence[GroupDifference], confidence_level: float
) -> Score:
    """The headline, which says which groups it is over and which are not tested."""
    known = {value for one in tested for value in one.values}
    over = [one for one in values if np.isfinite(one.estimate) and one.group in known]
    pairless = [one.group for one in values if not np.isfinite(one.estimate)]
    left = [one.group for one in values if one.group not in known and one.group not in pairless]
    made = _difference_score("marked", mean, confidence_level, TESTED)
    made = replace(made, over=named_contrasts((one.group, one.reference) for one in over))
    for groups, reason in ((pairless, _NO_PAIRS), (left, _UNTESTED.format(groups="them"))):
        if groups:
            why = f"not over {', '.join(groups)}: {reason}"
            made = replace(made, method=f"{made.method}; {why}").warned(f"{why[0].upper()}{why[1:]}.")
    return made


def _of_empty_answers(answers: pd.DataFrame, axes: Axes, rng: np.random.Generator) -> str:
    """What empty answers that are more frequent for some groups do to the difference in P_d; "" where they are not."""
    kept = answers[answers["kept"].astype(bool) & answers["kind"].eq("expression")]
    if not kept["empty"].any():
        return ""
    kept = kept.assign(name=kept.get("name", kept["cluster"]), n=kept["count"])
    kept["empty"] = kept["n"].where(kept["empty"].astype(bool), 0)
    names = kept.groupby(["cluster", "name", *axes], sort=False, dropna=False)[["n", "empty"]].sum().reset_index()
    hits, totals = (merged([names[one].to_numpy(float)] * len(axes), names, axes) for one in ("empty", "n"))
    made = inference.contrast_score("", hits, totals, contrasts(names, axes), rng.spawn(1)[0], cluster="name")
    if not made.p <= inference.ALPHA:
        return ""
    return (
        "Answers without a letter or digit, or that name nothing ('N/A'), are not equally frequent in all groups "
        f"(marked minus unmarked: {made.estimate:+.0%}) and count as categories, as published: this difference may be "
        "theirs. homogeneity.featurize.exclude_empty: true leaves them out."
    )


def _difference_score(item: str, one: GroupDifference, confidence_level: float, family: int) -> Score:
    method = METHOD if np.isfinite(one.estimate) else _NO_PAIRS
    group = f"the group {one.group}" if one.group else "the marked groups"
    reference = one.reference if one.group else "the unmarked ones"
    made = inference.claim(
        f"pd_difference.{item}", one.estimate, one.spread, one.null, family=family, confidence_level=confidence_level,
        method=method, n=one.n_names, unit="names", comparable=True, group=one.group, reference=one.reference, worse=1,
        positive=_MEANS.format(group=group, how="less", reference=reference),
        negative=_MEANS.format(group=group, how="more", reference=reference),
    )  # fmt: skip
    return made if np.isfinite(one.estimate) else replace(made, lacking=_NO_PAIRS)


def ceiling_scores(counts: PairCounts, labels: Sequence[AxisLabels], rng: np.random.Generator) -> list[Score]:
    """How much of a study of half the size another one can replicate; a description, without a test."""
    made = [
        Score(
            f"replication.{key}", ceiling(counts, labels, rng, by), n=len(counts.names), unit="names",
            positive="effects of one half of the study are found in the other half",
            method=f"published criterion between random halves of the {by}s, averaged over splits; no test",
        )
        for key, by in (("ceiling", "name"), ("ceiling_samples", "sample"))
    ]  # fmt: skip
    why = "no effect could be estimated in both halves"
    return [replace(one, lacking=why) if one.missing else one for one in made]


def difference_table(scores: Sequence[Score], axes: Axes, n_cues: int) -> pd.DataFrame:
    """One row per marked value: comparison, axis, group, reference, difference, bounds, p, p_adjusted, n_cues.

    p_adjusted is p after Benjamini-Hochberg over all rows.
    """
    axis_of = {value: axis for axis, words in axes.items() for value in words.values}
    rows = [
        {
            "comparison": f"{one.reference} v. {one.group}", "axis": axis_of[one.group], "group": one.group,
            "reference": one.reference, "difference": one.estimate, "ci_low": one.ci_low, "ci_high": one.ci_high,
            "null_low": one.null_low, "null_high": one.null_high, "p": one.p, "n_cues": n_cues,
            "p_adjusted": one.p_adjusted,
        }
        for one in scores
        if one.measure == "pd_difference" and one.group
    ]  # fmt: skip
    return pd.DataFrame(rows)


def other_scores(tables: Mapping[str, pd.DataFrame], axes: Axes) -> Iterator[Score]:
    """Mean P_d, share of noncompliance, similarity of longer texts, and the pooled effects as published."""
    if (table := tables.get("probability_of_differentiation")) is not None:
        single = table[table["axis"].isin(list(axes))]
        by_axis = single.groupby(["axis", "cue"])["pd_sample"].mean().groupby("axis").mean()
        n = int(single.groupby("axis")["n"].sum().max()) if len(single) else 0
        yield Score("pd.mean", float(by_axis.mean()), n=n, unit="answers", positive="answers vary")
    if (table := tables.get("noncompliance")) is not None:
        first = table[table["axis"].eq(table["axis"].iloc[0])]
        n = int(first["n"].sum())
        share = float(first["noncompliant"].sum() / max(n, 1))
        yield Score("noncompliance.share", share, n=n, unit="answers", positive="some answers do not comply")
    if (table := tables.get("similarity_effects")) is not None:
        about: dict[str, Any] = {
            "unit": "prompt formats", "positive": "the marked group's texts are more alike",
            "method": "pairs of texts of different names; t by leaving out names and prompt formats",
        }  # fmt: skip
        yield from _effect_scores("similarity_difference", table, "difference", "n_prompts", about, p="p")
    if (table := tables.get("meta_analysis")) is not None:
        about = {"unit": "cues", "positive": LESS_VARIETY, "method": "as published"}
        yield from _effect_scores("pooled_d", table[table["axis"].isin(list(axes))], "d", "k", about)


def _effect_scores(
    measure: str, table: pd.DataFrame, value: str, n: str, about: Mapping[str, Any], p: str = ""
) -> Iterator[Score]:
    """A Score per row of a table of effects; ``value``, ``n`` and ``p`` name its columns; without ``p`` no test."""
    for row in table.to_dict("records"):
        said, tested = row.get("caveat", ""), bool(p) and np.isfinite(row[p])
        yield Score(
            f"{measure}.{row['group']}", row[value], row["ci_low"], row["ci_high"], p=row[p] if p else NAN,
            n=int(row[n]), group=row["group"], reference=row["reference"], caveat=said if tested else "",
            lacking="" if tested else said, **about,
        )  # fmt: skip
