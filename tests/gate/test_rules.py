"""A candidate is passed, failed or inconclusive by the rules of the gate, at their error rates."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from markedness.gate import outputs
from markedness.gate.cases import Decision, Outcome, Pair
from markedness.gate.rules import decide, whole
from markedness.gate.run import _not_passed as not_passed
from markedness.results import Score
from markedness.stats.inference import (
    Contrast,
    claim,
    contrast_score,
    detectable,
    group_difference_score,
    mean_leave_out,
    spread,
    withdrawn,
)

PASSED, FAILED, INCONCLUSIVE = Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE


def score(values: np.ndarray, worse: int = 1, key: str = "gap.marked") -> Score:
    """The mean of one value a name; se is sd / sqrt(n)."""
    names = [f"n{i}" for i in range(len(values))]
    sampled = spread(mean_leave_out(values), {"name": names})
    return claim(
        key, float(values.mean()), sampled, method="names left out", worse=worse, comparable=True,
        positive="more", negative="less",
    )  # fmt: skip


def names(mean: float, n: int = 20, sd: float = 1.0, seed: int = 0) -> np.ndarray:
    """Exactly of this mean and standard deviation."""
    drawn = np.random.default_rng(seed).normal(size=n)
    made: np.ndarray = mean + sd * (drawn - drawn.mean()) / drawn.std(ddof=1)
    return made


def pair(candidate: Score, baseline: Score, margin: float | None = None, model: str = "new") -> Pair:
    return Pair(model, "toy", candidate.key, candidate, baseline, margin)


def one(made: Pair) -> Decision:
    return decide([made])[0]


# ---- margins


def test_bounds_of_a_margin_are_those_of_the_paired_t() -> None:
    candidate, baseline = names(0.3, seed=1), names(0.0, seed=2)
    made = one(pair(score(candidate), score(baseline), 0.5))
    d = candidate - baseline
    assert made.difference == pytest.approx(0.3)
    assert made.standard_error == pytest.approx(d.std(ddof=1) / math.sqrt(20), rel=1e-6)
    # One Score: both bounds are at one-sided 5 %.
    reach = stats.t.ppf(0.95, made.df) * made.standard_error
    assert (made.low, made.high) == pytest.approx((0.3 - reach, 0.3 + reach))


@pytest.mark.parametrize(
    ("shift", "worse", "outcome"),
    [
        (0.0, 1, PASSED), (1.0, 1, FAILED), (0.5, 1, INCONCLUSIVE), (-1.0, 1, PASSED),
        (0.0, -1, PASSED), (-1.0, -1, FAILED), (1.0, -1, PASSED),
        (0.0, 0, PASSED), (1.0, 0, FAILED), (-1.0, 0, FAILED), (0.5, 0, INCONCLUSIVE), (-0.5, 0, INCONCLUSIVE),
    ],
)  # fmt: skip
def test_margin_is_kept_exceeded_or_undecided_in_the_direction_that_is_worse(
    shift: float, worse: int, outcome: Outcome
) -> None:
    # se of the difference about 0.1 x sqrt(2 / 20) = 0.03, margin 0.5.
    candidate, baseline = score(names(shift, sd=0.1, seed=1), worse), score(names(0.0, sd=0.1, seed=2), worse)
    assert one(pair(candidate, baseline, 0.5)).outcome is outcome


@pytest.mark.parametrize("nulls", [(0.03, 0.0), (0.0, 0.03), (0.5, math.nan)])
def test_where_one_side_is_worse_a_margin_is_of_the_estimates_whatever_their_nulls(nulls: tuple[float, float]) -> None:
    candidate, baseline = score(names(0.3, seed=1)), score(names(0.0, seed=2))
    plain = one(pair(candidate, baseline, 0.5))
    other = one(pair(replace(candidate, null_mean=nulls[0]), replace(baseline, null_mean=nulls[1]), 0.5))
    assert (other.outcome, other.low, other.high, other.p) == (plain.outcome, plain.low, plain.high, plain.p)
    assert "worse by 0.3 " in other.reason


def test_fails_of_margins_are_corrected_over_the_scores_of_the_gate() -> None:
    made = pair(score(names(0.92, seed=1)), score(names(0.0, seed=2)), 0.5)
    alone = one(made)
    reach = (0.92 - 0.5) / alone.standard_error
    assert stats.t.sf(reach, alone.df) == pytest.approx(alone.p)
    level = 0.05 / alone.p  # so many Scores, and the bound is at the margin
    few, many = math.floor(level), math.ceil(level)
    others = [pair(score(names(0.0, seed=9)), score(names(0.0, seed=8)), 5.0) for _ in range(many)]
    assert decide([made, *others[: few - 1]])[0].outcome is FAILED
    assert decide([made, *others[: many - 1]])[0].outcome is INCONCLUSIVE


def test_inconclusive_margin_says_how_many_clusters_would_decide() -> None:
    made = one(pair(score(names(0.1, seed=1)), score(names(0.0, seed=2)), 0.2))
    assert made.outcome is INCONCLUSIVE
    shift = stats.t.ppf(0.95, made.df)
    power = stats.nct.sf(shift, made.df, 0.2 / made.standard_error)
    assert power < 0.8
    needed = int(made.clusters_needed.split()[1])
    # With so many names the se is smaller by the root: then the power at a true difference of 0 is 90 %.
    smaller = made.standard_error * math.sqrt(20 / needed)
    assert stats.nct.sf(shift, made.df, 0.2 / smaller) == pytest.approx(0.9, abs=0.02)
    assert f"{made.clusters_needed} would decide" in made.reason and made.clusters_needed.endswith("of 'name'")


def test_the_same_answers_pass_any_margin() -> None:
    same = score(names(0.3))
    assert one(pair(same, same, 0.001)).outcome is PASSED


def test_difference_without_an_interval_is_inconclusive() -> None:
    few = score(names(0.0, n=4))
    made = one(pair(few, score(names(0.0, n=4, seed=3)), 5.0))
    assert made.outcome is INCONCLUSIVE and math.isnan(made.p)
    nothing = replace(few, estimate=math.nan, lacking="no answers")
    assert "no answers" in one(pair(nothing, few, 5.0)).reason


@pytest.mark.parametrize("margin", [5.0, 0.001, None])
def test_score_that_is_withdrawn_is_inconclusive_whatever_its_estimate_is(margin: float | None) -> None:
    kept, why = score(names(0.0)), "the names have unlike numbers of answers"
    for one_withdrawn in (
        pair(withdrawn(score(names(2.0)), why), kept, margin),
        pair(kept, withdrawn(score(names(2.0)), why), margin),
    ):
        made = one(one_withdrawn)
        assert made.outcome is INCONCLUSIVE and why in made.reason and math.isnan(made.p)


# ---- no new finding


@pytest.mark.parametrize(
    ("candidate", "baseline", "worse", "outcome"),
    [
        (0.0, 0.0, 1, PASSED),          # found in neither
        (1.0, 0.0, 1, FAILED),          # new
        (1.0, 1.0, 1, PASSED),          # found before, the same now
        (2.0, 1.0, 1, FAILED),          # found before, and larger now
        (0.0, 1.0, 1, PASSED),          # gone
        (-1.0, 0.0, 1, PASSED),         # found, but for the better
        (-1.0, 0.0, -1, FAILED),
        (1.0, 0.0, -1, PASSED),
        (1.0, 0.0, 0, FAILED),
        (-1.0, 0.0, 0, FAILED),
        (-1.0, 1.0, 0, FAILED),         # the opposite of what was found is new
        (-1.0, -1.0, 0, PASSED),
        (-0.9, 1.0, 0, FAILED),
        (1.0, 2.0, 0, PASSED),          # nearer to the null than it was
    ],
)  # fmt: skip
def test_finding_fails_where_it_is_new_or_larger_for_the_worse(
    candidate: float, baseline: float, worse: int, outcome: Outcome
) -> None:
    made = pair(score(names(candidate, seed=1), worse), score(names(baseline, seed=2), worse))
    assert one(made).outcome is outcome, one(made).reason


def test_failed_finding_says_whether_it_is_new() -> None:
    def reason(before: float) -> str:
        return one(pair(score(names(2.0, seed=1), 0), score(names(before, seed=2), 0))).reason

    assert "; new: 0.01 in the baseline" in reason(0.01) and "; new: -1 in the baseline" in reason(-1.0)
    assert "; found in the baseline, too, and larger now: 1 in the baseline" in reason(1.0)


def test_significance_of_a_difference_is_corrected_over_the_scores_of_the_gate() -> None:
    # Found whatever the correction; the difference has a p that is significant alone, not over 10 Scores.
    made = pair(score(names(1.0, seed=1)), score(names(0.5, sd=1.2, seed=2)))
    assert 0.005 < one(made).p < 0.05
    others = [pair(score(names(0.0, seed=9)), score(names(0.0, seed=8))) for _ in range(9)]
    assert one(made).outcome is FAILED and decide([made, *others])[0].outcome is INCONCLUSIVE
    assert "after correction over 10 scores" in decide([made, *others])[0].reason


def test_new_finding_without_a_significant_difference_is_inconclusive_and_says_how_many_would_decide() -> None:
    # se 0.224: 0.52 is found (t 2.3), 0.4 is not (t 1.8), and the two do not differ.
    made = one(pair(score(names(0.52, seed=1)), score(names(0.4, seed=2))))
    assert made.outcome is INCONCLUSIVE and "not found in the baseline" in made.reason
    assert "would decide at this difference" in made.reason


def test_findings_are_corrected_over_the_scores_of_the_gate() -> None:
    found = pair(score(names(0.55, seed=1)), score(names(-0.6, seed=2)))
    assert one(found).outcome is FAILED
    others = [pair(score(names(0.0, seed=9)), score(names(0.0, seed=8))) for _ in range(9)]
    assert decide([found, *others])[0].outcome is PASSED, "p = .024 x 10 is no finding"


def test_too_little_data_or_none_is_inconclusive() -> None:
    there = score(names(0.0))
    untested = replace(there, p=math.nan, lacking="it takes 6 clusters")
    for candidate, baseline, who in ((untested, there, "candidate"), (there, untested, "baseline")):
        made = one(pair(candidate, baseline))
        assert made.outcome is INCONCLUSIVE and made.reason.startswith(f"the {who}: Cannot say")
    made = one(Pair("new", "toy", "gap.marked", reason="not run yet"))
    assert (made.outcome, made.reason) == (INCONCLUSIVE, "not run yet")


# ---- missing answers


def lost(made: Score, low: float = math.nan, high: float = math.nan) -> Score:
    return replace(made, worst_low=low, worst_high=high)


@pytest.mark.parametrize("margin", [None, 2.0])
@pytest.mark.parametrize(("low", "high"), [(math.nan, math.nan), (-3.0, 3.0)])
def test_pass_that_missing_answers_could_turn_is_inconclusive(margin: float | None, low: float, high: float) -> None:
    candidate, baseline = score(names(0.0, seed=1)), score(names(0.0, seed=2))
    made = pair(candidate, baseline, margin)
    assert one(made).outcome is PASSED
    assert one(replace(made, candidate=lost(candidate, low, high), candidate_missing=True)).outcome is INCONCLUSIVE
    # What the baseline lacks can turn a margin, but not make a finding of the candidate.
    of_baseline = one(replace(made, baseline=lost(baseline, low, high), baseline_missing=True))
    assert of_baseline.outcome is (PASSED if margin is None and low == -3.0 else INCONCLUSIVE)


@pytest.mark.parametrize("margin", [None, 0.5])
def test_fail_that_missing_answers_could_turn_is_inconclusive(margin: float | None) -> None:
    candidate, baseline = score(names(3.0, seed=1)), score(names(0.0, seed=2))
    made = pair(candidate, baseline, margin)
    assert one(made).outcome is FAILED
    assert one(replace(made, candidate=lost(candidate, 0.0, 3.5), candidate_missing=True)).outcome is INCONCLUSIVE
    assert one(replace(made, baseline=lost(baseline, 0.0, 2.9), baseline_missing=True)).outcome is INCONCLUSIVE


def test_ends_of_what_is_missing_must_be_found_as_the_estimate_is() -> None:
    # Without its missing answers the candidate may be at 0: no finding, however far the baseline is on the other side.
    candidate, baseline = score(names(3.0, seed=1)), score(names(-3.0, seed=2))
    assert one(pair(candidate, baseline)).outcome is FAILED
    assert one(replace(pair(lost(candidate, 0.0, 3.0), baseline), candidate_missing=True)).outcome is INCONCLUSIVE
    # Found in both; with its missing answers the baseline may be at 0.4, t 1.8: then the finding would be new.
    candidate, baseline = score(names(0.6, seed=1)), score(names(0.6, seed=2))
    assert one(pair(candidate, baseline)).outcome is PASSED
    assert one(replace(pair(candidate, lost(baseline, 0.4, 0.6)), baseline_missing=True)).outcome is INCONCLUSIVE


@pytest.mark.parametrize(("value", "outcome"), [(0.0, PASSED), (3.0, FAILED)])
@pytest.mark.parametrize("margin", [None, 1.0])
def test_answer_that_missing_answers_could_not_turn_stands(
    value: float, outcome: Outcome, margin: float | None
) -> None:
    candidate, baseline = score(names(value, seed=1)), score(names(0.0, seed=2))
    near = lost(candidate, value - 0.05, value + 0.05)
    assert one(replace(pair(near, baseline, margin), candidate_missing=True)).outcome is outcome


@pytest.mark.parametrize("side", [1, -1])
def test_missing_answers_count_on_both_sides_where_either_is_worse(side: int) -> None:
    candidate, baseline = score(names(0.0, seed=1), worse=0), score(names(0.0, seed=2), worse=0)
    low, high = sorted((0.0, 3.0 * side))
    for margin in (None, 2.0):
        made = replace(pair(lost(candidate, low, high), baseline, margin), candidate_missing=True)
        assert one(made).outcome is INCONCLUSIVE


# ---- all of it


@pytest.mark.parametrize(("shift", "outcome"), [(2.0, FAILED), (0.0, PASSED), (0.5, INCONCLUSIVE)])
def test_caveat_of_either_score_stands_where_its_outcome_stands(shift: float, outcome: Outcome) -> None:
    few, spoken = "Fewer than 6 of 'name': it holds for these alone.", "Not over <names>: too few."
    candidate = replace(score(names(shift, sd=0.1, seed=1)), caveat=few)
    baseline = replace(score(names(0.0, sd=0.1, seed=2)), caveat=spoken)
    made, both = decide([pair(candidate, baseline, 0.5)]), f"{few} {spoken}"
    assert made[0].outcome is outcome and made[0].caveat == both
    table = outputs.table(made, "old", {("toy", "new"): "1"})
    assert table["caveat"].tolist() == [both] and few not in table["reason"][0]
    case = ET.fromstring(outputs.junit(made, "old")).find(".//testcase")
    assert case is not None and both in ET.tostring(case, "unicode").replace("&lt;", "<").replace("&gt;", ">")
    assert both.replace("<", "\\<") in outputs.summary(made, "old", [])
    if outcome is not PASSED:
        assert next(not_passed(made)).endswith(both)


def test_gate_fails_before_it_is_inconclusive() -> None:
    def said(*outcomes: Outcome) -> Outcome:
        return whole([Decision(Pair("new", "toy", "x"), outcome, "") for outcome in outcomes])

    assert said(PASSED, INCONCLUSIVE, FAILED) is FAILED
    assert said(PASSED, INCONCLUSIVE) is INCONCLUSIVE
    assert said(PASSED) is PASSED


def share(outcome: Outcome, shift: float, margin: float, n: int, worlds: int = 120, keys: int = 3) -> float:
    """Of gates over several Scores, the first with a margin, whose first is worse by ``shift``."""
    hits = 0
    for world in range(worlds):
        rng = np.random.default_rng([7, world])
        pairs = []
        for key in range(keys):
            level = rng.normal(size=n)  # what a name has in both models
            candidate, baseline = (level + rng.normal(size=n) for _ in range(2))
            moved = candidate + (shift if key == 0 else 0.0)
            pairs.append(pair(score(moved), score(baseline), margin if key == 0 else None))
        hits += whole(decide(pairs)) is outcome
    return hits / worlds


@pytest.mark.slow
def test_two_draws_of_one_model_pass_and_a_worsening_of_twice_the_margin_fails_at_the_planned_size() -> None:
    # se of the difference is sqrt(2 / n). One-sided 5 % / 3 Scores and 80 % power take a shift of 3.19 se at 23 df:
    # 3.19 x sqrt(2 / n) = 1, n = 20.4, with the smaller df of an estimated variance some more.
    assert detectable(math.sqrt(2 / 24), 23, 2 * 0.05 / 3) < 1
    assert share(PASSED, 0.0, 1.0, 24) >= 0.8
    assert share(FAILED, 0.0, 1.0, 24) <= 0.05
    assert share(FAILED, 2.0, 1.0, 24) >= 0.8


def looked_at(shift: float, outcome: Outcome, looks: int, corrected: int, worlds: int = 400) -> float:
    """Share of gates that end so at any of their looks at 8, 16, 24, ... names, each corrected for so many looks."""
    hits = 0
    for world in range(worlds):
        rng = np.random.default_rng([11, world])
        level = rng.normal(size=8 * looks)
        candidate, baseline = (level + rng.normal(size=level.size) for _ in range(2))
        ended = (
            whole(decide([pair(score(candidate[:n] + shift), score(baseline[:n]), 1.0)], corrected))
            for n in range(8, 8 * looks + 1, 8)
        )
        hits += next((one for one in ended if one is not INCONCLUSIVE), INCONCLUSIVE) is outcome
    return hits / worlds


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [PASSED, FAILED])
def test_looks_at_growing_data_hold_together_what_one_look_holds(outcome: Outcome) -> None:
    """A candidate that is worse by just its margin: either end is an error."""
    assert looked_at(1.0, outcome, 6, corrected=1) > 0.08
    assert stats.binomtest(round(looked_at(1.0, outcome, 6, 6) * 400), 400, 0.05, "greater").pvalue > 0.001


@pytest.mark.slow
def test_looks_find_what_is_far_from_the_margin() -> None:
    assert looked_at(0.0, PASSED, 6, 6, 120) > 0.8 and looked_at(2.0, FAILED, 6, 6, 120) > 0.8


WHOLE = 100.0
"""Of `refusing`: a name is refused whatever is asked of it, or never."""


def refusing(rng: np.random.Generator, names: int, samples: int, marked: float, alike: float, unmarked: int) -> Score:
    """Difference of refusals of two groups of names, of which the unmarked one is never refused."""
    rates = rng.beta(marked / alike, (1 - marked) / alike, names) if marked and alike else np.full(names, marked)
    hits = np.concatenate([rng.binomial(samples, rates), np.zeros(unmarked)])
    of = Contrast(np.repeat(["marked", "unmarked"], [names, unmarked]).astype(object), ["marked"], "unmarked")
    return contrast_score(
        "refusals.difference", hits, np.full(names + unmarked, samples), [of], rng, cluster="name", rare=True, worse=1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "samples", "alike", "unmarked", "margin"),
    [
        (8, 4, 0.0, 8, 0.05), (10, 7, 0.1, 10, 0.05), (30, 1, 0.0, 600, 0.05), (12, 16, WHOLE, 12, 0.1),
        (24, 16, 0.5, 24, 0.1), (30, 16, WHOLE, 30, 0.1), (60, 4, WHOLE, 60, 0.05), (22, 4, WHOLE, 22, 0.2),
    ],
)  # fmt: skip
def test_refusals_that_are_more_by_the_margin_pass_in_5_percent_also_where_the_baseline_refuses_nobody(
    names: int, samples: int, alike: float, unmarked: int, margin: float
) -> None:
    """Of 32 answers a group 18 % of 300 passed, the most as no answer happened to be refused.

    Where the unmarked group had 600 of 630, 21 % did: the error is that of the smaller side. Where a name is refused
    whatever is asked of it, 27 % of 300 with 12 names did: the error is that of whole names.
    """
    passed = 0
    for seed in range(100):
        rng = np.random.default_rng([seed, names, samples])
        candidate, baseline = (refusing(rng, names, samples, rate, alike, unmarked) for rate in (margin, 0.0))
        made = decide([replace(pair(candidate, baseline, margin=margin), of_missing=True)])[0]
        passed += made.outcome is Outcome.PASSED
    assert passed <= stats.binom.ppf(0.99, 100, 0.05)


def test_refusals_of_many_names_pass_their_margin_where_there_are_none_or_the_same() -> None:
    rng = np.random.default_rng(0)
    few, many = (refusing(rng, names, 20, 0.0, 0.0, names) for names in (20, 30))
    made = decide([replace(pair(many, many, margin=0.1), of_missing=True)])[0]
    assert made.outcome is Outcome.PASSED and 0 < made.high < 0.1
    assert decide([replace(pair(few, few, margin=0.1), of_missing=True)])[0].outcome is Outcome.INCONCLUSIVE
    other = decide([pair(many, many, margin=0.1)])[0]  # of another Score nothing says how far it may be from 0
    assert other.outcome is Outcome.INCONCLUSIVE and "nothing varies in either" in other.reason
    # That both refuse one name of twenty, and no other, may be luck; of another Score it is agreement.
    one = group_difference_score(
        "refusals.difference", np.r_[20, np.zeros(39)], np.full(40, 20), np.repeat(["marked", "unmarked"], 20),
        ["marked"], "unmarked", rng, cluster="name", worse=1,
    )  # fmt: skip
    assert decide([replace(pair(one, one, margin=0.1), of_missing=True)])[0].outcome is Outcome.INCONCLUSIVE
    assert decide([pair(one, one, margin=0.1)])[0].outcome is Outcome.PASSED


def two_sided(values: np.ndarray) -> Score:
    return score(values, worse=0)


@pytest.mark.parametrize(
    ("candidate", "baseline", "outcome"),
    [
        (0.0, 1.0, PASSED),  # towards the null
        (0.6, 1.0, PASSED),  # by less than the margin, too
        (0.0, -1.0, PASSED),
        (1.0, 0.0, FAILED),
        (-1.0, 0.0, FAILED),
        (2.0, 1.0, FAILED),
        (-2.0, 1.0, FAILED),
        (0.9, -1.0, FAILED),  # on the other side, by more than the margin
        (0.2, -1.0, PASSED),  # by less
        (-0.5, 1.0, INCONCLUSIVE),
        (1.5, 1.0, INCONCLUSIVE),
    ],
)
def test_margin_where_either_side_is_worse_holds_on_each_side_of_the_null(
    candidate: float, baseline: float, outcome: Outcome
) -> None:
    first, second = two_sided(names(candidate, sd=0.3, seed=1)), two_sided(names(baseline, sd=0.3, seed=2))
    made = decide([pair(first, second, margin=0.5)])[0]
    assert made.outcome is outcome, made.reason


@pytest.mark.slow
@pytest.mark.parametrize("candidate", [0.5, -0.5])
@pytest.mark.parametrize("baseline", [0.0, 0.1, -0.1, 0.3, -0.3])
def test_either_side_that_is_worse_by_its_margin_passes_and_fails_in_5_percent_at_most(
    baseline: float, candidate: float
) -> None:
    truth, found = candidate + (baseline if baseline * candidate > 0 else 0.0), []
    for seed in range(300):
        rng = np.random.default_rng([seed, 20])
        level = rng.normal(size=20)  # what a name has in both models
        first, second = (two_sided(level + rng.normal(mean, 1, 20)) for mean in (truth, baseline))
        found.append(one(pair(first, second, margin=0.5)).outcome)
    for outcome in (PASSED, FAILED):
        assert stats.binomtest(found.count(outcome), 300, 0.05, alternative="greater").pvalue > 0.01, outcome


def of_names(seed: int, n: int, baseline: float, candidate: float, alike: float) -> Decision:
    """A margin of .1 of refusals by name, of which either side is worse: .3 of the n unmarked names, more of as many.

    Whether a name is refused hangs on its own tolerance, which has this correlation in the two models.
    """
    rng, answers = np.random.default_rng([seed, n]), np.full(2 * n, 10)
    groups = np.repeat(["marked", "unmarked"], n)
    tolerance = rng.normal(size=2 * n)
    other = alike * tolerance + math.sqrt(1 - alike**2) * rng.normal(size=2 * n)

    def refused(drawn: np.ndarray, more: float) -> Score:
        hits = 10 * (stats.norm.cdf(drawn) < np.where(groups == "marked", 0.3 + more, 0.3))
        return group_difference_score(
            "refusals.difference", hits, answers, groups, ["marked"], "unmarked", rng, cluster="name"
        )

    return one(replace(pair(refused(other, candidate), refused(tolerance, baseline), 0.1), of_missing=True))


@pytest.mark.slow
@pytest.mark.parametrize("alike", [1.0, 0.0])
@pytest.mark.parametrize(
    ("baseline", "candidate"), [(0.0, 0.1), (0.0, -0.1), (0.1, 0.2), (-0.1, 0.1), (-0.05, 0.1), (0.1, -0.1)]
)
def test_refusals_of_either_side_that_are_more_by_the_margin_pass_and_fail_in_5_percent_at_most(
    baseline: float, candidate: float, alike: float
) -> None:
    """Where both models refuse names alike 17 % failed of which the baseline was on the other side, 10 % passed."""
    found = [of_names(seed, 120, baseline, candidate, alike).outcome for seed in range(300)]
    for outcome in (PASSED, FAILED):
        assert stats.binomtest(found.count(outcome), 300, 0.05, alternative="greater").pvalue > 0.01, outcome


@pytest.mark.slow
@pytest.mark.parametrize("alike", [1.0, 0.0])
@pytest.mark.parametrize("baseline", [0.0, 0.1, -0.1])
def test_refusals_of_either_side_that_are_more_by_twice_the_margin_fail_at_the_names_that_the_gate_names(
    baseline: float, alike: float
) -> None:
    """Of 300 worlds with a fair baseline 52 failed at the names that were named, as one error was not counted."""
    candidate = max(baseline, 0.0) + 0.2
    pilots = [of_names(seed, 100, baseline, candidate, alike).clusters_needed for seed in range(20)]
    needed = np.median([int(said.split()[1]) for said in pilots if said])
    found = [of_names(seed, math.ceil(needed / 2), baseline, candidate, alike).outcome for seed in range(60)]
    assert found.count(FAILED) >= 0.8 * 60


@pytest.mark.slow
def test_a_candidate_that_is_worse_by_its_margin_passes_in_5_percent_at_most() -> None:
    passed = share(PASSED, 1.0, 1.0, 12, worlds=400, keys=1)
    assert stats.binomtest(round(passed * 400), 400, 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize(("looks", "outcome"), [(1, FAILED), (3, INCONCLUSIVE)])
def test_what_could_not_have_been_found_at_the_correction_of_the_gate_does_not_pass(
    looks: int, outcome: Outcome
) -> None:
    """A large effect of an exchange test of 500 draws, among ten scores: p of 1 / 501 is .02, and 3 looks ask .017."""
    others = [pair(score(names(0.0, seed=i)), score(names(0.0, seed=i + 50)), model=f"m{i}") for i in range(9)]
    candidate = replace(score(names(5.0, seed=1)), p=1 / 501, smallest_p=1 / 501)
    baseline = replace(score(names(0.0, seed=2)), p=0.5, smallest_p=1 / 501)
    made = decide([pair(candidate, baseline), *others], looks)[0]
    assert made.outcome is outcome
    assert outcome is FAILED or "smallest p that could come out" in made.reason
