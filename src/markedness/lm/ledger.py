"""The ledger: every answered request of one model, appended at once, found again by its key.

It is a SQLite database of the study. What a stage used of it is written to a *slice*, a JSON Lines file that DVC
versions and shares; a slice that was pulled is entered into the database before anything is asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter

from markedness.lm import claims
from markedness.lm.base import KEY_VERSION, Draw
from markedness.lm.claims import KEYS_AT_ONCE, Claims
from markedness.lm.database import Database, LedgerError
from markedness.lm.stored import FIELDS, MAX_ANSWER, batch_facts, stored_completion, stored_time
from markedness.records import Completion

DIGEST = "S16"
"""NumPy type of a key: 16 bytes, written as 32 hexadecimal digits."""
_SCHEMA = (
    """
CREATE TABLE answers (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, served_by TEXT NOT NULL, sample INTEGER NOT NULL,
    request TEXT NOT NULL, answer TEXT NOT NULL, asked TEXT NOT NULL, answered TEXT NOT NULL);
CREATE TABLE batches (name TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE slices (digest BLOB PRIMARY KEY) WITHOUT ROWID;
"""
    + claims.SCHEMA
)
_INSERT = (
    "INSERT INTO answers (key, served_by, sample, request, answer, asked, answered) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO "
)
_ERROR = (
    "CASE WHEN typeof({0}answer) = 'text' AND json_valid({0}answer) "
    "THEN json_extract({0}answer, '$.error') IS NOT NULL ELSE 0 END"
)
"""Whether a row is paid but empty."""
_EARLIER = (
    "UPDATE SET answer = excluded.answer, asked = excluded.asked, answered = excluded.answered "
    f"WHERE ({_ERROR.format('excluded.')}, excluded.answered, excluded.asked, excluded.answer) "
    f"< ({_ERROR.format('')}, answered, asked, answer)"
)

_TEXTS = " AND ".join(
    [
        *(f"typeof({name}) = 'text'" for name in ("served_by", "request", "answer", "asked", "answered")),
        *(f"{name} GLOB '????-??-??T??:??:??.???+00:00'" for name in ("asked", "answered")),
    ]
)
"""Whether a row holds what its table says: SQLite takes bytes anywhere, and any text for a time."""

Row = tuple[bytes, str, int, str, str, str, str]
"""key, served_by, sample, request, answer, asked, answered."""


@dataclass(frozen=True)
class Summary:
    """What a slice holds, from its first line alone."""

    answers: int
    first: datetime | None = None
    """When the first of them was answered; None where there is none."""
    last: datetime | None = None
    models: Mapping[str, int] = field(default_factory=dict)
    """Model name that the server reported -> answers."""
    served_by: Mapping[str, int] = field(default_factory=dict)
    """Who answered how many."""


def summary(path: Path) -> Summary | None:
    """Counts and dates of a slice, without reading all of it; None where there is no slice with a header.

    A pulled study has them too: they are in the first line of ``data/ledger/<audit>/<model>.jsonl``.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            header = orjson.loads(file.readline(MAX_ANSWER))["ledger"]
        return TypeAdapter(Summary).validate_python(header)
    except (OSError, ValueError, TypeError, KeyError):
        return None


class Ledger(Database):
    """The answers of one model, in a SQLite database (WAL) that several processes may use at a time.

    `append` commits before it returns, so that a process killed after that has lost nothing; a power cut may cost
    the last moments before it. No entry takes memory.

    Use as a context manager, from one thread.

    Parameters
    ----------
    path
        The database; made where it is missing. It must be on a local disk.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA, KEY_VERSION)
        self.faults: list[str] = []
        """One sentence for each row that could not be read; its answer is asked for again."""
        self._claims = Claims(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Claims that cannot be deleted on a full disk are void all the same: their owner's lock is gone.
        with contextlib.suppress(LedgerError):
            self._claims.leave()
        super().__exit__(kind, error, trace)

    # ---------------------------------------------------------------- answers

    def __len__(self) -> int:
        with self.reported():
            return int(self.base.execute("SELECT count(*) FROM answers").fetchone()[0])

    def find(self, digests: np.ndarray) -> np.ndarray:
        """Whether there is an answer to each of these keys: the first array of `look_up`."""
        return self.look_up(digests)[0]

    def look_up(self, digests: np.ndarray, scored: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Which of these keys have an answer, and which of the answers are without a text.

        Every answer that is found is checked: a malformed one, or one to another kind of question, is named in
        ``faults``, removed, and counts as missing.

        Parameters
        ----------
        digests
            Keys, shape (n,), type `DIGEST`.
        scored
            How many ln probabilities each asks for, shape (n,); 0: a text. None: unknown.

        Returns
        -------
        found : ndarray
            Bool, shape (n,).
        empty : ndarray
            See `markedness.records.Completion.empty`, bool, shape (n,).
        """
        keys = _keys(digests)
        found, empty = np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=bool)
        malformed: list[bytes] = []
        with self.reported():
            for start in range(0, len(keys), KEYS_AT_ONCE):
                some = keys[start : start + KEYS_AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = self.base.execute(f"SELECT key, answer, {_TEXTS} FROM answers WHERE key IN ({marks})", some)
                at = {key: index for index, key in enumerate(some, start=start)}
                for key, answer, texts in rows:
                    try:
                        completion = stored_completion(
                            answer if texts else None, None if scored is None else scored[at[key]]
                        )
                    except ValueError:
                        self.faults.append(f"{self.path}: answer {key.hex()} is malformed and will be asked for again")
                        malformed.append(key)
                    else:
                        found[at[key]], empty[at[key]] = True, completion.empty
            if malformed:
                self.base.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in malformed])
        return found, empty

    def read(self, key: bytes) -> Completion:
        """The answer to a key that `look_up` found. Never by the number of its row, which SQLite may give again."""
        with self.reported():
            row = self.base.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        try:
            return stored_completion(row[0] if row else None)
        except ValueError as error:
            raise LedgerError(f"{self.path}: an answer was removed or damaged during the run; run again") from error

    def get(self, key: str) -> Completion | None:
        """The answer to a key; None when there is none."""
        digest = bytes.fromhex(key)
        return self.read(digest) if self.find(np.frombuffer(digest, dtype=DIGEST))[0] else None

    def append(self, draw: Draw, answer: Completion, asked: datetime | None = None) -> None:
        """Write one answer, or that one came without a text. It is in the database when this returns.

        Where another process wrote an answer to the same request first, that one is kept.

        Raises
        ------
        ValueError
            With the reason: the answer is longer than `MAX_ANSWER`, or is no text that UTF-8 can hold.
        """
        now = datetime.now(UTC)
        given = ((name, getattr(answer, name)) for name in FIELDS)
        try:
            content = orjson.dumps(
                {name: value for name, value in given if value is not None and value != ()},
                option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS,
            )
        except orjson.JSONEncodeError as error:
            raise ValueError(f"the answer cannot be stored as UTF-8 JSON ({error})") from error
        if len(content) > MAX_ANSWER:
            raise ValueError(f"the answer has {len(content):,} bytes; at most {MAX_ANSWER:,} are accepted")
        key = bytes.fromhex(draw.key)
        request = orjson.dumps(draw.request, option=orjson.OPT_SORT_KEYS).decode()
        row = (key, draw.served_by, draw.sample, request, content.decode(), stored_time(asked or now), stored_time(now))
        with self.reported():
            self.base.execute(_INSERT + "NOTHING", row)

    def add(self, rows: Iterable[Row]) -> None:
        """Enter rows that were answered elsewhere; of two answers to one request that with a text, else the earlier."""
        with self.reported():
            self.base.executemany(_INSERT + _EARLIER, rows)

    def rows(self, digests: np.ndarray) -> Iterator[Row]:
        """The rows of these keys, by key; those that are missing are left out."""
        with self.reported():
            self.base.execute("CREATE TEMP TABLE IF NOT EXISTS wanted (key BLOB PRIMARY KEY) WITHOUT ROWID")
            self.base.execute("DELETE FROM wanted")
            self.base.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((key,) for key in _keys(digests)))
            yield from self.base.execute(
                "SELECT key, served_by, sample, request, answer, asked, answered "
                "FROM wanted JOIN answers USING (key) ORDER BY key"
            )

    def served_by(self) -> dict[str, int]:
        """Who answered how many, the latest first."""
        with self.reported():
            rows = self.base.execute("SELECT served_by, count(*) FROM answers GROUP BY 1 ORDER BY max(id) DESC")
            return dict(rows.fetchall())

    def span(self) -> tuple[str | None, str | None]:
        """When the first and the last answer came, ISO 8601."""
        with self.reported():
            first, last = self.base.execute("SELECT min(answered), max(answered) FROM answers").fetchone()
        return first, last

    def keys(self) -> Iterator[str]:
        """All keys, in the order in which they were entered."""
        with self.reported():
            for (key,) in self.base.execute("SELECT key FROM answers ORDER BY id"):
                yield key.hex()

    def count_empty(self) -> int:
        """How many answers are without a text."""
        with self.reported():
            return int(self.base.execute(f"SELECT count(*) FROM answers WHERE {_ERROR.format('')}").fetchone()[0])

    def drop_empty(self) -> int:
        """Remove the answers without a text, so that they are asked for again; how many.

        LedgerError while a run has the ledger open.
        """
        with self.together():
            self._refuse_while_open()
            return self.base.execute(f"DELETE FROM answers WHERE {_ERROR.format('')}").rowcount

    def keep(self, digests: np.ndarray) -> int:
        """Remove the answers to all other keys; how many there were. LedgerError while a run has the ledger open."""
        with self.together():
            self._refuse_while_open()
            self.base.execute("CREATE TEMP TABLE IF NOT EXISTS kept (key BLOB PRIMARY KEY) WITHOUT ROWID")
            self.base.execute("DELETE FROM kept")
            self.base.executemany("INSERT OR IGNORE INTO kept VALUES (?)", ((key,) for key in _keys(digests)))
            removed = self.base.execute("DELETE FROM answers WHERE key NOT IN (SELECT key FROM kept)").rowcount
            self.base.execute("DELETE FROM slices")
        with self.reported():
            self.base.execute("VACUUM")
        return removed

    def _refuse_while_open(self) -> None:
        if self._claims.any_owner():
            raise LedgerError(f"{self.path}: a run is asking this model; wait until it ends")

    # ---------------------------------------------------------------- what several processes ask

    def enroll(self) -> None:
        """Say, before anything is looked up, that a run has the ledger open: nothing is removed from under it."""
        self._claims.enrolled()

    def claim(self, digests: np.ndarray) -> np.ndarray:
        """Reserve these keys for this process, so that no other asks for them; whether each is ours, bool, shape (n,).

        A claim ends with `release`, with the ledger's context, or with the process, however that ends.
        """
        return self._claims.take(_keys(digests))

    def claimed(self, digests: np.ndarray) -> np.ndarray:
        """Whether another living process has claimed each key, bool, shape (n,)."""
        return self._claims.of_others(_keys(digests))

    def release(self) -> None:
        """Give up all claims of this process."""
        self._claims.release()

    # ---------------------------------------------------------------- batches, and slices that were entered

    def batches(self) -> dict[str, dict[str, Any]]:
        """Facts of each open batch by its name; a damaged one is forgotten and named in ``faults``."""
        with self.reported():
            rows = self.base.execute("SELECT name, facts FROM batches").fetchall()
        known = {}
        for name, facts in rows:
            try:
                known[name] = batch_facts(facts)
            except (ValueError, TypeError):
                self.drop_batch(name)
                self.faults.append(f"{self.path}: batch {name} is damaged and forgotten; it may be paid for twice")
        return known

    def note_batch(self, name: str, **facts: Any) -> None:
        """Add what is now known of one batch; it is in the database when this returns."""
        with self.reported():
            self.base.execute(
                "INSERT INTO batches VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET facts = json_patch(facts, excluded.facts)",
                (name, orjson.dumps(facts).decode()),
            )

    def drop_batch(self, name: str) -> None:
        """Forget a batch whose answers are all here, or that was never made."""
        with self.reported():
            self.base.execute("DELETE FROM batches WHERE name = ?", (name,))

    def has_entered(self, digest: bytes) -> bool:
        """Whether a file of this content was entered or written before."""
        with self.reported():
            return bool(self.base.execute("SELECT 1 FROM slices WHERE digest = ?", (digest,)).fetchone())

    def note_entered(self, digest: bytes) -> None:
        """Remember that all rows of a file of this content are here."""
        with self.reported():
            self.base.execute("INSERT OR IGNORE INTO slices VALUES (?)", (digest,))


def _keys(digests: np.ndarray) -> list[bytes]:
    """The keys as bytes; iterating over the array would drop zero bytes at their ends."""
    raw = digests.tobytes()
    return [raw[start : start + 16] for start in range(0, len(raw), 16)]
