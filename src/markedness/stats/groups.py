"""Groups that fix values on crossed axes, and the unmarked groups each is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import pandas as pd

from markedness.stats.marked_words import Contrasts

Fixed = Mapping[str, str]
"""Axis -> value, for the axes that a group fixes."""


@dataclass(frozen=True)
class Group:
    """A group and what it is compared with."""

    name: str
    """Its values in axis order: "Black woman"."""
    fixed: Fixed
    references: tuple[tuple[str, Fixed], ...] = ()
    """Name and fixed values of each; none: not compared."""
    marked: bool = False
    """Whether all its values are marked."""


def all_groups(values: Mapping[str, Sequence[str]], unmarked: Mapping[str, str]) -> Iterator[Group]:
    """Single values in axis order, then every crossing of two and more axes.

    A marked group is compared with the unmarked value of each axis it fixes, an unmarked value with each marked
    value of its axis; a crossing that holds an unmarked value is compared with nothing.
    """
    for axis, keys in values.items():
        for value in keys:
            is_marked = value != unmarked[axis]
            others = [unmarked[axis]] if is_marked else [key for key in keys if key != value]
            yield Group(value, {axis: value}, tuple((other, {axis: other}) for other in others), is_marked)
    for size in range(2, len(values) + 1):
        for axes in combinations(values, size):
            references = tuple((unmarked[axis], {axis: unmarked[axis]}) for axis in axes)
            for keys in product(*(values[axis] for axis in axes)):
                is_marked = all(key != unmarked[axis] for axis, key in zip(axes, keys, strict=True))
                fixed = dict(zip(axes, keys, strict=True))
                yield Group(" ".join(keys), fixed, references if is_marked else (), is_marked)


class Grouping:
    """Texts by the combination of values they carry and the prompt they answer.

    Parameters
    ----------
    table
        One row per text; a column per axis, missing or "" where the text does not fix it.
    prompts
        (n,), labels.
    values, unmarked
        Axis -> its values, and its unmarked value.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        prompts: pd.Series,
        values: Mapping[str, Sequence[str]],
        unmarked: Mapping[str, str],
    ) -> None:
        cells = pd.DataFrame({axis: table[axis].astype(object).where(table[axis].notna(), "") for axis in values})
        codes = cells.groupby(list(values), sort=False).ngroup().to_numpy() if values else np.zeros(len(table), int)
        self.combination = codes.astype(np.int64)
        """Code of each text's combination, (n,)."""
        distinct = cells.drop_duplicates()
        self.n_combinations = len(distinct) if values else min(len(table), 1)
        self._columns = {axis: distinct[axis].to_numpy(dtype=object) for axis in values}
        self._values, self._unmarked = values, unmarked
        prompt, names = pd.factorize(prompts.fillna(""))
        self.prompt = np.asarray(prompt, dtype=np.int64)
        """Code of each text's prompt, (n,)."""
        self.n_prompts = len(names)

    def fits(self, fixed: Fixed) -> np.ndarray:
        """Which combinations have all the fixed values, (C,) of 0 and 1."""
        fit = np.ones(self.n_combinations)
        for axis, value in fixed.items():
            fit *= self._columns[axis] == value
        return fit

    def mask(self, fixed: Fixed) -> np.ndarray:
        """Which texts have all the fixed values, (n,) of bool."""
        return self.fits(fixed)[self.combination] > 0 if len(self.combination) else np.zeros(0, dtype=bool)

    @cached_property
    def groups(self) -> list[Group]:
        """Every group that has texts, with those of its references that have some."""
        found = [group for group in all_groups(self._values, self._unmarked) if self.fits(group.fixed).any()]
        return [replace(g, references=tuple(r for r in g.references if self.fits(r[1]).any())) for g in found]

    @property
    def without_texts(self) -> list[str]:
        """Names of the crossings that no text fits, although each of their values has texts."""
        return [
            group.name
            for group in all_groups(self._values, self._unmarked)
            if not self.fits(group.fixed).any()
            and all(self.fits({axis: value}).any() for axis, value in group.fixed.items())
        ]

    @property
    def permutable(self) -> bool:
        """Whether some prompt was answered for two combinations: else a permutation within prompt moves nothing."""
        pairs = np.unique(np.stack([self.prompt, self.combination]), axis=1)
        return len(pairs[0]) > len(np.unique(self.prompt))

    @cached_property
    def compared(self) -> list[Group]:
        """The groups that have something to be compared with."""
        return [group for group in self.groups if group.references]

    @property
    def marked(self) -> np.ndarray:
        """Which of the compared groups are marked, (G,) of bool."""
        return np.array([group.marked for group in self.compared], dtype=bool)

    @cached_property
    def contrasts(self) -> Contrasts:
        """One contrast per compared group and reference."""
        pairs = [(place, g.fixed, ref) for place, g in enumerate(self.compared) for _, ref in g.references]
        shape = (len(pairs), self.n_combinations)
        targets = np.array([self.fits(fixed) for _, fixed, _ in pairs]).reshape(shape)
        references = np.array([self.fits(ref) for _, _, ref in pairs]).reshape(shape)
        return Contrasts(targets, references, np.array([place for place, _, _ in pairs], dtype=int))
