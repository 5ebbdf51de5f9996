"""From texts and a task to prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from markedness.audits.annotation.design.stimuli import REVERSED, Frames, Task
from markedness.audits.annotation.design.texts import Text, batch_columns
from markedness.axes import Axis
from markedness.records import Message, Prompt, Sampling, Scalar
from markedness.templates import fill

Twins = Literal["any", "together", "apart"]
"""Whether the two texts of a pair are in one request."""
NO_FIRST = "no first"
"""Value of the column ``answer_order`` where the question names no before yes."""


@dataclass
class Requests:
    """Builds prompts; a repeated message gets the next ``first_sample``, hence a new ledger key."""

    frames: Frames
    answers: tuple[str, str]
    """What means yes and no."""
    scored: bool
    """Whether the answers are candidates to be scored; a batch is always answered in text."""
    temperature: float
    max_tokens: int | None
    """Of one answer; None: 16, and 16 more for each text of a batch."""
    seen: Counter[str] = field(default_factory=Counter)

    def single(self, text: Text, task: Task, about: Mapping[str, Scalar]) -> Prompt:
        """One text, one answer."""
        yes, no = self.answers
        message, completion = self._filled("single", about, task=task.description, yes=yes, no=no, text=text.text)
        return Prompt(
            prompt_id=f"{text.columns['vignette']}/{task.task}", group=text.group,
            messages=(Message("user", message),), completion=completion, sampling=self._sampling(16),
            first_sample=self._next_sample(message), candidates=self.answers if self.scored else (),
            columns={**about, **text.columns, "yes": yes},
        )  # fmt: skip

    def batch(self, texts: Sequence[Text], task: Task, about: Mapping[str, Scalar], prompt_id: str) -> Prompt:
        """Numbered texts, one answer for each."""
        listed = "\n".join(f"{index}. {text.text}" for index, text in enumerate(texts, 1))
        message, completion = self._filled("batch", about, task=task.description, n=str(len(texts)), texts=listed)
        return Prompt(
            prompt_id=prompt_id, group="", messages=(Message("user", message),), completion=completion,
            sampling=self._sampling(16 + 16 * len(texts)), first_sample=self._next_sample(message),
            columns={**about, **batch_columns(texts)},
        )  # fmt: skip

    def _filled(self, mode: str, about: Mapping[str, Scalar], **words: str) -> list[str]:
        """Message and completion with the words put in; braces in a text stay as they are."""
        frames = self.frames[mode + (REVERSED if about.get("answer_order") == NO_FIRST else "")]
        filled = [fill(frames[kind], words) for kind in ("message", "completion")]
        return [text.rstrip("\n") for text in filled] if mode == "single" else filled

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(temperature=self.temperature, max_tokens=self.max_tokens or max_tokens)

    def _next_sample(self, message: str) -> int:
        self.seen[message] += 1
        return self.seen[message] - 1


def about_task(paradigm: str, axis: Axis, task: Task, iteration: int, both_orders: bool) -> dict[str, Scalar]:
    """The columns that all texts of one task and iteration share; with both orders the odd ones name no first."""
    order = {"answer_order": NO_FIRST if iteration % 2 else "yes first"} if both_orders else {}
    return {
        "paradigm": paradigm, "task": task.task, "domain": task.domain, "valence": task.valence,
        "iteration": iteration, "reference": axis.unmarked, **order,
    }  # fmt: skip


def batches(texts: Sequence[Text], size: int, twins: Twins, rng: np.random.Generator) -> Iterator[list[Text]]:
    """The texts of an iteration, in which twins follow each other, as batches in random order."""
    pairs = [texts[start : start + 2] for start in range(0, len(texts), 2)]
    if twins == "any":
        parts = [list(texts)]
    elif twins == "together":
        chosen = [pairs[place] for place in rng.permutation(len(pairs))]
        parts = [[text for pair in chosen[start : start + size // 2] for text in pair]
                 for start in range(0, len(chosen), size // 2)]  # fmt: skip
    else:
        first = rng.integers(0, 2, len(pairs))
        parts = [[pair[(one + side) % 2] for pair, one in zip(pairs, first.tolist(), strict=True)] for side in (0, 1)]
    for part in parts:
        order = [part[place] for place in rng.permutation(len(part))]
        yield from (order[start : start + size] for start in range(0, len(order), size))
