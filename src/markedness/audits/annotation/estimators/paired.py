"""Paired gaps, many cells at once: tests, cluster-robust intervals, sign-flip nulls, directional consistency.

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
    """One-sample t-test of the paired differences of each cell, and the exact sign test beside it.

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
        ``n_down``, pairs with a difference above and below 0; ``p_exact``, two-sided binomial test of ``n_up`` against
        ``n_down`` at 1/2, which for answers 0 and 1 is McNemar's exact test and the exact sign-flip test: it
        is also defined where t is not, and is 1 when no pair differs, NaN without pairs.

    References
    ----------
    Törnberg (2026), SI, "Statistical analysis". McNemar (1947), Psychometrika 12:153-157.
    """
    from scipy import stats

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
    exact = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(up, down), up + down, 0.5))
    exact = np.where(n == 0, np.nan, np.where(up + down == 0, 1.0, exact))
    return pd.DataFrame(
        {"n_pairs": n, "gap": mean, "se": se, "t": t, "p": p, "ci_low": low, "ci_high": high,
         "n_up": up, "n_down": down, "p_exact": exact}
    )  # fmt: skip


def clustered_intervals(
    delta: ArrayLike, cell: ArrayLike, cluster: ArrayLike, n_cells: int, confidence_level: float = 0.95
) -> pd.DataFrame:
    """Cluster-robust interval of each cell's mean difference.

    se^2 = G / (G - 1) * sum over clusters of (sum of (delta - mean) in it)^2 / n^2, with t at G - 1 degrees of
    freedom: the CR1 sandwich of a mean. Pairs of one cluster (vignette, pair of names) may resemble each other.

    Parameters
    ----------
    delta, cell, n_cells, confidence_level
        As in `published_paired_tests`.
    cluster
        Shape (n,); codes >= 0, or -1 where it is not known: such pairs are left out.

    Returns
    -------
    DataFrame, one row per cell
        ``n_clusters``, ``se``, ``ci_low``, ``ci_high``, ``p``; NaN with fewer than two clusters or no spread between
        them. The interval is around the mean of the pairs whose cluster is known.

    References
    ----------
    Cameron & Miller (2015), Journal of Human Resources 50:317-372, equations 11 and 12.
    """
    cluster = np.asarray(cluster)
    known = cluster >= 0
    delta, cell, cluster = _present(np.asarray(delta)[known], np.asarray(cell)[known], cluster[known])
    n = np.bincount(cell, minlength=n_cells)
    n_labels = int(cluster.max()) + 1 if len(cluster) else 1
    codes, keys = pd.factorize(cell.astype(np.int64) * n_labels + cluster)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(cell, weights=delta, minlength=n_cells) / n
        sums = np.bincount(codes, weights=delta - mean[cell], minlength=len(keys))
        cell_of_key = (keys // n_labels).astype(np.int64)
        groups = np.bincount(cell_of_key, minlength=n_cells)
        squares = np.bincount(cell_of_key, weights=sums**2, minlength=n_cells)
        squares[squares <= (1e-12 * n) ** 2] = 0.0
        se = np.sqrt(groups / (groups - 1) * squares) / n
        se[(groups < 2) | (squares == 0)] = np.nan
    p, low, high = _t_interval(mean, se, groups - 1, confidence_level)
    return pd.DataFrame({"n_clusters": groups, "se": se, "ci_low": low, "ci_high": high, "p": p})


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


def sign_flip_sizes(
    delta: ArrayLike, cell: ArrayLike, unit: ArrayLike, n_cells: int, n_permutations: int, rng: np.random.Generator
) -> tuple[float, NDArray[np.float64]]:
    """Mean absolute gap over cells, and its distribution when marked and unmarked are swapped at random within pairs.

    Parameters
    ----------
    delta, cell, n_cells
        As in `published_paired_tests`.
    unit
        Shape (n,); codes >= 0 of what is flipped as one: the pair, with all the tasks it was judged on.
    n_permutations
        Flips.
    rng
        Seeded generator.

    Returns
    -------
    size, null
        The observed mean over cells with a pair of |mean difference|, in [0, 1], and ``n_permutations`` draws of
        it under the null. ``size`` is above 0 without any effect, so it is read against ``null``. NaN without pairs.
    """
    values, cells, units = _present(delta, cell, unit)
    if not len(values):
        return np.nan, np.full(n_permutations, np.nan)
    n = np.bincount(cells, minlength=n_cells)
    some = n > 0

    def size(signed: NDArray[Any], of_cell: NDArray[Any]) -> float:
        sums = np.bincount(of_cell, weights=signed, minlength=n_cells)
        return float(np.mean(np.abs(sums[some]) / n[some]))

    observed = size(values, cells)
    differs = values != 0  # the others add nothing, whatever their sign
    values, cells = values[differs], cells[differs]
    codes, labels = pd.factorize(units[differs])
    null = np.empty(n_permutations)
    for draw in range(n_permutations):
        signs = rng.integers(0, 2, size=len(labels), dtype=np.int8) * 2 - 1
        null[draw] = size(values * signs[codes], cells)
    return observed, null


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
