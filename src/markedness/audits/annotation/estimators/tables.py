"""The tables of gaps: one row per marked group and task."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation.estimators.cells import REASONS, Codes, cells, codes, name_pairs
from markedness.audits.annotation.estimators.paired import (
    clustered_intervals,
    cohens_h,
    published_paired_tests,
    welch_from_counts,
)
from markedness.stats.multiplicity import benjamini_hochberg


def name_gaps(pairs: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """Gaps of the names paradigm.

    Parameters
    ----------
    pairs
        Matched pairs of the paradigm, rows of featurize.
    confidence_level
        Of all intervals, in (0, 1); 1 minus it is the level of ``significant``.

    Returns
    -------
    DataFrame, one row per marked group and task
        The columns of `published_paired_tests`; ``p_adjusted`` and ``p_exact_adjusted`` (Benjamini-Hochberg over all
        rows); ``significant``; ``missing``, pairs without both answers; ``yes_rate`` and ``yes_rate_reference`` in
        [0, 1]; cluster-robust intervals with the suffix ``_vignette`` and ``_name_pair``; ``margin_gap``, mean
        difference of ln P(yes) - ln P(no) in nats, with ``margin_p``. NaN where nothing can be estimated.
    """
    code, table = cells(pairs)
    n = len(table)
    tests = published_paired_tests(pairs["delta"], code, n, confidence_level)
    table = table.join(tests.drop(columns="se"))
    for p in ("p", "p_exact"):
        table[f"{p}_adjusted"] = benjamini_hochberg(tests[p])
    table["significant"] = _significant(table, confidence_level)
    table["missing"] = np.bincount(code, minlength=n) - table["n_pairs"]
    for side in ("", "_reference"):
        table[f"yes_rate{side}"] = _rate(_sums(pairs[f"yes{side}"], code, n), _sums(pairs[f"n{side}"], code, n))
    for name, cluster in (("vignette", codes(pairs, "vignette")), ("name_pair", name_pairs(pairs))):
        robust = clustered_intervals(pairs["delta"], code, cluster, n, confidence_level).drop(columns="se")
        table = table.join(robust.rename(columns={"n_clusters": "n"}).add_suffix(f"_{name}"))
    margin = published_paired_tests(_margin_shift(pairs), code, n, confidence_level)
    table["margin_gap"], table["margin_p"] = margin["gap"], margin["p"]
    first = ["group", "task", "gap", "ci_low", "ci_high", "t", "p", "p_adjusted", "n_pairs", "missing"]
    return _ordered(table, first)


def dialect_gaps(pairs: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """Gaps of the dialect paradigm.

    Parameters
    ----------
    pairs, confidence_level
        As in `name_gaps`; a pair is a text in two dialects with all its answers.

    Returns
    -------
    DataFrame, one row per marked dialect and task
        ``gap``, difference of yes-rates over all answers, in [-1, 1], positive: the marked dialect gets yes more
        often; ``paired_gap``, mean difference over texts, with the columns of `published_paired_tests` (``n_texts``
        for ``n_pairs``); ``p_adjusted`` and ``p_exact_adjusted`` (Benjamini-Hochberg over all rows); Welch's test of
        single answers, `cohens_h`; ``n`` and ``n_reference``, answers; ``missing``, judgments of either side without
        an answer; ``margin_gap`` as in `name_gaps`. NaN where nothing can be estimated.
    """
    code, table = cells(pairs)
    n = len(table)
    tests = published_paired_tests(pairs["delta"], code, n, confidence_level)
    tests = tests.rename(columns={"gap": "paired_gap", "n_pairs": "n_texts"})
    table = table.join(tests.drop(columns=["se", "n_up", "n_down"]))
    yes, asked, yes_reference, asked_reference = (
        _sums(pairs[name], code, n) for name in ("yes", "n", "yes_reference", "n_reference")
    )
    table["yes_rate"], table["yes_rate_reference"] = _rate(yes, asked), _rate(yes_reference, asked_reference)
    table["gap"] = table["yes_rate"] - table["yes_rate_reference"]
    for p in ("p", "p_exact"):
        table[f"{p}_adjusted"] = benjamini_hochberg(table[p])
    table["significant"] = _significant(table, confidence_level)
    table["welch_t"], table["welch_p"] = welch_from_counts(yes, asked, yes_reference, asked_reference)
    table["cohens_h"] = cohens_h(table["yes_rate"], table["yes_rate_reference"])
    table["n"], table["n_reference"] = asked.astype(int), asked_reference.astype(int)
    lost = pairs[[f"{reason}{side}" for reason in REASONS for side in ("", "_reference")]].sum(axis=1)
    table["missing"] = _sums(lost, code, n).astype(int)
    table["margin_gap"] = published_paired_tests(_margin_shift(pairs), code, n, confidence_level)["gap"]
    return _ordered(table, ["task", "gap", "t", "p", "p_adjusted", "welch_p", "cohens_h", "n_texts"])


def missing_judgments(pairs: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """Missing judgments of both sides, with a test whether the groups differ.

    Parameters
    ----------
    pairs
        Matched pairs of all paradigms.
    confidence_level
        Of the Wilson intervals, in (0, 1).

    Returns
    -------
    DataFrame, one row per paradigm, task and group, and per paradigm and group with the task "all tasks"
        ``n``, judgments asked for; ``missing``; ``rate`` = missing / n with ``ci_low`` and ``ci_high``; ``p`` of the
        chi-square test of groups x missing, ``p_adjusted`` (Benjamini-Hochberg over the tasks of a paradigm; NaN for
        "all tasks", which repeats them); ``min_expected`` count of the test; the missing judgments by reason.
    """
    from statsmodels.stats.proportion import proportion_confint

    table = _counts(pairs)
    table["missing"] = table[list(REASONS)].sum(axis=1)
    table["n"] += table["missing"]
    asked = table["n"].where(table["n"] > 0)
    table["rate"] = table["missing"] / asked
    table["ci_low"], table["ci_high"] = proportion_confint(
        table["missing"], asked, alpha=1 - confidence_level, method="wilson"
    )
    tests = table.groupby(["paradigm", "task"], sort=False)[["n", "missing"]].apply(_chi_square).reset_index()
    single = tests["task"] != "all tasks"
    for paradigm in tests["paradigm"].unique():
        family = single & (tests["paradigm"] == paradigm)
        tests.loc[family, "p_adjusted"] = benjamini_hochberg(tests.loc[family, "p"])
    table = table.merge(tests.reindex(columns=["paradigm", "task", "p", "p_adjusted", "min_expected"]))
    first = [
        "paradigm",
        "task",
        "group",
        "n",
        "missing",
        "rate",
        "ci_low",
        "ci_high",
        "p",
        "p_adjusted",
        "min_expected",
    ]
    return table[[*first, *REASONS]]


def _counts(pairs: pd.DataFrame) -> pd.DataFrame:
    """Answers (``n``) and missing judgments by reason, per paradigm, task and group, and over all tasks."""
    sides = []
    for side, group in (("", "group"), ("_reference", "reference")):
        counts = pairs[[f"n{side}", *(f"{reason}{side}" for reason in REASONS)]].set_axis(["n", *REASONS], axis=1)
        keys = [pairs["paradigm"], pairs["task"], pairs[group].rename("group")]
        sides.append(counts.groupby(keys, observed=True, sort=False).sum())
    table = pd.concat(sides).reset_index().astype({"paradigm": object, "task": object, "group": object})
    table = table.groupby(["paradigm", "task", "group"], sort=False, as_index=False).sum()
    total = table.drop(columns="task").groupby(["paradigm", "group"], sort=False, as_index=False).sum()
    return pd.concat([table, total.assign(task="all tasks")], ignore_index=True)


def _chi_square(counts: pd.DataFrame) -> pd.Series:
    """Chi-square test of groups x missing; NaN when nothing or everything is missing."""
    from scipy import stats

    observed = counts.assign(answered=counts["n"] - counts["missing"])[["missing", "answered"]].to_numpy()
    observed = observed[observed.sum(axis=1) > 0]
    if len(observed) < 2 or (observed.sum(axis=0) == 0).any():
        return pd.Series({"p": np.nan, "min_expected": np.nan})
    test = stats.chi2_contingency(observed, correction=False)
    return pd.Series({"p": test.pvalue, "min_expected": test.expected_freq.min()})


def _significant(table: pd.DataFrame, confidence_level: float) -> pd.Series:
    """Adjusted p below the level; where all differences are equal and t does not exist, the exact test's."""
    return table["p_adjusted"].fillna(table["p_exact_adjusted"]) < 1 - confidence_level


def _sums(values: pd.Series, code: Codes, n_cells: int) -> NDArray[np.float64]:
    return np.bincount(code, weights=values, minlength=n_cells).astype(float)


def _rate(yes: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    rate = np.full(len(n), np.nan)
    np.divide(yes, n, out=rate, where=n > 0)
    return rate


def _margin_shift(pairs: pd.DataFrame) -> pd.Series:
    """Margin of the marked text minus that of the unmarked one, in nats; NaN where answers were not scored."""
    if "margin" not in pairs:
        return pd.Series(np.nan, index=pairs.index)
    return pairs["margin"] - pairs["margin_reference"]


def _ordered(table: pd.DataFrame, first: list[str]) -> pd.DataFrame:
    return table[[*first, *(name for name in table if name not in first)]]
