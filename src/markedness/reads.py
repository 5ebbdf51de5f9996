"""What a stage reads where DVC does not watch: the digests are kept with what the stage makes, and go where it goes."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

Reads = dict[str, str]
"""File, relative to the study -> digest of its content; "" where a stage looked for it and it was not there."""
KEY = b"markedness.reads"
"""In the metadata of a Parquet file."""
_LONGEST = 300
_found: ContextVar[dict[Path, str] | None] = ContextVar("found", default=None)


@contextmanager
def recorded() -> Iterator[None]:
    """Keep what is looked for within; also a decorator of a stage."""
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def looked_for(path: Path) -> None:
    """Say, before it is read, that a stage may read a file that DVC does not watch."""
    found = _found.get()
    if found is not None and path not in found:
        found[path] = digest(path)


def here(root: Path) -> Reads | None:
    """What was looked for so far within `recorded`; None outside."""
    found = _found.get()
    return None if found is None else {relative(root, path): found[path] for path in sorted(found)}


def relative(root: Path, path: Path) -> str:
    """The name of a file in `Reads`."""
    return Path(os.path.relpath(path, root)).as_posix()


def digest(path: Path) -> str:
    """Of the content of a file; "" where there is none."""
    try:
        about = path.stat()
        return _digest(path, about.st_size, about.st_mtime_ns) if path.is_file() else ""
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _digest(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def write_parquet(table: pd.DataFrame, path: Path, reads: Reads | None) -> None:
    """A table as pandas writes it, with what its stage read."""
    if reads is None:
        return table.to_parquet(path, index=False)
    made = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(made.replace_schema_metadata({**(made.schema.metadata or {}), **metadata(reads)}), path)


def metadata(reads: Reads | None) -> dict[bytes, bytes]:
    """What `of_parquet` reads."""
    return {} if reads is None else {KEY: json.dumps(reads).encode()}


def of_file(file: IO[bytes], name: str) -> Reads | None:
    """What a stage read, by what it made; None where that does not say it, as where an earlier version made it."""
    try:
        parquet = name.endswith(".parquet")
        found: Any = json.loads((pq.read_schema(file).metadata or {}).get(KEY, b"null") if parquet else file.read())
    except (OSError, ValueError, pa.ArrowException):
        return None
    return {str(name): str(kept) for name, kept in found.items()} if isinstance(found, Mapping) else None


def texts(content: object) -> Iterator[str]:
    """The texts in params."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        yield from (text for value in content.values() for text in texts(value))
    elif isinstance(content, list | tuple):
        yield from (text for value in content for text in texts(value))


def named(root: Path, text: str) -> list[Path]:
    """The files and folders that a text of the params names, by path or pattern; a plain word names a file alone.

    A column may be named "data" or "results", as folders of a study are.
    """
    if not text or len(text) > _LONGEST or "\0" in text or "\n" in text:
        return []
    pattern = text if Path(text).is_absolute() else f"{glob.escape(str(root))}/{text}"
    found = (Path(path) for path in sorted(glob.glob(pattern)))
    found = (path for path in found if "/" in text or Path(text).suffix or path.is_file())
    return [path for path in found if path.resolve() not in (root.resolve(), *root.resolve().parents)]


def files_of(place: Path) -> list[Path]:
    """A file, or the files in a folder."""
    found = sorted(place.rglob("*")) if place.is_dir() else [place]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]
