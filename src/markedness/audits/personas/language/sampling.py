"""Evenly spaced choices where there are more texts than a measure can take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def every_nth(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most ``most`` of the places, evenly spaced, the first and the last among them."""
    if len(places) <= most:
        return places
    chosen: NDArray[np.int64] = places[np.linspace(0, len(places) - 1, most).round().astype(np.int64)]
    return chosen
