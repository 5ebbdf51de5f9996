"""What was sampled and what can be exchanged: texts with their copies, within prompts.

A unit is all texts of one cluster (a text and its copies, or what the corpus names in its column ``cluster``) for one
group. Copies move together, so that a file that holds every text three times proves no more than one that holds each
once. Where a cluster of the corpus has texts of several groups (an author who writes about both), its parts are
exchanged with each other, where they answer the same prompts, and intervals leave it out as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from markedness.audits.personas import SPEC
from markedness.audits.personas.language.groups import Group, Grouping
from markedness.stats.inference import (
    ALPHA,
    MIN_CLUSTERS,
    Exchange,
    Floats,
    Spread,
    effective,
    influence_errors,
    influence_spread,
    t_intervals,
)

COPIES = "#"
"""First character of a cluster that is a hash of a text; others come from the corpus."""
_MAX_UNITS = 3000
"""Units above this number are merged, in the order of the file, into blocks of one prompt and group."""


class Clusters(NamedTuple):
    """What intervals leave out, one at a time."""

    of_unit: NDArray[np.int64]
    """Cluster of each unit, (u,)."""
    names: tuple[str, ...]
    """The same in another model's features, (clusters,)."""
    strata: NDArray[np.int64]
    """(clusters,)."""


@dataclass(frozen=True)
class Units:
    """The units of n texts."""

    grouping: Grouping
    """Of the texts."""
    of_text: NDArray[np.int64]
    """Unit of each text, (n,)."""
    combination: NDArray[np.int64]
    """Combination of axis values of each unit, (u,)."""
    prompt: NDArray[np.int64]
    """Prompt of each unit, (u,); a unit of several prompts has a code for these prompts together."""
    names: tuple[str, ...]
    """Cluster and group of each unit, the same in another model's features, (u,)."""
    known_prompts: bool
    """Whether the texts say which prompt they answer."""
    block: NDArray[np.int64]
    """Where labels are exchanged, (u,): the prompt, and the cluster where it has several groups."""
    sampled: NDArray[np.int64]
    """What was sampled, (u,): the unit, or the cluster with several groups that it is of."""
    sampled_names: tuple[str, ...]
    """The same in another model's features."""

    @classmethod
    def of(cls, texts: pd.DataFrame, grouping: Grouping, requests: bool = False) -> Units:
        """From the rows of ``texts`` (prompt_id, sample, cluster, group) that ``grouping`` was made of.

        ``requests``: rows are requests, of which copies of a text are several; the corpus's own clusters stay.
        """
        cluster = texts["cluster"].astype("string").fillna("")
        number = pd.Series([f"row {row}" for row in range(len(texts))], index=texts.index, dtype="string")
        sample = texts["sample"].astype("string").fillna(number)
        rows = texts["prompt_id"].astype("string").fillna("") + " " + sample
        copies = cluster.str.startswith(COPIES)
        own = cluster.ne("") & ~(copies & requests)
        groups = pd.Series(grouping.combination, index=texts.index).groupby(cluster).transform("nunique")
        crossed = cluster.ne("") & ~copies & groups.gt(1)
        keys = cluster.where(own, rows) + " | " + texts["group"].astype("string").fillna("")
        code, names = pd.factorize(keys.to_numpy(dtype=object))
        code = code.astype(np.int64)
        combination, prompt = np.zeros(len(names), dtype=np.int64), np.zeros(len(names), dtype=np.int64)
        combination[code], prompt[code] = grouping.combination, grouping.prompt
        spanning = np.unique(code[prompt[code] != grouping.prompt])
        if len(spanning):
            sets = pd.Series(grouping.prompt).groupby(code).agg(lambda own: " ".join(map(str, sorted(set(own)))))
            prompt[spanning] = grouping.n_prompts + pd.factorize(sets.loc[spanning].to_numpy(dtype=object))[0]
        known = bool(texts["prompt_id"].fillna("").ne("").any())
        own_names = pd.Series(names, dtype="string")
        of_cluster = pd.Series(pd.NA, index=range(len(names)), dtype="string")
        of_cluster.iloc[code[crossed.to_numpy()]] = cluster[crossed].to_numpy()
        sampled, sampled_names = pd.factorize(of_cluster.fillna(own_names).to_numpy(dtype=object))
        block = pd.factorize(pd.Series(prompt).astype("string") + " / " + of_cluster.fillna(""))[0]
        made = cls(
            grouping, code, combination, prompt, tuple(map(str, names)), known, block.astype(np.int64),
            sampled.astype(np.int64), tuple(map(str, sampled_names)),
        )  # fmt: skip
        return made._merged() if len(names) > _MAX_UNITS else made

    def _merged(self) -> Units:
        """Neighbours of one prompt and combination as one unit, so that about `_MAX_UNITS` are left."""
        size = -(-len(self.names) // _MAX_UNITS)
        cell = self.block * self.grouping.n_combinations + self.combination
        place = pd.Series(cell).groupby(cell).cumcount().to_numpy() // size
        code, first = pd.factorize(pd.Series(list(zip(cell.tolist(), place.tolist(), strict=True))))
        lead = np.zeros(len(first), dtype=np.int64)
        lead[code[::-1]] = np.arange(len(cell))[::-1]
        names = tuple(self.names[i] for i in lead)
        of_text = code.astype(np.int64)[self.of_text]
        sampled, first_of = np.unique(self.sampled[lead], return_inverse=True)
        return Units(
            self.grouping, of_text, self.combination[lead], self.prompt[lead], names, self.known_prompts,
            self.block[lead], first_of.astype(np.int64), tuple(self.sampled_names[one] for one in sampled),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def copies(self) -> NDArray[np.float64]:
        """Texts of each unit, (u,)."""
        return np.bincount(self.of_text, minlength=len(self)).astype(float)

    def summed(self, matrix: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
        """Rows of texts, (n, k), summed by unit, (u, k)."""
        n = len(self.of_text)
        indicator = scipy.sparse.csr_matrix((np.ones(n), (self.of_text, np.arange(n))), (len(self), n))
        return (indicator @ matrix).tocsr()

    def exchange(self, axis: str | None = None) -> Exchange:
        """Combinations exchanged within prompt; or the values of one axis, within prompt x the other axes.

        Only among units that fix the same axes.
        """
        value, rest, fixed = self.grouping.split(axis)
        blocks = (self.block, rest[self.combination], fixed[self.combination])
        return Exchange.of(value[self.combination], *blocks)

    def smallest_p(self, group: Group, axis: str | None = None) -> float:
        """Smallest p that exchange between a group and one of its references could attain, the largest over these.

        1 where no block of `exchange` has units of both: their labels stay as they are.
        """
        _, rest, fixed = self.grouping.split(axis)
        own = self.grouping.fits(group.fixed)[self.combination] > 0
        found = []
        for _, reference in group.references:
            both = own | (self.grouping.fits(reference)[self.combination] > 0)
            blocks = (self.block[both], rest[self.combination][both], fixed[self.combination][both])
            found.append(Exchange.of(own[both], *blocks).smallest_p)
        return max(found, default=1.0)

    def apart(self, groups: Sequence[Group], axis: str | None = None) -> str:
        """What never has a group and what it is compared with, of groups of which `smallest_p` is 1."""
        within_prompt = replace(self, block=self.prompt)
        return "prompt" if all(within_prompt.smallest_p(group, axis) >= 1 for group in groups) else "cluster"

    @property
    def fixed_by(self) -> str:
        """What never has two groups, so that no label can be exchanged: "prompt" or "cluster"; "" where some can."""
        if self.exchange().smallest_p < 1:
            return ""
        return "cluster" if replace(self, block=self.prompt).exchange().smallest_p < 1 else "prompt"

    @cached_property
    def factor(self) -> str:
        """What intervals leave out: prompts from six in each group on, else what was `sampled`; "" with few of both."""
        if min(self._effective(self.prompt), default=0.0) >= MIN_CLUSTERS - 1e-9:
            return "prompt"
        if min(self._effective(self.sampled), default=0.0) < MIN_CLUSTERS - 1e-9:
            return ""
        return "text" if len(self.sampled_names) == len(self) else "cluster"

    def supports(self, group: Group) -> bool:
        """Whether a group and its references have six effective clusters each of what intervals leave out.

        A group that is too small for the headline does not decide `factor`.
        """
        cluster = self.prompt if self.factor == "prompt" else self.sampled
        sides = (group.fixed, *(reference for _, reference in group.references))
        masks = (self.grouping.fits(side)[self.combination] > 0 for side in sides)
        found = [effective(np.bincount(cluster[mask], self.copies[mask])) for mask in masks if mask.any()]
        return bool(self.factor) and min(found, default=0.0) >= MIN_CLUSTERS - 1e-9

    def _effective(self, cluster: NDArray[np.int64]) -> list[float]:
        """Effective clusters of each compared group of one axis that is large enough to be tested."""
        single = [group for group in self.grouping.compared if len(group.fixed) == 1]
        level = ALPHA / len(SPEC.headline)
        single = [group for group in single if self.smallest_p(group) <= level] or single
        inside = [self.grouping.fits(group.fixed)[self.combination] > 0 for group in single]
        return [effective(np.bincount(cluster[mask], self.copies[mask])) for mask in inside if mask.any()]

    @cached_property
    def strata(self) -> NDArray[np.int64]:
        """Prompt x combination of each unit where those have two units, else the combination, else one stratum."""
        cells = (self.prompt * self.grouping.n_combinations + self.combination, self.combination)
        for cell in cells:
            if len(cell) and (np.bincount(cell)[cell] > 1).mean() > 0.95:
                return cell
        return np.zeros(len(self), dtype=np.int64)

    @cached_property
    def clusters(self) -> Clusters:
        """What intervals leave out: prompts, or units within `strata`."""
        if self.factor == "cluster":  # of several groups, so that it is of no stratum
            return Clusters(self.sampled, self.sampled_names, np.zeros(len(self.sampled_names), dtype=np.int64))
        if self.factor != "prompt":
            return Clusters(np.arange(len(self)), self.names, self.strata)
        code, prompts = pd.factorize(self.prompt)
        known = self.grouping.prompts
        names = tuple(known[one] if one < len(known) else f"several prompts {one}" for one in prompts)
        return Clusters(code.astype(np.int64), names, np.zeros(len(names), dtype=np.int64))

    def clustered(self, influences: Floats) -> Floats:
        """Influences of the clusters, (clusters, k), from those of units, (u, k)."""
        summed = np.zeros((len(self.clusters.names), influences.shape[1]))
        np.add.at(summed, self.clusters.of_unit, influences)
        return summed

    def spread(self, influences: Floats) -> Spread:
        """Sampling error of an estimate from the influence of each cluster, (clusters,)."""
        if not self.factor:
            return Spread(fixed=("text",))
        found = influence_spread(self.factor, self.clusters.names, influences, self.clusters.strata)
        of_prompts = self.factor == "prompt"
        fewest = min(self._effective(self.prompt if of_prompts else self.sampled))
        return replace(
            found, fixed=found.fixed if of_prompts else (*found.fixed, "prompt"), fewest={self.factor: fewest}
        )

    def intervals(self, estimates: Floats, influences: Floats, confidence_level: float) -> tuple[Floats, Floats]:
        """The t intervals of many estimates, (k,), from the influences of the clusters, (clusters, k)."""
        if not self.factor:
            return np.full(len(estimates), np.nan), np.full(len(estimates), np.nan)
        return t_intervals(estimates, *influence_errors(influences, self.clusters.strata), confidence_level)

    @property
    def missing_column(self) -> str:
        """The cluster column that the texts lack; "" where they have it."""
        return "" if self.known_prompts or not len(self) else "prompt"

    def method(self, exchanged: str, group: Group | None = None) -> str:
        """How p and interval were made, of one group or of all, as one sentence."""
        interval = {
            "prompt": "interval by leaving out one prompt", "": "no interval: too few texts",
            "text": "interval by leaving out one text within prompt and group",
            "cluster": "interval by leaving out one cluster of texts of several groups",
        }[self.factor if group is None or self.supports(group) else ""]  # fmt: skip
        within = "" if len(self.sampled_names) == len(self) else ", parts of a cluster of several groups within it"
        return f"{exchanged}{within}; {interval}"


def mean(values: ArrayLike) -> float:
    """Mean of what is not missing; NaN where nothing is."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.mean()) if len(numbers) else float("nan")
