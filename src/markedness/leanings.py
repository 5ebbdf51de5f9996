"""Generators that belong to what they are for, the same in every run, and the leanings that scripted models draw.

Whoever draws for a study names its seed among the values.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from markedness.records import Scalar


def own(*of: Scalar) -> np.random.Generator:
    """A generator that belongs to these values alone."""
    digest = hashlib.sha256("/".join(map(str, of)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@lru_cache(maxsize=1 << 16)
def leaning(*of: Scalar) -> float:
    """A draw from the standard normal distribution that belongs to these values alone."""
    return float(own(*of).normal())
