"""The language-model interface: what a backend owes, and the two ways a request can end without an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import orjson

from markedness.records import AuditError, Completion, Prompt

BROKEN_OFF = "broken off"
"""Cause of answers that the server began and did not end: a run of them is given up, one is perhaps a moment's."""


class ModelError(AuditError):
    """The model as a whole cannot be used: a missing file, package or key."""

    def __init__(self, reason: str, *, ends: Literal["audit", "model", "server"] = "model") -> None:
        super().__init__(reason)
        self.ends = ends
        """What else would fail alike: nothing beyond the audit, the model, or all models of its server."""


class RequestFailed(Exception):  # noqa: N818
    """This request ends here, with its reason; it is not asked again in this run."""

    def __init__(
        self, reason: str, *, finish_reason: str | None = None, cause: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(reason)
        self.finish_reason = finish_reason
        """The server's finish reason, or `markedness.records.UNSUPPORTED`."""
        self.cause = cause
        """A cause that ends other requests as well ("key", "not found"); None: perhaps this request alone."""
        self.status = status
        """The HTTP status, where there was one."""
        self.usage: tuple[int | None, int | None] = (None, None)
        """Tokens, input and output, that the server reports for an answer that cannot be used: they are billed."""


class RetryLater(Exception):  # noqa: N818
    """The server may answer later: 408, 409, 429, 5xx or a broken connection."""

    def __init__(
        self, reason: str, retry_after: float | None = None, *, overloaded: bool = False, cause: str = "not served"
    ) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        """Seconds the server asked to wait; None when it did not say."""
        self.overloaded = overloaded
        """The server is overloaded (429, 503, no answer in time), so that other requests wait as well."""
        self.cause = cause
        """Failures in a row of one cause end a run."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One sample of one prompt: the unit that is asked, paid for and kept in the ledger."""

    prompt: Prompt
    sample: int
    request: Mapping[str, Any]
    """The full request as the backend will send it, sampling parameters included."""
    served_by: str = ""
    """Who answers: see `LanguageModel.served_by`."""

    @property
    def key(self) -> str:
        """Key in the ledger: a hash of who serves, the whole request and the sample; 15 draws of one prompt stay 15."""
        return draw_keys(self.served_by, self.request, range(self.sample, self.sample + 1)).hex()

    @property
    def stream(self) -> str:
        """Seed of this draw's random numbers: hash of request and sample index, the same whoever serves."""
        content = orjson.dumps([self.request, self.sample], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(content).hexdigest()[:32]


KEY_VERSION = 2
"""Version of the keys and rows of the ledger; part of every key."""


def draw_keys(served_by: str, request: Mapping[str, Any], samples: range) -> bytes:
    """Keys of these samples of one request, 16 bytes each."""
    content = orjson.dumps([KEY_VERSION, served_by, request], option=orjson.OPT_SORT_KEYS)
    head = hashlib.sha256(content[:-1] + b",")
    keys = bytearray()
    for sample in samples:
        whole = head.copy()
        whole.update(b"%d]" % sample)
        keys += whole.digest()[:16]
    return bytes(keys)


class LanguageModel(Protocol):
    """A backend; derive from it to inherit what most need not say.

    It neither retries nor caches nor bounds its concurrency: `markedness.lm.collect` does.
    """

    batch_size: int = 1
    """Draws handed to one call of `complete`; 1 for a server."""
    scored_batch_size: int | None = None
    """The same for prompts whose tokens are scored; None: ``batch_size``."""
    concurrency: int = 1
    """Most calls of `complete` in flight."""
    min_concurrency: int = 1
    """Fewest calls in flight, however slow the server becomes."""
    batch_api: bool = False
    """Ask through the Batch endpoint: `markedness.lm.openai_api.OpenAIServer` only."""
    sends_candidates: bool = False
    """Whether a prompt is sent again with each of its candidates, and paid for as often."""
    workers: int = 1
    """More than one: ask through Ray: `markedness.lm.local.LocalModel` only."""
    served_by: str
    """Who answers, as a part of the ledger's keys: the hash of local weights, or the URL of a server.

    Two models with the same value give the same answers; "" while it is not known because the weights are not here.
    """

    def unsupported(self, prompt: Prompt) -> str | None:
        """A sentence that says what is missing to answer this prompt; None when it can be answered."""
        return None

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """The request for one draw, as plain data: model, messages or text, sampling; never a key."""
        ...

    def may_be(self, who: str) -> bool:
        """Whether answers of ``who`` may be taken for this model's while ``served_by`` is ""."""
        return True

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the weights where ``served_by`` is "", so that it is known."""
        return

    async def probe(self, prompt: Prompt) -> None:
        """Before the first batch: one test request with this prompt's sampling, whose answer is not kept.

        Raises
        ------
        ModelError
            When every request would fail alike: a wrong key, model name or URL, or no server there.
        """
        return

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """Answer the draws, in their order: generate, or score where a prompt has candidates.

        Raises
        ------
        RequestFailed, RetryLater
            For the whole batch; a batch backend says what failed for one draw in ``Completion.error``.
        """
        ...

    async def close(self) -> None:
        """Close connections and free memory."""
        return
