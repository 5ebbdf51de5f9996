"""The ledger: every answered request, appended at once, found again by its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from markedness.lm.base import Draw
from markedness.records import Completion

_FIELDS = {field.name for field in fields(Completion)}


class Ledger:
    """An append-only JSON Lines file, one answered request a line.

    The last line may be torn by a kill: it is cut off when the ledger is opened, and nothing else is lost.
    Use as a context manager.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, int] = {}

    def __enter__(self) -> Ledger:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        self._file.seek(0)
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            try:
                self._places[orjson.loads(line)["key"]] = whole
            except (orjson.JSONDecodeError, KeyError):
                break
            whole += len(line)
        self._file.truncate(whole)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> Completion | None:
        """The answer to a key; None when it was never answered."""
        place = self._places.get(key)
        if place is None:
            return None
        self._file.seek(place)
        row = orjson.loads(self._file.readline())
        answer: dict[str, Any] = {name: value for name, value in row["answer"].items() if name in _FIELDS}
        answer |= {name: tuple(answer.get(name, ())) for name in ("log_probs", "reasons")}
        return Completion(**answer)

    def append(self, draw: Draw, answer: Completion) -> None:
        """Write one answer; it is in the file when this returns."""
        row = {"key": draw.key, "sample": draw.sample, "request": draw.request, "answer": asdict(answer)}
        self._file.seek(0, 2)
        self._places[draw.key] = self._file.tell()
        self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY))
        self._file.flush()

    def keys(self) -> Iterator[str]:
        """All keys, in the order of their answers."""
        return iter(self._places)
