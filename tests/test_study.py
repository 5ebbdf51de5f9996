"""compare, report and track after a run over two scripted models, as a person runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from markedness import audits, params, pipeline, revisions, stale, study, tracking
from markedness.audits import STAGES
from markedness.files import StoreError
from markedness.provenance import flat
from markedness.reporting.results import read
from markedness.revision import Revision, RevisionError
from markedness.store import SHIPPED, Store
from markedness.tracked import ModelRun
from markedness.verdicts import answers, counted

pytestmark = pytest.mark.slow

AXES: dict[str, Any] = {
    "race": {"unmarked": "White", "values": {"White": {}, "Black": {}, "Asian": {}}},
    "gender": {"unmarked": "man", "values": {"man": {"noun": "man"}, "woman": {"noun": "woman"}}},
}
CONTENT: dict[str, Any] = {
    "audits": ["personas"],
    "run": ["none", "again", "planted"],
    "models": {
        "none": {"backend": "scripted", "rule": "none"},
        "again": {"backend": "scripted", "rule": "none", "seed": 3},
        "planted": {"backend": "scripted", "rule": "planted"},
    },
    "personas": {
        "axes": AXES,
        "generate": {"samples": 20, "prompts": ["imagine_yourself", "first_person"]},
        "featurize": {"embeddings": None, "svm": {"enabled": False}},
        "evaluate": {"n_permutations": 20, "n_resamples": 20},
    },
}


def git(folder: Path, *command: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]
    subprocess.run(["git", *identity, *command], cwd=folder, check=True, capture_output=True)


def run(folder: Path, *models: str) -> params.Params:
    loaded = params.load(folder / "params.yaml")
    for model in models:
        for stage in STAGES:
            pipeline.STAGES[stage](loaded, "personas", model, say=lambda _: None)
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three scripted models, run."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "params.yaml").write_text(yaml.safe_dump(CONTENT, sort_keys=False), encoding="utf-8")
    run(folder, *CONTENT["run"])
    return folder


def test_compare_finds_the_planted_stereotype_and_no_difference_between_two_draws(folder: Path) -> None:
    study.compare(params.load(folder / "params.yaml"), say=lambda _: None)
    table = pd.read_csv(folder / "results" / "compare" / "differences.csv")
    pairs = table.set_index(["model_a", "model_b", "score"])["p_adjusted"]
    assert pairs["none", "planted", "jsd.excess"] < 0.05
    assert not (pairs["none", "again"].dropna() < 0.05).any()
    overlap = pd.read_csv(folder / "results" / "compare" / "word_overlap.csv")
    assert (overlap["n_shared"] <= overlap[["n_a", "n_b"]].min(axis=1)).all()
    assert list((folder / "results" / "compare" / "figures").glob("differences_personas.*"))


def test_report_shows_each_model_with_its_words_and_its_comparisons(folder: Path) -> None:
    loaded = params.load(folder / "params.yaml")
    study.report(loaded, say=lambda _: None)
    planted = (folder / "reports" / "planted.html").read_text(encoding="utf-8")
    words = pd.read_csv(folder / "results" / "personas" / "planted" / "tables" / "marked_words.csv")
    assert len(words)
    assert f'<li class="w4" title="z {words["z"].max():.3g}' in planted
    assert "Marked Personas" in (folder / "reports" / "index.html").read_text(encoding="utf-8")


def test_report_says_that_a_comparison_is_of_earlier_results(folder: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(folder, tmp_path / "study"))
    study.compare(params.load(root / "params.yaml"), say=lambda _: None)

    def said() -> str:
        lines: list[str] = []
        study.report(params.load(root / "params.yaml"), say=lines.append)
        page = (root / "reports" / "index.html").read_text(encoding="utf-8")
        assert ("The comparisons are older" in page) == any("The comparisons are older" in line for line in lines)
        return "\n".join(lines)

    assert "older than" not in said()
    scores = root / "results" / "personas" / "again" / "scores.csv"
    before = scores.read_text(encoding="utf-8")
    scores.write_text(before + "\n", encoding="utf-8")
    assert "older than results or params (personas/again): run 'markedness compare'" in said()
    scores.write_text(before, encoding="utf-8")
    content = deepcopy(CONTENT) | {"compare": {"correction": "fdr_bh"}}
    (root / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    assert "older than results or params (compare)" in said()


def test_another_audit_beside_it_changes_no_number_of_a_comparison(folder: Path) -> None:
    loaded = params.load(folder / "params.yaml")
    store = Store(folder)
    own = {model: study.features_or_reason(store, "personas", model) for model in loaded.run}
    alone = study.differences_of(loaded, {"personas": own})
    pd.testing.assert_frame_equal(alone, study.differences_of(loaded, {"homogeneity": {}, "personas": own}))


def test_text_of_the_params_that_names_a_file_without_a_suffix_is_watched(tmp_path: Path) -> None:
    (tmp_path / "texts_a").write_text("text\nfirst\n", encoding="utf-8")
    content = {"audits": ["annotation"], "run": ["own"], "models": {
        "own": {"backend": "corpus", "annotation": {"path": "texts_a"}}}}  # fmt: skip
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    loaded = params.load(tmp_path / "params.yaml")
    before = stale.inputs(loaded, "annotation", "own")
    (tmp_path / "texts_a").write_text("text\nsecond\n", encoding="utf-8")
    assert [k for k, v in stale.inputs(loaded, "annotation", "own").items() if v != before[k]] == ["data"]


def test_word_list_beside_the_params_that_featurize_reads_is_named_and_makes_results_older(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(folder, tmp_path / "study"))
    loaded = params.load(root / "params.yaml")
    shipped = (SHIPPED / "data" / "stimuli" / "personas" / "lexicon.csv").read_text(encoding="utf-8")
    monkeypatch.setenv("DVC_STAGE", "featurize")
    one = ("personas", "none")
    assert not stale.stale(loaded, [one])
    (root / "lexicon.csv").write_text(shipped, encoding="utf-8")
    force = "dvc repro --force featurize@personas-none"
    why = f"lexicon.csv, which DVC does not watch: first run '{force}'"
    assert stale.stale(loaded, [one]) == {one: why}, "featurize looked for it, and took the shipped one"
    said: list[str] = []
    pipeline.STAGES["featurize"](loaded, *one, say=said.append)
    assert (
        f"personas none: DVC does not watch lexicon.csv; after a change of it run '{force}', or keep it under "
        "data/stimuli/personas"
    ) in said
    assert not stale.stale(loaded, [one])
    (root / "lexicon.csv").write_text(shipped + "White,plain,Own\n", encoding="utf-8")
    assert stale.stale(loaded, [one]) == {one: why}
    study.report(loaded, say=lambda _: None)
    page = (root / "reports" / "none.html").read_text(encoding="utf-8")
    assert "are older than params, data or code (lexicon.csv" in page
    monkeypatch.delenv("DVC_STAGE")
    assert not stale.stale(loaded, [one]), "neither DVC nor a run made these"
    stale.remember(root, *one, stale.inputs(loaded, *one))
    assert stale.stale(loaded, [one]) == {one: "data since 'markedness run'"}


def test_track_logs_every_model_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    said: list[str] = []
    loaded = params.load(folder / "params.yaml")
    study.track(loaded, said.append)
    study.track(loaded, said.append)
    assert said[0].startswith("track: none, again, planted logged to sqlite:")
    assert said[1] == "track: nothing changed, nothing logged"


def test_track_logs_what_each_model_was_asked_and_answers_of_now_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(folder, tmp_path / "study"))
    content = deepcopy(CONTENT) | {"audits": ["personas", "homogeneity"], "run": ["again", "planted"]}
    content["models"]["planted"]["generate"] = {"personas": {"temperature": 0.25}}
    content["homogeneity"] = {"axes": AXES, "generate": {"cues": ["sports"], "names_per_group": 6, "samples": 2}}
    (root / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    loaded = params.load(root / "params.yaml")
    for stage in STAGES:
        pipeline.STAGES[stage](loaded, "homogeneity", "again", say=lambda _: None)
    stale.remember(root, "homogeneity", "again", {"params.yaml": "of earlier params"})
    logged: list[ModelRun] = []

    def track(runs: list[ModelRun], *_: object) -> list[str]:
        logged.extend(runs)
        return []

    monkeypatch.setattr(tracking, "track", track)
    study.track(loaded, say=lambda _: None)
    assert [[audit.audit for audit in run.audits] for run in logged] == [["personas"], ["personas"]]
    asked = [flat(run.audits[0].params)["personas.generate.temperature"] for run in logged]
    assert asked == ["1.0", "0.25"]
    result = read(Store(root), "personas", "again", audits.spec("personas").card)
    assert result is not None and logged[0].tags["answer"] == counted(answers({"personas": result.headline()}))


def test_track_with_a_server_that_is_down_exits_with_status_1_and_keeps_the_results(folder: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    env |= {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "markedness", "track"], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: MLflow at http://127.0.0.1:9 cannot be reached")
    assert done.stderr.count("\n") == 1
    assert (folder / "results" / "personas" / "none" / "metrics.json").exists()


def test_compare_between_revisions_reads_git_and_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changed: dict[str, Any] = {
        **deepcopy(CONTENT),
        "run": ["model"],
        "models": {"model": {"backend": "scripted", "rule": "none"}},
    }
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
    run(tmp_path, "model")
    git(tmp_path, "init", "--quiet")
    from dvc.repo import Repo

    with Repo.init(str(tmp_path)) as repo:
        repo.add("data/features")
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", "before")
        git(tmp_path, "tag", "before")
        changed["models"]["model"]["rule"] = "planted"
        path.write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
        loaded = run(tmp_path, "model")
        repo.add("data/features")
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", "after")
    said: list[str] = []
    table = revisions.compare(loaded, "before", "HEAD", tmp_path / "out.csv", said.append)
    row = table.set_index("score").loc["jsd.excess"]
    scores = pd.read_csv(tmp_path / "results" / "personas" / "model" / "scores.csv").set_index("key")
    # The mean under exchanged labels is drawn anew.
    assert row["b"] == pytest.approx(scores.loc["jsd.excess", "estimate"], rel=0.05)
    assert row["p_adjusted"] < 0.05
    assert "jsd.excess" in said[0] and row["note"] == ""
    tests = int(table["p"].notna().sum())
    assert row["correction"] == f"Holm over {tests} tests: all scores of this audit of model"
    pipeline.write_settings(loaded)  # by DVC; `markedness run` makes none
    changed["personas"]["generate"] = {**changed["personas"]["generate"], "temperature": 0.2, "samples": 21}
    path.write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
    asked = revisions.compare(loaded, "before", "workspace", say=said.append).set_index("score").loc["jsd.excess"]
    note = str(asked["note"])
    assert "personas.generate.temperature is 1.0 in before, 0.2 in workspace; ask both alike" in note
    assert "personas.generate.samples is 20 in before, 21 in workspace" in note
    assert note in said[-1] and asked["p"] < 0.05
    with monkeypatch.context() as patched:
        patched.setattr(revisions, "stale", lambda params, every: {("personas", "model"): "params.yaml personas"})
        old = revisions.compare(loaded, "before", "workspace", say=said.append)
    why = "workspace has nothing to compare (the results of model are older than params, data or code"
    assert old["note"].item().startswith(why), old["note"]
    for none in ("nowhere", "HEAD:params.yaml", "HEAD^{tree}"):  # the last are a file and a folder of git
        with pytest.raises(RevisionError, match=re.escape(f"'{none}' is neither a git revision")):
            revisions.compare(loaded, none, "HEAD", say=said.append)


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        ({}, "neither a nor b holds results of the models to run"),
        ({"a": {("personas", "none")}}, "b holds no results of the models to run"),
        ({"a": {("personas", "none")}, "b": {("personas", "again")}}, "a and b hold results of no audit and model in"),
    ],
)
def test_compare_of_revisions_without_common_results_says_which_holds_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, metrics: dict[str, set[tuple[str, str]]], sentence: str
) -> None:
    with_metrics(monkeypatch, metrics)
    with pytest.raises(StoreError, match=sentence):
        revisions.compare(params.load(folder / "params.yaml"), "a", "b", say=lambda _: None)


def test_compare_of_revisions_that_measured_no_headline_score_is_no_failure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_metrics(monkeypatch, {"a": {("personas", "none")}, "b": {("personas", "none")}})
    said: list[str] = []
    table = revisions.compare(params.load(folder / "params.yaml"), "a", "b", tmp_path / "out.csv", said.append)
    assert not len(table) and "difference" in pd.read_csv(tmp_path / "out.csv")
    assert said[0].startswith("compare: no headline score was measured in both a and b")


def test_compare_of_one_revision_with_itself_is_refused(folder: Path) -> None:
    with pytest.raises(StoreError, match="both revisions are HEAD; name two"):
        revisions.compare(params.load(folder / "params.yaml"), "HEAD", "HEAD", say=lambda _: None)


def with_metrics(patch: pytest.MonkeyPatch, held: dict[str, set[tuple[str, str]]]) -> None:
    """Revisions without features, whose metrics.json of these (audit, model) measured nothing."""
    patch.setattr(Revision, "features", lambda self, audit, model: None)
    patch.setattr(
        Revision, "metrics", lambda self, audit, model: {} if (audit, model) in held.get(self.name, ()) else None
    )
