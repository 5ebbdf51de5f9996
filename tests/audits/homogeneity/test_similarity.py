from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number

from markedness.stats.similarity import (
    jackknife_standard_error,
    mean_pairwise_cosine,
    similarity_cells,
    similarity_effects,
    similarity_simple_effects,
    within_group_similarity,
)


def unit(rng: np.random.Generator, n: int, spread: float, d: int = 8) -> np.ndarray:
    vectors = np.eye(d)[0] + spread * rng.normal(size=(n, d))
    made: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def test_mean_pairwise_cosine_equals_the_mean_of_the_pair_matrix() -> None:
    vectors = unit(np.random.default_rng(1), 20, 0.5)
    pairs = (vectors @ vectors.T)[np.triu_indices(20, 1)]
    assert mean_pairwise_cosine(vectors) == pytest.approx(pairs.mean(), abs=1e-12)


def test_mean_pairwise_cosine_at_its_bounds() -> None:
    assert mean_pairwise_cosine([[1, 0], [1, 0], [1, 0]]) == pytest.approx(1)
    assert mean_pairwise_cosine([[1, 0], [-1, 0]]) == pytest.approx(-1)  # -1/(n-1) with n = 2
    assert np.isnan(mean_pairwise_cosine([[1, 0]]))
    assert np.isnan(mean_pairwise_cosine(np.empty((0, 3))))


def test_jackknife_standard_error_equals_leaving_out_by_hand() -> None:
    vectors = unit(np.random.default_rng(2), 9, 0.7)
    left_out = np.array([mean_pairwise_cosine(np.delete(vectors, i, axis=0)) for i in range(9)])
    expected = np.sqrt(8 / 9 * ((left_out - left_out.mean()) ** 2).sum())
    assert jackknife_standard_error(vectors) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(jackknife_standard_error(vectors[:2]))


def study(n_prompts: int = 12, shift: float = 0.15, seed: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Texts of two races and two genders; Black texts scatter less, prompts differ in scatter."""
    rng = np.random.default_rng(seed)
    rows, vectors = [], []
    for prompt in range(n_prompts):
        base = 0.5 + 0.2 * rng.random()
        for race in ("White", "Black"):
            for gender in ("man", "woman"):
                vectors.append(unit(rng, 30, base - (shift if race == "Black" else 0)))
                rows += [(f"{race} {gender}", f"prompt {prompt}")] * 30
    keys = pd.DataFrame(rows, columns=["group", "prompt"])
    factors = pd.DataFrame(
        {g: g.split() for g in keys["group"].unique()}, index=["race", "gender"]
    ).T  # fmt: skip
    return similarity_cells(np.vstack(vectors), keys["group"], keys["prompt"]), factors


UNMARKED = {"race": "White", "gender": "man"}


def test_similarity_effects_balanced_design_equals_differences_of_cell_means() -> None:
    cells, factors = study()
    effects = similarity_effects(cells, factors, UNMARKED).set_index("group")
    race = cells["group"].map(factors["race"])
    expected = cells.loc[race.eq("Black"), "mean_cosine"].mean() - cells.loc[race.eq("White"), "mean_cosine"].mean()
    black = effects.loc["Black"]
    assert black["difference"] == pytest.approx(expected, abs=1e-12)
    # The mixed model's coefficient is the same number: its interval is centred on it.
    assert (black["ci_low_published"] + black["ci_high_published"]) / 2 == pytest.approx(expected, abs=1e-6)
    assert black["ci_low"] > 0 and black["ci_low_published"] > 0 and black["p"] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [12, 2])
def test_similarity_effects_without_difference_intervals_cover_zero(n_prompts: int) -> None:
    # 40 studies without effect: the number of 95 % intervals that cover zero is Binomial(40, 0.95), mean 38,
    # sd 1.38; 38 - 4 sd = 32.5; with two prompts, whose texts are the sample, as well.
    covered = []
    for seed in range(40):
        cells, factors = study(n_prompts, shift=0, seed=seed)
        effects = similarity_effects(cells, factors, UNMARKED).set_index("group")
        covered.append((effects["ci_low"] < 0) & (effects["ci_high"] > 0))
    assert np.sum(covered, axis=0).min() >= 33


def test_similarity_effects_one_prompt_gives_the_interval_of_its_texts() -> None:
    cells, factors = study(n_prompts=1)
    effects = similarity_effects(cells, factors, UNMARKED)
    assert effects[["difference", "ci_low", "ci_high", "p"]].notna().all(axis=None)
    assert effects[["ci_low_published", "p_published"]].isna().all(axis=None)


def test_within_group_similarity_averages_prompts_and_brackets_the_mean() -> None:
    cells, _ = study()
    table = within_group_similarity(cells).set_index("group")
    expected = cells.groupby("group")["mean_cosine"].mean()
    assert table["mean_cosine"].to_dict() == pytest.approx(expected.to_dict())
    assert (table["ci_low"] < table["mean_cosine"]).all() and (table["mean_cosine"] < table["ci_high"]).all()
    assert table["n"].eq(360).all() and table["n_prompts"].eq(12).all()


def test_within_group_similarity_one_prompt_uses_the_texts_and_one_text_is_nan() -> None:
    rng = np.random.default_rng(5)
    vectors = np.vstack([unit(rng, 25, 0.5), unit(rng, 1, 0.5)])
    cells = similarity_cells(vectors, ["a"] * 25 + ["b"], ["p"] * 26)
    table = within_group_similarity(cells).set_index("group")
    assert number(table, "a", "ci_low") < number(table, "a", "mean_cosine") < number(table, "a", "ci_high")
    assert table.loc["b", ["mean_cosine", "ci_low", "ci_high"]].isna().all()
    assert table.loc["b", "n"] == 1


def crossed_cells(values: dict[str, list[float]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells of some groups with these mean cosines, one per prompt, and the factors."""
    rows = [(g, f"p{i}", 30, x, 0.01) for g, numbers in values.items() for i, x in enumerate(numbers)]
    factors = pd.DataFrame({g: g.split() for g in values}, index=["race", "gender"]).T
    return pd.DataFrame(rows, columns=["group", "prompt", "n", "mean_cosine", "standard_error"]), factors


def test_simple_effects_worked_example() -> None:
    # woman - man: 0.1 and 0.3 within Black (mean 0.2), 0.1 and 0.1 within White (0.1); the interaction is 0.1.
    # Two prompts, so that texts are the sample: the variance of a difference is 4 * 0.01^2 / 2^2,
    # that of an interaction twice as large.
    cells, factors = crossed_cells(
        {"Black woman": [0.5, 0.7], "Black man": [0.4, 0.4], "White woman": [0.4, 0.5], "White man": [0.3, 0.4]}
    )
    table = similarity_simple_effects(cells, factors, UNMARKED)
    assert len(table) == 4 and list(table["factor"]) == ["race", "race", "gender", "gender"]
    women = table[table["factor"].eq("gender")].set_index("within")
    assert women["difference"].to_dict() == pytest.approx({"Black": 0.2, "White": 0.1})
    assert number(women, "Black", "interaction") == pytest.approx(0.1) and np.isnan(
        number(women, "White", "interaction")
    )
    half = stats.t.ppf(0.975, 4 * 29) * 0.01
    assert number(women, "Black", "ci_high") - 0.2 == pytest.approx(half)
    wide = stats.t.ppf(0.975, 8 * 29) * 0.01 * np.sqrt(2)
    assert number(women, "Black", "interaction_ci_high") - 0.1 == pytest.approx(wide)
    one_axis = similarity_simple_effects(cells, factors[["race"]], {"race": "White"})
    assert one_axis.empty and list(one_axis) == list(table)


def world(seed: int, gender: float = 0.0) -> pd.DataFrame:
    """13 prompts with effects of prompt and of race by prompt; texts of Black women are ``gender`` more alike."""
    rng = np.random.default_rng(seed)
    of_prompt, of_race = rng.normal(0, 0.05, 13), rng.normal(0.03, 0.02, 13)
    made = {
        f"{race} {sex}": (
            0.4 + of_prompt + of_race * (race == "Black") + gender * (race == "Black") * (sex == "woman")
            + rng.normal(0, 0.01, 13)
        ).tolist()
        for race in ("White", "Black") for sex in ("man", "woman")
    }  # fmt: skip
    return similarity_simple_effects(*crossed_cells(made), UNMARKED).set_index(["factor", "within"])


def test_simple_effects_that_are_planted_are_found_and_blind_ones_are_not_accused() -> None:
    key = ("gender", "Black")
    blind = [world(seed) for seed in range(150)]
    for column in ("p", "interaction_p"):
        found = sum(number(table, key, column) <= 0.05 for table in blind)
        assert stats.binomtest(found, 150, 0.05, alternative="greater").pvalue > 0.01, column
    planted = [world(seed, gender=0.03) for seed in range(20)]
    assert all(number(table, key, "p_adjusted") <= 0.05 for table in planted)
    assert sum(number(table, key, "interaction_p_adjusted") <= 0.05 for table in planted) >= 18
    covered = sum(number(t, key, "ci_low") <= 0.03 <= number(t, key, "ci_high") for t in planted)
    assert stats.binomtest(covered, 20, 0.95, alternative="less").pvalue > 0.01
