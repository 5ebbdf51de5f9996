"""The one inference engine: intervals, exchange tests, corrections and smallest effects that can be found.

An audit reduces its answers to *units* (a name, a text with its copies, a pair of judgments), says how its estimate
follows from them, which factors were sampled and which labels could be exchanged if the claim were false; everything
with an error rate is computed here. What a paper resamples or corrects itself stays in functions named
``published_*``. ``markedness calibrate`` shows by simulation that the error rates hold.

Sources: Efron & Stein 1981, Annals of Statistics 9(3):586-596 (jackknife variance); Cameron, Gelbach & Miller 2011,
Journal of Business & Economic Statistics 29(2):238-249 (crossed clusters); Satterthwaite 1946, Biometrics Bulletin
2(6):110-114 (degrees of freedom); Besag & Clifford 1991, Biometrika 78(2):301-304 (sequential permutation p-values);
Westfall & Young 1993, Resampling-based multiple testing (max-T); Chung & Romano 2013, Annals of Statistics
41(2):484-507 (studentised permutation tests).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.results import NAN, NOTHING, About, Score, named_contrasts
from markedness.stats.contrasts import Contrast, testable

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Estimator = Callable[[Floats], Floats]
"""Weights of the units, shape (replicates, units) -> estimates, shape (replicates,)."""
LeaveOut = Callable[[Codes, int], Floats]
"""Cluster of each unit, shape (units,), and number of clusters -> the estimate without each cluster, (clusters,)."""
Statistic = Callable[[Codes], Floats]
"""Labels of the units, shape (draws, units) -> the statistic, shape (draws,) or (draws, k)."""

MIN_CLUSTERS = 6
"""Effective clusters that a factor needs in each group; with fewer it counts as fixed."""
POWER = 0.8
ALPHA = 0.05
CROSSED = "crossed"
"""In `Spread.influences`, the (negative) part of the variance that belongs to intersections of factors."""
_BATCH = 4_000_000
"""Numbers in one array of replicates."""


# ---- intervals


@dataclass(frozen=True)
class Spread:
    """The sampling error of an estimate."""

    standard_error: float = NAN
    """NaN without a factor of `MIN_CLUSTERS` effective clusters."""
    df: float = NAN
    """Satterthwaite degrees of freedom."""
    clusters: Mapping[str, int] = field(default_factory=dict)
    """Sampled factor -> number of its clusters."""
    fixed: tuple[str, ...] = ()
    """Factors with too few clusters: the result holds for these clusters alone."""
    influences: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Sampled factor -> cluster -> its contribution to the estimate; squares sum to the factor's variance."""
    fewest: Mapping[str, float] = field(default_factory=dict)
    """Factor -> effective clusters of the group that has the fewest."""

    def interval(self, estimate: float, confidence_level: float = 0.95) -> tuple[float, float]:
        """The t interval; NaN without a standard error or when its width would be zero."""
        if not self.known or math.isnan(estimate):
            return NAN, NAN
        from scipy import stats

        margin = float(stats.t.ppf((1 + confidence_level) / 2, self.df)) * self.standard_error
        return estimate - margin, estimate + margin

    def p(self, estimate: float, null: float = 0.0) -> float:
        """Two-sided p-value of the t test against ``null``; NaN without a standard error."""
        if not self.known or math.isnan(estimate):
            return NAN
        from scipy import stats

        return float(2 * stats.t.sf(abs(estimate - null) / self.standard_error, self.df))

    def detectable(self, alpha: float = ALPHA, power: float = POWER) -> float:
        """Smallest true effect that a two-sided t test at ``alpha`` finds with probability ``power``."""
        return detectable(self.standard_error, self.df, alpha, power) if self.known else NAN

    def at_least(self, standard_error: float, df: float) -> Spread:
        """With a standard error of at least this: rare answers that one group lacks by luck leave too small a one.

        ``df`` are the degrees of freedom of the floor, that of independent answers, say. Influences grow in proportion;
        nothing changes where the standard error is not known. The larger of the two with its own df is no more liberal
        than either: where the floor is the true error it is found in 3 %, where it is a third of it in 5 %.
        """
        if not (math.isfinite(self.standard_error) and standard_error > self.standard_error):
            return self
        factor = standard_error / self.standard_error if self.known else 0.0
        grown = {
            name: {cluster: value * factor ** (2 if name == CROSSED else 1) for cluster, value in of_factor.items()}
            for name, of_factor in self.influences.items()
        }
        return replace(self, standard_error=standard_error, df=df, influences=grown)

    @property
    def known(self) -> bool:
        """Whether there is a standard error above rounding."""
        return math.isfinite(self.standard_error) and self.standard_error > 1e-12 and self.df > 0


NO_SPREAD = Spread()
"""Nothing is known of the sampling error."""


def leave_out(estimator: Estimator) -> LeaveOut:
    """Leave-one-cluster-out estimates of an estimator that takes weights of units."""

    def without(codes: Codes, n_clusters: int) -> Floats:
        step = max(1, _BATCH // max(1, len(codes)))
        parts = []
        for start in range(0, n_clusters, step):
            clusters = np.arange(start, min(start + step, n_clusters))
            parts.append(estimator((codes != clusters[:, None]).astype(np.float64)))
        return np.concatenate(parts) if parts else np.empty(0)

    return without


def mean_leave_out(values: ArrayLike, weights: ArrayLike | None = None) -> LeaveOut:
    """Leave-one-cluster-out means of values, shape (units,), in time linear in the units; NaN values are left out."""
    numbers = np.asarray(values, dtype=float)
    weight = np.ones(len(numbers)) if weights is None else np.asarray(weights, dtype=float)
    weight = np.where(np.isnan(numbers), 0.0, weight)
    total = np.nan_to_num(numbers) * weight

    def without(codes: Codes, n_clusters: int) -> Floats:
        sums, counts = (np.bincount(codes, part, n_clusters) for part in (total, weight))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((total.sum() - sums) / (weight.sum() - counts))

    return without


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


def effective(sizes: ArrayLike) -> float:
    """Effective number of clusters, (sum s)^2 / sum s^2: their number when all have one size; 0 without any."""
    values = np.asarray(sizes, dtype=float)
    return float(values.sum() ** 2 / np.square(values).sum()) if values.any() else 0.0


def spread(
    without: LeaveOut,
    factors: Mapping[str, ArrayLike],
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    min_clusters: float = MIN_CLUSTERS,
) -> Spread:
    """Delete-one-cluster jackknife of an estimate, over one factor or several crossed ones.

    Parameters
    ----------
    without
        The estimate without each cluster; see `leave_out` and `mean_leave_out`.
    factors
        Sampled factor -> cluster of each unit, shape (units,).
    groups
        Shape (units,): the group of each unit, where clusters are counted per group; by default one group. Shape
        (axes, units): clusters are counted in the groups of each axis.
    strata
        Shape (units,): what the design fixes (prompt, values of other axes): clusters that lie in one stratum and one
        group vary around the mean of those. By default one stratum.
    weights
        Shape (units,): answers of each unit, by which the size of a cluster is counted; by default 1.
    min_clusters
        Effective clusters that a factor needs in each group.

    Returns
    -------
    Spread
        With crossed factors, the largest of the one-way variances and the multiway variance (inclusion and exclusion
        over the intersections of factors). A cluster whose removal leaves nothing to estimate is left out.

    Notes
    -----
    Clusters that lie in one group only (names) are strata of the jackknife by group, so that groups of unequal size
    weigh as in Welch's test.
    """
    coded = {name: _codes(values) for name, values in factors.items()}
    n_units = len(next(iter(coded.values()))[0]) if coded else 0
    labelings = np.zeros((1, n_units)) if groups is None else np.atleast_2d(np.asarray(groups, dtype=object))
    of_axes = [_codes(labels)[0] for labels in labelings]
    size = np.ones(n_units) if weights is None else np.asarray(weights, dtype=float)
    fewest = {
        name: min((_fewest(codes, group, size) for group in of_axes), default=0.0) for name, (codes, _) in coded.items()
    }
    enough = {name: n >= min_clusters - 1e-9 for name, n in fewest.items()}
    layers = of_axes if strata is None else [*of_axes, _codes(strata)[0]]
    cell = layers[0] if len(layers) == 1 else _codes(list(zip(*(layer.tolist() for layer in layers), strict=True)))[0]
    group = of_axes[0]
    fixed = tuple(name for name in coded if not enough[name])
    sampled = {name: value for name, value in coded.items() if enough[name]}
    if not sampled:
        return Spread(fixed=fixed, fewest=fewest)
    one_way: dict[str, tuple[float, float]] = {}
    influences: dict[str, dict[str, float]] = {}
    for name, (codes, labels) in sampled.items():
        variance, df, influence = _jackknife(without, codes, len(labels), group, cell)
        one_way[name] = (variance, df)
        influences[name] = dict(zip(map(str, labels), influence.tolist(), strict=True))
    name, (variance, df) = max(one_way.items(), key=lambda item: item[1][0])
    if len(sampled) > 1:
        shared = 0.0
        for n_crossed in range(2, len(sampled) + 1):
            for crossed in itertools.combinations(sampled, n_crossed):
                codes, n = sampled[crossed[0]][0], 0
                for other in crossed[1:]:
                    codes, n = _crossing(codes, *sampled[other])
                # A crossing with as many clusters as one of its factors is that factor.
                same = [one_way[name][0] for name in crossed if len(sampled[name][1]) == n]
                variance_shared = same[0] if same else _jackknife(without, codes, n, group, cell)[0]
                shared += (-1) ** (n_crossed + 1) * variance_shared
        influences[CROSSED] = {CROSSED: shared}
        multiway = shared + sum(v for v, _ in one_way.values())
        if multiway > variance * (1 + 1e-9):  # equal where factors are one partition, but for rounding
            below = sum(v**2 / d for v, d in one_way.values() if d > 0)
            variance, df = multiway, min(multiway**2 / below, max(d for _, d in one_way.values()))
    return Spread(
        math.sqrt(variance),
        df,
        {name: len(labels) for name, (_, labels) in sampled.items()},
        fixed,
        influences,
        fewest,
    )


def _fewest(codes: Codes, group: Codes, size: Floats) -> float:
    """Effective clusters of the group that has the fewest."""
    inside = (group == value for value in np.unique(group))
    return min((effective(np.bincount(codes[own], size[own])) for own in inside), default=0.0)


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
    codes, labels = _codes(strata)
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
    codes, labels = _codes(strata)
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


HALF_SAMPLES = 100
"""Half-samples of each factor in `half_sample_spread`."""


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
        cluster is in the half-sample and 0 where not.
    min_clusters
        Effective clusters that a factor needs.

    Returns
    -------
    Spread
        Mean squared distance of the half-samples' estimates from ``estimate``, times kept / left out; the variances of
        several factors are added, which is at least the multiway variance. Half-samples are the same for the same
        clusters, so that two models can be compared; influences are the main effects of the clusters, scaled to the
        variance.
    """
    fewest = {name: effective(one[1]) for name, one in estimators.items()}
    sampled = {name: one for name, one in estimators.items() if fewest[name] >= min_clusters - 1e-9}
    fixed = tuple(name for name in estimators if name not in sampled)
    variances: list[tuple[float, float]] = []
    influences: dict[str, dict[str, float]] = {}
    for name, (clusters, sizes, estimator) in sampled.items():
        order = np.argsort(np.asarray(clusters, dtype=object), kind="stable")
        n = len(order)
        drawn = np.argsort(np.random.default_rng(n).random((HALF_SAMPLES, n)), axis=1) < n // 2
        weights = np.empty((HALF_SAMPLES, n))
        weights[:, order] = drawn
        found = estimator(weights)
        there = np.isfinite(found)
        if there.sum() < HALF_SAMPLES // 2:
            return Spread(fixed=fixed, fewest=fewest)
        squares = np.square(found[there] - estimate)
        variance = float(squares.mean()) * (n // 2) / (n - n // 2)
        kept = weights[there] - weights[there].mean(axis=0)
        main = kept.T @ (found[there] - found[there].mean())
        scale = math.sqrt(variance / float(np.square(main).sum())) if np.any(np.abs(main) > 1e-12) else 0.0
        influences[name] = dict(zip(map(str, clusters), (scale * main).tolist(), strict=True))
        variances.append((variance, effective(sizes) - 1))
    total = sum(variance for variance, _ in variances)
    below = sum(variance**2 / df for variance, df in variances)
    counts = {name: len(one[0]) for name, one in sampled.items()}
    if not below:
        return Spread(fixed=fixed, fewest=fewest)
    return Spread(math.sqrt(total), total**2 / below, counts, fixed, influences, fewest)


def _codes(values: ArrayLike | Sequence[tuple[int, ...]]) -> tuple[Codes, Sequence[object]]:
    if isinstance(values, list) and values and isinstance(values[0], tuple):
        codes, index = pd.MultiIndex.from_tuples(values).factorize()
        return codes.astype(np.intp), list(index)
    codes, labels = pd.factorize(np.asarray(values), use_na_sentinel=False)
    return codes.astype(np.intp), list(labels)


def _crossing(codes: Codes, others: Codes, labels: Sequence[object]) -> tuple[Codes, int]:
    """Codes of the intersections of two factors, and their number."""
    crossed, found = pd.factorize(codes.astype(np.int64) * len(labels) + others)
    return crossed.astype(np.intp), len(found)


def _jackknife(
    without: LeaveOut, codes: Codes, n_clusters: int, group: Codes, cell: Codes
) -> tuple[float, float, Floats]:
    """Variance, degrees of freedom, influence of each cluster; strata are the sets of cells that clusters are in.

    To leave out one of the N clusters of a group moves its mean by 1 / (N - 1) of the cluster's distance; the factor
    makes the sum of squares unbiased for a mean over all N, of which n lie in the stratum.
    """
    values = without(codes, n_clusters)
    inside = np.zeros((n_clusters, int(cell.max(initial=0)) + 1), dtype=bool)
    inside[codes, cell] = True
    strata = np.unique(inside, axis=0, return_inverse=True)[1].reshape(-1)
    # A stratum of one cluster has no spread of its own: such strata are taken together.
    alone = np.bincount(strata)[strata] < 2
    strata[alone] = -1 if alone.sum() > 1 else np.bincount(strata).argmax()
    sizes = np.bincount(codes, minlength=n_clusters)
    of_group = np.array([len(np.unique(codes[group == g])) for g in range(int(group.max(initial=0)) + 1)])
    largest = np.zeros(n_clusters, dtype=np.intp)
    np.maximum.at(largest, codes, of_group[group])
    influence, parts = np.zeros(n_clusters), []
    for stratum in np.unique(strata):
        own = np.flatnonzero((strata == stratum) & np.isfinite(values))
        if (n := len(own)) < 2:
            continue
        total = int(largest[own].max())  # of clusters taken together the same in any order of the rows
        factor = math.sqrt(n / (n - 1)) * (total - 1) / total
        influence[own] = (values[own].mean() - values[own]) * factor
        parts.append((float(np.square(influence[own]).sum()), effective(sizes[own]) - 1))
    variance = sum(part for part, _ in parts)
    below = sum(part**2 / max(df, 1e-9) for part, df in parts)
    return variance, variance**2 / below if below else NAN, influence


# ---- exchange tests


@dataclass(frozen=True)
class Exchange:
    """Which labels could be exchanged if the claim were false."""

    labels: Codes
    """Shape (units,): the group of each unit, from 0."""
    blocks: Codes
    """Shape (units,): labels move only among the units of a block."""

    @classmethod
    def of(cls, labels: ArrayLike, *blocks: ArrayLike) -> Exchange:
        """From labels of any type, exchanged within the crossing of ``blocks``; labels are sorted."""
        codes = pd.factorize(np.asarray(labels), sort=True)[0].astype(np.intp)
        if not blocks:
            return cls(codes, np.zeros(len(codes), dtype=np.intp))
        crossed = list(zip(*(np.asarray(block).tolist() for block in blocks), strict=True))
        return cls(codes, _codes(crossed)[0] if crossed else np.zeros(0, dtype=np.intp))

    def draw(self, n: int, rng: np.random.Generator) -> Codes:
        """Exchanged labels, shape (n, units)."""
        order = np.argsort(self.blocks, kind="stable")
        keys = rng.random((n, len(order))) + self.blocks[order]
        drawn = np.empty((n, len(order)), dtype=np.intp)
        drawn[:, order] = self.labels[order][np.argsort(keys, axis=1)]
        return drawn

    @property
    def arrangements(self) -> float:
        """Number of different arrangements of the labels; infinite beyond 10^15."""
        log = 0.0
        for block in np.unique(self.blocks):
            counts = np.bincount(self.labels[self.blocks == block])
            log += math.lgamma(counts.sum() + 1) - sum(math.lgamma(c + 1) for c in counts)
        return math.inf if log > 34.5 else round(math.exp(log))

    @property
    def smallest_p(self) -> float:
        """Smallest p-value that any data could attain."""
        return 1 / self.arrangements


@dataclass(frozen=True)
class Null:
    """A statistic where the claim is false."""

    p: float = NAN
    mean: float = NAN
    low: float = NAN
    high: float = NAN
    n: int = 0
    """Draws made."""
    smallest_p: float = NAN
    """Smallest p-value that could have come out of all arrangements."""
    sd: float = NAN
    smallest_of_draws: float = 0.0
    """Smallest p-value that so many draws can give."""


def draws_needed(family: int = 1, alpha: float = ALPHA) -> int:
    """Draws that let the smallest corrected p-value of a family be estimated: 20 x family / alpha."""
    return math.ceil(20 * max(1, family) / alpha)


def exchange_test(
    observed: float,
    draw: Callable[[int], Floats],
    n_draws: int,
    two_sided: bool = True,
    smallest_p: float = 0.0,
    reported: Callable[[Floats], Floats] | None = None,
) -> Null:
    """Permutation p-value of an observed statistic, drawn sequentially.

    Parameters
    ----------
    observed
        The statistic of the data; studentised where groups differ in spread or size.
    draw
        Number of draws -> statistics under exchanged labels, shape (draws,); a two-column array (draws, 2) gives the
        statistic first and second what `Null` reports of (the estimate, say, where the test is of its t).
    n_draws
        At most so many; see `draws_needed`.
    two_sided
        Compare absolute values; else large values speak against the null.
    smallest_p
        1 / number of arrangements, see `Exchange.smallest_p`.

    Returns
    -------
    Null
        p = (1 + extreme) / (1 + n); once 50 draws are at least as extreme, drawing stops and p is 50 / draws so far
        (Besag & Clifford). NaN where the statistic is NaN, no draw has a value, or nothing can be exchanged.
    """
    if math.isnan(observed) or n_draws < 1 or smallest_p >= 1:
        return Null(smallest_p=smallest_p)
    size = abs(observed) if two_sided else observed
    enough, batches, extremes, drawn = 50, [], 0, 0
    p = NAN
    while drawn < n_draws:
        made = np.asarray(draw(min(n_draws - drawn, max(200, drawn))), dtype=float)
        made = made[:, None] if made.ndim == 1 else made
        made = made[np.isfinite(made[:, 0])]
        if not len(made):
            break
        batches.append(made[:, -1])
        values = np.abs(made[:, 0]) if two_sided else made[:, 0]
        hits = np.flatnonzero(values >= size - 1e-10 * max(1.0, abs(size)))
        if extremes + len(hits) >= enough:
            p = enough / (drawn + int(hits[enough - extremes - 1]) + 1)
            break
        extremes, drawn = extremes + len(hits), drawn + len(made)
        p = (1 + extremes) / (1 + drawn)
    if not batches:
        return Null(smallest_p=smallest_p)
    values = np.concatenate(batches)
    low, high = np.quantile(values, [0.025, 0.975])
    sd = float(values.std(ddof=1)) if len(values) > 1 else NAN
    of_draws = 1 / (1 + n_draws)
    return Null(min(1.0, p), float(values.mean()), float(low), float(high), len(values), smallest_p, sd, of_draws)


class Draws:
    """Several statistics of the same exchanges, drawn once and read by several tests.

    Parameters
    ----------
    make
        Number of draws -> statistics under exchanged labels, shape (draws, k).
    """

    def __init__(self, make: Callable[[int], Floats]) -> None:
        self._make = make
        self._made: list[Floats] = []
        self._n = 0

    def reader(self, statistic: Callable[[Floats], Floats]) -> Callable[[int], Floats]:
        """For `exchange_test`: the next draws of one statistic, computed from all k; starts at the first draw."""
        place = 0

        def draw(n: int) -> Floats:
            nonlocal place
            place += n
            return statistic(self.first(place)[place - n :])

        return draw

    def first(self, n: int) -> Floats:
        """The first ``n`` draws, shape (n, k)."""
        if self._n < n:
            self._made.append(self._make(n - self._n))
            self._n = n
        if len(self._made) > 1:
            self._made = [np.concatenate(self._made)]
        return self._made[0][:n]


def null_detectable(null: Null, family: int = 1, two_sided: bool = False, power: float = POWER) -> float:
    """Smallest effect that an exchange test finds with probability ``power``, from the spread of its null.

    In the unit of the null; a normal approximation that takes the statistic to vary as it does under exchange. NaN
    where nothing can be found: no spread, or a smallest p above the corrected level.
    """
    from scipy import stats

    alpha = ALPHA / max(1, family)
    if not null.sd > 0 or null.smallest_p > alpha:
        return NAN
    return float((stats.norm.isf(alpha / 2 if two_sided else alpha) + stats.norm.ppf(power)) * null.sd)


def pooled_p(observed: ArrayLike, draws: ArrayLike) -> Floats:
    """p-value of each of many statistics against the draws of all, each over its own permutation standard deviation.

    Shapes as in `max_t`. Not corrected: for `benjamini_hochberg`. It holds on average over the statistics, whose
    scaled draws are taken to have one distribution.
    """
    values, null = np.asarray(observed, dtype=float), np.asarray(draws, dtype=float)
    sd = np.sqrt(np.square(null).mean(axis=0))
    usable = np.isfinite(values) & np.isfinite(sd) & (sd > 1e-12)
    p = np.full(values.shape, np.nan)
    if usable.any():
        pooled = np.sort((np.abs(null[:, usable]) / sd[usable]).ravel())
        below = np.searchsorted(pooled, np.abs(values[usable]) / sd[usable] - 1e-10, side="left")
        p[usable] = (1 + len(pooled) - below) / (1 + len(pooled))
    return p


def max_t(observed: ArrayLike, draws: ArrayLike) -> Floats:
    """p-values of many statistics at once, each over its own permutation standard deviation.

    Parameters
    ----------
    observed
        Shape (k,).
    draws
        The same under exchanged labels, shape (n, k).

    Returns
    -------
    float array, shape (k,)
        (1 + #{max over j of abs(draw_j) / sd_j >= abs(observed_k) / sd_k}) / (1 + n): corrected over all k. NaN where
        the observed value is NaN or its draws do not vary.
    """
    values, null = np.asarray(observed, dtype=float), np.asarray(draws, dtype=float)
    sd = np.sqrt(np.square(null).mean(axis=0))
    usable = np.isfinite(values) & np.isfinite(sd) & (sd > 1e-12)
    p = np.full(values.shape, np.nan)
    if not usable.any():
        return p
    largest = np.sort(np.nanmax(np.abs(null[:, usable]) / sd[usable], axis=1))
    scaled = np.abs(values[usable]) / sd[usable]
    p[usable] = (1 + len(largest) - np.searchsorted(largest, scaled - 1e-10, side="left")) / (1 + len(largest))
    return p


# ---- corrections


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment over one family; NaN stays NaN and does not count."""
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    ordered = np.argsort(p, kind="stable")[: np.isfinite(p).sum()]  # NaN is last
    adjusted[ordered] = np.minimum(np.maximum.accumulate(p[ordered] * np.arange(len(ordered), 0, -1)), 1.0)
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Benjamini-Hochberg over all cells of a family; a cell that could not be tested (NaN) counts as p = 1."""
    from scipy import stats

    p = np.asarray(p_values, dtype=float)
    return np.asarray(stats.false_discovery_control(np.where(np.isnan(p), 1.0, p), method="bh")) if p.size else p


def adjusted_p(p_values: ArrayLike) -> Floats:
    """`benjamini_hochberg`, but NaN where nothing was tested."""
    return np.where(np.isnan(np.asarray(p_values, dtype=float)), np.nan, benjamini_hochberg(p_values))


def adjusted(scores: Iterable[Score], keys: Sequence[str]) -> list[Score]:
    """Scores with ``p_adjusted`` of the headline, ``keys``, by Holm; the other Scores keep theirs."""
    made = list(scores)
    family = [place for place, score in enumerate(made) if score.key in keys]
    for place, p in zip(family, holm([made[place].p for place in family]), strict=True):
        made[place] = replace(made[place], p_adjusted=float(p))
    return made


# ---- power


def detectable(standard_error: float, df: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest true effect that a two-sided t test finds with probability ``power``, from the noncentral t.

    In the unit of ``standard_error``; NaN where it is not positive or ``df`` is.
    """
    return _smallest_shift(df, alpha, power) * standard_error if standard_error > 0 and df > 0 else NAN


@lru_cache(maxsize=1000)
def _smallest_shift(df: float, alpha: float, power: float) -> float:
    """`detectable` in standard errors."""
    from scipy import optimize, stats

    bound = float(stats.t.ppf(1 - alpha / 2, df))

    def excess(shift: float) -> float:
        # The opposite tail adds less than alpha / 2 and nothing at the powers of interest.
        return float(stats.nct.sf(bound, df, shift)) - power

    high = bound + 3.0
    while excess(high) < 0:
        high *= 1.5
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-4))


def redetected(value: float, df: float, family: int, over: int, power: float = POWER) -> float:
    """``detectable`` of a Score, over ``over`` Scores in place of ``family``, at ``power``: by quantiles of its t."""
    if not (value > 0 and family and over):
        return value
    df = df if df > 0 else 1e6
    return value * _smallest_shift(df, ALPHA / over, power) / _smallest_shift(df, ALPHA / family, POWER)


# ---- Scores


def claim(
    key: str,
    estimate: float,
    spread: Spread = NO_SPREAD,
    null: Null | None = None,
    *,
    family: int = 1,
    confidence_level: float = 0.95,
    method: str,
    missing_column: str = "",
    smallest_effect: float | None = None,
    **about: Unpack[About],
) -> Score:
    """A Score: its interval from ``spread``, its p from ``null``, or where there is none from the t of ``spread``.

    Parameters
    ----------
    family
        Headline Scores of the audit, over which ``detectable`` is corrected.
    method
        What was resampled and what exchanged; what `spread` took as fixed and why there is no p is added.
    missing_column
        A cluster column that the data lack: then there is no p and no interval, and the method names the column.
    smallest_effect
        The Score's ``detectable``, where p is not the t of ``spread``; see `null_detectable`.
    about
        Further fields of `markedness.results.Score`.
    """
    if missing_column:
        lacking = f"the data have no column '{missing_column}' that says which answers belong together"
        return Score(key, estimate, method=f"no p: {lacking}", lacking=lacking, family=max(1, family), **about)
    low, high = spread.interval(estimate, confidence_level)
    sentences, lacking, caveat = [method], "", ""
    p = spread.p(estimate) if null is None else null.p
    if spread.fixed:
        too_few = f"{', '.join(spread.fixed)}: fewer than {MIN_CLUSTERS} in a group"
        sentences.append(f"holds for these clusters alone ({too_few})")
        if math.isnan(p):
            there = " and ".join(f"{spread.fewest.get(name, 0):.3g} of '{name}'" for name in spread.fixed)
            lacking = f"it takes {MIN_CLUSTERS} clusters in each group, the smallest has {there}"
        elif few := " and ".join(f"'{name.replace('_', ' ')}'" for name in spread.fixed if name in spread.fewest):
            caveat = f"Fewer than {MIN_CLUSTERS} of {few} in a group: it holds for these alone."
    if null is not None and null.smallest_p >= 1:
        lacking = "no block has units of the group and of what it is compared with, so that no labels can be exchanged"
        sentences.append(f"not tested: {lacking}")
    elif null is not None and null.smallest_p > ALPHA / max(1, family):
        sentences.append(f"cannot be found at this size: the smallest p that could come out is {null.smallest_p:.2g}")
        lacking = f"at this size the smallest p that could come out is {null.smallest_p:.2g}"
    if not lacking and math.isnan(estimate):
        lacking = NOTHING
    elif not lacking and math.isnan(p):
        lacking = "nothing could come out otherwise"
    smallest_effect = spread.detectable(ALPHA / max(1, family)) if smallest_effect is None else smallest_effect
    of = Null() if null is None else null
    return Score(
        key, estimate, low, high, of.mean, of.low, of.high, p, standard_error=spread.standard_error, df=spread.df,
        family=max(1, family), smallest_p=max(of.smallest_p, of.smallest_of_draws), lacking=lacking, caveat=caveat,
        detectable=smallest_effect, clusters=dict(spread.clusters), method="; ".join(sentences),
        influences=spread.influences, **about,
    )  # fmt: skip


def group_difference_score(
    key: str,
    hits: ArrayLike,
    totals: ArrayLike,
    labels: ArrayLike,
    marked: Sequence[object],
    unmarked: object,
    rng: np.random.Generator,
    *,
    cluster: str,
    clusters: ArrayLike | None = None,
    blocks: Sequence[ArrayLike] = (),
    family: int = 1,
    method: str = "",
    **about: Unpack[About],
) -> Score:
    """`contrast_score` of one axis."""
    contrast = Contrast(labels, marked, unmarked, blocks)
    return contrast_score(
        key, hits, totals, [contrast], rng, cluster=cluster, clusters=clusters, family=family, method=method, **about
    )


def contrast_score(
    key: str,
    hits: ArrayLike,
    totals: ArrayLike,
    contrasts: Sequence[Contrast],
    rng: np.random.Generator,
    *,
    cluster: str,
    clusters: ArrayLike | None = None,
    family: int = 1,
    method: str = "",
    **about: Unpack[About],
) -> Score:
    """Mean of the marked groups' ratios minus that of their unmarked group, labels exchanged among whole units.

    A ratio is the sum of ``hits`` over the sum of ``totals``: a share of missing answers, a mean regard.

    Parameters
    ----------
    hits, totals
        Shape (units,): numerator and denominator of each unit; units of total 0 are left out.
    contrasts
        One for each axis; the difference is averaged over the marked groups of all axes that have units, and of these
        over the groups with a block that has units of the unmarked group too, if any has: the others are not tested.
    cluster
        Name of the sampled factor: what a unit is, singular.
    clusters
        Shape (units,): identity of each unit, the same in another model's data; by default its position.

    Returns
    -------
    Score
        Studentised: the difference over its jackknife standard error, under each exchange. NaN where a group has no
        units; no p where fewer than two units of a group have answers.
    """
    top, below = np.asarray(hits, dtype=float), np.asarray(totals, dtype=float)
    there = (below > 0) & np.isfinite(top)
    tested, left = testable(contrasts, there)
    method = method or f"labels exchanged among whole {cluster}s, studentised; interval by leaving out one {cluster}"
    method += f"; {left}" if left else ""
    parts = [part for contrast in tested if (part := _Ratios.of(contrast, top, below, there)) is not None]
    if not parts:
        return claim(key, NAN, method="a group has no answers", **about)
    if "group" not in about:
        about.setdefault("over", named_contrasts((str(g), str(one.unmarked)) for one in tested for g in one.marked))
    n_marked = sum(part.n_groups - 1 for part in parts)
    shares = [(part.n_groups - 1) / n_marked for part in parts]

    def both(codes: Sequence[Codes]) -> tuple[Floats, Floats]:
        made = [part.difference(drawn) for part, drawn in zip(parts, codes, strict=True)]
        estimate = sum((w * e for w, (e, _) in zip(shares, made, strict=True)), np.zeros(1))
        return estimate, np.sqrt(sum((w**2 * v for w, (_, v) in zip(shares, made, strict=True)), np.zeros(1)))

    def draw(n: int) -> Floats:
        drawn = [part.exchange.draw(n, rng) for part in parts]
        estimate, error = both(drawn)
        return np.column_stack([studentised(estimate, error), estimate])

    def estimates(weights: Floats) -> Floats:
        made = (w * part.weighted(weights) for w, part in zip(shares, parts, strict=True))
        return np.asarray(sum(made, np.zeros(1)))

    estimate, error = both([part.exchange.labels[None, :] for part in parts])
    used = np.any([part.used for part in parts], axis=0)
    identity = np.arange(len(top)) if clusters is None else np.asarray(clusters)
    of_axes = [np.where(part.used, part.code, -1) for part in parts]
    found = spread(
        lambda codes, n: leave_out(lambda weights: estimates(_all_units(weights, used)))(codes, n),
        {cluster: identity[used]}, [labels[used] for labels in of_axes], weights=below[used],
    )  # fmt: skip
    # Where every unit has the same ratio nothing could come out otherwise.
    varies = bool(np.ptp(top[used] / below[used]) > 1e-12)
    smallest = math.prod(part.exchange.smallest_p for part in parts)
    null = exchange_test(float(studentised(estimate, error)[0]), draw, draws_needed(family), smallest_p=smallest)
    about.setdefault("n", int(below[used].sum()))
    shown = null if varies else Null(p=1.0)
    made = claim(key, float(estimate[0]), found, shown, family=family, method=method, **about)
    return made.warned(f"{left[0].upper()}{left[1:]}.") if left else made


def studentised(estimate: Floats, error: Floats) -> Floats:
    """Estimate over its standard error; +-10^9 where the error is 0 and the estimate is not; NaN for NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(error > 1e-12, estimate / error, np.sign(np.where(np.abs(estimate) > 1e-12, estimate, 0)) * 1e9)
    return np.where(np.isnan(estimate), np.nan, np.clip(t, -1e9, 1e9))


def _all_units(weights: Floats, used: NDArray[np.bool_]) -> Floats:
    whole = np.zeros((len(weights), len(used)))
    whole[:, used] = weights
    return whole


@dataclass(frozen=True)
class _Ratios:
    """Ratios of the groups of one axis, the unmarked first."""

    top: Floats
    below: Floats
    used: NDArray[np.bool_]
    code: Codes
    """Shape (all units,): 0 for the unmarked group; meaningless where not used."""
    n_groups: int
    exchange: Exchange
    """Of the used units."""

    @classmethod
    def of(cls, contrast: Contrast, top: Floats, below: Floats, there: NDArray[np.bool_]) -> _Ratios | None:
        """None where the unmarked group or every marked one has no answers."""
        names = np.asarray(contrast.labels, dtype=object)
        places = [group for group in (contrast.unmarked, *contrast.marked) if (there & (names == group)).any()]
        if len(places) < 2 or places[0] != contrast.unmarked:
            return None
        code = np.full(len(names), -1, dtype=np.intp)
        for number, group in enumerate(places):
            code[names == group] = number
        used = there & (code >= 0)
        exchange = Exchange.of(code[used], *(np.asarray(block)[used] for block in contrast.blocks))
        return cls(top, below, used, code, len(places), exchange)

    def difference(self, drawn: Codes) -> tuple[Floats, Floats]:
        """Mean of the marked ratios minus the unmarked one under each labelling, and its linearised variance."""
        top, below = self.top[self.used], self.below[self.used]
        estimate, variance = np.zeros(len(drawn)), np.zeros(len(drawn))
        for group in range(self.n_groups):
            inside = (drawn == group).astype(float)
            n, total = inside.sum(axis=1), inside @ below
            ratio = (inside @ top) / total
            weight = -1.0 if group == 0 else 1 / (self.n_groups - 1)
            # sum of (top - ratio * below)^2, without a matrix of residuals
            squares = inside @ top**2 - 2 * ratio * (inside @ (top * below)) + ratio**2 * (inside @ below**2)
            estimate += weight * ratio
            variance += weight**2 * np.maximum(squares, 0) / total**2 * n / np.maximum(n - 1, 1e-9)
        return estimate, variance

    def weighted(self, weights: Floats) -> Floats:
        """The difference under weights of all units, shape (replicates, units)."""
        parts = []
        for group in range(self.n_groups):
            inside = self.used & (self.code == group)
            with np.errstate(invalid="ignore", divide="ignore"):
                parts.append((weights[:, inside] @ self.top[inside]) / (weights[:, inside] @ self.below[inside]))
        return np.asarray(np.mean(parts[1:], axis=0) - parts[0])


def difference(first: Score, second: Score, confidence_level: float = 0.95) -> Score:
    """First minus second, studentised: clusters that both were asked are paired, others stand for themselves.

    Both Scores must have been made by `claim` with the same factors; the null is that the two true values are equal.
    Cost is that of their influences: nothing is recomputed. NaN bounds where a factor is sampled in one alone.
    """
    estimate = first.estimate - second.estimate
    if not first.influences or set(first.influences) != set(second.influences):
        return Score(first.key, estimate, method="no interval: the two are not sampled by the same factors")
    best, df, clusters, multiway = 0.0, NAN, {}, 0.0
    for name in [name for name in first.influences if name != CROSSED]:
        a, b = first.influences[name], second.influences[name]
        every = sorted(a.keys() | b.keys())
        shared = sum(cluster in b for cluster in a)
        values = np.array([a.get(c, 0.0) - b.get(c, 0.0) for c in every])
        variance = float(np.square(values).sum())
        # Influences of normal size have a fourth moment of three squared variances.
        freedom = min(3 * variance**2 / float(np.power(values, 4).sum()), len(every) - 1) if variance > 0 else NAN
        clusters[name] = shared or len(every)
        multiway += variance
        if variance > best:
            best, df = variance, freedom
    best = max(best, multiway + sum(score.influences.get(CROSSED, {}).get(CROSSED, 0.0) for score in (first, second)))
    found = Spread(math.sqrt(best), df, clusters)
    low, high = found.interval(estimate, confidence_level)
    p = 1.0 if not found.known and abs(estimate) < 1e-12 else found.p(estimate)
    return Score(
        first.key, estimate, low, high, p=p, clusters=clusters, detectable=found.detectable(),
        standard_error=found.standard_error, df=found.df,
        unit=first.unit, positive=f"{first.positive} more in the first", group=first.group, reference=first.reference,
        over=first.over, method="t of the difference; clusters that both were asked are paired",
    )  # fmt: skip
