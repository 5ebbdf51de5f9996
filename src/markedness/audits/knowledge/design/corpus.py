"""Triples that exist already, as rows of a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from markedness.audits.knowledge.design.subjects import label
from markedness.axes import Axes
from markedness.records import AuditError, composed

NO_TRIPLES = {"list", "judge"}
"""Strategies of a crawl whose answers are not triples."""


class _Subject(NamedTuple):
    axis: str
    key: str
    label: str
    reference: str
    place: int


def as_crawl(rows: pd.DataFrame, axes: Axes, invalid_words: str, arms: Sequence[str] = ("both",)) -> pd.DataFrame:
    """Give published triples the columns of a crawl.

    Parameters
    ----------
    rows
        subject (key or label), predicate, object; optional: class, crawl, round, strategy, arm, prompt_id (where it is
        empty: class, round and strategy).
    axes
        The classes; where ``rows`` has no class, a subject belongs to the first class that has it.
    invalid_words
        See `markedness.audits.knowledge.design.triples.read_triples`.
    arms
        ``knowledge.generate.arms``: the first is analysed, whatever the order of the rows. Without a column ``arm``
        all rows are.

    Returns
    -------
    DataFrame
        The same rows with their index, by class and subject in the order of ``axes``.

    Raises
    ------
    AuditError
        Naming the first subject that is in none of the classes; when some rows alone name their crawl or arm; when a
        strategy is that of an answer which is no triple; when no row has the arm that is to be analysed.
    """
    subjects: dict[tuple[str, str], _Subject] = {}
    for axis, of_class in axes.items():
        for place, key in enumerate(of_class.values):
            subject = _Subject(axis, key, label(axes, axis, key), label(axes, axis, of_class.unmarked), place)
            for name in (key, subject.label):
                subjects.setdefault((axis, composed(name)), subject)
                subjects.setdefault(("", composed(name)), subject)
    given = rows["class"].fillna("").astype(str) if "class" in rows else pd.Series("", index=rows.index)
    keys = list(zip(given, rows["subject"].astype(str).map(composed), strict=True))
    unknown = next((key for key in keys if key not in subjects), None)
    if unknown is not None:
        of = f" of the class '{unknown[0]}'" if unknown[0] else ""
        raise AuditError(
            f"knowledge: the corpus has the subject '{unknown[1]}'{of}, which is no value of knowledge.axes; "
            "add it there or map it with values.subject"
        )
    for column in ("crawl", "arm"):
        if column in rows and 0 < (unnamed := int(rows[column].fillna("").eq("").sum())) < len(rows):
            raise AuditError(
                f"knowledge: the column '{column}' of the corpus is empty in {unnamed} rows; fill it or leave it out"
            )
    if "strategy" in rows and (own := set(rows["strategy"].dropna()) & NO_TRIPLES):
        raise AuditError(
            f"knowledge: the strategy '{min(own)}' of the corpus is what a crawl calls an answer that is no triple; "
            "map it to another name with values.strategy, or leave these rows out"
        )
    arm = _arms(rows, arms[0])
    found = [subjects[key] for key in keys]
    full = rows.assign(
        text=rows["object"], subject=[one.label for one in found], group=[one.key for one in found],
        reference=[one.reference for one in found], place=[one.place for one in found], arm=arm,
        attempt=0, invalid_words=invalid_words, strategy=rows.get("strategy", "corpus"),
    )  # fmt: skip
    full["class"] = [one.axis for one in found]
    full["round"] = _rounds(rows["round"]) if "round" in rows else 0
    full["analysed"] = full["arm"].eq(arms[0])
    full["crawl"] = rows["crawl"].replace("", pd.NA) if "crawl" in rows else pd.NA
    full["planned"] = full.groupby(["class", "subject", "arm", "crawl"], dropna=False)["text"].transform("size")
    made = full["class"].astype(str) + "/" + full["round"].astype(str) + "/" + full["strategy"].astype(str)
    given = rows["prompt_id"].astype("string").fillna("") if "prompt_id" in rows else made
    full["prompt_id"] = given.where(given.ne(""), made)
    classes = full["class"].map({axis: number for number, axis in enumerate(axes)})
    return full.drop(columns="object").iloc[np.lexsort((full["place"], classes))]


def _rounds(cells: pd.Series) -> pd.Series:
    """The round of each row; the first, 0, where the cell is empty."""
    rounds = pd.to_numeric(cells, errors="coerce")
    strange = cells[(rounds.isna() | (rounds % 1).ne(0)) & cells.astype("string").fillna("").str.strip().ne("")]
    if len(strange):
        raise AuditError(
            f"knowledge: the corpus has the round '{strange.iloc[0]!s:.40}', which is no whole number; map it with "
            "values.round, or leave the cell empty"
        )
    return rounds.fillna(0).astype(int)


def _arms(rows: pd.DataFrame, analysed: str) -> pd.Series:
    """The arm of each row; that which is analysed where the corpus has no arms."""
    given = rows["arm"].astype("string").fillna("") if "arm" in rows else pd.Series("", index=rows.index)
    if given.eq("").all():
        return pd.Series(analysed, index=rows.index, dtype="string")
    if not given.eq(analysed).any():
        raise AuditError(
            f"knowledge: no row of the corpus has the arm '{analysed}', which is analysed; its arms are "
            f"{', '.join(sorted(given.unique()))}: name one of them first in knowledge.generate.arms, or map it with "
            "values.arm"
        )
    return given
