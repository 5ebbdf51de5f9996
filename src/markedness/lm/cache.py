"""The ledger: every answered request, appended at once, found again by its key."""

from __future__ import annotations

import fcntl
import os
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import orjson

from markedness.lm.base import Draw
from markedness.records import AuditError, Completion

DIGEST = "S16"
"""NumPy type of a key: the 16 bytes that its 32 hexadecimal digits stand for."""
_FIELDS = tuple(field.name for field in fields(Completion))
_TUPLES = ("log_probs", "reasons")


class LedgerError(AuditError):
    """The ledger is held by another process, or cannot be written."""


class Ledger:
    """An append-only JSON Lines file, one answered request a line.

    A line is handed to the system in one write before `append` returns, so that a process killed after that
    has lost nothing. A line torn by a kill is cut off when the ledger is opened; one that cannot be read is
    left in place, named in ``faults``, and its answer is asked for again. In memory a line takes 24 bytes.

    Use as a context manager. Only one process may hold a ledger for writing.

    Parameters
    ----------
    path
        The file; made where it is missing.
    read_only
        Take no lock and change nothing: for looking only.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.faults: list[str] = []
        """One sentence for each line that could not be read."""
        self.batches: dict[str, dict[str, Any]] = {}
        """What is known of each batch handed to a Batch endpoint, by its name."""
        self._digests = bytearray()
        self._places = array("q")
        self._sorted: tuple[np.ndarray, np.ndarray] | None = None

    def __enter__(self) -> Ledger:
        if self.read_only and not self.path.exists():
            self._file = -1
            return self
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDONLY if self.read_only else os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be opened ({error.strerror}); make it writable") from error
        if not self.read_only:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(self._file)
                raise LedgerError(
                    f"{self.path}: another run is writing this ledger; wait until it ends, or stop it"
                ) from error
        self._end = self._load()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file >= 0:
            if not self.read_only:
                os.fsync(self._file)
            os.close(self._file)

    def _load(self) -> int:
        """Find every line's place; return where the whole lines end."""
        end = 0
        line = b""
        with os.fdopen(os.dup(self._file), "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = orjson.loads(line)
                    if "batch" in row:
                        self.batches.setdefault(row["batch"], {}).update(row)
                    else:
                        if not isinstance(row["answer"], dict):
                            raise TypeError("no answer")
                        self._add(bytes.fromhex(row["key"]), end)
                except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                    if not line.endswith(b"\n"):
                        break  # torn by a kill
                    self.faults.append(f"{self.path}: line {number} cannot be read; its answer will be asked for again")
                end += len(line)
        if self.read_only:
            return end
        if end and end == os.fstat(self._file).st_size and not line.endswith(b"\n"):
            os.write(self._file, b"\n")  # whole but for its last byte
            return end + 1
        os.ftruncate(self._file, end)
        return end

    def _add(self, digest: bytes, place: int) -> None:
        if len(digest) != 16:
            raise ValueError("not a key")
        self._digests += digest
        self._places.append(place)
        self._sorted = None

    def __len__(self) -> int:
        return len(self._places)

    def find(self, digests: np.ndarray) -> np.ndarray:
        """Where the answers to these keys lie, -1 for those never answered.

        Parameters
        ----------
        digests
            Keys, shape (n,), type `DIGEST`.

        Returns
        -------
        ndarray
            Places for `read`, int64, shape (n,).
        """
        if not len(self._places):
            return np.full(len(digests), -1, dtype=np.int64)
        if self._sorted is None:
            keys = np.frombuffer(bytes(self._digests), dtype=DIGEST)
            order = np.argsort(keys, kind="stable")
            self._sorted = keys[order], np.frombuffer(self._places.tobytes(), dtype=np.int64)[order]
        keys, places = self._sorted
        at = np.minimum(np.searchsorted(keys, digests), len(keys) - 1)
        return np.where(keys[at] == digests, places[at], -1)

    def read(self, place: int) -> Completion:
        """The answer at a place."""
        answer = {name: value for name, value in self._row(place)["answer"].items() if name in _FIELDS}
        answer |= {name: tuple(answer.get(name) or ()) for name in _TUPLES}
        return Completion(**answer)

    def _row(self, place: int) -> dict[str, Any]:
        size = 4096
        while True:
            piece = os.pread(self._file, size, place)
            line, newline, _ = piece.partition(b"\n")
            if newline or len(piece) < size:
                row: dict[str, Any] = orjson.loads(line)
                return row
            size *= 8

    def get(self, key: str) -> Completion | None:
        """The answer to a key; None when it was never answered."""
        place = int(self.find(np.frombuffer(bytes.fromhex(key), dtype=DIGEST))[0])
        return None if place < 0 else self.read(place)

    def append(self, draw: Draw, answer: Completion, asked: datetime | None = None) -> int:
        """Write one answer and return its place; it is in the file when this returns."""
        now = datetime.now(UTC)
        key = draw.key
        given = ((name, getattr(answer, name)) for name in _FIELDS)
        row = {
            "key": key, "sample": draw.sample, "request": draw.request,
            "answer": {name: value for name, value in given if value is not None and value != ()},
            "asked": (asked or now).isoformat(timespec="milliseconds"),
            "answered": now.isoformat(timespec="milliseconds"),
        }  # fmt: skip
        place = self._write(row)
        self._add(bytes.fromhex(key), place)
        return place

    def note_batch(self, name: str, **facts: Any) -> None:
        """Write what is now known of one batch; it is in the file when this returns."""
        self._write({"batch": name, **facts})
        self.batches.setdefault(name, {}).update(facts)

    def _write(self, row: Mapping[str, Any]) -> int:
        line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
        place, rest = self._end, line
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            os.ftruncate(self._file, place)
            raise LedgerError(f"{self.path}: cannot be written ({error.strerror}); free some space") from error
        self._end += len(line)
        return place

    def keys(self) -> Iterator[str]:
        """All keys, in the order of their answers."""
        return (self._digests[i : i + 16].hex() for i in range(0, len(self._digests), 16))
