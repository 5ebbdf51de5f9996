"""What the tables of several models have in common: the rows of what all were asked, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ASKED = "asked"
"""Of the features that an audit's `comparable` gives back, the table of what was asked, answered or not."""
_SHOWN = 3


def row_codes(columns: Sequence[Sequence[pd.Series]]) -> list[NDArray[np.int64]]:
    """Of each table the number of the values of each row: the same number for the same values in all tables.

    Parameters
    ----------
    columns
        For each column its values in each table; a missing value is a value of its own.
    """
    sizes = [len(values) for values in columns[0]]
    code = np.zeros(sum(sizes), dtype=np.int64)
    for of_tables in columns:
        given = [values.astype("category").cat for values in of_tables]
        known = pd.Index([]).append([one.categories.astype(object) for one in given]).unique()
        places = [np.append(known.get_indexer(one.categories.astype(object)), -1)[one.codes] for one in given]
        code = np.unique(code * (len(known) + 1) + np.concatenate(places) + 1, return_inverse=True)[1]
    return np.split(code, np.cumsum(sizes)[:-1])


def in_common(
    tables: Sequence[pd.DataFrame], columns: Sequence[str], among: Sequence[pd.DataFrame] | None = None
) -> list[NDArray[np.bool_]]:
    """The rows of each table whose values in these columns are in all of ``among``, by default in all tables."""
    among = tables if among is None else among
    codes = row_codes([[table[column] for table in (*tables, *among)] for column in columns])
    of_all = reduce(np.intersect1d, codes[len(tables) :])
    return [np.isin(code, of_all) for code in codes[: len(tables)]]


def left_out(tables: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]], columns: Sequence[str]) -> str:
    """What is no longer in the tables of models, (all rows, those that are kept): a sentence without a full stop.

    It names the values of these columns that are gone, or counts the rows where no value is; "" where all is kept.
    """
    found = []
    for model, (rows, kept) in tables.items():
        gone = {column: _gone(rows[column], kept[column]) for column in columns if column in rows}
        said = [f"{column} {_listed(values)}" for column, values in gone.items() if values]
        if said or len(kept) < len(rows):
            what = ", ".join(said) or f"{len(rows) - len(kept):,} of {len(rows):,} rows"
            found.append(f"{what} of {model}")
    return f"left out, as not asked of both or not answered by both: {'; '.join(found)}" if found else ""


def _gone(before: pd.Series, after: pd.Series) -> list[str]:
    values = set(before.dropna().unique()) - set(after.dropna().unique())
    return sorted(map(str, values))


def _listed(values: list[str]) -> str:
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more
