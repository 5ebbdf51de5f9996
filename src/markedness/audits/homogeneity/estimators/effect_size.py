"""Effect size between two groups, from the bootstrap replicates of a statistic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class EffectSize(NamedTuple):
    """Difference of two groups as published; NaN where it cannot be estimated."""

    d: float = np.nan
    """Cohen's d of the replicates; positive: the first group's statistic is larger."""
    ci_low: float = np.nan
    ci_high: float = np.nan
    """The published interval of d; see `cohens_d`."""
    z: float = np.nan
    """Difference over its bootstrap standard error, d / sqrt(2)."""


def cohens_d(first: ArrayLike, second: ArrayLike, confidence_level: float = 0.95) -> EffectSize:
    """Cohen's d between two vectors of R bootstrap replicates.

    d = (mean a - mean b) / sqrt((var a + var b) / 2) with variances of ddof 1, and the published interval
    d +- t(2R - 2) sqrt(2/R + d^2 / (4R)) (Lee & Lai, section 2.5 and table A5).

    Parameters
    ----------
    first, second
        Shape (R,) each, drawn independently of each other.
    confidence_level
        In (0, 1).

    Returns
    -------
    EffectSize
        All NaN where the replicates do not vary or one is NaN.

    Raises
    ------
    ValueError
        When the two vectors differ in length.

    Notes
    -----
    The analyst chooses R, and the published interval shrinks as R grows: it is no sampling error. The standard
    deviation of the replicates is one, so that (mean a - mean b) / sqrt(var a + var b) = d / sqrt(2) is the
    bootstrap z of the difference, which does not depend on R.
    """
    from scipy.stats import t

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"replicates have shapes {a.shape} and {b.shape}; both groups need the same number")
    n_resamples = len(a)
    variance = (a.var(ddof=1) + b.var(ddof=1)) / 2 if n_resamples > 1 else np.nan
    if not np.isfinite(variance) or variance <= np.finfo(float).eps ** 2:
        return EffectSize()
    d = float(a.mean() - b.mean()) / float(np.sqrt(variance))
    margin = t.ppf((1 + confidence_level) / 2, 2 * n_resamples - 2) * standard_error(d, n_resamples)
    return EffectSize(d, d - margin, d + margin, d / float(np.sqrt(2)))


def standard_error(d: float, n_resamples: int) -> float:
    """Published standard error of d between two groups of R replicates each: sqrt(2/R + d^2 / (4R))."""
    return float(np.sqrt(2 / n_resamples + d**2 / (4 * n_resamples)))
