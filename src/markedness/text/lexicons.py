"""Counting words of given lists, and the sentiment of a text by VADER's list."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from markedness.text.tokens import Rule, tokenize

Counting = Literal["tokens", "substrings"]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def lexicon_percent(
    texts: Sequence[str | None], words: Iterable[str], counting: Counting = "tokens", rule: Rule = "published"
) -> np.ndarray:
    """Percentage of the words of each text that are in a lexicon.

    Parameters
    ----------
    texts
        Cleaned texts.
    words
        The lexicon; doubled entries count once.
    counting
        ``"tokens"``: whole tokens, lexicon and text cut by the same ``rule``. ``"substrings"``: as in the
        published figure: lowercase and without ASCII punctuation, occurrences of each lexicon word anywhere
        in the text ("rich" in "enriched"; an entry with a hyphen is never found), divided by the number of
        pieces between single spaces.
    rule
        Token rule, see `markedness.text.tokens.tokenize`.

    Returns
    -------
    float array, (n_texts,)
        Percent, 0-100 and above 100 only for overlapping substrings; NaN for a text without words.
    """
    lexicon = list(dict.fromkeys(words))
    if counting == "substrings":
        return np.array([_substring_percent(text, lexicon) for text in texts], dtype=float)
    entries = {word for word in tokenize(lexicon, rule) if word}
    percents = np.full(len(texts), np.nan)
    for place, joined in enumerate(tokenize(texts, rule)):
        if joined is not None:
            tokens = joined.split(" ")
            percents[place] = 100.0 * sum(token in entries for token in tokens) / len(tokens)
    return percents


def _substring_percent(text: str | None, lexicon: Sequence[str]) -> float:
    if not text:
        return float("nan")
    plain = text.lower().translate(_NO_PUNCTUATION)
    return 100.0 * sum(plain.count(word) for word in lexicon) / len(plain.split(" "))


def sentiment(texts: Iterable[str | None]) -> np.ndarray:
    """VADER compound score of each whole text, in [-1, 1]; NaN for a missing or empty text.

    The rules are NLTK's, which the paper used (their treatment of "no" and of quotation marks differs from
    the vaderSentiment package's); the word list is the one that package carries.

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
def _analyzer() -> Any:
    from nltk.sentiment.vader import SentimentIntensityAnalyzer, VaderConstants
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer as Carrier

    analyzer = SentimentIntensityAnalyzer.__new__(SentimentIntensityAnalyzer)  # its own list needs a download
    analyzer.lexicon = Carrier().lexicon
    analyzer.constants = VaderConstants()
    return analyzer
