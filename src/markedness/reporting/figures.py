"""One look for every chart, and how a chart is saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from markedness.store import atomic


def save(chart: Any, stem: Path) -> None:
    """Write an altair chart as Vega-Lite JSON (for the report) and SVG (for papers)."""
    import vl_convert

    specification = chart.to_dict()
    with atomic(stem.with_suffix(".json")) as part:
        part.write_text(json.dumps(specification), encoding="utf-8")
    svg = vl_convert.vegalite_to_svg(specification)
    with atomic(stem.with_suffix(".svg")) as part:
        part.write_text(svg, encoding="utf-8")
