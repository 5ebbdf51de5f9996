"""Answers from a rule: the controls of every audit, and the model of the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from markedness.leanings import own
from markedness.lm import served_by
from markedness.lm.base import Draw, LanguageModel
from markedness.records import Completion, Prompt

Rule = Callable[[Prompt, np.random.Generator], str | Sequence[float] | Completion]
"""Prompt and generator -> a text, the candidates' ln probabilities, or a whole completion."""


class ScriptedModel(LanguageModel):
    """A model whose answers are a function of the prompt and a generator seeded by the draw.

    Parameters
    ----------
    name
        Stands in the request, so that two scripted models have keys of their own.
    rule
        The answers.
    seed
        Another seed is another draw of the same rule.
    settings
        What else the rule depends on; part of the request, so that a changed setting is asked again instead of
        being answered from the ledger.
    """

    batch_size = 256

    def __init__(self, name: str, rule: Rule, seed: int = 0, settings: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.rule = rule
        self.seed = seed
        self.settings = dict(settings or {})
        self.served_by = served_by.rule(rule)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """The prompt with its group: a rule may look at both."""
        return {
            "model": self.name,
            "seed": self.seed,
            "prompt_id": prompt.prompt_id,
            "group": prompt.group,
            "text": prompt.text,
            "candidates": list(prompt.candidates),
            "columns": dict(prompt.columns),
            **self.settings,
        }

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """Ask the rule, each draw with a generator of its own."""
        return [self._answer(draw) for draw in draws]

    def _answer(self, draw: Draw) -> Completion:
        answer = self.rule(draw.prompt, own(f"{draw.stream}:{self.seed}"))
        if isinstance(answer, Completion):
            return answer
        if isinstance(answer, str):
            return Completion(text=answer, finish_reason="stop", model=self.name)
        log_probs = tuple(float(value) for value in answer)
        return Completion(finish_reason="stop", log_probs=log_probs, estimator="exact", model=self.name)
