"""The pages over all models, and over all published tables."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from markedness.reporting.embed import embed, figure
from markedness.reporting.pages import Pages, commit_of, facts, lead, score_of
from markedness.reporting.render import render
from markedness.results import label, words


def index_page(pages: Pages) -> str:
    """reports/index.html."""
    data: dict[str, str] = {}
    audits = []
    for audit in pages.audits:
        card = pages.cards[audit]
        rows = [
            {"label": label(key, card), "scores": [score_of(pages, audit, model, key) for model in pages.models]}
            for key in card.headline
        ]
        audits.append({"card": card, "rows": rows})
    models = [{"name": m, "href": f"{m}.html", "lead": lead(pages, m), "facts": facts(pages, m)} for m in pages.models]
    return render(
        "index.html.j2", data=data, models=models, audits=audits, level=f"{pages.confidence_level:.0%}",
        compared=_compared(pages, data), commit=commit_of(pages),
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
            embed(f"compare-{path.stem}", title, path.stem, table, pages.table_rows, "tables/compare", None, data)
        )
    for path in sorted((folder / "figures").glob("*.json")):
        spec = json.loads(path.read_text(encoding="utf-8"))
        svg = f"../results/compare/figures/{path.stem}.svg"
        figures.append(figure(f"compare-figure-{path.stem}", path.stem, spec, svg, None, data))
    notes = folder / "notes.json"
    sentences = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else []
    return {"tables": tables, "figures": figures, "sentences": sentences} if tables or sentences else None


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
