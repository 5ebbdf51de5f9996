"""Differences in P_d between groups from pairs of answers of different names: unbiased whatever the size.

P_d of a group in a cue is the share of pairs of answers from two different names that are in different categories.
Within a name answers resemble each other, so pairs of one name say nothing of the group; and unlike one minus the sum
of squared shares (Lee & Lai, equation 1), the share of pairs does not grow with the number of answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.groups import AxisLabels, with_values
from markedness.results import NAN
from markedness.stats.inference import (
    NO_SPREAD,
    Codes,
    Exchange,
    Floats,
    LeaveOut,
    Null,
    Spread,
    crossing,
    draws_needed,
    exchange_test,
    spread,
    studentised,
)

_BATCH = 2_000_000


@dataclass(frozen=True)
class Cue:
    """The answers to one cue."""

    name: str
    names: Codes
    """Shape (names here,): which names answered, as indices into `PairCounts.names`."""
    matrix: Any
    """Sparse counts, shape (names here, categories)."""

    def without_each(self, weights: Floats) -> tuple[Floats, Floats]:
        """P_d among the names of weight 1, shape (draws,), and without each of these names, (draws, names here).

        With T answers, n_i of name i, of which C_k are in category k (c_ik of name i), the pairs of different names
        are T^2 - sum n_i^2, and those in one category sum C_k^2 - sum c_ik^2. NaN without such a pair.
        """
        n, q, transposed = self._sums
        by_category = np.asarray((transposed @ weights.T).T)
        shared = np.asarray((self.matrix @ by_category.T).T)
        total, alike = weights @ n, np.einsum("dk,dk->d", by_category, by_category)
        own, pairs = weights @ q, weights @ n**2
        whole = _share(alike - own, total**2 - pairs)
        left = _share(
            alike[:, None] - 2 * shared + q - (own[:, None] - q), (total[:, None] - n) ** 2 - (pairs[:, None] - n**2)
        )
        return whole, left

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Any]:
        """Answers of each name, the sum of its squared counts, and the counts by category."""
        squares = self.matrix.copy()
        squares.data = squares.data**2
        ones = np.ones(self.matrix.shape[1])
        return self.matrix @ ones, squares @ ones, self.matrix.T.tocsr()


def _share(alike: Floats, pairs: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pairs > 0.5, 1 - alike / pairs, np.nan)


class PairCounts:
    """Answers of names in cues.

    Parameters
    ----------
    answers
        cue, cluster (a name within its group), category, count; ``name``, the same in all groups, else the cluster.
    """

    def __init__(self, answers: pd.DataFrame) -> None:
        from scipy.sparse import coo_array

        codes, self.names = pd.factorize(answers["cluster"], sort=True)  # what is drawn must not follow the rows' order
        persons = answers["name" if "name" in answers else "cluster"].to_numpy(object)
        self.persons = persons[np.unique(codes, return_index=True)[1]]
        """Shape (names,): whose answers they are."""
        self.cues: list[Cue] = []
        category, count = answers["category"].to_numpy(object), answers["count"].to_numpy(float)
        for cue, places in answers.groupby("cue").indices.items():  # sorted: nor the order of params
            present, row = np.unique(codes[places], return_inverse=True)
            column, kinds = pd.factorize(category[places], use_na_sentinel=False)
            matrix = coo_array((count[places], (row, column)), shape=(len(present), len(kinds))).tocsr()
            self.cues.append(Cue(str(cue), present, matrix))

    def thinned(self, rng: np.random.Generator) -> tuple[PairCounts, PairCounts]:
        """Two halves of the answers: each answer goes to one or the other."""
        halves = (object.__new__(PairCounts), object.__new__(PairCounts))
        for half in halves:
            half.names, half.persons, half.cues = self.names, self.persons, []
        for cue in self.cues:
            first, second = cue.matrix.copy(), cue.matrix.copy()
            first.data = rng.binomial(cue.matrix.data.astype(int), 0.5).astype(float)
            second.data = cue.matrix.data - first.data
            for half, matrix in zip(halves, (first, second), strict=True):
                half.cues.append(Cue(cue.name, cue.names, matrix))
        return halves

    def merged(self, units: Codes) -> PairCounts:
        """Rows of one number as one name; ``units``: shape (names,), from 0 in the order of their first rows."""
        from scipy.sparse import coo_array

        _, first = np.unique(units, return_index=True)
        if len(first) == len(units):
            return self
        made = object.__new__(PairCounts)
        made.names, made.persons, made.cues = self.names[first], self.persons[first], []
        for cue in self.cues:
            present, row = np.unique(units[cue.names], return_inverse=True)
            of_unit = coo_array((np.ones(len(row)), (row, np.arange(len(row)))), shape=(len(present), len(row)))
            made.cues.append(Cue(cue.name, present, (of_unit.tocsr() @ cue.matrix).tocsr()))
        return made

    def differences(self, codes: Codes, n_groups: int) -> tuple[Floats, Floats]:
        """P_d of group 0 minus that of each other group in each cue, and the same without each name.

        Parameters
        ----------
        codes
            Shape (draws, names): group of each name; names of another code are left out.

        Returns
        -------
        differences
            Shape (draws, groups - 1, cues); NaN where one of the groups has no pair.
        without
            Shape (draws, groups - 1, cues, names).
        """
        draws, n_names = codes.shape
        whole = np.full((draws, n_groups, len(self.cues)), np.nan)
        left = np.full((draws, n_groups, len(self.cues), n_names), np.nan)
        for place, cue in enumerate(self.cues):
            for group in range(n_groups):
                inside = codes[:, cue.names] == group
                made, without = cue.without_each(inside.astype(float))
                whole[:, group, place] = made
                left[:, group, place] = made[:, None]
                left[:, group, place, cue.names] = np.where(inside, without, made[:, None])
        return whole[:, :1] - whole[:, 1:], left[:, :1] - left[:, 1:]


@dataclass(frozen=True)
class GroupDifference:
    """A marked value against the unmarked value of its axis, or the mean over all marked values."""

    axis: str
    group: str
    reference: str
    estimate: float
    """P_d of the unmarked minus P_d of the marked group; positive: the marked group has less variety."""
    spread: Spread
    null: Null
    n_names: int
    n_cues: int


def comparable(counts: PairCounts, axes: Sequence[AxisLabels]) -> list[AxisLabels]:
    """The axes with the marked values that have two names with answers to a cue to which the unmarked value has two.

    Without those whose difference rests on two of a group's three or more names: without either of them there is none,
    so that nothing is known of its sampling error.
    """
    found = []
    for labels in axes:
        one = labels.merged()
        whole, left = counts.merged(labels.units).differences(one.codes[None, :], len(one.values))
        there = np.isfinite(whole[0]).any(axis=1)
        known = np.isfinite(left[0]).any(axis=1)
        for place in range(1, len(one.values)):
            for group in (0, place):
                own = one.codes == group
                there[place - 1] &= own.sum() < 3 or bool(known[place - 1, own].all())
        found += with_values(labels, [place for place in range(1, len(one.values)) if there[place - 1]])
    return found


def _mean(values: Floats, axis: int) -> Floats:
    """Mean of the values that are not NaN; NaN where all are."""
    present = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, values, 0.0).sum(axis=axis) / present.sum(axis=axis))


def jackknife_variance(without: Floats, codes: Codes) -> Floats:
    """Jackknife variance, shape (draws,), of a value without each name, (draws, names), with each group a stratum."""
    total = np.zeros(len(without))
    for group in range(int(codes.max(initial=0)) + 1):
        inside = (codes == group) & np.isfinite(without)
        n = np.maximum(inside.sum(axis=1), 1)
        own = np.where(inside, without, 0.0)
        mean = own.sum(axis=1) / n
        total += (n - 1) / n * np.where(inside, (without - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return total


def mean_difference(
    counts: PairCounts, axes: Sequence[AxisLabels], rng: np.random.Generator, family: int = 1, most: int | None = None
) -> GroupDifference | None:
    """The mean over all marked values and cues; None where nothing can be compared.

    Labels of each axis are exchanged among names that share their other values, whatever cues they answered. The
    statistic is studentised by its delete-one-name jackknife under each exchange, of which there are at most ``most``,
    by default as many as a family of ``family`` tests needs.
    """
    of_axes = [(counts.merged(one.units), one.merged()) for one in axes]
    exchanges = [Exchange.of(one.codes, one.strata, one.codes < 0) for _, one in of_axes]
    offsets = [int(one.codes.min(initial=0)) for one in axes]  # Exchange counts labels from 0; -1 is "none"
    n_marked = sum(len(one.values) - 1 for one in axes)

    def both(drawn: Sequence[Codes]) -> tuple[Floats, Floats, list[tuple[Floats, Floats]]]:
        estimate: Any = 0.0
        variance: Any = 0.0
        parts = []
        for (own_counts, one), codes in zip(of_axes, drawn, strict=True):
            whole, left = own_counts.differences(codes, len(one.values))
            share = (len(one.values) - 1) / n_marked
            mean = _mean(_mean(whole, 2), 1)
            own = _mean(_mean(left, 2), 1)
            estimate = estimate + share * mean
            variance = variance + share**2 * jackknife_variance(own, codes)
            parts.append((share * mean, share * own))
        return estimate, np.sqrt(variance), parts

    def draw(n: int) -> Floats:
        cells = len(counts.names) * max(1, len(counts.cues)) * max(len(one.values) for one in axes)
        parts, step = [], max(1, _BATCH // cells)
        for start in range(0, n, step):
            size = min(step, n - start)
            drawn = [e.draw(size, rng) + low for e, low in zip(exchanges, offsets, strict=True)]
            estimate, error, _ = both(drawn)
            parts.append(np.column_stack([studentised(estimate, error), estimate]))
        return np.concatenate(parts)

    if not axes:
        return None
    (estimate,), error, parts = both([one.codes[None, :] for _, one in of_axes])
    of_persons = [
        _by_person(own[0] - mean[0], own_counts.persons, counts.persons)
        for (mean, own), (own_counts, _) in zip(parts, of_axes, strict=True)
    ]
    observed = float(studentised(np.array([estimate]), error)[0])
    smallest = float(np.prod([exchange.smallest_p for exchange in exchanges]))
    return GroupDifference(
        "" if len(axes) > 1 else axes[0].axis, "", "", float(estimate),
        _spread(counts, float(estimate) + np.sum(of_persons, axis=0), axes),
        exchange_test(observed, draw, most or draws_needed(family), smallest_p=smallest),
        len(set(counts.persons[np.any([one.codes >= 0 for one in axes], axis=0)])), len(counts.cues),
    )  # fmt: skip


def _by_person(moved: Floats, of_unit: NDArray[np.object_], persons: NDArray[np.object_]) -> Floats:
    """How leaving out a name moves an estimate, to first order, summed over its units; shape of ``persons``."""
    summed = pd.Series(moved).groupby(of_unit, sort=False).agg(lambda parts: parts.sum(skipna=False))
    return np.asarray(summed.reindex(persons), dtype=float)


def _spread(counts: PairCounts, without: Floats, axes: Sequence[AxisLabels]) -> Spread:
    """Names are the sample, drawn for each crossing of the axes; one without which nothing is left counts as a name."""
    used = np.any([one.codes >= 0 for one in axes], axis=0)
    cells = [" ".join(values) for values in zip(*(one.strata[used] for one in axes), strict=True)]
    return spread(
        _given(without[used]), {"name": counts.persons[used]}, [one.codes[used] for one in axes], strata=np.array(cells)
    )


def _given(values: Floats) -> LeaveOut:
    """Leave-one-out values that are known already, one unit a cluster."""

    def without(codes: Codes, n_clusters: int) -> Floats:
        made = np.full(n_clusters, np.nan)
        made[codes] = values
        return made

    return without


def value_differences(
    counts: PairCounts, axes: Sequence[AxisLabels], rng: np.random.Generator, most: int | None = None
) -> Iterator[GroupDifference]:
    """Each marked value against the unmarked one; labels exchanged among the names of the two."""
    family = sum(len(one.values) - 1 for one in axes)
    for one in axes:
        for place, value in enumerate(one.values[1:], 1):
            codes = np.select([one.codes == 0, one.codes == place], [0, 1], -1).astype(np.intp)
            pair = replace(one, values=(one.values[0], value), codes=codes, strata=np.where(codes < 0, "", one.strata))
            kept = codes >= 0
            found = mean_difference(_only(counts, kept), [_of(pair, kept)], rng, family, most)
            if found is not None and not comparable(counts, [pair]):
                found = replace(found, estimate=NAN, spread=NO_SPREAD, null=Null())
            if found is not None:
                yield replace(found, axis=one.axis, group=value, reference=one.values[0])


def _of(one: AxisLabels, kept: NDArray[np.bool_]) -> AxisLabels:
    return replace(one, codes=one.codes[kept], strata=one.strata[kept], units=crossing(one.units[kept]))


def _only(counts: PairCounts, kept: NDArray[np.bool_]) -> PairCounts:
    """The names that are kept; cues that none of them answered are left out."""
    made = object.__new__(PairCounts)
    made.names, made.persons = counts.names[kept], counts.persons[kept]
    position = np.cumsum(kept) - 1
    made.cues = []
    for cue in counts.cues:
        rows = np.flatnonzero(kept[cue.names])
        if len(rows):
            made.cues.append(Cue(cue.name, position[cue.names[rows]], cue.matrix[rows]))
    return made


def cue_differences(counts: PairCounts, codes: Codes, confidence_level: float = 0.95) -> pd.DataFrame:
    """Group 0 minus group 1 in each cue: cue, difference, its jackknife interval and t test over names.

    Returns
    -------
    DataFrame
        cue, difference, difference_ci_low, difference_ci_high, p; NaN where a group has no pairs of names, and bounds
        and p NaN with fewer than six effective names in a group.
    """
    units = crossing(counts.persons, codes)
    counts, codes = counts.merged(units), codes[np.unique(units, return_index=True)[1]]
    whole, left = counts.differences(codes[None, :], 2)
    rows = []
    for place, cue in enumerate(counts.cues):
        here = np.zeros(len(counts.names), dtype=bool)
        here[cue.names] = True
        here &= codes >= 0
        estimate, persons = float(whole[0, 0, place]), counts.persons[here]
        moved = _by_person(left[0, 0, place][here] - estimate, persons, persons)
        made = spread(_given(estimate + moved), {"name": persons}, codes[here])
        rows.append((cue.name, estimate, *made.interval(estimate, confidence_level), made.p(estimate)))
    return pd.DataFrame(rows, columns=["cue", "difference", "difference_ci_low", "difference_ci_high", "p"])
