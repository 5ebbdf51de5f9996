"""What the gate decides on, and what it says of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from markedness.results import NAN, Score
from markedness.stats.inference import Spread

Range = tuple[float, float]
"""From and to."""


class Outcome(StrEnum):
    """What the gate says of a Score, of a model and of all."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Pair:
    """One Score of a candidate and the baseline's."""

    model: str
    audit: str
    key: str
    candidate: Score | None = None
    baseline: Score | None = None
    """Both on the clusters that both models were asked; None where there is no pair, see ``reason``."""
    margin: float | None = None
    """In the unit of the Score; None: no new finding."""
    reason: str = ""
    """Why there is nothing to compare."""
    candidate_missing: bool = False
    """Whether missing answers may be what the candidate's Score shows."""
    baseline_missing: bool = False
    of_missing: bool = False
    """Whether it is the Score of unequal missing answers: a difference of shares that may be 0 by luck."""


@dataclass(frozen=True)
class Decision:
    """What the gate says of a `Pair`."""

    pair: Pair
    outcome: Outcome
    reason: str
    """One sentence."""
    difference: float = NAN
    """Candidate minus baseline."""
    standard_error: float = NAN
    df: float = NAN
    low: float = NAN
    """Of w: the bound that a fail rests on."""
    high: float = NAN
    """Of w: the bound that a pass rests on."""
    p: float = NAN
    """That the candidate is worse: of w > margin, or of w > 0."""
    p_adjusted: float = NAN
    clusters: str = ""
    """Of each factor, in words."""
    clusters_needed: str = ""
    """With which it would be decided; "" where it is decided, or none can be named."""
    caveat: str = ""
    """What a reader must see at the two Scores, and so at what is decided on them."""

    @property
    def said(self) -> str:
        """The reason, and what a reader must see beside it."""
        return f"{self.reason.rstrip('.')}. {self.caveat}" if self.caveat else self.reason


@dataclass(frozen=True)
class Way:
    """By how much the candidate is worse: its estimate and the baseline's, or the null, each with a sign, added."""

    candidate: int
    baseline: int
    spread: Spread
    beside: float = 0.0
    """What is added: the null with its sign."""

    def least(self, candidate: Range, baseline: Range) -> float:
        """Over all of the two ranges."""
        return sum(min(way * one for one in of) for way, of in self._parts(candidate, baseline)) + self.beside

    def _parts(self, candidate: Range, baseline: Range) -> list[tuple[int, Range]]:
        return [(self.candidate, candidate), (self.baseline, baseline)]

    def low(self, candidate: Range, baseline: Range, alpha: float) -> float:
        """Lower one-sided bound of the least; without an error there is none."""
        least = self.least(candidate, baseline)
        return self.spread.interval(least, 1 - 2 * alpha)[0] if self.spread.known else -math.inf

    def high(self, candidate: Range, baseline: Range, alpha: float) -> float:
        """Upper one-sided bound of the most; without an error there is none."""
        most = sum(max(way * one for one in of) for way, of in self._parts(candidate, baseline)) + self.beside
        return self.spread.interval(most, 1 - 2 * alpha)[1] if self.spread.known else math.inf

    def p(self, candidate: Range, baseline: Range, margin: float) -> float:
        """One-sided p-value of the claim that the least is above a margin; 1 without an error."""
        return one_sided(self.spread, self.least(candidate, baseline) - margin) if self.spread.known else 1.0


@dataclass(frozen=True)
class Case:
    """A pair with its difference, and what Holm says of it."""

    pair: Pair
    candidate: Score
    baseline: Score
    difference: Score
    """Candidate minus baseline."""
    family: int
    """m."""
    tested: int
    """Scores over which ``p_candidate`` is corrected."""
    p: float
    """That the candidate is worse, as in `Decision`."""
    alpha: float
    """Of one look."""
    p_adjusted: float = NAN
    p_candidate: float = NAN
    """By Holm over the Scores of the gate."""
    p_baseline: float = NAN

    @property
    def worse(self) -> int:
        """Which direction is for the worse; see `Score.worse`."""
        return self.candidate.worse

    @property
    def spread(self) -> Spread:
        """The sampling error of the difference; of shares that a margin bounds, at least that at the margin.

        A share that is 0 by luck shows no error, and one or two answers too small a one. Answers are missing by whole
        clusters, as a filter refuses a name or a text whatever is asked of it, so that a share M of c clusters has the
        error sqrt(M (1 - M) / c) (Farrington & Manning 1990), and c - 1 degrees of freedom; c is that of the factor and
        group that have the fewest (`Score.fewest`; where it is not known, half of the factor's). A count that is small
        is skewed: the error is multiplied by sqrt(-ln alpha) / z of alpha, so that none of c passes where that has a
        probability of exp(-c M) > alpha (Hanley & Lippman-Hand 1983: the rule of three).
        """
        return self._at_margin(self.difference)

    def _at_margin(self, sampled: Score) -> Spread:
        found = Spread(sampled.standard_error, sampled.df)
        if not self.bounded:
            return found
        from scipy import stats

        margin = self.pair.margin or 0.0
        half = min(self.difference.clusters.values(), default=2) / 2
        fewest = min(one.fewest or half for one in (self.candidate, self.baseline))
        skewed = max(1.0, -math.log(self.alpha) / float(stats.norm.isf(self.alpha)) ** 2)
        return found.at_least(math.sqrt(margin * (1 - margin) * skewed / fewest), max(1.0, fewest - 1))

    @property
    def bounded(self) -> bool:
        """Whether the margin itself says how far a share may be from what was seen."""
        return self.pair.of_missing and 0 < (self.pair.margin or 0.0) < 1

    @property
    def ways(self) -> list[list[Way]]:
        """For each side that is worse the ways in which w may be written, of which w is the least; w is the largest.

        Where one side is worse, w = worse x d. Where either is, w is the smaller of d and of c less its null above it,
        and that of both with the other sign below; c is the candidate's estimate.
        """
        if self.worse:
            return [[Way(self.worse, -self.worse, self.spread)]]
        own, null = self._at_margin(self.candidate), null_of(self.candidate)
        return [[Way(side, -side, self.spread), Way(side, 0, own, -side * null)] for side in (1, -1)]

    @property
    def at(self) -> tuple[Range, Range]:
        """The candidate's and the baseline's estimate, each from and to."""
        candidate, baseline = self.candidate.estimate, self.baseline.estimate
        return (candidate, candidate), (baseline, baseline)

    @property
    def w(self) -> float:
        """By how much the candidate is worse; negative where it is better."""
        return max(min(way.least(*self.at) for way in of) for of in self.ways)

    def bounds(self, candidate: Range, baseline: Range) -> tuple[float, float]:
        """Lower and upper bound of w wherever the two lie within these ranges.

        A fail rests on the lower: for one of the sides all ways are above the margin. A pass rests on the upper: for
        each side one way is below, of two at half the level each, as either would do; of a baseline that does not vary
        the two have the same error.
        """
        ways = self.ways
        either = 1 if self.worse or not self.baseline.standard_error > 1e-12 else 2
        low = max(min(way.low(candidate, baseline, self.alpha / self.family / len(ways)) for way in of) for of in ways)
        high = max(min(way.high(candidate, baseline, self.alpha / either) for way in of) for of in ways)
        return low, high + (self.candidate.chance if self.bounded else 0.0)

    def p_beyond(self, margin: float) -> float:
        """p-value of the claim that w is above a margin."""
        ways = self.ways
        return min(1.0, len(ways) * min(max(way.p(*self.at, margin) for way in of) for of in ways))

    @property
    def same(self) -> bool:
        """Whether the two agree in every cluster."""
        return self.difference.p == 1 and not self.difference.standard_error > 1e-12

    @property
    def empty(self) -> bool:
        """Whether they agree as in neither anything varies: every answer is no."""
        return self.same and not self.candidate.standard_error > 1e-12


def null_of(score: Score) -> float:
    """The value without an effect; 0 where none is given."""
    return score.null_mean if math.isfinite(score.null_mean) else 0.0


def one_sided(spread: Spread, shift: float) -> float:
    """One-sided p-value of a shift above 0."""
    two_sided = spread.p(shift)
    return two_sided / 2 if shift > 0 else 1 - two_sided / 2


def shown(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"
