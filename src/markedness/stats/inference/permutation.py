"""Exchange tests: which labels or signs could be exchanged if the claim were false, and p-values from doing so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from markedness.results import NAN
from markedness.stats.inference.arrays import Codes, Floats, crossing
from markedness.stats.inference.power import ALPHA, POWER


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
        return cls(codes, crossing(*blocks) if blocks else np.zeros(len(codes), dtype=np.intp))

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


def count_detectable(null: Null, family: int = 1, power: float = POWER) -> float:
    """Smallest excess of a count that a one-sided exchange test finds with probability ``power``.

    In counts beyond the mean of the null. A count varies the more the larger it is, and its null has a long upper tail:
    both are negative binomial with the ratio of variance to mean that the null has, Poisson where that is below 1. It
    is found from the smallest count on that the null reaches with at most the corrected level. NaN where nothing can be
    found: a null that is always 0 or does not vary, or a smallest p above the corrected level.
    """
    from scipy import optimize, stats

    alpha = ALPHA / max(1, family)
    if not (null.mean > 0 and null.sd > 0) or null.smallest_p > alpha:
        return NAN
    ratio = max(null.sd**2 / null.mean, 1 + 1e-6)

    def reached(count: float, mean: float) -> float:
        return float(stats.nbinom.sf(count - 1, mean / (ratio - 1), 1 / ratio))

    least = float(stats.nbinom.isf(alpha, null.mean / (ratio - 1), 1 / ratio)) + 1
    high = least
    while reached(least, high) < power:
        high *= 1.5
    return float(optimize.brentq(lambda mean: reached(least, mean) - power, null.mean, high, xtol=1e-4)) - null.mean


def flip_test(
    parts: Floats,
    statistic: Callable[[Floats], Floats],
    rng: np.random.Generator,
    n_draws: int,
    two_sided: bool = True,
) -> Null:
    """Test of paired differences: the signs of whole clusters exchanged.

    Parameters
    ----------
    parts
        Shape (clusters, k): what each cluster adds to k sums; exact where the two sides of a cluster could be swapped.
    statistic
        Sums, shape (draws, k) -> the statistic, shape (draws,).
    rng
        Seeded generator; not used where all signs are enumerated.
    n_draws
        At most so many; fewer arrangements are all enumerated.
    two_sided
        As in `exchange_test`.

    Returns
    -------
    Null
        p = 1 where nothing differs; ``smallest_p`` is that of clusters which all differ.
    """
    smallest = 0.5 ** (len(parts) - 1) if len(parts) else 1.0
    differ = parts[(np.abs(parts) > 1e-12).any(axis=1)]
    if not len(differ):
        return Null(p=1.0, smallest_p=smallest)
    observed = float(statistic(differ.sum(axis=0, keepdims=True))[0])
    if len(differ) - 1 < math.log2(n_draws):
        sums = differ[:1]
        for part in differ[1:]:
            sums = np.concatenate([sums + part, sums - part])
        made = np.concatenate([statistic(sums), statistic(-sums)])
        size, null = (abs(observed), np.abs(made)) if two_sided else (observed, made)
        p = float((null >= size - 1e-10 * max(1.0, abs(size))).mean())
        low, high = np.quantile(made, [0.025, 0.975])
        return Null(p, float(made.mean()), float(low), float(high), len(made), smallest, float(made.std()))

    def draw(n: int) -> Floats:
        return statistic((rng.integers(0, 2, size=(n, len(differ))) * 2.0 - 1.0) @ differ)

    return exchange_test(observed, draw, n_draws, two_sided, smallest)
