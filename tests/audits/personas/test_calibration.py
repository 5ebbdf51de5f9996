"""A small, seeded part of the calibration: `markedness calibrate` has the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
from numpy.typing import NDArray
from scipy import stats

from markedness import marked_words
from markedness.audits.personas import AXES, SPEC
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.refusals import refusal_difference
from markedness.audits.personas.estimators.scores import scores
from markedness.audits.personas.estimators.word_scores import interaction_score
from markedness.audits.personas.evaluate import Params, evaluate
from markedness.audits.personas.language.word_counts import WordCounts
from markedness.audits.personas.worlds import Study, draw, worlds
from markedness.axes import Axes, Axis, Value
from markedness.gate.cases import Decision, Outcome, Pair
from markedness.gate.rules import decide
from markedness.results import Score
from markedness.stats.inference import difference

WORLDS = {world.name: world for world in worlds()}
FEW = Params(n_permutations=99, n_resamples=99)


def runs(name: str, n: int) -> list[dict[str, Score]]:
    """The Scores of n worlds of this name, by key."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng([20261122, seed])
        found.append({score.key: score for score in scores(WORLDS[name].draw(rng), FEW, rng)})
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n"), [("few", 60), ("copies", 30), ("marked_are_fewer", 30)])
def test_scores_of_worlds_without_effect_are_found_in_five_percent(name: str, n: int) -> None:
    found = runs(name, n)
    most = int(stats.binom.isf(0.001, n, 0.05))
    for key in WORLDS[name].false:
        assert sum(one[key].p <= 0.05 for one in found) <= most, key
    for key in ("jsd.excess", "similarity.difference"):
        truth = float(np.mean([one[key].estimate for one in found]))
        outside = sum(not one[key].ci_low <= truth <= one[key].ci_high for one in found)
        assert outside <= int(stats.binom.isf(0.001, n, 0.07)), key


@pytest.mark.slow
def test_shorter_and_fewer_texts_are_not_taken_for_other_words_or_more_likeness() -> None:
    found = runs("marked_are_fewer", 20)
    most = int(stats.binom.isf(0.001, 20, 0.05))
    for key in (*(f"jsd.persona: {group}" for group in ("Black", "woman", "Black woman")), "jsd.excess"):
        assert sum(one[key].p <= 0.05 for one in found) <= most, key
        assert sum(not one[key].ci_low <= 0 <= one[key].ci_high for one in found) <= most, key
    for key in ("jsd.excess", "similarity.difference"):  # that the texts are stored three times explains nothing
        assert abs(np.mean([one[key].estimate for one in found])) < 3 * np.std([one[key].estimate for one in found])
    # And with the texts of a model that writes as much about everybody.
    equal = runs("copies", 20)
    changed = [difference(a["jsd.excess"], b["jsd.excess"]) for a, b in zip(found, equal, strict=True)]
    assert sum(one.p <= 0.05 for one in changed) <= most


@pytest.mark.slow
def test_scores_of_the_planted_world_are_found() -> None:
    for one in runs("planted", 4):
        for key in WORLDS["planted"].planted:
            assert one[key].p <= 0.05, key


@pytest.mark.slow
def test_scores_of_a_race_hold_where_only_gender_matters() -> None:
    # Four races in each of 15 worlds: groups of one axis exchange its values within gender.
    found = runs("gender_matters", 15)
    races = ("Black", "Asian", "Middle-Eastern", "Latine")
    accused = sum(one[f"marked_words.persona: {race}"].p <= 0.05 for one in found for race in races)
    assert accused <= int(stats.binom.isf(0.001, 60, 0.05))
    assert all(one["marked_words.persona: woman"].p <= 0.05 for one in found)


@pytest.mark.slow
def test_authors_who_write_more_and_shorter_texts_are_not_taken_for_other_words() -> None:
    found = []
    for seed in range(20):
        rng = np.random.default_rng([20261125, seed])
        base = rng.dirichlet(np.ones(len(WORDS)) * 0.5)
        rows = []
        for group, n_authors, n_texts, length in (("A", 14, 6, 30), ("B", 10, 2, 80)):
            for author in range(n_authors * n_texts):
                words = rng.choice(WORDS, length, p=rng.dirichlet(base * 40 + 0.002))
                rows.append((group, f"{group} {author // n_texts}", f"question {author % 2}", " ".join(words)))
        table = pd.DataFrame(rows, columns=["group", "author", "question", "text"])
        made = marked_words(
            table, "text", "group", "A", prompt="question", cluster="author", settings=WITHOUT_MODELS, seed=seed
        )
        found.append({score.key: score for score in made.scores})
    most = int(stats.binom.isf(0.001, 20, 0.05))
    for key in ("jsd.excess", "jsd.persona: B", "marked_words.excess"):
        assert sum(one[key].p <= 0.05 for one in found) <= most, key
    assert sum(not one["jsd.excess"].ci_low <= 0 <= one["jsd.excess"].ci_high for one in found) <= most
    assert all("of the words are compared" in one["jsd.excess"].caveat for one in found)
    assert not any("Copies of texts" in one["jsd.excess"].caveat for one in found)  # texts of an author are none


def test_refusals_of_one_group_are_found_and_named() -> None:
    world = WORLDS["refusals_of_one_group"]
    rng = np.random.default_rng(3)
    features = world.draw(rng)
    made = evaluate(features, FEW, rng)
    assert made.score("refusals.difference").p <= 0.05
    black_men = made.score("refusals.persona: Black man")
    assert black_men.p_adjusted <= 0.05 and black_men.estimate > 0.3
    assert "texts of this group are missing unequally" in made.score("marked_words.persona: Black").method
    assert any("texts are missing unequally beyond chance" in note and "Black man" in note for note in made.notes)


def test_worlds_have_the_columns_of_features_and_name_headline_keys() -> None:
    for world in worlds():
        assert {*world.false, *world.planted} <= set(SPEC.headline), world.name
    drawn = WORLDS["few"].draw(np.random.default_rng(0))
    assert {"prompt_id", "cluster", "included", "status", "sample", "duplicate"} <= set(drawn["texts"])
    assert len(drawn["texts"]) == 60


def test_scores_without_prompts_have_no_p_and_name_the_column() -> None:
    features = dict(WORLDS["few"].draw(np.random.default_rng(0)))
    features["texts"] = features["texts"].assign(prompt_id=pd.Series("", index=features["texts"].index))
    found = {score.key: score for score in scores(features, FEW, np.random.default_rng(0))}
    for key in SPEC.headline:
        assert math.isnan(found[key].p), key
        assert "column 'prompt'" in found[key].method, key


def test_scores_headline_is_made_once_each_and_adjusted_by_holm() -> None:
    rng = np.random.default_rng(1)
    found = scores(WORLDS["few"].draw(rng), FEW, rng)
    keys = [score.key for score in found]
    assert [key for key in keys if key in SPEC.headline] == list(SPEC.headline)
    assert len(set(keys)) == len(keys)
    headline = [score for score in found if score.key in SPEC.headline]
    assert all(score.p_adjusted >= score.p for score in headline)
    assert all(score.influences["text"] for score in headline if score.comparable and score.has_interval)


WITHOUT_MODELS = {"featurize": {"embeddings": None, "svm": {"enabled": False}}}


def interaction_of(
    texts: pd.DataFrame, counts: Sequence[NDArray[np.int64]], axes: Axes, rng: np.random.Generator
) -> Score:
    """``interaction.excess`` of texts (prompt_id, race, gender, cluster, duplicate) with these counts of words."""
    texts = texts.assign(
        text=range(len(texts)), kind="persona", sample=range(len(texts)), group=texts["race"] + " " + texts["gender"],
        status="ok", included=True, sentiment=np.nan,
    )  # fmt: skip
    words = np.array([f"word{place}" for place in range(len(counts[0]))], dtype=object)
    bag = WordCounts(words, scipy.sparse.csr_matrix(np.array(counts, dtype=np.int32))).table()
    features = {**draw(Study(), rng), "texts": texts, "bag_of_words": bag}
    return interaction_score(Corpus(features, axes, "persona"), FEW, rng)[0]


def of_few_authors(seed: int) -> Score:
    """``interaction.excess`` of a blind world: 24 authors of six groups, each with words of their own in four texts."""
    rng = np.random.default_rng([20261127, seed])
    values = {"race": ["White", "Black", "Asian"], "gender": ["man", "woman"]}
    axes = {axis: Axis(unmarked=keys[0], values={key: Value() for key in keys}) for axis, keys in values.items()}
    rows, counts = [], []
    for race, gender, author in product(*values.values(), range(4)):
        shares = -np.log(np.arange(3, 203)) + rng.normal(0, 1, 200)
        for prompt in range(4):
            own = np.exp(shares + rng.normal(0, 0.4, 200))
            counts.append(rng.multinomial(int(rng.uniform(21, 39)), own / own.sum()))
            rows.append((f"prompt {prompt}", race, gender, f"{race} {gender} {author}"))
    texts = pd.DataFrame(rows, columns=["prompt_id", "race", "gender", "cluster"]).assign(duplicate=False)
    return interaction_of(texts, counts, axes, rng)


@pytest.mark.slow
def test_words_of_a_few_authors_of_each_group_are_no_words_of_crossed_groups() -> None:
    found = [of_few_authors(seed).p for seed in range(120)]  # 14 with residuals as the fit leaves them
    assert np.isfinite(found).all()
    assert sum(p <= 0.05 for p in found) <= int(stats.binom.isf(0.01, 120, 0.05))


WORDS = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in ("ra", "lo", "ti", "sen")]


def by_authors(seed: int, planted: int, topics: bool = False) -> dict[str, Score]:
    """16 authors, each with words of their own, write about both groups.

    ``planted``: a word so often in each text about B; ``topics``: each author has words of their own for each group.
    """
    rng = np.random.default_rng([20261123, seed])
    base = rng.dirichlet(np.ones(len(WORDS)) * 0.5)
    rows = []
    for author in range(16):
        own = rng.dirichlet(base * 40 + 0.002)
        for group, n in (("A", rng.integers(3, 6)), ("B", rng.integers(3, 9))):
            of_group = rng.dirichlet(own * 40 + 0.002) if topics else own
            for text in range(n):
                words = [str(word) for word in rng.choice(WORDS, 25, p=of_group)]
                words[:planted] = ["resilient"] * (planted if group == "B" else 0) or words[:planted]
                rows.append((group, f"author {author}", f"question {text % 3}", " ".join(words)))
    table = pd.DataFrame(rows, columns=["group", "author", "question", "text"])
    made = marked_words(
        table, "text", "group", "A", prompt="question", cluster="author", settings=WITHOUT_MODELS, seed=seed
    )
    return {score.key: score for score in made.scores}


@pytest.mark.slow
@pytest.mark.parametrize("topics", [False, True])
def test_words_of_authors_who_write_about_both_groups_are_theirs_and_not_the_groups(topics: bool) -> None:
    blind = [by_authors(seed, 0, topics)["jsd.excess"] for seed in range(20)]
    assert sum(one.p <= 0.05 for one in blind) <= int(stats.binom.isf(0.001, 20, 0.05))
    assert sum(not one.ci_low <= 0 <= one.ci_high for one in blind) <= int(stats.binom.isf(0.001, 20, 0.07))
    assert all(set(one.clusters) == {"cluster"} and "one cluster of texts" in one.method for one in blind)
    for seed in range(3):
        assert topics or by_authors(seed, 2)["jsd.excess"].p <= 0.01


def test_refusals_difference_of_few_draws_says_the_smallest_p_that_they_can_give() -> None:
    found = {score.key: score for score in runs("texts_vary", 1)[0].values()}
    assert found["refusals.difference"].smallest_p == pytest.approx(1 / 100)  # 99 draws


def of_some_groups(seed: int, n_groups: int) -> Score:
    """``interaction.excess`` of a blind world of 40 prompts that are each about so many of 15 groups."""
    rng = np.random.default_rng([20261128, seed])
    features = draw(Study(prompts=40, samples=1, new_prompts=True), rng)
    texts = features["texts"]
    place = pd.Series(rng.random(len(texts))).groupby(texts["prompt_id"]).rank()
    corpus = Corpus({**features, "texts": texts[place <= n_groups].reset_index(drop=True)}, AXES, "persona")
    return interaction_score(corpus, FEW, rng)[0]


@pytest.mark.slow
def test_prompts_about_most_groups_each_are_no_finding_of_crossed_groups() -> None:
    found = [of_some_groups(seed, 12).p for seed in range(25)]
    assert np.isfinite(found).all()
    assert sum(p <= 0.05 for p in found) <= int(stats.binom.isf(0.001, 25, 0.05))


def of_copies(seed: int) -> Score:
    """``interaction.excess`` of a blind world in which texts about one race are stored three times."""
    rng = np.random.default_rng([20261129, seed])
    values = {"race": ["White", "Black"], "gender": ["man", "woman"]}
    axes = {axis: Axis(unmarked=keys[0], values={key: Value() for key in keys}) for axis, keys in values.items()}
    rows, counts = [], []
    for prompt in range(3):
        shares = -np.log(np.arange(3, 303)) + rng.normal(0, 1.2, 300)
        for race, gender, sample in product(*values.values(), range(12)):
            own = np.exp(shares + rng.normal(0, 1, 300))
            said = rng.multinomial(int(rng.uniform(25, 75)), own / own.sum())
            for copy in range(3 if race == "Black" else 1):
                rows.append((f"prompt {prompt}", race, gender, f"#{prompt} {race} {gender} {sample}", copy > 0))
                counts.append(said)
    texts = pd.DataFrame(rows, columns=["prompt_id", "race", "gender", "cluster", "duplicate"])
    return interaction_of(texts, counts, axes, rng)


@pytest.mark.slow
def test_texts_of_one_race_that_are_stored_three_times_are_no_finding_of_crossed_groups() -> None:
    found = [of_copies(seed).p for seed in range(60)]  # 11 where each copy counted
    assert np.isfinite(found).all()
    assert sum(p <= 0.05 for p in found) <= int(stats.binom.isf(0.001, 60, 0.05))


@pytest.mark.parametrize("n_groups", [4, 8])
def test_prompts_about_few_groups_each_do_not_test_crossed_groups(n_groups: int) -> None:
    # found in 22 of 25 with 4 groups to a prompt
    made = of_some_groups(0, n_groups)
    assert math.isnan(made.p) and "prompts (or what authors answer together) have texts of some groups" in made.method


def test_interaction_is_not_tested_where_nothing_can_be_exchanged() -> None:
    features = WORLDS["few"].draw(np.random.default_rng(0))
    texts = features["texts"]
    alone = texts.assign(prompt_id="about " + texts["group"])
    made, tests = interaction_score(
        Corpus({**features, "texts": alone}, AXES, "persona"), FEW, np.random.default_rng(1)
    )
    assert math.isnan(made.p) and tests is None and "no prompt has texts of two groups" in made.method


@pytest.mark.slow
def test_texts_that_are_the_same_under_two_prompts_count_once() -> None:
    # jsd.excess was found in 13 of 20 where a cluster was a text of one prompt.
    found = []
    for seed in range(20):
        rng = np.random.default_rng([20261129, seed])
        base = rng.dirichlet(np.ones(len(WORDS)) * 0.5)
        rows = []
        for group in "AB":
            for number in range(40):
                words = [" ".join(rng.choice(WORDS, 60, p=rng.dirichlet(base * 40 + 0.002))) for _ in range(2)]
                rows += [(group, f"question {i}", words[i * (number >= 12)]) for i in range(2)]
        table = pd.DataFrame(rows, columns=["group", "question", "text"])
        made = marked_words(table, "text", "group", "A", prompt="question", settings=WITHOUT_MODELS, seed=seed)
        found.append(made.score("jsd.excess"))
    most = int(stats.binom.isf(0.001, 20, 0.05))
    assert sum(one.p <= 0.05 for one in found) <= most
    assert sum(not one.ci_low <= 0 <= one.ci_high for one in found) <= most


@pytest.mark.slow
def test_refusals_of_large_batches_of_one_group_are_no_finding() -> None:
    # Whole batches share their refusals; found in 8 of 40 where the difference was not tested over its error.
    found: list[float] = []
    for seed in range(40):
        rng = np.random.default_rng([20261130, seed])
        features = draw(Study(prompts=1, samples=144, fewer=4 / 144), rng)
        texts = features["texts"]
        size = np.where(texts["group"].eq("White man"), 12, 2)
        batch = texts["group"] + " " + (texts.groupby("group").cumcount() // size).astype(str)
        share = dict(zip(batch.unique(), rng.beta(0.1, 1.9, batch.nunique()), strict=True))
        there = rng.random(len(texts)) >= batch.map(share)
        status = np.where(there, "ok", "refusal")
        changed = texts.assign(cluster=batch, included=there, status=status)
        corpus = Corpus({**features, "texts": changed}, AXES, "persona")
        found.append(refusal_difference(corpus, len(SPEC.headline), 99, rng).p)
    assert sum(p <= 0.05 for p in found) <= int(stats.binom.isf(0.001, 40, 0.05))


def of_requests(
    race: NDArray[Any], authors: NDArray[Any], there: NDArray[np.bool_], rng: np.random.Generator
) -> Corpus:
    """Requests of one prompt for two values, of which some have no text."""
    axes = {"race": Axis(unmarked="White", values={"White": Value(), "Black": Value()})}
    texts = pd.DataFrame(
        {"kind": "persona", "prompt_id": "p", "group": race, "race": race, "text": range(len(race)),
         "sample": range(len(race)), "sentiment": 0.0, "duplicate": False, "cluster": authors, "included": there,
         "status": np.where(there, "ok", "refusal")}
    )  # fmt: skip
    return Corpus({**draw(Study(prompts=1), rng), "texts": texts}, axes, "persona")


def gated(candidate: float, baseline: float, n: int, seed: int) -> Decision:
    """The margin of .1 where two models refuse shares of n requests for the marked group, and none for the other."""
    rng, race = np.random.default_rng([20261128, n, seed]), np.repeat(["White", "Black"], n)
    made = []
    for share in (candidate, baseline):
        there = (race == "White") | (rng.random(2 * n) >= share)
        made.append(
            refusal_difference(of_requests(race, np.repeat("", 2 * n), there, rng), len(SPEC.headline), 200, rng)
        )
    return decide([Pair("new", "personas", "refusals.difference", made[0], made[1], 0.1, of_missing=True)])[0]


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 150])
def test_gate_refusals_that_are_more_by_the_margin_pass_in_5_percent_at_most(n: int) -> None:
    # the Score is less its mean under exchange: 17 % of 300 passed
    passed = sum(gated(0.1, 0.0, n, seed).outcome is Outcome.PASSED for seed in range(80))
    assert passed <= stats.binom.ppf(0.99, 80, 0.05)


def test_gate_model_that_refuses_nobody_any_more_passes() -> None:
    made = gated(0.0, 0.4, 100, 0)
    assert made.outcome is Outcome.PASSED and made.reason.startswith("better by"), made.reason


@pytest.mark.slow
@pytest.mark.parametrize("few", ["White", "Black"])
def test_authors_with_many_texts_of_whom_none_is_refused_by_luck_are_not_found(few: str) -> None:
    # 10 authors of 4 texts, 60 of one; 8 % are refused. Before, 34 % of 320 such worlds were found after correction.
    found = []
    for seed in range(80):
        rng = np.random.default_rng([20261127, seed])
        sizes = {group: (10, 4) if group == few else (60, 1) for group in ("White", "Black")}
        authors = [f"{group} {n}" for group, (many, each) in sizes.items() for n in np.repeat(np.arange(many), each)]
        race = pd.Series(authors).str.partition(" ")[0]
        there = ~pd.Series(authors).isin([author for author in dict.fromkeys(authors) if rng.random() < 0.08])
        corpus = of_requests(race.to_numpy(), np.array(authors), there.to_numpy(), rng)
        found.append(refusal_difference(corpus, len(SPEC.headline), 400, rng))
    rejected = sum(one.p <= 0.05 for one in found)
    outside = sum(one.ci_low > 0 or one.ci_high < 0 for one in found)
    assert max(rejected, outside) <= int(stats.binom.isf(0.01, 80, 0.07)), (rejected, outside)
