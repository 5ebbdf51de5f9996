"""The level and power of the engine's tests, and the smallest effect that a t test can find."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from markedness.results import NAN

POWER = 0.8
ALPHA = 0.05


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


def sign_detectable(values: ArrayLike, standard_error: float, alpha: float, power: float = POWER) -> float:
    """Smallest true mean of differences that exchanged signs find with probability ``power``, from the sign test.

    Signs tell of the values that are not 0 alone, and few of them reach few levels: with 12 of which all must be
    positive, a t test of the same error finds much smaller effects. The larger the effect, the more values are not 0,
    as of two yes or no questions whose answers are independent of each other.

    Parameters
    ----------
    values
        Differences without an effect, any shape; 0 and NaN are what exchange does not tell.
    standard_error
        Of their mean; larger than that of independent values where clusters vary.

    Returns
    -------
    float
        In the unit of ``values``; NaN where none differs, or no mean is found so often.
    """
    from scipy import optimize, stats

    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    differing = float((known != 0).mean()) if known.size else 0.0
    if not (differing and standard_error > 0):
        return NAN
    size = math.sqrt(float(np.square(known).mean()) / differing)
    n = round(max(1.0, min(known.size, differing * (size / standard_error) ** 2)))
    counts = np.arange(n + 1)
    needed = stats.binom.isf(alpha / 2, counts, 0.5) + 1  # positive of so many: the smallest number at this level

    def excess(mean: float) -> float:
        share = max(mean, min(1.0, differing + mean * math.sqrt(max(0.0, 1 - 2 * differing))))
        found = stats.binom.sf(needed - 1, counts, (1 + mean / share) / 2)
        return float(stats.binom.pmf(counts, n, share) @ found) - power

    return float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-4)) * size if excess(1.0) > 0 else NAN


def redetected(value: float, df: float, family: int, over: int, power: float = POWER) -> float:
    """``detectable`` of a Score, over ``over`` Scores in place of ``family``, at ``power``: by quantiles of its t."""
    if not (value > 0 and family and over):
        return value
    df = df if df > 0 else 1e6
    return value * _smallest_shift(df, ALPHA / over, power) / _smallest_shift(df, ALPHA / family, POWER)
