"""Limit of the requests in flight: adapts to the server, between two bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

START = 16
"""Requests in flight at first; doubled until the server slows down or pushes back."""
SLOWED = 2.0
"""A window whose mean latency is this many times the best one has been slowed down."""


class AdaptiveLimiter:
    """Additive increase, multiplicative decrease.

    Latency and answers are looked at in windows of as many answers as there are places. A server that pushes
    back (429, 503, no answer in time) halves the places, once per window, and is left alone for as long as it
    asks. One that gets slower without answering more takes a tenth of them. Else they grow: doubled until the
    first such sign, by a sixteenth after it. A request that waits for its next attempt gives its place to others.

    Parameters
    ----------
    least, most
        Limits of the places.
    clock
        Seconds; the event loop's unless given.
    """

    def __init__(self, least: int, most: int, clock: Callable[[], float] | None = None) -> None:
        self.least = min(least, most)
        self.most = most
        self.limit = float(min(most, max(least, START)))
        self.under_way = 0
        self.resting = 0
        """Requests that wait for their next attempt."""
        self._clock = clock or asyncio.get_running_loop().time
        self._free = asyncio.Event()
        self._resume_at = 0.0
        self._growing = True
        self._best = float("inf")
        self._rate = 0.0
        self._open_window()

    def _open_window(self) -> None:
        self._started = self._clock()
        self._answers = 0
        self._latency = 0.0
        self._pushed = False

    async def place(self, *, again: bool = False) -> None:
        """Wait for a free place and take it; a new request also waits while many others wait to be tried again."""
        while True:
            pause = self._resume_at - self._clock()
            crowded = self.resting >= 2 * self.most and not again
            if pause <= 0 and self.under_way < int(self.limit) and not crowded:
                break
            self._free.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if pause > 0 else None):
                    await self._free.wait()
        self.under_way += 1

    async def rest(self, seconds: float) -> None:
        """Give the place back, wait, and take one again."""
        self.leave()
        self.resting += 1
        try:
            await asyncio.sleep(seconds)
            await self.place(again=True)
        finally:
            self.resting -= 1
            self._free.set()

    def leave(self) -> None:
        """Give the place back."""
        self.under_way -= 1
        self._free.set()

    def answered(self, latency: float) -> None:
        """An answer came after ``latency`` seconds."""
        self._answers += 1
        self._latency += latency
        if self._answers >= self.limit:
            self._look_back()

    def pushed_back(self, wait: float | None) -> None:
        """The server wants fewer requests, or none for ``wait`` seconds."""
        if wait is not None:
            self._resume_at = max(self._resume_at, self._clock() + wait)
        self._growing = False
        if not self._pushed:
            self._pushed = True
            self.limit = max(self.least, self.limit / 2)

    def _look_back(self) -> None:
        mean = self._latency / self._answers
        rate = self._answers / max(self._clock() - self._started, 1e-9)
        self._best = min(self._best, mean)
        if mean > SLOWED * self._best and rate < 1.05 * self._rate:
            self._growing = False
            self.limit = max(self.least, self.limit * 0.9)
        elif not self._pushed:
            step = self.limit if self._growing else max(1.0, self.limit / 16)
            self.limit = min(self.most, self.limit + step)
        self._rate = max(rate, 0.9 * self._rate)
        self._open_window()
        self._free.set()
