"""Files of texts that exist already, as tables whose cells are text as the file has it."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from markedness.lm.base import ModelError
from markedness.lm.config import CorpusSource
from markedness.separated import read_separated

JSON_LINES = (".jsonl", ".ndjson")
WITHOUT_HEADER = (".parquet", *JSON_LINES)
"""Endings of files that are no CSV; in any case."""
LOG_OF = {".eval": "inspect", ".ep": "edsl", ".json.gz": "edsl"}
"""Endings of logs that need a ``format``."""


def matching(source: CorpusSource, root: Path, where: str) -> tuple[Path, ...]:
    """The files of a corpus, in the order of their names.

    Raises
    ------
    ModelError
        When there is none.
    """
    if (root / source.path).is_file():
        return (root / source.path,)
    pattern = source.path if Path(source.path).is_absolute() else f"{glob.escape(str(root))}/{source.path}"
    paths = tuple(path for path in map(Path, sorted(glob.glob(pattern))) if path.is_file())
    if not paths:
        raise ModelError(f"{where}.path: no file matches '{source.path}'; get the data or correct the path")
    return paths


def read_cells(path: Path, where: str) -> pd.DataFrame:
    """One file. Cells are text as the file has it: an integer id beside a missing cell stays an integer.

    Parameters
    ----------
    path
        A Parquet, JSON Lines or TSV file, else a CSV.
    where
        Path of the source in params.yaml, for messages.

    Returns
    -------
    DataFrame
        Numbers are strings: those of JSON Lines digit by digit as they are written, those of Parquet as Python writes
        the value of their type. Lists, mappings and bytes stay what they are, for a message about them.

    Raises
    ------
    ModelError
        When the file is not UTF-8, empty, damaged or no table.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            # Nullable types, or a column of integers with a missing cell would become one of floats.
            table = _numbers_as_text(_with_index(pd.read_parquet(path, dtype_backend="numpy_nullable")))
        elif kind in JSON_LINES:
            with path.open(encoding="utf-8-sig", newline="\n") as file:
                table = as_table(list(json_lines(file, path, where)))
        elif (
            tool := next((LOG_OF[ending] for ending in LOG_OF if path.name.lower().endswith(ending)), None)
        ) is not None:
            raise ModelError(
                f"{where}.path: {path} is a log of another tool; say which (format: {tool}), or export it as CSV"
            )
        elif kind == ".json":
            raise ModelError(f"{where}.path: {path} is JSON; save it as JSON Lines (.jsonl), one row a line")
        else:
            _refuse_nul(path, where)
            table = read_separated(path)
            if not isinstance(table.index, pd.RangeIndex):
                raise ModelError(
                    f"{where}.path: {path} has more cells in its rows than in its header; correct the header"
                )
    except UnicodeDecodeError as error:
        raise ModelError(f"{where}.path: {path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise ModelError(f"{where}.path: {path} is empty; name a file with texts") from error
    except (ValueError, OSError, LookupError, TypeError, NotImplementedError) as error:  # the last: damaged Parquet
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{where}.path: {path} cannot be read as {path.suffix or 'CSV'}: {reason}; get or export it again"
        ) from error
    if len(table.columns) == 1 and any(sign in str(table.columns[0]) for sign in ";,\t"):
        raise ModelError(
            f"{where}.path: {path} has the one column {table.columns[0]}; save it with "
            f"{'tabs' if kind == '.tsv' else 'commas'} between columns"
        )
    return table.reset_index(drop=True)


def _with_index(table: pd.DataFrame) -> pd.DataFrame:
    """With the columns that pandas wrote as an index of rows."""
    named = [level for level in table.index.names if level is not None and level not in table]
    return table.reset_index(level=named) if named else table


def _numbers_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Before files are joined: integers of one and floats of another would become floats."""
    numbers = [column for column in table if pd.api.types.is_numeric_dtype(table[column])]
    return table.astype(dict.fromkeys(numbers, "string"))


def json_lines(lines: Iterable[str], path: Path, where: str) -> Iterator[dict[str, Any]]:
    """One mapping a line; blank lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json_value(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is no mapping of columns to cells")
        if "\\u" in line and (column := _surrogate(row)) is not None:
            raise ModelError(
                f"{where}.path: {path.name} line {number} has half of a surrogate pair in '{column}', which is no "
                "character; remove it"
            )
        yield row


def json_rows(content: bytes, path: Path, where: str) -> list[dict[str, Any]]:
    """The lines of a file in memory, see `json_lines`."""
    return list(json_lines(content.decode("utf-8-sig").split("\n"), path, where))


def json_value(text: str | bytes) -> Any:
    """JSON with its numbers as they are written; ValueError where it is none."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=_constant, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def as_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows with the columns that any of them has; a key that one lacks is a missing cell."""
    columns = dict.fromkeys(column for row in rows for column in row)
    return pd.DataFrame({column: pd.Series([row.get(column) for row in rows], dtype=object) for column in columns})


def _constant(name: str) -> str | None:
    """NaN is a missing cell."""
    return None if name == "NaN" else name


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A mapping, each of whose keys is given once."""
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' is given twice")
    return row


def _surrogate(row: dict[str, object]) -> str | None:
    """The first column whose text has half of a surrogate pair."""
    return next(
        (
            column
            for column, cell in row.items()
            if isinstance(cell, str) and any("\ud800" <= character <= "\udfff" for character in cell)
        ),
        None,
    )


def _refuse_nul(path: Path, where: str) -> None:
    """A CSV reader ends a cell at a NUL character without a word."""
    line = 1
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            if (place := chunk.find(b"\0")) >= 0:
                line += chunk.count(b"\n", 0, place)
                raise ModelError(
                    f"{where}.path: {path.name} line {line} has a NUL character; remove it, or save the file as UTF-8"
                )
            line += chunk.count(b"\n")
