from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from markedness.audits.knowledge import SPEC, evaluate, worlds
from markedness.audits.knowledge.estimators.augmentation import augmentation_effects
from markedness.audits.knowledge.estimators.classes import Cells, SubjectClass, subject_classes
from markedness.audits.knowledge.estimators.gaps import Crawls, Part, gap, gap_scores, independent_error
from markedness.audits.knowledge.estimators.scores import level, scores
from markedness.audits.knowledge.estimators.tables import toxicity_table
from markedness.compare import OTHER_SHARES, Comparison
from markedness.records import FeatureTables
from markedness.results import Score
from markedness.stats.inference import difference

SIX = Crawls([str(number) for number in range(1, 7)], known=True, confidence_level=0.95)


def part(sums: list[list[float]], counts: list[list[float]]) -> Part:
    """Crawls by subjects; the last subject is the reference."""
    cells = Cells(np.array(sums), np.array(counts), float(np.sum(counts)))
    return Part(cells, list(range(len(sums[0]) - 1)), len(sums[0]) - 1)


def test_gap_of_a_worked_example_weighs_subjects_and_classes_alike() -> None:
    # marked: (1 + 3) / 2 = 2 and 8 / 4 = 2; reference (0 + 1) / 2 = 0.5: 1.5. Second class: 1 - 0.25 = 0.75
    first = part([[1, 4, 0], [3, 4, 1]], [[1, 2, 1], [1, 2, 1]])
    second = part([[1, 0], [1, 1]], [[1, 2], [1, 2]])
    both = gap([first, second])
    assert both(np.ones((1, 2))) == pytest.approx([(1.5 + 0.75) / 2])
    # the first crawl alone: (1 + 2) / 2 - 0 and 1 - 0
    assert both(np.array([[1.0, 0.0]])) == pytest.approx([(1.5 + 1) / 2])
    assert np.isnan(gap([])(np.ones((3, 2)))).all()


def test_claim_over_crawls_is_the_t_test_of_their_differences() -> None:
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (6, 2))
    compared = part(values.tolist(), np.ones((6, 2)).tolist())
    made = SIX.claim("x.y", gap([compared]), np.ones((2, 6), dtype=bool), 1)
    expected = ttest_rel(values[:, 0], values[:, 1])
    assert made.p == pytest.approx(expected.pvalue)
    assert (made.ci_low, made.ci_high) == pytest.approx(tuple(expected.confidence_interval()))
    assert set(made.influences["crawl"]) == set(SIX.names) and made.clusters == {"crawl": 6}


@pytest.mark.parametrize("lacking", [(0, 1), (1, 5)])
def test_claim_with_a_crawl_too_few_of_either_side_has_no_p(lacking: tuple[int, int]) -> None:
    counts = np.ones((6, 2))
    counts[lacking[1], lacking[0]] = 0
    compared = part(np.random.default_rng(0).normal(0, 1, (6, 2)).tolist(), counts.tolist())
    made = SIX.claim("x.y", gap([compared]), np.array(compared.there), 1)
    assert np.isfinite(made.estimate) and np.isnan([made.p, made.ci_low, made.detectable]).all()
    assert "too little data: 5 crawls" in made.method


def test_claim_of_data_without_crawls_names_the_missing_column() -> None:
    compared = part([[1.0, 0.0]], [[1.0, 1.0]])
    made = Crawls(["1"], known=False, confidence_level=0.95).claim(
        "x.y", gap([compared]), np.ones((2, 1), dtype=bool), 1
    )
    assert made.estimate == 1.0 and np.isnan(made.p) and "no column 'crawl'" in made.method


def test_claim_of_what_is_the_same_in_every_crawl_has_a_p_of_one() -> None:
    compared = part(np.ones((6, 2)).tolist(), np.ones((6, 2)).tolist())
    made = SIX.claim("x.y", gap([compared]), np.ones((2, 6), dtype=bool), 1)
    assert made.estimate == 0 and made.p == 1.0 and np.isnan(made.ci_low)


def test_independent_error_is_that_of_a_difference_of_two_means() -> None:
    # 3 and 1 ones of 4 each: (4 - 9/4 - 1/4 + 0.5) / (8 - 2) = 1/3; sqrt(1/3 (1/4 + 1/4))
    cells = Cells(np.array([[3.0, 1.0]]), np.array([[4.0, 4.0]]), 4.0)
    assert independent_error([Part(cells, [0], 1)]) == pytest.approx((np.sqrt(1 / 6), 6))


def dominated(seed: int, n_crawls: int, gap_of: float) -> tuple[float, bool]:
    """p of a gap, and whether its interval covers it, where the first crawl has ten times the answers of the others."""
    rng = np.random.default_rng(seed)
    counts = np.full((n_crawls, 3), 24.0)
    counts[0] = 240
    means = rng.normal(0, 0.5, (n_crawls, 1)) + rng.normal(0, 0.4, (n_crawls, 3)) + np.array([gap_of, gap_of, 0.0])
    compared = part((means * counts).tolist(), counts.tolist())
    crawls = Crawls([str(number) for number in range(n_crawls)], known=True, confidence_level=0.95)
    made = crawls.claim("x.y", gap([compared]), np.array(compared.there), 1)
    return made.p, made.ci_low <= gap_of <= made.ci_high


@pytest.mark.slow
@pytest.mark.parametrize("n_crawls", [8, 15])
def test_gap_with_a_crawl_that_dominates_is_not_accused_and_a_planted_one_is_found(n_crawls: int) -> None:
    # with one degree of freedom less than there are crawls 16 of 100 blind worlds of eight crawls had p <= .05
    blind = [dominated(43_000 + seed, n_crawls, 0.0) for seed in range(200)]
    found = sum(p <= 0.05 for p, _ in blind)
    assert stats.binomtest(found, 200, 0.05, alternative="greater").pvalue > 0.01, found
    held = sum(covered for _, covered in blind)
    assert stats.binomtest(held, 200, 0.93, alternative="less").pvalue > 0.01, held
    planted = [dominated(44_000 + seed, n_crawls, 5.0) for seed in range(20)]
    assert sum(p <= 0.05 for p, _ in planted) >= 18


def of_unequal_crawls(seed: int, larger: int, n_crawls: int) -> list[SubjectClass]:
    """A blind world of toxicity around 0 in which the first crawls have ten times the answers of the others."""
    rng = np.random.default_rng([20261125, seed])
    crawls = [f"c{number}" for number in range(n_crawls)]
    n = np.where(np.arange(n_crawls) < larger, 240, 24)
    tone, frames = 0.1 * rng.normal(size=n_crawls), list[pd.DataFrame]()
    for subject in ("Ash", "Beech", "Oak"):
        means = np.repeat(tone + 0.15 * rng.normal(size=n_crawls), n)
        values = means + 0.1 * rng.normal(size=len(means))
        frames.append(pd.DataFrame({"subject": subject, "crawl": np.repeat(crawls, n), "toxicity": values}))
    asked = pd.concat(frames, ignore_index=True).assign(regard=np.nan, included=True, valid=1.0, attempt=0)
    asked["class"], asked["round"], asked["toxicity_scorer"] = "tree", 1, "drawn"
    return [SubjectClass("tree", ["Ash", "Beech", "Oak"], "Oak", crawls, asked)]


@pytest.mark.slow
@pytest.mark.parametrize(("larger", "n_crawls"), [(1, 8), (3, 15)])
def test_models_and_levels_with_crawls_that_dominate_hold_their_rates(larger: int, n_crawls: int) -> None:
    # four tests of a world, each at .002; with degrees of freedom from the moments of influences alone, 25 and 32 of
    # 300 such pairs of models differed
    crawls = Crawls([f"c{number}" for number in range(n_crawls)], known=True, confidence_level=0.95)
    worlds = [of_unequal_crawls(seed, larger, n_crawls) for seed in range(400)]
    gaps = [gap_scores(world, "toxicity", crawls)[0] for world in worlds]
    differ = sum(difference(*pair).p <= 0.05 for pair in zip(gaps[::2], gaps[1::2], strict=True))
    assert stats.binomtest(differ, 200, 0.05, alternative="greater").pvalue > 0.002, differ
    levels = [level("toxicity.mean", world, "toxicity", crawls, "toxic") for world in worlds]
    held = sum(one.ci_low <= 0 <= one.ci_high for one in levels)
    assert stats.binomtest(held, 400, 0.93, alternative="less").pvalue > 0.002, held
    tables = [toxicity_table(world[0], crawls) for world in worlds]
    of_ash = sum(bool((table["ci_low"].iloc[0] <= 0) & (table["ci_high"].iloc[0] >= 0)) for table in tables)
    assert stats.binomtest(of_ash, 400, 0.93, alternative="less").pvalue > 0.002, of_ash
    arms = [world[0].asked.replace({"subject": {"Ash": "both", "Oak": "none"}}) for world in worlds]
    about = {"subject": "Ash", "strategy": "relation", "predicate": "are"}
    arms = [asked.rename(columns={"subject": "arm"}).assign(**about) for asked in arms]
    effects = [augmentation_effects(asked, 0.95).iloc[0] for asked in arms]
    found = sum(effect["p"] <= 0.05 for effect in effects)
    assert stats.binomtest(found, 400, 0.05, alternative="greater").pvalue > 0.002, found


def insults(seed: int) -> Score:
    """The toxicity gap of a blind world: 20 nations in 6 crawls of 6 triples, of which 3 % are insults."""
    rng = np.random.default_rng([20261126, seed])
    subjects = [f"Nation {number}" for number in range(20)]
    toxicity = np.where(rng.random(720) < 0.03, rng.uniform(0.5, 0.9, 720), rng.beta(2, 60, 720))
    asked = pd.DataFrame({"subject": np.repeat(subjects, 36), "crawl": np.tile(np.repeat(SIX.names, 6), 20)})
    asked = asked.assign(toxicity=toxicity, regard=np.nan, included=True, valid=1.0, attempt=0)
    return gap_scores([SubjectClass("nation", subjects, subjects[0], SIX.names, asked)], "toxicity", SIX)[0]


@pytest.mark.slow
def test_gap_of_rare_insults_with_one_reference_is_not_accused() -> None:
    # a reference without an insult in six crawls has no spread of its own: 27 and 28 % of 900 such worlds had p <= .05
    found = [insults(seed) for seed in range(200)]
    accused = sum(score.p <= 0.05 for score in found)
    assert stats.binomtest(accused, 200, 0.05, alternative="greater").pvalue > 0.01, accused
    held = sum(score.ci_low <= 0 <= score.ci_high for score in found)
    assert stats.binomtest(held, 200, 0.93, alternative="less").pvalue > 0.01, held


def bursts(seed: int, level: float = 0.0) -> Score:
    """The toxicity gap of ten groups in ten crawls of 6 triples: of 10 % of their crawls most are insults.

    ``level``: by how much more toxic all triples of the marked groups are.
    """
    rng = np.random.default_rng([20261127, seed])
    subjects = [f"Group {number}" for number in range(10)]
    burst = np.repeat(rng.random(100) < 0.1, 6) & (rng.random(600) < 0.8)
    toxicity = np.where(burst, 0.95, 0.001 * rng.random(600)) + level * (np.arange(600) >= 60)
    crawls = [f"c{number}" for number in range(10)]
    asked = pd.DataFrame({"subject": np.repeat(subjects, 60), "crawl": np.tile(np.repeat(crawls, 6), 10)})
    asked = asked.assign(toxicity=toxicity, regard=np.nan, included=True, valid=1.0, attempt=0)
    over = Crawls(crawls, known=True, confidence_level=0.95)
    return gap_scores([SubjectClass("nation", subjects, subjects[0], crawls, asked)], "toxicity", over)[0]


@pytest.mark.slow
def test_gap_of_insults_that_come_in_bursts_with_one_reference_is_not_accused() -> None:
    # a reference without such a crawl has no spread of its own: 27 % of 400 such worlds had an interval without 0
    found = [bursts(seed) for seed in range(200)]
    accused = sum(score.p <= 0.05 for score in found)
    assert stats.binomtest(accused, 200, 0.05, alternative="greater").pvalue > 0.01, accused
    assert all((score.p <= 0.05) == (not score.ci_low <= 0 <= score.ci_high) for score in found)
    assert sum(bursts(seed, 0.4).p <= 0.05 for seed in range(50)) > 40


EIGHT = Crawls([f"c{number}" for number in range(8)], known=True, confidence_level=0.95)


def toxicity(
    seed: int, crawls_of: dict[str, int], subjects: tuple[str, ...] = ("Ash", "Beech", "Oak"), sd_of_beech: float = 0.2
) -> list[Score]:
    """The gaps of a blind world: each subject's mean varies with sd 0.2 between its crawls; Oak is the reference."""
    rng = np.random.default_rng([20261124, seed])
    rows = [
        (subject, crawl, mean + 0.1 * rng.normal())
        for subject in subjects
        for crawl, mean in zip(
            EIGHT.names[: crawls_of[subject]],
            (sd_of_beech if subject == "Beech" else 0.2) * rng.normal(size=8),
            strict=False,
        )
        for _ in range(10)
    ]
    asked = pd.DataFrame(rows, columns=["subject", "crawl", "toxicity"])
    asked = asked.assign(regard=np.nan, included=True, valid=1.0, attempt=0)
    return gap_scores([SubjectClass("tree", ["Ash", "Beech", "Oak"], "Oak", EIGHT.names, asked)], "toxicity", EIGHT)


def test_gap_leaves_out_a_subject_of_few_crawls_and_says_so() -> None:
    few, whole = toxicity(1, {"Ash": 8, "Beech": 5, "Oak": 8}), toxicity(1, {"Ash": 8, "Beech": 6, "Oak": 8})
    said = "Not over Beech: their answers are of fewer than 6 crawls, or most of them of fewer than 3."
    assert [one.key for one in few if one.caveat == said] == ["toxicity_gap.marked", "toxicity_gap.tree"]
    assert few[0].over == "Ash - Oak" and few[0].estimate == pytest.approx(few[2].estimate)
    assert np.isfinite(few[3].estimate)
    assert np.isnan(toxicity(1, {"Ash": 8, "Beech": 2, "Oak": 8})[3].p)
    assert whole[0].over == "Ash - Oak; Beech - Oak" and whole[0].caveat == ""
    # where all subjects have few, all are kept, and there is no p
    scarce = toxicity(1, {"Ash": 2, "Beech": 2, "Oak": 8})[0]
    assert scarce.over == "Ash - Oak; Beech - Oak" and np.isnan(scarce.p) and scarce.caveat == ""


def test_gap_says_of_which_subject_the_data_have_nothing() -> None:
    made = toxicity(1, dict.fromkeys(("Ash", "Oak"), 8), ("Ash", "Oak"))
    assert made[0].caveat == "Not over Beech: the data have nothing of them or of what they are compared with."
    # without a reference there is no gap at all, which the Score says itself
    assert np.isnan(toxicity(1, dict.fromkeys(("Ash", "Beech"), 8), ("Ash", "Beech"))[0].estimate)


@pytest.mark.parametrize(("n_crawls", "sd"), [(1, 0.2), (3, 1.2)])
def test_gap_with_a_subject_of_few_crawls_is_not_accused(n_crawls: int, sd: float) -> None:
    # The mean of Beech is that of its crawls, whose error other crawls do not show: with it 65 of 300 had p <= .05
    # where it has one, and 21 where it has three that vary more (46 of 400 with three of sixteen).
    found = sum(
        toxicity(seed, {"Ash": 8, "Beech": n_crawls, "Oak": 8}, sd_of_beech=sd)[0].p <= 0.05 for seed in range(300)
    )
    assert stats.binomtest(found, 300, 0.05, alternative="greater").pvalue > 0.01, found


def in_prompts(
    seed: int, second: Sequence[float], prompts: int = 2, tone: float = 0.4, worse: float = 0
) -> FeatureTables:
    """Twelve crawls without an effect; so much of the answers about each subject is of the second half of the prompts.

    There answers are bad as often as ``tone`` says, and more often by ``worse`` for marked subjects.
    """
    rng = np.random.default_rng(seed)
    people = ("Men", "Women", "Non-binary People")
    study = worlds.Study(classes={"gender identity": people}, crawls=12, completions=4, draws=4)
    triples = study.draw(rng)["triples"]
    later = rng.random(len(triples)) < triples["subject"].map(dict(zip(people, second, strict=True))).to_numpy(float)
    often = tone + worse * triples["subject"].ne("Men").to_numpy()
    bad = later & triples["regard"].notna().to_numpy() & (rng.random(len(triples)) < often)
    prompt = rng.integers(0, prompts // 2, len(triples)) + later * (prompts // 2)
    triples = triples.assign(
        prompt_id=pd.Series(prompt, index=triples.index).astype(str), round=0, strategy="corpus",
        regard=triples["regard"].mask(bad, "negative"), topic=triples["topic"].mask(bad, 5),
    )  # fmt: skip
    return {"triples": triples}


def scored(features: FeatureTables) -> list[Score]:
    return scores(features, evaluate.Params(), np.random.default_rng(0))


def of_prompts(seed: int, share: float, prompts: int = 2) -> dict[str, Score]:
    """Scores where this share of the reference's answers is of the first half, and of the others' of the second."""
    return {score.key: score for score in scored(in_prompts(seed, (1 - share, share, share), prompts))}


OF_PROMPTS = ("regard_gap.marked", "toxicity_gap.marked", "valid.difference", "topic_divergence.marked")


def test_answers_to_other_prompts_than_the_references_have_no_interval_and_no_p() -> None:
    found = of_prompts(0, 0.7)
    made = [found[key] for key in (*OF_PROMPTS, "regard_gap.gender_identity", "regard_gap.gender_identity: Women")]
    assert all(np.isfinite(score.estimate) and not score.has_interval and np.isnan(score.p) for score in made)
    assert all("other prompts, rounds or strategies than the reference's" in score.lacking for score in made)
    slightly = of_prompts(0, 0.57)
    for key in OF_PROMPTS[:-1]:
        assert np.isfinite(slightly[key].p) and "what these do is part of it" in slightly[key].caveat, key
    assert np.isnan(slightly[OF_PROMPTS[-1]].p)  # no divergence at all is its null


def test_divergence_of_subjects_that_lean_to_opposite_prompts_is_not_tested() -> None:
    # what prompts do to their gaps cancels, but each has other topics than the reference: 70 % of 122 worlds were found
    found = {score.key: score for score in scored(in_prompts(0, (0.5, 0.75, 0.25)))}
    assert np.isnan(found["topic_divergence.marked"].p) and np.isnan(found["topic_divergence.gender_identity"].p)
    assert np.isfinite(found["regard_gap.marked"].p) and not found["regard_gap.marked"].caveat


def test_one_class_of_five_that_was_asked_otherwise_is_no_fifth_of_the_doubt() -> None:
    # what prompts do to one class of n is an n-th of the mean, and its error falls with the square root of n alone:
    # 32 % of 150 worlds without an effect had p < .05 for the mean of five
    pairs = {name: (f"{name} Oak", f"{name} Ash") for name in "abcde"}
    rng = np.random.default_rng(0)
    triples = worlds.Study(classes=pairs, crawls=12, completions=4, draws=4).draw(rng)["triples"]
    later = rng.random(len(triples)) < np.where(triples["subject"].eq("a Ash"), 0.9, 0.5)
    found = {score.key: score for score in scored({"triples": triples.assign(prompt_id=later.astype(str))})}
    assert np.isfinite(found["regard_gap.b"].p) and np.isnan(found["regard_gap.a"].p)
    assert "what these do is part of it" in found["regard_gap.marked"].caveat


@pytest.mark.parametrize(("second", "tested"), [((0.8, 0.2), False), ((0.55, 0.45), True), ((0.5, 0.5), True)])
def test_versions_that_answered_prompts_in_unlike_shares_are_not_compared(
    second: tuple[float, float], tested: bool
) -> None:
    # marked subjects are worse in some prompts alone: 91 and 98 % of 43 and 60 comparisons of one model were found
    features = {
        model: in_prompts(seed, (share,) * 3, worse=0.4)
        for seed, (model, share) in enumerate(zip(("new", "old"), second, strict=True))
    }
    compared = Comparison(
        "knowledge", features, scored, SPEC.table, SPEC.cluster, SPEC.headline, answered=SPEC.answered,
        compared_on=SPEC.compared_on, missing_key=SPEC.missing_key,
    )  # fmt: skip
    table = compared.differences().set_index("score")
    for key in ("regard_gap.marked", "toxicity_gap.marked", "valid.difference"):
        assert np.isfinite(float(str(table.loc[key, "p"]))) == tested, key
        assert (OTHER_SHARES in str(table.loc[key, "note"])) == (second != (0.5, 0.5)), key


@pytest.mark.parametrize("prompts", [2, 40])
def test_answers_to_the_same_prompts_keep_their_p_however_many_prompts_there_are(prompts: int) -> None:
    found = [of_prompts(seed, 0.5, prompts) for seed in range(20)]
    for key in OF_PROMPTS:
        kept = [one[key].p for one in found if np.isfinite(one[key].p)]
        # one of twenty subjects is as unlike by chance: of 20 worlds with two of them up to 5 in 99 %
        assert len(kept) >= 15 and stats.binomtest(sum(p <= 0.05 for p in kept), len(kept), 0.05).pvalue > 0.01


def test_prompts_that_each_subject_has_for_itself_tell_nothing_but_rounds_do() -> None:
    triples = worlds.worlds()[0].draw(np.random.default_rng(0))["triples"]
    own = triples.assign(prompt_id=triples["subject"] + " are")
    (one, *_), odd = subject_classes(own), own["round"].eq(0) & own["subject"].eq(own["reference"])
    assert one.unlike(one.marked, True) <= 0.1
    (one, *_) = subject_classes(own[~odd])
    assert one.unlike(one.marked, True) > 0.2 and one.unlike(one.marked, False) > 0.2


def of_arms(seed: int, kept: float, rounds: int, effect: float = 0.0) -> pd.Series:
    """The effect of an augmentation in ten crawls of two arms, later rounds and harsh subjects being more toxic.

    The arm without it has this share of the triples of harsh subjects, and so many rounds of four.
    """
    rng = np.random.default_rng(seed)
    cells = pd.MultiIndex.from_product(
        [["both", "none"], [str(crawl) for crawl in range(10)], ["A", "B", "C", "D"], range(1, 5), range(3)]
    )
    rows = cells.to_frame(index=False, name=["arm", "crawl", "subject", "round", "number"])
    harsh = rows["subject"].isin(["C", "D"])
    crawl = rng.normal(0, 0.3, 10)[rows["crawl"].astype(int)]
    logits = (
        -2 + 0.8 * harsh + 0.3 * rows["round"] + crawl + effect * rows["arm"].eq("both") + rng.normal(0, 1, len(rows))
    )
    lost = rows["arm"].eq("none") & ((harsh & (rng.random(len(rows)) > kept)) | rows["round"].gt(rounds))
    rows = rows.assign(
        toxicity=1 / (1 + np.exp(-logits)), included=True, strategy="relation", predicate="are", toxicity_scorer="x",
        **{"class": "c"},
    )  # fmt: skip
    return augmentation_effects(rows[~lost].reset_index(drop=True), 0.95).iloc[0]


@pytest.mark.parametrize(("kept", "rounds"), [(0.2, 4), (0.0, 4), (1.0, 2)])
def test_arms_of_other_subjects_or_rounds_show_no_effect_of_the_augmentation(kept: float, rounds: int) -> None:
    made = [of_arms(seed, kept, rounds) for seed in range(60)]
    found = sum(one["p"] <= 0.05 for one in made)
    assert stats.binomtest(found, len(made), 0.05, alternative="greater").pvalue > 0.01, found
    assert all("at equal shares of the subjects and rounds that both have" in one["method"] for one in made)
    assert all(abs(one["mean_with"] - one["mean_without"] - one["difference"]) < 1e-9 for one in made)
    assert of_arms(0, kept, rounds, effect=0.8)["p"] <= 0.05
    assert "shares" not in of_arms(0, 1.0, 4)["method"]


def test_arms_without_a_subject_and_round_in_common_are_not_compared() -> None:
    triples = worlds.worlds()[0].draw(np.random.default_rng(0))["triples"]
    triples = triples[triples["round"].gt(0)]
    arm = np.where(triples["subject"].isin(["Men", "White people"]), "none", "both")
    made = augmentation_effects(triples.assign(arm=arm), 0.95)
    assert made[["difference", "p", "ci_low"]].isna().all().all() and (made["n_with"] == 0).all()
