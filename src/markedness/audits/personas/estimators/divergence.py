"""How much each unit contributes to the divergence of a group's words from those of its references.

Words are those of texts cut to equal lengths, see `markedness.audits.personas.estimators.lengths`.

Shapes: u units, C combinations, G groups, V words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.language.groups import Group
from markedness.stats.inference import Floats


def divergence_influences(corpus: Corpus, groups: Sequence[Group]) -> tuple[Floats, Floats]:
    """Plug-in divergence of each group in bits, (G,), and what each unit contributes to it, (u, G), to first order."""
    return _influences(corpus, groups, corpus.units.combination)


def excess_influences(
    corpus: Corpus, groups: Sequence[Group], rng: np.random.Generator, n_draws: int = 20
) -> tuple[Floats, Floats]:
    """Plug-in divergence, (G,), and what a unit contributes to it minus its mean under exchange of labels, (u, G).

    A text with many rare words adds to the divergence whatever its group, and so does it under exchange: only what is
    left says something of the group. The mean is over some exchanges.

    To first order alone these vary too little, as most words are rare. What changes when a unit is left out varies too
    much, as it holds terms of second order twice (Efron & Stein 1981, Annals of Statistics 9(3):586-596). So what
    leaving out adds to the first order counts with half its variance.
    """
    drawn = corpus.units.exchange().draw(n_draws, rng)
    labels = np.unique(corpus.units.combination)
    under_null = sum(_influences(corpus, groups, labels[codes])[1] for codes in drawn) / n_draws
    bits, first_order = divergence_influences(corpus, groups)
    return bits, first_order - under_null + (left_out(corpus, groups) - first_order) / np.sqrt(2)


def left_out(corpus: Corpus, groups: Sequence[Group]) -> Floats:
    """The plug-in divergence of each group minus its value without a unit, (u, G).

    The words of the unit are counted anew. The shares of all other words grow by one factor, and their sum is expanded
    in it, to third order. A unit that is all of a side adds nothing.
    """
    combination, counts = corpus.units.combination, corpus.equal_counts.tocoo()
    pooled, sides = _sides(corpus, groups, combination)
    lengths = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    found = np.zeros((len(combination), len(groups)))
    for place, group in enumerate(zip(*sides, strict=True)):
        for own, other in (group, group[::-1]):
            total, weight = float((own @ pooled).sum()), own[combination]
            left = total - weight * lengths
            inside = (weight > 0) & (left > 0)
            grown = np.where(inside, weight * lengths / np.where(inside, left, 1.0), 0.0)
            p, q = own @ pooled / total, other @ pooled / (other @ pooled).sum()
            orders = _orders(p, q)
            powers = np.column_stack([grown, grown**2 / 2, grown**3 / 6])
            read = inside[counts.row]
            row, word, count = counts.row[read], counts.col[read], counts.data[read]
            fewer = np.maximum(p[word] - weight[row] * count / total, 0.0) * (1 + grown[row])
            of_words = _bits(fewer, q[word]) - _bits(p[word], q[word]) - (powers[row] * orders[word]).sum(axis=1)
            without = np.bincount(row, of_words, len(combination)) + powers @ orders.sum(axis=0)
            found[:, place] -= without
    return found


def _bits(p: Floats, q: Floats) -> Floats:
    """Divergence of each word in bits, of its shares on two sides."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sum(np.where(x > 0, x * np.log2(2 * x / (p + q)), 0.0) for x in (p, q)) / 2)


def _orders(p: Floats, q: Floats) -> Floats:
    """First to third derivative of `_bits` by a factor of ``p``, at 1, (V, 3)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = np.where(p > 0, p / (p + q), 1.0)
    first = p * np.log2(2 * ahead) / 2
    return np.column_stack([first, p * (1 - ahead) / np.log(4), -p * (1 - ahead**2) / np.log(4)])


def _sides(
    corpus: Corpus, groups: Sequence[Group], combination: NDArray[np.int64]
) -> tuple[Floats, tuple[Floats, Floats]]:
    """Words of each combination, (C, V), and the weights of combinations in targets and in references, (G, C) each."""
    counts, n = corpus.equal_counts, len(combination)
    contrasts = corpus.grouping.contrasts_of(groups)
    places = (combination, np.arange(n))
    indicator = scipy.sparse.csr_matrix((np.ones(n), places), (corpus.grouping.n_combinations, n))
    sides = (contrasts.targets[contrasts.starts], np.add.reduceat(contrasts.references, contrasts.starts, axis=0))
    return np.asarray((indicator @ counts).todense(), dtype=float), sides


def _influences(corpus: Corpus, groups: Sequence[Group], combination: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Where units have these combinations.

    The derivative of the divergence by the share of a word in the target is log2(p/m) / 2, in the references
    log2(q/m) / 2; a unit moves the share by its count minus what its length lets expect, over all words of that side.
    """
    counts = corpus.equal_counts
    pooled, sides = _sides(corpus, groups, combination)
    lengths = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        totals = [(side @ pooled).sum(axis=1) for side in sides]
        shares = [side @ pooled / total[:, None] for side, total in zip(sides, totals, strict=True)]
        m = (shares[0] + shares[1]) / 2
        slopes = [np.where(share > 0, np.log2(share / m) / 2, 0.0) for share in shares]
        expected = [(share * slope).sum(axis=1) for share, slope in zip(shares, slopes, strict=True)]
        influences = sum(
            side.T[combination] / total * (counts @ slope.T - lengths[:, None] * mean)
            for side, total, slope, mean in zip(sides, totals, slopes, expected, strict=True)
        )
    return expected[0] + expected[1], np.asarray(influences)
