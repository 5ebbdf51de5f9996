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
from tests.cells import number

from markedness.audits.knowledge import SPEC, clean, evaluate, featurize, figures, generate
from markedness.audits.knowledge.estimators.augmentation import augmentation_distributions
from markedness.audits.knowledge.language.choice import RegardParams, ToxicityParams
from markedness.axes import Axes, Axis, Value
from markedness.records import AuditError, Completion, Prompt
from markedness.results import Evaluation
from markedness.store import FolderStimuli

STIMULI = FolderStimuli("knowledge", Path(__file__).parents[3])
SUBJECTS = ("Bakers", "Millers", "Sailors", "Weavers")
AXES: Axes = {"trade": Axis(unmarked="Bakers", values={name: Value() for name in SUBJECTS})}
STUDY = generate.Params(axes=AXES, completions=3, rounds=2, draws=6)
# planned per subject: 4 x 3 + 2 x 2 x 6 = 36
SIX = generate.Params(axes=AXES, crawls=6, completions=1, rounds=1, draws=1)
# planned per subject: 6 x (4 + 2) = 36
NO_TOPICS = featurize.Params(topics=featurize.TopicParams(min_triples=10**6))
PLAIN = evaluate.Params()
Answer = Callable[[Prompt], Completion]
Cleaned = Callable[..., pd.DataFrame]

NOUNS = {
    "bread": ("fresh bread", "warm rolls", "sweet cakes", "rye bread", "apple cakes"),
    "games": ("football matches", "tennis matches", "football finals", "volleyball", "the basketball cup"),
    "weather": ("cold rain", "heavy snow", "stormy winds", "sunny mornings", "thunderstorms"),
}


@pytest.fixture(scope="module")
def cleaned(crawl: Callable[..., tuple[pd.DataFrame, list[list[Prompt]]]]) -> Cleaned:
    """(answer, params) -> the responses of a crawl."""

    def responses(answer: Answer, params: generate.Params = STUDY) -> pd.DataFrame:
        return clean.clean(crawl(params, answer)[0], clean.Params())

    return responses


def measured(
    responses: pd.DataFrame, params: featurize.Params = NO_TOPICS, seed: int = 0, charts: bool = False
) -> Evaluation:
    """The evaluation; charts take most of its time, so most tests do without."""
    features = featurize.featurize(responses, params, STIMULI).tables
    with nullcontext() if charts else patch.object(figures, "charts", return_value={}):
        return evaluate.evaluate(features, PLAIN, np.random.default_rng(seed))


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
def ordered(cleaned: Cleaned) -> Evaluation:
    return measured(cleaned(harsh({"Bakers": 0.0, "Millers": 0.33, "Sailors": 0.67, "Weavers": 1.0}), SIX))


@pytest.mark.slow
def test_planted_regard_and_toxicity_order_the_subjects(ordered: Evaluation) -> None:
    regard = ordered.tables["regard"].sort_values("share", ascending=False)
    assert regard["subject"].tolist() == list(SUBJECTS)
    assert ordered.tables["toxicity"].sort_values("mean")["subject"].tolist() == list(SUBJECTS)
    assert (regard["score"] == regard["positive"] - regard["negative"]).all()
    within = regard["ci_low"].lt(regard["share"]) & regard["ci_high"].gt(regard["share"])
    assert regard["n"].eq(36).all() and within.tolist() == regard["share"].abs().lt(1).tolist()
    assert regard["share"].iloc[3] == -1  # the same in every crawl: an interval of no width is none


def test_planted_gaps_are_found_with_their_signs(ordered: Evaluation) -> None:
    regard, toxicity = ordered.score("regard_gap.marked"), ordered.score("toxicity_gap.marked")
    assert regard.ci_high < 0 < toxicity.ci_low
    assert regard.clusters == {"crawl": 6} and regard.n == 4 * 36
    assert regard.p < 0.01 and toxicity.p < 0.01
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
    assert any("labelled English test statements" in note for note in ordered.notes)


def test_without_group_differences_nobody_is_accused(cleaned: Cleaned) -> None:
    made = measured(cleaned(harsh(dict.fromkeys(SUBJECTS, 0.5)), SIX))
    for measure in ("regard", "toxicity"):
        found = made.score(f"{measure}_gap.marked")
        assert found.ci_low <= 0 <= found.ci_high and found.p > 0.05
    assert made.tables["gaps"]["p_adjusted"].gt(0.05).all()
    valid = made.score("valid.difference")
    assert valid.estimate == 0 and valid.p == 1.0


def test_one_crawl_gives_estimates_and_says_what_p_needs(cleaned: Cleaned) -> None:
    made = measured(cleaned(harsh({"Bakers": 0.0, "Millers": 0.33, "Sailors": 0.67, "Weavers": 1.0})))
    for key in SPEC.headline[:2]:
        score = made.score(key)
        assert np.isfinite(score.estimate) and np.isnan([score.p, score.ci_low, score.p_adjusted]).all()
        assert "too little data: 1 crawls" in score.method
    assert any("1 of the 6 crawls" in note for note in made.notes)
    assert made.tables["gaps"]["p"].isna().all() and made.tables["regard"]["ci_low"].isna().all()


@pytest.mark.slow
def test_planted_topics_are_found_and_others_are_not(cleaned: Cleaned) -> None:
    planted = measured(cleaned(topical({"Millers": "bread", "Sailors": "weather"}), SIX), featurize.Params())
    entropy = planted.tables["relative_entropy"].set_index("subject")
    for subject in ("Millers", "Sailors"):
        assert number(entropy, subject, "kl") > 2 * number(entropy, subject, "null_mean")
        assert number(entropy, subject, "topic_divergence") > 0.1 > number(entropy, "Weavers", "topic_divergence")
        assert number(entropy, subject, "p") < 0.05  # the smallest that six crawls of two subjects can give is 1/32
    found = planted.score("topic_divergence.marked")
    # one class of six crawls has 32 exchanges, which chi-square approximates
    assert found.estimate > 0.05 and found.p_adjusted < 0.05 and found.ci_low > 0
    none = measured(cleaned(topical({}), SIX), featurize.Params())
    assert none.score("topic_divergence.marked").p > 0.05
    assert none.tables["relative_entropy"]["p_adjusted"].dropna().gt(0.05).all()
    topics = planted.tables["topics"]
    shares = topics.groupby("subject")["share"].sum()
    assert shares.tolist() == pytest.approx([1] * 4)
    assert -1 <= planted.score("topic_stability.mean").estimate <= 1


def test_a_silent_subject_is_counted_and_explained_and_not_estimated(cleaned: Cleaned) -> None:
    def answer(prompt: Prompt) -> Completion:
        text = (
            "" if prompt.columns["subject"] == "Weavers" else "bread" if prompt.columns["predicate"] else "eat A: bread"
        )
        return Completion(text, "stop")

    made = measured(cleaned(answer))
    silent = made.tables["crawl"].set_index("subject").loc["Weavers"]
    assert silent["asked"] == 36 * 4 and silent["empty_answer"] == 36 * 4  # each once and three times again
    assert silent["valid"] == 0 and silent["unanswered"] == 36 and silent["resampled"] == 36 * 3
    assert any(note.startswith("Weavers (trade) has no valid triple in 144 requests") for note in made.notes)
    regard = made.tables["regard"].set_index("subject").loc["Weavers"]
    assert regard["n"] == 0 and np.isnan(regard["share"]) and np.isnan(regard["score"])
    assert np.isfinite(made.score("regard_gap.marked").estimate)


def test_a_silent_reference_leaves_the_gaps_missing(cleaned: Cleaned) -> None:
    def answer(prompt: Prompt) -> Completion:
        text = (
            "" if prompt.columns["subject"] == "Bakers" else "bread" if prompt.columns["predicate"] else "eat A: bread"
        )
        return Completion(text, "stop")

    made = measured(cleaned(answer))
    assert np.isnan(made.score("regard_gap.marked").estimate) and made.tables["gaps"]["gap"].isna().all()


def test_unequal_refusals_are_a_note(cleaned: Cleaned) -> None:
    def answer(prompt: Prompt) -> Completion:
        if prompt.columns["subject"] == "Weavers" and prompt.columns["round"] == 0:
            return Completion("I'm sorry, but I can't help with that.", "stop")
        return Completion(" bread" if prompt.columns["predicate"] else " eat A: bread", "stop")

    made = measured(cleaned(answer, SIX))
    assert any("refusals are unequal" in note and "Weavers" in note for note in made.notes)
    # every round-0 question about Weavers was refused 4 times: 2 valid of 2 + 4 x 4 answers, against 6 of 6
    lacking = made.score("valid.trade: Weavers")
    assert lacking.estimate == pytest.approx(2 / 18 - 1) and lacking.p_adjusted < 0.05
    assert "missing unequally (valid.trade: Weavers)" in made.score("regard_gap.trade: Weavers").method
    assert "missing unequally" not in made.score("regard_gap.trade: Millers").method


def test_nothing_valid_at_all_is_missing_not_zero(cleaned: Cleaned) -> None:
    made = measured(cleaned(lambda prompt: Completion("", "stop")), charts=True)
    assert np.isnan(made.score("regard.mean").estimate) and np.isnan(made.score("toxicity_gap.marked").estimate)
    assert made.score("valid_share.all").estimate == 0
    assert not made.figures


def test_augmentation_effect_is_found_where_it_is_planted(cleaned: Cleaned) -> None:
    params = SIX.model_copy(update={"arms": ("both", "none")})
    loud, mild = harsh(dict.fromkeys(SUBJECTS, 0.9)), harsh(dict.fromkeys(SUBJECTS, 0.2))
    made = measured(cleaned(lambda p: (loud if p.columns["arm"] == "both" else mild)(p), params))
    effects = made.tables["augmentation"].set_index("augmentation")
    assert set(effects.index) == {"initial", "both"}
    assert (effects["ci_low"] > 0).all() and (effects[["p", "p_adjusted", "p_published"]] < 0.01).all(axis=None)
    assert made.tables["regard"]["n"].eq(36).all()  # only the first arm is analysed
    assert any(note.startswith("The arm analysed is both, ") and "none (" in note for note in made.notes)


def of_arms(with_it: list[float], without: list[float]) -> pd.DataFrame:
    """Triples of round 0 with these toxicities, with and without the augmentation."""
    arms = ["both"] * len(with_it) + ["none"] * len(without)
    return pd.DataFrame({
        "class": "trade", "arm": arms, "round": 0, "crawl": "1", "included": True, "toxicity": [*with_it, *without],
    })  # fmt: skip


def test_distributions_of_the_arms_worked_example() -> None:
    table = augmentation_distributions(of_arms([0.0, 0.04, 0.97, 1.0], [0.02, 0.51]))
    # bins that either side has: [0, 0.05), [0.5, 0.55), [0.95, 1]
    assert table["low"].round(2).tolist() == [0.0, 0.5, 0.95] * 2 and table["high"].max() == 1
    assert table["share"].tolist() == [0.5, 0, 0.5, 0.5, 0.5, 0] and table["n"].tolist() == [4] * 3 + [2] * 3
    assert table["side"].tolist() == ["with"] * 3 + ["without"] * 3 and set(table["augmentation"]) == {"initial"}
    assert augmentation_distributions(of_arms([0.5], [])).empty


def test_distributions_of_the_arms_differ_where_an_effect_is_planted_and_not_else() -> None:
    rng = np.random.default_rng(0)
    plain, toxic, same = rng.beta(1, 4, 500), rng.beta(4, 2, 500), rng.beta(1, 4, 500)

    def distance(with_it: np.ndarray) -> float:
        """Total variation between the sides."""
        table = augmentation_distributions(of_arms(with_it.tolist(), plain.tolist()))
        shares = table.pivot_table(index="low", columns="side", values="share")
        return float((shares["with"] - shares["without"]).abs().sum()) / 2

    # of 20 bins with 500 triples a side the expected distance is at most sqrt(20 / (pi * 500)) = 0.11 without an effect
    assert distance(toxic) > 0.5 and distance(same) < 0.15


def test_charts_of_figures_1_5_and_6_show_every_subject_and_both_sides(cleaned: Cleaned) -> None:
    params = STUDY.model_copy(update={"arms": ("both", "none")})
    made = measured(
        cleaned(harsh({"Bakers": 0.0, "Millers": 0.33, "Sailors": 0.67, "Weavers": 1.0}), params), charts=True
    )
    regard = made.figures["regard_scores"].data
    assert set(regard["subject"]) == set(SUBJECTS)
    scores = made.tables["regard"].set_index("subject")["score"]
    assert regard.set_index("subject")["score"].to_dict() == scores.to_dict() and scores["Weavers"] < 0
    assert set(made.figures["augmentation_distributions"].data["side"]) == {"with", "without"}
    for name in ("regard_scores", "gaps", "augmentation_distributions"):
        assert made.figures[name].to_dict()["$schema"], name
    assert set(made.figures) - {f"graph_{made.tables['regard']['class'].iloc[0]}"} <= set(SPEC.card.measures)


def test_judge_scorer_reads_the_models_own_judgments(cleaned: Cleaned) -> None:
    def answer(prompt: Prompt) -> Completion:
        if prompt.columns["strategy"] == "judge":
            return Completion("Negative" if prompt.columns["subject"] == "Weavers" else "positive", "stop")
        return Completion(" bread" if prompt.columns["predicate"] else " eat A: bread", "stop")

    params = featurize.Params(regard=RegardParams(scorer="judge"), topics=NO_TOPICS.topics)
    made = measured(cleaned(answer, STUDY.model_copy(update={"judge": True})), params)
    assert made.tables["regard"].set_index("subject")["share"].to_dict() == {
        "Bakers": 1, "Millers": 1, "Sailors": 1, "Weavers": -1,
    }  # fmt: skip
    assert made.tables["regard"]["scorer"].str.startswith("judge").all()
    with pytest.raises(AuditError, match=r"set knowledge.generate.judge to true"):
        featurize.featurize(cleaned(harsh(dict.fromkeys(SUBJECTS, 0.5))), params, STIMULI)


def test_excluding_duplicates_analyses_each_triple_once(cleaned: Cleaned) -> None:
    responses = cleaned(lambda p: Completion(" bread" if p.columns["predicate"] else " eat A: bread", "stop"))
    params = featurize.Params(exclude=("refusal", "duplicate"), topics=NO_TOPICS.topics)
    assert measured(responses, params).tables["regard"]["n"].eq(5).all()  # love, hate, are, can't, eat


def test_text_of_any_kind_goes_through_to_the_figures(cleaned: Cleaned) -> None:
    odd = iter(
        ["<script>alert(1)</script>", "海 and 'quotes' \"too\"", "a\x00b", "https://x.y/?a=b&c", "{subject}"] * 100
    )
    responses = cleaned(lambda p: Completion(next(odd) if p.columns["predicate"] else f" say A: {next(odd)}", "stop"))
    made = measured(responses, charts=True)
    assert "graph_trade" in made.figures
    made.figures["graph_trade"].to_dict()


def test_scorer_params_without_what_they_need_are_refused() -> None:
    with pytest.raises(ValueError, match="needs path"):
        RegardParams(scorer="transformers")
    with pytest.raises(ValueError, match="needs url"):
        ToxicityParams(scorer="http")
