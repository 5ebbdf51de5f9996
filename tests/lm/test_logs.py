"""Logs that Inspect, lm-evaluation-harness, EDSL and the Batch endpoint wrote: tests/lm/logs/write.sh made them."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from tests.lm.logs.questions import answer, questions
from typer.testing import CliRunner

from markedness import pipeline
from markedness.audits import STAGES
from markedness.axes import Axes, Axis, Value
from markedness.cli import app
from markedness.lm import corpus, log_rows, logs
from markedness.lm.base import ModelError
from markedness.lm.config import CorpusSource
from markedness.params import load
from markedness.records import FILTERED, WITHHELD, CorpusColumns

LOGS = Path(__file__).parent / "logs"
AXES: Axes = {
    "race": Axis(unmarked="White", values={"White": Value(), "Black": Value()}),
    "gender": Axis(unmarked="man", values={"man": Value(), "woman": Value()}),
}
WITHIN = {
    "inspect": "metadata.{}", "edsl": "scenario.{}", "lm_eval": "doc.{}", "openai_batch": "request.body.metadata.{}",
}  # fmt: skip
"""Where each tool keeps what a question was asked with."""
FILES = [
    ("inspect", "inspect.eval"), ("inspect", "inspect.json"), ("lm_eval", "lm_eval.jsonl"), ("edsl", "edsl.ep"),
    ("edsl", "edsl.json.gz"), ("edsl", "edsl.jsonl"), ("openai_batch", "openai_batch_[oe]*.jsonl"),
]  # fmt: skip
TEXT = CorpusColumns(required=("text",), optional=("prompt", "prompt_id"))


def needs(kind: str) -> None:
    if kind == "inspect":
        reason = "skipped: inspect_ai is not installed (pip install 'markedness[inspect]')"
        pytest.importorskip("inspect_ai", reason=reason)


def source(kind: str, path: str, **more: Any) -> dict[str, Any]:
    columns = {"race": "race", "gender": "gender", "prompt_id": "template"}
    found: dict[str, Any] = {"path": path, "format": kind}
    found["columns"] = {ours: WITHIN[kind].format(theirs) for ours, theirs in columns.items()} | more.pop("columns", {})
    if kind == "openai_batch":
        found["requests"] = "openai_batch_requests.jsonl"
    return found | more


def read(kind: str, path: str, folder: Path = LOGS, wanted: CorpusColumns = TEXT, **more: Any) -> corpus.Corpus:
    needs(kind)
    return corpus.read_corpus(CorpusSource(**source(kind, path, **more)), folder, "models.m.personas", AXES, wanted)


def refusal(kind: str, path: str, folder: Path = LOGS, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        read(kind, path, folder, **more)
    assert str(caught.value).count("\n") == 0
    return str(caught.value)


# ---------------------------------------------------------------- what the tools wrote


@pytest.mark.parametrize(("kind", "path"), FILES)
def test_read_log_gives_one_row_for_each_answer_with_its_group(kind: str, path: str) -> None:
    rows = read(kind, path).rows
    failed = {"inspect": 2, "edsl": 1, "lm_eval": 0, "openai_batch": 1}[kind]
    assert rows["error"].notna().sum() == failed
    # 3 templates x 4 groups x 2 draws; a request that the Batch endpoint refused has one row, not two
    assert len(rows) == 24 - (kind == "openai_batch")
    assert rows.loc[rows["error"].notna(), "text"].isna().all()
    groups = {question["question"]: f"{question['race']} {question['gender']}" for question in questions()}
    answered = rows[rows["error"].isna()]
    for prompt, group, text, draw in answered[["prompt", "group", "text", "sample"]].itertuples(index=False):
        assert groups[prompt] == group
        assert text == ("lol" if kind == "lm_eval" else text)
        if kind != "lm_eval":
            assert text in (answer(prompt, 1), answer(prompt, 2)), draw
    assert set(rows["prompt_id"]) == {"imagine", "describe", "introduce"}


def test_read_log_of_inspect_keeps_why_an_answer_ended() -> None:
    rows = read("inspect", "inspect.eval").rows
    assert rows["finish_reason"].value_counts().to_dict() == {"stop": 21, "length": 1}
    assert set(rows["error"].dropna()) == {"RuntimeError('the server is gone')"}


def test_read_log_of_lm_eval_with_several_filters_reads_each_draw_once(tmp_path: Path) -> None:
    assert len((LOGS / "lm_eval.jsonl").read_text().splitlines()) == 24  # 12 documents x 2 filters, 2 draws a document
    assert len(read("lm_eval", "lm_eval.jsonl").rows) == 24
    said = refusal("lm_eval", "lm_eval.jsonl", columns={"text": "filtered_resps.0"})
    assert "has each answer once for each of the filters raw, lower; leave text out of columns" in said


def test_read_log_of_lm_eval_whose_keys_are_sorted_gives_each_candidate_its_own_score(tmp_path: Path) -> None:
    arguments = {f"gen_args_{n}": {"arg_0": "The person is", "arg_1": f" word{n}"} for n in range(12)}
    row = {"doc_id": 0, "doc": {"race": "Black"}, "arguments": arguments, "resps": [[[-n, False]] for n in range(12)]}
    turned = {key: dict(reversed(one.items())) for key, one in arguments.items()}
    for content in (json.dumps(row), json.dumps(row, sort_keys=True), json.dumps({**row, "arguments": turned})):
        (tmp_path / "samples.jsonl").write_text(content + "\n", encoding="utf-8")
        table = logs.read_log(tmp_path / "samples.jsonl", "lm_eval", {}, True, "models.m").table
        assert table["candidate"].tolist() == [f"word{n}" for n in range(12)]
        assert table["log_prob"].astype(float).tolist() == [-n for n in range(12)]
        assert table["prompt"].eq("The person is").all()


def test_read_log_of_lm_eval_gives_each_score_the_prompt_of_its_own_request(tmp_path: Path) -> None:
    asked = [("The man", " kind"), ("The woman", " kind"), ("", " kind")]  # the last as acc_mutual_info asks
    arguments = {f"gen_args_{n}": {"arg_0": prompt, "arg_1": word} for n, (prompt, word) in enumerate(asked)}
    row = {"doc_id": 0, "doc": {"race": "Black"}, "arguments": arguments, "resps": [[[-n, False]] for n in range(3)]}
    (tmp_path / "samples.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    table = logs.read_log(tmp_path / "samples.jsonl", "lm_eval", {}, True, "models.m").table
    assert table["prompt"].tolist() == ["The man", "The woman"]
    assert table["log_prob"].astype(float).tolist() == [0, -1]


def test_read_log_of_lm_eval_counts_a_repeated_line_once_and_says_so(tmp_path: Path) -> None:
    text = (LOGS / "lm_eval.jsonl").read_text()
    (tmp_path / "log.jsonl").write_text(text + text.splitlines()[0] + "\n")
    found = read("lm_eval", "log.jsonl", tmp_path)
    assert len(found.rows) == 24
    assert "2 answers stand in the log more than once; each is counted once" in found.notes
    other = json.loads(text.splitlines()[0]) | {"resps": [["another run", "of the same"]]}
    (tmp_path / "log.jsonl").write_text(text + json.dumps(other) + "\n")
    assert len(read("lm_eval", "log.jsonl", tmp_path).rows) == 26


def test_read_log_of_lm_eval_reads_documents_that_one_filter_alone_has(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (LOGS / "lm_eval.jsonl").read_text().splitlines()]
    names = list(dict.fromkeys(line["filter"] for line in lines))
    kept = [line for line in lines if (line["filter"] == names[0]) == (line["doc_id"] % 2 == 0)]
    assert {line["filter"] for line in kept} == set(names) and len(kept) == 12
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert len(read("lm_eval", "log.jsonl", tmp_path).rows) == 24


def test_read_log_of_lm_eval_with_scored_candidates_gives_their_log_probabilities() -> None:
    wanted = CorpusColumns(required=("prompt_id", "candidate", "log_prob"))
    rows = read("lm_eval", "lm_eval_scores.jsonl", wanted=wanted).rows
    first = json.loads((LOGS / "lm_eval_scores.jsonl").read_text().splitlines()[0])
    assert rows["candidate"].tolist() == ["kind", "rude"] * 12
    assert rows["log_prob"].tolist()[:2] == [first["resps"][0][0][0], first["resps"][1][0][0]]
    assert "has no column 'text'; it has" in refusal("lm_eval", "lm_eval_scores.jsonl")


def test_read_log_of_a_batch_counts_requests_without_an_answer_as_failed() -> None:
    rows = read("openai_batch", "openai_batch_output.jsonl").rows
    assert rows["error"].dropna().tolist() == ["the batch's files have no answer"]
    assert rows["group"].value_counts().to_dict() == {
        "White man": 6, "White woman": 6, "Black man": 6, "Black woman": 5,
    }  # fmt: skip


def test_read_log_of_an_interrupted_inspect_run_says_what_it_lacks(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    log["status"], log["samples"] = "cancelled", log["samples"][:10]
    (tmp_path / "inspect.json").write_text(json.dumps(log))
    found = read("inspect", "inspect.json", tmp_path)
    said = list(found.summary(found.rows["group"], AXES))
    assert "note: inspect.json: the status of the log is cancelled; 10 of 24 samples are in it" in said


def test_read_log_answer_that_a_filter_of_another_name_cut_off_is_withheld() -> None:
    row = log_rows.answer("As a Black man, I", "Describe", "SAFETY")
    assert (row["text"], row["error"], row["finish_reason"]) == (None, WITHHELD, FILTERED)


def test_read_log_of_inspect_with_several_choices_reads_each(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    output = log["samples"][0]["output"]
    output["choices"].append({**output["choices"][0], "stop_reason": "content_filter"})
    (tmp_path / "inspect.json").write_text(json.dumps(log))
    rows = read("inspect", "inspect.json", tmp_path).rows
    assert len(rows) == 25 and rows["error"].tolist()[1] == WITHHELD and pd.isna(rows["text"][1])


def test_read_log_of_edsl_with_several_questions_takes_the_one_that_is_named(tmp_path: Path) -> None:
    lines = (LOGS / "edsl.jsonl").read_text().splitlines()
    two = [line.replace('"answer": {', '"answer": {"mood": "fine", ') for line in lines]
    (tmp_path / "edsl.jsonl").write_text("\n".join(two))
    said = refusal("edsl", "edsl.jsonl", tmp_path)
    assert "has no column 'text'; it has answer.mood, answer.persona, scenario.question" in said
    rows = read("edsl", "edsl.jsonl", tmp_path, columns={"text": "answer.persona"}).rows
    assert len(rows) == 24 and rows["text"].notna().sum() == 23


# ---------------------------------------------------------------- several logs, and answers that stand in them twice


@pytest.mark.parametrize(("kind", "path"), FILES)
def test_read_logs_of_which_one_is_a_copy_counts_each_answer_once(tmp_path: Path, kind: str, path: str) -> None:
    for name in LOGS.glob(path):
        shutil.copy(name, tmp_path / f"a_{name.name}")
        shutil.copy(name, tmp_path / f"b_{name.name}")
    shutil.copy(LOGS / "openai_batch_requests.jsonl", tmp_path)
    once = read(kind, path)
    twice = read(kind, f"[ab]_{path}", tmp_path)
    assert list(twice.rows["text"].dropna()) == list(once.rows["text"].dropna())
    assert twice.rows["error"].notna().sum() == once.rows["error"].notna().sum()
    found = 24 - (kind == "openai_batch")  # rows; of the batch none is missing: the error file answers its request
    assert f"note: {found} answers stand in the log more than once; each is counted once" in twice.summary(
        twice.rows["group"], AXES
    )


def test_read_log_of_lm_eval_beside_a_copy_in_another_order_counts_each_answer_once(tmp_path: Path) -> None:
    lines = (LOGS / "lm_eval.jsonl").read_text().splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text("\n".join(reversed(lines)))
    once, twice = (read("lm_eval", path, tmp_path) for path in ("a.jsonl", "[ab].jsonl"))
    assert len(twice.rows) == len(once.rows)
    said = f"{len(once.rows)} answers stand in the log more than once; each is counted once"
    assert any(said in note for note in twice.notes)


def test_read_log_of_an_inspect_retry_leaves_out_the_failure_that_was_answered_later(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    (tmp_path / "1.json").write_text(json.dumps(log))
    failed = next(sample for sample in log["samples"] if sample.get("error"))
    answered = next(sample for sample in log["samples"] if not sample.get("error"))
    for key in ("output", "error"):
        failed[key] = answered.get(key)
    failed["uuid"] = "another"
    (tmp_path / "2.json").write_text(json.dumps(log))
    found = read("inspect", "[12].json", tmp_path)
    assert len(found.rows) == 24 and found.rows["error"].notna().sum() == 1
    assert "failures that were answered in another line or log (1) are left out" in found.notes


def test_read_log_of_a_batch_leaves_out_the_failure_that_was_answered_later(tmp_path: Path) -> None:
    for name in LOGS.glob("openai_batch_*"):
        shutil.copy(name, tmp_path)
    first = json.loads((LOGS / "openai_batch_output.jsonl").read_text().splitlines()[0])
    failure = json.loads((LOGS / "openai_batch_errors.jsonl").read_text()) | {"custom_id": first["custom_id"]}
    (tmp_path / "openai_batch_e2.jsonl").write_text(json.dumps(failure))
    rows = read("openai_batch", "openai_batch_[oe]*.jsonl", tmp_path).rows
    assert len(rows) == 23 and rows["error"].notna().sum() == 1


@pytest.mark.parametrize("kind", ["inspect", "openai_batch", "lm_eval"])
def test_read_log_keeps_no_key_and_no_home_folder_of_what_it_says_of_a_failure(kind: str, tmp_path: Path) -> None:
    key = "sk-" + "abcdefghijklmnop1234567890ABCD"
    said = (
        f"401 wrong key {' ' * 3000}{key} for {Path.home()}/x.json \x1b[31m; https://bob:pw12345@host/v1 "
        + "more " * 900
    )
    columns: dict[str, Any] = {"columns": {"text": "filtered_resps.0"}} if kind == "lm_eval" else {}
    if kind == "inspect":
        log = json.loads((LOGS / "inspect.json").read_text())
        next(sample for sample in log["samples"] if sample.get("error"))["error"]["message"] = said
        (tmp_path / "log.json").write_text(json.dumps(log))
    elif kind == "lm_eval":  # whose samples have no such columns, but a wrapper may add them
        lines = [line for line in (LOGS / "lm_eval.jsonl").read_text().splitlines() if '"filter": "raw"' in line]
        row = json.loads(lines[0]) | {"error": said, "finish_reason": f"key {key}"}
        (tmp_path / "log.jsonl").write_text("\n".join([json.dumps(row), *lines[1:]]))
    else:
        shutil.copy(LOGS / "openai_batch_output.jsonl", tmp_path / "log.jsonl")
        shutil.copy(LOGS / "openai_batch_requests.jsonl", tmp_path)
        failure = json.loads((LOGS / "openai_batch_errors.jsonl").read_text())
        failure["response"]["body"] = {"error": {"message": said}}
        with (tmp_path / "log.jsonl").open("a") as file:
            file.write(json.dumps(failure) + "\n")
    rows = read(kind, "log.json*", tmp_path, **columns).rows
    (error,) = [one for one in rows["error"].dropna() if "401" in one]
    assert error.startswith("401 wrong key [key] for ~/x.json \\x1b[31m; https://[key]@host/v1 more"), error
    assert len(error) == 500
    assert not rows["finish_reason"].isin(["unsupported", f"key {key}"]).any()


@pytest.mark.parametrize("place", ["error", "finish_reason"])
def test_read_log_with_half_of_a_surrogate_pair_in_how_one_answer_ended_reads_the_others(
    place: str, tmp_path: Path
) -> None:
    # as a gateway writes that cuts a quoted prompt inside an emoji
    for name in LOGS.glob("openai_batch_*"):
        shutil.copy(name, tmp_path)
    first, *others = (LOGS / "openai_batch_output.jsonl").read_text().splitlines()
    row = json.loads(first)
    if place == "error":
        row["response"]["body"] = {"error": {"message": "Invalid prompt: \ud83d"}}
    else:
        row["response"]["body"]["choices"][0]["finish_reason"] = "st\ud83d"
    (tmp_path / "openai_batch_output.jsonl").write_text("\n".join([json.dumps(row), *others]))
    whole = read("openai_batch", "openai_batch_[oe]*.jsonl").rows
    rows = read("openai_batch", "openai_batch_[oe]*.jsonl", tmp_path).rows
    if place == "error":
        assert rows["error"].eq("Invalid prompt: \\ud83d").sum() == 1
        assert rows["text"].notna().sum() < whole["text"].notna().sum()
    else:
        assert rows["finish_reason"].eq("unknown").sum() == 1 and len(rows) == len(whole)


def test_read_log_of_lm_eval_with_an_empty_error_beside_each_answer_has_no_failures(tmp_path: Path) -> None:
    lines = [line for line in (LOGS / "lm_eval.jsonl").read_text().splitlines() if '"filter": "raw"' in line]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(json.loads(line) | {"error": ""}) for line in lines))
    rows = read("lm_eval", "log.jsonl", tmp_path, columns={"text": "filtered_resps.0"}).rows
    assert rows["error"].isna().all() and rows["text"].notna().all()


def test_read_log_of_inspect_counts_an_invalidated_sample_as_failed(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    log["samples"][0]["invalidation"] = {"timestamp": "2026-01-01T00:00:00+00:00", "author": "a", "reason": "a leak"}
    log["invalidated"] = True
    (tmp_path / "inspect.json").write_text(json.dumps(log))
    rows = read("inspect", "inspect.json", tmp_path).rows
    assert rows["error"].tolist()[0] == "the sample was invalidated: a leak" and pd.isna(rows["text"][0])


def test_read_logs_of_inspect_without_uuids_of_which_one_is_a_copy_counts_each_answer_once(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    for sample in log["samples"]:
        sample.pop("uuid", None)
    for name in ("1.json", "2.json"):
        (tmp_path / name).write_text(json.dumps(log))
    rows = read("inspect", "[12].json", tmp_path).rows
    assert (
        len(rows) == 24 and rows["error"].notna().sum() == read("inspect", "inspect.json").rows["error"].notna().sum()
    )


@pytest.mark.parametrize("answered_by", ["", "auto"])
def test_read_logs_of_inspect_that_asked_two_models_are_not_of_one(answered_by: str, tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    for name, asked in (("1.json", "openai/gpt-4o"), ("2.json", "anthropic/claude-3")):
        log["eval"]["model"] = asked
        log["eval"]["task_id"] = name
        for place, sample in enumerate(log["samples"]):
            sample["output"]["model"] = answered_by
            sample["uuid"] = f"{name} {place}"
        (tmp_path / name).write_text(json.dumps(log))
    with pytest.raises(ModelError, match="anthropic/claude-3"):
        read("inspect", "[12].json", tmp_path)


def _renamed(kind: str, name: str, folder: Path) -> None:
    """A copy of a log in which every second answer is another model's."""
    lines = (LOGS / name).read_text().splitlines()
    if kind == "inspect":
        log = json.loads((LOGS / name).read_text())
        for sample in log["samples"][::2]:
            sample["output"]["model"] = "other/gpt"
        lines = [json.dumps(log)]
    else:
        theirs = {"edsl": '"model": "test"', "openai_batch": '"model": "test-model-served"'}[kind]
        assert theirs in lines[-1]
        lines = [line.replace(theirs, '"model": "other"') if n % 2 else line for n, line in enumerate(lines)]
    (folder / name).write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("kind", "name"),
    [("inspect", "inspect.json"), ("edsl", "edsl.jsonl"), ("openai_batch", "openai_batch_output.jsonl")],
)
def test_read_log_with_answers_of_two_models_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    shutil.copy(LOGS / "openai_batch_requests.jsonl", tmp_path)
    _renamed(kind, name, tmp_path)
    said = refusal(kind, name, tmp_path)
    assert "models.m.personas.path: the answers are of 2 models (" in said and "other" in said


def test_read_log_with_two_versions_of_a_model_names_them(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    for sample in log["samples"][::2]:
        sample["output"]["model"] = "mockllm/model-2026-01-01"
    (tmp_path / "inspect.json").write_text(json.dumps(log))
    assert any(
        note.startswith("the log reports 2 names of the model: ")
        for note in read("inspect", "inspect.json", tmp_path).notes
    )


def test_read_logs_of_lm_eval_from_two_folders_says_that_they_name_no_model(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        text = (LOGS / "lm_eval.jsonl").read_text()
        (tmp_path / name / "samples.jsonl").write_text(text if name == "a" else text.replace("lol", "lot"))
    notes = read("lm_eval", "*/samples.jsonl", tmp_path).notes
    assert any("do not say which model answered, and these lie in 2 folders (a, b)" in note for note in notes)


# ---------------------------------------------------------------- cells that are no text


@pytest.mark.parametrize(
    ("kind", "path", "column", "sentence"),
    [
        ("inspect", "inspect.eval", "metadata.tags", "a list in the column 'metadata.tags'; write one text a cell, or "
         "name what is in it (columns: {race: metadata.tags.0})"),
        ("inspect", "inspect.eval", "metadata", "a mapping in the column 'metadata'; write one text a cell, or name "
         "what is in it (columns: {race: metadata.template}); it has metadata.template, metadata.race"),
        ("inspect", "inspect.eval", "metadata.rase", "has no column 'metadata.rase'; it has metadata.template, "
         "metadata.race, metadata.gender, metadata.tags.0"),
        ("lm_eval", "lm_eval.jsonl", "doc", "a mapping in the column 'doc'"),
        ("edsl", "edsl.ep", "scenario.tags", "a list in the column 'scenario.tags'"),
        ("openai_batch", "openai_batch_output.jsonl", "request.body", "a mapping in the column 'request.body'"),
    ],
)  # fmt: skip
def test_read_log_with_a_cell_that_is_no_text_names_the_path_in_it(
    kind: str, path: str, column: str, sentence: str
) -> None:
    assert sentence in refusal(kind, path, columns={"race": column})


# ---------------------------------------------------------------- malformed


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "."), content)


EDSL = '{"edsl_class_name": "Results", "data": [%s]}'
BROKEN: list[tuple[str, str, bytes, str]] = [
    ("inspect", "log.eval", b"not a zip", "cannot be read as inspect: File is not a zip file"),
    ("inspect", "log.json", b'{"status": "success"}', "cannot be read as inspect"),
    ("inspect", "log.json", b"[" * 100_000, "cannot be read as inspect: it is nested too deep"),
    ("inspect", "log.csv", b"text\n", "is no Inspect log; name a file that ends in .eval or .json"),
    ("lm_eval", "log.jsonl", b'{"doc": {}, "resps": [["a"', "cannot be read as lm_eval: line 1"),
    ("lm_eval", "log.jsonl", b'{"text": "a"}', "row 1 has no doc and resps; name the samples_*.jsonl"),
    ("lm_eval", "log.jsonl", b'{"doc": {}, "resps": [["\xff"]]}', "is not UTF-8 (byte 24)"),
    ("lm_eval", "log.jsonl", b'{"doc": ' + b"[" * 100_000, "line 1: it is nested too deep"),
    ("lm_eval", "log.jsonl", b"", "holds no rows"),
    *(
        ("lm_eval", "log.jsonl", b'{"doc": {}, "resps": %s}' % resps, f"row 1 has {said}")
        for resps, said in (
            (b"null", "no list of answers for each request in resps"),
            (b'"a text"', "no list of answers for each request in resps"),
            (b'["a text"]', "no list of answers for each request in resps"),
            (b"[[true]]", "true in resps, which is neither a text nor a score"),
            (b"[[[]]]", "[] in resps, which is neither a text nor a score"),
            (b"[[[[1]]]]", '[["1"]] in resps, which is neither a text nor a score'),
            (b'[["a text", [-1.5, true]]]', "scores and row 1 texts; name the samples of one task"),
        )
    ),
    ("edsl", "log.json", EDSL.encode() % b"7", "result 1 has no answer"),
    ("edsl", "log.json", b'{"edsl_class_name": "Survey"}', "it holds Survey, not Results"),
    ("edsl", "log.json", b"[1, 2]", "it holds no object of EDSL, not Results"),
    ("edsl", "log.json.gz", b"\x1f\x8b\x08\x00broken", "cannot be read as edsl"),
    ("edsl", "log.jsonl", b'{"edsl_class_name": "Results"}', "it ends after its first line"),
    ("edsl", "log.jsonl", b'{"edsl_class_name": "Survey"}', "it holds Survey, not Results"),
    ("edsl", "log.jsonl", b"", "it holds no object of EDSL, not Results"),
    (
        "edsl",
        "log.jsonl",
        b'{"edsl_class_name": "Results"}\n{"n_survey_lines": 1}\n{"answer": {"q": "x"}}\n{"answer": {"q": "y"}}',
        "line 3 is a result, and by line 2 results begin at line 4",
    ),
    ("edsl", "log.ep", b"PK\x03\x04broken", "cannot be read as edsl: File is not a zip file"),
    ("edsl", "log.csv", b"answer.persona\n", "leave format out for a CSV of EDSL"),
    ("openai_batch", "log.jsonl", b'{"custom_id": "q1"}', "row 1 has no custom_id with a response or an error"),
    ("openai_batch", "log.jsonl", b'{"custom_id": "z", "response": {"body": {}}}', "row 1 answers z, which no request"),
]


@pytest.mark.parametrize(("kind", "name", "content", "sentence"), BROKEN)
def test_read_log_that_is_malformed_says_so_in_one_sentence(
    tmp_path: Path, kind: str, name: str, content: bytes, sentence: str
) -> None:
    shutil.copy(LOGS / "openai_batch_requests.jsonl", tmp_path)
    (tmp_path / name).write_bytes(content)
    assert sentence in refusal(kind, name, tmp_path)


def test_read_log_cut_at_any_place_is_one_sentence(tmp_path: Path) -> None:
    for kind, name in (("inspect", "inspect.eval"), ("edsl", "edsl.ep"), ("edsl", "edsl.json.gz")):
        needs(kind)
        whole = (LOGS / name).read_bytes()
        for kept in (0, 10, len(whole) // 2, len(whole) - 1):
            (tmp_path / name).write_bytes(whole[:kept])
            assert f"{name} cannot be read as {kind}: " in refusal(kind, name, tmp_path)


def test_read_log_of_inspect_with_a_damaged_byte_is_one_sentence(tmp_path: Path) -> None:
    needs("inspect")
    whole, rng, refused = (LOGS / "inspect.eval").read_bytes(), random.Random(7), 0
    for _ in range(30):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= rng.randrange(1, 256)
        (tmp_path / "log.eval").write_bytes(damaged)
        try:
            assert len(read("inspect", "log.eval", tmp_path).rows) == 24  # a byte that nobody reads, as of a time
        except ModelError as error:
            refused += "log.eval cannot be read as inspect: " in str(error)
    assert refused > 10


def test_read_log_of_inspect_says_what_is_wrong_without_the_address_of_a_manual(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    log["samples"][0]["output"] = None
    (tmp_path / "log.json").write_text(json.dumps(log))
    said = refusal("inspect", "log.json", tmp_path)
    assert "samples.0.output Input should be a valid dictionary" in said and "http" not in said


def test_read_log_of_lm_eval_counts_a_document_without_answers_as_failed(tmp_path: Path) -> None:
    row = {"doc": {"race": "Black", "gender": "man", "template": "t"}, "arguments": [["Who?", {}]]}
    answers: list[object] = [[["fine"]], [[]], [], [[None]]]
    lines = [row | {"resps": resps} for resps in answers]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = read("lm_eval", "log.jsonl", tmp_path).rows
    assert rows["text"].fillna("").tolist() == ["fine", "", "", ""]
    assert rows["error"].notna().tolist() == [False, True, True, True]


def test_read_log_of_edsl_counts_a_result_without_answers_as_failed(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (LOGS / "edsl.jsonl").read_text().splitlines()]
    lines[-1]["answer"] = {}
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = read("edsl", "log.jsonl", tmp_path).rows
    assert len(rows) == 24 and rows["error"].notna().sum() == 2  # one fails in the log as the tool wrote it
    assert rows["text"].isna().equals(rows["error"].notna())


def test_read_log_of_edsl_with_fewer_results_than_its_archive_counts_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(LOGS / "edsl.ep") as whole:
        lines = whole.read("results.jsonl").splitlines()
        kept = {"results__jsonl": b"\n".join(lines[:-1]), "manifest__json": whole.read("manifest.json")}
    archive(tmp_path / "log.ep", **kept)
    assert "its manifest counts 24 results, and 23 are in it" in refusal("edsl", "log.ep", tmp_path)


def test_read_log_with_a_pickle_in_its_archive_executes_nothing(tmp_path: Path) -> None:
    trap = pickle.dumps(Trap(tmp_path / "executed"))
    for kind, name in (("edsl", "log.ep"), ("inspect", "log.eval")):
        archive(tmp_path / name, results__jsonl=trap, header__json=trap, manifest__json=trap)
        assert "log" in refusal(kind, name, tmp_path)
    with gzip.open(tmp_path / "log.json.gz", "wb") as file:
        file.write(trap)
    refusal("edsl", "log.json.gz", tmp_path)
    assert not (tmp_path / "executed").exists()
    pickle.loads(trap)  # the trap works
    assert (tmp_path / "executed").exists()


def test_read_log_that_unpacks_to_more_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LARGEST", 1000)
    for kind, name in (("edsl", "edsl.ep"), ("edsl", "edsl.json.gz"), ("inspect", "inspect.eval")):
        assert "unpacks to more than 1,000 bytes" in refusal(kind, name)


def test_read_log_with_nan_or_an_endless_text_says_so(tmp_path: Path) -> None:
    row = {"doc": {"race": "Black", "gender": "man", "template": 1}, "resps": [["fine"]]}
    nan = json.dumps(row | {"resps": [[float("nan")]]})
    (tmp_path / "log.jsonl").write_text(f"{json.dumps(row)}\n{nan}\n")
    rows = read("lm_eval", "log.jsonl", tmp_path).rows
    assert rows["text"].fillna("").tolist() == ["fine", ""]
    assert rows["error"].tolist()[1] == "the log has no answer (finish reason None)"
    (tmp_path / "log.jsonl").write_text(json.dumps(row | {"resps": [["x" * (corpus.MAX_CHARACTERS + 1)]]}))
    assert "log.jsonl row 1 has 1,000,001 characters in the column 'text'" in refusal("lm_eval", "log.jsonl", tmp_path)


def test_read_log_with_half_of_a_surrogate_pair_inside_a_column_is_refused(tmp_path: Path) -> None:
    row = {"doc": {"race": "Black", "gender": "man", "template": "a"}, "resps": [["a\ud800b"]]}
    (tmp_path / "log.jsonl").write_text(json.dumps(row))
    assert "half of a surrogate pair, which is no character" in refusal("lm_eval", "log.jsonl", tmp_path)


def test_read_log_of_inspect_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(ModelError, match=r"format: inspect needs the package inspect_ai; .*'markedness\[inspect\]'"):
        corpus.read_corpus(CorpusSource(**source("inspect", "inspect.eval")), LOGS, "models.m.personas", AXES, TEXT)


@pytest.mark.parametrize(("name", "kind"), [("log.eval", "inspect"), ("log.ep", "edsl"), ("log.json.gz", "edsl")])
def test_read_corpus_of_a_log_without_its_format_names_it(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(ModelError, match=rf"is a log of another tool; say which \(format: {kind}\)"):
        corpus.read_corpus(CorpusSource(path=name), tmp_path, "models.m.personas", AXES, TEXT)


def test_corpus_source_with_requests_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="requests: is read for format openai_batch alone; remove it"):
        CorpusSource(path="a.csv", requests="b.jsonl")


# ---------------------------------------------------------------- paths into nested columns of tables


def test_read_corpus_of_json_lines_and_parquet_reads_columns_inside_others(tmp_path: Path) -> None:
    cells = [
        {"text": "a", "who": {"race": "Black", "tags": ["man"]}},
        {"text": "b", "who": {"race": "White", "tags": ["woman"]}},
    ]
    table = pd.DataFrame(cells)
    table.to_parquet(tmp_path / "texts.parquet")
    table.to_json(tmp_path / "texts.jsonl", orient="records", lines=True)
    for path in ("texts.parquet", "texts.jsonl"):
        columns: dict[str, str | None] = {"race": "who.race", "gender": "who.tags.0"}
        found = corpus.read_corpus(CorpusSource(path=path, columns=columns), tmp_path, "models.m.p", AXES, TEXT).rows
        assert found["group"].tolist() == ["Black man", "White woman"], path


def test_read_corpus_with_a_dot_in_the_name_of_a_column_takes_that_column(tmp_path: Path) -> None:
    (tmp_path / "edsl.csv").write_text("answer.persona,scenario.race\nx,Black\n")
    columns = {"text": "answer.persona", "race": "scenario.race", "gender": None}
    found = corpus.read_corpus(CorpusSource(path="edsl.csv", columns=columns), tmp_path, "models.m.p", AXES, TEXT).rows
    assert found["group"].tolist() == ["Black"]


# ---------------------------------------------------------------- a card of each


@pytest.mark.slow
def test_log_of_each_tool_becomes_a_card(tmp_path: Path) -> None:
    files = {"inspect": "inspect.eval", "lm_eval": "lm_eval.jsonl", "edsl": "edsl.ep",
             "openai_batch": "openai_batch_[oe]*.jsonl"}  # fmt: skip
    needs("inspect")
    shutil.copytree(LOGS, tmp_path / "logs")
    models = {}
    for kind, name in files.items():
        found = source(kind, f"logs/{name}")
        if "requests" in found:
            found["requests"] = f"logs/{found['requests']}"
        models[kind] = {"backend": "corpus", "personas": found}
    axes = {
        name: {"unmarked": axis.unmarked, "values": {value: {} for value in axis.values}} for name, axis in AXES.items()
    }
    featurize = {"embeddings": None, "svm": {"enabled": False}}
    evaluate = {"n_permutations": 20, "n_resamples": 100}
    params = {
        "audits": ["personas"], "run": list(models), "models": models,
        "personas": {"axes": axes, "featurize": featurize, "evaluate": evaluate},
    }  # fmt: skip
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    loaded = load(tmp_path / "params.yaml")
    said: list[str] = []
    chosen = ["--params", str(loaded.path)]
    for kind in files:  # asking again cannot help where a log has failures: that is no exit status 1
        for stage in STAGES:
            pipeline.STAGES[stage](loaded, "personas", kind, say=said.append)
        assert CliRunner().invoke(app, ["generate", "personas", "--model", kind, *chosen]).exit_code == 0
    command = [sys.executable, "-m", "markedness", "report"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = next(line for line in said if line.startswith("personas inspect: 24 requested"))
    assert counts == "personas inspect: 24 requested, 22 answered (0 of them from the ledger), 2 failed"
    for kind, failed in (("inspect", 2), ("edsl", 1), ("lm_eval", 0), ("openai_batch", 1)):
        assert "Black" in (tmp_path / "reports" / f"{kind}.html").read_text(encoding="utf-8")
        responses = pd.read_parquet(tmp_path / "data" / "responses" / "personas" / f"{kind}.parquet")
        assert responses["status"].eq("failed").sum() == failed
