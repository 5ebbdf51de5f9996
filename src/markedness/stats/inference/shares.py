"""Shares of several categories in two groups of whole units: one studentisation for the p and for the interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.stats.inference.arrays import Codes, Floats
from markedness.stats.inference.contrasts import studentised
from markedness.stats.inference.corrections import max_t
from markedness.stats.inference.permutation import Draws, Exchange, Null, exchange_test
from markedness.stats.inference.spreads import MIN_CLUSTERS, effective

_BATCH = 4_000_000
"""Numbers in one array of exchanged labels."""


class ShareTests(NamedTuple):
    """Differences of shares, the first group minus the second; arrays of shape (categories,)."""

    difference: Floats
    low: Floats
    """In [-1, 1]. The interval leaves out 0 where ``p`` is at most 1 - confidence level, and nowhere else."""
    high: Floats
    p: Floats
    together: Null
    """Of all categories: the sum of t squared."""


def share_tests(
    counts: ArrayLike,
    totals: ArrayLike,
    labels: ArrayLike,
    sources: ArrayLike,
    rng: np.random.Generator,
    *,
    simultaneous: bool,
    confidence_level: float = 0.95,
    n_draws: int = 999,
) -> ShareTests:
    """Whether two groups differ in their shares of several categories, labels exchanged among whole units.

    A unit is all texts of one source in one group. The two units of a source that is in both groups change places; the
    units of the other sources change places with one another.

    Parameters
    ----------
    counts
        Shape (units, categories): how many texts of each unit are in each category.
    totals
        Shape (units,): all texts of each unit, 1 or more.
    labels
        Shape (units,): True in the first group, False in the second.
    sources
        Shape (units,): the source of each unit.
    simultaneous
        Whether ``p`` and intervals hold for all categories at once, by max-T; otherwise for each alone.
    n_draws
        Exchanges, the same for all categories.

    Returns
    -------
    ShareTests
        t is the difference over its standard error, linearised, from the sums of each source. The interval is the
        difference plus and minus the quantile of abs(t) under exchange times the standard error. It is NaN where the
        standard error is 0, where a group has fewer than `MIN_CLUSTERS` effective sources, and without a ``p``. ``p``
        is 1 where all units have one share, and NaN where nothing can be exchanged or where a group has fewer than
        `MIN_CLUSTERS` effective sources that are not all in both: one large source of one group does not change
        places with one like it.

    Notes
    -----
    The permutation t interval of Chung & Romano 2013, Annals of Statistics 41(2):484-507. Sources that are in both
    groups are pairs: their sums over both have the variance of a difference of pairs.
    """
    top, below = np.asarray(counts, dtype=float), np.asarray(totals, dtype=float)
    first, names = np.asarray(labels, dtype=bool), pd.Series(np.asarray(sources, dtype=object))
    in_both = pd.Series(first).groupby(names).transform("nunique").eq(2)
    exchange = Exchange.of(first, np.asarray(names.factorize()[0] + 1) * in_both.to_numpy())
    of_source = pd.factorize(names)[0].astype(np.intp)

    def both(codes: Codes) -> tuple[Floats, Floats]:
        step = max(1, _BATCH // max(1, len(below)))
        made = [_differences(top, below, codes[at : at + step] == 1, of_source) for at in range(0, len(codes), step)]
        return np.concatenate([one for one, _ in made]), np.concatenate([one for _, one in made])

    difference, error = (rows[0] for rows in both(exchange.labels[None, :]))
    t = studentised(difference, error)
    draws = Draws(lambda n: studentised(*both(exchange.draw(n, rng))))
    read = draws.reader(lambda made: np.asarray(np.square(made).sum(axis=1)))
    smallest = exchange.smallest_p
    few = min(effective(below[first]), effective(below[~first])) < MIN_CLUSTERS - 1e-9
    if few and not in_both.all():
        nothing = np.full(len(t), np.nan)
        p = np.where(np.ptp(top / below[:, None], axis=0) > 1e-12, np.nan, 1.0)
        return ShareTests(difference, nothing, nothing, p, Null(smallest_p=smallest))
    together = exchange_test(float(np.square(t).sum()), read, n_draws, two_sided=False, smallest_p=smallest)
    if not together.n:
        nothing = np.full(len(t), np.nan)
        return ShareTests(difference, nothing, nothing, nothing, together)
    null = draws.first(n_draws)
    parts = [np.arange(len(t))] if simultaneous else [np.array([place]) for place in range(len(t))]
    p = np.concatenate([max_t(t[part], null[:, part]) for part in parts])
    margin = np.concatenate([_quantiles(null[:, part], 1 - confidence_level) for part in parts]) * error
    margin = np.where((error > 1e-12) & np.isfinite(p) & (not few), margin, np.nan)
    p = np.where(np.isnan(p) & (t == 0), 1.0, p)
    low, high = np.maximum(difference - margin, -1.0), np.minimum(difference + margin, 1.0)
    return ShareTests(difference, low, high, p, together)


def _differences(top: Floats, below: Floats, inside: NDArray[np.bool_], of_source: Codes) -> tuple[Floats, Floats]:
    """Differences of the shares under each labelling, and their standard errors, shapes (draws, categories)."""
    order = np.argsort(of_source, kind="stable")
    starts = np.searchsorted(of_source[order], np.arange(int(of_source.max()) + 1))
    chosen = inside.astype(float)
    total = chosen @ below
    weight = np.where(inside, 1 / total[:, None], -1 / (below.sum() - total)[:, None])
    difference, error = np.empty((2, len(inside), top.shape[1]))
    for column, values in enumerate(top.T):
        share = (chosen @ values) / total
        other = (values.sum() - chosen @ values) / (below.sum() - total)
        residual = (values - np.where(inside, share[:, None], other[:, None]) * below) * weight
        sums = np.add.reduceat(residual[:, order], starts, axis=1)
        difference[:, column] = share - other
        error[:, column] = np.sqrt(np.square(sums).sum(axis=1))
    return difference, error


def _quantiles(draws: Floats, alpha: float) -> Floats:
    """The abs(t) of each category from which on `max_t` is at most ``alpha``; shape (categories,)."""
    sd = np.sqrt(np.square(draws).mean(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.sort(np.nanmax(np.where(sd > 1e-12, np.abs(draws) / sd, 0.0), axis=1))
    # p is (1 + number of draws that are as large) / (1 + draws): at most so many may be, itself not among them
    allowed = int(np.floor(alpha * (1 + len(largest)) + 1e-9))
    bound = largest[-allowed] if allowed else np.inf
    return np.asarray(bound * sd * (1 + 1e-9))
