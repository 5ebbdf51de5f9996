"""Experiments, and stages side by side, pay for every answer once; each experiment is one MLflow run per model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.documents import ROOT, Study, small
from tests.servers.openai_server import Server

pytestmark = pytest.mark.slow

IN_WORKSPACE = {"six": 6, "seven": 7}
QUEUED = {"eight": 8, "nine": 9}


def test_larger_samples_as_experiments_ask_each_answer_once_and_are_one_run_each(tmp_path: Path) -> None:
    """4 samples, then 6 and 7 in the workspace, 8 and 9 in the queue: what 9 samples need is asked, once."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["models"] = {"my-model": {"backend": "openai", "model": "test-model"}}
    with Server() as server:
        study = Study.create(tmp_path / "study", small(params, server.url), {"OPENAI_API_KEY": "sk-of-the-reader"})
        study.sh("dvc repro\ngit add dvc.lock params.yaml\ngit commit -m 'Run the study'")
        assert sum(server.answered.values()) == 4 * 4  # groups, samples
        for name, samples in IN_WORKSPACE.items():
            study.sh(f"dvc exp run --name {name} --set-param personas.generate.samples={samples}")
            assert sum(server.answered.values()) == 4 * samples
        for name, samples in QUEUED.items():
            study.sh(f"dvc exp run --queue --name {name} --set-param personas.generate.samples={samples}")
        study.sh("dvc exp run --run-all")
        assert sum(server.answered.values()) == 4 * 9
        assert max(server.answered.values()) == max(server.seen.values())  # each body as often as it was asked
        before = sum(server.answered.values())
        study.sh("dvc exp apply nine\ndvc repro")
        assert sum(server.answered.values()) == before
    runs = parents(study.folder)
    assert [run["dvc.exp.name"] for run in runs] == ["", *IN_WORKSPACE, *QUEUED]
    for run in runs:
        commit = run["git.commit"]
        known = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=study.folder, check=False)
        assert known.returncode == 0, commit


def test_controls_run_beside_the_models_leave_nothing_of_both_to_run_and_say_which_failed(tmp_path: Path) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["models"] = {
        "my-model": {"backend": "openai", "model": "test-model"},
        "control": {"backend": "scripted", "rule": "none"},
    }
    with Server() as server:
        content = {**small(params, server.url), "run": ["my-model", "control"]}
        study = Study.create(tmp_path / "study", content, {"OPENAI_API_KEY": "sk-of-the-reader"})
        study.sh("python scripts/side_by_side.py")
        assert sum(server.answered.values()) == 4 * 4  # groups, samples
        said = study.sh("dvc repro")
        assert "Stage 'track' didn't change, skipping" in said
        for stage in ("generate", "clean", "featurize", "evaluate"):
            for model in ("my-model", "control"):
                assert f"Stage '{stage}@personas-{model}' didn't change, skipping" in said
        assert sum(server.answered.values()) == 4 * 4
        content["models"]["my-model"]["base_url"] = "http://127.0.0.1:9/v1"  # nobody listens
        study.write(content)
        said = study.sh("! python scripts/side_by_side.py")
        assert "failed to reproduce 'generate@personas-my-model'" in said


def test_controls_beside_models_that_fail_end_before_the_failure_is_said(tmp_path: Path) -> None:
    dvc = tmp_path / "bin" / "dvc"
    dvc.parent.mkdir()
    dvc.write_text('#!/bin/sh\ncase "$*" in *my-model*) exit 7;; *control*) sleep 1; touch ended;; esac\n')
    dvc.chmod(0o755)
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["models"] = {"my-model": {"backend": "openai", "model": "m"}, "control": {"backend": "scripted"}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({**params, "run": ["my-model", "control"]}))
    environment = {**os.environ, "PATH": f"{dvc.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / "scripts" / "side_by_side.py")]
    assert subprocess.run(command, cwd=tmp_path, env=environment, check=False).returncode == 7
    assert (tmp_path / "ended").exists()


def test_answers_of_one_audit_are_read_while_the_next_is_asked(tmp_path: Path) -> None:
    """A `dvc` in place of DVC's: it asks for the second audit's answers only once the first's were evaluated."""
    dvc = tmp_path / "bin" / "dvc"
    dvc.parent.mkdir()
    dvc.write_text(
        """#!/bin/sh
        echo "$*" >> runs
        case "$*" in *generate@personas*)
          echo "stages: {generate@personas-my-model: {outs: 1}}" > dvc.lock
          for n in $(seq 600); do grep -q evaluate@personas-my-model runs && exit 0; sleep 0.1; done; exit 7;;
        esac
        """
    )
    dvc.chmod(0o755)
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["models"] = {"my-model": {"backend": "openai", "model": "m"}}
    content = {**params, "run": ["my-model"], "audits": ["personas", "guise"]}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content))
    environment = {**os.environ, "PATH": f"{dvc.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / "scripts" / "side_by_side.py")]
    assert subprocess.run(command, cwd=tmp_path, env=environment, check=False).returncode == 0
    said = [line.removeprefix("--wait-for-lock repro") for line in (tmp_path / "runs").read_text().splitlines()]
    said = [line.removeprefix(" --single-item ") for line in said]
    assert said == [
        "settings",
        "generate@personas-my-model generate@guise-my-model",
        "clean@personas-my-model featurize@personas-my-model evaluate@personas-my-model",
        "",  # all that is left: nothing goes on beside it
    ]


def parents(folder: Path) -> list[dict[str, str]]:
    """The tags of the parent runs in the study's store, oldest first."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    found = client.search_runs(
        [experiment.experiment_id for experiment in client.search_experiments()], order_by=["attributes.start_time ASC"]
    )
    tags = [run.data.tags for run in found if "mlflow.parentRunId" not in run.data.tags]
    return [{name: tag.get(name, "") for name in ("dvc.exp.name", "git.commit")} for tag in tags]
