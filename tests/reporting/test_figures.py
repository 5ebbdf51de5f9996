"""Every chart is saved twice, in one look."""

from __future__ import annotations

import json
from pathlib import Path

import altair as alt
import pandas as pd

from markedness.reporting import figures


def chart() -> alt.Chart:
    table = pd.DataFrame({"group": ["Black", "</script>"], "z": [2.5, float("nan")]})
    return alt.Chart(table, title="z by group").mark_bar().encode(x="z", y="group")


def test_save_writes_the_specification_with_our_look_and_an_svg(tmp_path: Path) -> None:
    figures.save(chart(), tmp_path / "figure")
    made = json.loads((tmp_path / "figure.json").read_text(encoding="utf-8"))
    assert made["config"]["range"]["category"] == list(figures.PALETTES["light"])
    svg = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "</script>" not in svg


def test_save_keeps_what_a_chart_configures_itself(tmp_path: Path) -> None:
    made = figures.specification(chart().configure_axis(labelLimit=50))
    assert made["config"]["axis"]["labelLimit"] == 50
    assert made["config"]["axis"]["titleFontSize"] == figures.look()["axis"]["titleFontSize"]
    assert made["config"]["font"] == figures.FONT


def test_pdf_of_a_saved_specification_is_a_pdf() -> None:
    assert figures.pdf(figures.specification(chart())).startswith(b"%PDF")
