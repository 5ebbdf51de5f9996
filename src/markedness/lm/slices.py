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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter

from markedness.credentials import carries_a_secret
from markedness.lm.base import KEY_VERSION, draw_keys
from markedness.lm.database import LedgerError
from markedness.lm.ledger import DIGEST, Ledger, Row, summary
from markedness.lm.stored import FIELDS, MAX_ANSWER, Key, batch_facts, scored_of, stored_completion, stored_time

_AT_ONCE = 10_000
"""Rows in one transaction."""
_NAME = TypeAdapter(Key)
_LONGEST_NAME = 1_000
"""Characters of who answered."""
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
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Facts of batches that a ledger of version 0.1 was waiting for, by their names."""
    version: int = 1
    """2 where there is a header, or a row of version 2."""
    said: int = 0
    """Answers that the header says there are; 0 without one."""


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
    """Hash of a file's content, by which DVC names it, too."""
    _check_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).digest()


def enter(ledger: Ledger, path: Path, adopt: Adopt = lambda request: None) -> Entered:
    """Enter the rows of a slice, or of a ledger of version 0.1, unless this content was entered before.

    A line that cannot be read, or whose key or answer is not that of its request, is skipped and named. Of two answers
    to one request the earlier is kept. What the ledger knows of a batch stays.
    """
    entered = Entered()
    try:
        content = digest(path)
        if ledger.has_entered(content):
            return entered
        rows: list[Row] = []
        for row in _rows(path, entered, adopt):
            rows.append(row)
            if len(rows) == _AT_ONCE:
                _add(ledger, rows)
        _add(ledger, rows)
    except FileNotFoundError:
        return entered
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read ({error.strerror}); make it a readable file") from error
    if (there := entered.rows + entered.unknown + len(entered.faults)) < entered.said:
        entered.faults.append(
            f"{path}: its first line says {entered.said:,} answers, and only {there:,} are in it; those that are "
            "missing are asked for again: fetch it again ('dvc checkout' or 'dvc pull')"
        )
    known = ledger.batches() if entered.batches else {}
    for name in entered.batches.keys() - known.keys():
        ledger.note_batch(name, **entered.batches[name])
    if not entered.unknown and not entered.faults:
        ledger.note_entered(content)
    return entered


def _add(ledger: Ledger, rows: list[Row]) -> None:
    with ledger.together():
        ledger.add(rows)
    rows.clear()


def _rows(path: Path, entered: Entered, adopt: Adopt) -> Iterator[Row]:
    for number, line in _lines(path):
        try:
            content = orjson.loads(line)
            if "ledger" in content:
                entered.version, entered.said = KEY_VERSION, max(entered.said, _said(content["ledger"]))
                continue
            if "batch" in content:
                _note_batch(content, entered)
                continue
            version = content.get("version", 1)
            if version not in (1, KEY_VERSION):
                raise LedgerError(f"{path}: line {number} is of format version {version}; install a newer markedness")
            entered.version = max(entered.version, version)
            row = _row(content, adopt)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):  # the last: year 9999 beyond UTC
            entered.faults.append(f"{path}: line {number} cannot be read; its answer will be asked for again")
            continue
        if row is None:
            entered.unknown += 1
            continue
        entered.rows += 1
        yield row
    if entered.version > 1:
        entered.batches.clear()  # of rows of version 0.1 alone


def _said(header: object) -> int:
    """How many answers a header says there are; 0 where it does not say."""
    said = header.get("answers") if isinstance(header, dict) else 0
    return said if type(said) is int else 0


def _note_batch(content: dict[str, Any], entered: Entered) -> None:
    """What a ledger of version 0.1 says of a batch, every field checked. ValueError."""
    name, merged = _NAME.validate_python(content.pop("batch")), content.pop("merged", False)
    if entered.version > 1 or not isinstance(merged, bool):
        raise ValueError("no batch of version 0.1")
    facts = batch_facts(entered.batches.get(name, {}) | content)
    entered.batches[name] = facts
    if merged:
        del entered.batches[name]


def _check_file(path: Path) -> None:
    """LedgerError for a pipe or a device, which may never end."""
    if path.exists() and not path.is_file():
        raise LedgerError(f"{path}: is no regular file; move it away")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    _check_file(path)
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
        if not isinstance(served_by, str) or len(served_by) > _LONGEST_NAME or carries_a_secret(served_by):
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
    if not isinstance(content["answer"], dict) or not content["answer"].keys() <= set(FIELDS):
        raise ValueError("no answer")
    answer = orjson.dumps(content["answer"], option=orjson.OPT_SORT_KEYS)
    if len(answer) > MAX_ANSWER:
        raise ValueError("an answer of too many bytes")
    stored_completion(answer, scored_of(request))
    asked, answered = (stored_time(datetime.fromisoformat(content[name])) for name in ("asked", "answered"))
    return key, served_by, sample, sorted_request.decode(), answer.decode(), asked, answered


def length(path: Path) -> int:
    """How many lines a slice has, its header apart."""
    return max(0, sum(1 for _ in _lines(path)) - 1)


def keys(path: Path) -> np.ndarray:
    """The keys of a slice, shape (n,), type `DIGEST`; LedgerError where not all of it can be read."""
    entered = Entered()
    try:
        found = {row[0] for row in _rows(path, entered, lambda request: None)}
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read ({error.strerror}); make it a readable file") from error
    header = summary(path)
    said = header.answers if header else len(found)
    if entered.faults or entered.unknown or len(found) < said or (header is None and entered.version > 1):
        raise LedgerError(
            f"{path}: only {len(found):,} of its answers can be read"
            + (f", its first line says {header.answers:,}" if header else "")
            + ", so nothing is removed that it may use; fetch it again ('dvc checkout' or 'dvc pull'), or run generate"
        )
    return np.frombuffer(b"".join(sorted(found)), dtype=DIGEST)
