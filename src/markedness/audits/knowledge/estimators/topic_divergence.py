"""How far apart the topics of subjects are: as published, and beyond what repeated crawls of one subject differ.

Salinas, Penafiel, McCormack & Morstatter (2023), "I'm not Racist but...", section 4.2 and equation 1, after
Mehrabi et al. (2021), Lawyers are Dishonest? Quantifying Representational Harms in Commonsense Knowledge
Resources, EMNLP. Their printed equation has a minus sign in front; its values are divergences, so the sign is a slip.

The Score compares subjects in pairs and across crawls. The square root of the Jensen-Shannon divergence is a metric of
Hilbert space (Endres & Schindelin 2003, IEEE Transactions on Information Theory 49(7):1858-1860), so the divergence
between two subjects less that within each, in other crawls, is an energy distance (Székely & Rizzo 2013, Journal of
Statistical Planning and Inference 143(8):1249-1272): 0 on average where both subjects have one distribution and equally
many triples in a crawl, to which `rarefied_divergence` draws them down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from markedness.audits.knowledge.estimators.classes import Floats, SubjectClass
from markedness.audits.knowledge.estimators.gaps import FAMILY, Claim, Crawls
from markedness.results import NAN, Meaning, Score, named_contrasts
from markedness.stats.inference import (
    Estimator,
    Exchange,
    Null,
    claim,
    draws_needed,
    exchange_test,
    pair_mean,
    studentised,
)

CLAIM = Claim(
    "topic_divergence", "marked", "triples", "the model's topics for {marked} are not those for {reference}", "", 1
)  # fmt: skip
N_RAREFIED = 20
"""Draws of equally many triples that the divergence is averaged over."""
_METHOD = (
    "Jensen-Shannon divergence to the reference less that within subjects, of different crawls, with as many triples "
    "of each subject as the smallest has in the crawl; p one-sided, {what}; "
    "interval by leaving out one crawl; the topics are the model's own, so that models are not compared"
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


def jensen_shannon(counts: ArrayLike) -> Floats:
    """Jensen-Shannon divergence of every two distributions, nats.

    Parameters
    ----------
    counts
        Shape (units, topics): counts or probabilities, divided by their sum.

    Returns
    -------
    float array, shape (units, units)
        In [0, ln 2]; 0 for the same distribution; NaN where a sum is 0.
    """
    from scipy.special import xlogy

    table = np.asarray(counts, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = table / table.sum(axis=1, keepdims=True)
    entropy = -xlogy(shares, shares).sum(axis=1)
    mixed = (shares[:, None, :] + shares[None, :, :]) / 2
    return np.asarray(-xlogy(mixed, mixed).sum(axis=2) - (entropy[:, None] + entropy[None, :]) / 2)


def rarefied_divergence(counts: Floats, rng: np.random.Generator) -> Floats:
    """`jensen_shannon` of every crawl and subject at one number of triples a crawl, nats.

    The divergence of observed topics depends on how many triples there are: a subject of six triples is on average far
    from one of twenty-four with the same topics. In each crawl all subjects are therefore drawn down, without
    replacement, to as many as the smallest has, and the divergence is averaged over `N_RAREFIED` such draws.

    Parameters
    ----------
    counts
        Shape (crawls, subjects, topics).
    rng
        Seeded generator; not used where the subjects of each crawl have equally many.

    Returns
    -------
    float array, shape (crawls x subjects, crawls x subjects)
        NaN for a subject without triples in a crawl.
    """
    sizes = counts.sum(axis=2)
    least = np.where(sizes > 0, sizes, np.inf).min(axis=1)
    flat = counts.reshape(-1, counts.shape[2])
    wanted = np.minimum(sizes, least[:, None]).ravel().astype(np.int64)
    if (wanted == sizes.ravel()).all():
        return jensen_shannon(flat)
    whole, total = flat.astype(np.int64), np.zeros((len(flat), len(flat)))
    for _ in range(N_RAREFIED):
        drawn = [rng.multivariate_hypergeometric(row, n) for row, n in zip(whole, wanted, strict=True)]
        total += jensen_shannon(np.array(drawn))
    return total / N_RAREFIED


def pair_excess(divergence: Floats, place: NDArray[np.intp], marked: Sequence[int], reference: int) -> Floats:
    """Divergence between subjects less that within them, for every two crawls.

    Parameters
    ----------
    divergence
        Shape (units, units), of every crawl and subject; NaN where a unit has no topics.
    place
        Shape (draws, crawls, subjects): the unit that is each subject in each crawl.
    marked, reference
        Places of the subjects that are compared with the reference.

    Returns
    -------
    float array, shape (draws, crawls, crawls, len(marked))
        Of crawls c and d: half of JS(marked in c, reference in d) + JS(reference in c, marked in d) less half of
        JS(marked in c, marked in d) + JS(reference in c, reference in d). Symmetric in c and d; 0 on average for
        c and d that differ where a subject and the reference have one distribution.
    """
    chosen, of_reference = place[:, :, list(marked)], place[:, :, reference]
    across = divergence[chosen[:, :, None, :], of_reference[:, None, :, None]]
    within = divergence[chosen[:, :, None, :], chosen[:, None, :, :]]
    of_itself = divergence[of_reference[:, :, None], of_reference[:, None, :]]
    return np.asarray((across + across.swapaxes(1, 2) - within - of_itself[..., None]) / 2)


class _Topics:
    """The divergences of one class, and its subjects exchanged within crawl."""

    def __init__(self, one: SubjectClass, counts: Floats, rng: np.random.Generator) -> None:
        n_crawls, n_subjects = counts.shape[:2]
        self.counts = counts
        self.divergence = rarefied_divergence(counts, rng)
        self.units = np.arange(n_crawls * n_subjects).reshape(n_crawls, n_subjects)
        self.size = counts.sum(axis=2)
        self.marked = [place for place in one.marked if self.size[:, place].any()]
        self.unmarked = one.unmarked
        self.contrasts = named_contrasts((one.subjects[place], one.reference) for place in self.marked)
        self.exchange = Exchange.of(
            np.tile(np.arange(n_subjects), n_crawls), np.repeat(np.arange(n_crawls), n_subjects)
        )
        # Marked subjects that are renamed alike in every crawl change nothing, nor does one for its reference.
        self.smallest_p = max(2, math.factorial(n_subjects - 1)) * self.exchange.smallest_p

    @property
    def there(self) -> list[NDArray[np.bool_]]:
        """Crawls in which the reference has topics, and those in which a marked subject has."""
        return [self.size[:, self.unmarked] > 0, self.size[:, self.marked].sum(axis=1) > 0]

    @property
    def compared(self) -> int:
        """Triples that are compared at a time: in each crawl as many of every subject as the smallest has."""
        there = self.size > 0
        least = np.where(there, self.size, np.inf).min(axis=1)
        return int(np.where(there.any(axis=1), least, 0) @ there.sum(axis=1))

    def observed(self) -> Floats:
        """Excess of the mean of the marked subjects, shape (1, crawls, crawls)."""
        return _mean_known(pair_excess(self.divergence, self.units[None], self.marked, self.unmarked))

    def of_pair(self, place: int, rng: np.random.Generator) -> Floats:
        """Excess of one subject, drawn down with the reference alone, shape (1, crawls, crawls)."""
        divergence = rarefied_divergence(self.counts[:, [self.unmarked, place]], rng)
        return _mean_known(pair_excess(divergence, np.arange(2 * len(self.units)).reshape(1, -1, 2), [1], 0))

    def exchanged(self, n: int, rng: np.random.Generator) -> Floats:
        """The same of all marked subjects, shape (n, crawls, crawls), with subjects exchanged within crawl."""
        labels = self.exchange.draw(n, rng).reshape(n, *self.units.shape)
        place = np.argsort(labels, axis=2) + self.units[:, :1]
        return _mean_known(pair_excess(self.divergence, place, self.marked, self.unmarked))


def topic_scores(classes: Sequence[SubjectClass], crawls: Crawls, rng: np.random.Generator) -> list[Score]:
    """The excess of all marked subjects, of those of each class, and of each subject; none without topics.

    For all marked subjects the null is that no subject of a class differs, and all are exchanged; for one subject it
    is that this subject is as the reference, and these two are exchanged: what the others say does not count.
    """
    topics = {one.key: _Topics(one, one.topic_counts, rng) for one in classes if one.topic_counts is not None}
    known = {key: found for key, found in topics.items() if found.marked and found.there[0].any()}
    named = {one.key: one for one in classes}
    found = [_score(CLAIM.all_classes, list(known.values()), crawls, rng, FAMILY, CLAIM.means())]
    n_subjects = sum(len(one.marked) for one in known.values())
    for key, of_class in known.items():
        one = named[key]
        found.append(_score(key, [of_class], crawls, rng, len(known), CLAIM.means(), reference=one.reference))
        for place in of_class.marked:
            found.append(_subject_score(one, of_class, place, crawls, rng, n_subjects))
    return found


def _score(
    key: str, topics: Sequence[_Topics], crawls: Crawls, rng: np.random.Generator, family: int, means: Meaning,
    reference: str = "",
) -> Score:  # fmt: skip
    """The excess of the marked subjects of some classes."""

    def draw(n: int) -> Floats:
        return _mean_known(np.stack([one.exchanged(n, rng) for one in topics], axis=-1))

    if not topics:
        return claim(f"{CLAIM.key}.{key}", NAN, unit=CLAIM.unit, method="no class has topics", **means)
    observed = _mean_known(np.stack([one.observed() for one in topics], axis=-1))
    smallest_p = math.prod(one.smallest_p for one in topics)
    made = crawls.claim(
        f"{CLAIM.key}.{key}", _weighted(observed[0]), np.array([row for one in topics for row in one.there]), family,
        lambda: _null(observed, draw, smallest_p, family),
        method=_METHOD.format(what="all subjects exchanged within crawl"),
        n=int(sum(one.size[:, [*one.marked, one.unmarked]].sum() for one in topics)), unit=CLAIM.unit,
        reference=reference, over="; ".join(one.contrasts for one in topics), **means,
    )  # fmt: skip
    compared, n = sum(one.compared for one in topics), int(sum(one.size.sum() for one in topics))
    if compared >= n / 2:
        return made
    return made.warned(
        "Some subjects have few triples, and all are compared at as many as the smallest has in each crawl: "
        f"{compared:,} of {n:,} at a time."
    )


def _subject_score(
    one: SubjectClass, topics: _Topics, place: int, crawls: Crawls, rng: np.random.Generator, family: int
) -> Score:
    """The excess of one subject, which is exchanged with its reference alone."""
    observed = topics.of_pair(place, rng)
    n_crawls = len(crawls.names)
    exchange = Exchange.of(np.tile([0, 1], n_crawls), np.repeat(np.arange(n_crawls), 2))

    def draw(n: int) -> Floats:
        # To exchange the two subjects in one of two crawls changes the sign of their excess.
        sign = 1.0 - 2.0 * exchange.draw(n, rng)[:, ::2]
        return np.asarray(observed * sign[:, :, None] * sign[:, None, :])

    subject, compared = one.subjects[place], [place, one.unmarked]
    return crawls.claim(
        f"{CLAIM.key}.{one.key}: {subject}", _weighted(observed[0]), topics.size[:, compared].T > 0, family,
        lambda: _null(observed, draw, 2 * exchange.smallest_p, family),
        method=_METHOD.format(what="the subject and the reference exchanged within crawl"),
        n=int(topics.size[:, compared].sum()), unit=CLAIM.unit, **CLAIM.means(subject, one.reference),
        group=subject, reference=one.reference,
    )  # fmt: skip


def _null(observed: Floats, draw: Callable[[int], Floats], smallest_p: float, family: int) -> Null:
    """One-sided exchange test of the excess over its jackknife standard error."""

    def statistics(pairs: Floats) -> Floats:
        estimate, error, _ = pair_mean(pairs)
        return np.column_stack([studentised(estimate, error), estimate])

    found = statistics(observed)[0, 0]
    return exchange_test(float(found), lambda n: statistics(draw(n)), draws_needed(family), False, smallest_p)


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
