"""Ask a model for what the ledger lacks: alone does concurrency, retries and the ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from markedness.lm.base import Draw, LanguageModel, RequestFailed, RetryLater
from markedness.lm.cache import Ledger
from markedness.records import UNSUPPORTED, Completion, Prompt

MAX_ATTEMPTS = 6
"""Attempts for one request, the first included."""
MAX_WAIT = 60.0
"""Longest wait between two attempts, seconds, whatever the server asks for."""


@dataclass
class Counts:
    """What a run asked for: requested = answered + failed, always."""

    requested: int = 0
    answered: int = 0
    failed: int = 0
    from_ledger: int = 0
    """Of the answered, those that were paid for earlier."""


async def collect(
    model: LanguageModel, prompts: Sequence[Prompt], ledger: Ledger, counts: Counts
) -> list[list[Completion]]:
    """All samples of all prompts, in order, from the ledger where it has them and from the model else."""
    answers: list[list[Completion]] = [[Completion()] * prompt.samples for prompt in prompts]
    open_draws: list[tuple[int, Draw]] = []
    for place, prompt in enumerate(prompts):
        counts.requested += prompt.samples
        if reason := model.unsupported(prompt):
            answers[place] = [Completion(finish_reason=UNSUPPORTED, error=reason)] * prompt.samples
            counts.failed += prompt.samples
            continue
        request = model.request(prompt)
        for sample in range(prompt.samples):
            draw = Draw(prompt, prompt.first_sample + sample, request)
            known = ledger.get(draw.key)
            if known is None:
                open_draws.append((place, draw))
                continue
            answers[place][sample] = known
            counts.answered += 1
            counts.from_ledger += 1
    open_draws.sort(key=lambda item: len(item[1].prompt.text))
    batches = [open_draws[i : i + model.batch_size] for i in range(0, len(open_draws), model.batch_size)]
    gate = asyncio.Semaphore(model.concurrency)

    async def ask(batch: list[tuple[int, Draw]]) -> None:
        async with gate:
            completions = await _attempt(model, [draw for _, draw in batch])
        for (place, draw), completion in zip(batch, completions, strict=True):
            answers[place][draw.sample - draw.prompt.first_sample] = completion
            if completion.error is None:
                ledger.append(draw, completion)
                counts.answered += 1
            else:
                counts.failed += 1

    await asyncio.gather(*(ask(batch) for batch in batches))
    return answers


async def _attempt(model: LanguageModel, draws: list[Draw]) -> list[Completion]:
    """Ask once, and again while the server says later."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return await model.complete(draws)
        except RequestFailed as error:
            return [Completion(finish_reason=error.finish_reason, error=str(error))] * len(draws)
        except RetryLater as error:
            if attempt == MAX_ATTEMPTS:
                return [Completion(error=f"{error} ({attempt} attempts)")] * len(draws)
            wait = error.retry_after if error.retry_after is not None else random.uniform(0, 2.0**attempt)
            await asyncio.sleep(min(wait, MAX_WAIT))
    raise AssertionError("unreachable")
