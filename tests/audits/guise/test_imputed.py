"""Probabilities that a server did not show: imputed, counted, and never a finding."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.audits.guise.test_guise_stages import FAST, SMALL, STIMULI, TRAITS, Rule, asked, generations, measured

from markedness import matched_guise
from markedness.audits.guise import clean, evaluate, featurize, generate
from markedness.audits.guise.design.tasks import Task
from markedness.audits.guise.design.texts import TextSource
from markedness.lm.answers import read_completion
from markedness.lm.redaction import Redaction
from markedness.lm.stored import stored_completion
from markedness.records import (
    IMPUTED,
    MAYBE_IMPUTED,
    NOT_SHOWN,
    SHOWN,
    SHOWN_IN_PART,
    TOP_LOGPROBS,
    AuditError,
    Completion,
    Prompt,
)
from markedness.results import Evaluation

WORDS = ("alert", "brilliant", "lazy", "loud", "musical")


def served(prompt: Prompt, probabilities: dict[str, float]) -> Completion:
    """What is read of an answer of a server that shows these words and eighteen others, the least of them last."""
    top = [{"token": f" {word}", "logprob": math.log(p)} for word, p in probabilities.items()]
    content = [{"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}]
    choice = {"finish_reason": "length", "message": {"content": " x"}, "logprobs": {"content": content}}
    return read_completion({"choices": [choice]}, prompt, True, Redaction())


def tail(prompt: Prompt, rng: np.random.Generator, ratio: float) -> dict[str, float]:
    """Words of no task; after the marked guise each is ``ratio`` times as likely."""
    floor = 1e-4 * (ratio if prompt.columns["marked"] else 1.0) * math.exp(rng.normal(0, 0.1))
    return {f"other{i}": floor * (1 + i / 2) for i in range(15)}


def traits(prompt: Prompt, rng: np.random.Generator, ratio: float = 3.0, extra: str = "") -> Completion:
    known = {word: 0.14 * math.exp(rng.normal(0, 0.05)) for word in WORDS}
    once = {extra: 0.1} if extra and prompt.columns["marked"] else {}
    return served(prompt, known | once | tail(prompt, rng, ratio))


def evaluated(params: generate.Params, rule: Rule) -> Evaluation:
    return evaluate.evaluate(measured(params, rule), FAST, np.random.default_rng(0))


def test_attributes_that_the_server_never_showed_are_in_no_ranking_and_those_it_showed_are_not_moved() -> None:
    made = evaluated(SMALL, traits)
    ranked = made.tables["stereotypes"]
    assert set(ranked["attribute"]) == set(WORDS) and ranked["shown"].eq(1).all()
    # Each is divided by a sum that the imputed ones are in: .7 + 32 x .0003 after the marked guise.
    assert ranked["log_ratio"].abs().max() < 0.03 and ranked[["ci_low", "ci_high", "p", "p_adjusted"]].isna().all(
        axis=None
    )
    assert any("none has an interval or a p" in note for note in made.notes)
    cruel = made.tables["associations"].query("attribute == 'cruel'")
    assert cruel["q"].isna().all() and cruel["n"].eq(0).all() and cruel["shown"].eq(0).all()
    assert any("The server never showed 32 of the 37 attributes of the task traits" in note for note in made.notes)
    assert not any("in part" in note or "a part" in note for note in made.notes)
    assert made.tables["features"].empty and made.tables["agreement"].empty
    assert set(made.tables["favorability"].query("source == 'model'")["attributes"]) <= {"; ".join(ranked["attribute"])}


@pytest.mark.parametrize("kind", ["fail", "thin", "unmatched"])
def test_a_request_that_failed_shows_no_attribute(kind: str) -> None:
    params = SMALL
    if kind == "unmatched":
        texts = [*((f"he be go {n}", "") for n in range(9)), *(("", f"he is go {n}") for n in range(7))]
        params = generate.Params(pairs={"own": TextSource(texts=tuple(texts), matched=False)}, tasks=TRAITS)
    pairs: set[str] = set()

    def rule(prompt: Prompt, rng: np.random.Generator) -> Completion:
        pairs.add(str(prompt.columns["pair"]))
        broken = prompt.columns["marked"] and prompt.prompt_id == "T3" and prompt.columns["pair"] == min(pairs)
        if broken and kind != "unmatched":
            return Completion(error="busy") if kind == "fail" else served(prompt, {"lazy": 0.2, "other": 0.1})
        return traits(prompt, rng)

    made = evaluated(params, rule)
    assert set(made.tables["stereotypes"]["attribute"]) == set(WORDS)
    assert any("The server never showed 32 of the 37" in note for note in made.notes)
    assert made.tables["stereotypes"]["shown"].eq(1).all()


def test_attribute_that_the_server_shows_after_one_guise_alone_is_ranked_without_interval_and_p() -> None:
    made = evaluated(SMALL, lambda prompt, rng: traits(prompt, rng, 1.0, "cruel"))
    first = made.tables["stereotypes"].iloc[0]
    assert (first["attribute"], first["rank"], first["shown"]) == ("cruel", 1, 0)
    assert first["log_ratio"] > 2 and first[["ci_low", "ci_high", "p", "p_adjusted"]].isna().all()
    assert any(
        "It showed 1 of the 37 attributes of the task traits after a part of the texts" in note for note in made.notes
    )


@pytest.mark.parametrize("neutral", [True, False])
def test_decision_between_words_of_which_the_server_did_not_show_one_is_not_measured(neutral: bool) -> None:
    params = generate.Params(pairs=SMALL.pairs, tasks={"conviction": Task()})

    def blind(prompt: Prompt, rng: np.random.Generator) -> Completion:
        shown = {"acquitted": 0.6} if (not prompt.group) is neutral else {"acquitted": 0.6, "convicted": 0.1}
        return served(prompt, shown | tail(prompt, rng, 3.0))

    made = evaluated(params, blind)
    score = made.score("decision.conviction")
    assert math.isnan(score.estimate) and math.isnan(score.p)
    assert "the probability of 'convicted' is none that the server showed" in score.lacking
    assert made.tables["decisions"].empty

    both = evaluated(params, lambda prompt, rng: served(prompt, {"acquitted": 0.6, "convicted": 0.1}))
    assert both.score("decision.conviction").estimate == 0


def test_attributes_that_the_server_always_shows_have_an_interval_and_a_p() -> None:
    params = generate.Params(
        pairs=SMALL.pairs, tasks={"own": Task(kind="association", prompts=("T1",), attributes=WORDS)}
    )

    def planted(prompt: Prompt, rng: np.random.Generator) -> Completion:
        known = {word: 0.1 * math.exp(rng.normal(0, 0.05)) for word in WORDS}
        return served(prompt, known | {"lazy": 0.2 if prompt.columns["marked"] else 0.1} | tail(prompt, rng, 3.0))

    first = evaluated(params, planted).tables["stereotypes"].iloc[0]
    assert first["attribute"] == "lazy" and first["p_adjusted"] < 0.01 and first["ci_low"] > 0.1


def test_why_strength_is_not_measured_says_whether_the_server_showed_all_attributes() -> None:
    params = generate.Params(pairs=SMALL.pairs, tasks={"traits": Task(attributes=WORDS)})
    assert "the probabilities are shares of the words that the server showed" in (
        evaluated(params, traits).score("strength.covert").lacking
    )
    assert "the probabilities are imputed" in evaluated(SMALL, traits).score("strength.covert").lacking


def test_decision_of_which_one_word_has_all_the_probability_is_not_measured() -> None:
    params = generate.Params(pairs=SMALL.pairs, tasks={"conviction": Task()})

    def sure(prompt: Prompt, rng: np.random.Generator) -> Completion:
        both = {"acquitted": 0.6, "convicted": 0.3}
        return served(prompt, {"acquitted": 1.0} if prompt.columns["marked"] else both)

    score = evaluated(params, sure).score("decision.conviction")
    assert math.isnan(score.estimate) and "'convicted' is none that the server showed" in score.lacking


def test_frame_with_the_columns_of_a_study_is_measured_as_the_study_is() -> None:
    params = generate.Params(pairs=SMALL.pairs, tasks={"conviction": Task()})
    rows = generations(params, lambda prompt, rng: served(prompt, {"acquitted": 0.6} | tail(prompt, rng, 3.0)))
    rows = rows[rows["group"].ne("")].assign(log_prob=rows["log_prob"].fillna(""))
    made = matched_guise(rows, "log_prob", "group", "SAE", candidate="candidate", prompt="prompt_id", pair="pair")
    score = next(score for score in made.scores if score.key == "decision.conviction")
    assert math.isnan(score.estimate) and "none that the server showed" in score.lacking


def test_scores_say_which_probabilities_are_imputed() -> None:
    prompt = replace(asked(SMALL)[0], candidates=("lazy", "cruel"))
    answer = served(prompt, {"lazy": 0.3, "the": 0.1})
    assert answer.reasons == (SHOWN, IMPUTED) and answer.log_probs[1] is not None
    assert served(prompt, {"lazy": 0.3, "cruel": 0.1}).reasons == (SHOWN, SHOWN)
    responses = clean.clean(generations(SMALL, traits), clean.Params())
    assert responses["status"].eq("ok").all()
    assert set(responses.loc[~responses["candidate"].isin(WORDS), "estimator"]) == {NOT_SHOWN}
    scored = featurize.featurize(responses, featurize.Params(), STIMULI).tables["scores"]
    assert set(scored["estimator"].unique()) == {TOP_LOGPROBS, NOT_SHOWN}
    one_side = generations(SMALL, lambda prompt, rng: traits(prompt, rng, 1.0, "cruel"))
    scored = featurize.featurize(clean.clean(one_side, clean.Params()), featurize.Params(), STIMULI).tables["scores"]
    assert set(scored.loc[scored["attribute"].eq("cruel"), "estimator"].unique()) == {SHOWN_IN_PART}
    said = evaluated(SMALL, traits).notes
    assert any("estimated (top_logprobs_renormalised)" in note for note in said)


def test_answer_of_a_ledger_that_does_not_mark_them_counts_its_least_values_as_imputed() -> None:
    before = b'{"log_probs":[-0.01,-6.2,-6.2],"estimator":"top_logprobs_renormalised","coverage":0.5}'
    assert stored_completion(before, 3).reasons == (SHOWN, MAYBE_IMPUTED, MAYBE_IMPUTED)
    # Of 0.9, 0.3 is covered by the second: more than the 0.1 that is not covered, so that the server showed it.
    sure = b'{"log_probs":[-0.4055,-1.0986],"estimator":"top_logprobs_renormalised","coverage":0.9}'
    assert stored_completion(sure, 2).reasons == (SHOWN, SHOWN)
    exact = b'{"log_probs":[-0.7,-6.2],"estimator":"exact"}'
    assert stored_completion(exact, 2).reasons == ()
    marked = (
        b'{"log_probs":[-0.7,-6.2],"reasons":["shown","shown"],"estimator":"top_logprobs_renormalised","coverage":0.5}'
    )
    assert stored_completion(marked, 2).reasons == (SHOWN, SHOWN)


def test_stored_scores_of_this_estimator_need_a_column_reason_to_be_read() -> None:
    rows = generations(generate.Params(pairs=SMALL.pairs, tasks=TRAITS), traits)
    rows = rows[["prompt_id", "group", "pair", "candidate", "log_prob", "reason", "estimator"]]
    rows = rows.assign(guise=rows["group"])
    known = generate.complete_corpus(rows, STIMULI, SMALL)
    assert set(known.loc[known["reason"].eq(SHOWN), "candidate"]) == set(WORDS)
    blank = generate.complete_corpus(rows.assign(reason=rows["reason"].where(rows["reason"].ne(SHOWN))), STIMULI, SMALL)
    assert set(blank["reason"]) == {IMPUTED, MAYBE_IMPUTED}
    with pytest.raises(AuditError, match=r"reason: 'not shown' beside a probability of .*; write 'shown' or 'imputed'"):
        generate.complete_corpus(rows.assign(reason="not shown"), STIMULI, SMALL)
    unknown = generate.complete_corpus(rows.drop(columns="reason"), STIMULI, SMALL)
    assert unknown["reason"].eq(MAYBE_IMPUTED).all()
