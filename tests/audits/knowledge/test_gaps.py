from __future__ import annotations

import numpy as np
import pytest

from markedness.audits.knowledge.estimators.gaps import group_means, two_sided_p


def test_group_means_of_a_worked_example() -> None:
    # a: 1, 3 -> 2; b: 0 (the other is missing); c: nothing
    found = group_means([1, 3, 0, np.nan], list("aabb"), [0, 1, 0, 1], list("abc"), 50, 20, np.random.default_rng(0))
    assert found.estimate[:2].tolist() == [2, 0] and np.isnan(found.estimate[2])
    assert found.n.tolist() == [2, 1, 0]
    assert set(np.unique(found.resampled[:, 0])) == {1.0, 2.0, 3.0}  # cluster 0 twice, each once, cluster 1 twice


def test_group_means_permuted_keep_the_sum_of_each_cluster() -> None:
    values = np.array([1.0, 0.0, 5.0, 4.0])
    found = group_means(values, list("abab"), [0, 0, 1, 1], ["a", "b"], 5, 100, np.random.default_rng(0))
    assert found.permuted.sum(axis=1) == pytest.approx(np.full(100, 5.0))  # (1 + 0 + 5 + 4) / 2 per group
    # a gets 0 or 1 of the first cluster and 4 or 5 of the second: mean 2, 2.5 or 3
    assert set(np.round(found.permuted[:, 0], 6)) == {2.0, 2.5, 3.0}


def test_group_means_resampled_cover_the_truth() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        shift = rng.normal(0, 1, 30)  # clusters shift both groups alike, so the gap is paired
        values = np.concatenate([shift + rng.normal(0.5, 1, 30), shift + rng.normal(0, 1, 30)])
        found = group_means(values, ["a"] * 30 + ["b"] * 30, list(range(30)) * 2, ["a", "b"], 200, 0, rng)
        low, high = np.quantile(found.resampled[:, 0] - found.resampled[:, 1], [0.025, 0.975])
        covered += low <= 0.5 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_group_means_of_one_cluster_have_no_interval() -> None:
    found = group_means([1.0, 2.0], ["a", "b"], [0, 0], ["a", "b"], 10, 10, np.random.default_rng(0))
    assert np.isnan(found.resampled).all()


def test_two_sided_p_counts_the_estimate_itself() -> None:
    assert two_sided_p(3.0, np.array([0.0, -1.0, 1.0, 0.0])) == pytest.approx(1 / 5)
    assert two_sided_p(0.0, np.array([0.0, -1.0, 1.0, 0.0])) == 1.0
    assert np.isnan(two_sided_p(float("nan"), np.array([1.0])))
