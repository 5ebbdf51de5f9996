"""Two marked guises, and two text sets, against each other: a planted difference is found, a blind one is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from tests.cells import number

from markedness.audits.guise import SPEC, evaluate
from markedness.audits.guise.estimators.dialects import contrast_scores, dialect_scores
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.scores import scores
from markedness.audits.guise.worlds import Model
from markedness.records import FeatureTables
from markedness.results import Score

N = 20
GUISES = "AAE - AppE"


def two(seed: int, first: Model, second: Model, column: str = "group", value: str = "AppE") -> FeatureTables:
    """The scores of two models of one study as those of two guises (or two text sets) of one model."""
    drawn = [model.draw(np.random.default_rng([seed, place])) for place, model in enumerate((first, second))]
    tables = [drawn[0]["scores"], drawn[1]["scores"].assign(**{column: value})]
    joined = pd.concat([table.astype({column: str}) for table in tables], ignore_index=True)
    if column == "text_set":
        joined["pair"] = joined["text_set"].astype(str) + joined["pair"].astype(str)
        joined = joined[joined["task"].ne("overt") | joined["text_set"].ne(value)]
    return {"scores": joined, "attributes": drawn[0]["attributes"]}


def found(tables: FeatureTables, seed: int) -> dict[str, Score]:
    made = dialect_scores(tables, Params(), np.random.default_rng([seed, 9]))
    return {score.key: score for score in made}


@pytest.mark.slow
@pytest.mark.parametrize("stereotype", [0.0, 0.3])
def test_dialects_that_evoke_stereotypes_alike_are_not_told_apart(stereotype: float) -> None:
    # attributes differ between the guises, whatever they mean; both guises are as stereotyped and as often convicted
    alike = Model(verbs=12, stereotype=stereotype, guilt=0.5, attribute=0.05)
    made = [found(two(seed, alike, alike), seed) for seed in range(N)]
    for key in (f"strength.covert: {GUISES}", f"strength.overt: {GUISES}", f"decision.conviction: {GUISES}"):
        assert sum(one[key].p <= 0.05 for one in made) <= binom.ppf(0.999, N, 0.05), key


@pytest.mark.slow
def test_dialects_of_which_one_evokes_stereotypes_more_are_told_apart() -> None:
    strong, weak = Model(verbs=12, stereotype=0.3, guilt=1.5, attribute=0.05), Model(verbs=12, attribute=0.05)
    made = [found(two(seed, strong, weak), seed) for seed in range(N)]
    covert = [one[f"strength.covert: {GUISES}"] for one in made]
    assert sum(one.p <= 0.05 for one in covert) >= N / 2
    # the truth is .3 - 0, whatever the attributes add: their own spread is .05, half as much by prompt
    assert np.mean([one.estimate for one in covert]) == pytest.approx(0.3, abs=0.05)
    decisions = [one[f"decision.conviction: {GUISES}"] for one in made]
    assert sum(one.p <= 0.05 for one in decisions) >= N / 2
    assert all(one.p_adjusted >= one.p for one in (*covert, *decisions))


@pytest.mark.slow
def test_dialects_leave_the_headline_as_it_is_and_have_a_table() -> None:
    one = Model(verbs=12, stereotype=0.3, attribute=0.05)
    tables = two(0, one, Model(verbs=12, attribute=0.05))
    made = scores(tables, Params(), np.random.default_rng(0))
    alone = {**tables, "scores": tables["scores"].query("group == 'AAE'")}
    before = scores(alone, Params(), np.random.default_rng(0))
    headline = {score.key: score.estimate for score in before if score.key in SPEC.headline}
    assert {score.key: score.estimate for score in made if score.key in SPEC.headline} == pytest.approx(
        headline, nan_ok=True
    )
    keys = [score.key for score in made]
    assert f"strength.covert: {GUISES}" in keys and "strength.covert: AppE" in keys
    assert not any(" - " in score.key for score in before)
    table = evaluate.evaluate(tables, Params(n_orders=100), np.random.default_rng(0)).tables["dialects"]
    shown = table[table["task"].eq("traits")].set_index(["first", "second"])["strength"]
    assert shown.index.tolist() == [("AAE", "SAE"), ("AppE", "SAE"), ("AAE", "AppE")]
    assert shown["AAE", "AppE"] == pytest.approx(shown["AAE", "SAE"] - shown["AppE", "SAE"])


def test_dialects_of_other_sources_compare_no_decisions_pair_by_pair() -> None:
    one = Model(verbs=12)
    tables = two(0, one, one)
    other = tables["scores"]["group"].eq("AppE")
    for column in ("cluster", "cluster_reference"):
        names = tables["scores"][column].astype(object)
        tables["scores"][column] = names.where(~other | names.isna(), "other " + names.astype(str))
    score = found(tables, 0)[f"decision.conviction: {GUISES}"]
    assert np.isnan(score.estimate) and np.isnan(score.p)


@pytest.mark.slow
def test_contrast_of_text_sets_finds_a_denser_one_and_not_an_equal_one() -> None:
    params = Params(contrasts=(("habitual_be", "low"),))
    weak, strong = Model(verbs=12, stereotype=0.1, attribute=0.05), Model(verbs=12, stereotype=0.4, attribute=0.05)
    accused = found_in = 0
    for seed in range(N):
        for model in (weak, strong):
            tables = two(seed, model, weak, "text_set", "low")
            (one,) = contrast_scores(tables["scores"], tables["attributes"], params, np.random.default_rng(seed))
            assert one.key == "strength.covert: habitual_be - low"
            p = one.p
            accused += model is weak and p <= 0.05
            found_in += model is strong and p <= 0.05
    assert accused <= binom.ppf(0.999, N, 0.05)
    assert found_in >= N / 2


@pytest.mark.slow
def test_contrast_of_text_sets_has_p_and_interval_in_its_table() -> None:
    strong, weak = Model(verbs=12, stereotype=0.4, attribute=0.05), Model(verbs=12, attribute=0.05)
    tables = two(1, strong, weak, "text_set", "low")
    params = Params(contrasts=(("habitual_be", "low"),), n_orders=100)
    made = evaluate.evaluate(tables, params, np.random.default_rng(0))
    contrasts = made.tables["contrasts"].query("measure == 'strength'").set_index("first")
    assert number(contrasts, "habitual_be", "ci_low") < number(contrasts, "habitual_be", "difference")
    assert number(contrasts, "habitual_be", "difference") < number(contrasts, "habitual_be", "ci_high")
    assert number(contrasts, "habitual_be", "p") <= 0.05
