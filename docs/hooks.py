"""Pages made from the code: a card per audit, the reference of params and tables, and each notebook as a page."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from markedness import audits  # noqa: E402
from markedness.cards import Card  # noqa: E402
from markedness.lm import backends  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {f"audits/{name}.md": audit_page(audits.spec(name).card) for name in audits.AUDITS}
    pages["reference/params.md"] = params_page()
    pages["reference/tables.md"] = tables_page()
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    pages |= {f"notebooks/{path.stem}.md": notebook_page(path) for path in notebooks}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def notebook_page(path: Path) -> str:
    """The cells of a notebook, with a link to it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    parts = [
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in zip(cells, texts, strict=True)
    ]
    return "\n\n".join([*parts, f"Download: [the notebook]({path.name}).\n"])


def audit_page(card: Card) -> str:
    """Question, method, formulas, and what the numbers do not say."""
    parts = [
        f"# {card.title}\n\n**{card.question}**\n",
        f"Source: {card.paper}\n",
        f"## What is estimated\n\n{card.estimand}\n\n- Unit: {card.unit}\n- Groups: {card.groups}",
        f"- Null: {card.null}\n",
        "## Scores to look at first\n\n" + "\n".join(f"- `{key}`" for key in card.headline) + "\n",
        "## How each number is measured\n",
        *(
            f"### {cell(measure.title)}\n\n`{key}`\n\n- Formula: {cell(measure.formula)}\n- n: {cell(measure.n)}\n"
            f"- Correction: {cell(measure.correction)}\n- Source: {cell(measure.source)}\n"
            for key, measure in card.measures.items()
        ),
        f"## What the numbers do not say\n\n{card.limits}\n",
        f"Its params: [reference](../reference/params.md#{card.audit}). Its data: `data/stimuli/{card.audit}/`.\n",
    ]
    return "\n".join(parts)


def params_page() -> str:
    """Every key of params.yaml, from the classes that check it."""
    parts = [
        "# params.yaml\n\nEvery key, with its type and default, from the classes that check the file.\n",
        "## models\n",
    ]
    for name in backends.names():
        backend = backends.backend(name).config
        parts.append(f"### backend: {name}\n\n{first_line(backend)}\n\n" + fields_table(backend))
    for audit in audits.AUDITS:
        parts.append(f"## {audit}\n")
        for stage in audits.STAGES:
            kind = audits.spec(audit).params(stage)
            if kind.model_fields:
                parts.append(f"### {audit}.{stage}\n\n" + fields_table(kind))
    return "\n".join(parts)


def fields_table(kind: type[BaseModel]) -> str:
    """Key, type, default and meaning of one block."""
    meanings = attribute_docs(kind)
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in kind.model_fields.items():
        shown = str(field.annotation).replace("typing.", "").replace("markedness.records.", "")
        shown = getattr(field.annotation, "__name__", shown) if isinstance(field.annotation, type) else shown
        if field.default is not PydanticUndefined:
            default: Any = field.default
        else:
            default = "required" if field.is_required() else "see the shipped params.yaml"
        rows.append(f"| `{name}` | {cell(shown)} | {cell(str(default))[:80]} | {cell(meanings.get(name, ''))} |")
    return "\n".join(rows) + "\n"


def attribute_docs(kind: type[BaseModel]) -> dict[str, str]:
    """The docstring below each attribute, for the class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        if not base.__module__.startswith("markedness"):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for node, after in itertools.pairwise(definition.body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[node.target.id] = " ".join(str(after.value.value).split())
    return found


def tables_page() -> str:
    """What each table is and how it is measured, per audit."""
    parts = [
        "# Tables and scores\n\nWritten to `results/<audit>/<model>/`: `metrics.json` with the",
        "headline scores, `scores.csv` with all, and",
        "`tables/*.csv`, UTF-8, unrounded. NaN (an empty cell) where there is nothing to estimate, never 0.\n",
    ]
    for audit in audits.AUDITS:
        card = audits.spec(audit).card
        rows = "\n".join(
            f"| `{key}` | {cell(m.title)} | {cell(m.formula)} | {cell(m.n)} | {cell(m.correction)} |"
            for key, m in card.measures.items()
        )
        head = "| table, figure or score | what | formula | n | correction |\n| --- | --- | --- | --- | --- |"
        parts.append(f"## {audit}\n\n{head}\n{rows}\n")
    return "\n".join(parts)


def cell(text: str) -> str:
    """Text that stays in its table cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def first_line(kind: type) -> str:
    """First line of a docstring."""
    return (kind.__doc__ or "").strip().splitlines()[0]
