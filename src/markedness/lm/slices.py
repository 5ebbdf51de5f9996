"""Slices of the ledger: JSON Lines files with the answers that one stage used, versioned and shared by DVC.

The first line is a header with counts and dates (`markedness.lm.ledger.summary`); then comes one answered request a
line, sorted by key. Times and all else that differs between two runs come from the row that was answered first, so
that everybody who has the same answers writes the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from markedness.lm.base import KEY_VERSION, draw_keys
from markedness.lm.database import LedgerError
from markedness.lm.ledger import DIGEST, MAX_ANSWER, Ledger, Row, stored_completion, stored_time

_AT_ONCE = 10_000
"""Rows in one transaction."""
_LONGEST_LINE = 16 * MAX_ANSWER
"""Bytes of a line; a longer one is skipped as unreadable."""

Adopt = Callable[[Mapping[str, Any]], str | None]
"""Request of a row of version 0.1, which does not say who answered -> who did; None: unknown."""


@dataclass
class Entered:
    """What became of the rows of one file."""

    rows: int = 0
    unknown: int = 0
    """Rows of version 0.1 whose server is unknown; they were not entered."""
    faults: list[str] = field(default_factory=list)
    """One sentence for each line that could not be read."""


def write(ledger: Ledger, path: Path, digests: np.ndarray) -> None:
    """Write the answers to these keys as a slice.

    Parameters
    ----------
    path
        The file, which is replaced.
    digests
        Keys, shape (n,), type `DIGEST`; those without an answer are left out.
    """
    first = last = None
    models, served_by = Counter[str](), Counter[str]()
    count = 0
    with ledger.snapshot():
        for _, who, _, _, answer, _, answered in ledger.rows(digests):
            count += 1
            first, last = min(first or answered, answered), max(last or answered, answered)
            served_by[who] += 1
            if model := orjson.loads(answer).get("model"):
                models[model] += 1
        header = {
            "answers": count, "first": first, "last": last, "models": models, "served_by": served_by,
            "version": KEY_VERSION,
        }  # fmt: skip
        with path.open("wb") as file:
            file.write(orjson.dumps({"ledger": header}, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))
            for row in ledger.rows(digests):
                file.write(_line(row))


def _line(row: Row) -> bytes:
    """One row as JSON with sorted keys."""
    key, served_by, sample, request, answer, asked, answered = row
    return (
        f'{{"answer":{answer},"answered":"{answered}","asked":"{asked}","key":"{key.hex()}","request":{request},'
        f'"sample":{sample},"served_by":{orjson.dumps(served_by).decode()},"version":{KEY_VERSION}}}\n'
    ).encode()


def digest(path: Path) -> bytes:
    """Hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def enter(ledger: Ledger, path: Path, adopt: Adopt = lambda request: None) -> Entered:
    """Enter the rows of a slice, or of a ledger of version 0.1, unless this content was entered before.

    A line that cannot be read, or whose key is not that of its request, is skipped and named. Of two answers to one
    request the earlier is kept.
    """
    entered = Entered()
    try:
        content = digest(path)
        if ledger.has_entered(content):
            return entered
        rows: list[Row] = []
        for row in _rows(ledger, path, entered, adopt):
            rows.append(row)
            if len(rows) == _AT_ONCE:
                _add(ledger, rows)
        _add(ledger, rows)
    except FileNotFoundError:
        return entered
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read ({error.strerror}); make it a readable file") from error
    if not entered.unknown and not entered.faults:
        ledger.note_entered(content)
    return entered


def _add(ledger: Ledger, rows: list[Row]) -> None:
    with ledger.together():
        ledger.add(rows)
    rows.clear()


def _rows(ledger: Ledger, path: Path, entered: Entered, adopt: Adopt) -> Iterator[Row]:
    for number, line in _lines(path):
        try:
            content = orjson.loads(line)
            if "ledger" in content:
                continue
            if "batch" in content:  # version 0.1
                name = str(content.pop("batch"))
                if content.get("merged"):
                    ledger.drop_batch(name)
                else:
                    ledger.note_batch(name, **content)
                continue
            version = content.get("version", 1)
            if version not in (1, KEY_VERSION):
                raise LedgerError(f"{path}: line {number} is of format version {version}; install a newer markedness")
            row = _row(content, adopt)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):  # the last: year 9999 beyond UTC
            entered.faults.append(f"{path}: line {number} cannot be read; its answer will be asked for again")
            continue
        if row is None:
            entered.unknown += 1
            continue
        entered.rows += 1
        yield row


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            while len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                line = file.readline(_LONGEST_LINE)  # the end of a line that is too long, which is no JSON
            yield number, line


def _row(content: Mapping[str, Any], adopt: Adopt) -> Row | None:
    """A decoded line, every field checked; None where it is not known who answered. ValueError and its like."""
    request, sample = content["request"], content["sample"]
    if not isinstance(request, dict) or type(sample) is not int or not 0 <= sample < 2**63:
        raise ValueError("no request")
    sorted_request = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    given = content["key"]
    if "version" in content:
        served_by = content["served_by"]
        if not isinstance(served_by, str):
            raise ValueError("no server")
        key = draw_keys(served_by, request, range(sample, sample + 1))
        if key.hex() != given:
            raise ValueError("another request's key")
    else:
        old = hashlib.sha256(b"[" + sorted_request + b",%d]" % sample).hexdigest()[:32]
        if old != given:
            raise ValueError("another request's key")
        known = adopt(request)
        if known is None:
            return None
        served_by, key = known, draw_keys(known, request, range(sample, sample + 1))
    if not isinstance(content["answer"], dict):
        raise ValueError("no answer")
    answer = orjson.dumps(content["answer"], option=orjson.OPT_SORT_KEYS)
    stored_completion(answer)
    asked, answered = (stored_time(datetime.fromisoformat(content[name])) for name in ("asked", "answered"))
    return key, served_by, sample, sorted_request.decode(), answer.decode(), asked, answered


def keys(path: Path) -> np.ndarray:
    """The keys of a slice, shape (n,), type `DIGEST`; lines that cannot be read have none."""
    found = bytearray()
    for _, line in _lines(path):
        try:
            content = orjson.loads(line)
            key = bytes.fromhex(content["key"]) if "version" in content else b""
        except (ValueError, TypeError, KeyError):
            continue
        if len(key) == 16:
            found += key
    return np.frombuffer(bytes(found), dtype=DIGEST)
