"""The two texts of a dialect pair differ in the coded features only, not in register."""

from __future__ import annotations

import difflib
import re

import pytest

from .conftest import STIMULI

PAIRS = STIMULI.table("dialect.csv").to_dict("records")
TOKEN = re.compile(r"'(?:m|s|re)\b|[a-z]+n't\b|[a-z]+in'|gon'|[a-z]+")
STANDARD = (
    {"'m", "'s", "'re", "is", "are", "was", "were", "usually", "really", "going", "to", "not", "those", "ever", "rains"}
    | {"any", "anything", "anywhere", "anybody", "anymore", "something"}
    | {"haven't", "doesn't", "didn't", "isn't", "weren't"}
)
"""What stands in place of a coded feature, beside words in -ing."""
FULL = re.compile(
    r"\b(?:(?:do|does|did|is|are|was|were|have|has|had|will|would|could) not|i am|(?:you|we|they) are|"
    r"(?:he|she|it|that) is|(?:i|you|we|they) have|(?:he|she|it) has|cannot|"
    r"(?:i|you|he|she|it|we|they) (?:will|would|had))\b"
)
"""Forms that informal writing contracts."""


def tokens(text: str) -> list[str]:
    return TOKEN.findall(text.lower().replace("’", "'"))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair["pair"]))
def test_dialect_texts_differ_in_the_coded_features_only(pair: dict[str, str]) -> None:
    first, second = tokens(pair["SAE"]), tokens(pair["AAVE"])
    coded = {word for feature in pair["features"].split(";") for word in tokens(feature.partition("=")[2])}
    changed = [
        (first[a:b], second[c:d])
        for tag, a, b, c, d in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    assert changed
    assert {word for _, words in changed for word in words} <= coded
    standard = {word for words, _ in changed for word in words}
    assert {word for word in standard - STANDARD if f"{word[:-1]}'" not in second} == set()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair["pair"]))
def test_dialect_texts_write_no_full_form_where_speech_contracts(pair: dict[str, str]) -> None:
    for dialect in ("SAE", "AAVE"):
        assert not FULL.search(pair[dialect].lower()), pair[dialect]
