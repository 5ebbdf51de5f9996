from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.estimators.decisions import count, verdicts
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
        cluster="verb",
        cluster_reference="verb",
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


def test_mean_leaves_missing_out_and_weighs() -> None:
    assert mean(np.array([[1.0, np.nan], [3.0, np.nan]])) == pytest.approx([2.0, np.nan], nan_ok=True)
    # weights 2 and 1 on 1 and 4: 2
    assert mean(np.array([[1.0, 4.0]]), -1, np.array([[2.0, 1.0]])) == pytest.approx([2.0])


def test_mean_over_sets_counts_a_setting_once() -> None:
    sets = [made(np.zeros((1, 1, 1)), np.zeros((1, 1, 1)), setting) for setting in ("matched", "matched", "unmatched")]
    scores = [np.array([[0.0]]), np.array([[0.2]]), np.array([[0.5]])]
    assert mean_over_sets(sets, scores) == pytest.approx(np.array([[0.3]]))


def test_count_of_decisions_of_both_guises() -> None:
    # words: harmless, harmful; neutral context equal; harmful wins in pair 0 of the guise only
    log_p, reference = np.zeros((2, 1, 2)), np.zeros((2, 1, 2))
    log_p[0, 0, 1], log_p[1, 0, 1], reference[:, 0, 1] = 1.0, -1.0, -1.0
    found = count([verdicts(made(log_p, reference, neutral=0.0), [False, True])])
    assert (found.count, found.n, found.count_reference, found.n_reference) == (1, 2, 0, 2)
    assert found.difference == 0.5


def test_verdicts_missing_probability_is_no_decision() -> None:
    log_p = np.zeros((1, 1, 2))
    log_p[0, 0, 0] = np.nan
    found = count([verdicts(made(log_p, np.zeros((1, 1, 2)), neutral=0.0), [False, True])])
    assert (found.n, found.n_reference) == (0, 1)
    assert np.isnan(found.difference)
