"""What the tables of several models have in common: the rows of what all were asked, and what is left out.

And what the two texts of a pair have in common, see `linked`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def chosen(tables: Sequence[pd.DataFrame], which: Sequence[NDArray[np.bool_]]) -> list[pd.DataFrame]:
    """These rows of each table."""
    return [table[kept] for table, kept in zip(tables, which, strict=True)]


def asked_alike(tables: Sequence[pd.DataFrame], columns: Sequence[str], more: Sequence[str], cluster: str) -> list[str]:
    """The columns by which rows of all tables are asked alike: ``columns``, and those of ``more`` that all have.

    A column is left out where the rows in common would lose a value of the columns before it, those of the cluster
    apart: models asked about other names of a group are compared on the group, of which names are draws, and models
    asked about other groups on none.
    """
    chosen = list(columns)
    for name in more:
        if all(name in table for table in tables):
            before, after = (tables[0][in_common(tables, by)[0]] for by in (chosen, [*chosen, name]))
            if all(before[one].nunique() == after[one].nunique() for one in chosen if one != cluster) and len(after):
                chosen.append(name)
    return chosen


def left_out(tables: Mapping[str, tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]], columns: Sequence[str]) -> str:
    """What is not in the tables that are compared: a sentence without a full stop, "" where nothing is left out.

    Parameters
    ----------
    tables
        Model -> all its rows, those that are left out, and those that are compared; rows keep their index.
    columns
        Those of which the values are named that are left out in all rows. All rows that are left out are counted.
    """
    found = []
    for model, (rows, out, kept) in tables.items():
        if out.empty:
            continue
        gone = {column: _gone(out[column], kept[column]) for column in columns if column in rows}
        once = {tuple(values): column for column, values in reversed(gone.items()) if values}  # both texts' vignette
        said = ", ".join(f"{column} {_listed(list(values))}" for values, column in reversed(once.items()))
        what = f"{len(out):,} of {len(rows):,} rows"
        found.append(f"{said} ({what}) of {model}" if said else f"{what} of {model}")
    return f"left out, as not asked of both or not answered by both: {'; '.join(found)}" if found else ""


def _gone(before: pd.Series, after: pd.Series) -> list[str]:
    values = set(before.dropna().unique()) - set(after.dropna().unique()) - {""}
    return sorted(map(str, values))


def _listed(values: list[str]) -> str:
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return ", ".join(values[:_SHOWN]) + more


def sentences(said: Iterable[str]) -> str:
    """One after the other, without the last full stop."""
    first, *others = [one.rstrip(".") for one in said] or [""]
    return ". ".join((first, *(f"{one[:1].upper()}{one[1:]}" for one in others)))


def told_links(joined: int, clusters: str, texts: str) -> Iterator[str]:
    """The note on clusters, so many, that `linked` made one with others; ``texts``: of which side they are named."""
    if joined > 0:
        yield (
            f"The two texts of a pair name different {clusters}, and {clusters} that share a pair, directly or through "
            f"others, are one: {joined:,} fewer than {texts} name."
        )


def linked(first: pd.Series, second: pd.Series) -> pd.Series:
    """The cluster of each pair of texts: clusters that share a pair, directly or through others, are one.

    Parameters
    ----------
    first, second
        Cluster of the one and of the other text of each pair, missing where it is not known. The two sides may name
        theirs apart: a name of both is one cluster only where a pair says so.

    Returns
    -------
    Series
        With the index of ``first``: the name of the first cluster of ``first``, by the alphabet, that is linked, of
        ``second`` where there is none; missing where neither is known.
    """
    first, second = first.astype(object), second.astype(object)
    known = first.notna() & second.notna()
    if (first[known] == second[known]).all():  # as in all that a study asks itself
        return first.where(first.notna(), second)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    (one, names), (other, others) = (pd.factorize(side, sort=True) for side in (first, second))
    size, both = len(names) + len(others), (one >= 0) & (other >= 0)
    edges = coo_array((np.ones(both.sum()), (one[both], len(names) + other[both])), (size, size))
    part = connected_components(edges, directed=False)[1] if size else np.zeros(0, dtype=np.intp)
    label = np.array([*names, *others, None], dtype=object)
    label[:-1] = label[:-1][np.unique(part, return_index=True)[1][part]]
    node = np.where(one >= 0, one, np.where(other >= 0, len(names) + other, size))
    return pd.Series(label[node], index=first.index, dtype=object)
