"""Tables and figures in the forms that a paper takes: LaTeX, Markdown, PDF and SVG."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from markedness.cards import words
from markedness.records import AuditError
from markedness.reporting.figures import pdf, svg
from markedness.reporting.render import shown
from markedness.reporting.results import Result
from markedness.store import Store

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "[": "{[}", "*": "{*}",  # which \\ of the row before would take for its own
}  # fmt: skip


def export(store: Store, results: list[Result], folder: Path) -> tuple[int, list[str]]:
    """Write every table as .tex and .md and every figure as .pdf and .svg.

    Returns
    -------
    int, list of str
        How many files, and a sentence for each figure that could not be drawn.

    Raises
    ------
    AuditError
        When there is no result.
    """
    if not results:
        raise AuditError("nothing to export: no audit of this study has results of now; run 'dvc repro' first")
    made, undrawn = 0, list[str]()
    for result in results:
        place = folder / result.audit / result.model
        for stem in result.tables:
            table, title = result.table(stem), _title(result, stem)
            name = f"tab:{result.audit}-{result.model}-{stem}"
            store.write_bytes(place / f"{stem}.tex", latex(table, title, name).encode())
            store.write_bytes(place / f"{stem}.md", markdown(table).encode())
            made += 2
        for stem, specification in result.figures.items():
            try:
                drawn = {".pdf": pdf(specification), ".svg": svg(specification).encode()}
            except ValueError as error:
                why = " ".join(str(error).split("\n")[:2])
                undrawn.append(
                    f"{result.audit}/{result.model}: the figure '{stem}' could not be drawn ({why:.150}); the report "
                    "shows it. A label with an emoji that is cut in its middle cannot be."
                )
                continue
            for suffix, content in drawn.items():
                store.write_bytes(place / f"{stem}{suffix}", content)
            made += 2
    return made, undrawn


def latex(table: pd.DataFrame, title: str, label: str) -> str:
    """A booktabs table of its own, long enough for any number of rows; every cell is escaped."""
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table]
    lines = [
        "% needs \\usepackage{booktabs,longtable}",
        f"\\begin{{longtable}}{{{''.join('r' if n else 'l' for n in numeric)}}}",
        f"\\caption{{{_escaped(title)}}}\\label{{{label}}}\\\\",
        "\\toprule",
        " & ".join(_escaped(words(str(column))) for column in table) + " \\\\",
        "\\midrule\\endhead",
        *(" & ".join(_escaped(_cell(value)) for value in row) + " \\\\" for row in table.itertuples(index=False)),
        "\\bottomrule",
        "\\end{longtable}",
    ]
    return "\n".join(lines) + "\n"


def markdown(table: pd.DataFrame) -> str:
    """A Markdown table; signs that would end a cell or start markup are escaped."""
    rule = ["---:" if pd.api.types.is_numeric_dtype(table[column]) else "---" for column in table]
    rows = [[_plain(words(str(column))) for column in table], rule]
    rows += [[_plain(_cell(value)) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _title(result: Result, stem: str) -> str:
    measure = result.card.measures.get(stem)
    return f"{measure.title if measure else words(stem)}, {result.model}"


def _cell(value: Any) -> str:
    if value is None or value is pd.NA or value != value:
        return ""
    return shown(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))
