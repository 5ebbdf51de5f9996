"""Texts that exist already, read as the generations table of one audit."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from markedness.lm.base import ModelError
from markedness.lm.config import CorpusSource
from markedness.records import GENERATION_COLUMNS, Axes, Axis, group_name

MAX_CHARACTERS = 1_000_000
"""Longest text: a longer one is a broken file (a quote that is never closed), not an answer."""


def read_corpus(
    source: CorpusSource, root: Path, where: str, axes: Axes, required: Sequence[str], optional: Sequence[str] = ()
) -> pd.DataFrame:
    """Read a corpus as a generations table.

    Parameters
    ----------
    source
        Path or pattern, columns, values.
    root
        Folder that the path is relative to.
    where
        Path of the source in params.yaml, for messages.
    axes
        Axes whose columns must hold known values.
    required, optional
        Our columns beside the axes. A missing ``cue`` is the file's stem.

    Returns
    -------
    DataFrame
        `GENERATION_COLUMNS`, the axes, the required and the optional columns; rows in file order.

    Raises
    ------
    ModelError
        When no file matches, a file is not UTF-8 or no table, holds no rows, lacks a required column, has a value
        that no axis knows, or a text above `MAX_CHARACTERS`.
    """
    paths = sorted(glob.glob(str(root / source.path)))
    if not paths:
        raise ModelError(f"{where}.path: no file matches '{source.path}'; get the data or correct the path")
    table = pd.concat([_read(Path(path), where) for path in paths], ignore_index=True)
    columns: dict[str, pd.Series] = {}
    for name in (*axes, *required, *optional):
        theirs = source.columns.get(name, name)
        if name in source.constants:
            columns[name] = pd.Series(source.constants[name], index=table.index, dtype="string")
        elif theirs in table:
            columns[name] = _values(table[theirs], source.values.get(name, {}))
        elif name in required or name in source.columns:
            known = ", ".join(str(column) for column in table.columns if not str(column).startswith("_"))
            known += "; save it with commas between the columns" if ";" in known else ""
            raise ModelError(f"{where}.columns.{name}: {paths[0]} has no column '{theirs}'; it has {known}")
        elif name == "cue":
            columns[name] = table["_stem"].astype("string")
    if table.empty:
        raise ModelError(f"{where}.path: {source.path} holds no rows; name a file with texts")
    for axis in axes:
        if axis in columns:
            columns[axis] = _respelt(columns[axis], axes[axis])
            _check_values(columns[axis], axis, axes, where, table)
    for name, column in columns.items():
        lengths = column.str.len()
        if (lengths > MAX_CHARACTERS).any():
            row = int(lengths.gt(MAX_CHARACTERS).fillna(False).argmax())
            raise ModelError(
                f"{where}.path: {_place(table, row)} has {lengths.iloc[row]:,} characters in the column '{name}', more "
                f"than {MAX_CHARACTERS:,}; look for a quote that is never closed, or leave this text out"
            )
    rows = pd.DataFrame(columns, index=table.index)
    if len(axes):
        present = [axis for axis in axes if axis in rows]
        # one name per combination, not per row: stored judgments come by the million
        if present:
            combos = rows[present].drop_duplicates().itertuples(index=False)
            names = pd.Index([group_name(dict(zip(present, combo, strict=True)), axes) for combo in combos])
            rows["group"] = names[rows.groupby(present, sort=False, dropna=False).ngroup().to_numpy()].astype("str")
        else:
            rows["group"] = ""
    if "prompt_id" not in rows:
        rows["prompt_id"] = rows.get("prompt", "")
    for name in ("prompt", "text", "group"):
        if name not in rows:
            rows[name] = pd.Series("", index=rows.index, dtype="string")
    rows["sample"] = rows.groupby(["prompt_id", "group"], sort=False, dropna=False).cumcount()
    rows["finish_reason"] = pd.Series(pd.NA, index=rows.index, dtype="string")
    rows["error"] = pd.Series(pd.NA, index=rows.index, dtype="string")
    return rows[[*GENERATION_COLUMNS, *(column for column in rows if column not in GENERATION_COLUMNS)]]


def _read(path: Path, where: str) -> pd.DataFrame:
    """One file, cells as text as they stand; ``_stem`` holds the file's stem."""
    try:
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
        elif path.suffix in (".jsonl", ".ndjson"):
            table = pd.read_json(path, lines=True, dtype=False)
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{where}.path: {path} is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise ModelError(f"{where}.path: {path} is empty; name a file with texts") from error
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{where}.path: {path} cannot be read as {path.suffix or 'CSV'}: {reason}") from error
    return table.assign(_stem=path.stem, _file=path.name, _row=range(1, len(table) + 1))


def _place(table: pd.DataFrame, row: int) -> str:
    return f"{table['_file'].iloc[row]} row {table['_row'].iloc[row]}"


def _values(column: pd.Series, mapping: dict[object, str]) -> pd.Series:
    """Cells as text, codes as our values; the code 1 is also "1.0", as a number becomes beside a missing one."""
    text = column.astype("string")
    numbers = {f"{code}.0": value for code, value in mapping.items() if type(code) is int}
    return text.replace(numbers | {str(code): value for code, value in mapping.items()}) if mapping else text


def _respelt(column: pd.Series, axis: Axis) -> pd.Series:
    """Values of an axis by their key, where the file has a label, noun or alias, or other capitals."""
    keys: dict[str, set[str]] = {}
    for key, words in axis.values.items():
        for spelling in {key, words.label, words.phrase, words.noun, *words.aliases} - {None}:
            keys.setdefault(str(spelling).casefold(), set()).add(key)
    found = {
        text: keys[text.casefold().strip()]
        for text in column.dropna().unique()
        if text not in axis.values and text.casefold().strip() in keys
    }
    return column.replace({text: next(iter(named)) for text, named in found.items() if len(named) == 1})


def _check_values(column: pd.Series, axis: str, axes: Axes, where: str, table: pd.DataFrame) -> None:
    known = list(axes[axis].values)
    strange = column[column.notna() & column.ne("") & ~column.isin(known)]
    if len(strange):
        raise ModelError(
            f"{where}.values.{axis}: {_place(table, int(strange.index[0]))} has '{strange.iloc[0]}', no value of the "
            f"axis; map it to one of {', '.join(known)}"
        )
