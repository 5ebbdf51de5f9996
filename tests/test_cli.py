"""The command line: exit statuses, and a help that is worth reading."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from markedness import load_study, pipeline
from markedness.cli import app
from markedness.lm.plan import Counts
from markedness.store import SHIPPED, Store

RUNNER = CliRunner()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A study whose generate stage answers 96 of 100 requests."""
    path = tmp_path / "params.yaml"
    path.write_text("models: {m: {backend: scripted}}\n", encoding="utf-8")

    def stage(*arguments: Any) -> Counts:
        return Counts(requested=100, answered=96, failed=4)

    monkeypatch.setattr(pipeline, "stage", stage)
    return str(path)


@pytest.mark.parametrize(("tolerate", "status"), [(None, 1), ("0.03", 1), ("0.04", 0), ("0.05", 0)])
def test_generate_with_failures_exits_1_unless_their_share_is_tolerated(
    study: str, tolerate: str | None, status: int
) -> None:
    more = [] if tolerate is None else ["--tolerate", tolerate]
    assert RUNNER.invoke(app, ["generate", "personas", "--model", "m", "--params", study, *more]).exit_code == status


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (("seed: 1", "seed: 2"), 1),
        (("rule: none", "rule: planted"), 1),
        (("models:", "models: ["), 1),
        (("other: {backend: scripted}", "other: {backend: scripted, seed: 3}"), 0),
    ],
)
def test_stage_whose_params_are_edited_while_it_runs_fails_so_that_the_next_run_repeats_it(
    study: str, edit: tuple[str, str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(study)
    path.write_text("seed: 1\nmodels:\n  m: {backend: scripted, rule: none}\n  other: {backend: scripted}\n", "utf-8")

    def stage(*arguments: Any) -> Counts:
        path.write_text(path.read_text(encoding="utf-8").replace(*edit), encoding="utf-8")
        return Counts(requested=1, answered=1)

    monkeypatch.setattr(pipeline, "stage", stage)
    for name in ("generate", "evaluate"):
        done = RUNNER.invoke(app, [name, "personas", "--model", "m", "--params", study])
        assert done.exit_code == status and ("edited while this stage ran" in str(done.exception)) == bool(status)
        path.write_text(path.read_text(encoding="utf-8").replace(edit[1], edit[0]), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "status"),
    [("data/corpora/own/texts.csv", 1), ("data/stimuli/personas/mine.yaml", 1), ("data/stimuli/guise/mine.yaml", 0)],
)
def test_stage_whose_data_are_edited_while_it_runs_fails_so_that_the_next_run_repeats_it(
    study: str, name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(study).parent / name
    file.parent.mkdir(parents=True)
    file.write_text("a\n", encoding="utf-8")

    def stage(*arguments: Any) -> Counts:
        file.write_text("a\nb\n", encoding="utf-8")
        return Counts(requested=1, answered=1)

    monkeypatch.setattr(pipeline, "stage", stage)
    done = RUNNER.invoke(app, ["generate", "personas", "--model", "m", "--params", study])
    assert done.exit_code == status
    assert (f"{name} was edited while this stage ran" in str(done.exception)) == bool(status)


COMMANDS = (
    "generate clean featurize evaluate fill run compare report track replicate names params corpora literature model"
)


def test_help_names_every_command_of_the_design() -> None:
    shown = RUNNER.invoke(app, ["--help"]).output
    assert [command for command in COMMANDS.split() if f"\n  {command} " not in shown] == []


def test_version_is_the_one_of_the_package() -> None:
    shown = RUNNER.invoke(app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"markedness {version('markedness')}\n")


def test_unknown_command_exits_2() -> None:
    assert RUNNER.invoke(app, ["generat"]).exit_code == 2


@pytest.mark.slow
def test_results_of_markedness_run_are_not_shown_as_those_of_later_params(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    generate = "{cues: [sports, reading], names_per_group: 6, samples: 2}"
    models = "{m: {backend: scripted}}"
    text = f"audits: [homogeneity]\nrun: [m]\nmodels: {models}\nhomogeneity: {{generate: {generate}}}\n"
    path.write_text(text, encoding="utf-8")
    assert RUNNER.invoke(app, ["run", "homogeneity", "--model", "m", "--params", str(path)]).exit_code == 0
    card = tmp_path / "reports" / "m.html"
    assert RUNNER.invoke(app, ["report", "--params", str(path)]).exit_code == 0
    assert "Of another study" not in card.read_text(encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace("scripted", "scripted, rule: planted"), encoding="utf-8")
    done = RUNNER.invoke(app, ["report", "--params", str(path)])
    why = "the results of m are older than params, data or code (params.yaml since"
    assert done.exit_code == 0 and why in done.output and "Of another study" in card.read_text(encoding="utf-8")
    done = RUNNER.invoke(app, ["compare", "--params", str(path)])
    assert done.exit_code == 0 and f"compare: homogeneity: {why}" in done.output
    assert why in (tmp_path / "results" / "compare" / "notes.json").read_text(encoding="utf-8")
    assert RUNNER.invoke(app, ["run", "homogeneity", "--model", "m", "--params", str(path)]).exit_code == 0
    assert RUNNER.invoke(app, ["report", "--params", str(path)]).exit_code == 0
    assert "Of another study" not in card.read_text(encoding="utf-8")
    cues = tmp_path / "data" / "stimuli" / "homogeneity" / "situation_cues.csv"
    cues.parent.mkdir(parents=True)
    cues.write_bytes((Store(SHIPPED).stimuli_folder("homogeneity") / cues.name).read_bytes())
    done = RUNNER.invoke(app, ["report", "--params", str(path)])
    assert done.exit_code == 0 and "(data since 'markedness run')" in done.output
    assert "Of another study" in str(load_study(tmp_path).results["homogeneity", "m"].notes)
    done = RUNNER.invoke(app, ["export", "tables", str(tmp_path / "paper"), "--params", str(path)])
    assert "export: homogeneity: left out: the results of m are older" in done.output, done.output
    assert done.exit_code == 1 and "nothing to export: " in str(done.exception)
    assert not (tmp_path / "paper" / "homogeneity").exists()


def test_name_that_a_terminal_cannot_show_is_an_escape_there(tmp_path: Path) -> None:
    script = tmp_path / "say.py"
    script.write_text(
        "from markedness import cli\nfrom markedness.lm.progress import tell\n"
        "cli.app = lambda standalone_mode: tell('T\\u00fcrkisch')\ncli.main()\n", encoding="utf-8",
    )  # fmt: skip
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, encoding="ascii", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "T\\xfcrkisch\n", "")
