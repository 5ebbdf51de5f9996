"""Output and error files of OpenAI's Batch endpoint, as rows of answers, with the requests that they answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from markedness.lm.answers import NO_TEXT
from markedness.lm.base import ModelError
from markedness.lm.corpus_files import json_rows
from markedness.lm.log_rows import ANSWERED, FAILED, MODEL, SAME, Answers, Row, answer, digest, items, mapping


def batch_requests(path: Path, where: str) -> dict[str, Row]:
    """Lines of the file that a batch was made of, by their ``custom_id``."""
    found: dict[str, Row] = {}
    try:
        rows = json_rows(path.read_bytes(), path, where)
        for number, row in enumerate(rows, start=1):
            key = row.get("custom_id")
            if not isinstance(key, str) or key in found:
                raise ValueError(f"row {number} has no custom_id" if key is None else f"custom_id {key} is given twice")
            found[key] = row
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{where}.requests: {path} cannot be read: {reason}; name the input of the batch") from error
    return found


def unanswered(requests: dict[str, Row], answered: Iterable[pd.DataFrame]) -> Answers:
    """Requests that no output or error file has a line of, as failures."""
    seen = {str(key) for table in answered if "custom_id" in table for key in table["custom_id"]}
    return Answers(
        {"custom_id": key, "request": row} | answer(None, _asked(row), None, "the batch's files have no answer")
        for key, row in requests.items()
        if key not in seen
    )


def _asked(request: Row) -> str | None:
    """What was asked, of a chat, plain or responses request."""
    body = mapping(request.get("body"))
    asked = next((body[key] for key in ("messages", "prompt", "input") if body.get(key)), None)
    if isinstance(asked, str):
        return asked
    users = [mapping(one) for one in items(asked)]
    return "\n\n".join(_text(one.get("content")) or "" for one in users if one.get("role") == "user") or None


def _text(content: object) -> str | None:
    """A message's content: a text, or parts of which those that are text are joined."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in map(mapping, items(content)) if part.get("type") not in NO_TEXT]
    return "".join(part for part in parts if isinstance(part, str)) or None


def read_batch(path: Path, requests: dict[str, Row], whole: bool, where: str) -> Iterator[Row]:
    """Every choice of each line of an output or error file."""
    rows = json_rows(path.read_bytes(), path, where)
    for number, row in enumerate(rows, start=1):
        key, response = row.get("custom_id"), mapping(row.get("response"))
        if not isinstance(key, str) or not (response or isinstance(row.get("error"), dict)):
            raise ValueError(f"row {number} has no custom_id with a response or an error; name an output of the batch")
        if requests and key not in requests:
            raise ModelError(f"{where}.requests: {path.name} row {number} answers {key}, which no request has")
        asked = key if key in requests else None
        record: Row = row | {SAME: digest(row)} | ({"request": requests[key]} if asked else {})
        prompt = _asked(requests.get(key, {}))
        body, failure = mapping(response.get("body")), mapping(row.get("error"))
        failure = failure or mapping(body.get("error"))
        answers = [] if failure else list(_choices(body))
        for place, (text, reason) in enumerate(answers[: None if whole else 1]):
            known = {SAME: (record[SAME], place), MODEL: body.get("model"), ANSWERED: asked}
            yield record | answer(text, prompt, reason) | known
        if not answers:
            said = failure.get("message") or f"status {response.get('status_code')}, and no answer"
            yield record | answer(None, prompt, None, said) | {FAILED: asked}


def _choices(body: Row) -> Iterator[tuple[str | None, object]]:
    """Text and finish reason of each choice of a chat or plain completion, or of a response."""
    for choice in map(mapping, items(body.get("choices"))):
        message = mapping(choice.get("message"))
        text = _text(message.get("content") if message else choice.get("text"))
        yield text if text is not None else _text(message.get("refusal")), choice.get("finish_reason")
    outputs = [mapping(one) for one in items(body.get("output"))]
    parts = [part for one in outputs if one.get("type") == "message" for part in map(mapping, items(one["content"]))]
    if parts:
        reason = mapping(body.get("incomplete_details")).get("reason")
        text = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
        yield text, {"max_output_tokens": "length"}.get(str(reason), reason or "stop")
