"""The annotation audit from stimuli to features, with annotators whose gaps are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from markedness.audits.annotation import clean, evaluate, featurize, generate
from markedness.audits.annotation.design.texts import texts_of_prompt
from markedness.records import Completion, FeatureTables, Prompt, Stimuli
from markedness.store import Store
from markedness.tables import completion_rows

Answer = Callable[[Prompt, np.random.Generator], Completion]
STIMULI = Store(Path("/nowhere")).stimuli("annotation")  # the packaged ones
PARAMS = evaluate.Params()
TWO_TASKS = generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=8)
DIALECT = generate.Dialect(tasks=("angry",), iterations=4)


def prompts(params: generate.Params, seed: int = 1, stimuli: Stimuli = STIMULI) -> list[Prompt]:
    (found,) = list(generate.prompts(stimuli, params, np.random.default_rng(seed)))
    return found


def ask(params: generate.Params, answer: Answer, seed: int = 0) -> pd.DataFrame:
    """The generations of a study, as the pipeline writes them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        [row for prompt in prompts(params, seed) for row in completion_rows(prompt, [answer(prompt, rng)])]
    )


def tabled(generations: pd.DataFrame) -> FeatureTables:
    responses = clean.clean(generations, clean.Params())
    return featurize.featurize(responses, featurize.Params(), STIMULI).tables


def units(generations: pd.DataFrame) -> pd.DataFrame:
    return tabled(generations)["pairs"]


def annotator(gaps: dict[tuple[str, str], float], base: float = 0.5) -> Answer:
    """Says yes with probability ``base``, shifted by gaps[group, task] where there is one."""

    def answer(prompt: Prompt, rng: np.random.Generator) -> Completion:
        items = texts_of_prompt(prompt.columns)
        ps = [base + gaps.get((str(item["group"]), str(prompt.columns["task"])), 0.0) for item in items]
        lines = [f'{{"i": {i}, "y": {int(rng.random() < p)}}}' for i, p in enumerate(ps, 1)]
        return Completion(text="\n".join(lines), finish_reason="stop")

    return answer


class Replaced:
    """The packaged stimuli with one file in other words."""

    language = "en"

    def __init__(self, name: str, content: object) -> None:
        self.name, self.content = name, content

    def table(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        if name != self.name:
            return STIMULI.table(name, columns)
        assert isinstance(self.content, pd.DataFrame)
        return self.content

    def has(self, name: str) -> bool:
        return name == self.name or STIMULI.has(name)

    def data(self, name: str) -> object:
        return self.content if name == self.name else STIMULI.data(name)

    def text(self, name: str) -> str:
        return STIMULI.text(name)


def stored(**columns: Sequence[object]) -> pd.DataFrame:
    """Stored judgments as read_corpus and complete_corpus hand them on."""
    n = max(len(values) for values in columns.values())
    blank = {"prompt_id": "", "sample": range(n), "prompt": "", "text": "", "finish_reason": None, "error": None}
    rows = pd.DataFrame(blank | {"task": "hireable"} | columns, index=range(n))
    return generate.complete_corpus(rows, STIMULI, generate.Params())
