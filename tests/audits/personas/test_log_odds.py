import math

import numpy as np
import pytest

from markedness.audits.personas.language.log_odds import log_odds, prior_counts
from markedness.audits.personas.language.word_counts import WordCounts, count_words


def test_count_words_counts_and_keeps_the_empty_word() -> None:
    counts = count_words(["a b a", None, "b  c", ""])
    # "b  c" holds an empty word between the two spaces; "" is one empty word; None has no word.
    assert list(counts.words) == ["a", "b", "", "c"]
    assert counts.matrix.toarray().tolist() == [[2, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 1, 0]]


def test_count_words_of_no_documents_is_empty() -> None:
    counts = count_words([])
    assert counts.matrix.shape == (0, 0)
    assert counts.pooled(np.array([], dtype=int), 3).shape == (3, 0)


def test_pooled_sums_by_label_and_leaves_out_minus_one() -> None:
    counts = count_words(["a", "a b", "b b"])
    assert counts.pooled(np.array([1, 1, -1]), 2).tolist() == [[0, 0], [2, 1]]


def test_word_counts_of_texts_take_a_text_as_often_as_it_is_named() -> None:
    counts = count_words(["a b a", None, "c", "b"])
    some = WordCounts.of_texts(counts.table(), np.array([3, 0, 0, 1]))
    assert some.words.tolist() == ["a", "b"]  # "c" occurs in none of them
    assert some.matrix.toarray().tolist() == [[0, 1], [2, 1], [2, 1], [0, 0]]


def test_word_counts_of_no_texts_are_empty() -> None:
    some = WordCounts.of_texts(count_words([None]).table(), np.array([0]))
    assert some.matrix.shape == (1, 0)


def test_log_odds_z_equals_the_formula_worked_by_hand() -> None:
    # Target "x x y", reference "y y y"; prior: both, so a = (2, 4), a0 = 6, n1 = n2 = 3.
    # Word x: l1 = (2+2)/(3+6-4) = 4/5, l2 = (0+2)/(9-2) = 2/7, variance 1/4 + 1/2 = 3/4.
    # Word y: l1 = (1+4)/(9-5) = 5/4, l2 = (3+4)/(9-7) = 7/2, variance 1/5 + 1/7 = 12/35.
    y1, y2 = np.array([2.0, 1.0]), np.array([0.0, 3.0])
    z = log_odds(y1, y2, prior_counts(y1 + y2, y1, y2)).z
    assert z[0] == pytest.approx((math.log(4 / 5) - math.log(2 / 7)) / math.sqrt(3 / 4))
    assert z[1] == pytest.approx((math.log(5 / 4) - math.log(7 / 2)) / math.sqrt(12 / 35))


def test_log_odds_z_with_sides_swapped_changes_sign() -> None:
    rng = np.random.default_rng(0)
    y1, y2 = rng.poisson(4, 30).astype(float), rng.poisson(6, 30).astype(float)
    a = prior_counts(y1 + y2, y1, y2)
    np.testing.assert_allclose(log_odds(y1, y2, a).z, -log_odds(y2, y1, a).z)


def test_log_odds_z_against_no_words_is_nan() -> None:
    y1, none = np.array([2.0, 1.0]), np.zeros(2)
    assert np.isnan(log_odds(y1, none, y1).z).all()
    assert np.isnan(log_odds(none, y1, y1).z).all()


def test_log_odds_z_of_some_words_with_given_totals_equals_that_of_all() -> None:
    rng = np.random.default_rng(1)
    y1, y2 = rng.poisson(4, (3, 30)).astype(float), rng.poisson(6, (3, 30)).astype(float)
    a = prior_counts(y1 + y2, y1, y2)
    some = log_odds(y1[:, :5], y2[:, :5], a[:, :5], y1.sum(-1), y2.sum(-1), a.sum(-1)).z
    np.testing.assert_allclose(some, log_odds(y1, y2, a).z[:, :5])


def test_prior_counts_of_each_kind() -> None:
    corpus, target, reference = np.array([9.0, 2.0, 5.0]), np.array([4.0, 2.0, 0.0]), np.array([1.0, 0.0, 0.0])
    assert prior_counts(corpus, target, reference).tolist() == [9, 2, 5]
    # The second word stands in no other text: half an occurrence. The third stands only in others.
    assert prior_counts(corpus, target, reference, "others").tolist() == [4, 0.5, 5]
    # The third word is in neither compared set and needs no prior.
    assert prior_counts(corpus, target, reference, "compared").tolist() == [5, 2, 0]
    assert prior_counts(corpus, target, reference, "uninformative", 0.1).tolist() == [0.1, 0.1, 0.1]
    assert prior_counts(corpus, target, reference, "corpus", 0.5).tolist() == [4.5, 1, 2.5]
