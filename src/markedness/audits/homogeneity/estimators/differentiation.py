"""Probability of differentiation: how likely two answers drawn from a group differ, and its bootstrap.

Source: Lee & Lai, Probability of Differentiation Reveals Brittleness of Homogeneity Bias in GPT-4, sections
2.3 and 2.4; the measure is that of Linville, Fischer & Salovey 1989 (one minus the Simpson index).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


def probability_of_differentiation(counts: ArrayLike) -> NDArray[np.float64]:
    """P_d = 1 - sum_i (c_i / N)^2 over the last axis (equation 1).

    Parameters
    ----------
    counts
        Answers per response category, shape (..., categories).

    Returns
    -------
    float array, shape (...)
        In [0, 1); 0: all answers are one category. NaN where there are no answers.

    Notes
    -----
    The two answers are drawn with replacement, as published: P_d of n answers that all differ is 1 - 1/n.
    """
    counts = np.asarray(counts, dtype=np.float64)
    total = counts.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - np.einsum("...i,...i->...", counts, counts) / np.square(total))


def published_weights(n_clusters: int, n_resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
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


def published_interval(replicates: ArrayLike, confidence_level: float = 0.95) -> tuple[Any, Any]:
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


def published_cluster_replicates(counts: Any, weights: ArrayLike) -> NDArray[np.float64]:
    """P_d of each resample of whole clusters: the counts of all resamples are weights times counts.

    Parameters
    ----------
    counts
        Answers per cluster and category, shape (clusters, categories); an array or a scipy sparse array.
    weights
        How often each cluster is drawn, shape (n_resamples, clusters), see
        `published_weights`.

    Returns
    -------
    float array, shape (n_resamples,)
    """
    return probability_of_differentiation(np.asarray(weights, dtype=np.float64) @ counts)


def published_row_replicates(counts: ArrayLike, n_resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """P_d of each resample of single answers, for answers without a cluster.

    To draw N of N answers with replacement and count their categories is one multinomial draw.

    Parameters
    ----------
    counts
        Answers per category, shape (categories,).
    n_resamples, rng
        Replicates; seeded generator.

    Returns
    -------
    float array, shape (n_resamples,)
        NaN without answers.
    """
    counts = np.asarray(counts, dtype=np.int64)
    total = int(counts.sum())
    if total == 0:
        return np.full(n_resamples, np.nan)
    return probability_of_differentiation(rng.multinomial(total, counts / total, size=n_resamples))


class Replicates(NamedTuple):
    """The bootstrap of one group in one cue."""

    cue: str
    drawn: NDArray[np.float64]
    """P_d of each resample."""
    sample: float
    """P_d of the answers themselves."""
    n: int
    n_clusters: int


class CategoryCounts:
    """Answers of clusters in cues, as one sparse matrix of clusters x categories for each cue.

    Parameters
    ----------
    cues, clusters, categories, counts
        Shape (n,) each: number of answers of a cluster in a cue that are in a category. A cluster (a name) may answer
        in several cues.
    """

    def __init__(self, cues: ArrayLike, clusters: ArrayLike, categories: ArrayLike, counts: ArrayLike) -> None:
        from scipy.sparse import coo_array

        codes, self.clusters = pd.factorize(np.asarray(clusters))
        categories, counts = np.asarray(categories, dtype=object), np.asarray(counts, dtype=float)
        self.cues: dict[str, tuple[NDArray[np.intp], Any]] = {}
        """Cue -> codes of its clusters (indices into ``clusters``), and their matrix."""
        for cue, places in pd.Series(np.asarray(cues)).groupby(np.asarray(cues), sort=False).indices.items():
            present, row = np.unique(codes[places], return_inverse=True)
            category, names = pd.factorize(categories[places], use_na_sentinel=False)
            matrix = coo_array((counts[places], (row, category)), shape=(len(present), len(names))).tocsr()
            self.cues[str(cue)] = (present, matrix)

    def replicates(
        self, members: NDArray[np.bool_], n_resamples: int, rng: np.random.Generator
    ) -> Iterator[Replicates]:
        """Bootstrap P_d of a group in each cue in which it has answers.

        As many clusters as the group has are drawn with replacement, not stratified, each with all its answers in
        all its cues, so that averages over cues keep the correlation between cues. Where every cluster has a single
        answer, answers are drawn.

        Parameters
        ----------
        members
            Shape (clusters,): whether a cluster belongs to the group.
        n_resamples, rng
            Replicates; seeded generator.
        """
        weights: dict[bytes, NDArray[np.int64]] = {}
        for cue, (codes, matrix) in self.cues.items():
            own = np.flatnonzero(members[codes])
            if not len(own):
                continue
            counts = matrix[own]
            total = counts.sum(axis=0)
            sample, n = float(probability_of_differentiation(total)), int(total.sum())
            if n == len(own):
                yield Replicates(cue, published_row_replicates(total, n_resamples, rng), sample, n, n)
                continue
            key = codes[own].tobytes()
            if key not in weights:
                weights[key] = published_weights(len(own), n_resamples, rng)
            yield Replicates(cue, published_cluster_replicates(counts, weights[key]), sample, n, len(own))
