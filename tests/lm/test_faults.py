"""Servers that fail or attack, through the generate stage: what is asked, kept and shown. See docs/faults.md."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from tests.lm import toy_study
from tests.servers.openai_server import Server

from markedness import generation, ledgers
from markedness.lm import openai_api, served_by, transport
from markedness.lm import run as asking
from markedness.lm.answers import read_completion
from markedness.lm.base import ModelError
from markedness.lm.config import DEFAULT_URL
from markedness.lm.database import LedgerError
from markedness.lm.endpoint import Endpoint, retry_after
from markedness.lm.plan import Counts

KEY = "sk-planted-0123456789"
RANDOM = "k3yzq8w1v7t5r9p2m4n6b0c8x1"
"""A key of no known form."""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)


def run(params: Any) -> tuple[pd.DataFrame, Counts, str]:
    said: list[str] = []
    counts = generation.generate(params, "toy", "toy", said.append)
    assert counts.requested == counts.answered + counts.failed
    return pd.read_parquet(params.root / "data/generations/toy/toy.parquet"), counts, "\n".join(said)


def asked(tmp_path: Path, text: str, **config: Any) -> tuple[pd.Series, str, Server]:
    """The row of the request with this text, beside one that is answered; what was said, and the server."""
    with Server() as server:
        settings = {"max_attempts": 2, "max_wait": 0.01, "timeout": 20, **config}
        table, _, said = run(toy_study.study(tmp_path, server.url, [text, "answered"], **settings))
    return table.iloc[0], said, server


# ---------------------------------------------------------------- redirects, cookies


def test_generate_a_servers_cookies_are_not_sent_back_and_spoil_no_later_request(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["fault:cookie", "one", "two"], concurrency=1)
        _, counts, _ = run(params)
        assert counts.answered == 3
        assert not any("cookie" in headers for headers in server.heads)


@pytest.mark.parametrize("fault", ["redirect", "redirect-307"])
def test_generate_redirect_is_not_followed_and_names_the_host(tmp_path: Path, fault: str) -> None:
    with Server() as elsewhere, Server() as server:
        server.redirect_to = f"http://user:{KEY}@127.0.0.1:{elsewhere.port}"
        params = toy_study.study(tmp_path, server.url, [f"fault:{fault}", "answered"], api_key_env="MY_KEY")
        table, counts, said = run(params)
        assert elsewhere.connections == 0 and counts.failed == 1
    reason = table["error"].iloc[0]
    assert f"redirects to 127.0.0.1:{elsewhere.port}, and redirects are not followed" in reason
    assert "planted" not in reason + said


@pytest.mark.parametrize(
    ("place", "shown"),
    [(f"http://{RANDOM}.example", "redirects to [key].example"), ("//[::1", "redirects to a place that is no URL")],
)
def test_generate_redirect_to_the_key_or_to_no_url_is_a_failure_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, shown: str
) -> None:
    monkeypatch.setenv("MY_KEY", RANDOM)
    with Server() as server:
        server.redirect_to = place
        params = toy_study.study(tmp_path, server.url, ["fault:redirect-307", "answered"], api_key_env="MY_KEY")
        table, counts, said = run(params)
    assert counts.failed == 1 and shown in table["error"].iloc[0]
    assert RANDOM not in "".join(table["error"].dropna()) + said


# ---------------------------------------------------------------- the test request


ALIKE = {
    "401": ("HTTP 401 from {url}: bad key", "MY_KEY"),
    "model-not-found": ("HTTP 404 from {url}: The model toy-model does not exist", None),
    "404": ("HTTP 404 from {url}: no such thing", None),
    "400": ("HTTP 400: no such thing", None),
    "quota": ("HTTP 429 from {url}: You exceeded your quota", None),
    "redirect": ("redirects to elsewhere", None),
    "events": ("{url} streams its answers (server-sent events), though none asks for that; set the ", None),
    "invalid-json": ("the answer of {url} is not JSON", None),
}


@pytest.mark.parametrize("fault", ALIKE)
def test_generate_server_that_refuses_all_is_asked_once_and_named(tmp_path: Path, fault: str) -> None:
    sentence, key = ALIKE[fault]
    with Server() as server:
        server.always, server.redirect_to = fault, "http://elsewhere"
        params = toy_study.study(tmp_path, server.url, [f"text {i}" for i in range(40)], api_key_env=key)
        with pytest.raises(ModelError) as failed:
            run(params)
        assert server.probes == 1 and not server.answered
    assert sentence.format(url=server.url) in str(failed.value) and "planted" not in str(failed.value)
    assert not (tmp_path / "data/generations").exists()


def test_generate_dead_port_ends_in_seconds_with_the_url(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    params = toy_study.study(tmp_path, url, [f"text {i}" for i in range(40)])
    with pytest.raises(ModelError, match=f"{url}: connection refused: no server listens there"):
        run(params)


def test_generate_missing_v1_names_the_url(tmp_path: Path) -> None:
    with Server() as server:
        server.root = "/v1"
        url = server.url.removesuffix("/v1")
        with pytest.raises(ModelError, match=f"HTTP 404 from {url}: "):
            run(toy_study.study(tmp_path, url, ["a"]))
        assert server.probes == 0


def test_generate_busy_server_passes_the_test_request(tmp_path: Path) -> None:
    with Server() as server:
        server.always = "503"
        with pytest.raises(generation.StageError, match="all 1 requests failed"):
            run(toy_study.study(tmp_path, server.url, ["a"], max_attempts=1))
        assert server.probes == 1


def test_generate_answer_of_the_test_request_is_in_no_file(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["a"])
        run(params)
        assert server.probes == 1
        run(params)
        assert server.probes == 1  # nothing was missing
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"connection test" not in path.read_bytes()


def test_generate_spent_budget_asks_not_even_the_test_request(tmp_path: Path) -> None:
    with Server() as server:
        with pytest.raises(asking.BudgetError):
            run(toy_study.study(tmp_path, server.url, ["a"], max_requests=0))
        assert server.connections == 0


# ---------------------------------------------------------------- giving up


def test_generate_model_that_vanishes_is_given_up_after_failures_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GIVE_UP_AFTER", 5)
    with Server() as server:
        texts = ["answered", *(f"fault:model-not-found {i}" for i in range(60))]
        table, counts, said = run(toy_study.study(tmp_path, server.url, texts, concurrency=2))
        assert server.faults["model-not-found"] <= 7
    assert counts.failed == 60 and f"HTTP 404 from {server.url}" in said
    assert table["error"].iloc[-1].startswith("not asked: 5 requests in a row failed for the same reason: HTTP 404")


def test_generate_given_up_reaches_no_limit_of_the_budget_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GIVE_UP_AFTER", 5)
    with Server() as server:
        texts = ["answered", *(f"fault:401 {i}" for i in range(29))]
        params = toy_study.study(tmp_path, server.url, texts, concurrency=1, max_requests=12)
        _, counts, said = run(params)
        assert counts.failed == 29 and server.faults["401"] <= 6
        assert f"not asked: 5 requests in a row failed for the same reason: HTTP 401 from {server.url}" in said
        monkeypatch.setattr(asking, "GIVE_UP_AFTER", 50)
        with pytest.raises(asking.BudgetError, match=r"stopped after 12 .* 12 failed, most often because: HTTP 401"):
            run(params)


@pytest.mark.parametrize("way", [{"concurrency": 1}, {"batch_api": True, "batch_poll": 0.01, "chat": True}])
@pytest.mark.parametrize("fault", ["broken-off", "schema-billed"])
def test_generate_answer_that_is_billed_but_cannot_be_used_counts_for_max_cost(
    tmp_path: Path, way: dict[str, Any], fault: str
) -> None:
    with Server() as server:
        texts = [f"fault:{fault} {i}" for i in range(30)]
        prices = {"toy-model": {"input": 0, "output": 1_000_000}}  # 9 tokens an answer, at most 9 are forecast
        params = toy_study.study(tmp_path, server.url, texts, prices=prices, max_cost=45, **way)
        with pytest.raises(asking.BudgetError, match=r"max_cost reached: stopped after 5 requests \(45.0000 spent\)"):
            run(params)
        assert server.stats()["answered"] == 5


def test_generate_answers_broken_off_in_a_row_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GIVE_UP_AFTER", 5)
    with Server() as server:
        server.always = "broken-off"
        with pytest.raises(generation.StageError, match="all 30 requests failed"):
            run(toy_study.study(tmp_path, server.url, [f"text {i}" for i in range(30)], concurrency=1))
        assert server.faults["broken-off"] <= 7


def test_generate_failures_of_different_causes_or_of_single_requests_are_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GIVE_UP_AFTER", 3)
    texts = ["answered", *(f"fault:{fault} {i}" for i in range(6) for fault in ("404", "401"))]
    texts += [f"fault:{fault} {i}" for fault in ("400", "content-filter", "context") for i in range(6)]
    with Server() as server:
        table, _, _ = run(toy_study.study(tmp_path, server.url, texts, concurrency=1))
    assert not table["error"].str.contains("not asked").any()


def test_generate_answers_paid_for_but_empty_are_given_up_and_paid_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GIVE_UP_AFTER", 5)
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, [f"fault:empty-paid {i}" for i in range(60)], concurrency=2)
        for earlier in (False, True):
            with pytest.raises(generation.StageError, match="all 60 requests failed"):
                run(params)
            paid = server.faults["empty-paid"]
            assert 5 <= paid <= 7 and server.probes == 1, f"second run: {earlier}"
        said: list[str] = []
        with pytest.raises(generation.StageError):
            generation.generate(params, "toy", "toy", said.append)
    without_text = "answers came without a text, paid for but empty or withheld by a filter"
    assert any(f"{paid} {without_text} ({paid} of them earlier)" in line for line in said)
    assert any(
        f"not asked: the ledger has {paid} such requests that were answered without a text" in line for line in said
    )


def test_generate_answer_paid_for_but_empty_is_recorded_and_asked_again_only_when_told(tmp_path: Path) -> None:
    texts = ["a", "fault:empty-paid b", "fault:empty c"]
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, texts)
        first, counts, said = run(params)
        assert (counts.answered, counts.failed, counts.empty, counts.empty_from_ledger) == (1, 2, 1, 0)
        assert "1 answers came without a text, paid for but empty or withheld by a filter (0 of them earlier)" in said
        again, counts, said = run(params)
        assert (counts.answered, counts.failed, counts.empty, counts.empty_from_ledger) == (1, 2, 1, 1)
        assert "failed 1 times: the answer is empty (finish reason length)" in said
        assert server.faults == {"empty-paid": 1, "empty": 2}  # nothing was billed for the other, so it is asked again
        pd.testing.assert_frame_equal(first, again)
        slice_only = tmp_path / "clone"
        (slice_only / "data/ledger/toy").mkdir(parents=True)
        shutil.copy(tmp_path / "data/ledger/toy/toy.jsonl", slice_only / "data/ledger/toy/toy.jsonl")
        run(toy_study.study(slice_only, server.url, texts))
        assert server.faults["empty-paid"] == 1  # a colleague who pulled the slice does not pay for it either
        lines: list[str] = []
        ledgers.status(params, lines.append)
        assert "  1 of them without a text" in lines
        ledgers.prune(params, "toy", yes=False, empty=True, say=lines.append)
        ledgers.prune(params, "toy", yes=True, empty=True, say=lines.append)
        assert "1 answers without a text found" in lines[-2] and "removed" in lines[-1]
        run(params)
        assert server.faults["empty-paid"] == 2


IN_BATCHES: dict[str, Any] = {"batch_api": True, "batch_poll": 0.01}


@pytest.mark.parametrize("fault", ["no-content", "no-choices"])
@pytest.mark.parametrize("batch", [False, True])
def test_generate_billed_answer_that_leaves_its_text_out_is_recorded_and_not_asked_for_again(
    tmp_path: Path, fault: str, batch: bool
) -> None:
    # it would be asked for until it has one, while its group is the one that the model has no text about
    with Server() as server:
        params = toy_study.study(
            tmp_path, server.url, ["a", f"fault:{fault}*1 b"], chat=True, **IN_BATCHES if batch else {}
        )
        first, counts, _ = run(params)
        assert (counts.answered, counts.failed, counts.empty) == (1, 1, 1)
        assert "the answer is empty" in str(first["error"].iloc[1])
        again, counts, _ = run(params)
        assert (counts.answered, counts.failed, counts.empty_from_ledger) == (1, 1, 1)
        pd.testing.assert_frame_equal(first, again)


@pytest.mark.parametrize(
    "fault",
    [
        "content-filter",
        "400-filter",
        "filter-alone",
        "400-inspection",
        "200-filter",
        "400-list",
        "400-detail",
        "403-flagged",
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_generate_answer_withheld_by_a_filter_is_recorded_and_not_asked_for_again(
    tmp_path: Path, fault: str, batch: bool
) -> None:
    more = IN_BATCHES if batch else {}
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["a", f"fault:{fault}*1 b"], **more)
        first, counts, said = run(params)
        assert (counts.answered, counts.failed, counts.empty) == (1, 1, 1) and "withheld by a filter" in said
        assert re.search("content filter|inappropriate content", str(first["error"].iloc[1]))
        again, counts, _ = run(params)
        assert (counts.answered, counts.failed, counts.empty_from_ledger) == (1, 1, 1)
        pd.testing.assert_frame_equal(first, again)


def test_prune_during_a_run_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["a", "fault:empty-paid b"])
        run(params)
        for empty in (True, False):
            with ledgers.opened(params, "toy", "toy") as ledger:  # as generate does, before it looks anything up
                with pytest.raises(LedgerError, match="a run is asking this model; wait until it ends"):
                    ledgers.prune(params, "toy", yes=True, empty=empty)
                assert len(ledger) == 2


SCORED: dict[str, Any] = {"chat": True, "top_logprobs": 5, "candidates": ["lamp", "river"]}


@pytest.mark.parametrize("way", [{}, IN_BATCHES])
def test_generate_malformed_alternatives_end_one_request_and_the_others_are_kept(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    with Server(latency=0.05) as server:
        texts = [*(f"text {i}" for i in range(10)), "fault:alternatives-number", *(f"more {i}" for i in range(10))]
        params = toy_study.study(tmp_path, server.url, texts, **SCORED, **way)
        table, counts, said = run(params)
        assert (counts.answered, counts.failed) == (20, 1)
        assert "failed 1 times: the answer's top_logprobs is int, not a list" in said
        assert table.loc[table["error"].notna(), "prompt"].unique().tolist() == ["fault:alternatives-number"]
        _, counts, _ = run(params)
        assert counts.from_ledger == 20 and server.stats()["answered"] == 22


@pytest.mark.parametrize("way", [{}, IN_BATCHES])
def test_generate_answer_that_nobody_foresaw_ends_one_request_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    read = read_completion

    def unforeseen(answer: Any, prompt: Any, *more: Any) -> Any:
        if prompt.text == "text 5":
            raise ZeroDivisionError(f"in {KEY}")
        return read(answer, prompt, *more)

    monkeypatch.setattr(openai_api, "read_completion", unforeseen)
    with Server(latency=0.05) as server:
        texts = [f"text {i}" for i in range(10)]
        _, counts, said = run(toy_study.study(tmp_path, server.url, texts, chat=True, api_key_env="MY_KEY", **way))
    assert (counts.answered, counts.failed) == (9, 1)
    assert "failed 1 times: the answer cannot be read (ZeroDivisionError: in [key])" in said


# ---------------------------------------------------------------- size


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("gzip-bomb", "larger than 8 MB"), ("too-large", "larger than 8 MB"), ("too-long", "too many for max_tokens 9")],
)
def test_generate_answer_beyond_all_size_is_a_failure_and_stays_out_of_the_files(
    tmp_path: Path, fault: str, reason: str
) -> None:
    row, _, _ = asked(tmp_path, f"fault:{fault}")
    assert reason in row["error"] and pd.isna(row["text"])
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 500_000


def test_generate_header_beyond_all_size_is_a_failure_with_a_reason(tmp_path: Path) -> None:
    row, _, _ = asked(tmp_path, "fault:header-too-large")
    assert row["error"] and len(row["error"]) < 600


def test_generate_long_error_is_redacted_before_it_is_cut(tmp_path: Path) -> None:
    row, said, _ = asked(tmp_path, "fault:long-error", api_key_env="MY_KEY")
    assert len(row["error"]) <= 600 and "[key]" in row["error"]
    assert "sk-" not in row["error"] + said


# ---------------------------------------------------------------- the terminal


def test_generate_control_characters_of_a_server_never_reach_the_terminal(tmp_path: Path) -> None:
    row, said, _ = asked(tmp_path, "fault:terminal-error")
    assert r"\x1b[2J" in row["error"] and r"\x07" in row["error"] and r"\u202e" in row["error"]
    for shown in (row["error"], said):
        assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
    row, said, _ = asked(tmp_path / "text", "fault:terminal")
    assert "\x1b[2J" in row["text"] and "\x1b" not in said  # what was answered is kept as it was answered


@pytest.mark.slow
def test_command_line_shows_control_characters_as_escapes(tmp_path: Path) -> None:
    content = {"models": {"toy": {"backend": "scripted", "rule": "none"}}, "run": ["toy"], "audits": ["personas"]}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "markedness", "generate", "personas", "--model", "\x1b[31mred"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ)
    assert done.returncode == 2 and r"\x1b[31mred" in done.stderr and "\x1b" not in done.stdout + done.stderr


# ---------------------------------------------------------------- keys


def test_generate_dummy_key_changes_nothing_that_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a tested breakfast", "fault:400"]
    tables = []
    for key in ("", "e", "test", "sk-local", "stop"):
        monkeypatch.setenv("DUMMY", key or "x")
        with Server() as server:
            server.served_model = "best-of-the-rest"
            settings: dict[str, Any] = {"api_key_env": "DUMMY"} if key else {}
            tables.append(run(toy_study.study(tmp_path / f"k{key}", server.url, texts, **settings))[0])
            sent = {head.get("authorization") for head in server.heads}
            assert sent == ({f"Bearer {key}"} if key else {None})
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_generate_home_folder_in_a_completion_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/river")
    with Server() as server:
        server.prefix = "/river/home "
        table, _, _ = run(toy_study.study(tmp_path, server.url, ["a"]))
    assert table["text"].iloc[0].startswith("/river/home ")


def test_generate_finish_reason_is_a_word_or_unknown(tmp_path: Path) -> None:
    row, _, _ = asked(tmp_path, "fault:finish-key", api_key_env="MY_KEY")
    assert row["finish_reason"] == "unknown" and pd.isna(row["error"])
    row, _, _ = asked(tmp_path / "b", "fine")
    assert row["finish_reason"] == "stop"


def test_generate_no_part_of_the_key_stays_in_an_error_or_finish_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, said, _ = asked(tmp_path, "fault:key-parts", api_key_env="MY_KEY")
    assert row["error"] == "HTTP 400: bad key ending [key] / upper [key] / end [key]"
    assert "planted" not in said.lower() and "23456789" not in said
    key = "correct-horse-battery-staple"
    monkeypatch.setenv("MY_KEY", key)
    row, _, _ = asked(tmp_path / "letters", "fault:finish-key-alone", api_key_env="MY_KEY")
    assert row["finish_reason"] == "unknown" and pd.isna(row["error"])


def test_generate_another_model_than_was_asked_is_named(tmp_path: Path) -> None:
    sentence = "toy toy: toy-model was asked, but the server reports for 2 answers that gpt-2-tiny-cheap gave them"
    for name, told in (("gpt-2-tiny-cheap", True), ("toy-model-2026-01-01", False), ("org/Toy-Model:latest", False)):
        with Server() as server:
            server.served_model = name
            _, _, said = run(toy_study.study(tmp_path / str(len(name)), server.url, ["a", "b"]))
        assert (sentence in said.splitlines()) == told and ("was asked, but" in said) == told


def test_is_other_model_compares_names_without_folders_versions_and_files() -> None:
    same = [("gpt-4o", "gpt-4o-2024-08-06"), ("mistral-large-latest", "mistral-large-2407"),
            ("llama3", "llama3:latest"), ("gemini-2.0-flash", "models/gemini-2.0-flash-001"),
            ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"), ("any", "/models/other.gguf"), ("any", "~/other.gguf"),
            ("any", "other-Q4_K_M.gguf")]  # fmt: skip
    others = [("gpt-4", "gpt-4o-mini"), ("gpt-4", "gpt-4-turbo"), ("fake", "gpt-2-tiny-cheap"), ("llama-3", "llama-2"),
              ("llama-3.1-8b", "llama-3.1-70b")]  # fmt: skip
    assert not [pair for pair in same if served_by.is_other_model(*pair)]
    assert not [pair for pair in others if not served_by.is_other_model(*pair)]


def test_reported_names_one_other_model_several_or_none() -> None:
    told = "new was asked, but the server reports for 29 of 158 answers that old gave them."
    assert served_by.reported("new", {"new": 129, "old": 29}) == told
    assert served_by.reported("new", {"new-2026": 2, "new-2027": 1}).startswith("The server reported several models (")
    assert served_by.reported("new", {"new-2026": 2, "": 1}) == served_by.reported("", {"any": 3}) == ""


def test_generate_answer_that_was_broken_off_is_a_failure(tmp_path: Path) -> None:
    row, _, _ = asked(tmp_path, "fault:broken-off")
    assert "broke the answer off" in row["error"] and pd.isna(row["text"])


def test_generate_finish_reason_of_the_project_itself_is_not_taken_from_a_server(tmp_path: Path) -> None:
    row, _, _ = asked(tmp_path, "fault:finish-own")
    assert row["finish_reason"] == "unknown" and pd.isna(row["error"])


def test_generate_key_that_no_header_can_carry_is_refused_without_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("schlüssel-0123456789", "two words-0123456789", "line\nbreak-0123456789"):
        monkeypatch.setenv("MY_KEY", key)
        with Server() as server:
            with pytest.raises(ModelError, match="MY_KEY holds characters that no HTTP header can carry") as refused:
                run(toy_study.study(tmp_path, server.url, ["a"], api_key_env="MY_KEY"))
            assert "0123456789" not in str(refused.value) and server.connections == 0


def test_generate_base_url_of_the_environment_is_not_obeyed_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        with pytest.raises(ModelError, match="OPENAI_BASE_URL is set, but params alone say who is asked"):
            run(toy_study.study(tmp_path, None, ["a"]))
        assert server.connections == 0


def test_generate_no_variable_of_the_environment_becomes_a_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "OPENAI_CUSTOM_HEADERS": "api-key: planted-1\nAuthorization: Bearer planted-2\nUser-Agent: planted-3",
        **{f"OPENAI_{name}": f"planted-{name}" for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID")},
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for settings in ({}, {"api_key_env": "MY_KEY"}, {"batch_api": True, "batch_poll": 0.01, "chat": True}):
        with Server() as server:
            run(toy_study.study(tmp_path / "-".join(["s", *settings]), server.url, ["a"], **settings))
            heads = server.heads + server.batch_heads
        assert heads and "planted-" not in str(heads).replace(KEY, "")
        assert {head.get("authorization") for head in heads} == (
            {f"Bearer {KEY}"} if settings.get("api_key_env") else {None}
        )
    assert all(os.environ[name] == value for name, value in variables.items())
    assert Endpoint("there", DEFAULT_URL, "OPENAI_API_KEY", 1).client.api_key == "planted-API_KEY"
    client = Endpoint("there", DEFAULT_URL, "MY_KEY", 1).client
    sent = {name.lower(): value for name, value in client.default_headers.items()}
    assert sent["openai-organization"] == "planted-ORG_ID" and sent["openai-project"] == "planted-PROJECT_ID"
    assert "api-key" not in sent and client.auth_headers == {"Authorization": f"Bearer {KEY}"}


# ---------------------------------------------------------------- Retry-After


@pytest.mark.parametrize("fault", ["429-absurd-zone", "429-absurd-year"])
def test_generate_absurd_retry_after_is_as_if_none_was_sent(tmp_path: Path, fault: str) -> None:
    row, _, _ = asked(tmp_path, f"fault:{fault}*1")
    assert pd.isna(row["error"]) and row["text"]


def test_retry_after_absurd_dates_are_none() -> None:
    for value in ("Wed, 21 Oct 2015 07:28:00 +99999999", "Wed, 21 Oct 99999 07:28:00 GMT", "nan", "inf", "9" * 5000):
        assert retry_after({"retry-after": value}) is None or value.startswith("9")


# ---------------------------------------------------------------- the table in the documentation


def test_faults_page_names_tests_that_exist() -> None:
    root = Path(__file__).parents[2]
    lines = (root / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and "test_" in line]
    sources = "".join(path.read_text(encoding="utf-8") for path in (root / "tests").rglob("test_*.py"))
    assert len(rows) > 30
    for row in rows:
        assert len(row) == 3, row
        for name in row[2].replace("`", "").split(", "):
            assert f"def {name}(" in sources, name


# ---------------------------------------------------------------- answers that nobody asked for


def test_generate_answer_that_nobody_asked_for_ends_the_run_and_says_what_is_to_be_asked_again(tmp_path: Path) -> None:
    """On a connection that is kept open it would be read as the answer to the next request."""
    with Server() as server:
        texts = ["fault:twice", *(f"answered {n}" for n in range(6))]
        params = toy_study.study(tmp_path, server.url, texts, concurrency=1)
        with pytest.raises(ModelError, match=r"an answer that nobody asked for.*set served_by of the model"):
            run(params)


def test_answer_to_a_request_that_is_given_up_as_it_comes_is_no_answer_that_nobody_asked_for() -> None:
    """Ctrl-C at that moment ended with the sentence above, which has everything asked again."""

    question = {"model": "toy", "messages": [{"role": "user", "content": "Who?"}]}

    async def given_up(url: str) -> bool:
        async with transport.guarded_client(60.0) as client:
            assert isinstance(client, transport.GuardedClient)
            asking = asyncio.create_task(client.post(url, json=question))
            while not asking.done():
                held = [protocol for connector in client.connectors for protocol in connector._acquired]
                if any(getattr(protocol, "_buffer", None) for protocol in held):  # it is there, and not read yet
                    asking.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await asking
                    await client.aclose()
                    return True
                await asyncio.sleep(0)
        return False

    with Server() as server:
        assert any(asyncio.run(given_up(f"{server.url}/chat/completions")) for _ in range(50))
