"""The level and power of the engine's tests, and the smallest effect that a t test can find."""

from __future__ import annotations

from functools import lru_cache

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


def redetected(value: float, df: float, family: int, over: int, power: float = POWER) -> float:
    """``detectable`` of a Score, over ``over`` Scores in place of ``family``, at ``power``: by quantiles of its t."""
    if not (value > 0 and family and over):
        return value
    df = df if df > 0 else 1e6
    return value * _smallest_shift(df, ALPHA / over, power) / _smallest_shift(df, ALPHA / family, POWER)
