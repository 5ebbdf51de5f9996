"""How far each group's distribution over topics is from that of all groups together, and from chance.

Salinas, Penafiel, McCormack & Morstatter (2023), "I'm not Racist but...", section 4.2 and equation 1, after
Mehrabi et al. (2021), Lawyers are Dishonest? Quantifying Representational Harms in Commonsense Knowledge
Resources, EMNLP. Their printed equation has a minus sign in front; its values are divergences, so the sign is a slip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

_CHUNK = 20_000_000
"""Permuted labels held at once."""


def relative_entropy(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64]:
    """Kullback-Leibler divergence sum_k p_k ln(p_k / q_k), nats; 0 ln 0 = 0.

    Parameters
    ----------
    p, q
        Counts or probabilities, shape (..., K); each is divided by its sum along the last axis.

    Returns
    -------
    float array, shape (...)
        At least 0, and 0 where both are the same distribution; infinite where p has what q lacks; NaN where a sum is 0.
    """
    from scipy.special import rel_entr

    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q = p / p.sum(axis=-1, keepdims=True), q / q.sum(axis=-1, keepdims=True)
    return np.asarray(rel_entr(p, q).sum(axis=-1))


@dataclass(frozen=True)
class Divergence:
    """Relative entropy of each group, with its null."""

    groups: pd.DataFrame
    """One group a row: group, n, kl, null_mean, null_low, null_high, excess, p. NaN where n is 0."""
    mean: float
    """Mean of kl weighted by n: the mutual information of group and topic, nats."""
    null: NDArray[np.float64]
    """The same under each permutation, shape (n_permutations,)."""

    @property
    def excess(self) -> float:
        """``mean`` less its mean under permutation."""
        return self.mean - float(self.null.mean()) if len(self.null) else float("nan")

    @property
    def p(self) -> float:
        """One-sided permutation p-value of ``mean``."""
        return float(upper_p(self.mean, self.null))


def topic_divergence(
    groups: ArrayLike,
    topics: ArrayLike,
    blocks: ArrayLike,
    n_permutations: int,
    rng: np.random.Generator,
    order: list[str] | None = None,
    confidence_level: float = 0.95,
) -> Divergence:
    """Relative entropy of each group's topics from the pooled topics, with a permutation null.

    The divergence is biased upward in small samples: with no difference at all it is about (K - 1) / (2 n). So
    the mean under permuted group labels is given, and the excess over it.

    Parameters
    ----------
    groups, topics
        Shape (n,): labels of any type; missing ones are not allowed.
    blocks
        Shape (n,): labels are permuted within a block.
    n_permutations
        Replicates of the null.
    rng
        Seeded generator.
    order
        Groups in the order of the result, those without rows included; None: as they first occur.
    confidence_level
        Of null_low and null_high, the quantiles of the null.

    Returns
    -------
    Divergence
        See there.
    """
    names = list(order) if order is not None else list(pd.unique(np.asarray(groups)))
    place = {name: index for index, name in enumerate(names)}
    codes = np.array([place[group] for group in np.asarray(groups)], dtype=np.int64)
    topic_codes, topic_names = pd.factorize(np.asarray(topics))
    if (topic_codes < 0).any():
        raise ValueError("topic_divergence: a topic is missing; leave those rows out")
    shape = (len(names), max(len(topic_names), 1))
    counts = _counts(codes[None, :], topic_codes, shape)[0]
    pooled, sizes = counts.sum(axis=0), counts.sum(axis=1)
    kl = relative_entropy(counts, pooled)
    null = np.empty((n_permutations, len(names)))
    step = max(1, _CHUNK // max(1, len(codes)))
    for start in range(0, n_permutations, step):
        n_rows = min(step, n_permutations - start)
        shuffled = codes[permutations_within(blocks, n_rows, rng)]
        null[start : start + n_rows] = relative_entropy(_counts(shuffled, topic_codes, shape), pooled)
    tail = (1 - confidence_level) / 2
    blank = np.full(len(names), np.nan)
    low, high = np.quantile(null, [tail, 1 - tail], axis=0) if n_permutations else (blank, blank)
    null_mean = null.mean(axis=0) if n_permutations else blank
    table = pd.DataFrame(
        {"group": names, "n": sizes, "kl": kl, "null_mean": null_mean, "null_low": low, "null_high": high,
         "excess": kl - null_mean, "p": upper_p(kl, null)}
    )  # fmt: skip
    share = sizes / max(sizes.sum(), 1)
    mean = float(np.nansum(kl * share)) if sizes.sum() else float("nan")
    return Divergence(table, mean, np.nansum(null * share, axis=1))


def permutations_within(blocks: ArrayLike, n_permutations: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers shuffled within blocks, many times at once.

    Parameters
    ----------
    blocks
        Shape (n,).
    n_permutations
        Rows of the result.
    rng
        Seeded generator.

    Returns
    -------
    int array, shape (n_permutations, n)
        Each row a permutation of 0 ... n - 1 that moves nothing out of its block.
    """
    codes, _ = pd.factorize(np.asarray(blocks), use_na_sentinel=False)
    by_block = np.argsort(codes, kind="stable")
    keys = rng.random((n_permutations, len(codes))) + codes[by_block]
    permuted = np.empty((n_permutations, len(codes)), dtype=np.int64)
    permuted[:, by_block] = by_block[np.argsort(keys, axis=1)]
    return permuted


def _counts(groups: NDArray[np.int64], topics: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[np.int64]:
    """Counts of shape (rows of groups, n_groups, n_topics)."""
    size = shape[0] * shape[1]
    cells = np.arange(len(groups))[:, None] * size + groups * shape[1] + topics
    return np.bincount(cells.ravel(), minlength=len(groups) * size).reshape(len(groups), *shape)


def upper_p(estimate: ArrayLike, null: ArrayLike) -> NDArray[np.float64]:
    """One-sided permutation p-value, (1 + #{null >= estimate}) / (1 + n); Phipson & Smyth (2010).

    Parameters
    ----------
    estimate
        Shape (...).
    null
        Shape (n, ...): n replicates.

    Returns
    -------
    float array, shape (...)
        NaN where the estimate is NaN or n is 0.
    """
    observed, replicates = np.asarray(estimate, dtype=float), np.asarray(null, dtype=float)
    p = (1 + (replicates >= observed - 1e-12).sum(axis=0)) / (1 + len(replicates))
    return np.where(np.isnan(observed) | (len(replicates) == 0), np.nan, p)
