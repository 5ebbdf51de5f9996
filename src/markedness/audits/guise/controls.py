"""Scripted answers: what the audit finds where there is nothing, and where something was planted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from markedness.leanings import leaning
from markedness.records import Prompt

RATIO = np.log(10) / 2
"""ln of the planted probability ratio of a stereotype at strength 1: half a unit of the log10 ratio."""
OF_PAIR, REST = 0.18, 0.19
"""Standard deviations, in nats, by which the marked guise moves an attribute in one pair of texts, and in one text
alone; as in a small model. What it moved in all texts would be an effect of the guise, whatever the attribute means."""
LEVEL, NOISE = 2.0, 0.5
"""Standard deviations of ln p between attributes, and between pairs of texts."""


def rule(name: str, strength: float, seed: int = 0) -> Callable[[Prompt, np.random.Generator], Sequence[float]]:
    """The control's answers: ln probabilities of the candidates.

    "none": every candidate has its own base rate and its own for each pair of texts. The marked guise moves it in
    single pairs of texts alone, the same in all prompts; pairs of words are too few for that. "planted": also, after
    the marked guise the detrimental words and those with a positive ``stereotype`` are more likely by a known ratio,
    times ``strength``; in text sets that are controls they are not. What candidates and pairs of texts have of their
    own depends on ``seed``, that of the study.
    """

    def answer(prompt: Prompt, rng: np.random.Generator) -> Sequence[float]:
        if prompt.perplexity:
            return [float(-4.0 + 0.3 * rng.normal())]
        log_p = np.array([-9 + LEVEL * leaning(seed, "level", candidate) for candidate in prompt.candidates])
        if prompt.columns.get("utterance"):  # the neutral context is the same for every text
            log_p += np.array([_of_text(prompt, candidate, seed) for candidate in prompt.candidates])
            log_p += REST / np.sqrt(2) * rng.normal(size=len(log_p))
        if name == "planted" and prompt.columns.get("marked") and not prompt.columns.get("control"):
            log_p += RATIO * strength * np.array([_planted(prompt, word) for word in prompt.candidates])
        return [float(value) for value in log_p]

    return answer


def _of_text(prompt: Prompt, candidate: str, seed: int) -> float:
    """What the text adds to ln p of a candidate, whatever the candidate means."""
    pair = (str(prompt.columns.get("pairs")), str(prompt.columns.get("pair")), candidate)
    moved = OF_PAIR * leaning(seed, "pair", *pair) if prompt.columns.get("marked") and prompt.cut else 0.0
    return NOISE * leaning(seed, "noise", *pair) + moved


def _planted(prompt: Prompt, candidate: str) -> float:
    """How much of the planted ratio a candidate gets."""
    columns = prompt.candidate_columns.get(candidate, {})
    return 1.0 if columns.get("detrimental") else float(columns.get("stereotype") or 0)
