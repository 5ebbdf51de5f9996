"""What the gate decides on, and what it says of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from markedness.results import NAN, Score
from markedness.stats.inference import Spread


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
    """Of w: the bound that a fail rests on; of d where worse = 0."""
    high: float = NAN
    """Of w: the bound that a pass rests on; of d where worse = 0."""
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
    def level(self) -> float:
        """Of the two-sided interval whose upper bound is compared with a margin."""
        return 1 - 2 * self.alpha

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
        return self._at_margin(Spread(self.difference.standard_error, self.difference.df))

    def _at_margin(self, found: Spread) -> Spread:
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
    def nearer(self) -> bool:
        """Where either side of the null is worse, whether the candidate is nearer to it."""
        candidate, baseline = (_off(score) for score in (self.candidate, self.baseline))
        return self.worse == 0 and abs(candidate) < abs(baseline)

    @property
    def shown_nearer(self) -> bool:
        """Whether a candidate that is nearer is shown to be farther by less than the margin, on the other side too."""
        side = 1 if _off(self.baseline) > 0 else -1
        margin, own = self.pair.margin or 0.0, Spread(self.candidate.standard_error, self.candidate.df)
        beyond = self._at_margin(own).interval(side * _off(self.candidate), self.level)[0]
        farther = self.spread.interval(side * self.difference.estimate, self.level)[1]
        return self.nearer and farther < margin and beyond > -margin

    @property
    def shown_farther(self) -> bool:
        """Whether a difference above the margin is one away from the null, whichever side the baseline truly is on."""
        side = 1 if self.difference.estimate > 0 else -1
        candidate, baseline = (side * _off(score) for score in (self.candidate, self.baseline))
        if self.nearer:
            return False
        errors = self.candidate.standard_error + self.baseline.standard_error
        both = Spread(errors, min(self.candidate.df, self.baseline.df))
        return both.interval(candidate + baseline, 1 - self.alpha / self.family)[0] > (self.pair.margin or 0.0)

    @property
    def same(self) -> bool:
        """Whether the two agree in every cluster."""
        return self.difference.p == 1 and not self.difference.standard_error > 1e-12

    @property
    def empty(self) -> bool:
        """Whether they agree as in neither anything varies: every answer is no."""
        return self.same and not self.candidate.standard_error > 1e-12


def _off(score: Score) -> float:
    """The estimate less its null."""
    return score.estimate - (score.null_mean if math.isfinite(score.null_mean) else 0.0)


def one_sided(spread: Spread, shift: float) -> float:
    """One-sided p-value of a shift above 0."""
    two_sided = spread.p(shift)
    return two_sided / 2 if shift > 0 else 1 - two_sided / 2


def shown(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"
