"""Which process asks for which answers, so that of several runs of one model each asks for what no other does."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from markedness.lm.database import Database, LedgerError

SCHEMA = """
CREATE TABLE owners (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
CREATE TABLE claims (key BLOB PRIMARY KEY, owner INTEGER NOT NULL) WITHOUT ROWID;
"""
KEYS_AT_ONCE = 5_000
"""Keys in one query."""


class Claims:
    """The claims in a database, and those of this process among them.

    Every process that claims something holds the lock of a file of its own. The system frees the lock when the
    process ends, however it ends; its claims are then void.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner: tuple[int, int, Path] | None = None
        """Number, descriptor of the lock file and its path, once something was claimed."""

    def take(self, keys: Sequence[bytes]) -> np.ndarray:
        """Claim these keys; whether each is ours, bool, shape (n,)."""
        owner = self.enrolled()
        with self._database.together():
            self._bury()
            self._database.base.executemany(
                "INSERT OR IGNORE INTO claims VALUES (?, ?)", ((key, owner) for key in keys)
            )
        return self._among(keys, f"AND owner = {owner}")

    def of_others(self, keys: Sequence[bytes]) -> np.ndarray:
        """Whether each key is claimed by a living process, bool, shape (n,)."""
        with self._database.reported():
            self._bury()
        return self._among(keys, "")

    def any_owner(self) -> bool:
        """Whether a living process has the ledger open for a run."""
        self._bury()
        return bool(self._database.base.execute("SELECT count(*) FROM owners").fetchone()[0])

    def release(self) -> None:
        """Give up all claims of this process."""
        if self._owner is not None:
            with self._database.reported():
                self._database.base.execute("DELETE FROM claims WHERE owner = ?", self._owner[:1])

    def leave(self) -> None:
        """Give up all claims, and the lock."""
        if self._owner is not None:
            number, lock, file = self._owner
            self._owner = None
            try:
                with self._database.together():
                    self._database.base.execute("DELETE FROM claims WHERE owner = ?", (number,))
                    self._database.base.execute("DELETE FROM owners WHERE id = ?", (number,))
                file.unlink(missing_ok=True)
            finally:
                os.close(lock)

    def _among(self, keys: Sequence[bytes], condition: str) -> np.ndarray:
        found = np.zeros(len(keys), dtype=bool)
        with self._database.reported():
            for start in range(0, len(keys), KEYS_AT_ONCE):
                some = keys[start : start + KEYS_AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = self._database.base.execute(f"SELECT key FROM claims WHERE key IN ({marks}) {condition}", some)
                claimed = {key for (key,) in rows}
                found[start : start + len(some)] = [key in claimed for key in some]
        return found

    def enrolled(self) -> int:
        """The number of this process among the owners; from the first call on it is one of them."""
        if self._owner is None:
            name = uuid.uuid4().hex
            file = self._lock_file(name)
            try:
                file.parent.mkdir(exist_ok=True)
                lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise LedgerError(f"{file}: cannot be written ({error.strerror}); make its folder writable") from error
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self._database.reported():
                number = self._database.base.execute("INSERT INTO owners (name) VALUES (?)", (name,)).lastrowid
            assert number is not None
            self._owner = number, lock, file
        return self._owner[0]

    def _lock_file(self, name: str) -> Path:
        return self._database.path.with_name(f"{self._database.path.name}.runs") / name

    def _bury(self) -> None:
        """Remove the claims of processes that have ended."""
        base = self._database.base
        for number, name in base.execute("SELECT id, name FROM owners").fetchall():
            if self._owner is not None and number == self._owner[0]:
                continue
            file = self._lock_file(name)
            if not _is_locked(file):
                base.execute("DELETE FROM claims WHERE owner = ?", (number,))
                base.execute("DELETE FROM owners WHERE id = ?", (number,))
                file.unlink(missing_ok=True)


def _is_locked(file: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        probe = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
    return False
