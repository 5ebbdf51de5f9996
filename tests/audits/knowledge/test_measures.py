"""Planted predicates, objects and topics are found; a model that ignores the subject is not accused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import networkx
import numpy as np
import pandas as pd
import pytest

from markedness.audits.knowledge import CARD, clean, evaluate, featurize, figures, generate
from markedness.pipeline import _rows
from markedness.records import AuditError, Axes, Axis, Completion, Evaluation, Prompt, Value
from markedness.store import FolderStimuli

STIMULI = FolderStimuli("knowledge", Path(__file__).parents[3])
SUBJECTS = ("Bakers", "Millers", "Sailors", "Weavers")
AXES: Axes = {"trade": Axis(unmarked="Bakers", values={name: Value() for name in SUBJECTS})}
STUDY = generate.Params(axes=AXES, completions=3, rounds=2, draws=6)
# planned per subject: 4 x 3 + 2 x 2 x 6 = 36
NO_TOPICS = featurize.Params(topics=featurize.TopicParams(min_triples=10**6))
FEW = evaluate.Params(n_resamples=200, n_permutations=200)
Answer = Callable[[Prompt], Completion]

NOUNS = {
    "bread": ("fresh bread", "warm rolls", "sweet cakes", "rye bread", "apple cakes"),
    "games": ("football matches", "tennis matches", "football finals", "volleyball", "the basketball cup"),
    "weather": ("cold rain", "heavy snow", "stormy winds", "sunny mornings", "thunderstorms"),
}


def crawl(answer: Answer, params: generate.Params = STUDY) -> pd.DataFrame:
    prompts = generate.prompts(STIMULI, params, np.random.default_rng(0))
    rows, batch = [], next(prompts, None)
    while batch is not None:
        answers = [[answer(prompt)] * prompt.samples for prompt in batch]
        for prompt, completions in zip(batch, answers, strict=True):
            rows += _rows(prompt, completions)
        try:
            batch = prompts.send(answers)
        except StopIteration:
            batch = None
    return clean.clean(pd.DataFrame(rows), clean.Params())


def measured(
    responses: pd.DataFrame, params: featurize.Params = NO_TOPICS, seed: int = 0, charts: bool = False
) -> Evaluation:
    """The evaluation; charts take most of its time, so most tests do without."""
    features = featurize.featurize(responses, params)
    with nullcontext() if charts else patch.object(figures, "charts", return_value={}):
        return evaluate.evaluate(features, FEW, np.random.default_rng(seed))


def harsh(share: dict[str, float]) -> Answer:
    """Harsh statements for a share of each subject's triples, praise for the rest."""
    rng = np.random.default_rng(3)
    bad = ("lie about everything", "steal from shops", "cheat and insult people", "ruin whatever they touch")
    good = ("help their neighbours", "keep their promises", "teach children with care", "save lives in hospitals")

    def answer(prompt: Prompt) -> Completion:
        text = str(rng.choice(bad if rng.random() < share[str(prompt.columns["subject"])] else good))
        return Completion(f" always {text}" if prompt.columns["predicate"] else f" do A: {text}", "stop")

    return answer


def topical(own: dict[str, str]) -> Answer:
    """Objects of the subject's own topic, of any topic for the others; the predicates are the same for all."""
    rng = np.random.default_rng(4)

    def answer(prompt: Prompt) -> Completion:
        topic = own.get(str(prompt.columns["subject"])) or str(rng.choice(list(NOUNS)))
        noun = str(rng.choice(NOUNS[topic]))
        return Completion(f" {noun}" if prompt.columns["predicate"] else f" {rng.choice(['enjoy', 'miss'])} A: {noun}")

    return answer


@pytest.fixture(scope="module")
def ordered() -> Evaluation:
    return measured(crawl(harsh({"Bakers": 0.0, "Millers": 0.33, "Sailors": 0.67, "Weavers": 1.0})))


def test_planted_regard_and_toxicity_order_the_subjects(ordered: Evaluation) -> None:
    regard = ordered.tables["regard"].sort_values("share", ascending=False)
    assert regard["subject"].tolist() == list(SUBJECTS)
    assert ordered.tables["toxicity"].sort_values("mean")["subject"].tolist() == list(SUBJECTS)
    assert (regard["score"] == regard["positive"] - regard["negative"]).all()
    assert regard["n"].eq(36).all() and regard["ci_low"].le(regard["share"]).all()


def test_planted_gaps_are_found_with_their_signs(ordered: Evaluation) -> None:
    metrics = ordered.metrics
    assert metrics["regard_gap.marked_ci_high"] < 0 < metrics["toxicity_gap.marked_ci_low"]
    assert metrics["regard_gap.marked"] < metrics["regard_gap.marked_null_low"]
    assert metrics["regard_gap.marked_p"] < 0.01 and metrics["toxicity_gap.marked_p"] < 0.01
    worst = ordered.tables["gaps"].query("subject == 'Weavers' and measure == 'regard'").iloc[0]
    assert worst["gap"] == pytest.approx(-2, abs=0.35) and worst["p_adjusted"] >= worst["p"]


def test_graph_has_exactly_the_planned_triples(ordered: Evaluation) -> None:
    graph = networkx.read_graphml(io.BytesIO(ordered.files["graph_trade.graphml"]))
    assert graph.number_of_edges() == len(ordered.tables["triples"]) == 4 * 36
    assert len(json.loads(ordered.files["graph.json"])["links"]) == 4 * 36
    assert ordered.tables["crawl"]["valid"].eq(36).all()


def test_every_table_of_scores_names_its_scorer(ordered: Evaluation) -> None:
    for name in ("regard", "toxicity", "gaps"):
        assert ordered.tables[name]["scorer"].str.contains("offline").all()
    assert ordered.tables["triples"]["regard_scorer"].notna().all()
    assert any("held-out" in note for note in ordered.notes)


def test_scores_agree_with_the_metrics(ordered: Evaluation) -> None:
    features = featurize.featurize(crawl(harsh(dict.fromkeys(SUBJECTS, 0.5))), NO_TOPICS)
    made = evaluate.evaluate(features, FEW, np.random.default_rng(0))
    for name, value in evaluate.scores(features, FEW).items():
        assert value == pytest.approx(made.metrics[name]), name
    assert set(CARD.headline) <= set(made.metrics) and len(made.metrics) <= 30


def test_without_group_differences_nobody_is_accused() -> None:
    made = measured(crawl(harsh(dict.fromkeys(SUBJECTS, 0.5))))
    for measure in ("regard", "toxicity"):
        low, high = (made.metrics[f"{measure}_gap.marked_null_{end}"] for end in ("low", "high"))
        assert low <= made.metrics[f"{measure}_gap.marked"] <= high
    assert made.tables["gaps"]["p_adjusted"].gt(0.05).all()


def test_planted_topics_lie_above_their_null_and_none_inside() -> None:
    planted = measured(crawl(topical({"Millers": "bread", "Sailors": "weather"})), featurize.Params())
    entropy = planted.tables["relative_entropy"].set_index("subject")
    for subject in ("Millers", "Sailors"):
        assert entropy.loc[subject, "kl"] > entropy.loc[subject, "null_high"]
        assert entropy.loc[subject, "p_adjusted"] < 0.05
    assert planted.metrics["relative_entropy_excess.mean"] > 0.2 and planted.metrics["relative_entropy_excess.p"] < 0.01
    none = measured(crawl(topical({})), featurize.Params())
    assert none.metrics["relative_entropy_excess.p"] > 0.05
    assert none.tables["relative_entropy"]["p_adjusted"].gt(0.05).all()
    topics = planted.tables["topics"]
    shares = topics.groupby("subject")["share"].sum()
    assert shares.tolist() == pytest.approx([1] * 4)
    assert -1 <= planted.metrics["topic_stability.mean"] <= 1


def test_a_silent_subject_is_counted_and_explained_and_not_estimated() -> None:
    def answer(prompt: Prompt) -> Completion:
        text = (
            "" if prompt.columns["subject"] == "Weavers" else "bread" if prompt.columns["predicate"] else "eat A: bread"
        )
        return Completion(text, "stop")

    made = measured(crawl(answer))
    silent = made.tables["crawl"].set_index("subject").loc["Weavers"]
    assert silent["asked"] == 36 * 4 and silent["empty_answer"] == 36 * 4  # each once and three times again
    assert silent["valid"] == 0 and silent["unanswered"] == 36 and silent["resampled"] == 36 * 3
    assert any(note.startswith("Weavers (trade) has no valid triple in 144 requests") for note in made.notes)
    regard = made.tables["regard"].set_index("subject").loc["Weavers"]
    assert regard["n"] == 0 and np.isnan(regard["share"]) and np.isnan(regard["score"])
    assert np.isfinite(made.metrics["regard_gap.marked"])


def test_a_silent_reference_leaves_the_gaps_missing() -> None:
    def answer(prompt: Prompt) -> Completion:
        text = (
            "" if prompt.columns["subject"] == "Bakers" else "bread" if prompt.columns["predicate"] else "eat A: bread"
        )
        return Completion(text, "stop")

    made = measured(crawl(answer))
    assert np.isnan(made.metrics["regard_gap.marked"]) and made.tables["gaps"]["gap"].isna().all()


def test_unequal_refusals_are_a_note() -> None:
    def answer(prompt: Prompt) -> Completion:
        if prompt.columns["subject"] == "Weavers" and prompt.columns["round"] == 0:
            return Completion("I'm sorry, but I can't help with that.", "stop")
        return Completion(" bread" if prompt.columns["predicate"] else " eat A: bread", "stop")

    made = measured(crawl(answer))
    assert any("refusals are unequal" in note and "Weavers" in note for note in made.notes)


def test_nothing_valid_at_all_is_missing_not_zero() -> None:
    made = measured(crawl(lambda prompt: Completion("", "stop")), charts=True)
    assert np.isnan(made.metrics["regard.mean"]) and np.isnan(made.metrics["toxicity_gap.marked"])
    assert made.metrics["valid_share.all"] == 0
    assert not made.figures


def test_augmentation_effect_is_found_where_it_is_planted() -> None:
    params = STUDY.model_copy(update={"arms": ("both", "none")})
    loud, mild = harsh(dict.fromkeys(SUBJECTS, 0.9)), harsh(dict.fromkeys(SUBJECTS, 0.2))
    made = measured(crawl(lambda p: (loud if p.columns["arm"] == "both" else mild)(p), params))
    effects = made.tables["augmentation"].set_index("augmentation")
    assert set(effects.index) == {"initial", "both"}
    assert (effects["ci_low"] > 0).all() and (effects["p_adjusted"] < 0.01).all()
    assert made.tables["regard"]["n"].eq(36).all()  # only the first arm is analysed


def test_judge_scorer_reads_the_models_own_judgments() -> None:
    def answer(prompt: Prompt) -> Completion:
        if prompt.columns["strategy"] == "judge":
            return Completion("Negative" if prompt.columns["subject"] == "Weavers" else "positive", "stop")
        return Completion(" bread" if prompt.columns["predicate"] else " eat A: bread", "stop")

    params = featurize.Params(regard=featurize.RegardParams(scorer="judge"), topics=NO_TOPICS.topics)
    made = measured(crawl(answer, STUDY.model_copy(update={"judge": True})), params)
    assert made.tables["regard"].set_index("subject")["share"].to_dict() == {
        "Bakers": 1, "Millers": 1, "Sailors": 1, "Weavers": -1,
    }  # fmt: skip
    assert made.tables["regard"]["scorer"].str.startswith("judge").all()
    with pytest.raises(AuditError, match=r"set knowledge.generate.judge to true"):
        featurize.featurize(crawl(harsh(dict.fromkeys(SUBJECTS, 0.5))), params)


def test_excluding_duplicates_analyses_each_triple_once() -> None:
    responses = crawl(lambda p: Completion(" bread" if p.columns["predicate"] else " eat A: bread", "stop"))
    params = featurize.Params(exclude=("refusal", "duplicate"), topics=NO_TOPICS.topics)
    assert measured(responses, params).tables["regard"]["n"].eq(5).all()  # love, hate, are, can't, eat


def test_text_of_any_kind_goes_through_to_the_figures() -> None:
    odd = iter(
        ["<script>alert(1)</script>", "海 and 'quotes' \"too\"", "a\x00b", "https://x.y/?a=b&c", "{subject}"] * 100
    )
    responses = crawl(lambda p: Completion(next(odd) if p.columns["predicate"] else f" say A: {next(odd)}", "stop"))
    made = measured(responses, charts=True)
    assert "graph_trade" in made.figures
    made.figures["graph_trade"].to_dict()


def test_scorer_params_without_what_they_need_are_refused() -> None:
    with pytest.raises(ValueError, match="needs path"):
        featurize.RegardParams(scorer="transformers")
    with pytest.raises(ValueError, match="needs url"):
        featurize.ToxicityParams(scorer="http")
