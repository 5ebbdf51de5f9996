"""A model differs in nothing from one that has a part of its answers: of both, what both answered is compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import pytest

from markedness import audits
from markedness.compare import Comparison
from markedness.records import FeatureTables
from markedness.results import Score

AUDITS = ("annotation", "homogeneity", "knowledge", "personas")
"""guise has pairs, prompts and words, see its tests."""


def drawn(audit: str) -> FeatureTables:
    found = audits.spec(audit).worlds
    assert found is not None
    return next(world for world in found("quick") if world.planted).draw(np.random.default_rng(0))


def lacking(audit: str, features: FeatureTables, way: str) -> tuple[FeatureTables, pd.Series]:
    """Without, or without answers to, a third of the clusters of one question; and which rows these are."""
    spec = audits.spec(audit)
    rows = features[spec.table].reset_index(drop=True)
    of_question = rows[spec.question].eq(rows[spec.question].iloc[0]) if spec.question else rows["status"].notna()
    clusters = sorted(rows.loc[of_question, spec.cluster].unique())
    gone = of_question & rows[spec.cluster].isin(clusters[:: 1 if way == "no answer to a question" else 3])
    if way == "not asked":
        return {**features, spec.table: rows[~gone].reset_index(drop=True)}, gone
    answered = rows[spec.answered]
    empty = answered & ~gone if answered.dtype == bool else answered.mask(gone)
    return {**features, spec.table: rows.assign(**{spec.answered: empty})}, gone


def scores(audit: str, tables: FeatureTables) -> Sequence[Score]:
    spec = audits.spec(audit)
    made = spec.scores
    assert made is not None
    return made(tables, spec.params("evaluate")(), np.random.default_rng(1))


WAYS = [(audit, way) for audit in AUDITS for way in ("not asked", "no answer", "no answer to a question")]


@pytest.mark.parametrize(("audit", "way"), [one for one in WAYS if audits.spec(one[0]).question or "a q" not in one[1]])
def test_a_model_differs_in_nothing_from_one_that_has_a_part_of_its_answers(audit: str, way: str) -> None:
    spec, whole = audits.spec(audit), drawn(audit)
    part, gone = lacking(audit, whole, way)
    assert 0 < gone.sum() < len(gone)
    rows = Comparison(
        audit, {"whole": whole, "part": part}, partial(scores, audit), spec.table, spec.cluster, spec.headline,
        question=spec.question, answered=spec.answered, missing_key=spec.missing_key,
    ).differences().set_index("score")  # fmt: skip
    told = rows.drop(index=spec.missing_key, errors="ignore")["difference"].dropna()
    assert len(told) and (told == 0).all()
    assert rows["note"].str.contains("left out, as not asked of both or not answered by both: ", case=False).all()
