from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.homogeneity.estimators.differentiation import (
    CategoryCounts,
    probability_of_differentiation,
    published_cluster_replicates,
    published_interval,
    published_row_replicates,
    published_weights,
)
from markedness.audits.homogeneity.estimators.group_differences import PairCounts


def test_probability_of_differentiation_of_known_shares() -> None:
    # Shares 1/2, 1/4, 1/4: 1 - (1/4 + 1/16 + 1/16) = 5/8. Four even categories: 1 - 4/16 = 3/4. One: 0.
    counts = [[2, 1, 1, 0], [3, 3, 3, 3], [7, 0, 0, 0], [0, 0, 0, 0]]
    found = probability_of_differentiation(counts)
    assert found[:3] == pytest.approx([0.625, 0.75, 0])
    assert np.isnan(found[3])


def test_published_cluster_replicates_equal_the_loop_over_drawn_clusters() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 6, size=(7, 9))
    weights = published_weights(7, 50, rng)
    slow = []
    for draw in weights:
        answers = np.concatenate([np.repeat(np.arange(9), counts[c]) for c in np.arange(7).repeat(draw)])
        shares = np.unique(answers, return_counts=True)[1] / len(answers)
        slow.append(1 - (shares**2).sum())
    assert published_cluster_replicates(counts, weights) == pytest.approx(np.array(slow), abs=1e-12)


def test_published_row_replicates_centre_on_the_expectation_of_a_drawn_sample() -> None:
    # E[sum p*^2] = sum p^2 + (1 - sum p^2) / N for N drawn answers, so E[P_d*] = P_d (1 - 1/N) = 0.75 * 0.975.
    drawn = published_row_replicates([10, 10, 10, 10], 4000, np.random.default_rng(2))
    assert drawn.mean() == pytest.approx(0.75 * (1 - 1 / 40), abs=4 * drawn.std() / np.sqrt(4000))
    assert np.isnan(published_row_replicates([0, 0], 3, np.random.default_rng(2))).all()


def two_cues() -> CategoryCounts:
    """Names a, b, c in cue one; a, b in cue two; in cue one c answers always the same."""
    rows = [
        ("one", "a", "x", 2), ("one", "a", "y", 2), ("one", "b", "x", 1), ("one", "b", "z", 3), ("one", "c", "x", 4),
        ("two", "a", "x", 4), ("two", "b", "y", 4),
    ]  # fmt: skip
    return CategoryCounts(*zip(*rows, strict=True))


def test_category_counts_replicates_report_each_cue_with_answers_of_the_group() -> None:
    counts = two_cues()
    members = np.isin(counts.clusters, ["a", "b"])
    found = {r.cue: r for r in counts.replicates(members, 300, np.random.default_rng(3))}
    # Cue one, a and b: x 3, y 2, z 3 of 8: 1 - 22/64. Cue two: x 4, y 4: 1/2.
    assert found["one"].sample == pytest.approx(1 - 22 / 64)
    assert found["two"].sample == pytest.approx(0.5)
    assert (found["one"].n, found["one"].n_clusters) == (8, 2)
    # Drawing a twice gives 1/2 in cue one and 0 in cue two; a and b together the sample; b twice 3/8 and 0.
    assert set(np.round(found["one"].drawn, 6)) == {0.5, round(1 - 22 / 64, 6), 0.375}
    # A name is drawn in both cues at once: wherever cue two has one name only, cue one has that name only.
    assert ((found["two"].drawn == 0) == np.isin(np.round(found["one"].drawn, 6), [0.5, 0.375])).all()


def test_category_counts_group_of_no_cue_is_left_out() -> None:
    counts = two_cues()
    assert [r.cue for r in counts.replicates(counts.clusters == "c", 10, np.random.default_rng(3))] == ["one"]


def two_groups() -> PairCounts:
    """One cue: group 0 has a (x 2) and b (x, y); group 1 has c (x 2) and d (y 2)."""
    rows = [
        ("one", "a", "x", 2),
        ("one", "b", "x", 1),
        ("one", "b", "y", 1),
        ("one", "c", "x", 2),
        ("one", "d", "y", 2),
    ]
    return PairCounts(pd.DataFrame(rows, columns=["cue", "cluster", "category", "count"]))


def test_pair_counts_difference_is_of_pairs_of_different_names_by_hand() -> None:
    whole, left = two_groups().differences(np.array([[0, 0, 1, 1]]), 2)
    # Group 0: of 2 x 2 pairs of a and b two differ, 1/2; group 1: all four, 1. Without a name no pair is left.
    assert whole[0, 0, 0] == pytest.approx(-0.5)
    assert np.isnan(left[0, 0, 0]).all()


def test_pair_counts_without_a_name_equals_counting_again() -> None:
    rng = np.random.default_rng(6)
    rows = [("one", f"n{n}", f"c{c}", k) for n in range(8) for c in range(5) if (k := int(rng.integers(0, 4)))]
    table = pd.DataFrame(rows, columns=["cue", "cluster", "category", "count"])
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    counts = PairCounts(table)
    _, left = counts.differences(codes[None], 2)
    for place, name in enumerate(counts.names):
        fewer = PairCounts(table[table["cluster"].ne(name)])
        by_hand, _ = fewer.differences(np.delete(codes, place)[None], 2)
        assert left[0, 0, 0, place] == pytest.approx(by_hand[0, 0, 0])


def test_pair_counts_does_not_depend_on_the_number_of_answers() -> None:
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(np.ones(6), size=20)
    truth = 1 - (np.square(shares.sum(axis=0)) - np.square(shares).sum(axis=0)).sum() / (20 * 19)
    for n in (2, 40):
        made = []
        for _ in range(300):
            counts = np.stack([rng.multinomial(n, share) for share in shares])
            name, category = np.nonzero(counts)
            table = pd.DataFrame(
                {"cue": "one", "cluster": name, "category": category, "count": counts[name, category]}
            ).sort_values("cluster")
            cue = PairCounts(table).cues[0]
            made.append(cue.without_each(np.ones((1, 20)))[0][0])
        assert np.mean(made) == pytest.approx(truth, abs=4 * np.std(made) / np.sqrt(300))


def test_published_weights_each_resample_draws_as_many_clusters_as_there_are() -> None:
    weights = published_weights(5, 400, np.random.default_rng(7))
    assert weights.shape == (400, 5)
    assert (weights.sum(axis=1) == 5).all()
    # A cluster's count is Binomial(5, 1/5): mean 1, variance 0.8; over 2000 (dependent) cells the mean is 1 exactly.
    assert weights.var() == pytest.approx(0.8, abs=0.1)


def test_published_weights_without_clusters_says_so() -> None:
    with pytest.raises(ValueError, match="nothing to draw from"):
        published_weights(0, 10, np.random.default_rng(7))


def test_published_interval_linear_quantiles_of_a_known_sequence() -> None:
    # 0..100: the 2.5 % quantile lies at position 0.025 * 100 = 2.5.
    assert published_interval(np.arange(101)) == pytest.approx((2.5, 97.5))


def test_published_interval_with_nan_leaves_it_out_and_all_nan_is_nan() -> None:
    replicates = np.column_stack([np.r_[np.arange(101.0), np.nan], np.full(102, np.nan)])
    low, high = published_interval(replicates)
    assert (low[0], high[0]) == pytest.approx((2.5, 97.5))
    assert np.isnan(low[1]) and np.isnan(high[1])
    assert np.isnan(published_interval([])).all()
