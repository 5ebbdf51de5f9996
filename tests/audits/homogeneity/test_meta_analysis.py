from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.cells import number

from markedness.audits.homogeneity.estimators.meta_analysis import random_effects, reml_tau2
from markedness.audits.homogeneity.estimators.published import published_meta_analysis


def test_random_effects_equal_errors_reduce_to_the_variance_of_the_effects() -> None:
    # With equal errors REML is closed: tau^2 = var(y) - se^2 = 1 - 0.25; mean 2, error sqrt((0.75 + 0.25) / 3).
    pooled = random_effects([1, 2, 3], [0.5, 0.5, 0.5])
    assert pooled.tau2 == pytest.approx(0.75)
    assert pooled.estimate == pytest.approx(2)
    assert pooled.standard_error == pytest.approx(np.sqrt(1 / 3))
    # Q = 2 / 0.25 = 8 with 2 degrees of freedom: I^2 = 6/8.
    assert pooled.cochran_q == pytest.approx(8)
    assert pooled.i2 == pytest.approx(0.75)
    assert pooled.k == 3


def test_random_effects_agrees_with_paule_mandel_of_statsmodels_at_two_decimals() -> None:
    from statsmodels.stats.meta_analysis import combine_effects

    rng = np.random.default_rng(2)
    for _ in range(5):
        y, se = rng.normal(0, 3, 18), rng.uniform(0.04, 0.15, 18)
        oracle = combine_effects(y, se**2, method_re="iterated")
        pooled = random_effects(y, se)
        assert pooled.estimate == pytest.approx(oracle.mean_effect_re, abs=0.005)
        assert pooled.standard_error == pytest.approx(oracle.sd_eff_w_re, abs=0.005)
        assert pooled.cochran_q == pytest.approx(oracle.q)


def test_reml_tau2_maximises_the_restricted_likelihood() -> None:
    rng = np.random.default_rng(3)
    y, variances = rng.normal(0, 1, 12), rng.uniform(0.05, 2, 12)

    def log_likelihood(tau2: float) -> float:
        w = 1 / (variances + tau2)
        mu = np.average(y, weights=w)
        return float(0.5 * np.log(w).sum() - 0.5 * np.log(w.sum()) - 0.5 * (w * (y - mu) ** 2).sum())

    tau2 = reml_tau2(y, np.sqrt(variances))
    grid = np.linspace(0, 4, 4001)
    assert tau2 == pytest.approx(grid[np.argmax([log_likelihood(t) for t in grid])], abs=0.001)


def test_random_effects_alike_have_no_heterogeneity() -> None:
    pooled = random_effects([0.1, 0.1, 0.1], [0.2, 0.3, 0.4])
    assert (pooled.tau2, pooled.i2) == (0, 0)


def test_random_effects_leaves_out_missing_and_handles_none_and_one() -> None:
    assert random_effects([1, np.nan, 2], [0.1, 0.1, 0.1]).k == 2
    none = random_effects([np.nan], [0.1])
    assert none.k == 0 and np.isnan(none.estimate)
    one = random_effects([2.0], [0.5])
    assert (one.estimate, one.k) == (2.0, 1)
    assert one.ci_high == pytest.approx(2 + 1.959964 * 0.5)
    assert np.isnan(one.tau2) and np.isnan(one.i2)


def test_random_effects_error_of_zero_says_so() -> None:
    with pytest.raises(ValueError, match="positive"):
        random_effects([1, 2], [0.0, 0.1])


def test_published_meta_analysis_q_does_not_depend_on_the_confidence_level() -> None:
    # d of 0, 1 and 2 with a standard error of 0.5: Q = (1 + 0 + 1) / 0.25 = 8, whatever the level of the intervals.
    found = {}
    for level, z in ((0.95, 1.96), (0.8, 1.281552)):
        about = {"comparison": "a v. b", "axis": "x", "group": "b", "reference": "a"}
        effects = pd.DataFrame({"d": [0.0, 1.0, 2.0]}).assign(**about)
        effects = effects.assign(ci_low=effects["d"] - 0.5 * z, ci_high=effects["d"] + 0.5 * z)
        found[level] = number(published_meta_analysis(effects, level), 0, "cochran_q")

    assert found[0.95] == pytest.approx(8)
    assert found[0.8] == pytest.approx(8, rel=1e-4)
