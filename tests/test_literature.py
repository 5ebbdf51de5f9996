"""The printed tables are reproduced on the studies' own data, cell by cell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from markedness import corpora, literature, params, pipeline
from markedness.audits import STAGES
from markedness.literature import numbers

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
    gray = words["table"].str.endswith("(gray)")
    assert set(words.loc[~gray, "table"]) == {"3", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A15"}
    assert (words.loc[~gray, "share"] == 1).all(), words.to_string()
    # 14 groups differ, see data/published/errata.csv
    assert words.loc[gray, ["cells", "agree"]].sum().tolist() == [56, 42]


def test_every_printed_score_is_reproduced(reproduced: pd.DataFrame) -> None:
    scores = reproduced[reproduced["rule"].str.startswith("within 0") & ~reproduced["table"].eq("section 7")]
    assert {"section 4", "section 6", "figure 1", "appendix D.3"} <= set(scores["table"])
    assert (scores["share"] == 1).all(), scores.to_string()


def test_statements_on_figures_hold(reproduced: pd.DataFrame) -> None:
    said = reproduced[reproduced["rule"].eq("the statement holds")]
    assert set(said["table"]) == {"figure 2", "figure 3", "figure A1", "figure A2", "figure A4", "section 6"}
    assert (said["share"] == 1).all(), said.to_string()


def test_printed_differentiation_is_reproduced_but_for_its_misprints(reproduced: pd.DataFrame) -> None:
    pd_tables = reproduced[reproduced["rule"].str.startswith("P_d")]
    assert set(pd_tables["table"]) == {"A4", "A6", "A9", "A10"}
    # A4 has 216 numbers of which three are misprinted (data/published/errata.csv); 97 % is the spec's tolerance
    assert (pd_tables["share"] >= 0.97).all(), pd_tables.to_string()


def test_printed_effects_are_reproduced(reproduced: pd.DataFrame) -> None:
    effects = reproduced[reproduced["rule"].str.startswith("within four standard errors")].set_index("table")
    # one bound of A5 lacks its minus in print
    assert effects[["cells", "agree"]].T.to_dict("list") == {"A5 (d)": [162, 161], "A6 (d)": [54, 54]}


def test_number_over_rows_and_of_one_row() -> None:
    table = pd.DataFrame({"group": ["a", "a", "b"], "n": [1, 3, 8]})
    assert numbers.number(table, "group=b", "n") == 8
    assert numbers.number(table, "group=a", "mean(n)") == 2
    assert numbers.number(table, "group=a", "sd(n)") == 1  # of the population
    assert numbers.number(table, "group=a", "n") is None  # two rows are meant
    assert numbers.number(table, "group=c", "n") is None
