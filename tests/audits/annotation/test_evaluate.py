"""Gaps, scores and notes against scipy, worked examples and planted gaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number, row

from markedness import paired_gaps
from markedness.audits.annotation import controls, evaluate, generate
from markedness.audits.annotation.design.texts import texts_of_prompt
from markedness.audits.annotation.estimators.tables import name_gaps
from markedness.params import load
from markedness.pipeline import STAGES
from markedness.records import Completion, Prompt

from .conftest import DIALECT, PARAMS, STIMULI, annotator, ask, stored, tabled, units


def test_gaps_equal_the_tests_of_scipy() -> None:
    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=3), dialect=DIALECT)
    tables = tabled(ask(params, annotator({})))
    features = tables["pairs"]
    made = evaluate.evaluate(tables, PARAMS, np.random.default_rng(1))
    gaps = made.tables["gaps"].set_index(["group", "task"])
    assert len(gaps) == 8
    by_gap = features.groupby(["group", "task"])["delta"]
    for group, task in gaps.index:
        deltas = by_gap.get_group((group, task)).dropna()
        expected = stats.ttest_1samp(deltas, 0)
        assert row(gaps, (group, task))[["gap", "t", "p_published", "n_pairs"]].to_list() == pytest.approx(
            [deltas.mean(), expected.statistic, expected.pvalue, len(deltas)]
        )
    assert gaps["p_adjusted_published"].to_numpy() == pytest.approx(stats.false_discovery_control(gaps["p_published"]))
    assert gaps["p_adjusted"].to_numpy() == pytest.approx(stats.false_discovery_control(gaps["p"]))
    # hireable is favorable, poor is not
    task = gaps.index.get_level_values("task")
    for item, of in (("positive", "hireable"), ("negative", "poor")):
        assert made.score(f"gap.{item}").estimate == pytest.approx(gaps.loc[task == of, "gap"].mean())
    signed = gaps["gap"] * np.where(task == "poor", -1, 1)
    assert made.score("favorable_gap.names").estimate == pytest.approx(signed.mean())


def test_dialect_gaps_worked_example() -> None:
    # two texts, two answers each: AAVE rates 1, 1/2; SAE 0, 0: deltas 1, 1/2; t = 0.75 / (sqrt(1/8) / sqrt 2) = 3
    rows = stored(
        group=["AAVE", "AAVE", "SAE", "SAE"] * 2, pair=["a"] * 4 + ["b"] * 4, y=list("11001000"), task=["angry"] * 8
    )
    gap = evaluate.evaluate(tabled(rows), PARAMS, np.random.default_rng(1)).tables["dialect_gaps"].iloc[0]
    welch = stats.ttest_ind([1, 1, 1, 0], [0, 0, 0, 0], equal_var=False).pvalue
    h = 2 * np.arcsin(np.sqrt(0.75))
    assert gap[["gap", "t", "p_published", "welch_p", "cohens_h", "n_texts"]].to_list() == pytest.approx(
        [0.75, 3, 2 * stats.t.sf(3, 1), welch, h, 2]
    )


def test_missing_answers_that_differ_by_group_are_found() -> None:
    def refuses(prompt: Prompt, rng: np.random.Generator) -> Completion:
        items = texts_of_prompt(prompt.columns)
        told = [i for i, item in enumerate(items, 1) if item["group"] != "Arab" or rng.random() < 0.4]
        return Completion(text="\n".join(f'{{"i": {i}, "y": 1}}' for i in told), finish_reason="stop")

    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=120), dialect=DIALECT)
    made = evaluate.evaluate(tabled(ask(params, refuses)), PARAMS, np.random.default_rng(1))
    missing = made.tables["missing"].set_index(["paradigm", "task", "group"])
    arab = row(missing, ("names", "hireable", "Arab"))
    assert (
        arab["n"] == 30
        and 0.3 < arab["rate"] < 0.9
        and arab["p_adjusted"] < 0.001
        and arab["unparsed"] == arab["missing"]
    )
    assert row(missing, ("names", "hireable", "White"))[["n", "missing"]].to_list() == [120, 0]
    assert any("differ by group on hireable, poor" in note for note in made.notes)
    assert any("says yes to 100% of the texts on tasks that are favorable" in note for note in made.notes)
    gaps = made.tables["gaps"].set_index(["group", "task"])
    assert number(gaps, ("Arab", "poor"), "n_pairs") + number(gaps, ("Arab", "poor"), "missing") == 30
    assert gaps["t"].isna().all() and (gaps["gap"] == 0).all() and (gaps["p"] == 1).all()
    found = made.score("missing.difference")
    assert found.p_adjusted < 0.001 and found.estimate > 0.1 and made.score("missing.Asian").estimate == 0
    # Every answer is yes: at worst all the missing ones of the marked, or of nobody else, are no.
    gap = made.score("gap.positive")
    assert "lies in [-0." in gap.method and gap.worst_low < gap.estimate <= gap.worst_high
    assert "says yes to 100%" in gap.caveat and not found.caveat, "what disqualifies a score stands at it"


def test_group_that_is_never_answered_is_of_what_is_missing_and_named_at_the_gaps() -> None:
    # it was not among those that missing.difference is over, and two models were "not about the same groups"
    def refuses(prompt: Prompt, rng: np.random.Generator) -> Completion:
        told = [i for i, item in enumerate(texts_of_prompt(prompt.columns), 1) if item["group"] != "Arab"]
        return Completion(text="\n".join(f'{{"i": {i}, "y": {i % 2}}}' for i in told), finish_reason="stop")

    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=60), dialect=DIALECT)
    made = evaluate.evaluate(tabled(ask(params, refuses)), PARAMS, np.random.default_rng(1))
    assert "Arab - White" in made.score("missing.difference").over and "Arab" not in made.score("gap.positive").over
    assert "Not over Arab: no pair of theirs has both answers." in made.score("gap.positive").caveat
    assert "Not over" not in made.score("missing.difference").caveat


def test_paradigm_with_a_group_of_one_name_and_vignette_is_named_where_what_is_missing_is_not_over_it() -> None:
    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=60), dialect=DIALECT)
    features = tabled(ask(params, annotator({})))
    pairs = features["pairs"].astype({"name": object, "reference_name": object, "vignette": object})
    told = "Not over names: a group of it has fewer than 6 of 'name' and of 'reference name' and of"
    whole = evaluate.evaluate(features, PARAMS, np.random.default_rng(1)).score("missing.difference")
    assert "Not over" not in whole.caveat and "Arab - White" in whole.over
    arab = pairs["paradigm"].astype(str).eq("names") & pairs["group"].astype(str).eq("Arab")
    pairs.loc[arab, ["name", "reference_name", "vignette"]] = "one"
    found = evaluate.evaluate({**features, "pairs": pairs}, PARAMS, np.random.default_rng(1)).score(
        "missing.difference"
    )
    assert told in found.caveat and "Arab - White" not in found.over and not found.missing


def test_one_paradigm_alone_and_a_single_pair_leave_nan_not_zero() -> None:
    features = tabled(stored(group=["Black", "White"], pair=["1", "1"], y=["1", "0"]))
    made = evaluate.evaluate(features, PARAMS, np.random.default_rng(1))
    assert number(made.tables["gaps"], 0, "gap") == 1 and np.isnan(number(made.tables["gaps"], 0, "p"))
    assert made.tables["dialect_gaps"].empty and np.isnan(made.score("dialect_gap_size.excess").estimate)
    assert np.isnan(made.score("gap.positive").ci_low)


def test_no_answer_at_all_is_said_in_a_sentence() -> None:
    features = tabled(stored(group=["Black", "White"], pair=["1", "1"], y=["maybe", "maybe"]))
    made = evaluate.evaluate(features, PARAMS, np.random.default_rng(1))
    assert any("No pair of the names paradigm has an answer on both sides" in note for note in made.notes)
    assert not any("pairs or fewer" in note for note in made.notes)


def test_across_models_corrects_over_all_and_counts_directions() -> None:
    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=160), dialect=DIALECT)
    features = {
        model: tabled(ask(params, annotator({("Black", "poor"): gap}), seed=5))
        for model, gap in (("a", -0.6), ("b", -0.6), ("c", 0.0))
    }
    found = evaluate.across(features, pd.DataFrame(), PARAMS)
    assert evaluate.across({"a": features["a"]}, pd.DataFrame(), PARAMS) == {}
    gaps = found["annotation_gaps"].query("paradigm == 'names'")
    assert len(gaps) == 3 * 8
    assert gaps["p_adjusted_models"].to_numpy() == pytest.approx(stats.false_discovery_control(gaps["p"]))
    directions = found["annotation_direction"].set_index(["paradigm", "group", "task"])
    poor = row(directions, ("names", "Black", "poor"))
    assert poor["n_models"] == 3 and poor["same_sign"] >= 2 and poor["mean_gap"] < 0 and poor["n_significant"] >= 1
    assert directions["n_tested"].eq(3).all() and found["annotation_models"]["tested"].eq(8).any()
    unknown = {
        model: {"pairs": made["pairs"].assign(vignette="", vignette_reference="")} for model, made in features.items()
    }
    untested = evaluate.across(unknown, pd.DataFrame(), PARAMS)
    names = untested["annotation_direction"].query("paradigm == 'names'")
    assert names["n_tested"].eq(0).all() and len(names) == 8, "without vignettes no cell of names has a p"
    of_names = untested["annotation_models"].query("paradigm == 'names'")
    assert of_names["tested"].eq(0).all() and of_names["significant_share"].isna().all()
    assert untested["annotation_gaps"].query("paradigm == 'names'")["p_adjusted"].isna().all()
    versions = pd.DataFrame({"model": ["a", "b", "c"], "scripted": [True, False, False]})
    apart = evaluate.across(features, versions, PARAMS)
    kept = apart["annotation_gaps"].query("paradigm == 'names'").set_index("model")
    assert kept.loc[["b", "c"], "p_adjusted_models"].to_numpy() == pytest.approx(
        stats.false_discovery_control(kept.loc[["b", "c"], "p"])
    )
    assert (kept.loc[["a"], "p_adjusted_models"] == kept.loc[["a"], "p_adjusted"]).all()
    assert (apart["annotation_direction"]["n_models"] == 2).all()


def test_stored_judgments_with_columns_of_their_own_go_through_the_pipeline(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = [
        {
            "cond": group,
            "q": task,
            "p": f"{pair}",
            "v": f"v{pair % 30}",
            "n": f"{group}{pair % 20}",
            "ans": str(int(rng.random() < rate)),
        }
        for pair in range(60)
        for task in ("hireable", "a task of theirs")
        for group, rate in (("b", 0.9), ("w", 0.1))
    ]
    dialect = [
        {"dial": d, "q": "angry", "p": f"t{i % 5}", "v": f"t{i % 5}", "ans": "1"} for i in range(20) for d in "as"
    ]
    pd.DataFrame(names + dialect).to_csv(tmp_path / "judgments.csv", index=False)
    source = {
        "path": "judgments.csv",
        "columns": {
            "group": "cond",
            "dialect": "dial",
            "task": "q",
            "pair": "p",
            "vignette": "v",
            "name": "n",
            "y": "ans",
        },
        "values": {"group": {"b": "Black", "w": "White"}, "dialect": {"a": "AAVE", "s": "SAE"}},
    }
    content = {"audits": ["annotation"], "models": {"old": {"backend": "corpus", "annotation": source}}}
    (tmp_path / "params.yaml").write_text(json.dumps(content), encoding="utf-8")
    loaded = load(tmp_path / "params.yaml")
    for stage in STAGES:
        STAGES[stage](loaded, "annotation", "old", say=lambda _: None)
    gaps = pd.read_csv(tmp_path / "results/annotation/old/tables/gaps.csv")
    assert gaps[["group", "task", "n_pairs"]].to_numpy().tolist() == [
        ["Black", "hireable", 60], ["Black", "a task of theirs", 60],
    ]  # fmt: skip
    assert gaps["gap"].between(0.5, 1).all() and gaps["significant"].all()
    metrics = json.loads((tmp_path / "results/annotation/old/metrics.json").read_text(encoding="utf-8"))
    assert metrics["gap.positive_p"] < 0.001 and metrics["gap.positive_ci_low"] > 0.4
    row = pd.read_csv(tmp_path / "results/annotation/old/tables/dialect_gaps.csv").iloc[0]
    assert row[["task", "gap", "n_texts"]].to_list() == ["angry", 0, 5] and np.isnan(row["t"])


@pytest.mark.slow
def test_planted_gaps_are_covered_at_the_nominal_rate() -> None:
    # 4 groups x 39 tasks, 60 pairs a cell, gaps from -0.4 to 0.4: coverage of 156 intervals 0.95 +- 4 * 0.0174
    rng = np.random.default_rng(6)
    tasks = STIMULI.table("tasks.csv").query("names == 'yes'")["task"]
    groups = ("Arab", "Asian", "Black", "Hispanic")
    planted = {(group, task): rng.uniform(-0.4, 0.4) for group in groups for task in tasks}
    params = generate.Params(paradigms=("names",), names=generate.Names(iterations=8))
    gaps = evaluate.evaluate(tabled(ask(params, annotator(planted))), PARAMS, rng).tables["gaps"]
    truth = np.array([planted[cell] for cell in zip(gaps["group"], gaps["task"], strict=True)])
    assert len(gaps) == 156 and gaps["n_pairs"].eq(60).all()
    for ends in ("ci_{}", "ci_{}_published"):
        covered = (gaps[ends.format("low")] <= truth) & (truth <= gaps[ends.format("high")])
        assert 0.88 <= covered.mean() <= 1, ends
    error = (gaps["gap"] - truth) / np.sqrt(0.5 / 60)
    assert abs(error.mean()) < 4 / np.sqrt(156)  # unbiased
    assert gaps.loc[np.abs(truth) > 0.35, "significant"].mean() > 0.8


@pytest.mark.slow
def test_without_planted_gaps_few_studies_find_any() -> None:
    # Benjamini-Hochberg without any effect: a study of 32 cells finds something with probability at most 0.05
    tasks = ("hireable", "poor", "leader", "warm", "calm", "lazy", "creative", "prison")
    params = generate.Params(paradigms=("names",), names=generate.Names(tasks=tasks, iterations=6))
    n_studies, found, share = 15, 0, []
    for seed in range(n_studies):
        features = units(ask(params, annotator({}), seed))
        gaps = name_gaps(features, 0.95)
        found += bool(gaps["significant"].any())
        share.append(gaps["significant"].mean())
    assert np.mean(share) <= 0.05
    assert found <= n_studies * 0.05 + 4 * np.sqrt(n_studies * 0.05 * 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["batch", "single", "scored"])
def test_controls_find_the_planted_and_nothing_else(mode: str) -> None:
    params = generate.Params(
        mode="single" if mode == "scored" else mode, answer="probability" if mode == "scored" else "text",
        names=generate.Names(tasks=("hireable", "poor", "stem_background"), iterations=3),
        dialect=generate.Dialect(tasks=("hireable", "angry"), iterations=20),
    )  # fmt: skip
    made = {}
    for name in ("none", "planted"):
        rule = controls.rule(name, 1.0)

        def answer(prompt: Prompt, rng: np.random.Generator, rule: Any = rule) -> Completion:
            said = rule(prompt, rng)
            return Completion(text=said) if isinstance(said, str) else Completion(log_probs=tuple(said))

        made[name] = evaluate.evaluate(tabled(ask(params, answer)), PARAMS, np.random.default_rng(1))
    none, planted = made["none"], made["planted"]
    for measure, paradigm in (("gap", "names"), ("dialect_gap", "dialect")):
        assert all(none.score(f"{measure}{key}").p_adjusted > 0.05 for key in ("_size.excess", ".positive"))
        found = planted.score(f"favorable_gap.{paradigm}").estimate
        assert found == pytest.approx(-controls.PLANTED_GAP, abs=0.15)
        assert planted.score(f"{measure}_size.excess").p <= 0.02 and planted.score(f"{measure}.positive").p <= 0.02
    gaps = made["planted"].tables["gaps"]
    assert (
        gaps.loc[gaps["valence"] != 0, "significant"].all() and not gaps.loc[gaps["valence"] == 0, "significant"].any()
    )


def test_five_names_a_group_are_said_where_the_verdict_stands() -> None:
    rng = np.random.default_rng(1)
    rows = [
        {"group": group, "name": f"{group}{name}", "pair": f"{text}-{name}", "vignette": text, "task": "poor",
         "y": int(rng.random() < 0.5), "valence": -1}
        for text in range(12) for name in range(5) for group in ("White", "Black")
    ]  # fmt: skip
    made = paired_gaps(
        pd.DataFrame(rows), "y", "group", "White", task="task", pair="pair", vignette="vignette", name="name",
        valence="valence",
    )  # fmt: skip
    said = "Fewer than 6 of 'name' and 'reference name' in a group: it holds for these alone."
    assert made.score("gap.negative").caveat == made.score("favorable_gap.Black").caveat == said
