"""Paired gaps against scipy, worked examples and known rates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number, row

from markedness.audits.annotation.estimators.paired import (
    cohens_h,
    published_corrected,
    published_directional_consistency,
    published_paired_tests,
    welch_from_counts,
)


def test_paired_tests_equal_scipy_cell_by_cell() -> None:
    rng = np.random.default_rng(3)
    cell = rng.integers(0, 5, 400)
    delta = rng.integers(-1, 2, 400).astype(float)
    delta[rng.random(400) < 0.1] = np.nan
    result = published_paired_tests(delta, cell, 5, confidence_level=0.9)
    for c in range(5):
        values = delta[(cell == c) & ~np.isnan(delta)]
        expected = stats.ttest_1samp(values, 0)
        low, high = expected.confidence_interval(0.9)
        got = row(result, c)[["t", "p", "ci_low", "ci_high", "gap", "n_pairs"]].to_list()
        assert got == pytest.approx([expected.statistic, expected.pvalue, low, high, values.mean(), len(values)])
        assert row(result, c)[["n_up", "n_down"]].to_list() == [(values > 0).sum(), (values < 0).sum()]


def test_paired_tests_constant_differences_keep_the_gap_and_have_no_t() -> None:
    # cell 0: three times +1; cell 1: three times 0; cell 2: one pair; cell 3: none; cell 4: constant 0.1 (rounding)
    delta = [1, 1, 1, 0, 0, 0, -1, *[0.1] * 7]
    result = published_paired_tests(delta, [0, 0, 0, 1, 1, 1, 2, *[4] * 7], 5)
    assert (
        result["gap"].to_list()[:3] == [1, 0, -1]
        and np.isnan(result["gap"][3])
        and result["gap"][4] == pytest.approx(0.1)
    )
    assert result[["t", "p", "ci_low", "ci_high"]].isna().all(axis=None)


def test_welch_from_counts_equals_scipy() -> None:
    a, b = np.repeat([1, 0], [13, 7]), np.repeat([1, 0], [9, 31])
    expected = stats.ttest_ind(a, b, equal_var=False)
    t, p = welch_from_counts([13, 5], [20, 5], [9, 7], [40, 7])
    assert (t[0], p[0]) == pytest.approx((expected.statistic, expected.pvalue))
    assert np.isnan(t[1]) and np.isnan(p[1])  # all yes on both sides: no spread


def test_cohens_h_worked_example() -> None:
    # asin sqrt(1) = pi/2, asin sqrt(1/2) = pi/4, asin 0 = 0
    assert cohens_h([1, 0.5, 0.2, np.nan], [0, 0, 0.2, 0.1]) == pytest.approx(
        [np.pi, np.pi / 2, 0, np.nan], nan_ok=True
    )


def test_published_correction_leaves_out_what_was_not_tested() -> None:
    # of two: 0.01 * 2 / 1, 0.04 * 2 / 2
    assert published_corrected([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
    assert np.isnan(published_corrected([np.nan])).all() and len(published_corrected([])) == 0


def test_directional_consistency_counts_models_with_the_sign_of_the_mean() -> None:
    gaps = pd.DataFrame(
        {"model": list("abcd") * 2, "task": ["x"] * 4 + ["y"] * 4, "gap": [0.1, 0.2, 0.0, -0.1, -0.1, 0.1, np.nan, 0.0]}
    )
    result = published_directional_consistency(gaps, ["task"]).set_index("task")
    # x: mean 0.05; a and b are above, c has no sign: 2 of 4.  y: mean 0: no direction
    assert row(result, "x")[["n_models", "same_sign", "consistency"]].to_list() == [4, 2, 0.5]
    assert number(result, "y", "n_models") == 3 and np.isnan(number(result, "y", "consistency"))
