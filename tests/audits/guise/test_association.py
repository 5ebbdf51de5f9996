from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.estimators.association import (
    matched_log_ratio,
    pooled_log_ratio,
    scaling,
    size_class,
    stereotype_strength,
    top,
)

Estimator = Callable[..., np.ndarray]


def test_matched_log_ratio_is_mean_log10_ratio() -> None:
    # ratios 10 and 1: mean of log10 is 0.5
    found = matched_log_ratio(np.log([[0.1], [0.2]]), np.log([[0.01], [0.2]]))
    assert found == pytest.approx([0.5])


def test_pooled_log_ratio_is_log10_ratio_of_means() -> None:
    # (0.1 + 0.2)/2 = 0.15 against (0.01 + 0.2)/2 = 0.105
    found = pooled_log_ratio(np.log([[0.1], [0.2]]), np.log([[0.01], [0.2]]))
    assert found == pytest.approx([math.log10(0.15 / 0.105)])


def test_pooled_log_ratio_of_sets_of_unequal_size_uses_means() -> None:
    # means 0.1 and 0.2: the second set has one text only
    found = pooled_log_ratio(np.log([0.1, 0.1]), [math.log(0.2), np.nan])
    assert found == pytest.approx(math.log10(0.5))


def test_matched_log_ratio_natural_base_is_2_302585_times_the_default() -> None:
    log_p, reference = np.log([0.3, 0.1]), np.log([0.1, 0.2])
    ten = matched_log_ratio(log_p, reference)
    assert matched_log_ratio(log_p, reference, base=math.e) == pytest.approx(2.302585093 * ten)


def test_matched_log_ratio_half_missing_pair_is_left_out() -> None:
    # the second pair lacks its reference, so only the first (ratio 10) counts
    assert matched_log_ratio([math.log(0.1), 0.0], [math.log(0.01), np.nan]) == pytest.approx(1.0)


@pytest.mark.parametrize("estimator", [matched_log_ratio, pooled_log_ratio])
def test_log_ratio_without_any_text_is_missing(estimator: Estimator) -> None:
    assert np.isnan(estimator([np.nan], [0.1]))


@pytest.mark.parametrize("estimator", [matched_log_ratio, pooled_log_ratio])
def test_log_ratio_weights_equal_repeated_rows(estimator: Estimator) -> None:
    rng = np.random.default_rng(0)
    a, b = np.log(rng.random((4, 3))), np.log(rng.random((4, 3)))
    a[1, 2] = np.nan
    rows = [0, 0, 1, 3]
    weights = np.array([[2, 1, 0, 1], [1, 1, 1, 1]])
    weighted = estimator(a, b, weights=weights)
    assert weighted[0] == pytest.approx(estimator(a[rows], b[rows]))
    assert weighted[1] == pytest.approx(estimator(a, b))


def test_pooled_log_ratio_tiny_probabilities_do_not_underflow() -> None:
    assert pooled_log_ratio([-2000.0], [-2000.0 - math.log(10)]) == pytest.approx(1.0)


def test_log_ratio_calibration_cancels() -> None:
    a, b = np.log([0.1, 0.3]), np.log([0.2, 0.4])
    for estimator in (matched_log_ratio, pooled_log_ratio):
        assert estimator(a + 3.0, b + 3.0) == pytest.approx(estimator(a, b))


def test_stereotype_strength_is_difference_of_means() -> None:
    # mean(0.2, 0.4) - mean(0.1, -0.1) = 0.3; the missing score counts nowhere
    scores = [0.2, 0.4, 0.1, -0.1, np.nan]
    assert stereotype_strength(scores, [True, True, False, False, False]) == pytest.approx(0.3)
    assert np.isnan(stereotype_strength(scores, [False] * 5))


def test_top_breaks_ties_by_the_alphabet() -> None:
    assert top(pd.Series({"c": 1.0, "b": 2.0, "a": 1.0, "d": np.nan}), 3) == ["b", "a", "c"]


def test_size_class_of_published_versions() -> None:
    # GPT2 117M, 345M, 774M; RoBERTa large 355M counts as large; T5 2.8B; GPT3.5 175B
    sizes = [1.17e8, 3.45e8, 7.74e8, 3.55e8, 2.8e9, 1.75e11]
    assert [size_class(n) for n in sizes] == ["small", "medium", "large", "large", "large", "very large"]


def test_scaling_orders_classes_by_size_and_counts_cells() -> None:
    cells = pd.DataFrame(
        {"family": "f", "n_parameters": [7e8, 7e8, 1e8, 1e8], "score": [0.3, 0.5, 0.1, np.nan]}
    )  # mean 0.4, se = sd(0.3, 0.5) / sqrt 2 = 0.1
    table = scaling(cells)
    assert table["size"].tolist() == ["small", "large"]
    assert table["mean"].tolist() == pytest.approx([0.1, 0.4])
    assert table["standard_error"].iloc[1] == pytest.approx(0.1)
    assert table["n"].tolist() == [1, 2]
