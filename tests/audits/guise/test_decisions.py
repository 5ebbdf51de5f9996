from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from markedness import matched_guise
from markedness.audits.guise import SPEC, worlds
from markedness.audits.guise.estimators.decisions import Verdicts, margins, published_chi_square, two_by_two
from markedness.audits.guise.estimators.differences import decision_contrast, decision_score
from markedness.results import Score
from markedness.stats.inference import ALPHA, difference


def test_margins_of_the_two_rules_can_disagree() -> None:
    # p: 0.02 (neutral 0.01) for the detrimental word, 0.30 (neutral 0.20) for the other:
    # ratio: 2 > 1.5, detrimental; difference: 0.01 < 0.10, not
    p, neutral = np.log([[0.30, 0.02]]), np.log([[0.20, 0.01]])
    assert margins(p, neutral, [False, True], "ratio") == pytest.approx([np.log(2 / 1.5)])
    assert margins(p, neutral, [False, True], "difference") == pytest.approx([-0.09])


def test_margins_tie_is_zero_and_missing_stays_missing() -> None:
    p = [[np.log(0.1), np.log(0.1)], [np.nan, 0.0]]
    found = margins(p, np.zeros((2, 2)), [True, False])
    assert found[0] == 0.0
    assert np.isnan(found[1])


def test_margins_without_a_detrimental_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="detrimental"):
        margins([[0.0]], [[0.0]], [False])


def test_published_chi_square_is_the_printed_form() -> None:
    # Supplementary Information, Table 3: 126 against 38: 88^2/164 = 47.2195
    assert published_chi_square(126, 38).statistic == pytest.approx(47.2195, abs=1e-4)
    assert np.isnan(published_chi_square(0, 0).statistic)


def test_two_by_two_counts_the_other_decisions_too() -> None:
    # 8 of 10 against 2 of 10: 20 (8*8 - 2*2)^2 / (10^4) = 7.2
    assert two_by_two(8, 10, 2, 10).statistic == pytest.approx(7.2)
    assert published_chi_square(8, 2).statistic == pytest.approx(3.6)
    assert np.isnan(two_by_two(10, 10, 10, 10).p)


def test_decisions_of_texts_that_are_not_matched_are_not_missing_for_want_of_a_counterpart() -> None:
    # three texts of the guise and two of its reference, each on a row of its own: 5 decisions, of which one failed
    nan = np.nan
    one = Verdicts(
        "unmatched", ["p"], np.array([[1.0], [nan], [-1.0], [nan], [nan]]),
        np.array([[nan], [nan], [nan], [1.0], [-1.0]]), "own", "AAE", "SAE",
        np.array(["a", "b", "c", "", ""], dtype=object), np.array(["", "", "", "d", "e"], dtype=object),
    )  # fmt: skip
    made = decision_score("decision.x", [one], np.random.default_rng(0), 1)
    assert (made.n, made.n_missing) == (4, 1)


def test_model_that_decides_all_alike_can_be_compared_with_one_that_does_not() -> None:
    verbs = np.array([f"verb {n}" for n in range(30)], dtype=object)
    none = np.full((30, 8), -1.0)
    some = none.copy()
    some[:10] = 1.0
    made = [
        decision_score(
            "x",
            [Verdicts("matched", [f"p{n}" for n in range(8)], one, none, "own", "AAE", "SAE", verbs, verbs)],
            np.random.default_rng(0),
            1,
        )
        for one in (some, none)
    ]
    assert made[1].p == 1 and np.isnan(made[1].ci_low) and made[0].fewest == made[1].fewest == 8
    found = difference(made[0], made[1])
    assert set(found.clusters) == {"verb", "prompt"} and found.estimate > 0 and found.p < 0.01


def of_two_large_verbs(seed: int, group: str = "AAE", set_of: str = "own") -> Verdicts:
    """Blind decisions after 9 prompts on texts of 12 verbs, of which two have 20 texts and ten have two."""
    rng = np.random.default_rng([20261127, seed])
    verb = np.repeat(np.arange(12), [20, 20, *[2] * 10])
    names = np.array([f"{set_of} {one}" for one in verb], dtype=object)
    rates = rng.beta(0.8, 3.2, (2, 12))[:, verb, None]
    first, second = np.where(rng.random((2, len(verb), 9)) < rates, 1.0, -1.0)
    return Verdicts("matched", [f"p{n}" for n in range(9)], first, second, set_of, group, "SAE", names, names)


def test_decisions_on_texts_of_few_effective_verbs_are_not_found_for_want_of_an_error() -> None:
    # with prompts as the only factor 204 of 300 such worlds had p <= .05
    found = [decision_score("x", [of_two_large_verbs(seed)], np.random.default_rng(seed), 1) for seed in range(150)]
    accused = sum(score.p <= 0.05 for score in found)
    assert stats.binomtest(accused, 150, 0.05, alternative="greater").pvalue > 0.01, accused
    assert all(np.isnan(score.ci_low) and "Fewer than 6 of 'verb'" in score.caveat for score in found)
    pairs = [[of_two_large_verbs(seed + n, group, group)] for seed, n, group in ((0, 300, "AAE"), (0, 600, "IE"))]
    contrast = decision_contrast("x", pairs[0], pairs[1], np.random.default_rng(0))
    assert np.isfinite(contrast.estimate) and np.isnan(contrast.p) and np.isnan(contrast.ci_low)
    assert contrast.lacking.startswith("it takes 6 clusters in each group, the smallest has 4.29 of")


def of_unlike_prompts(seed: int, n: tuple[int, ...] = (50, 32, 15), effect: float = 0.0) -> list[Verdicts]:
    """Texts that are not matched, each asked in one of three prompts, of which the first is harsh whoever speaks."""
    rng = np.random.default_rng([20261128, seed])
    sides = []
    for of_prompts, shift in ((n, effect), (n[::-1], 0.0)):
        prompt = np.repeat([0, 1, 2], of_prompts)
        margin = np.full((len(prompt), 3), np.nan)
        margin[np.arange(len(prompt)), prompt] = np.array([1.2, 0.0, -1.2])[prompt] + rng.normal(size=len(prompt))
        sides.append(margin + shift)
    nothing = [np.full(side.shape, np.nan) for side in sides]
    names = [np.array([f"{who}{place}" for place in range(len(side))]) for who, side in zip("mu", sides, strict=True)]
    blank = [np.full(len(side), "") for side in sides]
    return [
        Verdicts(
            "unmatched", ["c1", "c2", "c3"], np.vstack([sides[0], nothing[1]]), np.vstack([nothing[0], sides[1]]),
            "own", "AAE", "SAE", np.r_[names[0], blank[1]].astype(object), np.r_[blank[0], names[1]].astype(object),
        )
    ]  # fmt: skip


def test_prompts_that_are_unlike_by_guise_are_no_difference_of_the_guises() -> None:
    # without equal prompts 294 of 300 such worlds had p < .05, and 3 intervals of 300 held 0; binomial(100, .05)
    made = [decision_score("x", of_unlike_prompts(seed), np.random.default_rng(seed), 1) for seed in range(100)]
    assert sum(score.p <= 0.05 for score in made) <= 11
    assert sum(score.ci_low <= 0 <= score.ci_high for score in made) >= 89
    found = [
        decision_score("x", of_unlike_prompts(seed, effect=0.8), np.random.default_rng(seed), 1) for seed in range(10)
    ]
    assert sum(score.p <= 0.05 and score.estimate > 0 for score in found) >= 8
    assert made[0].n == 194


def of_unlike_sources(seed: int) -> Verdicts:
    """Texts on 16 sources that both guises have, one mostly on those that are harsh whoever speaks."""
    rng = np.random.default_rng([20261129, seed])
    harsh, nan, sides = np.repeat([1.0, -1.0], 8), np.nan, []
    for n in (np.repeat([9, 2], 8), np.repeat([2, 9], 8)):
        source = np.repeat(np.arange(16), n)
        sides.append((source, harsh[source][:, None] + rng.normal(size=(len(source), 3))))
    names = [np.array([f"s{one}" for one in source], dtype=object) for source, _ in sides]
    (first, second), blank = (side for _, side in sides), [np.full(len(of), "", dtype=object) for of in names]
    return Verdicts(
        "unmatched", ["c1", "c2", "c3"], np.vstack([first, np.full(second.shape, nan)]),
        np.vstack([np.full(first.shape, nan), second]), "own", "AAE", "SAE", np.r_[names[0], blank[1]],
        np.r_[blank[0], names[1]],
    )  # fmt: skip


def test_sources_that_are_unlike_by_guise_are_no_difference_of_the_guises() -> None:
    # with whole rates each of 150 such worlds had p < .05, and no interval held 0; binomial(100, .05): 11 in 99 %
    made = [decision_score("x", [of_unlike_sources(seed)], np.random.default_rng(seed), 1) for seed in range(100)]
    assert sum(score.p <= 0.05 for score in made) <= 11
    assert sum(score.ci_low <= 0 <= score.ci_high for score in made) >= 89


def test_difference_of_unlike_prompts_is_the_weighted_mean_of_those_within_prompts() -> None:
    (one,) = of_unlike_prompts(1)
    hits = [one.detrimental, one.detrimental_reference]
    n = np.array([np.isfinite(side).sum(axis=0) for side in hits], dtype=float)
    within = np.nanmean(hits[0], axis=0) - np.nanmean(hits[1], axis=0)
    weights = n[0] * n[1] / n.sum(axis=0)
    made = decision_score("x", [one], np.random.default_rng(0), 1)
    assert made.estimate == pytest.approx((weights * within).sum() / weights.sum())
    even = of_unlike_prompts(1, (30, 30, 30))
    score = decision_score("x", even, np.random.default_rng(0), 1)
    rates = np.nanmean(even[0].detrimental), np.nanmean(even[0].detrimental_reference)
    assert score.estimate == pytest.approx(rates[0] - rates[1])


def test_difference_is_not_over_a_prompt_of_one_guise_alone_and_says_so() -> None:
    (one,) = of_unlike_prompts(1, (40, 40, 40))
    first = one.margin.copy()
    first[:, 2] = np.nan
    made = decision_score("x", [replace(one, margin=first)], np.random.default_rng(0), 1)
    assert "Not over c3: texts of one guise alone have an answer." in made.caveat and made.n == 160
    assert made.method.endswith("; 40 of 200 have no counterpart in the other guise and are left out")
    first[:, :2] = np.nan
    alone = decision_score("x", [replace(one, margin=first)], np.random.default_rng(0), 1)
    assert np.isnan(alone.estimate) and np.isnan(alone.p)


def of_own_file(guise: str, prompts: tuple[int, ...]) -> list[Verdicts]:
    """Texts of a guise and of its own reference, each asked in some of four prompts."""
    rng = np.random.default_rng(len(guise))
    sides = rng.normal(size=(2, 20, 4))
    sides[:, :, [place for place in range(4) if place not in prompts]] = np.nan
    names = np.array([f"{guise} {n}" for n in range(20)], dtype=object)
    return [Verdicts("unmatched", ["c1", "c2", "c3", "c4"], sides[0], sides[1], guise, guise, "SAE", names, names)]


def test_contrast_of_guises_in_files_of_their_own_is_over_the_prompts_of_both_and_says_so() -> None:
    first = of_own_file("AAE", (0, 1, 2))
    made = decision_contrast("x", first, of_own_file("IE", (1, 2, 3)), np.random.default_rng(0))
    assert made.n == 160 and np.isfinite(made.p)
    assert made.method.endswith("; 80 of 240 have no counterpart in the other guise and are left out")
    assert made.caveat.startswith("Not over c1, c4: texts of one guise alone have an answer.")
    apart = decision_contrast("x", first, of_own_file("IE", (3,)), np.random.default_rng(0))
    assert np.isnan([apart.estimate, apart.p]).all() and apart.lacking.startswith("no prompt has answers")


def test_table_of_unlike_prompts_says_that_its_difference_is_not_that_of_its_rates() -> None:
    rng = np.random.default_rng(0)
    rows = [("c1", "", "", -3.0), ("c2", "", "", -3.0)]
    for guise, n_of in (("AAE", (30, 10)), ("SAE", (10, 30))):
        for prompt, n, harsh in zip(("c1", "c2"), n_of, (1.2, -1.2), strict=True):
            rows += [(prompt, guise, f"{guise} {prompt} {k}", -3.0 + harsh + rng.normal() / 2) for k in range(n)]
    frame = pd.DataFrame(
        [(*row[:3], word, value) for row in rows for word, value in (("convicted", row[3]), ("acquitted", -3.0))],
        columns=["prompt", "guise", "text", "word", "lp"],
    ).assign(task="conviction")
    made = matched_guise(
        frame, "lp", "guise", "SAE", candidate="word", prompt="prompt", task="task", text="text", verb="text"
    )
    whole = made.tables["decisions"].query("level == 'all' and rule == 'ratio'").iloc[0]
    assert whole["rate"] - whole["rate_reference"] > 0.3 and whole["difference"] < 0.1
    assert any(note.startswith("In decisions of conviction the two guises have unlike shares") for note in made.notes)


def of_world(verbs: int, guilt: float, seed: int) -> Score:
    """``decision.conviction`` of a world of three pairs a verb, of which seven in ten are there."""
    rng = np.random.default_rng([seed, verbs])
    features = worlds.Model(asked=worlds.Asked(12, 3, 2, 12), attribute=0.05, verbs=verbs, guilt=guilt).draw(rng)
    pairs = features["scores"]["pair"].astype(str)
    lost = {pair for pair in pairs.unique() if rng.random() < 0.3 and not pair.startswith("overt")}
    features = {**features, "scores": features["scores"][~pairs.isin(lost)].reset_index(drop=True)}
    assert SPEC.scores
    found = SPEC.scores(features, SPEC.params("evaluate")(), rng)
    return next(score for score in found if score.key == "decision.conviction")


@pytest.mark.slow
@pytest.mark.parametrize(("verbs", "guilt"), [(10, -1.3), (30, -0.6)])
def test_effect_that_a_card_names_where_few_decisions_differ_would_have_been_found(verbs: int, guilt: float) -> None:
    named = float(np.nanmedian([of_world(verbs, 0.0, seed).detectable for seed in range(10)]))
    made = [of_world(verbs, guilt, 100 + seed) for seed in range(20)]
    size = abs(np.mean([score.estimate for score in made]))
    assert 0.85 * named < size < 1.1 * named
    found = sum(score.p <= ALPHA / score.family for score in made)
    assert stats.binomtest(found, len(made), 0.8, alternative="less").pvalue > 0.01, found
