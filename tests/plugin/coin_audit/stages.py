"""The four stages, the one block of params that they share, and the controls."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from markedness.records import Features, FeatureTables, Prompt, Sampling, Status, Stimuli, Strict, answerless_status
from markedness.results import Evaluation
from markedness.stats.inference import group_difference_score


class Params(Strict):
    samples: int = 20


def prompts(stimuli: Stimuli, params: Params, rng: np.random.Generator) -> Iterator[list[Prompt]]:
    """Three prompts for each of two groups."""
    asked = [(n, group) for n in range(3) for group in ("marked", "unmarked")]
    short = Sampling(max_tokens=2)
    yield [Prompt(f"p{n}", g, completion=f"{n}: {g}?", samples=params.samples, sampling=short) for n, g in asked]


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Yes is 1, no is 0."""
    answer = generations["text"].map({"yes": 1.0, "no": 0.0})
    return generations.assign(answer=answer, status=answerless_status(generations).fillna(Status.OK.value))


def featurize(responses: pd.DataFrame, params: Params, stimuli: Stimuli) -> Features:
    """One row per answer."""
    return Features({"answers": responses[["prompt_id", "group", "sample", "answer"]]})


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """The gap, and the rates as a table."""
    answers = features["answers"]
    gap = group_difference_score(
        "yes_gap.marked", answers["answer"], answers["answer"].notna(), answers["group"], ["marked"], "unmarked", rng,
        cluster="answer", blocks=[answers["prompt_id"]], unit="answers", positive="marked: more yes", comparable=True,
    )  # fmt: skip
    return Evaluation([gap], {"rates": answers.groupby("group")["answer"].mean().reset_index()})


def rule(name: str, strength: float) -> Callable[[Prompt, np.random.Generator], str]:
    """A coin; planted: the marked group wins nine times of ten."""
    chance = {"none": 0.5, "planted": 0.9}[name]
    return lambda prompt, rng: "yes" if rng.random() < (chance if prompt.group == "marked" else 0.5) else "no"
