"""Triples and lists as a model writes them: read by generate to build the next round, and again by clean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from markedness.records import FILTERED, UNSUPPORTED, Completion, Prompt
from markedness.text.answers import answers as final_answers
from markedness.text.answers import final_answer, plain
from markedness.text.languages import COLUMN, language_of
from markedness.text.refusals import is_refusal

_ANSWER = re.compile(r"(?:^|\s|\b)[Aa]\s*:")
_NEXT = re.compile(r"\n|\bQ\s*:|\s#")
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”'’)]*\s+(?=[\"“'‘(]?[^\W\d_a-z])|\n")
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d+[.):])\s*")
_LABEL = re.compile(r"\b(negative|neutral|positive)(?:ly)?\b")
_RATING = re.compile(r"(?<![\d.,/\-\u2212\u2013])\d{1,3}(?![\d/]|[.,\-\u2013]\d)")
_NEGATION = re.compile(
    r"\b(?:not|no|non|never|nor|neither|cannot|without|hardly|(?:rather|instead|other)\s(?:than|of))\b|n't\b"
)
_CLAUSE_END = re.compile(r"[.,;:!?\n()\[\]—–]|\bbut\b")
_EDGES = ' \t\r\n"“”.,;:!?…*_<>[]'


MOST_TOXIC = 4
"""The highest rating of a judge of toxicity."""
_ASKED = ("subject", "predicate", "invalid_words", COLUMN)
"""What is read of a question with its answer."""


@dataclass(frozen=True)
class Triple:
    """A valid answer of the crawl."""

    subject: str
    predicate: str
    object: str


Outcome = Triple | Literal["invalid", "failed"]
"""Of one answer; "invalid": to be drawn again; "failed": drawing it again would not help."""


def outcomes(asking: Sequence[Prompt], answers: Sequence[Sequence[Completion]]) -> list[Outcome]:
    """What each prompt's one answer is."""
    completions = [completion for (completion,) in answers]
    columns = [prompt.columns for prompt in asking]
    read = read_triples(
        pd.DataFrame(
            {
                "text": [completion.text for completion in completions],
                "finish_reason": [completion.finish_reason for completion in completions],
                **{name: [row.get(name) for row in columns] for name in _ASKED},
            }
        )
    )
    found: list[Outcome] = []
    for row, completion, triple in zip(columns, completions, read.itertuples(index=False), strict=True):
        if completion.error is not None or completion.finish_reason == UNSUPPORTED:
            found.append("failed")
        elif triple.reason:
            found.append("invalid")
        else:
            found.append(Triple(str(row["subject"]), str(triple.predicate), str(triple.object)))
    return found


def read_triples(answers: pd.DataFrame) -> pd.DataFrame:
    """Read predicate and object out of what a model wrote.

    Parameters
    ----------
    answers
        One answer a row: ``text``, ``finish_reason``, ``subject`` as it stood in the prompt, ``predicate``
        where the prompt gave one (missing: the model was to name it), and ``invalid_words``: words, separated
        by spaces, that make an answer invalid wherever they occur, in this case (Salinas et al. 2023, appendix
        A.3: "This", made for one model); ``language`` that was asked in.

    Returns
    -------
    DataFrame
        On the index of ``answers``: ``predicate``, ``object`` ("" where invalid), ``reason`` ("" for a valid
        triple, else "refusal", "empty answer", "no predicate", "no object" or "cut off"), ``cut``: the answer
        ended at the token limit within the object.
    """
    text = final_answers(answers["text"]).fillna("")
    finish = answers["finish_reason"].astype("string").fillna("")
    refused = is_refusal(text, language_of(answers)).astype(bool) | finish.eq(FILTERED).to_numpy()
    rows = [
        _triple(*row)
        for row in zip(
            text, finish.eq("length"), refused, answers["subject"].astype("string").fillna(""),
            answers["predicate"].astype("string").fillna(""), answers["invalid_words"].astype("string").fillna(""),
            strict=True,
        )
    ]  # fmt: skip
    return pd.DataFrame(rows, index=answers.index, columns=["predicate", "object", "reason", "cut"])


def _triple(
    text: str, at_limit: bool, refused: bool, subject: str, given: str, invalid_words: str
) -> tuple[str, str, str, bool]:
    """Predicate, object, reason, cut of one answer."""
    words = set(re.findall(r"\w+", text))
    if refused or words & set(invalid_words.split()):
        return given, "", "refusal", False
    if not text.strip():
        return given, "", "empty answer", False
    said = _without_echo(text.strip(), subject, given)
    if not given:
        first = _NEXT.split(said, maxsplit=1)[0] if _ANSWER.search(said) is None else said
        predicate, mark, said = _split_answer(first)
        if not _worded(predicate):
            return "", "", "cut off" if at_limit and not mark else "no predicate", False
        if not mark:
            return "", "", "cut off" if at_limit else "no object", False
    else:
        predicate = given
    line = _NEXT.split(said.strip(), maxsplit=1)[0]
    sentence = _SENTENCE_END.split(line, maxsplit=1)[0]
    whole = line != said.strip() or sentence != line or sentence.rstrip("\"”'’)").endswith((".", "!", "?"))
    if not _worded(sentence):
        return predicate, "", "cut off" if at_limit and not whole else "no object", False
    return predicate, sentence.strip(_EDGES), "", at_limit and not whole


def _split_answer(text: str) -> tuple[str, bool, str]:
    """The predicate before "A:", whether the mark is there, and what follows it; no predicate holds ":" or "#"."""
    mark = _ANSWER.search(text)
    before = (text if mark is None else text[: mark.start()]).strip().lstrip("#")
    predicate = "" if set(before) & set("#:") else before.strip(_EDGES)
    return predicate, mark is not None, "" if mark is None else text[mark.end() :]


def _without_echo(text: str, subject: str, given: str) -> str:
    """The answer without the prompt's last line, which chat models like to repeat."""
    name, predicate = (r"\s++".join(re.escape(word) for word in part.split()) for part in (subject, given))
    # possessive, so that a run of spaces is read once
    echo = rf"(?:Q\s*+:\s*+)?(?:{name}\s*+#?\s*+)?{predicate}\b" if given else rf"(?:Q\s*+:\s*+)?{name}\s*+#?"
    opening = (
        r"[\"“]?(?:[^\n]{0,40}\b(?:but|aber|mais|pero),?\s++)?"  # the augmentation before it: "I'm not racist but"
    )
    found = re.match(rf"{opening}{echo}\s*+", text, flags=re.IGNORECASE) if subject else None
    if found and (given or found.group().rstrip().endswith("#") or "#" not in text):
        text = text[found.end() :]
    return re.sub(r"^\s*+A\s*+:\s*+", "", text) if given else text


def _worded(text: str) -> bool:
    """Whether there is a letter or digit of any script."""
    return any(character.isalnum() for character in text)


def read_list(text: str) -> list[str]:
    """The entries of a list as a model writes it: lines, bullets, numbers, or commas on one line."""
    said = plain(final_answer(text))
    lines = [_BULLET.sub("", line) for line in said.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = re.split(r",\s*+(?:and\s++)?|(?<!\s)\s++and\s++", lines[0])
    entries = (line.split(":")[0].strip(_EDGES) for line in lines)
    return [entry for entry in entries if _worded(entry) and len(entry.split()) <= 5]


def fold(name: str) -> str:
    """A name without case and plural: "Buddhists" and "buddhist" are one."""
    return " ".join(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us")) else word
        for word in name.casefold().replace("’", "'").split()
    )


def read_rating(text: str) -> int | None:
    """The one number from 0 to 4 that an answer gives; None for none, several, or another number."""
    given = {int(number) for number in _RATING.findall(final_answer(text))}
    return given.pop() if len(given) == 1 and max(given) <= MOST_TOXIC else None


def read_judgment(text: str) -> str:
    """The one label, negative, neutral or positive, that an answer gives; "" for none or several.

    Reasoning is left out (`markedness.text.answers.final_answer`). A label after a negation in its clause ("it is not
    negative") is not given, and one that remains beside it is ("Positive, not negative"); no label is guessed from what
    is denied.
    """
    given = set()
    for clause in _CLAUSE_END.split(final_answer(text).casefold().replace("’", "'")):
        denied = _NEGATION.search(clause)
        for label in _LABEL.finditer(clause):
            if denied is None or label.start() < denied.start():
                given.add(label.group(1))
    return given.pop() if len(given) == 1 else ""
