"""Languages: their names, which one rows were asked in, and the words that stimuli have for a group."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

ENGLISH = "en"
COLUMN = "language"
"""Column of generations, and of the audit's main table of features: the language that was asked in; absent: English."""
GROUPS = "groups.yaml"
"""Stimuli that word groups, where a language inflects them: name of a group -> field of the templates -> words."""
_NAMES = {ENGLISH: "English", "de": "German", "fr": "French", "es": "Spanish"}
_ENGLISH_EMBEDDINGS = "all-MiniLM-L6-v2"


def language_name(code: str) -> str:
    """The name of a language; its code, quoted, where we have none."""
    return _NAMES.get(code, f"'{code}'")


def language_of(rows: pd.DataFrame) -> str:
    """The language that rows were asked in."""
    known = rows[COLUMN].dropna() if COLUMN in rows else pd.Series(dtype="str")
    return str(known.iloc[0]) if len(known) else ENGLISH


def no_embeddings(language: str, model: str) -> str:
    """Why a model makes no sentence embeddings of a language; "" where it does, as far as is known."""
    if language == ENGLISH or not model.rstrip("/").endswith(_ENGLISH_EMBEDDINGS):
        return ""
    return (
        f"no sentence embeddings for {language_name(language)}: {_ENGLISH_EMBEDDINGS} knows English; name a "
        "multilingual model"
    )


def unreadable(texts: Sequence[str], model: str) -> list[bool]:
    """Which texts a model makes no sentence embedding of that means anything.

    Those without a letter or digit, and with an English model those most of whose letters are not of the Latin
    alphabet: the model knows these letters one by one at best, so that all such texts are alike to it.
    """
    english = model.rstrip("/").endswith(_ENGLISH_EMBEDDINGS)
    return [not any(map(str.isalnum, text)) or (english and _mostly_other_letters(text)) for text in texts]


def latin_alone(model: str, param: str) -> str:
    """What `unreadable` texts in other letters are, and the remedy; for the end of a note."""
    return f"not written in the Latin alphabet, the only one that {model} knows; name a multilingual model as {param}."


def _mostly_other_letters(text: str) -> bool:
    letters = Counter(filter(str.isalpha, text))
    other = sum(n for letter, n in letters.items() if not unicodedata.name(letter, "").startswith("LATIN"))
    return 2 * other > letters.total()


def words_of_group(groups: Mapping[str, Mapping[str, str]], values: Iterable[str]) -> dict[str, str]:
    """The words of the group that has these values, in whatever order its name has them.

    Raises
    ------
    LookupError
        When there are none, one is empty or no text, or the file is none of groups; its text says what belongs there.
    """
    wanted = " ".join(values)
    if not isinstance(groups, Mapping) or not all(isinstance(words, Mapping) for words in groups.values()):
        raise LookupError(f"{GROUPS} of this language is no mapping; write 'Black woman: {{group: ...}}' for each")
    for name, words in groups.items():
        if sorted(str(name).split()) == sorted(wanted.split()):
            if wrong := [field for field, text in words.items() if not (isinstance(text, str) and text.strip())]:
                raise LookupError(
                    f"{GROUPS} of this language has no text as '{wrong[0]}' of '{wanted}'; write one, in quotes"
                )
            return dict(words)
    raise LookupError(f"{GROUPS} of this language has no words for '{wanted}'; add them to it in your study")
