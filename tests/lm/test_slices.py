"""Ledgers through the pipeline: one for all working trees, slices that are shared, and who may answer."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.lm import toy_study
from tests.servers.openai_server import Server

from markedness import generation, ledgers
from markedness import params as params_file
from markedness.lm import served_by
from markedness.lm.base import Draw, ModelError, draw_keys
from markedness.lm.collect import collect
from markedness.lm.config import TransformersModel
from markedness.lm.database import LedgerError
from markedness.lm.ledger import Ledger, summary
from markedness.lm.local import LocalModel
from markedness.lm.plan import Counts
from markedness.lm.scripted import ScriptedModel
from markedness.records import Prompt
from markedness.store import Store
from markedness.working_tree import main_tree

TEXTS = ["one", "two", "three"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")


def run(params: Any) -> tuple[Counts, list[str]]:
    said: list[str] = []
    return generation.generate(params, "toy", "toy", said.append), said


def slice_of(params: Any) -> Path:
    return Store(params.root).ledger_path("toy", "toy")


def forget(params: Any) -> None:
    """The study as it is on another machine."""
    shutil.rmtree(params.root / ".markedness")


# ---------------------------------------------------------------- slices


def lock(params: Any, content: bytes, width: str = " ") -> None:
    """dvc.lock names the slice, with this content; DVC breaks the line before a long name."""
    shown = slice_of(params).relative_to(params.root).as_posix()
    facts = f"    - path:{width}{shown}\n      hash: md5\n      md5: {hashlib.md5(content).hexdigest()}\n"
    other = "    - path: data/other\n      hash: md5\n      md5: 00\n"
    (params.root / "dvc.lock").write_text(f"stages:\n  generate:\n    outs:\n{other}{facts}{other}", encoding="utf-8")


def test_slice_that_dvc_names_and_is_not_here_is_told_before_its_answers_are_asked_for_again(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        shown = slice_of(params).relative_to(tmp_path).as_posix()
        for width in (" ", "\n          "):
            lock(params, b"of a colleague", width)
            told: list[str] = []
            generation.forecast(params, "toy", "toy", told.append)
            assert f"{shown}: is named by dvc.lock and not here" in told[0]
        counts, said = run(params)
        assert counts.answered == 3 and f"('dvc pull {shown}')" in said[0]
        lock(params, slice_of(params).read_bytes())
        slice_of(params).unlink()  # the ledger has its answers
        assert not any("dvc pull" in line for line in run(params)[1])
        lock(params, b"", "\n<<<<<<< HEAD\n")
        more = toy_study.study(tmp_path, server.url, TEXTS, samples=2)
        generation.forecast(more, "toy", "toy", told.append)
        assert any("dvc.lock: cannot be read" in line for line in told)
        # Of a larger study of a colleague some answers are known here: by an older slice, or by the ledger alone.
        lock(more, b"of a colleague")
        assert f"{shown}: is not the one that dvc.lock names, which was never here" in run(more)[1][0]
        slice_of(more).unlink()
        most = toy_study.study(tmp_path, server.url, TEXTS, samples=3)
        assert f"{shown}: is named by dvc.lock and not here" in run(most)[1][0]


def test_slice_has_the_answers_of_the_current_plan_sorted_with_dates_in_front(tmp_path: Path) -> None:
    with Server() as server:
        run(toy_study.study(tmp_path, server.url, [*TEXTS, "no longer asked"], samples=2))
        params = toy_study.study(tmp_path, server.url, TEXTS, samples=2)
        run(params)
        url = server.url
    rows = [orjson.loads(line) for line in slice_of(params).read_bytes().splitlines()[1:]]
    assert len(rows) == 6 and {row["request"]["prompt"] for row in rows} == set(TEXTS)
    assert [row["key"] for row in rows] == sorted(row["key"] for row in rows)
    found = summary(slice_of(params))
    assert found is not None and found.answers == 6
    assert (found.models, found.served_by) == ({"toy-model-served": 6}, {url: 6})
    answered = sorted(row["answered"] for row in rows)
    assert found.first is not None and found.first.isoformat(timespec="milliseconds") == answered[0]
    assert found.last is not None and found.last.isoformat(timespec="milliseconds") == answered[-1]
    assert summary(tmp_path / "none.jsonl") is None


def test_pulled_slice_is_used_without_a_request_and_written_again_byte_by_byte(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS, samples=2)
        run(params)
        before = slice_of(params).read_bytes()
        forget(params)
        counts, _ = run(params)
        assert counts.from_ledger == 6 and sum(server.answered.values()) == 6
        assert slice_of(params).read_bytes() == before
        # two who asked for the same come to the same bytes once they have each other's answers
        forget(params)
        slice_of(params).unlink()
        run(params)
        own = slice_of(params).read_bytes()
        assert own != before
        slice_of(params).write_bytes(before)
        run(params)
        assert slice_of(params).read_bytes() == before
        forget(params)
        run(params)
        slice_of(params).write_bytes(own)
        run(params)
        assert slice_of(params).read_bytes() == before


def test_slice_that_is_a_link_into_a_cache_is_replaced_and_the_cache_unchanged(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        cached = tmp_path / "cached"
        os.link(slice_of(params), cached)
        cached.chmod(0o444)
        before = cached.read_bytes()
        run(toy_study.study(tmp_path, server.url, [*TEXTS, "four"]))
    assert cached.read_bytes() == before
    assert len(slice_of(params).read_bytes().splitlines()) == 5


@pytest.mark.parametrize(
    "damage",
    [b"\xff\xfe\x00", b"{}", b"[1]", b"7", b"\x00" * 40, b'{"key": "zz", "answer": {}}', b"log_probs", b"key",
     b"year 9999", b"year 1", b"sample"],
)  # fmt: skip
def test_slice_line_that_cannot_be_read_is_named_and_its_answer_asked_again(tmp_path: Path, damage: bytes) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        forget(params)
        lines = slice_of(params).read_bytes().splitlines(keepends=True)
        row = orjson.loads(lines[2])
        if damage == b"log_probs":
            damage = orjson.dumps(row | {"answer": {"log_probs": 5}})
        elif damage == b"key":
            damage = orjson.dumps(row | {"request": row["request"] | {"prompt": "another"}})
        elif damage == b"year 9999":
            damage = orjson.dumps(row | {"answered": "9999-12-31T23:59:59-14:00"})
        elif damage == b"year 1":
            damage = orjson.dumps(row | {"asked": "0001-01-01T00:00:00+14:00"})
        elif damage == b"sample":
            key = draw_keys(row["served_by"], row["request"], range(2**63, 2**63 + 1)).hex()
            damage = orjson.dumps(row | {"sample": 2**63, "key": key})
        slice_of(params).write_bytes(b"".join([*lines[:2], damage + b"\n", *lines[3:]]))
        counts, said = run(params)
    assert any("line 3 cannot be read; its answer will be asked for again" in line for line in said)
    assert (counts.answered, counts.from_ledger) == (3, 2)
    assert len(slice_of(params).read_bytes().splitlines()) == 4


SCORED: dict[str, Any] = {"chat": True, "top_logprobs": 5, "candidates": ["lamp", "river"]}
HOSTILE: dict[str, tuple[bool, dict[str, Any]]] = {
    "fewer log probabilities": (True, {"log_probs": [-1.0]}),
    "more log probabilities": (True, {"log_probs": [-1.0] * 3}),
    "reasons of others": (True, {"log_probs": [-1.0, None], "reasons": ["not one token"]}),
    "a text for log probabilities": (True, {"text": "hello"}),
    "probabilities over 1": (True, {"log_probs": [50.0, -1.0]}),
    "coverage over 1": (True, {"log_probs": [-1.0, -1.0], "coverage": 57.0}),
    "negative coverage": (True, {"log_probs": [-1.0, -1.0], "coverage": -1.0}),
    "log probabilities for a text": (False, {"log_probs": [-1.0]}),
    "too long": (False, {"text": "a" * 1_000_001}),
    "an unknown field": (False, {"text": "hello", "note": {"error": 1}}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_slice_answer_that_is_none_to_its_request_is_named_and_asked_again(tmp_path: Path, case: str) -> None:
    scored, answer = HOSTILE[case]
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS, **(SCORED if scored else {}))
        run(params)
        lines = slice_of(params).read_bytes().splitlines(keepends=True)
        row = orjson.loads(lines[2]) | {"answer": answer, "answered": "2001-01-01T00:00:00+00:00"}
        slice_of(params).write_bytes(b"".join([*lines[:2], orjson.dumps(row) + b"\n", *lines[3:]]))
        counts, said = run(params)
        assert counts.from_ledger == 3  # what was paid for stays, though the other says that it is earlier
        slice_of(params).write_bytes(b"".join([*lines[:2], orjson.dumps(row) + b"\n", *lines[3:]]))
        forget(params)
        counts, said = run(params)
    assert any("line 3 cannot be read; its answer will be asked for again" in line for line in said)
    assert (counts.answered, counts.from_ledger) == (3, 2)


@pytest.mark.parametrize(
    ("scored", "answer"), [(True, '{"log_probs":[-1.0]}'), (True, '{"text":"hello"}'), (False, '{"log_probs":[-1.0]}')]
)
def test_ledger_answer_to_another_kind_of_question_is_named_and_asked_again(
    tmp_path: Path, scored: bool, answer: str
) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS, **(SCORED if scored else {}))
        run(params)
        with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
            ledger.base.execute("UPDATE answers SET answer = ? WHERE id = 2", (answer,))
            ledger.base.execute("UPDATE answers SET answered = CAST(answered AS BLOB) WHERE id = 3")
        slice_of(params).unlink()
        counts, said = run(params)
    assert (counts.answered, counts.from_ledger) == (3, 1)
    assert sum("is malformed and will be asked for again" in line for line in said) == 2


OPEN = {"keys": ["0" * 32], "id": "batch-1", "at": "2026-01-01T00:00:00+00:00"}
NAME = "f" * 32


def test_slice_line_of_a_batch_changes_no_batch_of_the_ledger_and_is_named(tmp_path: Path) -> None:
    hostile = [{"batch": NAME, "merged": True}, {"batch": NAME, "id": "other"}, {"batch": "0" * 32, "keys": ["1" * 32]}]
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
            ledger.note_batch(NAME, **OPEN)
        before = slice_of(params).read_bytes()
        for line in hostile:
            slice_of(params).write_bytes(before + orjson.dumps(line) + b"\n")
            _, said = run(params)
            assert any("line 5 cannot be read" in sentence for sentence in said)
        old_ledger(params, forgotten=False)
        for line in hostile[:2]:  # in a ledger of version 0.1, too
            slice_of(params).write_bytes(slice_of(params).read_bytes() + orjson.dumps(line) + b"\n")
        assert ledgers.enter(params, "toy", slice_of(params), say=lambda line: None) == 0
        with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
            assert ledger.batches() == {NAME: OPEN}


FACTS: list[dict[str, Any]] = [
    {"keys": 5}, {"keys": ["evil"]}, {"keys": [], "id": "../evil"}, {"keys": [], "at": "\x1b[31mX"}, {"evil": 1},
    {"merged": "yes"},
]  # fmt: skip


def test_slice_that_lost_its_last_lines_says_so_where_it_is_entered(tmp_path: Path) -> None:
    """Three answers, of which one is gone as by a copy that ended early: two come from the slice, one is paid again."""
    with Server() as server:
        params = toy_study.study(tmp_path / "one", server.url, TEXTS)
        run(params)
        lines = slice_of(params).read_bytes().splitlines(keepends=True)
        other = toy_study.study(tmp_path / "other", server.url, TEXTS)
        slice_of(other).parent.mkdir(parents=True)
        slice_of(other).write_bytes(b"".join(lines[:-1]))
        counts, said = run(other)
    assert counts.from_ledger == 2 and counts.answered == 3
    assert any("says 3 answers, and only 2 are in it" in sentence for sentence in said)
    imported: list[str] = []
    (tmp_path / "short.jsonl").write_bytes(b"".join(lines[:-1]))
    assert ledgers.enter(params, "toy", tmp_path / "short.jsonl", say=imported.append) == 1
    assert "says 3 answers" in imported[-1]


def test_slice_that_is_empty_says_so_before_its_answers_are_asked_for_again(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        slice_of(params).parent.mkdir(parents=True)
        slice_of(params).write_bytes(b"")
        counts, said = run(params)
    assert counts.answered == 3 and any("is empty, so that no answer is taken from it" in line for line in said)
    with Server() as server:
        assert not any("is empty" in line for line in run(params)[1])


@pytest.mark.parametrize("facts", FACTS)
def test_ledger_of_version_0_1_with_a_malformed_batch_names_its_line(tmp_path: Path, facts: dict[str, Any]) -> None:
    file = tmp_path / "old.jsonl"
    lines = [{"batch": NAME, **facts}, {"batch": "0" * 32, **OPEN}, {"batch": "1" * 32, **OPEN}]
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in [*lines, {"batch": "1" * 32, "merged": True}]))
    params = toy_study.study(tmp_path, "http://127.0.0.1:1/v1", TEXTS)
    said: list[str] = []
    assert ledgers.enter(params, "toy", file, say=said.append) == 1 and "line 1 cannot be read" in said[-1]
    with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
        assert ledger.batches() == {"0" * 32: OPEN}


@pytest.mark.parametrize("facts", ["no JSON", '{"keys":5}', "[1]", b"\xff"])
def test_ledger_with_damaged_facts_of_a_batch_names_and_forgets_it(tmp_path: Path, facts: str | bytes) -> None:
    with Server() as server:
        settings: dict[str, Any] = {"batch_api": True, "batch_poll": 0.01, "chat": True}
        params = toy_study.study(tmp_path, server.url, TEXTS, **settings)
        for work in ("status", "run"):
            with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
                ledger.base.execute("INSERT INTO batches VALUES (?, ?)", (NAME, facts))
            said: list[str] = []
            if work == "status":
                ledgers.status(params, said.append)
            else:
                counts, said = run(params)
                assert counts.answered == 3
            assert any(f"batch {NAME} is damaged and forgotten" in line for line in said)


def test_slice_torn_at_its_end_loses_the_last_answer_alone(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        whole = slice_of(params).read_bytes()
        for torn in (1, 30, 200):
            forget(params)
            slice_of(params).write_bytes(whole[:-torn])
            counts, _ = run(params)
            assert (counts.answered, counts.from_ledger) == (3, 3 if torn == 1 else 2)  # 1: only the end of the line


def test_slice_of_a_judge_is_its_own_and_the_ledger_the_models(tmp_path: Path) -> None:
    import asyncio

    judge = ScriptedModel("judge", lambda prompt, rng: f"score of {prompt.text}")
    asked = [Prompt("j", "g", completion=text) for text in TEXTS]
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        for known in (0, 3):
            counts = Counts()
            with ledgers.opened(params, "toy", "toy", part="judge") as ledger:
                answers = asyncio.run(collect(judge, asked, ledger, counts))
                assert answers[0][0].text == "score of one"
                ledgers.write_slice(params, "toy", "toy", ledger, [answers], part="judge")
            assert (counts.answered, counts.from_ledger) == (3, known)
        found = summary(tmp_path / "data/ledger/toy/toy.judge.jsonl")
        assert found is not None and found.answers == 3
        with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
            assert len(ledger) == 6


# ---------------------------------------------------------------- who answers


def test_another_base_url_answers_nothing_from_the_ledger_of_the_first(tmp_path: Path) -> None:
    with Server() as first, Server() as second:
        run(toy_study.study(tmp_path, first.url, TEXTS))
        counts, said = run(toy_study.study(tmp_path, second.url, TEXTS))
        assert counts.from_ledger == 0 and sum(second.answered.values()) == 3
        assert any(f"3 of these answers by {first.url}" in line and "models.toy.served_by" in line for line in said)
        # the same model behind another port: said so, nothing is asked
        counts, _ = run(toy_study.study(tmp_path, second.url, TEXTS, served_by=first.url))
        assert counts.from_ledger == 3 and sum(second.answered.values()) == 3

        assert counts.from_ledger == 3 and sum(second.answered.values()) == 3


def test_server_of_a_judge_is_never_proposed_for_the_audited_model(tmp_path: Path) -> None:
    import asyncio

    judge = ScriptedModel("judge", lambda prompt, rng: f"score of {prompt.text}")
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        with ledgers.opened(params, "toy", "toy", part="judge") as ledger:
            asyncio.run(collect(judge, [Prompt("j", "g", completion="one")], ledger, Counts()))
            assert list(ledger.served_by()) == [judge.served_by]
        _, said = run(params)
    assert said and not [line for line in said if judge.served_by in line]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    folder = tmp_path / "study" / "models" / "m"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"], "transformers_version": "5.1"}')
    (folder / "model.safetensors").write_bytes(b"weights one")
    return folder


def local(folder: Path) -> LocalModel:
    config = TransformersModel(backend="transformers", path="models/m")
    return LocalModel(config, folder.parents[1], seed=0)


def test_other_weights_under_the_same_path_have_other_keys(weights: Path) -> None:
    file = weights / "model.safetensors"
    before = local(weights).served_by
    facts = file.stat()
    file.write_bytes(b"weights two")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # the same size and time of change
    after = local(weights).served_by
    assert before.startswith("weights:") and after.startswith("weights:") and before != after
    assert Draw(Prompt("p", "g"), 0, {}, before).key != Draw(Prompt("p", "g"), 0, {}, after).key
    assert Draw(Prompt("p", "g"), 0, {}, before).stream == Draw(Prompt("p", "g"), 0, {}, after).stream


def test_answers_of_weights_that_were_changed_meanwhile_are_not_kept(weights: Path) -> None:
    model = local(weights)
    model.refuse_other_weights(model.served_by)
    (weights / "model.safetensors").write_bytes(b"weights two")
    with pytest.raises(ModelError, match="its files were changed while it answered"):
        model.refuse_other_weights(model.served_by)


def test_same_weights_elsewhere_have_the_same_keys_and_are_hashed_once(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = local(weights).served_by
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "m"
    shutil.copytree(weights, other)
    (other / "config.json").write_text('{"transformers_version": "5.2", "architectures": ["GPT2LMHeadModel"]}')
    (other / "README.md").write_text("notes")
    cache = tmp_path / "cache.json"
    assert served_by.weights(other, cache) == before
    monkeypatch.setattr(served_by, "_digest", lambda path: pytest.fail("hashed again"))
    assert served_by.weights(other, cache) == before
    cache.write_text("damaged")
    monkeypatch.undo()
    assert served_by.weights(other, cache) == before
    assert served_by.weights(tmp_path / "empty", cache) == ""


def test_server_is_named_without_credentials_and_query() -> None:
    assert served_by.server("https://me:secret@Host:8000/v1/?api-key=k#x") == "https://host:8000/v1"


def test_import_takes_answers_as_given_by_the_server_of_params_not_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server() as server:
        run(toy_study.study(tmp_path, server.url, TEXTS))
        params = toy_study.study(tmp_path, None, TEXTS)
        old_ledger(params)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        ledgers.enter(params, "toy", slice_of(params), say=lambda line: None)
    with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
        assert ledger.served_by() == {"https://api.openai.com/v1": 3}


def test_import_with_credentials_in_who_answered_is_refused_and_a_line_with_them_named(tmp_path: Path) -> None:
    secret = "https://joe:planted2secret@host/v1"
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        lines = slice_of(params).read_bytes().splitlines(keepends=True)
        old_ledger(params)
        with pytest.raises(LedgerError, match="--served-by: looks like a credential") as refused:
            ledgers.enter(params, "toy", slice_of(params), secret, say=lambda line: None)
        assert "planted" not in str(refused.value)
        row = orjson.loads(lines[1])
        row |= {"served_by": secret, "key": draw_keys(secret, row["request"], range(1)).hex()}
        slice_of(params).write_bytes(b"".join([lines[0], orjson.dumps(row) + b"\n", *lines[2:]]))
        said: list[str] = []
        assert ledgers.enter(params, "toy", slice_of(params), say=said.append) == 1
        assert "line 2 cannot be read" in said[-1] and "planted" not in str(said)
        with Ledger(Store(tmp_path).ledger_database("toy")) as ledger:
            date = "2026-01-01T00:00:00.000+00:00"
            ledger.add([(bytes(16), secret, 0, "{}", '{"text":"a"}', date, date)])
        ledgers.status(params, said.append)
        assert "  1 answered by https://[key]@host/v1" in said


def test_import_of_noise_names_ten_lines_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"noise\n" * 5_000)
    params = toy_study.study(tmp_path, "http://127.0.0.1:1/v1", TEXTS)
    said: list[str] = []
    assert ledgers.enter(params, "toy", tmp_path / "noise", say=said.append) == 5_000
    assert len(said) == 12 and said[-1].endswith("noise: and 4,990 more lines cannot be read")


def test_import_into_a_model_that_asks_nobody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("models: {rule: {backend: scripted}, texts: {backend: corpus}}")
    (tmp_path / "any.jsonl").write_bytes(b"")
    for model in ("rule", "texts"):
        with pytest.raises(LedgerError, match=f"{model}: its backend is .*, which asks nobody"):
            ledgers.enter(params_file.load(tmp_path / "params.yaml"), model, tmp_path / "any.jsonl")


# ---------------------------------------------------------------- version 0.1


def old_ledger(params: Any, forgotten: bool = True) -> None:
    """Write the slice as version 0.1 wrote its ledger."""
    lines = []
    for line in slice_of(params).read_bytes().splitlines()[1:]:
        row = orjson.loads(line)
        row["key"] = Draw(Prompt("p", "g"), row["sample"], row["request"]).stream
        lines.append(orjson.dumps({name: row[name] for name in row if name not in ("version", "served_by")}))
    slice_of(params).write_bytes(b"\n".join(lines) + b"\n")
    if forgotten:
        forget(params)


def test_ledger_of_version_0_1_is_neither_used_nor_lost_until_it_is_imported(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        old_ledger(params)
        before = slice_of(params).read_bytes()
        with pytest.raises(LedgerError, match=r"3 answers are of version 0\.1.*ledger import data/ledger/toy"):
            run(params)
        assert slice_of(params).read_bytes() == before and sum(server.answered.values()) == 3
        said: list[str] = []
        assert ledgers.enter(params, "toy", slice_of(params), say=said.append) == 0
        assert said[0].endswith("3 new answers, 3 in all")
        again = tmp_path / "again.jsonl"
        again.write_bytes(b"".join(reversed(slice_of(params).read_bytes().splitlines(keepends=True))))
        ledgers.enter(params, "toy", again, say=said.append)
        assert said[-1].endswith(
            "0 new answers, 3 in all; 3 were there, and of two answers to one request the earlier is kept"
        )
        with pytest.raises(LedgerError, match="is no file; name a slice"):
            ledgers.enter(params, "toy", tmp_path, say=said.append)
        counts, _ = run(params)
        assert counts.from_ledger == 3 and sum(server.answered.values()) == 3


# ---------------------------------------------------------------- working trees and processes


def test_main_tree_of_experiments_and_worktrees_is_the_study_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "main"
    (main / ".dvc/tmp/exps/abc/.dvc").mkdir(parents=True)
    (main / "study").mkdir()
    (main / ".dvc/tmp/exps/abc/study").mkdir()
    assert main_tree(main / "study") == main / "study"
    assert main_tree(main / ".dvc/tmp/exps/abc/study") == main / "study"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".dvc").mkdir(parents=True)
    (elsewhere / "study").mkdir()
    assert main_tree(elsewhere / "study") == elsewhere / "study"
    monkeypatch.setenv("DVC_ROOT", str(main))
    assert main_tree(elsewhere / "study") == elsewhere / "study"  # a stage of one repository runs another study
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0" * 40)
    assert main_tree(elsewhere / "study") == main / "study"
    monkeypatch.delenv("DVC_ROOT")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "Begin"], check=True)
    subprocess.run([*git, "-C", str(main), "worktree", "add", "-q", str(tmp_path / "linked")], check=True)
    assert main_tree(tmp_path / "linked") == main


def test_ledger_folder_of_the_environment_is_relative_to_the_study_in_the_main_working_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = tmp_path / "main"
    workspace = main / ".dvc/tmp/exps/temporary/study"
    for folder in (main / "study", workspace, workspace.parent / ".dvc", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("MARKEDNESS_LEDGER", "ledgers")
    with Server() as server:
        for samples, folder in ((3, workspace), (4, main / "study"), (5, workspace)):
            monkeypatch.chdir(tmp_path / "elsewhere" if samples == 4 else folder)
            run(toy_study.study(folder, server.url, TEXTS, samples=samples))
        assert sum(server.answered.values()) == 5 * 3
    assert [path.relative_to(main).as_posix() for path in main.rglob("toy.sqlite")] == ["study/ledgers/toy.sqlite"]
    monkeypatch.setenv("MARKEDNESS_LEDGER", str(tmp_path / "absolute"))
    assert Store(workspace).ledger_database("toy") == tmp_path / "absolute/toy.sqlite"


PROGRAM = """
import sys
from pathlib import Path
from tests.lm import toy_study
from markedness import generation
params = toy_study.study(Path(sys.argv[1]), sys.argv[2], ["one", "two", "three"], samples=int(sys.argv[3]))
counts = generation.generate(params, "toy", "toy", lambda line: None)
print(counts.requested, counts.answered)
"""


@pytest.mark.slow
def test_experiments_of_growing_samples_ask_for_the_answers_of_the_largest_each_once(tmp_path: Path) -> None:
    main = tmp_path / "main"
    (main / ".dvc").mkdir(parents=True)
    with Server(latency=0.05) as server:
        # started one after another in the workspace
        for samples in (4, 6, 7):
            run(toy_study.study(main, server.url, TEXTS, samples=samples))
        assert sum(server.answered.values()) == 7 * 3
        # and two at the same time, as DVC runs queued experiments
        running = []
        for samples in (8, 9):
            workspace = main / ".dvc" / "tmp" / "exps" / f"queued{samples}"
            (workspace / ".dvc").mkdir(parents=True)
            env = {**os.environ, "DVC_ROOT": str(main), "DVC_EXP_BASELINE_REV": "0" * 40}
            env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), env.get("PYTHONPATH", "")])
            command = [sys.executable, "-c", PROGRAM, str(workspace), server.url, str(samples)]
            running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        printed = [process.communicate()[0].split() for process in running]
        assert printed == [["24", "24"], ["27", "27"]]
        assert sum(server.answered.values()) == 9 * 3 and max(server.answered.values()) == 9
    assert not (main / ".dvc/tmp/exps/queued9/.markedness/ledger").exists()
    with Ledger(Store(main).ledger_database("toy")) as ledger:
        assert len(ledger) == 27
    sizes = [len(slice_of_workspace(main, samples).read_bytes().splitlines()) for samples in (8, 9)]
    assert sizes == [1 + 24, 1 + 27]


def slice_of_workspace(main: Path, samples: int) -> Path:
    return main / f".dvc/tmp/exps/queued{samples}/data/ledger/toy/toy.jsonl"


def test_answers_that_another_run_gives_up_are_asked_here(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        with Ledger(Store(tmp_path).ledger_database("toy")) as other:
            language_model = generation.load_model(params, "toy", "toy")
            plans = list(generation.plans(params, Store(tmp_path), "toy", language_model, other))
            assert other.claim(plans[0].keys).all()
            with pytest.MonkeyPatch.context() as patch:
                looked: list[float] = []

                async def look(seconds: float) -> None:
                    looked.append(seconds)
                    other.release()

                patch.setattr("markedness.lm.collect.asyncio.sleep", look)
                counts, said = run(params)
    assert counts.answered == 3 and looked
    assert any("waiting for 3 answers that another run is asking for" in line for line in said)


# ---------------------------------------------------------------- status, prune


def test_ledger_status_and_prune_say_what_is_there_and_remove_what_no_slice_uses(tmp_path: Path) -> None:
    with Server() as server:
        run(toy_study.study(tmp_path, server.url, [*TEXTS, "no longer asked"]))
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
        said: list[str] = []
        ledgers.status(params, said.append)
        assert said[0].startswith("toy: 4 answers, ") and said[1:] == [
            f"  4 answered by {server.url}", "  3 used by data/ledger/toy/toy.jsonl",
        ]  # fmt: skip
        said.clear()
        ledgers.prune(params, "toy", yes=False, say=said.append)
        assert "1 of 4 answers are in none of 1 slices" in said[0] and "--yes" in said[0]
        ledgers.prune(params, "toy", yes=True, say=said.append)
        assert "1 answers removed, 3 kept" in said[1]
        counts, _ = run(params)
        assert counts.from_ledger == 3


def test_prune_keeps_what_the_params_ask_for_and_no_slice_has_yet(tmp_path: Path) -> None:
    with Server() as server:
        run(toy_study.study(tmp_path, server.url, [*TEXTS, "no longer asked"]))
        params = dataclasses.replace(toy_study.study(tmp_path, server.url, TEXTS), audits=("toy",))
        slice_of(params).unlink()  # as after fill, or a run that was killed
        said: list[str] = []
        for yes in (False, True):
            ledgers.prune(params, "toy", yes, said.append, needed=[partial(generation.needed, params, "toy")])
        assert "1 of 4 answers are in none of 0 slices" in said[0] and "not what params.yaml asks for" in said[0]
        assert "1 answers removed, 3 kept" in said[1]
        counts, _ = run(params)
    assert counts.from_ledger == 3


def test_prune_keeps_later_rounds_behind_a_request_that_failed(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, [*TEXTS, "fault:400"], rounds=2)
        params = dataclasses.replace(params, audits=("toy",))
        run(params)
        slice_of(params).unlink()
        said: list[str] = []
        ledgers.prune(params, "toy", True, said.append, needed=[partial(generation.needed, params, "toy")])
    assert said == ["toy: 0 answers removed, 6 kept"]


DAMAGES: dict[str, Any] = {
    "half": lambda lines: b"".join(lines)[: len(b"".join(lines)) // 2],
    "fewer lines": lambda lines: b"".join(lines[:-1]),
    "a line that is none": lambda lines: b"".join([*lines[:2], b"x\n", *lines[3:]]),
    "one line twice": lambda lines: b"".join([*lines[:2], lines[1], *lines[3:]]),
    "a header that is none": lambda lines: b"".join([b"x\n", *lines[1:]]),
    "no header": lambda lines: b"".join(lines[1:]),
    "another answer": lambda lines: b"".join([*lines[:2], lines[2].replace(b'"text"', b'"tex"')]),
    "nothing left": lambda lines: lines[0],
}


@pytest.mark.parametrize("damage", [*DAMAGES, "folder", "pipe", "version 0.1"])
def test_prune_with_a_damaged_slice_is_refused_and_names_it(tmp_path: Path, damage: str) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, TEXTS)
        run(params)
    path = slice_of(params)
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "version 0.1":
        old_ledger(params, forgotten=False)
    else:
        path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)
    elif damage in DAMAGES:
        path.write_bytes(DAMAGES[damage](lines))
    for yes in (False, True):
        with pytest.raises(LedgerError, match=r"data/ledger/toy/toy\.jsonl: (only \d|is no regular file)"):
            ledgers.prune(params, "toy", yes=yes, say=lambda line: None)
    said: list[str] = []
    ledgers.status(params, said.append)  # nothing hangs
    assert said[0].startswith("toy: 3 answers")
    told = dict.fromkeys(("half", "fewer lines"), "which is damaged: it has 2 lines")
    told |= dict.fromkeys(("folder", "pipe", "no header", "version 0.1"), "data/ledger/toy/toy.jsonl cannot be read")
    assert told.get(damage, "") in said[-1]
    if damage in ("folder", "pipe"):
        with pytest.raises(LedgerError, match="is no regular file"):
            run(params)
