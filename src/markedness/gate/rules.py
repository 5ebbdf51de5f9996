"""The rules of the gate: each Score of a candidate beside the baseline's is passed, failed or inconclusive.

Notation: d = candidate - baseline, of Scores made on the clusters that both were asked, and its clustered standard
error se and Satterthwaite df from `markedness.stats.inference.difference`; w = worse x d, so that w > 0 is for the
worse (``Score.worse``; 0 means that either side of the null is worse); m = Scores of the gate whose d has a standard
error, over all candidates; alpha = 5 %.

Not worse by more than a margin M (non-inferiority)
    - passed: the upper bound of the two-sided 90 % t interval of w is below M: a test of w >= M at one-sided 5 %.
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
    - worse = 0: passed where the whole 90 % interval of d is between -M and M (two one-sided tests), or where the
      candidate is nearer to the null, the bound of d away from it is below M, and the candidate's own one-sided 95 %
      bound is less than M beyond it. Failed where the two-sided interval of d at level 1 - alpha / m is outside, and
      the candidate is the farther from the null, with the baseline on its other side, too: the lower bound of the sum
      of both, at the same level and with the sum of their errors, is above M. That sum is cautious where both models
      were asked the same clusters, and the clusters that would decide count d alone: at as many, a candidate that is
      worse by twice the margin may be failed in far less than 80 % (52 of 300 worlds of a fair baseline).

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
rejects, Holm does, too. A Score that is worse by its margin or more passes its margin in at most 5 %, where worse = 0
in at most 10 %, as there are two ways to pass (5.9 to 9.7 % of 1,000 worlds with a fair baseline); passing "no new
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

from markedness.gate.cases import Case, Decision, Outcome, Pair, one_sided, shown
from markedness.gate.missing import turned
from markedness.results import NAN, Score, VerdictKind, verdict
from markedness.stats.inference import ALPHA, detectable, difference, holm, redetected

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
    margin = case.pair.margin or 0.0
    if case.worse == 0:
        return min(1.0, spread.p(abs(d), margin)) if abs(d) > margin and not case.nearer else 1.0
    return one_sided(spread, case.worse * d - margin)


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
    d = case.difference.estimate
    if case.worse == 0:
        passing, failing = case.spread.interval(d, case.level), case.spread.interval(d, 1 - case.alpha / case.family)
        passed = (-margin < passing[0] and passing[1] < margin) or case.shown_nearer
        outside = failing[0] > margin or failing[1] < -margin
        failed = outside and case.shown_farther
        w, low, high = abs(d), *passing
        if failed:
            low, high = failing
        said = f"differs by {shown(d)}{', nearer to the null' if case.nearer else ''}"
    else:
        w = case.worse * d
        high = case.spread.interval(w, case.level)[1] + (case.candidate.chance if case.bounded else 0.0)
        low = case.spread.interval(w, 1 - 2 * case.alpha / case.family)[0]
        passed, failed = high < margin, low > margin
        said = f"worse by {shown(w)}" if w > 0 else f"better by {shown(-w)}" if w < 0 else "neither better nor worse"
    said = f"{said} (bounds {shown(low)} and {shown(high)}), margin {shown(margin)}"
    if passed or failed:
        return Decision(pair, Outcome.PASSED if passed else Outcome.FAILED, said, low=low, high=high)
    if case.worse == 0 and outside:
        said += "; not shown which of the two is the farther from the null"
        return Decision(pair, Outcome.INCONCLUSIVE, said, low=low, high=high)
    level = (2 if case.worse else 1) * case.alpha / case.family
    needed = _needed(case, margin, level) or _needed(case, margin - w, level, most=1000)
    said += f"; {needed} would decide" if needed else "; the difference is too near the margin to be decided"
    return Decision(pair, Outcome.INCONCLUSIVE, said, low=low, high=high, clusters_needed=needed)


def _needed(case: Case, shift: float, alpha: float, most: float = math.inf) -> str:
    """Clusters with which a shift is found; "" where there are as many, or it takes ``most`` times as many or more."""
    smallest = detectable(case.spread.standard_error, case.spread.df, alpha, POWER)
    times = (smallest / shift) ** 2 if abs(shift) > 1e-12 else math.inf
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
    needed = _needed(case, case.difference.estimate, (2 if case.worse else 1) * case.alpha / case.family)
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
