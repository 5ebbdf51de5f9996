from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.design.guises import LETTERS, RULES, noise, pairs, read_pairs

CHAT = {"verb": "chat", "ing": "chatting", "third": "chats"}
VERBS = Path(__file__).parents[3] / "data" / "stimuli" / "guise" / "verbs.csv"


@pytest.mark.parametrize(
    ("rule", "first", "n"),
    [
        ("g_dropping", ("chattin", "chatting"), 1),
        ("aint", ("he ain't chatting", "he isn't chatting"), 3),
        ("habitual_be", ("he be chatting", "he's usually chatting"), 3),
        ("been", ("he been chatting", "he's been chatting"), 3),
        ("stay", ("he stay chatting", "he's usually chatting"), 3),
        ("zero_copula", ("he chatting", "he's chatting"), 3),
        ("finna", ("he finna chat", "he's gonna chat"), 3),
        ("inflection", ("he chat", "he chats"), 2),
        ("fixin_to", ("he fixin to chat", "he's gonna chat"), 3),
        ("am", ("he am chatting", "he is chatting"), 2),
    ],
)
def test_pairs_of_each_rule(rule: str, first: tuple[str, str], n: int) -> None:
    made = pairs(rule, [CHAT, CHAT])
    assert made[0] == first
    assert len(made) == 2 * n


def test_pairs_plural_pronoun_has_plural_forms() -> None:
    plural = {rule: pairs(rule, [CHAT])[2] for rule in ("aint", "habitual_be", "been", "finna")}
    assert plural["aint"][1] == "they aren't chatting"
    assert plural["habitual_be"][1] == "they're usually chatting"
    assert plural["been"][1] == "they've been chatting"
    assert plural["finna"][1] == "they're gonna chat"


def test_pairs_equal_the_published_habitual_be_file(shared: Path) -> None:
    lines = (shared / "corpora" / "guise" / "habitual.txt").read_text(encoding="utf-8").strip().split("\n")
    published = [tuple(line.split("\t")) for line in lines]
    verbs = [{"ing": line[0].removeprefix("he be ")} for line in published[::3]]
    assert pairs("habitual_be", verbs) == published
    assert len(published) == 699


def test_pairs_unknown_rule_or_missing_form_says_what_is_needed() -> None:
    with pytest.raises(ValueError, match="known: g_dropping"):
        pairs("finnna", [CHAT])
    with pytest.raises(ValueError, match="needs the form 'verb'"):
        pairs("finna", [{"ing": "chatting"}])


def test_own_verbs_are_complete_and_distinct() -> None:
    verbs = pd.read_csv(VERBS)
    assert verbs.notna().all().all()
    assert not verbs["verb"].duplicated().any()
    assert verbs["ing"].str.endswith("ing").all()
    assert verbs["third"].str.endswith("s").all()
    rows = [{column: str(row[column]) for column in verbs.columns} for _, row in verbs.iterrows()]
    for rule in RULES:
        made = pairs(rule, rows)
        assert all(first != second for first, second in made), rule


@pytest.mark.slow
def test_noise_modifies_about_a_quarter_of_the_words() -> None:
    rng = np.random.default_rng(0)
    text = " ".join(f"word{i}" for i in range(4000))
    words = noise(text, ["zzz"], rng).split()
    # untouched with probability 3/4 (+ words kept beside an inserted one: 1/4 * 1/2 * 1/3): 0.7917
    untouched = sum(word in set(text.split()) for word in words) / 4000
    assert untouched == pytest.approx(0.75 + 1 / 24, abs=0.025)
    # inserted or substituted words: 1/4 * 1/2 * 2/3
    assert words.count("zzz") / 4000 == pytest.approx(1 / 12, abs=0.015)


def test_noise_changes_every_text() -> None:
    rng = np.random.default_rng(0)
    assert all(noise("he's usually singing", ["zzz"], rng) != "he's usually singing" for _ in range(200))


def test_noise_is_repeatable_and_never_empty() -> None:
    assert noise("one two three", ["x"], np.random.default_rng(5)) == noise(
        "one two three", ["x"], np.random.default_rng(5)
    )
    assert all(noise("a", ["x"], np.random.default_rng(seed), rate=1.0) for seed in range(200))
    assert {letter.isupper() for letter in LETTERS} == {True, False}


def test_noise_at_rate_zero_changes_nothing_but_white_space() -> None:
    assert noise(" he  is here ", ["x"], np.random.default_rng(0), rate=0.0) == "he is here"


def test_read_pairs_strips_outer_white_space_and_keeps_odd_separators() -> None:
    assert read_pairs(" a\u2028b \t c\r\n\n d\te \n", 2, True, "f") == [("a\u2028b", "c"), ("d", "e")]


def test_read_pairs_names_the_faulty_line() -> None:
    with pytest.raises(ValueError, match="f line 2: 1 texts where 2"):
        read_pairs("a\tb\nc\n", 2, True, "f")
    with pytest.raises(ValueError, match="f line 1: an empty text"):
        read_pairs("a\t\n", 2, True, "f")
    with pytest.raises(ValueError, match="f: no texts"):
        read_pairs("\n", 2, True, "f")


def test_read_pairs_unmatched_columns_may_differ_in_length() -> None:
    assert read_pairs("a\tb\n\tc\n", 2, False, "f") == [("a", "b"), ("", "c")]
