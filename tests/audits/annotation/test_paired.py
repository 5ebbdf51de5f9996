"""Paired gaps against scipy, worked examples and known rates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from markedness.audits.annotation.estimators.paired import (
    clustered_intervals,
    cohens_h,
    published_directional_consistency,
    published_paired_tests,
    sign_flip_sizes,
    welch_from_counts,
)
from markedness.stats.multiplicity import benjamini_hochberg


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
        got = result.loc[c, ["t", "p", "ci_low", "ci_high", "gap", "n_pairs"]].to_list()
        assert got == pytest.approx([expected.statistic, expected.pvalue, low, high, values.mean(), len(values)])
        up, down = (values > 0).sum(), (values < 0).sum()
        assert result.loc[c, "p_exact"] == pytest.approx(stats.binomtest(up, up + down).pvalue)


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
    # exact: 3 of 3 above, 2 * (1/2)^3 = 0.25; no pair differs, 1; 1 of 1, 1; none, NaN; 2 * (1/2)^7 = 1/64
    assert result["p_exact"].to_list() == pytest.approx([0.25, 1, 1, np.nan, 1 / 64], nan_ok=True)


def test_clustered_interval_worked_example() -> None:
    # deltas 1, 1 | 0, 0 | 0, 1 in three clusters: mean 1/2; sums of deviations 1, -1, 0; sum of squares 2
    # se^2 = 3/2 * 2 / 6^2 = 1/12
    result = clustered_intervals([1, 1, 0, 0, 0, 1], [0] * 6, [4, 4, 0, 0, 7, 7], 1)
    half = stats.t.ppf(0.975, 2) / np.sqrt(12)
    assert result.loc[0].to_list() == pytest.approx(
        [3, np.sqrt(1 / 12), 0.5 - half, 0.5 + half, 2 * stats.t.sf(0.5 * np.sqrt(12), 2)]
    )


def test_clustered_interval_with_one_pair_per_cluster_is_the_t_interval() -> None:
    rng = np.random.default_rng(5)
    delta, cell = rng.integers(-1, 2, 200), rng.integers(0, 3, 200)
    plain, robust = published_paired_tests(delta, cell, 3), clustered_intervals(delta, cell, np.arange(200), 3)
    for column in ("se", "ci_low", "ci_high", "p"):
        np.testing.assert_allclose(robust[column], plain[column])


def test_clustered_interval_without_two_known_clusters_is_missing() -> None:
    result = clustered_intervals([1, 0, 1, 1], [0, 0, 1, 1], [2, 2, -1, -1], 2)
    assert result["ci_low"].isna().all() and result["n_clusters"].to_list() == [1, 0]


def test_clustered_interval_covers_where_the_plain_one_does_not() -> None:
    # 20 vignettes of 15 pairs share an effect with sd 0.3: 500 studies, coverage 0.95 +- 4 * sqrt(.95*.05/500) = 0.039
    rng = np.random.default_rng(11)
    effect = rng.normal(0, 0.3, (500, 20)).repeat(15, axis=1)
    delta = (effect + rng.normal(0, 0.5, effect.shape)).ravel()
    cell, cluster = np.repeat(np.arange(500), 300), np.tile(np.repeat(np.arange(20), 15), 500)
    robust, plain = clustered_intervals(delta, cell, cluster, 500), published_paired_tests(delta, cell, 500)
    assert ((robust["ci_low"] <= 0) & (robust["ci_high"] >= 0)).mean() > 0.91
    assert ((plain["ci_low"] <= 0) & (plain["ci_high"] >= 0)).mean() < 0.8


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


def test_benjamini_hochberg_leaves_out_what_was_not_tested() -> None:
    # of two: 0.01 * 2 / 1, 0.04 * 2 / 2
    assert benjamini_hochberg([0.01, np.nan, 0.04]) == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
    assert np.isnan(benjamini_hochberg([np.nan])).all() and len(benjamini_hochberg([])) == 0


def test_sign_flips_flip_a_pair_as_one() -> None:
    # one pair judged on two tasks, up on both: |gap| is 1 whatever the sign; two pairs in one cell: 1 or 0
    size, null = sign_flip_sizes([1, 1], [0, 1], [7, 7], 2, 50, np.random.default_rng(1))
    assert size == 1 and set(null) == {1.0}
    size, null = sign_flip_sizes([1, 1, np.nan], [0, 0, 0], [1, 2, 3], 1, 400, np.random.default_rng(1))
    assert size == 1 and set(null) == {0.0, 1.0} and abs(null.mean() - 0.5) < 0.1  # 4 standard errors of 0.025
    size, null = sign_flip_sizes([np.nan], [0], [0], 1, 5, np.random.default_rng(1))
    assert np.isnan(size) and np.isnan(null).all()


def test_directional_consistency_counts_models_with_the_sign_of_the_mean() -> None:
    gaps = pd.DataFrame(
        {"model": list("abcd") * 2, "task": ["x"] * 4 + ["y"] * 4, "gap": [0.1, 0.2, 0.0, -0.1, -0.1, 0.1, np.nan, 0.0]}
    )
    result = published_directional_consistency(gaps, ["task"]).set_index("task")
    # x: mean 0.05; a and b are above, c has no sign: 2 of 4.  y: mean 0: no direction
    assert result.loc["x", ["n_models", "same_sign", "consistency"]].to_list() == [4, 2, 0.5]
    assert result.loc["y", "n_models"] == 3 and pd.isna(result.loc["y", "consistency"])
