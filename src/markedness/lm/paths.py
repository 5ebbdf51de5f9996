"""Columns inside columns: `metadata.race` of a nested cell, and which of them a table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

LOOKED_AT = 50
"""Rows whose nested cells are named in messages."""
NAMED = 40
"""Columns that a message names."""
DEEPEST = 6
"""Levels that a message goes down."""
_ABSENT = object()


def with_paths(table: pd.DataFrame, wanted: Iterable[str]) -> pd.DataFrame:
    """Add the columns inside others that are wanted and found in at least one row.

    Parameters
    ----------
    table
        With mappings and lists as they are.
    wanted
        Names of columns, or paths: the name of a column, then keys of mappings and places in lists (from 0), separated
        by dots. A column of that very name comes first.
    """
    found: dict[str, pd.Series] = {}
    for path in dict.fromkeys(wanted):
        steps = path.split(".")
        head = next((n for n in range(len(steps) - 1, 0, -1) if ".".join(steps[:n]) in table), None)
        if path in table or head is None:
            continue
        cells = [_inside(cell, steps[head:]) for cell in table[".".join(steps[:head])]]
        if any(cell is not _ABSENT for cell in cells):
            found[path] = pd.Series(
                [None if cell is _ABSENT else cell for cell in cells], index=table.index, dtype=object
            )
    return table.assign(**found) if found else table


def _inside(cell: Any, steps: list[str]) -> Any:
    for number, step in enumerate(steps):
        if isinstance(cell, dict):
            rest = ".".join(steps[number:])
            if rest in cell:
                return cell[rest]
            cell = cell.get(step, _ABSENT)
        elif isinstance(cell, list | np.ndarray) and step.isdecimal() and len(step) < 10 and int(step) < len(cell):
            cell = cell[int(step)]
        else:
            return _ABSENT
    return cell


def known(table: pd.DataFrame, missed: str = "") -> str:
    """The columns of a table, those inside others by their paths, for a message.

    Where a path was missed whose first column is there, those in that column alone.
    """
    head = missed.split(".")[0]
    columns = [head] if "." in missed and head in table else list(table)
    names = dict.fromkeys(name for column in columns for name in _leaves(str(column), table[column].head(LOOKED_AT)))
    return ", ".join(list(names)[:NAMED]) + (", ..." if len(names) > NAMED else "") or "none"


def fields(column: str, cell: Any) -> list[str]:
    """The paths inside one nested cell, for a message."""
    return [path for path in dict.fromkeys(_leaves(column, [cell])) if path != column][:NAMED]


def _leaves(path: str, cells: Iterable[Any], depth: int = 0) -> Iterator[str]:
    inner: dict[str, list[Any]] = {}
    plain = False
    for cell in cells:
        if depth < DEEPEST and isinstance(cell, dict) and cell:
            for key, value in cell.items():
                inner.setdefault(str(key), []).append(value)
        elif depth < DEEPEST and isinstance(cell, list | np.ndarray) and len(cell):
            inner.setdefault("0", []).append(cell[0])
        else:
            plain = True
    if plain and not inner:
        yield path
    for key, values in inner.items():
        yield from _leaves(f"{path}.{key}", values, depth + 1)
