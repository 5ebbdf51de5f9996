from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.differentiation import (
    CategoryCounts,
    cluster_replicates,
    probability_of_differentiation,
    row_replicates,
)
from markedness.audits.homogeneity.estimators.effect_size import EffectSize, cohens_d
from markedness.stats.resampling import multinomial_weights


def test_probability_of_differentiation_of_known_shares() -> None:
    # Shares 1/2, 1/4, 1/4: 1 - (1/4 + 1/16 + 1/16) = 5/8. Four even categories: 1 - 4/16 = 3/4. One: 0.
    counts = [[2, 1, 1, 0], [3, 3, 3, 3], [7, 0, 0, 0], [0, 0, 0, 0]]
    found = probability_of_differentiation(counts)
    assert found[:3] == pytest.approx([0.625, 0.75, 0])
    assert np.isnan(found[3])


def test_cluster_replicates_equal_the_loop_over_drawn_clusters() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 6, size=(7, 9))
    weights = multinomial_weights(7, 50, rng)
    slow = []
    for draw in weights:
        answers = np.concatenate([np.repeat(np.arange(9), counts[c]) for c in np.arange(7).repeat(draw)])
        shares = np.unique(answers, return_counts=True)[1] / len(answers)
        slow.append(1 - (shares**2).sum())
    assert cluster_replicates(counts, weights) == pytest.approx(np.array(slow), abs=1e-12)


def test_row_replicates_centre_on_the_expectation_of_a_drawn_sample() -> None:
    # E[sum p*^2] = sum p^2 + (1 - sum p^2) / N for N drawn answers, so E[P_d*] = P_d (1 - 1/N) = 0.75 * 0.975.
    drawn = row_replicates([10, 10, 10, 10], 4000, np.random.default_rng(2))
    assert drawn.mean() == pytest.approx(0.75 * (1 - 1 / 40), abs=4 * drawn.std() / np.sqrt(4000))
    assert np.isnan(row_replicates([0, 0], 3, np.random.default_rng(2))).all()


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


def test_permuted_differences_swap_only_among_names_of_the_same_cues() -> None:
    counts = two_cues()
    labels = np.where(counts.clusters == "a", "u", "m")
    drawn = counts.permuted_differences(labels, ["s"] * 3, "u", ["m"], 200, np.random.default_rng(4))["m"]
    # c answers in cue one alone, so it keeps its label; a and b swap: two outcomes.
    # a is u: cue one 1/2 - P_d(b, c: x 5, z 3) = 1/2 - (1 - 34/64), cue two 0 - 0; mean 1/64.
    # b is u: cue one 3/8 - P_d(a, c: x 6, y 2) = 3/8 - (1 - 40/64) = 0; mean 0.
    assert set(np.round(drawn, 6)) == {round(1 / 64, 6), 0.0}


def study(
    first: NDArray[np.float64], second: NDArray[np.float64], rng: np.random.Generator, concentration: float = 40.0
) -> tuple[CategoryCounts, NDArray[np.str_]]:
    """One cue: each of 30 names of two groups answers 20 times by shares of its own around its group's (Dirichlet)."""
    means = np.repeat([first, second], 30, axis=0)
    counts = np.stack([rng.multinomial(20, rng.dirichlet(concentration * mean)) for mean in means])
    cluster, category = np.nonzero(counts)
    made = CategoryCounts(["cue"] * len(cluster), cluster, category, counts[cluster, category])
    return made, np.repeat(["u", "m"], 30)


def interval(counts: CategoryCounts, labels: NDArray[np.str_], rng: np.random.Generator) -> EffectSize:
    first, second = (next(counts.replicates(labels == v, 200, rng)).drawn for v in "um")
    return cohens_d(first, second)


@pytest.mark.slow
def test_replicates_known_difference_lies_within_its_interval_at_the_nominal_rate() -> None:
    # Group shares 1/8 each, and 1/4 each: P_d = 7/8 and 3/4, a difference of 1/8. Intervals hold it in about 95 %
    # of 100 simulations: mean 95, sd 2.2; a percentile interval of 30 clusters is some 2 points short: 93 - 4 * 2.6.
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        made = interval(
            *study(np.full(8, 1 / 8), np.r_[np.full(4, 1 / 4), np.full(4, 1e-6)], rng, concentration=200), rng
        )
        covered += made.difference_ci_low < 1 / 8 < made.difference_ci_high
    assert covered >= 82


@pytest.mark.slow
def test_replicates_equal_variety_covers_zero_and_permutations_keep_their_level() -> None:
    # Equal shares, names that differ: 300 intervals of the difference. A percentile interval of 30 clusters is short
    # by about 2 points (variance 29/30, normal for t quantile): coverage in [0.93, 0.95], so from
    # 279 - 4 * 4.4 = 261 to 285 + 4 * 3.8 = 300; that none misses has a chance of 0.95^300 = 2e-7.
    # The permutation p-value is exact: P(p <= 0.05) = 2/40 of 300: mean 15, sd 3.8; at most 15 + 4 sd = 30.
    mean = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    covered = small = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        counts, labels = study(mean, mean, rng)
        made = interval(counts, labels, rng)
        covered += made.difference_ci_low < 0 < made.difference_ci_high
        first, second = (next(counts.replicates(labels == v, 2, rng)).sample for v in "um")
        null = counts.permuted_differences(labels, np.zeros(60), "u", ["m"], 39, rng)["m"]
        small += (1 + (np.abs(null) >= abs(first - second)).sum()) / 40 <= 0.05
    assert 261 <= covered < 300
    assert small <= 30
