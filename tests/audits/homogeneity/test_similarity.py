from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number, text

from markedness.stats.similarity import similarity_effects, similarity_simple_effects, within_group_similarity
from markedness.stats.similarity_cells import SimilarityCells, contrast, mean_pairwise_cosine, similarity_cells


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


def by_hand(vectors: np.ndarray, names: np.ndarray) -> float:
    """Mean cosine of the pairs of different names."""
    apart = names[:, None] != names[None, :]
    return float((vectors @ vectors.T)[apart].mean()) if apart.any() else float("nan")


def test_cells_leave_out_names_and_prompts_as_by_hand() -> None:
    # 2 prompts, 7 names with one to three texts in each; the mean over prompts of the pairs of different names
    rng = np.random.default_rng(2)
    names = np.repeat(np.arange(7), [1, 2, 3, 1, 2, 3, 2])
    texts = np.concatenate([names, names])
    prompts = np.repeat(["p", "q"], len(names))
    vectors = unit(rng, len(texts), 0.7)
    cells = similarity_cells(vectors, ["a"] * len(texts), prompts, texts)

    def of(kept: np.ndarray) -> float:
        return float(
            np.nanmean([by_hand(vectors[kept & (prompts == one)], texts[kept & (prompts == one)]) for one in "pq"])
        )

    terms = np.ones((1, 1))
    assert contrast(cells.means[None], terms) == pytest.approx([of(np.ones(len(texts), dtype=bool))], abs=1e-12)
    without = cells.without(terms)(cells.name.astype(int), 7)
    assert without == pytest.approx([of(texts != name) for name in range(7)], abs=1e-12)
    assert cells.without(terms)(cells.prompt, 2) == pytest.approx([of(prompts != one) for one in "pq"], abs=1e-12)
    # all pairs, as published
    expected = mean_pairwise_cosine(vectors[prompts == "p"])
    assert cells.published["mean_cosine"].iloc[0] == pytest.approx(expected, abs=1e-12)


def study(n_prompts: int = 12, shift: float = 0.15, seed: int = 3) -> tuple[SimilarityCells, pd.DataFrame]:
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
    table = cells.published  # each text has a name of its own
    race = table["group"].map(factors["race"])
    expected = table.loc[race.eq("Black"), "mean_cosine"].mean() - table.loc[race.eq("White"), "mean_cosine"].mean()
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
    assert effects["caveat"].eq("Fewer than 6 of 'prompt' in a group: it holds for these alone.").all()
    assert effects[["ci_low_published", "p_published"]].isna().all(axis=None)


def test_within_group_similarity_averages_prompts_and_brackets_the_mean() -> None:
    cells, _ = study()
    table = within_group_similarity(cells).set_index("group")
    expected = cells.published.groupby("group")["mean_cosine"].mean()
    assert table["mean_cosine"].to_dict() == pytest.approx(expected.to_dict())
    assert (table["ci_low"] < table["mean_cosine"]).all() and (table["mean_cosine"] < table["ci_high"]).all()
    assert table["n"].eq(360).all() and table["n_prompts"].eq(12).all()


def test_within_group_similarity_as_published_is_over_the_pairs_of_one_name_too() -> None:
    # Two names: twice (1, 0), and once (0, 1). Pairs of different names have cosine 0; of all three, one has cosine 1.
    cells = similarity_cells([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], ["a"] * 3, ["p"] * 3, ["x", "x", "y"])
    table = within_group_similarity(cells).set_index("group")
    assert number(table, "a", "mean_cosine") == pytest.approx(0)
    assert number(table, "a", "mean_cosine_published") == pytest.approx(1 / 3)


def test_within_group_similarity_one_prompt_uses_the_texts_and_one_text_is_nan() -> None:
    rng = np.random.default_rng(5)
    vectors = np.vstack([unit(rng, 25, 0.5), unit(rng, 1, 0.5)])
    cells = similarity_cells(vectors, ["a"] * 25 + ["b"], ["p"] * 26)
    table = within_group_similarity(cells).set_index("group")
    assert number(table, "a", "ci_low") < number(table, "a", "mean_cosine") < number(table, "a", "ci_high")
    assert table.loc["b", ["mean_cosine", "ci_low", "ci_high"]].isna().all()
    assert table.loc["b", "n"] == 1


def crossed_cells(values: dict[str, list[float]]) -> tuple[SimilarityCells, pd.DataFrame]:
    """Eight texts of some groups in each prompt, every two of which have this cosine, and the factors."""
    rows, vectors = [], []
    for group, numbers in values.items():
        for prompt, cosine in enumerate(numbers):
            rows += [(group, f"p{prompt:02}")] * 8
            vectors.append(np.c_[np.full(8, np.sqrt(cosine)), np.sqrt(1 - cosine) * np.eye(8)])
    keys = pd.DataFrame(rows, columns=["group", "prompt"])
    factors = pd.DataFrame({g: g.split() for g in values}, index=["race", "gender"]).T
    return similarity_cells(np.vstack(vectors), keys["group"], keys["prompt"]), factors


def test_simple_effects_worked_example() -> None:
    # woman - man: 0.1 and 0.3 in turn within Black (mean 0.2), 0.1 within White; the interaction is 0.1. Leaving out
    # one of six prompts, the standard error is the sd of the prompts over root 6; texts do not vary, so that df is 5.
    cells, factors = crossed_cells(
        {
            "Black woman": [0.5, 0.7] * 3, "Black man": [0.4, 0.4] * 3, "White woman": [0.4, 0.5] * 3,
            "White man": [0.3, 0.4] * 3,
        }
    )  # fmt: skip
    table = similarity_simple_effects(cells, factors, UNMARKED)
    assert len(table) == 4 and list(table["factor"]) == ["race", "race", "gender", "gender"]
    women = table[table["factor"].eq("gender")].set_index("within")
    assert women["difference"].to_dict() == pytest.approx({"Black": 0.2, "White": 0.1})
    assert number(women, "Black", "interaction") == pytest.approx(0.1) and np.isnan(
        number(women, "White", "interaction")
    )
    half = stats.t.ppf(0.975, 5) * np.std([0.1, 0.3] * 3, ddof=1) / np.sqrt(6)
    assert number(women, "Black", "ci_high") - 0.2 == pytest.approx(half)
    assert number(women, "Black", "interaction_ci_high") - 0.1 == pytest.approx(half)
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


@pytest.mark.slow
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


def of_names(seed: int, n_prompts: int, alike: float) -> float:
    """p of texts whose names have a direction of their own, blind to the group; ``alike``: Black texts share one."""
    rng, d = np.random.default_rng(seed), 24
    rows, vectors = [], []
    for race in ("White", "Black"):
        for name in range(12):
            own = rng.normal(size=d) + alike * (race == "Black") * np.eye(d)[0] * np.sqrt(d)
            for prompt in range(n_prompts):
                drawn = np.eye(d)[1] * np.sqrt(d) + own + 0.5 * rng.normal(size=(3, d))
                vectors.append(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
                rows += [(race, f"p{prompt}", f"{race} {name}")] * 3
    group, prompts, names = zip(*rows, strict=True)
    cells = similarity_cells(np.vstack(vectors), group, prompts, names)
    factors = pd.DataFrame({"race": ["White", "Black"]}, index=["White", "Black"])
    return float(similarity_effects(cells, factors, {"race": "White"})["p"].iloc[0])


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [3, 8])
def test_similarity_effects_of_names_with_habits_are_not_accused_and_planted_ones_are_found(n_prompts: int) -> None:
    # Over prompts alone a quarter of such blind worlds had p <= .05. Expected cosines: 1 / 2.25 = 0.44 of two names
    # that share one of their directions, (1 + 4) / (2.25 + 4) = 0.80 of two that share another, twice as long.
    found = sum(of_names(33_000 + seed, n_prompts, 0.0) <= 0.05 for seed in range(150))
    assert stats.binomtest(found, 150, 0.05, alternative="greater").pvalue > 0.01, found
    assert sum(of_names(34_000 + seed, n_prompts, 2.0) <= 0.05 for seed in range(20)) >= 18


def without_black_men(seed: int, black: float) -> pd.DataFrame:
    """Effects where no text is of Black men and women's texts are 0.1 more alike; Black texts by ``black``."""
    rng = np.random.default_rng(seed)
    made = {
        f"{race} {gender}": (
            0.4 + 0.1 * (gender == "woman") + black * (race == "Black") + rng.normal(0, 0.01, 8)
        ).tolist()
        for race, gender in (("White", "man"), ("White", "woman"), ("Black", "woman"))
    }
    return similarity_effects(*crossed_cells(made), UNMARKED).set_index("group")


@pytest.mark.slow
def test_similarity_effects_with_an_empty_crossed_group_are_within_what_both_have() -> None:
    # the mean over all groups of a value would give race the effect of gender: 0.5 - (0.4 + 0.5) / 2 = 0.05
    blind = [without_black_men(35_000 + seed, 0.0) for seed in range(100)]
    found = sum(number(table, "Black", "p") <= 0.05 for table in blind)
    assert stats.binomtest(found, 100, 0.05, alternative="greater").pvalue > 0.01, found
    planted = [without_black_men(36_000 + seed, 0.03) for seed in range(20)]
    assert sum(number(table, "Black", "p") <= 0.05 for table in planted) >= 18
    assert text(blind[0], "Black", "caveat").startswith("Within woman alone: the others have texts of one of the two")
    assert text(blind[0], "woman", "caveat").startswith("Within White alone")
    cells, factors = crossed_cells({"White man": [0.4] * 6, "Black woman": [0.5] * 6})
    nothing = similarity_effects(cells, factors, UNMARKED)
    assert nothing["difference"].isna().all() and nothing["caveat"].str.startswith("not estimated: no value").all()
