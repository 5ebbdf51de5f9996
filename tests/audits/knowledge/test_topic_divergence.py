from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from markedness.audits.knowledge.estimators.classes import SubjectClass
from markedness.audits.knowledge.estimators.gaps import Crawls
from markedness.audits.knowledge.estimators.topic_divergence import (
    expected_relative_entropy,
    jensen_shannon,
    pair_excess,
    published_relative_entropy,
    rarefied_divergence,
    topic_scores,
)
from markedness.results import Score


def test_relative_entropy_of_a_worked_example() -> None:
    # p = (1/2, 1/2), q = (1/4, 3/4): 1/2 ln 2 + 1/2 ln(2/3) = 1/2 ln(4/3) = 0.143841
    assert published_relative_entropy([1, 1], [1, 3]) == pytest.approx(0.5 * np.log(4 / 3))
    # 0 ln 0 = 0: p = (1, 0), q = (1/2, 1/2): ln 2
    assert published_relative_entropy([5, 0], [1, 1]) == pytest.approx(np.log(2))


def test_relative_entropy_agrees_with_scipy_along_the_last_axis() -> None:
    counts = np.random.default_rng(0).integers(1, 9, (4, 5))
    expected = [entropy(row, counts.sum(axis=0)) for row in counts]
    np.testing.assert_allclose(published_relative_entropy(counts, counts.sum(axis=0)), expected)


def test_relative_entropy_of_nothing_is_nan_and_of_the_impossible_infinite() -> None:
    assert np.isnan(published_relative_entropy([0, 0], [1, 1]))
    assert published_relative_entropy([1, 1], [1, 0]) == np.inf


def test_expected_relative_entropy_is_the_mean_over_permuted_subjects() -> None:
    rng = np.random.default_rng(0)
    counts = np.array([[5, 3, 0, 2], [1, 6, 4, 9], [0, 0, 0, 0]])
    subjects = np.repeat([0, 1], counts[:2].sum(axis=1))
    topics = np.concatenate([np.repeat(np.arange(4), row) for row in counts[:2]])
    drawn = []
    for _ in range(4000):
        permuted = np.zeros((2, 4))
        np.add.at(permuted, (rng.permutation(subjects), topics), 1)
        drawn.append(published_relative_entropy(permuted, counts.sum(axis=0)))
    found = expected_relative_entropy(counts)
    assert found[:2] == pytest.approx(np.mean(drawn, axis=0), rel=0.05)
    assert np.isnan(found[2])


def test_jensen_shannon_agrees_with_scipy_and_is_nan_of_nothing() -> None:
    counts = np.array([[3, 1, 0], [1, 1, 1], [0, 0, 4], [0, 0, 0]])
    found = jensen_shannon(counts)
    assert found[0, 1] == pytest.approx(jensenshannon(counts[0], counts[1]) ** 2)
    assert found[0, 2] == pytest.approx(np.log(2)) and found[1, 1] == pytest.approx(0)
    assert np.isnan(found[3]).all()


@pytest.mark.parametrize("n", [4, 40])
def test_pair_excess_of_one_distribution_is_zero_on_average_whatever_the_size(n: int) -> None:
    rng = np.random.default_rng(1)
    shares = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    found = []
    for _ in range(600):
        counts = np.stack([rng.multinomial(n, shares, 2), rng.multinomial(n, shares, 2)])  # crawls, subjects, topics
        units = np.arange(4).reshape(1, 2, 2)
        found.append(pair_excess(jensen_shannon(counts.reshape(4, -1)), units, [1], 0)[0, 0, 1, 0])
    mean, error = np.mean(found), np.std(found) / np.sqrt(600)
    assert abs(mean) < 4 * error
    # the divergence itself is not: about (K - 1) / (4 n)
    plain = [jensen_shannon(rng.multinomial(n, shares, 2))[0, 1] for _ in range(200)]
    assert np.mean(plain) > 10 * error


def test_pair_excess_changes_its_sign_when_the_two_are_exchanged_in_one_crawl() -> None:
    counts = np.random.default_rng(2).integers(0, 9, (4, 6))
    divergence = jensen_shannon(counts)
    straight, crossed = np.array([[[0, 1], [2, 3]], [[1, 0], [2, 3]]])
    first = pair_excess(divergence, straight[None], [1], 0)[0, 0, 1, 0]
    assert pair_excess(divergence, crossed[None], [1], 0)[0, 0, 1, 0] == pytest.approx(-first)


def unequal(seed: int, sizes: tuple[int, int, int], own: float) -> dict[str, Score]:
    """Scores of Beta and Gamma against Alpha where subjects have ``sizes`` triples in each of eight crawls.

    Each crawl has topics of its own, which its subjects share; ``own``: share of the marked subjects' triples that are
    of a further topic.
    """
    rng, rows, names = np.random.default_rng(seed), [], ("Alpha", "Beta", "Gamma")
    for crawl in range(8):
        shares = rng.dirichlet(np.ones(8))
        for subject, n in zip(names, sizes, strict=True):
            drawn = rng.choice(8, size=n, p=shares)
            drawn[rng.random(n) < (own if subject != "Alpha" else 0.0)] = 8
            rows += [(str(crawl), subject, topic, True, 1.0) for topic in drawn]
    asked = pd.DataFrame(rows, columns=["crawl", "subject", "topic", "included", "valid"])
    crawls = [str(crawl) for crawl in range(8)]
    one = SubjectClass("trade", list(names), "Alpha", crawls, asked)
    made = topic_scores([one], Crawls(crawls, True, 0.95), np.random.default_rng(seed))
    return {score.key: score for score in made}


def two_p(seed: int, sizes: tuple[int, int, int], own: float) -> tuple[float, float]:
    """p of the marked subjects and of Beta alone."""
    made = unequal(seed, sizes, own)
    return made["topic_divergence.marked"].p, made["topic_divergence.trade: Beta"].p


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(24, 6, 6), (10, 40, 40), (60, 6, 12)])
def test_subjects_with_unequal_numbers_of_triples_are_not_accused_and_planted_ones_are_found(
    sizes: tuple[int, int, int],
) -> None:
    # without drawing down to equal numbers 21 to 78 of 100 such blind worlds had p <= .05
    blind = np.array([two_p(38_000 + seed, sizes, 0.0) for seed in range(100)])
    for found in (blind <= 0.05).sum(axis=0).tolist():
        assert stats.binomtest(found, 100, 0.05, alternative="greater").pvalue > 0.01, (sizes, found)
    planted = np.array([two_p(39_000 + seed, sizes, 0.5) for seed in range(20)])
    assert ((planted <= 0.05).sum(axis=0) >= 18).all()


def test_subject_with_few_triples_changes_no_other_subject_and_is_named_where_all_are_compared() -> None:
    few, all_ = unequal(5, (24, 24, 1), 0.5), unequal(5, (24, 24, 24), 0.5)
    assert few["topic_divergence.trade: Beta"].estimate > 0.05
    assert all(not score.caveat for key, score in few.items() if "Beta" in key)
    # 3 subjects of 1 triple in 8 crawls are compared, of 49 in each
    assert "24 of 392 at a time" in few["topic_divergence.marked"].caveat
    assert not all_["topic_divergence.marked"].caveat


def test_rarefied_divergence_of_equal_numbers_is_the_divergence_itself() -> None:
    rng = np.random.default_rng(3)
    counts = rng.multinomial(12, [0.5, 0.3, 0.2], size=(4, 2)).astype(float)
    assert rarefied_divergence(counts, rng) == pytest.approx(jensen_shannon(counts.reshape(-1, 3)))
    # a subject without triples has none, and does not draw the others down to none
    counts[0, 0] = 0
    assert (
        np.isnan(rarefied_divergence(counts, rng)[0]).all()
        and np.isfinite(rarefied_divergence(counts, rng)[1, 2:]).all()
    )
