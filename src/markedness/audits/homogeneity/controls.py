"""Scripted answers without a homogeneity bias, and with one of known size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from markedness.leanings import own
from markedness.records import Prompt

N_ANSWERS = 40
"""Answers that a cue has of its own."""
NAME_SPREAD = 0.2
"""Standard deviation of a name's own log weight of each answer: names differ, as they do with a model."""
DECLINED = 0.01
"""Share of answers that decline, the same for all groups."""


def rule(name: str, strength: float = 1.0, seed: int = 0) -> Callable[[Prompt, np.random.Generator], str]:
    """The answers of one control, which differ between groups only for "planted".

    Answer i (from 1) has weight i^-1 for a group that is unmarked on every axis. "planted" raises the weights to the
    power 1 + strength * m, with m the number of axes on which the group is marked: the first answers become more
    frequent and P_d falls, apart from the names' own spread, from 0.91 to 0.59 to 0.30 with strength 1. The answers of
    a cue and the spread of a name depend on ``seed``, that of the study.
    """
    slope = {"none": 0.0, "planted": strength}[name]

    def answer(prompt: Prompt, rng: np.random.Generator) -> str:
        if rng.random() < DECLINED:
            return "Sorry, I can't say."
        shares = _shares(prompt, 1 + slope * int(prompt.columns.get("marked") or 0), seed)
        return str(rng.choice(answers(str(prompt.columns.get("cue")), seed), p=shares))

    return answer


@cache
def answers(cue: str, seed: int = 0) -> tuple[str, ...]:
    """Made-up answers of one word, the first the most likely."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    drawn = own(seed, "answers", cue).permutation(len(syllables) ** 2)[:N_ANSWERS]
    return tuple(syllables[one // len(syllables)] + syllables[one % len(syllables)] + "l" for one in drawn.tolist())


def _shares(prompt: Prompt, exponent: float, seed: int) -> NDArray[np.float64]:
    """Share of each answer for one name in one cue; the name's own spread does not depend on the group."""
    name = own(seed, prompt.columns.get("cue"), prompt.columns.get("name") or "")
    weights = np.exp(-exponent * np.log(np.arange(1, N_ANSWERS + 1)) + NAME_SPREAD * name.normal(size=N_ANSWERS))
    return np.asarray(weights / weights.sum())
