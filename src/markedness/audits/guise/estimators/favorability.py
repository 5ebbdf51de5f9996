"""Favourability of top attributes, and the regression of prestige on association.

Source: Hofmann et al. (2024), Nature 633, 147-154, "Favorability analysis" and "Employability analysis";
Supplementary Information, Figure 7 and Tables 6-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.audits.guise.estimators.association import top

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Favorability:
    """Favourability of the top attributes, in [-2, 2]: positive is favourable."""

    attributes: Sequence[str]
    weighted: float
    """sum f w / sum w; NaN where a weight is not positive, for then it is no mean."""
    unweighted: float
    """Mean of f."""


def favorabilities(scores: ArrayLike, ratings: ArrayLike, n: int = 5) -> tuple[Floats, Floats]:
    """Weighted and unweighted favourability of the n highest scores, for many score vectors at once.

    Parameters
    ----------
    scores : (..., k) array
        Score of each attribute, attributes in alphabetical order (which breaks ties); NaN is left out.
    ratings : (k,) array
        Favourability from -2 to 2; attributes with NaN are left out first.

    Returns
    -------
    weighted, unweighted : arrays of shape (...)
        See `Favorability`.
    """
    rating = np.asarray(ratings, dtype=float)
    rated = np.isfinite(rating)
    values, f = np.asarray(scores, dtype=float)[..., rated], rating[rated]
    if not rated.any():
        return np.full(values.shape[:-1], np.nan), np.full(values.shape[:-1], np.nan)
    best = np.argsort(np.where(np.isnan(values), np.inf, -values), axis=-1, kind="stable")[..., :n]
    w = np.take_along_axis(values, best, axis=-1)
    there = np.isfinite(w)
    f_best, count = np.where(there, f[best], 0.0), there.sum(axis=-1)
    positive = (w > 0).sum(axis=-1) == count
    with np.errstate(invalid="ignore", divide="ignore"):
        unweighted = np.where(count > 0, f_best.sum(axis=-1) / count, np.nan)
        w = np.where(there, w, 0.0)
        weighted = np.where(positive & (count > 0), (f_best * w).sum(axis=-1) / w.sum(axis=-1), np.nan)
    return weighted, unweighted


def top_favorability(scores: pd.Series, ratings: pd.Series, n: int = 5) -> Favorability:
    """Favourability of the n attributes with the highest scores.

    Parameters
    ----------
    scores
        Percentages of participants, or association scores (in any base: it cancels), by attribute.
    ratings
        Favourability from -2 to 2, by attribute; attributes without one are left out first.

    Returns
    -------
    Favorability
        NaN where no attribute has both. The weighted form is NaN, too, when one of the top scores is not
        positive; the paper leaves that case open.
    """
    rated = scores[scores.index.isin(ratings.dropna().index)].sort_index()
    weighted, unweighted = favorabilities(rated, ratings.reindex(rated.index), n)
    return Favorability(tuple(top(rated, n)), float(weighted), float(unweighted))


def rank_correlation(scores: pd.Series, ratings: pd.Series) -> tuple[float, float, int]:
    """Spearman's rho of scores and ratings over the attributes that have both, two-sided p, n; NaN below 3."""
    from scipy.stats import spearmanr

    both = pd.concat([scores, ratings], axis=1, keys=["score", "rating"]).dropna()
    if len(both) < 3 or both["score"].nunique() < 2 or both["rating"].nunique() < 2:
        return float("nan"), float("nan"), len(both)
    found = spearmanr(both["score"], both["rating"])
    return float(found.statistic), float(found.pvalue), len(both)


@dataclass(frozen=True)
class Regression:
    """Ordinary least squares of y on one x."""

    intercept: float
    slope: float
    slope_error: float
    r_squared: float
    f: float
    p: float
    n: int


def slopes(x: ArrayLike, y: ArrayLike) -> Floats:
    """Least squares slope of y (k,) on each x (..., k); NaN where fewer than 3 pairs, or x is constant."""
    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    there = np.isfinite(first) & np.isfinite(second)
    count = there.sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        dx = np.where(there, first - np.where(there, first, 0).sum(axis=-1, keepdims=True) / count, 0)
        dy = np.where(there, second - np.where(there, second, 0).sum(axis=-1, keepdims=True) / count, 0)
        slope = (dx * dy).sum(axis=-1) / (dx**2).sum(axis=-1)
    return np.where((count[..., 0] >= 3) & np.isfinite(slope), slope, np.nan)


def regression(x: ArrayLike, y: ArrayLike) -> Regression:
    """Ordinary least squares y = intercept + slope x, with F(1, n - 2) = t^2 of the slope.

    Pairs with a NaN are left out; with fewer than 3, or a constant x, everything is NaN.
    """
    from scipy.stats import linregress

    both = np.column_stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
    both = both[np.isfinite(both).all(axis=1)]
    if len(both) < 3 or np.ptp(both[:, 0]) == 0:
        return Regression(*(float("nan"),) * 6, n=len(both))
    fit = linregress(both[:, 0], both[:, 1])
    f = (fit.slope / fit.stderr) ** 2 if fit.stderr > 0 else float("nan")
    return Regression(
        intercept=float(fit.intercept),
        slope=float(fit.slope),
        slope_error=float(fit.stderr),
        r_squared=float(fit.rvalue**2),
        f=float(f),
        p=float(fit.pvalue),
        n=len(both),
    )
