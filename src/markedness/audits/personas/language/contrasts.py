"""Each group's words against those of its unmarked groups.

Texts carry a combination of axis values ("Black", "woman") and a prompt. A contrast compares all texts whose
combination fits the target with all texts whose combination fits a reference; a group has one contrast per
reference, and a word is marked for it when it is significant in all of them.

Shapes: C combinations, K contrasts, G groups, V words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from markedness.audits.personas.language.divergence import Divergence, jensen_shannon
from markedness.audits.personas.language.log_odds import LogOdds, Prior, log_odds, prior_counts


@dataclass(frozen=True)
class Contrasts:
    """Which combinations of values make up each target and each reference."""

    targets: NDArray[np.float64]
    """0 or 1, (K, C)."""
    references: NDArray[np.float64]
    """0 or 1, (K, C)."""
    group: NDArray[np.int64]
    """Index of the group of each contrast, (K,), ascending from 0 without gaps."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Index of each group's first contrast, (G,)."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    def of_group(self, group: int) -> Contrasts:
        """The contrasts of one group."""
        rows = self.group == group
        return Contrasts(self.targets[rows], self.references[rows], np.zeros(rows.sum(), dtype=int))


@dataclass(frozen=True)
class LogOddsPrior:
    """The prior of the log-odds; the default is the published one."""

    prior: Prior = "corpus"
    scale: float = 1.0


def contrast_log_odds(
    counts: NDArray[np.float64],
    contrasts: Contrasts,
    prior: LogOddsPrior,
    totals: NDArray[np.float64] | None = None,
) -> LogOdds:
    """Log-odds of each word in each contrast.

    Parameters
    ----------
    counts
        Word counts per combination, (..., C, V).
    contrasts, prior
        See `Contrasts` and `LogOddsPrior`.
    totals
        All words per combination, (..., C); the sums of ``counts`` unless given, as they must be when ``counts``
        holds some words only. With the prior "uninformative" the prior's total is that of the given words.

    Returns
    -------
    LogOdds
        Both arrays (..., K, V). Positive: typical of the target.
    """
    n = counts.sum(axis=-1) if totals is None else totals
    target, reference = contrasts.targets @ counts, contrasts.references @ counts
    corpus = counts.sum(axis=-2)[..., None, :]
    a = prior_counts(corpus, target, reference, prior.prior, prior.scale)
    n1, n2 = n @ contrasts.targets.T, n @ contrasts.references.T
    n_corpus = n.sum(axis=-1)[..., None] + np.zeros_like(n1)
    all_words = {"corpus": n_corpus, "others": np.maximum(n_corpus - n1 - n2, 0), "compared": n1 + n2}
    total = a.sum(axis=-1)
    if totals is not None and prior.prior in all_words:
        total = prior.scale * all_words[prior.prior]
    return log_odds(target, reference, a, n1, n2, total)


def marked(z: NDArray[np.float64], contrasts: Contrasts, threshold: float) -> NDArray[np.bool_]:
    """Whether each word is above the threshold in all contrasts of each group, (..., G, V), from z (..., K, V)."""
    return np.logical_and.reduceat(z > threshold, contrasts.starts, axis=-2)


def divergence(counts: NDArray[np.float64], contrasts: Contrasts) -> Divergence:
    """Jensen-Shannon divergence of each group's texts from the texts of its references together, (G,) and (G, V).

    Texts that fit two references are counted twice, as published. ``counts`` is (C, V); p is the group.
    """
    together = np.add.reduceat(contrasts.references, contrasts.starts, axis=0)
    return jensen_shannon(contrasts.targets[contrasts.starts] @ counts, together @ counts)
