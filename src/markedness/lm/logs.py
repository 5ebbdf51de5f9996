"""Logs of other tools, as tables: what the model answered is ours (`OURS`), all else keeps the name it has there.

A row is one answer: a sample with several choices or draws has several rows. A sample that failed is a row with
``error``. Nothing in a log is executed or unpickled; a log that cannot be read is one sentence.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from markedness.lm.base import ModelError
from markedness.lm.batch_logs import read_batch
from markedness.lm.corpus_files import json_rows, json_value
from markedness.lm.log_rows import ANSWERED, FAILED, MODEL, SAME, Answers, Row, answer, digest, items, mapping

LARGEST = 2**30
"""Bytes of an unpacked log or of a sample in it: a small archive can unpack to more than any memory."""
_NUMBER = re.compile(r"[0-9]{1,9}$")
_FURTHER = re.compile(r" ?For further information visit \S+")
"""What pydantic adds to each fault, for those who wrote the class."""
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
        `markedness.lm.batch_logs.batch_requests`; empty for another format.
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
        return Answers(read_batch(path, requests, whole, where))
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
    try:
        _check_json(path)
        header = read_eval_log(str(path), header_only=True)
        samples = read_eval_log_samples(str(path), all_samples_required=False, resolve_attachments=True)
        task = header.eval.task_id  # the same in a log of a retry, which has the samples that failed under new names
        rows = [row for sample in samples for row in _inspect_sample(sample, task, whole)]
    except Exception as error:  # whatever inspect_ai, pydantic and the archive's readers raise
        reason = _FURTHER.sub("", " ".join(str(error).split()))[:300] or type(error).__name__
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
        same = sample.uuid or (*asked, digest([each.message.text for each in choices]))  # older logs have none
        known = {SAME: (same, place), MODEL: sample.output.model or None, ANSWERED: asked}
        yield record | answer(choice.message.text, prompt, choice.stop_reason) | known
    if not choices:
        stopped = f"the sample was stopped by its {sample.limit.type} limit" if sample.limit is not None else None
        known = {SAME: (sample.uuid or asked, 0), FAILED: asked}
        yield record | answer(None, prompt, None, error or stopped) | known


# ---------------------------------------------------------------- lm-evaluation-harness


def _lm_eval(path: Path, whole: bool, where: str) -> Iterator[Row]:
    """Every draw before its filters, once; of a task that scores candidates, every candidate."""
    rows = json_rows(path.read_bytes(), path, where)
    whose = digest(sorted(map(digest, rows)))  # of a copy in another order, too
    if strange := next((number for number, row in enumerate(rows, 1) if not {"doc", "resps"} <= row.keys()), None):
        raise ValueError(
            f"row {strange} has no doc and resps; name the samples_*.jsonl that lm-eval writes with --log_samples"
        )
    of_filters = [str(row.get("filter")) for row in rows]
    filters = list(dict.fromkeys(of_filters))
    if len(filters) > 1 and not whole:
        raise ModelError(
            f"{where}.columns.text: {path} has each answer once for each of the filters {', '.join(filters)}; leave "
            "text out of columns to read the answers as they were generated"
        )
    answers = [_draws(row["resps"], number) for number, row in enumerate(rows, 1)] if whole else []
    kinds: dict[type, int] = {}  # the first row with a score or a text
    for number, of_row in enumerate(answers, 1):
        for draw in (draw for draws in of_row for draw in draws if draw is not None):
            kinds.setdefault(list if isinstance(draw, list) else str, number)
    if len(kinds) > 1:
        raise ValueError(f"row {kinds[list]} has scores and row {kinds[str]} texts; name the samples of one task")
    documents = [digest([row.get("doc_id"), row["doc"]]) for row in rows]
    first: dict[str, str] = {}  # a filter may have documents that the others lack
    for document, name in zip(documents, of_filters, strict=True):
        first.setdefault(document, name)
    for number, (document, row) in enumerate(zip(documents, rows, strict=True)):
        if of_filters[number] != first[document]:
            continue
        # The same document and answer again is a copy, whatever a filter made of it.
        line = digest([document, row.get("arguments"), row["resps"]]) if "doc_id" in row else number
        arguments = _arguments(row.get("arguments"))
        prompt = arguments[0][0] if arguments and arguments[0] else None
        if not whole:
            yield row | {"prompt": prompt, SAME: (whose, line)}
            continue
        for request, draws in enumerate(answers[number]):
            for place, draw in enumerate(draws or [None]):
                same = {SAME: (whose, line, request, place)}  # a draw has no name: a copy of the file is the same
                if isinstance(draw, list):  # a log-likelihood, and whether the candidate is the likeliest
                    asked = arguments[request] if request < len(arguments) else []
                    candidate = asked[1] if len(asked) > 1 else None
                    candidate = candidate.strip() if isinstance(candidate, str) else candidate
                    own = asked[0] if asked else prompt
                    if own == "" and prompt:  # of acc_mutual_info: the candidate without its prompt
                        continue
                    yield row | {"prompt": own, "candidate": candidate, "log_prob": draw[0] if draw else None} | same
                else:
                    yield row | answer(draw, prompt) | same


def _draws(cell: object, row: int) -> list[list[Any]]:
    """The draws of each request: texts, or a score with whether it is the best; a request without any has none."""
    if not isinstance(cell, list) or not all(isinstance(draws, list) for draws in cell):
        raise ValueError(f"row {row} has no list of answers for each request in resps")
    for draw in (draw for draws in cell for draw in draws):
        if isinstance(draw, bool) or (isinstance(draw, list) and not (draw and isinstance(draw[0], str | None))):
            raise ValueError(f"row {row} has {json.dumps(draw)[:40]} in resps, which is neither a text nor a score")
    return cell or [[]]


def _arguments(cell: object) -> list[list[Any]]:
    """Arguments of each request: {gen_args_0: {arg_0: ...}}, in any order, or a list of lists in older versions."""
    if isinstance(cell, dict):
        return [_numbered(one) for one in _numbered(cell) if isinstance(one, dict)]
    return [one for one in items(cell) if isinstance(one, list)]


def _numbered(cell: Mapping[str, Any]) -> list[Any]:
    """Values in the order of the numbers that their keys end in: after arg_1 comes arg_2, and not arg_10."""
    numbers = [_NUMBER.search(key) for key in cell]
    if not all(numbers):
        return list(cell.values())
    places = [int(found[0]) for found in numbers if found]
    return [value for _, value in sorted(zip(places, cell.values(), strict=True), key=lambda one: one[0])]


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
                lines = json_rows(_unpacked(file), path, where)
                counted = _manifest(archive).get("n_results")
        else:
            lines, counted = json_rows(path.read_bytes(), path, where), None
        kind = lines[0].get("edsl_class_name") if lines else None
        if kind == "Results" and len(lines) < 2:
            raise ValueError("it ends after its first line")
        about = lines[1] if kind == "Results" else {}
        before = 2 + sum(int(about.get(part) or 0) for part in ("n_survey_lines", "n_task_history_lines"))
        records = lines[before:]
        if early := next((n for n, line in enumerate(lines[:before], 1) if isinstance(line.get("answer"), dict)), None):
            raise ValueError(f"line {early} is a result, and by line 2 results begin at line {before + 1}")
        if counted is not None and str(counted) != str(len(records)):
            raise ValueError(f"its manifest counts {counted} results, and {len(records)} are in it")
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


def _manifest(archive: zipfile.ZipFile) -> Row:
    """What an archive of EDSL says of itself; {} where it says nothing."""
    if "manifest.json" not in archive.namelist():
        return {}
    with archive.open("manifest.json") as file:
        return mapping(json_value(_unpacked(file)))


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
    elif not record["answer"]:
        row |= answer(None, None)
    return row | {SAME: digest(record), MODEL: model.get("model")}


def _unpacked(file: IO[bytes] | gzip.GzipFile) -> bytes:
    content: bytes = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it unpacks to more than {LARGEST:,} bytes")
    return content
