"""A world's matched pairs as stored judgments: what a whole run of calibrate reads."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from markedness.audits.base import WorldCorpus
from markedness.records import FeatureTables

_ABOUT = ["paradigm", "task", "pair", "iteration", "vignette", "gender", "valence"]


def as_corpus(features: FeatureTables, root: Path) -> WorldCorpus:
    """One judgment a row; a missing one has an empty ``y``.

    Raises
    ------
    ValueError
        When a text was judged more than once on a task.
    """
    pairs = features["pairs"]
    sides = []
    for suffix, group, name in (("", "group", "name"), ("_reference", "reference", "reference_name")):
        n, yes = pairs[f"n{suffix}"], pairs[f"yes{suffix}"]
        if n.gt(1).any():
            raise ValueError("a world with several judgments of one text has no place in a corpus of one judgment each")
        side = pairs[_ABOUT].assign(group=pairs[group], name=pairs[name], y=yes.astype("Int64").where(n.eq(1)))
        sides.append(side)
    rows = pd.concat(sides, ignore_index=True)
    of_dialect = rows["paradigm"].eq("dialect")
    rows["dialect"] = rows["group"].where(of_dialect)
    rows["group"] = rows["group"].where(~of_dialect)
    return WorldCorpus(rows, features)
