"""Small tables as the stages of the personas audit hand them on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from markedness.audits.personas import AXES, clean, controls, featurize, generate
from markedness.audits.personas.language.classifiers import SvmParams
from markedness.axes import group_name
from markedness.records import Features, Stimuli
from markedness.store import FolderStimuli, Store

ROOT = Path(__file__).parents[3]
STIMULI = FolderStimuli("personas", ROOT)
PLAIN = featurize.Params(embeddings=None, svm=SvmParams(enabled=False))


@pytest.fixture(scope="session")
def stimuli() -> FolderStimuli:
    """The stimuli that come with the package."""
    return Store(ROOT).stimuli("personas")


def generations(rows: Iterable[tuple[str | None, str | None, str | None]], prompt: str = "p") -> pd.DataFrame:
    """A generations table from (race, gender, text)."""
    table = pd.DataFrame(list(rows), columns=["race", "gender", "text"], dtype=object)
    names = [group_name({"race": row.race, "gender": row.gender}, AXES) for row in table.itertuples()]
    return table.assign(
        group=names, prompt_id=prompt, prompt="Describe.", kind="persona", sample=range(len(table)),
        finish_reason="stop", error=None,
    )  # fmt: skip


def written(name: str, samples: int = 4, seed: int = 0, strength: float = 1.0) -> pd.DataFrame:
    """Generations of a control for all groups of the default axes, two prompts."""
    author = controls.rule(name, strength)
    rng = np.random.default_rng(seed)
    data = Store(ROOT).stimuli("personas")
    params = generate.Params(prompts=("imagine_yourself", "first_person"), samples=samples)
    rows = []
    for prompt in next(generate.prompts(data, params, rng)):
        for sample in range(samples):
            row = {"prompt_id": prompt.prompt_id, "group": prompt.group, "sample": sample, "prompt": prompt.text}
            rows.append(row | dict(prompt.columns) | {"text": author(prompt, rng)})
    return pd.DataFrame(rows).assign(finish_reason="stop", error=None)


def tabled(table: pd.DataFrame, params: featurize.Params = PLAIN, stimuli: Stimuli | None = None) -> Features:
    """What featurize makes of a generations table."""
    made = featurize.featurize(clean.clean(table, clean.Params()), params, stimuli or STIMULI)
    assert isinstance(made, Features)
    return made


def features(table: pd.DataFrame, params: featurize.Params = PLAIN, stimuli: Stimuli | None = None) -> pd.DataFrame:
    """Its table of texts."""
    return tabled(table, params, stimuli).tables["texts"]
