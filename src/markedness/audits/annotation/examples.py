"""Texts whose label differs most from that of their twin: the same text with another name or dialect."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from markedness.audits.base import EXAMPLE_COLUMNS, Examples, ResultTables
from markedness.records import FeatureTables, Strict

_KEYS = ["paradigm", "task", "group", "prompt_id", "pair", "iteration"]
_ASKED = ["prompt", "position", "n_texts"]
_POOL = 200
"""Pairs of a group whose texts are looked up."""


def examples(responses: pd.DataFrame, features: FeatureTables, tables: ResultTables, params: Strict) -> Examples:
    """Pairs of texts with both judgments, the widest gap first: of probability where scored, of the label else."""
    pairs = features["pairs"]
    gap = pairs["margin"] - pairs["margin_reference"]
    scored = bool(gap.notna().any())
    pairs = pairs.assign(gap=(gap if scored else pairs["delta"]).abs()).dropna(subset=["gap"])
    pairs = pairs.sort_values("gap", ascending=False, kind="stable")
    widest = pairs.groupby("group", observed=True, sort=False).head(_POOL).reset_index(drop=True)
    keys = [key for key in _KEYS if key in widest and key in responses]
    said = responses.drop_duplicates(keys).reindex(columns=[*keys, *_ASKED])
    widest = widest.drop(columns=_ASKED, errors="ignore")  # the position of a pair is the mean over its iterations
    left, right = (table.astype(dict.fromkeys(keys, "object")) for table in (widest, said))
    rows = left.merge(right, "left", keys)
    rows["note"] = [_note(row) for row in rows.to_dict("records")]
    found = [_text(*cells) for cells in zip(rows["prompt"], rows["position"], rows["n_texts"], strict=True)]
    rows["prompt"], rows["text"] = (list(column) for column in zip(*found, strict=True)) if found else ([], [])
    measured = "ln P(yes) - ln P(no)" if scored else "the share of yes"
    by = f"the gap between the twin judgments of a pair, in {measured}, whichever way it points, the widest first"
    return Examples(by, rows[list(EXAMPLE_COLUMNS)])


def _note(row: Mapping[Hashable, Any]) -> str:
    """Both judgments: "poor: yes for Aisha (2.1), no for Emily (-0.3)"."""
    sides = []
    for end, name, group in (("", "name", "group"), ("_reference", "reference_name", "reference")):
        named = row.get(name)
        who = str(row[group]) if named is None or pd.isna(named) else f"{named} ({row[group]})"
        yes, n, margin = (float(row[f"{part}{end}"]) for part in ("yes", "n", "margin"))
        answer = "no judgment" if not n else "yes" if yes == n else "no" if not yes else f"yes in {yes:g} of {n:g}"
        sides.append(f"{answer} for {who}" + ("" if np.isnan(margin) else f", ln P(yes) - ln P(no) = {margin:.2f}"))
    return f"{row['task']}: {'; '.join(sides)}"


def _text(prompt: Any, position: Any, n_texts: Any) -> tuple[str, str]:
    """What was asked and the text that was judged; of a batch, the line that has its number."""
    asked = "" if prompt is None or pd.isna(prompt) else str(prompt)
    if n_texts is None or pd.isna(n_texts):
        return "", asked
    number = int(position)
    line = re.search(rf"^{number}\. (.*)$", asked, re.MULTILINE)
    return f"Text {number} of a list of {int(n_texts)}", line[1] if line else ""
