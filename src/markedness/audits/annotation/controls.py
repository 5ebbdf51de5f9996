"""Scripted annotators: one blind to the group, one that judges marked groups less favorably.

Both say yes with a probability that depends on task and vignette, so that their answers vary as a model's do.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from markedness.audits.annotation.design.texts import texts_of_prompt
from markedness.records import Prompt, Scalar

PLANTED_GAP = 0.7
"""Gap on a task that is favorable (-) or unfavorable (+) to the person, for every marked group, at strength 1."""


def rule(name: str, strength: float) -> Callable[[Prompt, np.random.Generator], str | Sequence[float]]:
    """The rule "none" or "planted"."""
    gap = PLANTED_GAP * strength if name == "planted" else 0.0

    def answer(prompt: Prompt, rng: np.random.Generator) -> str | Sequence[float]:
        columns = prompt.columns
        if "n_texts" in columns:
            ys = [_says_yes({**columns, **text}, gap, rng) for text in texts_of_prompt(columns)]
            return "\n".join(json.dumps({"i": index, "y": int(y)}) for index, y in enumerate(ys, 1))
        yes = _says_yes(columns, gap, rng)
        if not prompt.candidates:
            return str(columns["yes"]) if yes else ("0" if columns["yes"] == "1" else "no")
        p = rng.uniform(0.55, 0.95)  # of the answer that is given
        return [math.log(p if (candidate == columns["yes"]) == yes else 1 - p) for candidate in prompt.candidates]

    return answer


def _says_yes(about: Mapping[str, Scalar], gap: float, rng: np.random.Generator) -> bool:
    digest = hashlib.sha256(f"{about['task']}/{about['vignette']}".encode()).digest()
    p = 0.35 + 0.3 * digest[0] / 255
    side = 0.5 if about["marked"] else -0.5
    return bool(rng.random() < p - side * gap * int(about["valence"] or 0))
