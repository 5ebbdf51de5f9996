"""Answers that make a group look alike: those that are most like the group's other answers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.audits.base import EXAMPLE_COLUMNS, Examples, ResultTables
from markedness.cards import are
from markedness.records import FeatureTables, Strict

_KEYS = ["prompt_id", "group"]


def examples(responses: pd.DataFrame, features: FeatureTables, tables: ResultTables, params: Strict) -> Examples:
    """Each answer of a group once, the most frequent first; of longer texts, those most similar to the others."""
    answers = features["answers"]
    short, long = answers[answers["kind"].ne("text")], answers[answers["kind"].eq("text")]
    rows = [_expressions(responses, short[short["kept"]]), _texts(responses, long)]
    by = "how like the group's other answers to the same cue an answer is"
    if len(rows[0]):
        by += ": the share of them that are the same"
    if len(rows[1]):
        by += "; for longer texts, the mean cosine similarity of sentence embeddings"
    table = pd.concat(rows, ignore_index=True).sort_values("share", ascending=False, kind="stable", ignore_index=True)
    return Examples(f"{by} (less variety, lower P_d)", table[list(EXAMPLE_COLUMNS)])


def _expressions(responses: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """One row per group, cue and category, with the first answer that has it."""
    counts = kept.groupby([*_KEYS, "category"], observed=True, sort=False)["count"].sum().reset_index()
    counts["n"] = counts.groupby(_KEYS, observed=True)["count"].transform("sum")
    said = responses.reindex(columns=[*_KEYS, "answer", "prompt", "text"]).drop_duplicates([*_KEYS, "answer"])
    rows = counts.merge(said.rename(columns={"answer": "category"}), "left", [*_KEYS, "category"])
    rows["share"] = (rows["count"] - 1) / (rows["n"] - 1).clip(lower=1)
    rows["note"] = [
        f"{count:,} of {n:,} answers of this group to this cue {are(count)} the same"
        for count, n in zip(rows["count"], rows["n"], strict=True)
    ]
    return rows


def _texts(responses: pd.DataFrame, long: pd.DataFrame) -> pd.DataFrame:
    """One row per text that has an embedding; none where the responses are not those of the features."""
    empty = pd.DataFrame(columns=[*EXAMPLE_COLUMNS, "share"])
    if long.empty:
        return empty
    free = responses["word_limit"].isna() & responses["prompt_id"].isin(long["prompt_id"].unique())
    said = responses[free].reset_index(drop=True).reindex(columns=[*_KEYS, "prompt", "text"])
    long = long.reset_index(drop=True)
    if len(said) != len(long) or not said[_KEYS].astype(str).equals(long[_KEYS].astype(str)):
        return empty
    made = [empty]
    for _, rows in long[long["kept"]].groupby(_KEYS, observed=True, sort=False):
        vectors = np.stack([np.asarray(vector, dtype=float) for vector in rows["embedding"]])
        if len(vectors) < 2:
            continue
        share = (vectors @ vectors.sum(axis=0) - 1) / (len(vectors) - 1)
        notes = [f"mean similarity to the group's other texts: {value:.2f}" for value in share]
        made.append(said.loc[rows.index].assign(share=share, note=notes)[[*EXAMPLE_COLUMNS, "share"]])
    return pd.concat([part for part in made if len(part)] or [empty], ignore_index=True)
