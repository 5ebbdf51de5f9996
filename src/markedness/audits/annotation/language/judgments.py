"""Read yes/no judgments from what an annotator wrote: JSON Lines, a numbered list, or one answer.

What cannot be read as 0 or 1 is missing, with its reason; nothing is guessed. Quantifiers that meet the same
characters are possessive (``*+``, ``++``), so that no answer takes more than linear time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from markedness.text.answers import final_answer

_YES = {"1", "yes", "true", "one"}
_NO = {"0", "no", "false", "zero"}
_OBJECT = re.compile(r"\{[^{}]*\}")
_PAIR = re.compile(r"""\s*(["']?)(\w+)\1\s*:\s*("[^"]*"|'[^']*'|[^,"'{}\[\]\s]+)\s*""")
# "3. 0", "3) yes", "3: 1", "Text 3 - no", "**3.** 1"; after a point a space, so that "1.0" is no answer
_LINE = re.compile(
    r"^[\s*_`>#-]*+(?:(?:text|item|no\.?|index)\s*+)?(-?\d++)\s*+[*_`]*+\s*+"
    r"(?:[.)](?=[\s*_`])|[:=|]|→|[-–—](?=\s)|->)"
    r"[\s*_`\"']*+(?:answer\s*+[:=]\s*+)?(\w++)[\s*_`\"'.,;!]*+$",
    re.IGNORECASE,
)
_ONE = re.compile(
    r"^[\s*_`\"'(\[]*+(?:(?:answer|output|label|y)\b)?\s*+[:=]?+[\s*_`\"'(\[]*+(\w++)[\s*_`\"')\].,;!]*+$",
    re.IGNORECASE,
)
_OUTSIDE = -1
"""Stands for any number of more than 18 digits: an index that no list has."""

MISSING_INDEX = "index missing"
CONTRADICTION = "index given twice with different answers"
NOT_BINARY = "neither 0 nor 1"
SHIFTED = "numbered from another start"
NOTHING = "no answer in the text"


class Judgment(NamedTuple):
    """One answer: ``y`` is 0 or 1, or None with the reason."""

    y: int | None
    reason: str | None


def binary(value: Any) -> int | None:
    """0 or 1 for a value that says so without doubt (1, "1", "yes", true, 1.0), else None."""
    if isinstance(value, str):
        word = value.strip().strip("\"'").lower()
        if word in ("1.0", "0.0"):
            return int(word[0])
        return 1 if word in _YES else 0 if word in _NO else None
    if value is True or value is False:
        return int(value)
    try:
        return int(value) if value in (0, 1) else None
    except (TypeError, ValueError):
        return None


def read_one(text: str) -> Judgment:
    """The judgment of a text that should hold one answer and nothing else.

    Accepted are 0 or 1 and the words for them, alone, after "Answer:", or as ``y`` of one JSON object.
    """
    text = final_answer(text).strip()
    found = {y for index, y in _objects(text) if index in (None, 1)}
    if found:
        return Judgment(found.pop(), None) if len(found) == 1 and None not in found else Judgment(None, NOT_BINARY)
    match = _ONE.match(text)
    if match is None:
        return Judgment(None, NOTHING)
    y = binary(match[1])
    return Judgment(y, None if y is not None else NOT_BINARY)


def read_numbered(text: str, n: int, cut: bool = False) -> list[Judgment]:
    """The judgments of ``n`` texts, numbered from 1, in their order.

    Parameters
    ----------
    text
        JSON Lines, one {"i": index, "y": 0 or 1} per text, wherever they stand in it (a fence, prose or a JSON
        list around them); only when there is no such object, a numbered list.
    n
        How many texts were asked about.
    cut
        The text ends at a token limit: its last line may be torn and is not read from a list.

    Returns
    -------
    list of Judgment
        Always ``n``. An index that is absent is missing; one given twice counts when both answers agree and is
        missing when they differ; one outside 1..n is ignored, unless it shows that the numbering started
        elsewhere (0 is there and ``n`` is not, or ``n`` + 1 is there and 1 is not): then all are missing.
    """
    text = final_answer(text)
    found = [(index, y) for index, y in _objects(text) if index is not None]
    found = found or list(_list(text, cut))
    answers: dict[int, set[int | None]] = {}
    for index, y in found:
        answers.setdefault(index, set()).add(y)
    if not answers:
        return [Judgment(None, NOTHING)] * n
    if (0 in answers and n not in answers) or (n + 1 in answers and 1 not in answers):
        return [Judgment(None, SHIFTED)] * n
    return [_agreed(answers.get(index)) for index in range(1, n + 1)]


def _agreed(given: set[int | None] | None) -> Judgment:
    if given is None:
        return Judgment(None, MISSING_INDEX)
    if len(given) > 1:
        return Judgment(None, CONTRADICTION)
    (y,) = given
    return Judgment(y, None if y is not None else NOT_BINARY)


def _objects(text: str) -> Iterator[tuple[int | None, int | None]]:
    """(index, answer) of each flat object with a key ``y``; index None where it has none, answer None if not 0 or 1."""
    for match in _OBJECT.finditer(text):
        pairs = _pairs(match[0])
        keys = [key for key, _ in pairs]
        if "y" not in keys or keys.count("y") > 1 or keys.count("i") > 1:
            continue
        values = dict(pairs)
        if "i" not in values:
            yield None, binary(values["y"])
        elif (index := _index(values["i"])) is not None:
            yield index, binary(values["y"])


def _pairs(content: str) -> Sequence[tuple[str, Any]]:
    """Keys and values of one flat object, JSON or nearly so (single quotes, no quotes, a comma too many)."""
    inner = content[1:-1].strip().rstrip(",")
    pairs, place = [], 0
    while place < len(inner):
        match = _PAIR.match(inner, place)
        if match is None:
            return ()
        pairs.append((match[2], _value(match[3])))
        place = match.end()
        if place < len(inner):
            if inner[place] != ",":
                return ()
            place += 1
    return pairs


def _value(token: str) -> Any:
    try:
        return orjson.loads(token)
    except orjson.JSONDecodeError:
        return token.strip("\"'")


def _index(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value.strip()):
        return int(value)
    if not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
        return None
    return int(value)


def _list(text: str, cut: bool) -> Iterator[tuple[int, int | None]]:
    """(index, answer) of each line of a numbered list."""
    lines = text.split("\n")
    for line in lines[:-1] if cut else lines:
        match = _LINE.match(line)
        if match is not None:
            yield int(match[1]) if len(match[1]) <= 18 else _OUTSIDE, binary(match[2])
