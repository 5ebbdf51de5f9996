"""Counting words of given lists, and the sentiment of a text by VADER's list."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from markedness.audits.personas.language.tokens import Rule, tokenize
from markedness.cards import count
from markedness.records import AuditError, Stimuli
from markedness.text.languages import ENGLISH

Counting = Literal["tokens", "substrings"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def read_lexicons(stimuli: Stimuli, file: str = "lexicon.csv") -> dict[str, list[str]]:
    """Name -> words, in the order of the file; {} without one.

    Raises
    ------
    AuditError
        For a row without a lexicon or a word, and for a lexicon in two spellings.
    """
    if not stimuli.has(file):
        return {}
    table = stimuli.table(file, ["lexicon", "word"])
    if len(blank := table[table["lexicon"].eq("") | table["word"].eq("")]):
        raise AuditError(f"{file}: {count(len(blank), 'row')} without a lexicon or a word; fill or remove them")
    names = table["lexicon"].drop_duplicates()
    if (again := names.str.casefold().duplicated()).any():
        raise AuditError(f"{file}: the lexicon {names[again].iloc[0]} has two spellings; keep one")
    return {str(name): rows["word"].tolist() for name, rows in table.groupby("lexicon", sort=False)}


def lexicon_percents(
    texts: Sequence[str | None],
    lexicons: Mapping[str, Iterable[str]],
    counting: Counting = "tokens",
    rule: Rule = "published",
) -> dict[str, np.ndarray]:
    """Percentage of the words of each text that are in each lexicon.

    Parameters
    ----------
    texts
        Cleaned texts, n of them.
    lexicons
        Name -> words; doubled entries count once.
    counting
        ``"tokens"``: whole tokens, lexicon and text cut by the same ``rule``. ``"substrings"``: as in the
        published figure: lowercase and without ASCII punctuation, occurrences of each lexicon word anywhere
        in the text ("rich" in "enriched"; an entry with a hyphen is never found), divided by the number of
        pieces between single spaces.
    rule
        Token rule, see `markedness.audits.personas.language.tokens.tokenize`.

    Returns
    -------
    dict of float arrays, (n,)
        Percent, 0-100, above 100 only for overlapping substrings; NaN for a text without words.
    """
    count = _token_hits if counting == "tokens" else _substring_hits
    hits, lengths = count(texts, [list(dict.fromkeys(words)) for words in lexicons.values()], rule)
    percents = 100.0 * hits / np.where(lengths > 0, lengths, np.nan)[:, None]
    return {name: percents[:, place] for place, name in enumerate(lexicons)}


def _token_hits(texts: Sequence[str | None], lexicons: list[list[str]], rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Words in each lexicon (n, n_lexicons), and words (n,)."""
    found_in: defaultdict[str, set[int]] = defaultdict(set)
    for place, words in enumerate(lexicons):
        for word in tokenize(words, rule):
            if word:
                found_in[word].add(place)
    hits, lengths = np.zeros((len(texts), len(lexicons))), np.zeros(len(texts))
    for row, joined in enumerate(tokenize(texts, rule)):
        tokens = joined.split(" ") if joined is not None else []
        lengths[row] = len(tokens)
        for token in tokens:
            if token in found_in:
                for place in found_in[token]:
                    hits[row, place] += 1
    return hits, lengths


def _substring_hits(texts: Sequence[str | None], lexicons: list[list[str]], _: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Occurrences of each lexicon's words (n, n_lexicons), and pieces between single spaces (n,)."""
    hits, lengths = np.zeros((len(texts), len(lexicons))), np.zeros(len(texts))
    lexicons = [[word.lower() for word in words] for words in lexicons]
    for row, text in enumerate(texts):
        if text:
            plain = text.lower().translate(_NO_PUNCTUATION)
            lengths[row] = len(plain.split(" "))
            hits[row] = [sum(plain.count(word) for word in words) for words in lexicons]
    return hits, lengths


def phrases(lexicons: Mapping[str, Iterable[str]], counting: Counting) -> str:
    """The sentence on entries of several words, which are never found where words are counted; "" without any."""
    found = [str(word) for words in lexicons.values() for word in words if " " in str(word).strip()]
    if counting != "tokens" or not found:
        return ""
    return (
        f"{len(found)} entries of lexicon.csv are of several words and never found ('{found[0]}'): texts are counted "
        "by word; name single words, or set personas.featurize.lexicon_counting to substrings."
    )


KNOWN_SHARE = 0.6
"""Share of a text's words that are in the dictionary of its own language. Published English personas: 0.75 or more;
the same text in German, French, Spanish, Italian or Dutch: at most 0.42 of the words are in the English one."""
FEWEST_LETTERS = 20


def in_language(texts: Iterable[str | None], language: str = ENGLISH) -> list[bool | None]:
    """Whether each text is in a language: at least 60 % of its most common words are in simplemma's dictionary.

    None where that cannot be told: fewer than 20 letters, or no text. Words have three letters or more.
    """
    from simplemma import in_target_language

    try:
        in_target_language("language", lang=language)
    except ValueError:  # no dictionary
        return [None for _ in texts]
    return [
        in_target_language(text, lang=language) >= KNOWN_SHARE
        if text and sum(map(str.isalpha, text[:500])) >= FEWEST_LETTERS
        else None
        for text in texts
    ]


def sentiment(texts: Iterable[str | None]) -> np.ndarray:
    """VADER compound score of each whole text, in [-1, 1]; NaN for a missing or empty text.

    The rules are NLTK's, which the paper used (their treatment of "no" and of quotation marks differs from
    the vaderSentiment package's); the word list, vader.tsv, is the one that package carries.

    References
    ----------
    Hutto & Gilbert (2014); Cheng, Durmus & Jurafsky (2023), section 6.
    """
    analyzer = _analyzer()
    return np.array(
        [analyzer.polarity_scores(text)["compound"] if text and not text.isspace() else np.nan for text in texts],
        dtype=float,
    )


def word_sentiments(words: Iterable[str]) -> dict[str, float]:
    """VADER compound of single words, for those in its list; any other word is neutral, 0."""
    analyzer = _analyzer()
    return {word: analyzer.polarity_scores(word)["compound"] for word in words if word in analyzer.lexicon}


@cache
def rated_words() -> Mapping[str, float]:
    """English words and emoticons, and their valence from -4 to 4: VADER's list."""
    rows = files("markedness.audits.personas.language").joinpath("vader.tsv").read_text(encoding="utf-8").splitlines()
    return {word: float(valence) for word, valence in (row.split("\t") for row in rows if not row.startswith("#"))}


@cache
def _analyzer() -> Any:
    from nltk.sentiment.vader import SentimentIntensityAnalyzer, VaderConstants

    analyzer = SentimentIntensityAnalyzer.__new__(SentimentIntensityAnalyzer)  # its own list needs a download
    analyzer.lexicon = dict(rated_words())
    analyzer.constants = VaderConstants()
    return analyzer
