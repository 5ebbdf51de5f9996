"""Two models are told apart when they differ, and not when they do not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from tests.cells import number, row, text

from markedness.compare import Comparison, corrected
from markedness.compared_tables import replicated_effects, replications, word_overlap
from markedness.in_common import left_out
from markedness.records import FeatureTables, Unsupported
from markedness.reporting.comparisons import charts
from markedness.results import Score, named_contrasts
from markedness.stats.inference import claim, mean_leave_out, spread, withdrawn


def features(rng: np.random.Generator, shift: float = 0.0, clusters: int = 12, n: int = 20) -> pd.DataFrame:
    """n answers per prompt and group; the marked group's share of ones is larger by shift; prompts differ."""
    level = np.repeat(np.random.default_rng(99).uniform(0.3, 0.5, clusters), 2 * n)
    group = np.tile(np.repeat(["marked", "unmarked"], n), clusters)
    chance = level + np.where(group == "marked", shift, 0.0)
    prompt = np.repeat([f"p{i}" for i in range(clusters)], 2 * n)
    y = (rng.random(len(chance)) < chance).astype(float)
    return pd.DataFrame({"prompt_id": prompt, "group": group, "y": y})


def scores(tables: FeatureTables) -> Sequence[Score]:
    """The gap, whose sample are the prompts, and a Score that says of itself that it cannot be compared."""
    table = tables["answers"]
    by_prompt = table.pivot_table(index="prompt_id", columns="group", values="y")
    gap = (by_prompt["marked"] - by_prompt["unmarked"]).to_numpy()
    sampled = spread(mean_leave_out(gap), {"prompt": by_prompt.index.to_numpy()})
    made = claim("gap.marked", float(gap.mean()), sampled, method="prompts left out", comparable=True)
    return [made, claim("words.count", float(len(table)), sampled, method="")]


def comparison(tables: Mapping[str, pd.DataFrame | Unsupported], controls: Sequence[str] = ()) -> Comparison:
    features = {name: one if isinstance(one, Unsupported) else {"answers": one} for name, one in tables.items()}
    return Comparison("toy", features, scores, "answers", "prompt_id", ("gap.marked", "words.count"), controls)


def test_differences_of_models_with_a_planted_difference_find_it() -> None:
    rng = np.random.default_rng(1)
    tables = {"with": features(rng, 0.35), "without": features(rng)}
    table = comparison(tables).differences().set_index("score")
    assert list(table.index) == ["gap.marked"]
    row = table.loc["gap.marked"]
    assert row["p_adjusted"] < 0.01
    assert row["ci_low"] < 0.35 < row["ci_high"]
    assert row["difference"] == pytest.approx(row["a"] - row["b"])
    assert row["n_clusters"] == 12


def test_differences_of_the_same_model_twice_reject_at_the_nominal_rate() -> None:
    rng = np.random.default_rng(2)
    p = [
        comparison({"one": features(rng, 0.2, n=8), "two": features(rng, 0.2, n=8)}).differences()["p"][0]
        for _ in range(200)
    ]
    assert binomtest(int(np.sum(np.array(p) <= 0.05)), 200, 0.05).pvalue > 0.001


def test_differences_are_taken_on_shared_prompts_only() -> None:
    rng = np.random.default_rng(4)
    whole = features(rng)
    part = whole[whole["prompt_id"].isin([f"p{i}" for i in range(6)])]
    made = comparison({"whole": whole, "part": part}).differences()
    assert made[["n_clusters", "difference", "p"]].to_numpy().tolist() == [[6, 0.0, 1.0]]


def test_differences_are_taken_on_what_both_were_asked() -> None:
    rng = np.random.default_rng(8)
    one = pd.concat([features(rng, 0.4).assign(task="work"), features(rng).assign(task="crime")])
    other = pd.concat([features(rng).assign(task="crime"), features(rng, 0.4).assign(task="health")])
    compared = replace(comparison({"one": one, "other": other}), question="task")
    both = compared.differences().iloc[0]
    assert both["a"] == scores({"answers": one[one["task"].eq("crime")]})[0].estimate
    assert both["b"] == scores({"answers": other[other["task"].eq("crime")]})[0].estimate
    strangers = comparison({"one": one[one["task"].eq("work")], "other": other})
    (row,) = replace(strangers, question="task").differences().to_dict("records")
    assert row["note"] == "no task in common; give one that both were asked one name" and math.isnan(row["p"])


def about_groups(tables: FeatureTables) -> Sequence[Score]:
    """The difference between the last group and the first, and which they are."""
    table = tables["answers"]
    first, *_, last = sorted(table["group"].unique())
    made = scores({"answers": table.replace({"group": {first: "marked", last: "unmarked"}})})
    return [replace(made[0], over=named_contrasts([(first, last)]))]


@pytest.mark.parametrize(
    ("groups", "note"),
    [
        ({}, ""),
        ({"marked": "other"}, "not about the same groups: marked - unmarked in one, other - unmarked in two"),
        ({"marked": "zero"}, "not about the same groups: marked - unmarked in one, unmarked - zero in two"),
    ],
)
def test_differences_between_other_groups_or_references_are_not_tested(groups: dict[str, str], note: str) -> None:
    rng = np.random.default_rng(6)
    one, two = features(rng), features(rng, 0.4).replace({"group": groups})
    made = replace(comparison({"one": one, "two": two}), scores=about_groups).differences().iloc[0]
    assert made["note"] == note
    assert math.isnan(made["p"]) == math.isnan(made["difference"]) == math.isnan(made["p_adjusted"]) == bool(note)


def test_differences_on_shared_prompts_that_lack_a_group_are_not_tested() -> None:
    rng = np.random.default_rng(7)
    both, of_a_third = features(rng), features(rng).replace({"group": {"marked": "another"}})
    of_a_third["prompt_id"] = "x" + of_a_third["prompt_id"]
    one, two = pd.concat([of_a_third, both]), pd.concat([of_a_third.assign(prompt_id="y"), both])
    made = replace(comparison({"one": one, "two": two}), scores=about_groups).differences().iloc[0]
    assert made["note"] == (
        "the prompt_ids in common do not have the groups of one: marked - unmarked in place of another - unmarked"
    )
    assert math.isnan(made["p"])


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


def test_differences_on_few_prompts_have_no_interval_and_say_so() -> None:
    rng = np.random.default_rng(7)
    made = comparison({"with": features(rng, 0.4, clusters=2), "without": features(rng, clusters=2)}).differences()
    assert made[["ci_low", "p", "p_adjusted"]].isna().all(axis=None)
    assert made["note"][0] == "no interval: it takes 6 clusters in each group, the smallest has 2 of 'prompt'"


def test_scores_that_are_sampled_by_other_factors_say_why_their_difference_has_no_interval() -> None:
    def sampled_apart(tables: FeatureTables) -> Sequence[Score]:
        (first, *others), factor = scores(tables), str(tables["answers"]["factor"].iloc[0])
        return [replace(first, influences={factor: first.influences["prompt"]}), *others]

    rng = np.random.default_rng(7)
    made = comparison({name: features(rng).assign(factor=name) for name in ("prompt", "text")})
    made.scores = sampled_apart
    assert made.differences()["note"][0] == "no interval: the two are not sampled by the same factors"


def test_score_that_is_withdrawn_has_no_difference_from_another_either() -> None:
    # Its estimate is also one of something else: the difference was tested all the same, and said nothing of it.
    why = "the names have unlike numbers of answers"

    def one_withdrawn(tables: FeatureTables) -> Sequence[Score]:
        (first, *others), few = scores(tables), str(tables["answers"]["few"].iloc[0])
        return [withdrawn(first, why) if few == "yes" else first, *others]

    rng = np.random.default_rng(7)
    made = comparison({name: features(rng, shift).assign(few=name) for name, shift in (("yes", 0.4), ("no", 0.0))})
    made.scores = one_withdrawn
    found = made.differences()
    assert found[["ci_low", "ci_high", "p", "p_adjusted"]].isna().all(axis=None) and found["difference"].gt(0.2).all()
    assert found["note"][0] == f"no interval: {why}"


def test_differences_of_scripted_controls_are_a_family_of_their_own() -> None:
    rng = np.random.default_rng(8)
    tables = {name: features(rng, shift) for name, shift in (("a", 0.3), ("b", 0.0), ("control", 0.0))}
    made = comparison(tables, controls=["control"]).differences().set_index(["model_a", "model_b"])
    assert number(made, ("a", "b"), "p_adjusted") == number(made, ("a", "b"), "p")
    assert text(made, ("a", "control"), "correction").startswith("Holm over 2 tests: all pairs with a scripted control")


def test_correction_covers_the_tests_that_were_made() -> None:
    made = {"score": "toy.gap", "p": [0.01, 0.04, math.nan], "model_a": "a", "model_b": "b"}
    table = corrected(pd.DataFrame(made), "holm")
    # Holm over two tests: 2 x 0.01, and max(0.02, 0.04).
    assert table["p_adjusted"].tolist()[:2] == pytest.approx([0.02, 0.04])
    assert math.isnan(table["p_adjusted"][2])
    assert table["correction"][0].startswith("Holm over 2 tests: ")


def test_correction_says_which_tests_it_counts_that_could_not_be_made_and_counts_no_pair_without_a_score() -> None:
    p = [0.01, 0.04, math.nan, math.nan]
    table = corrected(
        pd.DataFrame({"score": ["a.x", "b.x", "c.x", ""], "p": p, "model_a": "a", "model_b": "b"}), "fdr_bh"
    )
    assert table["p_adjusted"].tolist() == pytest.approx([0.03, 0.06, math.nan, math.nan], nan_ok=True)
    said = "Benjamini-Hochberg over 2 tests and 1 that could not be made, at p = 1: "
    assert table["correction"][0].startswith(said) and table["correction"][3] == ""


def test_word_overlap_counts_shared_words_per_group() -> None:
    one = pd.DataFrame({"kind": "persona", "group": ["Black", "Black", "woman"], "word": ["strong", "proud", "soft"]})
    two = pd.DataFrame({"kind": "persona", "group": ["Black", "Black", "Asian"], "word": ["strong", "tall", "calm"]})
    groups = pd.DataFrame({"kind": "persona", "group": ["Black", "woman", "Asian"]})
    table = word_overlap({"one": one, "two": two}, {"one": groups, "two": groups}).set_index("group")
    # Black: strong of strong, proud, tall; the others are marked by one model only.
    assert row(table, "Black")[["n_a", "n_b", "n_shared"]].tolist() == [2, 2, 1]
    assert table.loc["Black", "jaccard"] == pytest.approx(1 / 3)
    assert row(table, "Asian")[["n_a", "n_b", "n_shared"]].tolist() == [0, 1, 0]
    # a group that one model never had shares no words with nothing: it is not in the table
    lacking = word_overlap({"one": one, "two": two}, {"one": groups.iloc[:2], "two": groups})
    assert set(lacking["group"]) == {"Black", "woman"}


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


def test_what_both_texts_of_a_pair_name_alike_is_said_once() -> None:
    rows = pd.DataFrame({"pair": list("123"), "vignette": list("abc"), "vignette_reference": list("abc")})
    said = left_out({"m": (rows, rows[:1], rows[1:])}, ["pair", "vignette", "vignette_reference"])
    assert said.endswith(": pair 1, vignette a (1 of 3 rows) of m")
