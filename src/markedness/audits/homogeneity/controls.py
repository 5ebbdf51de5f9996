"""Scripted answers without a homogeneity bias, and with one of known size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from markedness.records import Prompt

ANSWERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")
"""Made-up answers of one word, the first the most likely."""
NAME_SPREAD = 0.2
"""Standard deviation of a name's own log weight of each answer: names differ, as they do with a model."""
DECLINED = 0.01
"""Share of answers that decline, the same for all groups."""


def rule(name: str, strength: float = 1.0) -> Callable[[Prompt, np.random.Generator], str]:
    """The answers of one control, which differ between groups only for "planted".

    Answer i (from 1) has weight i^-1 for a group that is unmarked on every axis. "planted" raises the weights to the
    power 1 + strength * m, with m the number of axes on which the group is marked: the first answers become more
    frequent and P_d falls, apart from the names' own spread, from 0.84 to 0.56 to 0.29 with strength 1.
    """
    slope = {"none": 0.0, "planted": strength}[name]

    def answer(prompt: Prompt, rng: np.random.Generator) -> str:
        if rng.random() < DECLINED:
            return "Sorry, I can't say."
        return str(rng.choice(ANSWERS, p=_shares(prompt, 1 + slope * int(prompt.columns.get("marked") or 0))))

    return answer


def _shares(prompt: Prompt, exponent: float) -> NDArray[np.float64]:
    """Share of each answer for one name in one cue; the name's own spread does not depend on the group."""
    who = f"{prompt.columns.get('cue')}/{prompt.columns.get('name') or ''}"
    own = np.random.default_rng(int.from_bytes(hashlib.sha256(who.encode()).digest()[:8], "big"))
    weights = np.exp(-exponent * np.log(np.arange(1, len(ANSWERS) + 1)) + NAME_SPREAD * own.normal(size=len(ANSWERS)))
    return np.asarray(weights / weights.sum())
