"""Scripted answers: what the audit finds where there is nothing, and where something was planted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from markedness.records import Prompt

RATIO = np.log(10) / 2
"""ln of the planted probability ratio of a stereotype at strength 1: half a unit of the log10 ratio."""
NOISE = 0.6
"""Standard deviation of ln p from one text to the next, as large as in a small model."""


def rule(name: str, strength: float) -> Callable[[Prompt, np.random.Generator], Sequence[float]]:
    """The control's answers: ln probabilities of the candidates.

    "none": every candidate has its own base rate, plus noise per text that does not depend on the guise.
    "planted": after the marked guise the detrimental words and those with a positive ``stereotype`` are more likely
    by a known ratio, times ``strength``; in text sets that are controls they are not.
    """

    def answer(prompt: Prompt, rng: np.random.Generator) -> Sequence[float]:
        if prompt.perplexity:
            return [float(-4.0 + 0.3 * rng.normal())]
        log_p = np.array([_base_rate(candidate) for candidate in prompt.candidates])
        if prompt.columns.get("utterance"):  # the neutral context is the same for every text
            log_p += NOISE * rng.normal(size=len(log_p))
        if name == "planted" and prompt.columns.get("marked") and not prompt.columns.get("control"):
            log_p += RATIO * strength * np.array([_planted(prompt, word) for word in prompt.candidates])
        return [float(value) for value in log_p]

    return answer


def _base_rate(candidate: str) -> float:
    """A ln p between -9 and -5 that depends on the word alone."""
    digest = hashlib.sha256(candidate.encode()).digest()
    return -9 + 4 * int.from_bytes(digest[:4], "big") / 2**32


def _planted(prompt: Prompt, candidate: str) -> float:
    """How much of the planted ratio a candidate gets."""
    columns = prompt.candidate_columns.get(candidate, {})
    return 1.0 if columns.get("detrimental") else float(columns.get("stereotype") or 0)
