"""Scores become tables in one place, and come back from them unchanged."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from markedness.cards import Card
from markedness.results import (
    Evaluation,
    Score,
    VerdictKind,
    headline,
    metrics,
    read_scores,
    score_table,
    verdict,
    with_missing,
)

CARD = Card(
    audit="toy", title="t", question="q", paper="p", groups="g", unit="u", estimand="e", limits="l",
    headline=("gap.marked", "share.all"), null="n",
)  # fmt: skip
GAP = Score(
    "gap.marked", 0.2, 0.1, 0.3, null_mean=0.0, p=0.01, n=40, n_missing=2, clusters={"name": 12, "first name": 3},
    unit="names", positive="more for the marked group", method="names exchanged", comparable=True, group="a, b",
)  # fmt: skip


def test_metrics_hold_each_headline_key_and_only_the_parts_that_exist() -> None:
    found = metrics([Score("other.x", 1.0), GAP], CARD.headline)
    assert list(found) == [
        "gap.marked", "gap.marked_ci_low", "gap.marked_ci_high", "gap.marked_null_mean", "gap.marked_p", "share.all",
    ]  # fmt: skip
    assert found["gap.marked_p"] == 0.01 and math.isnan(found["share.all"])


def test_headline_keys_do_not_depend_on_the_groups_of_a_study() -> None:
    assert [score.key for score in headline([], CARD.headline)] == list(CARD.headline)


def test_scores_read_back_from_a_csv_file_are_the_same() -> None:
    table = score_table([Score("other.x", 1.0, n=3), GAP], CARD.headline)
    again = read_scores(pd.read_csv(io.StringIO(table.to_csv(index=False)), keep_default_na=False))
    assert again[0] == GAP or str(again[0]) == str(GAP)  # NaN equals nothing
    assert [score.key for score in again] == ["gap.marked", "share.all", "other.x"]
    assert again[0].clusters == {"name": 12, "first name": 3}


def test_two_scores_of_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two Scores have the key 'other\.x'"):
        score_table([Score("other.x", 1.0), Score("other.x", 2.0)], CARD.headline)


def test_scores_of_a_table_without_a_column_name_it() -> None:
    with pytest.raises(ValueError, match="the column 'p_adjusted' is missing"):
        read_scores(score_table([GAP], CARD.headline).drop(columns="p_adjusted"))


def test_evaluation_gives_a_missing_score_for_what_was_not_estimated() -> None:
    made = Evaluation([GAP])
    assert made.score("gap.marked") is GAP and made.score("share.all").missing


@pytest.mark.parametrize("change", [{"title": None}, {"colour": "red"}, {"measures": {"x": {"title": "only"}}}])
def test_card_with_a_missing_or_unknown_key_names_it(change: dict[str, object]) -> None:
    names = ("title", "question", "paper", "groups", "unit", "estimand", "limits", "null")
    content: dict[str, object] = dict.fromkeys(names, "x")
    assert Card.read("toy", content, ("gap.marked",)).headline == ("gap.marked",)
    content |= change
    if content["title"] is None:
        del content["title"]
    with pytest.raises(ValueError, match=r"title|colour|measures\.x"):
        Card.read("toy", content, ("gap.marked",))


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({}, "found", "More for the marked group: 0.2 [0.1, 0.3], p = .020 after correction over 4 scores."),
        (
            {"estimate": -0.2, "ci_low": -0.3, "ci_high": -0.1}, "found",
            "Less for the marked group: -0.2 [-0.3, -0.1], p = .020 after correction over 4 scores.",
        ),
        (
            {"p_adjusted": 0.4}, "not found",
            "Not shown that more for the marked group, nor the opposite (0.2 [0.1, 0.3], p = .400 after correction "
            "over 4 scores); an effect of 0.15 or more would have been found with 80 % probability.",
        ),
        (
            {"p": math.nan, "p_adjusted": math.nan, "lacking": "it takes 6 crawls, there are 2"}, "too little data",
            "Cannot say whether more for the marked group (0.2 [0.1, 0.3]): it takes 6 crawls, there are 2.",
        ),
        (
            {"estimate": math.nan, "method": "no text was answered"}, "not measured",
            "Not measured whether more for the marked group: no text was answered.",
        ),
        (
            {"estimate": math.nan, "positive": "", "lacking": "no text was answered"}, "not measured",
            "gap.marked is not measured: no text was answered.",
        ),
        ({"family": 0}, "described", "0.2: described, not tested."),
    ],
)  # fmt: skip
def test_verdict_says_in_one_sentence_what_a_score_answers(changed: dict[str, Any], kind: str, said: str) -> None:
    tested = replace(GAP, family=4, p_adjusted=0.02, detectable=0.15, negative="less for the marked group")
    found = verdict(replace(tested, **changed))
    assert (str(found.kind), found.sentence) == (kind, said)


def test_verdict_claims_no_correction_of_a_p_that_nothing_corrected() -> None:
    alone = replace(GAP, family=4, p=0.02, p_adjusted=math.nan, detectable=0.15)
    assert verdict(alone).sentence.endswith("0.2 [0.1, 0.3], p = .020.")
    assert "p = .020 after correction over 4 scores" in verdict(replace(alone, p_adjusted=0.02)).sentence
    assert "p = .080 after correction over 4 scores" in verdict(alone, p=0.08).sentence


def test_p_at_the_smallest_size_that_can_come_out_is_too_little_data_however_small() -> None:
    tested = replace(GAP, family=4, p_adjusted=0.04, lacking="at this size the smallest p that could come out is 0.03")
    assert verdict(tested).kind is VerdictKind.TOO_LITTLE


def test_p_that_no_correction_of_this_size_could_find_is_too_little_data() -> None:
    tested = replace(GAP, family=2, p_adjusted=0.02, smallest_p=0.01, detectable=0.1)
    assert verdict(tested).kind is VerdictKind.FOUND
    among = verdict(tested, p=0.1, family=10)
    assert among.kind is VerdictKind.TOO_LITTLE and "would have been found" not in among.sentence
    assert (
        "p = .100 after correction over 10 scores): the smallest p that could come out is 0.01, which is 0.1 after"
        in (among.sentence)
    )
    assert verdict(tested, p=0.1, family=5).kind is VerdictKind.NOT_FOUND
    assert verdict(tested, p=0.1, family=2, alpha=0.01).kind is VerdictKind.TOO_LITTLE


def test_unequal_missing_answers_stand_at_every_tested_score() -> None:
    lost = Score("missing.x", 0.4, p=0.001, p_adjusted=0.002, family=2, positive="more are missing")
    other = replace(GAP, family=2)
    made = with_missing([other, lost, Score("share.all", 1.0)], "missing.x")
    assert [bool(score.caveat) for score in made] == [True, False, False] and "More are missing" in made[0].caveat
    assert with_missing([other, replace(lost, p_adjusted=0.2)], "missing.x")[0] == other


def test_verdict_of_what_rounding_leaves_of_nothing_says_0() -> None:
    equal = replace(GAP, estimate=3.5e-18, ci_low=-0.1, ci_high=0.1, p=1.0, family=1)
    assert "(0 [-0.1, 0.1], p = 1.000)" in verdict(equal).sentence
