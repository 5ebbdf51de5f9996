"""Ten bad shapes of an answer: read right or missing, never guessed."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markedness.audits.annotation.language.judgments import (
    CONTRADICTION,
    MISSING_INDEX,
    NOT_BINARY,
    SHIFTED,
    binary,
    read_numbered,
    read_one,
)

GOOD = '{"i": 1, "y": 0}\n{"i": 2, "y": 1}\n{"i": 3, "y": 1}'


def answers(text: str, n: int = 3, cut: bool = False) -> list[int | None]:
    return [judgment.y for judgment in read_numbered(text, n, cut)]


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("as asked", GOOD, [0, 1, 1]),
        ("fenced", f"```json\n{GOOD}\n```", [0, 1, 1]),
        ("trailing commas", '{"i": 1, "y": 0,},\n{"i": 2, "y": 1,},\n{"i": 3, "y": 1},', [0, 1, 1]),
        ("prose around", f"Sure! For 3 texts, 1 of them hireable:\n{GOOD}\nHope this helps, 2 of 3.", [0, 1, 1]),
        ("json list", '[{"i":1,"y":0},{"i":2,"y":1},{"i":3,"y":1}]', [0, 1, 1]),
        ("single quotes", "{'i': 1, 'y': 0}\n{i: 2, y: 1}\n{\"i\": \"3\", \"y\": \"1\"}", [0, 1, 1]),
        ("index missing", '{"i": 1, "y": 0}\n{"i": 3, "y": 1}', [0, None, 1]),
        ("no index at all", '{"y": 0}\n{"y": 1}\n{"y": 1}', [None, None, None]),
        ("doubled, agreed", GOOD + '\n{"i": 2, "y": 1}', [0, 1, 1]),
        ("doubled, contradicted", GOOD + '\n{"i": 2, "y": 0}', [0, None, 1]),
        ("key doubled", '{"i": 1, "y": 0, "y": 1}\n{"i": 2, "y": 1}', [None, 1, None]),
        ("out of range", GOOD + '\n{"i": 7, "y": 0}\n{"i": -1, "y": 0}', [0, 1, 1]),
        ("numbered from 0", '{"i": 0, "y": 0}\n{"i": 1, "y": 1}\n{"i": 2, "y": 1}', [None, None, None]),
        ("numbered from 2", '{"i": 2, "y": 0}\n{"i": 3, "y": 1}\n{"i": 4, "y": 1}', [None, None, None]),
        ("words for numbers", '{"i": 1, "y": "zero"}\n{"i": 2, "y": "one"}\n{"i": "three", "y": 1}', [0, 1, None]),
        ("words for yes", '{"i": 1, "y": "No"}\n{"i": 2, "y": true}\n{"i": 3, "y": "maybe"}', [0, 1, None]),
        ("probabilities", '{"i": 1, "y": 0.2}\n{"i": 2, "y": 1.0}\n{"i": 3, "y": 2}', [None, 1, None]),
        ("truncated object", '{"i": 1, "y": 0}\n{"i": 2, "y": 1}\n{"i": 3, "y": 1', [0, 1, None]),
        ("numbered list", "1. 0\n2) 1\n3: yes", [0, 1, 1]),
        ("markdown list", "**1.** 0\n- **2:** Yes.\nText 3 - no", [0, 1, 0]),
        ("list with reasons", "1. 0\n2. No evidence for that, so 1\n3. 1 or 0", [0, None, None]),
        ("no numbers", "0\n1\n1", [None, None, None]),
        ("decimals", "1.0\n2.1\n3.1", [None, None, None]),
        ("thinking", f'<think>{{"i": 1, "y": 1}}</think>{GOOD}', [0, 1, 1]),
        ("thinking, opened by the prompt", f'So {{"i": 1, "y": 1}}?</think>{GOOD}', [0, 1, 1]),
        ("thinking torn", f"<think>{GOOD}", [None, None, None]),
        ("refusal", "I'm sorry, but I can't judge people by their names.", [None, None, None]),
        ("empty", "", [None, None, None]),
        ("instruction echoed", '{"i": index, "y": 0 or 1}\n' + GOOD, [0, 1, 1]),
    ],
)  # fmt: skip
def test_numbered_answers_in_any_shape_are_right_or_missing(shape: str, text: str, expected: list[int | None]) -> None:
    assert answers(text) == expected, shape


def test_numbered_list_cut_at_the_limit_drops_its_torn_last_line() -> None:
    # the last line may have been "3: not sure"
    assert answers("1: yes\n2: no\n3: no", cut=True) == [1, 0, None]


def test_missing_judgments_say_why() -> None:
    text = '{"i": 1, "y": 0}\n{"i": 1, "y": 1}\n{"i": 3, "y": "unclear"}'
    assert [j.reason for j in read_numbered(text, 3)] == [CONTRADICTION, MISSING_INDEX, NOT_BINARY]
    assert read_numbered('{"i": 0, "y": 1}', 2)[0].reason == SHIFTED


@pytest.mark.parametrize(
    ("text", "y"),
    [("1", 1), (" 0.\n", 0), ("Answer: 1", 1), ("**Yes**", 1), ('{"y": 0}', 0), ('{"i": 1, "y": 1}', 1), ("No.", 0),
     ("10", None), ("1 or 0", None), ("not sure", None), ("", None), ("No, because 1 is wrong", None), ("0.4", None),
     ('{"y": 0} {"y": 1}', None), ("I cannot say", None)],
)  # fmt: skip
def test_one_answer_is_read_or_missing(text: str, y: int | None) -> None:
    assert read_one(text).y == y


def test_binary_takes_only_what_is_certain() -> None:
    assert [binary(v) for v in (1, 0, 1.0, True, "1", " NO ", "1.0")] == [1, 0, 1, 1, 1, 0, 1]
    assert [binary(v) for v in (2, -1, 0.5, None, "", "maybe", "10", float("nan"), [1])] == [None] * 9


Y = st.lists(st.sampled_from([0, 1]), min_size=1, max_size=12)


@given(Y, st.randoms(use_true_random=False), st.sampled_from(["json", "list", "fence", "array"]))
def test_well_formed_answers_are_read_in_any_order(ys: list[int], random: Random, shape: str) -> None:
    order = list(range(len(ys)))
    random.shuffle(order)
    if shape == "list":
        text = "\n".join(f"{i + 1}. {ys[i]}" for i in order)
    else:
        lines = [json.dumps({"i": i + 1, "y": ys[i]}) for i in order]
        text = {
            "json": "\n".join(lines),
            "fence": "```\n" + "\n".join(lines) + "\n```",
            "array": f"[{', '.join(lines)}]",
        }[shape]
    assert answers(text, len(ys)) == ys


@given(Y, st.data())
def test_a_cut_answer_is_right_or_missing(ys: list[int], data: st.DataObject) -> None:
    whole = "\n".join(json.dumps({"i": i + 1, "y": y}) for i, y in enumerate(ys))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    assert all(got in (None, y) for got, y in zip(answers(cut, len(ys), cut=True), ys, strict=True))
    listed = "\n".join(f"{i + 1}. {'yes' if y else 'no'}" for i, y in enumerate(ys))
    cut = listed[: data.draw(st.integers(0, len(listed)))]
    assert all(got in (None, y) for got, y in zip(answers(cut, len(ys), cut=True), ys, strict=True))


@given(Y, st.data())
def test_dropped_lines_are_missing_and_no_other(ys: list[int], data: st.DataObject) -> None:
    # two lines are dropped from the middle: what is left keeps its number
    kept = [i for i in range(len(ys)) if data.draw(st.booleans())]
    text = "\n".join(json.dumps({"i": i + 1, "y": ys[i]}) for i in kept)
    assert answers(text, len(ys)) == [y if i in kept else None for i, y in enumerate(ys)]


@given(st.text(), st.integers(1, 20), st.booleans())
def test_any_text_gives_as_many_judgments_as_texts(text: str, n: int, cut: bool) -> None:
    judgments = read_numbered(text, n, cut)
    assert len(judgments) == n
    assert all((j.y is None) == (j.reason is not None) and j.y in (None, 0, 1) for j in judgments)
    assert read_one(text).y in (None, 0, 1)


@pytest.mark.parametrize("digits", ["1" * 4400, "-" + "1" * 4400, "1e400", "1" * 400])
def test_index_beyond_every_number_is_no_index_of_the_list(digits: str) -> None:
    assert answers(f"{digits}: yes\n1: no", n=1) == [0]
    assert answers(f'{{"i": {digits}, "y": 1}}\n{{"i": 1, "y": 0}}', n=1) == [0]
