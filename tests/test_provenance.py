"""What ran is named truly: commit, changes, DVC's hashes and experiment; and a dataset can be loaded again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from markedness import provenance
from markedness.dataset_source import DatasetError, DVCDatasetSource

ROOT = Path(__file__).parents[1]
DVC_YAML = """
stages:
  copy:
    cmd: cp params.yaml 'out put.txt'
    deps: [code.py, inputs]
    params: [seed]
    outs:
    - out put.txt: {cache: false}
"""


def run(folder: Path, *command: str) -> str:
    """Run a command as a person in this folder would; a failure shows its output."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "DVC_"))}
    env |= {"DVC_NO_ANALYTICS": "1", "PYTHONPATH": str(ROOT / "src"), "MLFLOW_DISABLE_TELEMETRY": "true"}
    env |= {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(autouse=True)
def _outside_an_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DVC_EXP_NAME", "DVC_EXP_BASELINE_REV", "DVC_ROOT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of one stage that has run once, with its code, inputs and output committed."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "dvc.yaml").write_text(DVC_YAML, encoding="utf-8")
    (folder / "params.yaml").write_text("seed: 1\nmodels: {a: {x: 1}, b: {x: 1}}\n", encoding="utf-8")
    (folder / "code.py").write_text("1\n", encoding="utf-8")
    (folder / "inputs" / "deep").mkdir(parents=True)
    for name in ("b.txt", "deep/a.txt", "deep.txt", "é.txt"):
        (folder / "inputs" / name).write_text(name, encoding="utf-8")
    run(folder, "git", "init", "--quiet")
    run(folder, "dvc", "init", "--quiet")
    run(folder, "dvc", "repro", "--quiet")
    run(folder, "git", "add", "--all")
    run(folder, "git", "commit", "--quiet", "--message", "Run")
    return folder


@pytest.fixture
def repository(ran: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copytree(ran, tmp_path / "repository"))


def test_md5_of_files_and_folders_is_what_dvc_writes_to_its_lock(repository: Path) -> None:
    lock = yaml.safe_load((repository / "dvc.lock").read_text(encoding="utf-8"))["stages"]["copy"]
    for entry in (*lock["deps"], *lock["outs"]):
        assert provenance.md5(repository / entry["path"]) == entry["md5"]
    assert provenance.md5(repository / "nothing") == ""


def test_state_after_a_stage_rewrote_its_output_and_the_lock_is_clean(repository: Path) -> None:
    (repository / "out put.txt").write_text("new\n", encoding="utf-8")
    (repository / "dvc.lock").write_text("schema: '2.0'\n", encoding="utf-8")
    (repository / "notes.txt").write_text("no stage reads this\n", encoding="utf-8")
    tags = provenance.state(repository)
    assert tags["git.dirty"] == "false"
    assert tags["git.commit"] == run(repository, "git", "rev-parse", "HEAD").strip()
    assert "git.changed" not in tags


@pytest.mark.parametrize("path", ["code.py", "params.yaml", "inputs/new file.txt"])
def test_state_with_a_changed_or_new_input_is_dirty_and_names_it(repository: Path, path: str) -> None:
    (repository / path).write_text("seed: 2\n", encoding="utf-8")
    tags = provenance.state(repository)
    assert tags["git.dirty"] == "true"
    assert tags["git.changed"] == path
    assert tags["git.commit"] == run(repository, "git", "rev-parse", "HEAD").strip()


def test_state_with_a_renamed_input_is_dirty(repository: Path) -> None:
    run(repository, "git", "mv", "code.py", "moved.py")
    assert provenance.state(repository)["git.changed"] == "moved.py"


def test_state_outside_git_names_no_commit(tmp_path: Path) -> None:
    assert provenance.state(tmp_path) == {}


def test_changes_are_those_of_the_model_since_the_baseline(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"seed": 2, "models": {"a": {"x": 1, "y": "new"}, "b": {"x": 5}}, "track": {"experiment": "mine"}}
    changed = provenance.changes(repository, "params.yaml", params, ["a"])
    assert changed == {"seed": ("1", "2"), "models.a.y": ("", "new")}
    assert provenance.run_name("a", changed) == "a: seed=2, y=new"
    judged = provenance.changes(repository, "params.yaml", params, ["a", "b"])
    assert judged.keys() - changed.keys() == {"models.b.x"}
    monkeypatch.setenv("DVC_EXP_NAME", "cold-dusk")
    assert provenance.run_name("a", {}) == "a cold-dusk"
    many = {f"p.generate.{key}": ("", "9" * 40) for key in "abcde"}
    assert provenance.run_name("a", many).endswith(f"c={'9' * 23}…, and 2 more")


def test_changes_that_were_committed_before_the_run_are_named_once(repository: Path) -> None:
    path = repository / "params.yaml"
    params = yaml.safe_load(path.read_text(encoding="utf-8"))
    changed = params | {"seed": 7}
    path.write_text(yaml.safe_dump(changed), encoding="utf-8")
    assert provenance.changes(repository, "params.yaml", changed, ["a"]) == {"seed": ("1", "7")}
    run(repository, "git", "commit", "--quiet", "--all", "--message", "More")
    assert provenance.changes(repository, "params.yaml", changed, ["a"]) == {"seed": ("1", "7")}
    run(repository, "git", "commit", "--quiet", "--allow-empty", "--message", "Another")
    assert provenance.changes(repository, "params.yaml", changed, ["a"]) == {}


def test_changes_with_an_unreadable_baseline_are_none(tmp_path: Path) -> None:
    assert provenance.changes(tmp_path, "params.yaml", {"seed": 1}, ["a"]) == {}


# ---------------------------------------------------------------- datasets


@pytest.fixture
def versioned(repository: Path, tmp_path: Path) -> Iterator[tuple[Path, DVCDatasetSource, DVCDatasetSource]]:
    """A file and a folder under DVC, pushed to a folder; the repository, and their sources."""
    (repository / "data").mkdir()
    (repository / "data" / "texts.csv").write_text("text\nfirst\n", encoding="utf-8")
    shutil.copytree(repository / "inputs", repository / "data" / "folder")
    digests = [provenance.md5(repository / "data" / name) for name in ("texts.csv", "folder")]
    run(repository, "dvc", "add", "--quiet", "data/texts.csv", "data/folder")
    run(repository, "dvc", "remote", "add", "--quiet", "--default", "store", str(tmp_path / "store"))
    run(repository, "dvc", "push", "--quiet")
    run(repository, "git", "add", "--all")
    run(repository, "git", "commit", "--quiet", "--message", "Add data")
    (repository / "data" / "texts.csv").unlink()
    (repository / "data" / "texts.csv").write_text("text\nsecond\n", encoding="utf-8")
    link = {"url": str(repository), "rev": "HEAD"}
    yield (
        repository,
        DVCDatasetSource("data/texts.csv", digests[0], **link),
        DVCDatasetSource("data/folder", digests[1], **link),
    )


def test_dataset_source_loads_the_version_that_ran_from_cache_remote_and_address(
    versioned: tuple[Path, DVCDatasetSource, DVCDatasetSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, file, folder = versioned
    monkeypatch.chdir(repository)
    assert Path(file.load()).read_text(encoding="utf-8") == "text\nfirst\n"
    shutil.rmtree(repository / ".dvc" / "cache")
    assert Path(file.load(str(tmp_path / "remote"))).read_text(encoding="utf-8") == "text\nfirst\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    loaded = Path(folder.load(str(tmp_path / "address")))
    assert loaded == tmp_path / "address" / "folder"
    assert provenance.md5(loaded) == folder.md5


def test_dataset_source_that_is_nowhere_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match=r"data/x\.csv \(MD5 0+\) cannot be loaded: .*run in a clone of the study$"):
        DVCDatasetSource("data/x.csv", "0" * 32).load()


def test_dataset_source_is_found_by_mlflow_through_its_entry_point() -> None:
    from mlflow.data.dataset_source_registry import DatasetSourceRegistry

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    module, _, name = declared["mlflow.dataset_source"]["dvc"].partition(":")
    assert (module, name) == (DVCDatasetSource.__module__, DVCDatasetSource.__name__)
    registry = DatasetSourceRegistry()
    registry.register(DVCDatasetSource)
    source = DVCDatasetSource("data/x.csv", "0" * 32, "https://host.example/study.git", "abc")
    found = registry.get_source_from_json(source.to_json(), source_type="dvc")
    assert found.to_dict() == source.to_dict()


# ---------------------------------------------------------------- experiments

STUDY = {
    "audits": ["personas"],
    "run": ["none"],
    "models": {"none": {"backend": "scripted", "rule": "none"}},
    "personas": {
        "axes": {
            "race": {"unmarked": "White", "values": {"White": {}, "Black": {}}},
            "gender": {"unmarked": "man", "values": {"man": {}, "woman": {"pronouns": ["she", "her", "her"]}}},
        },
        "generate": {"samples": 4, "prompts": ["imagine_yourself", "first_person"]},
        "featurize": {"embeddings": None, "svm": {"enabled": False}},
        "evaluate": {"n_permutations": 20, "n_resamples": 20},
    },
}
PIPELINE = {
    "stages": {
        "measure": {
            "cmd": "markedness run personas --model none",
            "params": ["personas", "models"],
            "outs": ["data", "results"],
        },
        "track": {"cmd": "markedness track", "deps": ["results"], "params": ["personas", "models"]},
    }
}


@pytest.mark.slow
def test_temporary_experiment_reaches_the_studys_store_under_its_name_and_is_logged_once(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (study / "params.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False), encoding="utf-8")
    (study / "dvc.yaml").write_text(yaml.safe_dump(PIPELINE, sort_keys=False), encoding="utf-8")
    (study / ".gitignore").write_text("/mlflow.db\n/mlartifacts\n", encoding="utf-8")
    run(study, "git", "init", "--quiet")
    run(study, "dvc", "init", "--quiet")
    run(study, "git", "add", "--all")
    run(study, "git", "commit", "--quiet", "--message", "Design")
    run(study, "dvc", "repro", "--quiet")
    run(study, "git", "add", "--all")
    run(study, "git", "commit", "--quiet", "--message", "Run")
    baseline = run(study, "git", "rev-parse", "HEAD").strip()
    run(study, "dvc", "exp", "run", "--quiet", "--temp", "--name", "more", "-S", "personas.generate.samples=5")
    run(study, "dvc", "exp", "apply", "more")
    run(study, "dvc", "repro", "--quiet")
    assert run(study, "markedness", "track") == "track: nothing changed, nothing logged\n"

    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{study / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("markedness")
    first, second = client.search_runs(
        [experiment.experiment_id], "tags.kind = 'model'", order_by=["attributes.start_time ASC"]
    )
    assert first.info.run_name == "none"
    assert first.data.tags["git.dirty"] == "false"
    assert second.info.run_name == "none more: samples=5"
    assert second.data.tags["dvc.exp.name"] == "more"
    assert second.data.tags["dvc.exp.baseline"] == second.data.tags["git.commit"] == baseline
    assert second.data.tags["git.dirty"] == "true"  # the commit of the experiment is made after it ran
    assert second.data.tags["git.changed"] == "params.yaml"
    assert second.data.tags["changed"] == "personas.generate.samples: 4 -> 5"
    (child,) = client.search_runs([experiment.experiment_id], f"tags.mlflow.parentRunId = '{second.info.run_id}'")
    assert child.data.tags["output.metrics.json"] == provenance.md5(study / "results/personas/none/metrics.json")
    assert {d.dataset.name: d.dataset.digest for d in child.inputs.dataset_inputs}[
        "personas-generations"
    ] == provenance.md5(study / "data/generations/personas/none.parquet")
    artifacts = [Path(run.info.artifact_uri.removeprefix("file://")) for run in (first, second, child)]
    assert all(path.is_relative_to(study / "mlartifacts") for path in artifacts)
    metrics = json.loads((artifacts[2] / "metrics.json").read_text(encoding="utf-8"))
    assert metrics == json.loads((study / "results/personas/none/metrics.json").read_text(encoding="utf-8"))
