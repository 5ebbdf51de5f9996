"""Several studies and wordings of one model in one run: their pooled effects are one table, as table 2 of the paper."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from tests.cells import number

from markedness import params, pipeline, study
from markedness.audits import STAGES

ASKED = {"main": {}, "individual": {"study": "individual_prompt"}, "labels": {"study": "group_labels", "samples": 30}}
CONTENT = {
    "audits": ["homogeneity"],
    "run": list(ASKED),
    "models": {
        name: {"backend": "scripted", "rule": "planted", "family": "scripted", "generate": {"homogeneity": asked}}
        for name, asked in ASKED.items()
    },
    "homogeneity": {
        "generate": {"cues": ["sports", "eating", "music"], "names_per_group": 6, "samples": 8},
        "evaluate": {"n_resamples": 50, "n_permutations": 100},
    },
}


@pytest.mark.slow
def test_studies_of_one_model_are_one_run_and_one_table_of_pooled_effects(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(CONTENT, sort_keys=False), encoding="utf-8")
    loaded = params.load(tmp_path / "params.yaml")
    for model in ASKED:
        for stage in STAGES:
            pipeline.STAGES[stage](loaded, "homogeneity", model, say=lambda _: None)
    study.compare(loaded, say=lambda _: None)
    pooled = pd.read_csv(tmp_path / "results" / "compare" / "pooled_effects.csv")
    assert list(dict.fromkeys(pooled["model"])) == list(ASKED)
    by_race = pooled[pooled["axis"].eq("race")].set_index(["model", "comparison"])
    assert set(by_race.index.get_level_values("comparison")) == {
        "White v. Black",
        "White v. Asian",
        "White v. Hispanic",
    }
    # the control says the first answers more often of marked groups: less variety in every study
    assert (by_race["d"] > 0).all() and by_race["k"].eq(3).all()
    own = pd.read_csv(tmp_path / "results" / "homogeneity" / "individual" / "tables" / "meta_analysis.csv")
    expected = number(own.set_index("comparison"), "White v. Black", "d")
    assert number(by_race, ("individual", "White v. Black"), "d") == pytest.approx(expected)
    # wordings of one family: how much of a difference is of cue, wording, name and sample
    variance = pd.read_csv(tmp_path / "results" / "compare" / "homogeneity_variance.csv")
    assert {"wording", "cue", "name", "sample"} <= set(variance["component"])
    asked = pd.read_parquet(tmp_path / "data" / "generations" / "homogeneity" / "individual.parquet")
    assert set(asked["study"]) == {"individual_prompt"} and asked["prompt"].str.contains("individual").all()
