"""Single printed numbers against the tables of results: data/published/numbers.csv says where each is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from markedness.literature.agreement import Agreement, as_cells, published, result

OVER_ROWS = re.compile(r"(mean|sd|min|max|sum)\((\w+)\)")
"""A column over all rows: ``sd`` is that of the population, as printed."""
KEYS = ["publication", "table", "model"]


def agreements(root: Path) -> Iterator[Agreement]:
    """Numbers within the tolerance that stands beside them; half a unit of rounding is part of it."""
    printed = published(root, "numbers.csv").astype({"table": str})
    for (publication, table, model), part in printed.groupby(KEYS, sort=False):
        rows = []
        for row in part.to_dict("records"):
            found = result(root, str(row["audit"]), str(model), str(row["result"]))
            if found is None:
                break
            value = number(found, str(row["where"]), str(row["column"]))
            agrees = value is not None and abs(value - row["printed"]) <= row["tolerance"]
            rows.append((f"{row['where']} {row['column']}".strip(), row["printed"], value, agrees))
        else:
            low, high = part["tolerance"].min(), part["tolerance"].max()
            rule = f"within {high:g}" if low == high else f"within {low:g} to {high:g}"
            yield Agreement(str(publication), str(table), str(model), rule, as_cells(rows))


def number(table: pd.DataFrame, where: str, column: str) -> float | None:
    """One number of a table of results.

    Parameters
    ----------
    table
        Of the results.
    where
        "column=value" of the rows, separated by ";".
    column
        Of the one row, or over all rows: mean(x), sd(x), min(x), max(x), sum(x).

    Returns
    -------
    float or None
        None where no row, or more than one, is meant, or it has no number.
    """
    for condition in filter(None, where.split(";")):
        name, _, value = condition.strip().partition("=")
        table = table[table[name].astype(str).eq(value)]
    over = OVER_ROWS.fullmatch(column)
    values = pd.to_numeric(table[over[2] if over else column]).dropna()
    if values.empty or (over is None and len(values) > 1):
        return None
    if over is None:
        return float(values.iloc[0])
    return float(values.std(ddof=0) if over[1] == "sd" else values.agg(over[1]))
