"""CSV and TSV files as they are read: those of a user, and tables of results.

For TSV there is no standard: cells are as they are, or in quotes as in CSV.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WITHIN = re.compile(r"\r(?![\r\n])")
"""Ends a line of an old Macintosh alone; \\r\\r\\n is what Python writes to Windows."""
csv.field_size_limit(2**31 - 1)  # by default a cell may have 131,072 characters


NAMES = (
    "attribute", "axis", "class", "compared_with", "comparison", "cue", "domain", "first", "group", "guise", "item",
    "key", "kind", "measure", "metric", "model", "model_a", "model_b", "note", "object", "occupation", "over",
    "paradigm", "predicate", "prompt", "reference", "references", "regard_scorer", "scorer", "second", "setting",
    "subject", "task", "text_set", "topic_model", "topic_words", "toxicity_scorer", "word",
)  # fmt: skip
"""Columns of results that hold names of the params or words of a model, which may look like numbers: "25", "01"."""


def read_results(path: Path) -> pd.DataFrame:
    """A table of results: empty cells are missing, and names are text, whatever they look like.

    Raises
    ------
    ValueError
        Where it is empty or no table, of pandas.
    """
    return pd.read_csv(path, dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values=[""])


def separator(path: Path) -> str:
    """What stands between the cells of a file, by its name."""
    return "\t" if path.suffix.lower() == ".tsv" else ","


def read_separated(path: Path) -> pd.DataFrame:
    """All cells as text, empty ones as ""; NaN where a row ends early.

    Raises
    ------
    ValueError
        Where the file is not UTF-8 (UnicodeDecodeError), empty or no table (of pandas), a quoted cell of a CSV goes on
        after its end, a cell without quotes has a carriage return, which would end its row, or see `quoting`.
    """
    between = separator(path)
    how: Literal[0, 3] = 0
    if between == ",":
        _refuse_broken_quotes(path)
    else:
        how = quoting(path.read_text(encoding="utf-8-sig"))
    with path.open(encoding="utf-8-sig", newline="") as file:
        _refuse_broken_lines(file.read() if how else _QUOTED.sub("", file.read()))
    return pd.read_csv(path, sep=between, quoting=how, dtype=str, keep_default_na=False, encoding="utf-8-sig")


def read_stimuli_table(path: Path) -> pd.DataFrame:
    """A table of stimuli: all cells as text without blanks at their ends, "" where empty or where a row ends early.

    Raises
    ------
    ValueError
        As `read_separated`; where rows have more cells than the header, which would shift all columns; where two
        columns have one name.
    """
    table = read_separated(path)
    if not isinstance(table.index, pd.RangeIndex):
        raise ValueError("rows have more cells than the header; put cells with a comma in quotes")
    table = table.rename(columns=str.strip).fillna("")
    if table.columns.has_duplicates:
        raise ValueError(f"two columns are named '{table.columns[table.columns.duplicated()][0]}'; rename one")
    for name in table.columns:
        table[name] = table[name].str.strip()
    return table


def _refuse_broken_quotes(path: Path) -> None:
    """A reader of CSV takes rows between a quotation mark that was not meant so and the next one for one cell."""
    with path.open("rb") as raw:
        if not any(b'"' in chunk for chunk in iter(lambda: raw.read(1 << 20), b"")):
            return
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows, first = csv.reader(file, strict=True), 1
        try:
            for _ in rows:
                first = rows.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"the row that begins in line {first} has a quoted cell that does not end, or goes on after its end; "
                'put cells with quotation marks in quotes, and each mark inside twice ("She said ""no""")'
            ) from error


def _refuse_broken_lines(unquoted: str) -> None:
    found = _WITHIN.search(unquoted)
    if found and "\n" in unquoted:
        before = unquoted[: found.start()].rpartition("\n")[2]
        raise ValueError(
            f"a cell without quotes has a carriage return (\\r) after '{before[-30:]}', which would end its row; put "
            "cells with line breaks in quotes"
        )


def quoting(text: str) -> Literal[0, 3]:
    """How a TSV file is to be read: 3, ``csv.QUOTE_NONE``, every cell as it is, or 0, ``csv.QUOTE_MINIMAL``, as CSV.

    Raises
    ------
    ValueError
        Where some cells begin with a quotation mark, and it cannot be told whether that belongs to the text.
    """
    plain = [line.rstrip("\n").split("\t") for line in io.StringIO(text, newline=None) if line.rstrip("\n")]
    if not any(cell.startswith('"') for row in plain for cell in row):
        return 3
    try:
        rows = list(filter(None, csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)))
    except csv.Error:  # as after the second mark of: "Hello" she says
        rows = []
    as_they_are, as_csv = map(_is_table, (plain, rows))
    if as_csv and (not as_they_are or _is_of_a_writer([cell for row in plain for cell in row])):
        return 0
    if as_they_are and not as_csv:
        return 3
    raise ValueError(
        "some cells begin with a quotation mark, and TSV does not say whether it belongs to the text; save the file as "
        "CSV or JSON Lines"
    )


def cells_of(text: str) -> list[list[str]]:
    """The rows of a TSV without a header, as `quoting` says; a line break or tab within a quoted cell is a space."""
    if quoting(text) == 3:
        return [line.removesuffix("\r").split("\t") for line in text.split("\n")]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    return [[" ".join(re.split(r"[\t\r\n]+", cell)) for cell in row] for row in rows]


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Whether every row has as many cells as the header."""
    return bool(rows) and all(len(row) == len(rows[0]) for row in rows)


def _is_of_a_writer(cells: Sequence[str]) -> bool:
    """Whether quotes are where programs put them: around all but numbers, or around all cells with a mark inside."""
    quoted = [cell for cell in cells if cell.startswith('"')]
    bare = [cell for cell in cells if not cell.startswith('"')]
    if not all(map(_QUOTED.fullmatch, quoted)):
        return False
    needed = all('"' in cell[1:-1] or cell == '""' for cell in quoted)
    return all(map(_is_number, bare)) or (needed and not any('"' in cell for cell in bare))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
