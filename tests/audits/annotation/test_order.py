"""Place in the request, twins in one request, order of the answers: found where planted, not in blind worlds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy import stats

from markedness.audits.annotation import clean, evaluate, generate
from markedness.audits.annotation.design.texts import texts_of_prompt
from markedness.audits.annotation.estimators.order import order_effects
from markedness.audits.annotation.examples import examples
from markedness.records import Completion, Strict

from .conftest import PARAMS, annotator, ask, prompts, tabled, units

TERMS = ("position", "together", "answer_order")


def pairs(seed: int, position: float = 0.0, together: float = 0.0, answer_order: float = 0.0) -> pd.DataFrame:
    """Pairs of 16 names and reference names and 40 vignettes, whose names and vignettes have effects of their own."""
    rng = np.random.default_rng(seed)
    n, task = 600, np.array(["hireable", "poor"])
    rows = pd.DataFrame({
        "paradigm": "names", "group": "Black", "reference": "White", "task": task[rng.integers(0, 2, n)],
        "name": rng.integers(0, 16, n).astype(str), "reference_name": rng.integers(0, 16, n).astype(str),
        "vignette": rng.integers(0, 40, n).astype(str), "position": rng.integers(1, 61, n).astype(float),
        "position_reference": rng.integers(1, 61, n).astype(float), "together": rng.integers(0, 2, n).astype(float),
        "answer_order": np.where(rng.random(n) < 0.5, "yes first", "no first"),
    })  # fmt: skip
    rows["valence"] = rows["task"].map({"hireable": 1, "poor": -1})
    of_name, of_vignette = rng.normal(0, 0.1, 16), rng.normal(0, 0.1, 40)
    shift = of_name[rows["name"].astype(int)] + of_vignette[rows["vignette"].astype(int)]
    shift = shift + rows["valence"] * (
        together * rows["together"] + answer_order * rows["answer_order"].eq("yes first")
    )
    shift = shift + position * (rows["position"] - rows["position_reference"]) / 10
    yes = rng.random(n) < np.clip(0.5 + shift, 0, 1)
    return rows.assign(delta=yes.astype(float) - (rng.random(n) < 0.5))


def test_blind_worlds_are_not_accused_of_order_effects() -> None:
    made = [order_effects(pairs(seed), 0.95).set_index("term")["p"].astype(float) for seed in range(80)]
    for term in TERMS:
        found = sum(one[term] <= 0.05 for one in made)
        assert stats.binomtest(found, len(made), 0.05, alternative="greater").pvalue > 0.01, (term, found)


def test_a_task_that_is_asked_more_often_in_one_way_makes_no_order_effect() -> None:
    found = []
    for seed in range(40):
        rows, rng = pairs(seed), np.random.default_rng(seed)
        often = rng.random(len(rows)) < np.where(rows["task"] == "poor", 0.9, 0.1)
        judged = rng.random(len(rows)) < np.where(rows["task"] == "poor", 0.5, 0.1)
        rows = rows.assign(
            answer_order=np.where(often, "yes first", "no first"), together=often.astype(float), delta=-1.0 * judged
        )
        found.append(order_effects(rows, 0.95).set_index("term")["p"].astype(float))
    for term in TERMS:
        count = sum(one[term] <= 0.05 for one in found)
        assert stats.binomtest(count, len(found), 0.05, alternative="greater").pvalue > 0.01, (term, count)


@pytest.mark.parametrize(("term", "size"), [("position", 0.06), ("together", 0.4), ("answer_order", 0.4)])
def test_planted_order_effects_are_found_with_their_size(term: str, size: float) -> None:
    made = [order_effects(pairs(seed, **{term: size}), 0.95).set_index("term") for seed in range(10)]
    assert all(one["p_adjusted"].astype(float)[term] <= 0.05 for one in made)
    estimates = [float(one["estimate"].astype(float)[term]) for one in made]
    # chances are cut off at 0 and 1, so that a little less than the planted size is left
    assert 0.7 * size < np.mean(estimates) < 1.1 * size


def test_terms_that_do_not_vary_or_have_no_clusters_say_so() -> None:
    rows = pairs(0)
    assert set(order_effects(rows.drop(columns=["position", "position_reference"]), 0.95)["term"]) == set(TERMS[1:])
    assert set(order_effects(rows.assign(together=1.0, answer_order="yes first"), 0.95)["term"]) == {"position"}
    unknown = order_effects(rows.assign(name=""), 0.95)
    assert unknown["p"].isna().all() and unknown["estimate"].notna().all()
    assert order_effects(rows.assign(delta=np.nan), 0.95).empty


def _asked(**names: object) -> generate.Params:
    study = generate.Names.model_validate(
        {"tasks": ("hireable",), "iterations": 2, "pairs": 9, "batch_size": 6, **names}
    )
    return generate.Params(names=study, dialect=generate.Dialect(tasks=("angry",), iterations=2), counterbalance=True)


@pytest.mark.parametrize(("twins", "share"), [("together", 1.0), ("apart", 0.0)])
def test_twins_are_in_one_request_or_in_different_ones_as_asked(twins: str, share: float) -> None:
    found = units(ask(_asked(twins=twins), annotator({})))
    names = found[found["paradigm"].eq("names")]
    assert (names["together"] == share).all() and len(names) == 18
    # a pair of dialect texts is in many requests, of both orders
    assert found.loc[found["paradigm"].eq("dialect"), ["together", "answer_order"]].isna().all().all()
    assert names["position"].between(1, 6).all() and set(names["answer_order"]) == {"yes first", "no first"}
    sizes = [len(texts_of_prompt(p.columns)) for p in prompts(_asked(twins=twins)) if p.columns["paradigm"] == "names"]
    assert sum(sizes) == 36 and max(sizes) <= 6


@pytest.mark.parametrize("answered", [True, False])
def test_examples_of_requests_with_several_texts_are_the_texts_that_were_judged(answered: bool) -> None:
    silent = Completion(text="I cannot say.", finish_reason="stop")
    generations = ask(_asked(), annotator({}) if answered else lambda *_: silent)
    features = tabled(generations)
    made = examples(clean.clean(generations, clean.Params()), features, lambda _: pd.DataFrame(), Strict()).rows
    assert ("position" in features["pairs"]) and made.empty is not answered
    if not answered:
        return
    assert made["prompt"].str.fullmatch(r"Text \d+ of a list of \d+").all() and made["text"].ne("").all()
    named = made[made["note"].str.startswith("hireable")]
    names = named["note"].str.extract(r" for (.*?) \(")[0]
    assert all(name in text for name, text in zip(names, named["text"], strict=True))
    assert not named.empty


def test_counterbalanced_questions_name_the_answers_in_both_orders() -> None:
    asked = [p for p in prompts(_asked()) if p.columns["paradigm"] == "names"]
    for prompt in asked:
        no_first = prompt.columns["answer_order"] == "no first"
        assert ("If less likely than not" in prompt.text) == no_first
        assert ("If more likely than not" in prompt.text) != no_first
    plain = _asked().model_copy(update={"counterbalance": False})
    assert all("answer_order" not in prompt.columns for prompt in prompts(plain))


def test_one_iteration_cannot_be_counterbalanced_and_twins_need_two_places() -> None:
    for block in (
        {"counterbalance": True, "names": {"iterations": 1}},
        {"names": {"twins": "together", "batch_size": 1}},
    ):
        with pytest.raises(ValidationError, match="2 or more"):
            generate.Params.model_validate(block)


def test_across_says_how_much_each_model_answered_and_found() -> None:
    plain = generate.Params(names=generate.Names(tasks=("hireable",), iterations=4, pairs=24), paradigms=("names",))
    features = {
        "blind": tabled(ask(plain, annotator({}))),
        "biased": tabled(ask(plain, annotator({("Black", "hireable"): -0.5}))),
    }
    lost = features["blind"]["pairs"].assign(refusal=[1, *[0] * (len(features["blind"]["pairs"]) - 1)])
    features["blind"] = {**features["blind"], "pairs": lost}
    table = evaluate.across(features, pd.DataFrame(), PARAMS)["annotation_models"].set_index("model")
    assert table["asked"].tolist() == [193, 192] and table["answered"].tolist() == [192, 192]
    assert table["significant"].astype(int)["biased"] >= 1 and table["significant"].astype(int)["blind"] == 0
    assert table["cells"].tolist() == [4, 4]
