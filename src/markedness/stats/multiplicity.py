"""Corrections for multiple testing: adjusted p-values of one family."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values of one family; what is NaN was not tested, stays NaN and does not count."""
    from scipy import stats

    values = np.asarray(p, dtype=float)
    adjusted = np.full(values.shape, np.nan)
    tested = ~np.isnan(values)
    if tested.any():
        adjusted[tested] = stats.false_discovery_control(values[tested], method="bh")
    return adjusted


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjustment over one family; NaN stays NaN and does not count.

    statsmodels has it too, but collects garbage at every call, and there are dozens of small families here.
    """
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    there = np.flatnonzero(np.isfinite(p))
    ordered = there[np.argsort(p[there], kind="stable")]
    steps = p[ordered] * np.arange(len(ordered), 0, -1)
    adjusted[ordered] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
