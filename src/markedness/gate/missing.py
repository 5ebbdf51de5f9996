"""Whether missing answers could make the gate decide otherwise; the rule is that of `markedness.gate.rules`."""

from __future__ import annotations

import math

from markedness.gate.cases import Case, Decision, Outcome, Range, null_of, one_sided, shown
from markedness.results import NAN, Score
from markedness.stats.inference import Spread


def turned(case: Case, made: Decision) -> str:
    """Why missing answers could make another decision; "" where they could not."""
    pair = case.pair
    if not (pair.candidate_missing or pair.baseline_missing):
        return ""
    ranges = [
        _range(score, missing)
        for score, missing in ((case.candidate, pair.candidate_missing), (case.baseline, pair.baseline_missing))
    ]
    which = " and ".join(
        name for name, is_missing in (("candidate", pair.candidate_missing), ("baseline", pair.baseline_missing))
        if is_missing
    )  # fmt: skip
    lost = f"what is missing of the {which} differs by group"
    if any(math.isnan(end) for ends in ranges for end in ends):
        return f"{lost}, and no bounds say what the missing answers could change"
    if pair.margin is not None:
        holds = _margin_holds(case, made, ranges[0], ranges[1])
    else:
        sides = (case.worse,) if case.worse else (1, -1)
        holds = all(_finding_holds(case, made, side, ranges[0], ranges[1]) for side in sides)
    if holds:
        return ""
    at = [f"between {shown(low)} and {shown(high)}" for low, high in ranges]
    return f"{lost}: with all answers the candidate could lie {at[0]}, the baseline {at[1]}, which could turn this"


def _range(score: Score, missing: bool) -> Range:
    """Between which values an estimate lies whatever the missing answers were."""
    if not missing:
        return score.estimate, score.estimate
    if math.isnan(score.worst_low) or math.isnan(score.worst_high):
        return NAN, NAN
    return min(score.worst_low, score.estimate), max(score.worst_high, score.estimate)


def _margin_holds(case: Case, made: Decision, candidate: Range, baseline: Range) -> bool:
    """Whether the decision is the same wherever the two lie."""
    low, high = case.bounds(candidate, baseline)
    margin = case.pair.margin or 0.0
    return high < margin if made.outcome is Outcome.PASSED else low > margin


def _finding_holds(case: Case, made: Decision, side: int, candidate: Range, baseline: Range) -> bool:
    """Whether the decision is the same where the missing answers speak against it."""
    worst, best = (0, 1) if side < 0 else (1, 0)
    tails = 1 if case.worse else 2
    if made.outcome is Outcome.PASSED:
        if not _found_at(case.candidate, candidate[worst], side, case.p_candidate, case.alpha):
            return True
        before = _found_at(case.baseline, baseline[best], side, case.p_baseline, case.alpha, case.family)
        shift = side * (candidate[worst] - baseline[best])
        return before and case.spread.known and tails * one_sided(case.spread, shift) > case.alpha
    if case.worse == 0 and (side > 0) != case.candidate.above_null:
        return True  # a finding on the other side
    shift = side * (candidate[best] - baseline[worst])
    still = _found_at(case.candidate, candidate[best], side, case.p_candidate, case.alpha, case.family)
    return still and tails * one_sided(case.spread, shift) * case.family <= case.alpha


def _found_at(score: Score, value: float, side: int, p: float, alpha: float, family: int = 1) -> bool:
    """Whether a value in place of the estimate is found on this side of the null; p is that of the estimate itself.

    Without a standard error nothing can be said of another value: it counts as found in order to undo a pass
    (``family`` 1), and as not found in order to uphold a decision.
    """
    null = null_of(score)
    if value == score.estimate:
        return p <= alpha and side * (value - null) > 0
    if side * (value - null) <= 0:
        return False
    spread = Spread(score.standard_error, score.df)
    return spread.p(value, null) * family <= alpha if spread.known else family == 1
