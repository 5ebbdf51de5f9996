"""A small, seeded part of the calibration: rejections and coverage in worlds without an effect, and with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from markedness.audits.base import World
from markedness.audits.knowledge import SPEC
from markedness.audits.knowledge.evaluate import Params
from markedness.audits.knowledge.worlds import worlds
from markedness.compare import Comparison
from markedness.records import FeatureTables, Unsupported
from markedness.results import JUDGE, Score
from markedness.stats.inference import difference

pytestmark = pytest.mark.slow
N = 48
AT_MOST = int(binom.ppf(0.999, N, 0.05))
"""Rejections that a test of level .05 exceeds once in a thousand."""
AT_LEAST = int(binom.ppf(0.001, N, 0.93))


def scored(features: FeatureTables, seed: int) -> dict[str, Score]:
    assert SPEC.scores is not None
    return {score.key: score for score in SPEC.scores(features, Params(), np.random.default_rng(seed))}


@cache
def drawn(name: str) -> list[dict[str, Score]]:
    """The Scores of `N` draws of a world, by key."""
    world = next(one for one in worlds() if one.name == name)
    rng = np.random.default_rng(20261122)
    return [scored(world.draw(rng), seed) for seed in range(N)]


def of(world: World | str, key: str, part: Callable[[Score], float]) -> np.ndarray:
    return np.array([part(one[key]) for one in drawn(world if isinstance(world, str) else world.name)])


@pytest.mark.parametrize("world", ["copied_tone", "unequal_spread"])
@pytest.mark.parametrize("key", SPEC.headline)
def test_score_without_an_effect_is_rarely_found_and_its_interval_covers(world: str, key: str) -> None:
    p = of(world, key, lambda score: score.p)
    assert np.isfinite(p).all() and (p <= 0.05).sum() <= AT_MOST
    low, high = of(world, key, lambda score: score.ci_low), of(world, key, lambda score: score.ci_high)
    truth = of(world, key, lambda score: score.estimate).mean()
    assert ((low <= truth) & (truth <= high)).sum() >= AT_LEAST


@pytest.mark.parametrize("key", ["regard_gap.marked", "toxicity_gap.marked", "valid.difference"])
def test_two_draws_of_one_model_rarely_differ(key: str) -> None:
    made = drawn("copied_tone")
    p = [difference(a[key], b[key]).p for a, b in zip(made, [*made[1:], made[0]], strict=True)]
    assert (np.array(p) <= 0.05).sum() <= AT_MOST


@pytest.mark.parametrize("rounds", [1, 3])
def test_missing_triples_of_a_comparison_are_those_of_the_rounds_that_both_were_asked(rounds: int) -> None:
    study = next(one for one in worlds() if one.name == "unequal_invalid").draw.__self__  # type: ignore[attr-defined]
    features: dict[str, FeatureTables | Unsupported] = {
        "a": study.draw(np.random.default_rng(1)),
        "b": replace(study, rounds=rounds).draw(np.random.default_rng(2)),
    }
    compared = Comparison(
        "knowledge", features, lambda tables: list(scored(tables, 0).values()), SPEC.table, SPEC.cluster, SPEC.headline
    ).paired("a", "b")
    assert not isinstance(compared, Unsupported)
    for score in (compared.first["regard_gap.marked"], compared.second["regard_gap.marked"]):
        # 7 subjects in 6 crawls, each asked 4 triples in round 0 and 2 in round 1, whatever else b was asked
        assert score.n_missing > 0 and score.n + score.n_missing == 7 * 6 * (4 + 2)


def test_planted_topics_and_gaps_are_found_with_their_signs() -> None:
    topics = of("planted", "topic_divergence.marked", lambda score: score.p_adjusted)
    assert (topics <= 0.05).mean() > 0.8
    assert of("planted", "regard_gap.marked", lambda score: score.estimate).mean() < -0.2
    assert of("planted", "toxicity_gap.marked", lambda score: score.estimate).mean() > 0.03
    found = of("planted", "valid.difference", lambda score: score.p) <= 0.05
    assert found.sum() <= AT_MOST


def test_an_outlier_does_not_make_two_identical_subjects_differ() -> None:
    world = next(one for one in worlds() if one.name == "copied_tone")
    rng = np.random.default_rng(3)
    hits, outlier = dict.fromkeys(("regard_gap", "toxicity_gap", "topic_divergence"), 0), 0
    for seed in range(N):
        triples = world.draw(rng)["triples"]
        triples = triples[triples["class"].eq("gender identity")].reset_index(drop=True)
        odd = triples["subject"].eq("Women") & triples["included"]
        triples.loc[odd, "topic"], triples.loc[odd, "regard"], triples.loc[odd, "toxicity"] = 42, "negative", 0.9
        made = scored({"triples": triples}, seed)
        for measure in hits:
            hits[measure] += made[f"{measure}.gender_identity: Non-binary people"].p <= 0.05
        outlier += made["topic_divergence.gender_identity: Women"].p <= 0.05
    assert max(hits.values()) <= AT_MOST, hits
    assert outlier == N


def unscored(name: str, seed: int, share: float, above: float) -> tuple[dict[str, Score], FeatureTables]:
    """A draw of a world in which triples lost their toxicity: a share of all, and of the marked those above a value."""
    world = next(one for one in worlds() if one.name == name)
    rng = np.random.default_rng(seed)
    features = world.draw(rng)
    triples = features["triples"].copy()
    marked = triples["subject"].ne(triples["reference"])
    lost = (rng.random(len(triples)) < share) | (marked & triples["toxicity"].gt(above))
    triples.loc[lost, "toxicity"] = np.nan
    made = {**features, "triples": triples}
    return scored(made, seed), made


def test_toxicity_that_is_missing_alike_is_rarely_found_to_differ() -> None:
    drawn = [unscored("copied_tone", seed, 0.3, 2.0)[0] for seed in range(N)]
    p = np.array([one["toxicity_scored.difference"].p for one in drawn])
    assert np.isfinite(p).all() and (p <= 0.05).sum() <= AT_MOST
    assert np.isfinite([one["toxicity_gap.marked"].worst_low for one in drawn]).sum() <= AT_MOST


def test_toxicity_that_is_missing_for_what_is_worst_has_bounds_a_caveat_and_a_note() -> None:
    from markedness.audits.knowledge.evaluate import evaluate

    for seed in range(4):
        found, features = unscored("copied_tone", seed, 0.0, 0.1)
        gap = found["toxicity_gap.marked"]
        assert gap.worst_low <= gap.estimate <= gap.worst_high and "missing unequally (toxicity_scored" in gap.method
        assert "may be what this shows" in gap.caveat and not found["regard_gap.marked"].caveat
        assert "regard_scored.difference" not in found
    made = evaluate(features, Params(), np.random.default_rng(0))
    assert any("triples have no toxicity" in note and "0 of " in note for note in made.notes)


OWN_JUDGE = f"read by {JUDGE}: a model may be kinder to its own words, and what differs may be the judges"


@pytest.mark.parametrize(
    ("scorers", "note"),
    [
        (("service (mod-1)", "service (mod-2)"), "not read alike: by service (mod-1) in a, by service (mod-2) in b"),
        ((JUDGE, JUDGE), OWN_JUDGE),
        (("offline", "offline"), ""),
    ],
)
def test_what_others_read_out_of_the_texts_is_not_compared(scorers: tuple[str, str], note: str) -> None:
    draw = next(one for one in worlds() if one.name == "copied_tone").draw
    features: dict[str, FeatureTables | Unsupported] = {}
    for seed, (model, scorer) in enumerate(zip("ab", scorers, strict=True)):
        made = draw(np.random.default_rng(seed))
        features[model] = {**made, "triples": made["triples"].assign(toxicity_scorer=scorer)}
    compared = Comparison(
        "knowledge", features, lambda tables: list(scored(tables, 0).values()), SPEC.table, SPEC.cluster, SPEC.headline
    )
    found = {row["score"]: row for row in compared.differences().to_dict("records")}
    assert found["toxicity_gap.marked"]["note"] == note
    assert np.isnan(found["toxicity_gap.marked"]["p"]) == bool(note) and np.isfinite(found["regard_gap.marked"]["p"])
