"""Words that distinguish one set of texts from another: weighted log-odds with an informative prior."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Prior = Literal["corpus", "others", "compared", "uninformative"]

_FLOOR = 0.5
"""Prior count of a word that the prior's texts lack; without one its log-odds would be infinite."""


def prior_counts(
    corpus: NDArray[np.float64],
    target: NDArray[np.float64],
    reference: NDArray[np.float64],
    prior: Prior = "corpus",
    scale: float = 1.0,
) -> NDArray[np.float64]:
    """Prior count of each word, the a of `log_odds`.

    Parameters
    ----------
    corpus, target, reference
        Word counts of the whole corpus and of the two sets, broadcastable to (..., n_words).
    prior
        ``"corpus"``: the whole corpus, target and reference included (published tables); ``"others"``: the
        corpus without the two sets (the paper's wording); ``"compared"``: the two sets alone;
        ``"uninformative"``: one occurrence of every word.
    scale
        Multiplies the counts: a weaker (< 1) or stronger (> 1) prior.

    Notes
    -----
    A word that the prior's texts lack gets half an occurrence, as long as it is in the compared sets.
    """
    if prior == "corpus":
        return corpus * scale + np.zeros_like(target + reference)
    if prior == "uninformative":
        return np.full_like(target + reference, scale, dtype=float)
    seen = target + reference
    base = seen if prior == "compared" else np.maximum(corpus - seen, 0)
    return scale * np.where((base == 0) & (seen > 0), _FLOOR, base)


class LogOdds(NamedTuple):
    """Per word, (..., n_words); positive: more typical of the target; NaN where it cannot be computed."""

    log_ratio: NDArray[np.float64]
    """ln(odds in the target / odds in the reference), smoothed by the prior; natural logarithm."""
    z: NDArray[np.float64]
    """log_ratio divided by its standard error."""


def log_odds(
    target: NDArray[np.float64],
    reference: NDArray[np.float64],
    prior: NDArray[np.float64],
    target_total: NDArray[np.float64] | None = None,
    reference_total: NDArray[np.float64] | None = None,
    prior_total: NDArray[np.float64] | None = None,
) -> LogOdds:
    """Log-odds of each word in the target texts against the reference texts.

    Parameters
    ----------
    target, reference
        Word counts y1, y2, shape (..., n_words).
    prior
        Prior counts a, shape (..., n_words), see `prior_counts`.
    target_total, reference_total, prior_total
        n1, n2 and a0, shape (...); the sums over words unless given. Give them when words were left out.

    Returns
    -------
    LogOdds
        Both arrays (..., n_words). NaN where a word has neither count nor prior, or where one side has no words.

    Notes
    -----
    l_i = (y_i + a) / (n_i + a0 - y_i - a), log_ratio = ln l1 - ln l2, z = log_ratio / sqrt(1/(y1 + a) + 1/(y2 + a)).

    References
    ----------
    Monroe, Colaresi & Quinn (2008), eqs. 16, 18, 22; Cheng, Durmus & Jurafsky (2023), section 3.2.
    """
    n1 = (target.sum(axis=-1) if target_total is None else target_total)[..., None]
    n2 = (reference.sum(axis=-1) if reference_total is None else reference_total)[..., None]
    a0 = (prior.sum(axis=-1) if prior_total is None else prior_total)[..., None]
    first, second = target + prior, reference + prior
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(first / (n1 + a0 - first)) - np.log(second / (n2 + a0 - second))
        z = log_ratio / np.sqrt(1.0 / first + 1.0 / second)
    known = (n1 > 0) & (n2 > 0) & np.isfinite(z)
    return LogOdds(np.where(known, log_ratio, np.nan), np.where(known, z, np.nan))
