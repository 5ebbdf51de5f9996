"""The texts of a model that drive the score that leads its card, and the few of them that are shown."""

from __future__ import annotations

import pandas as pd

from markedness import audits
from markedness.audits.base import EXAMPLE_COLUMNS, Examples
from markedness.params import Params
from markedness.records import Unsupported
from markedness.reporting.results import read
from markedness.store import Store

LONGEST_TEXT = 3000
"""Letters of a text that is shown or logged."""
EXTREME, MIDDLE = "among the first", "from the middle of the order"
"""Why a text was picked."""


def examples(params: Params, audit: str, model: str) -> Examples | None:
    """The texts of one audit of one model; None where it cannot say which they are."""
    spec, store = audits.spec(audit), Store(params.root)
    result = read(store, audit, model, spec.card)
    places = (store.features_path(audit, model), store.table_path("responses", audit, model))
    if spec.examples is None or result is None or not all(place.exists() for place in places):
        return None
    features = store.read_features(audit, model)
    if isinstance(features, Unsupported):
        return None
    responses = store.read_table("responses", audit, model)
    return spec.examples(responses, features.tables, result.table, params.stage(audit, "evaluate"))


def samples(params: Params, audit: str, model: str) -> pd.DataFrame | None:
    """The texts that `track.samples` asks for."""
    if not params.track.samples or (found := examples(params, audit, model)) is None:
        return None
    rows = picked(found.rows, params.track.samples).fillna("").astype(str)
    return rows.assign(**{column: rows[column].str.slice(0, LONGEST_TEXT) for column in ("prompt", "text", "note")})


def picked(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """Of each group the first texts and, last, one from the middle, ``most`` in all, with a column ``place``.

    Where a group has fewer than twice as many texts, all are the first.
    """
    rows = rows[rows["text"].notna() & rows["text"].astype(str).str.strip().ne("")]
    parts = []
    for _, of_group in rows.groupby("group", sort=True, dropna=False, observed=True):
        many = most > 1 and len(of_group) >= 2 * most
        parts.append(of_group.head(most - 1 if many else most).assign(place=EXTREME))
        if many:
            parts.append(of_group.iloc[[len(of_group) // 2]].assign(place=MIDDLE))
    empty = pd.DataFrame(columns=[*EXAMPLE_COLUMNS, "place"])
    return pd.concat([part for part in parts if len(part)] or [empty], ignore_index=True)
