"""Sampling error of an estimate: the delete-one-cluster jackknife, over one factor or several crossed ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from markedness.results import NAN
from markedness.stats.inference.arrays import Codes, Estimator, Floats, LeaveOut, crossing, factorized
from markedness.stats.inference.power import ALPHA, POWER, detectable

MIN_CLUSTERS = 6
"""Effective clusters that a factor needs in each group; with fewer it counts as fixed."""
CROSSED = "crossed"
"""In `Spread.influences`, the (negative) part of the variance that belongs to intersections of factors."""
TIE = 1e-9
"""Variances that differ by less, relatively, differ by rounding: of tied factors that with the fewest df counts."""
_BATCH = 4_000_000
"""Numbers in one array of replicates."""


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
    smaller: tuple[float, float] = (0.0, 1.0)
    """Smaller standard error with fewer degrees of freedom that `at_least` replaced: farther out it may claim less."""

    def interval(self, estimate: float, confidence_level: float = 0.95) -> tuple[float, float]:
        """The t interval; NaN without a standard error or when its width would be zero."""
        if not self.known or math.isnan(estimate):
            return NAN, NAN
        from scipy import stats

        margin = max(float(stats.t.ppf((1 + confidence_level) / 2, df)) * error for error, df in self._both)
        return estimate - margin, estimate + margin

    def p(self, estimate: float, null: float = 0.0) -> float:
        """Two-sided p-value of the t test against ``null``; NaN without a standard error."""
        if not self.known or math.isnan(estimate):
            return NAN
        from scipy import stats

        return max(float(2 * stats.t.sf(abs(estimate - null) / error, df)) for error, df in self._both)

    def detectable(self, alpha: float = ALPHA, power: float = POWER) -> float:
        """Smallest true effect that a two-sided t test at ``alpha`` finds with probability ``power``."""
        return max(detectable(error, df, alpha, power) for error, df in self._both) if self.known else NAN

    def at_least(self, standard_error: float, df: float) -> Spread:
        """With a standard error of at least this: rare answers that one group lacks by luck leave too small a one.

        ``df`` are the degrees of freedom of the floor, that of independent answers, say. Influences grow in proportion;
        nothing changes where the standard error is not known. Interval, p and detectable effect are the more cautious
        of the two at each level, as a t of 5 degrees of freedom has a heavier tail than one of 200.
        """
        if not (math.isfinite(self.standard_error) and standard_error > self.standard_error):
            return self
        factor = standard_error / self.standard_error if self.known else 0.0
        grown = {
            name: {cluster: value * factor ** (2 if name == CROSSED else 1) for cluster, value in of_factor.items()}
            for name, of_factor in self.influences.items()
        }
        smaller = (self.standard_error, self.df) if self.known else (0.0, 1.0)
        return replace(self, standard_error=standard_error, df=df, influences=grown, smaller=smaller)

    @property
    def _both(self) -> list[tuple[float, float]]:
        """The standard error and what it replaced, each with its degrees of freedom."""
        return [(error, df) for error, df in ((self.standard_error, self.df), self.smaller) if error > 0]

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
    coded = {name: factorized(values) for name, values in factors.items()}
    n_units = len(next(iter(coded.values()))[0]) if coded else 0
    labelings = np.zeros((1, n_units)) if groups is None else np.atleast_2d(np.asarray(groups, dtype=object))
    of_axes = [factorized(labels)[0] for labels in labelings]
    size = np.ones(n_units) if weights is None else np.asarray(weights, dtype=float)
    fewest = {
        name: min((_fewest(codes, group, size) for group in of_axes), default=0.0) for name, (codes, _) in coded.items()
    }
    enough = {name: n >= min_clusters - 1e-9 for name, n in fewest.items()}
    layers = of_axes if strata is None else [*of_axes, factorized(strata)[0]]
    cell = crossing(*layers)
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
    variance = max(of_factor for of_factor, _ in one_way.values())
    df = min(df for of_factor, df in one_way.values() if of_factor >= variance * (1 - TIE))
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
        if multiway > variance * (1 + TIE):  # equal where factors are one partition
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
    seen = np.zeros((int(group.max(initial=0)) + 1, n_clusters), dtype=bool)
    seen[group, codes] = True
    largest = np.zeros(n_clusters, dtype=np.intp)
    np.maximum.at(largest, codes, seen.sum(axis=1)[group])
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
