from __future__ import annotations

import numpy as np
import pytest

from markedness.audits.guise.estimators.decisions import Verdicts, margins, published_chi_square, two_by_two
from markedness.audits.guise.estimators.differences import decision_score


def test_margins_of_the_two_rules_can_disagree() -> None:
    # p: 0.02 (neutral 0.01) for the detrimental word, 0.30 (neutral 0.20) for the other:
    # ratio: 2 > 1.5, detrimental; difference: 0.01 < 0.10, not
    p, neutral = np.log([[0.30, 0.02]]), np.log([[0.20, 0.01]])
    assert margins(p, neutral, [False, True], "ratio") == pytest.approx([np.log(2 / 1.5)])
    assert margins(p, neutral, [False, True], "difference") == pytest.approx([-0.09])


def test_margins_tie_is_zero_and_missing_stays_missing() -> None:
    p = [[np.log(0.1), np.log(0.1)], [np.nan, 0.0]]
    found = margins(p, np.zeros((2, 2)), [True, False])
    assert found[0] == 0.0
    assert np.isnan(found[1])


def test_margins_without_a_detrimental_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="detrimental"):
        margins([[0.0]], [[0.0]], [False])


def test_published_chi_square_is_the_printed_form() -> None:
    # Supplementary Information, Table 3: 126 against 38: 88^2/164 = 47.2195
    assert published_chi_square(126, 38).statistic == pytest.approx(47.2195, abs=1e-4)
    assert np.isnan(published_chi_square(0, 0).statistic)


def test_two_by_two_counts_the_other_decisions_too() -> None:
    # 8 of 10 against 2 of 10: 20 (8*8 - 2*2)^2 / (10^4) = 7.2
    assert two_by_two(8, 10, 2, 10).statistic == pytest.approx(7.2)
    assert published_chi_square(8, 2).statistic == pytest.approx(3.6)
    assert np.isnan(two_by_two(10, 10, 10, 10).p)


def test_decisions_of_texts_that_are_not_matched_are_not_missing_for_want_of_a_counterpart() -> None:
    # three texts of the guise and two of its reference, each on a row of its own: 5 decisions, of which one failed
    nan = np.nan
    one = Verdicts(
        "unmatched", ["p"], np.array([[1.0], [nan], [-1.0], [nan], [nan]]),
        np.array([[nan], [nan], [nan], [1.0], [-1.0]]), "own", "AAE", "SAE",
        np.array(["a", "b", "c", "", ""], dtype=object), np.array(["", "", "", "d", "e"], dtype=object),
    )  # fmt: skip
    made = decision_score("decision.x", [one], np.random.default_rng(0), 1)
    assert (made.n, made.n_missing) == (4, 1)
