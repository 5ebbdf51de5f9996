from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from markedness.stats.inference import holm
from markedness.stats.t_tests import correlations, one_sample_t, pooled_t


def test_holm_equals_statsmodels_and_leaves_missing_out() -> None:
    p = np.random.default_rng(0).random(20) ** 3
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    # families of 2: 0.01 * 2, then 0.04 * 1
    assert holm([0.04, np.nan, 0.01]) == pytest.approx([0.04, np.nan, 0.02], nan_ok=True)
    assert np.isnan(holm([np.nan])).all()
    assert holm([]).shape == (0,)


def test_one_sample_t_worked_example() -> None:
    # mean 2, population sd sqrt(2/3), t = 2 / sqrt(2/3) * sqrt(2) = 3.4641
    found = one_sample_t([1.0, 2.0, 3.0, np.nan])
    assert (found.mean, found.n, found.df) == (2.0, 3, 2)
    assert found.t == pytest.approx(2 / np.sqrt(2 / 3) * np.sqrt(2))


@pytest.mark.parametrize("values", [[], [1.0], [2.0, 2.0]])
def test_one_sample_t_without_variance_is_missing(values: list[float]) -> None:
    assert np.isnan(one_sample_t(values).p)


def test_pooled_t_without_a_sample_is_missing() -> None:
    assert np.isnan(pooled_t([], [1.0, 2.0]).p)
    assert np.isnan(pooled_t([1.0], [1.0]).p)


def test_correlations_of_pairs_of_columns() -> None:
    table = correlations(pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [2.0, 4, 6, 9], "c": [1.0, 1, 1, 1]}))
    assert table[["first", "second"]].values.tolist() == [["a", "b"], ["a", "c"], ["b", "c"]]
    assert table["r"].iloc[0] == pytest.approx(np.corrcoef([1, 2, 3, 4], [2, 4, 6, 9])[0, 1])
    assert np.isnan(table["r"].iloc[1])
    # a family of one: the two others have no p
    assert table["p_adjusted"].iloc[0] == pytest.approx(table["p"].iloc[0])
