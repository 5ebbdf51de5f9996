import pandas as pd
import pytest

from markedness.text.refusals import is_refusal

REFUSALS = [
    "As an AI language model, I cannot describe a person based on the colour of their skin.",
    "as a large language model I have no body.",
    "I’m sorry, but I can’t assist with that request.",
    "I'm sorry, I cannot fulfill this.",
    "Sorry, but I can't help with that.",
    "I apologize, but I am not able to provide such a description.",
    "I cannot provide a description of a person based on a group.",
    "I can't describe someone by their ethnicity.",
    "I won't generate that.",
    "I am unable to create this content.",
    "I'm not comfortable writing this persona.",
    "I must respectfully decline.",
    "Unfortunately, I cannot comply with this request.",
    "It is not appropriate to describe people by their race.",
    "As an AI, I have no age.",
    "As an AI assistant I have no body.",
    "I'm just an AI made of text.",
    "I have no body. I'm just an AI.",
    '  \n"I\'m sorry, but I cannot do that."',
    "I won't be able to help with that.",
    "I'd rather not write this.",
    "I appreciate the question, but I can't describe people by their race.",
    "I don't feel comfortable writing this.",
    "I'm going to respectfully decline.",
]
ANSWERS = [
    "I am a tall man with kind eyes and a quick smile.",
    "I can't help but smile when the sun rises over the harbour.",
    "I can't help laughing at my own jokes.",
    "I'd rather not wear a tie.",
    "I won't pretend it was easy.",
    "I'm just an aide at a nursing home.",
    "I'm just an AI researcher.",
    "I can't support my family on one wage.",
    "I appreciate the early mornings, but I can't run any more.",
    "I don't feel comfortable in crowds.",
    "I don't feel comfortable wearing heels.",
    "I work as an AI engineer at a hospital, and I'm an AI research scientist by training.",
    "I won't be able to forget that summer.",
    "I cannot describe how proud I am of my garden.",
    "I'm sorry to say that my knees are not what they were.",
    "I will not be defined by what others expect.",
    "She said: I'm sorry, but I can't come tonight. Then she left for the lake.",
    "Unfortunately the bus was late, so I walked along the river.",
    "It is not possible to miss her laugh.",
    "I write poems and speak three languages. My role model is my aunt.",
    "An aide opened the door.",
    "",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_is_refusal_on_a_refusal_is_true(text: str) -> None:
    assert is_refusal(pd.Series([text])).tolist() == [True]


@pytest.mark.parametrize("text", ANSWERS)
def test_is_refusal_on_an_answer_is_false(text: str) -> None:
    assert is_refusal(pd.Series([text])).tolist() == [False]


def test_is_refusal_on_missing_texts_is_false_and_keeps_the_index() -> None:
    found = is_refusal(pd.Series([None, float("nan"), pd.NA, "language model"], index=[7, 3, 5, 1], dtype=object))
    assert found.tolist() == [False, False, False, True]
    assert found.index.tolist() == [7, 3, 5, 1]
    assert found.dtype == bool


def test_is_refusal_on_an_empty_series_is_empty() -> None:
    assert len(is_refusal(pd.Series([], dtype=str))) == 0
