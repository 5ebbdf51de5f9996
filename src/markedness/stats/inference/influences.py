"""Sampling error from the influences of clusters, for many estimates at once, from pairs and from half-samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from markedness.stats.inference.anova_type import noncentrality
from markedness.stats.inference.arrays import Codes, Estimator, Floats, factorized
from markedness.stats.inference.permutation import Null
from markedness.stats.inference.spreads import MIN_CLUSTERS, Spread, effective

HALF_SAMPLES = 400
"""Half-samples of each factor in `half_sample_spread`: of so many, 6 to 10 lie beyond a bound of 95 %."""


def pair_mean(pairs: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Mean over all pairs of different clusters (a U-statistic), and the same without each cluster.

    Parameters
    ----------
    pairs
        Shape (draws, clusters, clusters), symmetric: the value of each pair of clusters, such as how much farther
        apart two groups are than each is from itself. The diagonal is not read; NaN is left out.

    Returns
    -------
    estimate, standard_error, without
        Shapes (draws,), (draws,), (draws, clusters): the mean, its delete-one-cluster jackknife standard error, and the
        means without each cluster. NaN where no pair is left.
    """
    values = np.asarray(pairs, dtype=float)
    n_clusters = values.shape[1]
    there = np.isfinite(values) & ~np.eye(n_clusters, dtype=bool)
    filled, counts = np.where(there, values, 0.0), there.astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = filled.sum(axis=(1, 2)) / counts.sum(axis=(1, 2))
        without = (filled.sum(axis=(1, 2))[:, None] - 2 * filled.sum(axis=2)) / (
            counts.sum(axis=(1, 2))[:, None] - 2 * counts.sum(axis=2)
        )
    from_mean = without - without.mean(axis=1, keepdims=True)
    variance = (n_clusters - 1) / n_clusters * np.square(from_mean).sum(axis=1)
    return estimate, np.sqrt(variance), without


def pair_null(pairs: ArrayLike) -> Null:
    """Test of `pair_mean` of products by exchanged signs of clusters, without drawing them.

    To exchange the sides of a cluster changes the sign of its products with others. The mean square of the summed
    differences is taken as chi-square with the mean and variance that all such exchanges give it, which is the
    ANOVA-type statistic of `markedness.stats.inference.anova_type`: for few clusters, whose exchanges are too few for a
    small p.

    Parameters
    ----------
    pairs
        Shape (blocks, clusters, clusters), each symmetric, the products of a cluster with itself on the diagonal; NaN
        is left out. Blocks are averaged, and exchanged independently of each other.

    Returns
    -------
    Null
        p one-sided; 1 where nothing differs.
    """
    from scipy import stats

    values = np.asarray(pairs, dtype=float)
    trace, total, squares = _weighted_sums(values)
    if trace <= 1e-12 or squares <= 1e-24:
        return Null(p=1.0)
    df = max(1.0, trace**2 / squares)
    low, high = (stats.chi2.ppf([0.025, 0.975], df) / df - 1) * trace
    p = float(stats.chi2.sf((1 + total / trace) * df, df))
    return Null(p, 0.0, float(low), float(high), sd=math.sqrt(2 * squares))


def pair_detectable(pairs: ArrayLike, alpha: float) -> float:
    """The smallest `pair_mean` that exchanged signs of clusters find at ``alpha`` with `POWER`; NaN where none.

    Of products of what differs around its mean: where clusters all differ alike, exchange varies by what is to be
    found, so that the error of the test grows with it. ``pairs``: see `pair_null`.
    """
    from scipy import stats

    values = np.asarray(pairs, dtype=float)
    known = np.isfinite(values)
    n = np.maximum(known.any(axis=2).sum(axis=1), 2)[:, None, None]
    by_row, by_column, whole = (
        np.where(known, values, 0.0).sum(axis=axes, keepdims=True) / np.maximum(known.sum(axis=axes, keepdims=True), 1)
        for axes in (2, 1, (1, 2))
    )
    centred = (values - by_row - by_column + whole) * n / (n - 1)
    trace, _, squares = _weighted_sums(np.where(known, centred, np.nan))
    if trace <= 1e-12 or squares <= 1e-24:
        return math.nan
    own, others, _ = _weighted_sums(np.where(known, 1.0, np.nan))
    df = max(1.0, trace**2 / squares)
    shift = noncentrality(float(stats.chi2.isf(alpha, df)) / df, df, math.inf, own / others / df)
    return shift / df * trace


def _weighted_sums(values: Floats) -> tuple[float, float, float]:
    """Sum of the products of clusters with themselves and with others, and of the squares of these, per pair."""
    there, own = np.isfinite(values), np.eye(values.shape[1], dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        weighted = np.where(there, values, 0.0) / np.maximum(there.sum(axis=0), 1)
    weighted /= max(1, int((there.any(axis=0) & ~own).sum()))
    products = weighted[:, ~own]
    return float(weighted[:, own].sum()), float(products.sum()), float(np.square(products).sum())


def influence_errors(influences: ArrayLike, strata: ArrayLike) -> tuple[Floats, Floats]:
    """Standard errors of many estimates from the influence of each cluster on each.

    Parameters
    ----------
    influences
        Shape (clusters, k): contribution of a cluster to each estimate, to first order the estimate minus its value
        without the cluster.
    strata
        Shape (clusters,): clusters vary around the mean of their stratum; a stratum of one cluster adds nothing.

    Returns
    -------
    standard_error, df
        Shape (k,): root of the sum over strata of n / (n - 1) times the squared distances; Satterthwaite degrees of
        freedom. NaN where no stratum has two clusters.
    """
    values = np.asarray(influences, dtype=float)
    codes, labels = factorized(strata)
    n = np.bincount(codes, minlength=len(labels)).astype(float)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(labels)))
    if not (n > 1).any():
        return np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    means = np.add.reduceat(values[order], starts) / n[:, None]
    squares = np.add.reduceat(np.square(values[order] - means[codes[order]]), starts)
    parts = squares * np.where(n > 1, n / np.maximum(n - 1, 1), 0.0)[:, None]
    variance, below = parts.sum(axis=0), (np.square(parts) / np.maximum(n - 1, 1)[:, None]).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(variance), np.where(below > 0, np.square(variance) / below, np.nan)


def influence_spread(factor: str, clusters: Sequence[str], influences: ArrayLike, strata: ArrayLike) -> Spread:
    """A `Spread` over one factor from the influence of each cluster, shape (clusters,); see `influence_errors`."""
    values = np.asarray(influences, dtype=float)
    error, df = influence_errors(values[:, None], strata)
    if math.isnan(error[0]):
        return Spread(fixed=(factor,), fewest={factor: float(len(values))})
    codes, labels = factorized(strata)
    n = np.bincount(codes, minlength=len(labels)).astype(float)
    means = np.bincount(codes, values, len(labels)) / n
    centred = (values - means[codes]) * np.sqrt(n / np.maximum(n - 1, 1))[codes]
    made = {factor: dict(zip(clusters, centred.tolist(), strict=True))}
    return Spread(float(error[0]), float(df[0]), {factor: len(values)}, (), made)


def t_intervals(
    estimates: ArrayLike, errors: Floats, df: Floats, confidence_level: float = 0.95
) -> tuple[Floats, Floats]:
    """The t intervals of many estimates, shape (k,); NaN without a standard error above rounding."""
    from scipy import stats

    margin = stats.t.ppf((1 + confidence_level) / 2, df) * np.where(errors > 1e-12, errors, np.nan)
    return np.asarray(estimates - margin), np.asarray(estimates + margin)


@dataclass(frozen=True)
class HalfSampled(Spread):
    """The sampling error of an estimate that jumps, with the estimates of its half-samples.

    Half-samples lie around the estimate as it lies around the truth. Where a score saturates, as the favourability of
    the top five does once one side leads, most of them are near the estimate wherever the truth is: their mean square
    is small and t is large. How many lie beyond a value tells more: their share, read as that of a normal variable in
    whatever scale the score saturates from, says how many standard errors z the value is away. So p is the larger of
    t's and of 2 P(T > z), and the interval holds what either of them does not reject.
    """

    halves: Mapping[str, tuple[Floats, float]] = field(default_factory=dict)
    """Sampled factor -> estimates of its half-samples, and their variance over that of the estimate."""

    def interval(self, estimate: float, confidence_level: float = 0.95) -> tuple[float, float]:
        """The t interval, as far as needed wider, to the half-samples that their shares do not reject."""
        from scipy import stats

        low, high = super().interval(estimate, confidence_level)
        if not self.halves or math.isnan(low):
            return low, high
        values = np.unique(np.concatenate([found for found, _ in self.halves.values()]))
        kept = values[self._distance(values, estimate) <= stats.t.ppf((1 + confidence_level) / 2, self.df)]
        return min([low, *kept.tolist()]), max([high, *kept.tolist()])

    def p(self, estimate: float, null: float = 0.0) -> float:
        """Two-sided p-value against ``null``: the larger of t's and that of the shares of half-samples beyond it."""
        from scipy import stats

        by_t = super().p(estimate, null)
        if not self.halves or math.isnan(by_t):
            return by_t
        distance = float(self._distance(np.array([null]), estimate)[0])
        return max(by_t, float(2 * stats.t.sf(distance, self.df)))

    def _distance(self, values: Floats, estimate: float) -> Floats:
        """Standard errors between the estimate and each value, by the shares of half-samples at or beyond it.

        The variances of several factors add up: 1 / z^2 is the sum of theirs. Infinite where no half-sample is beyond.
        """
        from scipy import stats

        variance = np.zeros(len(values))
        for found, larger in self.halves.values():
            ordered = np.sort(found)
            below = np.searchsorted(ordered, values, side="right") / len(ordered)
            above = 1 - np.searchsorted(ordered, values, side="left") / len(ordered)
            z = np.maximum(stats.norm.isf(np.where(values < estimate, below, above)), 0.0)
            with np.errstate(divide="ignore"):
                variance += 1 / (larger * np.square(z))
        with np.errstate(divide="ignore"):
            return np.asarray(1 / np.sqrt(variance))


def half_sample_spread(
    estimate: float,
    estimators: Mapping[str, tuple[Sequence[str], ArrayLike, Estimator]],
    min_clusters: float = MIN_CLUSTERS,
) -> Spread:
    """Delete-half jackknife, for estimates that jump, such as ranks and the favourability of the top five.

    Leaving out one cluster does not move a rank, or moves it too far: the delete-one jackknife is inconsistent there
    (Shao & Wu 1989, Annals of Statistics 17(3):1176-1197).

    Parameters
    ----------
    estimate
        Of all data.
    estimators
        Sampled factor -> names of its clusters, their sizes (answers), and the estimate from weights of them, 1 where a
        cluster is in the half-sample and 0 where not. Sizes of shape (groups, clusters) count clusters in each group
        that is compared, and half of each are drawn.
    min_clusters
        Effective clusters that a factor needs, in each group.

    Returns
    -------
    Spread
        Mean squared distance of the half-samples' estimates from ``estimate``, times kept / left out; the variances of
        several factors are added, which is at least the multiway variance. p and interval are at least those of the
        shares of half-samples beyond a value; see `HalfSampled`. Half-samples are the same for the same clusters, so
        that two models can be compared; influences are the main effects of the clusters, scaled to the variance.
    """
    of_groups = {name: np.atleast_2d(np.asarray(one[1], dtype=float)) for name, one in estimators.items()}
    fewest = {name: min(map(effective, sizes)) for name, sizes in of_groups.items()}
    sampled = {name: one for name, one in estimators.items() if fewest[name] >= min_clusters - 1e-9}
    fixed = tuple(name for name in estimators if name not in sampled)
    variances: list[tuple[float, float]] = []
    influences: dict[str, dict[str, float]] = {}
    halves: dict[str, tuple[Floats, float]] = {}
    for name, (clusters, _, estimator) in sampled.items():
        weights = _half_samples(clusters, of_groups[name].argmax(axis=0))
        n, kept_of_all = weights.shape[1], float(weights[0].sum())
        found = estimator(weights)
        there = np.isfinite(found)
        if there.sum() < HALF_SAMPLES // 2:
            return Spread(fixed=fixed, fewest=fewest)
        larger = (n - kept_of_all) / kept_of_all
        halves[name] = (found[there], larger)
        variance = float(np.square(found[there] - estimate).mean()) / larger
        kept = weights[there] - weights[there].mean(axis=0)
        main = kept.T @ (found[there] - found[there].mean())
        scale = math.sqrt(variance / float(np.square(main).sum())) if np.any(np.abs(main) > 1e-12) else 0.0
        influences[name] = dict(zip(map(str, clusters), (scale * main).tolist(), strict=True))
        variances.append((variance, fewest[name] - 1))
    total = sum(variance for variance, _ in variances)
    below = sum(variance**2 / df for variance, df in variances)
    counts = {name: len(one[0]) for name, one in sampled.items()}
    if not below:
        return Spread(fixed=fixed, fewest=fewest)
    return HalfSampled(math.sqrt(total), total**2 / below, counts, fixed, influences, fewest, halves=halves)


def _half_samples(clusters: Sequence[str], group: Codes) -> Floats:
    """Half of the clusters of each group drawn without replacement, 1 where drawn: shape (half-samples, clusters)."""
    order, n = np.argsort(np.asarray(clusters, dtype=object), kind="stable"), len(clusters)
    places, drawn = np.random.default_rng(n).random((HALF_SAMPLES, n)), np.zeros((HALF_SAMPLES, n))
    for own in (np.flatnonzero(group[order] == value) for value in np.unique(group)):
        drawn[:, own] = np.argsort(places[:, own], axis=1) < len(own) // 2
    weights = np.empty((HALF_SAMPLES, n))
    weights[:, order] = drawn
    return weights
