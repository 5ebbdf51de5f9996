from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.estimators.agreement import (
    expected_agreement,
    human_top,
    mean_average_precision,
    published_random_agreement,
)

WORDS = ["a", "b", "c", "d", "e", "f"]


def test_agreement_human_order_itself_is_one() -> None:
    assert mean_average_precision([6, 5, 4, 3, 2, 1], WORDS, ["a", "b", "c"]) == 1.0


def test_agreement_worked_example() -> None:
    # model order b a f c d e; human a b c:
    # AP1: a at rank 2: (1/1)(1/2) = 1/2; AP2: b rank 1, a rank 2: (1 + 1)/2 = 1;
    # AP3: hits at 1, 2, 4: (1 + 1 + 3/4)/3 = 11/12; mean = (1/2 + 1 + 11/12)/3 = 29/36
    assert mean_average_precision([5, 6, 3, 2, 1, 4], WORDS, ["a", "b", "c"]) == pytest.approx(29 / 36)


def test_agreement_ties_rank_by_the_alphabet_whatever_the_order_of_columns() -> None:
    scores = np.zeros(6)
    assert mean_average_precision(scores, WORDS, ["a", "b"]) == 1.0
    assert mean_average_precision(scores, WORDS[::-1], ["a", "b"]) == 1.0


def test_agreement_missing_scores_rank_last_and_nothing_scored_is_missing() -> None:
    assert mean_average_precision([np.nan, 1, 0, 0, 0, 0], WORDS, ["b"]) == 1.0
    assert np.isnan(mean_average_precision([np.nan] * 6, WORDS, ["b"]))
    assert np.isnan(mean_average_precision([1, 2, 3, 4, 5, 6], WORDS, []))


def test_agreement_unknown_human_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="'z' is not among the attributes"):
        mean_average_precision([1, 2, 3, 4, 5, 6], WORDS, ["z"])


def test_human_top_keeps_alphabetical_order_on_ties_and_drops_zero() -> None:
    percentages = pd.Series({"religious": 20.0, "musical": 20.0, "loud": 35.6, "x": 0.0, "y": np.nan})
    assert human_top(percentages) == ["loud", "musical", "religious"]


def test_published_random_agreement_has_the_exact_mean() -> None:
    # standard error 0.106 / sqrt(20000) = 0.00075; four of them
    sample = published_random_agreement(37, np.random.default_rng(1), 20_000)
    assert sample.mean() == pytest.approx(expected_agreement(37), abs=0.003)
