"""Which text a stored score is of: its pair, text set and cluster."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.records import AuditError

UNMATCHED = " (unmatched)"
"""Ending of the text set of the rows without a pair, where others of the set have one."""


def with_pairs(rows: pd.DataFrame, of_guise: pd.Series[bool], overt: pd.Series[bool]) -> pd.DataFrame:
    """Add ``pair``, ``setting``, ``pairs`` (the text set) and ``cluster``.

    A row of a guise with an empty ``pair``, or all where there is no such column, are of texts that are not matched. A
    text is known by its ``utterance``, else by its ``cluster`` or ``verb``; several scores of one prompt and candidate
    beyond that are numbered in the order of the rows. The texts of each guise are then numbered in the order of their
    names, so that a number is one text of a guise, in all prompts and candidates, whatever the order of the rows.

    Parameters
    ----------
    rows
        task, kind, prompt_id, group, candidate; optional: pair, setting, pairs, cluster, verb, utterance.
    of_guise
        Whether a row is of a guise; the others, of the neutral context, have no text.
    overt
        Whether a row's texts are words for the groups.

    Raises
    ------
    AuditError
        When unmatched scores of a decision do not say which text they are of; when one pair has texts of two clusters,
        or two texts of one guise; when a row of the setting matched has no pair.
    """
    rows = rows.copy()
    named = [rows[column].astype("string") for column in ("cluster", "verb") if column in rows]
    rows["cluster"] = named[0].mask(named[0].eq("")) if named else pd.Series(pd.NA, rows.index, "string")
    given = (rows["pair"] if "pair" in rows else pd.Series("", rows.index)).astype("string").fillna("")
    lacking = of_guise & given.eq("")
    if "setting" not in rows:
        rows["setting"] = np.where(overt, "overt", np.where(lacking, "unmatched", "matched"))
    elif (wrong := lacking & rows["setting"].eq("matched")).any():
        raise AuditError(
            f"guise: {int(wrong.sum())} rows of the setting matched have no pair, so that nothing matches their texts; "
            "fill the column pair or leave out the column setting"
        )
    if "pairs" not in rows:
        rows["pairs"] = np.where(overt, "overt", "corpus")
    mixed = rows["pairs"].isin(rows.loc[of_guise & ~lacking, "pairs"]) & lacking & ~overt
    rows["pairs"] = rows["pairs"].astype("string").mask(mixed, rows["pairs"].astype("string") + UNMATCHED)
    given = given.mask(lacking, _numbered(rows[lacking]))
    rows["pair"] = rows["pairs"] + "/" + given
    clusters = rows[of_guise].groupby(["task", "pair", "group"])["cluster"].nunique()
    if (clusters > 1).any():
        _, pair, group = clusters.index[clusters > 1][0]
        raise AuditError(
            f"guise: the pair '{pair.partition('/')[2]}' has texts of several verbs or clusters for {group}; give "
            "every pair of the corpus an id of its own"
        )
    _one_text_a_pair(rows[of_guise & ~lacking])
    return rows


def _one_text_a_pair(rows: pd.DataFrame) -> None:
    """Refuse a pair with several texts of one guise: their scores would be averaged to those of one text."""
    if "utterance" not in rows or rows.empty:
        return
    texts = rows["utterance"].astype("string")
    texts = texts.mask(texts.eq(""))
    several = texts.groupby([rows["task"], rows["pair"], rows["group"]]).nunique().gt(1)
    if several.any():
        _, pair, group = several.index[several][0]
        raise AuditError(
            f"guise: the pair '{pair.partition('/')[2]}' has several texts for {group}; give every pair of the corpus "
            "an id of its own"
        )


def _numbered(rows: pd.DataFrame) -> pd.Series:
    """The number of the text of each row among those of its task, text set and guise, as text with leading zeros."""
    if rows.empty:
        return pd.Series([], index=rows.index, dtype="string")
    text = (rows["utterance"] if "utterance" in rows else pd.Series("", rows.index)).astype("string").fillna("")
    text = text.where(text.ne(""), rows["cluster"].fillna(""))
    of_set = ["task", "pairs", "group"]
    again = rows.assign(text=text).groupby([*of_set, "prompt_id", "candidate", "text"], dropna=False).cumcount()
    unclear = rows["kind"].eq("decision") & again.gt(0)
    if unclear.any():
        raise AuditError(
            f"guise: several scores of the prompt '{rows.loc[unclear, 'prompt_id'].iloc[0]}' and of one word are of "
            "texts that nothing tells apart, and a decision compares words after one text; give the corpus a column "
            "pair or utterance"
        )
    names = text + "\n" + again.astype("string").str.zfill(9)
    numbers = names.groupby([rows[column] for column in of_set], dropna=False).rank(method="dense").astype("int64")
    return numbers.astype("string").str.zfill(5)
