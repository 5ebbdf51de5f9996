"""Means of many cells over crossed clusters: their tests, and whether they depart from 0 beyond sampling error.

For designs of paired differences: a unit (a pair of texts) has a
difference in some of many cells (group x task) and belongs to a cluster of each factor (name, vignette).

Source: Cameron, Gelbach & Miller 2011, Journal of Business & Economic Statistics 29(2):238-249 (crossed clusters).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from markedness.results import NAN
from markedness.stats.inference.anova_type import ClusterSums, anova_type
from markedness.stats.inference.arrays import Codes, Floats, LeaveOut
from markedness.stats.inference.permutation import Null, draws_needed, flip_test
from markedness.stats.inference.power import ALPHA, sign_detectable
from markedness.stats.inference.spreads import MIN_CLUSTERS, NO_SPREAD, TIE, Spread, effective, spread

SPARSE = 16
"""With fewer differences that are not 0, signs of clusters are exchanged: a t-test of so few is too liberal."""
FLIPPED = 200
"""Up to so many units that share nothing, signs are exchanged too: that is exact, and costs little."""


Statistic = Callable[[Floats], Floats]
"""Sums of the cells, shape (draws, cells) -> the statistic, shape (draws,)."""


class Partition(NamedTuple):
    """Units by the clusters of one factor, or of the crossing of several."""

    sign: int
    """In inclusion and exclusion: 1 for one or three factors, -1 for two."""
    codes: Codes
    n: int
    members: tuple[int, ...]
    """Places of the factors among `Crossed.singles`."""


class CellTests(NamedTuple):
    """Tests of each cell mean against 0; arrays of shape (cells,)."""

    p: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Claim:
    """One number of all cells, its spread and its test."""

    estimate: float = NAN
    spread: Spread = NO_SPREAD
    null: Null | None = None
    """None: p is that of the t of ``spread``."""
    detectable: float | None = None
    """Where it is not that of the t."""


@dataclass(frozen=True)
class Crossed:
    """Differences of units in cells, and the clusters of the units."""

    values: Floats
    """Shape (units, cells); NaN where a unit has no difference in a cell."""
    factors: Mapping[str, ArrayLike]
    """Factor -> cluster of each unit."""
    groups: ArrayLike
    """Shape (units,): clusters are counted in each group."""

    @cached_property
    def filled(self) -> Floats:
        """The values, 0 where there is none."""
        return np.nan_to_num(self.values)

    @cached_property
    def there(self) -> Floats:
        """1 where there is a value, else 0."""
        return np.isfinite(self.values).astype(float)

    @cached_property
    def mean(self) -> Floats:
        """Mean of each cell, shape (cells,); NaN without a value."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.filled.sum(axis=0) / self.there.sum(axis=0))

    @cached_property
    def singles(self) -> list[Partition]:
        """The partitions by one factor, each once, without those of too few clusters in a group."""
        group = pd.factorize(np.asarray(self.groups))[0]
        found: list[Partition] = []
        for labels in self.factors.values():
            codes, known = pd.factorize(np.asarray(labels))
            sizes = [effective(np.bincount(codes[group == g])) for g in np.unique(group)]
            if min(sizes, default=0) < MIN_CLUSTERS - 1e-9:
                continue
            if not any(np.array_equal(codes, other.codes) for other in found):
                found.append(Partition(1, codes.astype(np.intp), len(known), (len(found),)))
        return found

    @property
    def _exchanged(self) -> bool:
        """Whether clusters share nothing and are so few that signs are exchanged."""
        return len(self.singles) == 1 and self.singles[0].n <= FLIPPED

    @cached_property
    def partitions(self) -> list[Partition]:
        """`singles` and their crossings."""
        found = []
        for size in range(1, len(self.singles) + 1):
            for chosen in itertools.combinations(self.singles, size):
                codes = chosen[0].codes.astype(np.int64)
                for other in chosen[1:]:
                    codes = pd.factorize(codes * other.n + other.codes)[0]
                members = tuple(part.members[0] for part in chosen)
                n = int(codes.max(initial=-1)) + 1
                found.append(Partition((-1) ** (size + 1), codes.astype(np.intp), n, members))
        return found

    def only(self, cells: ArrayLike) -> Crossed:
        """Some cells, and the units that have a value in one of them."""
        values = self.values[:, np.asarray(cells)]
        units = np.isfinite(values).any(axis=1)
        factors = {name: np.asarray(labels)[units] for name, labels in self.factors.items()}
        return Crossed(values[units], factors, np.asarray(self.groups)[units])

    def usable(self) -> Codes:
        """Cells that rest on three clusters of every factor or more."""
        enough = np.ones(self.values.shape[1], dtype=bool)
        for part in self.singles:
            enough &= (_sums(self.there, part.codes, part.n) > 0).sum(axis=0) >= 3
        return np.flatnonzero(enough & (self.there.sum(axis=0) > 0))

    # ---- each cell

    def tests(self, confidence_level: float = 0.95) -> CellTests:
        """Each cell mean against 0: multiway t, and where few units differ, exact exchange of the signs of clusters.

        NaN without a factor of six effective clusters in the cell; an interval of width zero is none.
        """
        from scipy import stats

        k = self.values.shape[1]
        enough = np.zeros((len(self.singles), k), dtype=bool)
        one_way, freedom = np.zeros((2, len(self.singles), k))
        multiway = np.zeros(k)
        exact = np.full(k, np.nan)
        for part in self.partitions:
            counts = _sums(self.there, part.codes, part.n)
            variance, size = self._jackknife(part, counts)
            if len(part.members) == 1:
                place = part.members[0]
                enough[place] = size >= MIN_CLUSTERS - 1e-9
                one_way[place], freedom[place] = np.where(enough[place], variance, 0.0), size - 1
                exact = np.fmax(exact, np.where(enough[place], self._exact(part), np.nan))
            multiway += np.where(enough[list(part.members)].all(axis=0), part.sign * variance, 0.0)
        variance = one_way.max(axis=0, initial=0.0)
        df = np.where(one_way >= variance * (1 - TIE), freedom, np.inf).min(axis=0, initial=np.inf)
        with np.errstate(invalid="ignore", divide="ignore"):
            below = (np.square(one_way) / np.maximum(freedom, 1e-9)).sum(axis=0)
            crossed = np.minimum(np.square(multiway) / below, np.where(enough, freedom, 0.0).max(axis=0, initial=0.0))
            df = np.where(multiway > variance * (1 + TIE), crossed, df)
            error = np.sqrt(np.maximum(variance, multiway))
            error = np.where(enough.any(axis=0) & (error > 1e-12), error, np.nan)
            margin = stats.t.ppf((1 + confidence_level) / 2, df) * error
            p = np.where(np.isnan(exact), 2 * stats.t.sf(np.abs(self.mean) / error, df), exact)
        return CellTests(p, self.mean - margin, self.mean + margin)

    def _jackknife(self, part: Partition, counts: Floats) -> tuple[Floats, Floats]:
        """Variance of each cell mean by leaving out clusters, and effective clusters of each cell."""
        present = counts > 0
        n = present.sum(axis=0)
        without = np.where(present, self._means_without(part.codes, part.n), 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            centred = np.where(present, without - without.sum(axis=0) / n, 0.0)
            variance = (n - 1) / n * np.square(centred).sum(axis=0)
            size = np.square(counts.sum(axis=0)) / np.square(counts).sum(axis=0)
        return np.where(n > 1, variance, np.nan), np.nan_to_num(size)

    def _exact(self, part: Partition) -> Floats:
        """Exact p by exchanged signs of clusters where fewer than `SPARSE` units differ; NaN in other cells."""
        sums = _sums(self.filled, part.codes, part.n)
        finest = _sums(self.filled, self.partitions[-1].codes, self.partitions[-1].n)
        p = np.full(self.values.shape[1], np.nan)
        for cell in np.flatnonzero((np.abs(finest) > 1e-12).sum(axis=0) < SPARSE):
            p[cell] = flip_test(sums[:, [cell]], _total, np.random.default_rng(0), 2**SPARSE).p
        return p

    # ---- a weighted sum of cell means

    def weighted(self, weights: Floats, rng: np.random.Generator, family: int = 1) -> Claim:
        """The weighted sum of the cell means, shape (cells,); cells of weight 0 and unusable ones do not count.

        p is of the multiway t; where few units differ, no two share a cluster, or all differ alike, of exchanged signs.
        """
        chosen = np.intersect1d(np.flatnonzero(weights), self.usable())
        if not len(chosen):
            return Claim()
        own, weight = self.only(chosen), weights[chosen] * (np.abs(weights).sum() / np.abs(weights[chosen]).sum())
        estimate = float(own.mean @ weight)
        found = spread(lambda codes, n: own._means_without(codes, n) @ weight, own.factors, own.groups)
        parts = (own.filled * (weight / own.there.sum(axis=0))).sum(axis=1, keepdims=True)
        flipped = own._flips(parts, _total, rng, family, bool(np.isnan(found.p(estimate))))
        if flipped is None or not found.known:
            return Claim(estimate, found, flipped)
        alpha = ALPHA / max(1, family)
        by_signs = own._sign_detectable(found.standard_error, alpha) if flipped.smallest_p <= alpha else NAN
        return Claim(estimate, found, flipped, float(np.maximum(found.detectable(alpha), by_signs)))

    def _sign_detectable(self, standard_error: float, alpha: float) -> float:
        """See `sign_detectable`; NaN for values of several sizes, and few clusters of several units or of many values.

        How many of their sums differ where there is an effect is not known: of 12 pairs, of 8 vignettes, and of the
        means of several iterations 5 to 62 % were found.
        """
        sizes, n = np.abs(self.filled[self.filled != 0]), min(part.n for part in self.singles)
        if len(sizes) and np.ptp(sizes) > TIE:
            return NAN
        if n < SPARSE and (n < len(self.values) or self.values.shape[1] > 2):
            return NAN
        return sign_detectable(self.values, standard_error, alpha)

    def _means_without(self, codes: Codes, n: int) -> Floats:
        """Cell means without each cluster, shape (clusters, cells)."""
        both = np.hstack([self.there, self.filled])
        rest, left = np.hsplit(both.sum(axis=0) - _sums(both, codes, n), 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            without = left / rest
        return np.where(rest > 0, without, self.mean)

    def _flips(
        self, parts: Floats, statistic: Statistic, rng: np.random.Generator, family: int, always: bool = False
    ) -> Null | None:
        """The test by exchanged signs, of the factor where it is least certain; None where it does not apply."""
        if not self.singles:
            return None
        finest = self.partitions[-1]
        if (
            not (always or self._exchanged)
            and (np.abs(_sums(parts, finest.codes, finest.n)) > 1e-12).any(axis=1).sum() >= SPARSE
        ):
            return None
        two_sided = statistic is _total
        made = [
            flip_test(_sums(parts, part.codes, part.n), statistic, rng, draws_needed(family), two_sided)
            for part in self.singles
        ]
        coarsest = max(null.smallest_p for null in made)
        return replace(max(made, key=lambda null: null.p), smallest_p=coarsest)

    # ---- the mean square of all cells

    def excess(self, rng: np.random.Generator, family: int = 1) -> Claim:
        """Mean over cells of the squared true mean, beyond what sampling error adds.

        The mean of products of two values of a cell that share no cluster: unbiased whatever the size, 0 on average
        where no cell has an effect, and then below 0 as often. p, one-sided, is of the ANOVA-type statistic; where few
        units differ, or no two share a cluster, of exchanged signs. The error is at least that where there is no
        effect: leaving out clusters shows none of a square near 0.
        """
        own = self.only(self.usable())
        if not own.values.size or not own.singles:
            return Claim()
        within, apart = own._shared()
        if not (apart > 0).all():  # cells where all share a cluster
            own = own.only(apart > 0)
            return own.excess(rng, family) if own.values.size else Claim()
        total = own.filled.sum(axis=0)
        estimate = float(((np.square(total) - within) / apart).mean())
        found = spread(own._excess_without(total, within, apart), own.factors, own.groups)
        scale = 1 / np.sqrt(apart)
        exchanged = own.singles[0].n if own._exchanged else math.inf
        tested = anova_type(total * scale, own._centred_sums(scale), ALPHA / max(1, family), exchanged)
        found = found.at_least(tested.error, found.df)

        def statistic(sums: Floats) -> Floats:
            return np.asarray(((np.square(sums) - within) / apart).mean(axis=1))

        flipped = own._flips(own.filled, statistic, rng, family, math.isnan(tested.null.p))
        return Claim(estimate, found, tested.null if flipped is None else flipped, tested.detectable)

    def _shared(self) -> tuple[Floats, Floats]:
        """Of each cell: the sum of products of values that share a cluster, and the number of those that share none."""
        within, together = (np.zeros(self.values.shape[1]) for _ in range(2))
        for part in self.partitions:
            within += part.sign * np.square(_sums(self.filled, part.codes, part.n)).sum(axis=0)
            together += part.sign * np.square(_sums(self.there, part.codes, part.n)).sum(axis=0)
        return within, np.square(self.there.sum(axis=0)) - together

    def _excess_without(self, total: Floats, within: Floats, apart: Floats) -> LeaveOut:
        """Leave-one-cluster-out estimates: two values of one cluster are no product, so what goes is linear."""
        other, number = (np.broadcast_to(sums, self.values.shape).copy() for sums in (total, self.there.sum(axis=0)))
        for part in self.partitions:
            other -= part.sign * _sums(self.filled, part.codes, part.n)[part.codes]
            number -= part.sign * _sums(self.there, part.codes, part.n)[part.codes]
        product, count = self.filled * other, self.there * number

        def without(codes: Codes, n: int) -> Floats:
            left = apart - 2 * _sums(count, codes, n)
            with np.errstate(invalid="ignore", divide="ignore"):
                made = (np.square(total) - within - 2 * _sums(product, codes, n)) / left
            return np.asarray(np.where(left > 0, made, (np.square(total) - within) / apart).mean(axis=1))

        return without

    def _centred_sums(self, scale: Floats) -> Iterator[ClusterSums]:
        """Of each partition the sums of its clusters, each cell centred and times its ``scale``, shape (cells,)."""
        centred = self.filled - self.mean * self.there
        for part in self.partitions:
            counts = _sums(self.there, part.codes, part.n)
            size = np.square(counts.sum(axis=0)) / np.square(counts).sum(axis=0)
            sums = _sums(centred, part.codes, part.n) * scale * np.sqrt(size / (size - 1))
            yield ClusterSums(part.sign, len(part.members) == 1, sums, size)


def _total(sums: Floats) -> Floats:
    return np.asarray(sums.sum(axis=1))


def _sums(values: Floats, codes: Codes, n: int) -> Floats:
    """Sums of the rows of each cluster, shape (n, columns)."""
    from scipy.sparse import csr_array

    order = np.argsort(codes.astype(np.uint16) if n < 2**16 else codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(n + 1))
    return np.asarray(csr_array((np.ones(len(order)), order, starts), (n, len(order))) @ values)
