"""How well this reproduces the literature: printed tables against the results on the studies' own data.

The printed tables are data of the project (data/published); the studies' data are pinned (`markedness.corpora`)
and are audited like any corpus, with the params of literature.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from markedness.store import Store


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


PERSONAS = "Cheng, Durmus, Jurafsky 2023"
HOMOGENEITY = "Lee, Lai 2024"


def agreements(root: Path) -> list[Agreement]:
    """Every printed table whose study has results under ``root``, in the order of the papers."""
    made: list[Agreement] = []
    for rule in (_words, _scores, _differentiation, _effects):
        made += rule(root)
    return made


def summary(made: list[Agreement]) -> pd.DataFrame:
    """One row per printed table: publication, table, model, cells, agree, share, rule."""
    rows = [(a.publication, a.table, a.model, a.n, a.agreeing, a.agreeing / a.n, a.rule) for a in made]
    return pd.DataFrame(rows, columns=["publication", "table", "model", "cells", "agree", "share", "rule"])


def cells(made: list[Agreement]) -> pd.DataFrame:
    """One row per printed cell."""
    parts = [a.cells.assign(publication=a.publication, table=a.table, model=a.model) for a in made]
    columns = ["publication", "table", "model", "cell", "printed", "found", "agrees"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def write(store: Store, made: list[Agreement]) -> Path:
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


def _result(root: Path, audit: str, model: str, table: str) -> pd.DataFrame | None:
    path = Store(root).results(audit, model) / "tables" / f"{table}.csv"
    return pd.read_csv(path, keep_default_na=True) if path.is_file() else None


def _words(root: Path) -> Iterator[Agreement]:
    """Significant words of each group, as sets; a group is one cell.

    Of a single group table 3 prints 20 words, chosen from tables A3 and A4: they must be among those found.
    """
    for (table, model), part in _tables(root, "personas_words.csv"):
        found = _result(root, "personas", model, "marked_words")
        if found is None:
            continue
        found = found[found["kind"].eq("persona")]
        rows = []
        for group in part["group"].unique():
            expected = set(part.loc[part["group"].eq(group), "word"].astype(str))
            got = set(found.loc[found["group"].eq(group), "word"].astype(str))
            if table == "3" and " " not in group:
                got &= expected
            missing, more = (" ".join(sorted(words)) or "-" for words in (expected - got, got - expected))
            rows.append((group, f"{len(expected)} words", f"missing: {missing}; more: {more}", expected == got))
        rule = "the same set of words" + ("; of single groups, a subset" if table == "3" else "")
        yield Agreement(PERSONAS, table, model, rule, _cells(rows))


def _scores(root: Path) -> Iterator[Agreement]:
    """SVM, sentiment and lexicon numbers within the tolerance that is printed beside them."""
    for (table, model), part in _tables(root, "personas_scores.csv"):
        measure, _, lexicon = table.partition(":")
        found = _result(root, "personas", model, measure)
        if found is None:
            continue
        found = found[found["kind"].eq("persona")]
        if lexicon:
            found = found[found["lexicon"].eq(lexicon)]
        rows = []
        for row in part.to_dict("records"):
            value = _score(found, row["group"], row["column"])
            agrees = value is not None and abs(value - row["value"]) <= row["tolerance"]
            rows.append((f"{row['group']} {row['column']}".strip(), row["value"], value, agrees))
        yield Agreement(PERSONAS, table, model, f"within {part['tolerance'].iloc[0]:g}", _cells(rows))


def _score(table: pd.DataFrame, group: str, column: str) -> float | None:
    """One number of a results table: of a group, of all texts ("all"), or over the rows ("mean accuracy")."""
    how, _, name = column.rpartition(" ")
    if how:
        values = table[name].dropna().to_numpy(float)
        return float(values.mean() if how == "mean" else values.std()) if len(values) else None
    rows = table.loc[table["group"].eq(group or "all"), column].to_numpy(float)
    return float(rows[0]) if len(rows) else None


def _differentiation(root: Path) -> Iterator[Agreement]:
    """P_d within 0.01 of print, its bounds within 0.02: a cell is one number."""
    tolerances = {"pd": 0.01, "ci_low": 0.02, "ci_high": 0.02}
    for (table, model), part in _tables(root, "homogeneity_pd.csv"):
        found = _result(root, "homogeneity", model, "probability_of_differentiation")
        if found is None:
            continue
        rows = []
        for row in part.merge(found, on=["cue", "group"], how="left", suffixes=("", "_found")).to_dict("records"):
            for column, tolerance in tolerances.items():
                # printed with two decimals: half a unit of rounding belongs to the tolerance
                agrees = abs(row[f"{column}_found"] - row[column]) <= tolerance + 0.005
                rows.append((f"{row['cue']} {row['group']} {column}", row[column], row[f"{column}_found"], agrees))
        yield Agreement(HOMOGENEITY, table, model, "P_d within 0.01, bounds within 0.02", _cells(rows))


def _effects(root: Path) -> Iterator[Agreement]:
    """Cohen's d within four standard errors of print."""
    for (table, model), part in _tables(root, "homogeneity_d.csv"):
        found = _result(root, "homogeneity", model, "effects")
        if found is None:
            continue
        rows = []
        for row in part.to_dict("records"):
            name = _comparison(found, row["first"], row["second"])
            match = found[found["comparison"].eq(name) & found["cue"].eq(row["cue"])].to_dict("records")
            value = float(match[0]["d"]) if match else None
            agrees = (
                value is not None and abs(value - row["d"]) <= 4 * (match[0]["ci_high"] - match[0]["ci_low"]) / 3.92
            )
            rows.append((f"{row['cue']} {row['first']} - {row['second']}", row["d"], value, agrees))
        yield Agreement(HOMOGENEITY, table, model, "d within four standard errors", _cells(rows))


def _comparison(effects: pd.DataFrame, first: str, second: str) -> str:
    """The name under which the results hold this comparison, "" when they do not."""
    names = [str(name) for name in effects["comparison"].unique()]
    return next((name for name in names if name.startswith(first) and name.endswith(second)), "")


def _tables(root: Path, name: str) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """(table, model) -> its printed cells, in the order of the file."""
    printed = published(root, name).astype({"table": str})
    for key in dict.fromkeys(zip(printed["table"], printed["model"], strict=True)):
        yield key, printed[printed["table"].eq(key[0]) & printed["model"].eq(key[1])]


def _cells(rows: Sequence[tuple[str, object, object, bool]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["cell", "printed", "found", "agrees"]).astype({"agrees": bool})
