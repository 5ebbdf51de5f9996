"""The scripted controls: another seed of the study is another control, and none answers for another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from markedness import audits, generation, params
from markedness.audits.guise.controls import RATIO
from markedness.lm.base import Draw
from markedness.lm.plan import Counts
from markedness.params import Params
from markedness.records import Prompt
from markedness.store import Store

SMALL = {
    "homogeneity": {"generate": {"study": "main", "cues": ["music"], "names_per_group": 2, "samples": 3}},
    "annotation": {"generate": {"names": {"iterations": 1, "pairs": 8}}},
    "guise": {"generate": {"pairs": {"habitual_be": {"rule": "habitual_be", "sample": 2}}}},
}


def study(folder: Path, audit: str, seed: int) -> Params:
    content = {
        "audits": [audit], "run": ["control-none"], "seed": seed, audit: SMALL[audit],
        "models": {"control-none": {"backend": "scripted"}},
    }  # fmt: skip
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return params.load(folder / "params.yaml")


def asked(loaded: Params, audit: str) -> list[Prompt]:
    return next(generation.prompt_rounds(loaded, Store(loaded.root), audit, "control-none"))


def generated(loaded: Params) -> tuple[pd.DataFrame, Counts]:
    counts = generation.generate(loaded, "homogeneity", "control-none", lambda _: None)
    return Store(loaded.root).read_table("generations", "homogeneity", "control-none"), counts


def test_control_of_another_seed_is_asked_anew_and_the_first_one_is_kept(tmp_path: Path) -> None:
    first, asked_first = generated(study(tmp_path, "homogeneity", 1))
    assert asked_first.answered == len(first) > 0 and asked_first.from_ledger == 0
    other, asked_other = generated(study(tmp_path, "homogeneity", 2))
    assert asked_other.answered == len(first) and asked_other.from_ledger == 0
    assert set(first["text"]) != set(other["text"])
    again, asked_again = generated(study(tmp_path, "homogeneity", 1))
    assert asked_again.from_ledger == len(first)
    pd.testing.assert_frame_equal(again, first)


@pytest.mark.parametrize("audit", audits.AUDITS)
def test_same_prompt_has_another_key_in_a_study_of_another_seed(tmp_path: Path, audit: str) -> None:
    prompt = Prompt("p", "White man", completion="Any")
    keys = set()
    for seed in (1, 2):
        content = {"audits": [audit], "run": ["none"], "seed": seed, "models": {"none": {"backend": "scripted"}}}
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        model = generation.load_model(params.load(tmp_path / "params.yaml"), audit, "none")
        keys.add(Draw(prompt, 0, model.request(prompt), model.served_by).key)
    assert len(keys) == 2


@pytest.mark.parametrize("audit", SMALL)
def test_leanings_depend_on_the_seed_of_the_study_alone(tmp_path: Path, audit: str) -> None:
    prompts = asked(study(tmp_path, audit, 1), audit)[:200]
    first, same, other = (
        [audits.spec(audit).rule("none", 1.0, seed)(prompt, np.random.default_rng(5)) for prompt in prompts]
        for seed in (1, 1, 2)
    )
    assert first == same and first != other


def test_planted_ratio_of_guise_is_the_same_with_every_seed(tmp_path: Path) -> None:
    prompts = [one for one in asked(study(tmp_path, "guise", 1), "guise") if one.columns.get("marked")]
    found = []
    for seed in (1, 2):
        none, planted = (audits.spec("guise").rule(name, 1.0, seed) for name in ("none", "planted"))
        answers = [[rule(prompt, np.random.default_rng(5)) for prompt in prompts] for rule in (planted, none)]
        found.append([np.subtract(*pair) for pair in zip(*answers, strict=True)])
    assert max(float(np.abs(values).max()) for values in found[0]) == pytest.approx(RATIO)
    for first, other in zip(*found, strict=True):
        np.testing.assert_allclose(first, other, atol=1e-9)
