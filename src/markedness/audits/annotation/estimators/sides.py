"""The two sides of pairs: how much names differ on both, and requests that hold texts of one side only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.stats.inference import ALPHA, MIN_CLUSTERS, Codes, Floats, effective
from markedness.stats.inference.crossed import Claim, Crossed

SIDES = ("name", "reference_name")
"""Factors: the names of the marked texts and those of the unmarked ones."""
AS_VARIED = 0.5
"""Part of the variance of all names that those of a side have at least. In 29 % of worlds none of 15 names is odd where
one in twelve is, and half is enough for these; with all of it, gaps of the paper's size were found less often."""
ONE_SIDED = 0.9
"""From this share of the judgments on, requests of one side are no accident: of two texts dealt at random, half are."""
REQUESTS = (
    "Requests (prompt_id) hold texts of one side only: what the answers of a request share looks like a gap, and the "
    "error does not count it. Ask texts of both sides in each request, or each text on its own."
)
"""What a reader must see of such requests where iterations do not absorb them."""


def one_sided(pairs: pd.DataFrame) -> bool:
    """Whether the requests held several texts each, of marked or of unmarked names (dialects) alone."""
    return "one_sided" in pairs and bool(pairs["one_sided"].mean() >= ONE_SIDED)


def of_other_gender(pairs: pd.DataFrame) -> Iterator[str]:
    """What a reader must see where the two names of the pairs of a group are never of one gender."""
    if "other_gender" in pairs and pairs["other_gender"].any():
        groups = sorted(pairs.loc[pairs["other_gender"].eq(1), "group"].astype(str).unique())
        yield (
            f"Each name of {', '.join(groups)} stands beside a name of another gender: a difference is one of gender, "
            "too."
        )


def iterations(pairs: pd.DataFrame) -> NDArray[np.object_] | None:
    """The iteration of each row; None where requests go over several, or a group has too few to be clusters."""
    if "iteration" not in pairs or pairs["iteration"].isna().any():
        return None
    counts = pd.crosstab(pairs["group"].astype(str), pairs["iteration"]).to_numpy()
    if min(effective(of_group) for of_group in counts) < MIN_CLUSTERS - 1e-9:
        return None
    asked = [name for name in ("task", "prompt_id") if name in pairs]
    if len(asked) == 2 and pairs.groupby(asked, observed=True, sort=False)["iteration"].nunique().gt(1).any():
        return None
    return pairs["iteration"].to_numpy(dtype=object)


def as_varied(found: Claim, of: Crossed, weights: Floats, family: int, rare: bool = False) -> Claim:
    """The claim with a standard error as if names of each side had `AS_VARIED` of the variance of all, or more.

    Few names of one side may all be ordinary by luck where one in twelve is refused nearly always: that side then seems
    to have no variance, and the difference is found too often. Without an effect of the group both are names of one
    population, whose variance is estimated from all. Where a difference is found with that at ``ALPHA / family``, the
    sides do differ, and keep a variance of their own. Nothing changes where p is of exchanged signs, where names of a
    side do not count as sampled, or where each has one pair; but of what is rare names in whose pairs nothing differs
    are no degrees of freedom, and the interval changes where p is of exchanged signs, too.

    Parameters
    ----------
    found
        Of `Crossed.weighted`, with the same weights.
    of
        Differences of pairs and their clusters.
    weights
        Of the cells.
    family
        Headline Scores.
    rare
        Whether few names are expected to differ, as in what is missing.
    """
    if (found.null is not None and not rare) or not found.spread.known or not {*SIDES} <= found.spread.clusters.keys():
        return found
    chosen = np.flatnonzero(weights)
    of, weights = of.only(chosen), weights[chosen]
    if rare:
        differing = max(_differing(of, weights, side) for side in SIDES)
        found = replace(found, spread=replace(found.spread, df=min(found.spread.df, max(1.0, differing - 1))))
    more = _missing_variance(of, weights)
    wide = found.spread.at_least(math.sqrt(found.spread.standard_error**2 + more), found.spread.df)
    return found if wide.p(found.estimate) <= ALPHA / family else replace(found, spread=wide)


def _differing(of: Crossed, weights: Floats, side: str) -> int:
    """Names of a side in whose pairs the two texts differ."""
    names = pd.factorize(np.asarray(of.factors[side], dtype=object))[0]
    return int((np.bincount(names, np.abs(of.filled * weights).sum(axis=1)) > 1e-12).sum())


def _missing_variance(of: Crossed, weights: Floats) -> float:
    """By how much the variance of the weighted sum grows where each side has its part of the variance of all names.

    The squared sums of a side's names, without those of single pairs of names, are its variance of names times ``c``,
    the sum of its squared shares of the weight (1 / n for n names alike); the sides are pooled by their names.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(of.there > 0, weights / of.there.sum(axis=0), 0.0)
    part, share = ((of.filled - np.nan_to_num(of.mean)) * of.there * each).sum(axis=1), np.abs(each).sum(axis=1)
    names = [np.asarray(of.factors[side], dtype=object) for side in SIDES]
    two = names[0] != names[1]  # pairs of another paradigm are one cluster in both factors
    if not two.any():
        return 0.0
    part, share, group = part[two], share[two] / share[two].sum(), pd.factorize(np.asarray(of.groups)[two])[0]
    coded = [pd.factorize(labels[two])[0] for labels in names]
    both = coded[0] * (int(coded[1].max()) + 1) + coded[1]
    noise, least = (float(np.square(np.bincount(both, values)).sum()) for values in (part, share))
    sides = []
    for codes in coded:
        c = float(np.square(np.bincount(codes, share)).sum())
        variance = float(np.square(np.bincount(codes, part)).sum()) * _freed(codes, group)
        sides.append((variance - noise, c - least, 1 / c))
    known = sum(n * n * apart for _, apart, n in sides)
    if known < 1e-6:  # each name has one pair, but for rounding
        return 0.0
    pooled = max(sum(n * n * variance for variance, _, n in sides) / known, 0.0)
    return sum(max(AS_VARIED * pooled * apart - max(variance, 0.0), 0.0) for variance, apart, _ in sides)


def _freed(codes: Codes, group: Codes) -> float:
    """Factor n / (n - groups) of n names that lie in one group each, n / (n - 1) of names that several share."""
    n, in_groups = len(np.unique(codes)), len(np.unique(codes * (int(group.max()) + 1) + group))
    centres = len(np.unique(group)) if in_groups == n else 1
    return n / max(n - centres, 1)
