"""Questions exported for other runners; those of Inspect are asked by Inspect, and its log is read back."""

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
from typer.testing import CliRunner

from markedness.audits import AUDITS
from markedness.cli import app
from markedness.params import load
from markedness.records import AuditError

SMALL = {
    "personas": {"generate": {"samples": 2, "max_tokens": 60, "temperature": 0.7}, "featurize": {"embeddings": None},
                 "evaluate": {"n_permutations": 20, "n_resamples": 50}},
    "homogeneity": {"generate": {"samples": 3, "names_per_group": 2},
                    "evaluate": {"n_permutations": 20, "n_resamples": 50}},
}  # fmt: skip


def study(folder: Path, models: dict[str, Any] | None = None, audits: tuple[str, ...] = tuple(SMALL)) -> Path:
    made = models or {"blind": {"backend": "scripted"}}
    blocks = {audit: SMALL.get(audit, {}) for audit in audits}
    content = {"audits": list(audits), "run": list(made), "models": made, **blocks}
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder / "params.yaml"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_audit_has_its_questions_as_lines_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study(tmp_path, audits=AUDITS)
    for audit in AUDITS:
        done = CliRunner().invoke(app, ["export", "stimuli", audit])
        if audit == "knowledge":  # its crawl asks about what was answered
            assert isinstance(done.exception, AuditError) and "answers to earlier ones" in str(done.exception)
            continue
        assert done.exit_code == 0, done.output
        found = lines(tmp_path / "stimuli" / f"{audit}.jsonl")
        assert len({line["id"] for line in found}) == len(found) > 10
        assert all(line["metadata"]["prompt_id"] and line["samples"] >= 1 for line in found)
        assert all(bool(line.get("candidates")) for line in found) == (audit == "guise")
        assert (tmp_path / "stimuli" / f"{audit}_task.py").exists() == (audit in SMALL)
        assert ("no task of Inspect is written: a task asks for texts" in done.output) == (audit not in SMALL)


def test_base_model_gets_the_text_to_continue(tmp_path: Path) -> None:
    file = study(tmp_path)
    for base, kind in ((["--base"], str), ([], list)):
        done = CliRunner().invoke(app, ["export", "stimuli", "personas", str(tmp_path), "--params", str(file), *base])
        assert done.exit_code == 0, done.output
        assert all(isinstance(line["input"], kind) for line in lines(tmp_path / "personas.jsonl"))


def test_unknown_audit_is_one_sentence_and_a_folder_alone_still_means_tables(tmp_path: Path) -> None:
    file = str(study(tmp_path))
    done = CliRunner().invoke(app, ["export", "stimuli", "nothing", str(tmp_path / "out"), "--params", file])
    assert "'nothing' is none of the audits" in str(done.exception) and not (tmp_path / "out").exists()
    done = CliRunner().invoke(app, ["export", str(tmp_path / "paper"), "--params", file])
    assert done.exit_code == 1 and "no audit of this study has results of now; run 'dvc repro'" in str(done.exception)
    assert not (tmp_path / "paper").exists()
    done = CliRunner().invoke(app, ["export", "stimuli", "guise", str(tmp_path / "out"), "--params", file])
    assert "; add it to audits there" in str(done.exception)


ASK = """
import sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model
asked = []
def answer(messages, *_):
    asked.append(messages[-1].text)
    made = ModelOutput.from_content("mockllm/model", f"A quiet baker, number {len(asked)}.", "stop")
    made.usage = ModelUsage(input_tokens=9, output_tokens=9, total_tokens=18)  # else it downloads a tokenizer
    return made
(log,) = eval(sys.argv[1], model=get_model("mockllm/model", custom_outputs=answer), log_dir=sys.argv[2],
              max_samples=1, display="none")
assert log.status == "success", log.error.message
"""


@pytest.mark.slow
@pytest.mark.parametrize("audit", list(SMALL))
def test_task_is_asked_by_inspect_and_its_log_becomes_scores(audit: str, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="skipped: inspect_ai is not installed (pip install 'markedness[inspect]')")
    file = study(tmp_path)
    done = CliRunner().invoke(app, ["export", "stimuli", audit, str(tmp_path / "out"), "--params", str(file)])
    assert done.exit_code == 0, done.output
    wanted = lines(tmp_path / "out" / f"{audit}.jsonl")
    logs = tmp_path / "data" / "corpora" / "own"
    command = [sys.executable, "-c", ASK, f"out/{audit}_task.py", str(logs)]  # Inspect takes no absolute path
    asked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert asked.returncode == 0, (asked.stdout + asked.stderr)[-2000:]
    shown = done.output[done.output.index("models:") :]
    file = study(tmp_path, yaml.safe_load(shown)["models"])
    ran = CliRunner().invoke(app, ["run", audit, "--model", "my-log", "--params", str(file)])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    answers = pd.read_parquet(tmp_path / "data" / "generations" / audit / "my-log.parquet")
    assert len(answers) == sum(line["samples"] for line in wanted)
    columns = load(file).raw["models"]["my-log"][audit]["columns"]
    assert {*load(file).axes(audit), "prompt_id" if audit == "personas" else "cue"} <= set(columns)
    for name in columns:
        here = answers[name].value_counts().to_dict()
        there = pd.Series([line["metadata"][name] for line in wanted for _ in range(line["samples"])]).value_counts()
        assert here == there.to_dict(), name
    assert (tmp_path / "results" / audit / "my-log" / "metrics.json").is_file()
