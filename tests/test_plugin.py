"""Audits and backends of other packages are found by their entry points, and run without a change in markedness."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from markedness import audits
from markedness.audits.base import AuditSpec
from markedness.cli import app
from markedness.lm.config import ServerModel
from markedness.params import ParamsError
from markedness.pipeline import _check_made as check_made
from markedness.plugins import SpecError
from markedness.records import Prompt
from markedness.reporting.pages import Pages, lead
from markedness.results import Evaluation, Score
from markedness.store import Store

ROOT = Path(__file__).parents[1]
PARAMS = {
    "audits": ["coin"], "run": ["control-none", "control-planted"], "seed": 1, "tolerated_failures": 0.0,
    "models": {rule: {"backend": "scripted", "rule": rule.removeprefix("control-")}
               for rule in ("control-none", "control-planted")},
    "compare": {"correction": "holm"}, "report": {"examples": 1}, "track": {"experiment": "plugin"},
    "coin": {"axes": {}, "generate": {"samples": 20}, "clean": {}, "featurize": {}, "evaluate": {}},
}  # fmt: skip


def generated(folder: Path, kind: str, name: str) -> Path:
    """The package that ``markedness init --audit NAME`` or ``--backend NAME`` writes."""
    done = CliRunner().invoke(app, ["init", str(folder), f"--{kind}", name])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated audit."""
    return generated(tmp_path_factory.mktemp("packages") / "coin-audit", "audit", "coin")


@pytest.fixture(scope="module")
def backend_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated backend."""
    return generated(tmp_path_factory.mktemp("packages") / "vendor-backend", "backend", "vendor")


@pytest.fixture(scope="module")
def environment(package: Path, backend_package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of this one, with the generated packages installed, and the backend of tests/plugin."""
    pytest.importorskip("setuptools")
    site = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*install, "--target", str(site), str(package), str(backend_package)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    places = [str(ROOT / "src"), str(site), str(ROOT / "tests" / "plugin"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def stages() -> str:
    """The project's dvc.yaml without the files of its own source and the audits that this study does not hold."""
    content = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))
    for stage in content["stages"].values():
        stage["deps"] = [dep for dep in stage["deps"] if not dep.startswith(("src/", "data/stimuli", "data/corpora"))]
    content.pop("plots", None)
    return yaml.safe_dump(content, sort_keys=False)


def spec_with(rule: object, patch: pytest.MonkeyPatch) -> AuditSpec:
    """An audit of another package whose controls are this rule."""
    for name, content in (("other_audit", {}), ("other_audit.controls", {"rule": rule})):
        module = ModuleType(name)
        vars(module).update(content)
        patch.setitem(sys.modules, name, module)
    return replace(audits.spec("homogeneity"), name="other", package="other_audit", rule_ref="controls:rule")


def test_rule_of_an_earlier_signature_answers_without_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt, rng = Prompt("p", "woman", completion="A coin shows"), np.random.default_rng(0)
    for rule in (lambda name, strength: lambda *_: f"{name} {strength}", lambda *given: lambda *_: f"none {given[1]}"):
        assert spec_with(rule, monkeypatch).rule("none", 0.5, 7)(prompt, rng) == "none 0.5"
    seeded = spec_with(lambda name, strength=1.0, seed=0: lambda *_: f"{name} {strength} {seed}", monkeypatch)
    assert seeded.rule("none", 0.5, 7)(prompt, rng) == "none 0.5 7"


def test_rule_of_other_arguments_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = r"^audit 'other': other_audit.controls:rule takes \(name\), but is called with \(name, strength, seed\);"
    with pytest.raises(SpecError, match=sentence):
        _ = spec_with(lambda name: lambda *_: name, monkeypatch).rule


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Evaluation([], tables={"../../kept": pd.DataFrame()}), r"names a table, figure or file '../../kept'"),
        (Evaluation([], files={"/tmp/x.tex": b""}), "no name of a file"),
        (Evaluation([Score("gap", 0.1, p=1.2)]), r"the p of its Score 'gap' is not in \[0, 1\]"),
    ],
)
def test_what_an_audit_of_another_package_gives_is_checked_before_it_is_written(made: Evaluation, said: str) -> None:
    with pytest.raises(SpecError, match=f"audit 'coin': .*{said}"):
        check_made("coin", made)
    check_made("coin", Evaluation([Score("gap", 0.1, p=1.0)], tables={"by_group": pd.DataFrame()}))


@pytest.mark.slow
def test_audit_of_another_package_runs_through_dvc_report_and_mlflow(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "dvc.yaml").write_text(stages(), encoding="utf-8")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMS, sort_keys=False), encoding="utf-8")
    env = {**environment, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("git", "init", "--quiet")
    run("dvc", "init", "--quiet")
    run("dvc", "repro")
    metrics = json.loads((tmp_path / "results" / "coin" / "control-planted" / "metrics.json").read_text())
    assert metrics["yes_gap.marked"] > 0.2
    assert "coin: a coin" in (tmp_path / "reports" / "control-planted.html").read_text(encoding="utf-8")
    assert "yes gap: marked" in (tmp_path / "results" / "compare" / "headline.csv").read_text(encoding="utf-8")
    query = "import mlflow; print(mlflow.search_runs(experiment_names=['plugin'])['metrics.coin/yes_gap.marked'].max())"
    assert float(run("python", "-c", query).split()[-1]) == pytest.approx(metrics["yes_gap.marked"])
    assert "Data and pipelines are up to date." in run("dvc", "repro")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "passed", "modules"), [("audit", 6, 3), ("backend", 16, 3)])
def test_generated_package_passes_its_tests_as_generated_and_is_well_formed(
    kind: str, passed: int, modules: int, request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path
) -> None:
    package: Path = request.getfixturevalue("package" if kind == "audit" else "backend_package")
    own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package)]
    done = subprocess.run(own, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and f"{passed} passed" in done.stdout, done.stdout + done.stderr
    config = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), str(package)]
    for command in (["check", "--extend-ignore", "D102,D103,N802"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, *config], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    left = [path for path in package.rglob("*") if path.is_file() and b"NAME" in path.read_bytes()]
    assert not left and len([path for path in package.rglob("*.py") if "build" not in path.parts]) == modules


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("audit", "My-Audit", "'My-Audit' cannot name an audit: use lower-case letters"),
        ("audit", "guise", "'guise' is an installed audit; choose another name"),
        ("audit", "models", "'models' is a key of params.yaml; choose another name"),
        ("audit", "literature", "'literature' is a folder of results/; choose another name"),
        ("audit", "no", "'no' is a word of Python or YAML; choose another name"),
        ("audit", "coin", "is there already and not empty; name another folder, or remove it"),
        ("backend", "my vendor", "'my vendor' cannot name a backend: use lower-case letters"),
        ("backend", "openai", "'openai' is an installed backend; choose another name"),
        ("backend", "class", "'class' is a word of Python or YAML; choose another name"),
        ("backend", "vendor", "is there already and not empty; name another folder, or remove it"),
    ],
)
def test_name_or_folder_that_cannot_be_used_is_refused_and_nothing_is_written(
    kind: str, name: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(app, ["init", str(tmp_path / "mine"), f"--{kind}", name])
    assert isinstance(done.exception, ParamsError) and said in str(done.exception)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "notes.txt"]


@pytest.mark.slow
def test_backend_of_another_package_answers_a_generate_and_has_its_block_checked(
    environment: dict[str, str], tmp_path: Path
) -> None:
    study: dict[str, Any] = {**PARAMS, "run": ["parrot"], "models": {"parrot": {"backend": "echo", "words": 1}}}

    def generate() -> subprocess.CompletedProcess[str]:
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
        command = [sys.executable, "-m", "markedness", "generate", "coin", "--model", "parrot"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

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


def test_package_of_an_audit_and_a_backend_or_template_at_once_is_refused(tmp_path: Path) -> None:
    for more in (["--backend", "vendor"], ["--template", "api"]):
        done = CliRunner().invoke(app, ["init", str(tmp_path / "both"), "--audit", "coin", *more])
        assert done.exit_code == 2 and "give one of them" in done.output
    assert not list(tmp_path.iterdir())


def module_of(file: Path) -> ModuleType:
    """A module that is in no package."""
    spec = importlib.util.spec_from_file_location("vendor_server", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_server_of_a_generated_backend_is_examined_and_filled_and_then_not_asked_again(
    backend_package: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    served = module_of(backend_package / "tests" / "conftest.py").ApiServer()
    threading.Thread(target=served.http.serve_forever, daemon=True).start()
    content = yaml.safe_load((backend_package / "params.yaml").read_text(encoding="utf-8"))
    content["models"]["my-model"]["base_url"] = served.url
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "markedness", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    assert "ok       models.my-model: the backend vendor answers in " in said("doctor")
    assert not served.asked  # but for the test request, which counts nowhere
    assert "fill: 1 of 1 audits of models complete" in said("fill")
    assert len(served.asked) == 32  # the size quick: two prompts, two groups, 8 samples
    generated = said("generate", "personas", "--model", "my-model")
    assert "32 requested, 32 answered (32 of them from the ledger)" in generated and len(served.asked) == 32
    served.http.shutdown()
    served.http.server_close()
    assert "fault    models.my-model: " in (dead := said("doctor")) and "connection refused" in dead


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "line"),
    [(1, "ok       models.parrot: the backend echo answers in "), (0, "fault    models.parrot: the package of the")],
)
def test_doctor_asks_a_backend_of_another_package_for_one_answer(
    words: int, line: str, environment: dict[str, str], tmp_path: Path
) -> None:
    study = {**PARAMS, "run": ["parrot"], "models": {"parrot": {"backend": "echo", "words": words}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    command = [sys.executable, "-m", "markedness", "doctor"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert line in done.stdout + done.stderr


def test_card_of_a_model_of_another_package_names_the_model_and_the_backend(tmp_path: Path) -> None:
    config = ServerModel(backend="vendor", model="vendor-large")
    pages = Pages(Store(tmp_path), (), {"mine": config}, {}, levels={})
    assert lead(pages, "mine") == "vendor-large, asked through the backend vendor."
