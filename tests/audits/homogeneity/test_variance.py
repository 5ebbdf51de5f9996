"""Variance components: what is planted is found, and what is not there is 0 on average."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from markedness.audits.homogeneity import evaluate
from markedness.audits.homogeneity.estimators.group_differences import PairCounts
from markedness.audits.homogeneity.estimators.groups import axis_labels
from markedness.audits.homogeneity.estimators.variance import Study, variance_components
from markedness.axes import Axes, Axis, Value

AXES: Axes = {"race": Axis(unmarked="White", values={"White": Value(), "Black": Value()})}
N_CUES, N_NAMES, N_ANSWERS = 8, 12, 20


def world(
    rng: np.random.Generator, wordings: int = 1, cue: float = 0.0, wording: float = 0.0, name: float = 0.0
) -> dict[str, pd.DataFrame]:
    """Answers of two categories and many rare ones; the marked group's first one is given with another chance."""
    of_cue = cue * rng.choice([0.0, 1.0], N_CUES)
    of_wording = wording * np.resize([1.0, 0.0], wordings)
    of_name = name * rng.standard_normal((2, N_NAMES, N_CUES))
    made = {}
    for w in range(wordings):
        rows = []
        for side, group in enumerate(("White", "Black")):
            for number in range(N_NAMES):
                for c in range(N_CUES):
                    shift = side * (of_cue[c] + of_wording[w]) + of_name[side, number, c]
                    first = np.clip(0.25 + shift, 0.02, 0.98)
                    drawn = rng.random(N_ANSWERS) < first
                    for category, count in (("x", int(drawn.sum())), ("y", int((~drawn).sum()))):
                        if count:
                            rows.append((f"c{c}", f"{group}: n{number}", group, category, count))
        made[f"w{w}"] = pd.DataFrame(rows, columns=["cue", "cluster", "race", "category", "count"])
    return made


def study(answers: pd.DataFrame) -> Study:
    counts = PairCounts(answers)
    names = answers.drop_duplicates("cluster").set_index("cluster").reindex(counts.names)
    return counts, axis_labels(names, AXES)


def components(seed: int, **planted: float) -> pd.Series:
    rng = np.random.default_rng(seed)
    wordings = int(planted.pop("wordings", 1))
    tables = world(rng, wordings, **planted)
    found = variance_components({name: study(table) for name, table in tables.items()}, rng)
    return found.set_index("component")["variance"]


def test_components_without_any_are_not_above_zero_and_the_answers_explain_all() -> None:
    found = pd.DataFrame([components(seed, wordings=2) for seed in range(16)])
    for name in ("cue", "wording", "cue x wording", "name"):
        # the jackknife is on the safe side, so that a component may come out a little below 0
        assert stats.ttest_1samp(found[name], 0, alternative="greater").pvalue > 0.001, name
        assert abs(found[name].mean()) < 0.3 * found["sample"].mean(), name
    assert (found["sample"] > 0).all()


@pytest.mark.parametrize(("component", "planted"), [
    ("cue", {"cue": 0.2}), ("wording", {"wordings": 4, "wording": 0.2}), ("name", {"name": 0.25}),
])  # fmt: skip
def test_a_planted_component_is_found_and_the_largest(component: str, planted: dict[str, float]) -> None:
    found = pd.DataFrame([components(seed, **planted) for seed in range(12)])
    assert stats.ttest_1samp(found[component], 0, alternative="greater").pvalue < 0.001
    assert found.mean().idxmax() == component, found.mean()


def test_a_cue_component_is_the_variance_of_the_true_differences() -> None:
    rng = np.random.default_rng(3)
    found: list[float] = []
    for _ in range(16):
        table = world(rng)["w0"]
        half = table["cue"].isin([f"c{c}" for c in range(4)]) & table["race"].eq("Black")
        table = pd.concat([table[~half], table[half & table["category"].eq("x")]])  # only one category: P_d 0
        made = variance_components({"": study(table)}, rng).set_index("component")["variance"]
        found.append(float(made["cue"]))
    # pairs differ with 2 * .25 * .75 = .375: the differences are .375 in four cues and 0 in four; variance with ddof 1
    true = 8 * 0.1875**2 / 7
    assert stats.ttest_1samp(found, true).pvalue > 0.001, np.mean(found)


def test_across_needs_a_family_of_two_models_and_names_them() -> None:
    tables = world(np.random.default_rng(5), wordings=2, wording=0.3)
    features = {model: {"answers": table.assign(kept=True, kind="expression")} for model, table in tables.items()}
    params = evaluate.Params(axes=AXES)
    alone = pd.DataFrame({"model": ["w0", "w1"], "family": [None, None], "scripted": False})
    assert evaluate.across(features, alone, params) == {}
    table = evaluate.across(features, alone.assign(family="one"), params)["homogeneity_variance"]
    assert set(table["component"]) == {"wording", "cue", "cue x wording", "name", "sample"}
    assert set(table["models"]) == {"w0, w1"}
    assert table["share"].sum() == pytest.approx(1)


def test_one_cue_has_no_components() -> None:
    table = world(np.random.default_rng(5))["w0"]
    found = variance_components({"": study(table[table["cue"].eq("c0")])}, np.random.default_rng(0))
    assert found["variance"].isna().all()
