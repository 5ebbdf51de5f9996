"""Types of the arrays and functions that the engine takes and returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Estimator = Callable[[Floats], Floats]
"""Weights of the units, shape (replicates, units) -> estimates, shape (replicates,)."""
LeaveOut = Callable[[Codes, int], Floats]
UNLIKE, NO_TEST = 0.1, 0.2
"""Above these shares of rows that would have to be of another stratum a difference has a caveat, and no test."""
_SHUFFLES = 199


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


def unlike_shares(side: Codes, stratum: Codes, within: Codes | None = None) -> float:
    """How the shares of the strata differ between the last side and the others, which weigh alike, from 0 to 1.

    Half the sum of the differences in the shares, less (in squares) its mean where the sides of the rows are shuffled;
    0 where one of twenty shuffles is as unlike. What is at most `UNLIKE` is as it is, whatever chance makes of it.

    Parameters
    ----------
    side, stratum
        Codes of each row, from 0, shape (n,); each side has rows.
    within
        Codes of groups of rows: of the most unlike one beyond chance, where sides are shuffled within groups and
        one of a hundred shuffles has a group as far beyond its mean, in its own standard deviations. Groups that not
        each side has tell nothing.
    """
    stratum = np.unique(stratum, return_inverse=True)[1]
    part = np.zeros(len(side), dtype=np.intp) if within is None else np.unique(within, return_inverse=True)[1]
    shape = (int(part.max()) + 1, int(stratum.max()) + 1, int(side.max()) + 1)
    cell, places = part * shape[1] + stratum, np.argsort(part, kind="stable")

    def distances(of: Codes) -> Floats:
        counts = np.bincount(cell * shape[2] + of, minlength=math.prod(shape)).reshape(shape)
        n = counts.sum(axis=1, keepdims=True)
        shares: Floats = counts / np.maximum(n, 1)
        apart = abs(shares[..., :-1].mean(axis=-1) - shares[..., -1]).sum(axis=1) / 2
        return np.where((n > 0).all(axis=(1, 2)), apart, 0.0)

    def shuffled() -> Codes:
        if within is None:
            return rng.permutation(side)
        made = np.empty_like(side)
        made[places] = side[np.argsort(part + rng.random(len(side)))]
        return made

    found, rng = distances(side), np.random.default_rng(0)
    if found.max() <= UNLIKE:
        return float(found.max())
    by_chance = np.stack([distances(shuffled()) for _ in range(_SHUFFLES)])
    mean, spread = by_chance.mean(axis=0), by_chance.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        beyond, *others = np.nan_to_num((np.vstack([found, by_chance]) - mean) / spread, posinf=0.0)
    limit = np.quantile(np.max(others, axis=1), 0.95 if within is None else 0.99)
    return float(np.sqrt(np.maximum(0.0, found**2 - mean**2))[beyond > limit].max(initial=0.0))
