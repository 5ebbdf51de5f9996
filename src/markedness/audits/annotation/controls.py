"""Scripted annotators: one blind to the group, one that judges marked groups less favorably.

Both say yes with a chance that depends on the task. A vignette, a name and a text lean the same way in all tasks, so
that their answers depend on one another as a model's do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import numpy as np

from markedness.audits.annotation.design.texts import texts_of_prompt
from markedness.leanings import leaning, own
from markedness.records import Prompt, Scalar

SHARES = (0.75, 0.05, 0.12, 0.08)
"""Of the variance of a judgment: of the vignette, the name, the text, and of the single answer."""
LOG_ODDS = 0.4
"""Standard deviation of the log odds of yes within a task."""
PLANTED_GAP = 0.7
"""Gap on a task that is favorable (-) or unfavorable (+) to the person, for every marked group, at strength 1."""


def rule(name: str, strength: float, seed: int = 0) -> Callable[[Prompt, np.random.Generator], str | Sequence[float]]:
    """The rule "none" or "planted"; ``seed``, of the study, decides how vignettes, names, texts and tasks lean."""
    gap = PLANTED_GAP * strength if name == "planted" else 0.0

    def answer(prompt: Prompt, rng: np.random.Generator) -> str | Sequence[float]:
        columns = prompt.columns
        if "n_texts" in columns:
            odds = [_log_odds({**columns, **text}, gap, seed, rng) for text in texts_of_prompt(columns)]
            return "\n".join(json.dumps({"i": index, "y": int(one > 0)}) for index, one in enumerate(odds, 1))
        log_odds = _log_odds(columns, gap, seed, rng)
        if not prompt.candidates:
            return str(columns["yes"]) if log_odds > 0 else ("0" if columns["yes"] == "1" else "no")
        signs = [1 if candidate == columns["yes"] else -1 for candidate in prompt.candidates]
        return [-math.log1p(math.exp(-sign * log_odds)) for sign in signs]

    return answer


def _log_odds(about: Mapping[str, Scalar], gap: float, seed: int, rng: np.random.Generator) -> float:
    """Of yes: above 0 with a chance that depends on task and group alone, if vignettes and names are not known."""
    task, vignette, name = (about.get(key) for key in ("task", "vignette", "name"))
    side = 0.5 if about["marked"] else -0.5
    chance = 0.4 + 0.2 * own(seed, "task", task).random() - side * gap * int(about["valence"] or 0)
    text = (name, about.get("pair"), about["marked"])
    parts = (
        leaning(seed, "vignette", vignette),
        leaning(seed, "name", name) if name else leaning(seed, "text", *text),
        leaning(seed, "text", vignette, *text), rng.normal(),
    )  # fmt: skip
    margin = NormalDist().inv_cdf(min(max(chance, 0.001), 0.999)) + float(np.dot(np.sqrt(SHARES), parts))
    return LOG_ODDS * margin
