"""Answers that do not comply with the prompt, by group."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.records import Axes, Status
from markedness.stats.multiplicity import benjamini_hochberg
from markedness.stats.resampling import Interval, cluster_bootstrap_mean, permuted_share_test

NONCOMPLIANT = [Status.REFUSAL.value, Status.UNPARSED.value, Status.TRUNCATED.value]
UNANSWERED = [Status.FAILED.value, Status.UNSUPPORTED.value]
COLUMNS = (
    "axis", "group", "n", "noncompliant", "share", "ci_low", "ci_high", "empty", "missing", "p", "p_adjusted",
)  # fmt: skip


def noncompliance(
    answers: pd.DataFrame,
    axes: Axes,
    n_resamples: int,
    n_permutations: int,
    confidence_level: float,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Share of answers that do not comply, by group, and a permutation test of each axis.

    Parameters
    ----------
    answers
        Counts of all answers, whether kept or not; see featurize.
    axes
        Axes that ``answers`` has.
    n_resamples, n_permutations, confidence_level, rng
        For the interval, which resamples names, and the test, which permutes their labels; seeded generator.

    Returns
    -------
    DataFrame
        `COLUMNS`: n (answers received), noncompliant, share in [0, 1] (NaN without answers) with its interval, empty
        (answers without a letter or digit), missing (no answer), p of the axis, p_adjusted (Benjamini-Hochberg over
        the axes).
    """
    status, count = answers["status"], answers["count"]
    missing = count.where(status.isin(UNANSWERED), 0)
    counts = pd.DataFrame(
        {
            "answered": count - missing,
            "bad": count.where(status.isin(NONCOMPLIANT), 0),
            "empty": count.where(answers["empty"].astype(bool), 0),
            "missing": missing,
        }
    )
    rows = []
    tests: dict[str, float] = {}
    for axis, words in axes.items():
        known = answers[axis].isin(list(words.values))
        keys = [answers.loc[known, "cluster"].rename("cluster"), answers.loc[known, axis].rename("value")]
        names = counts[known].groupby(keys, sort=False).sum().reset_index()
        tests[axis] = permuted_share_test(names["bad"], names["answered"], names["value"], n_permutations, rng)
        for value in [value for value in words.values if names["value"].eq(value).any()]:
            own = names[names["value"].eq(value)]
            share = _share(own, n_resamples, confidence_level, rng)
            answered, bad, empty, unanswered = (int(own[name].sum()) for name in counts)
            rows.append(
                (axis, value, answered, bad, share.estimate, share.low, share.high, empty, unanswered, tests[axis])
            )
    table = pd.DataFrame(rows, columns=list(COLUMNS[:-1]))
    adjusted = dict(zip(tests, benjamini_hochberg(list(tests.values())), strict=True))
    return table.assign(p_adjusted=table["axis"].map(adjusted))


def _share(names: pd.DataFrame, n_resamples: int, confidence_level: float, rng: np.random.Generator) -> Interval:
    """Share of the answers of these names that do not comply."""
    bad, good = names["bad"].to_numpy(int), (names["answered"] - names["bad"]).to_numpy(int)
    flags = np.repeat([1.0, 0.0], [bad.sum(), good.sum()])
    cluster = names["cluster"].to_numpy(object)
    clusters = np.concatenate([cluster.repeat(bad), cluster.repeat(good)])
    return cluster_bootstrap_mean(flags, clusters, n_resamples, rng, confidence_level)
