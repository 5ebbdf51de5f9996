"""Jensen-Shannon divergence between two bags of words, word by word."""

from __future__ import annotations

import numpy as np


def jensen_shannon(counts_p: np.ndarray, counts_q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each word's part in the divergence of two word distributions.

    Parameters
    ----------
    counts_p, counts_q
        Word counts, shape (..., n_words), non-negative; they are divided by their sums.

    Returns
    -------
    total : array, shape (...)
        The divergence, in bits, in [0, 1]; NaN where one side has no words.
    share : array, shape (..., n_words)
        contribution / total; sums to 1; NaN where the total is 0 or NaN.
    side : array, shape (..., n_words)
        sign(p - q): 1 where the word is relatively more frequent in p.

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
    return total, share, np.sign(p - q)


def _half(p: np.ndarray, m: np.ndarray) -> np.ndarray:
    """(p/2) log2(p/m), 0 where p is 0 and NaN where p is NaN."""
    return np.where(p == 0, 0.0, p / 2 * np.log2(p / m))
