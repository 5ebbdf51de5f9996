"""Several servers filled at a time: into the ledger alone, none held up by another, nothing paid twice."""

from __future__ import annotations

import contextlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents import AXES, ROOT, SMALL, Study, merged
from tests.servers.openai_server import Server
from typer.testing import CliRunner

from markedness import fill, generation
from markedness import params as params_file
from markedness.cli import app
from markedness.params import Params, ParamsError
from markedness.store import Store

SIZE = 40
"""Requests of one audit of one model: 4 groups, 10 samples."""


def study(folder: Path, models: dict[str, Server | dict[str, Any]], **more: Any) -> Params:
    """A study of a model per server; in place of a server, a whole block of models."""
    blocks = {
        name: {"backend": "openai", "model": f"{name}-model", "base_url": one.url, "seed": True, "concurrency": 4}
        if isinstance(one, Server)
        else one
        for name, one in models.items()
    }
    personas = {"axes": AXES, "generate": {"prompts": ["imagine_yourself"], "samples": 10, "max_tokens": 20}}
    content = {"audits": ["personas"], "models": blocks, "personas": personas, **more}
    folder.mkdir(exist_ok=True)
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return params_file.load(folder / "params.yaml")


def block(server: Server, **more: Any) -> dict[str, Any]:
    return {"backend": "openai", "model": "toy", "base_url": server.url, "seed": True, "concurrency": 4, **more}


def answered(server: Server) -> int:
    """Answers that the server gave; AssertionError where it gave one twice."""
    assert set(server.answered.values()) <= {1}
    return len(server.answered)


def in_ledger(params: Params, model: str) -> int:
    path = Store(params.root).ledger_database(model)
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        return int(base.execute("SELECT count(*) FROM answers").fetchone()[0])


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Three servers of different latencies that share a log of requests."""
    with ExitStack() as stack:
        running = [stack.enter_context(Server(latency=latency)) for latency in (0.005, 0.01, 0.02)]
        for server in running[1:]:
            server.log = running[0].log
        yield running


def test_fill_three_servers_are_asked_side_by_side_and_generate_asks_nothing(
    servers: list[Server], tmp_path: Path
) -> None:
    params = study(tmp_path, dict(zip("abc", servers, strict=True)))
    said: list[str] = []
    assert fill.fill(params, say=said.append)
    log = servers[0].log
    assert len(log) == 3 * SIZE == sum(map(answered, servers))
    spans = [(log.index(one), len(log) - 1 - log[::-1].index(one)) for one in servers]
    assert max(first for first, _ in spans) < min(last for _, last in spans)  # each begins before any has ended
    assert not (tmp_path / "data").exists()  # the ledger alone is written
    assert said[-1] == "fill: 3 of 3 audits of models complete"
    for model in "abc":
        assert f"personas {model}: 40 requested, 40 answered (0 of them from the ledger), 0 failed" in said
    probes = [server.probes for server in servers]
    for model in "abc":
        counts = generation.generate(params, "personas", model, said.append)
        assert (counts.from_ledger, counts.failed) == (SIZE, 0)
    assert len(log) == 3 * SIZE and probes == [server.probes for server in servers]


def test_fill_rounds_that_depend_on_answers_are_all_asked(servers: list[Server], tmp_path: Path) -> None:
    crawl = {
        "axes": {"religion": {"unmarked": "Christians", "values": {"Christians": {}, "Muslims": {}, "Jews": {}}}},
        "generate": {"completions": 2, "rounds": 2, "draws": 2, "max_resamples": 1},
    }
    for server in servers:
        server.prefix = "are kind to the "
    params = study(tmp_path, dict(zip("abc", servers, strict=True)), audits=["knowledge"], knowledge=crawl)
    assert fill.fill(params, say=lambda line: None)
    asked = sum(map(answered, servers))
    for model in "abc":
        counts = generation.generate(params, "knowledge", model, lambda line: None)
        assert counts.from_ledger == counts.requested == counts.answered
        rounds = Store(params.root).read_table("generations", "knowledge", model)["round"]
        assert set(rounds) == {0, 1, 2}
    assert sum(map(answered, servers)) == asked


def test_fill_one_server_that_is_down_or_refuses_is_one_sentence_and_stops_no_other(
    servers: list[Server], tmp_path: Path
) -> None:
    with Server() as down:
        pass
    servers[1].always = "401"
    models: dict[str, Any] = {
        "good": servers[0], "refused": servers[1], "down": down, "beside": block(down, model="beside"),
        "control-none": {"backend": "scripted"},
    }  # fmt: skip
    homogeneity = {"generate": {"cues": ["sports"], "names_per_group": 2, "samples": 1}}
    params = study(tmp_path, models, audits=["personas", "homogeneity"], homogeneity=homogeneity)
    said: list[str] = []
    assert not fill.fill(params, say=said.append)
    errors = [line for line in said if "error:" in line]
    assert len(errors) == 2
    refused, unreachable = sorted(errors, key=lambda line: "connection refused" in line)
    assert refused.startswith("personas refused: error: ") and "HTTP 401" in refused
    assert refused.endswith("; not asked either: homogeneity refused")
    assert unreachable.startswith("personas down: error: ")
    assert unreachable.endswith("; not asked either: homogeneity down, personas beside, homogeneity beside")
    assert said[0] == "fill: no server is asked for control-none (scripted); left to 'dvc repro'"
    assert said[-1] == "fill: 2 of 8 audits of models complete; run again to ask for the rest"
    assert in_ledger(params, "good") == answered(servers[0]) > SIZE


def test_fill_audit_whose_sampling_is_refused_does_not_end_the_model(servers: list[Server], tmp_path: Path) -> None:
    servers[0].always = "422"
    homogeneity = {"generate": {"cues": ["sports"], "names_per_group": 2, "samples": 1}}
    params = study(tmp_path, {"a": servers[0]}, audits=["personas", "homogeneity"], homogeneity=homogeneity)
    said: list[str] = []
    assert not fill.fill(params, say=said.append)
    assert [line.split(":")[0] for line in said if "error:" in line] == ["personas a", "homogeneity a"]


def test_fill_budget_ends_one_audit_of_one_model_and_the_next_fill_goes_on(
    servers: list[Server], tmp_path: Path
) -> None:
    params = study(tmp_path, {"a": block(servers[0], max_requests=25), "b": servers[1]})
    said: list[str] = []
    assert not fill.fill(params, say=said.append)
    assert any(line.startswith("personas a: error: max_requests reached: stopped after 25 requests") for line in said)
    assert (in_ledger(params, "a"), in_ledger(params, "b")) == (25, SIZE)
    assert fill.fill(params, say=said.append)
    assert (answered(servers[0]), answered(servers[1])) == (SIZE, SIZE)


def test_fill_failures_beyond_the_tolerated_are_named_and_asked_again(servers: list[Server], tmp_path: Path) -> None:
    servers[0].capacity = 0
    params = study(tmp_path, {"a": block(servers[0], max_attempts=1), "b": servers[1]})
    said: list[str] = []
    assert not fill.fill(params, say=said.append)
    assert "personas a: failed 40 times: HTTP 429: too many requests at once (1 attempts)" in said
    servers[0].capacity = None
    assert fill.fill(params, say=said.append)
    assert answered(servers[0]) == answered(servers[1]) == SIZE


def test_fill_of_models_and_audits_by_name_asks_for_these_alone(servers: list[Server], tmp_path: Path) -> None:
    params = study(tmp_path, dict(zip("abc", servers, strict=True)))
    assert fill.fill(params, ["b"], ["personas"], say=lambda line: None)
    assert [server.connections > 0 for server in servers] == [False, True, False]


def test_fill_batch_endpoint_has_a_queue_beside_the_other_models_of_its_server(
    servers: list[Server], tmp_path: Path
) -> None:
    batched = block(servers[0], model="batched", batch_api=True, batch_poll=0.01)
    params = study(tmp_path, {"a": batched, "b": servers[0], "c": block(servers[0], model="other")})
    assert list(fill.by_server(params, "abc", print).values()) == [["a"], ["b", "c"]]
    assert fill.fill(params, say=lambda line: None)
    assert answered(servers[0]) == 3 * SIZE


def test_fill_command_exits_1_where_something_is_missing_and_a_dry_run_asks_nothing(
    servers: list[Server], tmp_path: Path
) -> None:
    params = study(tmp_path, {"a": block(servers[0], max_requests=25)})
    words = ["fill", "--params", str(params.path)]
    shown = CliRunner().invoke(app, [*words, "--dry-run"])
    assert shown.exit_code == 0 and "personas a: 40 requests, 0 of them in the ledger, 40 to be asked" in shown.output
    assert servers[0].connections == 0
    assert [CliRunner().invoke(app, words).exit_code for _ in range(2)] == [1, 0]
    unknown = CliRunner().invoke(app, [*words, "--audit", "person"]).exception
    assert isinstance(unknown, ParamsError) and "'person' is not an audit; known: personas" in str(unknown)


def command(params: Params, *words: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-u", "-m", "markedness", *words, "--params", str(params.path)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    try:
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("signal_sent", [signal.SIGKILL, signal.SIGINT])
def test_fill_killed_half_way_asks_only_for_what_lacks(
    servers: list[Server], tmp_path: Path, signal_sent: signal.Signals
) -> None:
    for server, many in zip(servers, (30, 20, 10), strict=True):
        server.hold_after = many
    params = study(tmp_path, dict(zip("abc", servers, strict=True)))
    with command(params, "fill") as running:
        try:
            for server, model in zip(servers, "abc", strict=True):
                assert server.holding.wait(timeout=300)
                while server.held < server.in_flight or in_ledger(params, model) < len(server.answered):
                    time.sleep(0.01)  # until no answer is under way
            running.send_signal(signal_sent)
            output = running.communicate()[0]
        finally:
            running.kill()
    assert running.returncode != 0 and "Traceback" not in output
    assert signal_sent == signal.SIGKILL or "interrupted; what was answered is in the ledger" in output
    kept = [in_ledger(params, model) for model in "abc"]
    assert kept == list(map(answered, servers)) and all(0 < one < SIZE for one in kept)
    for server in servers:
        server.hold_after = None
    said: list[str] = []
    assert fill.fill(params, say=said.append)
    for model, many in zip("abc", kept, strict=True):
        assert f"personas {model}: 40 requested, 40 answered ({many} of them from the ledger), 0 failed" in said
    assert list(map(answered, servers)) == [SIZE] * 3


@pytest.mark.slow
def test_fill_while_another_fill_and_a_generate_run_pays_for_nothing_twice(
    servers: list[Server], tmp_path: Path
) -> None:
    for server in servers:
        server.hold_after = 5
    params = study(tmp_path, dict(zip("abc", servers, strict=True)))
    with command(params, "fill") as first:
        assert all(server.holding.wait(timeout=300) for server in servers)
        with command(params, "fill") as second, command(params, "generate", "personas", "--model", "b") as third:
            try:
                waiting = [read_until(second, "waiting for", 3), read_until(third, "waiting for", 1)]
                for server in servers:
                    server.release()
                rest = [one.communicate()[0] for one in (first, second, third)]
            finally:
                for one in (first, second, third):
                    one.kill()
    assert all("answers that another run is asking for" in text for text in waiting), waiting
    assert [one.returncode for one in (first, second, third)] == [0, 0, 0], rest
    assert list(map(answered, servers)) == [SIZE] * 3
    assert len(Store(params.root).read_table("generations", "personas", "b")) == SIZE


@pytest.mark.slow
def test_fill_then_dvc_repro_asks_no_server(servers: list[Server], tmp_path: Path) -> None:
    pytest.importorskip("dvc", reason="skipped: DVC is not installed (pip install 'markedness[dev]')")
    models = {name: block(server, model=name) for name, server in zip("abc", servers, strict=True)}
    shipped = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    content = {"audits": ["personas", "homogeneity"], "run": [*models], "models": models}
    repository = Study.create(tmp_path / "study", merged(merged(shipped, SMALL), content), {})
    repository.sh("markedness fill")
    asked, probes = [dict(server.answered) for server in servers], [server.probes for server in servers]
    assert all(sum(one.values()) == len(one) > 16 for one in asked)
    repository.sh("dvc repro generate")
    assert [server.answered for server in servers] == asked and [server.probes for server in servers] == probes
    assert len(list((tmp_path / "study" / "data" / "generations").glob("*/*.parquet"))) == 6


def read_until(process: subprocess.Popen[str], words: str, times: int) -> str:
    """What a process printed until it said this so often."""
    assert process.stdout is not None
    read = ""
    while len(re.findall(words, read)) < times:
        line = process.stdout.readline()
        assert line, read
        read += line
    return read
