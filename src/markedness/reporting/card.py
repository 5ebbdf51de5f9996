"""The stereotype card of one model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from markedness.cards import are, label, words
from markedness.reporting.answers import direction, first_screen, mark, model_answers
from markedness.reporting.embed import (
    LONGEST_CELL,
    MOST_NOTES,
    embed,
    figure,
    graph,
    measure_of,
    shortened,
)
from markedness.reporting.examples import example_texts, word_rows
from markedness.reporting.pages import Pages, columns_of, commit_of, facts, lead, score_of
from markedness.reporting.render import render, shown
from markedness.reporting.results import Result, statuses
from markedness.results import Score
from markedness.store import Store

_SMALL = 30
"""Below this many units an estimate is called small."""


def model_page(pages: Pages, model: str) -> str:
    """reports/<model>.html."""
    data: dict[str, str] = {}
    controls = [name for name in pages.controls if name != model]
    missing: list[str] = []
    sections = []
    answered = {(one.audit, one.score.key): one for one in model_answers(pages, model)}
    for audit in pages.audits:
        section = _section(pages, audit, model, controls, data)
        for row in section["headline"]:
            row["mark"] = mark(answered.get((audit, row["score"].key)))
        missing += [f"{section['card'].title}: {sentence}" for sentence in section["missing"]]
        sections.append(section)
    return render(
        "card.html.j2", data=data, model=model, sections=sections, controls=controls, missing=missing,
        first=first_screen(pages, model), with_texts={one["audit"] for one in sections if one["examples"]},
        lead=lead(pages, model), facts=facts(pages, model), commit=commit_of(pages),
    )  # fmt: skip


def _section(pages: Pages, audit: str, model: str, controls: list[str], data: dict[str, str]) -> dict[str, Any]:
    card, result = pages.cards[audit], pages.results.get((audit, model))
    responses = _responses(pages.store, audit, model)
    section: dict[str, Any] = {
        "audit": audit, "card": card, "result": result, "headline": [], "words": [], "figures": [], "tables": [],
        "graph": None, "examples": None, "contexts": "", "downloads": [], "warnings": [], "missing": [], "why": "",
        "measures": list({id(m): m for m in card.measures.values()}.values()),
    }  # fmt: skip
    if result is None:
        section["why"] = f"not run yet: markedness run {audit} --model {model}"
        section["missing"] = [section["why"]]
        return section
    if not result.measured:
        section["why"] = shortened(result.notes[0], LONGEST_CELL) if result.notes else "nothing could be measured"
    counts = statuses(responses)
    section["missing"] = [*_left_out(counts), *([section["why"]] if section["why"] else [])]
    section["warnings"] = [n for n in result.notes if shortened(n, LONGEST_CELL) != section["why"]]
    section["warnings"] += _small(pages.store, audit, model)
    section["warnings"] = [shortened(note, LONGEST_CELL) for note in section["warnings"][:MOST_NOTES]]
    for score in result.headline() if result.measured else ():
        beside = [score_of(pages, audit, name, score.key) for name in controls]
        strip = _strip(label(score.key, card), score, dict(zip(controls, beside, strict=True)))
        section["headline"].append(
            {
                "label": label(score.key, card),
                "score": score,
                "worse": direction(score),
                "strip": strip,
                "controls": [s.estimate if s else None for s in beside],
            }
        )
    href = f"../results/{audit}/{model}"
    marked = result.table("marked_words")
    found = pages.find_examples(audit, model)
    section["words"] = list(word_rows(marked, found, f"contexts-{audit}", data))
    section["contexts"] = f"contexts-{audit}"
    for stem, spec in result.figures.items():
        drawn = figure(f"figure-{audit}-{stem}", stem, spec, f"{href}/figures/{stem}.json", card, data)
        section["figures"].append(drawn)
    for stem in result.tables:
        section["tables"].append(_table(pages, f"table-{audit}-{stem}", result, stem, f"tables/{audit}/{model}", data))
    section["downloads"] = [(path.name, f"{href}/tables/{path.name}") for path in result.downloads]
    section["downloads"].append(("metrics.json", f"{href}/metrics.json"))
    section["graph"] = graph(audit, result, data)
    section["examples"] = example_texts(found, responses, marked, pages.examples, f"examples-{audit}", data)
    return section


def _left_out(counts: pd.DataFrame) -> list[str]:
    """Rows that are not ok, by status."""
    if counts.empty:
        return []
    total = int(counts.to_numpy().sum())
    other = {status: int(counts[status].sum()) for status in counts if status != "ok"}
    if not any(other.values()):
        return []
    listed = ", ".join(f"{n:,} {status}" for status, n in other.items() if n)
    return [f"{sum(other.values()):,} of {total:,} rows {are(sum(other.values()))} not ok ({listed})."]


def _small(store: Store, audit: str, model: str) -> list[str]:
    """A sentence when estimates rest on few units."""
    if not store.table_path("estimates", audit, model).exists():
        return []
    estimates = store.read_table("estimates", audit, model)
    n = pd.to_numeric(estimates["n"], errors="coerce")
    few = estimates[(n < _SMALL) & estimates["estimate"].notna()]
    if few.empty:
        return []
    groups = [str(g) for g in few["group"].dropna().unique() if str(g)]
    named = f": {', '.join(groups[:5])}{' and others' if len(groups) > 5 else ''}" if groups else ""
    return [
        f"{len(few)} of {len(estimates)} estimates rest on fewer than {_SMALL} units "
        f"(the fewest: {int(n[few.index].min())}){named}. Read their intervals, not their points."
    ]


def _strip(title: str, score: Score, others: Mapping[str, Score | None]) -> dict[str, Any] | None:
    """Places (0 to 200) of the marks of one score: interval, null, controls."""
    controls = [(name, s.estimate) for name, s in others.items() if s and not s.missing]
    values = [
        score.estimate,
        score.ci_low,
        score.ci_high,
        score.null_mean,
        score.null_low,
        score.null_high,
        *(v for _, v in controls),
    ]
    values = [v for v in values if math.isfinite(v)]
    if score.missing or not values:
        return None
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0

    def place(value: float) -> float:
        return round(10 + 180 * (value - low) / span, 1)

    text = f"{title}: {shown(score.estimate)}"
    if math.isfinite(score.ci_low) and math.isfinite(score.ci_high):
        text += f", interval {shown(score.ci_low)} to {shown(score.ci_high)}"
    if math.isfinite(score.null_mean):
        text += f"; null {shown(score.null_mean)}"
    text += "".join(f"; {name} {shown(v)}" for name, v in controls)
    band = math.isfinite(score.null_low) and math.isfinite(score.null_high)
    return {
        "text": text,
        "dot": place(score.estimate),
        "interval": (place(score.ci_low), place(score.ci_high))
        if math.isfinite(score.ci_low + score.ci_high)
        else None,
        "null": place(score.null_mean) if math.isfinite(score.null_mean) else None,
        "null_band": (place(score.null_low), round(place(score.null_high) - place(score.null_low), 1))
        if band
        else None,
        "others": [(place(v), f"{name}: {shown(v)}") for name, v in controls],
    }


def _table(pages: Pages, key: str, result: Result, stem: str, href: str, data: dict[str, str]) -> dict[str, Any]:
    measure = measure_of(result.card, stem)
    title = measure.title if measure else words(stem)
    return embed(key, title, stem, result.table(stem), pages.table_rows, href, measure, data)


def _responses(store: Store, audit: str, model: str) -> pd.DataFrame:
    path = store.table_path("responses", audit, model)
    return columns_of(path, ("text", "group", "prompt", "prompt_id", "status")) if path.exists() else pd.DataFrame()
