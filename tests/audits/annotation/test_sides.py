"""Names of both sides are draws of one population, and requests that hold one side only are told."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from markedness.audits.annotation import SPEC, evaluate, featurize
from markedness.audits.annotation.clean import Params, clean
from markedness.audits.annotation.estimators.cells import matched
from markedness.audits.annotation.estimators.scores import scores
from markedness.audits.annotation.estimators.sides import REQUESTS
from markedness.audits.annotation.worlds import GROUPS, TASKS, Floats, _judged, _table
from markedness.compare import Comparison
from markedness.records import Features, FeatureTables, Unsupported
from markedness.results import Score

from .conftest import STIMULI, stored

GAPS = ("gap.positive", "gap.negative", "gap_size.excess", "gap_size.specific")
RATES = np.array([0.6, 0.45, 0.35, 0.4])


def few_names(rng: np.random.Generator) -> pd.DataFrame:
    """240 pairs of 15 names a group and 15 reference names; one name in twelve is refused in 95 %, others in 1 %."""
    return drawn(rng, lost=np.where(rng.random(75) < 1 / 12, 0.95, 0.01))


def few_floored_names(rng: np.random.Generator) -> pd.DataFrame:
    """The same names; one in twelve gets yes in 72 %, others in 2 %."""
    return drawn(rng, rates=np.full(4, 0.02), shift=np.where(rng.random(75) < 1 / 12, 0.7, 0.0))


def drawn(
    rng: np.random.Generator, rates: Floats = RATES, shift: Floats | float = 0.0, lost: Floats | float = 0.0,
    request: float = 0.0, n: int = 240,
) -> pd.DataFrame:  # fmt: skip
    """Blind pairs of 8 iterations: names 0 to 59 are marked, 60 to 74 not; ``request``: sd of what a request shares."""
    place, pair = np.arange(n), np.arange(n) // 4
    group, iteration = place % 4, place * 8 // n
    order = [rng.permutation(15) for _ in range(n // 15)]
    name = group * 15 + np.concatenate(order[: n // 60])[pair]  # names of the groups are of one population
    reference = 60 + np.concatenate(order)[:n]
    sides: dict[str, np.ndarray] = {}
    for suffix, own in (("", name), ("_reference", reference)):
        shared = rng.normal(0, request, (8, 4))[iteration]
        y = rng.random((n, 4)) < rates + shared + np.broadcast_to(shift, 75)[own, None]
        missing = rng.random((n, 4)) < np.broadcast_to(lost, 75)[own, None]
        sides |= _judged(y & ~missing, ~missing, suffix)
    about: Mapping[str, object] = {
        "paradigm": "names", "group": np.array(GROUPS)[group], "reference": "White", "iteration": iteration,
        "pair": place.astype(str), "vignette": np.char.add("v", rng.permutation(n).astype(str)),
        "gender": np.full(n, "female"), "name": name.astype(str), "reference_name": reference.astype(str),
    }  # fmt: skip
    return _table(about, TASKS, sides).assign(ungrouped=np.int32(0))


def test_missing_judgments_are_compared_on_pairs_of_which_both_texts_were_asked() -> None:
    """A tool that writes no row without an answer: judgments that are the same differed with p = .0002."""
    rng = np.random.default_rng(4)
    rows = [
        (task, f"{task} {vignette} {pair}", f"v{vignette}", group, f"{group} {pair}")
        for task in ("hireable", "aggressive")
        for vignette in range(12)
        for pair in range(10)
        for group in ("White", "Black")
    ]
    kept = pd.DataFrame(rows, columns=["task", "pair", "vignette", "group", "name"])
    kept["y"] = np.where(rng.random(len(kept)) < 0.12, "", rng.integers(0, 2, len(kept)).astype(str))
    features: dict[str, FeatureTables | Unsupported] = {}
    for model, table in (("keeps", kept), ("drops", kept[kept["y"].ne("")])):
        judged = stored(**{str(name): values.tolist() for name, values in table.items()})
        made = featurize.featurize(clean(judged, Params()), featurize.Params(), STIMULI)
        assert isinstance(made, Features)
        features[model] = made.tables
        alone = any("the data have no marked text beside them" in note for note in made.notes)
        assert alone == (model == "drops")
    differences = compared(features)["difference"]
    assert differences["missing.difference"] == differences["gap.positive"] == 0


def test_dialect_texts_that_stand_beside_no_other_are_counted_on_either_side() -> None:
    rows = [(dialect, f"pair {pair}", "criminal", -1, pair % 2) for pair in range(20) for dialect in ("AAVE", "SAE")]
    table = pd.DataFrame(rows, columns=["group", "pair", "task", "valence", "y"])
    for dialect, side in (("AAVE", "unmarked"), ("SAE", "marked")):
        kept = table[table["group"].ne(dialect) | table["pair"].lt("pair 15")]
        judged = stored(**{str(name): values.tolist() for name, values in kept.items()})
        made = featurize.featurize(clean(judged, Params()), featurize.Params(), STIMULI)
        assert isinstance(made, Features)
        n = 20 - int(kept["group"].eq(dialect).sum())
        assert any(note.startswith(f"{n} judgments of 20 of {side} texts are left out") for note in made.notes)


def compared(features: Mapping[str, FeatureTables | Unsupported]) -> pd.DataFrame:
    return Comparison(
        "annotation", features, lambda tables: list(scored(tables["pairs"]).values()), SPEC.table, SPEC.cluster,
        SPEC.headline, question=SPEC.question, answered=SPEC.answered, missing_key=SPEC.missing_key,
        compared_on=SPEC.compared_on, sides=SPEC.sides,
    ).differences().set_index("score")  # fmt: skip


@pytest.mark.parametrize("pair", ["pair {place}", "{model} {place}", "{number}"])
def test_texts_are_compared_with_themselves_whichever_their_translator_links_them_to(pair: str) -> None:
    """A vignette that shares a pair with others had their name: the texts of another file were compared, or none."""
    rng = np.random.default_rng(3)
    answers = rng.integers(0, 2, (160, 2))
    answers[np.arange(160) % 5 > 1, 0] = 1  # texts that the model "part" was not asked about
    features: dict[str, FeatureTables | Unsupported] = {}
    for model, asked in (("whole", range(160)), ("part", [place for place in range(160) if place % 5 < 2])):
        rows = [
            (dialect, pair.format(place=place, model=model, number=number), vignette, "criminal", -1, answer)
            for number, place in enumerate(asked)
            for dialect, vignette, answer in zip(
                ("AAVE", "SAE"), (f"author {place:03}", f"translator {place // 5}"), answers[place], strict=True
            )
        ]
        table = pd.DataFrame(rows, columns=["group", "pair", "vignette", "task", "valence", "y"])
        judged = stored(**{str(name): values.tolist() for name, values in table.items()})
        features[model] = featurize.featurize(clean(judged, Params()), featurize.Params(), STIMULI).tables
    found = compared(features).loc["dialect_gap.negative"]
    assert "left out" in str(found["note"]).lower() and not found["difference"] > 0
    if pair != "{number}":  # a pair of that name is of other texts
        assert found["difference"] == 0 and found["p"] == 1 and found["n_clusters"] >= 64
        assert "vignette author 002, author 003" in str(found["note"])


def of_texts(rng: np.random.Generator, vignettes: tuple[str, str], blank: int = 0) -> dict[str, Score]:
    """48 pairs of dialect texts about 8 topics, which move the answers to either text; formats of their vignettes."""
    topics, pairs = rng.normal(0, 0.8, (2, 4, 8)), rng.normal(0, 0.8, (4, 48))
    rows = [
        (
            dialect,
            f"pair {pair}",
            "" if pair < blank else name.format(pair=pair, topic=pair % 8),
            task,
            draw,
            side,
            pair,
        )
        for pair in range(48)
        for side, (dialect, name) in enumerate(zip(("AAVE", "SAE"), vignettes, strict=True))
        for task in range(4)
        for draw in range(3)
    ]
    table = pd.DataFrame(rows, columns=["group", "pair", "vignette", "task", "iteration", "side", "place"])
    logits = pairs[table["task"], table["place"]] + topics[table["side"], table["task"], table["place"] % 8]
    table["y"] = (rng.random(len(table)) < 1 / (1 + np.exp(-logits))).astype(int)
    table["valence"] = np.where(table["task"] % 2, -1, 1)
    table["task"] = "task " + table["task"].astype(str)
    judged = stored(**{str(name): table[name].tolist() for name in table.columns if name not in ("side", "place")})
    made = featurize.featurize(clean(judged, Params()), featurize.Params(), STIMULI)
    assert isinstance(made, Features)
    said = " ".join(made.notes)
    assert ("without a vignette" in said) == bool(blank) and ("one: 40 fewer" in said) == (len(set(vignettes)) > 1)
    return scored(made.tables["pairs"])


@pytest.mark.slow
@pytest.mark.parametrize(("vignettes", "blank"), [(("t{topic}", "t{topic}"), 1), (("a{pair}", "u{topic}"), 0)])
def test_topics_that_texts_share_are_in_the_error_however_the_file_names_them(
    vignettes: tuple[str, str], blank: int
) -> None:
    """One blank vignette of 48, or topics that the unmarked texts alone name: Holm found 25 and 20 % of 300."""
    found = [of_texts(np.random.default_rng([seed, 7]), vignettes, blank) for seed in range(60)]
    for key in ("dialect_gap_size.excess", "dialect_gap.positive", "dialect_gap.negative"):
        assert {one[key].clusters.get("vignette") for one in found} == {8 + blank}, key
        assert sum(one[key].p <= 0.05 for one in found) <= stats.binom.ppf(0.999, 60, 0.05), key


def scored(pairs: pd.DataFrame) -> dict[str, Score]:
    return {score.key: score for score in scores({"pairs": pairs}, evaluate.Params(), np.random.default_rng(0))}


def two_requests(sides: Mapping[str, str], iterations: int = 1) -> pd.DataFrame:
    """Features of stored judgments: 12 pairs an iteration, the texts of a group in the request that ``sides`` names."""
    rows = [
        {"y": (pair + (group == "Black")) % 2, "group": group, "pair": f"{of}-{pair}", "vignette": f"v{pair}",
         "name": f"{group}{pair}", "iteration": of, "prompt_id": f"{of}-{side.format(pair % 2)}"}
        for of in range(iterations) for pair in range(12) for group, side in sides.items()
    ]  # fmt: skip
    generations = stored(**{name: [row[name] for row in rows] for name in rows[0]})
    return featurize.featurize(clean(generations, Params()), featurize.Params(), STIMULI).tables["pairs"]


@pytest.mark.slow
def test_few_names_of_which_some_are_odd_make_no_difference_between_sides() -> None:
    # Before, in 200 such worlds: missing.difference found in 16 %, covered in 84 %; gap.positive found in 16 %.
    found: dict[str, list[Score]] = {"missing.difference": [], "gap.positive": [], "gap.negative": []}
    for seed in range(100):
        rng = np.random.default_rng([20261126, seed])
        lost, floored = scored(few_names(rng)), scored(few_floored_names(rng))
        for key, kept in found.items():
            kept.append((lost if key == "missing.difference" else floored)[key])
    for key, kept in found.items():
        rejected = sum(score.p <= 0.05 for score in kept)
        covered = sum(score.ci_low <= 0 <= score.ci_high for score in kept)
        assert stats.binomtest(rejected, len(kept), 0.05, alternative="greater").pvalue > 0.01, key
        assert stats.binomtest(covered, len(kept), 0.95, alternative="less").pvalue > 0.01, key


def test_names_of_one_side_that_all_seem_alike_have_half_the_variance_of_all() -> None:
    # Five of 60 marked names are always refused and no reference name is: the spread of the former alone is too small.
    lost = np.zeros(75)
    lost[[0, 14, 20, 40, 55]] = 0.95
    pairs = drawn(np.random.default_rng(3), lost=lost)
    score, of = scored(pairs)["missing.difference"], matched(pairs)
    alone = of.crossed(of.lost).weighted(np.ones(16) / 16, np.random.default_rng(0)).spread
    assert score.estimate == pytest.approx(5 / 60, abs=0.01) and alone.p(score.estimate) < 0.05 < score.p
    # 60 names have (1 / 12)(11 / 12) / 60 = .00127; half of four fifths of it for 15 reference names: .00204
    assert score.standard_error**2 - alone.standard_error**2 == pytest.approx(0.0020, abs=0.0004)


@pytest.mark.slow
@pytest.mark.parametrize(("n_marked", "n_reference"), [(60, 10), (10, 60)])
def test_few_odd_names_of_a_long_list_and_a_short_one_leave_0_in_the_interval(n_marked: int, n_reference: int) -> None:
    # Before, 24 % of 320 such worlds had an interval of missing.difference without 0.
    outside = 0
    for seed in range(100):
        rng = np.random.default_rng([20261127, n_marked, seed])
        pair, odd = np.arange(120), rng.random(70) < 0.08
        lost = (
            rng.random((2, 120, 4)) < np.where(odd, 0.95, 0.0)[[pair % n_marked, n_marked + pair % n_reference], None]
        )
        sides: dict[str, np.ndarray] = {}
        for suffix, gone in zip(("", "_reference"), lost, strict=True):
            sides |= _judged((rng.random((120, 4)) < RATES) & ~gone, ~gone, suffix)
        about = {
            "paradigm": "names", "group": GROUPS[0], "reference": "White", "iteration": 0, "pair": pair.astype(str),
            "vignette": np.char.add("v", rng.integers(0, 30, 120).astype(str)), "gender": np.full(120, "female"),
            "name": (pair % n_marked).astype(str), "reference_name": np.char.add("w", (pair % n_reference).astype(str)),
        }  # fmt: skip
        score = scored(_table(about, TASKS, sides).assign(ungrouped=np.int32(0)))["missing.difference"]
        outside += not score.ci_low <= 0 <= score.ci_high
    assert stats.binomtest(outside, 100, 0.07, alternative="greater").pvalue > 0.01, outside


def test_sides_that_truly_differ_keep_a_variance_of_their_own() -> None:
    pairs = drawn(np.random.default_rng(4), lost=np.where(np.arange(75) < 60, 0.2 + 0.4 * (np.arange(75) % 2), 0.0))
    of = matched(pairs)
    alone = of.crossed(of.lost).weighted(np.ones(16) / 16, np.random.default_rng(0)).spread
    assert scored(pairs)["missing.difference"].standard_error == pytest.approx(alone.standard_error)


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        ({"Black": "marked", "White": "unmarked"}, True),
        ({"Black": "{0}", "White": "{0}"}, False),  # both texts of a pair in one request
        ({"Black": "", "White": ""}, False),
    ],
)
def test_requests_of_one_side_are_told_unless_iterations_absorb_them(sides: dict[str, str], told: bool) -> None:
    few, many = two_requests(sides), two_requests(sides, iterations=6)
    assert all((("one_sided" in pairs) and pairs["one_sided"].eq(1).all()) == told for pairs in (few, many))
    assert all((REQUESTS in scored(few)[key].caveat) == told for key in (*GAPS, "missing.difference"))
    assert ("iteration" in matched(many).factors) == told and "iteration" not in matched(few).factors
    assert not any(REQUESTS in score.caveat for score in scored(many).values())
    assert ("iterations are clusters" in scored(many)["gap.positive"].method) == told


def test_requests_that_go_over_iterations_are_told() -> None:
    pairs = two_requests({"Black": "marked", "White": "unmarked"}, iterations=6)
    assert REQUESTS in scored(pairs.assign(prompt_id="marked"))["gap.positive"].caveat


@pytest.mark.slow
def test_what_answers_of_a_request_share_is_no_gap_where_each_iteration_asks_the_sides_apart() -> None:
    # Before, in 300 such worlds: 19 to 22 % found, without a word.
    found = [scored(drawn(np.random.default_rng([5, seed]), request=0.12).assign(one_sided=1)) for seed in range(80)]
    for key in GAPS:
        rejected = sum(of[key].p <= 0.05 for of in found)
        assert stats.binomtest(rejected, len(found), 0.05, alternative="greater").pvalue > 0.01, key
