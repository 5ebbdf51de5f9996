"""Every chart is saved twice, in one look."""

from __future__ import annotations

import json
import re
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
import vl_convert

from markedness.reporting import figures

ROOT = Path(__file__).parents[2]


def chart() -> alt.Chart:
    table = pd.DataFrame({"group": ["Black", "</script>"], "z": [2.5, float("nan")]})
    made: alt.Chart = alt.Chart(table, title="z by group").mark_bar().encode(x="z", y="group")
    return made


def test_save_writes_the_specification_with_our_look_which_is_drawn_as_svg(tmp_path: Path) -> None:
    figures.save(chart(), tmp_path / "figure")
    made = json.loads((tmp_path / "figure.json").read_text(encoding="utf-8"))
    assert made["config"]["range"]["category"] == list(figures.PALETTES["light"])
    assert [path.name for path in tmp_path.iterdir()] == ["figure.json"]
    svg = figures.svg(made)
    assert svg.startswith("<svg")
    assert "</script>" not in svg


def test_save_keeps_what_a_chart_configures_itself(tmp_path: Path) -> None:
    made = figures.specification(chart().configure_axis(labelLimit=50))
    assert made["config"]["axis"]["labelLimit"] == 50
    assert made["config"]["axis"]["titleFontSize"] == figures.look()["axis"]["titleFontSize"]
    assert made["config"]["font"] == figures.FONT


def test_title_that_is_too_long_for_a_chart_is_wrapped() -> None:
    long = "word " * 20
    made = figures.specification(chart().properties(title=alt.TitleParams(long, subtitle="short")))
    assert isinstance(made["title"]["text"], list) and max(map(len, made["title"]["text"])) <= 55
    assert made["title"]["subtitle"] == "short"
    assert figures.specification(chart())["title"]["text"] == "z by group"


@pytest.mark.parametrize("template", ["headline", "differences"])
def test_dvc_plot_draws_no_null_and_no_interval_at_0_for_an_empty_cell(template: str) -> None:
    """DVC hands on an empty cell of a CSV file as "", which Vega reads as 0."""
    spec = json.loads((ROOT / ".dvc" / "plots" / f"{template}.json").read_text(encoding="utf-8"))
    full = {"rev": "workspace", "model": "m", "label": "l", "model_a": "a", "model_b": "b", "audit": "x", "score": "y"}
    full |= {"estimate": "0.5", "difference": "0.5", "p_adjusted": "", "ci_low": "0.4", "ci_high": "0.6", "null": "0.1"}
    spec["title"] = "t"

    def drawn(**cells: str) -> int:
        spec["data"] = {"values": [full | cells]}
        return len(
            re.findall(
                'role="graphics-symbol" aria-roledescription="(?:tick|rule mark)"', vl_convert.vegalite_to_svg(spec)
            )
        )

    marks = drawn()
    assert drawn(ci_low="", ci_high="") == marks - 1
    assert drawn(null="") == marks - (template == "headline")


def test_pdf_of_a_saved_specification_is_a_pdf() -> None:
    assert figures.pdf(figures.specification(chart())).startswith(b"%PDF")
