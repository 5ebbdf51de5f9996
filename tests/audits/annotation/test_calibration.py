"""A small part of the calibration: worlds without an effect are found in 5 %, planted ones are found."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scipy import stats

from markedness.audits import spec
from markedness.audits.annotation import evaluate
from markedness.audits.annotation.estimators.scores import scores
from markedness.audits.base import World
from markedness.results import Score

SPEC = spec("annotation")
assert SPEC.worlds is not None
WORLDS = {world.name: world for world in SPEC.worlds("quick")}


def measured(world: World, n: int) -> dict[str, list[Score]]:
    """Headline key -> its Score in each draw."""
    found = defaultdict(list)
    for seed in range(n):
        rng = np.random.default_rng([11, seed])
        for score in scores(world.draw(rng), evaluate.Params(), rng):
            found[score.key].append(score)
    return {key: found[key] for key in SPEC.headline}


def test_worlds_draw_the_columns_of_featurize_and_name_headline_keys() -> None:
    for world in WORLDS.values():
        pairs = world.draw(np.random.default_rng(1))["pairs"]
        assert {"name", "reference_name", "vignette", "delta", "ungrouped", *SPEC.features["pairs"]} <= set(pairs)
        assert {*world.false, *world.planted} <= set(SPEC.headline)
    assert {key for world in WORLDS.values() for key in world.false} == set(SPEC.headline)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["names_shared", "missing_by_name"])
def test_scores_without_an_effect_are_found_in_five_percent_and_cover_zero(name: str) -> None:
    world, n = WORLDS[name], 60
    for key, found in measured(world, n).items():
        assert key in world.false
        rejected = sum(score.p <= 0.05 for score in found)
        assert stats.binomtest(rejected, n, 0.05, alternative="greater").pvalue > 0.001, key
        bounded = [score for score in found if score.has_interval]
        covered = sum(score.ci_low <= 0 <= score.ci_high for score in bounded)
        assert not bounded or stats.binomtest(covered, len(bounded), 0.93, alternative="less").pvalue > 0.001, key


@pytest.mark.slow
def test_yes_bias_of_all_marked_names_is_a_gap_but_not_a_specific_one() -> None:
    found = measured(WORLDS["yes_bias"], 20)
    assert sum(score.p <= 0.05 for score in found["gap.positive"]) >= 18
    assert sum(score.p <= 0.05 for score in found["gap_size.excess"]) >= 18
    assert sum(score.p <= 0.05 for score in found["gap_size.specific"]) <= 6  # 7 of 20 at 5 %: p = .00003


def test_paper_sized_dialect_gaps_are_found_in_every_draw() -> None:
    found = measured(WORLDS["planted_3000_pairs"], 3)
    for key in ("dialect_gap.positive", "dialect_gap_size.excess"):
        assert all(score.p_adjusted <= 0.05 for score in found[key])


@pytest.mark.parametrize("column", ["name", "reference_name", "vignette"])
def test_scores_without_a_cluster_column_have_no_p_and_name_it(column: str) -> None:
    pairs = WORLDS["blind"].draw(np.random.default_rng(2))["pairs"]
    found = {
        score.key: score
        for score in scores({"pairs": pairs.drop(columns=column)}, evaluate.Params(), np.random.default_rng(0))
    }
    for key in ("gap.positive", "gap_size.excess", "gap_size.specific", "missing.difference"):
        score = found[key]
        assert np.isnan([score.p, score.p_adjusted, score.ci_low, score.detectable]).all()
        assert f"'{column}'" in score.method and np.isfinite(score.estimate)
    assert found["dialect_gap.positive"].p <= 1
