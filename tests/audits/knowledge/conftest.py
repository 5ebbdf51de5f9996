"""A small study of trades, and a crawl of it with answers made by a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from markedness.audits.knowledge import generate
from markedness.records import Completion, Prompt
from markedness.store import FolderStimuli
from markedness.tables import completion_rows

Answer = Callable[[Prompt], Completion]
Crawl = Callable[..., tuple[pd.DataFrame, list[list[Prompt]]]]


@pytest.fixture(scope="session")
def stimuli() -> FolderStimuli:
    """The stimuli of the repository."""
    return FolderStimuli("knowledge", Path(__file__).parents[3])


@pytest.fixture(scope="session")
def crawl(stimuli: FolderStimuli) -> Crawl:
    """(params, answer, seed) -> the generations of a crawl, and the prompts of each of its rounds."""

    def asked(params: generate.Params, answer: Answer, seed: int = 0) -> tuple[pd.DataFrame, list[list[Prompt]]]:
        rounds: list[list[Prompt]] = []
        rows: list[dict[str, object]] = []
        prompts = generate.prompts(stimuli, params, np.random.default_rng(seed))
        batch = next(prompts, None)
        while batch is not None:
            rounds.append(batch)
            answers = [[answer(prompt)] * prompt.samples for prompt in batch]
            for prompt, completions in zip(batch, answers, strict=True):
                rows += completion_rows(prompt, completions)
            try:
                batch = prompts.send(answers)
            except StopIteration:
                batch = None
        return pd.DataFrame(rows), rounds

    return asked
