"""The HTTP client of all servers: follows no redirect, and reads no answer beyond a size, however it is compressed.

It keeps connections open, as the official client does; a connection on which a server has sent what nobody asked for is
not used again, and after an answer that nobody asked for no server is believed that its answers are in order.
"""

from __future__ import annotations

import asyncio
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

from aiohttp import ClientSession, DummyCookieJar, TCPConnector
from httpx2 import AsyncClient, ByteStream, InvalidURL, Request, Response
from openai import DefaultAioHttpClient

from markedness.credentials import hide
from markedness.lm.base import ModelError, RequestFailed
from markedness.lm.redaction import LARGEST_ANSWER

LARGEST_FILE = 1_000_000_000
"""Bytes of one output file of the Batch endpoint, decompressed."""
_ENCODED = ("content-encoding", "content-length", "transfer-encoding")


class _Watched(TCPConnector):
    """Connections that are looked at when they come back and before they are used again.

    aiohttp reads what came in between as the answer to the next request. It has no public place for this look.
    """

    unasked = False
    """Whether a server has sent an answer that nobody asked for."""

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        self._look(protocol, asked_for=1 if _is_cancelled() else 0)
        super()._release(key, protocol, should_close=should_close)

    async def _get(self, *arguments: Any) -> Any:
        while (connection := await super()._get(*arguments)) is not None:
            protocol: Any = connection.protocol
            if not protocol.should_close:
                break
            connection.close()  # which releases it, and looks
        return connection

    def look_at_idle(self) -> None:
        """Look at the connections that wait for another request."""
        for protocol, _ in (waiting for several in self._conns.values() for waiting in several):
            self._look(protocol)

    def _look(self, protocol: Any, asked_for: int = 0) -> None:
        """Servers that end an idle connection may say so (408); that is no answer.

        ``asked_for``: answers that nobody has read, though they were asked for.
        """
        self.unasked |= sum(message.code < 300 for (message, _), _ in protocol._buffer) > asked_for


def _is_cancelled() -> bool:
    """Whether the request is given up, by hand or by a time limit, while its answer may have come already."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # outside a loop
        return False
    return task is not None and task.cancelling() > 0


class GuardedClient(DefaultAioHttpClient):
    """httpx2's client on aiohttp with limits for servers that nobody vouches for."""

    anonymous = False
    """Send no Authorization: the openai package always makes one."""

    def __init__(self, **options: Any) -> None:
        self.connectors: list[_Watched] = []
        super().__init__(**options)

    def _init_transport(self, **options: Any) -> Any:  # type: ignore[override]
        return self._watched(super()._init_transport(**options))

    def _init_proxy_transport(self, *proxy: Any, **options: Any) -> Any:
        return self._watched(super()._init_proxy_transport(*proxy, **options))

    def _watched(self, transport: Any) -> Any:
        def session() -> ClientSession:
            limits = transport.limits
            self.connectors.append(
                _Watched(
                    limit=limits.max_connections or 0,
                    keepalive_timeout=limits.keepalive_expiry,
                    ssl=transport.ssl_context,
                )
            )
            return ClientSession(connector=self.connectors[-1], cookie_jar=DummyCookieJar())

        transport.client = session
        return transport

    def refuse_unasked(self) -> None:
        """ModelError where a server has sent an answer that nobody asked for: the next request may have got it."""
        if any(connector.unasked for connector in self.connectors):
            raise ModelError(
                "the server sent an answer that nobody asked for, so that its other answers may belong to other "
                "prompts than they came for; mend it, or the proxy before it, and set served_by of the model in "
                "params.yaml to a new word: then all is asked again"
            )

    async def aclose(self) -> None:
        """Close the connections; see `refuse_unasked`."""
        for connector in self.connectors:
            connector.look_at_idle()
        try:
            self.refuse_unasked()
        finally:
            await super().aclose()

    async def send(self, request: Request, **options: Any) -> Response:
        """Send one request and read its answer whole.

        Raises
        ------
        RequestFailed
            For a redirect, as it would carry prompts and key to another place, and for an answer that is too large.
        """
        self.refuse_unasked()
        if self.anonymous:
            request.headers.pop("authorization", None)
        response = await super().send(request, **(options | {"stream": True, "follow_redirects": False}))
        try:
            if response.is_redirect:
                raise RequestFailed(_redirected(response), cause="redirect")
            if _says_small(response):
                await response.aread()
                return response
            content = await _content(response)
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _ENCODED]
        read = Response(
            response.status_code, headers=headers, stream=ByteStream(content), request=request,
            extensions=response.extensions,
        )  # fmt: skip
        await read.aread()
        return read


def _says_small(response: Response) -> bool:
    """Whether the headers bound what can come: a length within the limit, of bytes that nothing expands."""
    headers = response.headers
    length = headers.get("content-length", "")
    plain = "content-encoding" not in headers and "transfer-encoding" not in headers
    return plain and length.isdecimal() and length.isascii() and len(length) < 12 and int(length) <= LARGEST_ANSWER


async def _content(response: Response) -> bytes:
    largest = LARGEST_FILE if response.request.url.path.endswith("/content") else LARGEST_ANSWER
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > largest:
            raise RequestFailed(f"the answer is larger than {largest // 1_000_000} MB and was not read", cause="size")
    return bytes(content)


def _redirected(response: Response) -> str:
    here = response.request.url
    place = response.headers.get("location", "")
    try:
        there = here.join(place)
        host = there.netloc.decode("ascii", "replace").split("@")[-1] or "another path"
    except (ValueError, InvalidURL):
        host = "a place that is no URL"
    return (
        f"HTTP {response.status_code}: {here.host} redirects to {hide(host)[:100]}, and redirects are not followed; "
        "write the URL that answers itself"
    )


def guarded_client(timeout: float, *, anonymous: bool = False) -> AsyncClient:
    """A client whose connections are kept open between requests, and that keeps no cookie from one to the next."""
    client = GuardedClient(timeout=timeout, cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])))
    client.anonymous = anonymous
    return client
