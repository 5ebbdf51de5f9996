"""Jensen-Shannon divergence between two bags of words, word by word."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Divergence(NamedTuple):
    """Jensen-Shannon divergence of counts p from counts q, and each word's part in it."""

    total: NDArray[np.float64]
    """In bits, in [0, 1], (...); NaN where one side has no words."""
    contribution: NDArray[np.float64]
    """Of each word to the total, in bits, at least 0, (..., n_words); NaN where the total is NaN."""
    share: NDArray[np.float64]
    """contribution / total, (..., n_words); sums to 1; NaN where the total is 0 or NaN."""
    side: NDArray[np.float64]
    """sign(p - q), (..., n_words): 1 where the word is relatively more frequent in p."""


def jensen_shannon(counts_p: NDArray[np.float64], counts_q: NDArray[np.float64]) -> Divergence:
    """Each word's part in the divergence of two word distributions.

    Parameters
    ----------
    counts_p, counts_q
        Word counts, shape (..., n_words), at least 0; they are divided by their sums.

    Notes
    -----
    With m = (p + q)/2 the contribution of a word is (p/2) log2(p/m) + (q/2) log2(q/m), 0 log 0 = 0. The total
    is the square of ``scipy.spatial.distance.jensenshannon(p, q, base=2)``.

    References
    ----------
    Gallagher et al. (2021), eqs. 9-11; Cheng, Durmus & Jurafsky (2023), section 3.2.1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        p = counts_p / counts_p.sum(axis=-1, keepdims=True)
        q = counts_q / counts_q.sum(axis=-1, keepdims=True)
        m = (p + q) / 2
        contribution = _half(p, m) + _half(q, m)
        total = contribution.sum(axis=-1)
        share = contribution / total[..., None]
    return Divergence(total, contribution, share, np.sign(p - q))


def _half(p: NDArray[np.float64], m: NDArray[np.float64]) -> NDArray[np.float64]:
    """(p/2) log2(p/m), 0 where p is 0 and NaN where p is NaN."""
    return np.where(p == 0, 0.0, p / 2 * np.log2(p / m))
