"""Distinctiveness, purity, the 2-of-3 rule and maximal marginal relevance, on vectors one can draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.cells import number
from typer.testing import CliRunner

from markedness.axes import Axis, Value
from markedness.store import Store
from markedness.text import names
from markedness.text.names import Anchors, check_listed, distinctiveness, maximal_marginal_relevance, purity, score


def test_distinctiveness_and_purity_worked_example() -> None:
    # nearest 0.5, second 0.2; for target 1: 0.2 - 0.5
    cosines = np.array([[0.5, 0.2, -0.1], [0.5, 0.2, -0.1]])
    assert distinctiveness(cosines, np.array([0, 1])) == pytest.approx([0.3, -0.3])
    found = purity(cosines)
    shares = np.exp(np.array([1.0, 0.4, -0.2]))
    shares /= shares.sum()
    assert found["gap"][0] == pytest.approx(0.3) and found["ratio"][0] == pytest.approx(2.5)
    assert found["entropy"][0] == pytest.approx(-(shares * np.log(shares)).sum())
    assert np.isnan(purity(np.array([[0.5, -0.1]]))["ratio"][0])
    assert purity(np.array([[0.3, 0.3, 0.3]]))["entropy"][0] == pytest.approx(np.log(3))


def test_maximal_marginal_relevance_passes_over_near_duplicates() -> None:
    # b is a's twin: 0.85 * 0.9 - 0.15 * 1 = 0.615; c stands apart: 0.85 * 0.8 - 0 = 0.68
    relevance, vectors = np.array([1.0, 0.9, 0.8]), np.array([[1.0, 0], [1, 0], [0, 1]])
    assert maximal_marginal_relevance(relevance, vectors, 3).tolist() == [0, 2, 1]
    assert maximal_marginal_relevance(relevance, vectors, 2, weight=1.0).tolist() == [0, 1]
    assert maximal_marginal_relevance(relevance, vectors, 9).tolist() == [0, 2, 1]
    assert maximal_marginal_relevance(np.array([]), np.empty((0, 2)), 3).tolist() == []


ANCHORS = Anchors(
    ("{NAME}",), {"A": ["anchor A"], "B": ["anchor B"]}, {"A": {"C": {"margin": 0.1, "phrases": ["anchor C"]}}}
)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Texts "x y z" are their own vectors."""
    known = {"anchor A": "1 0 0", "anchor B": "0 1 0", "anchor C": "0 0 1"}
    vectors = np.array([[float(part) for part in known.get(text, text).split()] for text in texts])
    made: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def test_score_chooses_pure_and_distinct_names_that_clear_their_controls() -> None:
    candidates = ["5 0 0", "5 1 0", "5 2 0", "5 3 0", "4 1 4", "1 5 0", "0 5 0", "2 5 0"]
    table = score(pd.DataFrame({"name": candidates, "group": ["A"] * 6 + [None, ""]}), ANCHORS, embed, top=2)
    found = table.set_index("name")
    assert found.loc["5 0 0", "group"] == "A" and found.loc["0 5 0", "group"] == "B"  # the nearest, where none is given
    # "1 5 0" is a candidate for A but nearer to B; "4 1 4" is as near to the control
    assert number(found, "1 5 0", "distinctiveness") < 0 and found.loc["1 5 0", "nearest"] == "B"
    assert not found.loc["4 1 4", "clears_controls"]
    assert not found.loc[["1 5 0", "4 1 4", "5 3 0"], "selected"].any()
    assert found.loc["5 0 0", "rank"] == 1 and found.loc["5 1 0", "selected"] in (True, False)
    assert found["pure"].between(0, 3).all() and {"similarity_A", "similarity_B"} <= set(found)
    assert table.groupby("group")["selected"].sum().le(2).all()


def test_score_asks_names_to_pass_facets_of_their_group() -> None:
    facets = {"A": {"phrases": {"x": ["5 -1 0"], "y": ["5 0 3"], "z": ["0 0 1"]}, "mandatory": "x"}}
    anchors = Anchors(ANCHORS.templates, ANCHORS.groups, {}, facets)
    candidates = ["5 0 1", "5 0 -9", "5 1 0", "1 4 0", "0 5 0"]
    table = score(pd.DataFrame({"name": candidates, "group": ["A"] * 4 + ["B"]}), anchors, embed, top=5)
    found = table.set_index("name")
    # cosines above that to B: "5 0 1" x, y, z; "5 0 -9" x alone; "5 1 0" x, y; "1 4 0" none
    assert found.loc[candidates, "facets"].astype(object).tolist() == [3, 1, 2, 0, pd.NA]
    assert found.loc[candidates, "clears_facets"].tolist() == [True, False, True, False, True]
    assert not found.loc[["5 0 -9", "1 4 0"], "selected"].any()
    with pytest.raises(ValueError, match="mandatory facet"):
        Anchors.read(
            {"templates": ["{NAME}"], "groups": ANCHORS.groups, "facets": {"A": {"phrases": {}, "mandatory": "x"}}}
        )


def test_score_names_an_unknown_group() -> None:
    with pytest.raises(ValueError, match="'D' is no group of the anchors; they have A, B"):
        score(pd.DataFrame({"name": ["1 0 0"], "group": ["D"]}), ANCHORS, embed)


@pytest.mark.parametrize(
    ("content", "message"),
    [({}, "templates and groups"), ({"templates": ["x"], "groups": {"A": ["a"]}}, "lacks {NAME}"),
     ({"templates": ["{NAME}"], "groups": {"A": ["a"], "B": []}}, "at least two groups"),
     # a text was taken for a list of letters, and a misspelt key for none: other names were chosen
     ({"templates": ["{NAME}"], "groups": {"A": "a person", "B": ["b"]}}, "groups.A: Input should be a valid tuple"),
     ({"templates": ["{NAME}"], "groups": {"A": ["a", 1], "B": ["b"]}}, "groups.A.1: Input should be a valid string"),
     ({"templates": ["{NAME}"], "groups": {"A": ["a"], "B": ["b"]}, "control": {}}, "control: Extra inputs are not"),
     ({"templates": ["{NAME}"], "groups": {"A": ["a"], "B": ["b"]}, "controls": {"A": {"c": {"margins": 1}}}},
      "controls.A.c.margin: Field required"),
     ({"templates": ["{NAME}"], "groups": {"A": ["a"], "B": ["b"]}, "controls": {"Z": {}}}, "'Z' is no group")],
)  # fmt: skip
def test_anchors_that_lack_something_say_what(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("{", r"\{").replace("}", r"\}")):
        Anchors.read(content)


def test_packaged_anchors_have_six_to_ten_phrases_per_group() -> None:
    anchors = Anchors.read(Store(Path("/nowhere")).stimuli("annotation").data("name_anchors.yaml"))
    assert len(anchors.templates) == 3
    assert all(6 <= len(phrases) <= 10 for phrases in anchors.groups.values())


def test_names_score_writes_a_table_that_the_audit_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from markedness.audits.annotation.design.stimuli import read_names
    from markedness.cli import app
    from markedness.text import embeddings

    monkeypatch.setattr(embeddings, "embed", lambda texts, model: embed(texts))
    (tmp_path / "anchors.yaml").write_text(
        'templates: ["{NAME}"]\ngroups: {A: ["anchor A"], B: ["anchor B"]}\n', encoding="utf-8"
    )
    listed = ["1 0 0", "9 1 0", "9 2 0", "0 1 0", "1 9 0", "2 9 0"]
    (tmp_path / "candidates.csv").write_text("name\n" + "\n".join(listed), encoding="utf-8")
    arguments = ["names", "score", str(tmp_path / "candidates.csv"), "--anchors", str(tmp_path / "anchors.yaml")]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "names.csv")])
    assert result.exit_code == 0, result.output
    assert "A: 2 of 3" in result.output and "B: 2 of 3" in result.output
    axis = Axis(unmarked="B", values={"A": Value(), "B": Value()})
    found = read_names(Store(tmp_path).stimuli("annotation"), "names.csv", axis)
    assert found == {"A": {"": ["1 0 0", "9 1 0"]}, "B": {"": ["0 1 0", "1 9 0"]}}
    assert names.LAMBDA == 0.85


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("Mei,,woman\n,,man", "candidates.csv row 2: an empty name; fill it in or remove the row"),
        ("Emily,,woman\nMei,,\n Emily ,,woman", "candidates.csv row 3: the name Emily is in row 1 too; keep one"),
        ("Emily,A,woman\nEmily,,", "candidates.csv row 2: the name Emily is in row 1 too; keep one"),
        ("Kim,A,woman\nKim,A,man\nKim,B,man", ""),  # candidates for different places
    ],
)
def test_names_score_refuses_empty_names_and_copies_before_a_model_is_asked(
    rows: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from markedness.cli import app
    from markedness.text import embeddings

    def asked(texts: Sequence[str], model: str) -> Any:
        raise embeddings.EmbeddingError("the model was asked")

    monkeypatch.setattr(embeddings, "embed", asked)
    (tmp_path / "candidates.csv").write_text(f"name,group,gender\n{rows}\n", encoding="utf-8")
    (tmp_path / "anchors.yaml").write_text('templates: ["{NAME}"]\ngroups: {A: [a], B: [b]}\n', encoding="utf-8")
    arguments = ["names", "score", str(tmp_path / "candidates.csv"), "--anchors", str(tmp_path / "anchors.yaml")]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "names.csv")])
    assert result.exit_code != 0
    assert f"names score: {said or 'the model was asked'}" in str(result.exception or result.output)


def test_a_list_of_names_with_a_column_in_other_capitals_is_refused() -> None:
    with pytest.raises(ValueError, match=r"n\.csv: the column 'Gender' is read as 'gender'; write it so"):
        check_listed(pd.DataFrame({"name": ["Ann"], "Gender": ["female"]}), "n.csv")
