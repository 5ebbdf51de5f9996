"""Differences of whole scores: pseudo-values, clusters, and the nominal rate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from markedness.stats.score_difference import bootstrap_difference, jackknife_difference


def test_jackknife_of_a_mean_is_the_t_interval_of_its_values() -> None:
    # Differences 1, 2, 3, 4 per cluster: mean 2.5; leaving out k gives (10 - k)/3. The pseudo-values are the values
    # themselves, sd = sqrt(5/3) = 1.29099, se = 0.645497, t(3) = 3.182446: 2.5 +- 2.054260.
    found = jackknife_difference(2.5, [(10 - k) / 3 for k in (1, 2, 3, 4)])
    assert found.standard_error == pytest.approx(0.645497, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((0.445740, 4.554260), abs=1e-5)


def test_bootstrap_interval_is_t_times_the_replicates_sd() -> None:
    # Replicates 0, 2 have sd sqrt(2); t(9) = 2.262157.
    found = bootstrap_difference(1.0, [0.0, 2.0, math.nan], 10)
    assert found.standard_error == pytest.approx(math.sqrt(2))
    assert found.high == pytest.approx(1 + 2.262157 * math.sqrt(2), abs=1e-5)


@pytest.mark.parametrize("without", [[], [1.0], [1.0, math.nan]])
def test_jackknife_with_fewer_than_two_clusters_has_no_interval(without: list[float]) -> None:
    found = jackknife_difference(1.0, without)
    assert found.estimate == 1.0
    assert math.isnan(found.low) and math.isnan(found.p)


def test_difference_without_spread_has_no_interval_unless_it_is_none() -> None:
    # A count that no left-out cluster changes: p = 0 would claim a certainty that a count of 2 does not have.
    assert jackknife_difference(0.0, [0.0, 0.0, 0.0])[1:] == (0.0, 0.0, 0.0, 1.0)
    found = jackknife_difference(2.0, [2.0, 2.0, 2.0])
    assert (found.estimate, found.standard_error) == (2.0, 0.0)
    assert math.isnan(found.low) and math.isnan(found.high) and math.isnan(found.p)


def test_jackknife_of_a_ratio_with_no_difference_rejects_at_the_nominal_rate() -> None:
    # Two sets of 8 clusters of the same ratio: 5 % of 600 tests are 30, sd 5.3; a plain normal interval gives 60.
    rng = np.random.default_rng(3)
    rejected = 0
    for _ in range(600):
        sums = rng.normal(10, 2, size=(2, 8))
        counts = rng.uniform(8, 12, size=8)
        total, n = sums.sum(axis=1), counts.sum()
        ratio = total / n
        left = (total[:, None] - sums) / (n - counts)
        rejected += jackknife_difference(ratio[0] - ratio[1], left[0] - left[1]).p < 0.05
    assert 14 <= rejected <= 46
