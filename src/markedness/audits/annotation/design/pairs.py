"""Which judgments are of one pair: texts that differ in the group alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.cards import are, count
from markedness.records import AuditError

Codes = NDArray[np.int64]
Labels = NDArray[np.object_]


class MatchError(AuditError):
    """Judgments that cannot be matched."""


def pair_codes(rows: pd.DataFrame) -> tuple[Codes, int]:
    """Code of paradigm, task and pair of each row, and how many there are."""
    names = (rows["paradigm"].astype(object) == "names").to_numpy(dtype=bool)
    pair, _ = codes(rows, "pair")
    vignette, _ = codes(rows, "vignette")
    alone = (pair < 0) & (vignette < 0)
    if alone.any():
        raise MatchError(
            f"annotation.featurize: {int(alone.sum())} judgments have neither pair nor vignette, so that nothing "
            "matches them; give one of the two columns"
        )
    by_vignette = pair < 0
    code = np.zeros(len(rows), dtype=np.int64)
    parts = (
        codes(rows, "paradigm")[0],
        codes(rows, "task")[0],
        np.where(names, codes(rows, "iteration")[0], -1),
        pair,
        np.where(by_vignette, vignette, -1),
        np.where(by_vignette & names, codes(rows, "gender")[0], -1),
    )
    for part in parts:
        size = int(part.max()) + 2
        if size > 1 and len(code) and int(code.max()) > np.iinfo(np.int64).max // size // 2:
            code = pd.factorize(code)[0].astype(np.int64)
        code = code * size + (part + 1)
    code, labels = pd.factorize(code)
    return code.astype(np.int64), len(labels)


def genders(rows: pd.DataFrame, places: Codes) -> Labels:
    """The gender of each of these rows of names, in one spelling; "" where none is given, or the place is -1."""
    if "gender" not in rows:
        return np.full(len(places), "", dtype=object)
    given = rows["paradigm"].astype(object).eq("names") & rows["gender"].notna()
    spelled = rows["gender"].astype(object).where(given, "").astype(str).str.strip().str.casefold()
    return np.where(places >= 0, spelled.to_numpy(object)[places], "")


def of_one_gender(made: pd.DataFrame, own: Labels, other: Labels) -> tuple[pd.DataFrame, list[str]]:
    """The pairs without those of names of two genders, whose difference is also one of gender, and what says so.

    Where all pairs of a group are of two genders they stay, with a column ``other_gender``. ``own``, ``other``: genders
    of the marked and of the unmarked text of each pair, "" where unknown.
    """
    apart = (own != other) & (own != "") & (other != "")
    mixed = apart & pd.Series(~apart).groupby(made["group"].astype(str)).transform("any").to_numpy(bool)
    if (apart & ~mixed).any():
        made["other_gender"] = (apart & ~mixed).astype("int8")
    if not (n := int(mixed.sum())):
        return made, []
    said = (
        f"{count(n, 'pair')} of names and tasks {are(n)} left out of {len(made):,}: the gender of the two names is not "
        "the same, so that a difference is one of gender, too."
    )
    return made[~mixed].reset_index(drop=True), [said]


def codes(rows: pd.DataFrame, name: str) -> tuple[Codes, pd.Index]:
    """Code of each value of a column; -1 where it is missing, empty, or there is no such column."""
    if name not in rows:
        return np.full(len(rows), -1, dtype=np.int64), pd.Index([])
    column = rows[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        found, values = column.cat.codes.to_numpy(), column.cat.categories
    else:
        found, values = pd.factorize(column)
    code = np.asarray(found, dtype=np.int64)
    empty = np.flatnonzero(np.asarray(values, dtype=object) == "")
    return np.where(np.isin(code, empty), -1, code) if len(empty) else code, values


def first_rows(code: Codes, size: int, rows: Codes) -> Codes:
    """First row of each code; -1 where there is none."""
    first = np.full(size, -1, dtype=np.int64)
    first[code[::-1]] = rows[::-1]
    return first
