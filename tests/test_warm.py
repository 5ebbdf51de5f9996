"""Stages of one `dvc repro` from a process that imported what they need: same output, status, signals and files."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from markedness import warm, warm_process

PARAMS = """
audits: [annotation]
run: [control-none]
models: {control-none: {backend: scripted, rule: none}}
size: quick
"""
GENERATE = "generate --audit annotation --model control-none"
STAGE = """
import sys
from markedness.warm import hand_over
status = hand_over(["markedness", *sys.argv[1:]])
print("by itself" if status is None else f"exit status {status}")
"""
REPRO = """
import os, subprocess, sys
for line in sys.stdin:  # one command a line, as dvc runs one stage after the other
    more, _, command = line.strip().partition(" ")
    more = dict([more.split("=")]) if "=" in more else {}
    stage = subprocess.Popen([sys.executable, "-c", sys.argv[1], *command.split()], env={**os.environ, **more})
    print(stage.pid, flush=True)
    stage.wait()
    print(f"ended {stage.returncode}", flush=True)
"""


class Repro:
    """A process that runs stages one after the other, as `dvc repro` does."""

    def __init__(self, study: Path) -> None:
        self.errors = study.parent / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", REPRO, STAGE], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, cwd=study, env={**os.environ, "DVC_STAGE": "stage", "MARKEDNESS_WARM": "1"},
            )  # fmt: skip

    def start(self, command: str, more: str = "-") -> int:
        """Start a stage, with a variable ``more`` of its environment; its process."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{more} {command}\n")
        self.process.stdin.flush()
        return int(self.line())

    def line(self) -> str:
        """The next line that a stage, or the run of stages, prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[list[str], int]:
        """What the stage printed, and its exit status."""
        lines: list[str] = []
        while not (line := self.line()).startswith("ended "):
            lines.append(line)
        return lines, int(line.split()[1])

    def run(self, command: str, more: str = "-") -> list[str]:
        """Run a stage; what it printed."""
        self.start(command, more)
        return self.end()[0]

    def is_served(self) -> bool:
        """Whether a warm process serves this one."""
        return is_served(self.process.pid)

    def served_by(self) -> int:
        """The warm process that serves this one."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(warm.address(self.process.pid))
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], sys.byteorder)


def is_served(process: int) -> bool:
    """Whether a warm process serves this one."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(warm.address(process)) == 0


def wait(until: Callable[[], bool]) -> None:
    """Wait for what must come; two minutes are for a machine that is busy."""
    for _ in range(2400):
        if until():
            return
        time.sleep(0.05)
    pytest.fail("it did not come")


def is_read(pipe: Path) -> bool:
    """Whether a process reads from this pipe."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        assert error.errno == errno.ENXIO
        return False
    return True


@pytest.fixture
def study(tmp_path: Path) -> Path:
    if sys.platform != "linux" or any(Path(device).exists() for device in warm.ACCELERATORS):
        pytest.skip("stages are forks on Linux without an accelerator alone")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "params.yaml").write_text(PARAMS, encoding="utf-8")
    return tmp_path / "study"


@pytest.fixture
def repro(study: Path) -> Iterator[Repro]:
    """A run whose first stage has started the warm process."""
    made = Repro(study)
    assert made.run("params check") == ["by itself"]
    wait(made.is_served)
    yield made
    made.process.kill()
    made.process.wait()


@pytest.mark.slow
def test_stage_after_the_first_is_a_fork_with_the_output_and_files_of_a_process_of_its_own(
    repro: Repro, study: Path
) -> None:
    assert repro.run(GENERATE)[-1] == "exit status 0"
    printed = repro.run(GENERATE)  # with all answers in the ledger
    table = study / "data/generations/annotation/control-none.parquet"
    of_fork = table.read_bytes()
    alone = subprocess.run(
        [sys.executable, "-m", "markedness", *GENERATE.split()], cwd=study, capture_output=True, text=True, check=True
    )
    assert printed == [*alone.stdout.splitlines(), "exit status 0"]
    assert table.read_bytes() == of_fork


@pytest.mark.slow
def test_stage_that_fails_has_its_exit_status_and_sentence(repro: Repro) -> None:
    assert repro.run("clean --audit annotation --model nobody") == ["exit status 2"]
    assert repro.run("clean --audit annotation --model control-none") == ["exit status 1"]
    assert "'nobody' is not defined" in repro.errors.read_text(encoding="utf-8")


@pytest.mark.slow
def test_stage_with_another_environment_runs_by_itself(repro: Repro) -> None:
    assert repro.run("params check", "DVC_STAGE=another")[-1] == "exit status 0"
    assert repro.run("params check", "OMP_NUM_THREADS=3") == ["by itself"]


@pytest.mark.slow
def test_signals_of_a_stage_reach_its_fork(repro: Repro, study: Path) -> None:
    pipe = study / "pipe"
    os.mkfifo(pipe)
    for sent in (signal.SIGTERM, signal.SIGKILL):
        stage = repro.start(f"params check --params {pipe}")
        wait(lambda: is_read(pipe))
        os.kill(stage, sent)
        assert repro.end()[1] == -sent
        wait(lambda: not is_read(pipe))


@pytest.mark.slow
def test_warm_process_ends_with_the_run_that_it_serves(repro: Repro) -> None:
    assert repro.is_served()
    repro.process.kill()
    repro.process.wait()
    wait(lambda: not repro.is_served())


@pytest.mark.slow
def test_stage_whose_warm_process_is_killed_ends_with_its_fork_and_says_so(repro: Repro, study: Path) -> None:
    pipe = study / "pipe"
    os.mkfifo(pipe)
    repro.start(f"params check --params {pipe}")
    wait(lambda: is_read(pipe))
    os.kill(repro.served_by(), signal.SIGKILL)
    assert repro.end() == (["exit status 1"], 0)
    assert "run 'dvc repro' again" in repro.errors.read_text(encoding="utf-8")
    wait(lambda: not is_read(pipe))
    assert repro.run("params check") == ["by itself"]  # and starts another one
    wait(repro.is_served)


@pytest.mark.slow
def test_runs_that_another_process_started_share_the_warm_process_that_serves_it(study: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started_them:
        warm_variable = f"MARKEDNESS_WARM={started_them.pid}"
        first, second = Repro(study), Repro(study)
        try:
            assert first.run("params check", warm_variable) == ["by itself"]
            wait(lambda: is_served(started_them.pid))
            assert second.run("params check", warm_variable)[-1] == "exit status 0"
            first.process.kill()
            first.process.wait()
            assert second.run("params check", warm_variable)[-1] == "exit status 0"
        finally:
            for repro in (first, second):
                repro.process.kill()
                repro.process.wait()
        started_them.communicate(b"end")
    wait(lambda: not is_served(started_them.pid))


@pytest.mark.slow
def test_two_runs_at_a_time_have_a_warm_process_each(repro: Repro, study: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "params.yaml").write_text(PARAMS.replace("[annotation]", "[guise]"), encoding="utf-8")
    other = Repro(tmp_path / "other")
    try:
        assert other.run("params check") == ["by itself"]
        wait(other.is_served)
        assert repro.served_by() != other.served_by()
        repro.start("params resolve")
        other.start("params resolve")
        assert repro.end()[0][-1] == other.end()[0][-1] == "exit status 0"
    finally:
        other.process.kill()
        other.process.wait()
    assert [path.name for path in (study / "data/settings").iterdir()] == ["annotation.yaml"]
    assert [path.name for path in (tmp_path / "other/data/settings").iterdir()] == ["guise.yaml"]


def test_process_of_another_user_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert warm.is_own(here)
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        assert not warm.is_own(here)


def test_changed_file_or_folder_or_another_thread_is_no_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "imported_ahead.py"
    module.write_text("A = 1", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    imported = warm_process.Imported()
    imported.add(["imported_ahead", "package_that_is_not_installed"])
    assert str(Path(warm.__file__).parent / "sizes.py") in imported.files  # though this process may not have read it
    stage = warm.Stage(["markedness"], str(Path.cwd()), dict(os.environ))
    assert not imported.serves(warm.Stage(["markedness"], str(tmp_path), dict(os.environ)))
    count, before = threading.active_count, threading.active_count() - 1  # the runner of the tests may have its own
    monkeypatch.setattr(threading, "active_count", lambda: count() - before)
    held = threading.Event()
    other = threading.Thread(target=held.wait)
    assert imported.serves(stage)
    other.start()
    try:
        assert not imported.serves(stage)
    finally:
        held.set()
        other.join()
    module.write_text("A = 12", encoding="utf-8")
    assert not imported.serves(stage)
    sys.modules.pop("imported_ahead")


def test_stage_is_not_handed_over_without_dvc_or_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(warm, "_start", started.append)
    for there, missing in (("DVC_STAGE", "MARKEDNESS_WARM"), ("MARKEDNESS_WARM", "DVC_STAGE")):
        monkeypatch.setenv(there, "1")
        monkeypatch.delenv(missing, raising=False)
        assert warm.hand_over(["markedness", "params", "check"]) is None
    assert not started
    monkeypatch.setenv("DVC_STAGE", "1")
    monkeypatch.setattr(warm, "ACCELERATORS", (str(Path(__file__)),))
    assert warm.hand_over(["markedness", "params", "check"]) is None
    assert not started
