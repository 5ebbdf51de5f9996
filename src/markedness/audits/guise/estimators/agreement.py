"""Agreement of a model's ranking of attributes with the stereotypes that humans named: mean average precision.

Source: Hofmann et al. (2024), Nature 633, 147-154, "Agreement analysis" in Methods and Supplementary Information.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.audits.guise.estimators.association import top

Floats = NDArray[np.float64]
DEPTH = 5
"""How many human stereotypes count."""


def human_top(percentages: pd.Series, depth: int = DEPTH) -> list[str]:
    """The attributes that most participants assigned, best first; ties keep alphabetical order.

    Parameters
    ----------
    percentages
        Indexed by attribute, already restricted to the attributes that the model scored.
    """
    return top(percentages[percentages > 0], depth)


def mean_average_precision(scores: ArrayLike, attributes: Sequence[str], human: Sequence[str]) -> Floats:
    """Agreement of rankings with the human top k, averaged over k = 1..len(human).

    With the model's ranking x_(1), x_(2), ... over all attributes and H_k the human top k::

        AP_k = (1/k) sum over ranks i with x_(i) in H_k of (hits among ranks 1..i) / i
        agreement = mean over k of AP_k

    Parameters
    ----------
    scores : (..., n) array
        Score of each attribute, any number of rankings at once; NaN ranks last.
    attributes
        Their n names; ties of score rank in alphabetical order.
    human
        The human stereotypes, best first; those that are not among the attributes are an error.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; 1 when the model's first len(human) attributes are the human ones in their order. NaN
        where no attribute has a score, or no human stereotype is given.
    """
    values = np.asarray(scores, dtype=float)
    names = list(attributes)
    missing = [word for word in human if word not in names]
    if missing:
        raise ValueError(f"mean_average_precision: '{missing[0]}' is not among the attributes; restrict both first")
    agreement = agreement_of_ranks(ranks(values, names)[..., [names.index(word) for word in human]])
    return np.where(np.isnan(values).all(axis=-1), np.nan, agreement)


def ranks(values: Floats, names: Sequence[str]) -> NDArray[np.int64]:
    """Rank of each attribute (last axis), 1 for the highest score; ties by the alphabet, NaN last."""
    alphabet = np.argsort(np.asarray(names, dtype=object), kind="stable")
    keys = np.where(np.isnan(values), np.inf, -values)[..., alphabet]
    order = alphabet[np.argsort(keys, axis=-1, kind="stable")]
    found = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(found, order, np.broadcast_to(np.arange(1, len(names) + 1), values.shape), axis=-1)
    return found


def agreement_of_ranks(ranks: NDArray[np.generic]) -> Floats:
    """Mean over k of AP_k from the ranks (..., depth) of the human stereotypes, best first.

    A hit of H_k at rank r adds (1 + hits before it) / r to k AP_k. So of two hits the later adds one over its rank, and
    all of the k-th adds to AP_k, AP_(k+1), ..., divided by k, k + 1, ...
    """
    depth = ranks.shape[-1]
    if not depth:
        return np.full(ranks.shape[:-1], np.nan)
    inverse = [1 / ranks[..., k].astype(float) for k in range(depth)]
    total = np.zeros(ranks.shape[:-1])
    for k, own in enumerate(inverse):
        added = own.copy()
        for other in inverse[:k]:
            added += np.minimum(own, other)
        total += added * sum(1 / n for n in range(k + 1, depth + 1))
    return np.asarray(total / depth)


def expected_agreement(n: int, depth: int = DEPTH) -> float:
    """Exact mean of `mean_average_precision` over all orders of n attributes.

    E[AP_k] = (H_n + (k - 1)/(n - 1) (n - H_n)) / n with H_n the n-th harmonic number; 0.1628 for 37 and 5.
    """
    if n < max(depth, 2):
        return float("nan")
    harmonic = float(np.sum(1.0 / np.arange(1, n + 1)))
    return float(np.mean([(harmonic + (k - 1) / (n - 1) * (n - harmonic)) / n for k in range(1, depth + 1)]))


def published_random_agreement(n: int, rng: np.random.Generator, n_orders: int = 10_000, depth: int = DEPTH) -> Floats:
    """Agreement of random orders of n attributes, shape (n_orders,): the paper's chance sample."""
    orders = rng.permuted(np.tile(np.arange(1, n + 1), (n_orders, 1)), axis=1)
    return agreement_of_ranks(orders[:, :depth])
