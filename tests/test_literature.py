"""The printed tables are reproduced on the studies' own data, cell by cell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from markedness import corpora, literature, params, pipeline
from markedness.audits import STAGES

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def reproduced(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The summary of `make replicate`, with the studies' files found by checksum."""
    root = tmp_path_factory.mktemp("literature")
    shutil.copytree(
        ROOT / "data" / "corpora",
        root / "data" / "corpora",
        ignore=lambda folder, names: [name for name in names if name.endswith(".csv")],
    )
    shutil.copy(ROOT / "literature.yaml", root)
    assert corpora.get(root, source=shared / "corpora", say=lambda _: None) == []
    loaded = params.load(root / "literature.yaml")
    for model in loaded.run:
        for audit in loaded.audits:
            if getattr(loaded.model(model), audit) is not None:
                for stage in STAGES:
                    pipeline.STAGES[stage](loaded, audit, model, say=lambda _: None)
    return literature.summary(literature.agreements(root))


def test_every_printed_word_list_is_reproduced(reproduced: pd.DataFrame) -> None:
    words = reproduced[reproduced["rule"].str.startswith("the same set of words")]
    assert set(words["table"]) == {"3", "A2", "A3", "A4", "A5", "A6"}
    assert (words["share"] == 1).all(), words.to_string()


def test_every_printed_score_is_reproduced(reproduced: pd.DataFrame) -> None:
    scores = reproduced[reproduced["rule"].str.startswith("within")]
    assert len(scores) == 8  # two models: SVM, sentiment, two lexicons
    assert (scores["share"] == 1).all(), scores.to_string()


def test_printed_differentiation_is_reproduced_but_for_its_misprints(reproduced: pd.DataFrame) -> None:
    pd_tables = reproduced[reproduced["rule"].str.startswith("P_d")]
    assert set(pd_tables["table"]) == {"A4", "A6", "A9", "A10"}
    # A4 has 216 numbers of which three are misprinted (data/published/errata.csv); 97 % is the spec's tolerance
    assert (pd_tables["share"] >= 0.97).all(), pd_tables.to_string()


def test_printed_effects_are_reproduced(reproduced: pd.DataFrame) -> None:
    effects = reproduced[reproduced["rule"].str.startswith("d within")]
    assert set(effects["table"]) == {"A5", "A6"}
    assert (effects["share"] == 1).all(), effects.to_string()
