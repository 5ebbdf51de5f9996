"""Similarity of texts within groups and between them, from sums of unit vectors per prompt and combination."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from markedness.audits.personas.estimators.marked_words import mean
from markedness.audits.personas.language.groups import Fixed, Grouping
from markedness.stats.similarity import similarity_cells, within_group_similarity

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

    def within(self, n_resamples: int, rng: np.random.Generator, confidence_level: float) -> pd.DataFrame:
        """Similarity within each group that has vectors, see `within_group_similarity`; indexed by group."""
        cells = []
        for group in self.grouping.groups:
            mask = self.grouping.mask(group.fixed)[self.known]
            if mask.any():
                cells.append(similarity_cells(self.vectors[mask], [group.name] * int(mask.sum()), self.prompt[mask]))
        if not cells:
            return pd.DataFrame(columns=["mean_cosine", "ci_low", "ci_high", "n"])
        table = within_group_similarity(pd.concat(cells, ignore_index=True), n_resamples, rng, confidence_level)
        return table.set_index("group")

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
        place = (np.ones(len(cell)), (cell, np.arange(len(cell))))
        sums = sparse.csr_matrix(place, (shape[0] * shape[1], len(cell))) @ self.vectors
        return np.asarray(sums).reshape(*shape, -1), np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)

    def _within(self, fixed: Fixed, sums: NDArray[np.float64], n: NDArray[np.int64]) -> float:
        """Mean over prompts of (|sum u|^2 - n) / (n (n - 1)), the mean cosine of all pairs."""
        fits = self.grouping.fits(fixed)
        total, count = np.tensordot(fits, sums, (0, 1)), n @ fits
        return mean(((total**2).sum(axis=1) - count) / np.where(count > 1, count * (count - 1), np.nan))
