"""Pairs of texts that drive stereotype strength: after which words the marked guise shifts probability most."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.audits.base import EXAMPLE_COLUMNS, Examples, ResultTables
from markedness.audits.guise.estimators.association import stereotype_strength
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotypes import association_tasks, imputed, main_rows
from markedness.records import FeatureTables

_TOP = 3
"""Attributes that are named beside a text."""


def examples(responses: pd.DataFrame, features: FeatureTables, tables: ResultTables, params: Params) -> Examples:
    """One row per matched pair of texts of a marked guise, by what it adds to stereotype strength."""
    scores = main_rows(features["scores"], params)
    scores = scores[scores["kind"].eq("association") & scores["text_set"].ne("overt") & scores["setting"].eq("matched")]
    scores = scores[~imputed(scores)]
    if scores.empty:
        return Examples(
            "nothing: there are no matched texts, or no attributes that the server shows after both",
            pd.DataFrame(columns=list(EXAMPLE_COLUMNS)),
        )
    tables_of = [_of_guise(rows, features["attributes"], params) for _, rows in scores.groupby("group", observed=True)]
    rows = pd.concat([table for table, _ in tables_of], ignore_index=True)
    if any(rated for _, rated in tables_of):
        by = "how much more the text raises the probability of stereotypical attributes than of others (log10 ratio)"
    else:
        by = "how much the text raises the probability of the attribute that gains most (log10 ratio); none is rated"
    rows = rows.sort_values("shift", ascending=False, kind="stable", ignore_index=True)
    for side, group in (("text", "group"), ("other", "reference")):
        said = _utterances(responses)
        keys = pd.MultiIndex.from_frame(rows[[group, "text_set", "pair"]].astype(str))
        rows[[side, f"{side}_prompt"]] = said.reindex(keys).to_numpy()
    rows["prompt"] = "In place of: " + rows["other"].fillna("(the other text is not in the data)")
    return Examples(f"{by}, mean over prompts", rows[list(EXAMPLE_COLUMNS)])


def _of_guise(scores: pd.DataFrame, attributes: pd.DataFrame, params: Params) -> tuple[pd.DataFrame, bool]:
    """Pairs of one marked guise with their shift and its note; whether any attribute is known as a stereotype."""
    task = association_tasks(scores, attributes, params)[0]
    rows = scores[scores["task"].astype(str).eq(task.task)]
    rows = rows.assign(ratio=(rows["log_prob"] - rows["log_prob_reference"]) / np.log(10))
    keys = ["group", "reference", "text_set", "pair"]
    wide = rows.pivot_table("ratio", keys, "attribute", "mean", observed=True).reindex(columns=task.attributes)
    rated = bool(task.stereotypical.any() and not task.stereotypical.all())
    values = wide.to_numpy(dtype=float)
    named = np.flatnonzero(task.stereotypical) if rated else np.arange(values.shape[1])
    shift = stereotype_strength(values, task.stereotypical) if rated else np.nanmax(values, axis=1)
    notes = []
    for row, size in zip(values, shift, strict=True):
        order = sorted((i for i in named if np.isfinite(row[i])), key=lambda i: -row[i])[:_TOP]
        listed = ", ".join(f"{task.attributes[i]} × {10 ** row[i]:.2g}" for i in order)
        notes.append(f"shift {size:.2f}; probability of {'the stereotypes ' if rated else ''}{listed}")
    return wide.index.to_frame(index=False).assign(shift=shift, note=notes).dropna(subset=["shift"]), rated


def _utterances(responses: pd.DataFrame) -> pd.DataFrame:
    """(guise, text set, pair) -> utterance, or the prompt where it is not known, and the prompt."""
    known = responses.reindex(columns=["group", "pairs", "pair", "utterance", "prompt"])
    known = known.drop_duplicates(["group", "pairs", "pair"]).dropna(subset=["group", "pair"])
    keys = pd.MultiIndex.from_frame(known[["group", "pairs", "pair"]].astype(str))
    text = known["utterance"].astype(object).where(known["utterance"].notna(), known["prompt"])
    return pd.DataFrame({"text": text.to_numpy(), "prompt": known["prompt"].to_numpy()}, index=keys)
