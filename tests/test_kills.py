"""Stages killed before a write, or run twice at a time: old results or new ones, whole, and one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from tests.test_study import CONTENT, run

from markedness.store import Store

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
KILLED = """
# One process that forks for every kill, so that packages are imported once. Audit events count the writes.
import json, os, shutil, signal, sys
from pathlib import Path
from markedness import params, provenance, study
from markedness.reporting import comparisons, figures, report

stage, root, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
loaded = params.load(root / "params.yaml")
WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "ctypes.dlsym"}

def attempt(kill_at):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    count = 0
    def hook(event, arguments):
        nonlocal count
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in WRITES or (writes and str(arguments[0]).startswith(str(root))):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    getattr(study, stage)(loaded, say=lambda _: None)
    (root / "writes").write_text(str(count))
    os._exit(0)

def reset():
    # what a kill left would be removed by the next attempt, whose writes would then not be those that were counted
    for path in (folder, *folder.parent.glob(f".{folder.name}.*"), *folder.parent.glob(".headline*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    folder.mkdir()
    (folder / "old.csv").write_text("old")
    return provenance.md5(folder)

reset()
assert attempt(0) == 0
writes, new = int((root / "writes").read_text()), provenance.md5(folder)
found = []
for kill_at in (1, writes // 2, *range(writes - 4, writes + 1)):  # the last ones: the exchange and what follows it
    old = reset()
    status = attempt(kill_at)
    found.append((status, {old: "old", new: "new"}.get(provenance.md5(folder), "neither")))
assert attempt(0) == 0
print(json.dumps({"found": found, "again": provenance.md5(folder) == new}))
"""
HELD = {
    "evaluate": ("markedness.audits.personas.evaluate", "evaluate", "pipeline.evaluate(loaded, 'personas', 'none')"),
    "compare": ("markedness.study", "_compare", "study.compare(loaded)"),
    "track": ("markedness.tracking", "_log", "study.track(loaded)"),
}
"""Stage -> the module and function in whose first call it is held, and the call."""


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two scripted models, run."""
    folder = tmp_path_factory.mktemp("killed")
    content = {**CONTENT, "run": ["none", "planted"]}
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    run(folder, "none", "planted")
    return folder


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}


@pytest.mark.parametrize("stage", ["compare", "report"])
def test_stage_killed_before_a_write_leaves_old_or_new_whole_and_the_next_cleans_up(
    study_folder: Path, stage: str
) -> None:
    store = Store(study_folder)
    folder = {"compare": store.compared(), "report": store.reports()}[stage]
    command = [sys.executable, "-c", KILLED, stage, str(study_folder), str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    made = json.loads(done.stdout)
    assert made["again"]
    assert {status for status, _ in made["found"]} == {9}
    assert {state for _, state in made["found"]} == {"old", "new"}
    left = [path.name for path in study_folder.rglob(".*") if ".part-" in path.name or ".new" in path.name]
    assert left == []


@contextmanager
def held(folder: Path, stage: str) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of a stage; it goes on when it is sent a line."""
    module, function, call = HELD[stage]
    script = (
        f"import sys, {module} as held; from markedness import params, pipeline, study\n"
        f"real = held.{function}\n"
        "def waiting(*given):\n"
        f"    held.{function} = real; print('held', flush=True); sys.stdin.readline(); return real(*given)\n"
        f"held.{function} = waiting; loaded = params.load('params.yaml'); {call}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=folder, env=environment(), text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("stage", ["evaluate", "compare"])
def test_stage_while_another_process_runs_it_is_one_sentence_and_harms_nothing(study_folder: Path, stage: str) -> None:
    folder = {"evaluate": "results/personas/none", "compare": "results/compare"}[stage]
    more = ["personas", "--model", "none"] if stage == "evaluate" else []
    with held(study_folder, stage) as first:
        second = subprocess.run(
            [sys.executable, "-m", "markedness", stage, *more], cwd=study_folder, env=environment(),
            capture_output=True, text=True,
        )  # fmt: skip
        assert second.returncode == 1
        assert second.stderr == f"error: {folder}: another run is writing it; wait until that ends, or stop it\n"
        _, complaints = first.communicate("go on\n")
        assert first.returncode == 0, complaints
    assert list((study_folder / folder).glob("*.csv"))


def test_track_while_another_process_tracks_waits_and_logs_nothing_twice(study_folder: Path) -> None:
    from mlflow import MlflowClient

    with held(study_folder, "track") as first:
        second = subprocess.Popen(
            [sys.executable, "-m", "markedness", "track"], cwd=study_folder, env=environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert second.stdout is not None
        assert second.stdout.readline() == "track: another run is writing it; waiting until that ends\n"
        _, complaints = first.communicate("go on\n")
        assert first.returncode == 0, complaints
        said, complaints = second.communicate()
        assert second.returncode == 0, complaints
    assert said == "track: nothing changed, nothing logged\n"
    client = MlflowClient(f"sqlite:///{study_folder}/mlflow.db")
    experiment = client.get_experiment_by_name("markedness")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.kind = 'model'")
    assert sorted(run.data.tags["model"] for run in runs) == ["none", "planted"]
