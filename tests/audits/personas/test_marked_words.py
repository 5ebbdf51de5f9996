from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from markedness.audits.personas import AXES
from markedness.audits.personas.estimators.marked_words import (
    permutation_null,
    permutation_p,
    permutations,
    resampled_z,
)
from markedness.audits.personas.language.contrasts import (
    Contrasts,
    LogOddsPrior,
    contrast_log_odds,
    divergence,
    marked,
)
from markedness.audits.personas.language.groups import Grouping
from markedness.audits.personas.language.log_odds import Prior, log_odds, prior_counts
from markedness.audits.personas.language.word_counts import count_words
from markedness.stats.resampling import permute_within

# Three combinations: marked A, marked B, unmarked U. Group 0: A against U. Group 1: B against U and against A.
CONTRASTS = Contrasts(
    targets=np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]),
    references=np.array([[0.0, 0, 1], [0, 0, 1], [1, 0, 0]]),
    group=np.array([0, 1, 1]),
)


@pytest.mark.parametrize("prior", ["corpus", "others", "compared", "uninformative"])
def test_contrast_log_odds_equals_log_odds_of_the_summed_counts(prior: Prior) -> None:
    counts = np.random.default_rng(5).poisson(3, (3, 12)) + 1.0
    z = contrast_log_odds(counts, CONTRASTS, LogOddsPrior(prior, 0.5)).z
    corpus = counts.sum(axis=0)
    for row, (target, reference) in enumerate([(0, 2), (1, 2), (1, 0)]):
        y1, y2 = counts[target], counts[reference]
        np.testing.assert_allclose(z[row], log_odds(y1, y2, prior_counts(corpus, y1, y2, prior, 0.5)).z)


@pytest.mark.parametrize("prior", ["corpus", "others", "compared"])
def test_contrast_log_odds_of_some_words_with_totals_equals_that_of_all(prior: Prior) -> None:
    counts = np.random.default_rng(6).poisson(3, (3, 12)) + 1.0
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


def test_resampled_z_with_weights_of_one_is_the_plain_z_and_zero_leaves_out() -> None:
    rng = np.random.default_rng(7)
    cells = rng.poisson(3, (4, 3, 10)) + 1.0  # prompts, combinations, words
    totals, prior = cells.sum(axis=2), LogOddsPrior()
    weights = np.array([[1.0, 1, 1, 1], [0, 1, 1, 1]])
    some = resampled_z(cells[:, :, :6], totals, weights, CONTRASTS, prior)
    np.testing.assert_allclose(some[0], contrast_log_odds(cells.sum(axis=0), CONTRASTS, prior).z[:, :6])
    np.testing.assert_allclose(some[1], contrast_log_odds(cells[1:].sum(axis=0), CONTRASTS, prior).z[:, :6])


def simulated(rng: np.random.Generator, planted: float = 0.0) -> tuple[list[str], np.ndarray, np.ndarray]:
    """150 texts of 25 words for 3 combinations and 5 prompts; each prompt has words of its own."""
    combinations, prompts = np.tile(np.repeat(np.arange(3), 10), 5), np.repeat(np.arange(5), 30)
    texts = []
    for combination, prompt in zip(combinations, prompts, strict=True):
        common = rng.zipf(1.6, 20) % 40
        words = [f"w{code}" for code in common] + [f"p{prompt}{code}" for code in rng.integers(0, 4, 5)]
        texts.append(" ".join([*words, "planted"] if combination == 0 and rng.random() < planted else words))
    return texts, combinations, prompts


def shuffled(
    combinations: np.ndarray, prompts: np.ndarray, n_permutations: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    return (np.asarray(permute_within(combinations, prompts, rng)) for _ in range(n_permutations))


@pytest.mark.slow
def test_permutation_null_over_200_seeds_does_not_accuse_a_blind_author() -> None:
    # The p-value of the number of marked words is uniform or larger when nothing is there: at the level 0.05 at most
    # 10 of 200 runs are expected, and more than 20 (binomial, p < 0.002) would show a fault. A threshold of 0.9
    # instead of 1.96 lists words in most runs, so that the test can fail.
    threshold = 0.9
    accused, found = 0, []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        texts, combinations, prompts = simulated(rng)
        counts = count_words(texts)
        z = contrast_log_odds(counts.pooled(combinations, 3), CONTRASTS, LogOddsPrior()).z
        observed = marked(z, CONTRASTS, threshold).sum()
        shuffles = shuffled(combinations, prompts, 39, rng)
        null = permutation_null(counts, shuffles, CONTRASTS, LogOddsPrior(), threshold).marked.sum(axis=1)
        accused += permutation_p(observed, null) <= 0.05
        found.append(observed - null.mean())
    assert accused <= 20
    # on average the count is what the null says: within three standard errors
    assert abs(np.mean(found)) <= 3 * np.std(found) / np.sqrt(len(found))


def test_permutation_null_finds_a_planted_word() -> None:
    rng = np.random.default_rng(1)
    texts, combinations, prompts = simulated(rng, planted=0.8)
    counts = count_words(texts)
    z = contrast_log_odds(counts.pooled(combinations, 3), CONTRASTS, LogOddsPrior()).z
    listed = marked(z, CONTRASTS, 1.96)
    shuffles = shuffled(combinations, prompts, 99, rng)
    null = permutation_null(counts, shuffles, CONTRASTS, LogOddsPrior(), 1.96)
    assert counts.words[listed[0]].tolist() == ["planted"]
    assert permutation_p(listed[0].sum(), null.marked[:, 0]) <= 0.05


def test_permutation_p_counts_the_observed_as_one_of_the_null() -> None:
    # 2 of 4 shuffles reach 3, and so does the observed: (1 + 2) / (1 + 4).
    assert permutation_p(3, np.array([1.0, 3, 5, 2])) == pytest.approx(0.6)
    assert np.isnan(permutation_p(3, np.array([])))
    assert np.isnan(permutation_p(float("nan"), np.array([1.0])))


def test_permutations_move_combinations_within_prompt_alone() -> None:
    table = pd.DataFrame(
        {"race": ["Black", "White", "Black", "White"], "gender": None, "prompt_id": ["a", "a", "b", "b"]}
    )
    grouping = Grouping(table, AXES)
    for combination in permutations(grouping, 20, np.random.default_rng(0)):
        assert set(combination[:2]) == set(combination[2:]) == {0, 1}
    one_group_each = Grouping(table.assign(prompt_id=table["race"]), AXES)
    assert not list(permutations(one_group_each, 20, np.random.default_rng(0)))
