"""Shares in two groups of whole units: p and interval are of one test, and both hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from markedness.stats.inference import ShareTests, share_tests

Floats = NDArray[np.float64]


def outcome(
    has: Floats, totals: Floats, paired: bool, seed: int, simultaneous: bool = False, n_draws: int = 999
) -> ShareTests:
    """Units of the first group, then those of the second; sources in both, or each in one."""
    n = len(totals) // 2
    sources = np.tile(np.arange(n), 2) if paired else np.arange(2 * n)
    rng = np.random.default_rng(seed)
    return share_tests(
        has, totals, np.arange(2 * n) < n, sources, rng, simultaneous=simultaneous, n_draws=n_draws
    )  # fmt: skip


def drawn(rng: np.random.Generator, paired: bool, shares: Floats, spread: float, n: int = 12) -> tuple[Floats, Floats]:
    """Counts and totals of ``n`` units of each group; log odds of the sources vary, half of it alike in both groups."""
    totals = rng.integers(1, 20, size=2 * n).astype(float)
    own = rng.normal(size=(2 * n, shares.shape[1]))
    alike = rng.normal(size=(n, shares.shape[1]))
    of_sources = (own + np.tile(alike, (2, 1))) / np.sqrt(2) if paired else own
    odds = np.repeat(np.log(shares / (1 - shares)), n, axis=0) + spread * of_sources
    return rng.binomial(totals[:, None].astype(int), 1 / (1 + np.exp(-odds))).astype(float), totals


def truth(shares: Floats, spread: float) -> Floats:
    """Difference of the mean shares of the sources; the size of a source has nothing to do with its share."""
    normal = np.random.default_rng(0).normal(size=200_000)
    means = [[float(np.mean(1 / (1 + np.exp(-np.log(s / (1 - s)) - spread * normal)))) for s in row] for row in shares]
    return np.asarray(np.subtract(means[0], means[1]))


def test_share_tests_of_pairs_of_which_five_differ_reach_zero_exactly() -> None:
    # 5 of 12 pairs have it in the first group alone: all five signs agree in 2 of 2^5 exchanges, p = .0625, so that
    # the largest t is not beyond the quantile and the interval is 5/12 -+ 5/12.
    has = np.zeros((24, 1))
    has[:5] = 1
    found = outcome(has, np.ones(24), True, 0, n_draws=20_000)
    assert found.difference[0] == pytest.approx(5 / 12)
    assert found.p[0] == pytest.approx(0.0625, abs=0.006)
    assert found.low[0] <= 0 and found.low[0] == pytest.approx(0, abs=1e-8)
    assert found.high[0] == pytest.approx(10 / 12)


def test_share_tests_without_variation_or_with_few_sources_have_no_interval() -> None:
    alike = outcome(np.ones((24, 1)), np.ones(24), False, 0)
    assert alike.p[0] == 1 and np.isnan(alike.low[0]) and np.isnan(alike.high[0])
    # one source of 100 texts among twelve: (100 + 11)^2 / (100^2 + 11) = 1.2 effective ones
    has, totals = drawn(np.random.default_rng(1), False, np.full((2, 1), 0.5), 1.0)
    totals[0], has[0] = 100, 50
    large = np.where(np.arange(24) == 0, 100, 1.0)
    few = outcome(has, large, False, 0)
    assert np.isnan([few.p[0], few.low[0], few.together.p]).all()
    # in pairs, its two sides change places
    paired = outcome(has, large, True, 0)
    assert np.isfinite(paired.p[0]) and np.isnan(paired.low[0])


def test_share_tests_with_most_texts_of_one_author_accuse_no_topic() -> None:
    # One author wrote 200 of the 270 texts of a group and has topics of his own, as all authors have: the p of such
    # texts was .05 or less in 47 of 200 blind worlds.
    rng, accused = np.random.default_rng(45_000), 0
    texts = np.array([200] + [10] * 37)
    for seed in range(40):
        leanings = np.exp(rng.normal(size=(len(texts), 6)))
        counts = np.array(
            [rng.multinomial(n, one / one.sum()) for n, one in zip(texts, leanings, strict=True)], dtype=float
        )
        found = share_tests(
            counts, texts, np.arange(38) < 8, np.arange(38), np.random.default_rng(seed), simultaneous=True, n_draws=199
        )
        accused += bool(found.together.p <= 0.05 or (found.p <= 0.05).any())
    assert accused <= 5  # 5 or fewer of 40 in 98.6 % at a rate of 5 %


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("simultaneous", [True, False])
def test_share_tests_leave_out_zero_where_p_is_small_and_nowhere_else(paired: bool, simultaneous: bool) -> None:
    rng, small = np.random.default_rng(43_000), 0
    for seed in range(60):
        shares = np.array([[0.05, 0.3, 0.6], [0.05, 0.3, 0.6] if seed % 2 else [0.4, 0.05, 0.5]])
        found = outcome(*drawn(rng, paired, shares, 0.5), paired, seed, simultaneous, 399)
        there = np.isfinite(found.low)
        outside = (found.low > 0) | (found.high < 0)
        assert (outside[there] == (found.p[there] <= 0.05)).all()
        small += int(outside[there].sum())
    assert 10 < small < 150  # both kinds are there


def worlds(paired: bool, shares: Floats, n: int, seed: int) -> tuple[int, int, int]:
    """Of ``n`` worlds: how many p are .05 or less, how many intervals there are, and how many cover the truth."""
    rng, true = np.random.default_rng([44_000, seed, paired, int(1000 * shares[0, 0])]), truth(shares, 1.0)[0]
    made = [outcome(*drawn(rng, paired, shares, 1.0), paired, place) for place in range(n)]
    there = [one for one in made if np.isfinite(one.low[0])]
    covered = sum(bool(one.low[0] <= true <= one.high[0]) for one in there)
    return sum(bool(one.p[0] <= 0.05) for one in made), len(there), covered


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("first", "second"), [(0.2, 0.2), (0.05, 0.05), (0.4, 0.1), (0.15, 0.03)])
def test_share_tests_cover_the_truth_and_do_not_accuse_blind_sources(paired: bool, first: float, second: float) -> None:
    # As calibrate does: what is flagged in a few worlds is drawn once more, in 2,000 new ones, and that counts.
    for n, seed in ((300, 0), (2000, 1)):
        small, there, covered = worlds(paired, np.array([[first], [second]]), n, seed)
        false = stats.binomtest(small, n, 0.05, alternative="greater").pvalue if first == second else 1.0
        missed = stats.binomtest(covered, there, 0.93, alternative="less").pvalue
        if min(false, missed) > 0.01:
            return
    raise AssertionError(f"{small} of {n} p are .05 or less; {covered} of {there} intervals cover the truth")
