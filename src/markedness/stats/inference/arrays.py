"""Types of the arrays and functions that the engine takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Estimator = Callable[[Floats], Floats]
"""Weights of the units, shape (replicates, units) -> estimates, shape (replicates,)."""
LeaveOut = Callable[[Codes, int], Floats]


def factorized(values: ArrayLike) -> tuple[Codes, Sequence[object]]:
    """Code of each value, from 0 in the order in which they appear, and the value of each code."""
    codes, labels = pd.factorize(np.asarray(values), use_na_sentinel=False)
    return codes.astype(np.intp), list(labels)


def crossing(*factors: ArrayLike) -> Codes:
    """Code of each crossing of the values of one or more factors, from 0 in the order in which they appear."""
    codes, *others = (factorized(values)[0] for values in factors)
    for other in others:
        codes = factorized(codes * (other.max(initial=0) + 1) + other)[0]
    return codes


def equal_shares(side: Codes, stratum: Codes) -> Floats | None:
    """Weights by which all sides have the same shares of the strata; None where they have them already.

    Those of Mantel & Haenszel (1959): differences of weighted means are the mean of the differences within strata, each
    weighing the inverse sum of the inverse numbers of its sides.

    Parameters
    ----------
    side, stratum
        Codes of each row, from 0, shape (n,).

    Returns
    -------
    float array, shape (n,), or None
        Of each row; those of a side sum to how many of its rows are in strata that all sides have. 0 in other strata.
    """
    n = np.zeros((int(side.max(initial=-1)) + 1, int(stratum.max(initial=-1)) + 1))
    np.add.at(n, (side, stratum), 1.0)
    shares = n / n.sum(axis=1, keepdims=True)
    if len(n) < 2 or np.ptp(shares, axis=0).max() < 1e-9:
        return None
    with np.errstate(divide="ignore"):
        weight = 1 / (1 / n).sum(axis=0)
    if not weight.any():
        return np.zeros(len(side))
    of_side = np.where(weight > 0, n, 0.0).sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((weight / weight.sum() * of_side / n)[side, stratum])
