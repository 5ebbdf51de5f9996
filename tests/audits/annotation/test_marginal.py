"""Marginal gaps and intervals of margins: planted effects are found, blind worlds are not accused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.cells import number

from markedness.audits.annotation import evaluate, figures, worlds
from markedness.audits.annotation.estimators.cells import REASONS, factors, matched, of_paradigm
from markedness.audits.annotation.estimators.marginal import marginal_gaps
from markedness.audits.annotation.estimators.notes import few_clusters
from markedness.audits.annotation.estimators.tables import name_gaps
from markedness.records import FeatureTables

from .conftest import PARAMS, stored, tabled

WORLDS = {world.name: world for world in worlds.worlds("quick")}


def marginal(features: FeatureTables) -> pd.DataFrame:
    parts = {name: matched(of_paradigm(features["pairs"], name)) for name in ("names", "dialect")}
    return marginal_gaps(parts, 0.95)


def scored(seed: int, world: str = "names_shared", shift: float = 0.0) -> FeatureTables:
    """A world whose answers have margins: names move them, and Black names by ``shift`` nats."""
    tables = WORLDS[world].draw(np.random.default_rng(seed))
    rng, pairs = np.random.default_rng(seed + 1000), tables["pairs"]
    leaning = {name: rng.normal(0, 0.3) for name in pd.unique(pairs[["name", "reference_name"]].to_numpy().ravel())}
    for side, name in (("", "name"), ("_reference", "reference_name")):
        pairs[f"margin{side}"] = pairs[name].map(leaning).fillna(0.0) + rng.normal(size=len(pairs))
    pairs["margin"] += shift * pairs["group"].eq("Black")
    return tables


def accused(p: list[float]) -> float:
    """p of at least so many of the tests at .05 or below, if each were right."""
    return float(stats.binomtest(sum(value <= 0.05 for value in p), len(p), 0.05, alternative="greater").pvalue)


def one(table: pd.DataFrame, by: str, item: str, measure: str, column: str = "p", paradigm: str = "names") -> float:
    rows = table.query("paradigm == @paradigm and by == @by and item == @item and measure == @measure")
    assert len(rows) == 1, (by, item, measure)
    return float(rows[column].iloc[0])


def test_marginal_gaps_are_means_of_the_cells_with_their_valence() -> None:
    # hireable (favorable): marked yes 2 of 3, unmarked 1 of 3, gap 1/3; poor (unfavorable): 3 of 3 and 1 of 3, gap 2/3
    rows = pd.concat([
        stored(
            group=["Black"] * 3 + ["White"] * 3, pair=list("123123"), vignette=list("abcabc"), y=list(y),
            name=["x", "y", "z", "u", "v", "w"], task=[task] * 6, iteration=["0"] * 6,
            domain=["economic" if task == "poor" else "employability"] * 6,
        )
        for task, y in (("hireable", "110100"), ("poor", "111001"))
    ], ignore_index=True)  # fmt: skip
    table = marginal(tabled(rows))
    assert one(table, "all", "all", "gap", "estimate") == pytest.approx(1 / 2)
    assert one(table, "all", "all", "favorable_gap", "estimate") == pytest.approx((1 / 3 - 2 / 3) / 2)
    assert one(table, "task", "poor", "gap", "estimate") == pytest.approx(2 / 3)
    assert one(table, "valence", "favorable", "gap", "estimate") == pytest.approx(1 / 3)
    assert one(table, "valence", "favorable", "gap", "n") == 3 and one(table, "all", "all", "gap", "cells") == 2
    # one group, and no scored answers: no margin by group, no margin_gap; three names are no sample
    assert set(table["by"]) == {"all", "task", "domain", "valence"} and "margin_gap" not in set(table["measure"])
    assert table[["ci_low", "ci_high", "p"]].isna().all().all()


@pytest.mark.slow
def test_blind_worlds_are_not_accused_by_any_margin() -> None:
    made = [marginal(scored(seed)) for seed in range(60)]
    for by, item in (("all", "all"), ("group", "Black"), ("task", "leader"), ("valence", "favorable")):
        for measure in ("gap", "margin_gap", *(["favorable_gap"] if by in ("all", "group") else [])):
            found = [one(table, by, item, measure) for table in made]
            assert accused(found) > 0.01, (by, item, measure)
    # Benjamini-Hochberg over the groups: some group is found in at most 5 % of the blind studies
    groups = [table.query("by == 'group' and measure == 'favorable_gap'")["p_adjusted"].min() for table in made]
    assert accused(groups) > 0.01
    covered = [one(t, "all", "all", "gap", "ci_low") <= 0 <= one(t, "all", "all", "gap", "ci_high") for t in made]
    assert stats.binomtest(sum(covered), len(made), 0.95, alternative="less").pvalue > 0.01


@pytest.mark.slow
def test_planted_margins_are_found_and_hold_their_size() -> None:
    tables = [marginal(scored(seed, "planted_3000_pairs", 0.5)) for seed in range(8)]
    # Törnberg (2026), table 3, over the four groups: poor +0.066, +0.033, +0.048, +0.038
    poor = (0.066 + 0.033 + 0.048 + 0.038) / 4
    bounds = [(one(t, "task", "poor", "gap", "ci_low"), one(t, "task", "poor", "gap", "ci_high")) for t in tables]
    assert sum(low <= poor <= high for low, high in bounds) >= 6
    assert sum(one(t, "task", "poor", "gap", "p_adjusted") <= 0.05 for t in tables) >= 6
    for table in tables:
        assert one(table, "group", "Black", "margin_gap", "p_adjusted") <= 0.001
        assert one(table, "group", "Black", "margin_gap", "estimate") == pytest.approx(0.5, abs=0.25)
        assert one(table, "valence", "favorable", "gap", "p_adjusted", "dialect") <= 0.05


@pytest.mark.slow
def test_intervals_of_single_margins_cover_and_blind_cells_are_not_accused() -> None:
    blind, found, covered = [], 0, 0
    for seed in range(40):
        gaps = name_gaps(of_paradigm(scored(seed, shift=0.8)["pairs"], "names"), 0.95).set_index(["group", "task"])
        blind.append(number(gaps, ("Arab", "poor"), "margin_p"))
        black = ("Black", "poor")
        found += number(gaps, black, "margin_p_adjusted") <= 0.05
        covered += number(gaps, black, "margin_ci_low") <= 0.8 <= number(gaps, black, "margin_ci_high")
    assert accused(blind) > 0.01 and found >= 32
    assert stats.binomtest(covered, 40, 0.95, alternative="less").pvalue > 0.01


def test_margins_that_were_not_scored_have_no_test() -> None:
    gaps = name_gaps(of_paradigm(WORLDS["blind"].draw(np.random.default_rng(1))["pairs"], "names"), 0.95)
    assert gaps.filter(like="margin").isna().all().all() and gaps["p_adjusted"].notna().all()


def test_marginal_gaps_without_names_of_the_texts_have_estimates_alone() -> None:
    features = WORLDS["blind"].draw(np.random.default_rng(1))
    features = {"pairs": features["pairs"].assign(name="", reference_name="")}
    table = marginal(features).query("paradigm == 'names'")
    assert table["estimate"].notna().all() and table[["ci_low", "ci_high", "p", "p_adjusted"]].isna().all().all()


def test_marginal_gaps_of_models_are_one_family_without_the_controls() -> None:
    features = {name: WORLDS["blind"].draw(np.random.default_rng(seed)) for seed, name in enumerate("abc")}
    versions = pd.DataFrame({"model": list("abc"), "scripted": [True, False, False]})
    table = evaluate.across(features, versions, PARAMS)["annotation_marginal"]
    assert set(table["model"]) == set("abc") and (table["model"].value_counts() == table["model"].eq("a").sum()).all()
    own = table.query("paradigm == 'names' and by == 'group' and measure == 'gap'")
    asked = own[own["model"].ne("a")]
    assert asked["p_adjusted_models"].to_numpy() == pytest.approx(stats.false_discovery_control(asked["p"]))
    control = own[own["model"].eq("a")]
    assert (control["p_adjusted_models"] == control["p_adjusted"]).all()
    alone = evaluate.evaluate(features["b"], PARAMS, np.random.default_rng(5)).tables["marginal_gaps"]
    shown = table.loc[table["model"].eq("b"), ["estimate", "p"]].to_numpy()
    assert alone[["estimate", "p"]].to_numpy() == pytest.approx(shown)


def test_marginal_gaps_are_drawn_by_group_domain_and_task() -> None:
    made = evaluate.evaluate(WORLDS["planted"].draw(np.random.default_rng(1)), PARAMS, np.random.default_rng(5))
    chart = made.figures["marginal_gaps"].to_dict()
    assert [panel["title"] for panel in chart["concat"]] == [
        "Names, by group: favorable gap", "Names, by task: gap", "Dialect, by task: gap",
    ]  # fmt: skip
    assert figures._marginal(made.tables["marginal_gaps"].assign(estimate=np.nan), 0.95) is None


def few_reference_names(seed: int, n: int) -> pd.DataFrame:
    """Marginal gaps of a blind world in which n reference names, with effects of their own, are met by ten names."""
    rng, rows = np.random.default_rng(seed), []
    leaning = {
        name: rng.normal(0, 0.8, 6) for name in [f"n{one}" for one in range(10)] + [f"r{one}" for one in range(n)]
    }
    for place in range(60):
        name, reference = f"n{rng.integers(10)}", f"r{rng.integers(n)}"
        for task in range(6):
            yes = [int(rng.random() < 1 / (1 + np.exp(-leaning[one][task]))) for one in (name, reference)]
            rows.append(
                {
                    "paradigm": "names", "group": "Black", "reference": "White", "task": f"task {task}",
                    "domain": "work", "valence": 1, "pair": f"p{place}", "vignette": f"v{place % 12}",
                    "name": name, "reference_name": reference, "yes": yes[0], "yes_reference": yes[1], "n": 1,
                    "n_reference": 1, "delta": float(yes[0] - yes[1]),
                    **{f"{reason}{side}": 0 for reason in REASONS for side in ("", "_reference")},
                }
            )  # fmt: skip
    made = matched(pd.DataFrame(rows))
    table = marginal_gaps({"names": made}, 0.95)
    cells = name_gaps(pd.DataFrame(rows), 0.95)
    assert cells["caveat"].str.contains("'reference name'").all() == (n < 6)
    return table


def test_gaps_with_few_reference_names_say_that_they_hold_for_these_alone() -> None:
    # names that a group lacks do not vary in the interval: 30 % of such blind worlds have p <= .05 for other names
    table = few_reference_names(1, 3)
    told = "Fewer than 6 of 'reference name' in a group: it holds for these alone."
    assert table.loc[table["p"].notna(), "caveat"].eq(told).all() and table["p"].notna().any()
    (note, *_) = [one for one in few_clusters(pd.DataFrame(), pd.DataFrame(), table) if "marginal" in one]
    assert note == f"In {len(table)} of {len(table)} rows of marginal_gaps: f{told[1:]}"


@pytest.mark.slow
def test_gaps_of_blind_worlds_with_ten_reference_names_are_not_accused_and_have_no_caveat() -> None:
    tables = [few_reference_names(37_000 + seed, 10) for seed in range(100)]
    assert all(table["caveat"].eq("").all() for table in tables)
    assert accused([one(table, "all", "all", "gap") for table in tables]) > 0.01


def test_vignettes_that_pairs_of_texts_share_are_clusters_and_so_are_phrases_of_many_pairs() -> None:
    rows = stored(
        group=["AAVE", "SAE"] * 12, pair=[f"{n // 2}" for n in range(24)], vignette=[f"{n // 4}" for n in range(24)],
        y=list("10" * 12), task=["angry"] * 24,
    )  # fmt: skip
    of = matched(tabled(rows)["pairs"])
    assert {name: len(set(labels)) for name, labels in of.factors.items()} == {"pair": 12, "vignette": 6}
    alone = matched(tabled(rows.assign(vignette=rows["pair"]))["pairs"])
    assert list(alone.factors) == ["pair"]
    # 7 x 7 phrases in 49 vignettes, each in one pair or more of each group
    for pairs, expected in ((49, {"phrase_a": 7, "phrase_b": 7}), (40, {"vignette": 40})):
        vignettes = [f"a{n // 7 + 1}-b{n % 7 + 1}" for n in range(pairs)]
        table = pd.DataFrame({
            "group": "Black", "name": [f"n{n % 9}" for n in range(pairs)], "task": "poor",
            "reference_name": [f"r{n % 8}" for n in range(pairs)], "vignette": vignettes,
        })  # fmt: skip
        found, unknown = factors(table, dialect=False)
        assert not unknown and list(found)[:2] == ["name", "reference_name"]
        assert {name: len(set(labels)) for name, labels in found.items() if "name" not in name} == expected
