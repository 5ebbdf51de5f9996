"""Charts over models are made of the tables over models, and of nothing else."""

from __future__ import annotations

import math
import re

import pandas as pd
import vl_convert

from markedness.asked import OTHERWISE
from markedness.reporting.comparisons import charts, gap_charts, sentences


def gaps(paradigm: str) -> pd.DataFrame:
    rows = [
        (model, paradigm, group, task, gap, gap - 0.1, gap + 0.1, 0.01, 0.02, 0.03)
        for model, gap in (("a", -0.2), ("b", 0.4))
        for group in ("Arab", "Asian")
        for task in ("lazy", "leader")
    ]
    columns = ["model", "paradigm", "group", "task", "gap", "ci_low", "ci_high", "p", "p_adjusted", "p_adjusted_models"]
    return pd.DataFrame(rows, columns=columns)


def test_gap_charts_of_names_have_a_panel_per_group() -> None:
    (chart,) = gap_charts(gaps("names")).values()
    assert [panel["title"] for panel in chart.to_dict()["concat"]] == ["Arab", "Asian"]


def test_gap_charts_of_dialect_have_a_facet_per_task() -> None:
    made = gap_charts(gaps("dialect"))
    assert list(made) == ["annotation_dialect"]
    assert made["annotation_dialect"].to_dict()["facet"]["field"] == "task"


def test_gap_charts_keep_controls_out_of_the_mean_and_name_every_sign() -> None:
    """b is a control: the mean of a and b would be 0.1."""
    chart = gap_charts(gaps("names"), ["b"])["annotation_names"].to_dict()
    assert "controls left out" in chart["title"]["subtitle"]
    mean = next(layer for layer in chart["concat"][0]["layer"] if layer["mark"]["type"] == "tick")
    assert mean["transform"] == [{"filter": "!datum.control"}]
    svg = vl_convert.vegalite_to_svg(chart)
    assert {"model", "control", "a", "b"} <= set(re.findall(r">(\w+)</text>", svg))  # the legends
    alone = gap_charts(gaps("names"), ["a", "b"])["annotation_names"].to_dict()
    assert "mean" not in alone["title"]["subtitle"]


def test_gap_charts_without_gaps_are_none() -> None:
    assert gap_charts(gaps("names").assign(gap=float("nan"))) == {}


def differing(*rows: tuple[str, str, float, str, str]) -> pd.DataFrame:
    """model_a, model_b, adjusted p, correction, note."""
    names = ["model_a", "model_b", "p_adjusted", "correction", "note"]
    return pd.DataFrame(rows, columns=names).assign(
        audit="personas",
        score="s",
        a=0.5,
        b=0.25,
        difference=0.25,
        ci_low=0.0,
        ci_high=0.5,
        n_clusters=9,
        method="sandwich",
    )


def test_sentences_count_each_family_by_its_own_correction() -> None:
    """One of one pair of models, and one of two pairs with a control, differs."""
    models, control = "Holm over 1 test: all pairs of models", "Holm over 2 tests: all pairs with a scripted control"
    rows = [("a", "b", 0.01, models, ""), ("a", "c", 0.04, control, ""), ("b", "c", 0.5, control, "")]
    way = "(sandwich, 9 clusters)."
    assert sentences(differing(*rows)) == [
        f"personas: 1 of 1 differences of headline scores are significant after {models} {way}",
        f"personas: 1 of 2 differences of headline scores are significant after {control} {way}",
    ]


def test_sentences_name_the_pairs_of_a_note_and_count_those_that_they_leave_out() -> None:
    pairs = [("a", name, 0.5, "Holm", "a caveat") for name in "bcdefg"]
    assert sentences(differing(*pairs))[1] == (
        "personas: a and b, a and c, a and d, a and e, and 2 further pairs: a caveat."
    )
    table = differing(("a", "b", 0.5, "Holm", ""), ("a", "b", math.nan, "Holm", "not measured in one of the two."))
    assert sentences(table.assign(score=["gap.marked", "gap.other"]))[1] == (
        "personas: a and b are not compared in gap.other: not measured in one of the two."
    )
    many = sentences(differing(*(("a", "b", math.nan, "Holm", f"reason {i:02}") for i in range(30))))
    assert len(many) == 20 and many[-1] == "11 further sentences: see the notes of differences.csv."  # 19 + 11 = 30


def test_chart_of_differences_marks_what_was_asked_otherwise() -> None:
    table = differing(("a", "b", 0.01, "Holm", ""), ("a", "c", 0.01, "Holm", f"{OTHERWISE}: x; ask both alike"))
    drawn = charts(table, pd.DataFrame(), pd.DataFrame(), pd.DataFrame())["differences_personas"].to_dict()
    (rows,) = drawn["datasets"].values()
    assert [row["verdict"] for row in rows] == ["differs", "differs, asked otherwise"]
