"""One contract for every audit, on its default study asked of the two scripted controls."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from markedness import audits, params, pipeline
from markedness.params import Params
from markedness.records import ESTIMATE_COLUMNS, GENERATION_COLUMNS, Card, Evaluation, Features, Status
from markedness.store import Store

ROOT = Path(__file__).parents[2]
SHIPPED = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
READY = [audit for audit in SHIPPED["audits"] if (ROOT / f"src/markedness/audits/{audit}/evaluate.py").exists()]
CONTROLS = ("control-none", "control-planted")
# The columns that outside readers rely on, per audit and table.
TABLES = {
    "personas": {
        "marked_words": "kind group word rank z count_target",
        "jsd": "kind group word rank share side",
        "svm": "kind group labeling accuracy balanced_accuracy f1 majority_baseline",
        "svm_words": "kind group word rank weight",
        "lexicon": "kind lexicon group mean_percent standard_error n",
        "sentiment": "kind group mean sd n",
        "word_share": "kind group words share ci_low ci_high n",
        "similarity": "kind group mean_cosine ci_low ci_high n",
        "refusals": "kind prompt group n refusals other_missing",
    },
    "homogeneity": {
        "probability_of_differentiation": "axis group cue pd ci_low ci_high n",
        "effects": "comparison cue d ci_low ci_high z p",
        "meta_analysis": "comparison d ci_low ci_high p tau2 i2 k",
    },
    "guise": {
        "associations": "setting prompt attribute q",
        "agreement": "",
        "favorability": "",
        "employability": "",
        "decisions": "",
        "features": "",
    },
    "knowledge": {
        "triples": "class subject predicate object round strategy regard toxicity topic",
        "regard": "",
        "toxicity": "",
        "relative_entropy": "class subject kl null_mean excess",
        "topics": "",
    },
    "annotation": {
        "gaps": "group task gap ci_low ci_high t p p_adjusted n_pairs missing",
        "dialect_gaps": "task gap t p p_adjusted welch_p cohens_h n_texts",
        "missing": "",
    },
}


class Study:
    """The shipped params of one audit, run on both controls in a folder of its own."""

    def __init__(self, folder: Path, audit: str) -> None:
        models = {name: SHIPPED["models"][name] for name in CONTROLS}
        content = {"audits": [audit], "run": list(CONTROLS), "seed": 1, "models": models, audit: SHIPPED[audit]}
        (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        self.audit = audit
        self.params: Params = params.load(folder / "params.yaml")
        self.store = Store(folder)
        for model in CONTROLS:
            for stage in audits.STAGES:
                pipeline.STAGES[stage](self.params, audit, model, say=lambda _: None)

    def table(self, kind: str, model: str = "control-planted") -> pd.DataFrame:
        return self.store.read_table(kind, self.audit, model)

    def stage(self, name: str) -> tuple[Callable[..., Any], Any]:
        module = audits.stage(self.audit, name)
        return getattr(module, name), self.params.stage(self.audit, name)


@pytest.fixture(scope="module", params=READY)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study(tmp_path_factory.mktemp(request.param), request.param)


def digest(table: pd.DataFrame) -> str:
    return hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()


def test_card_of_every_audit_says_everything(study: Study) -> None:
    card = audits.card(study.audit)
    assert isinstance(card, Card)
    assert all(getattr(card, name) for name in ("title", "question", "paper", "groups", "unit", "estimand", "limits"))
    assert len(card.headline) == 5


def test_generate_writes_the_columns_of_the_contract(study: Study) -> None:
    assert set(GENERATION_COLUMNS) <= set(study.table("generations"))


def test_clean_keeps_every_row_and_its_input(study: Study) -> None:
    clean, stage_params = study.stage("clean")
    generations = study.table("generations")
    before = digest(generations)
    responses = clean(generations, stage_params)
    assert digest(generations) == before
    assert len(responses) >= len(generations)
    assert set(responses["status"]) <= {status.value for status in Status}
    assert {"prompt_id", "group", "answer"} <= set(responses)


def test_clean_labels_a_row_without_answer_as_failed(study: Study) -> None:
    clean, stage_params = study.stage("clean")
    generations = study.table("generations").copy()
    answers = [name for name in ("text", "log_prob") if name in generations]
    generations.loc[generations.index[0], answers] = None
    generations.loc[generations.index[0], "error"] = "the server was gone"
    assert (clean(generations, stage_params)["status"] == Status.FAILED.value).any()


def test_featurize_leaves_its_input_and_keeps_the_cluster(study: Study) -> None:
    featurize, stage_params = study.stage("featurize")
    responses = study.table("responses")
    before = digest(responses)
    made = featurize(responses, stage_params)
    table = made.table if isinstance(made, Features) else made
    assert digest(responses) == before
    assert audits.card(study.audit).cluster in table


def test_evaluate_gives_the_same_twice_and_the_promised_tables(study: Study) -> None:
    evaluate, stage_params = study.stage("evaluate")
    features = study.table("features")
    before = digest(features)
    first, second = (
        evaluate(features, stage_params, pipeline.generator(study.params, study.audit, "evaluate")) for _ in range(2)
    )
    assert digest(features) == before
    assert isinstance(first, Evaluation)
    assert list(first.estimates.columns[: len(ESTIMATE_COLUMNS)]) == list(ESTIMATE_COLUMNS)
    for name, columns in TABLES[study.audit].items():
        assert name in first.tables, f"{study.audit} lacks the table {name}"
        assert set(columns.split()) <= set(first.tables[name].columns), name
    assert {name: digest(table) for name, table in first.tables.items()} == {
        name: digest(table) for name, table in second.tables.items()
    }
    # NaN has no place in a dict comparison: compare as text
    assert str(dict(first.metrics)) == str(dict(second.metrics))


def test_metrics_hold_the_headline_and_at_most_thirty(study: Study) -> None:
    evaluate, stage_params = study.stage("evaluate")
    rng = pipeline.generator(study.params, study.audit, "evaluate")
    metrics = evaluate(study.table("features"), stage_params, rng).metrics
    assert len(metrics) <= 30
    assert set(audits.card(study.audit).headline) <= set(metrics)
    assert all(isinstance(value, int | float) for value in metrics.values())
    assert not any(math.isinf(value) for value in metrics.values())


def test_scores_are_the_headline_of_the_metrics(study: Study) -> None:
    module = audits.stage(study.audit, "evaluate")
    scores = module.scores(study.table("features"), study.params.stage(study.audit, "evaluate"))
    assert set(scores) <= set(audits.card(study.audit).headline)
    assert len(scores) >= 1


def test_stages_leave_no_part_of_a_file(study: Study) -> None:
    assert not [path for path in study.store.root.rglob(".*") if path.is_file()]
