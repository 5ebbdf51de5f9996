"""One plan asked request by request: concurrency, retries and the budget."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from markedness.lm.base import Draw, ModelError, RequestFailed, RetryLater
from markedness.lm.config import RetryPolicy
from markedness.lm.costs import BudgetTracker
from markedness.lm.pace import AdaptiveLimiter
from markedness.lm.plan import Counts, Plan
from markedness.lm.progress import Progress
from markedness.records import FILTERED, AuditError, Completion

FIRST_WAIT = 0.5
"""Backoff before the second attempt, seconds; doubled for each further one, half of it at random."""
LONGEST_BACKOFF = 30.0
GIVE_UP_AFTER = 20
"""Failures in a row of one cause that ends the other requests too, after which the rest are not asked."""
GIVE_UP_AFTER_BUSY = 100
"""The same of a server that said, at every attempt, that it may answer later."""
EMPTY = "empty and paid"
"""Cause of an answer without text for which tokens were counted: reasoning that used up max_tokens."""


class BudgetError(AuditError):
    """A limit of the budget ended the run before its end; what was answered is in the ledger."""


class Run:
    """The asking of one plan, request by request."""

    def __init__(
        self, plan: Plan, counts: Counts, retry: RetryPolicy, meter: BudgetTracker, progress: Progress | None
    ) -> None:
        self.plan = plan
        self.model = plan.model
        self.counts = counts
        self.retry = retry
        self.meter = meter
        self.progress = progress
        self.unserved = 0
        """Requests in a row that ended for the same cause, without an answer."""
        self.cause: str | None = None
        self.given_up: str | None = None
        self.fault: Exception | None = None
        """What ended the run early: a fault of the project or of its disk, not of a server."""
        if plan.known_empty >= GIVE_UP_AFTER and not plan.known:
            self.given_up = (
                f"not asked: the ledger has {plan.known_empty:,} such requests that were answered without a text, "
                "and none with one"
            )

    async def ask(self, missing: np.ndarray) -> None:
        """Ask for these distinct draws, as many at once as the server takes."""
        self.pace = AdaptiveLimiter(self.model.min_concurrency, self.model.concurrency)
        left = len(missing)
        async with asyncio.TaskGroup() as group:
            for batch in self._batches(missing):
                await self.pace.place()
                while not self._settled(batch) and self.pace.under_way + self.pace.resting > 1:
                    # in-flight requests reserve their worst-case cost; wait for them to settle before stopping
                    self.pace.leave()
                    await asyncio.sleep(0.01)
                    await self.pace.place()
                if self.fault or not self._settled(batch):
                    self.pace.leave()
                    break
                left -= len(batch)
                if self.given_up:  # not asked, so no limit of the budget is reached by it
                    self.pace.leave()
                    self._record(batch, [Completion(error=self.given_up)] * len(batch), datetime.now(UTC))
                    continue
                for _, draw in batch:
                    self.meter.ask(draw.prompt)
                group.create_task(self._kept(batch))
        if self.fault:
            raise self.fault
        if left:
            raise self.stopped(left)

    def _settled(self, batch: list[tuple[int, Draw]]) -> bool:
        """Whether it is clear what becomes of a batch: the budget allows it, or it is not asked at all."""
        return self.given_up is not None or self._allowed(batch)

    def _allowed(self, batch: list[tuple[int, Draw]]) -> bool:
        return self.meter.allows([draw.prompt for _, draw in batch])

    def _batches(self, missing: np.ndarray) -> Iterator[list[tuple[int, Draw]]]:
        """Of the model's size at most; full rounds of as many as it answers at a time, of one size but for the last."""
        most = self.meter.max_requests or len(missing)
        beside = self.model.concurrency
        start = 0
        while start < len(missing):
            prompt = self.plan.prompt(int(missing[start]))
            scored = bool(prompt.candidates or prompt.perplexity)
            size = (scored and self.model.scored_batch_size) or self.model.batch_size
            even = math.ceil(len(missing) / (math.ceil(len(missing) / (size * beside)) * beside))
            end = start + min(even, most)
            yield [(int(distinct), self.plan.draw(int(distinct))) for distinct in missing[start:end]]
            start = end

    async def _kept(self, batch: list[tuple[int, Draw]]) -> None:
        """Ask and record; a fault lets no further request go out, but what is in flight is waited for and kept."""
        try:
            await self._one(batch)
        except Exception as error:
            self.fault = self.fault or error
            self.given_up = self.given_up or "not asked: the run ended early"

    async def _one(self, batch: list[tuple[int, Draw]]) -> None:
        asked = datetime.now(UTC)
        try:
            answers = await self._attempts([draw for _, draw in batch])
        finally:
            self.pace.leave()
        for (_, draw), answer in zip(batch, answers, strict=True):
            self.meter.settle(draw.prompt, answer)
        self._record(batch, answers, asked)

    def _record(self, batch: list[tuple[int, Draw]], answers: Sequence[Completion], asked: datetime) -> None:
        with self.plan.ledger.together():  # one commit for a batch of a local model
            for (distinct, draw), answer in zip(batch, answers, strict=True):
                self.plan.record(distinct, draw, answer, asked, self.counts)
        self.show()

    async def _attempts(self, draws: list[Draw]) -> Sequence[Completion]:
        """Ask once, and again while the server says later."""
        if self.given_up:
            return [Completion(error=self.given_up)] * len(draws)
        clock = asyncio.get_running_loop().time
        attempt = 0
        while True:
            attempt += 1
            started = clock()
            try:
                answers = await self.model.complete(draws)
            except RequestFailed as error:
                self.meter.bill(error.usage)
                self._unserved(error.cause, str(error))
                return [Completion(finish_reason=error.finish_reason, error=str(error))] * len(draws)
            except RetryLater as error:
                if error.overloaded:
                    self.pace.pushed_back(error.retry_after and min(error.retry_after, self.retry.max_wait))
                if attempt >= self.retry.max_attempts or self.given_up:
                    down = error.cause in ("unreachable", "connection")
                    self._unserved(error.cause, str(error), GIVE_UP_AFTER if down else GIVE_UP_AFTER_BUSY)
                    return [Completion(error=f"{error} ({attempt} attempts)")] * len(draws)
                await self.pace.rest(self.wait(attempt, error.retry_after))
            else:
                if len(answers) != len(draws) or not all(isinstance(answer, Completion) for answer in answers):
                    raise ModelError(
                        f"the backend {type(self.model).__name__} owes a Completion for each of {len(draws):,} "
                        "prompts, and gave something else; its answers to them are not kept"
                    )
                for answer in answers:
                    unserved = answer.empty and answer.finish_reason != FILTERED
                    self._unserved(EMPTY if unserved else None, answer.error or "")
                self.pace.answered(clock() - started)
                return answers

    def wait(self, attempt: int, retry_after: float | None) -> float:
        """Seconds until the next attempt: what the server asks for, else doubled, both spread at random."""
        if retry_after is not None:
            return min(retry_after, self.retry.max_wait) + random.uniform(0, 0.1)
        backoff = min(LONGEST_BACKOFF, FIRST_WAIT * 2.0 ** (attempt - 1))
        return min(backoff, self.retry.max_wait) * random.uniform(0.5, 1.0)

    def _unserved(self, cause: str | None, reason: str = "", most: int | None = None) -> None:
        """Count failures in a row of one cause; None: the server served this request, or refused it alone."""
        self.unserved = 1 if cause != self.cause else self.unserved + 1
        self.cause = cause
        most = most or GIVE_UP_AFTER
        if cause is not None and self.unserved >= most and not self.given_up:
            self.given_up = f"not asked: {most} requests in a row failed for the same reason: {reason}"

    def show(self) -> None:
        """Show progress if the interval has passed."""
        if self.progress is not None:
            counts = self.counts
            done = counts.answered + counts.failed
            new = done - counts.from_ledger
            self.progress.show(done, counts.requested, new, counts.failed, self.meter.spent_text)

    def stopped(self, left: int) -> BudgetError:
        """What is raised where the budget ends the run."""
        meter = self.meter
        by_cost = meter.max_cost is not None and (meter.max_requests is None or meter.requests < meter.max_requests)
        limit = "max_cost" if by_cost else "max_requests"
        failed = "".join(
            f"; {self.counts.failed:,} failed, most often because: {reason}"
            for reason, _ in self.counts.reasons.most_common(1)
        )
        return BudgetError(
            f"{limit} reached: stopped after {meter.requests:,} requests ({meter.spent_text}), {left:,} not asked"
            f"{failed}; what was answered is in the ledger: raise {limit} and run again to go on"
        )
