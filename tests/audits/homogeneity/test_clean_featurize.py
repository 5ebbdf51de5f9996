from __future__ import annotations

import numpy as np
import pytest
from tests.audits.homogeneity.stages import cleaned, exam_answers, features, featurized

from markedness.audits.homogeneity import clean
from markedness.records import AuditError, Status


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
        ("<think>The bar exam, say.</think>SAT", "ok"),
        ("<think>The bar", "unparsed"),  # nothing but reasoning: not the empty category
        (None, "failed"),
    ],
)
def test_clean_answer_gets_its_status(text: str | None, status: str) -> None:
    row = cleaned(exam_answers([text])).iloc[0]
    assert row["status"] == status
    assert row["empty"] == (text in ("📚", "", "<think>The bar"))


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


@pytest.mark.parametrize("word_limit", [2, 8, np.nan])
@pytest.mark.parametrize("no", ["I cannot answer that.", "I can't help with that.", "As an AI, I have no age."])
def test_clean_short_refusal_is_one_whatever_the_limit(no: str, word_limit: float) -> None:
    assert cleaned(exam_answers([no], word_limit=word_limit))["status"].tolist() == ["refusal"]


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
    features["cluster"] = features["cluster"].str.replace(r"#[1-5]$", "#", regex=True)  # one of the five, by a hash
    kept = features[features["kept"]].set_index(["cluster", "category"])["count"].to_dict()
    assert kept == {
        ("Black woman: Tasha", "sat"): 2,
        ("Black woman: Tasha", "gre"): 1,
        ("Black woman #", "sat"): 1,
    }
    assert features.loc[~features["kept"], "status"].tolist() == [Status.REFUSAL.value]


def test_featurize_exclusions_of_params_decide_what_is_kept() -> None:
    rows = exam_answers(["SAT", "sorry", "!"])
    everything = featurized(rows, exclude=())["answers"]
    assert everything["kept"].all()
    strict = featurized(rows, exclude_empty=True)["answers"]
    assert strict.loc[strict["kept"], "category"].tolist() == ["sat"]


@pytest.mark.parametrize("word", ["I'm sorry", "SORRY!", "não posso..."])
def test_clean_refusal_word_with_punctuation_or_capitals_finds_its_answers(word: str) -> None:
    rows = exam_answers([word, "SAT"])
    assert cleaned(rows, refusal_words=(word,))["status"].tolist() == ["refusal", "ok"]


@pytest.mark.parametrize("word", ["", "!!!", "🙏"])
def test_clean_refusal_word_without_letters_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="has no letter or digit"):
        clean.Params(refusal_words=("sorry", word))


def test_clean_word_limit_of_a_mistyped_cue_is_refused_and_of_another_corpus_kept() -> None:
    rows = exam_answers(["one two three", "one two three"], prompt_id=["exam", "sports"])
    with pytest.raises(AuditError, match=r"word_limits: 'sport' is not a cue of these answers, which have 'sports'"):
        cleaned(rows, word_limits={"sport": 3})
    assert cleaned(rows, word_limits={"sports": 3, "cooking": 3})["status"].tolist() == ["unparsed", "ok"]


def test_featurize_group_of_emoji_alone_is_named_in_a_note() -> None:
    rows = exam_answers(["📚", "!!", "🙏", "SAT", "GRE"], group=[*["Black woman"] * 3, *["White man"] * 2])
    (note,) = features(rows).notes
    assert "no letter or digit" in note and "Black woman 100%" in note and "White man" not in note
    assert not features(rows[3:]).notes
