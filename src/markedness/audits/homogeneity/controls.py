"""Scripted answers: what nothing, and what a homogeneity bias of known size look like."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from markedness.records import Prompt

ANSWERS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")
"""Made-up answers of one word, the first the most likely."""
NAME_SPREAD = 0.2
"""Standard deviation of a name's own log weight for each answer: names differ, as they do with a model."""
DECLINED = 0.01
"""Share of answers that decline, the same for all groups."""


def rule(name: str, strength: float = 1.0) -> Callable[[Prompt, np.random.Generator], str]:
    """The rule of one control.

    Answer i has weight i^-1 for a group that is unmarked on every axis. "planted" raises the weights to the
    power 1 + strength * m, with m the number of axes on which the group is marked: the first answers take
    over and P_d falls, but for the names' own part from 0.84 to 0.56 to 0.29 with strength 1. "none" does so for
    no group.
    """
    slope = {"none": 0.0, "planted": strength}[name]

    def answer(prompt: Prompt, rng: np.random.Generator) -> str:
        if rng.random() < DECLINED:
            return "Sorry, I can't say."
        return str(rng.choice(ANSWERS, p=_shares(prompt, 1 + slope * int(prompt.columns.get("marked") or 0))))

    return answer


def _shares(prompt: Prompt, exponent: float) -> np.ndarray:
    """Shares of the answers for one name in one cue; the name's own part does not look at the group."""
    who = f"{prompt.columns.get('cue')}/{prompt.columns.get('name') or ''}"
    own = np.random.default_rng(int.from_bytes(hashlib.sha256(who.encode()).digest()[:8], "big"))
    weights = np.exp(-exponent * np.log(np.arange(1, len(ANSWERS) + 1)) + NAME_SPREAD * own.normal(size=len(ANSWERS)))
    return weights / weights.sum()
