"""docs/replication.md: every analysis, table and figure of the papers, where it is, or why it cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from markedness.literature.agreement import Agreement, cells, per_paper, published, summary

HEAD = """# Replication of the papers

`make replicate` fetches the released data of the papers, audits them with the papers' own recipes and compares the
results, cell by cell, with what is printed. It also recomputes the statistics that follow from printed inputs. The
report is `results/literature/index.html`; `markedness literature --page docs/replication.md` writes this page.

A cell is one printed number, one list of words, or one statement about a group. It agrees within the tolerance that the
report names. What does not agree is listed below, and is never made to agree.
"""
ITEMS = """## Every analysis, table and figure

*Agrees*: cells that agree, of those printed; empty where nothing can be compared. *Where*: the table that your own
model or corpus gets, MODEL its key; the replicated numbers are in the same files of the studies in literature.yaml. A
file under `data/stimuli` is what models are asked.
"""


def page(root: Path, made: Sequence[Agreement]) -> str:
    """The page in Markdown."""
    table = summary(made)
    analyses = published(root, "analyses.csv").astype(str)
    parts = [HEAD, _table(_totals(made)), ITEMS]
    for paper, own in analyses.groupby("publication", sort=False):
        counts = table[table["publication"].eq(str(paper))].groupby("table")[["agree", "cells"]].sum()
        rows = own.assign(agrees=[_agrees(names, counts) for names in own["replicated"]])
        shown = rows[["item", "what", "agrees", "where", "why"]]
        parts += [f"### {paper}\n", _table(shown.set_axis(["item", "what", "agrees", "where", "note"], axis=1))]
    parts += ["## Cells that do not agree\n", _table(_differing(made))]
    parts += ["## Errors found in the papers\n", _table(published(root, "errata.csv").astype(str))]
    return "\n".join(parts)


def named(replicated: str) -> list[str]:
    """The tables of `Agreement` that an entry of analyses.csv names."""
    return [name.strip() for name in replicated.split(";") if name.strip()]


def _agrees(replicated: str, counts: pd.DataFrame) -> str:
    """Cells that agree, of those printed; "not run" where the study has no results here."""
    names = named(replicated)
    if not names:
        return ""
    if missing := [name for name in names if name not in counts.index]:
        return f"not run: {', '.join(missing)}"
    agree, printed = counts.loc[names].sum()
    return f"{agree:,} of {printed:,}"


def _totals(made: Sequence[Agreement]) -> pd.DataFrame:
    table = per_paper(made)
    shown = table[["publication", "cells", "agree"]].assign(
        cells=table["cells"].map("{:,}".format), agree=table["agree"].map("{:,}".format)
    )
    return shown.set_axis(["paper", "printed cells", "agree"], axis=1)


def _differing(made: Sequence[Agreement]) -> pd.DataFrame:
    """Cells that do not agree; numbers to three digits, so that the page says nothing of the machine."""
    table = cells(made)
    rows = table.loc[~table["agrees"], ["publication", "table", "model", "cell", "printed", "found"]]
    return rows.assign(**{name: rows[name].map(_shown) for name in ("printed", "found")})


def _shown(value: object) -> str:
    if isinstance(value, float):
        return "not a number" if value != value else f"{value:.3g}"
    return str(value)


def _table(rows: pd.DataFrame) -> str:
    """A table in Markdown."""
    lines = [[str(name) for name in rows.columns], ["---"] * len(rows.columns)]
    lines += [[_cell(str(value)) for value in row] for row in rows.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
