"""The groups of a study and their bootstrap: what the estimators of evaluate compare."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.differentiation import Replicates
from markedness.axes import Axes, as_written, group_name
from markedness.results import Score
from markedness.stats.inference import UNLIKE, Codes, Exchange, Floats, crossing, withdrawn


class Group(NamedTuple):
    """One group, and what it is compared with."""

    axis: str
    """The axis, or all of them joined by " x " for a crossed group."""
    name: str
    reference: str | None
    """The unmarked group it is compared with; None for the unmarked group itself."""


_EXCHANGES = 199
"""With which unlike numbers of answers are compared."""
Bootstrap = Mapping[Group, Mapping[str, Replicates]]
"""Group -> cue -> replicates; unmarked groups first."""


def groups(clusters: pd.DataFrame, axes: Axes) -> dict[Group, NDArray[np.bool_]]:
    """Values of each axis, then crossed groups; unmarked groups first.

    Parameters
    ----------
    clusters
        One cluster (name) a row: the axes, and group, the name of its crossed group.
    axes
        Axes that ``clusters`` has.

    Returns
    -------
    dict
        Group -> shape (clusters,): which clusters belong to it; groups without one are left out.
    """
    found = {}
    for axis, words in axes.items():
        for value in (words.unmarked, *words.marked):
            reference = None if value == words.unmarked else words.unmarked
            found[Group(axis, value, reference)] = clusters[axis].eq(value).to_numpy(bool)
    if len(axes) > 1:
        crossed = clusters["group"].where(clusters[list(axes)].replace("", None).notna().all(axis=1))
        unmarked = group_name({axis: words.unmarked for axis, words in axes.items()}, axes)
        values = dict(zip(crossed, clusters[list(axes)].itertuples(index=False, name=None), strict=True))
        for name in sorted(set(crossed.dropna()), key=lambda name: (name != unmarked, values[name])):
            group = Group(" x ".join(as_written(axes)), name, None if name == unmarked else unmarked)
            found[group] = crossed.eq(name).to_numpy(bool)
    return {group: members for group, members in found.items() if members.any()}


def compared(bootstrap: Bootstrap) -> Iterator[tuple[Group, str, Replicates, Replicates]]:
    """Marked group, cue, replicates of the unmarked and of the marked group, for each cue that both have."""
    for group, by_cue in bootstrap.items():
        if group.reference is not None:
            reference = bootstrap.get(Group(group.axis, group.reference, None), {})
            yield from ((group, cue, reference[cue], marked) for cue, marked in by_cue.items() if cue in reference)


@dataclass(frozen=True)
class AxisLabels:
    """One axis: the group of each name, and the values of the other axes."""

    axis: str
    values: tuple[str, ...]
    """The unmarked value, then the marked ones that have names."""
    codes: Codes
    """Shape (names,): index into ``values``, -1 for none."""
    strata: NDArray[np.object_]
    """Shape (names,): values of the other axes; of a name that has several, all of them."""
    others: NDArray[np.object_]
    """Shape (names,): values of the other axes in this row."""
    units: Codes
    """Shape (names,): rows of one number are one name that is in several groups of the other axes."""

    def merged(self) -> AxisLabels:
        """One row a unit."""
        _, first = np.unique(self.units, return_index=True)
        return replace(self, codes=self.codes[first], strata=self.strata[first], units=np.arange(len(first)))


def axis_labels(names: pd.DataFrame, axes: Axes) -> list[AxisLabels]:
    """The axes on which an unmarked and a marked value have names.

    Parameters
    ----------
    names
        A name within its group a row, in the order of ``PairCounts.names`` of `group_differences`: the axes, and
        ``name``, the same in all groups that a name is in.
    """
    names = names if "name" in names else names.assign(name=names.index)
    found = []
    for axis, words in axes.items():
        own = names[axis].astype(str)
        values = [value for value in (words.unmarked, *words.marked) if own.eq(value).any()]
        if len(values) < 2 or values[0] != words.unmarked:
            continue
        codes = np.asarray(own.map({value: place for place, value in enumerate(values)}).fillna(-1), dtype=np.intp)
        strata, others = strata_of(names, axis, axes), others_of(names, axis, axes).to_numpy(object)
        found.append(AxisLabels(axis, tuple(values), codes, strata, others, units_of(names, axis)))
    return found


def units_of(names: pd.DataFrame, axis: str) -> Codes:
    """Number of each name with one value of the axis, shape (rows,); it may be in several groups of the others."""
    return crossing(names["name"].astype(str), names[axis].astype(str))


def others_of(names: pd.DataFrame, axis: str, axes: Axes) -> pd.Series[str]:
    """Values of the other axes of each row."""
    return names[[other for other in axes if other != axis]].astype(str).agg(" ".join, axis=1)


def strata_of(names: pd.DataFrame, axis: str, axes: Axes) -> NDArray[np.object_]:
    """`others_of`; of a name that has several, all of them."""
    of_unit = others_of(names, axis, axes).groupby(units_of(names, axis))
    return of_unit.transform(lambda several: " | ".join(sorted(set(several)))).to_numpy(object)


def exchangeable(axes: Sequence[AxisLabels]) -> list[AxisLabels]:
    """The axes with the marked values that have names in a stratum with names of the unmarked value: the testable."""
    found = []
    for one in axes:
        unmarked = one.strata[one.codes == 0]
        kept = [place for place in range(1, len(one.values)) if np.isin(one.strata[one.codes == place], unmarked).any()]
        found += with_values(one, kept)
    return found


def with_values(one: AxisLabels, kept: Sequence[int]) -> list[AxisLabels]:
    """The axis with the unmarked and some marked values, by their places; none without one."""
    if not kept:
        return []
    codes = np.full_like(one.codes, -1)
    for number, place in enumerate([0, *kept]):
        codes[one.codes == place] = number
    return [replace(one, values=tuple(one.values[place] for place in [0, *kept]), codes=codes)]


def unlike_names(axes: Sequence[AxisLabels], values: Collection[str]) -> str:
    """A sentence where names of some of the values have other values on the other axes than the unmarked; else "".

    Groups of an axis are compared over all of their names, as published: with men alone of one race and women too of
    the other, the difference is one of race and gender.
    """
    found = []
    for one in axes:
        known, stratum = np.unique(one.strata, return_inverse=True)
        shares = []
        for place in range(len(one.values)):
            counts = np.bincount(stratum[one.codes == place], minlength=len(known))
            shares.append(counts / counts.sum())
        found += [
            f"{value} and {one.values[0]}"
            for value, share in zip(one.values[1:], shares[1:], strict=True)
            if value in values and np.abs(share - shares[0]).sum() / 2 > UNLIKE
        ]
    if not found:
        return ""
    return (
        f"The names of {', of '.join(found)} differ in the other axes: estimate and interval include what these do, "
        "p does not."
    )


def unlike_in_cues(one: AxisLabels, place: int, n_answers: Floats) -> float:
    """How the answers of a marked value and of the unmarked one differ, in each cue, in the shares of the other axes.

    Root of the mean over cues of the squares of half the sum of the differences in the shares of the other axes' values
    that both have, where each value weighs as many answers as one of its names has. Less (in squares) its mean where
    labels are exchanged as in the test, among names that share the other values.

    Parameters
    ----------
    one, place
        The axis, and the place of the marked value in its ``values``.
    n_answers
        Of each name about each cue, shape (names, cues).

    Returns
    -------
    float
        From 0 to 1; 0 where one of twenty exchanges is as unlike, unless none of all possible is more so.
    """
    rows = np.flatnonzero(np.isin(one.codes, [0, place]))
    _, first, unit = np.unique(one.units[rows], return_index=True, return_inverse=True)
    known, stratum = np.unique(one.others[rows], return_inverse=True)
    names, said = np.zeros((len(first), len(known))), np.zeros((len(first), len(known), n_answers.shape[1]))
    np.add.at(names, (unit, stratum), 1.0)
    np.add.at(said, (unit, stratum), n_answers[rows])
    exchange = Exchange.of(one.codes[rows][first] == place, one.strata[rows][first])
    labels = np.vstack([exchange.labels, exchange.draw(_EXCHANGES, np.random.default_rng(0))])
    sides = [(labels == label).astype(float) for label in (0, 1)]
    with np.errstate(invalid="ignore", divide="ignore"):
        of_a_name = [np.tensordot(side, said, 1) / (side @ names)[..., None] for side in sides]
        both = np.isfinite(of_a_name[0]) & np.isfinite(of_a_name[1])
        shares = [np.where(both, own, 0.0) / np.where(both, own, 0.0).sum(axis=1, keepdims=True) for own in of_a_name]
    squares = np.square(np.abs(shares[0] - shares[1]).sum(axis=1) / 2)  # NaN where one of the two has no answers
    mean = np.nan_to_num(squares).sum(axis=1) / np.maximum(1, np.isfinite(squares).sum(axis=1))
    observed, drawn = float(mean[0]), mean[1:]
    if observed < np.quantile(drawn, 0.95, method="inverted_cdf") - 1e-9:
        return 0.0
    return float(np.sqrt(max(0.0, observed - float(drawn.mean()))))


def unlike_answers(axes: Sequence[AxisLabels], values: Collection[str], n_answers: Floats) -> str:
    """Why p and interval of some of the values mean nothing: what one of their names said weighs otherwise; else "".

    Exchange gives a name and its answers to another group together. Where the names of a group have fewer answers to a
    cue in one stratum of the other axes than in another, and those of the unmarked group do not, the observed
    difference is also one of these strata, and those of exchanged names are not. Cues weigh alike, in squares, since
    what is unlike in one of them is not undone by the opposite in another. ``n_answers``: as in `unlike_in_cues`.
    """
    found = [
        f"{value} and {one.values[0]}"
        for one in axes
        for place, value in enumerate(one.values[1:], 1)
        if value in values and unlike_in_cues(one, place, n_answers) > UNLIKE
    ]
    if not found:
        return ""
    return (
        f"in the other axes, the names of {', of '.join(found)} have unlike numbers of answers, so that the estimate "
        "is also that of these axes"
    )


def of_like_names(score: Score, axes: Sequence[AxisLabels], values: Collection[str], n_answers: Floats) -> Score:
    """The Score as far as the names, and their answers, of the values are of the same other groups."""
    if score.missing:
        return score
    if why := unlike_answers(axes, values, n_answers):
        return withdrawn(score, why)
    sentence = unlike_names(axes, values)
    return score.warned(sentence) if sentence else score
