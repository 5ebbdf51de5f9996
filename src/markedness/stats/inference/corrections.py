"""Corrections of p-values for the number of tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from markedness.results import Score
from markedness.stats.inference.arrays import Floats
from markedness.stats.inference.power import ALPHA, redetected

NOT_AT_THIS_SIZE = "cannot be found at this size"
"""How the method of a Score begins to say that it lacks what `coarse` says."""


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment over one family; NaN stays NaN and does not count."""
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    ordered = np.argsort(p, kind="stable")[: np.isfinite(p).sum()]  # NaN is last
    adjusted[ordered] = np.minimum(np.maximum.accumulate(p[ordered] * np.arange(len(ordered), 0, -1)), 1.0)
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Benjamini-Hochberg over all cells of a family; what could not be tested (NaN) counts as p = 1, and stays NaN."""
    from scipy import stats

    p = np.asarray(p_values, dtype=float)
    known = np.isfinite(p)
    return np.where(known, stats.false_discovery_control(np.where(known, p, 1.0), method="bh"), np.nan) if p.size else p


def adjusted(scores: Iterable[Score], keys: Sequence[str]) -> list[Score]:
    """Scores with ``p_adjusted`` of the headline, ``keys``, by Holm; the other Scores keep theirs.

    The family is those that have a p: what these data do not test costs the others nothing, and what they say of a
    smallest effect or p is corrected over as many.
    """
    made = list(scores)
    family = [place for place, score in enumerate(made) if score.key in keys]
    tested = sum(math.isfinite(made[place].p) for place in family)
    for place, p in zip(family, holm([made[place].p for place in family]), strict=True):
        made[place] = replace(_over(made[place], tested), p_adjusted=float(p))
    return made


def adjusted_apart(scores: Iterable[Score], family: Callable[[Score], Hashable]) -> list[Score]:
    """Scores with ``p_adjusted`` of those that have a p and none yet, by Holm within each family; see `adjusted`.

    So no Score beside the headline is found by a p that nothing corrected. ``family``: the name of a Score's family.
    """
    made = list(scores)
    left = [score for score in made if score.family and math.isfinite(score.p) and math.isnan(score.p_adjusted)]
    for name in dict.fromkeys(family(score) for score in left):
        made = adjusted(made, [score.key for score in left if family(score) == name])
    return made


def _over(score: Score, tested: int) -> Score:
    """A Score that was claimed as one of another number of Scores than these data test."""
    if not (score.family and tested) or score.family == tested:
        return score
    made = replace(score, family=tested, detectable=redetected(score.detectable, score.df, score.family, tested))
    if score.lacking == coarse(score.smallest_p) and score.smallest_p <= ALPHA / tested:
        return replace(made, lacking="", method=score.method.removesuffix(f"; {NOT_AT_THIS_SIZE}: {score.lacking}"))
    return made


def coarse(smallest_p: float) -> str:
    """What a Score lacks whose smallest p is too large for its family."""
    return f"the smallest p that could come out is {smallest_p:.2g}"


def pooled_p(observed: ArrayLike, draws: ArrayLike) -> Floats:
    """p-value of each of many statistics against the draws of all, each over its own permutation standard deviation.

    Shapes as in `max_t`. Not corrected: for `benjamini_hochberg`. It holds on average over the statistics, whose
    scaled draws are taken to have one distribution.
    """
    values, null = np.asarray(observed, dtype=float), np.asarray(draws, dtype=float)
    sd = _permutation_sd(values, null)
    usable = np.isfinite(values) & np.isfinite(sd) & (sd > 1e-12)
    p = np.full(values.shape, np.nan)
    if usable.any():
        pooled = np.sort((np.abs(null[:, usable]) / sd[usable]).ravel())
        below = np.searchsorted(pooled, np.abs(values[usable]) / sd[usable] - 1e-10, side="left")
        p[usable] = (1 + len(pooled) - below) / (1 + len(pooled))
    return p


def _permutation_sd(observed: Floats, draws: Floats) -> Floats:
    """Of draws and observed value together, without which rare values exceed all draws; 0 where draws do not vary."""
    squares = np.square(draws).sum(axis=0)
    return np.asarray(np.where(squares > 0, np.sqrt((squares + np.square(observed)) / (len(draws) + 1)), 0.0))


def max_t(observed: ArrayLike, draws: ArrayLike) -> Floats:
    """p-values of many statistics at once, each over its own permutation standard deviation.

    Parameters
    ----------
    observed
        Shape (k,).
    draws
        The same under exchanged labels, shape (n, k).

    Returns
    -------
    float array, shape (k,)
        (1 + #{max over j of abs(draw_j) / sd_j >= abs(observed_k) / sd_k}) / (1 + n): corrected over all k. NaN where
        the observed value is NaN or its draws do not vary. sd_j is of the draws and the observed value together, so
        that these are exchangeable.
    """
    values, null = np.asarray(observed, dtype=float), np.asarray(draws, dtype=float)
    sd = _permutation_sd(values, null)
    usable = np.isfinite(values) & np.isfinite(sd) & (sd > 1e-12)
    p = np.full(values.shape, np.nan)
    if not usable.any():
        return p
    largest = np.sort(np.nanmax(np.abs(null[:, usable]) / sd[usable], axis=1))
    scaled = np.abs(values[usable]) / sd[usable]
    p[usable] = (1 + len(largest) - np.searchsorted(largest, scaled - 1e-10, side="left")) / (1 + len(largest))
    return p
