"""Marked groups against their unmarked group: ratios of sums, compared by exchanging labels within blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.results import NAN, About, Score, named_contrasts
from markedness.stats.inference.alike import alike_variance, within_clusters
from markedness.stats.inference.arrays import Codes, Floats, crossing
from markedness.stats.inference.claims import claim
from markedness.stats.inference.permutation import Exchange, Null, draws_needed, exchange_test
from markedness.stats.inference.power import ALPHA
from markedness.stats.inference.spreads import Spread, leave_out, spread


@dataclass(frozen=True)
class Contrast:
    """Marked groups of one axis against its unmarked group."""

    labels: ArrayLike
    """Shape (units,): group of each unit; other groups than these are left out."""
    marked: Sequence[object]
    unmarked: object
    blocks: Sequence[ArrayLike] = ()
    """Arrays of shape (units,): labels are exchanged within their crossing (prompt, values of other axes)."""

    def known(self, there: NDArray[np.bool_]) -> Contrast:
        """With the marked groups that have units, if the unmarked one has; ``there``: which units have answers."""
        names = np.asarray(self.labels, dtype=object)[there]
        found = [group for group in self.marked if (names == group).any()]
        return replace(self, marked=found if (names == self.unmarked).any() else [])

    def exchangeable(self, there: NDArray[np.bool_]) -> Contrast:
        """With the marked groups that have units in a block with units of the unmarked one."""
        names = np.asarray(self.labels, dtype=object)[there]
        blocks = [np.asarray(block)[there].tolist() for block in self.blocks] or [[0] * len(names)]
        block = pd.Series(list(zip(*blocks, strict=True)), dtype=object)
        shared = set(block[names == self.unmarked])
        return replace(self, marked=[one for one in self.marked if not shared.isdisjoint(block[names == one])])


def testable(contrasts: Sequence[Contrast], there: NDArray[np.bool_]) -> tuple[list[Contrast], str]:
    """The contrasts with the groups that exchange can move, and which are left out, as a clause.

    ``there``: which units have answers, shape (contrasts, units).

    Exchange leaves a group as it is where no block has units of it and of its unmarked group: nothing would be looked
    at. Where that is so of all groups, all are kept, and the exchange test says so.
    """
    known = [one.known(answered) for one, answered in zip(contrasts, there, strict=True)]
    moved = [one.exchangeable(answered) for one, answered in zip(known, there, strict=True)]
    if not any(one.marked for one in moved):
        return known, ""
    left = [str(group) for a, b in zip(known, moved, strict=True) for group in a.marked if group not in b.marked]
    why = "not over {}: no block has units of the group and of what it is compared with"
    return moved, why.format(", ".join(left)) if left else ""


def group_difference_score(
    key: str,
    hits: ArrayLike,
    totals: ArrayLike,
    labels: ArrayLike,
    marked: Sequence[object],
    unmarked: object,
    rng: np.random.Generator,
    *,
    cluster: str,
    clusters: ArrayLike | None = None,
    blocks: Sequence[ArrayLike] = (),
    family: int = 1,
    confidence_level: float = 0.95,
    method: str = "",
    **about: Unpack[About],
) -> Score:
    """`contrast_score` of one axis."""
    return contrast_score(
        key, hits, totals, [Contrast(labels, marked, unmarked, blocks)], rng, cluster=cluster, clusters=clusters,
        family=family, confidence_level=confidence_level, method=method, **about,
    )  # fmt: skip


def contrast_score(
    key: str,
    hits: ArrayLike,
    totals: ArrayLike,
    contrasts: Sequence[Contrast],
    rng: np.random.Generator,
    *,
    cluster: str,
    clusters: ArrayLike | None = None,
    family: int = 1,
    confidence_level: float = 0.95,
    method: str = "",
    rare: bool = False,
    **about: Unpack[About],
) -> Score:
    """Mean of the marked groups' ratios minus that of their unmarked group, labels exchanged among whole units.

    A ratio is the sum of ``hits`` over the sum of ``totals``: a share of missing answers, a mean regard.

    Parameters
    ----------
    hits, totals
        Shape (units,): numerator and denominator of each unit; units of total 0 are left out. Or (contrasts, units),
        where they differ between the contrasts.
    contrasts
        One for each axis; the difference is averaged over the marked groups of all axes that have units, and of these
        over the groups with a block that has units of the unmarked group too, if any has: the others are not tested.
    cluster
        Name of the sampled factor: what a unit is, singular.
    clusters
        Shape (units,): identity of each unit, the same in another model's data; by default its position.
    rare
        Whether a group may have no hit by luck, so that leaving out units shows too little error: where exchange
        explains the difference, its standard error is at least that under exchange.

    Returns
    -------
    Score
        Studentised: the difference over its standard error, under each exchange. NaN where a group has no units; no p
        where fewer than two units of a group have answers.

    Notes
    -----
    The error is the jackknife's, and at least that of units whose ratios vary alike in all groups, whatever their size:
    of ten large units none may have a rare hit by luck, and a group without hits has no error of its own, while labels
    that are exchanged make groups of large and small units. p is no smaller than that of the t of the interval: one hit
    alone has a t of about 1, whichever group gets it, and sizes decide the rest. Neither holds where most of a group is
    compared within clusters, as matched texts are.
    """
    shape = (len(contrasts), np.shape(totals)[-1])
    top, below = (np.broadcast_to(np.asarray(one, dtype=float), shape) for one in (hits, totals))
    there = (below > 0) & np.isfinite(top)
    tested, left = testable(contrasts, there)
    how = method or f"labels exchanged among whole {cluster}s, studentised; interval by leaving out one {cluster}"
    parts = [part for of in zip(tested, top, below, there, strict=True) if (part := _Ratios.of(*of)) is not None]
    if not parts:
        return claim(key, NAN, method="a group has no answers", **about)
    if "group" not in about:
        about.setdefault("over", named_contrasts((str(g), str(one.unmarked)) for one in tested for g in one.marked))
    n_marked = sum(part.n_groups - 1 for part in parts)
    shares = [(part.n_groups - 1) / n_marked for part in parts]

    def both(codes: Sequence[Codes]) -> tuple[Floats, Floats]:
        made = [part.difference(drawn) for part, drawn in zip(parts, codes, strict=True)]
        estimate = sum((w * e for w, (e, _) in zip(shares, made, strict=True)), np.zeros(1))
        return estimate, np.sqrt(sum((w**2 * v for w, (_, v) in zip(shares, made, strict=True)), np.zeros(1)))

    def draw(n: int) -> Floats:
        estimate, error = both([part.exchange.draw(n, rng) for part in parts])
        return np.column_stack([studentised(estimate, error), estimate])

    def estimates(weights: Floats) -> Floats:
        return np.asarray(sum((w * part.weighted(weights) for w, part in zip(shares, parts, strict=True)), np.zeros(1)))

    estimate, error = both([part.exchange.labels[None, :] for part in parts])
    used, size = np.any([part.used for part in parts], axis=0), below.max(axis=0)
    identity = np.arange(shape[1]) if clusters is None else np.asarray(clusters)
    found = spread(
        lambda codes, n: leave_out(lambda weights: estimates(_all_units(weights, used)))(codes, n),
        {cluster: identity[used]}, [np.where(part.used, part.code, -1)[used] for part in parts], weights=size[used],
    )  # fmt: skip
    varies = any(part.varies for part in parts)
    observed, smallest = float(studentised(estimate, error)[0]), math.prod(part.exchange.smallest_p for part in parts)
    null = exchange_test(observed, draw, draws_needed(family), smallest_p=smallest)
    about = {"n": round(size[used].sum()), **about}
    if not any(part.spans(identity) for part in parts):
        found, null = _as_alike(float(estimate[0]), found, null, shares, parts)
    if rare and varies and null.p > ALPHA:
        found = found.at_least(null.sd, found.df)
    made = claim(
        key, float(estimate[0]), found, null if varies else Null(p=1.0), family=family,
        confidence_level=confidence_level, method=f"{how}; {left}" if left else how, **about,
    )  # fmt: skip
    return made.warned(f"{left[0].upper()}{left[1:]}.") if left else made


def _as_alike(
    estimate: float, found: Spread, null: Null, shares: Sequence[float], parts: Sequence[_Ratios]
) -> tuple[Spread, Null]:
    """Spread and test with the variance of units that vary alike, or more, and p no smaller than that of the t."""
    variance = math.fsum(w**2 * part.alike for w, part in zip(shares, parts, strict=True))
    wide = found.at_least(math.sqrt(variance), found.df)
    by_units = wide.p(estimate)
    return wide, replace(null, p=max(null.p, by_units)) if math.isfinite(by_units) else null


def studentised(estimate: Floats, error: Floats) -> Floats:
    """Estimate over its standard error; +-10^9 where the error is 0 and the estimate is not; NaN for NaN."""
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(error > 1e-12, estimate / error, np.sign(np.where(np.abs(estimate) > 1e-12, estimate, 0)) * 1e9)
    return np.where(np.isnan(estimate), np.nan, np.clip(t, -1e9, 1e9))


def _all_units(weights: Floats, used: NDArray[np.bool_]) -> Floats:
    whole = np.zeros((len(weights), len(used)))
    whole[:, used] = weights
    return whole


@dataclass(frozen=True)
class _Ratios:
    """Ratios of the groups of one axis, the unmarked first."""

    top: Floats
    below: Floats
    used: NDArray[np.bool_]
    code: Codes
    """Shape (all units,): 0 for the unmarked group; meaningless where not used."""
    n_groups: int
    exchange: Exchange
    """Of the used units."""

    @classmethod
    def of(cls, contrast: Contrast, top: Floats, below: Floats, there: NDArray[np.bool_]) -> _Ratios | None:
        """None where the unmarked group or every marked one has no answers."""
        names = np.asarray(contrast.labels, dtype=object)
        places = [group for group in (contrast.unmarked, *contrast.marked) if (there & (names == group)).any()]
        if len(places) < 2 or places[0] != contrast.unmarked:
            return None
        code = np.full(len(names), -1, dtype=np.intp)
        for number, group in enumerate(places):
            code[names == group] = number
        used = there & (code >= 0)
        exchange = Exchange.of(code[used], *(np.asarray(block)[used] for block in contrast.blocks))
        return cls(top, below, used, code, len(places), exchange)

    def difference(self, drawn: Codes) -> tuple[Floats, Floats]:
        """Mean of the marked ratios minus the unmarked one under each labelling, and its linearised variance.

        The variance is at least that of units that vary alike in all groups.
        """
        top, below, share = self.top[self.used], self.below[self.used], self.share
        estimate, variance, pooled, sizes = np.zeros((4, len(drawn)))
        for group in range(self.n_groups):
            inside = (drawn == group).astype(float)
            n, total = inside.sum(axis=1), inside @ below
            ratio = (inside @ top) / total
            weight = -1.0 if group == 0 else 1 / (self.n_groups - 1)
            # sum of (top - ratio * below)^2, without a matrix of residuals
            squares = inside @ top**2 - 2 * ratio * (inside @ (top * below)) + ratio**2 * (inside @ below**2)
            estimate += weight * ratio
            variance += weight**2 * np.maximum(squares, 0) / total**2 * n / np.maximum(n - 1, 1e-9)
            parts = inside @ share**2 - 2 * ratio * (inside @ share) + ratio**2 * n
            pooled += np.maximum(parts, 0)
            sizes += weight**2 * (inside @ below**2) / total**2
        alike = pooled / max(len(below) - self.n_groups, 1e-9) * sizes
        return estimate, np.maximum(variance, alike)

    @property
    def share(self) -> Floats:
        """The ratio of each used unit."""
        return np.asarray(self.top[self.used] / self.below[self.used])

    @property
    def varies(self) -> bool:
        """Where every unit has the same ratio nothing could come out otherwise."""
        return bool(np.ptp(self.share) > 1e-12)

    @property
    def alike(self) -> float:
        """Variance of `difference` if the units of all groups varied alike around the means of their blocks."""
        code = self.code[self.used]
        weights = np.r_[1.0, np.full(self.n_groups - 1, 1 / (self.n_groups - 1))]
        return alike_variance(self.share, self.below[self.used], code, weights, crossing(code, self.exchange.blocks))

    def spans(self, identity: NDArray[Any]) -> bool:
        """Whether groups are compared within clusters, of which each unit has an identity."""
        return within_clusters(identity[self.used], self.code[self.used], self.below[self.used])

    def weighted(self, weights: Floats) -> Floats:
        """The difference under weights of all units, shape (replicates, units)."""
        parts = []
        for group in range(self.n_groups):
            inside = self.used & (self.code == group)
            with np.errstate(invalid="ignore", divide="ignore"):
                parts.append((weights[:, inside] @ self.top[inside]) / (weights[:, inside] @ self.below[inside]))
        return np.asarray(np.mean(parts[1:], axis=0) - parts[0])
