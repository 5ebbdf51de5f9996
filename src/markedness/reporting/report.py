"""The stereotype card of each model, and the index over all: pages that open from disk.

What a model said is data: escaped by the template, or written by the script as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from markedness.reporting.card import model_page
from markedness.reporting.downloads import spreadsheet_copy
from markedness.reporting.index import index_page
from markedness.reporting.pages import Pages
from markedness.reporting.render import dvc_plots_page


def write(pages: Pages) -> list[Path]:
    """Write reports/index.html, reports/<model>.html and the page that DVC draws its plots on."""
    folder = pages.store.reports()
    written = []
    with pages.store.renewed(folder) as new:
        for name, content in _contents(pages):
            pages.store.write_bytes(new / name, content.encode("utf-8"))
            written.append(folder / name)
        for name, table in _tables(pages):
            spreadsheet_copy(table, new / name)
    return written


def _tables(pages: Pages) -> Iterator[tuple[str, Path]]:
    """Name below reports/ -> table of results/ that a page offers for download."""
    for (audit, model), result in pages.results.items():
        for stem, path in result.tables.items():
            yield f"tables/{audit}/{model}/{stem}.csv", path
    for path in sorted(pages.store.compared().glob("*.csv")):
        yield f"tables/compare/{path.name}", path


def _contents(pages: Pages) -> Iterator[tuple[str, str]]:
    """Name -> content, one at a time, so that memory holds one page."""
    yield "index.html", index_page(pages)
    for model in pages.models:
        yield f"{model}.html", model_page(pages, model)
    yield "assets/dvc-plots.html", dvc_plots_page()
