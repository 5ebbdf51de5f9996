"""Response categories: short answers that differ only in case, punctuation or spaces are one category."""

from __future__ import annotations

import re
import unicodedata

import pandas as pd

_WORD = re.compile(r"\w+")


def response_categories(texts: pd.Series) -> pd.Series:
    """Lower-case each text and replace every run of punctuation, symbols, format characters and spaces by one space.

    Punctuation and symbols are the Unicode classes P* and S*, format characters are Cf and the variation selectors
    U+FE00 to U+FE0F. Spaces at the ends are removed, so that an answer of emoji alone becomes "".

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
    separators = str.maketrans({sign: " " for sign in set("".join(unique)) if _separates(sign)})
    cleaned = {text: " ".join(text.lower().translate(separators).split()) for text in unique}
    return texts.map(cleaned, na_action="ignore").astype("string")


def word_counts(texts: pd.Series) -> pd.Series:
    """Number of runs of word characters in each text; <NA> for a missing text."""
    texts = texts.astype("string")
    counts = {text: len(_WORD.findall(text)) for text in texts.dropna().unique()}
    return texts.map(counts, na_action="ignore").astype("Int64")


def _separates(sign: str) -> bool:
    category = unicodedata.category(sign)
    return category[0] in "PS" or category == "Cf" or "︀" <= sign <= "️" or sign.isspace()
