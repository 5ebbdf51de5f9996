"""Which marked groups can be compared with their unmarked group by an exchange of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Contrast:
    """Marked groups of one axis against its unmarked group."""

    labels: ArrayLike
    """Shape (units,): group of each unit; other groups than these are left out."""
    marked: Sequence[object]
    unmarked: object
    blocks: Sequence[ArrayLike] = ()
    """Arrays of shape (units,): labels are exchanged within their crossing (prompt, values of other axes)."""

    def known(self, there: NDArray[np.bool_]) -> Contrast:
        """With the marked groups that have units, if the unmarked one has; ``there``: which units have answers."""
        names = np.asarray(self.labels, dtype=object)[there]
        found = [group for group in self.marked if (names == group).any()]
        return replace(self, marked=found if (names == self.unmarked).any() else [])

    def exchangeable(self, there: NDArray[np.bool_]) -> Contrast:
        """With the marked groups that have units in a block with units of the unmarked one."""
        names = np.asarray(self.labels, dtype=object)[there]
        blocks = [np.asarray(block)[there].tolist() for block in self.blocks] or [[0] * len(names)]
        block = pd.Series(list(zip(*blocks, strict=True)), dtype=object)
        shared = set(block[names == self.unmarked])
        return replace(self, marked=[one for one in self.marked if not shared.isdisjoint(block[names == one])])


def testable(contrasts: Sequence[Contrast], there: NDArray[np.bool_]) -> tuple[list[Contrast], str]:
    """The contrasts with the groups that exchange can move, and which are left out, as a clause.

    Exchange leaves a group as it is where no block has units of it and of its unmarked group: nothing would be looked
    at. Where that is so of all groups, all are kept, and the exchange test says so.
    """
    known = [one.known(there) for one in contrasts]
    moved = [one.exchangeable(there) for one in known]
    if not any(one.marked for one in moved):
        return known, ""
    left = [str(group) for a, b in zip(known, moved, strict=True) for group in a.marked if group not in b.marked]
    why = "not over {}: no block has units of the group and of what it is compared with"
    return moved, why.format(", ".join(left)) if left else ""
