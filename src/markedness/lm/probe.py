"""One test request to a server, before many are sent: does it answer at all? Its answer is never kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

from markedness.lm.base import BROKEN_OFF, Draw, LanguageModel, ModelError, RequestFailed, RetryLater
from markedness.lm.endpoint import Endpoint
from markedness.records import Completion, Message, Prompt, Sampling

QUESTION = "This is a connection test. Reply with the word ok."
MAX_TOKENS = 16
TIMEOUT = 5.0
"""Seconds; a server that takes longer is there, and is asked."""


def probe_prompt(sampling: Sampling, candidates: tuple[str, ...] = ()) -> Prompt:
    """The question, with the sampling of the requests that follow, so that a refused parameter shows here."""
    return Prompt("probe", "", (Message("user", QUESTION),), QUESTION, sampling, candidates=candidates)


async def ask_once(
    model: LanguageModel, endpoint: Endpoint, sampling: Sampling, candidates: tuple[str, ...] = ()
) -> Completion:
    """The answer to the question, or the exception of `LanguageModel.complete`."""
    prompt = probe_prompt(sampling, candidates)
    _ = endpoint.client  # made outside the time limit: it takes seconds on a busy machine
    try:
        async with asyncio.timeout(TIMEOUT):
            return (await model.complete([Draw(prompt, 0, model.request(prompt))]))[0]
    except TimeoutError:
        raise RetryLater(f"{endpoint.url}: no answer within {TIMEOUT:g} s", cause="late") from None


async def probe_server(model: LanguageModel, endpoint: Endpoint, sampling: Sampling) -> None:
    """Ask once; ModelError where all other requests would end alike.

    A server that is busy or slow passes, and so does one whose test answer is broken off or empty: reasoning may use up
    so few tokens. A refused request is tried again with the tokens that will really be asked for.
    """
    short = replace(sampling, max_tokens=min(MAX_TOKENS, sampling.max_tokens))
    for tried in (short, sampling):
        try:
            await ask_once(model, endpoint, tried)
        except RequestFailed as failed:
            if failed.cause is None and failed.status in (400, 422) and tried is short and short != sampling:
                continue
            if failed.cause not in (None, BROKEN_OFF) or failed.status in (400, 422):
                ends: Literal["audit", "model"] = "audit" if failed.cause is None else "model"
                raise ModelError(f"{endpoint.where}: {failed}; nothing else was asked", ends=ends) from None
        except RetryLater as later:
            if later.cause == "unreachable":
                raise ModelError(f"{endpoint.where}: {later}; nothing was asked", ends="server") from None
        return
