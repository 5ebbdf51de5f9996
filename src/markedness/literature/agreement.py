"""One printed table against what is found: its cells, how many agree, and the files that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from markedness.separated import read_results
from markedness.store import Store

COLUMNS = ["publication", "table", "model", "cells", "agree", "share", "rule"]
CELL_COLUMNS = ["publication", "table", "model", "cell", "printed", "found", "agrees"]


@dataclass(frozen=True)
class Agreement:
    """How many cells of one printed table the results agree with."""

    publication: str
    table: str
    model: str
    rule: str
    """When a cell agrees."""
    cells: pd.DataFrame
    """cell, printed, found, agrees; found is missing where the results have no such cell."""

    @property
    def n(self) -> int:
        """Printed cells."""
        return len(self.cells)

    @property
    def agreeing(self) -> int:
        """Cells that agree."""
        return int(self.cells["agrees"].sum())


def summary(made: Sequence[Agreement]) -> pd.DataFrame:
    """One row per printed table: publication, table, model, cells, agree, share, rule."""
    rows = [(a.publication, a.table, a.model, a.n, a.agreeing, a.agreeing / a.n, a.rule) for a in made]
    return pd.DataFrame(rows, columns=COLUMNS)


def per_paper(made: Sequence[Agreement]) -> pd.DataFrame:
    """One row per publication: publication, tables, cells, agree."""
    table = summary(made)
    counted = table.groupby("publication", sort=False).agg(tables=("table", "nunique"), cells=("cells", "sum"))
    return counted.assign(agree=table.groupby("publication")["agree"].sum()).reset_index()


def cells(made: Sequence[Agreement]) -> pd.DataFrame:
    """One row per printed cell."""
    parts = [a.cells.assign(publication=a.publication, table=a.table, model=a.model) for a in made]
    return pd.concat(parts, ignore_index=True)[CELL_COLUMNS] if parts else pd.DataFrame(columns=CELL_COLUMNS)


def write(store: Store, made: Sequence[Agreement]) -> Path:
    """results/literature: agreement.csv, cells.csv, errata.csv and a page; returns the page."""
    from markedness.reporting.index import literature_page

    folder = store.literature()
    tables = {"agreement": summary(made), "cells": cells(made), "errata": published(store.root, "errata.csv")}
    for name, table in tables.items():
        store.write_csv(folder / f"{name}.csv", table)
    store.write_bytes(folder / "index.html", literature_page(*tables.values()).encode("utf-8"))
    return folder / "index.html"


def published(root: Path, name: str) -> pd.DataFrame:
    """One file of data/published, of the study or of the package."""
    return pd.read_csv(Store(root).published(name), keep_default_na=False)


def result(root: Path, audit: str, model: str, table: str) -> pd.DataFrame | None:
    """A table of the results; None where the study was not run."""
    path = Store(root).results(audit, model) / "tables" / f"{table}.csv"
    return read_results(path) if path.is_file() else None


def tables(root: Path, name: str) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """(table, model) -> its printed cells, in the order of the file."""
    printed = published(root, name).astype({"table": str})
    for key in dict.fromkeys(zip(printed["table"], printed["model"], strict=True)):
        yield key, printed[printed["table"].eq(key[0]) & printed["model"].eq(key[1])]


def as_cells(rows: Sequence[tuple[str, object, object, bool]]) -> pd.DataFrame:
    """Rows of (cell, printed, found, agrees) as `Agreement.cells`."""
    return pd.DataFrame(rows, columns=["cell", "printed", "found", "agrees"]).astype({"agrees": bool})
