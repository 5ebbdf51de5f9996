"""The workflow of the tutorial on gates: its commands run, one by one, in a clone that has no results yet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents import AXES, READER, ROOT, Study, merged

pytestmark = pytest.mark.slow

FILE = ROOT / "docs" / "tutorials" / "gate.yml"
INSTALL = 'python -m pip install --constraint constraints.txt ".[s3]"'
"""Not run: what it installs is what runs the tests."""
WORKFLOW: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["gate"]["steps"]
PARAMS: dict[str, Any] = {
    "audits": ["homogeneity"],
    "run": ["v1", "v2"],
    "models": {
        "v1": {"backend": "scripted", "rule": "none"},
        "v2": {"backend": "scripted", "rule": "none", "seed": 3},
    },
    "homogeneity": {"axes": AXES, "generate": {"cues": ["sports"], "names_per_group": 8, "samples": 4}},
    "gate": {"baseline": "v1", "models": ["v2"], "margins": {"homogeneity": {"pd_difference.marked": 0.3}}},
}


def test_workflow_may_only_read_and_pins_every_action_as_the_project_does() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    own = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) and action in own for action in used)
    assert not [step for step in STEPS if "${{" in step.get("run", "")], "text of a pull request in a shell"


def in_clone(study: Study, folder: Path, environment: dict[str, str]) -> list[tuple[str, int, str]]:
    """Command, exit status and output of each step, up to the first that fails, as GitHub runs them."""
    subprocess.run(["git", "clone", "--quiet", str(study.folder), str(folder)], check=True, capture_output=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    env = inherited | READER | {"PYTHONPATH": str(folder / "src"), "PATH": path} | environment
    ended = []
    for command in [step["run"] for step in STEPS if "run" in step]:
        if command == INSTALL:
            continue
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
            cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        ended.append((command, done.returncode, done.stdout + done.stderr))
        if done.returncode:
            break
    return ended


def test_steps_of_the_workflow_run_in_a_clone_and_refuse_stale_results(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("skipped: git is not installed (apt-get install git)")
    params = merged(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8")), PARAMS)
    study = Study.create(tmp_path / "study", params, {})
    study.sh(f"dvc remote add --default store {tmp_path / 'remote'}\ndvc repro\ndvc push")
    study.sh("git add .\ngit commit --quiet --message 'Run both versions'")
    summary = tmp_path / "summary.md"
    ended = in_clone(study, tmp_path / "clone", {"GITHUB_STEP_SUMMARY": str(summary)})
    assert [status for _, status, _ in ended] == [0] * 3, ended
    assert len(ended) == len([step for step in STEPS if "run" in step]) - 1
    assert summary.read_text(encoding="utf-8").startswith("## Gate: passed against v1\n")
    params["homogeneity"]["generate"]["samples"] = 5
    study.write(params)
    study.sh("git commit --quiet --all --message 'Ask more, and run nothing'")
    command, status, _ = in_clone(study, tmp_path / "stale", {"GITHUB_STEP_SUMMARY": str(summary)})[-1]
    assert (command, status) == ("dvc status --quiet", 1)
