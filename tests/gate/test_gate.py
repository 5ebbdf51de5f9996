"""`markedness gate` over a study of scripted models: what it decides and writes, and what MLflow is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from markedness import params, pipeline, revisions, stage_code, stale, studies, study, tracking_store
from markedness.audits import STAGES
from markedness.cli import app
from markedness.files import StoreError
from markedness.gate import outputs, run
from markedness.gate.cases import Decision, Outcome, Pair
from markedness.gate.run import NEITHER, Gated, _not_gated, gate
from markedness.lm import served_by
from markedness.lm.config import OpenAIModel
from markedness.param_blocks import GateParams
from markedness.params import ParamsError
from markedness.provenance import changed_files
from markedness.results import Score, not_estimated
from markedness.revision import Revision, RevisionError
from markedness.store import SHIPPED, Store
from markedness.working_tree import DVCStateError

pytestmark = pytest.mark.slow

MODELS: dict[str, dict[str, Any]] = {
    "v1": {"backend": "scripted", "rule": "none"},
    "v2": {"backend": "scripted", "rule": "none", "seed": 3},
    "planted": {"backend": "scripted", "rule": "planted"},
}
CONTENT: dict[str, Any] = {
    "audits": ["homogeneity"],
    "run": ["v1", "v2", "planted"],
    "models": MODELS,
    "homogeneity": {
        "axes": {
            "race": {"unmarked": "White", "values": {"White": {}, "Black": {"label": "African"}}},
            "gender": {"unmarked": "man", "values": {"man": {"noun": "man"}, "woman": {"noun": "woman"}}},
        },
        "generate": {"cues": ["sports", "music"], "names_per_group": 8, "samples": 4},
        "evaluate": {"n_permutations": 20, "n_resamples": 20},
    },
}
MARGIN = {"homogeneity": {"pd_difference.marked": 0.12}}
BLOCK: dict[str, Any] = {"baseline": "v1", "models": ["v2"], "margins": MARGIN}


def write(folder: Path, block: dict[str, Any] | None, **more: Any) -> params.Params:
    content = {**CONTENT, **({"gate": block} if block is not None else {}), **more}
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return params.load(folder / "params.yaml")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study after a run."""
    folder = tmp_path_factory.mktemp("study")
    loaded = write(folder, None)
    for model in MODELS:
        for stage in STAGES:
            pipeline.STAGES[stage](loaded, "homogeneity", model, say=lambda _: None)
    return folder


@pytest.fixture
def folder(done: Path, tmp_path: Path) -> Path:
    """A copy, for a test to change."""
    return Path(shutil.copytree(done, tmp_path / "study"))


def gated(folder: Path, block: dict[str, Any], **more: Any) -> Gated:
    return gate(write(folder, block, **more), say=lambda _: None)


def outcomes(made: Gated) -> dict[str, Outcome]:
    return {f"{one.pair.model} {one.pair.key}": one.outcome for one in made.decisions}


def test_another_draw_of_the_baseline_passes_and_a_planted_effect_fails(folder: Path) -> None:
    made = gated(folder, {**BLOCK, "models": ["v2", "planted"]})
    assert outcomes(made) == {
        "v2 pd_difference.marked": Outcome.PASSED, "v2 noncompliance.difference": Outcome.PASSED,
        "planted pd_difference.marked": Outcome.FAILED, "planted noncompliance.difference": Outcome.PASSED,
    }  # fmt: skip
    assert made.left_out[0] == "homogeneity replication.ceiling: neither has such a score to compare"
    assert made.left_out[1].startswith("homogeneity: the results of planted were made without DVC")


def test_planted_effect_is_a_new_finding(folder: Path) -> None:
    block = {"baseline": "v1", "models": ["planted"]}
    generous = {**CONTENT["homogeneity"], "evaluate": {"n_permutations": 500, "n_resamples": 20}}
    (failed,) = [one for one in gated(folder, block, homogeneity=generous).decisions if one.outcome is Outcome.FAILED]
    assert failed.pair.key == "pd_difference.marked" and "; new: " in failed.reason


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (BLOCK, 0),
        ({**BLOCK, "models": ["planted"]}, 1),
        ({**BLOCK, "margins": {"homogeneity": {"pd_difference.marked": 0.001}}}, 3),
        (None, 2),
        ({"baseline": "no-such-revision", "models": ["v2"]}, 2),
    ],
)
def test_exit_status_says_passed_failed_inconclusive_or_wrong(
    folder: Path, block: dict[str, Any] | None, status: int
) -> None:
    write(folder, block)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    ended = subprocess.run(
        [sys.executable, "-m", "markedness", "gate"], cwd=folder, env=env, capture_output=True, text=True
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert (status != 2) == (folder / "results" / "gate" / "gate.csv").exists()
    if block is None:
        assert "there is no block 'gate'; write, for example" in ended.stderr
        example = yaml.safe_load(ended.stderr.split("example,\n")[1])["gate"]
        assert GateParams.model_validate(example).margins


def test_outputs_say_the_same_in_a_table_in_junit_and_for_a_pull_request(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "step.md").write_text("before\n", encoding="utf-8")
    write(folder, {**BLOCK, "models": ["v2", "planted"], "margins": {"homogeneity": {"pd_difference.marked": 0.02}}})
    options = ["gate", "--params", str(folder / "params.yaml"), "--summary", str(tmp_path / "step.md")]
    made = CliRunner().invoke(app, options)
    assert made.exit_code == 1, made.output
    table = pd.read_csv(folder / "results" / "gate" / "gate.csv")
    assert tuple(table.columns) == outputs.GATE_COLUMNS
    counts = table["outcome"].value_counts()
    suites = ET.parse(folder / "results" / "gate" / "gate.xml").getroot()
    assert {name: int(suites.attrib[name]) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": 4, "failures": counts["failed"], "skipped": counts["inconclusive"], "errors": 0,
    }  # fmt: skip
    assert len(suites.findall(".//failure")) == counts["failed"] == 1
    assert [case.attrib["name"] for case in suites.iter("testcase") if case.find("skipped") is not None] == [
        "homogeneity.pd_difference.marked [v2]"
    ]
    summary = (folder / "results" / "gate" / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("## Gate: failed against v1\n")
    assert "of 'name' would decide" in summary and "neither has such a score to compare" in summary
    assert (tmp_path / "step.md").read_text(encoding="utf-8") == f"before\n{summary}"


def test_looks_are_counted_and_none_counts_beyond_those_planned(folder: Path) -> None:
    block = {**BLOCK, "looks": 2}

    def looks() -> list[list[Any]]:
        counted = pd.read_csv(folder / "results" / "gate" / "looks.csv")
        return [list(row) for row in counted[["look", "outcome"]].itertuples(index=False)]

    def more_data() -> None:
        with (folder / "results" / "homogeneity" / "v2" / "scores.csv").open("a") as file:
            file.write("\n")

    assert gated(folder, block).outcome is Outcome.PASSED and gated(folder, block).outcome is Outcome.PASSED
    assert looks() == [[1, "passed"]]  # the same results are the same look
    more_data()
    assert gated(folder, block).outcome is Outcome.PASSED
    assert "Look 2 of 2; each is corrected for all 2." in (folder / "results" / "gate" / "summary.md").read_text()
    more_data()
    beyond = gated(folder, block)
    assert beyond.status == 3 and "this is look 3, planned were 2" in beyond.decisions[0].reason
    assert looks() == [[1, "passed"], [2, "passed"], [3, "inconclusive"]]


def test_features_that_were_not_evaluated_yet_are_another_look(folder: Path) -> None:
    gated(folder, {**BLOCK, "looks": 2})
    path = folder / "data" / "features" / "homogeneity" / "v2" / "answers.parquet"
    pd.read_parquet(path).iloc[:-1].to_parquet(path, index=False)
    gated(folder, {**BLOCK, "looks": 2})
    assert pd.read_csv(folder / "results" / "gate" / "looks.csv")["look"].tolist() == [1, 2]


@pytest.mark.parametrize("block", [BLOCK, {**BLOCK, "looks": 5}], ids=["none", "more"])
def test_looks_of_which_others_were_planned_are_refused_and_the_count_stays(
    folder: Path, block: dict[str, Any]
) -> None:
    gated(folder, {**BLOCK, "looks": 2})
    counted = (folder / "results" / "gate" / "looks.csv").read_bytes()
    with pytest.raises(StoreError, match=r"counts looks of which 2 were planned; set gate\.looks: 2 again, or remove"):
        gated(folder, block)
    assert (folder / "results" / "gate" / "looks.csv").read_bytes() == counted


def test_a_damaged_count_of_looks_is_a_sentence_and_stays(folder: Path) -> None:
    gated(folder, {**BLOCK, "looks": 2})
    path = folder / "results" / "gate" / "looks.csv"
    path.write_text("look,outcome\n1,passed\n")
    with pytest.raises(StoreError, match=r"looks\.csv: cannot be read .*; remove it, and the first look is a new one"):
        gated(folder, {**BLOCK, "looks": 2})
    assert path.read_text() == "look,outcome\n1,passed\n"


def test_decisions_say_that_a_server_reports_another_model_than_was_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "v2 was asked, but the server reports for 29 of 29 answers that v1 gave them."
    monkeypatch.setattr(run, "reported_otherwise", lambda _, audit, model: told if model == "v2" else "")
    made = gated(folder, {**BLOCK, "models": ["v2", "planted"]})
    said = {one.pair.model: one.caveat for one in made.decisions}
    assert said["v2"].startswith(told) and told not in said["planted"]
    assert told in (folder / "results" / "gate" / "summary.md").read_text(encoding="utf-8")
    config = OpenAIModel(backend="openai", model="new", base_url="http://127.0.0.1:1/v1")
    loaded = params.load(folder / "params.yaml")
    loaded.models["v2"] = config
    path = Store(folder).ledger_path("homogeneity", "v2")
    header = {"answers": 3, "first": None, "last": None, "models": {"old": 3}, "served_by": {}, "version": 2}
    path.write_text(json.dumps({"ledger": header}) + "\n", encoding="utf-8")
    assert study.reported_otherwise(loaded, "homogeneity", "v2").startswith(
        "new was asked, but the server reports for 3"
    )
    assert study.reported_otherwise(loaded, "homogeneity", "v1") == ""


def test_what_was_not_run_is_inconclusive(folder: Path) -> None:
    shutil.rmtree(folder / "data" / "features" / "homogeneity" / "v2")
    made = gated(folder, BLOCK)
    assert made.status == 3
    assert all("not run yet" in one.reason for one in made.decisions)


def test_what_was_not_run_is_no_look(folder: Path) -> None:
    features = folder / "data" / "features" / "homogeneity" / "v2"
    shutil.move(features, folder / "elsewhere")
    gated(folder, {**BLOCK, "looks": 1})
    assert not (folder / "results" / "gate" / "looks.csv").exists()
    shutil.move(folder / "elsewhere", features)
    assert gated(folder, {**BLOCK, "looks": 1}).status == 0
    counted = (folder / "results" / "gate" / "looks.csv").read_bytes()
    shutil.move(features, folder / "elsewhere")  # and takes none back: any number of looks was free after one
    assert gated(folder, {**BLOCK, "looks": 1}).status == 3
    assert (folder / "results" / "gate" / "looks.csv").read_bytes() == counted
    with pytest.raises(StoreError, match="counts looks of which 1 were planned"):
        gated(folder, {**BLOCK, "looks": 5})


@pytest.mark.parametrize(
    "damage", [b"<<<<<<< HEAD\nschema: '2.0'\n", b"stages: 5\n", b"", b"\xff\xfe\x00", b"schema: '2.0'\n"]
)
def test_a_dvc_lock_that_cannot_be_read_decides_nothing(folder: Path, damage: bytes) -> None:
    (folder / "dvc.lock").write_bytes(damage)
    made = gated(folder, {**BLOCK, "looks": 1})
    assert made.status == 3
    assert all("DVC cannot tell: dvc.lock cannot be read" in one.reason for one in made.decisions)
    assert not any("made without DVC" in sentence for sentence in made.left_out)
    assert not (folder / "results" / "gate" / "looks.csv").exists()


def test_unequal_missing_answers_without_bounds_are_inconclusive_never_passed(folder: Path) -> None:
    path = folder / "data" / "features" / "homogeneity" / "v2" / "answers.parquet"
    answers = pd.read_parquet(path)
    lost = answers["group"].str.contains("Black") & (answers.groupby("cluster").cumcount() % 2 == 0)
    answers.loc[lost, "status"] = "refusal"
    answers.loc[lost, "kept"] = False
    answers.to_parquet(path, index=False)
    made = gated(folder, {**BLOCK, "margins": {"homogeneity": {"pd_difference.marked": 5.0}}})
    (one,) = [one for one in made.decisions if one.pair.key == "pd_difference.marked"]
    assert one.outcome is Outcome.INCONCLUSIVE
    assert "what is missing of the candidate differs by group, and no bounds" in one.reason
    assert outcomes(made)["v2 noncompliance.difference"] is not Outcome.PASSED


def test_answers_of_both_that_cannot_be_read_do_not_pass(folder: Path) -> None:
    # All answers have more words than the limit allows: as many are missing of the two, and nothing else is compared.
    narrow = {**CONTENT["homogeneity"], "clean": {"word_limits": {"sports": 1, "music": 1}}}
    loaded = write(folder, {"baseline": "v1", "models": ["v2"]}, homogeneity=narrow)
    for model in ("v1", "v2"):
        path = folder / "data" / "generations" / "homogeneity" / f"{model}.parquet"
        pd.read_parquet(path).assign(text="none of these words is a category").to_parquet(path)
        for stage in STAGES[1:]:
            pipeline.STAGES[stage](loaded, "homogeneity", model, say=lambda _: None)
    made = gate(loaded, say=lambda _: None)
    assert outcomes(made)["v2 pd_difference.marked"] is Outcome.INCONCLUSIVE
    assert made.outcome is Outcome.INCONCLUSIVE
    assert not any("pd_difference" in sentence for sentence in made.left_out)


def test_a_score_that_one_model_lacks_is_not_left_out_as_not_comparable() -> None:
    measured, lacking = Score("k.x", 0.1, comparable=True, family=1), not_estimated("k.x", "too few texts")
    assert [_not_gated(*pair, None) for pair in ((lacking, measured), (measured, lacking))] == ["", ""]
    alone = Score("k.x", 0.1, family=1)
    assert _not_gated(lacking, alone, None) == _not_gated(alone, alone, None) == "not comparable between models"
    assert _not_gated(lacking, None, None) == _not_gated(None, None, None) == NEITHER


def test_by_default_controls_and_the_baseline_are_no_candidates(folder: Path) -> None:
    with pytest.raises(ParamsError, match="no model is left to be gated"):
        gated(folder, {"baseline": "v1"})


def test_scores_left_out_are_named(folder: Path) -> None:
    made = gated(folder, {"baseline": "v1", "models": ["v2"], "without": {"homogeneity": ["noncompliance.difference"]}})
    assert [one.pair.key for one in made.decisions] == ["pd_difference.marked"]
    assert "homogeneity noncompliance.difference: left out by gate.without" in made.left_out


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ({"models": ["v2"]}, "gate.baseline: Field required"),
        ({"baseline": "v1", "models": ["v3"]}, "gate.models: 'v3' is not defined under models; known: v1, v2, planted"),
        ({"baseline": "v1", "models": ["v1"]}, "gate.models: 'v1' is the baseline"),
        ({"baseline": "v1", "models": ["v2", "v2"]}, "gate: 'v2' is named twice"),
        ({"baseline": "v1", "audits": ["guise"]}, "gate.audits: 'guise' is not an audit of it; known: homogeneity"),
        ({"baseline": "v1", "without": {"guise": ["agreement.1933"]}}, "gate.without: 'guise' is not an audit of it"),
        (
            {"baseline": "v1", "margins": {"homogeneity": {"gap": 1}}},
            "gate.margins.homogeneity: 'gap' is not a headline score; known: pd_difference.marked",
        ),
        ({"baseline": "v1", "margins": {"homogeneity": {"pd_difference.marked": 0}}}, "greater than 0"),
        ({"baseline": "v1", "margins": {"homogeneity": {"pd_difference.marked": float("nan")}}}, "marked: "),
        (
            {"baseline": "v1", "margins": MARGIN, "without": {"homogeneity": ["pd_difference.marked"]}},
            "gate.without.homogeneity: pd_difference.marked has a margin, too",
        ),
    ],
)  # fmt: skip
def test_wrong_gate_params_are_one_sentence(tmp_path: Path, block: dict[str, Any], fault: str) -> None:
    with pytest.raises(ParamsError) as raised:
        write(tmp_path, block)
    assert fault in str(raised.value) and len(str(raised.value).splitlines()) == 1


def git(folder: Path, *command: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]
    subprocess.run(["git", *identity, *command], cwd=folder, check=True, capture_output=True)


def committed(folder: Path, *more: str) -> None:
    """The study as a Git repository whose one commit has the features of v2, by DVC."""
    git(folder, "init", "--initial-branch", "main")
    for command in (["init"], ["add", "data/features/homogeneity/v2"]):
        subprocess.run([sys.executable, "-m", "dvc", *command, "-q"], cwd=folder, check=True, capture_output=True)
    git(folder, "add", "data/features/homogeneity/v2.dvc", "params.yaml", ".dvc", *more)
    git(folder, "commit", "-m", "first")


def test_a_revision_as_baseline_is_the_candidate_as_it_was(folder: Path) -> None:
    features = folder / "data" / "features" / "homogeneity"
    committed(folder)
    same = gated(folder, {"baseline": "main", "models": ["v2"]})
    agree = ("Not shown", "the two agree in every cluster")  # the second where so few names could show nothing
    assert same.status == 0 and all(any(said in one.reason for said in agree) for one in same.decisions)
    table = pd.read_csv(folder / "results" / "gate" / "gate.csv")
    assert table["baseline"].str.fullmatch(r"main \([0-9a-f]{7}\)").all()
    shutil.rmtree(features / "v2")
    shutil.copytree(features / "planted", features / "v2")
    assert gated(folder, {"baseline": "main", "models": ["v2"], "margins": MARGIN}).status == 1
    other = gated(folder, {"baseline": "main", "models": ["planted"]})
    assert other.status == 3 and all("main has no features of planted" in one.reason for one in other.decisions)


def test_a_revision_whose_data_are_in_no_cache_and_no_remote_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a clone of which one commit alone was pushed and pulled."""
    own = folder / "data" / "stimuli" / "homogeneity"
    own.mkdir(parents=True)
    (own / "names.csv").write_text("name,race,gender\n", encoding="utf-8")
    committed(folder)
    dvc(folder, "add", "-q", own.relative_to(folder).as_posix())
    git(folder, "add", f"{own}.dvc")
    git(folder, "commit", "-m", "stimuli of its own")
    shutil.rmtree(folder / ".dvc" / "cache")
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "of another machine"))
    made = gated(folder, {"baseline": "main", "models": ["v2"]})
    assert made.status == 3 and all("main has no features of v2" in one.reason for one in made.decisions)
    with pytest.raises(RevisionError, match="data/stimuli/homogeneity of 'main' is not to be had"):
        Revision(folder, "main").stimuli("homogeneity")
    assert Revision(folder, "main").stimuli("personas") == {}


def test_a_revision_that_was_measured_otherwise_is_not_compared(folder: Path) -> None:
    committed(folder)
    otherwise = {**CONTENT["homogeneity"], "featurize": {"exclude_empty": True}}
    made = gated(folder, {"baseline": "main", "models": ["v2"]}, homogeneity=otherwise)
    why = "measured otherwise: homogeneity.featurize.exclude_empty differs between main and workspace"
    assert made.status == 3 and all(why in one.reason for one in made.decisions)


@pytest.mark.parametrize(
    ("generate", "model", "why"),
    [
        ({"temperature": 0.2}, {}, "homogeneity.generate.temperature is 0.2 in v2, 1.0 in main"),
        ({}, {"generate": {"homogeneity": {"study": "individual_prompt"}}}, "homogeneity.generate.study is"),
    ],
)
def test_a_revision_that_was_asked_otherwise_is_not_gated(
    folder: Path, generate: dict[str, Any], model: dict[str, Any], why: str
) -> None:
    committed(folder)
    own = CONTENT["homogeneity"]
    asked = {**own, "generate": {**own["generate"], **generate}}
    models = {**MODELS, "v2": MODELS["v2"] | model}
    made = gated(folder, {"baseline": "main", "models": ["v2"]}, homogeneity=asked, models=models)
    assert made.status == 3 and all(why in one.reason for one in made.decisions)
    more = {**own, "generate": {**own["generate"], "samples": 5}}
    made = gated(folder, {"baseline": "main", "models": ["v2"]}, homogeneity=more)
    assert made.status == 0
    assert any("homogeneity.generate.samples is 5 in v2, 4 in main" in said for said in made.left_out)


def test_a_param_that_this_version_does_not_know_hides_no_other(folder: Path) -> None:
    own = CONTENT["homogeneity"]
    earlier = {**own, "generate": {**own["generate"], "temperature": 0.2, "gone": 3}}
    (folder / "params.yaml").write_text(yaml.safe_dump({**CONTENT, "homogeneity": earlier}), encoding="utf-8")
    committed(folder)
    made = gated(folder, {"baseline": "main", "models": ["v2"]})
    why = "homogeneity.generate.temperature is 1.0 in v2, 0.2 in main"
    assert made.status == 3 and all(why in one.reason for one in made.decisions)


@pytest.mark.parametrize(
    ("earlier", "why"),
    [
        (["homogeneity"], "params.yaml of 'main' is no mapping in YAML"),
        ("made: 2020-13-45", "params.yaml of 'main' is no mapping in YAML"),
        (CONTENT | {"homogeneity": {"featurize": "fast"}}, "homogeneity.featurize of params.yaml at 'main' is no"),
        (CONTENT | {"homogeneity": {"generate": 3}}, "homogeneity.generate of params.yaml at 'main' is no mapping"),
        ({**CONTENT, "models": ["v2"]}, "models of params.yaml at 'main' is no mapping"),
        ({**CONTENT, "models": {"v2": {"backend": "scripted", "generate": [1]}}}, "models.v2.generate of params.yaml"),
        (None, "'main' has no params.yaml, so that it is not known how its models were asked"),
    ],
)  # fmt: skip
def test_a_revision_whose_params_cannot_be_read_is_said_and_others_are_compared(
    folder: Path, earlier: object, why: str
) -> None:
    path = folder / "params.yaml"
    content = path.read_text(encoding="utf-8")
    path.write_text(earlier if isinstance(earlier, str) else yaml.safe_dump(earlier), encoding="utf-8")
    committed(folder)
    if earlier is None:
        git(folder, "rm", "--cached", "params.yaml")
        git(folder, "commit", "-m", "without params")
    path.write_text(content, encoding="utf-8")
    made = gated(folder, {"baseline": "main", "models": ["v2"]})
    assert made.status == 3 and made.decisions and all(why in one.reason for one in made.decisions)
    loaded = params.load(path)
    said: list[str] = []
    table = revisions.compare(loaded, "main", "workspace", say=said.append)
    assert len(table) and table["note"].str.contains(why, regex=False).all() and table["difference"].isna().all()
    git(folder, "add", "params.yaml")
    git(folder, "commit", "-m", "second")
    assert gated(folder, {"baseline": "main", "models": ["v2"]}).status == 0


@pytest.mark.parametrize("repository", ["study", "above"])
def test_a_revision_whose_params_were_committed_without_a_run_is_not_compared(folder: Path, repository: str) -> None:
    made_by = {"params": ["${item.audit}.clean", "${item.audit}.evaluate"], "cmd": "true ${item}"}
    stages = {"clean": {"matrix": {"audit": "${audits}", "model": "${run}"}, **made_by}}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    own = {**CONTENT["homogeneity"], "clean": {"refusal_words": ["no"]}}
    write(folder, None, homogeneity=own)
    git(folder if repository == "study" else folder.parent, "init", "--initial-branch", "main")
    init = ["init"] if repository == "study" else ["init", "--subdir"]
    for command in (init, ["add", "data/features/homogeneity/v2"], ["repro"]):
        subprocess.run([sys.executable, "-m", "dvc", *command, "-q"], cwd=folder, check=True, capture_output=True)
    git(folder, "add", "data/features/homogeneity/v2.dvc", "dvc.yaml", "dvc.lock", "params.yaml", ".dvc")
    git(folder, "commit", "-m", "a run")
    block = {"baseline": "main", "models": ["v2"]}
    assert gated(folder, block, homogeneity=own).status == 0
    write(folder, None, homogeneity={**own, "clean": {"refusal_words": ["tea"]}})
    git(folder, "commit", "-a", "-m", "params alone")
    made = gated(folder, block, homogeneity=own)
    why = "of v2 at 'main' are older than params, data or code there (clean@homogeneity-v2: params.yaml homogeneity."
    assert made.status == 3 and made.decisions and all(why in one.reason for one in made.decisions)
    table = revisions.compare(params.load(folder / "params.yaml"), "main", "main~1", say=lambda _: None)
    assert table["note"].str.contains(why, regex=False).all() and table["difference"].isna().all()


@pytest.mark.parametrize(("key", "value"), [("size", "paper"), ("language", "de")])
def test_a_revision_whose_size_or_language_was_committed_without_a_run_is_not_compared(
    folder: Path, key: str, value: str
) -> None:
    stages = {"settings": {"cmd": "true", "deps": ["params.yaml"]}}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    own = {**CONTENT["homogeneity"], "generate": {"cues": ["sports", "music"], "samples": 4}}
    loaded = write(folder, None, homogeneity=own)
    settings = folder / "data" / "settings" / "homogeneity.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_bytes(pipeline.settings(loaded, "homogeneity"))
    git(folder, "init", "--initial-branch", "main")
    for command in (["init"], ["add", "data/features/homogeneity/v2"], ["repro"]):
        subprocess.run([sys.executable, "-m", "dvc", *command, "-q"], cwd=folder, check=True, capture_output=True)
    made = ["data/features/homogeneity/v2.dvc", "data/settings", "dvc.yaml", "dvc.lock", "params.yaml", ".dvc"]
    git(folder, "add", *made)
    git(folder, "commit", "-m", "a run")
    block = {"baseline": "main", "models": ["v2"]}
    assert gated(folder, block, homogeneity=own).status == 0
    write(folder, None, homogeneity={**own, key: value})
    git(folder, "commit", "-a", "-m", "params alone")
    found = gated(folder, block, homogeneity=own)
    why = "the results of v2 at 'main' are older than params, data or code there (params.yaml homogeneity)"
    assert found.status == 3 and found.decisions and all(why in one.reason for one in found.decisions)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_revision_whose_texts_were_committed_without_a_run_is_not_compared(folder: Path, ignored: bool) -> None:
    """Ignored files that no run read, as desktops leave them, are no texts that git lacks; those that one read are."""
    texts = folder / "data" / "corpora" / "own"
    texts.mkdir(parents=True)
    (texts / "mine.csv").write_text("text\none\n", encoding="utf-8")
    (texts / "private.csv").write_text("text\none\n", encoding="utf-8")
    (folder / ".gitignore").write_text(".DS_Store\n" + "private.csv\n" * ignored, encoding="utf-8")
    stages = {
        "generate": {
            "matrix": {"audit": "${audits}", "model": "${run}"}, "cmd": "true ${item}", "deps": ["data/corpora/own"],
        }
    }  # fmt: skip
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    write(folder, None)
    git(folder, "init", "--initial-branch", "main")
    for command in (["init"], ["add", "data/features/homogeneity/v2"], ["repro"]):
        subprocess.run([sys.executable, "-m", "dvc", *command, "-q"], cwd=folder, check=True, capture_output=True)
    git(
        folder, "add", "data/features/homogeneity/v2.dvc", "data/corpora", "dvc.yaml", "dvc.lock", "params.yaml", ".dvc"
    )
    git(folder, "commit", "-m", "a run")
    (texts / ".DS_Store").write_text("", encoding="utf-8")
    block = {"baseline": "main", "models": ["v2"]}
    assert gated(folder, block).status == 0
    (texts / "mine.csv").write_text("text\ntwo\n", encoding="utf-8")
    git(folder, "commit", "-a", "-m", "texts alone")
    reasons = [one.reason for one in gated(folder, block).decisions]
    told = [
        "are older than params, data or code there (generate@homogeneity-v2: data/corpora/own" in r for r in reasons
    ]
    assert all(told) is not ignored and any(told) is not ignored


def test_a_revision_with_other_stimuli_or_other_code_is_not_compared(folder: Path) -> None:
    own, code = folder / "data" / "stimuli" / "homogeneity", folder / "markedness.yaml"
    own.mkdir(parents=True)
    (own / "removed.csv").write_text("word\n", encoding="utf-8")
    installed = {"version": "0.0.9", "stages": stage_code.hashes(), "files": {}}
    code.write_text(yaml.safe_dump(installed), encoding="utf-8")
    committed(folder, "data/stimuli", "markedness.yaml")
    block = {"baseline": "main", "models": ["v2"]}
    assert gated(folder, block).status == 0
    (own / "removed.csv").write_text("word\nthing\n", encoding="utf-8")
    (one, *_) = gated(folder, block).decisions
    assert "data/stimuli/homogeneity/removed.csv differs between main and workspace" in one.reason
    (own / "removed.csv").write_text("word\n", encoding="utf-8")
    code.write_text("stages: {clean: {homogeneity: another}}\n", encoding="utf-8")
    git(folder, "commit", "--quiet", "--all", "--message", "Of another version")
    code.write_text(yaml.safe_dump(installed), encoding="utf-8")
    (one, *_) = gated(folder, block).decisions
    assert "the code of clean differs between main and workspace (markedness.yaml)" in one.reason


@pytest.mark.parametrize("within_dvc", [False, True])
def test_results_of_other_weights_than_are_in_the_folder_are_not_gated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, within_dvc: bool
) -> None:
    """DVC does not watch a model's folder: the weights are overwritten, and nothing reruns."""
    if within_dvc:
        monkeypatch.setenv("DVC_STAGE", "report")
    weights = folder / "models" / "v2" / "model.safetensors"
    weights.parent.mkdir(parents=True, exist_ok=True)
    local = {**MODELS, "v2": {"backend": "transformers", "path": "models/v2"}}
    block = {"baseline": "v1", "models": ["v2"]}

    def reasons() -> set[str]:
        return {one.reason for one in gated(folder, block, models=local).decisions if "other weights" in one.reason}

    assert not reasons()  # no weights are here
    weights.write_bytes(b"first")
    who = served_by.weights(weights.parent, folder / "weights.json")
    used = {"ledger": {"answers": 9, "first": None, "last": None, "models": {}, "served_by": {who: 9}, "version": 2}}
    Store(folder).ledger_path("homogeneity", "v2").write_text(json.dumps(used) + "\n", encoding="utf-8")
    assert not reasons()
    weights.write_bytes(b"other")
    (why,) = reasons()
    assert "models/v2 has other weights than answered" in why and "dvc repro --force generate@homogeneity-v2" in why
    assert gated(folder, block, models=local).status == 3
    weights.write_bytes(b"first")
    assert not reasons()


def test_weights_that_appear_or_get_another_neighbour_leave_the_inputs_of_a_run(folder: Path) -> None:
    """The first run converts them into their folder; a note beside them, or none of them here, changes no answer."""
    local = {**MODELS, "v2": {"backend": "transformers", "path": "models/v2"}}
    loaded = write(folder, {"baseline": "v1", "models": ["v2"]}, models=local)
    before = stale.inputs(loaded, "homogeneity", "v2")
    weights = folder / "models" / "v2" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"first")
    (weights.parent / "README.md").write_text("a note", encoding="utf-8")
    assert stale.inputs(loaded, "homogeneity", "v2") == before


def test_features_of_other_params_than_were_evaluated_are_not_gated(folder: Path) -> None:
    """Its stages are run by hand with other params, which are then edited back, and nothing is evaluated."""
    block = {"baseline": "v1", "models": ["v2"]}
    loaded = write(folder, block)
    stale.remember(folder, "homogeneity", "v2", stale.inputs(loaded, "homogeneity", "v2"))
    assert not any("older than params" in one.reason for one in gated(folder, block).decisions)
    features = Store(folder).features_path("homogeneity", "v2")
    shutil.rmtree(features)
    shutil.copytree(Store(folder).features_path("homogeneity", "planted"), features)
    made = gated(folder, block)
    assert made.status == 3
    assert all("(features since 'markedness run')" in one.reason for one in made.decisions)


def test_results_of_other_answers_than_are_there_now_are_not_gated(folder: Path) -> None:
    """Weights are overwritten and generate is run alone: answers of the new ones, results of the old."""
    block = {"baseline": "v1", "models": ["v2"]}
    loaded = write(folder, block)
    stale.remember(folder, "homogeneity", "v2", stale.inputs(loaded, "homogeneity", "v2"))
    answers = Store(folder).ledger_path("homogeneity", "v2")
    answers.write_text(answers.read_text(encoding="utf-8").replace("rule:", "rule:other"), encoding="utf-8")
    made = gated(folder, block)
    assert made.status == 3
    assert all("(answers since 'markedness run')" in one.reason for one in made.decisions)


def test_results_that_are_older_than_their_params_are_not_gated(folder: Path) -> None:
    """A stage of DVC wrote them; what it depends on is edited, and edited back."""
    git(folder, "init", "--initial-branch", "main")
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=folder, check=True, capture_output=True)
    matrix = {"audit": ["homogeneity"], "model": ["v2"]}
    stage = {"matrix": matrix, "cmd": "true", "params": ["seed"], "deps": ["read.txt", "data/settings"]}
    settings = {"cmd": f"{sys.executable} -m markedness params resolve", "deps": ["params.yaml"],
                "outs": ["data/settings"]}  # fmt: skip
    stages: dict[str, dict[str, Any]] = {"settings": settings, "evaluate": stage}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    (folder / "read.txt").write_text("as it was", encoding="utf-8")

    def reasons(**more: Any) -> set[str]:
        made = gated(folder, {"baseline": "v1", "models": ["v2"]}, **{"seed": 1, **more})
        return {one.reason for one in made.decisions if "older than params" in one.reason}

    assert not reasons()  # no stage of DVC made them
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], cwd=folder, check=True, capture_output=True)
    assert not reasons()
    hashes = stage_code.hashes()
    recorded = {"version": "0.0.9", "stages": hashes, "files": {}, "seal": ""}
    (folder / studies.FILE).write_text(yaml.safe_dump(recorded), encoding="utf-8")
    assert not reasons(), "the code is the same in another version"
    other = {**recorded, "stages": {**hashes, "clean": {"homogeneity": "0" * 32}}}
    (folder / studies.FILE).write_text(yaml.safe_dump(other), encoding="utf-8")
    assert "stage clean of homogeneity" in reasons().pop(), "installed is another version than made the results"
    (folder / studies.FILE).unlink()
    (why,) = reasons(seed=12345)
    assert why.startswith("the results of v2 are older than params, data or code (evaluate@homogeneity-v2: params.yaml")
    gated(folder, {"baseline": "v1", "models": ["v2"], "looks": 2}, seed=12345)
    assert not (folder / "results" / "gate" / "looks.csv").exists(), "what decides nothing is no look"
    assert not reasons(report={"examples": 2}), "an edit that changes nothing that was asked"
    more = {**CONTENT["homogeneity"], "generate": {**CONTENT["homogeneity"]["generate"], "temperature": 0.123}}
    assert "params.yaml homogeneity" in reasons(homogeneity=more).pop()
    stale.remember(folder, "homogeneity", "v2", {"params.yaml": "of an earlier markedness run"})
    assert not reasons(), "DVC made the same results later"
    (folder / "read.txt").write_text("edited", encoding="utf-8")
    assert "read.txt" in reasons().pop()
    (folder / "read.txt").unlink()  # what is not here may be in a remote
    assert not reasons()
    stages["evaluate"]["matrix"]["model"] = ["v3"]  # v2 is no longer run: DVC knows nothing of it
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    assert not reasons()


def dvc(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *command], cwd=folder, check=True, capture_output=True, encoding="utf-8"
    )
    return done.stdout


def own_names(folder: Path, *left_out: str) -> None:
    """A file of names beside params.yaml, which wins over the shipped one."""
    lines = (SHIPPED / "data" / "stimuli" / "homogeneity" / "names.csv").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(left_out or "#")]
    (folder / "names.csv").write_text("\n".join(kept) + "\n", encoding="utf-8")


def test_a_cache_that_dvc_cannot_write_decides_nothing_and_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(folder, "init", "--initial-branch", "main")
    dvc(folder, "init", "-q")
    stages = {"evaluate": {"matrix": {"audit": ["homogeneity"], "model": ["v2"]}, "cmd": "true", "deps": ["read.txt"]}}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    (folder / "read.txt").write_text("as it was", encoding="utf-8")
    dvc(folder, "repro", "-q")
    (folder / "full").write_text("no folder can be made here", encoding="utf-8")
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(folder / "full"))
    made = gated(folder, {"baseline": "v1", "models": ["v2"], "looks": 2})
    assert made.status == 3 and not (folder / "results" / "gate" / "looks.csv").exists()
    assert all("DVC cannot tell: DVC stopped on the files that it keeps" in one.reason for one in made.decisions)
    with pytest.raises(DVCStateError, match=r"FileExistsError|NotADirectoryError"):
        changed_files(folder)
    done = subprocess.run([sys.executable, "-m", "markedness", "report"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "DVC cannot tell" in (folder / "reports" / "v2.html").read_text(encoding="utf-8")


def test_results_of_other_stimuli_than_are_beside_the_params_are_not_gated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dvc.yaml names no file beside params.yaml, so that nothing reruns for it."""
    git(folder, "init", "--initial-branch", "main")
    dvc(folder, "init", "-q")
    matrix = {"audit": ["homogeneity"], "model": ["v2"]}
    table, texts = "data/generations/${item.audit}/${item.model}.parquet", folder / "data" / "corpora" / "own"
    command = f"{sys.executable} -m markedness generate ${{item}}"
    generate = {"matrix": matrix, "cmd": command, "deps": ["data/corpora/own"], "outs": [table]}
    stages = {"generate": generate, "evaluate": {"matrix": matrix, "cmd": "true", "deps": [table]}}
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    texts.mkdir(parents=True)
    own_names(folder)
    loaded = write(folder, {"baseline": "v1", "models": ["v2"]})
    settings = Store(folder).settings() / "homogeneity.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_bytes(pipeline.settings(loaded, "homogeneity"))

    def reasons() -> set[str]:
        made = gate(loaded, say=lambda _: None)
        return {one.reason for one in made.decisions if "older than params" in one.reason}

    force = "dvc repro --force generate@homogeneity-v2"
    said = (
        f"DVC does not watch names.csv; after a change of it run '{force}', or keep it under data/stimuli/homogeneity"
    )
    assert said in dvc(folder, "repro")
    assert not reasons()
    own_names(folder, "Min,")
    assert "up to date" in dvc(folder, "repro")
    why = f"are older than params, data or code (names.csv, which DVC does not watch: first run '{force}')"
    assert why in reasons().pop()
    with monkeypatch.context() as within:
        within.setenv("DVC_STAGE", "report")
        assert why in reasons().pop()
    dvc(folder, *force.split()[1:])
    dvc(folder, "repro")
    assert not reasons()
    (folder / "names.csv").unlink()  # what is not here may be elsewhere
    assert not reasons()
    own_names(folder)
    assert why in reasons().pop()
    generated = folder / "data" / "generations" / "homogeneity" / "v2.parquet"
    pd.read_parquet(generated).to_parquet(generated, index=False)
    assert not any("names.csv" in one for one in reasons()), "of an earlier version, which did not keep what it read"


def test_a_revision_whose_stimuli_beside_the_params_were_committed_without_a_run_is_not_compared(folder: Path) -> None:
    own_names(folder)
    loaded = write(folder, None)
    for stage in STAGES:
        pipeline.STAGES[stage](loaded, "homogeneity", "v2", say=lambda _: None)
    (folder / "dvc.yaml").write_text("stages: {}\n", encoding="utf-8")
    git(folder, "init", "--initial-branch", "main")
    made = ["data/features/homogeneity/v2", "data/generations/homogeneity/v2.parquet"]
    dvc(folder, "init", "-q")
    dvc(folder, "add", "-q", *made)
    git(folder, "add", "names.csv", "dvc.yaml", "params.yaml", ".dvc", *(f"{one}.dvc" for one in made))
    git(folder, "commit", "-m", "a run")
    block = {"baseline": "main", "models": ["v2"]}
    assert gated(folder, block).status == 0
    own_names(folder, "Min,")
    git(folder, "commit", "-a", "-m", "names alone")
    found = gated(folder, block)
    why = "the results of v2 at 'main' are older than params, data or code there (generate@homogeneity-v2: names.csv)"
    assert found.status == 3 and found.decisions and all(why in one.reason for one in found.decisions)
    for stage in STAGES:
        pipeline.STAGES[stage](loaded, "homogeneity", "v2", say=lambda _: None)
    git(folder, "checkout", "-q", "main~1")  # the names of the first run, and what it made
    git(folder, "branch", "-f", "main")
    own_names(folder, "Min,")
    found = gated(folder, block)
    why = "asked or measured otherwise: names.csv differs between main and workspace; make both by the same files"
    assert found.status == 3 and found.decisions and all(why in one.reason for one in found.decisions)


def test_a_revision_that_moved_is_another_look_and_one_of_the_same_data_is_not(folder: Path) -> None:
    features = folder / "data" / "features" / "homogeneity"

    def commit(name: str) -> None:
        command = [sys.executable, "-m", "dvc", "add", str(features / "v2"), "-q"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        git(folder, "add", "data/features/homogeneity/v2.dvc", "params.yaml", ".dvc")
        git(folder, "commit", "--allow-empty", "-m", name)

    def look() -> int:
        gated(folder, {"baseline": "main", "models": ["v2"], "looks": 3})
        return int(pd.read_csv(folder / "results" / "gate" / "looks.csv")["look"].max())

    git(folder, "init", "--initial-branch", "main")
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=folder, check=True, capture_output=True)
    commit("first")
    assert look() == 1
    commit("nothing of it changed")
    assert look() == 1
    kept = shutil.copytree(features / "v2", folder / "kept")
    shutil.copytree(features / "planted", features / "v2", dirs_exist_ok=True)
    commit("other features")
    shutil.copytree(kept, features / "v2", dirs_exist_ok=True)
    assert look() == 2


def test_junit_and_summary_take_any_reason() -> None:
    bad = "a|b <script> \x00\x1b \ud800 \uffff ]]> `x`"
    made = [Decision(Pair("v2", "toy", "x.y"), outcome, bad) for outcome in Outcome]
    failure = ET.fromstring(outputs.junit(made, bad)).find(".//failure")
    assert failure is not None and failure.attrib["message"] == "a|b <script>    ]]> `x`"
    summary = outputs.summary(made, "a|b <script>", ["a|b\n<script>"])
    assert all(line.replace("\\|", "").count("|") == 5 for line in summary.splitlines() if line.startswith("| "))
    assert "<script>" not in summary.replace("\\<script>", "")
    assert "- a\\|b \\<script>" in summary.splitlines()


@pytest.fixture
def _without_mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """track sets MLflow's switches and its store; a test leaves none behind."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.usefixtures("_without_mlflow")
def test_mlflow_is_told_once_and_not_of_other_results(folder: Path) -> None:
    import mlflow

    def told() -> list[str]:
        client = mlflow.MlflowClient(tracking_uri=tracking_store.address(folder))
        experiment = client.get_experiment_by_name("markedness")
        found = client.search_runs([experiment.experiment_id], "tags.kind = 'model' and tags.model = 'v2'")
        return [one.data.tags.get("gate", "") for one in found]

    loaded = write(folder, BLOCK, run=["v2"])
    said: list[str] = []
    study.track(loaded, said.append)
    assert told() == [""]
    assert gated(folder, BLOCK, run=["v2"]).status == 0
    for _ in range(2):
        study.track(loaded, said.append)
    assert told() == ["passed against v1"]
    assert said[-2].startswith("track: gate of v2 logged to ") and said[-1] == "track: nothing changed, nothing logged"
    scores = Store(folder).results("homogeneity", "v2") / "scores.csv"
    scores.write_text(scores.read_text(encoding="utf-8").replace("names", "Names"), encoding="utf-8")
    study.track(loaded, said.append)
    assert sorted(told()) == ["", "passed against v1"], "other results, which the gate has not seen"


def test_tag_of_a_gate_is_none_once_the_results_of_its_baseline_are_others(folder: Path) -> None:
    gated(folder, BLOCK)
    store, runs = Store(folder), {"v1": ["homogeneity"], "v2": ["homogeneity"]}
    assert outputs.tags(store, runs) == {"v2": "passed against v1"}
    assert outputs.tags(store, runs | {"v1": []}) == {}, "results of the baseline that are not of now"
    table = pd.read_csv(folder / "results" / "gate" / "gate.csv", dtype=str, keep_default_na=False)
    scores = folder / "results" / "homogeneity" / "v1" / "scores.csv"
    scores.write_text(scores.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert outputs.tags(store, runs) == {}
    table.drop(columns="baseline_digest").to_csv(folder / "results" / "gate" / "gate.csv", index=False)
    assert outputs.tags(store, runs) == {"v2": "passed against v1"}, "of a version that did not know"
