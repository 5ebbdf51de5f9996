"""`markedness fill`: the servers of a study are asked side by side, into the ledgers and nowhere else.

One event loop asks all servers, each from a queue of its own, so that each has the pace that it takes. What the loop
computes between two requests (prompts, keys, reading a slice) holds up all of them for that long, a second or two for
50,000 answers; an answer could be lost to that only where it took longer than what is left of its ``timeout``. A ledger
belongs to one model, a model to one queue, so that nothing is shared between queues but the loop. What other processes
ask meanwhile is kept apart by the claims of the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from urllib.parse import urlsplit

from markedness import judges, ledgers
from markedness.audits import spec
from markedness.credentials import hide
from markedness.generation import ask_rounds, forecast, say_counts
from markedness.lm.base import ModelError
from markedness.lm.config import OpenAIModel, ServerModel
from markedness.lm.progress import Report, tell
from markedness.params import Params
from markedness.records import AuditError


def fill(params: Params, models: Sequence[str] = (), audits: Sequence[str] = (), say: Report = tell) -> bool:
    """Ask for what the ledgers lack; ``generate`` finds it there.

    Parameters
    ----------
    models, audits
        Those to ask and to ask for; none: all of the study.

    Returns
    -------
    bool
        Whether everything was answered, but for as many failures as ``tolerated_failures`` allows.
    """
    queues = by_server(params, models or params.run, say)
    audits = audits or params.audits
    if not queues:
        return True
    try:
        complete = asyncio.run(_side_by_side(params, list(queues.values()), audits, say))
    except KeyboardInterrupt:
        say("fill: interrupted; what was answered is in the ledger, run again to go on")
        raise
    every = len(audits) * sum(map(len, queues.values()))
    again = "" if complete == every else "; run again to ask for the rest"
    say(f"fill: {complete} of {every} audits of models complete{again}")
    return complete == every


def forecasts(params: Params, models: Sequence[str], audits: Sequence[str], say: Report = tell) -> None:
    """Report what `fill` would ask, and featurize of services and judges afterwards, with costs; nothing is asked."""
    queued = [model for queue in by_server(params, models, say).values() for model in queue]
    for model in [*queued, *(one for one in models if one not in queued)]:
        for audit in audits:
            if model in queued:
                asked = forecast(params, audit, model, say)
            elif spec(audit).questions is None:
                continue
            else:
                asked = forecast(params, audit, model, lambda _: None)
            judges.forecast(params, audit, model, asked.known == asked.total, partial(_later, say))


def _later(say: Report, sentence: str) -> None:
    say(f"{sentence} (left to 'dvc repro')")


def by_server(params: Params, models: Sequence[str], say: Report) -> dict[str, list[str]]:
    """Server -> its models, in the order given; says which models are not asked over HTTP.

    The Batch endpoint of a server has a queue of its own, since it answers within a day.
    """
    queues: dict[str, list[str]] = {}
    others = []
    for model in models:
        config = params.model(model)
        if isinstance(config, ServerModel) and config.url:
            server = urlsplit(config.url).netloc.lower()
            batches = isinstance(config, OpenAIModel) and config.batch_api
            queues.setdefault(f"{server} batches" if batches else server, []).append(model)
        else:
            others.append(f"{model} ({config.backend})")
    if others:
        say(f"fill: no server is asked for {', '.join(others)}; left to 'dvc repro'")
    return queues


async def _side_by_side(params: Params, queues: Sequence[Sequence[str]], audits: Sequence[str], say: Report) -> int:
    """How many audits of models are complete; a fault of the project in one queue is raised once all have ended."""
    ended = await asyncio.gather(
        *(_one_after_another(params, models, audits, say) for models in queues), return_exceptions=True
    )
    for one in ended:
        if isinstance(one, BaseException):
            raise one
    return sum(one for one in ended if isinstance(one, int))


async def _one_after_another(params: Params, models: Sequence[str], audits: Sequence[str], say: Report) -> int:
    """All audits of all models of one server; how many are complete."""
    left = [(model, audit) for model in models for audit in audits]
    complete = 0
    while left:
        model, audit = left.pop(0)
        try:
            complete += await _asked(params, audit, model, say)
        except AuditError as error:
            ends = error.ends if isinstance(error, ModelError) else "audit"
            given_up = [one for one in left if ends == "server" or (ends == "model" and one[0] == model)]
            left = [one for one in left if one not in given_up]
            others = ", ".join(f"{other} {name}" for name, other in given_up)
            say(f"{audit} {model}: error: {hide(str(error))}" + (f"; not asked either: {others}" if others else ""))
    return complete


async def _asked(params: Params, audit: str, model: str, say: Report) -> bool:
    """Whether the ledger now has all of one audit of one model, but for the failures that are tolerated."""
    with ledgers.opened(params, audit, model, say) as ledger:
        _, counts = await ask_rounds(params, audit, model, ledger, say, terminal=False)
    say_counts(f"{audit} {model}", model, counts, say)
    all_failed = counts.failed and not counts.answered
    return not all_failed and counts.tolerated(params.tolerated_failures)
