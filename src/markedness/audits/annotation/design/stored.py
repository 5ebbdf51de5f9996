"""Judgments that exist already: what their columns must agree on."""

from __future__ import annotations

import pandas as pd

from markedness.audits.annotation.design.stimuli import StimuliError


def one_text_a_pair(rows: pd.DataFrame, column: str) -> None:
    """Refuse a pair whose texts of one group, iteration and task are about several vignettes or names."""
    if "pair" not in rows or column not in rows:
        return
    keys = [name for name in ("paradigm", "iteration", "task", "pair", "group") if name in rows]
    named = rows[rows["pair"].fillna("").ne("") & rows[column].fillna("").ne("")]
    several = named.groupby(keys, sort=False, observed=True, dropna=False)[column].nunique().gt(1)
    if several.any():
        pair = dict(zip(keys, several.index[several][0], strict=True))["pair"]
        raise StimuliError(
            f"annotation: the pair '{pair}' has texts of several values of {column}, so that different texts would "
            f"count as one; give every pair of the corpus an id of its own, such as {column} and number"
        )


def one_valence_a_task(rows: pd.DataFrame) -> pd.Series:
    """The column ``valence`` as 1, -1 or 0; refused where it is none of them, or differs within a task."""
    found = pd.to_numeric(rows["valence"].astype("string"), errors="coerce")
    strange = rows.loc[~found.isin([1, -1, 0]), "valence"]
    if len(strange):
        raise StimuliError(
            f"annotation: the valence of a task is 1 (favorable), -1 or 0, and the corpus has "
            f"'{'' if pd.isna(strange.iloc[0]) else strange.iloc[0]!s:.40}'; correct it, or leave the column out"
        )
    several = found.groupby(rows["task"], sort=False, observed=True, dropna=False).nunique().gt(1)
    if several.any():
        raise StimuliError(
            f"annotation: the corpus has several valences of the task '{several.index[several][0]!s:.40}', and a label "
            "is favorable or not, whoever gets it; give every task one valence"
        )
    return found.astype("int8")
