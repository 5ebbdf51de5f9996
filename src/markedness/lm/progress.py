"""How far a run is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from markedness.lm.redaction import printable

Report = Callable[[str], None]
"""Takes one line for the user."""
EVERY = 15.0
"""Seconds between two lines in a log."""


def tell(line: str, error: bool = False) -> None:
    """Print a line, with control characters as escapes: parts of it come from servers and files."""
    print(printable(line), file=sys.stderr if error else sys.stdout)


class Progress:
    """Shows asked, failed, rate and cost while a run asks. Use as a context manager.

    Parameters
    ----------
    title
        What is asked: audit and model.
    say
        Where a log line goes.
    terminal
        Draw a bar; found out from standard error unless given.
    """

    def __init__(self, title: str, say: Report = tell, terminal: bool | None = None) -> None:
        self.title = title
        self.say = say
        self.terminal = sys.stderr.isatty() if terminal is None else terminal
        self._bar: Any = None
        self._started = time.monotonic()
        self._next = self._started + (0.2 if self.terminal else EVERY)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, total: int, new: int, failed: int, spent: str) -> None:
        """Show progress if the interval has passed: ``done`` of ``total``, ``new`` of them asked in this run."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.2 if self.terminal else EVERY)
        facts = f"{new / (now - self._started):,.1f}/s, {failed:,} failed, {spent}"
        if not self.terminal:
            self.say(f"{self.title}: {done:,} of {total:,}, {facts}")
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} of {task.total:,}"),
                TimeRemainingColumn(), TextColumn("{task.fields[facts]}"),
            )  # fmt: skip
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=total, facts=facts)
        self._bar.update(self._task, completed=done, total=total, facts=facts)
