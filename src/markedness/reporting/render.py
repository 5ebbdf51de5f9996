"""From templates and data to a page that is one file: styles, scripts and data inside, and nothing else let in."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from markedness import __version__
from markedness.cards import words
from markedness.reporting.figures import look

_TEMPLATES = Path(__file__).parent / "templates"


def shown(value: Any) -> str:
    """A number as a page shows it: three significant digits; "" where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    size = abs(value)
    if size < 0.001:
        return f"{value:.1e}"
    return f"{value:.0f}" if size >= 1000 else f"{value:.3g}"


def page_json(content: Any) -> str:
    """JSON that stays data inside a script element: no character in it can end the element or open another."""
    made = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        made = made.replace(sign, f"\\u{ord(sign):04x}")
    return made


def render(name: str, data: dict[str, str], **context: Any) -> str:
    """A page from its template, its data and what else the template names."""
    from markupsafe import Markup

    style, script, charts = _asset("page.css"), _asset("page.js"), _charts()
    hashes = " ".join(_hash(content) for content in (charts, script))
    # Styles: our one element, and the attributes that Vega sets on what it draws.
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src-elem {_hash(style)}; style-src-attr 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return fragment(
        name, **context, version=__version__, policy=policy, style=style, script=script, charts=charts,
        look_light=Markup(page_json(look("light"))), look_dark=Markup(page_json(look("dark"))),
        data={key: Markup(content) for key, content in data.items()},
    )  # fmt: skip


def fragment(name: str, **context: Any) -> str:
    """What a template makes of its context, escaped: a whole page, or the part of one that a notebook shows."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"shown": shown, "words": words}
    return environment.get_template(name).render(**context)


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _charts() -> str:
    """Vega, Vega-Lite and vega-embed, as ``vega``, ``vegaLite``, ``vegaEmbed`` and ``embedChart`` of the page.

    They are from the package that also draws the SVGs.
    """
    import altair
    import vl_convert

    version = altair.SCHEMA_VERSION.removeprefix("v").rsplit(".", 1)[0]
    names = "window.vega = vega; window.vegaLite = vegaLite; window.embedChart = window.vegaEmbed = vegaEmbed;"
    return "(() => {\n" + vl_convert.javascript_bundle(names, vl_version=version).replace("\r", "") + "\n})();"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode()}'"


def dvc_plots_page() -> str:
    """The page that ``dvc plots show`` fills in: like its own, but with the scripts inside."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>DVC plots</title>\n'
        f"<script>{_charts()}</script>\n"
        "<style>body{font:16px/1.5 sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}</style>\n"
        "</head>\n<body>\n<h1>Plots</h1>\n{plot_divs}\n</body>\n</html>\n"
    )
