"""Texts that exist already, read as the generations table of one audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.axes import Axes, group_name, groups_in_one_order, respelt
from markedness.lm.base import ModelError
from markedness.lm.batch_logs import batch_requests, unanswered
from markedness.lm.config import CorpusSource
from markedness.lm.corpus_files import matching, read_cells
from markedness.lm.log_rows import ended, together
from markedness.lm.logs import read_log
from markedness.lm.mapping import Sources, spellings, unused_codes
from markedness.lm.paths import fields, with_paths
from markedness.records import GENERATION_COLUMNS, CorpusColumns

MAX_CHARACTERS = 1_000_000
"""Longest text: a longer one is a broken file (a quote that is never closed), not an answer."""
AS_WRITTEN = ("text", "prompt")
"""Columns kept as the file has them; others are composed (NFC), without blanks at their ends: one name is one name."""
GROUPS_NAMED = 40
"""Groups that `Corpus.summary` names."""


@dataclass(frozen=True)
class Corpus:
    """A corpus as it was read."""

    rows: pd.DataFrame
    """`GENERATION_COLUMNS`, the axes, the required and the optional columns; in file order."""
    files: tuple[Path, ...]
    first_rows: tuple[int, ...]
    """Place in ``rows`` of the first row of each file."""
    absent: tuple[str, ...]
    """Axes without a column; none where another column names the group."""
    unused: tuple[str, ...]
    """Codes of an axis that no row has, each as a sentence."""
    without_group: str
    """What becomes of rows without a group."""
    notes: tuple[str, ...] = ()
    """What a log says of itself that a reader must know, such as that its run was broken off."""

    def place(self, row: int) -> str:
        """File and row of a row of ``rows``, for messages."""
        return _place(self.files, self.first_rows, row)

    def summary(self, groups: pd.Series, axes: Axes) -> Iterator[str]:
        """Sentences about the groups found, with their n, for a reader to check before anything is computed.

        Parameters
        ----------
        groups
            Name of the group of each row, with the index of ``rows``.
        axes
            The axes of the audit.
        """
        named = groups.fillna("").astype(str)
        counts = named[named.ne("")].value_counts().sort_index()
        shown = ", ".join(f"{group} {n:,}" for group, n in counts.head(GROUPS_NAMED).items())
        more = f", and {len(counts) - GROUPS_NAMED} more" if len(counts) > GROUPS_NAMED else ""
        yield f"{len(named):,} rows of {len(self.files)} file(s), {len(counts)} groups: {shown or 'none'}{more}"
        if empty := int(named.eq("").sum()):
            first = self.place(int(named.index[named.eq("")][0]))
            of = f"{empty:,} of {len(named):,} rows have no group (first: {first})"
            yield f"note: {of}; {self.without_group}"
        for axis in (name for name in axes if name in self.rows):
            unseen = [value for value in axes[axis].values if value not in set(self.rows[axis].dropna().unique())]
            if unseen:
                yield f"note: no row has the {axis} {', '.join(unseen)}"
        yield from (f"note: {sentence}" for sentence in (*self.notes, *self.unused))
        for axis in self.absent:
            yield f"note: there is no column for the axis {axis}; nothing is said about it"


def read_corpus(source: CorpusSource, root: Path, where: str, axes: Axes, columns: CorpusColumns) -> Corpus:
    """Read a corpus as a generations table.

    Parameters
    ----------
    source
        Path or pattern, columns, values, constants.
    root
        Folder that the path is relative to.
    where
        Path of the source in params.yaml, for messages.
    axes
        Axes whose columns must hold known values.
    columns
        Our columns beside the axes, and which axes need one. A missing ``cue`` is the file's stem.

    Raises
    ------
    ModelError
        When no file matches, a file is not UTF-8 or no table, holds no rows or lacks a column; when an entry of
        ``columns``, ``values`` or ``constants`` is not used; when a cell is a list or mapping, has a NUL character, a
        value that no axis knows, or a text above `MAX_CHARACTERS`.
    """
    files, tables, notes = _tables(source, root, where, (*axes, *columns.required, *columns.optional))
    if not any(len(table) for table in tables):
        raise ModelError(f"{where}.path: {source.path} holds no rows; name a file with texts")
    sources = Sources(source, axes, columns, files, tables)
    if sources.faults:
        raise ModelError("\n".join(f"{where}.{fault}" for fault in sources.faults))
    first_rows = tuple(int(n) for n in np.cumsum([0, *(len(table) for table in tables[:-1])]))
    table = pd.concat(tables, ignore_index=True)
    found: dict[str, pd.Series] = {}
    for name, theirs in sources.theirs.items():
        cells = table[theirs]
        _check_cells(cells, name, where, files, first_rows)
        found[name] = cells.astype("string")
        if name not in AS_WRITTEN:  # names, ids and labels are compared
            found[name] = found[name].str.normalize("NFC")
    unused = list(unused_codes(source, found, axes, files[0]))
    if faults := [sentence for sentence, is_fault in unused if is_fault]:
        raise ModelError("\n".join(f"{where}.{fault}" for fault in faults))
    for name, text in found.items():
        coded = _values(text, source.values.get(name, {}))
        if name not in AS_WRITTEN:  # a blank after an id or a code makes no other one
            coded = coded.where(coded.ne(text).fillna(False), _values(text.str.strip(), source.values.get(name, {})))
        found[name] = coded
    for name, constant in source.constants.items():
        found[name] = pd.Series(constant, index=table.index, dtype="string")
    if "cue" in (*columns.required, *columns.optional) and "cue" not in found:
        stems = np.repeat([path.stem for path in files], [len(table) for table in tables])
        found["cue"] = pd.Series(stems, index=table.index, dtype="string")
    for axis in (name for name in axes if name in found):
        found[axis] = respelt(found[axis].fillna(""), axes[axis])
        _check_values(found[axis], axis, axes, where, source, lambda row: _place(files, first_rows, row))
    order = [name for name in (*axes, *columns.required, *columns.optional) if name in found]
    rows = pd.DataFrame({name: found[name] for name in order}, index=table.index)
    for name in ("finish_reason", "error"):  # a log says how an answer ended, a table does not
        log = source.format is not None and name in table
        rows[name] = ended(table, name) if log else pd.Series(pd.NA, index=table.index, dtype="string")
    absent = () if columns.axes == "none" else tuple(sources.absent)
    codes = tuple(sentence for sentence, _ in unused)
    return Corpus(_as_generations(rows, axes), files, first_rows, absent, codes, columns.without_group, notes)


def _tables(
    source: CorpusSource, root: Path, where: str, ours: tuple[str, ...]
) -> tuple[tuple[Path, ...], list[pd.DataFrame], tuple[str, ...]]:
    """The files of a corpus, each as a table with the columns inside others that are wanted; and notes on them."""
    files, notes = matching(source, root, where), list[str]()
    wanted = [source.columns.get(name, name) or name for name in ours]
    if source.format is None:
        tables = [read_cells(path, where) for path in files]
    else:
        requests: dict[str, dict[str, Any]] = {}
        if source.requests is not None:
            requests = batch_requests(root / source.requests, where)
        whole = source.columns.get("text", "text") == "text"
        logs = [read_log(path, source.format, requests, whole, where) for path in files]
        missing = unanswered(requests, [log.table for log in logs])
        if len(missing.table):
            files, logs = (*files, root / str(source.requests)), [*logs, missing]
        tables, notes = together(logs, where)
        if source.format == "lm_eval" and len(folders := {path.parent.name for path in files}) > 1:
            notes.append(
                f"lm-eval's samples do not say which model answered, and these lie in {len(folders)} folders "
                f"({', '.join(sorted(folders)[:5])}); read those of one model"
            )
        of_use = [place for place, table in enumerate(tables) if len(table) or not len(logs[place].table)]
        files, tables = tuple(files[place] for place in of_use), [tables[place] for place in of_use]
    return files, [with_paths(table, wanted) for table in tables], tuple(notes)


def content_order(rows: pd.DataFrame, axes: Axes) -> NDArray[np.intp]:
    """Places of the rows of a corpus in an order that their content decides, not that of the file.

    By prompt and by the places of the axis values; within those by a hash of all columns, so that the order says
    nothing of the answers. Equal rows are told apart by their number among their equals.

    Parameters
    ----------
    rows
        See `Corpus.rows`; ``sample``, which numbers rows in file order, is not read.
    axes
        The axes of the audit.
    """
    content = rows.drop(columns="sample").astype("string").fillna("")
    if present := [axis for axis in axes if axis in content]:
        content["group"] = groups_in_one_order(content, present)
    hashed = pd.Series(pd.util.hash_pandas_object(content, index=False).to_numpy())
    again = hashed.groupby(hashed).cumcount().to_numpy(dtype=np.uint64)
    keys: list[NDArray[Any]] = [pd.util.hash_array(hashed.to_numpy() + again)]
    for axis in reversed(present):
        keys.append(pd.Index(list(axes[axis].values)).get_indexer(pd.Index(content[axis])))
    keys.append(pd.factorize(content["prompt_id"], sort=True)[0])
    return np.lexsort(keys)


def _as_generations(rows: pd.DataFrame, axes: Axes) -> pd.DataFrame:
    """Add the columns of every generations table."""
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
    return rows[[*GENERATION_COLUMNS, *(column for column in rows if column not in GENERATION_COLUMNS)]]


# ---------------------------------------------------------------- cells


def _place(files: tuple[Path, ...], first_rows: tuple[int, ...], row: int) -> str:
    number = int(np.searchsorted(first_rows, row, side="right")) - 1
    return f"{files[number].name} row {row - first_rows[number] + 1}"


def _check_cells(cells: pd.Series, name: str, where: str, files: tuple[Path, ...], first_rows: tuple[int, ...]) -> None:
    """Refuse lists, mappings, bytes, NUL characters and endless texts."""
    if cells.dtype == object:
        nested = cells.map(lambda cell: isinstance(cell, list | dict | tuple | set | bytes | np.ndarray))
        if nested.any():
            row = int(nested.to_numpy(dtype=bool).argmax())
            cell = cells.iloc[row]
            kind = "mapping" if isinstance(cell, dict) else "byte string" if isinstance(cell, bytes) else "list"
            inner = [] if isinstance(cell, bytes) else fields(str(cells.name), cell)
            remedy = f", or name what is in it (columns: {{{name}: {inner[0]}}})" if inner else ""
            more = f"; it has {', '.join(inner)}" if len(inner) > 1 else ""
            raise ModelError(
                f"{where}.columns.{name}: {_place(files, first_rows, row)} has a {kind} in the column '{cells.name}'; "
                f"write one text a cell{remedy}{more}"
            )
    try:
        text = cells.astype("string")
    except UnicodeEncodeError:
        raise ModelError(
            f"{where}.columns.{name}: a cell of the column '{cells.name}' has half of a surrogate pair, which is no "
            "character; remove it"
        ) from None
    lengths = text.str.len()
    if (lengths > MAX_CHARACTERS).any():
        row = int(lengths.gt(MAX_CHARACTERS).fillna(False).argmax())
        raise ModelError(
            f"{where}.path: {_place(files, first_rows, row)} has {lengths.iloc[row]:,} characters in the column "
            f"'{name}', more than {MAX_CHARACTERS:,}; look for a quote that is never closed, or leave this text out"
        )
    nul = text.str.contains("\0", regex=False).fillna(False)
    if nul.any():
        row = int(nul.to_numpy(dtype=bool).argmax())
        raise ModelError(
            f"{where}.path: {_place(files, first_rows, row)} has a NUL character in the column '{cells.name}'; "
            "remove it"
        )


def _values(text: pd.Series, mapping: Mapping[Any, str]) -> pd.Series:
    """Codes as our values."""
    replaced = {spelling: value for code, value in mapping.items() for spelling in spellings(code)}
    return text.replace(replaced) if mapping else text


def _check_values(
    column: pd.Series, axis: str, axes: Axes, where: str, source: CorpusSource, place: Callable[[int], str]
) -> None:
    known = list(axes[axis].values)
    strange = column[column.notna() & column.ne("") & ~column.isin(known)]
    if not len(strange):
        return
    if axis in source.constants:
        raise ModelError(
            f"{where}.constants.{axis}: '{source.constants[axis]}' is no value of the axis; write one of "
            f"{', '.join(known)}"
        )
    raise ModelError(
        f"{where}.values.{axis}: {place(int(strange.index[0]))} has '{strange.iloc[0]}', no value of the axis; "
        f"map it to one of {', '.join(known)}"
    )
