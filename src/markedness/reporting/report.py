"""The stereotype card of a model, and the index over all models: pages that open from disk.

Each page is one file: styles, scripts and data are inside it, and its content security policy lets nothing
else in. What a model said is data: escaped by the template, or written by the script as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from markedness import __version__
from markedness.records import Card, Measure
from markedness.reporting.figures import look
from markedness.reporting.results import Result, Score, git, headline_keys, label, read, statuses, unequal, words
from markedness.store import Store, StoreError

_TEMPLATES = Path(__file__).parent / "templates"
_SMALL = 30
"""Below this many units an estimate is called small."""


@dataclass(frozen=True)
class Pages:
    """What the pages are made of."""

    store: Store
    audits: Sequence[str]
    models: Mapping[str, Any]
    """Name -> model config, the models to run in order."""
    card: Callable[[str], Card]
    table_rows: int = 500
    """Rows of a table on a page; the CSV has all."""
    examples: int = 4
    """Example texts per group."""
    confidence_level: float = 0.95
    results: dict[tuple[str, str], Result] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for audit in self.audits:
            for model in self.models:
                if found := read(self.store, audit, model, self.card(audit)):
                    self.results[audit, model] = found

    @property
    def controls(self) -> list[str]:
        """The scripted models, shown beside every other."""
        return [name for name, config in self.models.items() if config.backend == "scripted"]


def write(pages: Pages) -> list[Path]:
    """Write reports/index.html, reports/<model>.html and the page that DVC draws its plots on."""
    folder = pages.store.reports()
    made = {folder / "index.html": index_page(pages)}
    made |= {folder / f"{model}.html": model_page(pages, model) for model in pages.models}
    made[folder / "assets" / "dvc-plots.html"] = dvc_plots_page()
    pages.store.clear(folder)
    for path, content in made.items():
        pages.store.write_bytes(path, content.encode("utf-8"))
    return list(made)


# ---------------------------------------------------------------- one model


def model_page(pages: Pages, model: str) -> str:
    """reports/<model>.html."""
    data: dict[str, str] = {}
    controls = [name for name in pages.controls if name != model]
    missing: list[str] = []
    sections = []
    for audit in pages.audits:
        section = _section(pages, audit, model, controls, data)
        missing += [f"{section['card'].title}: {sentence}" for sentence in section["missing"]]
        sections.append(section)
    return _render(
        "card.html.j2", data=data, model=model, sections=sections, controls=controls, missing=missing,
        lead=_lead(pages, model), facts=_facts(pages, model), commit=_commit(pages),
    )  # fmt: skip


def _section(pages: Pages, audit: str, model: str, controls: list[str], data: dict[str, str]) -> dict[str, Any]:
    card, result = pages.card(audit), pages.results.get((audit, model))
    responses = _responses(pages.store, audit, model)
    section: dict[str, Any] = {
        "audit": audit, "card": card, "result": result, "headline": [], "words": [], "figures": [], "tables": [],
        "graph": None, "examples": None, "downloads": [], "warnings": [], "missing": [], "why": "",
        "measures": list({id(m): m for m in card.measures.values()}.values()),
    }  # fmt: skip
    if result is None:
        section["why"] = f"not run yet: markedness run {audit} --model {model}"
        section["missing"] = [section["why"]]
        return section
    if not result.metrics:
        section["why"] = result.notes[0] if result.notes else "nothing could be measured"
    counts = statuses(responses)
    section["missing"] = [*_left_out(counts), *([section["why"]] if section["why"] else [])]
    section["warnings"] = [*(n for n in result.notes if n != section["why"]), *unequal(counts)]
    section["warnings"] += _small(pages.store, audit, model)
    for score in result.headline() if result.metrics else ():
        beside = [_score(pages, audit, name, score.key) for name in controls]
        strip = _strip(score, dict(zip(controls, beside, strict=True)))
        section["headline"].append(
            {"score": score, "strip": strip, "controls": [s.estimate if s else None for s in beside]}
        )
    href = f"../results/{audit}/{model}"
    marked = result.table("marked_words")
    section["words"] = list(_word_rows(marked))
    for stem, spec in result.figures.items():
        key = f"figure-{audit}-{stem}"
        data[key] = _json(spec)
        section["figures"].append(_figure(key, stem, spec, f"{href}/figures/{stem}.svg", card))
    for stem in result.tables:
        section["tables"].append(_table(pages, f"table-{audit}-{stem}", result, stem, f"{href}/tables", data))
    section["downloads"] = [(path.name, f"{href}/tables/{path.name}") for path in result.downloads]
    section["downloads"].append(("metrics.json", f"{href}/metrics.json"))
    section["graph"] = _graph(audit, result, data)
    section["examples"] = _examples(pages, audit, responses, marked, data)
    return section


def _lead(pages: Pages, model: str) -> str:
    """One sentence: who this is."""
    config = pages.models[model]
    if config.backend == "scripted":
        known = {
            "none": "as varied as one, but blind to the group. It shows what nothing looks like.",
            "planted": "it follows a known stereotype. It shows what something looks like.",
        }
        return f"A control, not a language model: {known.get(config.rule, 'its answers follow a rule.')}"
    if config.backend == "corpus":
        return "Texts that existed already, measured like a model's answers."
    name = getattr(config, "model", None) or Path(config.path).name
    small = " A small base model: it shows the method at work, not the state of the art."
    return f"{name}, asked {_backend(config)}.{small if getattr(config, 'gguf_package', None) else ''}"


def _backend(config: Any) -> str:
    kinds = {
        "transformers": "on this machine",
        "openai": "over an OpenAI-compatible server",
        "scripted": "as a rule",
        "corpus": "as texts",
    }
    chat = getattr(config, "chat", None)
    kind = kinds.get(config.backend, config.backend)
    return kind if chat is None else f"{kind}, {'as a chat' if chat else 'by continuing a text'}"


def _facts(pages: Pages, model: str) -> list[tuple[str, str]]:
    """What was asked of which model when."""
    config = pages.models[model]
    facts = [("Backend", config.backend)]
    revision = getattr(config, "revision", None) or getattr(config, "gguf_package", None)
    if revision:
        facts.append(("Weights", str(revision)))
    served, times = set(), []
    asked = []
    for audit in pages.audits:
        path = pages.store.table_path("generations", audit, model)
        if not path.exists():
            continue
        rows = pd.read_parquet(path)
        if "served_model" in rows:
            served |= {str(name) for name in rows["served_model"].dropna().unique()}
        times += _times(pages.store, audit, model)
        answered = int((rows["error"].isna()).sum()) if "error" in rows else len(rows)
        asked.append(
            f"{audit}: {answered:,} answers, {rows['group'].nunique()} groups, {rows['prompt_id'].nunique()} prompts"
        )
    if served - {model}:
        facts.append(("Reported name", ", ".join(sorted(served))))
    if times:
        first, last = min(times), max(times)
        facts.append(
            ("When", f"{first:%d %B %Y}" if first.date() == last.date() else f"{first:%d %b %Y} to {last:%d %b %Y}")
        )
    facts += [("Asked", sentence) for sentence in asked] or [("Asked", "nothing yet")]
    return facts


def _times(store: Store, audit: str, model: str) -> list[datetime]:
    """First and last answer in the ledger; where it has no times, when the generations were written."""
    path = store.ledger_path(audit, model)
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = []
    for line in (lines[0], lines[-1]) if lines else ():
        try:
            row = json.loads(line)
            stamp = row.get("time") or row.get("at") or row.get("answer", {}).get("time")
            found.append(
                datetime.fromisoformat(stamp) if isinstance(stamp, str) else datetime.fromtimestamp(stamp, UTC)
            )
        except (ValueError, TypeError, AttributeError, OverflowError):
            continue
    found = found or [datetime.fromtimestamp(store.table_path("generations", audit, model).stat().st_mtime, UTC)]
    return [time if time.tzinfo else time.replace(tzinfo=UTC) for time in found]


def _left_out(counts: pd.DataFrame) -> list[str]:
    """Rows that are not ok, by status."""
    if counts.empty:
        return []
    total = int(counts.to_numpy().sum())
    other = {status: int(counts[status].sum()) for status in counts if status != "ok"}
    if not any(other.values()):
        return []
    listed = ", ".join(f"{n:,} {status}" for status, n in other.items() if n)
    return [f"{sum(other.values()):,} of {total:,} rows are not ok ({listed})."]


def _small(store: Store, audit: str, model: str) -> list[str]:
    """A sentence when estimates rest on few units."""
    path = store.table_path("estimates", audit, model)
    if not path.exists():
        return []
    estimates = pd.read_parquet(path)
    n = pd.to_numeric(estimates["n"], errors="coerce")
    few = estimates[(n < _SMALL) & estimates["estimate"].notna()]
    if few.empty:
        return []
    groups = [str(g) for g in few["group"].dropna().unique() if str(g)]
    named = f": {', '.join(groups[:5])}{' and others' if len(groups) > 5 else ''}" if groups else ""
    return [
        f"{len(few)} of {len(estimates)} estimates rest on fewer than {_SMALL} units (the fewest: {int(n.min())})"
        f"{named}. Read their intervals, not their points."
    ]


def _score(pages: Pages, audit: str, model: str, key: str) -> Score | None:
    result = pages.results.get((audit, model))
    return result.score(key) if result else None


def _strip(score: Score, others: Mapping[str, Score | None]) -> dict[str, Any] | None:
    """Places (0 to 200) of the marks of one score: interval, null, controls."""
    controls = [(name, s.estimate) for name, s in others.items() if s and not s.missing]
    values = [
        score.estimate,
        score.low,
        score.high,
        score.null,
        score.null_low,
        score.null_high,
        *(v for _, v in controls),
    ]
    values = [v for v in values if math.isfinite(v)]
    if score.missing or not values:
        return None
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    place = lambda v: round(10 + 180 * (v - low) / span, 1)  # noqa: E731
    text = f"{score.label}: {shown(score.estimate)}"
    if math.isfinite(score.low) and math.isfinite(score.high):
        text += f", interval {shown(score.low)} to {shown(score.high)}"
    if math.isfinite(score.null):
        text += f"; null {shown(score.null)}"
    text += "".join(f"; {name} {shown(v)}" for name, v in controls)
    band = math.isfinite(score.null_low) and math.isfinite(score.null_high)
    return {
        "text": text,
        "dot": place(score.estimate),
        "interval": (place(score.low), place(score.high)) if math.isfinite(score.low + score.high) else None,
        "null": place(score.null) if math.isfinite(score.null) else None,
        "null_band": (place(score.null_low), round(place(score.null_high) - place(score.null_low), 1))
        if band
        else None,
        "others": [(place(v), f"{name}: {shown(v)}") for name, v in controls],
    }


def _word_rows(marked: pd.DataFrame, per_group: int = 14) -> Iterable[dict[str, Any]]:
    """The most marked words per group, one part per kind of text."""
    if not {"group", "word", "rank", "z"} <= set(marked.columns):
        return
    kinds = marked.groupby("kind", sort=False) if "kind" in marked else [("", marked)]
    for kind, rows in kinds:
        strongest = rows["z"].abs().max()
        parts = []
        for group, listed in rows.sort_values("rank", kind="stable").groupby("group", sort=False):
            chips = []
            for row in listed.head(per_group).to_dict("records"):
                q = [row[c] for c in listed if str(c).startswith("q_") and row[c] == row[c]]
                title = f"z {shown(row['z'])}" + (f", q {shown(max(q))} after correction" if q else "")
                weight = 1 + min(3, int(4 * abs(row["z"]) / strongest)) if strongest and row["z"] == row["z"] else 1
                chips.append({"word": row["word"], "z": shown(row["z"]), "title": title, "weight": weight})
            parts.append({"group": group, "count": f"{len(listed)} words", "words": chips})
        title = "Words that set groups apart" + (f": {words(str(kind), capital=False)}" if kind else "")
        text = (
            f"Up to {per_group} words per group, the most marked first; the small number is z, summed over the "
            "comparisons with the unmarked groups. The table has all words, each comparison and its corrected q-value."
        )
        yield {"title": title, "text": text, "rows": sorted(parts, key=lambda part: str(part["group"]))}


def _figure(key: str, stem: str, spec: Mapping[str, Any], svg: str, card: Card | None) -> dict[str, Any]:
    title = spec.get("title")
    title = title.get("text") if isinstance(title, Mapping) else title
    title = " ".join(map(str, title)) if isinstance(title, list) else str(title or words(stem))
    encoding = spec.get("encoding") or {}
    broad = any(k in spec for k in ("facet", "hconcat", "vconcat", "concat", "repeat"))
    broad = broad or any(k in encoding for k in ("row", "column", "facet"))
    wide = isinstance(spec.get("width"), int | float) and spec["width"] > 460
    return {"id": key, "title": title, "svg": svg, "broad": broad or wide, "measure": _measure(card, stem)}


def _measure(card: Card | None, stem: str) -> Measure | None:
    return card.measures.get(stem) if card else None


def _table(pages: Pages, key: str, result: Result, stem: str, href: str, data: dict[str, str]) -> dict[str, Any]:
    measure = _measure(result.card, stem)
    title = measure.title if measure else words(stem)
    return _embed(key, title, stem, result.table(stem), pages.table_rows, href, measure, data)


def _embed(
    key: str, title: str, stem: str, table: pd.DataFrame, limit: int, href: str, measure: Measure | None,
    data: dict[str, str],
) -> dict[str, Any]:  # fmt: skip
    """A table as page data: its first rows, six significant digits, missing values null."""
    rows = [[_cell(value) for value in row] for row in table.head(limit).itertuples(index=False, name=None)]
    columns = [words(str(column), capital=False) for column in table.columns]
    data[key] = _json({"caption": title, "columns": columns, "rows": rows})
    return {
        "id": key, "title": title, "total": len(table), "rows": len(rows), "csv": f"{href}/{stem}.csv",
        "file": f"{stem}.csv", "measure": measure, "open": False,
    }  # fmt: skip


def _cell(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else (None if value != value else str(value))
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else str(value)


def _graph(audit: str, result: Result, data: dict[str, str]) -> dict[str, Any] | None:
    """tables/graph.json (nodes, links) as an explorable graph."""
    path = result.folder / "tables" / "graph.json"
    if not path.exists():
        return None
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
        links = [link for link in made.get("links", made.get("edges", [])) if isinstance(link, dict)]
        degree: dict[str, int] = {}
        for link in links:
            for end in ("source", "target"):
                degree[str(link[end])] = degree.get(str(link[end]), 0) + 1
        sources = {str(link["source"]) for link in links}
        nodes = [
            {
                "id": str(node["id"]),
                "label": str(node.get("label", node["id"])),
                "centre": str(node.get("kind", "")) == "subject" if "kind" in node else str(node["id"]) in sources,
            }
            for node in made["nodes"]
            if str(node["id"]) in degree
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: expected nodes with an id and links with source and target") from error
    known = {node["id"] for node in nodes}
    drawn = [
        {
            "source": str(link["source"]),
            "target": str(link["target"]),
            "label": str(link.get("predicate", link.get("label", ""))),
            "kind": str(link.get("class", "all")),
        }
        for link in links
        if str(link["source"]) in known and str(link["target"]) in known
    ]
    if not drawn:
        return None
    kinds = list(dict.fromkeys(link["kind"] for link in drawn))
    key = f"graph-{audit}"
    data[key] = _json({"nodes": nodes, "links": drawn, "kinds": kinds})
    return {"id": key, "total": f"{len(nodes)} nodes, {len(drawn)} links"}


def _examples(
    pages: Pages, audit: str, responses: pd.DataFrame, marked: pd.DataFrame, data: dict[str, str]
) -> dict[str, Any] | None:
    """The first texts of each group, a prompt after the other: chosen by place, not by content."""
    if not {"text", "group", "prompt"} <= set(responses.columns):
        return None
    rows = responses[responses["text"].notna() & responses["text"].astype(str).str.strip().ne("")]
    if rows.empty:
        return None
    turn = rows.groupby(["group", "prompt_id"], sort=False, dropna=False).cumcount()
    rows = rows.assign(_turn=turn).sort_values("_turn", kind="stable")
    rows = rows.groupby("group", sort=False, dropna=False).head(pages.examples)
    listed: dict[str, list[str]] = {}
    if {"group", "word"} <= set(marked.columns):
        for group, found in marked.groupby("group")["word"]:
            listed[str(group)] = sorted({str(word) for word in found})
    texts = [
        {
            "group": str(row.get("group") or ""),
            "prompt": _cut(row.get("prompt"), 600),
            "text": _cut(row["text"], 3000),
            "note": "" if row.get("status", "ok") == "ok" else f"status: {row['status']}",
        }
        for row in rows.to_dict("records")
    ]
    groups = sorted({text["group"] for text in texts})
    key = f"examples-{audit}"
    data[key] = _json({"groups": groups, "words": listed, "texts": texts})
    text = f"The first {pages.examples} texts of each group, a prompt after the other: chosen by place, not by content."
    return {"id": key, "text": text + (" The group's marked words are highlighted." if listed else "")}


def _cut(text: Any, limit: int) -> str:
    text = "" if text is None or text is pd.NA else str(text)
    return text if len(text) <= limit else text[:limit] + " […]"


def _responses(store: Store, audit: str, model: str) -> pd.DataFrame:
    path = store.table_path("responses", audit, model)
    return pd.read_parquet(path) if path.exists() else pd.DataFrame()


# ---------------------------------------------------------------- all models


def index_page(pages: Pages) -> str:
    """reports/index.html."""
    data: dict[str, str] = {}
    audits = []
    for audit in pages.audits:
        card = pages.card(audit)
        found = [result for model in pages.models if (result := pages.results.get((audit, model)))]
        keys = dict.fromkeys(key for result in found for key in headline_keys(card, result.metrics))
        rows = [
            {"label": label(key, card), "scores": [_score(pages, audit, model, key) for model in pages.models]}
            for key in keys or card.headline
        ]
        audits.append({"card": card, "rows": rows})
    models = [
        {"name": m, "href": f"{m}.html", "lead": _lead(pages, m), "facts": _facts(pages, m)} for m in pages.models
    ]
    return _render(
        "index.html.j2", data=data, models=models, audits=audits, level=f"{pages.confidence_level:.0%}",
        compared=_compared(pages, data), commit=_commit(pages),
    )  # fmt: skip


def _compared(pages: Pages, data: dict[str, str]) -> dict[str, Any] | None:
    """The tables and figures of results/compare."""
    folder = pages.store.compared()
    tables, figures = [], []
    for path in sorted(folder.glob("*.csv"), key=lambda p: (p.stem != "differences", p.stem)):
        try:
            table = pd.read_csv(path, keep_default_na=False, na_values=[""])
        except pd.errors.EmptyDataError:
            continue
        title = words(path.stem)
        tables.append(
            _embed(f"compare-{path.stem}", title, path.stem, table, pages.table_rows, "../results/compare", None, data)
        )
    for path in sorted((folder / "figures").glob("*.json")):
        key = f"compare-figure-{path.stem}"
        spec = json.loads(path.read_text(encoding="utf-8"))
        data[key] = _json(spec)
        figures.append(_figure(key, path.stem, spec, f"../results/compare/figures/{path.stem}.svg", None))
    notes = folder / "notes.json"
    sentences = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else []
    return {"tables": tables, "figures": figures, "sentences": sentences} if tables or sentences else None


def literature_page(summary: pd.DataFrame, cells: pd.DataFrame, errata: pd.DataFrame) -> str:
    """How many printed cells agree with the results on the studies' own data, and the papers' misprints."""
    data: dict[str, str] = {}
    differing = cells[~cells["agrees"].astype(bool)]

    def embed(key: str, title: str, stem: str, table: pd.DataFrame) -> dict[str, Any]:
        return _embed(key, title, stem, table, len(table), ".", None, data)

    return _render(
        "literature.html.j2", data=data, summary=summary.to_dict("records"), commit="",
        agree=int(summary["agree"].sum()), total=int(summary["cells"].sum()),
        tables=[
            embed("differing", "Cells that do not agree", "cells", differing),
            embed("cells", "All cells", "cells", cells),
        ],
        errata=embed("errata-table", "Misprints and slips, with what they should say", "errata", errata),
    )  # fmt: skip


# ---------------------------------------------------------------- rendering


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


def _json(content: Any) -> str:
    """JSON that stays data inside a script element: no character in it can end the element or open another."""
    made = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        made = made.replace(sign, f"\\u{ord(sign):04x}")
    return made


def _render(name: str, data: dict[str, str], **context: Any) -> str:
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"shown": shown, "words": words}
    style, script, charts = _asset("page.css"), _asset("page.js"), _charts()
    hashes = " ".join(_hash(content) for content in (charts, script))
    # Styles: our one element, and the attributes that Vega sets on what it draws.
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src-elem {_hash(style)}; style-src-attr 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template(name).render(
        **context, version=__version__, policy=policy, style=style, script=script, charts=charts,
        look_light=Markup(_json(look("light"))), look_dark=Markup(_json(look("dark"))),
        data={key: Markup(content) for key, content in data.items()},
    )  # fmt: skip


@cache
def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _charts() -> str:
    """Vega, Vega-Lite and vega-embed, as ``embedChart``; from the package that also draws the SVGs."""
    import altair
    import vl_convert

    version = altair.SCHEMA_VERSION.removeprefix("v").rsplit(".", 1)[0]
    bundle = vl_convert.javascript_bundle("window.embedChart = vegaEmbed;", vl_version=version)
    return "(() => {\n" + bundle.replace("\r", "") + "\n})();"


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode('utf-8')).digest()).decode()}'"


def dvc_plots_page() -> str:
    """The page that ``dvc plots show`` fills in: like its own, but with the scripts inside."""
    import vl_convert

    bundle = vl_convert.javascript_bundle(
        "window.vega = vega; window.vegaLite = vegaLite; window.vegaEmbed = vegaEmbed;", vl_version="5.20"
    ).replace("\r", "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>DVC plots</title>\n'
        f"<script>(() => {{\n{bundle}\n}})();</script>\n"
        "<style>body{font:16px/1.5 sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}</style>\n"
        "</head>\n<body>\n<h1>Plots</h1>\n{plot_divs}\n</body>\n</html>\n"
    )


def _commit(pages: Pages) -> str:
    return git(pages.store.root, "rev-parse", "--short", "HEAD")
