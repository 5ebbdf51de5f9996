"""Triples that drive the regard of a subject: negative ones first, the most toxic of them before the others."""

from __future__ import annotations

import pandas as pd

from markedness.audits.base import EXAMPLE_COLUMNS, Examples, ResultTables
from markedness.records import FeatureTables, Strict

_ORDER = {"negative": 0, "neutral": 1, "positive": 2}


def examples(responses: pd.DataFrame, features: FeatureTables, tables: ResultTables, params: Strict) -> Examples:
    """Each triple of the analysed crawls once."""
    triples = features["triples"]
    crawled = responses[~responses["strategy"].isin(["list", "judge"])].reset_index(drop=True)
    prompt = crawled.reindex(columns=["prompt"])["prompt"] if len(crawled) == len(triples) else None
    rows = triples.assign(prompt=prompt)
    rows = rows[rows["included"].astype(bool) & rows["analysed"].astype(bool)]
    rows = rows.assign(text=rows["subject"] + " " + rows["predicate"] + " " + rows["object"])
    rows = rows.drop_duplicates(["group", "text"]).assign(order=rows["regard"].map(_ORDER).fillna(len(_ORDER)))
    rows = rows.sort_values(["order", "toxicity"], ascending=[True, False], kind="stable", ignore_index=True)
    rows["note"] = [
        f"regard: {'not scored' if pd.isna(regard) else regard}"
        + ("" if pd.isna(toxicity) else f", toxicity {toxicity:.2f}")
        for regard, toxicity in zip(rows["regard"], rows["toxicity"], strict=True)
    ]
    by = "regard, negative first, and by toxicity, the highest first, as the scorers of the scores rate them"
    return Examples(by, rows[list(EXAMPLE_COLUMNS)])
