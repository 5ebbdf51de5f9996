"""Logs of other tools, as tables: what the model answered is ours (`OURS`), all else keeps the name it has there.

A row is one answer: a sample with several choices or draws has several rows. A sample that failed is a row with
``error``. Nothing in a log is executed or unpickled; a log that cannot be read is one sentence.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pandas as pd

from markedness.lm.base import ModelError
from markedness.lm.corpus_files import json_lines, json_value
from markedness.lm.log_rows import ANSWERED, FAILED, MODEL, SAME, Answers, Row, answer, items, mapping

LARGEST = 2**30
"""Bytes of an unpacked log or of a sample in it: a small archive can unpack to more than any memory."""
INSPECT_MISSING = (
    "format: inspect needs the package inspect_ai; install it with pip install 'markedness[inspect]', or export the "
    "log as JSON Lines and leave format out"
)


def read_log(path: Path, kind: str, requests: dict[str, Row], whole: bool, where: str) -> Answers:
    """One log.

    Parameters
    ----------
    path
        The file.
    kind
        ``format`` of the source.
    requests
        `batch_requests`; empty for another format.
    whole
        Read every answer to a sample as a row of its own. False: a column of the user's holds the answer, so each
        sample is one row.
    where
        Path of the source in params.yaml, for messages.

    Raises
    ------
    ModelError
        When the file is no such log, is damaged, or a package that reads it is missing.
    """
    try:
        if kind == "inspect":
            return _inspect(path, whole, where)
        if kind == "edsl":
            return Answers(_edsl(path, where))
        if kind == "lm_eval":
            return Answers(_lm_eval(path, whole, where))
        return Answers(_openai_batch(path, requests, whole, where))
    except UnicodeDecodeError as error:
        raise ModelError(f"{where}.path: {path} is not UTF-8 (byte {error.start}); get or export it again") from error
    except (ValueError, OSError, LookupError, TypeError, EOFError, RuntimeError, zlib.error,
            zipfile.BadZipFile) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelError(f"{where}.path: {path} cannot be read as {kind}: {reason}; get or export it again") from error


# ---------------------------------------------------------------- Inspect


def _inspect(path: Path, whole: bool, where: str) -> Answers:
    """Every choice of every sample, read by inspect_ai itself; a sample that failed is one row."""
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_samples
    except ImportError as error:
        raise ModelError(f"{where}.{INSPECT_MISSING} ({error})") from error
    if path.suffix not in (".eval", ".json"):
        raise ModelError(f"{where}.path: {path} is no Inspect log; name a file that ends in .eval or .json")
    _check_json(path)
    try:
        header = read_eval_log(str(path), header_only=True)
        samples = read_eval_log_samples(str(path), all_samples_required=False, resolve_attachments=True)
        task = header.eval.task_id  # the same in a log of a retry, which has the samples that failed under new names
        rows = [row for sample in samples for row in _inspect_sample(sample, task, whole)]
    except Exception as error:  # whatever inspect_ai, pydantic and the archive's readers raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(reason) from error
    read, meant = len({(row["id"], row["epoch"]) for row in rows}), header.results and header.results.total_samples
    notes = []
    if header.status != "success" or (meant and read < meant):
        of = f"{read:,} of {meant:,} samples are" if meant else f"{read:,} samples are"
        notes.append(f"{path.name}: the status of the log is {header.status}; {of} in it")
    return Answers(rows, notes, header.eval.model)


def _check_json(path: Path) -> None:
    """Refuse a log with a part that is too large, no JSON or nested too deep, which inspect_ai tries for minutes."""
    if path.suffix == ".json":
        with path.open("rb") as file:
            json_value(_unpacked(file))
        return
    import zipfile_zstd  # noqa: F401 (comes with inspect_ai; zipfile reads its compression then)

    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".json"):
                with archive.open(member) as part:
                    json_value(_unpacked(part))


def _inspect_sample(sample: Any, task: str, whole: bool) -> Iterator[Row]:
    record: Row = json_value(sample.model_dump_json(exclude={"events", "store", "attachments", "error"}))
    record = {"metadata": record.pop("metadata", None), **record}  # first, as messages name columns in their order
    prompt = sample.input
    if not isinstance(prompt, str):
        prompt = "\n\n".join(message.text for message in prompt if message.role == "user")
    asked = (task, sample.id, sample.epoch)
    error = sample.error.message if sample.error is not None else None
    if sample.invalidation is not None:
        error = f"the sample was invalidated: {sample.invalidation.reason or 'no reason given'}"
    choices = list(sample.output.choices) if error is None else []
    for place, choice in enumerate(choices[: None if whole else 1]):
        same = sample.uuid or (*asked, _digest([each.message.text for each in choices]))  # older logs have none
        known = {SAME: (same, place), MODEL: sample.output.model or None, ANSWERED: asked}
        yield record | answer(choice.message.text, prompt, choice.stop_reason) | known
    if not choices:
        stopped = f"the sample was stopped by its {sample.limit.type} limit" if sample.limit is not None else None
        known = {SAME: (sample.uuid or asked, 0), FAILED: asked}
        yield record | answer(None, prompt, None, error or stopped) | known


# ---------------------------------------------------------------- lm-evaluation-harness


def _lm_eval(path: Path, whole: bool, where: str) -> Iterator[Row]:
    """Every draw before its filters, once; of a task that scores candidates, every candidate."""
    content = path.read_bytes()
    rows, whose = _lines(content, path, where), hashlib.sha256(content).hexdigest()
    if strange := next((number for number, row in enumerate(rows, 1) if not {"doc", "resps"} <= row.keys()), None):
        raise ValueError(
            f"row {strange} has no doc and resps; name the samples_*.jsonl that lm-eval writes with --log_samples"
        )
    filters = list(dict.fromkeys(str(row.get("filter")) for row in rows))
    if len(filters) > 1 and not whole:
        raise ModelError(
            f"{where}.columns.text: {path} has each answer once for each of the filters {', '.join(filters)}; leave "
            "text out of columns to read the answers as they were generated"
        )
    documents = [_digest([row.get("doc_id"), row["doc"]]) for row in rows]
    first: dict[str, str] = {}  # a filter may have documents that the others lack
    for document, row in zip(documents, rows, strict=True):
        first.setdefault(document, str(row.get("filter")))
    for number, (document, row) in enumerate(zip(documents, rows, strict=True)):
        if str(row.get("filter")) != first[document]:
            continue
        line = _digest(row) if "doc_id" in row else number  # the same document and answer again is a copy
        arguments = _arguments(row.get("arguments"))
        prompt = arguments[0][0] if arguments and arguments[0] else None
        if not whole:
            yield row | {"prompt": prompt, SAME: (whose, line)}
            continue
        for request, draws in enumerate(items(row["resps"])):
            for place, draw in enumerate(items(draws) or [None]):
                same = {SAME: (whose, line, request, place)}  # a draw has no name: a copy of the file is the same
                if isinstance(draw, list):  # a log-likelihood, and whether the candidate is the likeliest
                    asked = arguments[request] if request < len(arguments) else []
                    candidate = asked[1] if len(asked) > 1 else None
                    candidate = candidate.strip() if isinstance(candidate, str) else candidate
                    yield row | {"prompt": prompt, "candidate": candidate, "log_prob": draw[0] if draw else None} | same
                else:
                    yield row | answer(draw, prompt) | same


def _digest(cell: object) -> str:
    """Of what a line of JSON holds."""
    return hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()


def _arguments(cell: object) -> list[list[Any]]:
    """Arguments of each request: {gen_args_0: {arg_0: ...}}, or a list of lists in older versions."""
    if isinstance(cell, dict):
        return [list(one.values()) for one in cell.values() if isinstance(one, dict)]
    return [one for one in items(cell) if isinstance(one, list)]


# ---------------------------------------------------------------- EDSL


def _edsl(path: Path, where: str) -> Iterator[Row]:
    """Results of EDSL in the formats that it saves; columns are called as in its own data frames."""
    name = path.name.lower()
    if name.endswith((".json", ".json.gz")):
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
            content = mapping(json_value(_unpacked(file)))
        kind, records = content.get("edsl_class_name"), content.get("data")
    elif name.endswith((".jsonl", ".ep")):
        if name.endswith(".ep"):
            with zipfile.ZipFile(path) as archive, archive.open("results.jsonl") as file:
                lines = _lines(_unpacked(file), path, where)
        else:
            lines = _lines(path.read_bytes(), path, where)
        kind = lines[0].get("edsl_class_name") if lines else None
        before = 2 + sum(int(lines[1].get(part) or 0) for part in ("n_survey_lines", "n_task_history_lines"))
        records = lines[before:]
    else:
        raise ModelError(
            f"{where}.path: {path} is no file of results.save or results.to_jsonl; name one that ends in .ep, "
            ".json.gz, .json or .jsonl, or leave format out for a CSV of EDSL"
        )
    if kind != "Results" or not isinstance(records, list):
        raise ValueError(f"it holds {kind or 'no object of EDSL'}, not Results")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict) or not isinstance(record.get("answer"), dict):
            raise ValueError(f"result {number} has no answer")
        yield _edsl_row(record)


def _edsl_row(record: Row) -> Row:
    """One result; ours are its answer and prompt where it has one question."""
    agent, model = mapping(record.get("agent")), mapping(record.get("model"))
    parts: dict[str, Row] = {
        "answer": record["answer"],
        "scenario": mapping(record.get("scenario")),
        "agent": {"agent_name": agent.get("name"), **mapping(agent.get("traits"))},
        "model": {**mapping(model.get("parameters")), "model": model.get("model")},
        "prompt": {
            key: one.get("text") if isinstance(one, dict) else one for key, one in mapping(record.get("prompt")).items()
        },
        "comment": mapping(record.get("comments_dict")),
        "iteration": {"iteration": record.get("iteration")},
    }
    row = {
        f"{part}.{key}": cell
        for part, cells in parts.items()
        for key, cell in cells.items()
        if not key.startswith("edsl_")
    }
    if len(record["answer"]) == 1:
        (question, text), = record["answer"].items()  # fmt: skip
        row |= answer(text, parts["prompt"].get(f"{question}_user_prompt"))
    return row | {SAME: _digest(record), MODEL: model.get("model")}


def _lines(content: bytes, path: Path, where: str) -> list[Row]:
    return list(json_lines(content.decode("utf-8-sig").split("\n"), path, where))


def _unpacked(file: IO[bytes] | gzip.GzipFile) -> bytes:
    content: bytes = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it unpacks to more than {LARGEST:,} bytes")
    return content


# ---------------------------------------------------------------- OpenAI's Batch endpoint


def batch_requests(path: Path, where: str) -> dict[str, Row]:
    """Lines of the file that a batch was made of, by their ``custom_id``."""
    found: dict[str, Row] = {}
    try:
        rows = _lines(path.read_bytes(), path, where)
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
    parts = [mapping(part).get("text") for part in items(content)]
    return "".join(part for part in parts if isinstance(part, str)) or None


def _openai_batch(path: Path, requests: dict[str, Row], whole: bool, where: str) -> Iterator[Row]:
    """Every choice of each line of an output or error file."""
    rows = _lines(path.read_bytes(), path, where)
    for number, row in enumerate(rows, start=1):
        key, response = row.get("custom_id"), mapping(row.get("response"))
        if not isinstance(key, str) or not (response or isinstance(row.get("error"), dict)):
            raise ValueError(f"row {number} has no custom_id with a response or an error; name an output of the batch")
        if requests and key not in requests:
            raise ModelError(f"{where}.requests: {path.name} row {number} answers {key}, which no request has")
        asked = key if key in requests else None
        record: Row = row | {SAME: _digest(row)} | ({"request": requests[key]} if asked else {})
        prompt = _asked(requests.get(key, {}))
        body, failure = mapping(response.get("body")), mapping(row.get("error"))
        failure = failure or mapping(body.get("error"))
        answers = [] if failure else list(_choices(body))
        for place, (text, reason) in enumerate(answers[: None if whole else 1]):
            known = {SAME: (record[SAME], place), MODEL: body.get("model"), ANSWERED: asked}
            yield record | answer(text, prompt, reason) | known
        if not answers:
            said = failure.get("message") or f"status {response.get('status_code')}, and no answer"
            yield record | answer(None, prompt, None, str(said)[:300]) | {FAILED: asked}


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
