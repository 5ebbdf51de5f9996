"""Groups that fix values on crossed axes, and the unmarked groups each is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.language.contrasts import Contrasts
from markedness.axes import Axes, group_name

_DRAWS = 199
"""With which the pairs of texts of a group are compared."""
Fixed = Mapping[str, str]
"""Axis -> value, for the axes that a group fixes."""


@dataclass(frozen=True)
class Group:
    """A group and what it is compared with."""

    name: str
    """Its values, in the order in which params write the axes: "Black woman"."""
    fixed: Fixed
    references: tuple[tuple[str, Fixed], ...] = ()
    """Name and fixed values of each; none: not compared."""
    marked: bool = False
    """Whether all its values are marked."""


def all_groups(axes: Axes) -> Iterator[Group]:
    """Single values in axis order, then every crossing of two and more axes.

    A marked group is compared with the unmarked value of each axis it fixes, an unmarked value with each marked
    value of its axis; a crossing that holds an unmarked value is compared with nothing.
    """
    for name, axis in axes.items():
        for value in axis.values:
            is_marked = value != axis.unmarked
            others = [axis.unmarked] if is_marked else axis.marked
            yield Group(value, {name: value}, tuple((other, {name: other}) for other in others), is_marked)
    for size in range(2, len(axes) + 1):
        for names in combinations(axes, size):
            references = tuple((axes[name].unmarked, {name: axes[name].unmarked}) for name in names)
            for keys in product(*(axes[name].values for name in names)):
                fixed = dict(zip(names, keys, strict=True))
                is_marked = all(key != axes[name].unmarked for name, key in fixed.items())
                yield Group(group_name(fixed, axes), fixed, references if is_marked else (), is_marked)


class Grouping:
    """Texts by the combination of values they carry and the prompt they answer.

    Parameters
    ----------
    table
        One row per text, n of them: prompt_id and a column per axis, missing or "" where the text does not fix it.
    axes
        The axes that cross.
    """

    def __init__(self, table: pd.DataFrame, axes: Axes) -> None:
        cells = pd.DataFrame({axis: table[axis].astype(object).where(table[axis].notna(), "") for axis in axes})
        codes = cells.groupby(list(axes), sort=False).ngroup().to_numpy() if axes else np.zeros(len(table), int)
        self.combination = codes.astype(np.int64)
        """Code of each text's combination, (n,)."""
        distinct = cells.drop_duplicates()
        self.n_combinations = len(distinct) if axes else min(len(table), 1)
        self._columns = {axis: distinct[axis].to_numpy(dtype=object) for axis in axes}
        self._axes = axes
        self.axes = tuple(axes)
        """Names of the axes."""
        prompt, names = pd.factorize(table["prompt_id"].fillna(""))
        self.prompt = np.asarray(prompt, dtype=np.int64)
        """Code of each text's prompt, (n,)."""
        self.prompts = tuple(map(str, names))
        """Prompt of each code."""
        self.n_prompts = len(names)

    def fits(self, fixed: Fixed) -> NDArray[np.float64]:
        """Which combinations have all the fixed values, (C,) of 0 and 1."""
        fit = np.ones(self.n_combinations)
        for axis, value in fixed.items():
            fit *= self._columns[axis] == value
        return fit

    def split(self, axis: str | None) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Per combination, codes of its value on the axis, of its values on the others, and of the axes it fixes.

        Each (C,). Without an axis, the first is the combination itself and the second always 0.
        """
        rows = [tuple(self._columns[name][place] for name in self.axes) for place in range(self.n_combinations)]

        def codes(keys: list[tuple[object, ...]]) -> NDArray[np.int64]:
            place = {key: code for code, key in enumerate(dict.fromkeys(keys))}
            return np.array([place[key] for key in keys], dtype=np.int64)

        fixed = codes([tuple(bool(value) for value in row) for row in rows])
        if axis is None:
            return np.arange(self.n_combinations), np.zeros(self.n_combinations, dtype=np.int64), fixed
        own = self.axes.index(axis)
        return codes([(row[own],) for row in rows]), codes([row[:own] + row[own + 1 :] for row in rows]), fixed

    def unlike(self, group: Group) -> float:
        """How the texts of a group of one axis differ from its reference's in other axes and prompts: `unlike`."""
        (axis,) = group.fixed
        others = self.split(axis)[1][self.combination]
        cell = others + self.prompt * (int(others.max(initial=0)) + 1)
        return unlike(cell, self.mask(group.fixed), self.mask(group.references[0][1]))

    def unlike_pairs(
        self, group: Group, there: NDArray[np.bool_], rows: NDArray[np.int64], level: float | None
    ) -> float:
        """How pairs of ``rows`` of a group of one axis differ from its reference's in the others: `unlike_pairs`."""
        (axis,) = group.fixed
        own, other = (self.mask(fixed)[rows] for fixed in (group.fixed, group.references[0][1]))
        rows, own = rows[own | other], own[own | other]
        classes = self.split(axis)[1][self.combination[rows]]
        return unlike_pairs(own, classes, self.prompt[rows], there[rows], level)

    def mask(self, fixed: Fixed) -> NDArray[np.bool_]:
        """Which texts have all the fixed values, (n,)."""
        return self.fits(fixed)[self.combination] > 0 if len(self.combination) else np.zeros(0, dtype=bool)

    @cached_property
    def groups(self) -> list[Group]:
        """Every group that has texts, with those of its references that have some."""
        found = [group for group in all_groups(self._axes) if self.fits(group.fixed).any()]
        return [replace(g, references=tuple(r for r in g.references if self.fits(r[1]).any())) for g in found]

    @property
    def without_texts(self) -> list[str]:
        """Names of the crossings that no text fits, although each of their values has texts."""
        return [
            group.name
            for group in all_groups(self._axes)
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
    def marked(self) -> NDArray[np.bool_]:
        """Which of the compared groups are marked, (G,)."""
        return np.array([group.marked for group in self.compared], dtype=bool)

    @cached_property
    def contrasts(self) -> Contrasts:
        """One contrast per compared group and reference."""
        return self.contrasts_of(self.compared)

    def contrasts_of(self, groups: Sequence[Group]) -> Contrasts:
        """One contrast per group and reference."""
        pairs = [(place, g.fixed, ref) for place, g in enumerate(groups) for _, ref in g.references]
        shape = (len(pairs), self.n_combinations)
        targets = np.array([self.fits(fixed) for _, fixed, _ in pairs]).reshape(shape)
        references = np.array([self.fits(ref) for _, _, ref in pairs]).reshape(shape)
        return Contrasts(targets, references, np.array([place for place, _, _ in pairs], dtype=int))


def unlike(classes: NDArray[np.int64], own: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Half the sum of the differences of two sets of texts in their shares of each class, from 0 to 1."""
    size = int(classes.max(initial=0)) + 1
    shares = [np.bincount(classes[side], minlength=size) / max(1, int(side.sum())) for side in (own, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def unlike_pairs(
    own: NDArray[np.bool_],
    classes: NDArray[np.int64],
    prompt: NDArray[np.int64],
    there: NDArray[np.bool_],
    level: float | None,
) -> float:
    """How pairs of texts of a prompt differ between a group and the others in the classes that they are of.

    Half the sum of the differences in the share of each pair of classes, mean over the prompts of which both have
    pairs: of the texts that are there less (in squares) its mean where as many of each side are missing at random, and
    0 where a share ``level`` of these is as unlike; or of all that were asked for, where that is more.

    Parameters
    ----------
    own, classes, prompt
        Of each text, shape (n,): whether it is of the group, and codes.
    there
        Which of the texts are not missing, shape (n,).
    level
        None: of the texts that are there less (in squares) its mean where the two change sides in a half of the
        prompts, for errors of prompts, which hold what differs between these.

    Returns
    -------
    float
        From 0 to 1; 0 where no prompt has pairs of both.
    """
    rng = np.random.default_rng(0)
    (prompts, code), (known, kind) = (np.unique(one, return_inverse=True) for one in (prompt, classes))
    shape = (2, len(prompts), len(known))
    cell = (own * shape[1] + code) * shape[2] + kind

    def apart(which: NDArray[np.bool_]) -> NDArray[np.float64]:
        counts = np.bincount(cell[which], minlength=int(np.prod(shape))).reshape(shape)
        n = counts.sum(axis=2)
        both = (n > 1).all(axis=0)
        counts, n = counts[:, both], n[:, both, None, None]
        shares = (counts[..., None] * (counts[..., None, :] - np.eye(len(known)))) / (n * (n - 1))
        return np.asarray((shares[1] - shares[0]).reshape(n.shape[1], -1))

    def total(differences: NDArray[np.float64]) -> float:
        return float(np.abs(differences.mean(axis=0)).sum() / 2) if len(differences) else 0.0

    observed = apart(there)
    found, asked = total(observed), total(apart(np.ones_like(there)))
    if level is None:
        changes = rng.choice([-1.0, 1.0], (_DRAWS, len(observed), 1))
        return _beyond(found, [total(change * observed) for change in changes])
    if there.all():
        return asked
    block = 2 * code + own
    drawn, places = [], np.argsort(block, kind="stable")
    for _ in range(_DRAWS):
        which = np.empty_like(there)
        which[places] = there[np.argsort(block + rng.random(len(there)), kind="stable")]
        drawn.append(total(apart(which)))
    return max(asked, _beyond(found, drawn) if found > np.quantile(drawn, 1 - level) else 0.0)


def _beyond(found: float, drawn: Sequence[float]) -> float:
    return float(np.sqrt(max(0.0, found**2 - float(np.mean(np.square(drawn))))))
