from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import entropy

from markedness.audits.knowledge.estimators.classes import SubjectClass
from markedness.audits.knowledge.estimators.gaps import Crawls
from markedness.audits.knowledge.estimators.topic_divergence import (
    expected_relative_entropy,
    pair_products,
    published_relative_entropy,
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


def test_pair_products_of_a_worked_example() -> None:
    # p = (1, 0) and (1, 0), q = (1/2, 1/2) and (0, 1): differences (1/2, -1/2) and (1, -1)
    found = pair_products(np.array([[2.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 5.0]]))
    assert found == pytest.approx(np.array([[0.25, 0.5], [0.5, 1.0]]))


def test_pair_products_are_how_much_more_often_triples_of_one_subject_share_a_topic() -> None:
    p, q = np.random.default_rng(0).dirichlet(np.full(5, 0.4), 2)
    # P(both triples of p in one topic) = p p, of q q q, of one of each p q
    assert pair_products(np.tile(p, (2, 1)), np.tile(q, (2, 1)))[0, 1] == pytest.approx((p @ p + q @ q) / 2 - p @ q)


def test_pair_products_leave_out_crawls_that_lack_a_subject() -> None:
    marked, reference = np.random.default_rng(0).integers(1, 9, (2, 4, 6)).astype(float)
    whole = pair_products(marked[1:], reference[1:])
    marked[0] = 0
    found = pair_products(marked, reference)
    assert np.isnan(found[0]).all() and np.isnan(found[:, 0]).all()
    assert found[1:, 1:] == pytest.approx(whole)
    assert np.isnan(pair_products(marked * 0, reference)).all()


@pytest.mark.parametrize("sizes", [(4, 4), (4, 40)])
def test_divergence_of_equal_mean_topics_is_zero_on_average_whatever_the_size_and_the_spread(
    sizes: tuple[int, int],
) -> None:
    rng = np.random.default_rng(1)
    shares = np.array([0.4, 0.3, 0.2, 0.06, 0.04])
    found, plain = [], []
    for _ in range(2000):
        marked = np.array([rng.multinomial(sizes[0], rng.dirichlet(3 * shares)) for _ in range(6)], dtype=float)
        reference = np.array([rng.multinomial(sizes[1], rng.dirichlet(300 * shares)) for _ in range(6)], dtype=float)
        products = pair_products(marked, reference)
        found.append((products.sum() - np.trace(products)) / 30)
        plain.append(products.mean())
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 4 * error
    # with the products of each crawl with itself it is not
    assert np.mean(plain) > 10 * error


def test_pair_products_change_their_sign_when_the_two_are_exchanged_in_one_crawl() -> None:
    marked, reference = np.random.default_rng(2).integers(1, 9, (2, 3, 6)).astype(float)
    found = pair_products(marked, reference)
    marked[0], reference[0] = reference[0].copy(), marked[0].copy()
    swapped = pair_products(marked, reference)
    sign = np.array([-1.0, 1.0, 1.0])
    assert swapped == pytest.approx(found * np.outer(sign, sign))


def unequal(seed: int, sizes: tuple[int, int, int], own: float, spread: float = 0.0) -> dict[str, Score]:
    """Scores of Beta and Gamma against Alpha where subjects have ``sizes`` triples in each of eight crawls.

    Each crawl has topics of its own, which its subjects share; ``own``: share of the marked subjects' triples that are
    of a further topic; ``spread``: topics of Alpha and Beta are drawn around these, with the same mean.
    """
    rng, rows, names = np.random.default_rng(seed), [], ("Alpha", "Beta", "Gamma")
    for crawl in range(8):
        shares = rng.dirichlet(np.ones(8))
        for subject, n in zip(names, sizes, strict=True):
            varied = rng.dirichlet(shares / spread + 1e-9) if spread and subject != "Gamma" else shares
            drawn = rng.choice(8, size=n, p=varied / varied.sum())
            drawn[rng.random(n) < (own if subject != "Alpha" else 0.0)] = 8
            rows += [(str(crawl), subject, topic, True, 1.0) for topic in drawn]
    asked = pd.DataFrame(rows, columns=["crawl", "subject", "topic", "included", "valid"])
    crawls = [str(crawl) for crawl in range(8)]
    one = SubjectClass("trade", list(names), "Alpha", crawls, asked)
    made = topic_scores([one], Crawls(crawls, True, 0.95), np.random.default_rng(seed))
    return {score.key: score for score in made}


def two_p(seed: int, sizes: tuple[int, int, int], own: float, spread: float = 0.0) -> tuple[float, float, float]:
    """p of the marked subjects, of Beta alone and of Gamma alone."""
    made = unequal(seed, sizes, own, spread)
    subjects = [made[f"topic_divergence.trade: {subject}"].p for subject in ("Beta", "Gamma")]
    return made["topic_divergence.marked"].p, subjects[0], subjects[1]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("sizes", [(12, 12, 12), (24, 6, 6), (10, 40, 40), (60, 6, 12)])
def test_subjects_with_equal_mean_topics_are_not_accused_and_planted_ones_are_found(
    sizes: tuple[int, int, int], spread: float
) -> None:
    # the divergence of the topics of single crawls accused 21 to 78 of 100 such worlds with unequal numbers
    blind = np.array([two_p(38_000 + seed, sizes, 0.0, spread) for seed in range(100)])
    for found in (blind <= 0.05).sum(axis=0).tolist():
        assert stats.binomtest(found, 100, 0.05, alternative="greater").pvalue > 0.01, (sizes, found)
    planted = np.array([two_p(39_000 + seed, sizes, 0.5) for seed in range(20)])
    assert ((planted <= 0.05).sum(axis=0) >= 18).all()


def test_triples_of_one_subject_change_no_other_subject() -> None:
    rng, names, rows = np.random.default_rng(4), ("Alpha", "Beta", "Gamma"), []
    for crawl in range(8):
        for subject in names:
            rows += [(str(crawl), subject, topic, True, 1.0) for topic in rng.integers(0, 5, 20)]
    asked = pd.DataFrame(rows, columns=["crawl", "subject", "topic", "included", "valid"])
    few = asked[asked["subject"].ne("Gamma") | ~asked.duplicated(["crawl", "subject"])].reset_index(drop=True)
    odd = asked.assign(topic=asked["topic"].where(asked["subject"].ne("Gamma"), 9))
    crawls = [str(crawl) for crawl in range(8)]
    made = []
    for table in (asked, few, odd):
        one = SubjectClass("trade", list(names), "Alpha", crawls, table)
        found = topic_scores([one], Crawls(crawls, True, 0.95), np.random.default_rng(0))
        made.append(next(score for score in found if score.group == "Beta"))
    assert len({(score.estimate, score.ci_low, score.ci_high, score.n) for score in made}) == 1


def test_divergence_names_the_subjects_without_topics() -> None:
    made = unequal(1, (12, 12, 0), 0.0)
    for item in ("marked", "trade"):
        score = made[f"topic_divergence.{item}"]
        assert score.over == "Beta - Alpha"
        assert score.caveat == "Not over Gamma: the data have no topics of them or of what they are compared with."
    assert unequal(1, (12, 12, 12), 0.0)["topic_divergence.marked"].caveat == ""
