"""Part of the engine (`markedness.stats.inference`): paired differences tested by exchanging their signs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from markedness.stats.inference import Floats, Null, exchange_test


def flip_test(
    parts: Floats,
    statistic: Callable[[Floats], Floats],
    rng: np.random.Generator,
    n_draws: int,
    two_sided: bool = True,
) -> Null:
    """Test of paired differences: the signs of whole clusters exchanged.

    Parameters
    ----------
    parts
        Shape (clusters, k): what each cluster adds to k sums; exact where the two sides of a cluster could be swapped.
    statistic
        Sums, shape (draws, k) -> the statistic, shape (draws,).
    rng
        Seeded generator; not used where all signs are enumerated.
    n_draws
        At most so many; fewer arrangements are all enumerated.
    two_sided
        As in `exchange_test`.

    Returns
    -------
    Null
        p = 1 where nothing differs; ``smallest_p`` is that of clusters which all differ.
    """
    smallest = 0.5 ** (len(parts) - 1) if len(parts) else 1.0
    differ = parts[(np.abs(parts) > 1e-12).any(axis=1)]
    if not len(differ):
        return Null(p=1.0, smallest_p=smallest)
    observed = float(statistic(differ.sum(axis=0, keepdims=True))[0])
    if len(differ) - 1 < math.log2(n_draws):
        sums = differ[:1]
        for part in differ[1:]:
            sums = np.concatenate([sums + part, sums - part])
        made = np.concatenate([statistic(sums), statistic(-sums)])
        size, null = (abs(observed), np.abs(made)) if two_sided else (observed, made)
        p = float((null >= size - 1e-10 * max(1.0, abs(size))).mean())
        low, high = np.quantile(made, [0.025, 0.975])
        return Null(p, float(made.mean()), float(low), float(high), len(made), smallest, float(made.std()))

    def draw(n: int) -> Floats:
        return statistic((rng.integers(0, 2, size=(n, len(differ))) * 2.0 - 1.0) @ differ)

    return exchange_test(observed, draw, n_draws, two_sided, smallest)
