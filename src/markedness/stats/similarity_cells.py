"""Texts as sums of unit vectors by group, prompt and name, from which mean cosines and their leave-outs follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from markedness.stats.inference import Codes, Floats, LeaveOut

_BATCH = 4_000_000
"""Numbers in one array of replicates."""


def mean_pairwise_cosine(unit_vectors: ArrayLike) -> float:
    """Mean cosine over all pairs of different texts, without a pair matrix: (|sum u|^2 - n) / (n (n - 1)).

    Parameters
    ----------
    unit_vectors
        Shape (n, d), rows of length 1.

    Returns
    -------
    float
        In [-1/(n-1), 1]; 1: all texts alike. NaN for fewer than two texts.
    """
    vectors = np.asarray(unit_vectors, dtype=float)
    n = len(vectors)
    if n < 2:
        return float("nan")
    total = vectors.sum(axis=0)
    return float((total @ total - n) / (n * (n - 1)))


@dataclass(frozen=True)
class SimilarityCells:
    """Texts of each group (G of them) and prompt (P), summed by name; see `similarity_cells`."""

    groups: tuple[str, ...]
    prompts: tuple[str, ...]
    group: Codes
    """Shape (units,): a unit is the texts of one name in one group and prompt."""
    prompt: Codes
    name: NDArray[np.object_]
    sums: Floats
    """Shape (units, d): sum of the unit's vectors."""
    n: Floats
    """Shape (units,): its texts."""
    factor: str
    """What a name is."""

    @cached_property
    def _cell(self) -> Codes:
        return self.group * len(self.prompts) + self.prompt

    @cached_property
    def _totals(self) -> tuple[Floats, Floats, Floats]:
        """Of each cell: sum of vectors, numbers of ordered pairs of different names, and the sum of their cosines."""
        n_cells = len(self.groups) * len(self.prompts)
        total = _summed(self.sums, self._cell, n_cells)
        texts, own, squares = (
            np.bincount(self._cell, values, n_cells).astype(float)
            for values in (self.n, self.n**2, np.square(self.sums).sum(axis=1))
        )
        return total, texts**2 - own, np.square(total).sum(axis=1) - squares

    @property
    def means(self) -> Floats:
        """Mean cosine of pairs of different names, (G, P); NaN without such a pair."""
        _, pairs, alike = self._totals
        return _ratio(alike, pairs).reshape(len(self.groups), len(self.prompts))

    @property
    def published(self) -> pd.DataFrame:
        """group, prompt and mean_cosine of all pairs of texts, a row for each group and prompt with a pair."""
        n_cells = len(self.groups) * len(self.prompts)
        n = np.bincount(self._cell, self.n, n_cells).astype(float)
        mean = _ratio(np.square(self._totals[0]).sum(axis=1) - n, n * (n - 1))
        keys = pd.MultiIndex.from_product([self.groups, self.prompts], names=["group", "prompt"])
        return pd.DataFrame({"mean_cosine": mean}, index=keys).dropna().reset_index()

    def only(self, groups: Sequence[str]) -> SimilarityCells:
        """Some groups, in this order."""
        place = {self.groups.index(group): number for number, group in enumerate(groups)}
        kept = np.isin(self.group, list(place))
        code = np.array([place[one] for one in self.group[kept].tolist()], dtype=np.intp)
        return SimilarityCells(
            tuple(groups), self.prompts, code, self.prompt[kept], self.name[kept], self.sums[kept], self.n[kept],
            self.factor,
        )  # fmt: skip

    def without(self, terms: Floats) -> LeaveOut:
        """`contrast` without each cluster of units."""
        total, pairs, alike = self._totals
        means, n_cells = self.means.ravel(), len(self.groups) * len(self.prompts)
        squares = np.square(self.sums).sum(axis=1)

        def left_out(codes: Codes, n_clusters: int) -> Floats:
            keys, place = np.unique(codes.astype(np.int64) * n_cells + self._cell, return_inverse=True)
            cluster, cell = keys // n_cells, keys % n_cells
            gone = _summed(self.sums, place, len(keys))
            n, own, square = (np.bincount(place, values, len(keys)) for values in (self.n, self.n**2, squares))
            texts = np.bincount(self._cell, self.n, n_cells)[cell]
            # |S - s|^2 less what each name has with itself; the ordered pairs of different names likewise
            both = np.square(gone).sum(axis=1) - 2 * np.einsum("kd,kd->k", total[cell], gone)
            rest = _ratio(alike[cell] + both + square, pairs[cell] - 2 * texts * n + n**2 + own)
            made, step = [], max(1, _BATCH // n_cells)
            for start in range(0, n_clusters, step):
                here = (cluster >= start) & (cluster < start + step)
                moved = np.tile(means, (min(step, n_clusters - start), 1))
                moved[cluster[here] - start, cell[here]] = rest[here]
                made.append(contrast(moved.reshape(-1, len(self.groups), len(self.prompts)), terms))
            return np.concatenate(made) if made else np.empty(0)

        return left_out


def _ratio(top: Floats, below: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(below > 0.5, top / below, np.nan))


def _summed(rows: Floats, code: Codes, n: int) -> Floats:
    """Rows summed by code, (n, d)."""
    return np.asarray(
        scipy.sparse.csr_matrix((np.ones(len(code)), (code, np.arange(len(code)))), (n, len(code))) @ rows
    )


def _mean(values: Floats, axis: int) -> Floats:
    """Mean of what is not NaN; NaN where all is."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, values, 0.0).sum(axis=axis) / there.sum(axis=axis))


def contrast(means: Floats, terms: Floats) -> Floats:
    """Mean over prompts of the mean over terms of weighted sums of groups.

    Shapes: means (draws, G, P), terms (T, G). A term whose groups a prompt lacks does not count there.
    """
    made = [np.einsum("dgp,g->dp", means[:, term != 0], term[term != 0]) for term in terms]
    return _mean(_mean(np.stack(made, axis=1), 1), 1)


def similarity_cells(
    unit_vectors: ArrayLike,
    groups: ArrayLike,
    prompts: ArrayLike,
    names: ArrayLike | None = None,
    factor: str = "name",
) -> SimilarityCells:
    """Sums of the texts of each group, prompt and name: all that the functions below need.

    Parameters
    ----------
    unit_vectors
        Shape (n, d).
    groups, prompts
        Shape (n,). Pairs are formed within one group and one prompt only: two texts may be alike merely
        because they answer the same prompt.
    names
        Shape (n,): the name, author or other cluster of each text; by default each text of a cell has its own.
    factor
        What ``names`` are, singular.
    """
    keys = pd.DataFrame({"group": np.asarray(groups), "prompt": np.asarray(prompts)})
    keys["name"] = np.nan if names is None else np.asarray(names)
    there = keys["group"].notna().to_numpy() & keys["prompt"].notna().to_numpy()  # texts of no group are left out
    keys, vectors = keys[there].reset_index(drop=True), np.asarray(unit_vectors, dtype=float)[there]
    keys[["group", "prompt"]] = keys[["group", "prompt"]].astype(str)
    number = keys["group"] + " #" + keys.groupby(["group", "prompt"]).cumcount().astype(str)
    keys["name"] = number if names is None else keys["name"].astype(str)
    unit = np.asarray(keys.groupby(["group", "prompt", "name"], sort=True).ngroup(), dtype=np.intp)
    first = keys.iloc[np.unique(unit, return_index=True)[1]]
    (group, known_groups), (prompt, known_prompts) = (
        pd.factorize(first[name], sort=True) for name in ("group", "prompt")
    )
    return SimilarityCells(
        tuple(map(str, known_groups)), tuple(map(str, known_prompts)), group.astype(np.intp), prompt.astype(np.intp),
        first["name"].to_numpy(dtype=object), _summed(vectors, unit, len(first)),
        np.bincount(unit).astype(float), factor,
    )  # fmt: skip
