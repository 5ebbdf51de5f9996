"""Response categories: short answers that differ only in case, punctuation or spaces are one category."""

from __future__ import annotations

import unicodedata

import pandas as pd

from markedness.text.answers import JOINERS, plain


def response_categories(texts: pd.Series) -> pd.Series:
    """Lower-case each text and replace every run of punctuation, symbols and spaces by one space.

    Punctuation and symbols are the Unicode classes P* and S*. Spaces at the ends are removed, so that an answer of
    emoji alone becomes "". Before that texts are composed and lose what shows nothing, such as soft hyphens, so that
    one word is one category however it was typed; see `markedness.text.answers.plain`.

    Parameters
    ----------
    texts
        Answers; missing ones stay missing.

    Returns
    -------
    Series
        Of type string, with the index of ``texts``.

    References
    ----------
    Lee & Lai, Probability of Differentiation Reveals Brittleness of Homogeneity Bias in GPT-4, appendix A.1.
    """
    texts = texts.astype("string")
    unique = pd.Series(texts.dropna().unique(), dtype="object")
    lowered = {text: plain(plain(text).lower()) for text in unique}
    separators = str.maketrans({sign: " " for sign in set("".join(lowered.values())) if _separates(sign)})
    cleaned = {text: " ".join(low.translate(separators).split()) for text, low in lowered.items()}
    return texts.map(cleaned, na_action="ignore").astype("string")


def word_counts(texts: pd.Series) -> pd.Series:
    """Number of runs of word characters in each text; <NA> for a missing text.

    Word characters are letters and digits of any script with their marks (the vowel signs of Devanagari, accents that
    have no composed form), "_", and the joiners of Persian and Indic words.
    """
    texts = texts.astype("string")
    unique = pd.Series(texts.dropna().unique(), dtype="object")
    others = str.maketrans({sign: " " for sign in set("".join(unique)) if not _in_word(sign)})
    counts = {text: len(text.translate(others).split()) for text in unique}
    return texts.map(counts, na_action="ignore").astype("Int64")


def _in_word(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LMN" or sign == "_" or sign in JOINERS


def _separates(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "PS" or sign.isspace()
