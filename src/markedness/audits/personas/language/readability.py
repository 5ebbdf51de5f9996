"""Which measures can read the texts: tokenizer, VADER and lexicons each know some scripts or languages only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from markedness.audits.personas.language.lexicons import in_language
from markedness.audits.personas.language.sampling import every_nth
from markedness.audits.personas.language.tokens import Rule, dropped_letters
from markedness.text.languages import ENGLISH, language_name
from markedness.text.refusals import RECOGNISED

MOST_UNREAD = 0.05
"""Share of letters dropped, or of texts in another language, above which a measure of words is not measured."""
_UNSPACED = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u3041", "\u30ff"),
             ("\u3400", "\u9fff"), ("\U00020000", "\U0003ffff"))  # fmt: skip
_LONGEST_WORDS = 8
"""Letters per space, at most, of texts whose words were separated beforehand."""
_CHECKED_TEXTS = 2000
"""Texts of a kind whose language is checked, at most: every n-th."""


def unread_measures(
    texts: Sequence[str], kind: str, rule: Rule, lexicon_language: str | None, language: str = ENGLISH
) -> tuple[dict[str, str], list[str]]:
    """The measures that cannot read the texts of one kind, each with its reason, and notes that say more.

    Parameters
    ----------
    texts
        The included texts of this kind.
    kind
        "persona" or "story", for the notes.
    rule
        Token rule.
    lexicon_language
        Language of the lexicons; None: texts of any language are counted.
    language
        That was asked in.
    """
    unread = dict(_without_resources(lexicon_language, language))
    notes = [f"{kind}: not measured: {why}." for why in dict.fromkeys(unread.values())]
    dropped, letters = dropped_letters(texts, rule)
    share = dropped / letters if letters else 0.0
    drops = f"the tokenizer (tokens: {rule}) drops {share:.1%} of the letters"
    if share > MOST_UNREAD:
        unread |= dict.fromkeys(("words", "lexicon"), drops)
        notes.append(
            f"{kind}: marked words, Jensen-Shannon divergence, lexicons and word shares are not measured, because "
            f"{drops}, more than {MOST_UNREAD:.0%}; set personas.featurize.tokens: unicode."
        )
    elif round(share, 3) > 0:
        notes.append(f"{kind}: {drops}; personas.featurize.tokens: unicode keeps letters of every script.")
    letters = sum(map(str.isalpha, "".join(texts)))
    unspaced = sum(map(_is_unspaced, "".join(texts)))
    if unspaced > MOST_UNREAD * letters:
        spaceless = "the words of these scripts are not separated by spaces"
        unread |= dict.fromkeys(("words", "lexicon", "sentiment", "refusals"), spaceless)
        notes.append(
            f"{kind}: marked words, Jensen-Shannon divergence, lexicons, word shares, sentiment and refusals are not "
            f"measured, because {unspaced / letters:.1%} of the letters are of scripts that put no space between "
            "words; put spaces between the words of the texts and set personas.featurize.tokens: unicode."
        )
        if share <= MOST_UNREAD and sum(text.count(" ") for text in texts) > letters / _LONGEST_WORDS:
            del unread["words"]  # separated beforehand
    checked = [texts[place] for place in every_nth(np.arange(len(texts)), _CHECKED_TEXTS)]
    if language != ENGLISH:
        if others := _in_other_languages(checked, language):
            notes.append(f"{kind}: {others} not in {language_name(language)}, the language that was asked in.")
        return unread, notes
    if others := _in_other_languages(checked, ENGLISH):
        unread |= dict.fromkeys(("sentiment", "refusals"), f"{others} not in English")
        notes.append(
            f"{kind}: sentiment is not measured, because {others} not in English, the language of VADER's word list. "
            "Refusals are recognised in English only and are not counted, and the strings that are removed for the "
            "classifiers are English unless removed_strings.csv was replaced."
        )
    if lexicon_language and (others := _in_other_languages(checked, lexicon_language)):
        unread["lexicon"] = f"{others} not in the language of the lexicons"
        notes.append(
            f"{kind}: lexicons and word shares are not measured, because {others} not in their language "
            f"('{lexicon_language}'); replace lexicon.csv and personas.evaluate.word_share, and set "
            "personas.featurize.lexicon_language."
        )
    return unread, notes


def _without_resources(lexicon_language: str | None, language: str) -> Iterator[tuple[str, str]]:
    """The measures that have nothing for a language, and what is lacking."""
    if language == ENGLISH:
        return
    name = language_name(language)
    yield "sentiment", f"no sentiment word list for {name}"
    if lexicon_language not in (None, language):
        yield "lexicon", f"no lexicon for {name} (personas.featurize.lexicon_language is '{lexicon_language}')"
    if language not in RECOGNISED:
        yield "refusals", f"no refusal phrases for {name}"


def _is_unspaced(letter: str) -> bool:
    """Whether a letter is of a script that puts no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""
    return any(first <= letter <= last for first, last in _UNSPACED)


def _in_other_languages(texts: Sequence[str], language: str) -> str:
    """How many texts are not in the language, as words; "" where these are not more than `MOST_UNREAD`."""
    known = [fits for fits in in_language(texts, language) if fits is not None]
    others = known.count(False)
    verb = "is" if others == 1 else "are"
    return f"{others} of {len(known)} texts {verb}" if others > MOST_UNREAD * len(known) else ""
