"""Differences of whole scores between two sets of answers to the same clusters.

A score here is any number computed from a whole table (a divergence, a classifier's accuracy), so its
difference has no value per row. What both sets share is the clusters (prompts, names, vignettes): they are
left out or drawn together in both, and the spread of the differences is the standard error.

Sources: Efron, B. & Stein, C. 1981. The jackknife estimate of variance. Annals of Statistics 9(3):586-596.
Tukey's t interval on pseudo-values: Miller, R. G. 1974. The jackknife - a review. Biometrika 61(1):1-15.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Difference(NamedTuple):
    """A difference with its interval and test."""

    estimate: float
    standard_error: float
    low: float
    high: float
    p: float
    """Two-sided, of no difference."""


def jackknife_difference(whole: float, without: ArrayLike, confidence_level: float = 0.95) -> Difference:
    """Interval of a difference from its values with each cluster left out.

    Parameters
    ----------
    whole
        The difference over all K clusters.
    without
        Shape (K,): the same with cluster k left out of both sets; any may be NaN.
    confidence_level
        In (0, 1).

    Returns
    -------
    Difference
        Pseudo-values K whole - (K - 1) without_k; the standard error is that of their mean, the interval
        whole +- t(K - 1) times it, K counting the clusters without NaN. NaN but for the estimate with fewer
        than two.

    Notes
    -----
    The interval is centred on the difference itself, not on the pseudo-values' mean: the jackknife's
    correction for bias is left out, because the biases of two equally computed scores largely cancel.
    """
    values = np.asarray(without, dtype=float)
    values = values[~np.isnan(values)]
    n_clusters = len(values)
    if n_clusters < 2 or np.isnan(whole):
        return Difference(float(whole), np.nan, np.nan, np.nan, np.nan)
    pseudo = n_clusters * whole - (n_clusters - 1) * values
    return t_difference(whole, float(pseudo.std(ddof=1) / np.sqrt(n_clusters)), n_clusters, confidence_level)


def bootstrap_difference(
    whole: float, replicates: ArrayLike, n_clusters: int, confidence_level: float = 0.95
) -> Difference:
    """Interval of a difference from its values on clusters drawn with replacement, the same in both sets.

    Parameters
    ----------
    whole
        The difference over all clusters.
    replicates
        Shape (n_resamples,); NaN replicates (a group was not drawn) are left out.
    n_clusters
        Clusters drawn each time; n_clusters - 1 are the degrees of freedom.
    confidence_level
        In (0, 1).

    Returns
    -------
    Difference
        whole +- t(n_clusters - 1) times the replicates' standard deviation. A percentile interval would need
        many more replicates for a p-value that survives a correction for many comparisons.
    """
    values = np.asarray(replicates, dtype=float)
    values = values[~np.isnan(values)]
    if len(values) < 2 or n_clusters < 2 or np.isnan(whole):
        return Difference(float(whole), np.nan, np.nan, np.nan, np.nan)
    return t_difference(whole, float(values.std(ddof=1)), n_clusters, confidence_level)


def t_difference(whole: float, standard_error: float, n_clusters: int, confidence_level: float = 0.95) -> Difference:
    """The t interval and test; without any spread p is 1 for no difference, and there is neither for one.

    A count (of significant words, say) may stay the same whichever cluster is left out: that is no certainty.
    """
    from scipy import stats

    # Rounding leaves spreads of 1e-17 where all clusters agree.
    if standard_error <= 1e-12 * max(1.0, abs(whole)):
        if abs(whole) > 1e-12:
            return Difference(float(whole), standard_error, np.nan, np.nan, np.nan)
        return Difference(float(whole), standard_error, float(whole), float(whole), 1.0)
    margin = float(stats.t.ppf((1 + confidence_level) / 2, n_clusters - 1)) * standard_error
    p = float(2 * stats.t.sf(abs(whole) / standard_error, n_clusters - 1))
    return Difference(float(whole), standard_error, float(whole - margin), float(whole + margin), p)
