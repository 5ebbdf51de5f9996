"""Any OpenAI-compatible server, through the openai package. Its own retries are off: `collect` retries."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from markedness.lm.base import Draw, ModelError, RequestFailed, RetryLater
from markedness.lm.config import OpenAIModel
from markedness.records import UNSUPPORTED, Completion, Prompt

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ESTIMATOR = "top_logprobs_renormalised"
RETRIED = frozenset({408, 409, 429})
"""Beside every 5xx."""
OVERLOADED = frozenset({429, 503, 529})
"""Statuses that say the server has too much to do."""
_SPACES = " \t\n▁Ġ"
"""White space, and how SentencePiece and byte-level BPE write it where a server does not decode tokens."""


class OpenAIServer:
    """Chat or plain completions; token probabilities where the server serves ``top_logprobs``.

    Parameters
    ----------
    config
        The model's block in params.yaml.
    seed
        The study's seed; sent, plus the sample's index, where the config says ``seed: true``.
    """

    batch_size = 1

    def __init__(self, config: OpenAIModel, seed: int = 0) -> None:
        self.config = config
        self.seed = seed
        self.concurrency = config.concurrency
        self.min_concurrency = config.min_concurrency
        self.batch_api = config.batch_api
        self._secrets = {home: "~" for home in {str(Path.home())} if len(home) > 1}
        self._unscored: str | None = None
        self._scored = False
        self.path = "/chat/completions" if config.chat else "/completions"

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The client, made for the first request: a run whose ledger is complete needs neither key nor package."""
        from openai import AsyncOpenAI, DefaultAioHttpClient

        key = _api_key(self.config)
        self._secrets |= {key: "[key]"} if key != NO_KEY else {}
        return AsyncOpenAI(
            api_key=key, base_url=self.config.base_url, timeout=self.config.timeout, max_retries=0,
            http_client=DefaultAioHttpClient(timeout=self.config.timeout),
        )  # fmt: skip

    def unsupported(self, prompt: Prompt) -> str | None:
        """Without token probabilities no candidate is scored; without a text nothing is continued."""
        if prompt.candidates and not self.config.top_logprobs:
            return (
                f"{self.config.model} is asked without token probabilities; "
                "set top_logprobs (1 to 20) if its server serves them"
            )
        if prompt.perplexity:
            return f"{self.config.model} is behind a server, which serves no probabilities of a prompt's own tokens"
        if not self.config.chat and prompt.completion is None:
            return f"{self.config.model} continues texts (chat: false) and this prompt is a conversation"
        return None

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """What is sent, but for two things: ``candidates`` stay here, and the sample's index is added to ``seed``."""
        config, sampling = self.config, prompt.sampling
        request: dict[str, Any] = {"model": config.model}
        if config.chat:
            turns = [(turn.role, turn.content) for turn in prompt.messages] or [("user", prompt.completion or "")]
            request["messages"] = [{"role": role, "content": content} for role, content in turns]
        else:
            request["prompt"] = prompt.completion
        if prompt.candidates:
            request |= {"temperature": 1.0, "top_p": 1.0, config.max_tokens_parameter: 1}
            request |= (
                {"logprobs": True, "top_logprobs": config.top_logprobs}
                if config.chat
                else {"logprobs": config.top_logprobs}
            )
            request["candidates"] = list(prompt.candidates)
        else:
            request |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
            request[config.max_tokens_parameter] = sampling.max_tokens
            if sampling.stop and not config.chat:
                request["stop"] = list(sampling.stop)
        if config.seed:
            request["seed"] = self.seed
        return request | config.extra_body

    def body(self, draw: Draw) -> dict[str, Any]:
        """The JSON body of one draw."""
        body = {name: value for name, value in draw.request.items() if name != "candidates"}
        if "seed" in body:
            body["seed"] += draw.sample
        return body

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """Ask for each draw; see `markedness.lm.base.LanguageModel.complete`."""
        return [await self._ask(draw) for draw in draws]

    async def _ask(self, draw: Draw) -> Completion:
        if draw.prompt.candidates and self._unscored:
            return Completion(finish_reason=UNSUPPORTED, error=self._unscored)
        try:
            answer = orjson.loads(await self._post(draw))
        except orjson.JSONDecodeError as error:
            raise RequestFailed(f"the answer is not JSON ({error})") from None
        completion = self.read(answer, draw.prompt)
        if completion.finish_reason == UNSUPPORTED and self._scored:  # a proxy or a filter spoke, not the model
            raise RequestFailed(f"{completion.error}, though to others with them")
        if completion.finish_reason == UNSUPPORTED:
            self._unscored = completion.error
        elif completion.log_probs:
            self._scored, self._unscored = True, None
        return completion

    async def _post(self, draw: Draw) -> bytes:
        """One attempt: the body of a 2xx answer, or one of the two exceptions."""
        from httpx2 import Response

        client = self.client  # made outside the time limit: it takes a second at first
        async with self.attempt(self.config.timeout, scored=bool(draw.prompt.candidates)):
            response = await client.post(
                self.path,
                cast_to=Response,
                content=orjson.dumps(self.body(draw)),
                options={"headers": {"Content-Type": "application/json"}},
            )
            return bytes(response.content)
        raise AssertionError("unreachable")

    @contextlib.asynccontextmanager
    async def attempt(self, timeout: float, *, scored: bool = False) -> AsyncIterator[None]:
        """One call of the client within a time limit; whatever goes wrong is RequestFailed or RetryLater."""
        import openai
        from aiohttp import ClientError

        try:
            async with asyncio.timeout(timeout):
                yield
        except openai.APIStatusError as error:
            body = error.body
            detail = body.get("message") if isinstance(body, Mapping) else None
            later = retry_after(error.response.headers)
            raise self.refusal(error.status_code, str(detail or error.message), error.code, later, scored) from None
        except (openai.APIConnectionError, ClientError, OSError) as error:  # TimeoutError is an OSError
            reason, late = _connection_reason(error, timeout)
            raise RetryLater(self.redact(reason), overloaded=late) from None
        except openai.APIError as error:
            raise RequestFailed(self.redact(f"the openai package refused the answer: {error}")) from None

    def refusal(
        self, status: int, detail: str, code: str | None, later: float | None = None, scored: bool = False
    ) -> RequestFailed | RetryLater:
        """What an HTTP status other than 2xx becomes: whether to ask again, and when."""
        detail = self.redact(" ".join(detail.split()))[:500]
        reason = f"HTTP {status}: {detail}"
        if status in RETRIED or status >= 500:
            return RetryLater(reason, later, overloaded=status in OVERLOADED)
        if scored and status in (400, 422) and "logprob" in detail.lower():
            self._unscored = f"the server of {self.config.model} serves no token probabilities ({reason})"
            return RequestFailed(self._unscored, finish_reason=UNSUPPORTED)
        if code == "context_length_exceeded" or "context length" in detail.lower():
            reason = f"context too long: {reason}"
        elif code == "content_filter":
            reason = f"content filter: {reason}"
        return RequestFailed(reason, refused=status in (401, 403))

    def read(self, answer: Any, prompt: Prompt) -> Completion:
        """A decoded 2xx body as a completion; RequestFailed says what of it cannot be read."""
        if isinstance(answer, dict) and answer.get("error"):
            fault = answer["error"]
            detail = fault.get("message", fault) if isinstance(fault, dict) else fault
            raise RequestFailed(self.redact(f"the server reports an error: {detail}"[:500]))
        choice = _first_choice(answer)
        usage = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
        served: dict[str, Any] = {
            "finish_reason": self._text(choice.get("finish_reason")),
            "model": self._text(answer.get("model")),
            "fingerprint": self._text(answer.get("system_fingerprint")),
            "prompt_tokens": _count(usage.get("prompt_tokens")),
            "completion_tokens": _count(usage.get("completion_tokens")),
        }
        if served["finish_reason"] == "content_filter":
            return Completion(error="content filter: the server withheld the answer", **served)
        if prompt.candidates:
            top = top_log_probs(choice)
            if top is None:
                reason = f"the server of {self.config.model} answered without token probabilities"
                return Completion(finish_reason=UNSUPPORTED, error=reason)
            log_probs, coverage = candidate_log_probs(top, prompt.candidates)
            reasons = tuple("not among the served alternatives" if one is None else None for one in log_probs)
            return Completion(
                log_probs=log_probs, reasons=reasons if None in log_probs else (), estimator=ESTIMATOR,
                coverage=coverage, **served,
            )  # fmt: skip
        text = _content(choice, self.config.chat)
        stopped_at_once = text is not None and not self.config.chat and bool(prompt.sampling.stop)
        if text is None or (not text.strip() and not stopped_at_once):
            return Completion(error=f"the answer is empty (finish reason {served['finish_reason']})", **served)
        return Completion(text=self.redact(text), **served)

    def _text(self, value: Any) -> str | None:
        return self.redact(value) if isinstance(value, str) else None

    def redact(self, text: str) -> str:
        """A server may echo the key, or the place of its weights: neither reaches a file, a log line or a table."""
        for secret, shown in self._secrets.items():
            if secret in text:
                text = text.replace(secret, shown)
        return text

    async def close(self) -> None:
        """Close the connections."""
        if "client" in self.__dict__:
            await self.client.close()


NO_KEY = "none"
"""Sent where a server of one's own needs no key."""


def _api_key(config: OpenAIModel) -> str:
    """The key from the environment; a server of one's own may need none."""
    key = os.environ.get(config.api_key_env, "").strip()
    if not key and config.base_url is None:
        raise ModelError(f"{config.model}: the environment variable {config.api_key_env} is not set; export the key")
    return key or NO_KEY


def _connection_reason(error: BaseException, timeout: float) -> tuple[str, bool]:
    """What lies at the bottom of a connection error, and whether it is that no answer came in time."""
    while error.__cause__ is not None and not isinstance(error, TimeoutError):
        error = error.__cause__
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s", True
    return f"connection failed: {type(error).__name__} {error}".strip(), False


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a Retry-After header asks for, given in seconds or as an HTTP date; None without one."""
    milliseconds = headers.get("retry-after-ms")
    value = headers.get("retry-after", "")
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _first_choice(answer: Any) -> dict[str, Any]:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise RequestFailed("the answer has no choices, so it is of no schema this project knows")
    return choices[0]


def _content(choice: Mapping[str, Any], chat: bool) -> str | None:
    """The text of a choice; None where the server sends null."""
    holder = choice.get("message") if chat else choice
    field = "content" if chat else "text"
    if not isinstance(holder, dict) or field not in holder:
        raise RequestFailed(f"the answer has no {'message.' if chat else ''}{field}")
    text = holder[field]
    if text is None:
        refusal = holder.get("refusal")
        return refusal if isinstance(refusal, str) and refusal.strip() else None
    if not isinstance(text, str):
        raise RequestFailed(f"the answer's {field} is {type(text).__name__}, not text")
    return text


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# ---------------------------------------------------------------- token probabilities


def top_log_probs(choice: Mapping[str, Any]) -> list[tuple[str, float]] | None:
    """(token, ln p) of the alternatives at the first token; None where the server serves none.

    Reads both forms: ``content`` with a list per token (chat, and llama.cpp's completions), and
    ``top_logprobs`` with a mapping per token (completions).
    """
    served = choice.get("logprobs")
    if not isinstance(served, dict):
        return None
    content, mappings = served.get("content"), served.get("top_logprobs")
    pairs: list[tuple[Any, Any]] = []
    if isinstance(content, list) and content and isinstance(content[0], dict):
        alternatives = content[0].get("top_logprobs") or [content[0]]
        pairs = [(one.get("token"), one.get("logprob")) for one in alternatives if isinstance(one, dict)]
    elif isinstance(mappings, list) and mappings and isinstance(mappings[0], dict):
        pairs = list(mappings[0].items())
    return [
        (token, float(value))
        for token, value in pairs
        if isinstance(token, str) and isinstance(value, int | float) and value <= 0
    ] or None


def candidate_log_probs(
    top: Sequence[tuple[str, float]], candidates: Sequence[str]
) -> tuple[tuple[float | None, ...], float]:
    """Estimate ln P(candidate) from the alternatives that a server shows at the first token.

    The GPT-4 recipe of Hofmann et al. (2024, Supplementary Information), for a server whose alternatives are
    not confined to the candidates. A candidate found has its own probability (the sum of its token with and
    without a leading space); the mass of all tokens that are not shown is spread evenly over the candidates
    not found, none of which gets more than the least token shown, for it cannot have more; all are divided by
    their sum.

    Parameters
    ----------
    top
        (token, ln p) of the alternatives, nats.
    candidates
        Words of one token each: a token counts only where it is the whole word, in the same case.

    Returns
    -------
    log_probs : tuple
        ln P per candidate, nats; the probabilities sum to 1. None for all when none was found.
    coverage : float
        Mass of the candidates found before division, in [0, 1].
    """
    mass: dict[str, float] = {}
    for token, log_prob in top:
        word = token.strip(_SPACES)
        mass[word] = mass.get(word, 0.0) + math.exp(log_prob)
    found = {word: mass[word] for word in candidates if mass.get(word, 0.0) > 0}
    coverage = min(1.0, math.fsum(found.values()))
    if not found:
        return (None,) * len(candidates), 0.0
    missing = len(set(candidates)) - len(found)
    unseen = max(0.0, 1.0 - math.fsum(mass.values()))
    share = min(unseen / missing, math.exp(min(log_prob for _, log_prob in top))) if missing else 0.0
    total = math.fsum(found.values()) + share * missing
    probabilities = [found.get(word, share) / total for word in candidates]
    return tuple(math.log(p) if p > 0 else None for p in probabilities), coverage
