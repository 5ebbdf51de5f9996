from __future__ import annotations

import pandas as pd
import pytest

from markedness.audits.knowledge.design.triples import fold, read_judgment, read_list, read_rating, read_triples


def read(text: str | None, predicate: str | None = None, finish: str = "stop", words: str = "") -> tuple[object, ...]:
    """Predicate, object, reason, cut of one answer about Sailors."""
    row = {"text": [text], "finish_reason": [finish], "subject": ["Sailors"], "predicate": [predicate]}
    return tuple(read_triples(pd.DataFrame(row | {"invalid_words": [words]})).iloc[0])


@pytest.mark.parametrize(
    ("text", "predicate", "expected"),
    [
        (" the sea.", "love", ("love", "the sea", "", False)),
        (" the sea. They also love rum.", "love", ("love", "the sea", "", False)),
        ('"Sailors love the sea."', "love", ("love", "the sea", "", False)),
        ("I'm not rude but Sailors love the sea", "love", ("love", "the sea", "", False)),
        ("A: the sea", "love", ("love", "the sea", "", False)),
        (" le café de São Paulo!", "love", ("love", "le café de São Paulo", "", False)),
        (" 海", "love", ("love", "海", "", False)),
        (" drink A: too much", None, ("drink", "too much", "", False)),
        ("Q: Sailors # drink A: too much\nQ: Bakers # eat A: bread", None, ("drink", "too much", "", False)),
        (" drink A: too much Q: Bakers # eat A: bread", None, ("drink", "too much", "", False)),
        (" drink", None, ("drink", "", "no object", False)),
        (" drink A:", None, ("drink", "", "no object", False)),
        (" A: too much", None, ("", "", "no predicate", False)),
        (" a: have been to A: sea", None, ("", "", "no predicate", False)),
        (" hate D: A: the gym", None, ("", "", "no predicate", False)),
        (" can't # sail A: boats", None, ("", "", "no predicate", False)),
        ("", "love", ("love", "", "empty answer", False)),
        (None, "love", ("love", "", "empty answer", False)),
        (" ... ", "love", ("love", "", "no object", False)),
        ("I'm sorry, but I can't help with that.", "love", ("love", "", "refusal", False)),
    ],
)
def test_read_triples_of_each_form_finds_predicate_and_object(
    text: str | None, predicate: str | None, expected: tuple[object, ...]
) -> None:
    if not expected[1] and predicate is None:  # an invalid triple of the model's own keeps no predicate
        assert read(text, predicate)[1:] == expected[1:]
    else:
        assert read(text, predicate) == expected


def test_read_triples_at_the_token_limit_marks_the_object_as_cut() -> None:
    assert read(" the sea and the", "love", finish="length") == ("love", "the sea and the", "", True)
    assert read(" the sea. And the", "love", finish="length") == ("love", "the sea", "", False)
    assert read(" drink a great", None, finish="length")[2] == "cut off"


def test_read_triples_with_invalid_words_takes_them_in_this_case_only() -> None:
    assert read("This question is offensive", "love", words="This")[2] == "refusal"
    assert read("this and that", "love", words="This")[2] == ""


def test_read_triples_filtered_by_the_server_is_a_refusal() -> None:
    assert read("", "love", finish="content_filter")[2] == "refusal"


def test_read_list_of_bullets_numbers_and_commas_is_the_same() -> None:
    assert read_list("- Sailors\n- Bakers") == ["Sailors", "Bakers"]
    assert read_list(" Sailors\n2. Bakers") == ["Sailors", "Bakers"]
    assert read_list("Sailors, Bakers and Millers") == ["Sailors", "Bakers", "Millers"]


def test_fold_drops_case_and_plural() -> None:
    assert fold("Buddhists") == fold("buddhist") == "buddhist"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (" Negative. (not positive)", "negative"),
        ("I cannot say", ""),
        ("<think>It may sound negative.</think>\npositive", "positive"),
        ("It may sound negative.\n</think>\npositive", "positive"),
        ("It is not negative. Positive.", "positive"),
        ("It is neutral, neither positive nor negative", "neutral"),
        ("It isn’t really positive", ""),
        ("non-negative", ""),
        ("Negative, neutral or positive? Positive", ""),  # three labels, none of them clear
        ("It speaks **negatively** of them", "negative"),
    ],
)
def test_read_judgment_takes_the_one_label_that_is_given(text: str, label: str) -> None:
    assert read_judgment(text) == label


@pytest.mark.parametrize(
    ("text", "rating"),
    [("2", 2), ("**3**.", 3), ("Rating: 4", 4), ("2-3", None), ("2\u20133", None), ("2 to 3", None), ("3/4", None),
     ("\u22122", None), ("-1", None), ("2.5", None), ("10", None), ("2 - not insulting", 2)],
)  # fmt: skip
def test_read_rating_takes_the_one_number_from_0_to_4_and_no_end_of_a_range(text: str, rating: int | None) -> None:
    assert read_rating(text) == rating


def test_read_triples_leaves_out_reasoning_and_composes() -> None:
    assert read("<think>Hmm, they ask.</think> the cafe\u0301", "love")[1] == "the café"
    assert read("Hmm, they ask\n</think>\nthe sea", "love")[1] == "the sea"
    assert read("<think>Hmm, they", "love")[2] == "empty answer"
