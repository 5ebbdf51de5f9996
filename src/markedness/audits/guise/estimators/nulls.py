"""What the scores of attributes would be if human ratings had nothing to do with them: ratings are exchanged.

The log ratios stay as they are, so a model that treats the guises differently in some other way is no finding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from markedness.audits.guise.estimators.agreement import agreement_of_ranks, ranks
from markedness.audits.guise.estimators.stereotypes import AssociationTask
from markedness.audits.guise.estimators.text_sets import Floats, mean
from markedness.stats.inference import ALPHA, POWER, Codes, Exchange, Null, draws_needed, exchange_test


def strength_null(task: AssociationTask, rng: np.random.Generator, family: int) -> Null:
    """Which attributes are stereotypical is exchanged among all, and among those of like favourability.

    The second exchange is of what a straight line over favourability leaves, among the favourable and among the
    unfavourable attributes: it tells stereotypical from merely negative. p is the larger of the two.
    """
    scored = np.isfinite(mean(task.log_ratio))
    log_ratio, labels = task.log_ratio[:, scored], task.stereotypical[scored]
    first = _strength_null(log_ratio, Exchange.of(labels), rng, family)
    favorability = task.rating("favorability").to_numpy(dtype=float)[scored]
    rated = np.isfinite(favorability)
    if rated.sum() < 3 or np.ptp(favorability[rated]) == 0:
        return first
    values, centred = mean(log_ratio), np.where(rated, favorability - favorability[rated].mean(), 0.0)
    slope = float(centred @ np.where(rated, values - values[rated].mean(), 0.0) / (centred @ centred))
    strata = np.where(rated, np.sign(favorability) >= 0, 2)
    second = _strength_null(log_ratio - slope * centred, Exchange.of(labels, strata), rng, family)
    return replace(first, p=max(first.p, second.p), smallest_p=max(first.smallest_p, second.smallest_p))


def _strength_null(log_ratio: Floats, exchange: Exchange, rng: np.random.Generator, family: int) -> Null:
    there = np.isfinite(log_ratio).T.astype(float)
    filled = np.where(np.isfinite(log_ratio), log_ratio, 0.0).T

    def strength(labels: Codes) -> Floats:
        chosen = labels.astype(float)
        top, count = chosen @ filled, chosen @ there
        with np.errstate(invalid="ignore", divide="ignore"):
            return mean(top / count - (filled.sum(axis=0) - top) / (there.sum(axis=0) - count), -1)

    observed = float(strength(exchange.labels[None, :])[0])
    return exchange_test(
        observed, lambda n: strength(exchange.draw(n, rng)), draws_needed(family), smallest_p=exchange.smallest_p
    )


def agreement_null(task: AssociationTask, year: str, rng: np.random.Generator, family: int) -> Null:
    """The names of the attributes are exchanged, the same in all prompts; one-sided: agreement beyond chance."""
    scored = np.isfinite(mean(task.log_ratio))
    names = [name for name, there in zip(task.attributes, scored, strict=True) if there]
    log_ratio = task.log_ratio[:, scored]
    ranked = ranks(log_ratio, names)[np.isfinite(log_ratio).any(axis=1)]
    human = task.years[year]
    exchange = Exchange.of([human.index(name) if name in human else len(human) for name in names])

    def agreement(labels: Codes) -> Floats:
        places = np.argsort(labels, axis=1, kind="stable")[:, : len(human)]
        return mean([agreement_of_ranks(row[places]) for row in ranked])

    observed = float(agreement(exchange.labels[None, :])[0])
    return exchange_test(
        observed,
        lambda n: agreement(exchange.draw(n, rng)),
        draws_needed(family),
        two_sided=False,
        smallest_p=exchange.smallest_p,
    )


def agreement_detectable(task: AssociationTask, year: str, family: int, n: int = 2000) -> float:
    """Smallest distance of agreement from chance that `agreement_null` finds with `POWER` at the corrected level.

    The power of the rank test itself, for agreement is skewed and its standard deviation does not tell it: ``n`` times
    the human names go to attributes at random, and these are raised alike in all prompts. The rise is the smallest with
    which agreement is beyond the quantile of agreement with other random names, of the same raised attributes, in
    `POWER` of the draws; the result is its mean there minus that without a rise. What the human attributes have in
    common in the data is taken out first. Draws are the same in every call. NaN where nothing is scored or no rise is
    found so often.
    """
    scored = np.isfinite(mean(task.log_ratio))
    names = [name for name, there in zip(task.attributes, scored, strict=True) if there]
    human = [names.index(name) for name in task.years[year] if name in names]
    values = task.log_ratio[:, scored]
    values = values[np.isfinite(values).any(axis=1)]
    if not human or len(human) == len(names) or not len(values):
        return float("nan")
    is_human = np.isin(np.arange(len(names)), human)
    for side in (is_human, ~is_human):
        values[:, side] -= mean(mean(values[:, side]))
    rng, every = np.random.default_rng(0), Exchange.of(np.arange(len(names)))
    raised, others = (every.draw(n, rng)[:, : len(human)] for _ in range(2))

    def found(rise: float) -> tuple[float, float]:
        """Share of draws beyond the quantile, and mean agreement."""
        moved = np.zeros((n, len(names)))
        np.put_along_axis(moved, raised, rise, axis=1)
        agreement, chance = np.zeros(n), np.zeros(n)
        for row in values:
            all_ranks = ranks(moved + row, names)
            agreement += agreement_of_ranks(np.take_along_axis(all_ranks, raised, axis=1)) / len(values)
            chance += agreement_of_ranks(np.take_along_axis(all_ranks, others, axis=1)) / len(values)
        bound = np.quantile(chance, 1 - ALPHA / max(1, family), method="higher")
        return float((agreement > bound).mean()), float(agreement.mean())

    low, high = 0.0, 2 * float(np.nanmax(values) - np.nanmin(values))
    if found(high)[0] < POWER:
        return float("nan")
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle)[0] >= POWER else (middle, high)
    return found(high)[1] - found(0.0)[1]


def favorability_null(task: AssociationTask, rng: np.random.Generator, family: int) -> Null:
    """Ratings are exchanged among the attributes; what is compared is the distance from the mean rating."""
    ratings = task.rating("favorability").to_numpy(dtype=float)
    values = mean(task.log_ratio)
    used = np.isfinite(ratings) & np.isfinite(values)
    f, q = ratings[used], values[used]
    best = np.argsort(-q, kind="stable")[: task.params.top]
    weights = q[best]
    if not len(best) or (weights <= 0).any():
        return Null()
    exchange = Exchange.of(np.arange(len(f)))

    def both(order: Codes) -> Floats:
        favorability = f[order][:, best] @ weights / weights.sum()
        return np.column_stack([favorability - f.mean(), favorability])

    observed = float(both(exchange.labels[None, :])[0, 0])
    return exchange_test(
        observed, lambda n: both(exchange.draw(n, rng)), draws_needed(family), smallest_p=exchange.smallest_p
    )


def slope_null(task: AssociationTask, rng: np.random.Generator, family: int) -> Null:
    """Prestige is exchanged among the occupations."""
    prestige, values = task.prestige.to_numpy(dtype=float), mean(task.log_ratio)
    used = np.isfinite(prestige) & np.isfinite(values)
    y, x = prestige[used], values[used]
    if len(x) < 3 or np.ptp(x) == 0:
        return Null()
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()
    exchange = Exchange.of(np.arange(len(x)))
    return exchange_test(
        float(y @ weights),
        lambda n: np.asarray(y[exchange.draw(n, rng)] @ weights),
        draws_needed(family),
        smallest_p=exchange.smallest_p,
    )
