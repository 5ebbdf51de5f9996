"""The tables of gaps: one row per marked group and task."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation.estimators.cells import REASONS, Codes, Matched, cells, matched
from markedness.audits.annotation.estimators.paired import (
    cohens_h,
    published_corrected,
    published_paired_tests,
    welch_from_counts,
)
from markedness.stats.inference import Floats, benjamini_hochberg

PUBLISHED = ("p", "p_adjusted", "ci_low", "ci_high")
"""Columns of the paper's tests that the engine has too: they get the suffix ``_published``."""


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
        ``gap``; ``p``, ``ci_low``, ``ci_high`` over crossed names, reference names and vignettes
        (`markedness.stats.inference.crossed`); ``p_adjusted``, Benjamini-Hochberg over all rows, those that could not
        be tested counted as p = 1; ``significant``; ``caveat``, factors of fewer than six clusters, for which alone the
        row holds; ``t`` and the columns with the suffix ``_published``: the paper's
        (`published_paired_tests`); ``missing``, pairs without both answers; ``yes_rate`` and ``yes_rate_reference`` in
        [0, 1]; ``margin_gap``, mean difference of ln P(yes) - ln P(no) in nats, with ``margin_ci_low``,
        ``margin_ci_high``, ``margin_p`` and ``margin_p_adjusted`` as those of the gap. NaN where nothing can be
        estimated.
    """
    code, table = cells(pairs)
    n, of = len(table), matched(pairs)
    table = table.join(_tests(pairs, of, code, confidence_level))
    table["missing"] = np.bincount(code, minlength=n) - table["n_pairs"]
    for side in ("", "_reference"):
        table[f"yes_rate{side}"] = _rate(_sums(pairs[f"yes{side}"], code, n), _sums(pairs[f"n{side}"], code, n))
    table = table.assign(**_margins(of, confidence_level))
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
        often; ``paired_gap``, mean difference over texts, with the tests of `name_gaps` over pairs of texts
        (``n_texts`` for ``n_pairs``); Welch's test of single answers and `cohens_h`, as published; ``n`` and
        ``n_reference``, answers; ``missing``, judgments of either side without an answer; ``margin_gap`` and its
        tests as in `name_gaps`. NaN where nothing can be estimated.
    """
    code, table = cells(pairs)
    n, of = len(table), matched(pairs)
    tests = _tests(pairs, of, code, confidence_level)
    table = table.join(tests.rename(columns={"gap": "paired_gap", "n_pairs": "n_texts"}))
    yes, asked, yes_reference, asked_reference = (
        _sums(pairs[name], code, n) for name in ("yes", "n", "yes_reference", "n_reference")
    )
    table["yes_rate"], table["yes_rate_reference"] = _rate(yes, asked), _rate(yes_reference, asked_reference)
    table["gap"] = table["yes_rate"] - table["yes_rate_reference"]
    table["welch_t"], table["welch_p"] = welch_from_counts(yes, asked, yes_reference, asked_reference)
    table["cohens_h"] = cohens_h(table["yes_rate"], table["yes_rate_reference"])
    table["n"], table["n_reference"] = asked.astype(int), asked_reference.astype(int)
    lost = pairs[[f"{reason}{side}" for reason in REASONS for side in ("", "_reference")]].sum(axis=1)
    table["missing"] = _sums(lost, code, n).astype(int)
    table = table.assign(**_margins(of, confidence_level))
    return _ordered(table, ["task", "gap", "t", "p", "p_adjusted", "welch_p", "cohens_h", "n_texts"])


def missing_judgments(paradigms: Iterable[pd.DataFrame], confidence_level: float) -> pd.DataFrame:
    """Missing judgments of both sides, with a test whether marked texts lack more.

    Parameters
    ----------
    paradigms
        Matched pairs of each paradigm.
    confidence_level
        Of the intervals, in (0, 1).

    Returns
    -------
    DataFrame, one row per paradigm, task and group, and per paradigm and group with the task "all tasks"
        ``n``, judgments asked for; ``missing``; ``rate`` = missing / n; for marked groups ``difference``, mean over
        pairs of the missing share of the marked text minus that of the unmarked one, with ``ci_low``, ``ci_high`` and
        ``p`` over crossed clusters and ``p_adjusted`` (Benjamini-Hochberg over the tasks and groups of a paradigm; NaN
        for "all tasks"); the missing judgments by reason.
    """
    made = []
    for pairs in paradigms:
        if not len(pairs):
            continue
        of = matched(pairs)
        tested = of.cells[["group", "task"]].assign(**_cell_tests(of, of.lost, confidence_level))
        tested = tested.rename(columns={"mean": "difference"})
        made.append(_counts(pairs).merge(tested, on=["group", "task"], how="left"))
    columns = [
        "paradigm",
        "task",
        "group",
        "n",
        "missing",
        "rate",
        "difference",
        "ci_low",
        "ci_high",
        "p",
        "p_adjusted",
    ]
    table = pd.concat(made, ignore_index=True) if made else pd.DataFrame(columns=[*columns, *REASONS])
    table["missing"] = table[list(REASONS)].sum(axis=1)
    table["n"] += table["missing"]
    table["rate"] = table["missing"] / table["n"].where(table["n"] > 0)
    return table[[*columns, *REASONS]]


def answered(pairs: pd.DataFrame, gaps: pd.DataFrame, level: float) -> dict[str, object]:
    """How much one model answered of what one paradigm asked, and in how many cells its gap is significant.

    ``cells``; ``tested``, those with a p; ``significant``, those of them with p_adjusted_models below ``level``;
    ``significant_share`` of the tested, NaN where none was.
    """
    counts = _counts(pairs)
    counts = counts[counts["task"].eq("all tasks")]
    n, missing = int(counts["n"].sum()), int(counts[list(REASONS)].to_numpy().sum())
    tested, significant = int(gaps["p_adjusted_models"].notna().sum()), int((gaps["p_adjusted_models"] < level).sum())
    return {
        "asked": n + missing, "answered": n, "completion": n / (n + missing) if n + missing else np.nan,
        "cells": len(gaps), "tested": tested, "significant": significant,
        "significant_share": significant / tested if tested else np.nan,
    }  # fmt: skip


def _tests(pairs: pd.DataFrame, of: Matched, code: Codes, confidence_level: float) -> pd.DataFrame:
    """The paper's tests of each cell, and the engine's."""
    tests = published_paired_tests(pairs["delta"], code, len(of.cells), confidence_level).drop(columns="se")
    tests["p_adjusted"] = published_corrected(tests["p"])
    tests = tests.rename(columns={name: f"{name}_published" for name in PUBLISHED})
    found = _cell_tests(of, of.delta, confidence_level)
    del found["mean"]
    caveats = [""] * len(tests) if of.missing_column else of.caveats(of.delta)
    return tests.assign(**found, significant=found["p_adjusted"] < 1 - confidence_level, caveat=caveats)


def _cell_tests(of: Matched, values: Floats, confidence_level: float) -> dict[str, Floats]:
    """Mean, interval, p and adjusted p of each cell; NaN where the data do not name the clusters."""
    crossed = of.crossed(values)
    tests = crossed.tests(confidence_level)
    known = np.nan if of.missing_column else 1.0
    made = {"mean": crossed.mean, "ci_low": tests.low * known, "ci_high": tests.high * known, "p": tests.p * known}
    return {**made, "p_adjusted": benjamini_hochberg(made["p"])}


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


def _sums(values: pd.Series, code: Codes, n_cells: int) -> NDArray[np.float64]:
    return np.bincount(code, weights=values, minlength=n_cells).astype(float)


def _rate(yes: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.float64]:
    rate = np.full(len(n), np.nan)
    np.divide(yes, n, out=rate, where=n > 0)
    return rate


def _margins(of: Matched, confidence_level: float) -> dict[str, Floats]:
    """``margin_gap`` of each cell and its tests."""
    found = _cell_tests(of, of.margin, confidence_level)
    return {"margin_gap": found.pop("mean"), **{f"margin_{name}": values for name, values in found.items()}}


def _ordered(table: pd.DataFrame, first: list[str]) -> pd.DataFrame:
    return table[[*first, *(name for name in table if name not in first)]]
