"""Errors of a scorer by group: a planted one is found, a scorer that is blind to the group is not accused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number

from markedness.audits.knowledge import NOT_MEASURED
from markedness.audits.knowledge.estimators.classes import MEASURES, REGARD_VALUES
from markedness.audits.knowledge.estimators.scorer_error import error_notes, errors_of, scorer_errors, shipped_errors
from markedness.audits.knowledge.language.choice import RegardParams, ToxicityParams
from markedness.audits.knowledge.language.scorers import OfflineRegard, held_out_statements
from markedness.scorer_tests import measured, page

STATEMENTS = held_out_statements()


def scored(seed: int, harsh: float = 0.0) -> pd.DataFrame:
    """Errors of a scorer that errs more on some templates than on others, and is harsh about one class in a share."""
    rng = np.random.default_rng(seed)
    truth = STATEMENTS["regard"].map(REGARD_VALUES).to_numpy(dtype=float)
    wrong = dict(zip(STATEMENTS["predicate"].unique(), rng.beta(1, 3, STATEMENTS["predicate"].nunique()), strict=True))
    errs = rng.random(len(truth)) < STATEMENTS["predicate"].map(wrong)
    said = np.where(errs, rng.integers(-1, 2, len(truth)), truth)
    planted = STATEMENTS["class"].eq("religion") & (rng.random(len(truth)) < harsh)
    return scorer_errors(STATEMENTS, "regard", np.where(planted, -1.0, said), "simulated")


def of_groups(table: pd.DataFrame, statements: str) -> pd.DataFrame:
    return table[table["statements"].eq(statements) & table["statistic"].eq("error")].set_index("group")


def keyed(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index(table["statements"] + table["group"] + ":" + table["statistic"])


@pytest.mark.slow
def test_scorer_that_is_blind_to_the_group_is_not_accused() -> None:
    found = [scored(seed) for seed in range(100)]
    for statements in (
        "class",
        "subject",
    ):  # under the null, any discovery is false: at most 5 % of the worlds have one
        accused = sum(bool(of_groups(one, statements)["p_adjusted"].le(0.05).any()) for one in found)
        assert stats.binomtest(accused, 100, 0.05, alternative="greater").pvalue > 0.01, (statements, accused)


@pytest.mark.slow
def test_interval_of_the_accuracy_holds_that_of_all_templates() -> None:
    # P(wrong label) = E[beta(1, 3)] * 2/3 = 1/6
    rows = [scored(seed).query("statements == 'all' and statistic == 'accuracy'").iloc[0] for seed in range(100)]
    held = sum(bool(row["ci_low"] <= 5 / 6 <= row["ci_high"]) for row in rows)
    assert stats.binomtest(held, 100, 0.95, alternative="less").pvalue > 0.01, held


@pytest.mark.slow
def test_scorer_that_is_harsh_about_one_class_is_found() -> None:
    found = [of_groups(scored(seed, harsh=0.3), "class") for seed in range(40)]
    assert sum(number(one, "religion", "p_adjusted") <= 0.05 for one in found) >= 32  # 80 %
    assert all(number(one, "religion", "estimate") < 0 for one in found)


def test_errors_worked_example() -> None:
    statements = pd.DataFrame({
        "kind": ["plain"] * 4, "class": list("aabb"), "subject": list("aabb"), "predicate": list("wxyz"),
        "regard": ["negative", "neutral", "positive", "positive"], "offensive": [1, 0, 0, 0],
    })  # fmt: skip
    table = keyed(scorer_errors(statements, "regard", np.array([-1.0, 1.0, 1.0, np.nan]), "s"))
    whole = {name: number(table, f"all:{name}", "estimate") for name in ("accuracy", "macro_f1", "error")}
    # three scored: two right; F1: negative 1, neutral 0, positive 2 * 1 / (2 * 1 + 1) = 2/3; errors 0, 1, 0
    assert whole == pytest.approx({"accuracy": 2 / 3, "macro_f1": 5 / 9, "error": 1 / 3})
    assert number(table, "classa:error", "estimate") == 0.5
    assert number(table, "all:error", "n") == 3 and np.isnan(number(table, "all:error", "ci_low"))
    toxicity = keyed(scorer_errors(statements, "toxicity", np.array([0.5, 0.5, 0.1, 0.9]), "s"))
    # the insult's 0.5 is level with 0.5, above 0.1, below 0.9: (1/2 + 1 + 0) / 3; mean 0.5 less 0.25 insults
    assert number(toxicity, "all:auc", "estimate") == pytest.approx(0.5)
    assert number(toxicity, "all:error", "estimate") == pytest.approx(0.25)
    assert np.isnan(number(toxicity, "classb:auc", "estimate"))  # no insult to rank


def test_bounds_are_cut_at_the_range_of_the_statistic() -> None:
    table = shipped_errors()
    assert table["ci_low"].ge(-2).where(table["ci_low"].notna(), True).all()
    shares = table[table["statistic"].ne("error") & table["ci_low"].notna()]
    assert shares["ci_low"].ge(0).all() and shares["ci_high"].le(1).all()


@pytest.mark.slow
def test_shipped_errors_and_page_are_those_of_the_scorers_as_they_are() -> None:
    """Fails where scorers or statements changed: markedness scorers test --output ... --page docs/scorers.md."""
    made = measured([RegardParams()], [ToxicityParams(), ToxicityParams(scorer="profanity_check")])
    pd.testing.assert_frame_equal(made, shipped_errors(), atol=0.02, rtol=0, check_dtype=False)


def test_page_is_written_from_the_shipped_errors() -> None:
    assert (Path(__file__).parents[3] / "docs" / "scorers.md").read_text(encoding="utf-8") == page(shipped_errors())


def test_offline_scorers_are_as_good_as_the_page_says() -> None:
    table = shipped_errors()
    regard, toxicity = (
        table[table["scorer"].str.startswith("offline") & table["measure"].eq(name)] for name in MEASURES
    )
    accuracy, auc = keyed(regard), keyed(toxicity)
    assert number(accuracy, "all:accuracy", "ci_low") > 0.6 and number(accuracy, "hard:accuracy", "ci_low") > 0.5
    assert number(auc, "all:auc", "ci_low") > 0.7 and number(auc, "hard:auc", "ci_low") > 0.6


def test_notes_say_how_wrong_the_scorers_are_and_where_it_is_not_known() -> None:
    named = pd.DataFrame({"regard_scorer": [OfflineRegard().name], "toxicity_scorer": ["a service: TOXICITY"]})
    known, unknown = error_notes(named)
    assert "n = 462" in known and "n = 162" in known and "religion" in known
    assert unknown.startswith("The error by group of a service: TOXICITY") and "is not known" in unknown
    assert error_notes(named.assign(regard_scorer=f"{NOT_MEASURED}no", toxicity_scorer=f"{NOT_MEASURED}no")) == []
    assert len(errors_of(named)) == errors_of(named)["measure"].eq("regard").sum() > 0
