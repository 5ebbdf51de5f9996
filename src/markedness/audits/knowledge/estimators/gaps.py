"""Means by group and gaps to a reference group, with bootstrap replicates and a permutation null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.audits.knowledge.estimators.topic_divergence import permutations_within
from markedness.stats.resampling import multinomial_weights


@dataclass(frozen=True)
class GroupMeans:
    """Means of G groups; columns in the order that was asked for."""

    estimate: NDArray[np.float64]
    """Shape (G,); NaN for a group without values."""
    resampled: NDArray[np.float64]
    """Shape (n_resamples, G): means of resampled clusters; NaN where a group was not drawn or there are fewer than two
    clusters."""
    permuted: NDArray[np.float64]
    """Shape (n_permutations, G): means under labels permuted within cluster."""
    n: NDArray[np.int64]
    """Shape (G,): values that are not missing."""


def group_means(
    values: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    order: list[str],
    n_resamples: int,
    n_permutations: int,
    rng: np.random.Generator,
) -> GroupMeans:
    """Means by group with replicates of both kinds.

    Parameters
    ----------
    values
        Shape (n,); NaN is missing and left out.
    groups, clusters
        Shape (n,). Whole clusters are drawn, the same for all groups, so that gaps are paired.
    order
        The groups, G of them.
    n_resamples, n_permutations
        Replicates.
    rng
        Seeded generator.
    """
    numbers = np.asarray(values, dtype=float)
    present = ~np.isnan(numbers)
    numbers = numbers[present]
    place = {name: index for index, name in enumerate(order)}
    codes = np.array([place[group] for group in np.asarray(groups)[present]], dtype=np.int64)
    blocks, names = pd.factorize(np.asarray(clusters)[present], use_na_sentinel=False)
    size = len(order)
    counts = np.bincount(codes, minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = np.bincount(codes, weights=numbers, minlength=size) / counts
        resampled = np.full((n_resamples, size), np.nan)
        if len(names) > 1:
            cells = blocks * size + codes
            weights = multinomial_weights(len(names), n_resamples, rng)
            by_cluster = np.bincount(cells, minlength=len(names) * size).reshape(-1, size)
            sums = np.bincount(cells, weights=numbers, minlength=len(names) * size).reshape(-1, size)
            resampled = (weights @ sums) / (weights @ by_cluster)
        permuted = np.full((n_permutations, size), np.nan)
        if len(codes):
            shuffled = codes[permutations_within(blocks, n_permutations, rng)]
            cells = np.arange(n_permutations)[:, None] * size + shuffled
            weighted = np.broadcast_to(numbers, shuffled.shape)
            totals = np.bincount(cells.ravel(), weights=weighted.ravel(), minlength=n_permutations * size)
            permuted = totals.reshape(-1, size) / counts
    return GroupMeans(estimate, resampled, permuted, counts)


@dataclass(frozen=True)
class Gap:
    """A difference of means, marked less reference, with its replicates."""

    estimate: float
    """NaN where a mean is missing."""
    resampled: NDArray[np.float64]
    """Shape (n_resamples,)."""
    permuted: NDArray[np.float64]
    """Shape (n_permutations,)."""


def gap_of(means: GroupMeans, places: Sequence[int], reference: int) -> Gap:
    """Unweighted mean of some groups less the mean of the reference group.

    Parameters
    ----------
    means
        Means of G groups.
    places
        Columns of the groups; a group without values is left out, unless all are.
    reference
        Column of the reference group.

    Returns
    -------
    Gap
        Positive: the groups have the larger mean. NaN where the reference or all groups are without values.
    """
    used = [place for place in places if not np.isnan(means.estimate[place])] or list(places)
    estimate, resampled, permuted = (
        values[..., used].mean(axis=-1) - values[..., reference]
        for values in (means.estimate, means.resampled, means.permuted)
    )
    return Gap(float(estimate), resampled, permuted)


def mean_gap(gaps: Sequence[Gap]) -> Gap:
    """Unweighted mean of gaps, replicate by replicate; at least one."""
    return Gap(
        float(np.mean([gap.estimate for gap in gaps])),
        np.mean([gap.resampled for gap in gaps], axis=0),
        np.mean([gap.permuted for gap in gaps], axis=0),
    )


def two_sided_p(estimate: float, null: NDArray[np.float64]) -> float:
    """Two-sided permutation p-value, (1 + #{abs(null - mean) >= abs(estimate - mean)}) / (1 + n).

    The mean is that of the null; NaN replicates are left out. NaN where the estimate or the null is missing.
    """
    null = null[~np.isnan(null)]
    if np.isnan(estimate) or not len(null):
        return float("nan")
    far = np.abs(null - null.mean()) >= abs(estimate - null.mean()) - 1e-12
    return float((1 + far.sum()) / (1 + len(null)))
