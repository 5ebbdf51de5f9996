"""Similarity of texts within groups and between them, from sums of unit vectors per prompt and combination."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from markedness.audits.personas.estimators.units import Units, mean
from markedness.audits.personas.language.groups import Fixed, Group, Grouping
from markedness.stats.inference import Floats

_MAX_CELLS = 100_000_000
"""Numbers that the sums may hold; with more prompts than that hardly a prompt has two texts of a group."""


class Within(NamedTuple):
    """Similarity of the texts of one group, and its error."""

    estimate: float
    """NaN where no prompt has a pair."""
    influences: Floats
    """What each cluster contributes, (clusters,); all NaN where a prompt of the mean does not tell it."""
    told: frozenset[int] = frozenset()
    """The prompts with pairs of which some are left without any one cluster: they tell their error."""
    untold: frozenset[int] = frozenset()
    """The other prompts with pairs: two clusters have one cosine."""


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

    def within(self, fixed: Fixed, units: Units, copies: bool = True, prompts: frozenset[int] | None = None) -> Within:
        """Mean over prompts of the mean cosine of the group's texts, and what each cluster contributes.

        ``copies``: whether pairs of texts of one unit count, as published; a text and its copy are more alike than two
        texts, and the more so count the fewer texts there are. ``prompts``: these alone.

        A cluster is left out exactly: with s the sum of the vectors of a prompt and w that of the cluster's, the
        cosines of the pairs that are left sum to |s - w|^2 minus those of each unit (or text) with itself.
        """
        influences = np.zeros(len(units.clusters.names))
        rows = np.flatnonzero(self.grouping.mask(fixed)[self.known])
        if prompts is not None:
            rows = rows[np.isin(self.prompt[rows], list(prompts))]
        unit = units.of_text[self.known][rows]
        single = np.arange(len(rows)) if copies else unit
        keys = np.column_stack([self.prompt[rows], units.clusters.of_unit[unit], single])
        parts, code = np.unique(keys, axis=0, return_inverse=True)
        if not len(parts):
            return Within(float("nan"), influences)
        vectors, texts = _sums(self.vectors[rows], code.reshape(-1), len(parts)), np.bincount(code.reshape(-1))
        pairs, code = np.unique(parts[:, :2], axis=0, return_inverse=True)
        code, of_prompt = code.reshape(-1), np.unique(pairs[:, 0], return_inverse=True)[1].reshape(-1)
        own, m = _sums(vectors, code, len(pairs)), np.bincount(code, texts)
        alike, alone = (np.bincount(code, one) for one in (np.square(vectors).sum(axis=1), texts.astype(float) ** 2))
        total = _sums(own, of_prompt, int(of_prompt.max()) + 1)
        n, all_alike, all_alone = (np.bincount(of_prompt, one) for one in (m, alike, alone))
        with np.errstate(divide="ignore", invalid="ignore"):
            known = n**2 - all_alone
            cells = np.where(known > 0, (np.square(total).sum(axis=1) - all_alike) / known, np.nan)
            left = (n[of_prompt] - m) ** 2 - (all_alone[of_prompt] - alone)
            squared = np.square(total[of_prompt] - own).sum(axis=1) - (all_alike[of_prompt] - alike)
            without = np.where(left > 0, squared / left, np.nan)
        used = np.isfinite(cells)
        if not used.any():
            return Within(float("nan"), influences)
        one_cosine = np.zeros(len(cells), dtype=bool)
        one_cosine[of_prompt[~(left > 0) & (m < n[of_prompt])]] = True
        asked = np.unique(pairs[:, 0])
        told, untold = (frozenset(asked[used & which].tolist()) for which in (~one_cosine, one_cosine))
        if untold:
            return Within(float(cells[used].mean()), np.full_like(influences, np.nan), told, untold)
        estimate, n_prompts, here = float(cells[used].mean()), int(used.sum()), cells[of_prompt]
        share = (n[of_prompt] - m) / n[of_prompt]
        moved = np.where(np.isfinite(without), (here - without) / n_prompts * share, 0.0)
        if n_prompts > 1:
            # A prompt that is left without a pair drops out of the mean over prompts.
            moved = np.where(np.isfinite(without), moved, (here - estimate) / n_prompts)
        np.add.at(influences, pairs[used[of_prompt], 1], moved[used[of_prompt]])
        return Within(estimate, influences, told)

    @property
    def pairs(self) -> list[Group]:
        """The marked values that have an unmarked one beside them."""
        return [one for one in self.grouping.groups if len(one.fixed) == 1 and one.marked and one.references]

    def difference_with_influences(self, units: Units) -> tuple[Within, list[Group]]:
        """Mean over the marked values of the similarity within each minus that within its axis' unmarked value.

        Of pairs of texts of different units, in the prompts (``told``) that tell the error of all compared values;
        where there is none, in those that each two have, and all influences are NaN. NaN where no marked value has an
        unmarked one beside it. Positive: marked groups are more alike. With the marked values it is over.
        """
        found: dict[str, list[Within]] = {}
        for group in self.pairs:
            sides = [self.within(fixed, units, copies=False) for fixed in (group.fixed, group.references[0][1])]
            if (sides[0].told | sides[0].untold) & (sides[1].told | sides[1].untold):
                found[group.name] = sides
        over = [group for group in self.pairs if group.name in found]
        if not over:
            return Within(float("nan"), np.zeros(len(units.clusters.names))), over
        told = frozenset.intersection(*(one.told for sides in found.values() for one in sides))
        values, parts = list[float](), list[Floats]()
        for group in over:
            own, other = found[group.name]
            prompts = told or ((own.told | own.untold) & (other.told | other.untold))
            own, other = (self.within(fixed, units, False, prompts) for fixed in (group.fixed, group.references[0][1]))
            values.append(own.estimate - other.estimate)
            parts.append(own.influences - other.influences if told else np.full_like(own.influences, np.nan))
        return Within(float(np.mean(values)), np.asarray(np.mean(parts, axis=0)), told), over

    def distances(self) -> dict[tuple[str, str], float]:
        """(marked group, reference) -> 1 minus the mean over prompts of the mean cosine between their texts."""
        if not self.known.any():
            return {}
        sums, n = self._cells
        found = {}
        for group in self.grouping.compared:
            own = self.grouping.fits(group.fixed)
            for name, fixed in group.references if group.marked else ():
                other = self.grouping.fits(fixed)
                cosines = (np.tensordot(own, sums, (0, 1)) * np.tensordot(other, sums, (0, 1))).sum(axis=1)
                pairs = (n @ own) * (n @ other)
                found[group.name, name] = 1 - mean(cosines / np.where(pairs > 0, pairs, np.nan))
        return found

    @property
    def _cells(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sum of the vectors (P, C, d) and number of texts (P, C)."""
        shape = (self.grouping.n_prompts, self.grouping.n_combinations)
        cell = self.prompt * shape[1] + self.grouping.combination[self.known]
        sums = _sums(self.vectors, cell, shape[0] * shape[1])
        return sums.reshape(*shape, -1), np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)


def _sums(vectors: Floats, code: NDArray[np.int64], n: int) -> Floats:
    """Rows summed by code, (n, d)."""
    place = (np.ones(len(code)), (code, np.arange(len(code))))
    return np.asarray(scipy.sparse.csr_matrix(place, (n, len(code))) @ vectors)
