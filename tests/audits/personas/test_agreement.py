"""Agreement of methods and of prompts on the words of a group: found where it is planted, not in blind worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.audits.personas.conftest import STIMULI, tabled, written
from tests.cells import number

from markedness.audits.personas import AXES, evaluate, featurize, generate, worlds
from markedness.audits.personas.estimators import text_tables, word_tables
from markedness.audits.personas.estimators.agreement import method_overlap, prompt_agreement
from markedness.audits.personas.estimators.corpus import Corpus, corpora
from markedness.audits.personas.estimators.interaction import interactions
from markedness.audits.personas.estimators.word_tests import WordTests
from markedness.audits.personas.language.classifiers import SvmParams
from markedness.axes import Axes, Axis, Value
from markedness.records import FeatureTables

GENDER = {"gender": AXES["gender"]}
TWO: Axes = {
    "race": Axis(unmarked="White", values={"White": Value(), "Black": Value()}),
    "gender": Axis(unmarked="man", values={name: Value(noun=name) for name in ("man", "woman")}),
}
SMALL = worlds.Study(prompts=2, samples=6)
NOTHING = pd.DataFrame(columns=["group", "word"])


def corpus(study: worlds.Study, seed: int) -> Corpus:
    return corpora(worlds.draw(study, np.random.default_rng(seed)), GENDER)[0]


def overlaps(study: worlds.Study, seed: int) -> pd.DataFrame:
    one = corpus(study, seed)
    return method_overlap(one, NOTHING, one.features["svm_words"], 10, 60, np.random.default_rng(seed))


def prompts(study: worlds.Study, seed: int) -> pd.DataFrame:
    return prompt_agreement(corpus(study, seed), 10, 60, np.random.default_rng(seed))


def accused(p: list[float]) -> float:
    """p of at least so many of the tests at .05 or below, if each were right."""
    return float(stats.binomtest(sum(value <= 0.05 for value in p), len(p), 0.05, alternative="greater").pvalue)


def test_blind_worlds_are_not_accused_of_agreement_or_of_differences() -> None:
    made = [(overlaps(SMALL, seed), prompts(SMALL, seed)) for seed in range(25)]
    # the first group alone: the two groups of one world share their reference
    assert accused([overlap.loc[overlap["method"].eq("jsd"), "p"].iloc[0] for overlap, _ in made]) > 0.01
    assert accused([table["p"].iloc[0] for _, table in made]) > 0.01
    assert accused([table["p_differ"].iloc[0] for _, table in made]) > 0.01


def test_planted_words_are_listed_by_both_methods_and_prompts() -> None:
    study = replace(SMALL, samples=12, planted=2.0)
    made = [(overlaps(study, seed), prompts(study, seed)) for seed in range(5)]
    for overlap, table in made:
        of_jsd = overlap[overlap["method"].eq("jsd")]
        assert (of_jsd["p_adjusted"] <= 0.05).all() and (of_jsd["held_out_z"] > of_jsd["null_mean"]).all()
        assert (table["p_adjusted"] <= 0.05).all() and (table["overlap"] > table["null_mean"]).all()


def test_prompts_that_ask_of_a_group_in_words_of_their_own_differ() -> None:
    def table(seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        rows = []
        for prompt, own in (("p", "lantern velvet orchard"), ("q", "copper saddle thimble")):
            for gender in ("man", "woman", "nonbinary"):
                for sample in range(12):
                    filler = " ".join(rng.choice(["one", "two", "three", "four", "five", "six", "seven"], 30))
                    words = " ".join(rng.choice(own.split(), 2)) if gender == "woman" else ""
                    rows.append(
                        (prompt, gender, f"{filler} {words} {' '.join(rng.choice(list('abcdefgh'), 4))}", sample)
                    )
        made = pd.DataFrame(rows, columns=["prompt_id", "gender", "text", "sample"])
        return made.assign(group=made["gender"], prompt="Describe.", kind="persona", finish_reason="stop", error=None)

    features = tabled(table(0), featurize.Params(axes=GENDER, embeddings=None, svm=SvmParams(enabled=False))).tables
    found = prompt_agreement(corpora(features, GENDER)[0], 3, 200, np.random.default_rng(1)).set_index("group")
    woman = found.loc["woman", ["p_differ", "overlap", "overlap_mixed"]].astype(float)
    assert woman["p_differ"] <= 0.05
    assert woman["overlap"] < woman["overlap_mixed"]


def test_words_of_the_classifier_are_tested_in_texts_that_it_never_saw() -> None:
    for name, small in (("planted", True), ("none", False)):
        features = tabled(written(name, samples=8), featurize.Params(embeddings=None)).tables
        one = corpora(features, AXES)[0]
        listed = pd.DataFrame({"group": ["woman"], "word": features["svm_words"]["word"].iloc[:1]})
        found = method_overlap(one, listed, features["svm_words"], 10, 100, np.random.default_rng(0))
        own = found[found["method"].eq("svm") & found["group"].isin(["woman", "nonbinary"])]
        tested = {split.labeling: set(split.texts) for split in one.held_out}
        assert (own["n_held_out"] <= len(tested["gender"])).all() and (own["n_held_out"] > 0).all()
        assert (own["p"] <= 0.05).all() == small, own


def test_agreement_without_classifiers_or_with_one_prompt_says_nothing() -> None:
    features = tabled(written("none", samples=4)).tables
    one = corpora(features, AXES)[0]
    found = method_overlap(one, NOTHING, features["svm_words"], 10, 20, np.random.default_rng(0))
    assert found[["held_out_z", "p", "p_adjusted"]].isna().all().all() and (found["n_held_out"] == 0).all()
    table = features["texts"]
    single = {**features, "texts": table[table["prompt_id"].eq(table["prompt_id"].iloc[0])]}
    assert prompt_agreement(corpora(single, AXES)[0], 10, 20, np.random.default_rng(0)).empty


def rated(seed: int, shift: float = 0.0, study: worlds.Study = SMALL) -> FeatureTables:
    """A drawn study whose texts have a skewed share of lexicon words, higher in one prompt."""
    rng = np.random.default_rng(seed)
    tables = worlds.draw(study, rng)
    texts = tables["texts"]
    rate = rng.gamma(0.5, 1.0, len(texts)) + texts["prompt_id"].eq("prompt 1") + shift * texts["gender"].eq("woman")
    return {**tables, "texts": texts.assign(**{"lexicon: woman": rate})}


def compared(seed: int, shift: float = 0.0, unanswered: float = 0.0) -> pd.DataFrame:
    """Two models; ``unanswered``: share of the texts of one prompt that the second did not write."""
    models = {"a": rated(seed), "b": rated(seed + 10_000, shift)}
    texts = models["b"]["texts"]
    lost = texts["prompt_id"].eq("prompt 1") & (np.random.default_rng(seed).random(len(texts)) < unanswered)
    models["b"] = {**models["b"], "texts": texts[~lost]}
    versions = pd.DataFrame({"model": ["a", "b"], "scripted": False})
    return evaluate.across(models, versions, evaluate.Params(axes=GENDER))["personas_lexicon"].set_index("group")


def test_lexicon_rates_of_two_models_that_do_not_differ_are_rarely_told_apart() -> None:
    found = [compared(seed)["p"].astype(float)["woman"] for seed in range(60)]
    assert accused(found) > 0.01, sum(p <= 0.05 for p in found)


@pytest.mark.parametrize("unanswered", [0.7, 1.0])
def test_lexicon_rates_do_not_differ_where_one_model_answered_few_of_a_prompt(unanswered: float) -> None:
    found = [compared(seed, unanswered=unanswered) for seed in range(40)]
    ps = [table["p"].astype(float)["woman"] for table in found]
    assert accused(ps) > 0.01, sum(p <= 0.05 for p in ps)
    assert found[0]["method"].str.endswith("at equal shares of the prompts and groups that both have").all()
    assert compared(1, 1.0, unanswered)["p"].astype(float)["woman"] <= 0.05


def test_lexicon_rates_of_models_without_a_common_prompt_say_so() -> None:
    versions = pd.DataFrame({"model": ["a", "b"], "scripted": False})
    other = rated(1)
    other = {**other, "texts": other["texts"].assign(prompt_id=other["texts"]["prompt_id"] + " of people")}
    table = evaluate.across({"a": rated(0), "b": other}, versions, evaluate.Params(axes=GENDER))["personas_lexicon"]
    assert table["method"].str.endswith("no prompt of a group in common: all texts").all() and len(table)


def test_a_planted_lexicon_rate_is_found_where_it_is_and_only_there() -> None:
    table = compared(1, shift=1.0)["p_adjusted"].astype(float)
    assert table["woman"] <= 0.05 < table["man"]


def test_intervals_of_lexicon_rates_hold_the_true_rate() -> None:
    held = []
    for seed in range(60):
        tables = rated(seed)
        table = text_tables.lexicon(corpora(tables, GENDER)[0], {}, 0.95).set_index("group")
        low, high = table["ci_low"].astype(float)["woman"], table["ci_high"].astype(float)["woman"]
        held.append(low <= 1.0 <= high)  # 0.5 on average, and 1 more in one of two prompts
    assert stats.binomtest(sum(held), len(held), 0.93, alternative="less").pvalue > 0.01, sum(held)


def test_lexicon_rates_of_one_model_or_of_controls_are_compared_with_nothing() -> None:
    versions = pd.DataFrame({"model": ["a", "b"], "scripted": [False, True]})
    assert evaluate.across({"a": rated(0), "b": rated(1)}, versions, evaluate.Params(axes=GENDER)) == {}


def test_words_that_only_a_crossing_has_and_the_mixed_model_of_similarity() -> None:
    tables = worlds.draw(replace(SMALL, samples=10, planted=1.5), np.random.default_rng(3))
    one = corpora(tables, AXES)[0]
    tests = WordTests(one, 1.96, 20, 0.95, np.random.default_rng(0))
    words = word_tables.marked_words(one, tests, 1.96, None)
    by_group = words.groupby("group")["word"].agg(set)
    for row in words.to_dict("records"):
        values = str(row["group"]).split()
        if len(values) == 1:
            assert pd.isna(row["only_crossed"])
        else:
            single = set().union(*(by_group.get(value, set()) for value in values))
            assert row["only_crossed"] == (row["word"] not in single)
    crossed = words["only_crossed"].dropna().astype(bool)
    assert crossed.any() and not crossed.all()
    effects = text_tables.similarity_effects(one, 0.95)
    # two prompts, so that the mixed model can be fitted; planted texts of marked groups are more alike
    assert set(effects["axis" if "axis" in effects else "factor"]) == {"race", "gender"}
    assert (effects["difference"] > 0).mean() > 0.5 and effects["p_published"].notna().all()


def departures(seed: int, own: bool) -> pd.DataFrame:
    """Departures in texts where Black people and women have a word each, and Black women one of their own, or not."""
    rng, rows = np.random.default_rng(seed), []
    for prompt in ("p", "q"):
        for race in ("White", "Black"):
            for gender in ("man", "woman"):
                chance = {"copper": 0.6 if race == "Black" else 0.1, "velvet": 0.6 if gender == "woman" else 0.1}
                chance["lantern"] = 0.7 if own and (race, gender) == ("Black", "woman") else 0.1
                for sample in range(20):
                    filler = list(rng.choice(["one", "two", "three", "four", "five", "six"], 25))
                    text = " ".join([*filler, *(word for word, p in chance.items() if rng.random() < p)])
                    rows.append((prompt, race, gender, f"{race} {gender}", text, sample))
    made = pd.DataFrame(rows, columns=["prompt_id", "race", "gender", "group", "text", "sample"])
    made = made.assign(prompt="Describe.", kind="persona", finish_reason="stop", error=None)
    params = featurize.Params(axes=TWO, embeddings=None, svm=SvmParams(enabled=False))
    one = corpora(tabled(made, params).tables, TWO)[0]
    rng = np.random.default_rng(seed)
    listed = word_tables.marked_words(one, WordTests(one, 1.96, 20, 0.95, rng), 1.96, None)
    every = pd.DataFrame({"group": ["Black woman"] * 2 + ["Black"], "word": ["lantern", "copper", "copper"]})
    found = interactions(one, 200, 1, rng)
    assert {"departure_z", "departure_p_adjusted"} <= set(word_tables.with_departures(one, listed, found))
    return word_tables.with_departures(one, every, found)


def test_words_of_a_crossing_alone_depart_and_those_of_its_values_do_not() -> None:
    planted = departures(0, own=True)
    assert number(planted, 0, "departure_p_adjusted") <= 0.05 and number(planted, 0, "departure_z") > 3
    assert np.isnan(number(planted, 2, "departure_z"))  # a single value is no crossing
    blind = [departures(seed, own=False) for seed in range(1, 21)]
    assert accused([table["departure_p_adjusted"].iloc[:2].min() for table in blind]) > 0.01
    one = corpus(SMALL, 0)
    assert word_tables.with_departures(one, planted, None)[["departure_z", "departure_p_adjusted"]].isna().all().all()


def test_like_and_dislike_are_kinds_of_their_own() -> None:
    params = generate.Params(prompts=("describe", "like", "dislike"), samples=1)
    made = next(generate.prompts(STIMULI, params, np.random.default_rng(0)))
    assert {prompt.prompt_id: prompt.columns["kind"] for prompt in made} == {
        "describe": "persona", "like": "like", "dislike": "dislike",
    }  # fmt: skip
