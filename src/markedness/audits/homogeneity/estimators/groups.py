"""The groups of a study and their bootstrap: what the estimators of evaluate compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.differentiation import Replicates
from markedness.records import Axes, group_name


class Group(NamedTuple):
    """One group, and what it is compared with."""

    axis: str
    """The axis, or all of them joined by " x " for a crossed group."""
    name: str
    reference: str | None
    """The unmarked group it is compared with; None for the unmarked group itself."""


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
        for name in sorted(set(crossed.dropna()), key=lambda name: (name != unmarked, name)):
            group = Group(" x ".join(axes), name, None if name == unmarked else unmarked)
            found[group] = crossed.eq(name).to_numpy(bool)
    return {group: members for group, members in found.items() if members.any()}


def compared(bootstrap: Bootstrap) -> Iterator[tuple[Group, str, Replicates, Replicates]]:
    """Marked group, cue, replicates of the unmarked and of the marked group, for each cue that both have."""
    for group, by_cue in bootstrap.items():
        if group.reference is not None:
            reference = bootstrap.get(Group(group.axis, group.reference, None), {})
            yield from ((group, cue, reference[cue], marked) for cue, marked in by_cue.items() if cue in reference)
