from __future__ import annotations

import numpy as np
import pytest

from markedness.audits.homogeneity.estimators.effect_size import cohens_d, standard_error


def test_cohens_d_of_two_known_vectors() -> None:
    # Means 4 and 2, variances (ddof 1) 4 and 1: d = 2 / sqrt(2.5) = 1.264911; z = d / sqrt 2 = 0.894427.
    made = cohens_d([2, 4, 6], [1, 2, 3])
    assert made.d == pytest.approx(1.2649110640673518)
    assert made.z == pytest.approx(0.8944271909999159)
    # S_d = sqrt(2/3 + 1.6/12) = sqrt(0.8); t(0.975; 4) = 2.776445.
    assert made.ci_high - made.d == pytest.approx(2.7764451052 * np.sqrt(0.8))


def test_cohens_d_published_interval_of_table_a5() -> None:
    # Preparing food, White v. African: d = -4.92 [-5.10, -4.75] with R = 1000; each printed number is off by <= 0.005.
    from scipy.stats import t

    margin = t.ppf(0.975, 1998) * standard_error(-4.92, 1000)
    assert (-4.92 - margin, -4.92 + margin) == pytest.approx((-5.10, -4.75), abs=0.01)


def test_cohens_d_interval_shrinks_with_replicates_and_z_does_not() -> None:
    rng = np.random.default_rng(1)
    few = cohens_d(rng.normal(1, 1, 500), rng.normal(0, 1, 500))
    many = cohens_d(rng.normal(1, 1, 50_000), rng.normal(0, 1, 50_000))
    assert many.ci_high - many.ci_low < 0.15 * (few.ci_high - few.ci_low)
    assert many.z == pytest.approx(few.z, abs=0.2)


def test_cohens_d_without_variation_is_missing() -> None:
    assert np.isnan(cohens_d([1, 1], [1, 1])).all()
    assert np.isnan(cohens_d([2, 2], [1, 1])).all()
    assert np.isnan(cohens_d([np.nan, 2], [1, 2])).all()


def test_cohens_d_of_unequal_lengths_says_so() -> None:
    with pytest.raises(ValueError, match="same number"):
        cohens_d([1, 2], [1, 2, 3])
