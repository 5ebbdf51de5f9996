"""Probability of differentiation (Lee, Lai 2024): its tables, and how many effects of one study another replicates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from markedness.literature.agreement import Agreement, as_cells, result, tables

PAPER = "Lee, Lai 2024"


def differentiation(root: Path) -> Iterator[Agreement]:
    """P_d within 0.01 of print, its bounds within 0.02: a cell is one number."""
    tolerances = {"pd": 0.01, "ci_low": 0.02, "ci_high": 0.02}
    for (table, model), part in tables(root, "homogeneity_pd.csv"):
        found = result(root, "homogeneity", model, "probability_of_differentiation")
        if found is None:
            continue
        printed = part.assign(**{column: pd.to_numeric(part[column], errors="coerce") for column in tolerances})
        rows = []
        for row in printed.merge(found, on=["cue", "group"], how="left", suffixes=("", "_found")).to_dict("records"):
            for column, tolerance in tolerances.items():
                # printed with two decimals: half a unit of rounding belongs to the tolerance
                agrees = abs(row[f"{column}_found"] - row[column]) <= tolerance + 0.005
                rows.append((f"{row['cue']} {row['group']} {column}", row[column], row[f"{column}_found"], agrees))
        yield Agreement(PAPER, table, model, "P_d within 0.01, bounds within 0.02", as_cells(rows))


def effects(root: Path) -> Iterator[Agreement]:
    """Cohen's d and its bounds within four standard errors of d."""
    for (table, model), part in tables(root, "homogeneity_d.csv"):
        found = result(root, "homogeneity", model, "effects")
        if found is None:
            continue
        rows = []
        for row in part.to_dict("records"):
            name = _comparison(found, row["first"], row["second"])
            match = found[found["comparison"].eq(name) & found["cue"].eq(row["cue"])].to_dict("records")
            for column in ("d", "ci_low", "ci_high"):
                value = float(match[0][column]) if match else None
                error = (match[0]["ci_high"] - match[0]["ci_low"]) / 3.92 if match else float("nan")
                agrees = value is not None and abs(value - row[column]) <= 4 * error
                rows.append((f"{row['cue']} {row['first']} - {row['second']} {column}", row[column], value, agrees))
        yield Agreement(PAPER, f"{table} (d)", model, "within four standard errors of d", as_cells(rows))


def _comparison(found: pd.DataFrame, first: str, second: str) -> str:
    """The name under which the results hold this comparison, "" when they do not."""
    name = f"{first} v. {second}"
    return name if found["comparison"].eq(name).any() else ""


RULES = (differentiation, effects)
