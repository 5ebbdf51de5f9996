"""One look for every chart, and how a chart is saved.

Audits make plain altair charts; colours, fonts and lines are set here alone, so that a figure in a paper, in
the report by day and by night, and in DVC's pages is the same figure.
"""

from __future__ import annotations

import json
import math
import textwrap
from pathlib import Path
from typing import Any, Literal

from markedness.files import atomic

FONT = "Inter, 'Source Sans 3', 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
# Okabe and Ito's colours, told apart with every common colour vision deficiency; the yellow, too pale for
# white paper, is left out. The second list is the same hues for a dark ground.
PALETTES = {
    "light": ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6E6E6E", "#7A4EAB"),
    "dark": ("#5AB4E5", "#F08A4B", "#3CC79A", "#E3A3C6", "#9AD4F5", "#F2BE4E", "#A8A8A8", "#B79BDC"),
}
_INK = {
    "light": {"text": "#1F2933", "quiet": "#5B6770", "grid": "#E6E9EC", "line": "#9AA5AE"},
    "dark": {"text": "#E7ECEF", "quiet": "#A3B0B8", "grid": "#2C363D", "line": "#5F6C75"},
}


def look(mode: Literal["light", "dark"] = "light") -> dict[str, Any]:
    """The Vega-Lite config of all charts, on a transparent ground."""
    ink, palette = _INK[mode], list(PALETTES[mode])
    return {
        "font": FONT,
        "background": "transparent",
        "padding": 6,
        "view": {"stroke": None, "continuousWidth": 420, "continuousHeight": 260, "discreteWidth": {"step": 26}},
        "title": {
            "anchor": "start", "color": ink["text"], "fontSize": 14, "fontWeight": 600, "offset": 12,
            "subtitleColor": ink["quiet"], "subtitleFontSize": 12, "subtitlePadding": 4,
        },
        "axis": {
            "labelColor": ink["quiet"], "titleColor": ink["text"], "labelFontSize": 11, "titleFontSize": 12,
            "titleFontWeight": 500, "gridColor": ink["grid"], "domainColor": ink["line"], "tickColor": ink["line"],
            "labelLimit": 220, "titlePadding": 8,
        },
        "axisBand": {"grid": False},
        "header": {
            "labelColor": ink["text"], "titleColor": ink["text"], "labelFontSize": 12, "labelFontWeight": 600,
            "titleFontSize": 12,
        },
        "legend": {
            "labelColor": ink["quiet"], "titleColor": ink["text"], "labelFontSize": 11, "titleFontSize": 12,
            "titleFontWeight": 500, "symbolType": "circle", "labelLimit": 220,
        },
        "mark": {"color": palette[0]},
        "point": {"filled": True, "size": 55},
        "bar": {"cornerRadiusEnd": 2},
        "line": {"strokeWidth": 2},
        "rule": {"color": ink["line"]},
        "text": {"color": ink["text"], "fontSize": 11},
        "range": {
            "category": palette,
            "heatmap": {"scheme": "viridis"},
            "ramp": {"scheme": "viridis"},
            "diverging": {"scheme": "blueorange"},
        },
    }  # fmt: skip


def specification(chart: Any) -> dict[str, Any]:
    """The Vega-Lite specification of an altair chart, with our look in place of altair's defaults."""
    made = chart.to_dict()
    config = look()
    for key, own in made.get("config", {}).items():
        if key != "view":  # altair's default size of a view; ours stands
            config[key] = {**config[key], **own} if isinstance(own, dict) and key in config else own
    found: dict[str, Any] = _finite({**made, "config": config})
    if title := found.get("title"):
        found["title"] = _wrapped(title if isinstance(title, dict) else {"text": title}, _broad(made))
    return found


def _broad(made: dict[str, Any]) -> bool:
    """Whether a chart has several panels, and so the width of the page."""
    return any(key in made for key in ("facet", "hconcat", "vconcat", "concat", "repeat"))


def _wrapped(title: dict[str, Any], broad: bool) -> dict[str, Any]:
    """A title whose lines fit the chart: Vega cuts off what does not."""
    widths = {"text": 100 if broad else 55, "subtitle": 120 if broad else 68}
    lines = {key: textwrap.wrap(said, widths[key]) for key in widths if isinstance(said := title.get(key), str)}
    return {**title, **{key: parts if len(parts) > 1 else parts[0] for key, parts in lines.items() if parts}}


def _finite(content: Any) -> Any:
    """The specification with null for what is no finite number: JSON has none, and a chart shows nothing there."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def save(chart: Any, stem: Path) -> None:
    """Write an altair chart as Vega-Lite JSON, which the report draws; `svg` and `pdf` draw it for a paper."""
    with atomic(stem.with_suffix(".json")) as part:
        part.write_text(json.dumps(specification(chart), ensure_ascii=False, allow_nan=False), encoding="utf-8")


def svg(made: dict[str, Any]) -> str:
    """A saved specification as SVG."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(made))


def pdf(made: dict[str, Any]) -> bytes:
    """A saved specification as PDF, on white, for a paper."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_pdf({**made, "background": "white"}))
