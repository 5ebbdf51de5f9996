"""Audits and backends of other packages are found by their entry points, and run without a change in markedness."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).parents[1]
PARAMS = {
    "audits": ["coin"], "run": ["control-none", "control-planted"], "seed": 1, "tolerated_failures": 0.0,
    "models": {rule: {"backend": "scripted", "rule": rule.removeprefix("control-")}
               for rule in ("control-none", "control-planted")},
    "compare": {"correction": "holm"}, "report": {"examples": 1}, "track": {"experiment": "plugin"},
    "coin": {"axes": {},
             **{stage: {"samples": 20} for stage in ("generate", "clean", "featurize", "evaluate")}},
}  # fmt: skip


ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        [str(ROOT / "src"), str(ROOT / "tests" / "plugin"), os.environ.get("PYTHONPATH", "")]
    ),
}


def stages() -> str:
    """The project's dvc.yaml without the files of its own source and the audits that this study does not hold."""
    content = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    for stage in content["stages"].values():
        stage["deps"] = [dep for dep in stage["deps"] if not dep.startswith(("src/", "data/stimuli", "data/corpora"))]
    content.pop("plots", None)
    return yaml.safe_dump(content, sort_keys=False)


@pytest.mark.slow
def test_audit_of_another_package_runs_through_dvc_report_and_mlflow(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(stages(), encoding="utf-8")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS, sort_keys=False), encoding="utf-8")
    env = {**ENVIRONMENT, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("git", "init", "--quiet")
    run("dvc", "init", "--quiet")
    run("dvc", "repro")
    metrics = json.loads((tmp_path / "results" / "coin" / "control-planted" / "metrics.json").read_text())
    assert metrics["yes_gap.marked"] > 0.2
    assert "A coin" in (tmp_path / "reports" / "control-planted.html").read_text(encoding="utf-8")
    assert "yes gap: marked" in (tmp_path / "results" / "compare" / "headline.csv").read_text(encoding="utf-8")
    query = "import mlflow; print(mlflow.search_runs(experiment_names=['plugin'])['metrics.coin/yes_gap.marked'].max())"
    assert float(run("python", "-c", query).split()[-1]) == pytest.approx(metrics["yes_gap.marked"])
    assert "Data and pipelines are up to date." in run("dvc", "repro")


def test_plugin_of_the_tests_is_at_most_60_lines() -> None:
    lines = [path.read_text().splitlines() for path in (ROOT / "tests" / "plugin" / "coin_audit").glob("*.py")]
    assert sum(map(len, lines)) <= 60


@pytest.mark.slow
def test_backend_of_another_package_answers_a_generate_and_has_its_block_checked(tmp_path: Path) -> None:
    study: dict[str, Any] = {**PARAMS, "run": ["parrot"], "models": {"parrot": {"backend": "echo", "words": 1}}}

    def generate() -> subprocess.CompletedProcess[str]:
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
        command = [sys.executable, "-m", "markedness", "generate", "coin", "--model", "parrot"]
        return subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)

    done = generate()
    assert done.returncode == 0, done.stdout + done.stderr
    rows = pd.read_parquet(tmp_path / "data" / "generations" / "coin" / "parrot.parquet")
    assert set(rows["text"]) == {"marked?", "unmarked?"}  # the prompts are "0: marked?" and so on
    assert "120 requested, 120 answered (0 of them from the ledger)" in done.stdout + done.stderr
    study["models"]["parrot"]["words"] = "two"
    assert "params.yaml: models.parrot.words: " in generate().stderr
    study["models"]["parrot"] = {"backend": "parrot"}
    wrong = generate()
    assert wrong.returncode == 2 and "'echo'" in wrong.stderr and "'scripted'" in wrong.stderr
