"""Tables for papers: every sign that means something there is escaped."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from markedness.reporting.export import export, latex, markdown
from markedness.reporting.pages import Pages

TABLE = pd.DataFrame({"word_group": ["50% & more_", "a|b\n<i>"], "z": [1.23456, float("nan")]})


def test_latex_escapes_cells_and_aligns_numbers() -> None:
    text = latex(TABLE, "Words of 100%", "tab:words")
    assert r"\begin{longtable}{lr}" in text
    assert r"50\% \& more\_ & 1.23 \\" in text
    assert r"a|b \textless{}i\textgreater{} &  \\" in text
    assert r"\caption{Words of 100\%}\label{tab:words}" in text


def test_latex_row_that_begins_like_an_option_of_the_line_break_keeps_its_first_cell() -> None:
    """The line break looks over the end of its line for a star, which it swallows, and a bracket, which is a length."""
    text = latex(pd.DataFrame({"word": ["[name]", "*"], "n": [1, 2]}), "Words", "tab:words")
    assert "{[}name] & 1 \\\\\n{*} & 2 \\\\\n" in text


def test_markdown_keeps_one_row_a_line() -> None:
    assert markdown(TABLE).splitlines() == [
        "| Word group | Z |", "| --- | ---: |", r"| 50% & more\_ | 1.23 |", r"| a\|b \<i\> |  |",
    ]  # fmt: skip


def test_export_writes_each_table_twice_and_each_figure_as_pdf(pages: Pages, tmp_path: Path) -> None:
    result = pages.results["personas", "tiny"]
    made, undrawn = export(pages.store, [result], tmp_path / "paper")
    names = {path.name for path in (tmp_path / "paper" / "personas" / "tiny").iterdir()}
    assert names == {"marked_words.tex", "marked_words.md", "share.tex", "share.md", "share.pdf", "share.svg"}
    assert made == len(names) and not undrawn


def test_figure_that_cannot_be_drawn_is_a_sentence_and_the_others_are_written(pages: Pages, tmp_path: Path) -> None:
    # The converter cuts labels by halves of such a sign.
    label = "Middle-Eastern or North African \N{PERSON WITH HEADSCARF} nonbinary person"
    bars = {"mark": "bar", "data": {"values": [{"a": label}]}, "encoding": {"y": {"field": "a", "type": "nominal"}}}
    result = pages.results["personas", "tiny"]
    schema = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json"}
    (result.folder / "figures" / "cut.json").write_text(json.dumps(schema | bars), encoding="utf-8")
    made, undrawn = export(pages.store, [result], tmp_path / "paper")
    names = {path.name for path in (tmp_path / "paper" / "personas" / "tiny").iterdir()}
    assert names == {"marked_words.tex", "marked_words.md", "share.tex", "share.md", "share.pdf", "share.svg"}
    assert made == len(names)
    assert len(undrawn) == 1 and undrawn[0].startswith("personas/tiny: the figure 'cut' could not be drawn (")


def test_export_labels_the_tables_of_two_models_apart(pages: Pages, tmp_path: Path) -> None:
    export(pages.store, [pages.results["personas", name] for name in ("tiny", "control-none")], tmp_path / "paper")
    tables = sorted((tmp_path / "paper").rglob("*.tex"))
    labels = {path.read_text(encoding="utf-8").partition(r"\label{")[2].partition("}")[0] for path in tables}
    assert len(labels) == len(tables) == 4 and "tab:personas-tiny-share" in labels
