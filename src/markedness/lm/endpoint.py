"""One server that is asked over HTTP: its client, its key, and what each of its faults becomes.

The client is the openai package's with its own retries off: `markedness.lm.collect` retries. Nothing a server says is
trusted: see `markedness.lm.transport` for redirects and sizes, `markedness.lm.redaction` for what is kept of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import orjson

from markedness.lm.answers import fault_of, is_withheld
from markedness.lm.base import ModelError, RequestFailed, RetryLater
from markedness.lm.config import DEFAULT_URL
from markedness.lm.redaction import Redaction
from markedness.records import FILTERED

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RETRIED = frozenset({408, 409, 429})
"""Beside every 5xx."""
OVERLOADED = frozenset({429, 503, 529})
"""Statuses that say the server has too much to do."""
CONNECT_TIMEOUT = 10.0
"""Seconds until a server must have taken a connection."""
_LONGEST_HEADER = 200
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
_CAUSES = {401: "key", 402: "payment", 403: "key", 404: "not found", 405: "not found", 410: "not found"}
"""Status -> what would end the other requests as well."""
FORBIDDEN = 403
"""Of a bad key, and of some filters."""


class Endpoint:
    """A server, and how it is asked.

    Parameters
    ----------
    where
        Place in params.yaml, for messages: "models.my-model".
    url
        Where requests go; paths are added to it.
    key_variable
        The environment variable whose content is sent as the key; None: no key is sent.
    timeout
        Seconds for one attempt.
    bearer
        Send the key as Authorization; false: the caller puts it into a header of its own.
    """

    def __init__(self, where: str, url: str, key_variable: str | None, timeout: float, *, bearer: bool = True) -> None:
        self.bearer = bearer
        self.where = where
        self.url = url
        self.key_variable = key_variable
        self.timeout = timeout

    @cached_property
    def key(self) -> str | None:
        """The key from the environment."""
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise ModelError(
                f"{self.where}: needs a key: set the environment variable {self.key_variable}, or name another in "
                "api_key_env"
            )
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ModelError(
                f"{self.where}: the environment variable {self.key_variable} holds characters that no HTTP header can "
                "carry (a space, a line break or a letter beyond ASCII); set it to the key alone"
            )
        return key

    @cached_property
    def redaction(self) -> Redaction:
        """What is taken out of the server's words."""
        return Redaction(self.key)

    @cached_property
    def client(self) -> AsyncOpenAI:
        """The client, made for the first request: a run whose ledger is complete needs neither key nor package."""
        from httpx2 import Timeout
        from openai import AsyncOpenAI

        from markedness.lm.transport import guarded_client

        if self.url == DEFAULT_URL and (other := os.environ.get("OPENAI_BASE_URL")) and other.rstrip("/") != self.url:
            raise ModelError(
                f"{self.where}: OPENAI_BASE_URL is set, but params alone say who is asked; write it as base_url, with "
                "api_key_env, or unset it"
            )
        timeout = Timeout(self.timeout, connect=min(self.timeout, CONNECT_TIMEOUT))
        key = self.key or "none"
        known = os.environ if self.url == DEFAULT_URL else {}
        organization, project = known.get("OPENAI_ORG_ID"), known.get("OPENAI_PROJECT_ID")
        with _without_openai_variables():
            return AsyncOpenAI(
                api_key=key, base_url=self.url, timeout=timeout, max_retries=0,
                organization=organization, project=project,
                http_client=guarded_client(self.timeout, anonymous=self.key is None or not self.bearer),
            )  # fmt: skip

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """One attempt: the decoded JSON of a 2xx answer, or one of the two exceptions."""
        from httpx2 import Response

        client = self.client  # made outside the time limit: it takes a second at first
        whole = path if "://" in path else self.url + path  # a path would be joined to the client's URL at each request
        async with self.attempt(self.timeout):
            response = await client.post(
                whole,
                cast_to=Response,
                content=orjson.dumps(body),
                options={"headers": {"Content-Type": "application/json", **(headers or {})}},
            )
        try:
            return orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            if response.content.lstrip()[:6].startswith((b"data:", b"event:", b":")):
                raise RequestFailed(
                    f"{self.url} streams its answers (server-sent events), though none asks for that; set the "
                    "server or gateway to answer whole (stream: false)", cause="unreadable",
                ) from None  # fmt: skip
            raise RequestFailed(f"the answer of {self.url} is not JSON ({error})", cause="unreadable") from None

    @contextlib.asynccontextmanager
    async def attempt(self, timeout: float) -> AsyncIterator[None]:
        """One call of the client within a time limit; whatever goes wrong is RequestFailed or RetryLater."""
        import openai
        from aiohttp import ClientError

        try:
            async with asyncio.timeout(timeout):
                yield
        except openai.APIStatusError as error:
            later = retry_after(error.response.headers)
            raise self.refusal(error.status_code, error.body, later) from None
        except (openai.APIConnectionError, ClientError, OSError) as error:  # TimeoutError is an OSError
            reason, cause = _connection_reason(error, timeout)
            if cause == "unreachable" and (variable := _proxy_variable(self.url)):
                reason += f"; {variable} is set, so the proxy that it names was asked: look there, too"
            reason = self.redaction.error(f"{self.url}: {reason}")
            raise RetryLater(reason, overloaded=cause == "late", cause=cause) from None
        except RequestFailed as failed:  # of the transport, which knows no key
            failed.args = (self.redaction.error(str(failed)),)
            raise
        except (openai.APIError, *_UNREADABLE) as error:  # the package's own reading of a body or header
            reason = self.redaction.error(f"the answer of {self.url} cannot be read: {error}")
            raise RequestFailed(reason, cause="unreadable") from None

    def refusal(self, status: int, body: Any, later: float | None = None) -> RequestFailed | RetryLater:
        """What an HTTP status other than 2xx becomes: whether to ask again, and when."""
        detail, code = fault_of(body)
        says_more = status >= 500 or status in RETRIED or (status in _CAUSES and status != FORBIDDEN)
        withheld = is_withheld(code, "" if says_more else detail, status == FORBIDDEN)
        cause = None if withheld else _CAUSES.get(status)
        if code in ("model_not_found", "insufficient_quota"):
            cause = {"model_not_found": "not found", "insufficient_quota": "payment"}[code]
        place = f" from {self.url}" if cause else ""
        reason = self.redaction.error(f"HTTP {status}{place}: {detail}")
        if not withheld and cause != "payment" and (status in RETRIED or status >= 500):
            return RetryLater(reason, later, overloaded=status in OVERLOADED, cause=f"HTTP {status}")
        if code == "context_length_exceeded" or "context length" in detail.lower():
            reason = f"context too long: {reason}"
        reason = f"content filter: {reason}" if withheld else reason
        return RequestFailed(reason, finish_reason=FILTERED if withheld else None, cause=cause, status=status)

    async def close(self) -> None:
        """Close the connections."""
        if "client" in self.__dict__:
            await self.client.close()


@contextlib.contextmanager
def _without_openai_variables() -> Iterator[None]:
    """For the making of a client: the package reads headers and keys from variables, and would send them anywhere."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("OPENAI_")}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _proxy_variable(url: str) -> str | None:
    """The variable of the environment that sends requests to this URL to a proxy; None: they go straight."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    names = (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper())
    return next((name for name in names if os.environ.get(name)), None)


def _connection_reason(error: BaseException, timeout: float) -> tuple[str, str]:
    """(What went wrong, its cause): "late", "unreachable" or "connection"."""
    from aiohttp import ClientConnectorDNSError, ConnectionTimeoutError

    chain = [error]  # the client's own classes say "timeout" of every failed connection, so look below them
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    deepest = chain[-1]
    if any(isinstance(one, ConnectionRefusedError) for one in chain):
        return "connection refused: no server listens there; start it or correct base_url", "unreachable"
    if any(isinstance(one, ConnectionTimeoutError) for one in chain):
        return f"no connection within {CONNECT_TIMEOUT:g} s; correct base_url, or look at the network", "unreachable"
    if any(isinstance(one, ClientConnectorDNSError) for one in chain):
        return "the host's name is not known; correct base_url", "unreachable"
    if any(isinstance(one, TimeoutError) for one in chain):
        return f"no answer within {timeout:g} s", "late"
    return f"connection failed: {type(deepest).__name__} {deepest}".strip(), "connection"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a Retry-After header asks for, given in seconds or as an HTTP date; None without a readable one."""
    milliseconds = headers.get("retry-after-ms", "")[:_LONGEST_HEADER]
    value = headers.get("retry-after", "")[:_LONGEST_HEADER]
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
            until = until if until.tzinfo else until.replace(tzinfo=UTC)
            seconds = (until - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError, TypeError, IndexError):  # an absurd date, year or time zone
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
