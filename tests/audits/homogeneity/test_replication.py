from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike

from markedness.audits.homogeneity.replication import effect_to_correlation, replication, single_axis

R = 1000


def effects(d: ArrayLike, comparison: str = "a v. b") -> pd.DataFrame:
    return pd.DataFrame(
        {"comparison": comparison, "cue": [f"cue {i}" for i in range(len(np.asarray(d)))], "d": d, "n_resamples": R}
    )


def test_effect_to_correlation_of_a_known_effect() -> None:
    # d = 1, R = 1000: t = sqrt(500), r = sqrt(500 / (500 + 1998)) = 0.447393; the sign is kept.
    assert effect_to_correlation([1, -1, 0], R) == pytest.approx([0.447393, -0.447393, 0], abs=1e-6)


def test_replication_of_a_study_in_itself_is_whole() -> None:
    made = replication(effects([0.5, -2.0, 3.0]), effects([0.5, -2.0, 3.0]))
    assert (made.n, made.hits, made.share, made.same_sign) == (3, 3, 1.0, 1.0)
    assert made.expected == pytest.approx(0.8342, abs=1e-4)
    # Expected 3 * 0.8342 hits: chi2 = (3 - 2.5027)^2 / 2.5027 + 0.4973^2 / 0.4973 = 0.5962.
    assert made.chi2 == pytest.approx(0.5962, abs=1e-3)


def test_replication_counts_effects_outside_the_interval_as_misses() -> None:
    # Around r = 0 the interval is +- 1.96 / sqrt(1998) = 0.0438; d = 0.1 has r = 0.05, d = 0.05 has r = 0.025.
    made = replication(effects([0.05, 0.1]), effects([0.0, 0.0]))
    assert made.table["hit"].tolist() == [True, False]
    assert made.share == 0.5


def test_replication_of_studies_with_equal_effects_reaches_the_expected_share() -> None:
    # Replicate noise of d is S_d = sqrt(2/R): hits are Binomial(2000, 0.834), sd 16.6 / 2000 = 0.0083; 4 sd = 0.033.
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, np.sqrt(2 / R), (2, 2000))
    made = replication(effects(first), effects(second))
    assert made.share == pytest.approx(made.expected, abs=0.033)


def test_replication_matches_comparisons_and_leaves_out_what_one_study_lacks() -> None:
    first = pd.concat([effects([1.0, 2.0]), effects([3.0], "a v. c")])
    second = pd.concat([effects([1.0, np.nan]), effects([3.0], "a v. d")])
    made = replication(first, second)
    assert made.table[["comparison", "cue"]].to_numpy().tolist() == [["a v. b", "cue 0"]]


def test_replication_without_common_effects_is_missing() -> None:
    made = replication(effects([1.0], "a v. b"), effects([1.0], "c v. d"))
    assert made.n == 0 and np.isnan(made.share) and np.isnan(made.p)


def test_replication_sampling_share_uses_the_bootstrap_interval() -> None:
    interval = {"difference_ci_low": -0.2, "difference_ci_high": 0.2}
    first = effects([5.0, 5.0]).assign(difference=[0.1, 0.3], **interval)
    second = effects([0.0, 0.0]).assign(difference=0.0, **interval)
    made = replication(first, second)
    assert made.hits == 0
    assert made.sampling_share == 0.5


def test_single_axis_leaves_out_crossed_groups() -> None:
    table = effects([1.0, 2.0, 3.0]).assign(axis=["race", "race x gender", "gender"])
    assert single_axis(table)["d"].tolist() == [1.0, 3.0]
    assert len(single_axis(effects([1.0]))) == 1
