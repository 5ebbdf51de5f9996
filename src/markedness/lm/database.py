"""A SQLite database that several processes use at a time; whatever goes wrong is one sentence."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from markedness.records import AuditError

BUSY_TIMEOUT = 60.0
"""Seconds to wait while another process writes."""


class LedgerError(AuditError):
    """The ledger cannot be read or written."""


class Database:
    """A database in WAL mode; every statement is a transaction of its own but in `together` and `snapshot`.

    Parameters
    ----------
    path
        The file; made where it is missing.
    schema, version
        What it is made of, and the version of that.
    """

    base: sqlite3.Connection
    """Open within the context."""

    def __init__(self, path: Path, schema: str, version: int) -> None:
        self.path = path
        self._schema = schema
        self._version = version

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be opened ({error.strerror}); make its folder writable") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the switch to WAL and the making of tables obey no timeout
            with self.reported():
                self.base = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)
                try:
                    self._prepare()
                except BaseException:
                    self.base.close()
                    raise
        finally:
            os.close(lock)
        return self

    def _prepare(self) -> None:
        version = self.base.execute("PRAGMA user_version").fetchone()[0]
        self.base.execute("PRAGMA journal_mode = WAL")
        self.base.execute("PRAGMA synchronous = NORMAL")
        if not version:
            self.base.executescript(f"BEGIN; {self._schema} PRAGMA user_version = {self._version}; COMMIT;")
        elif version != self._version:
            raise LedgerError(
                f"{self.path}: its format is version {version}, this markedness reads version {self._version}; "
                "install the markedness that wrote it, or move the file away"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.base.close()

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Every error of SQLite as one sentence."""
        try:
            yield
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                reason = f"another process has been writing it for {BUSY_TIMEOUT:g} s; wait until that ends"
            elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                kept = "what it holds is kept, what is on the wire is asked again"
                reason = f"cannot be written ({error}); free some space; {kept}"
            elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
                reason = f"cannot be opened for writing ({error}); make the file and its folder writable"
            elif code == sqlite3.SQLITE_ERROR:  # a missing table or column
                reason = f"is damaged ({error}); move it away, the slices under data/ledger are read again"
            else:
                reason = f"cannot be used ({error}); let MARKEDNESS_LEDGER name a folder on a local disk"
            raise LedgerError(f"{self.path}: {reason}") from error
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"{self.path}: is damaged ({error}); move it away, the slices under data/ledger are read again"
            ) from error

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """One transaction: all that is written in the block is kept when the block ends, or nothing of it."""
        with self.reported():
            self.base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.base.execute("COMMIT")
            except BaseException:
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read in the block is read as of one moment, whatever others write meanwhile."""
        with self.reported():
            self.base.execute("BEGIN")
            try:
                yield
            finally:
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
