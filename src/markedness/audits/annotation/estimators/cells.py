"""Cells and clusters of matched pairs, as integer codes: what the estimates are computed by."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Codes = NDArray[np.int64]
REASONS = ("refusal", "unparsed", "truncated", "failed")
"""Why a judgment is missing: columns of the pairs, one of each side."""


def of_paradigm(pairs: pd.DataFrame, paradigm: str) -> pd.DataFrame:
    """The pairs of one paradigm."""
    rows = (pairs["paradigm"].astype(object) == paradigm).to_numpy(dtype=bool)
    return pairs[rows].reset_index(drop=True)


def cells(pairs: pd.DataFrame) -> tuple[Codes, pd.DataFrame]:
    """Cell of each pair, and the group, task and facts of each cell, ordered by group name and first task."""
    (group, groups), (task, tasks) = (pd.factorize(pairs[name], use_na_sentinel=False) for name in ("group", "task"))
    rank = np.argsort(np.argsort(np.asarray(groups, dtype=str)))
    code, labels = pd.factorize(rank[group] * len(tasks) + task, sort=True)
    first = np.zeros(len(labels), dtype=np.int64)
    first[code[::-1]] = np.arange(len(pairs))[::-1]
    names = [name for name in ("group", "reference", "task", "domain", "valence") if name in pairs]
    return code, pairs.loc[first, names].astype(dict.fromkeys(names[:3], object)).reset_index(drop=True)


def codes(pairs: pd.DataFrame, name: str) -> Codes:
    """Codes of a column; -1 where the value is missing or empty, or there is no such column."""
    if name not in pairs:
        return np.full(len(pairs), -1, dtype=np.int64)
    found, values = pd.factorize(pairs[name])
    empty = np.flatnonzero(np.asarray(values, dtype=object) == "")
    return np.where(np.isin(found, empty), -1, found).astype(np.int64)


def name_pairs(pairs: pd.DataFrame) -> Codes:
    """Codes of the two names of each pair; -1 where one is not known."""
    name, reference = codes(pairs, "name"), codes(pairs, "reference_name")
    return np.where((name < 0) | (reference < 0), -1, name * (reference.max(initial=0) + 1) + reference)


def exchangeable_units(pairs: pd.DataFrame) -> Codes:
    """Codes of what is flipped as one: a pair of texts with all the tasks it was judged on."""
    dialect = pairs["paradigm"].astype(object).eq("dialect").any()
    code = np.zeros(len(pairs), dtype=np.int64)
    for name in ("group", "pair", "vignette", *(() if dialect else ("iteration", "gender"))):
        part = codes(pairs, name) + 1
        code = pd.factorize(code * (int(part.max(initial=0)) + 1) + part)[0].astype(np.int64)
    return code


def mean(values: NDArray[np.float64]) -> float:
    """Mean of the values that are there; NaN if there are none."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else np.nan
