from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from markedness.audits.personas import AXES, worlds
from markedness.audits.personas.estimators.corpus import Corpus, corpora
from markedness.audits.personas.estimators.divergence import divergence_influences, left_out
from markedness.audits.personas.estimators.marked_words import Exchanged
from markedness.audits.personas.estimators.word_scores import word_scores
from markedness.audits.personas.evaluate import Params
from markedness.audits.personas.language.contrasts import (
    Contrasts,
    LogOddsPrior,
    contrast_log_odds,
    divergence,
    marked,
)
from markedness.audits.personas.language.log_odds import Prior, log_odds, prior_counts
from markedness.records import FeatureTables

from .conftest import generations, tabled

# Three combinations: marked A, marked B, unmarked U. Group 0: A against U. Group 1: B against U and against A.
CONTRASTS = Contrasts(
    targets=np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]),
    references=np.array([[0.0, 0, 1], [0, 0, 1], [1, 0, 0]]),
    group=np.array([0, 1, 1]),
)


@pytest.mark.parametrize("prior", ["corpus", "others", "compared", "uninformative"])
def test_contrast_log_odds_equals_log_odds_of_the_summed_counts(prior: Prior) -> None:
    counts = np.random.default_rng(5).poisson(3, (3, 12)).astype(float) + 1
    z = contrast_log_odds(counts, CONTRASTS, LogOddsPrior(prior, 0.5)).z
    corpus = counts.sum(axis=0)
    for row, (target, reference) in enumerate([(0, 2), (1, 2), (1, 0)]):
        y1, y2 = counts[target], counts[reference]
        np.testing.assert_allclose(z[row], log_odds(y1, y2, prior_counts(corpus, y1, y2, prior, 0.5)).z)


@pytest.mark.parametrize("prior", ["corpus", "others", "compared"])
def test_contrast_log_odds_of_some_words_with_totals_equals_that_of_all(prior: Prior) -> None:
    counts = np.random.default_rng(6).poisson(3, (3, 12)).astype(float) + 1
    some = contrast_log_odds(counts[:, :4], CONTRASTS, LogOddsPrior(prior), counts.sum(axis=1)).z
    np.testing.assert_allclose(some, contrast_log_odds(counts, CONTRASTS, LogOddsPrior(prior)).z[:, :4])


def test_marked_needs_every_contrast_of_the_group() -> None:
    z = np.array([[3.0, 0.0, 3.0], [3.0, 3.0, 3.0], [0.0, 3.0, np.nan]])
    assert marked(z, CONTRASTS, 1.96).tolist() == [[True, False, True], [False, True, False]]


def test_divergence_of_two_references_piles_them_up() -> None:
    # B = (2, 0), pile = U + A = (1, 1) + (0, 2) = (1, 3): p = (1, 0), q = (1/4, 3/4), m = (5/8, 3/8).
    # JSD = 1/2 log2(8/5) + 1/8 log2(2/5) + 3/8 log2(2) = 0.339036 - 0.165241 + 0.375 = 0.548795.
    counts = np.array([[0.0, 2], [2, 0], [1, 1]])
    found = divergence(counts, CONTRASTS)
    assert found.total[1] == pytest.approx(0.548795, abs=1e-6)
    assert found.contribution[1].sum() == pytest.approx(0.548795, abs=1e-6)
    assert found.side[1].tolist() == [1, -1]


def worded(rows: list[tuple[str, str, str, str]]) -> Corpus:
    """The corpus of (race, gender, prompt, text); every other axis value and embedding is missing."""
    table = generations([(race, gender, text) for race, gender, _, text in rows])
    return corpora(tabled(table.assign(prompt_id=[prompt for _, _, prompt, _ in rows])).tables, AXES)[0]


def simulated(rng: np.random.Generator, planted: float = 0.0, copies: int = 1) -> Corpus:
    """Texts of 20 words, half of them of the prompt, for two races, genders and prompts; ``copies`` of each."""
    rows = []
    for race, gender, prompt in product(("White", "Black"), ("man", "woman"), ("a", "b")):
        for _ in range(6):
            words = [f"w{chr(97 + code)}" for code in rng.zipf(1.6, 10) % 20]
            words += [f"{prompt}{chr(97 + code)}" for code in rng.integers(0, 4, 10)]
            words += ["planted"] * int(race == "Black" and rng.random() < planted)
            rows += [(race, gender, prompt, " ".join(words))] * copies
    return worded(rows)


def equal(corpus: Corpus) -> NDArray[np.float64]:
    """Words per combination, (C, V), of texts cut to equal lengths."""
    pooled = np.zeros_like(corpus.pooled)
    np.add.at(pooled, corpus.units.combination, np.asarray(corpus.equal_counts.todense()))
    return pooled


def test_exchanged_statistics_of_the_labels_as_they_are_equal_the_published_ones_at_equal_lengths() -> None:
    corpus = simulated(np.random.default_rng(7), planted=0.9)
    contrasts = corpus.grouping.contrasts
    n_marked = marked(contrast_log_odds(equal(corpus), contrasts, corpus.prior).z, contrasts, 1.0).sum(axis=1)
    for axis in ("race", None):
        groups = [group for group in corpus.compared if group.marked and (axis is None or list(group.fixed) == [axis])]
        made = Exchanged(corpus, groups, axis, 1.0)
        places = [corpus.compared.index(group) for group in groups]
        expected = [*n_marked[places], *divergence_influences(corpus, groups)[0]]
        np.testing.assert_allclose(made.observed, expected, atol=2e-6)
        assert made.observed[0] >= 1


def test_exchange_of_one_axis_leaves_prompt_and_the_other_axis_as_they_are() -> None:
    corpus = simulated(np.random.default_rng(8))
    units = corpus.units
    _, rest, _ = corpus.grouping.split("race")
    exchange = units.exchange("race")
    for drawn in exchange.draw(5, np.random.default_rng(0)):
        for cell in set(zip(units.prompt.tolist(), rest[units.combination].tolist(), strict=True)):
            inside = (units.prompt == cell[0]) & (rest[units.combination] == cell[1])
            assert sorted(drawn[inside]) == sorted(exchange.labels[inside])
    assert exchange.arrangements == pytest.approx(924**4)  # 12 over 6, in each of 2 prompts x 2 genders


def with_copies_of(features: FeatureTables, which: NDArray[np.bool_], times: int = 2) -> FeatureTables:
    """The same features, with so many further copies of some of the texts."""
    texts, bag = features["texts"], features["bag_of_words"]
    again = np.repeat(np.flatnonzero(which), times)
    old, new = texts["text"].to_numpy()[again], (len(texts) + np.arange(len(again))).astype(np.int32)
    rows = texts.iloc[again].assign(text=new, sample=1000 + np.arange(len(again)), duplicate=True)
    words = [bag[bag["text"].eq(one)].assign(text=two) for one, two in zip(old, new, strict=True)]
    return {**features, "texts": pd.concat([texts, rows], ignore_index=True), "bag_of_words": pd.concat([bag, *words])}


def test_excess_divergence_with_copies_in_some_groups_alone_says_that_it_is_too_small() -> None:
    # Without an effect, and every text about Black people stored three times: 200 such worlds have a mean excess of
    # -0.013 bits (standard error 0.0002), since exchange spreads the copies over all groups.
    params = Params(n_permutations=40)
    said = {}
    for name in ("Black", "any", "none"):
        features = worlds.draw(worlds.Study(), np.random.default_rng(20261124))
        texts = features["texts"]
        chosen = {"Black": texts["race"].eq("Black"), "any": texts["text"] % 3 == 0, "none": texts["text"] < 0}[name]
        corpus = Corpus(with_copies_of(features, chosen.to_numpy(dtype=bool)), AXES, "persona")
        headline, groups = word_scores(corpus, params, np.random.default_rng(1))
        said[name] = {one.key: one.caveat for one in (*headline, *groups())}
    warned = {key for key, caveat in said["Black"].items() if "Copies of texts are not equally frequent" in caveat}
    # Copies do not differ by gender.
    assert {
        "jsd.excess",
        "jsd.persona: Black",
        "jsd.persona: Black woman",
    } <= warned and "jsd.persona: woman" not in warned
    assert {key.split(".")[0] for key in warned} == {"jsd", "marked_words"}
    assert "(a text is there 1.0 times in one, 3.0 times in another)" in said["Black"]["jsd.excess"]
    assert not any("Copies" in caveat for name in ("any", "none") for caveat in said[name].values())


def test_units_of_copies_are_one_also_where_they_answer_two_prompts() -> None:
    texts = [
        ("Black", "a", "Tall  man"),
        ("Black", "a", "tall man"),
        ("Black", "b", "tall man"),
        ("White", "a", "tall man"),
    ]
    corpus = worded([(race, "man", prompt, text) for race, prompt, text in texts])
    assert corpus.units.copies.tolist() == [3, 1]
    assert len(set(corpus.units.names)) == 2


def test_divergence_influences_are_the_derivative_of_the_divergence() -> None:
    corpus = simulated(np.random.default_rng(9))
    groups = [group for group in corpus.compared if group.marked]
    bits, influences = divergence_influences(corpus, groups)
    np.testing.assert_allclose(bits, divergence(equal(corpus), corpus.grouping.contrasts_of(groups)).total)
    # One unit weighed 1 + h: the divergence moves by h times its influence.
    h, unit = 1e-6, 3
    heavier = equal(corpus)
    heavier[corpus.units.combination[unit]] += h * np.asarray(corpus.equal_counts[unit].todense()).ravel()
    moved = (divergence(heavier, corpus.grouping.contrasts_of(groups)).total - bits) / h
    np.testing.assert_allclose(influences[unit], moved, atol=1e-6)


def test_divergence_without_a_unit_is_that_of_all_others() -> None:
    corpus = simulated(np.random.default_rng(9))
    groups = [group for group in corpus.compared if group.marked]
    contrasts = corpus.grouping.contrasts_of(groups)
    changes = left_out(corpus, groups)
    for unit in range(0, len(corpus.units), 5):
        others = equal(corpus)
        others[corpus.units.combination[unit]] -= np.asarray(corpus.equal_counts[unit].todense()).ravel()
        moved = divergence(equal(corpus), contrasts).total - divergence(others, contrasts).total
        np.testing.assert_allclose(changes[unit], moved, atol=2e-5)


def test_scores_of_texts_stored_five_times_are_those_of_texts_stored_once() -> None:
    once, five = (simulated(np.random.default_rng(10), copies=copies) for copies in (1, 5))
    found = [
        {score.key: score for score in word_scores(corpus, Params(), np.random.default_rng(0))[1]()}
        for corpus in (once, five)
    ]
    key = "jsd.persona: Black"
    assert found[0][key].estimate == pytest.approx(found[1][key].estimate, abs=1e-5)
    assert found[0][key].p == found[1][key].p
    assert found[0][key].ci_low == pytest.approx(found[1][key].ci_low, abs=1e-5)


def test_word_scores_find_a_planted_word() -> None:
    corpus = simulated(np.random.default_rng(11), planted=0.9)
    headline, groups = word_scores(corpus, Params(), np.random.default_rng(0))
    black = next(score for score in groups() if score.key == "marked_words.persona: Black")
    assert headline[0].key == "marked_words.excess"
    assert black.estimate >= 1 and black.p <= 0.05
