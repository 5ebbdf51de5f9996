"""What all audits of a model say together."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from markedness.results import Score, VerdictKind, verdict
from markedness.stats.inference import detectable, redetected
from markedness.verdicts import answers, counted, strongest, summary, verdict_table

TESTED = Score(
    "gap.marked", 0.5, 0.2, 0.8, p=0.001, p_adjusted=0.004, family=4, detectable=0.4, positive="more", negative="less",
)  # fmt: skip


def scores() -> dict[str, list[Score]]:
    return {
        "homogeneity": [TESTED, replace(TESTED, key="gap.other", p=0.03, p_adjusted=0.03)],
        "guise": [
            replace(TESTED, key=f"strength.{n}", p=0.4, p_adjusted=1.0, estimate=0.01, detectable=0.02 * (n + 1))
            for n in range(6)
        ],
        "knowledge": [
            replace(TESTED, key=f"regard.{n}", p=math.nan, p_adjusted=math.nan, lacking="it takes 6 crawls, there is 1")
            for n in range(3)
        ],
    }


def test_a_card_corrects_over_all_tested_scores_of_the_model() -> None:
    made = {one.score.key: one for one in answers(scores())}
    assert made["gap.marked"].p == pytest.approx(0.008) and made["gap.other"].p == pytest.approx(0.21)
    assert made["gap.other"].verdict.kind is VerdictKind.NOT_FOUND, "found in its audit, not over the whole model"
    assert "after correction over 8 scores" in made["gap.marked"].verdict.sentence


def test_smallest_effect_is_that_of_the_wider_correction() -> None:
    score = replace(TESTED, df=12.0, family=4, detectable=detectable(0.1, 12.0, 0.05 / 4))
    assert redetected(score.detectable, score.df, score.family, 30) == pytest.approx(detectable(0.1, 12.0, 0.05 / 30))
    assert math.isnan(redetected(math.nan, score.df, score.family, 30))


def test_summary_has_eight_sentences_and_counts_the_rest() -> None:
    made = summary(answers(scores()), most=6)
    assert [one.score.key for one in made.found] == ["gap.marked"]
    assert [one.audit for one in made.not_found] == ["homogeneity", "guise", "guise", "guise"]
    assert made.cannot == ["Knowledge: 3 scores (regard.0, regard.1, regard.2): it takes 6 crawls, there is 1."]
    assert made.more == (0, 3, 0)


def test_strongest_finding_comes_first() -> None:
    far = replace(TESTED, key="far.x", estimate=4.0, p=0.01, p_adjusted=0.01)
    made = summary(answers({"guise": [TESTED, far]}))
    assert [one.score.key for one in made.found] == ["far.x", "gap.marked"]


def test_check_of_missing_answers_is_said_only_where_it_is_found() -> None:
    lost = replace(TESTED, key="missing.difference", p=0.7, p_adjusted=0.7)
    assert not summary(answers({"guise": [lost]}), [("guise", "missing.difference")]).not_found
    found = replace(lost, p=0.001, p_adjusted=0.001)
    assert summary(answers({"guise": [found]}), [("guise", "missing.difference")]).found


def test_groups_named_beside_a_finding_are_found_themselves_and_lie_on_its_side() -> None:
    over = replace(TESTED, over="Asian - White; Black - White; man - woman; woman - man")
    groups = [
        replace(TESTED, key=f"gap.{name}", group=name, estimate=value, p_adjusted=p)
        for name, value, p in (("Black", 0.6, 0.01), ("Asian", 0.9, 0.2), ("woman", -0.7, 0.01), ("man", 0.7, 0.04))
    ]
    assert strongest(over, groups) == "Strongest for man (0.7), Black (0.6)."
    asked = [replace(one, key=one.key.replace("gap.", "gap.persona: ")) for one in groups]
    assert strongest(over, asked) == "Strongest for man (0.7), Black (0.6)."
    unmarked = replace(groups[0], key="gap.White", group="White", estimate=3.0)
    assert strongest(over, [unmarked, *groups]) == "Strongest for man (0.7), Black (0.6)."


def test_groups_named_beside_a_finding_are_those_of_its_kind_of_texts() -> None:
    over = replace(TESTED, over="Asian - White; Black - White")
    asked = [
        replace(TESTED, key=f"gap.{kind}: {name}", group=name, estimate=value, p_adjusted=p)
        for kind, name, value, p in (
            ("persona", "Black", 0.6, 0.01), ("persona", "Asian", 0.1, 0.8), ("story", "Black", 0.1, 0.8),
            ("story", "Asian", 0.9, 0.01),
        )
    ]  # fmt: skip
    assert strongest(over, asked) == "Strongest for Black (0.6)."


def test_another_score_of_the_measure_is_no_group_in_which_a_finding_is_strong() -> None:
    of_group = replace(TESTED, key="strength.covert", group="AAE")
    others = [
        replace(of_group, key=key, estimate=value, group=group)
        for key, value, group in (
            ("strength.overt", 0.9, "AAE"), ("strength.overt: App", 0.8, "App"),
            ("strength.covert: AAE - App", 0.7, "AAE"),
        )
    ]  # fmt: skip
    assert strongest(of_group, [of_group, *others]) == ""


def test_a_finding_whose_interval_does_not_leave_out_the_null_says_so() -> None:
    found = replace(TESTED, ci_low=-0.1, ci_high=1.0, p=0.001, p_adjusted=0.001)
    assert "; the interval, of another method than p, does not leave out 0." in verdict(found).sentence
    assert "of another method" not in verdict(replace(found, ci_low=0.1)).sentence
    assert "does not leave out 0.5." in verdict(replace(found, ci_low=0.45, null_mean=0.5)).sentence


def test_table_of_verdicts_has_a_row_for_each_headline_score() -> None:
    table = verdict_table({"m": scores()})
    assert len(table) == 11 and set(table["verdict"]) == {"found", "not found", "too little data"}
    assert table.loc[table["score"].eq("gap.marked"), "p_adjusted_model"].item() == pytest.approx(0.008)


def test_count_of_findings_leaves_out_what_was_only_described() -> None:
    described = {"personas": [Score("share.all", 0.5)]}
    assert (
        counted(answers(scores() | described)) == "1 of 8 tested scores found a difference; 3 more could not be tested"
    )
