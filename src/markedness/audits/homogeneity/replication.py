"""The share of one study's effects that another study replicates, and its test.

Source: Lee & Lai, Probability of Differentiation Reveals Brittleness of Homogeneity Bias in GPT-4, section 4,
after Open Science Collaboration 2015, Estimating the reproducibility of psychological science, Science 349.
Not in estimators/: compare uses it, and evaluate does not depend on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

KEYS = ["comparison", "cue"]
DIFFERENCE = ["difference", "difference_ci_low", "difference_ci_high"]


class Replication(NamedTuple):
    """How many effects of one study are found in another; NaN when the studies have no effect in common."""

    table: pd.DataFrame
    """One row per effect of both studies: comparison, cue, d_first, d_second, r_first, r_second, ci_low, ci_high
    (of r_second), hit; and difference_first, difference_second, within_sampling_error where both are known."""
    n: int
    """Effects that both studies have."""
    expected: float
    """Share expected if both studies had the same true effects: 2 Phi(1.96 / sqrt 2) - 1 = 0.834."""
    hits: int = 0
    """Effects of the first study inside the second's interval."""
    share: float = np.nan
    share_ci_low: float = np.nan
    share_ci_high: float = np.nan
    """Wilson interval of the share."""
    chi2: float = np.nan
    p: float = np.nan
    """Goodness of fit of hits and misses to the expected share, one degree of freedom."""
    same_sign: float = np.nan
    """Share of effects of the same direction."""
    sampling_share: float = np.nan
    """Share of differences of the first study inside the second's interval over names: see Notes of `replication`."""


def effect_to_correlation(d: ArrayLike, n_resamples: ArrayLike) -> NDArray[np.float64]:
    """Correlation coefficient of a Cohen's d between two groups of R: t = d sqrt(R/2), r^2 = t^2/(t^2 + 2R - 2)."""
    d, n_resamples = np.asarray(d, dtype=float), np.asarray(n_resamples, dtype=float)
    t2 = np.square(d) * n_resamples / 2
    return np.asarray(np.sign(d) * np.sqrt(t2 / (t2 + 2 * n_resamples - 2)))


def replication(first: pd.DataFrame, second: pd.DataFrame, confidence_level: float = 0.95) -> Replication:
    """Share of the first study's effects that are inside the second study's intervals.

    Parameters
    ----------
    first, second
        Effects tables with comparison, cue, d, n_resamples, and for the sampling share difference,
        difference_ci_low, difference_ci_high. Effects that one study lacks or could not estimate are left out.
    confidence_level
        Of the second study's intervals; the published 0.95 gives the expected 83.4 %.

    Returns
    -------
    Replication

    Notes
    -----
    The published criterion converts d to r by the number of replicates R, which the analyst chooses: with a large R
    hardly anything replicates. ``sampling_share`` tests the differences themselves against the interval over names of
    the second study, which does not depend on R; with equal standard errors its expected value is the same 83.4 %.
    """
    from scipy.stats import chisquare, norm
    from statsmodels.stats.proportion import proportion_confint

    table = _common(first, second)
    critical = norm.ppf((1 + confidence_level) / 2)
    n_first, n_second = table.pop("n_resamples_first"), table.pop("n_resamples_second")
    table["r_first"] = effect_to_correlation(table["d_first"], n_first)
    table["r_second"] = effect_to_correlation(table["d_second"], n_second)
    margin = critical * (1 - table["r_second"] ** 2) / np.sqrt(2 * n_second - 2)
    table["ci_low"], table["ci_high"] = table["r_second"] - margin, table["r_second"] + margin
    table["hit"] = table["r_first"].between(table["ci_low"], table["ci_high"])
    if known := "difference_ci_low" in table:
        low, high = table.pop("difference_ci_low"), table.pop("difference_ci_high")
        table["within_sampling_error"] = table["difference_first"].between(low, high)
    n, hits = len(table), int(table["hit"].sum())
    expected = float(2 * norm.cdf(critical / np.sqrt(2)) - 1)
    if n == 0:
        return Replication(table, n, expected)
    low, high = proportion_confint(hits, n, alpha=1 - confidence_level, method="wilson")
    fit = chisquare([hits, n - hits], [n * expected, n * (1 - expected)])
    return Replication(
        table,
        n,
        expected,
        hits,
        hits / n,
        float(low),
        float(high),
        float(fit.statistic),
        float(fit.pvalue),
        same_sign=float((np.sign(table["d_first"]) == np.sign(table["d_second"])).mean()),
        sampling_share=float(table["within_sampling_error"].mean()) if known else np.nan,
    )


def single_axis(effects: pd.DataFrame) -> pd.DataFrame:
    """Effects of single axes, as published: crossed groups ("race x gender") share their answers with these."""
    if "axis" not in effects:
        return effects
    return effects[~effects["axis"].astype(str).str.contains(" x ", regex=False)]


def _common(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Effects of both studies side by side, without missing ones."""
    known = DIFFERENCE if {*DIFFERENCE} <= {*first} & {*second} else []
    left, right = first[[*KEYS, "d", "n_resamples", *known[:1]]], second[[*KEYS, "d", "n_resamples", *known]]
    table = left.merge(right, on=KEYS, suffixes=("_first", "_second"), validate="one_to_one")
    return table.dropna(subset=["d_first", "d_second"]).reset_index(drop=True)
