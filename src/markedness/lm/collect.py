"""Ask a model for what the ledger lacks: alone does concurrency, retries and the ledger."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import overload

import numpy as np
import orjson

from markedness.lm.base import Draw, LanguageModel, RequestFailed, RetryLater
from markedness.lm.cache import DIGEST, Ledger
from markedness.lm.costs import Meter
from markedness.lm.pace import Pace
from markedness.lm.progress import Progress
from markedness.records import UNSUPPORTED, AuditError, Completion, Prompt

FIRST_WAIT = 0.5
"""Backoff before the second attempt, seconds; doubled for each further one, half of it at random."""
LONGEST_BACKOFF = 30.0
GIVE_UP_AFTER = 100
"""Requests in a row that a server refused or did not serve, after which the rest are not asked."""

MOST_REASONS = 100
"""Different reasons of failures that are kept apart."""


class BudgetError(AuditError):
    """A limit of the budget ended the run before its end; what was answered is in the ledger."""


@dataclass(frozen=True)
class Patience:
    """How often and how long a request is tried."""

    max_attempts: int = 8
    """Attempts for one request, the first included."""
    max_wait: float = 120.0
    """Longest wait between two attempts, seconds, whatever the server asks for."""


@dataclass
class Counts:
    """What a run asked for: requested = answered + failed, always."""

    requested: int = 0
    answered: int = 0
    failed: int = 0
    from_ledger: int = 0
    """Of the answered, those that were paid for earlier."""
    unsupported: int = 0
    """Beside the requested: what the backend cannot serve and was not asked."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why requests failed."""


class Plan:
    """The draws of one round of prompts: which are the same, which the ledger has.

    Kept as arrays, so that a million draws take some 60 MB.
    """

    def __init__(self, model: LanguageModel, prompts: Sequence[Prompt], ledger: Ledger) -> None:
        self.model = model
        self.prompts = prompts
        self.ledger = ledger
        self.unsupported: dict[int, str] = {}
        """Place of a prompt -> why it is not asked."""
        digests = bytearray()
        sizes = []
        for index, prompt in enumerate(prompts):
            if reason := model.unsupported(prompt):
                self.unsupported[index] = reason
                sizes.append(0)
                continue
            digests += _digests(model.request(prompt), prompt)
            sizes.append(prompt.samples)
        self.starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        """Shape (n_prompts + 1,): where each prompt's draws begin."""
        keys, self.first, self.unique, self.copies = np.unique(
            np.frombuffer(bytes(digests), dtype=DIGEST), return_index=True, return_inverse=True, return_counts=True
        )
        self.places = ledger.find(keys)
        """Of each distinct draw: where its answer lies in the ledger; -1 while there is none."""
        self.failures: dict[int, Completion] = {}
        """Distinct draw -> how it ended without an answer."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def missing(self) -> np.ndarray:
        """Distinct draws to be asked, in the order of the prompts; in order of length for a batch backend."""
        missing = np.flatnonzero(self.places < 0)
        order = self.first[missing]
        if self.model.batch_size > 1:
            lengths = np.array([len(prompt.text) for prompt in self.prompts], dtype=np.int64)
            return missing[np.lexsort((order, lengths[self._prompt(order)]))]
        return missing[np.argsort(order)]

    def _prompt(self, draws: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.starts, draws, side="right") - 1

    def prompt(self, distinct: int) -> Prompt:
        """The prompt behind one distinct key."""
        return self.prompts[int(self._prompt(self.first[distinct]))]

    def draw(self, distinct: int) -> Draw:
        """The draw behind one distinct key."""
        place = int(self.first[distinct])
        index = int(self._prompt(self.first[distinct]))
        prompt = self.prompts[index]
        sample = prompt.first_sample + place - int(self.starts[index])
        return Draw(prompt, sample, self.model.request(prompt))

    def record(self, distinct: int, draw: Draw, answer: Completion, asked: datetime, counts: Counts) -> None:
        """Put an answer into the ledger, or keep why there is none."""
        copies = int(self.copies[distinct])
        if answer.error is None:
            self.places[distinct] = self.ledger.append(draw, answer, asked)
            counts.answered += copies
            return
        self.failures[distinct] = answer
        if answer.finish_reason == UNSUPPORTED:
            counts.unsupported += copies
            counts.requested -= copies
        else:
            counts.failed += copies
            reason = answer.error if len(counts.reasons) < MOST_REASONS else "other reasons"
            counts.reasons[reason] += copies


def _digests(request: object, prompt: Prompt) -> bytes:
    """The keys of a prompt's draws, see `Draw.key`."""
    head = hashlib.sha256(b"[" + orjson.dumps(request, option=orjson.OPT_SORT_KEYS) + b",")
    keys = bytearray()
    for sample in range(prompt.first_sample, prompt.first_sample + prompt.samples):
        whole = head.copy()
        whole.update(b"%d]" % sample)
        keys += whole.digest()[:16]
    return bytes(keys)


class Answers(Sequence[list[Completion]]):
    """The completions of each prompt of a round, in order; read from the (open) ledger when they are looked at."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return len(self._plan.prompts)

    @overload
    def __getitem__(self, index: int) -> list[Completion]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Completion]]: ...
    def __getitem__(self, index: int | slice) -> list[Completion] | list[list[Completion]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        plan, index = self._plan, range(len(self))[index]
        if reason := plan.unsupported.get(index):
            return [Completion(finish_reason=UNSUPPORTED, error=reason)] * plan.prompts[index].samples
        return [self._read(int(plan.unique[i])) for i in range(plan.starts[index], plan.starts[index + 1])]

    def _read(self, distinct: int) -> Completion:
        place = int(self._plan.places[distinct])
        return self._plan.ledger.read(place) if place >= 0 else self._plan.failures[distinct]


async def collect(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    ledger: Ledger,
    counts: Counts,
    *,
    patience: Patience | None = None,
    meter: Meter | None = None,
    progress: Progress | None = None,
) -> Answers:
    """All samples of all prompts, in order, from the ledger where it has them and from the model else.

    Raises
    ------
    BudgetError
        When the meter allows no further request; those under way are waited for first.
    """
    plan = Plan(model, prompts, ledger)
    counts.unsupported += sum(prompts[index].samples for index in plan.unsupported)
    counts.requested += len(plan)
    known = int(plan.copies[plan.places >= 0].sum())
    counts.answered += known
    counts.from_ledger += known
    missing = plan.missing
    if len(missing):
        run: type[Run] = Run
        if getattr(model, "batch_api", False):
            from markedness.lm.batch import BatchRun

            run = BatchRun
        elif getattr(model, "workers", 1) > 1:
            from markedness.lm.cluster import ClusterRun

            run = ClusterRun
        await run(plan, counts, patience or Patience(), meter or Meter(), progress).ask(missing)
    return Answers(plan)


class Run:
    """The asking of one plan, request by request."""

    def __init__(self, plan: Plan, counts: Counts, patience: Patience, meter: Meter, progress: Progress | None) -> None:
        self.plan = plan
        self.model = plan.model
        self.counts = counts
        self.patience = patience
        self.meter = meter
        self.progress = progress
        self.unserved = 0
        """Requests in a row that ended without the server serving any."""
        self.given_up: str | None = None

    async def ask(self, missing: np.ndarray) -> None:
        """Ask for these distinct draws, as many at once as the server takes."""
        self.pace = Pace(getattr(self.model, "min_concurrency", 1), self.model.concurrency)
        left = len(missing)
        try:
            async with asyncio.TaskGroup() as group:
                for batch in self._batches(missing):
                    await self.pace.place()
                    while not self._allowed(batch) and self.pace.under_way + self.pace.resting > 1:
                        # what is under way may turn out cheaper than it could have been
                        self.pace.leave()
                        await asyncio.sleep(0.01)
                        await self.pace.place()
                    if not self._allowed(batch):
                        self.pace.leave()
                        break
                    left -= len(batch)
                    for _, draw in batch:
                        self.meter.ask(draw.prompt)
                    group.create_task(self._one(batch))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed.exceptions[0].__cause__
        if left:
            raise self.stopped(left)

    def _allowed(self, batch: list[tuple[int, Draw]]) -> bool:
        return self.meter.allows([draw.prompt for _, draw in batch])

    def _batches(self, missing: np.ndarray) -> Iterator[list[tuple[int, Draw]]]:
        most = self.meter.max_requests or len(missing)
        start = 0
        while start < len(missing):
            prompt = self.plan.prompt(int(missing[start]))
            size = self.model.batch_size
            if prompt.candidates or prompt.perplexity:
                size = getattr(self.model, "scored_batch_size", size)
            end = start + min(size, most)
            yield [(int(distinct), self.plan.draw(int(distinct))) for distinct in missing[start:end]]
            start = end

    async def _one(self, batch: list[tuple[int, Draw]]) -> None:
        asked = datetime.now(UTC)
        try:
            answers = await self._attempts([draw for _, draw in batch])
        finally:
            self.pace.leave()
        for (distinct, draw), answer in zip(batch, answers, strict=True):
            self.meter.settle(draw.prompt, answer)
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
                self._unserved(str(error) if error.refused else None)
                return [Completion(finish_reason=error.finish_reason, error=str(error))] * len(draws)
            except RetryLater as error:
                if error.overloaded:
                    self.pace.pushed_back(error.retry_after and min(error.retry_after, self.patience.max_wait))
                if attempt >= self.patience.max_attempts or self.given_up:
                    self._unserved(str(error))
                    return [Completion(error=f"{error} ({attempt} attempts)")] * len(draws)
                await self.pace.rest(self.wait(attempt, error.retry_after))
            else:
                self._unserved(None)
                self.pace.answered(clock() - started)
                return answers

    def wait(self, attempt: int, retry_after: float | None) -> float:
        """Seconds until the next attempt: what the server asks for, else doubled, both spread at random."""
        if retry_after is not None:
            return min(retry_after, self.patience.max_wait) + random.uniform(0, 0.1)
        backoff = min(LONGEST_BACKOFF, FIRST_WAIT * 2.0 ** (attempt - 1))
        return min(backoff, self.patience.max_wait) * random.uniform(0.5, 1.0)

    def _unserved(self, reason: str | None) -> None:
        """Count requests in a row that the server did not serve; None: it served this one."""
        self.unserved = 0 if reason is None else self.unserved + 1
        if self.unserved >= GIVE_UP_AFTER:
            self.given_up = f"not asked: {GIVE_UP_AFTER} requests in a row were not served ({reason})"

    def show(self) -> None:
        """Say how far it is, when it is time."""
        if self.progress is not None:
            counts = self.counts
            done = counts.answered + counts.failed
            new = done - counts.from_ledger
            self.progress.show(done, counts.requested, new, counts.failed, self.meter.spent_text)

    def stopped(self, left: int) -> BudgetError:
        """What is raised where the budget ends the run."""
        meter = self.meter
        by_cost = meter.max_cost is not None and meter.allows([]) and meter.max_requests != meter.requests
        limit = "max_cost" if by_cost else "max_requests"
        return BudgetError(
            f"{limit} reached: stopped after {meter.requests:,} requests ({meter.spent_text}), {left:,} not asked; "
            f"what was answered is in the ledger: raise {limit} and run again to go on"
        )
