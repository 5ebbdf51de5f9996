"""Judgments that exist already: what their columns must agree on."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from markedness.audits.annotation.design.stimuli import StimuliError


def one_text_a_pair(rows: pd.DataFrame, groups: Collection[str]) -> None:
    """Refuse a pair whose texts of one group, iteration and task are about several vignettes or names.

    Where a text has no pair, it is matched by its vignette: that must have one name of each group. Refuse a text of a
    name's group and of a dialect, too, which is none of ``groups``: there is none that it could be compared with.
    """
    if crossed := [group for group in rows["group"].dropna().unique() if group and group not in groups]:
        raise StimuliError(
            f"annotation: the corpus has rows of '{crossed[0]}', both a name's group and a dialect, and a text is "
            "compared by one of them; leave the other out of models.<model>.annotation.columns, or its cells blank"
        )
    paired = rows["pair"].fillna("").ne("") if "pair" in rows else pd.Series(False, rows.index)
    for column in ("vignette", "name"):
        for matched, of_it in (("pair", rows[paired]), ("vignette", rows[~paired])):
            if column in rows and matched in rows and column != matched:
                _one_text(of_it, matched, column)


def _one_text(rows: pd.DataFrame, matched: str, column: str) -> None:
    keys = [name for name in ("paradigm", "iteration", "task", matched, "group") if name in rows]
    there = [rows[name].fillna("").ne("") for name in (matched, column, "group")]
    named = rows[np.all(there, axis=0)]  # without a group a row counts nowhere
    several = named.groupby(keys, sort=False, observed=True, dropna=False)[column].nunique().gt(1)
    if several.any():
        pair = dict(zip(keys, several.index[several][0], strict=True))[matched]
        if matched == "vignette":
            raise StimuliError(
                f"annotation: the vignette '{pair!s:.40}' has texts of several names of one group, so that it is not "
                "known which two are compared, and names would not count as sampled; name a column of pairs (pair)"
            )
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


def misspelt_task(tasks: pd.Series, known: Collection[str]) -> None:
    """Refuse a task that is a known one but for case or blanks: its valence would count as 0."""
    folded = {"".join(task.casefold().split()): task for task in known}
    for task in map(str, tasks.dropna().unique()):
        meant = folded.get("".join(task.casefold().split()), task)
        if meant != task and task not in known:
            raise StimuliError(
                f"annotation: the corpus has the task '{task:.40}', which the tasks file spells '{meant}'; spell it "
                "so, or give a column valence"
            )
