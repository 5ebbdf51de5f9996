"""Marked words: what sets the texts of a group apart from those of each unmarked group it is compared with.

Texts carry a combination of axis values ("Black", "woman") and a prompt. A contrast compares all texts whose
combination fits the target with all texts whose combination fits a reference; a group has one contrast per
reference, and a word is marked for it when it is significant in all of them.

Shapes: C combinations, P prompts, K contrasts, G groups, V words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from markedness.stats.divergence import jensen_shannon
from markedness.stats.log_odds import Prior, WordCounts, log_odds_z, prior_counts
from markedness.stats.resampling import permute_within


@dataclass(frozen=True)
class Contrasts:
    """Which combinations of values make up each target and each reference."""

    targets: np.ndarray
    """0 or 1, (K, C)."""
    references: np.ndarray
    """0 or 1, (K, C)."""
    group: np.ndarray
    """Index of the group of each contrast, (K,), ascending from 0 without gaps."""

    @property
    def starts(self) -> np.ndarray:
        """Index of each group's first contrast, (G,)."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    def of_group(self, group: int) -> Contrasts:
        """The contrasts of one group."""
        rows = self.group == group
        return Contrasts(self.targets[rows], self.references[rows], np.zeros(rows.sum(), dtype=int))


@dataclass(frozen=True)
class Method:
    """How log-odds are computed; the defaults are the published ones."""

    prior: Prior = "corpus"
    prior_scale: float = 1.0
    threshold: float = 1.96
    """A word is significant above this z."""


def contrast_z(
    counts: np.ndarray, contrasts: Contrasts, method: Method, totals: np.ndarray | None = None
) -> np.ndarray:
    """The z of each word in each contrast.

    Parameters
    ----------
    counts
        Word counts per combination, (..., C, V).
    contrasts, method
        See there.
    totals
        All words per combination, (..., C); the sums of ``counts`` unless given, as they must be when ``counts``
        holds some words only. With the prior "uninformative" the prior's total is that of the given words.

    Returns
    -------
    array, (..., K, V)
        Positive: typical of the target.
    """
    n = counts.sum(axis=-1) if totals is None else totals
    target, reference = contrasts.targets @ counts, contrasts.references @ counts
    corpus = counts.sum(axis=-2)[..., None, :]
    prior = prior_counts(corpus, target, reference, method.prior, method.prior_scale)
    n1, n2 = n @ contrasts.targets.T, n @ contrasts.references.T
    n_corpus = n.sum(axis=-1)[..., None] + np.zeros_like(n1)
    all_words = {"corpus": n_corpus, "others": np.maximum(n_corpus - n1 - n2, 0), "compared": n1 + n2}
    total = prior.sum(axis=-1)
    if totals is not None and method.prior in all_words:
        total = method.prior_scale * all_words[method.prior]
    return log_odds_z(target, reference, prior, n1, n2, total)


def marked(z: np.ndarray, contrasts: Contrasts, threshold: float) -> np.ndarray:
    """Whether each word is above the threshold in all contrasts of each group, (..., G, V), from z (..., K, V)."""
    return np.logical_and.reduceat(z > threshold, contrasts.starts, axis=-2)


def divergence(counts: np.ndarray, contrasts: Contrasts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Jensen-Shannon divergence of each group's texts from its references in one pile.

    Texts that fit two references are in the pile twice, as published. Returns total (G,), share and side
    (G, V), see `markedness.stats.divergence.jensen_shannon`.
    """
    pile = np.add.reduceat(contrasts.references, contrasts.starts, axis=0)
    return jensen_shannon(contrasts.targets[contrasts.starts] @ counts, pile @ counts)


@dataclass(frozen=True)
class Null:
    """What comes out when group labels are shuffled within prompt."""

    marked: np.ndarray
    """Number of marked words, (n_permutations, G)."""
    divergence: np.ndarray
    """Jensen-Shannon divergence in bits, (n_permutations, G)."""


def permutation_null(
    counts: WordCounts,
    combinations: np.ndarray,
    prompts: np.ndarray,
    contrasts: Contrasts,
    method: Method,
    n_permutations: int,
    rng: np.random.Generator,
) -> Null:
    """Marked words and divergence under no difference between groups.

    Parameters
    ----------
    counts
        One document per text, n of them.
    combinations, prompts
        Codes, (n,). Whole combinations move between the texts of one prompt.
    contrasts, method, n_permutations, rng
        See there.
    """
    listed = counts.words != ""
    n_combinations, n_groups = contrasts.targets.shape[1], len(contrasts.starts)
    found = np.zeros((n_permutations, n_groups))
    bits = np.zeros((n_permutations, n_groups))
    for draw in range(n_permutations):
        shuffled = np.asarray(permute_within(combinations, prompts, rng))
        pooled = counts.pooled(shuffled, n_combinations)
        z = contrast_z(pooled, contrasts, method)
        found[draw] = marked(z, contrasts, method.threshold)[:, listed].sum(axis=1)
        bits[draw] = divergence(pooled, contrasts)[0]
    return Null(found, bits)


def resampled_z(
    cells: np.ndarray, totals: np.ndarray, weights: np.ndarray, contrasts: Contrasts, method: Method
) -> np.ndarray:
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
    return contrast_z(counts, contrasts, method, weights @ totals)


def permutation_p(observed: float, null: np.ndarray) -> float:
    """Share of the null that is at least as large as observed, which counts as one of it; NaN without a null."""
    null = null[~np.isnan(null)]
    if not len(null) or np.isnan(observed):
        return float("nan")
    return float((1 + (null >= observed - 1e-12).sum()) / (1 + len(null)))
