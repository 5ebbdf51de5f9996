"""How much of a study can be replicated at all: the published criterion between two halves of the study itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.group_differences import PairCounts, jackknife_variance
from markedness.audits.homogeneity.estimators.groups import AxisLabels
from markedness.audits.homogeneity.replication import effect_to_correlation
from markedness.stats.inference import Codes, Floats


def ceiling(
    counts: PairCounts, axes: Sequence[AxisLabels], rng: np.random.Generator, by: str, n_splits: int = 8
) -> float:
    """Share of the effects of one half of a study that its other half replicates, by the published criterion.

    Parameters
    ----------
    by
        "name": half of the names of each group against the other half; "sample": half of the answers of each name.
    n_splits
        Random splits, over which the share is averaged.

    Returns
    -------
    float
        In [0, 1]; NaN where no effect can be estimated in both halves. The published share of two studies of half the
        size can hardly be larger.
    """
    shares = []
    if not axes:
        return float("nan")
    for _ in range(n_splits):
        halves = (counts, counts) if by == "name" else counts.thinned(rng)
        chosen = _half(axes, rng) if by == "name" else np.ones(len(counts.names), dtype=bool)
        sides = [chosen, ~chosen] if by == "name" else [chosen, chosen]
        first, second = (
            np.concatenate([_effects(half, np.where(side, one.codes, -1), len(one.values)) for one in axes])
            for half, side in zip(halves, sides, strict=True)
        )
        known = np.isfinite(first) & np.isfinite(second)
        if known.any():
            shares.append(float(_replicates(first[known], second[known]).mean()))
    return float(np.mean(shares)) if shares else float("nan")


def _half(axes: Sequence[AxisLabels], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the names that share all their values, the odd one in either half."""
    cell = pd.factorize(pd.Series(list(zip(*(one.codes.tolist() for one in axes), strict=True))))[0]
    order = np.lexsort((rng.random(len(cell)), cell))
    rank = np.empty(len(cell), dtype=np.intp)
    rank[order] = np.arange(len(cell))
    within = rank - pd.Series(rank).groupby(cell).transform("min").to_numpy()
    return np.asarray((within + rng.integers(2, size=int(cell.max()) + 1)[cell]) % 2 == 0)


def _effects(counts: PairCounts, codes: Codes, n_groups: int) -> Floats:
    """Cohen's d of bootstrap replicates, with the jackknife variance in place of theirs; shape (values x cues,)."""
    whole, left = counts.differences(codes[None, :], n_groups)
    made = []
    for value in range(n_groups - 1):
        keep = np.where((codes == 0) | (codes == value + 1), codes, -1)[None, :]
        variance = np.array(
            [jackknife_variance(left[:, value, cue], np.where(keep > 0, 1, keep))[0] for cue in range(left.shape[2])]
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            made.append(np.where(variance > 0, whole[0, value] / np.sqrt(variance / 2), np.nan))
    return np.concatenate(made)


def _replicates(first: Floats, second: Floats, n_resamples: int = 1000) -> NDArray[np.bool_]:
    """The published criterion with the published number of replicates."""
    from scipy.stats import norm

    r = effect_to_correlation(second, n_resamples)
    margin = norm.ppf(0.975) * (1 - r**2) / np.sqrt(2 * n_resamples - 2)
    return np.asarray(np.abs(effect_to_correlation(first, n_resamples) - r) <= margin)
