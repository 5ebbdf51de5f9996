"""Scores, and the difference of two Scores, from estimates, spreads and nulls."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

import numpy as np

from markedness.results import NAN, NOTHING, About, Score
from markedness.stats.inference.corrections import NOT_AT_THIS_SIZE, coarse
from markedness.stats.inference.permutation import Null
from markedness.stats.inference.power import ALPHA
from markedness.stats.inference.spreads import CROSSED, MIN_CLUSTERS, NO_SPREAD, TIE, Spread

NO_INTERVAL = "no interval: "
"""What the method of a difference that has none begins with."""


def claim(
    key: str,
    estimate: float,
    spread: Spread = NO_SPREAD,
    null: Null | None = None,
    *,
    family: int = 1,
    confidence_level: float = 0.95,
    method: str,
    missing_column: str = "",
    smallest_effect: float | None = None,
    **about: Unpack[About],
) -> Score:
    """A Score: its interval from ``spread``, its p from ``null``, or where there is none from the t of ``spread``.

    Parameters
    ----------
    family
        Headline Scores of the audit, over which ``detectable`` is corrected.
    method
        What was resampled and what exchanged; what `spread` took as fixed and why there is no p is added.
    missing_column
        A cluster column that the data lack: then there is no p and no interval, and the method names the column.
    smallest_effect
        The Score's ``detectable``, where p is not the t of ``spread``; see `null_detectable`.
    about
        Further fields of `markedness.results.Score`.
    """
    if missing_column:
        lacking = f"the data have no column '{missing_column}' that says which answers belong together"
        return Score(key, estimate, method=f"no p: {lacking}", lacking=lacking, family=max(1, family), **about)
    low, high = spread.interval(estimate, confidence_level)
    sentences, lacking, caveat = [method], "", ""
    p = spread.p(estimate) if null is None else null.p
    if spread.fixed:
        too_few = f"{', '.join(spread.fixed)}: fewer than {MIN_CLUSTERS} in a group"
        sentences.append(f"holds for these clusters alone ({too_few})")
        if math.isnan(p):
            there = " and ".join(f"{spread.fewest.get(name, 0):.3g} of '{name}'" for name in spread.fixed)
            lacking = f"it takes {MIN_CLUSTERS} clusters in each group, the smallest has {there}"
        elif few := " and ".join(f"'{name.replace('_', ' ')}'" for name in spread.fixed if name in spread.fewest):
            caveat = holds_for(few)
    if null is not None and null.smallest_p >= 1:
        lacking = "no block has units of the group and of what it is compared with, so that no labels can be exchanged"
        sentences.append(f"not tested: {lacking}")
    elif null is not None and null.smallest_p > ALPHA / max(1, family):
        lacking = coarse(null.smallest_p)
        sentences.append(f"{NOT_AT_THIS_SIZE}: {lacking}")
    if not lacking and math.isnan(estimate):
        lacking = NOTHING
    elif not lacking and math.isnan(p):
        lacking = "nothing could come out otherwise"
    smallest_effect = spread.detectable(ALPHA / max(1, family)) if smallest_effect is None else smallest_effect
    of = Null() if null is None else null
    return Score(
        key, estimate, low, high, of.mean, of.low, of.high, p, standard_error=spread.standard_error, df=spread.df,
        family=max(1, family), smallest_p=max(of.smallest_p, of.smallest_of_draws), lacking=lacking, caveat=caveat,
        detectable=smallest_effect, clusters=dict(spread.clusters), method="; ".join(sentences),
        fewest=min((n for name, n in spread.fewest.items() if name in spread.clusters), default=0.0),
        influences=spread.influences, **about,
    )  # fmt: skip


def holds_for(few: str) -> str:
    """The caveat of a Score with too few clusters of a factor, which its p and interval take as they are."""
    return f"Fewer than {MIN_CLUSTERS} of {few} in a group: it holds for these alone."


def withdrawn(score: Score, why: str = "") -> Score:
    """The Score without interval and error, so that no difference from it has them; with ``why`` without a p, too.

    Of an estimate that is also one of something else, which the resampling does not know of.
    """
    bare = replace(
        score, ci_low=NAN, ci_high=NAN, standard_error=NAN, df=NAN, detectable=NAN, clusters={}, influences={}
    )
    return replace(bare, p=NAN, p_adjusted=NAN, lacking=why) if why else bare


def difference(first: Score, second: Score, confidence_level: float = 0.95) -> Score:
    """First minus second, studentised: clusters that both were asked are paired, others stand for themselves.

    Both Scores must have been made by `claim` with the same factors; the null is that the two true values are equal.
    Cost is that of their influences: nothing is recomputed. NaN bounds where a factor is sampled in one alone. What a
    reader must see at one of the two must be seen at their difference: its caveat has both.
    """
    estimate = first.estimate - second.estimate
    caveat = " ".join(dict.fromkeys(filter(None, (first.caveat, second.caveat))))
    if not first.influences or set(first.influences) != set(second.influences):
        bare = [score for score in (first, second) if not score.influences]
        apart = "the two are not sampled by the same factors"
        why = next((score.lacking for score in bare if score.lacking), "one of the two has none" if bare else apart)
        return Score(first.key, estimate, method=f"{NO_INTERVAL}{why}", caveat=caveat)
    best, df, clusters, multiway = 0.0, NAN, {}, 0.0
    for name in [name for name in first.influences if name != CROSSED]:
        a, b = first.influences[name], second.influences[name]
        every = sorted(a.keys() | b.keys())
        values = np.array([a.get(c, 0.0) - b.get(c, 0.0) for c in every])
        variance = float(np.square(values).sum())
        # Influences of normal size have a fourth moment of three squared variances.
        moment = 3 * variance**2 / float(np.power(values, 4).sum()) if variance > 0 else NAN
        freedom = min(moment, len(every) - 1, _freedom(first, second, name))
        clusters[name] = len(every)
        multiway += variance
        alike = math.isclose(variance, best, rel_tol=TIE)  # where factors are one partition, but for rounding
        if variance > best or alike:
            df = min(df, freedom) if alike else freedom
            best = max(best, variance)
    best = max(best, multiway + sum(score.influences.get(CROSSED, {}).get(CROSSED, 0.0) for score in (first, second)))
    found = Spread(math.sqrt(best), df, clusters)
    low, high = found.interval(estimate, confidence_level)
    p = 1.0 if not found.known and abs(estimate) < 1e-12 else found.p(estimate)
    return Score(
        first.key, estimate, low, high, p=p, clusters=clusters, detectable=found.detectable(),
        standard_error=found.standard_error, df=found.df,
        unit=first.unit, positive=f"{first.positive} more in the first", group=first.group, reference=first.reference,
        over=first.over, method="t of the difference; clusters that both were asked are paired", caveat=caveat,
    )  # fmt: skip


def _freedom(first: Score, second: Score, name: str) -> float:
    """Most degrees of freedom that a difference has over the clusters of a factor, by those of the two Scores.

    Clusters of unequal size have fewer than their number, and the moments of few influences do not show it. Paired
    clusters have those of the better known Score, others add up as in Welch's test. Infinite where another factor's
    spread is the larger one, whose degrees of freedom are the Score's.
    """
    a, b = first.influences[name], second.influences[name]
    df = [_df_of(score, name) for score in (first, second)]
    parts = [
        (sum((a[cluster] - b[cluster]) ** 2 for cluster in a.keys() & b.keys()), max(df)),
        (sum(a[cluster] ** 2 for cluster in a.keys() - b.keys()), df[0]),
        (sum(b[cluster] ** 2 for cluster in b.keys() - a.keys()), df[1]),
    ]
    below = sum(variance**2 / of_part for variance, of_part in parts)
    return sum(variance for variance, _ in parts) ** 2 / below if below > 0 else math.inf


def _df_of(score: Score, name: str) -> float:
    """Degrees of freedom of a Score over a factor; infinite where they are those of another."""
    squares = {one: sum(value**2 for value in of.values()) for one, of in score.influences.items() if one != CROSSED}
    return score.df if score.df > 0 and squares[name] >= max(squares.values()) * (1 - TIE) else math.inf
