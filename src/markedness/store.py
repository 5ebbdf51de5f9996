"""Where everything lies: alone knows data/, models/, results/ and reports/.

Every file is written beside its place and moved there whole, so that a killed run leaves the old file or
none, never half of one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from markedness.records import AuditError

_PACKAGE = Path(__file__).parent
_PACKAGED_STIMULI = (_PACKAGE / "_stimuli", _PACKAGE.parents[1] / "data" / "stimuli")


class StoreError(AuditError):
    """A file that is missing, unreadable or cannot be written."""


ROWS_AT_ONCE = 20_000
"""Rows of a table that is written in pieces."""


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A path to write to; moved to ``path`` when the block ends well, removed when it does not.

    Raises
    ------
    StoreError
        When the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); make its folder writable") from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); free some space or mend the folder") from error
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True)
class Store:
    """The files of one study."""

    root: Path

    # ---- the tables of the way of the data

    def table_path(self, kind: str, audit: str, model: str) -> Path:
        """data/<kind>/<audit>/<model>.parquet; kind: generations, responses, features or estimates."""
        return self.root / "data" / kind / audit / f"{model}.parquet"

    def write_table(self, kind: str, audit: str, model: str, table: pd.DataFrame) -> None:
        """Write one Parquet table."""
        with atomic(self.table_path(kind, audit, model)) as part:
            table.to_parquet(part, index=False)

    def write_rows(
        self, kind: str, audit: str, model: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, type]
    ) -> None:
        """Write one Parquet table row by row, in pieces, so that it never stands in memory whole."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        schema = pa.schema([(name, types[kind_of]) for name, kind_of in columns.items()])
        with atomic(self.table_path(kind, audit, model)) as part, pq.ParquetWriter(part, schema) as writer:
            rest = iter(rows)
            while piece := list(itertools.islice(rest, ROWS_AT_ONCE)):
                cells = {name: [_cell(row.get(name), kind_of) for row in piece] for name, kind_of in columns.items()}
                writer.write_table(pa.table(cells, schema=schema))

    def read_table(self, kind: str, audit: str, model: str) -> pd.DataFrame:
        """Read one Parquet table; StoreError names the stage that makes it."""
        path = self.table_path(kind, audit, model)
        if not path.exists():
            maker = {"generations": "generate", "responses": "clean", "features": "featurize"}.get(kind, "evaluate")
            raise StoreError(f"{path}: not there yet; run 'markedness {maker} {audit} --model {model}' first")
        return pd.read_parquet(path)

    def ledger_path(self, audit: str, model: str) -> Path:
        """The append-only file of answered requests."""
        return self.root / "data" / "ledger" / audit / f"{model}.jsonl"

    def stimuli(self, audit: str) -> FolderStimuli:
        """The stimuli of one audit."""
        return FolderStimuli(audit, self.root)

    # ---- results

    def results(self, audit: str, model: str) -> Path:
        """results/<audit>/<model>."""
        return self.root / "results" / audit / model

    def models(self, audit: str, model: str) -> Path:
        """models/<audit>/<model>: fitted classifiers and topic models."""
        return self.root / "models" / audit / model

    def compared(self) -> Path:
        """results/compare."""
        return self.root / "results" / "compare"

    def reports(self) -> Path:
        """reports/."""
        return self.root / "reports"

    def read_csv(self, path: Path) -> pd.DataFrame:
        """A table of results; StoreError when it is not there."""
        if not path.exists():
            raise StoreError(f"{path}: not there yet; run the audit of this model first")
        return pd.read_csv(path)

    def write_csv(self, path: Path, table: pd.DataFrame) -> None:
        """UTF-8, comma and point, numbers unrounded, missing values empty."""
        with atomic(path) as part:
            table.to_csv(part, index=False, lineterminator="\n")

    def write_json(self, path: Path, content: Any) -> None:
        """Two spaces, keys in the given order; NaN becomes null."""
        with atomic(path) as part:
            part.write_text(json.dumps(_plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Any other file."""
        with atomic(path) as part:
            part.write_bytes(content)

    def clear(self, folder: Path, parts: Sequence[str] = ()) -> None:
        """Remove the files of a folder that a stage writes anew, so that no old table stays; make empty ``parts``.

        Raises
        ------
        StoreError
            When the folder cannot be written.
        """
        try:
            for path in sorted(folder.rglob("*"), reverse=True) if folder.exists() else ():
                path.rmdir() if path.is_dir() else path.unlink()
            for part in parts:
                (folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be written ({error.strerror}); make it a writable folder") from error


def _cell(value: Any, kind: type) -> Any:
    """A value as its column's type; text that UTF-8 cannot hold is kept readable."""
    if value is None or (kind is not float and value != value):
        return None
    value = kind(value)
    return value.encode("utf-8", "replace").decode() if kind is str and not value.isprintable() else value


def _plain(content: Any) -> Any:
    """NaN and infinities as null; numpy scalars as Python's."""
    if isinstance(content, Mapping):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if hasattr(content, "item"):
        content = content.item()
    if isinstance(content, float) and (content != content or content in (float("inf"), float("-inf"))):
        return None
    return content


@dataclass(frozen=True)
class FolderStimuli:
    """`markedness.records.Stimuli` from folders."""

    audit: str
    root: Path

    def path(self, name: str) -> Path:
        """Where a stimulus file lies; StoreError names every place that was looked at."""
        places = [self.root / "data" / "stimuli" / self.audit / name, self.root / name]
        places += [folder / self.audit / name for folder in _PACKAGED_STIMULI]
        for place in places:
            if place.is_file():
                return place
        raise StoreError(
            f"stimuli file '{name}' of {self.audit} is neither in data/stimuli/{self.audit}/ nor beside params.yaml "
            "nor part of the package; put it there or correct its name"
        )

    def table(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """See `markedness.records.Stimuli.table`."""
        path = self.path(name)
        try:
            separator = "\t" if path.suffix == ".tsv" else ","
            table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
            raise StoreError(f"{path}: not a table in UTF-8 with a header: {error}") from error
        missing = [column for column in columns if column not in table]
        if missing:
            raise StoreError(f"{path}: column '{missing[0]}' is missing; it has {', '.join(table.columns)}")
        return table

    def data(self, name: str) -> Any:
        """See `markedness.records.Stimuli.data`."""
        try:
            return yaml.safe_load(self.text(name))
        except yaml.YAMLError as error:
            raise StoreError(f"{self.path(name)}: not YAML or JSON: {' '.join(str(error).split())}") from error

    def text(self, name: str) -> str:
        """See `markedness.records.Stimuli.text`."""
        path = self.path(name)
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise StoreError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
