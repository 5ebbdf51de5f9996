from __future__ import annotations

import pandas as pd
import pytest

from markedness.text.answers import answers, final_answer, plain, says_nothing


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", "yes"),
        ("<think>no</think> yes", " yes"),
        ("no, wrong\n</think>\n\nyes", "\n\nyes"),  # the template of the chat wrote the opening tag
        ("a</think>b</THINK >yes", "yes"),
        ("<thinking>no</thinking>yes", "yes"),
        ("<|channel|>analysis<|message|>no<|channel|>final<|message|>yes", "yes"),
        ("<think>no, it", ""),  # the limit was met while it thought
        ("yes <think>no", "yes "),
        ("no</think>", ""),
        ("analysisThe user wants no.assistantfinalyes", "yes"),  # a tool dropped the tokens around the channels
        ("analysisno assistantfinalyes", "yes"),
        ("analysisThe user wants", ""),
        ("analysis of it: yes", "analysis of it: yes"),
        ("<|channel|>commentary<|message|>no<|channel|>final<|message|>yes", "yes"),
        ("<|channel|>analysis<|message|>no<|channel|>final json<|message|>yes", "yes"),
        ("<seed:think>no</seed:think>yes", "yes"),
        ("<|channel>thought\nno<channel|>yes", "yes"),
        ("<|START_THINKING|>no<|END_THINKING|><|START_RESPONSE|>yes", "yes"),
        ("<|begin_of_thought|>no<|end_of_thought|><|begin_of_solution|>yes", "yes"),
        ("<reasoning_content>no</reasoning_content>yes", "yes"),
        ("I think </b> yes", "I think </b> yes"),
    ],
)
def test_final_answer_is_what_follows_the_reasoning(text: str, answer: str) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("the\u0301a\u0302tre", "théâtre"),
        ("ran\u00addonne\u00ade", "randonnee"),
        ("e\u00ad\u0301", "é"),
        ("tea\u200btime\ufeff", "teatime"),
        ("tea\u200dtime", "teatime"),  # joiners show nothing between Latin letters
        ("می\u200cروم", "می\u200cروم"),  # they do in Persian
        ("\u200cروم\u200c", "روم"),  # not at the ends of a word
        ("क्\u200dष", "क्\u200dष"),
        ("❤\ufe0f", "❤"),
    ],
)
def test_plain_is_one_form_of_a_text(text: str, same: str) -> None:
    assert plain(text) == plain(same) == same


def test_answers_keep_index_and_missing() -> None:
    found = answers(pd.Series(["<think>a</think>e\u0301", None], index=[4, 2]))
    assert found.index.tolist() == [4, 2]
    assert found[4] == "é" and pd.isna(found[2])


def test_says_nothing_is_no_letter_or_digit_or_no_more_than_that_there_is_no_answer() -> None:
    nothing = [
        "",
        " ",
        "📚",
        "...",
        "N/A",
        "n.a.",
        "None.",
        "Not applicable",
        "I don't know.",
        "[removed]",
        "Keine Angabe",
    ]
    something = ["7", "NASA", "nan bread", "Nothing Else Matters", "unknown soldier", "本", None]
    assert says_nothing(pd.Series([*nothing, *something])).tolist() == [True] * len(nothing) + [False] * len(something)
