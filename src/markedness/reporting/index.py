"""The pages over all models, and over all published tables."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from markedness.asked import OTHERWISE
from markedness.cards import count, label, words
from markedness.reporting.answers import MARKS, direction, mark, model_answers
from markedness.reporting.embed import embed, figure
from markedness.reporting.pages import Pages, commit_of, facts, lead, levels, score_of
from markedness.reporting.render import render
from markedness.separated import read_results


def index_page(pages: Pages) -> str:
    """reports/index.html."""
    data: dict[str, str] = {}
    audits = []
    answered = {
        (model, one.audit, one.score.key): one for model in pages.models for one in model_answers(pages, model)
    }  # fmt: skip
    for audit in pages.audits:
        card = pages.cards[audit]
        rows = []
        for key in card.headline:
            scores = [score_of(pages, audit, model, key) for model in pages.models]
            marks = [mark(answered.get((model, audit, key))) for model in pages.models]
            worse = next((direction(score) for score in scores if score and score.family), "")
            rows.append({"label": label(key, card), "worse": worse, "cells": list(zip(scores, marks, strict=True))})
        audits.append({"card": card, "rows": rows})
    models = [{"name": m, "href": f"{m}.html", "lead": lead(pages, m), "facts": facts(pages, m)} for m in pages.models]
    return render(
        "index.html.j2", data=data, models=models, audits=audits, level=levels(pages),
        compared=_compared(pages, data), commit=commit_of(pages), marks=[(*MARKS[kind], str(kind)) for kind in MARKS],
    )  # fmt: skip


def _compared(pages: Pages, data: dict[str, str]) -> dict[str, Any] | None:
    """The tables and figures of results/compare."""
    folder = pages.store.compared()
    tables, figures, otherwise = [], [], ""
    for path in sorted(folder.glob("*.csv"), key=lambda p: (p.stem != "differences", p.stem)):
        try:
            table = read_results(path)
        except pd.errors.EmptyDataError:
            continue
        if path.stem == "differences" and "note" in table:
            otherwise = _asked_otherwise(table)
        title = words(path.stem)
        tables.append(
            embed(f"compare-{path.stem}", title, path.stem, table, pages.table_rows, "tables/compare", None, data)
        )
    for path in sorted((folder / "figures").glob("*.json")):
        spec = json.loads(path.read_text(encoding="utf-8"))
        file = f"../results/compare/figures/{path.name}"
        figures.append(figure(f"compare-figure-{path.stem}", path.stem, spec, file, None, data))
    notes = folder / "notes.json"
    sentences = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else []
    sentences = [pages.old_comparison, *sentences] if pages.old_comparison else sentences
    made = {"tables": tables, "figures": figures, "sentences": sentences, "otherwise": otherwise}
    return made if tables or sentences else None


def _asked_otherwise(differences: pd.DataFrame) -> str:
    """How many pairs of models were asked otherwise, in a sentence; "" where none was."""
    pairs = ["audit", "model_a", "model_b"]
    noted = differences[differences["note"].fillna("").str.contains(OTHERWISE, regex=False)]
    n, of = len(noted.drop_duplicates(pairs)), len(differences.drop_duplicates(pairs))
    return f"Of {count(of, 'pair')} by audit, {n} {'was' if n == 1 else 'were'} {OTHERWISE}." if n else ""


def literature_page(summary: pd.DataFrame, cells: pd.DataFrame, errata: pd.DataFrame) -> str:
    """How many printed cells agree with the results on the studies' own data, and the papers' misprints."""
    data: dict[str, str] = {}
    differing = cells[~cells["agrees"].astype(bool)]

    def whole(key: str, title: str, stem: str, table: pd.DataFrame) -> dict[str, Any]:
        return embed(key, title, stem, table, len(table), ".", None, data)

    return render(
        "literature.html.j2", data=data, summary=summary.to_dict("records"), commit="",
        agree=int(summary["agree"].sum()), total=int(summary["cells"].sum()),
        tables=[
            whole("differing", "Cells that do not agree", "cells", differing),
            whole("cells", "All cells", "cells", cells),
        ],
        errata=whole("errata-table", "Misprints and slips, with what they should say", "errata", errata),
    )  # fmt: skip
