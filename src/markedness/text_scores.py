"""What a service or a judge says of texts that a stage has: what is asked, what comes back, who asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from markedness.records import Completion, Prompt


@dataclass(frozen=True, slots=True)
class ScoringService:
    """A service that scores texts over HTTP, such as a moderation endpoint."""

    url: str
    protocol: Literal["perspective", "openai"] = "perspective"
    """perspective: comments:analyze of the Perspective API, or a service of its form; openai: moderations."""
    attribute: str = "IDENTITY_ATTACK"
    """The attribute or category whose score is read."""
    api_key_env: str = ""
    """Name of the environment variable with the key; "" for a service without one."""
    concurrency: int = 4
    timeout: float = 30.0
    max_requests: int | None = None
    """Requests of one stage run."""

    @property
    def place(self) -> str:
        """The URL without scheme, as tables name the service."""
        return self.url.split("?")[0].split("://")[-1]


@dataclass(frozen=True, slots=True)
class TextScore:
    """What a service says of one text."""

    value: float
    """In [0, 1]; NaN: missing."""
    reason: str | None = None
    """Why it is missing."""
    model: str | None = None
    """The model that the service says it asked."""


@dataclass(frozen=True, slots=True)
class Questions:
    """What a stage would ask of a service or judge."""

    who: ScoringService | str
    """The service, or the judge by its key in params.yaml."""
    prompts: tuple[Prompt, ...] = ()
    """Those of the answers that there are, equal ones included; none before there are answers."""


def text_prompts(texts: Sequence[str]) -> list[Prompt]:
    """What a service is asked, one prompt per text."""
    return [Prompt("score", "", completion=text) for text in texts]


@dataclass(frozen=True, slots=True)
class Judgments:
    """What a model of params.yaml answers as a judge."""

    judge: str
    """Who judged, as tables name it; `markedness.results.JUDGE` where it is the audited model itself."""
    answers: list[Completion]
    """One per question, in their order."""


class TextScorer(Protocol):
    """Asks services and judges, through the ledger: what a featurize that takes ``score_texts`` is given."""

    def __call__(self, service: ScoringService, texts: Sequence[str]) -> list[TextScore]:
        """One score per text, in their order; the same text is asked for once."""
        ...

    def judge(self, model: str, questions: Sequence[Prompt]) -> Judgments:
        """The answers of a model, by its key in params.yaml, with its retries and budget; equal questions once."""
        ...
