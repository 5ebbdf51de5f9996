"""Ask a model for what the ledger lacks, in the way that its backend names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from markedness.lm.base import LanguageModel
from markedness.lm.config import RetryPolicy
from markedness.lm.costs import BudgetTracker
from markedness.lm.ledger import Ledger
from markedness.lm.plan import Answers, Counts, Plan
from markedness.lm.progress import Progress
from markedness.lm.run import Run
from markedness.records import Prompt

if TYPE_CHECKING:
    from markedness.lm.batch import BatchRun

LOOK_EVERY = 0.5
"""Seconds between two looks at what another process has answered."""


async def collect(
    model: LanguageModel,
    prompts: Sequence[Prompt],
    ledger: Ledger,
    counts: Counts,
    *,
    retry: RetryPolicy | None = None,
    meter: BudgetTracker | None = None,
    progress: Progress | None = None,
) -> Answers:
    """All samples of all prompts, in order, from the ledger where it has them and from the model else.

    Raises
    ------
    BudgetError
        When the budget allows no further request; in-flight requests are waited for first.
    """
    plan = Plan(model, prompts, ledger)
    await ask(plan, counts, retry=retry, meter=meter, progress=progress)
    return Answers(plan)


async def ask(
    plan: Plan,
    counts: Counts,
    *,
    retry: RetryPolicy | None = None,
    meter: BudgetTracker | None = None,
    progress: Progress | None = None,
) -> None:
    """Ask for what a plan lacks; see `collect`. What another process is asking for is waited for, not asked twice."""
    plan.count(counts)
    meter = meter or BudgetTracker()
    run: Run | None = None
    while len(missing := plan.missing):
        mine, others = plan.claim(missing, counts)
        if len(mine):
            try:
                if run is None:
                    asked = plan, counts, retry or RetryPolicy(), meter, progress
                    if (earlier := _handed_over(plan)) is not None:
                        mine = await earlier(*asked).merge_earlier(mine)
                        if not len(mine):
                            continue
                    run = _way(plan.model)(*asked)
                    first = plan.prompt(int(mine[0]))
                    if meter.allows([first]) and not run.given_up:
                        await plan.model.probe(first)
                await run.ask(mine)
            finally:
                plan.ledger.release()
        if len(others):
            await _asked_elsewhere(plan, others, counts, progress)


def _way(model: LanguageModel) -> type[Run]:
    """How a model is asked."""
    if model.batch_api:
        from markedness.lm.batch import BatchRun

        return BatchRun
    if model.workers > 1:
        from markedness.lm.cluster import ClusterRun

        return ClusterRun
    return Run


def _handed_over(plan: Plan) -> type[BatchRun] | None:
    """Of a model that was asked through the Batch endpoint, and now is not: how to see to what was handed over."""
    if plan.model.batch_api or not plan.ledger.batches():
        return None
    from markedness.lm.batch import BatchRun
    from markedness.lm.openai_api import OpenAIServer

    return BatchRun if isinstance(plan.model, OpenAIServer) else None


async def _asked_elsewhere(plan: Plan, others: np.ndarray, counts: Counts, progress: Progress | None) -> None:
    """Wait while another process asks for the same draws, until each is answered or no longer asked for there."""
    if progress is not None:
        progress.say(f"{progress.title}: waiting for {len(others):,} answers that another run is asking for")
    while len(others) and plan.ledger.claimed(plan.keys[others]).all():
        await asyncio.sleep(LOOK_EVERY)
        plan.look_again(others, counts)
        others = others[~plan.found[others]]
