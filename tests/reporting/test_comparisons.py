"""Charts over models are made of the tables over models, and of nothing else."""

from __future__ import annotations

import re

import pandas as pd
import vl_convert

from markedness.reporting.comparisons import gap_charts


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
