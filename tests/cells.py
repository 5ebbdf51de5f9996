"""A row or a cell of a table with its type: an assertion about a number fails where there is no number."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import Any

import pandas as pd


def row(table: pd.DataFrame, label: Hashable) -> pd.Series[Any]:
    """The one row with this label of the index, a tuple where the index has levels; KeyError if there is none."""
    found = table.xs(label)
    assert isinstance(found, pd.Series), f"{label}: {len(found)} rows"
    return found


def number(table: pd.DataFrame, label: Hashable, column: str) -> float:
    """The number in this row and column; NaN is one, pd.NA, None and a text are not."""
    value: object = table.at[label, column]
    assert isinstance(value, Real), f"{label}, {column}: {value!r} is no number"
    return float(value)


def text(table: pd.DataFrame, label: Hashable, column: str) -> str:
    """The text in this row and column."""
    value: object = table.at[label, column]
    assert isinstance(value, str), f"{label}, {column}: {value!r} is no text"
    return value
