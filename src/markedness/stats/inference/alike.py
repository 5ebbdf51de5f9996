"""The error of a difference if the units of all groups varied alike, whatever their size.

Of ten large units none may have a rare answer by luck: a group without one shows no error of its own.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from markedness.stats.inference.arrays import Codes, Floats, crossing


def alike_variance(ratios: Floats, totals: Floats, parts: Codes, weights: ArrayLike, cells: ArrayLike) -> float:
    """Variance of a weighted sum of the parts' ratios with the variance of the units' ratios pooled over all parts.

    Parameters
    ----------
    ratios, totals
        Shape (units,): the ratio of each unit and its denominator, above 0. A part's ratio is that of its sums.
    parts
        Shape (units,): 0 to n - 1.
    weights
        Shape (n,): of each part's ratio in the sum.
    cells
        Shape (units,): units vary around the mean of their cell; each lies in one part.
    """
    cell = crossing(cells)
    n = np.bincount(cell)
    left = ratios - (np.bincount(cell, ratios) / n)[cell]
    sizes = np.bincount(parts, totals**2) / np.square(np.bincount(parts, totals))
    return float(np.square(left).sum() / max(len(left) - len(n), 1) * (np.square(weights) @ sizes))


def within_clusters(clusters: ArrayLike, parts: Codes, totals: Floats) -> bool:
    """Whether parts are compared within clusters: those of several parts hold half of each part or more.

    Arrays have shape (units,).
    """
    found = pd.DataFrame({"cluster": np.asarray(clusters, dtype=object), "part": parts, "total": totals})
    several = found.groupby("cluster")["part"].transform("nunique").gt(1)
    shared = found["total"].where(several, 0.0).groupby(found["part"]).sum()
    return bool((shared / found.groupby("part")["total"].sum()).min() >= 0.5)
