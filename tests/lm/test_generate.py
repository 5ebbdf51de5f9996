"""The generate stage against a loopback server: faults, kills, budgets, dry runs, secrets."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
import yaml
from tests.lm import toy_study
from tests.servers.openai_server import Server

from markedness import generation
from markedness import params as params_file
from markedness.lm.base import ModelError
from markedness.lm.plan import Counts
from markedness.lm.run import BudgetError

KEY = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def run(params: Any) -> tuple[pd.DataFrame, Counts, list[str]]:
    said: list[str] = []
    counts = generation.generate(params, "toy", "toy", said.append)
    assert counts.requested == counts.answered + counts.failed
    return pd.read_parquet(table_of(params)), counts, said


def table_of(params: Any) -> Path:
    return Path(params.root) / "data" / "generations" / "toy" / "toy.parquet"


RECOVERED = [
    "429", "429-retry-after", "429-date", "408", "409", "500", "502", "503", "reset", "reset-body", "slow-headers",
    "slow-body",
]  # fmt: skip
RECORDED = {
    "invalid-json": "not JSON", "truncated-json": "not JSON", "not-utf8": "not JSON", "schema": "no choices",
    "error-in-200": "the provider is away",
    "list": "no choices", "number": "not text", "empty": "empty", "null": "empty", "content-filter": "content filter",
    "context": "context too long", "400": "HTTP 400", "404": "HTTP 404", "401": "HTTP 401", "500": "HTTP 500",
    "reset": "connection failed", "slow-body": "no answer within",
}  # fmt: skip


@pytest.mark.slow
def test_generate_every_fault_is_recovered_or_recorded_and_none_becomes_text(tmp_path: Path) -> None:
    texts = [f"fault:{fault}*1 passing" for fault in RECOVERED] + [f"fault:{fault}" for fault in RECORDED]
    texts += ["fault:fingerprint", "fault:length", "fault:html", "no fault"]
    with Server() as server:
        params = toy_study.study(
            tmp_path, server.url, texts, timeout=1.5, max_attempts=3, max_wait=1.5, chat=True, concurrency=32
        )
        table, counts, said = run(params)
    assert counts.requested == len(texts) and counts.failed == len(RECORDED)
    assert list(table["prompt"]) == texts
    by_prompt = table.set_index("prompt")
    for fault in RECOVERED:
        row = by_prompt.loc[f"fault:{fault}*1 passing"]
        assert str(row["text"]).startswith("river") and pd.isna(row["error"])
    for fault, reason in RECORDED.items():
        row = by_prompt.loc[f"fault:{fault}"]
        assert pd.isna(row["text"]) and reason in row["error"]
        assert any(reason in line and "failed" in line for line in said)
    assert by_prompt.loc["fault:fingerprint", "fingerprint"] == "fp_two"
    assert any("2 fingerprints" in line and "fp_two" in line for line in said)
    assert by_prompt.loc["fault:length", "finish_reason"] == "length"
    assert by_prompt.loc["no fault", "served_model"] == "toy-model-served"


def test_generate_resumed_table_is_the_uninterrupted_table(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(30)]
    with Server() as server:
        whole = toy_study.study(tmp_path / "whole", server.url, texts, samples=2, rounds=2)
        run(whole)
        resumed = toy_study.study(tmp_path / "resumed", server.url, texts, samples=2, rounds=2, max_requests=25)
        for _ in range(4):
            with pytest.raises(BudgetError, match="what was answered is in the ledger"):
                run(resumed)
            assert not table_of(resumed).exists()
        _, counts, _ = run(resumed)
    assert (counts.from_ledger, counts.answered) == (100, 120)
    assert table_of(resumed).read_bytes() == table_of(whole).read_bytes()
    assert server.stats()["answered"] == 240


def kill(folder: Path, url: str, *options: str) -> list[int]:
    """Kill a study as often as told; kills, and what the run that ended counted."""
    command = [sys.executable, toy_study.__file__, str(folder), url, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stderr == ""
    return [int(number) for number in done.stdout.split()]


@pytest.mark.slow
def test_generate_killed_a_hundred_times_loses_nothing_and_asks_nothing_again(
    start_server: Callable[..., Any], tmp_path: Path
) -> None:
    server = start_server("--latency", "0.005", "--jitter", "0.02")
    kills, requested, answered, failed, known = kill(
        tmp_path / "killed", server.url, "--requests", "2000", "--kills", "100"
    )
    assert (requested, answered, failed) == (2000, 2000, 0)
    assert kills > 90 and known > 500
    # Answered means: in the ledger. What the server had sent and the client had not read when it was killed is
    # asked again; that can only be what was in flight.
    stats = server.stats()
    assert stats["bodies"] == 2000
    assert stats["answered"] - 2000 <= 16 * kills
    whole = toy_study.study(tmp_path / "whole", start_server().url, [f"text {i}" for i in range(2000)])
    run(whole)
    table = tmp_path / "killed" / "data" / "generations" / "toy" / "toy.parquet"
    assert table.read_bytes() == table_of(whole).read_bytes()
    lines = (tmp_path / "killed" / "data" / "ledger" / "toy" / "toy.jsonl").read_bytes().splitlines()
    keys = [orjson.loads(line)["key"] for line in lines[1:]]
    assert len(keys) == len(set(keys)) == 2000


def persona_study(folder: Path, url: str, **model: Any) -> Path:
    """A params file of the personas audit that asks a server: 15 groups, two prompts, four samples."""
    folder.mkdir()
    asked = {"prompts": ["imagine_yourself", "first_person"], "samples": 4, "max_tokens": 20}
    toy = {"backend": "openai", "model": "toy-model", "base_url": url, "seed": True, **model}
    file = folder / "params.yaml"
    file.write_text(yaml.safe_dump({"models": {"toy": toy}, "personas": {"generate": asked}}))
    return file


@pytest.mark.slow
def test_personas_killed_twenty_times_gives_the_table_of_an_uninterrupted_run(
    start_server: Callable[..., Any], tmp_path: Path
) -> None:
    server = start_server("--latency", "0.005", "--jitter", "0.02")
    persona_study(tmp_path / "killed", server.url, concurrency=4)
    options = ("--audit", "personas", "--requests", "120", "--kills", "20")
    kills, requested, answered, failed, known = kill(tmp_path / "killed", server.url, *options)
    assert (requested, answered, failed) == (120, 120, 0) and kills > 15 and known > 20
    assert server.stats()["bodies"] == 120
    whole = params_file.load(persona_study(tmp_path / "whole", start_server().url))
    counts = generation.generate(whole, "personas", "toy", lambda line: None)
    assert counts.answered == 120
    tables = [tmp_path / name / "data" / "generations" / "personas" / "toy.parquet" for name in ("killed", "whole")]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def command_line(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", "markedness", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_command_line_exit_status_and_output_tell_what_failed(tmp_path: Path) -> None:
    with Server() as server:
        file = str(persona_study(tmp_path / "good", server.url))
        status, output = command_line("generate", "personas", "--model", "toy", "--params", file, "--dry-run")
        assert status == 0 and "120 requests, 0 of them in the ledger" in output and "cost unknown" in output
        assert server.connections == 0
        file = str(persona_study(tmp_path / "stopped", server.url, max_requests=7))
        status, output = command_line("generate", "personas", "--model", "toy", "--params", file)
        assert status == 1 and "error: max_requests reached: stopped after 7 requests" in output
        assert "Traceback" not in output
    file = str(persona_study(tmp_path / "down", server.url, max_attempts=1))
    status, output = command_line("generate", "personas", "--model", "toy", "--params", file)
    assert status == 1 and "connection refused: no server listens there" in output and "Traceback" not in output


def test_generate_dry_run_says_requests_tokens_and_cost_and_asks_nothing(tmp_path: Path) -> None:
    # 10 texts of 8 bytes are 2 tokens each by 4 bytes a token: 3 samples, 30 requests: 60 tokens in, 30 * 9 out.
    # At 1 and 2 a million: (60 + 540) / 1e6 = 0.0006.
    said: list[str] = []
    with Server() as server:
        price = {"toy-model": {"input": 1, "output": 2}}
        params = toy_study.study(tmp_path, server.url, [f"12345 {i:02}" for i in range(10)], samples=3, prices=price)
        generation.forecast(params, "toy", "toy", said.append)
        assert server.connections == 0 and not (tmp_path / "data").exists()
        assert "30 requests, 0 of them in the ledger, 30 to be asked" in said[0]
        assert "about 60 tokens in" in said[1] and "at most 270 out" in said[1] and "at most 0.0006" in said[1]
        run(params)
        said.clear()
        generation.forecast(params, "toy", "toy", said.append)
        assert "30 of them in the ledger, 0 to be asked" in said[0]
        params = toy_study.study(tmp_path / "b", server.url, ["a"])
        said.clear()
        generation.forecast(params, "toy", "toy", said.append)
        assert "cost unknown" in said[1]


def test_generate_max_cost_without_a_price_is_refused_before_any_request(tmp_path: Path) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["a"], max_cost=1.0)
        with pytest.raises(ModelError, match=r"models\.toy\.max_cost: the price of toy-model is unknown"):
            run(params)
        assert server.connections == 0


def test_generate_complete_ledger_needs_no_key_and_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as server:
        params = toy_study.study(tmp_path, server.url, ["a", "b"])
        before, _, _ = run(params)
    monkeypatch.delenv("OPENAI_API_KEY")
    after, counts, _ = run(params)
    pd.testing.assert_frame_equal(after, before)
    assert counts.from_ledger == 2


def test_generate_key_reaches_no_file_and_no_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Server(echo="key") as server:
        texts = ["a", "fault:401", "fault:500", "fault:schema", "fault:invalid-json"]
        params = toy_study.study(tmp_path, server.url, texts, max_attempts=1, api_key_env="OPENAI_API_KEY")
        table, _, said = run(params)
    assert "[key]" in table["text"].iloc[0]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"params.yaml", "toy.parquet", "toy.jsonl", "toy.sqlite"}
    written = [path.read_bytes() for path in files] + [table.to_csv().encode()]
    written += ["\n".join([*said, *capfd.readouterr()]).encode()]
    for content in written:
        assert KEY.encode() not in content and b"Bearer sk" not in content
        assert str(Path.home()).encode() not in content or Path.home() == Path("/")


def test_generate_adapts_to_a_server_with_few_places(tmp_path: Path) -> None:
    with Server(latency=0.005, capacity=6) as server:
        params = toy_study.study(tmp_path, server.url, [f"t {i}" for i in range(150)], concurrency=64, max_wait=0.05)
        _, counts, _ = run(params)
        stats = server.stats()
    assert counts.failed == 0
    assert stats["repeated"] == 0 and stats["answered"] == 150
    assert stats["connections"] <= 64


@pytest.mark.slow
def test_generate_interrupted_by_hand_says_where_it_stands_and_goes_on(tmp_path: Path) -> None:
    with Server() as server:
        server.hold_after = 20  # of 120: the run then waits, and cannot end before it is interrupted
        file = str(persona_study(tmp_path / "study", server.url, concurrency=2))
        command = [sys.executable, "-m", "markedness", "generate", "personas", "--model", "toy", "--params", file]
        # Tests that run in the background of a shell ignore the signal, and so would what they start.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        finally:
            signal.signal(signal.SIGINT, before)
        with started as running:
            try:
                assert server.holding.wait(timeout=300), "the server was not asked 20 times"
                running.send_signal(signal.SIGINT)
                output = running.communicate()[0]
            finally:
                running.kill()
        answered = sum(server.answered.values())
        stated = re.search(r"(\d+) answers are in the ledger, run again to go on", output)
        assert running.returncode != 0 and stated is not None, output
        kept = int(stated[1])
        assert answered - 2 <= kept <= answered  # of two at a time, an answer may still be on its way
        assert "Traceback" not in output
        server.hold_after = None
        status, output = command_line("generate", "personas", "--model", "toy", "--params", file)
        assert status == 0 and f"120 answered ({kept} of them from the ledger)" in output
        assert sum(server.answered.values()) == 120 + answered - kept
