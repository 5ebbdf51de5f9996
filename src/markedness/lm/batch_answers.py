"""What the Batch endpoint says of files and batches, every field that is used checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from markedness.lm.base import RequestFailed
from markedness.lm.stored import Id


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


class Counts(BaseModel):
    """How many requests of a batch have come to what end."""

    completed: int = 0


class Batch(BaseModel):
    """What is read of a batch."""

    id: Id
    status: str
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    errors: Errors | None = None
    metadata: dict[str, Any] | None = None
    request_counts: Counts | None = None

    def lacks(self, file: str, lines: Sequence[bytes] | None) -> bool:
        """Whether lines of one of its files are gone, or cut off; ``lines``: None where the file is gone."""
        answered = self.request_counts.completed if self.request_counts and file == self.output_file_id else 0
        return lines is None or len(lines) < answered or not all(map(_is_whole, lines[-1:]))


class Batches(BaseModel):
    """One page of the list."""

    data: list[Batch]
    has_more: bool = False


def _is_whole(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


R = TypeVar("R", bound=BaseModel)


def read_as(kind: type[R], content: bytes) -> R:
    """An answer of the endpoint, every field that is used checked."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "it"
        raise RequestFailed(f"its answer cannot be read ({where}: {fault['msg']})") from None
