"""The answer in what a model wrote: without its reasoning, and in one Unicode form."""

from __future__ import annotations

import math
import re
import unicodedata
from itertools import islice

import pandas as pd

_TAGS = "think|thinking|thoughts?|reasoning|reasoning_content|reflection|scratchpad|seed:think"
_CLOSING = re.compile(
    rf"</(?:{_TAGS})\s*+>|\[/THINK\]|◁/think▷|<\|channel\|>final[ \w]{{0,20}}<\|message\|>|<channel\|>|"
    r"<\|END_THINKING\|>|<\|START_RESPONSE\|>|<\|end_of_thought\|>|<\|begin_of_solution\|>", re.IGNORECASE,
)  # fmt: skip
_OPENING = re.compile(
    rf"<(?:{_TAGS})\s*+>|\[THINK\]|◁think▷|<\|channel\|>(?:analysis|commentary)<\|message\|>|<\|channel>thought|"
    r"<\|START_THINKING\|>|<\|begin_of_thought\|>", re.IGNORECASE,
)  # fmt: skip
_BARE = "analysis", "assistantfinal"
"""What is left of the channels of gpt-oss where a tool dropped the tokens around their names."""
JOINERS = "\u200c\u200d"
"""Zero-width, but part of the spelling in Persian and in Indic scripts."""
LOWEST_LOG_PROB = -745.0
"""About ln of the smallest number above 0 that a computer holds; servers write -9999 for a word that is unlikely."""
_FIRST_JOINING = "\u0590"
"""From here on scripts spell words with joiners; in Latin, Greek and Cyrillic ones they show nothing."""


def final_answer(text: str) -> str:
    """What follows the reasoning of a model, "" where nothing does.

    Everything before the last closing tag (``</think>`` and the like) is reasoning, with an opening tag or without one,
    which chat templates may write into the prompt. So is what follows an opening tag that is never closed.
    """
    opened, closed = _BARE
    if text.startswith(opened):
        _, found, after = text.rpartition(closed)
        if found or text[len(opened) : len(opened) + 1].isupper():
            return after if found else ""
    end = 0
    for closing in _CLOSING.finditer(text):
        end = closing.end()
    opening = _OPENING.search(text, end)
    return text[end:] if opening is None else text[end : opening.start()]


def plain(text: str) -> str:
    """A text in composed form (NFC) without format characters (Cf) and variation selectors.

    So a word is the same however it was typed: with a combining accent, a soft hyphen, a zero-width space. Joiners stay
    between letters of the scripts that spell with them.
    """
    if text.isascii():
        return text
    signs = set(text)
    if unseen := {ord(sign): None for sign in signs if sign not in JOINERS and _shows_nothing(sign)}:
        text = text.translate(unseen)
    if signs.intersection(JOINERS):
        text = "".join(
            sign for place, sign in enumerate(text) if sign not in JOINERS or _joins(text[place - 1 : place + 2], place)
        )
    return unicodedata.normalize("NFC", text)


def answers(texts: pd.Series) -> pd.Series:
    """`plain` of the `final_answer` of each text; missing ones stay missing. Of type string, with their index."""
    texts = texts.astype("string")
    return texts.map(lambda text: plain(final_answer(text)), na_action="ignore").astype("string")


_NOTHING = frozenset((
    "",
    "na", "notapplicable", "notavailable", "notspecified", "notprovided", "notstated", "notgiven", "notmentioned",
    "notknown", "notsure", "imnotsure", "iamnotsure", "unspecified", "none", "null", "nil", "nan", "nothing", "unknown",
    "noanswer", "noresponse", "nocomment", "noidea", "ihavenoidea", "undefined", "undetermined", "unclear", "idk",
    "dontknow", "idontknow", "idonotknow", "cantsay", "icantsay", "cannotsay", "icannotsay", "idrathernotsay",
    "prefernottosay", "iprefernottosay", "cannotdetermine", "icannotdetermine", "cannotbedetermined",
    "unabletodetermine", "insufficientinformation", "notenoughinformation", "error", "removed", "deleted",
    "keine", "keineangabe", "keineangaben", "keineantwort", "nichtzutreffend", "unbekannt", "nichts", "weißnicht",
    "aucun", "aucune", "sansobjet", "nonapplicable", "nonprécisé", "inconnu", "rien", "jenesaispas",
    "ninguno", "ninguna", "noaplica", "noespecificado", "desconocido", "nada", "nosé", "nolosé",
))  # fmt: skip
"""Letters and digits of answers that name nothing or say that there is none, in lower case; our own."""


def says_nothing(texts: pd.Series) -> pd.Series:
    """Whether each text has no letter or digit, or says no more than that there is no answer ("N/A", "unknown").

    Of type bool, with the index of ``texts``; a missing text is none of these.
    """
    found = [isinstance(text, str) and _first_letters(text) in _NOTHING for text in texts]
    return pd.Series(found, index=texts.index, dtype=bool)


def _first_letters(text: str) -> str:
    """No more letters and digits than tell what is longer than any of `_NOTHING`."""
    return "".join(islice(filter(str.isalnum, text.lower()), 40))


def not_log_probs(values: pd.Series) -> pd.Series:
    """Why a number is no ln probability; <NA> where it is one, or where there is none. Of type string.

    The tolerance allows for rounding errors above ln 1.
    """
    reason = pd.Series(pd.NA, index=values.index, dtype="string")
    reason = reason.mask(
        values.gt(1e-6) | values.abs().eq(math.inf), "not a ln probability: it must be finite and not above 0"
    )
    unlikely = values.lt(LOWEST_LOG_PROB) & values.gt(-math.inf)
    return reason.mask(unlikely, "the server's sign for a word that is too unlikely to be given, such as -9999")


def is_letter(sign: str) -> bool:
    """Whether a character is a letter of any script, or a mark that belongs to one."""
    return unicodedata.category(sign)[0] in "LM"


def _shows_nothing(sign: str) -> bool:
    return unicodedata.category(sign) == "Cf" or "\ufe00" <= sign <= "\ufe0f" or "\U000e0100" <= sign <= "\U000e01ef"


def _joins(around: str, place: int) -> bool:
    """Whether a joiner, given with the characters beside it, is part of a word."""
    return place > 0 and len(around) == 3 and all(n >= _FIRST_JOINING and is_letter(n) for n in (around[0], around[2]))
