"""Words of a text: the published rule, and one for every script.

A tokenised text is a string: its words joined by single spaces. Two spaces in a row hold an empty word, one
that had no letter ("-", "1990"): it counts in every total, as published, and is never listed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from markedness.records import AuditError, Stimuli
from markedness.text.answers import JOINERS

Rule = Literal["published", "unicode"]
REMOVED = "removed_strings.csv"
"""What the classifier shall not see."""

_NOT_A_TO_Z = bytes(byte for byte in range(256) if byte != ord(" ") and not ord("a") <= byte <= ord("z"))
_A_TO_Z_OUT = dict.fromkeys(range(ord("a"), ord("z") + 1))
_APOSTROPHES = "'\u2019\u02bc\uff07"
_HYPHENS = "-\u2010\u2011"


def tokenize(texts: Iterable[str | None], rule: Rule = "published") -> list[str | None]:
    """Words of each text, joined by single spaces.

    Parameters
    ----------
    texts
        Cleaned texts; None or "" has no words.
    rule
        ``"published"``: lowercase, split at whitespace, delete all but a-z ("almond-shaped" -> "almondshaped",
        "don't" -> "dont", "José" -> "jos"). ``"unicode"``: letters and marks of any script stay, and so do
        hyphens and apostrophes inside a word ("almond-shaped", "don't", "josé").

    Returns
    -------
    list
        One string per text; None where there is no word at all.

    References
    ----------
    Cheng, Durmus & Jurafsky (2023), section 3.2; the rule is the one that reproduces their tables.
    """
    words = {"published": _published, "unicode": _unicode}[rule]
    return [words(text) if text and not text.isspace() else None for text in texts]


def dropped_letters(texts: Iterable[str | None], rule: Rule = "published") -> tuple[int, int]:
    """How many letters of the texts the rule drops, and how many there are: ``(dropped, letters)``.

    ``"published"`` drops all but a-z ("zuverlässig" -> "zuverlssig"); ``"unicode"`` drops none.
    """
    dropped = letters = 0
    for text in texts:
        if text:
            lowered = text.lower()
            others = 0 if lowered.isascii() else sum(map(str.isalpha, lowered.translate(_A_TO_Z_OUT)))
            letters += others + len(lowered.encode("ascii", "ignore").translate(None, _NOT_A_TO_Z + b" "))
            dropped += others if rule == "published" else 0
    return dropped, letters


def _published(text: str) -> str:
    # composed first: a typed accent must not decide whether "jose" or "jos" is left
    text = text if text.isascii() else unicodedata.normalize("NFC", text)
    return " ".join(text.lower().split()).encode("ascii", "ignore").translate(None, _NOT_A_TO_Z).decode("ascii")


def _unicode(text: str) -> str:
    letters = unicodedata.normalize("NFC", " ".join(text.split())).lower().translate(_LETTERS)
    return " ".join(word.strip("'-" + JOINERS) for word in letters.split(" "))


class _Letters(dict[int, str | None]):
    """Character -> itself, its plain form, or nothing; learnt as characters come up."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        if character in _APOSTROPHES:
            kept: str | None = "'"
        elif character in _HYPHENS:
            kept = "-"
        elif character == " " or character in JOINERS or unicodedata.category(character)[0] in "LM":
            kept = character
        else:
            kept = None
        self[code] = kept
        return kept


_LETTERS = _Letters()


def without_strings(texts: Iterable[str], whole_words: Sequence[str], *substrings: Sequence[str]) -> list[str]:
    """Texts without the words that name a group, for a classifier that shall not see them.

    Lowercase; delete characters that are neither word characters nor space; delete ``whole_words`` where
    they stand alone; then delete each list of ``substrings`` in turn, also inside words, entry by entry in
    the given order. An entry is a regular expression, whatever its capitals.
    """
    stages = [rf"\b(?:{'|'.join(whole_words)})\b"] if whole_words else []
    entries = [*stages, *(entry for part in substrings for entry in part)]
    patterns = [re.compile(entry, re.IGNORECASE) for entry in entries]
    cut = []
    for text in texts:
        kept = re.sub(r"[^\w\s]", "", text.lower())
        for pattern in patterns:
            kept = pattern.sub("", kept)
        cut.append(kept)
    return cut


def removal_lists(stimuli: Stimuli, file: str = REMOVED) -> list[list[str]]:
    """The three lists for `without_strings` from a table of stage (1, 2, 3) and string, its order kept.

    Raises
    ------
    AuditError
        For another stage, an empty string, or one that is no regular expression.
    """
    found: dict[str, list[str]] = {"1": [], "2": [], "3": []}
    table = stimuli.table(file, ["stage", "string"])
    for stage, string in zip(table["stage"].str.removesuffix(".0"), table["string"], strict=True):
        if stage not in found or not string:
            raise AuditError(
                f"{file}: a row has the stage '{stage:.40}' and the string '{string:.40}'; stages are 1 to 3"
            )
        try:  # those of stage 1 are one expression, in which none may set flags
            groups = re.compile(rf"\b(?:{string})\b" if stage == "1" else string).groups
        except re.error as error:
            raise AuditError(
                f"{file}: '{string:.40}' is no regular expression ({error}); put \\ before a character that is meant so"
            ) from error
        if stage == "1" and groups:
            raise AuditError(f"{file}: '{string:.40}' has a group, which a string of stage 1 must not; write (?:...)")
        found[stage].append(string)
    return list(found.values())
