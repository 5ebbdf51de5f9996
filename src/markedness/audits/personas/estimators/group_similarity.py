"""Similarity of texts within groups and between them, from sums of unit vectors per prompt and combination."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from markedness.audits.personas.estimators.units import Units, mean
from markedness.audits.personas.language.groups import Fixed, Grouping
from markedness.stats.inference import Floats

_MAX_CELLS = 100_000_000
"""Numbers that the sums may hold; with more prompts than that hardly a prompt has two texts of a group."""


class GroupSimilarity:
    """Mean cosine between sentence embeddings of texts that answer the same prompt.

    Parameters
    ----------
    grouping
        Of n texts.
    texts
        Their numbers, (n,).
    embeddings
        Columns text and embedding (unit vector); a text may have none.
    """

    def __init__(self, grouping: Grouping, texts: NDArray[np.int64], embeddings: pd.DataFrame) -> None:
        self.grouping = grouping
        row = pd.Index(embeddings["text"]).get_indexer(texts)
        self.known = row >= 0
        vectors = embeddings["embedding"].to_numpy()[row[self.known]]
        size = len(vectors[0]) if len(vectors) else 0
        if grouping.n_prompts * grouping.n_combinations * size > _MAX_CELLS:
            self.known = np.zeros_like(self.known)
        self.vectors = np.stack(vectors.tolist()).astype(float) if self.known.any() else np.empty((0, 1))
        self.prompt = grouping.prompt[self.known]

    def within(self, fixed: Fixed, units: Units) -> tuple[float, Floats]:
        """Mean over prompts of the mean cosine of the group's texts, and what each cluster contributes, (clusters,).

        A cluster is left out exactly: with s the sum of the n unit vectors of a prompt and w that of its m, the mean
        cosine is (|s - w|^2 - (n - m)) / ((n - m) (n - m - 1)). NaN where no prompt has two texts.
        """
        influences = np.zeros(len(units.clusters.names))
        rows = np.flatnonzero(self.grouping.mask(fixed)[self.known])
        keys = np.column_stack([self.prompt[rows], units.clusters.of_unit[units.of_text[self.known]][rows]])
        pairs, code = np.unique(keys, axis=0, return_inverse=True)
        if not len(pairs):
            return float("nan"), influences
        own = _sums(self.vectors[rows], code.reshape(-1), len(pairs))
        of_prompt = np.unique(pairs[:, 0], return_inverse=True)[1].reshape(-1)
        total = np.zeros((int(of_prompt.max()) + 1, own.shape[1]))
        np.add.at(total, of_prompt, own)
        m = np.bincount(code.reshape(-1)).astype(float)
        n = np.bincount(of_prompt, m)
        with np.errstate(divide="ignore", invalid="ignore"):
            cells = np.where(n > 1, (np.square(total).sum(axis=1) - n) / (n * (n - 1)), np.nan)
            left = n[of_prompt] - m
            squared = np.square(total[of_prompt] - own).sum(axis=1)
            without = np.where(left > 1, (squared - left) / (left * (left - 1)), np.nan)
        used = np.isfinite(cells)
        if not used.any():
            return float("nan"), influences
        estimate, n_prompts, here = float(cells[used].mean()), int(used.sum()), cells[of_prompt]
        moved = np.where(np.isfinite(without), (here - without) / n_prompts * left / n[of_prompt], 0.0)
        if n_prompts > 1:
            # A prompt that is left with less than two texts drops out of the mean over prompts.
            moved = np.where(np.isfinite(without), moved, (here - estimate) / n_prompts)
        np.add.at(influences, pairs[used[of_prompt], 1], moved[used[of_prompt]])
        return estimate, influences

    def difference_with_influences(self, units: Units) -> tuple[float, Floats]:
        """`difference` of the grouping's own combinations, and what each cluster contributes to it, (clusters,)."""
        parts = [
            tuple(self.within(fixed, units) for fixed in (group.fixed, group.references[0][1]))
            for group in self.grouping.groups
            if len(group.fixed) == 1 and group.marked and group.references
        ]
        known = [(own[0] - other[0], own[1] - other[1]) for own, other in parts if np.isfinite(own[0] - other[0])]
        if not known:
            return float("nan"), np.zeros(len(units.clusters.names))
        return float(np.mean([value for value, _ in known])), np.asarray(np.mean([part for _, part in known], axis=0))

    def difference(self, combination: NDArray[np.int64]) -> float:
        """Mean over the marked values of the similarity within each minus that within its axis' unmarked value.

        ``combination`` gives the texts' combinations, (n,): the grouping's own, or shuffled ones for a null. NaN
        where no marked value has an unmarked one beside it. Positive: marked groups are more alike.
        """
        if not self.known.any():
            return float("nan")
        sums, n = self._sums(combination)
        single = [g for g in self.grouping.groups if len(g.fixed) == 1 and g.marked and g.references]
        differences = [self._within(g.fixed, sums, n) - self._within(g.references[0][1], sums, n) for g in single]
        return mean(np.array(differences))

    def distances(self) -> dict[tuple[str, str], float]:
        """(marked group, reference) -> 1 minus the mean over prompts of the mean cosine between their texts."""
        if not self.known.any():
            return {}
        sums, n = self._sums(self.grouping.combination)
        found = {}
        for group in self.grouping.compared:
            own = self.grouping.fits(group.fixed)
            for name, fixed in group.references if group.marked else ():
                other = self.grouping.fits(fixed)
                cosines = (np.tensordot(own, sums, (0, 1)) * np.tensordot(other, sums, (0, 1))).sum(axis=1)
                pairs = (n @ own) * (n @ other)
                found[group.name, name] = 1 - mean(cosines / np.where(pairs > 0, pairs, np.nan))
        return found

    def _sums(self, combination: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sum of the vectors (P, C, d) and number of texts (P, C)."""
        shape = (self.grouping.n_prompts, self.grouping.n_combinations)
        cell = self.prompt * shape[1] + combination[self.known]
        sums = _sums(self.vectors, cell, shape[0] * shape[1])
        return sums.reshape(*shape, -1), np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)

    def _within(self, fixed: Fixed, sums: NDArray[np.float64], n: NDArray[np.int64]) -> float:
        """Mean over prompts of (|sum u|^2 - n) / (n (n - 1)), the mean cosine of all pairs."""
        fits = self.grouping.fits(fixed)
        total, count = np.tensordot(fits, sums, (0, 1)), n @ fits
        return mean(((total**2).sum(axis=1) - count) / np.where(count > 1, count * (count - 1), np.nan))


def _sums(vectors: Floats, code: NDArray[np.int64], n: int) -> Floats:
    """Rows summed by code, (n, d)."""
    place = (np.ones(len(code)), (code, np.arange(len(code))))
    return np.asarray(scipy.sparse.csr_matrix(place, (n, len(code))) @ vectors)
