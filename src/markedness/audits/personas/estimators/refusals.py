"""Texts that are missing (refused, failed, empty) more often for some groups than for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.units import Units
from markedness.audits.personas.language.groups import Fixed, Grouping, unlike
from markedness.results import Score, named_contrasts, not_estimated
from markedness.stats.inference import (
    UNLIKE,
    Exchange,
    Floats,
    Null,
    claim,
    exchange_test,
    group_difference_score,
    null_detectable,
    studentised,
    withdrawn,
)

_KEY = "refusals.difference"
_UNEQUAL = "texts are missing more often for some groups than for others"


def refusal_difference(
    corpus: Corpus, family: int, most: int, rng: np.random.Generator, confidence_level: float = 0.95
) -> Score:
    """Mean over the marked values of the absolute difference in missing texts from the unmarked value, beyond chance.

    Absolute, since refusals of one group may be more than those of its unmarked group on one axis and less on another.
    Labels are exchanged among all requests of a prompt; the estimate is less its mean under exchange. Where clusters
    hold unequal numbers of requests, a small group may be given a large one: each difference is tested over its error,
    and p is no smaller than that of the t of the interval.
    """
    hits, grouping, units = corpus.missing, corpus.asked_grouping, corpus.asked
    single = [g for g in grouping.compared if g.marked and len(g.fixed) == 1]
    untested = [g for g in single if units.smallest_p(g) >= 1]
    single = [g for g in single if g not in untested]
    pairs = [(g.fixed, g.references[0][1]) for g in single]
    if "refusals" in corpus.unread:
        return not_estimated(_KEY, corpus.unread["refusals"])
    names = ", ".join(g.name for g in untested)
    both = "requests for the group and for what it is compared with"
    left = f"not over {names}: no {units.apart(untested)} has {both}" if untested else ""
    if not pairs:
        return not_estimated(_KEY, left or "there is no marked group to compare")
    signs = np.array([grouping.fits(own) for own, _ in pairs]), np.array([grouping.fits(other) for _, other in pairs])
    by_unit, copies = _by_unit(units, hits), units.copies
    exchange, statistics = units.exchange(), _equal if np.ptp(copies) == 0 else _over_error
    differences = _differences(units.combination[None, :], by_unit, copies, signs)[0]
    observed = float(np.abs(differences).mean())
    tested = float(statistics(units.combination[None, :], by_unit, copies, signs)[0, 0])
    if not 0 < hits.mean() < 1:
        null = Null(p=1.0, mean=0.0, low=0.0, high=0.0)
    elif exchange.smallest_p >= 1:
        null = Null()
    else:
        draw = _draws(exchange, partial(statistics, hits=by_unit, copies=copies, signs=signs), rng)
        null = exchange_test(tested, draw, most, False, exchange.smallest_p)
    found = units.spread(_influences(grouping, units, by_unit, pairs, differences))
    if np.ptp(copies) > 0:  # at most: as if the differences of all values varied together
        alike = _moments(units.combination[None, :], by_unit, copies, signs)[2]
        found = found.at_least(float(np.sqrt(alike).mean()), found.df)
        by_units = found.p(observed - null.mean) / 2
        if np.isfinite(by_units):  # one-sided
            null = replace(null, p=max(null.p, by_units if observed > null.mean else 1 - by_units))
    excess = replace(null, mean=null.mean - null.mean, low=null.low - null.mean, high=null.high - null.mean)
    made = claim(
        _KEY, observed - null.mean, found, excess,
        family=family, confidence_level=confidence_level,
        method=units.method("labels of requests exchanged within prompt, one-sided").replace("one text", "one request")
        + (f"; {left}" if left else ""),
        missing_column=units.missing_column, smallest_effect=null_detectable(null, family), comparable=True,
        n=len(hits), n_missing=int(hits.sum()), unit="requests", positive=_UNEQUAL, worse=1,
        over=named_contrasts((g.name, g.references[0][0]) for g in single),
    )  # fmt: skip
    unlike_by = {group.name: grouping.unlike(group) for group in single}
    made = _alike(replace(made, chance=null.mean), unlike_by, units.copies)
    return made.warned(f"{left[0].upper()}{left[1:]}.") if left else made


def _by_unit(units: Units, hits: Floats) -> Floats:
    return np.asarray(np.bincount(units.of_text, hits, len(units)), dtype=float)


def _equal(drawn: NDArray[np.intp], hits: Floats, copies: Floats, signs: tuple[Floats, Floats]) -> Floats:
    """Mean absolute difference, (draws, 1)."""
    return np.asarray(np.abs(_differences(drawn, hits, copies, signs)).mean(axis=1, keepdims=True))


def _over_error(drawn: NDArray[np.intp], hits: Floats, copies: Floats, signs: tuple[Floats, Floats]) -> Floats:
    """Mean absolute difference over its standard error, and the mean absolute difference, (draws, 2).

    The error is of clusters, and at least that of independent requests with the share of both sides together, and of
    clusters whose shares vary alike on both sides, whatever their size: where by luck none of a few is missing, a side
    has no variance.
    """
    differences, variance, alike = _moments(drawn, hits, copies, signs)
    t = studentised(differences, np.sqrt(np.maximum(variance, alike)))
    return np.column_stack([np.abs(t).mean(axis=1), np.abs(differences).mean(axis=1)])


def _moments(
    drawn: NDArray[np.intp], hits: Floats, copies: Floats, signs: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats]:
    """Differences, their variances, and these if clusters of both sides varied alike, each (draws, values)."""
    own = hits / copies
    parts = (hits, copies, hits**2, hits * copies, copies**2, np.ones(len(hits)), own, own**2)
    sums = [_by_combination(drawn, part, signs[0].shape[1]) for part in parts]
    top, below, *squares = (np.stack([part @ side.T for side in signs]) for part in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        share, both = top / below, top.sum(axis=0) / below.sum(axis=0)
        variance = (squares[0] - 2 * share * squares[1] + share**2 * squares[2]) / below**2
        variance = np.maximum(variance, both * (1 - both) / below).sum(axis=0)
        n, first, second = squares[3:]
        pooled = (second - 2 * share * first + share**2 * n).sum(axis=0) / np.maximum(n.sum(axis=0) - 2, 1e-9)
        alike = pooled * (squares[2] / below**2).sum(axis=0)
    return share[0] - share[1], variance, alike


def _differences(drawn: NDArray[np.intp], hits: Floats, copies: Floats, signs: tuple[Floats, Floats]) -> Floats:
    """Share of missing texts of each marked value minus that of its unmarked one, (draws, values)."""
    top, below = (_by_combination(drawn, part, signs[0].shape[1]) for part in (hits, copies))
    with np.errstate(invalid="ignore", divide="ignore"):
        own, other = ((top @ side.T) / (below @ side.T) for side in signs)
    return np.asarray(own - other)


def _by_combination(drawn: NDArray[np.intp], values: Floats, n: int) -> Floats:
    """Sums over the units with each combination, (draws, n)."""
    place = (drawn + n * np.arange(len(drawn))[:, None]).ravel()
    sums = np.bincount(place, np.tile(values, len(drawn)), len(drawn) * n)
    return np.asarray(sums.reshape(len(drawn), n), dtype=float)


def _draws(exchange: Exchange, statistics: Callable[..., Floats], rng: np.random.Generator) -> Callable[[int], Floats]:
    step = max(1, 2_000_000 // max(1, len(exchange.labels)))

    def draw(n: int) -> Floats:
        return np.concatenate([statistics(exchange.draw(min(step, n - start), rng)) for start in range(0, n, step)])

    return draw


def _influences(
    grouping: Grouping, units: Units, hits: Floats, pairs: Sequence[tuple[Fixed, Fixed]], differences: Floats
) -> Floats:
    """What each cluster contributes to the mean absolute difference, (clusters,)."""
    influences = np.zeros(len(units))
    for (own, other), difference in zip(pairs, differences, strict=True):
        for fixed, sign in ((own, 1.0), (other, -1.0)):
            inside = grouping.fits(fixed)[units.combination]
            n = float(inside @ units.copies)
            residual = inside * (hits - units.copies * float(inside @ hits) / n)
            influences += np.sign(difference) * sign * residual / n / len(pairs)
    return units.clustered(influences[:, None])[:, 0]


def refusals_by_group(corpus: Corpus, rng: np.random.Generator, confidence_level: float = 0.95) -> list[Score]:
    """Share of missing texts of each marked value minus that of the unmarked one, of each combination minus the rest.

    None where no text is missing: there is nothing to tell apart.
    """
    hits, grouping, units = corpus.missing, corpus.asked_grouping, corpus.asked
    if "refusals" in corpus.unread or not 0 < hits.mean() < 1 or units.missing_column:
        return []
    of = partial(_difference, corpus, _by_unit(units, hits), rng=rng, confidence_level=confidence_level)
    found = []
    for group in grouping.compared:
        if not group.marked or len(group.fixed) > 1:
            continue
        (axis,), reference = group.fixed, group.references[0]
        _, rest, _ = grouping.split(axis)
        labels = np.full(len(units), "", dtype=object)
        for name, fixed in ((group.name, group.fixed), reference):
            labels[grouping.fits(fixed)[units.combination] > 0] = name
        score = of(labels, group.name, reference[0], rest[units.combination])
        found.append(_alike(score, {group.name: grouping.unlike(group)}, units.copies))
    whole = [group for group in grouping.groups if len(group.fixed) == len(grouping.axes) > 1]
    inside = {group.name: grouping.fits(group.fixed)[units.combination] > 0 for group in whole}
    of_one = np.any(list(inside.values()), axis=0)  # not where a text lacks the value of an axis
    for group in whole:
        labels = np.select([inside[group.name], of_one], [group.name, "the other groups"], "").astype(object)
        share = unlike(units.prompt, inside[group.name], of_one & ~inside[group.name])
        found.append(_alike(of(labels, group.name, "the other groups", None), {group.name: share}, units.copies))
    return found


def _alike(score: Score, shares: Mapping[str, float], copies: Floats) -> Score:
    """The Score; without an interval where requests of a group are of other prompts or groups than its reference's.

    Labels are exchanged within these, so that p is not theirs, but what is refused by prompt is in the estimate. Where
    clusters hold unequal numbers of requests (``copies``) they take these with them, and there is no p.
    ``shares``: group -> see `markedness.audits.personas.language.groups.unlike`.
    """
    others = [name for name, share in shares.items() if share > UNLIKE]
    if score.missing or not others:
        return score
    why = (
        f"the requests for {', '.join(others)} are of other prompts or other groups of the other axes than those they "
        "are compared with, and how often these are refused is part of the estimate"
    )
    if np.ptp(copies) > 0:
        return withdrawn(score, why)
    return withdrawn(score.warned(f"No interval: {why}. It is not of p, which finds less for it."))


def _difference(
    corpus: Corpus, hits: Floats, labels: NDArray[np.object_], name: str, other: str, rest: NDArray[np.int64] | None,
    rng: np.random.Generator, confidence_level: float,
) -> Score:  # fmt: skip
    units = corpus.asked
    return group_difference_score(
        f"refusals.{corpus.kind}: {name}", hits, units.copies, labels, [name], other, rng, cluster="request",
        clusters=np.array(units.names, dtype=object), blocks=[units.block, *([] if rest is None else [rest])],
        confidence_level=confidence_level, unit="requests", group=name, reference=other,
        n_missing=int(hits[labels == name].sum()),
        positive=f"texts about the group {name} are missing more often than those about {other}",
        negative=f"texts about the group {name} are missing less often than those about {other}",
    )  # fmt: skip
