from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy

from markedness.audits.knowledge.estimators.topic_divergence import (
    permutations_within,
    relative_entropy,
    topic_divergence,
)


def test_relative_entropy_of_a_worked_example() -> None:
    # p = (1/2, 1/2), q = (1/4, 3/4): 1/2 ln 2 + 1/2 ln(2/3) = 1/2 ln(4/3) = 0.143841
    assert relative_entropy([1, 1], [1, 3]) == pytest.approx(0.5 * np.log(4 / 3))
    # 0 ln 0 = 0: p = (1, 0), q = (1/2, 1/2): ln 2
    assert relative_entropy([5, 0], [1, 1]) == pytest.approx(np.log(2))


def test_relative_entropy_agrees_with_scipy_along_the_last_axis() -> None:
    counts = np.random.default_rng(0).integers(1, 9, (4, 5))
    expected = [entropy(row, counts.sum(axis=0)) for row in counts]
    np.testing.assert_allclose(relative_entropy(counts, counts.sum(axis=0)), expected)


def test_relative_entropy_of_nothing_is_nan_and_of_the_impossible_infinite() -> None:
    assert np.isnan(relative_entropy([0, 0], [1, 1]))
    assert relative_entropy([1, 1], [1, 0]) == np.inf


def test_topic_divergence_mean_is_the_mutual_information() -> None:
    # a: topics 0 0 1 1, b: 1 1 1 1: p_a = (1/2, 1/2), p_b = (0, 1), q = (1/4, 3/4)
    # KL_a = 1/2 ln 2 + 1/2 ln(2/3) = 1/2 ln(4/3); KL_b = ln(4/3); mean = 3/4 ln(4/3)
    found = topic_divergence(["a"] * 4 + ["b"] * 4, [0, 0, 1, 1, 1, 1, 1, 1], [0] * 8, 50, np.random.default_rng(0))
    assert found.groups["kl"].tolist() == pytest.approx([0.5 * np.log(4 / 3), np.log(4 / 3)])
    assert found.mean == pytest.approx(0.75 * np.log(4 / 3))


def test_topic_divergence_of_a_planted_topic_lies_above_its_null() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b", "c"], 60)
    topics = rng.integers(0, 5, 180)
    topics[:40] = 9
    found = topic_divergence(groups, topics, np.tile(np.arange(6), 30), 300, rng)
    planted = found.groups.set_index("group").loc["a"]
    assert planted["p"] == pytest.approx(1 / 301)
    assert planted["kl"] > planted["null_high"] and planted["excess"] > 0.3
    assert found.p < 0.01


def test_topic_divergence_without_difference_has_uniform_p_values() -> None:
    rng = np.random.default_rng(1)
    groups, blocks = np.tile(["a", "b", "c", "d"], 20), np.repeat(np.arange(8), 10)
    p = [topic_divergence(groups, rng.integers(0, 6, 80), blocks, 99, rng).p for _ in range(200)]
    assert np.mean(np.array(p) <= 0.05) < 0.1  # expected 0.05, standard error 0.015
    assert 0.4 < np.mean(p) < 0.6


def test_topic_divergence_null_mean_shows_the_small_sample_bias() -> None:
    # q comes of the same rows: about (K - 1)(1 - n/N) / (2 n) = 4 * 0.5 / 100 = 0.02 nats for n = 50 of N = 100
    rng = np.random.default_rng(2)
    found = topic_divergence(np.tile(["a", "b"], 50), np.arange(100) % 5, np.zeros(100), 2000, rng)
    assert found.groups["null_mean"].tolist() == pytest.approx([0.02, 0.02], rel=0.15)


def test_topic_divergence_of_a_group_without_rows_is_nan() -> None:
    found = topic_divergence(["a", "a"], [0, 1], [0, 0], 10, np.random.default_rng(0), order=["a", "b"])
    row = found.groups.set_index("group").loc["b"]
    assert row["n"] == 0 and np.isnan(row["kl"]) and np.isnan(row["p"])
    assert found.mean == 0


def test_permutations_within_never_leave_their_block() -> None:
    blocks = np.array(["x", "y", "x", "z", "y", "x"])
    permuted = permutations_within(blocks, 200, np.random.default_rng(0))
    assert (blocks[permuted] == blocks).all()
    assert (np.sort(permuted, axis=1) == np.arange(6)).all()
    # row 0 goes to each of the three places of "x" about equally: 200/3, standard deviation 6.7
    assert all(40 < (permuted[:, 0] == place).sum() < 93 for place in (0, 2, 5))
