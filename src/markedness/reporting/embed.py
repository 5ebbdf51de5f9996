"""Tables, figures and graphs as data of a page.

What a model or a server said may be of any length: a page has a bounded part of it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from markedness.cards import Card, Measure, count, words
from markedness.files import StoreError
from markedness.reporting.render import page_json
from markedness.reporting.results import Result

LONGEST_PROMPT, LONGEST_CELL, LONGEST_NAME = 600, 1000, 80
"""Letters of a prompt, a table's cell, a name or word."""
MOST_NAMES, MOST_WORDS, MOST_LINKS, MOST_NOTES = 10, 500, 2000, 60
"""Reported names, highlighted words of a group, links of a graph and notes."""
LARGEST_PART = 1_000_000
"""Bytes of one table or figure; the CSV file or the specification has the rest."""


def figure(
    key: str, stem: str, spec: Mapping[str, Any], file: str, card: Card | None, data: dict[str, str]
) -> dict[str, Any]:
    """A figure with its data; of one that is too large for a page, ``file`` alone: its specification."""
    content = page_json(spec)
    drawn = len(content) <= LARGEST_PART
    if drawn:
        data[key] = content
    title = spec.get("title")
    title = title.get("text") if isinstance(title, Mapping) else title
    title = " ".join(map(str, title)) if isinstance(title, list) else str(title or words(stem))
    encoding = spec.get("encoding") or {}
    broad = any(k in spec for k in ("facet", "hconcat", "vconcat", "concat", "repeat"))
    broad = broad or any(k in encoding for k in ("row", "column", "facet"))
    wide = isinstance(spec.get("width"), int | float) and spec["width"] > 460
    broad = (broad or wide) and drawn
    return {
        "id": key, "title": title, "stem": stem, "file": file, "broad": broad, "measure": measure_of(card, stem),
        "drawn": drawn, "exported": card is not None,
    }  # fmt: skip


def measure_of(card: Card | None, stem: str) -> Measure | None:
    """How a table or figure was measured, as its card says."""
    return card.measures.get(stem) if card else None


def embed(
    key: str, title: str, stem: str, table: pd.DataFrame, limit: int, href: str, measure: Measure | None,
    data: dict[str, str],
) -> dict[str, Any]:  # fmt: skip
    """A table as page data: its first rows, as many as fit, six significant digits, missing values null."""
    rows = []
    room = LARGEST_PART
    for row in table.head(limit).itertuples(index=False, name=None):
        cells = [_cell(value) for value in row]
        room -= len(json.dumps(cells))
        if room < 0:
            break
        rows.append(cells)
    columns = [shortened(words(str(column), capital=False), LONGEST_NAME) for column in table.columns]
    data[key] = page_json({"caption": title, "columns": columns, "rows": rows})
    return {
        "id": key, "title": title, "total": len(table), "rows": len(rows), "csv": f"{href}/{stem}.csv",
        "file": f"{stem}.csv", "measure": measure, "open": False,
    }  # fmt: skip


def _cell(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else (None if value != value else str(value))
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else shortened(value, LONGEST_CELL)


def graph(audit: str, result: Result, data: dict[str, str]) -> dict[str, Any] | None:
    """tables/graph.json (nodes, links) as an explorable graph."""
    path = result.folder / "tables" / "graph.json"
    if not path.exists():
        return None
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
        listed = [link for link in made.get("links", made.get("edges", [])) if isinstance(link, dict)]
        links = listed[:MOST_LINKS]
        degree: dict[str, int] = {}
        for link in links:
            for end in ("source", "target"):
                degree[_id(link[end])] = degree.get(_id(link[end]), 0) + 1
        sources = {_id(link["source"]) for link in links}
        nodes = [
            {
                "id": _id(node["id"]),
                "label": shortened(node.get("label", node["id"]), LONGEST_NAME),
                "centre": str(node.get("kind", "")) == "subject" if "kind" in node else _id(node["id"]) in sources,
            }
            for node in made["nodes"]
            if _id(node["id"]) in degree
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: expected nodes with an id and links with source and target") from error
    known = {node["id"] for node in nodes}
    drawn = [
        {
            "source": _id(link["source"]),
            "target": _id(link["target"]),
            "label": shortened(link.get("predicate", link.get("label", "")), LONGEST_NAME),
            "kind": shortened(link.get("class", "all"), LONGEST_NAME),
        }
        for link in links
        if _id(link["source"]) in known and _id(link["target"]) in known
    ]
    if not drawn:
        return None
    kinds = list(dict.fromkeys(link["kind"] for link in drawn))
    key = f"graph-{audit}"
    data[key] = page_json({"nodes": nodes, "links": drawn, "kinds": kinds})
    cut = f" (the first of {len(listed)})" if len(listed) > len(links) else ""
    return {"id": key, "total": f"{count(len(nodes), 'node')}, {count(len(drawn), 'link')}{cut}"}


def _id(name: Any) -> str:
    """A node's id of bounded length: no two alike."""
    text = str(name)
    return (
        text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    )


def shortened(text: Any, limit: int) -> str:
    """A text of at most so many letters and the sign that some are left out."""
    whole = "" if text is None or text is pd.NA else str(text)
    return whole if len(whole) <= limit else whole[:limit] + " […]"
