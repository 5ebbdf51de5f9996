"""The HTTP client of all servers: follows no redirect, and reads no answer beyond a size, however it is compressed."""

from __future__ import annotations

from typing import Any

from httpx2 import AsyncClient, ByteStream, Request, Response
from openai import DefaultAioHttpClient

from markedness.credentials import hide
from markedness.lm.base import RequestFailed
from markedness.lm.redaction import LARGEST_ANSWER

LARGEST_FILE = 1_000_000_000
"""Bytes of one output file of the Batch endpoint, decompressed."""
_ENCODED = ("content-encoding", "content-length", "transfer-encoding")


class GuardedClient(DefaultAioHttpClient):
    """httpx2's client on aiohttp with limits for servers that nobody vouches for."""

    anonymous = False
    """Send no Authorization: the openai package always makes one."""

    async def send(self, request: Request, **options: Any) -> Response:
        """Send one request and read its answer whole.

        Raises
        ------
        RequestFailed
            For a redirect, as it would carry prompts and key to another place, and for an answer that is too large.
        """
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
    except ValueError:
        host = "a place that is no URL"
    return (
        f"HTTP {response.status_code}: {here.host} redirects to {hide(host)[:100]}, and redirects are not followed; "
        "write the URL that answers itself"
    )


def guarded_client(timeout: float, *, anonymous: bool = False) -> AsyncClient:
    """A client whose connections are kept open between requests."""
    client = GuardedClient(timeout=timeout)
    client.anonymous = anonymous
    return client
