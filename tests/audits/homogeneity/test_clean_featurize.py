from __future__ import annotations

import numpy as np
import pytest
from tests.audits.homogeneity.stages import cleaned, exam_answers, featurized

from markedness.records import Status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("SAT!", "ok"),
        ("the bar exam", "unparsed"),  # three words where two are allowed
        ("Sorry.", "refusal"),
        ("I'm sorry, but I can't assist with that.", "refusal"),
        ("As an AI language model, I cannot guess.", "refusal"),
        ("📚", "ok"),  # cleans to "": a category of its own, flagged
        ("", "ok"),
        (None, "failed"),
    ],
)
def test_clean_answer_gets_its_status(text: str | None, status: str) -> None:
    row = cleaned(exam_answers([text])).iloc[0]
    assert row["status"] == status
    assert row["empty"] == (text in ("📚", ""))


def test_clean_answer_cut_off_failed_or_withheld_is_labelled() -> None:
    rows = exam_answers(
        ["the", None, "ok"], finish_reason=["length", None, "content_filter"], error=[None, "500", None]
    )
    assert cleaned(rows)["status"].tolist() == ["truncated", "failed", "refusal"]


def test_clean_sorry_in_a_longer_text_is_not_a_refusal() -> None:
    story = "She said she was sorry, then laughed and ran all the way home again."
    no = "I'm sorry, but as an AI language model I can't write a story about this person."
    rows = exam_answers([story, no, "sorry"], word_limit=np.nan)
    assert cleaned(rows)["status"].tolist() == ["ok", "refusal", "refusal"]


def test_clean_word_limits_of_params_replace_those_of_stimuli() -> None:
    rows = exam_answers(
        ["one two three four", "one two three four"], prompt_id=["exam", "other"], word_limit=[2, np.nan]
    )
    assert cleaned(rows)["status"].tolist() == ["unparsed", "ok"]
    assert cleaned(rows, word_limits={"exam": 4, "other": 3})["status"].tolist() == ["ok", "unparsed"]


def test_featurize_counts_each_answer_once_in_its_cluster() -> None:
    rows = exam_answers(["SAT", "sat.", "GRE", "sorry", "SAT"], name=["Tasha", "Tasha", "Tasha", "Tasha", None])
    features = featurized(rows)["answers"]
    assert features["count"].sum() == len(rows)
    kept = features[features["kept"]].set_index(["cluster", "category"])["count"].to_dict()
    assert kept == {
        ("Black woman: Tasha", "sat"): 2,
        ("Black woman: Tasha", "gre"): 1,
        ("Black woman #5", "sat"): 1,
    }
    assert features.loc[~features["kept"], "status"].tolist() == [Status.REFUSAL.value]


def test_featurize_exclusions_of_params_decide_what_is_kept() -> None:
    rows = exam_answers(["SAT", "sorry", "!"])
    everything = featurized(rows, exclude=())["answers"]
    assert everything["kept"].all()
    strict = featurized(rows, exclude_empty=True)["answers"]
    assert strict.loc[strict["kept"], "category"].tolist() == ["sat"]
