"""How many words chance would mark, and how sure the z of a word is.

Shapes: C combinations, P prompts, K contrasts, G groups, V words; see `markedness.audits.personas.language.contrasts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from markedness.audits.personas.language.contrasts import (
    Contrasts,
    LogOddsPrior,
    contrast_log_odds,
    divergence,
    marked,
)
from markedness.audits.personas.language.groups import Grouping
from markedness.audits.personas.language.word_counts import WordCounts
from markedness.stats.resampling import permute_within


@dataclass(frozen=True)
class Null:
    """What comes out when group labels are shuffled within prompt."""

    marked: NDArray[np.float64]
    """Number of marked words, (n_permutations, G)."""
    divergence: NDArray[np.float64]
    """Jensen-Shannon divergence in bits, (n_permutations, G)."""


def permutations(grouping: Grouping, n_permutations: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """The texts' combinations, (n,), shuffled within prompt; whole combinations move. None where nothing can move."""
    for _ in range(n_permutations if grouping.permutable else 0):
        yield np.asarray(permute_within(grouping.combination, grouping.prompt, rng))


def permutation_null(
    counts: WordCounts,
    shuffles: Iterator[NDArray[np.int64]],
    contrasts: Contrasts,
    prior: LogOddsPrior,
    threshold: float,
) -> Null:
    """Marked words and divergence under no difference between groups.

    Parameters
    ----------
    counts
        Of n texts.
    shuffles
        The texts' combinations in each permutation, see `permutations`.
    contrasts, prior
        See `markedness.audits.personas.language.contrasts`.
    threshold
        A word is marked above this z.
    """
    listed = counts.words != ""
    n_combinations, n_groups = contrasts.targets.shape[1], len(contrasts.starts)
    found, bits = [], []
    for combination in shuffles:
        pooled = counts.pooled(combination, n_combinations)
        z = contrast_log_odds(pooled, contrasts, prior).z
        found.append(marked(z, contrasts, threshold)[:, listed].sum(axis=1))
        bits.append(divergence(pooled, contrasts).total)
    shape = (len(found), n_groups)
    return Null(np.array(found, dtype=float).reshape(shape), np.array(bits, dtype=float).reshape(shape))


def resampled_z(
    cells: NDArray[np.float64],
    totals: NDArray[np.float64],
    weights: NDArray[np.float64],
    contrasts: Contrasts,
    prior: LogOddsPrior,
) -> NDArray[np.float64]:
    """The z of some words when each prompt counts as often as a weight says.

    Parameters
    ----------
    cells
        Counts of the words in question, (P, C, V).
    totals
        All words, (P, C).
    weights
        (B, P): drawn counts for a bootstrap over prompts, 1 - identity to leave out one prompt each.

    Returns
    -------
    array, (B, K, V)
    """
    counts = np.tensordot(weights, cells, axes=1)
    return contrast_log_odds(counts, contrasts, prior, weights @ totals).z


def permutation_p(observed: float, null: NDArray[np.float64]) -> float:
    """One-sided permutation p-value: (1 + #{null >= observed}) / (1 + n); NaN if either is missing."""
    null = null[~np.isnan(null)]
    if not len(null) or np.isnan(observed):
        return float("nan")
    return float((1 + (null >= observed - 1e-12).sum()) / (1 + len(null)))


def mean(values: ArrayLike) -> float:
    """Mean of what is not missing; NaN where nothing is."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.mean()) if len(numbers) else float("nan")
