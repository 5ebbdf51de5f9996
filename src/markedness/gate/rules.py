"""The rules of the gate: each Score of a candidate beside the baseline's is passed, failed or inconclusive.

Notation: d = candidate - baseline, of Scores made on the clusters that both were asked, and its clustered standard
error se and Satterthwaite df from `markedness.stats.inference.difference`; w = worse x d, so that w > 0 is for the
worse (``Score.worse``; 0 means that either side of the null is worse); m = Scores of the gate whose d has a standard
error, over all candidates; alpha = 5 %.

Not worse by more than a margin M (non-inferiority)
    - passed: the upper one-sided bound of w at level 1 - alpha is below M: that of the 90 % t interval.
    - failed: the lower one-sided bound of w at level 1 - alpha / m is above M.
    - else inconclusive. The clusters that would decide are n x (s x se / M)^2, s the shift in standard errors that a
      one-sided t test at alpha / m finds with `POWER`: with as many, a candidate that is worse by twice the margin is
      failed in 80 % or more, and one that is equal to the baseline passes in 80 % or more. `POWER` is 90 %, because se
      is an estimate: planned for 80 and 85 % at the se of two draws of one model, a candidate that was worse was failed
      in 77 % of simulations, for 90 % in 82 % (scripts/simulate_gate.py). Where there are as many already,
      n x (s x se / (M - w))^2: what would decide at the difference that was seen.
    - The Score of unequal missing answers (``missing_key``) is a difference of shares, which may be 0 by luck, in two
      that agree, too: se is at least that of a share of M of whole clusters, see `Case.spread`. It passes with about
      3 / M clusters in each group or more: 30 for M = .1, 14 for .2. Of other Scores that do not vary at all in
      either model no difference is bounded: inconclusive. Where the two agree in every cluster and do vary, the
      candidate passes.
      Of distances, which are less their mean under exchange, the bound is higher by the candidate's mean.
    - worse = 0: on each side of the null. Above it w is the smaller of d and of the candidate's estimate less its null,
      below it that of both with the other sign. What comes nearer to the null is not worse, and what passes to its
      other side is worse there by as far as it goes. Failed where on one side both are above M, by bounds at
      alpha / 2m. Passed where on each side one of the two is below M, by bounds at alpha / 2, as either would do (at
      alpha where the baseline does not vary: then both have the same error). The clusters that would decide are those
      of the larger of the two errors, with 95 % for `POWER`, as both must be shown.

No new finding (every other comparable headline Score)
    A Score is *found* in a model where its p, by Holm over the Scores of the gate, is at most alpha and the estimate is
    on the worse side of the null (either side where worse = 0).
    - failed: found in the candidate, and d significant for the worse: one-sided p of w > 0 (two-sided, and away from
      the null on the side that is found, where worse = 0), by Holm over the m Scores, at most alpha. The reason says
      whether the finding is new or was found in the baseline, too, and is larger now.
    - passed: not found in the candidate; or found in both and d not significant for the worse.
    - inconclusive: one of the two is not measured or has too little data; or found in the candidate alone while d is
      not significant; or, where nothing but missing answers could be compared, what neither has.

Error rates: where no Score of a candidate is worse (by more than its margin), the probability that any is failed is at
most alpha: failed by a bound at alpha / m is failed by Bonferroni over the p-values of all m, and what Bonferroni
rejects, Holm does, too. A Score that is worse by its margin or more passes its margin in at most 5 %; passing "no new
finding" shows nothing of an effect smaller than the one that its verdict says would have been found.

Missing answers
    Where the audit's Score of unequal missing answers (``missing_key``) is found in a model, or has an estimate other
    than 0 and too little data, the model's Scores may lie anywhere in [worst_low, worst_high]; so may a Score that has
    these bounds because its own values are missing unequally. An answer that does not hold at the ends of these ranges
    is inconclusive; without such bounds every answer is. At the ends se stays; findings and differences are t tests,
    without correction where they would undo a pass and by Bonferroni where they must uphold a fail.

Several looks at growing data
    With K looks (``gate.looks``) alpha is 5 % / K everywhere above, so that all error rates hold for the looks together
    (Bonferroni), whichever look ends the gate and however much data it has.

The gate fails where any Score fails, else is inconclusive where any is, else passes.

Sources: Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15(6):657-680 (two one-sided tests); Piaggio
et al. 2012, JAMA 308(24):2594-2604 (non-inferiority: margins and what may be concluded).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from markedness.gate.cases import Case, Decision, Outcome, Pair, Way, null_of, shown
from markedness.gate.missing import turned
from markedness.results import NAN, Score, VerdictKind, verdict
from markedness.stats.inference import ALPHA, Spread, detectable, difference, holm, redetected

POWER = 0.9
"""With which `Decision.clusters_needed` is planned."""


def decide(pairs: Sequence[Pair], looks: int = 1) -> list[Decision]:
    """A decision for each pair, in their order; see the rules above.

    Parameters
    ----------
    looks
        K, how often the data may be looked at.
    """
    alpha = ALPHA / looks
    cases: dict[int, Case] = {}
    for place, pair in enumerate(pairs):
        if pair.candidate is not None and pair.baseline is not None:
            found = difference(pair.candidate, pair.baseline, 1 - 2 * alpha)
            case = Case(pair, pair.candidate, pair.baseline, found, 0, 0, NAN, alpha)
            cases[place] = replace(case, p=_p_worse(case))
    adjusted = holm([case.p for case in cases.values()])
    of_candidate = holm([case.candidate.p for case in cases.values()])
    of_baseline = holm([case.baseline.p for case in cases.values()])
    family = max(1, sum(math.isfinite(case.p) for case in cases.values()))
    tested = max(1, sum(math.isfinite(case.candidate.p) for case in cases.values()))
    for (place, case), *p in zip(cases.items(), adjusted, of_candidate, of_baseline, strict=True):
        cases[place] = replace(
            case,
            family=family,
            tested=tested,
            p_adjusted=float(p[0]),
            p_candidate=float(p[1]),
            p_baseline=float(p[2]),
        )
    return [
        _decided(cases[place]) if place in cases else Decision(pair, Outcome.INCONCLUSIVE, pair.reason)
        for place, pair in enumerate(pairs)
    ]


def whole(decisions: Sequence[Decision]) -> Outcome:
    """Of a model, or of all."""
    outcomes = {one.outcome for one in decisions}
    return next((one for one in (Outcome.FAILED, Outcome.INCONCLUSIVE) if one in outcomes), Outcome.PASSED)


def _p_worse(case: Case) -> float:
    """p-value of the claim that a fail makes of the difference; NaN without a standard error."""
    d, spread = case.difference.estimate, case.spread
    if case.same and not case.bounded:
        return 1.0
    if math.isnan(d) or not spread.known:
        return NAN
    if case.pair.margin is not None or case.worse:
        return case.p_beyond(case.pair.margin or 0.0)
    return spread.p(d) if (d > 0) == case.candidate.above_null else 1.0


def _decided(case: Case) -> Decision:
    made = _by_margin(case) if case.pair.margin is not None else _by_finding(case)
    found = case.difference
    made = replace(
        made, difference=found.estimate, standard_error=case.spread.standard_error, df=case.spread.df, p=case.p,
        p_adjusted=case.p_adjusted, clusters=_counted(found, 1.0), caveat=found.caveat,
    )  # fmt: skip
    if made.outcome is Outcome.INCONCLUSIVE:
        return made
    why = turned(case, made)
    return replace(made, outcome=Outcome.INCONCLUSIVE, reason=f"{made.reason}; but {why}") if why else made


# ---- not worse by more than a margin


def _by_margin(case: Case) -> Decision:
    pair, margin = case.pair, case.pair.margin or 0.0
    if case.same and not case.bounded:
        if case.empty:
            return Decision(pair, Outcome.INCONCLUSIVE, "nothing varies in either, which bounds no difference")
        return Decision(pair, Outcome.PASSED, "the two agree in every cluster")
    if (why := _unmeasured(case)) or not case.spread.known:
        return Decision(pair, Outcome.INCONCLUSIVE, why or f"the difference has no interval ({case.difference.method})")
    w = case.w
    low, high = case.bounds(*case.at)
    passed, failed = high < margin, low > margin
    if case.worse:
        said = f"worse by {shown(w)}" if w > 0 else f"better by {shown(-w)}" if w < 0 else "neither better nor worse"
    else:
        side = "above" if case.candidate.above_null else "below"
        said = f"worse by {shown(w)} {side} the null" if w > 0 else "worse on neither side of the null"
    said = f"{said} (bounds {shown(low)} and {shown(high)}), margin {shown(margin)}"
    if passed or failed:
        return Decision(pair, Outcome.PASSED if passed else Outcome.FAILED, said, low=low, high=high)
    needed = _about(case, _times_planned(case, margin)) or _about(case, _times_seen(case, margin, w), most=1000)
    said += f"; {needed} would decide" if needed else "; the difference is too near the margin to be decided"
    return Decision(pair, Outcome.INCONCLUSIVE, said, low=low, high=high, clusters_needed=needed)


def _times_planned(case: Case, margin: float) -> float:
    """How many times the clusters it takes until a candidate that is worse by twice the margin is failed."""
    ways = max(case.ways, key=lambda of: min(way.least(*case.at) for way in of))
    side, baseline = ways[0].candidate, Spread(case.baseline.standard_error, case.baseline.df)
    there = side * (case.baseline.estimate - null_of(case.baseline))
    before = max(0.0, baseline.interval(there, 1 - 2 * case.alpha)[0]) if baseline.known else 0.0
    return max(_times_way(case, way, margin + (0.0 if way.baseline else before)) for way in ways)


def _times_seen(case: Case, margin: float, w: float) -> float:
    """How many times the clusters it takes until the w that was seen is passed or failed."""

    def times(way: Way) -> float:
        return _times_way(case, way, way.least(*case.at) - margin)

    if w > margin:
        return min(max(map(times, of)) for of in case.ways if all(way.least(*case.at) > margin for way in of))
    return max(min(times(way) for way in of if way.least(*case.at) <= margin) for of in case.ways)


def _times_way(case: Case, way: Way, shift: float) -> float:
    """Of two ways that must both be shown each has half of what may go wrong."""
    sides = 1 if case.worse else 2
    return _times(way.spread, shift, 2 * case.alpha / case.family / sides, 1 - (1 - POWER) / sides)


def _times(spread: Spread, shift: float, alpha: float, power: float = POWER) -> float:
    """How many times the clusters it takes until a two-sided t test finds a shift."""
    smallest = detectable(spread.standard_error, spread.df, alpha, power)
    return (smallest / shift) ** 2 if abs(shift) > 1e-12 else math.inf


def _about(case: Case, times: float, most: float = math.inf) -> str:
    """Clusters in words; "" where there are as many, or it takes ``most`` times as many or more."""
    return f"about {_counted(case.difference, times)}" if 1 < times < most else ""


def _counted(found: Score, times: float) -> str:
    """Clusters of each factor: "24 of 'name'"."""
    return " and ".join(f"{math.ceil(n * times - 1e-9)} of '{factor}'" for factor, n in found.clusters.items())


# ---- no new finding


def _by_finding(case: Case) -> Decision:
    pair = case.pair
    if why := _unmeasured(case) or _untested(case):
        bounded = math.isfinite(case.p_candidate) and not (case.candidate.lacking or case.baseline.lacking)
        if case.same and bounded:  # what is not new need not be found
            return Decision(pair, Outcome.PASSED, f"the two agree in every cluster; {why}")
        return Decision(pair, Outcome.INCONCLUSIVE, why)
    said = verdict(_planned(case), p=case.p_candidate, family=case.tested, alpha=case.alpha).sentence.rstrip(".")
    if not _is_found(case.candidate, case.p_candidate, case.alpha):
        on_other = case.p_candidate <= case.alpha
        return Decision(pair, Outcome.PASSED, f"{said}; not for the worse" if on_other else said)
    side = 1 if case.candidate.above_null else -1
    before = (
        _is_found(case.baseline, case.p_baseline, case.alpha) and case.baseline.above_null == case.candidate.above_null
    )
    significant = case.p_adjusted <= case.alpha and (case.worse or side) * case.difference.estimate > 0
    if significant:
        new = "found in the baseline, too, and larger now" if before else "new"
        return Decision(pair, Outcome.FAILED, f"{said}; {new}: {shown(case.baseline.estimate)} in the baseline")
    if before or case.same:
        return Decision(pair, Outcome.PASSED, f"{said}; found in the baseline, too, and not significantly worse")
    if not case.spread.known:
        return Decision(
            pair, Outcome.INCONCLUSIVE, f"{said}; the difference has no interval ({case.difference.method})"
        )
    times = _times(case.spread, case.difference.estimate, (2 if case.worse else 1) * case.alpha / case.family)
    needed = _about(case, times)
    more = f"; {needed} would decide at this difference" if needed else ""
    reason = (
        f"{said}; not found in the baseline, but the difference of {shown(case.difference.estimate)} is not significant"
    )
    return Decision(pair, Outcome.INCONCLUSIVE, reason + more, clusters_needed=needed)


def _planned(case: Case) -> Score:
    """The candidate's Score; the effect that would have been found is that at the correction of this gate."""
    one = case.candidate
    over = round(case.tested * ALPHA / case.alpha)
    return replace(one, detectable=redetected(one.detectable, one.df, one.family, over))


def _is_found(score: Score, p: float, alpha: float) -> bool:
    """Whether a Score is found on the side that is worse."""
    return p <= alpha and (score.worse == 0 or (score.worse > 0) == score.above_null)


def _unmeasured(case: Case) -> str:
    for name, score in (("candidate", case.candidate), ("baseline", case.baseline)):
        if score.missing:
            return f"the {name}: {verdict(score).sentence.rstrip('.')}"
    return ""


def _untested(case: Case) -> str:
    """Which of the two has no test, and why."""
    for name, score, p in (
        ("candidate", case.candidate, case.p_candidate), ("baseline", case.baseline, case.p_baseline),
    ):  # fmt: skip
        answer = verdict(score, p=p, family=case.tested, alpha=case.alpha)
        if answer.kind not in (VerdictKind.FOUND, VerdictKind.NOT_FOUND):
            return f"the {name}: {answer.sentence.rstrip('.')}"
    return ""
