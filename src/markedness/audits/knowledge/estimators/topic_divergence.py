"""How far apart the topics of subjects are: as published, and beyond what repeated crawls of one subject differ.

Salinas, Penafiel, McCormack & Morstatter (2023), "I'm not Racist but...", section 4.2 and equation 1, after
Mehrabi et al. (2021), Lawyers are Dishonest? Quantifying Representational Harms in Commonsense Knowledge
Resources, EMNLP. Their printed equation has a minus sign in front; its values are divergences, so the sign is a slip.

The Score is the quadratic divergence between mean topics (Rao 1982, Diversity and dissimilarity coefficients: a
unified approach, Theoretical Population Biology 21(1):24-43), estimated without bias as the minimum genetic distance
of Nei (1978, Genetics 89(3):583-590). A divergence of the topics of single crawls, such as Jensen-Shannon's, also grows
where one subject differs more from crawl to crawl than the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from markedness.audits.knowledge.estimators.classes import Floats, SubjectClass
from markedness.audits.knowledge.estimators.gaps import FAMILY, Claim, Crawls
from markedness.results import NAN, About, Score, named_contrasts
from markedness.stats.inference import (
    ALPHA,
    Estimator,
    Exchange,
    Null,
    claim,
    draws_needed,
    exchange_test,
    pair_detectable,
    pair_mean,
    pair_null,
)

CLAIM = Claim(
    "topic_divergence", "marked", "triples", "the model's topics for {marked} are not those for {reference}", "", 1
)  # fmt: skip
_METHOD = (
    "half the squared distance between mean shares of topics, from products of different crawls; p one-sided, marked "
    "subjects and reference exchanged in whole crawls{}; interval by leaving out one crawl; the topics are the model's "
    "own, so that models are not compared"
)


def published_relative_entropy(p: ArrayLike, q: ArrayLike) -> Floats:
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


def expected_relative_entropy(counts: ArrayLike) -> Floats:
    """Mean relative entropy of each subject from the pooled topics where subjects are permuted, nats.

    Exact, not drawn: the count of a topic among n of N permuted triples is hypergeometric.

    Parameters
    ----------
    counts
        Shape (subjects, topics).

    Returns
    -------
    float array, shape (subjects,)
        About (K - 1)(1 - n/N) / (2 n); NaN for a subject without triples.
    """
    from scipy.stats import hypergeom

    table = np.asarray(counts, dtype=int)
    pooled, sizes = table.sum(axis=0), table.sum(axis=1)
    total = int(pooled.sum())
    found = np.full(len(table), np.nan)
    for size in np.unique(sizes[sizes > 0]):
        x = np.arange(1, size + 1)
        share = x / size
        below = hypergeom.pmf(x[:, None], total, pooled[None, :], size)
        terms = share[:, None] * np.log(share[:, None] * total / np.maximum(pooled[None, :], 1))
        found[sizes == size] = float((below * terms).sum())
    return found


def pair_products(marked: Floats, reference: Floats) -> Floats:
    """Divergence between the mean topics of two subjects, as products of what differs in two crawls.

    Half the squared distance between mean shares, sum_k (p_k - q_k)^2 / 2 (Rao 1982, with the Gini-Simpson index): how
    much more probable it is that two triples of one subject have the same topic than that one of each have. The square
    of a mean difference is estimated by the products of the differences in two different crawls, to which neither the
    number of triples nor the spread of a subject between crawls adds.

    Parameters
    ----------
    marked, reference
        Shape (crawls, topics): triples of each topic. Every crawl with triples of both weighs alike.

    Returns
    -------
    float array, shape (crawls, crawls)
        Symmetric, in [-1, 1]; NaN in a crawl that lacks either. The mean over every two different crawls is unbiased
        for the divergence, which is in [0, 1]: 0 on average, hence as often negative, where mean shares are equal.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q = (counts / counts.sum(axis=1, keepdims=True) for counts in (marked, reference))
        return np.asarray((p - q) @ (p - q).T / 2)


class _Topics:
    """Some subjects of a class and their reference."""

    def __init__(self, one: SubjectClass, counts: Floats, subject: int | None = None) -> None:
        self.size = counts.sum(axis=2)
        self.marked = [place for place in one.marked if subject in (None, place) and self.size[:, place].any()]
        self.unmarked = one.unmarked
        self.contrasts = named_contrasts((one.subjects[place], one.reference) for place in self.marked)
        of_subjects = [pair_products(counts[:, place], counts[:, one.unmarked]) for place in self.marked]
        self.pairs = _mean_known(np.stack(of_subjects, axis=-1)) if of_subjects else np.zeros((0, 0))
        """Mean of the subjects, shape (crawls, crawls)."""

    @property
    def there(self) -> list[NDArray[np.bool_]]:
        """Crawls in which the reference has topics, and those in which a marked subject has."""
        return [self.size[:, self.unmarked] > 0, self.size[:, self.marked].sum(axis=1) > 0]

    @property
    def n(self) -> int:
        """Triples with a topic."""
        return int(self.size[:, [*self.marked, self.unmarked]].sum())

    @property
    def exchange(self) -> Exchange:
        """Whether the marked subjects and the reference are exchanged in each crawl that has both."""
        n = int(np.isfinite(np.diagonal(self.pairs)).sum())
        return Exchange.of(np.tile([0, 1], n), np.repeat(np.arange(n), 2))

    def exchanged(self, n: int, rng: np.random.Generator) -> Floats:
        """`pairs` with both sides exchanged in some crawls, shape (n, crawls, crawls): a product changes its sign."""
        signs = np.ones((n, len(self.pairs)))
        signs[:, np.isfinite(np.diagonal(self.pairs))] -= 2.0 * self.exchange.draw(n, rng)[:, ::2]
        return np.asarray(self.pairs * signs[:, :, None] * signs[:, None, :])


def topic_scores(classes: Sequence[SubjectClass], crawls: Crawls, rng: np.random.Generator) -> list[Score]:
    """The divergence of all marked subjects, of those of each class, and of each subject; none without topics.

    The null is that the mean topics of marked subjects are those of the reference. Whole crawls are exchanged, the
    marked subjects of a class at once: that leaves every subject as variable between crawls as it is.
    """
    counted = [(one, one.topic_counts) for one in classes if one.topic_counts is not None]
    topics = [(one, counts, _Topics(one, counts)) for one, counts in counted]
    topics = [(one, counts, found) for one, counts, found in topics if found.marked and found.there[0].any()]
    whole = _score(CLAIM.all_classes, [of_class for *_, of_class in topics], crawls, rng, FAMILY, **CLAIM.means())
    found = [_named(whole, [one for one, _ in counted], topics)]
    n_subjects = sum(len(of_class.marked) for *_, of_class in topics)
    for one, counts, of_class in topics:
        made = _score(one.key, [of_class], crawls, rng, len(topics), reference=one.reference, **CLAIM.means())
        found.append(_named(made, [one], topics))
        for place in of_class.marked:
            subject, reference = one.subjects[place], one.reference
            found.append(
                _score(
                    f"{one.key}: {subject}", [_Topics(one, counts, place)], crawls, rng, n_subjects, group=subject,
                    reference=reference, **CLAIM.means(subject, reference),
                )
            )  # fmt: skip
    return found


def _named(
    score: Score, classes: Sequence[SubjectClass], topics: Sequence[tuple[SubjectClass, Floats, _Topics]]
) -> Score:
    """With a caveat that names the marked subjects that have no topics, or whose reference has none."""
    there = {(one.key, place) for one, _, of_class in topics for place in of_class.marked}
    left = [one.subjects[place] for one in classes for place in one.marked if (one.key, place) not in there]
    return score.not_over(left, "the data have no topics of them or of what they are compared with")


def _score(
    item: str, topics: Sequence[_Topics], crawls: Crawls, rng: np.random.Generator, family: int, **about: Unpack[About]
) -> Score:
    """The divergence of the marked subjects of some classes, which weigh alike."""
    key = f"{CLAIM.key}.{item}"
    about |= {
        "unit": CLAIM.unit, "n": sum(one.n for one in topics), "over": "; ".join(one.contrasts for one in topics),
    }  # fmt: skip
    if not topics:
        return claim(key, NAN, method="no class has topics", **about)
    pairs = np.stack([one.pairs for one in topics])
    estimate = _weighted(_mean_known(np.moveaxis(pairs, 0, -1)))
    # To exchange a class in all of its crawls changes nothing.
    smallest_p = math.prod(2 * one.exchange.smallest_p for one in topics)
    exact = smallest_p <= ALPHA / max(family, FAMILY)

    def draw(n: int) -> Floats:
        return pair_mean(_mean_known(np.stack([one.exchanged(n, rng) for one in topics], axis=-1)))[0]

    def null() -> Null:
        if not exact:
            return pair_null(pairs)
        observed = float(estimate(np.ones((1, len(crawls.names))))[0])
        return exchange_test(observed, draw, draws_needed(family), False, smallest_p)

    made = crawls.claim(
        key, estimate, np.array([row for one in topics for row in one.there]), family, null,
        method=_METHOD.format("" if exact else ", approximated by chi-square, since so few crawls have few exchanges"),
        **about,
    )  # fmt: skip
    return made if math.isnan(made.detectable) else replace(made, detectable=pair_detectable(pairs, ALPHA / family))


def _weighted(pairs: Floats) -> Estimator:
    """Mean over pairs of different crawls under weights of the crawls; ``pairs`` has shape (crawls, crawls)."""
    there = np.isfinite(pairs) & ~np.eye(len(pairs), dtype=bool)
    filled = np.where(there, pairs, 0.0)

    def estimate(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((weights @ filled) * weights).sum(axis=1) / ((weights @ there) * weights).sum(axis=1))

    return estimate


def _mean_known(values: Floats) -> Floats:
    """Mean over the last axis of what is not NaN; NaN without any."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=-1) / known.sum(axis=-1))
