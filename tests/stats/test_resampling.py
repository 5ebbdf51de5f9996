from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.stats.resampling import (
    cluster_bootstrap_mean,
    multinomial_weights,
    percentile_interval,
    permute_within,
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_multinomial_weights_each_resample_draws_as_many_clusters_as_there_are(rng):
    weights = multinomial_weights(5, 400, rng)
    assert weights.shape == (400, 5)
    assert (weights.sum(axis=1) == 5).all()
    # A cluster's count is Binomial(5, 1/5): mean 1, variance 0.8; over 2000 (dependent) cells the mean is 1 exactly.
    assert weights.var() == pytest.approx(0.8, abs=0.1)


def test_multinomial_weights_without_clusters_says_so(rng):
    with pytest.raises(ValueError, match="nothing to draw from"):
        multinomial_weights(0, 10, rng)


def test_percentile_interval_linear_quantiles_of_a_known_sequence():
    # 0..100: the 2.5 % quantile lies at position 0.025 * 100 = 2.5.
    assert percentile_interval(np.arange(101)) == pytest.approx((2.5, 97.5))


def test_percentile_interval_with_nan_leaves_it_out_and_all_nan_is_nan():
    replicates = np.column_stack([np.r_[np.arange(101.0), np.nan], np.full(102, np.nan)])
    low, high = percentile_interval(replicates)
    assert (low[0], high[0]) == pytest.approx((2.5, 97.5))
    assert np.isnan(low[1]) and np.isnan(high[1])
    assert np.isnan(percentile_interval([])).all()


def test_cluster_bootstrap_mean_two_clusters_hits_the_three_possible_means(rng):
    # Two clusters of sizes 1 and 3 with values 0 and 1: replicates are 0 (p 1/4), 3/4 (p 1/2), 1 (p 1/4).
    interval = cluster_bootstrap_mean([0, 1, 1, 1], ["a", "b", "b", "b"], 2000, rng)
    assert interval == (0.75, 0.0, 1.0, 4, 2)


def test_cluster_bootstrap_mean_of_one_cluster_has_no_interval(rng):
    interval = cluster_bootstrap_mean([1.0, 2.0, np.nan], ["a", "a", "b"], 100, rng)
    assert interval.estimate == 1.5
    assert np.isnan(interval.low) and np.isnan(interval.high)
    assert (interval.n, interval.n_clusters) == (2, 1)


def test_cluster_bootstrap_mean_of_nothing_is_nan(rng):
    interval = cluster_bootstrap_mean([np.nan], ["a"], 100, rng)
    assert np.isnan(interval.estimate) and interval.n == 0


def test_cluster_bootstrap_mean_is_wider_than_rows_when_clusters_differ(rng):
    # 20 clusters of 30 equal values: the standard error is sd / sqrt(20), not sd / sqrt(600).
    values = np.repeat(rng.normal(size=20), 30)
    interval = cluster_bootstrap_mean(values, np.repeat(np.arange(20), 30), 2000, rng)
    expected = 2 * 1.96 * values.std() / np.sqrt(20)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.15)


def test_permute_within_keeps_the_counts_of_every_block_and_its_input(rng):
    labels = np.array(list("aabbbcaaac"))
    blocks = pd.Series([1, 2, 1, 2, 1, 2, 1, 2, None, None])
    before = labels.copy()
    permuted = permute_within(labels, blocks, rng)
    assert (labels == before).all()
    for block in (blocks.eq(1), blocks.eq(2), blocks.isna()):
        assert sorted(permuted[block]) == sorted(labels[block])


def test_permute_within_reaches_every_order_equally_often(rng):
    draws = ["".join(permute_within(list("abc"), [0, 0, 0], rng)) for _ in range(1200)]
    # Six orders, 200 each; sd of a count is sqrt(1200 * 1/6 * 5/6) = 12.9, so 4 sd = 52.
    counts = pd.Series(draws).value_counts()
    assert len(counts) == 6
    assert counts.between(148, 252).all()
