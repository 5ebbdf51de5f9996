"""The stages of the audit on its shipped stimuli, without the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from markedness.audits.homogeneity import clean, evaluate, featurize, generate
from markedness.records import Features, FeatureTables, Prompt
from markedness.results import Evaluation
from markedness.store import FolderStimuli

STIMULI = FolderStimuli("homogeneity", Path(__file__).parents[3])


def prompts(**params: Any) -> list[Prompt]:
    return next(generate.prompts(STIMULI, generate.Params(**params), np.random.default_rng(0)))


def generated(rule: Callable[[Prompt, np.random.Generator], str], seed: int = 0, **params: Any) -> pd.DataFrame:
    """Generations of a rule."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "prompt_id": p.prompt_id, "group": p.group, "sample": sample, "prompt": p.text, "text": rule(p, rng),
            "finish_reason": "stop", "error": None, **p.columns,
        }
        for p in prompts(**params)
        for sample in range(p.samples)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def exam_answers(texts: Sequence[str | None], **columns: Any) -> pd.DataFrame:
    """Generations of one name in one cue, whose answers have at most two words."""
    base = {
        "prompt_id": "exam", "group": "Black woman", "sample": range(len(texts)), "prompt": "p", "text": texts,
        "finish_reason": None, "error": None, "cue": "exam", "name": "Tasha", "race": "Black", "gender": "woman",
        "word_limit": 2,
    }  # fmt: skip
    return pd.DataFrame({**base, **columns})


def cleaned(generations: pd.DataFrame, **params: Any) -> pd.DataFrame:
    return clean.clean(generations, clean.Params(**params))


def features(generations: pd.DataFrame, **params: Any) -> Features:
    made = featurize.featurize(cleaned(generations), featurize.Params(**params), STIMULI)
    assert isinstance(made, Features)
    return made


def featurized(generations: pd.DataFrame, **params: Any) -> FeatureTables:
    return features(generations, **params).tables


def evaluated(generations: pd.DataFrame, seed: int = 0, **params: Any) -> Evaluation:
    tables = featurized(generations, **{name: params[name] for name in params if name == "axes"})
    return evaluate.evaluate(tables, evaluate.Params(**params), np.random.default_rng(seed))
