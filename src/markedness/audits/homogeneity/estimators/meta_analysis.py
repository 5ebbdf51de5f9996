"""Random-effects meta-analysis: the mean of many effects, and how much they vary."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Pooled(NamedTuple):
    """Random-effects summary of k effects; NaN where there are too few."""

    estimate: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    """Wald interval of the mean effect."""
    p: float = np.nan
    """Two-sided, of the mean effect."""
    tau2: float = np.nan
    """Variance of the true effects, by restricted maximum likelihood."""
    i2: float = np.nan
    """Share of the observed variance that is not sampling error, max(0, (Q - (k-1)) / Q), in [0, 1]."""
    k: int = 0
    """Effects that are not missing."""
    cochran_q: float = np.nan
    """Cochran's Q with fixed weights."""
    p_heterogeneity: float = np.nan
    """Of Q, chi-square with k - 1 degrees of freedom."""
    prediction_low: float = np.nan
    prediction_high: float = np.nan
    """Interval of the effect of one more study (t with k - 2 degrees of freedom)."""
    standard_error: float = np.nan
    """Of the mean effect."""


def random_effects(effects: ArrayLike, standard_errors: ArrayLike, confidence_level: float = 0.95) -> Pooled:
    """Pool effects of the same kind, with tau^2 by restricted maximum likelihood and a Wald interval.

    Parameters
    ----------
    effects, standard_errors
        Shape (k,); pairs with a missing value are left out.
    confidence_level
        In (0, 1).

    Returns
    -------
    Pooled
        Without effects all is NaN; with one effect the estimate and its own interval, the rest NaN.

    Raises
    ------
    ValueError
        For a standard error that is not positive.

    References
    ----------
    Viechtbauer 2005, Bias and efficiency of meta-analytic variance estimators, Journal of Educational and
    Behavioral Statistics 30(3):261-293, equation for the REML iteration; Higgins & Thompson 2002 for I^2;
    Higgins, Thompson & Spiegelhalter 2009 for the prediction interval.
    """
    from scipy.stats import chi2, norm, t

    y, se = np.asarray(effects, dtype=float), np.asarray(standard_errors, dtype=float)
    present = np.isfinite(y) & np.isfinite(se)
    y, se = y[present], se[present]
    if (se <= 0).any():
        raise ValueError(f"standard errors must be positive; got {se.min()}")
    k = len(y)
    if k == 0:
        return Pooled()
    critical = norm.ppf((1 + confidence_level) / 2)
    tau2 = reml_tau2(y, se) if k > 1 else 0.0
    weights, fixed = 1 / (se**2 + tau2), 1 / se**2
    estimate, error = float(np.average(y, weights=weights)), float(1 / np.sqrt(weights.sum()))
    mean = Pooled(
        estimate,
        ci_low=estimate - critical * error,
        ci_high=estimate + critical * error,
        p=float(2 * norm.sf(abs(estimate / error))),
        k=k,
        standard_error=error,
    )
    if k == 1:
        return mean
    q = float(fixed @ (y - np.average(y, weights=fixed)) ** 2)
    margin = t.ppf((1 + confidence_level) / 2, k - 2) * np.sqrt(tau2 + error**2) if k > 2 else np.nan
    return mean._replace(
        tau2=tau2,
        i2=max(0.0, (q - (k - 1)) / q) if q > 0 else 0.0,
        cochran_q=q,
        p_heterogeneity=float(chi2.sf(q, k - 1)),
        prediction_low=estimate - margin,
        prediction_high=estimate + margin,
    )


def reml_tau2(
    effects: ArrayLike, standard_errors: ArrayLike, tolerance: float = 1e-10, max_iterations: int = 10_000
) -> float:
    """Between-study variance by restricted maximum likelihood.

    Iterates tau^2 = max(0, sum w^2 ((y - mu)^2 - se^2) / sum w^2 + 1 / sum w) with w = 1 / (se^2 + tau^2).

    Parameters
    ----------
    effects, standard_errors
        Shape (k,), k >= 2, without missing values.
    tolerance
        Relative change at which to stop.
    max_iterations
        Steps after which to give up.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    RuntimeError
        When it does not converge.
    """
    y, variances = np.asarray(effects, dtype=float), np.square(np.asarray(standard_errors, dtype=float))
    tau2 = max(0.0, float(y.var(ddof=1) - variances.mean()))
    for _ in range(max_iterations):
        weights = 1 / (variances + tau2)
        squares = np.square(y - np.average(y, weights=weights))
        step = np.average(squares - variances, weights=weights**2) + 1 / weights.sum()
        new = max(0.0, float(step))
        if abs(new - tau2) <= tolerance * max(tau2, variances.mean()):
            return new
        tau2 = new
    raise RuntimeError(f"tau^2 did not converge in {max_iterations} iterations; its last value is {tau2}")
