"""What a row of the ledger must be: everything that was written by somebody else, or long ago, is checked here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from markedness.lm.answers import as_ended
from markedness.lm.redaction import LONGEST_ERROR
from markedness.records import MAYBE_IMPUTED, SHOWN, TOP_LOGPROBS, Completion

MAX_ANSWER = 1_000_000
"""Bytes of one stored answer as JSON; a longer one is a failed request."""
FIELDS = tuple(field.name for field in fields(Completion))
"""Of an answer."""
_ANSWER = TypeAdapter(Completion)
_ROUNDING = 1e-3
"""A ln probability or coverage may be so much above its bound."""
Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[\w.:-]{1,200}$")]


def stored_time(moment: datetime) -> str:
    """A moment as rows have it: UTC, so that text order is order in time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def stored_completion(answer: str | bytes | None, scored: int | None = None) -> Completion:
    """A stored answer, or that it came without a text, every field checked; ValueError where it is neither.

    Parameters
    ----------
    scored
        How many ln probabilities were asked for; 0: a text was; None: unknown.
    """
    try:
        completion = _ANSWER.validate_json(answer or b"", strict=True)
    except ValidationError as error:
        raise ValueError("malformed answer") from error
    completion = as_ended(completion)
    if completion.empty and len(completion.error or "") <= LONGEST_ERROR:
        return completion
    if completion.error is not None or (completion.text is None and not completion.log_probs):
        raise ValueError("neither text nor log probabilities")
    known = [value for value in (*completion.log_probs, (completion.coverage or 0) - 1) if value is not None]
    if not all(value <= _ROUNDING for value in known) or (completion.coverage or 0) < 0:
        raise ValueError("no probabilities")
    if len(completion.reasons) not in (0, len(completion.log_probs)):
        raise ValueError("reasons of other candidates")
    if len(completion.candidate_tokens) not in (0, len(completion.log_probs)):
        raise ValueError("tokens of other candidates")
    if scored is not None and (len(completion.log_probs) != scored if scored else completion.text is None):
        raise ValueError("an answer to another question")
    return _marked(completion)


def _marked(completion: Completion) -> Completion:
    """With what each ln probability is, where the row is of before these were marked.

    All that are imputed have one value, none that was shown has less, and together they have no more than the mass
    that is not covered.
    """
    known = [value for value in completion.log_probs if value is not None]
    if completion.estimator != TOP_LOGPROBS or completion.reasons or not known:
        return completion
    share, covered = math.exp(min(known)) * known.count(min(known)), completion.coverage or 0.0
    all_shown = share < 1 and covered * share / (1 - share) > 1 - covered + _ROUNDING
    least = math.nan if all_shown else min(known)
    return replace(completion, reasons=tuple(MAYBE_IMPUTED if p == least else SHOWN for p in completion.log_probs))


def scored_of(request: Mapping[str, Any]) -> int | None:
    """How many ln probabilities a stored request asks for, 0 for a text; None where a backend of others words it."""
    candidates = request.get("candidates")
    if isinstance(candidates, list) and candidates:
        return len(candidates)
    if request.get("perplexity") is True:
        return 1
    return 0 if request.keys() & {"temperature", "body"} else None  # what servers and local models are asked for texts


class BatchFacts(BaseModel):
    """What the ledger knows of an open batch of a Batch endpoint."""

    model_config = ConfigDict(extra="forbid", strict=True)

    keys: list[Key] = Field(default_factory=list)
    id: Id | None = None
    """None until the endpoint has said it."""
    file: Id | None = None
    """Of its requests, which the batch names too."""
    at: str | None = Field(default=None, pattern=r"^[0-9T:.+Z-]{1,40}$")
    empty: bool | None = None
    """Whether it was found completed without a line for each of its requests; it is looked at once more."""


def batch_facts(content: str | Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a batch, checked; ValueError."""
    if isinstance(content, str):
        facts = BatchFacts.model_validate_json(content)
    else:
        facts = BatchFacts.model_validate(dict(content))
    return facts.model_dump(exclude_none=True)
