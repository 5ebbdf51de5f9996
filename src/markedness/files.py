"""How files get onto the disk: whole or not at all.

A file is written beside its place and moved there, and so is a folder that one stage fills: a killed run leaves the
old content, never half of the new. What it leaves unfinished is removed by the next run.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import fnmatch
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from markedness.records import AuditError

_UNFINISHED = ".part-"
"""Part of the name of a file that is being written."""


class StoreError(AuditError):
    """A file that is missing, unreadable or cannot be written."""


_DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    ArithmeticError,
    MemoryError,
)
"""What pandas and pyarrow raise for one damaged file or another."""


def read_parquet(
    source: Path | io.BytesIO, place: str, remedy: str, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """A Parquet table, of ``columns`` those that it has; StoreError with place and remedy where it is damaged."""
    try:
        if columns is not None:
            there = pq.read_schema(source).names
            columns = [column for column in columns if column in there]
        return pd.read_parquet(source, columns=columns)
    except _DAMAGED as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise StoreError(f"{place}: cannot be read ({reason}); {remedy}") from error


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A path to write to; moved to ``path`` when the block ends well, removed when it does not.

    The unfinished file is locked while it is written, so that those of killed runs can be told apart and are removed
    here.

    Raises
    ------
    StoreError
        When the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(path.parent)
        handle, part = _unfinished(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); make its folder writable") from error
    try:
        yield part
        part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); free some space or fix the folder") from error
    finally:
        part.unlink(missing_ok=True)
        os.close(handle)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a whole file, as `atomic` does; text as UTF-8."""
    with atomic(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def _unfinished(path: Path) -> tuple[int, Path]:
    """A new locked file beside ``path``; the lock ends with the process."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}{_UNFINISHED}", suffix=path.suffix)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # removed by another run between its making and its locking


def _remove_unfinished(folder: Path) -> None:
    """Remove the unfinished files of killed runs: those that no process holds locked."""
    for path in folder.glob(f".*{_UNFINISHED}*"):
        try:
            handle = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue  # finished meanwhile
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            continue  # another run is writing it
        finally:
            os.close(handle)


@contextlib.contextmanager
def locked(path: Path, name: str, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Keep other runs out until the block, or the process, ends.

    Parameters
    ----------
    path
        The lock file; it stays.
    name
        What is locked, as a reader knows it.
    wait
        Told once that another run holds the lock, which is then waited for; None: StoreError instead.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); make its folder writable") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if wait is None:
                raise StoreError(f"{name}: another run is writing it; wait until that ends, or stop it") from error
            wait(f"{name}: another run is writing it; waiting until that ends")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def renewed(folder: Path, parts: Sequence[str] = ()) -> Iterator[Path]:
    """A new folder to fill, with empty ``parts``; takes the place of ``folder``, whole, when the block ends well.

    When the block fails or the process is killed, ``folder`` stays as it was. Hold a lock: one run at a time.

    Raises
    ------
    StoreError
        When the folder cannot be written.
    """
    new = folder.with_name(f".{folder.name}.new")
    old = folder.with_name(f".{folder.name}.new.old")
    try:
        if old.is_dir() and not folder.exists():  # killed in the middle of an exchange of two steps
            old.rename(folder)
        for left in (new, old):  # by a killed run
            if left.is_symlink():
                left.unlink()
            elif left.exists():
                shutil.rmtree(left)
        refuse_link(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        for part in ("", *parts):
            (new / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        yield new
        try:
            if folder.exists():
                _exchange(new, folder)
            else:
                new.rename(folder)
        except OSError as error:
            raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)  # the old content; or, when the block failed, the new


def refuse_link(folder: Path) -> None:
    """StoreError where a folder of outputs is a symbolic link: what lies behind it is not the study's.

    A file of outputs may be one, as DVC makes them with cache.type symlink: it is replaced, never written through.
    """
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a symbolic link, and outputs are not written through one; remove it")


def refuse_outside(place: Path, root: Path) -> None:
    """StoreError where an output of the study at ``root`` lies outside of it, behind a folder that is a link.

    DVC makes links of files alone, so that such a folder is somebody's own. The study itself may lie behind a link.
    """
    if place.parent.resolve().is_relative_to(root.resolve()):
        return
    inside = reversed(place.relative_to(root).parents)
    link = next((root / one for one in inside if (root / one).is_symlink()), place.parent)
    raise StoreError(
        f"{link}: is a symbolic link to {link.resolve()}, outside of the study, and outputs are neither written nor "
        "removed there; put a folder in its place (for another disk: link the study as a whole, or move DVC's cache)"
    )


def _unwritable(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"{folder}: cannot be written ({error.strerror or error}); make it a writable folder")


def _exchange(first: Path, second: Path) -> None:
    """Swap two folders in one step where the system can (Linux), else in two."""
    at, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None or rename(at, os.fsencode(first), at, os.fsencode(second), exchange) != 0:
        aside = first.with_name(f"{first.name}.old")
        second.rename(aside)
        first.rename(second)
        aside.rename(first)


def estimator_bytes(fitted: Any) -> bytes:
    """A fitted scikit-learn estimator as skops archive, the same bytes for the same estimator.

    skops names objects by their addresses in memory and stamps files with the time; here objects are numbered in the
    order of the schema, and files have the earliest time that a ZIP archive knows.
    """
    import skops.io

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(fitted))) as archive:
        schema = json.loads(archive.read("schema.json"))
        numbers: dict[int, int] = {}
        files: dict[str, str] = {}
        _number(schema, numbers, files)
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as target:
            for old, new in files.items():
                target.writestr(zipfile.ZipInfo(new), archive.read(old))
            target.writestr(zipfile.ZipInfo("schema.json"), json.dumps(schema, indent=2))
    return made.getvalue()


def _number(node: Any, numbers: dict[int, int], files: dict[str, str]) -> None:
    """Replace in place the ids and file names of a skops schema by running numbers."""
    if isinstance(node, list):
        for child in node:
            _number(child, numbers, files)
    if not isinstance(node, dict):
        return
    if "__loader__" in node and isinstance(node.get("__id__"), int):
        node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
    if "__loader__" in node and isinstance(node.get("file"), str):
        node["file"] = files.setdefault(node["file"], f"{len(files) + 1}{Path(node['file']).suffix}")
    for child in node.values():
        _number(child, numbers, files)


def reads(path: Path, output: Path) -> bool:
    """Whether a path or pattern names an output or something in it; a pattern also where no file matches it yet."""
    if output in (real := Path(os.path.realpath(path)), *real.parents):
        return True
    pattern, parts = Path(os.path.normpath(path)).parts, output.parts
    return len(pattern) >= len(parts) and all(map(fnmatch.fnmatchcase, parts, pattern))


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table with U+FFFD for NUL and a line feed for a carriage return, which every reader takes for its own."""
    made = table.copy(deep=False)
    for column in table.select_dtypes(exclude=["number", "bool", "datetime"]):
        if table[column].astype(str).str.contains("[\0\r]", regex=True).any():
            made[column] = [_clean(cell) if isinstance(cell, str) else cell for cell in table[column]]
    return made


def _clean(cell: str) -> str:
    return cell.replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")


def cell_of(value: Any, kind: type) -> Any:
    """A value as its column's type; text that UTF-8 cannot hold is kept readable."""
    if value is None or (kind is not float and value != value):
        return None
    value = kind(value)
    return value.encode("utf-8", "replace").decode() if kind is str and not value.isprintable() else value


def plain_json(content: Any) -> Any:
    """NaN and infinities as null; numpy scalars as Python's."""
    if isinstance(content, Mapping):
        return {str(key): plain_json(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain_json(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, float) and (content != content or content in (float("inf"), float("-inf"))):
        return None
    return content
