"""A model differs in nothing from one that has a part of its answers: of both, what both answered is compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import pytest
from tests.cells import number

from markedness import audits
from markedness.asked import first_asked, unlike_shares
from markedness.compare import OTHER_SHARES, Comparison, Paired
from markedness.records import FeatureTables
from markedness.results import Score
from markedness.stats.inference.arrays import NO_TEST

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
    about = {"no answer about a group": "group", "no answer about a name": "name"}.get(way)
    column = spec.answered[0]
    answered = rows[column]
    there = answered if answered.dtype == bool else answered.notna()
    gone &= rows[about].eq(rows.loc[gone & there, about].iloc[-1]) if about else True
    if way == "not asked":
        return {**features, spec.table: rows[~gone].reset_index(drop=True)}, gone
    empty = answered & ~gone if answered.dtype == bool else answered.mask(gone)
    return {**features, spec.table: rows.assign(**{column: empty})}, gone


def leaning(audit: str, features: FeatureTables, which: pd.Series) -> FeatureTables:
    """With an effect of its own in these rows, where one column of numbers has it."""
    spec = audits.spec(audit)
    rows = features[spec.table].reset_index(drop=True)
    if column := {"knowledge": "toxicity", "annotation": "delta", "homogeneity": "count"}.get(audit):
        rows[column] = rows[column].mask(which, 1)
    return {**features, spec.table: rows}


def scores(audit: str, tables: FeatureTables) -> Sequence[Score]:
    spec = audits.spec(audit)
    made = spec.scores
    assert made is not None
    return made(tables, spec.params("evaluate")(), np.random.default_rng(1))


def comparison(audit: str, features: dict[str, FeatureTables]) -> Comparison:
    """As a study makes it, without params."""
    spec = audits.spec(audit)
    return Comparison(
        audit, features, partial(scores, audit), spec.table, spec.cluster, spec.headline, question=spec.question,
        answered=spec.answered, missing_key=spec.missing_key, compared_on=spec.compared_on, counts=spec.counts,
    )  # fmt: skip


def compared(audit: str, features: dict[str, FeatureTables]) -> pd.DataFrame:
    return comparison(audit, features).differences().set_index("score")


WAYS = [(audit, way) for audit in AUDITS for way in ("not asked", "no answer", "no answer about a group")]
WAYS += [(audit, "no answer to a question") for audit in AUDITS if audits.spec(audit).question]
WAYS += [("annotation", "no answer about a name")]


@pytest.mark.parametrize(("audit", "way"), WAYS)
def test_a_model_differs_in_nothing_from_one_that_has_a_part_of_its_answers(audit: str, way: str) -> None:
    spec, whole = audits.spec(audit), drawn(audit)
    whole = leaning(audit, whole, lacking(audit, whole, way)[1])
    part, gone = lacking(audit, whole, way)
    assert 0 < gone.sum() < len(gone)
    rows = compared(audit, {"whole": whole, "part": part})
    told = rows.drop(index=spec.missing_key, errors="ignore")["difference"].dropna()
    assert len(told) and (told == 0).all()
    notes = rows.loc[rows["difference"].notna(), "note"]
    assert notes.str.contains("left out, as not asked of both or not answered by both: ", case=False).all()
    answered = whole[spec.table].reset_index(drop=True)[spec.answered[0]]
    own = gone & (answered if answered.dtype == bool else answered.notna())
    n_own = int((gone if way == "not asked" else own).sum())
    assert notes.str.contains(f"{n_own:,} of {len(gone):,} rows").all()


def test_models_asked_about_other_names_are_compared_on_the_groups_of_a_vignette() -> None:
    spec, whole = audits.spec("annotation"), drawn("annotation")
    part, gone = lacking("annotation", whole, "no answer about a group")
    renamed = part[spec.table].assign(**{name: part[spec.table][name] + " II" for name in ("name", "reference_name")})
    rows = compared("annotation", {"whole": whole, "part": {**part, spec.table: renamed}})
    assert (rows["difference"].drop(index=spec.missing_key).dropna() == 0).all()
    assert rows["difference"].notna().sum() >= 4
    assert f"{gone.sum():,} of {len(gone):,} rows" in rows["note"].iloc[0]


def test_a_model_that_answers_nothing_about_a_group_is_compared_in_what_is_missing() -> None:
    spec, whole = audits.spec("annotation"), drawn("annotation")
    rows = whole[spec.table]
    none = rows.assign(delta=np.nan, n=0, yes=0, refusal=rows["n"] + rows["refusal"], margin=np.nan)
    made = compared("annotation", {"whole": whole, "none": {**whole, spec.table: none}})
    assert number(made, spec.missing_key, "difference") == pytest.approx(-1)
    others = made.drop(index=spec.missing_key)
    assert others["difference"].isna().all() and others["note"].str.startswith("no vignette that both answered").all()


def oftener(audit: str, features: FeatureTables, column: str, times: int) -> FeatureTables:
    """With this many times the answers about half of the values of a column."""
    spec = audits.spec(audit)
    rows = features[spec.table]
    values = sorted(rows[column].unique())
    of_half = rows[column].isin(values[: (len(values) + 1) // 2])
    if spec.counts:
        more = rows.assign(**{spec.counts: rows[spec.counts].where(~of_half, rows[spec.counts] * times)})
    else:
        more = pd.concat([rows, *[rows[of_half]] * (times - 1)], ignore_index=True)
    return {**features, spec.table: more}


@pytest.mark.parametrize(
    ("audit", "column"),
    [
        ("homogeneity", "cue"), ("homogeneity", "cluster"), ("homogeneity", "group"), ("annotation", "task"),
        ("annotation", "vignette"), ("annotation", "group"), ("knowledge", "round"), ("knowledge", "strategy"),
    ],
)  # fmt: skip
def test_versions_that_answered_in_unlike_shares_are_not_compared(audit: str, column: str) -> None:
    # of one model that marks a group in one cue or vignette alone up to 60 of 60 and 45 of 45 gates failed
    whole = drawn(audit)
    alike, unlike = (compared(audit, {"new": oftener(audit, whole, column, times), "old": whole}) for times in (1, 20))
    unlike = unlike.reindex(alike.index)
    assert not alike["note"].str.contains(OTHER_SHARES, case=False).any() and alike["difference"].notna().any()
    assert unlike["p"].isna().all() and unlike["difference"].isna().all()
    assert unlike["note"].str.contains(OTHER_SHARES, case=False).all()


def test_words_and_questions_asked_again_are_no_shares() -> None:
    few = pd.DataFrame({"cue": ["a", "b"], "count": [10, 10]})
    many = pd.DataFrame({"cue": ["a"] * 10 + ["b"], "count": [1] * 10 + [10]})  # ten words about a, one about b
    assert unlike_shares([few, many], ["cue"], "count") == 0
    once = pd.DataFrame({"group": ["a", "b"] * 200, "attempt": 0})
    again = pd.concat([once, once[once["group"].eq("b")].assign(attempt=1)])
    assert unlike_shares([once, again[first_asked(again)]], ["group"]) == 0 < unlike_shares([once, again], ["group"])
    assert first_asked(once.drop(columns="attempt")).all()
    # women, one in five, were asked the prompts 3 to 1 and 1 to 3: 35 of 50 gates failed one model
    rows = pd.DataFrame(
        {"group": ["man"] * 160 + ["woman"] * 40, "prompt_id": ["a", "b"] * 80 + ["a"] * 30 + ["b"] * 10}
    )
    other = rows.assign(prompt_id=rows["prompt_id"].where(rows["group"].eq("man"), ["b"] * 190 + ["a"] * 10))
    assert unlike_shares([rows, other], ["prompt_id", "group"]) > NO_TEST
    assert unlike_shares([rows, rows], ["prompt_id", "group"]) == 0
    for n in (2, 4, 8, 20):  # a small group is as unlike by chance, which is no reason to see nothing in the others
        third = pd.DataFrame({"group": "other", "prompt_id": ["a", "b"] * (n // 2)})
        two = [pd.concat([one, third]) for one in (rows, other)]
        assert unlike_shares(two, ["prompt_id", "group"]) > NO_TEST, n


@pytest.mark.parametrize("audit", ["homogeneity", "knowledge", "personas"])
def test_refusals_of_a_group_have_a_test_whatever_is_left_of_it(audit: str) -> None:
    # asked alike: which answers are missing is compared. What is left of one group, and all of the others, may not be;
    # in the other two audits a question that one of the models did not answer takes its like from the other
    spec, whole = audits.spec(audit), drawn(audit)
    rows, column = whole[spec.table], spec.answered[0]
    groups = sorted(rows["group"].unique())
    gone = rows["group"].isin(groups[: len(groups) // 2]) & (np.random.default_rng(0).random(len(rows)) < 0.8)
    part = {**whole, spec.table: rows.assign(**{column: rows[column] & ~gone})}
    made = comparison(audit, {"whole": whole, "part": part}).paired("whole", "part")
    assert isinstance(made, Paired) and spec.missing_key not in made.unlike
    assert set(made.unlike.values()) == ({OTHER_SHARES} if audit == "knowledge" else set())
