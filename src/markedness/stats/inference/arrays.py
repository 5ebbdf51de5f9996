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
