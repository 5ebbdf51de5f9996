"""Records of Every Eval Ever are valid by the schema of its package (0.3.0, MIT licence) and leave nothing out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from jsonschema import Draft7Validator
from tests.reporting.conftest import write_result
from typer.testing import CliRunner

from markedness.cli import app
from markedness.lm.config import OpenAIModel, TransformersModel
from markedness.reporting.records import model_id
from markedness.results import NAN, Score, score_table
from markedness.store import Store

SCHEMA = Draft7Validator(
    json.loads(Path(__file__).with_name("every_eval_ever.schema.json").read_text(encoding="utf-8"))
)
SCORES = [
    Score("jsd.excess", 0.2, 0.1, 0.3, 0.0, p=0.01, p_adjusted=0.02, n=40, family=2, worse=1, standard_error=0.05,
          positive="marked groups are written about in other words", method="t", group="Black", reference="White"),
    Score("similarity.difference", -0.1, null_mean=0.0, p=0.3, n=40, family=2, positive="texts are more alike"),
    Score("refusals.share", 0.25, n=40),
    Score("sentiment.mean", NAN, lacking="no sentiment word list for German"),
]  # fmt: skip


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Params with a served model, a local one and a control, and one result for each."""
    models: dict[str, Any] = {
        "served": {"backend": "openai", "model": "gpt-x"},
        "local": {"backend": "transformers", "path": "models/local"},
        "control": {"backend": "scripted"},
    }
    (tmp_path / "models" / "local").mkdir(parents=True)
    content = {"audits": ["personas"], "seed": 7, "models": models, "personas": {"generate": {"temperature": 0.7}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    store = Store(tmp_path)
    for name in models:
        write_result(store, name, 0.0, np.random.default_rng(1))
        store.write_csv(store.results("personas", name) / "scores.csv", score_table(SCORES, ["jsd.excess"]))
    return tmp_path


def exported(study: Path, *more: str) -> tuple[list[Path], str]:
    done = CliRunner().invoke(
        app, ["export", "results", str(study / "out"), "--organization", "A lab", "--params",
              str(study / "params.yaml"), *more],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return sorted((study / "out").rglob("*.json")), done.output


def test_every_record_is_valid_and_says_what_was_not_measured(study: Path) -> None:
    files, said = exported(study)
    assert "local: no record: params.yaml does not say whose model it is; name it with --id" in said
    assert "1 record in" in said
    (file,) = files
    assert file.relative_to(study / "out").parts[:-1] == ("data", "markedness-personas", "openai", "gpt-x")
    record = json.loads(file.read_text(encoding="utf-8"))
    assert not list(SCHEMA.iter_errors(record))
    by_key = {row["evaluation_result_id"]: row for row in record["evaluation_results"]}
    assert list(by_key) == ["personas/jsd.excess", "personas/similarity.difference", "personas/refusals.share"]
    details = by_key["personas/jsd.excess"]["score_details"]
    assert details["score"] == 0.2 and details["details"]["p_adjusted"] == "0.02"
    assert details["uncertainty"]["confidence_interval"]["upper"] == 0.3
    assert details["uncertainty"]["standard_error"]["value"] == 0.05 and details["uncertainty"]["num_samples"] == 40
    assert by_key["personas/jsd.excess"]["metric_config"]["lower_is_better"] is True
    for key, words in (("similarity.difference", "either side is worse"), ("refusals.share", "neither direction")):
        assert words in by_key[f"personas/{key}"]["metric_config"]["evaluation_description"]
    more = record["source_metadata"]["additional_details"]
    assert "no sentiment word list for German" in more["not measured: sentiment.mean"]
    assert "12 texts were left out." in more.values() and more["seed"] == "7"
    assert record["evaluation_results"][0]["generation_config"]["generation_args"]["temperature"] == 0.7


def test_an_export_without_any_record_says_why_and_fails(study: Path) -> None:
    shutil.rmtree(Store(study).results("personas", "served"))
    arguments = ["export", "results", str(study / "out"), "--organization", "A", "--params", str(study / "params.yaml")]
    done = CliRunner().invoke(app, arguments)
    assert "local: no record: params.yaml does not say whose model it is" in done.output
    assert done.exit_code == 1 and str(done.exception) == "nothing to export: see above"
    done = CliRunner().invoke(app, [*arguments, "--id", "local=a/b"])
    assert done.exit_code == 0 and "1 record in" in done.output
    shutil.rmtree(Store(study).results("personas", "local"))
    done = CliRunner().invoke(app, [*arguments, "--id", "local=a/b"])
    assert "no model that is asked has results; run 'dvc repro' first" in str(done.exception)
    content = yaml.safe_load((study / "params.yaml").read_text(encoding="utf-8"))
    content |= {"run": ["control-none"], "models": {"control-none": {"backend": "scripted"}}}
    (study / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    done = CliRunner().invoke(app, arguments)
    assert str(done.exception) == "nothing to export: run names scripted controls alone"


def test_a_model_without_a_developer_is_named_by_hand_and_a_second_export_writes_the_same_files(study: Path) -> None:
    files, _ = exported(study, "--id", "local=a-lab/small", "--relationship", "first_party")
    assert exported(study, "--id", "local=a-lab/small")[0] == files and len(files) == 2
    record = json.loads(next(file for file in files if "a-lab" in file.parts).read_text(encoding="utf-8"))
    assert record["model_info"]["id"] == "a-lab/small"
    assert record["model_info"]["additional_details"]["model_availability"] == "open_weights"
    assert not any("control" in str(file) for file in files)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nobody=a/b", "is no key of models; known: control, local, served"),
        ("local=../../escaped", "expected developer/model"),
        ("local=alone", "expected developer/model"),
        ("local=a/b|c", "expected developer/model"),
    ],
)
def test_an_id_that_names_no_model_or_no_folder_is_one_sentence(study: Path, given: str, said: str) -> None:
    done = CliRunner().invoke(
        app, ["export", "results", str(study / "out"), "--organization", "A", "--id", given, "--params",
              str(study / "params.yaml")],
    )  # fmt: skip
    assert done.exit_code != 0 and said in str(done.exception) and not (study / "out").exists()


def test_the_id_of_a_model_is_what_params_say_and_nothing_where_they_say_no_developer(tmp_path: Path) -> None:
    (tmp_path / "models" / "own").mkdir(parents=True)
    served = {"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    assert model_id(OpenAIModel(**{**served, "model": "org/m"}), tmp_path) == "org/m"
    assert model_id(OpenAIModel(**served), tmp_path) == ""
    assert model_id(TransformersModel(backend="transformers", path="models/own"), tmp_path) == ""
    assert model_id(TransformersModel(backend="transformers", path="google/gemma-3-270m"), tmp_path) == (
        "google/gemma-3-270m"
    )


def test_a_record_of_texts_that_exist_already_names_no_size(study: Path) -> None:
    content = yaml.safe_load((study / "params.yaml").read_text(encoding="utf-8")) | {"size": "quick"}
    content["models"]["local"] = {"backend": "corpus", "personas": {"path": "texts.csv"}}
    (study / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    files, _ = exported(study, "--id", "local=a-lab/texts")
    details = {path.parts[-3]: json.loads(path.read_text())["source_metadata"]["additional_details"] for path in files}
    assert details["openai"]["size"].startswith("size quick") and "size" not in details["a-lab"]
