"""The files of a study: the only module that knows data/, models/, results/ and reports/."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from markedness import files, reads, strict_yaml, tables
from markedness.files import StoreError, atomic, read_parquet
from markedness.records import Columns, Features, Unsupported
from markedness.separated import read_results, read_stimuli_table
from markedness.working_tree import main_tree, state_folder

_PACKAGE = Path(__file__).parent
SHIPPED = _PACKAGE / "_study" if (_PACKAGE / "_study").is_dir() else _PACKAGE.parents[1]
"""The study that comes with the package, for `markedness init`; in a clone, the clone."""

UNSUPPORTED_FILE, NOTES_FILE, READS_FILE = "unsupported.json", "notes.json", "reads.json"
PROVENANCE = "provenance.yaml"
"""Of the stimuli of another language than English: source, note, and ``shared``, the files that all languages have."""
_ENGLISH = "en"
ROWS_AT_ONCE = 20_000
"""Rows of a table that is written in pieces."""


@dataclass(frozen=True)
class Store:
    """The files of one study."""

    root: Path

    # ---- the tables of the way of the data

    def table_path(self, kind: str, audit: str, model: str) -> Path:
        """data/<kind>/<audit>/<model>.parquet; kind: generations, responses or estimates."""
        return self.root / "data" / kind / audit / f"{model}.parquet"

    def write_table(self, kind: str, audit: str, model: str, table: pd.DataFrame) -> None:
        """Write one Parquet table; TableError where it is not of the schema of its kind."""
        path = self.table_path(kind, audit, model)
        tables.check(table, tables.SCHEMAS[kind], path.relative_to(self.root).as_posix())
        with atomic(path) as part:
            reads.write_parquet(table, part, reads.here(self.root))

    def write_rows(
        self, kind: str, audit: str, model: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, type]
    ) -> None:
        """Write one Parquet table row by row, in pieces, so that the whole table is never in memory."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
        fields = [(name, types[kind_of]) for name, kind_of in columns.items()]
        schema = pa.schema(fields, metadata=reads.metadata(reads.here(self.root)))
        with atomic(self.table_path(kind, audit, model)) as part, pq.ParquetWriter(part, schema) as writer:
            rest = iter(rows)
            while piece := list(itertools.islice(rest, ROWS_AT_ONCE)):
                cells = {name: [files.cell_of(row.get(name), of) for row in piece] for name, of in columns.items()}
                writer.write_table(pa.table(cells, schema=schema))

    def read_table(self, kind: str, audit: str, model: str) -> pd.DataFrame:
        """Read one Parquet table; StoreError names the stage that makes it."""
        path = self.table_path(kind, audit, model)
        maker = {"generations": "generate", "responses": "clean", "features": "featurize"}.get(kind, "evaluate")
        if not path.exists():
            raise StoreError(f"{path}: not there yet; run 'markedness {maker} {audit} --model {model}' first")
        return read_parquet(path, str(path), f"run 'markedness {maker} {audit} --model {model}' again")

    # ---- features: a folder of named tables, or why there are none

    def features_path(self, audit: str, model: str) -> Path:
        """data/features/<audit>/<model>: a Parquet file per table."""
        return self.root / "data" / "features" / audit / model

    def write_features(
        self, audit: str, model: str, features: Features | Unsupported, schemas: Mapping[str, Columns]
    ) -> None:
        """Write the tables and notes of featurize, whole; of nothing to measure, the reason.

        Raises
        ------
        TableError
            When the tables are not those of ``schemas``, which the audit's spec declares.
        StoreError
            When the folder cannot be written, or holds files that no featurize wrote.
        """
        folder = self.features_path(audit, model)
        if isinstance(features, Features):
            tables.check_features(features.tables, schemas, folder.relative_to(self.root).as_posix())
        files.refuse_link(folder)
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name not in (UNSUPPORTED_FILE, NOTES_FILE, READS_FILE) and path.suffix != ".parquet":
                raise StoreError(f"{path}: was not written by featurize, which replaces this folder; move it elsewhere")
        with self.renewed(folder) as new:
            if read := reads.here(self.root):
                self.write_json(new / READS_FILE, read)
            if isinstance(features, Unsupported):
                self.write_json(new / UNSUPPORTED_FILE, features.reason)
                return
            for name, table in features.tables.items():
                with atomic(new / f"{name}.parquet") as part:
                    table.to_parquet(part, index=False)
            self.write_json(new / NOTES_FILE, list(features.notes))

    def read_features(self, audit: str, model: str) -> Features | Unsupported:
        """Read what `write_features` wrote; StoreError names the command that is to be run first."""
        folder = self.features_path(audit, model)
        if not folder.is_dir():
            raise StoreError(f"{folder}: not there yet; run 'markedness featurize {audit} --model {model}' first")
        return features_of({path.name: path.read_bytes() for path in sorted(folder.iterdir())}, str(folder))

    def ledger_path(self, audit: str, model: str, part: str = "") -> Path:
        """data/ledger/<audit>/<model>.jsonl: the answers that a stage used; ``part``: "judge" for featurize's."""
        return self.root / "data" / "ledger" / audit / f"{model}{part and f'.{part}'}.jsonl"

    def ledger_database(self, model: str) -> Path:
        """The ledger of one model, shared by all working trees and experiments of the study.

        .markedness/ledger/<model>.sqlite of the main working tree, or <model>.sqlite in the folder that the
        environment variable MARKEDNESS_LEDGER names, relative to that tree's study. The folder is made where missing.
        """
        main = main_tree(self.root)
        if folder := os.environ.get("MARKEDNESS_LEDGER"):
            return main / folder / f"{model}.sqlite"
        return state_folder(main) / "ledger" / f"{model}.sqlite"

    def embeddings(self) -> Path:
        """.markedness/embeddings of the main working tree: what sentence-embedding models computed."""
        return state_folder(main_tree(self.root)) / "embeddings"

    def settings(self) -> Path:
        """Folder of what each audit asks, once its size has filled it in."""
        return self.root / "data" / "settings"

    def stimuli(self, audit: str, language: str = _ENGLISH) -> FolderStimuli:
        """The stimuli of one audit in one language."""
        return FolderStimuli(audit, self.root, language)

    def languages(self, audit: str) -> list[str]:
        """The languages that the study or the package has stimuli of an audit in."""
        folders = (self.stimuli_folder(audit), Store(SHIPPED).stimuli_folder(audit))
        return sorted({_ENGLISH, *(file.parent.name for folder in folders for file in folder.glob(f"*/{PROVENANCE}"))})

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

    def headline(self) -> Path:
        """results/headline.json: DVC's metrics file."""
        return self.root / "results" / "headline.json"

    def gated(self) -> Path:
        """results/gate: what `markedness gate` decided."""
        return self.root / "results" / "gate"

    def reports(self) -> Path:
        """reports/."""
        return self.root / "reports"

    def literature(self) -> Path:
        """results/literature: how well the published tables are reproduced."""
        return self.root / "results" / "literature"

    def written(self, audit: str, model: str) -> list[Path]:
        """The files and folders that the four stages of one audit and model write."""
        written = [self.table_path(kind, audit, model) for kind in tables.SCHEMAS]
        slices = [self.ledger_path(audit, model, part) for part in ("", "judge")]
        folders = [self.features_path(audit, model), self.results(audit, model), self.models(audit, model)]
        return [*written, *slices, *folders]

    def written_by_all(self) -> list[Path]:
        """The files and folders that the stages over all models write, and what is local to this machine."""
        over_all = [self.settings(), self.compared(), self.gated(), self.headline(), self.reports()]
        return [*over_all, self.root / ".markedness"]

    # ---- what a study is made from

    def corpora(self) -> Path:
        """data/corpora: published texts, and the user's own under ``own``."""
        return self.root / "data" / "corpora"

    def stimuli_folder(self, audit: str) -> Path:
        """data/stimuli/<audit>."""
        return self.root / "data" / "stimuli" / audit

    def published(self, name: str) -> Path:
        """A file of printed numbers, of the study or of the package; StoreError when neither has it."""
        place = Path("data", "published", name)
        for folder in (self.root, SHIPPED):
            if (folder / place).is_file():
                return folder / place
        raise StoreError(f"{place}: not there; it comes with the repository (git checkout {place.parent})")

    # ---- reading and writing

    def read_csv(self, path: Path) -> pd.DataFrame:
        """A table of results; StoreError when it is not there."""
        if not path.exists():
            raise StoreError(f"{path}: not there yet; run the audit of this model first")
        return read_results(path)

    def write_csv(self, path: Path, table: pd.DataFrame) -> None:
        """UTF-8, comma and point, numbers unrounded, missing values empty; see `markedness.files.readable`."""
        with atomic(path) as part:
            files.readable(table).to_csv(part, index=False, lineterminator="\n")

    def write_json(self, path: Path, content: Any) -> None:
        """Two spaces, keys in the given order; NaN becomes null."""
        with atomic(path) as part:
            part.write_text(json.dumps(files.plain_json(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Any other file."""
        with atomic(path) as part:
            part.write_bytes(content)

    def kept(self, audit: str, model: str) -> Path:
        """Where the files of an earlier run are kept while a new one replaces them; see `markedness.kept`."""
        return state_folder(self.root) / "kept" / f"{audit}.{model}"

    def locked(self, name: str, wait: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Keep other runs of this study out; see `markedness.files.locked`."""
        return files.locked(state_folder(self.root) / "locks" / f"{name.replace('/', '.')}.lock", name, wait)

    @contextlib.contextmanager
    def renewed(self, folder: Path, parts: Sequence[str] = ()) -> Iterator[Path]:
        """A new folder that takes the place of ``folder`` whole, for one run at a time; `markedness.files.renewed`."""
        files.refuse_outside(folder, self.root)
        with self.locked(folder.relative_to(self.root).as_posix()), files.renewed(folder, parts) as new:
            yield new


_AGAIN = "run 'markedness featurize' again"


def features_of(files: Mapping[str, bytes], place: str) -> Features | Unsupported:
    """The features that the files of one folder hold, by file name.

    Raises
    ------
    StoreError
        When a file cannot be read, or there is no table.
    """
    try:
        if UNSUPPORTED_FILE in files:
            return Unsupported(str(json.loads(files[UNSUPPORTED_FILE])))
        found = {
            name.removesuffix(".parquet"): read_parquet(BytesIO(content), f"{place}/{name}", _AGAIN)
            for name, content in files.items()
            if name.endswith(".parquet")
        }
        notes = tuple(str(note) for note in json.loads(files.get(NOTES_FILE, b"[]")))
    except (OSError, ValueError) as error:
        raise StoreError(f"{place}: cannot be read ({error}); {_AGAIN}") from error
    if not found:
        raise StoreError(f"{place}: holds no table; {_AGAIN}")
    return Features(found, notes=notes)


@dataclass(frozen=True)
class FolderStimuli:
    """`markedness.records.Stimuli` from folders."""

    audit: str
    root: Path
    language: str = _ENGLISH
    """Another one than English has a folder of its own in data/stimuli/<audit>."""

    def path(self, name: str) -> Path:
        """Where a stimulus file lies; StoreError names every place that was looked at."""
        if (found := self._find(name)) is not None:
            return found
        folder = f"data/stimuli/{self.audit}/{self._inside(name)}".removesuffix(name)
        raise StoreError(
            f"stimuli file '{name}' of {self.audit} is neither in {folder} nor beside params.yaml nor part of the "
            "package; put it there or correct its name"
        )

    def has(self, name: str) -> bool:
        """See `markedness.records.Stimuli.has`."""
        return self._find(name) is not None

    def _inside(self, name: str) -> str:
        return name if self.language == _ENGLISH else f"{self.language}/{name}"

    def _find(self, name: str) -> Path | None:
        own, shipped = (Store(root).stimuli_folder(self.audit) / self._inside(name) for root in (self.root, SHIPPED))
        if not own.is_file():
            reads.looked_for(self.root / name)
        for place in (own, self.root / name, shipped):
            if place.is_file():
                return place
        if self.language != _ENGLISH and name != PROVENANCE and name in (self.provenance().get("shared") or ()):
            return replace(self, language=_ENGLISH)._find(name)
        return None

    def provenance(self) -> dict[str, Any]:
        """What `PROVENANCE` says of the stimuli of another language."""
        content = self.data(PROVENANCE)
        if not isinstance(content, dict) or not isinstance(content.get("shared") or [], list):
            raise StoreError(f"{self.path(PROVENANCE)}: expected a mapping with source, note and shared, a list")
        return content

    def table(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """See `markedness.records.Stimuli.table`."""
        path = self.path(name)
        try:
            table = read_stimuli_table(path)
        except ValueError as error:  # not UTF-8, not a table, empty
            raise StoreError(f"{path}: not a table in UTF-8 with a header: {error}") from error
        missing = [column for column in columns if column not in table]
        if missing:
            raise StoreError(f"{path}: column '{missing[0]}' is missing; it has {', '.join(table.columns)}")
        return table

    def data(self, name: str) -> Any:
        """See `markedness.records.Stimuli.data`."""
        try:
            return strict_yaml.load(self.path(name))
        except strict_yaml.YamlFileError as error:
            raise StoreError(str(error)) from error

    def text(self, name: str) -> str:
        """See `markedness.records.Stimuli.text`."""
        path = self.path(name)
        try:
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise StoreError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
