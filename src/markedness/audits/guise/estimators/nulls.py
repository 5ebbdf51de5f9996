"""What the scores of attributes would be if human ratings had nothing to do with them: ratings are exchanged.

The log ratios stay as they are, so a model that treats the guises differently in some other way is no finding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from markedness.audits.guise.estimators.agreement import agreement_of_ranks, ranks
from markedness.audits.guise.estimators.stereotypes import AssociationTask
from markedness.audits.guise.estimators.text_sets import Floats, mean
from markedness.stats.inference import (
    ALPHA,
    POWER,
    Codes,
    Exchange,
    Null,
    draws_needed,
    exchange_test,
    studentised,
)


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
    return _stricter(first, second)


def _strength_null(log_ratio: Floats, exchange: Exchange, rng: np.random.Generator, family: int) -> Null:
    there = np.isfinite(log_ratio).T.astype(float)
    filled = np.where(np.isfinite(log_ratio), log_ratio, 0.0).T

    def strength(labels: Codes) -> Floats:
        chosen = labels.astype(float)
        top, count = chosen @ filled, chosen @ there
        with np.errstate(invalid="ignore", divide="ignore"):
            return mean(top / count - (filled.sum(axis=0) - top) / (there.sum(axis=0) - count), -1)

    observed = float(strength(exchange.labels[None, :])[0])
    found = exchange_test(
        observed, lambda n: strength(exchange.draw(n, rng)), draws_needed(family), smallest_p=exchange.smallest_p
    )
    return _by_welch(found, mean(log_ratio), exchange, rng, family)


def _by_welch(
    found: Null, values: Floats, exchange: Exchange, rng: np.random.Generator, family: int, tails: int = 2
) -> Null:
    """The test of an exchange of labels, p at least that of the exchange by `welch`.

    To exchange labels alone takes all attributes to vary alike; studentised it holds where they do not. With fewer than
    two attributes on a side nothing tells how they vary, and the exchange alone stands.
    """
    if min(exchange.labels.sum(), (1 - exchange.labels).sum()) < 2:
        return found
    studentised_test = exchange_test(
        float(welch(values, exchange.labels[None, :])[0]),
        lambda n: welch(values, exchange.draw(n, rng)),
        draws_needed(family),
        two_sided=tails == 2,
        smallest_p=exchange.smallest_p,
    )
    return _stricter(found, studentised_test)


def _stricter(first: Null, second: Null) -> Null:
    """The first test, with the larger p of the two."""
    return replace(first, p=max(first.p, second.p), smallest_p=max(first.smallest_p, second.smallest_p))


def welch(values: Floats, labels: Codes) -> Floats:
    """Welch's t of the attributes with label 1 against those with 0, shape (draws,).

    ``values``: shape (attributes,) or (draws, attributes); ``labels``: (draws, attributes), at least two of each.
    """
    chosen, moments = labels.astype(float), []
    n, powers = chosen.sum(axis=1), (values, np.square(values))
    sums = [np.einsum("da,a->d" if power.ndim == 1 else "da,da->d", chosen, power) for power in powers]
    left = [power.sum(axis=-1) - one for power, one in zip(powers, sums, strict=True)]
    for count, (total, squares) in ((n, sums), (chosen.shape[1] - n, left)):
        moments.append((total / count, np.maximum(squares - total**2 / count, 0.0) / (count - 1) / count))
    (first, own), (second, others) = moments
    return studentised(first - second, np.sqrt(own + others))


def strength_df(task: AssociationTask) -> float:
    """Degrees of freedom by which the sd of the exchange gives the smallest effect of `strength_null`.

    Two more than the fewer attributes, stereotypical or not: with 5 of 37 that gives 4.9 sd at the corrected level,
    which was found in 84 % of 120 draws (5.0 sd), with 10 of 37 4.3 (68 % at 4.0, 86 % at 4.5).
    """
    labels = task.stereotypical[np.isfinite(mean(task.log_ratio))]
    return float(min(len(labels) - 2, min(labels.sum(), (~labels).sum()) + 2))


def agreement_null(task: AssociationTask, year: str, rng: np.random.Generator, family: int) -> Null:
    """The names of the attributes are exchanged, the same in all prompts; one-sided: agreement beyond chance.

    p is at least that of Welch's t of the ranks: attributes that vary more come first and last.
    """
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
    found = exchange_test(
        observed,
        lambda n: agreement(exchange.draw(n, rng)),
        draws_needed(family),
        two_sided=False,
        smallest_p=exchange.smallest_p,
    )
    named = Exchange.of(np.isin(names, human))
    return _by_welch(found, -ranked.mean(axis=0), named, rng, family, tails=1)


def agreement_detectable(task: AssociationTask, year: str, family: int, n: int = 2000) -> float:
    """Smallest distance of agreement from chance that `agreement_null` finds with `POWER` at the corrected level.

    The power of the rank test itself, for agreement is skewed and its standard deviation does not tell it: ``n`` times
    the human names go to attributes at random, and these are raised alike in all prompts. The rise is the smallest with
    which agreement, and `welch` of the ranks, is beyond the quantile of that with other random names, of the same
    raised attributes, in `POWER` of the draws; the result is its mean there minus that without a rise. What the human
    attributes have in common in the data is taken out first. Draws are the same in every call. NaN where nothing is
    scored or no rise is found so often.
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
    labels = np.zeros((2, n, len(names)), dtype=np.intp)
    for of_names, chosen in zip(labels, (raised, others), strict=True):
        np.put_along_axis(of_names, chosen, 1, axis=1)
    ranked = ranks(values, names)
    ahead = ranked[:, :, None] > ranked[:, None, :]
    is_raised, both = labels[0].astype(float), []
    for who in (raised, others):
        risen = np.take_along_axis(labels[0], who, axis=1) > 0
        # Of each attribute and each raised one the pair in which the first may overtake, (raised, draws, names).
        first, second = raised.T[:, :, None], who[None]
        both.append((who, risen, np.where(risen, first + len(names) * second, second + len(names) * first)))

    def found(rise: float) -> tuple[float, float]:
        """Share of draws beyond the quantile, and mean agreement."""
        # Whom a raised attribute overtakes; two that are both raised, or both not, keep their order.
        overtakes = ahead & (values[:, :, None] + rise > values[:, None, :])
        pairs, won = overtakes.reshape(len(values), -1), overtakes.sum(axis=2)
        agreement, chance = (
            agreement_of_ranks(
                ranked[:, who] - np.where(risen, won[:, who], 0) + sum(pairs.take(pair, axis=1) for pair in of_raised)
            ).mean(axis=0)
            for who, risen, of_raised in both
        )
        in_all = overtakes.sum(axis=0).astype(float)
        moved = np.where(is_raised > 0, is_raised @ in_all.T - in_all.sum(axis=1), is_raised @ in_all)
        mean_ranks = (ranked.sum(axis=0) + moved) / len(values)
        tests = [(agreement, chance)]
        if 2 <= len(human) <= len(names) - 2:
            tests.append((welch(-mean_ranks, labels[0]), welch(-mean_ranks, labels[1])))
        level = 1 - ALPHA / max(1, family)
        beyond = [reached > np.quantile(drawn, level, method="higher") for reached, drawn in tests]
        return float(np.all(beyond, axis=0).mean()), float(agreement.mean())

    low, high = 0.0, 2 * float(np.nanmax(values) - np.nanmin(values))
    if found(high)[0] < POWER:
        return float("nan")
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle)[0] >= POWER else (middle, high)
    return found(high)[1] - found(0.0)[1]


def favorability_null(task: AssociationTask, rng: np.random.Generator, family: int) -> Null:
    """Ratings are exchanged among the attributes; what is compared is the distance from the mean rating.

    p is at least that of the distance from what the reference brings to mind, weighted alike: where the unfavourable
    attributes vary more than others, they come first after either guise. Where the reference makes too few attributes
    more likely, there is no such distance, and the exchange alone stands.
    """
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
    found = exchange_test(
        observed, lambda n: both(exchange.draw(n, rng)), draws_needed(family), smallest_p=exchange.smallest_p
    )
    worst = np.argsort(q, kind="stable")[: task.params.top]
    if (q[worst] >= 0).any():
        return found

    def than_reference(order: Codes) -> Floats:
        ordered = f[order]
        return np.asarray(ordered[:, best] @ weights / weights.sum() - ordered[:, worst] @ q[worst] / q[worst].sum())

    of_both = exchange_test(
        float(than_reference(exchange.labels[None, :])[0]),
        lambda n: than_reference(exchange.draw(n, rng)),
        draws_needed(family),
        smallest_p=exchange.smallest_p,
    )
    return _stricter(found, of_both)


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
