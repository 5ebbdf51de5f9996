from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from markedness.audits.guise.estimators.favorability import rank_correlation, regression, top_favorability

RATINGS = pd.Series({"kind": 1.5, "rude": -1.5, "loud": -0.5})


def test_top_favorability_weighted_and_unweighted() -> None:
    # top two: rude (3), kind (1): (-1.5 * 3 + 1.5 * 1) / 4 = -0.75; unweighted 0
    found = top_favorability(pd.Series({"kind": 1.0, "rude": 3.0, "loud": 0.5}), RATINGS, n=2)
    assert found.attributes == ("rude", "kind")
    assert found.weighted == pytest.approx(-0.75)
    assert found.unweighted == 0.0


def test_top_favorability_negative_top_score_has_no_weighted_mean() -> None:
    found = top_favorability(pd.Series({"kind": -0.1, "rude": 3.0}), RATINGS, n=2)
    assert np.isnan(found.weighted)
    assert found.unweighted == 0.0


def test_top_favorability_without_ratings_is_missing() -> None:
    found = top_favorability(pd.Series({"odd": 1.0}), RATINGS)
    assert found.attributes == ()
    assert np.isnan(found.unweighted)


def test_rank_correlation_reversed_is_minus_one() -> None:
    rho, _, n = rank_correlation(pd.Series({"kind": 1.0, "rude": 3.0, "loud": 2.0, "odd": 9.0}), RATINGS)
    assert rho == pytest.approx(-1.0) and n == 3


def test_regression_constant_x_is_missing() -> None:
    assert np.isnan(regression([1, 1, 1], [1, 2, 3]).slope)


def test_regression_of_a_line() -> None:
    # y = 1 - 2x with residuals +1, -2, +1 around it, which are orthogonal to 1 and x
    found = regression([0, 1, 2, np.nan], [2, -3, -2, 5])
    assert (found.intercept, found.slope) == pytest.approx((1, -2)) and found.n == 3
    # SSR = 6, SS of the line = 4 * 2 = 8: R2 = 8/14, F = 8 / (6/1)
    assert found.r_squared == pytest.approx(8 / 14)
    assert found.f == pytest.approx(8 / 6)
