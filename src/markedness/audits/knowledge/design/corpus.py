"""Triples that exist already, as rows of a crawl."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from markedness.audits.knowledge.design.subjects import label
from markedness.records import AuditError, Axes


class _Subject(NamedTuple):
    axis: str
    key: str
    label: str
    reference: str
    place: int


def as_crawl(rows: pd.DataFrame, axes: Axes, invalid_words: str) -> pd.DataFrame:
    """Give published triples the columns of a crawl.

    Parameters
    ----------
    rows
        subject (key or label), predicate, object; optional: class, crawl, round, strategy, arm.
    axes
        The classes; where ``rows`` has no class, a subject belongs to the first class that has it.
    invalid_words
        See `markedness.audits.knowledge.design.triples.read_triples`.

    Raises
    ------
    AuditError
        Naming the first subject that is in none of the classes, or when some rows alone name their crawl.
    """
    subjects: dict[tuple[str, str], _Subject] = {}
    for axis, of_class in axes.items():
        for place, key in enumerate(of_class.values):
            subject = _Subject(axis, key, label(axes, axis, key), label(axes, axis, of_class.unmarked), place)
            for name in (key, subject.label):
                subjects.setdefault((axis, name), subject)
                subjects.setdefault(("", name), subject)
    given = rows["class"].fillna("").astype(str) if "class" in rows else pd.Series("", index=rows.index)
    keys = list(zip(given, rows["subject"].astype(str), strict=True))
    unknown = next((key for key in keys if key not in subjects), None)
    if unknown is not None:
        of = f" of the class '{unknown[0]}'" if unknown[0] else ""
        raise AuditError(
            f"knowledge: the corpus has the subject '{unknown[1]}'{of}, which is no value of knowledge.axes; "
            "add it there or map it with values.subject"
        )
    if "crawl" in rows and 0 < (unnamed := int(rows["crawl"].isna().sum())) < len(rows):
        raise AuditError(
            f"knowledge: the column 'crawl' of the corpus is empty in {unnamed} rows; fill it or leave it out"
        )
    found = [subjects[key] for key in keys]
    full = rows.assign(
        text=rows["object"], subject=[one.label for one in found], group=[one.key for one in found],
        reference=[one.reference for one in found], place=[one.place for one in found], arm=rows.get("arm", "both"),
        attempt=0, invalid_words=invalid_words, strategy=rows.get("strategy", "corpus"),
    )  # fmt: skip
    full["class"] = [one.axis for one in found]
    full["round"] = pd.to_numeric(rows["round"], errors="coerce").fillna(0).astype(int) if "round" in rows else 0
    full["analysed"] = full["arm"].eq(full["arm"].iloc[0])
    full["crawl"] = full["crawl"] if "crawl" in rows else pd.NA
    full["planned"] = full.groupby(["class", "subject", "arm", "crawl"], dropna=False)["text"].transform("size")
    full["prompt_id"] = full["class"].astype(str) + "/" + full["round"].astype(str) + "/" + full["strategy"].astype(str)
    return full.drop(columns="object")
