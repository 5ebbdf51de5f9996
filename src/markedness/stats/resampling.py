"""Resampling by cluster: weights, intervals and permutations that every audit shares.

A cluster is what was drawn together: a prompt, a name, a vignette. Answers of one cluster resemble each
other, so whole clusters are drawn, never single answers (Huang, F. L. 2018. Using cluster bootstrapping to
analyze nested data with a few clusters. Educational and Psychological Measurement 78(2):297-318).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


class Interval(NamedTuple):
    """An estimate with its interval and what it rests on."""

    estimate: float
    low: float
    high: float
    n: int
    """Values that are not missing."""
    n_clusters: int
    """Clusters with at least one such value."""


def multinomial_weights(n_clusters: int, n_resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each cluster is drawn when ``n_clusters`` are drawn with replacement.

    Parameters
    ----------
    n_clusters
        Clusters there are, and drawn each time; at least 1.
    n_resamples
        Replicates.
    rng
        Seeded generator.

    Returns
    -------
    int array, shape (n_resamples, n_clusters)
        Rows sum to ``n_clusters``.

    Raises
    ------
    ValueError
        Without clusters.
    """
    if n_clusters < 1:
        raise ValueError(f"n_clusters is {n_clusters}: there is nothing to draw from")
    return rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size=n_resamples)


def percentile_interval(replicates: ArrayLike, confidence_level: float = 0.95) -> tuple[Any, Any]:
    """Equal-tailed interval between two quantiles of the replicates (linear interpolation).

    Parameters
    ----------
    replicates
        Shape (n_resamples,) or (n_resamples, ...): quantiles go along axis 0; NaN replicates are left out.
    confidence_level
        In (0, 1).

    Returns
    -------
    low, high
        Floats, or arrays of the remaining shape; NaN where all replicates are NaN.
    """
    values = np.asarray(replicates, dtype=float)
    tail = (1 - confidence_level) / 2
    empty = np.isnan(values).all(axis=0) if len(values) else np.ones(values.shape[1:], dtype=bool)
    if empty.all():
        low = high = np.full(values.shape[1:], np.nan)
    elif np.isnan(values).any():
        with_numbers = np.where(empty, 0.0, values)  # a column of NaN would only warn
        low, high = np.where(empty, np.nan, np.nanquantile(with_numbers, [tail, 1 - tail], axis=0))
    else:
        low, high = np.quantile(values, [tail, 1 - tail], axis=0)
    return (low, high) if values.ndim > 1 else (float(low), float(high))


def cluster_bootstrap_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    n_resamples: int,
    rng: np.random.Generator,
    confidence_level: float = 0.95,
) -> Interval:
    """Mean of all values, with a percentile interval over resampled clusters.

    A replicate is the ratio of the drawn clusters' sums to their counts, so large clusters weigh more, as
    they do in the estimate.

    Parameters
    ----------
    values
        Shape (n,); NaN is missing and left out.
    clusters
        Shape (n,); labels of any type.
    n_resamples, rng, confidence_level
        As in `multinomial_weights` and `percentile_interval`.

    Returns
    -------
    Interval
        NaN throughout without values; NaN bounds with fewer than two clusters, of which nothing can be said.
    """
    numbers = np.asarray(values, dtype=float)
    present = ~np.isnan(numbers)
    numbers = numbers[present]
    if not len(numbers):
        return Interval(np.nan, np.nan, np.nan, 0, 0)
    codes, labels = pd.factorize(np.asarray(clusters)[present], use_na_sentinel=False)
    n_clusters = len(labels)
    estimate = float(numbers.mean())
    if n_clusters < 2:
        return Interval(estimate, np.nan, np.nan, len(numbers), n_clusters)
    weights = multinomial_weights(n_clusters, n_resamples, rng)
    sums = np.bincount(codes, weights=numbers, minlength=n_clusters)
    counts = np.bincount(codes, minlength=n_clusters)
    low, high = percentile_interval((weights @ sums) / (weights @ counts), confidence_level)
    return Interval(estimate, low, high, len(numbers), n_clusters)


def permute_within(labels: ArrayLike, blocks: ArrayLike, rng: np.random.Generator) -> NDArray[np.generic]:
    """Labels shuffled within each block: what a null without group differences looks like.

    Parameters
    ----------
    labels, blocks
        Shape (n,); a label moves only among the rows of its block.
    rng
        Seeded generator.

    Returns
    -------
    array, shape (n,)
        The labels, of the same type; each block keeps its counts.
    """
    labels = np.asarray(labels)
    codes, _ = pd.factorize(np.asarray(blocks), use_na_sentinel=False)
    places = np.argsort(codes, kind="stable")
    shuffled = np.lexsort((rng.random(len(labels)), codes))
    permuted = labels.copy()
    permuted[places] = labels[shuffled]
    return permuted


def permuted_share_test(
    hits: ArrayLike, totals: ArrayLike, labels: ArrayLike, n_permutations: int, rng: np.random.Generator
) -> float:
    """Do groups differ in a share? Pearson's chi-square, with its p-value from labels permuted among clusters.

    Parameters
    ----------
    hits, totals, labels
        Shape (clusters,): hits among so many trials of each cluster, and its group.
    n_permutations, rng
        Permutations; seeded generator.

    Returns
    -------
    float
        (1 + permutations at least as extreme) / (1 + permutations); NaN with fewer than two groups, or when no
        or every trial is a hit.
    """
    hits, totals = np.asarray(hits, dtype=float), np.asarray(totals, dtype=float)
    codes, groups = pd.factorize(np.asarray(labels))
    share = hits.sum() / totals.sum() if totals.sum() else np.nan
    if not 0 < share < 1 or len(groups) < 2:
        return float("nan")
    block = np.zeros(len(codes))
    draws = np.stack([codes, *(permute_within(codes, block, rng) for _ in range(n_permutations))])
    statistic = np.zeros(len(draws))
    for group in range(len(groups)):
        inside = draws == group
        n = inside @ totals
        with np.errstate(invalid="ignore", divide="ignore"):  # a group may have no trials
            statistic += np.nan_to_num((inside @ hits - n * share) ** 2 / (n * share * (1 - share)))
    return float((statistic >= statistic[0] * (1 - 1e-12)).mean())
