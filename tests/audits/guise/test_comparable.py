"""Two models are compared on the prompts, texts and words that both were asked and scored, and on no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from tests.cells import number

from markedness.audits.guise import SPEC
from markedness.audits.guise.estimators.comparable import comparable
from markedness.audits.guise.estimators.scores import headline
from markedness.audits.guise.evaluate import Params
from markedness.audits.guise.worlds import worlds
from markedness.compare import APART, ONE, Comparison
from markedness.records import FeatureTables

Rows = Callable[[pd.DataFrame], pd.Series]


def drawn(seed: int = 0) -> FeatureTables:
    return next(world for world in worlds("quick") if world.name == "planted").draw(np.random.default_rng(seed))


def without(features: FeatureTables, which: Rows) -> FeatureTables:
    rows = features["scores"]
    return {**features, "scores": rows[~which(rows)].reset_index(drop=True)}


def unscored(features: FeatureTables, which: Rows) -> FeatureTables:
    rows = features["scores"].copy()
    rows.loc[which(rows), ["log_prob", "log_prob_reference"]] = np.nan
    return {**features, "scores": rows.assign(missing=rows["missing"].astype(object).mask(which(rows), "timeout"))}


def leaning(features: FeatureTables, which: Rows, by: float) -> FeatureTables:
    """With an effect of its own in these rows."""
    rows = features["scores"].copy()
    stereotypical = features["attributes"].query("task == 'traits'").nlargest(5, "percent_1933")["attribute"]
    rows.loc[which(rows) & rows["attribute"].isin(stereotypical), "log_prob"] += by
    return {**features, "scores": rows}


def compared(features: Mapping[str, FeatureTables]) -> pd.DataFrame:
    made = Comparison(
        "guise", features, lambda tables: headline(tables, Params(), np.random.default_rng(1)), SPEC.table,
        SPEC.cluster, SPEC.headline, comparable=SPEC.comparable, answered=SPEC.answered, missing_key=SPEC.missing_key,
        compared_on=SPEC.compared_on,
    )  # fmt: skip
    return made.differences()


def of_pair(rows: pd.DataFrame, a: str = "", b: str = "") -> pd.DataFrame:
    """The differences of two models, by default of the first two, by score."""
    a, b = a or rows["model_a"].iloc[0], b or rows["model_b"].iloc[0]
    return rows[rows["model_a"].eq(a) & rows["model_b"].eq(b)].set_index("score")


@dataclass(frozen=True)
class Part:
    """Rows of the whole model whose answers another one repeats, and does not have at all or did not score."""

    which: Rows
    named: str


def traits(rows: pd.DataFrame) -> list[str]:
    return sorted(rows.loc[rows["task"].eq("traits"), "attribute"].unique())


PARTS = {
    "prompts": Part(lambda rows: rows["prompt_id"].isin(["traits1", "traits2"]), "prompt_id traits1, traits2"),
    "words": Part(
        lambda rows: rows["task"].eq("traits") & rows["attribute"].isin(traits(rows)[::6]),
        "attribute ",
    ),
    "some texts": Part(lambda rows: rows["pair"].isin(sorted(set(rows["pair"]))[::3]), "rows"),
    "occupations of some texts": Part(
        lambda rows: rows["task"].eq("occupations") & rows["pair"].isin(sorted(set(rows["pair"]))[:4]), "rows"
    ),
    "decisions of a prompt": Part(lambda rows: rows["prompt_id"].eq("conviction1"), "prompt_id conviction1"),
}


def without_reference(features: FeatureTables, which: Rows) -> FeatureTables:
    """Unscored after one guise alone."""
    other = unscored(features, which)
    chosen = which(other["scores"])
    other["scores"].loc[chosen, "log_prob"] = features["scores"].loc[chosen, "log_prob"]
    return other


WAYS = [(name, way) for name in PARTS for way in (without, unscored, without_reference)]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_a_model_differs_in_nothing_from_one_that_gave_a_part_of_its_answers(
    name: str, way: Callable[[FeatureTables, Rows], FeatureTables]
) -> None:
    part = PARTS[name]
    whole = leaning(drawn(), part.which, 3.0)
    rows = of_pair(compared({"whole": whole, "part": way(whole, part.which)}))
    told = rows.loc[rows.index != SPEC.missing_key]
    assert (told["difference"].dropna() == 0).all() and told["difference"].notna().sum() >= 4
    assert rows["note"].str.contains("left out, as not asked of both or not answered by both: ", case=False).all()
    assert rows["note"].str.contains(f"{part.named}.* of whole").all()


def test_scores_that_are_missing_after_one_guise_alone_are_still_compared() -> None:
    def half(rows: pd.DataFrame) -> pd.Series:
        return rows["prompt_id"].eq("traits1")

    features = drawn()
    other = unscored(features, half)
    other["scores"].loc[half(other["scores"]), "log_prob_reference"] = -6.0
    rows = of_pair(compared({"whole": features, "one guise": other}))
    assert number(rows, "strength.covert", "difference") == 0
    assert number(rows, "missing.difference", "difference") < -0.1


def test_a_task_that_a_third_model_was_not_asked_is_compared_between_the_others() -> None:
    def of_traits(rows: pd.DataFrame) -> pd.Series:
        return rows["task"].eq("traits")

    two = {"a": drawn(1), "b": drawn(2)}
    for third in (without(drawn(3), of_traits), unscored(drawn(3), of_traits)):
        beside, over_all = compared({**two, "c": third}), ["p_adjusted", "correction"]
        pd.testing.assert_frame_equal(
            of_pair(beside).drop(columns=over_all), of_pair(compared(two)).drop(columns=over_all)
        )
        not_asked = of_pair(beside, "a", "c")
        assert not_asked.loc["strength.covert", "note"] == ONE
        assert np.isnan(number(not_asked, "strength.covert", "p"))


def test_decisions_of_a_model_that_lacks_one_of_the_words_are_not_compared() -> None:
    def acquitted(rows: pd.DataFrame) -> pd.Series:
        return rows["kind"].eq("decision") & rows["attribute"].eq(decision)

    features = drawn()
    scores = features["scores"]
    decision = str(scores.loc[scores["kind"].eq("decision"), "attribute"].iloc[0])
    for way in (without, unscored):
        rows = of_pair(compared({"whole": features, "lacks": way(features, acquitted)}))
        assert rows.loc["decision.conviction", "note"] == APART
        assert np.isnan(number(rows, "decision.conviction", "p"))
        assert number(rows, "strength.covert", "difference") == 0


def test_rows_of_models_asked_alike_are_all_kept() -> None:
    features = {"a": drawn(1), "b": drawn(2)}
    kept = comparable(features)
    assert all(len(kept[name]["scores"]) == len(features[name]["scores"]) for name in features)
    assert not compared(features)["note"].str.contains("left out, as").any()


def test_clusters_of_the_same_texts_are_paired_whatever_they_are_named_for() -> None:
    """Clusters that share a text or a pair are named for one of them, which another file may lack."""
    whole = leaning(drawn(), PARTS["some texts"].which, 1.0)
    rows, clusters = whole["scores"], ["cluster", "cluster_reference"]
    named = rows[clusters].astype(object).map(lambda name: f"another {name}", na_action="ignore")
    other = {**whole, "scores": rows.assign(**{column: named[column] for column in clusters})}
    found = of_pair(compared({"whole": whole, "other": other, "again": whole}), "whole", "other")
    same = of_pair(compared({"whole": whole, "again": whole}))
    assert found["difference"].eq(0).all() and found["ci_low"].isna().all() and found["ci_high"].isna().all()
    assert found["n_clusters"].tolist() == same["n_clusters"].tolist()
    # two clusters of the one that are one of the other: one in both
    first, second = sorted(rows["cluster"].dropna().unique())[:2]
    joined = rows[clusters].astype(object).replace(second, first)
    tables = comparable({"whole": whole, "joined": {**whole, "scores": rows.assign(**joined)}})
    assert [len(set(made["scores"]["cluster"].dropna())) for made in tables.values()] == [
        len(set(named["cluster"].dropna())) - 1
    ] * 2
