"""One contract for every audit, on its default study asked of the two scripted controls."""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from markedness import audits, generation, params, pipeline
from markedness.audits.base import CONTEXT_COLUMNS, EXAMPLE_COLUMNS
from markedness.axes import Axis, Value
from markedness.naming import axes_faults
from markedness.params import Params
from markedness.records import GENERATION_COLUMNS, Features, FeatureTables, Status
from markedness.reporting.results import read
from markedness.results import SCORE_COLUMNS, Evaluation, VerdictKind, verdict
from markedness.store import Store

pytestmark = pytest.mark.slow

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
        content = {"audits": [audit], "run": list(CONTROLS), "seed": 1, "models": models}
        content |= {"size": SHIPPED["size"], audit: SHIPPED[audit]}
        (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        self.audit = audit
        self.params: Params = params.load(folder / "params.yaml")
        self.store = Store(folder)
        for model in CONTROLS:
            for stage in audits.STAGES:
                pipeline.STAGES[stage](self.params, audit, model, say=lambda _: None)

    def table(self, kind: str, model: str = "control-planted") -> pd.DataFrame:
        return self.store.read_table(kind, self.audit, model)

    def features(self) -> FeatureTables:
        found = self.store.read_features(self.audit, "control-planted")
        assert isinstance(found, Features)
        return found.tables

    @property
    def spec(self) -> audits.AuditSpec:
        return audits.spec(self.audit)

    def evaluate(self) -> Evaluation:
        rng = generation.generator(self.params, self.audit, "evaluate")
        return self.spec.evaluate(self.features(), self.params.stage(self.audit, "evaluate"), rng)


@pytest.fixture(scope="module", params=READY)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study(tmp_path_factory.mktemp(request.param), request.param)


def digest(table: pd.DataFrame) -> str:
    return hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()


def test_card_of_every_audit_says_everything(study: Study) -> None:
    card = study.spec.card
    assert all((card.title, card.question, card.paper, card.groups, card.unit, card.estimand, card.limits))
    assert 3 <= len(study.spec.headline) <= 8


def test_generate_writes_the_columns_of_the_contract(study: Study) -> None:
    assert set(GENERATION_COLUMNS) <= set(study.table("generations"))


def test_clean_keeps_every_row_and_its_input(study: Study) -> None:
    generations = study.table("generations")
    before = digest(generations)
    responses = study.spec.clean(generations, study.params.stage(study.audit, "clean"))
    assert digest(generations) == before
    assert len(responses) >= len(generations)
    assert set(responses["status"]) <= {status.value for status in Status}
    assert {"prompt_id", "group", "answer"} <= set(responses)


def test_clean_labels_a_row_without_answer_as_failed(study: Study) -> None:
    generations = study.table("generations").copy()
    answers = [name for name in ("text", "log_prob") if name in generations]
    generations.loc[generations.index[0], answers] = None
    generations.loc[generations.index[0], "error"] = "the server was gone"
    responses = study.spec.clean(generations, study.params.stage(study.audit, "clean"))
    assert (responses["status"] == Status.FAILED.value).any()


def test_featurize_leaves_its_input_and_keeps_the_cluster(study: Study) -> None:
    responses = study.table("responses")
    before = digest(responses)
    stage_params = study.params.stage(study.audit, "featurize")
    made = study.spec.featurize(responses, stage_params, study.store.stimuli(study.audit))
    assert isinstance(made, Features)
    assert digest(responses) == before
    assert study.spec.cluster in made.tables[study.spec.table]


def test_features_hold_plain_columns_and_no_attributes(study: Study) -> None:
    for name, table in study.features().items():
        assert not {key for key in table.attrs if not str(key).startswith("PANDAS")}, name


def test_columns_of_the_stages_are_names_that_no_axis_may_have(study: Study) -> None:
    columns = study.spec.corpus
    if columns.axes == "none":
        return  # an axis names a class of subjects, and no column
    axes = study.params.axes(study.audit)
    written = {*study.table("generations"), *study.table("responses"), *study.features()[study.spec.table]}
    another = Axis(unmarked="x", values={"x": Value(), "y": Value()})
    for name in written - {*axes, *columns.may_be_axis}:
        faults = axes_faults({**axes, name: another}, columns)
        assert any(fault.startswith((f"{name}: ", f"'{name}': ")) for fault in faults), name


def test_evaluate_gives_the_same_twice_and_the_promised_tables(study: Study) -> None:
    before = {name: digest(table) for name, table in study.features().items()}
    first, second = study.evaluate(), study.evaluate()
    assert {name: digest(table) for name, table in study.features().items()} == before
    for name, columns in TABLES[study.audit].items():
        assert name in first.tables, f"{study.audit} lacks the table {name}"
        assert set(columns.split()) <= set(first.tables[name].columns), name
    assert {name: digest(table) for name, table in first.tables.items()} == {
        name: digest(table) for name, table in second.tables.items()
    }
    assert str(first.scores) == str(second.scores)  # as text: NaN equals nothing


def test_metrics_hold_the_headline_of_the_card(study: Study) -> None:
    written = study.store.results(study.audit, "control-planted") / "metrics.json"
    metrics = json.loads(written.read_text(encoding="utf-8"))
    parts = ("", "_ci_low", "_ci_high", "_null_mean", "_p", "_p_adjusted")
    headline = study.spec.headline
    assert set(headline) <= set(metrics) <= {key + part for key in headline for part in parts}
    table = study.store.read_csv(written.with_name("scores.csv"))
    assert tuple(table.columns) == SCORE_COLUMNS and table["key"].is_unique
    assert table.loc[table["headline"], "key"].tolist() == list(headline)


def test_no_score_of_several_is_found_by_a_p_that_nothing_corrected(study: Study) -> None:
    tested = [score for score in study.evaluate().scores if score.family > 1 and math.isfinite(score.p)]
    assert tested and all(math.isfinite(score.p_adjusted) for score in tested)
    assert all(score.p_adjusted >= score.p for score in tested)


def test_planted_headline_answers_in_sentences_that_name_the_direction(study: Study) -> None:
    made = {score.key: score for score in study.evaluate().scores}
    tested = [made[key] for key in study.spec.headline if key in made and made[key].family]
    assert tested and study.spec.missing_key in {score.key for score in tested}
    for score in tested:
        answer = verdict(score)
        assert score.positive and answer.sentence.endswith("."), score.key
        # what is one-sided claims nothing of the other side, and more of it is worse
        assert score.negative or score.worse == 1 or score.key == study.spec.missing_key, score.key
    assert any(verdict(score).kind is VerdictKind.FOUND for score in tested)


def test_intervals_of_another_level_are_nowhere_said_to_be_of_95_percent(study: Study) -> None:
    params = study.params.stage(study.audit, "evaluate").model_copy(update={"confidence_level": 0.5})
    made = study.spec.evaluate(study.features(), params, np.random.default_rng(3))
    said = [chart.to_json() for chart in made.figures.values()]
    said += [*made.notes, *(verdict(score).sentence + score.method for score in made.scores)]
    assert said and not [text for text in said if re.search(r"95 ?%[\w ]* interval", text)]


def test_scores_alone_are_those_of_the_evaluation(study: Study) -> None:
    assert study.spec.scores is not None
    params = study.params.stage(study.audit, "evaluate")
    scores = study.spec.scores(study.features(), params, np.random.default_rng(3))
    made = study.spec.evaluate(study.features(), params, np.random.default_rng(3))
    assert {score.key for score in scores} & set(study.spec.headline)
    estimates = {score.key: score.estimate for score in scores}
    assert estimates == pytest.approx({key: made.score(key).estimate for key in estimates}, nan_ok=True)


def test_examples_are_texts_of_the_groups_in_order_and_leave_their_input(study: Study) -> None:
    assert study.spec.examples is not None
    responses, features = study.table("responses"), study.features()
    result = read(study.store, study.audit, "control-planted", study.spec.card)
    assert result is not None
    before = digest(responses), {name: digest(table) for name, table in features.items()}
    made = study.spec.examples(responses, features, result.table, study.params.stage(study.audit, "evaluate"))
    assert (digest(responses), {name: digest(table) for name, table in features.items()}) == before
    assert tuple(made.rows) == EXAMPLE_COLUMNS and tuple(made.contexts) == CONTEXT_COLUMNS
    said = set(responses["text"].dropna()) | set(responses["prompt"].dropna())
    if study.audit == "guise":  # the text stands inside its prompt
        said |= set(responses["utterance"].dropna())
    if study.audit == "knowledge":  # a triple is a sentence of subject, predicate and object
        said |= set(responses["answer"].dropna())
    assert len(made.rows) and set(made.rows["text"]) <= said
    assert made.by and made.rows["note"].str.len().gt(0).all()
    assert set(made.rows["group"]) <= set(responses["group"])


def test_stages_leave_no_part_of_a_file(study: Study) -> None:
    assert not [path for path in study.store.root.rglob("*") if ".part-" in path.name]
