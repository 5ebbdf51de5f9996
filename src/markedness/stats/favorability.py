"""Favourability of top attributes, and the regression of prestige on association.

Source: Hofmann et al. (2024), Nature 633, 147-154, "Favorability analysis" and "Employability analysis";
Supplementary Information, Figure 7 and Tables 6-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from markedness.stats.association import top


@dataclass(frozen=True)
class Favorability:
    """Favourability of the top attributes, in [-2, 2]: positive is favourable."""

    attributes: Sequence[str]
    weighted: float
    """sum f w / sum w; NaN where a weight is not positive, for then it is no mean."""
    unweighted: float
    """Mean of f."""


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
    rated = scores[scores.index.isin(ratings.dropna().index)]
    best = top(rated, n)
    if not best:
        return Favorability((), float("nan"), float("nan"))
    f, w = ratings[best].to_numpy(dtype=float), scores[best].to_numpy(dtype=float)
    weighted = float(f @ w / w.sum()) if (w > 0).all() else float("nan")
    return Favorability(tuple(best), weighted, float(f.mean()))


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
