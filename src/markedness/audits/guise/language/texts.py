"""The texts of a study, one a row, with what can be counted in them; the texts themselves are not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from markedness.audits.guise.language.features import CONTROLS, TOTAL, counters, n_words
from markedness.audits.guise.language.topics import topics

COUNT = "count "
"""Prefix of the columns with counts, before the feature."""
_OF_TEXT = ["text_set", "setting", "control", "pair", "group", "cluster", "marked"]


def text_table(rows: pd.DataFrame, own: Mapping[str, str], verbs: Sequence[str], topics_by: str) -> pd.DataFrame:
    """One row per text and guise.

    Parameters
    ----------
    rows
        Responses with text_set, setting, control, pair, group, cluster, marked and utterance (the text).
    own, verbs
        See `markedness.audits.guise.language.features.counters`.
    topics_by
        See `markedness.audits.guise.language.topics.topics`; "": topics are not measured.

    Returns
    -------
    DataFrame
        ``text_set``, ``setting``, ``control``, ``pair``, ``group`` (the guise), ``cluster``, ``marked``, ``words`` (how
        many), ``topic`` (texts that are not matched; missing elsewhere) and ``count <feature>`` for each feature. Empty
        where the data do not hold the texts.
    """
    rows = rows.reindex(columns=[*_OF_TEXT, "utterance"])
    text = rows["utterance"].astype("string").fillna("")
    there = text.str.strip().ne("") & rows["group"].fillna("").ne("") & rows["setting"].ne("overt")
    made = rows[there].drop_duplicates(["text_set", "pair", "group"]).reset_index(drop=True)
    texts = [str(one) for one in made["utterance"]]
    found = counters(own, verbs)
    made["words"] = [n_words(one) for one in texts]
    for name, count in found.items():
        made[COUNT + name] = [count(one) for one in texts]
    features = [COUNT + name for name in found if name not in CONTROLS]
    made[COUNT + TOTAL] = made[features].sum(axis=1).astype("int64")
    made["topic"] = pd.Series(pd.NA, index=made.index, dtype="string")
    unmatched = made["setting"].eq("unmatched").to_numpy()
    if topics_by and unmatched.any():
        chosen = [one for one, kept in zip(texts, unmatched, strict=True) if kept]
        made.loc[unmatched, "topic"] = topics(chosen, topics_by)
    return made.drop(columns="utterance")
