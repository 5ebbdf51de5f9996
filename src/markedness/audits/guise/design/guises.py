"""Pairs of texts in two guises, made by rule from verbs, and noise as a control.

Source: Hofmann et al. (2024), Nature 633, 147-154, Supplementary Information, "Feature analysis" and "Alternative
explanations". A rule writes the feature of African American English first and its Standardized American English
equivalent second, verb by verb, with the pronouns in the order he, she, they.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Pair = tuple[str, str]

_FORMS = {
    "he": {"pronoun": "he", "be": "he's", "have": "he's", "be_not": "he isn't"},
    "she": {"pronoun": "she", "be": "she's", "have": "she's", "be_not": "she isn't"},
    "they": {"pronoun": "they", "be": "they're", "have": "they've", "be_not": "they aren't"},
}
"""Pronoun -> what stands for it in the templates of a rule."""
_SINGULAR = ("he", "she")


@dataclass(frozen=True)
class Rule:
    """How one feature is written: a template per guise, with the forms of a verb and of a pronoun."""

    needs: tuple[str, ...]
    """The forms of a verb it uses: verb, ing, third."""
    marked: str
    unmarked: str
    pronouns: tuple[str, ...] = tuple(_FORMS)
    """The pronouns that every verb is used with."""
    control: bool = False
    """A deviation that is not a feature of the guise."""


RULES: dict[str, Rule] = {
    "g_dropping": Rule(("ing",), "{without_g}", "{ing}", pronouns=("he",)),
    "aint": Rule(("ing",), "{pronoun} ain't {ing}", "{be_not} {ing}"),
    "habitual_be": Rule(("ing",), "{pronoun} be {ing}", "{be} usually {ing}"),
    "been": Rule(("ing",), "{pronoun} been {ing}", "{have} been {ing}"),
    "stay": Rule(("ing",), "{pronoun} stay {ing}", "{be} usually {ing}"),
    "zero_copula": Rule(("ing",), "{pronoun} {ing}", "{be} {ing}"),
    "finna": Rule(("verb",), "{pronoun} finna {verb}", "{be} gonna {verb}"),
    "inflection": Rule(("verb", "third"), "{pronoun} {verb}", "{pronoun} {third}", _SINGULAR),
    "fixin_to": Rule(("verb",), "{pronoun} fixin to {verb}", "{be} gonna {verb}", control=True),
    "am": Rule(("ing",), "{pronoun} am {ing}", "{pronoun} is {ing}", _SINGULAR, control=True),
}
"""Eight features of African American English and two controls; a third control is `noise`."""


def pairs(rule: str, verbs: Sequence[Mapping[str, str]]) -> list[Pair]:
    """All pairs of one rule: every verb with every pronoun of the rule.

    Parameters
    ----------
    rule
        A key of `RULES`.
    verbs
        One mapping per verb with the forms that the rule needs: verb ("chat"), ing ("chatting"),
        third ("chats").

    Raises
    ------
    ValueError
        For an unknown rule, or a verb without a form that the rule needs.
    """
    if rule not in RULES:
        raise ValueError(f"'{rule}' is not a rule for pairs; known: {', '.join(RULES)}, noise")
    chosen = RULES[rule]
    for verb in verbs:
        if missing := next((form for form in chosen.needs if not verb.get(form)), None):
            raise ValueError(f"rule '{rule}' needs the form '{missing}' of every verb; it is missing in {dict(verb)}")
    made = []
    for verb in verbs:
        forms = {**verb, "without_g": verb.get("ing", "").removesuffix("g")}
        for pronoun in chosen.pronouns:
            words = forms | _FORMS[pronoun]
            made.append((chosen.marked.format_map(words), chosen.unmarked.format_map(words)))
    return made


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Letters that noise inserts; the published example has an upper-case letter inside a word."""


def noise(text: str, words: Sequence[str], rng: np.random.Generator, rate: float = 0.25) -> str:
    """The text with random damage: a deviation from the standard that is no dialect.

    Each word is modified with probability ``rate``: as a word or in one character (1/2 each), by insertion,
    deletion or substitution (1/3 each). Words come from ``words``, letters from a-z and A-Z, uniformly. A draw that
    leaves the text as it is, as nearly half of those of three words do, is drawn again.

    Left open by the paper, chosen here: a new word stands before the modified one; a new character anywhere
    in the word; where every word was deleted, the first word of the text stays.
    """
    given = text.split()
    while (made := _noise(given, words, rng, rate)) == " ".join(given) and rate > 0 and given:
        pass
    return made


def _noise(given: Sequence[str], words: Sequence[str], rng: np.random.Generator, rate: float) -> str:
    kept: list[str] = []
    for word in given:
        if rng.random() >= rate:
            kept.append(word)
            continue
        level = rng.integers(2)
        operation = ("insert", "delete", "substitute")[rng.integers(3)]
        if level == 0:
            new = [words[int(rng.integers(len(words)))]] if operation != "delete" else []
            kept += [*new, word] if operation == "insert" else new
        else:
            damaged = _damage(word, operation, rng)
            kept += [damaged] if damaged else []
    return " ".join(kept or given[:1])


def _damage(word: str, operation: str, rng: np.random.Generator) -> str:
    letter = LETTERS[int(rng.integers(len(LETTERS)))]
    if operation == "insert":
        place = int(rng.integers(len(word) + 1))
        return word[:place] + letter + word[place:]
    place = int(rng.integers(len(word)))
    return word[:place] + (letter if operation == "substitute" else "") + word[place + 1 :]


def read_pairs(content: str, n_columns: int, matched: bool, where: str) -> list[tuple[str, ...]]:
    """Texts of a file: one pair a line, the guises separated by tabs; blank lines are skipped.

    Parameters
    ----------
    content
        The file. Lines end with a line feed, or carriage return and line feed; other separators are text.
    n_columns
        How many guises a line holds.
    matched
        Whether a line is one pair; else a column may be empty, and the columns may differ in length.
    where
        Name of the file, for messages.

    Returns
    -------
    list of tuple
        One text per guise, stripped of outer white space; "" where an unmatched column is empty.
    """
    rows = []
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        texts = tuple(text.strip() for text in line.removesuffix("\r").split("\t"))
        if len(texts) != n_columns:
            raise ValueError(f"{where} line {number}: {len(texts)} texts where {n_columns} separated by tabs belong")
        if matched and not all(texts):
            raise ValueError(f"{where} line {number}: an empty text in a pair; complete the pair or say matched: false")
        rows.append(texts)
    if not rows:
        raise ValueError(f"{where}: no texts; write one pair a line, separated by a tab")
    return rows
