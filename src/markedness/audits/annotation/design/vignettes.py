"""Vignettes "Hi, I'm {NAME}. {A}. {B}.", and the screen that keeps the tasks out of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from markedness.templates import fill

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


class Vignette(NamedTuple):
    """One text with a place for a name."""

    vignette: str
    """Which phrases in which order: "a3-b12" or "b12-a3"; the same whatever else is drawn."""
    text: str
    """With {NAME} where the name goes."""


class Touch(NamedTuple):
    """A phrase that touches a task."""

    phrase: str
    word: str
    """The word in the phrase."""
    domain: str
    """The domain whose list holds the word."""


def screen(phrases: Sequence[str], words: Mapping[str, Sequence[str]]) -> list[Touch]:
    """Phrases with a word that touches a task.

    Parameters
    ----------
    phrases
        The pools, joined.
    words
        Domain -> patterns; "*" stands for any letters ("educat*", "lik*able"), case does not count. The parts of a
        hyphenated word are looked up too.

    Returns
    -------
    list of Touch
        One per phrase, word and domain; empty when the pools pass.
    """
    patterns = {
        domain: re.compile("|".join(re.escape(word.lower()).replace(r"\*", r"\w*") for word in listed) or r"(?!)")
        for domain, listed in words.items()
    }
    touches = []
    for phrase in phrases:
        for word in _WORD.findall(phrase.lower()):
            parts = {word, *re.split(r"['’-]", word)}
            touches += [
                Touch(phrase, word, domain)
                for domain, pattern in patterns.items()
                if any(pattern.fullmatch(part) for part in parts)
            ]
    return touches


def compose(
    pattern: str, a: Sequence[str], b: Sequence[str], n: int | None, rng: np.random.Generator
) -> list[Vignette]:
    """Distinct vignettes: one phrase of each pool, in random order, without a pair drawn twice.

    Parameters
    ----------
    pattern
        With {NAME}, {A} and {B}.
    a, b
        The pools.
    n
        How many; None for every pair of phrases.
    rng
        Draws the pairs and their orders.

    Raises
    ------
    ValueError
        When the pools hold fewer than ``n`` pairs.
    """
    n_pairs = len(a) * len(b)
    n = n_pairs if n is None else n
    if n > n_pairs:
        raise ValueError(f"{n} distinct vignettes are asked for, but {len(a)} x {len(b)} phrases give {n_pairs}")
    vignettes = []
    for pair in rng.choice(n_pairs, size=n, replace=False):
        i, j = divmod(int(pair), len(b))
        if rng.random() < 0.5:
            name, first, second = f"a{i + 1}-b{j + 1}", a[i], b[j]
        else:
            name, first, second = f"b{j + 1}-a{i + 1}", b[j], a[i]
        vignettes.append(Vignette(name, fill(pattern, {"A": first, "B": second})))
    return vignettes
