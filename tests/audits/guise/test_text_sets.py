from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.estimators.decisions import count, count_resampled, count_swapped, verdicts
from markedness.audits.guise.estimators.spread import draw, spread
from markedness.audits.guise.estimators.text_sets import TextSet, mean, mean_over_sets, text_sets


def made(log_p: np.ndarray, reference: np.ndarray, setting: str = "matched", neutral: float = np.nan) -> TextSet:
    n, m, k = log_p.shape
    prompts, attributes = [f"P{place}" for place in range(m)], [f"x{place}" for place in range(k)]
    return TextSet("set", setting, False, prompts, attributes, log_p, reference, np.full((n, m, k), neutral))


def rows(pairs: list[str]) -> pd.DataFrame:
    cells = [(pair, prompt, word) for pair in pairs for prompt in ("P1", "P2") for word in ("b", "a")]
    table = pd.DataFrame(cells, columns=["pair", "prompt_id", "attribute"])
    table["log_prob"] = np.arange(len(table), dtype=float)
    return table.assign(
        log_prob_reference=0.0,
        neutral_log_prob=np.nan,
        estimator="exact",
        text_set="set",
        setting="matched",
        control=False,
    )


def test_text_sets_arrange_pairs_prompts_and_sorted_attributes() -> None:
    (one,) = text_sets(rows(["p", "q"]))
    assert (one.prompts, one.attributes) == (["P1", "P2"], ["a", "b"])
    assert one.log_p.tolist() == [[[1, 0], [3, 2]], [[5, 4], [7, 6]]]


def test_text_sets_keep_a_repeated_pair_twice() -> None:
    table = rows(["p", "q"])
    (one,) = text_sets(pd.concat([table, table[table["pair"].eq("p")]], ignore_index=True))
    assert one.n_pairs == 3
    # a: (1 + 5 + 1)/3 in P1
    assert one.log_ratio(base=np.e)[0, 0] == pytest.approx(7 / 3)


@pytest.mark.parametrize("setting", ["matched", "unmatched"])
def test_log_ratio_swapped_without_and_with_all_flips_keeps_or_negates(setting: str) -> None:
    rng = np.random.default_rng(0)
    one = made(-rng.random((6, 2, 3)), -rng.random((6, 2, 3)), setting)
    flips = np.array([[False] * 6, [True] * 6])
    assert one.log_ratio_swapped(flips)[0] == pytest.approx(one.log_ratio())
    assert one.log_ratio_swapped(flips)[1] == pytest.approx(-one.log_ratio())


def test_log_ratio_swapped_unmatched_equals_moving_the_texts() -> None:
    rng = np.random.default_rng(1)
    a, b = -rng.random((4, 1, 1)), -rng.random((4, 1, 1))
    b[3] = np.nan
    flips = np.array([[True, False, False, True]])
    moved_a, moved_b = a.copy(), b.copy()
    moved_a[[0, 3]], moved_b[[0, 3]] = b[[0, 3]], a[[0, 3]]
    assert made(a, b, "unmatched").log_ratio_swapped(flips)[0] == pytest.approx(
        made(moved_a, moved_b, "unmatched").log_ratio()
    )


def test_mean_leaves_missing_out_and_weighs() -> None:
    assert mean(np.array([[1.0, np.nan], [3.0, np.nan]])) == pytest.approx([2.0, np.nan], nan_ok=True)
    # weights 2 and 1 on 1 and 4: 2
    assert mean(np.array([[1.0, 4.0]]), -1, np.array([[2.0, 1.0]])) == pytest.approx([2.0])


def test_mean_over_sets_counts_a_setting_once() -> None:
    sets = [made(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), setting) for setting in ("matched", "matched", "unmatched")]
    scores = [np.array([[0.0]]), np.array([[0.2]]), np.array([[0.5]])]
    assert mean_over_sets(sets, scores) == pytest.approx(np.array([[0.3]]))


def first_attribute(log_ratio: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    return mean(log_ratio[..., 0], -1, weights)


def test_spread_of_noise_holds_its_level_and_covers_the_truth() -> None:
    covered, accused, n = 0, 0, 150
    for seed in range(n):
        rng = np.random.default_rng(seed)
        one = made(rng.normal(size=(20, 2, 3)), rng.normal(size=(20, 2, 3)))
        draws = draw([one], np.e, 200, 199, rng)
        found = spread(first_attribute, float(first_attribute(one.log_ratio(np.e), None)), draws)
        covered += found.low <= 0 <= found.high
        accused += found.p <= 0.05
    # 5 % of 150 is 7.5, standard deviation 2.7; two prompts make the interval wide rather than narrow
    assert accused <= 16
    assert covered >= 0.9 * n


def test_spread_of_few_pairs_has_no_null_and_of_one_cell_no_interval() -> None:
    one = made(np.ones((1, 1, 2)), np.zeros((1, 1, 2)))
    found = spread(
        lambda scores, weights: mean(scores[..., 0], -1, weights),
        1.0,
        draw([one], np.e, 20, 20, np.random.default_rng(0)),
    )
    assert np.isnan([found.low, found.high, found.p, found.null_mean]).all()


def test_spread_beyond_the_range_of_the_score_is_clipped() -> None:
    one = made(np.random.default_rng(0).normal(size=(8, 2, 2)), np.zeros((8, 2, 2)))
    draws = draw([one], np.e, 50, 50, np.random.default_rng(0))
    found = spread(first_attribute, 0.0, draws, bounds=(0.0, 0.001))
    assert (found.low, found.high) == (0.0, 0.001)


def test_count_of_decisions_resampled_and_swapped() -> None:
    # words: harmless, harmful; neutral context equal; harmful wins in pair 0 of the guise only
    log_p, reference = np.zeros((2, 1, 2)), np.zeros((2, 1, 2))
    log_p[0, 0, 1], log_p[1, 0, 1], reference[:, 0, 1] = 1.0, -1.0, -1.0
    decided = [verdicts(made(log_p, reference, neutral=0.0), [False, True])]
    plain = count(decided)
    assert (plain.count, plain.n, plain.count_reference, plain.n_reference) == (1, 2, 0, 2)
    assert count_resampled(decided, [[[2, 0], [0, 2]]], [[1], [1]]).difference == pytest.approx([1.0, 0.0])
    assert count_swapped(decided, [[[0, 0], [1, 0], [1, 1]]]).difference == pytest.approx([0.5, -0.5, -0.5])


def test_verdicts_missing_probability_is_no_decision() -> None:
    log_p = np.zeros((1, 1, 2))
    log_p[0, 0, 0] = np.nan
    found = count([verdicts(made(log_p, np.zeros((1, 1, 2)), neutral=0.0), [False, True])])
    assert (found.n, found.n_reference) == (0, 1)
    assert np.isnan(found.difference)
