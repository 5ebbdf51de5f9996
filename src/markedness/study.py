"""The stages that see all models: compare, report and track."""

from __future__ import annotations

from collections.abc import Callable

from markedness import audits
from markedness.params import Params
from markedness.store import Store

Report = Callable[[str], None]


def report(params: Params, say: Report = print) -> None:
    """reports/index.html and a stereotype card per model."""
    from markedness.reporting.report import Pages, write

    pages = Pages(
        Store(params.root), params.audits, {name: params.model(name) for name in params.run}, audits.card,
        params.report.table_rows, params.report.examples, params.compare.confidence_level,
    )  # fmt: skip
    for path in write(pages):
        if path.name == "index.html":
            say(f"report: {len(pages.results)} results of {len(params.run)} models, open {path}")
