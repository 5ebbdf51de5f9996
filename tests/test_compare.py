"""Two models are told apart when they differ, and not when they do not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from markedness.compare import Comparison, corrected, replicated_effects, replications, word_overlap
from markedness.records import FeatureTables, Unsupported
from markedness.reporting.comparisons import charts


def features(rng: np.random.Generator, shift: float = 0.0, clusters: int = 12, n: int = 20) -> pd.DataFrame:
    """n answers per prompt and group; the marked group's share of ones is larger by shift; prompts differ."""
    level = np.repeat(np.random.default_rng(99).uniform(0.3, 0.5, clusters), 2 * n)
    group = np.tile(np.repeat(["marked", "unmarked"], n), clusters)
    chance = level + np.where(group == "marked", shift, 0.0)
    prompt = np.repeat([f"p{i}" for i in range(clusters)], 2 * n)
    y = (rng.random(len(chance)) < chance).astype(float)
    return pd.DataFrame({"prompt_id": prompt, "group": group, "y": y, "sample": np.tile(np.arange(n), 2 * clusters)})


def scores(tables: FeatureTables) -> Mapping[str, float]:
    table = tables["answers"]
    y, marked = table["y"].to_numpy(), table["group"].to_numpy() == "marked"
    return {"gap.marked": y[marked].mean() - y[~marked].mean(), "share.all": y.mean()}


def comparison(tables: dict[str, pd.DataFrame | Unsupported], **more: object) -> Comparison:
    features = {name: one if isinstance(one, Unsupported) else {"answers": one} for name, one in tables.items()}
    return Comparison("toy", features, scores, "answers", "prompt_id", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("bootstrap_from", [2, 100])
def test_differences_of_models_with_a_planted_difference_find_it(bootstrap_from: int) -> None:
    rng = np.random.default_rng(1)
    tables = {"with": features(rng, 0.35), "without": features(rng)}
    table = comparison(tables, bootstrap_from=bootstrap_from).differences().set_index("score")
    row = table.loc["gap.marked"]
    assert row["p_adjusted"] < 0.01
    assert row["ci_low"] < 0.35 < row["ci_high"]
    assert row["difference"] == pytest.approx(row["a"] - row["b"])
    assert row["n_clusters"] == 12
    assert row["method"].startswith("bootstrap" if bootstrap_from == 2 else "jackknife")


@pytest.mark.parametrize("bootstrap_from", [2, 100])
def test_differences_of_the_same_model_twice_reject_at_the_nominal_rate(bootstrap_from: int) -> None:
    rng = np.random.default_rng(2)
    rejected = 0
    for _ in range(30):
        tables = {"one": features(rng, 0.2, n=8), "two": features(rng, 0.2, n=8)}
        made = comparison(tables, bootstrap_from=bootstrap_from, n_resamples=40).differences()
        rejected += bool((made["p_adjusted"] < 0.05).any())
    assert rejected <= 5  # at most 5 % of families, so 1.5 of 30; P(more than 5) = 0.003


def test_differences_are_taken_on_shared_prompts_only() -> None:
    rng = np.random.default_rng(4)
    whole = features(rng)
    part = whole[whole["prompt_id"].isin([f"p{i}" for i in range(6)])]
    made = comparison({"whole": whole, "part": part}).differences()
    assert set(made["n_clusters"]) == {6}
    assert made["difference"].tolist() == [0.0, 0.0]
    assert made["p"].tolist() == [1.0, 1.0]


def test_differences_without_a_common_prompt_or_support_say_so() -> None:
    rng = np.random.default_rng(5)
    one = features(rng)
    other = one.assign(prompt_id="x" + one["prompt_id"])
    unsupported = Unsupported("no token probabilities")
    made = comparison({"one": one, "other": other, "none": unsupported}).differences()
    notes = made.set_index(["model_a", "model_b"])["note"]
    assert notes["one", "other"] == "no prompt_id in common"
    assert "no token probabilities" in notes["one", "none"]
    assert made["p_adjusted"].isna().all()


def test_differences_on_few_prompts_are_of_these_prompts_and_find_what_is_there() -> None:
    rng = np.random.default_rng(7)
    tables = {"with": features(rng, 0.4, clusters=2, n=40), "without": features(rng, clusters=2, n=40)}
    row = comparison(tables).differences().set_index("score").loc["gap.marked"]
    assert row["p_adjusted"] < 0.05
    assert row["method"] == "jackknife over blocks of answers, t interval"
    assert row["note"].startswith("only 2 prompt_id in common")


def test_differences_of_the_same_model_twice_on_two_prompts_reject_at_the_nominal_rate() -> None:
    rng = np.random.default_rng(8)
    rejected = 0
    for _ in range(40):
        tables = {name: features(rng, 0.2, clusters=2, n=20) for name in ("one", "two")}
        rejected += bool((comparison(tables).differences()["p_adjusted"] < 0.05).any())
    assert rejected <= 6  # at most 2 of 40; P(more than 6) = 0.003


def test_differences_with_one_shared_prompt_and_no_single_answers_have_no_interval() -> None:
    one = features(np.random.default_rng(6), clusters=1).drop(columns="sample")
    made = comparison({"one": one, "two": one}).differences()
    assert made["ci_low"].isna().all()
    assert set(made["note"]) == {"one cluster: no interval"}


def test_correction_covers_the_tests_that_were_made() -> None:
    table = corrected(pd.DataFrame({"p": [0.01, 0.04, math.nan]}), "holm")
    # Holm over two tests: 2 x 0.01, and max(0.02, 0.04).
    assert table["p_adjusted"].tolist()[:2] == pytest.approx([0.02, 0.04])
    assert math.isnan(table["p_adjusted"][2])
    assert table["correction"][0].startswith("Holm over 2 tests")


def test_word_overlap_counts_shared_words_per_group() -> None:
    one = pd.DataFrame({"kind": "persona", "group": ["Black", "Black", "woman"], "word": ["strong", "proud", "soft"]})
    two = pd.DataFrame({"kind": "persona", "group": ["Black", "Black", "Asian"], "word": ["strong", "tall", "calm"]})
    table = word_overlap({"one": one, "two": two}).set_index("group")
    # Black: strong of strong, proud, tall; the others are marked by one model only.
    assert table.loc["Black", ["n_a", "n_b", "n_shared"]].tolist() == [2, 2, 1]
    assert table.loc["Black", "jaccard"] == pytest.approx(1 / 3)
    assert table.loc["Asian", ["n_a", "n_b", "n_shared"]].tolist() == [0, 1, 0]


def test_replications_go_both_ways_and_skip_models_without_effects() -> None:
    effects = pd.DataFrame(
        {"comparison": "White v. Black", "cue": ["a", "b"], "d": [0.5, 1.0], "n_resamples": [1000, 1000]}
    )
    table = replications({"one": effects, "two": effects.assign(d=[0.5, -1.0]), "none": pd.DataFrame()})
    assert table[["model_a", "model_b"]].to_numpy().tolist() == [["one", "two"], ["two", "one"]]
    assert table["n"].tolist() == [2, 2]
    assert table["same_sign"].tolist() == [0.5, 0.5]
    assert table["share"].tolist() == [0.5, 0.5]


def test_replicated_effects_stand_side_by_side_for_each_pair() -> None:
    effects = pd.DataFrame(
        {"comparison": "White v. Black", "cue": ["a", "b"], "d": [0.5, 1.0], "n_resamples": 1000, "axis": "race"}
    )
    crossed = effects.assign(axis="race x gender", comparison="White man v. Black man")
    table = replicated_effects(
        {"one": pd.concat([effects, crossed]), "two": effects.assign(d=[0.5, -1.0]), "none": pd.DataFrame()}
    )
    assert table[["model_a", "model_b", "cue", "hit"]].to_numpy().tolist() == [
        ["one", "two", "a", True],
        ["one", "two", "b", False],
    ]
    made = charts(pd.DataFrame({"difference": []}).assign(audit=""), pd.DataFrame(), pd.DataFrame(), table)
    made["replicated_effects"].to_dict()
    assert replicated_effects({}).empty
