"""What the Batch endpoint says of files and batches, every field that is used checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError, WrapValidator

from markedness.lm.base import RequestFailed
from markedness.lm.redaction import LARGEST_ANSWER
from markedness.lm.stored import Id

T = TypeVar("T")
MOST_PAGES = 100
"""Pages of the list of batches that are looked through."""


class File(BaseModel):
    """What is read of an uploaded file."""

    id: Id


class Error(BaseModel):
    """Why a batch was refused."""

    code: str | int | None = None
    message: str | None = None


class Errors(BaseModel):
    """All reasons."""

    data: list[Error] | None = None


def _or_none(value: object, read: Callable[[object], T]) -> T | None:
    """Nothing, where the endpoint says nonsense: a batch that was paid for is merged all the same."""
    try:
        return read(value)
    except ValidationError:
        return None


FileId = Annotated[Id | None, WrapValidator(_or_none)]


class Batch(BaseModel):
    """What is read of a batch."""

    id: Id
    status: str
    output_file_id: FileId = None
    error_file_id: FileId = None
    input_file_id: FileId = None
    errors: Annotated[Errors | None, WrapValidator(_or_none)] = None
    metadata: Annotated[dict[str, Any] | None, WrapValidator(_or_none)] = None
    request_counts: Any = None
    """How many requests have come to what end, of which nothing is taken for granted."""

    @property
    def answered(self) -> int | None:
        """How many answers its output has; None where it does not say so."""
        counts = self.request_counts if isinstance(self.request_counts, dict) else {}
        n = counts.get("completed")
        return n if type(n) is int else None


class Batches(BaseModel):
    """One page of the list."""

    data: list[Annotated[Batch | None, WrapValidator(_or_none)]]
    has_more: bool | None = None

    @property
    def known(self) -> list[Batch]:
        """Those that can be read; others of the account may be odd."""
        return [batch for batch in self.data if batch is not None]

    def named(self, name: str, file: str | None) -> str | None:
        """The id of the batch that carries this name, or was made of this file: some servers forget names."""
        for batch in self.known:
            if (batch.metadata or {}).get("markedness") == name or (file and batch.input_file_id == file):
                return batch.id
        return None


async def named_batch(name: str, file: str | None, page: Callable[[str | None], Awaitable[Batches]]) -> str | None:
    """The id of the batch that carries this name or was made of this file; None where the whole list has none.

    ``page``: the page of the list after the batch with this id, or the first.

    Raises
    ------
    RequestFailed
        Where it may be in the list unseen, so that asking again could pay twice: entries cannot be read, or the list
        does not end.
    """
    after, seen, unread, whole = None, set[str](), False, False
    for _ in range(MOST_PAGES):
        found = await page(after)
        if identity := found.named(name, file):
            return identity
        unread |= len(found.known) < len(found.data)
        new = {batch.id for batch in found.known} - seen
        if not new or found.has_more is False:  # servers that do not say it may give one page whatever is asked
            whole = not found.has_more
            break
        seen |= new
        after = found.known[-1].id
    if unread or not whole:
        why = "have no id or status" if unread else f"go on after {len(seen):,}"
        raise RequestFailed(f"its answer cannot be read (batches of the list {why})")
    return None


R = TypeVar("R", bound=BaseModel)


def read_as(kind: type[R], content: bytes) -> R:
    """An answer of the endpoint, every field that is used checked."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "it"
        raise RequestFailed(f"its answer cannot be read ({where}: {fault['msg']})") from None


def row_of(line: bytes) -> tuple[str, dict[str, Any]]:
    """The ``custom_id`` of a line of an output or error file, and the line; "" where it cannot be read."""
    try:
        row = orjson.loads(line) if len(line) <= LARGEST_ANSWER else None
    except orjson.JSONDecodeError:
        row = None
    key = row.get("custom_id") if isinstance(row, dict) else None
    return (key, row) if isinstance(key, str) and isinstance(row, dict) else ("", {})
