"""Paired gaps as published, many cells at once: tests, effect sizes, directional consistency.

A *cell* is one estimate: a group and a task. All functions take one row per matched pair with the number of
its cell and sum by `numpy.bincount`, so that millions of pairs and hundreds of cells take seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


def published_paired_tests(
    delta: ArrayLike, cell: ArrayLike, n_cells: int, confidence_level: float = 0.95
) -> pd.DataFrame:
    """One-sample t-test of the paired differences of each cell.

    Parameters
    ----------
    delta
        Shape (n,); marked minus unmarked answer of a pair, in [-1, 1]; NaN where one of the two is missing.
    cell
        Shape (n,); cell of each pair, 0 .. n_cells - 1.
    n_cells
        Cells, also those without a pair.
    confidence_level
        Of the t interval, in (0, 1).

    Returns
    -------
    DataFrame, one row per cell
        ``n_pairs`` (both there); ``gap``, mean difference, positive: the marked group gets yes more often; ``se``
        = sd / sqrt(n); ``t``, ``p`` (two-sided, n - 1 degrees of freedom), ``ci_low``, ``ci_high``: NaN with fewer than
        two pairs or when all differences are equal (no spread to test against; the gap stays); ``n_up``,
        ``n_down``, pairs with a difference above and below 0.

    References
    ----------
    Törnberg (2026), SI, "Statistical analysis".
    """
    delta, cell = _present(delta, cell)
    n = np.bincount(cell, minlength=n_cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(cell, weights=delta, minlength=n_cells) / n
        squares = np.bincount(cell, weights=(delta - mean[cell]) ** 2, minlength=n_cells)
        # equal differences leave rounding error, not a spread
        squares[squares <= n * (1e-12 * np.maximum(1.0, np.abs(np.nan_to_num(mean)))) ** 2] = 0.0
        se = np.sqrt(squares / (n - 1) / n)
        se[(n < 2) | (squares == 0)] = np.nan
        t = mean / se
    p, low, high = _t_interval(mean, se, n - 1, confidence_level)
    up = np.bincount(cell[delta > 0], minlength=n_cells)
    down = np.bincount(cell[delta < 0], minlength=n_cells)
    return pd.DataFrame(
        {"n_pairs": n, "gap": mean, "se": se, "t": t, "p": p, "ci_low": low, "ci_high": high,
         "n_up": up, "n_down": down}
    )  # fmt: skip


def published_corrected(p_values: ArrayLike) -> NDArray[np.float64]:
    """Benjamini-Hochberg over the cells that t could test, as published; NaN stays NaN and does not count."""
    from scipy import stats

    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = stats.false_discovery_control(p[tested], method="bh")
    return adjusted


def welch_from_counts(
    yes: ArrayLike, n: ArrayLike, yes_reference: ArrayLike, n_reference: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Welch's t-test of two sets of 0/1 answers, from their counts.

    Returns
    -------
    t, p
        Positive t: more yes on the first side; NaN with fewer than two answers on a side or no spread on either.
    """
    from scipy import stats

    yes, n, yes_reference, n_reference = (
        np.asarray(counts, dtype=float) for counts in (yes, n, yes_reference, n_reference)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        p1, p2 = yes / n, yes_reference / n_reference
        v1, v2 = p1 * (1 - p1) / (n - 1), p2 * (1 - p2) / (n_reference - 1)
        se = np.sqrt(v1 + v2)
        t = np.where((se > 0) & (n > 1) & (n_reference > 1), (p1 - p2) / se, np.nan)
        df = (v1 + v2) ** 2 / (v1**2 / (n - 1) + v2**2 / (n_reference - 1))
    return t, 2 * stats.t.sf(np.abs(t), df)


def cohens_h(p1: ArrayLike, p2: ArrayLike) -> NDArray[np.float64]:
    """Difference of two proportions on the arcsine scale: 2 asin sqrt(p1) - 2 asin sqrt(p2), in [-pi, pi].

    Positive: the first is larger; 0.2 is called small, 0.5 medium, 0.8 large (Cohen 1988, chapter 6). NaN in, NaN out.
    """
    first, second = (2 * np.arcsin(np.sqrt(np.asarray(p, dtype=np.float64))) for p in (p1, p2))
    return np.asarray(first - second, dtype=np.float64)


def published_directional_consistency(gaps: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How many models have the sign of the cross-model mean gap.

    Parameters
    ----------
    gaps
        Columns ``model``, ``gap`` and those of ``by``; one row per model and cell; NaN gaps are left out.
    by
        What names a cell: ["group", "task"].

    Returns
    -------
    DataFrame, one row per cell
        ``mean_gap``, ``sd`` over models (NaN for one model), ``n_models``, ``same_sign`` (models whose gap has
        the sign of the mean; a gap of 0 has no sign), ``consistency`` = same_sign / n_models, in [0, 1]; NaN when
        the mean is 0. With few models a high share says little: 1 for a single model, always.

    References
    ----------
    Törnberg (2026), SI, "Statistical analysis".
    """
    table = gaps.dropna(subset=["gap"])
    cells = table.groupby(by, sort=False, observed=True)["gap"]
    means = cells.agg(mean_gap="mean", sd="std", n_models="size")
    signs = np.sign(table["gap"].to_numpy()) == np.sign(cells.transform("mean").to_numpy())
    same = pd.Series(signs, index=table.index).groupby([table[name] for name in by], sort=False, observed=True).sum()
    result: pd.DataFrame = means.assign(same_sign=same).reset_index()
    result["consistency"] = (result["same_sign"] / result["n_models"]).where(result["mean_gap"] != 0)
    result["same_sign"] = result["same_sign"].astype("Int64").where(result["mean_gap"] != 0)
    return result


def _present(delta: ArrayLike, *others: ArrayLike) -> tuple[NDArray[Any], ...]:
    """The rows whose difference is not missing."""
    values = np.asarray(delta, dtype=float)
    there = ~np.isnan(values)
    arrays = [np.asarray(other) for other in others]
    return (values, *arrays) if there.all() else (values[there], *(array[there] for array in arrays))


def _t_interval(
    mean: NDArray[Any], se: NDArray[Any], df: NDArray[Any], confidence_level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided p against 0, and the interval; NaN where the standard error is."""
    from scipy import stats

    df = np.maximum(df, 1)
    half = stats.t.ppf(0.5 + confidence_level / 2, df) * se
    return 2 * stats.t.sf(np.abs(mean / se), df), mean - half, mean + half
