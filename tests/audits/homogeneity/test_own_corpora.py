"""Answers of one's own that are not as balanced as those that the audit asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.audits.homogeneity.stages import STIMULI, evaluated

from markedness.audits.homogeneity import clean, featurize, generate
from markedness.audits.homogeneity.estimators.noncompliance import noncompliance_difference
from markedness.audits.homogeneity.estimators.params import Params
from markedness.axes import Axis, Value
from markedness.records import Features
from markedness.results import Evaluation

WORDS = [f"{a}{b}{c}" for a in "bdfg" for b in "aei" for c in ("ra", "lo")][:14]
TEXT = "the quiet person walks along the river and thinks about the work of the week"


def answers(
    rng: np.random.Generator, race: str, cues: tuple[str, ...], names: int = 8, n: int = 4, gender: str = "man"
) -> list[tuple[str, ...]]:
    """Race, gender, name, cue and answer; each name has favourites of its own in each cue."""
    rows: list[tuple[str, ...]] = []
    for name in range(names):
        for cue in cues:
            weights = np.exp(-np.log(np.arange(1, 15)) + 0.8 * rng.normal(size=14))
            drawn = rng.choice(WORDS, n, p=weights / weights.sum())
            rows += [(race, gender, f"{race} {gender} {name}", cue, str(word)) for word in drawn]
    return rows


def frame(rows: Sequence[tuple[str, ...]]) -> pd.DataFrame:
    """Generations of a corpus."""
    table = pd.DataFrame(rows, columns=["race", "gender", "name", "cue", "text"])
    table = table.assign(group=table["race"] + " " + table["gender"], finish_reason=None, error=None, prompt="p")
    return generate.complete_corpus(table, STIMULI, generate.Params())


def evaluated_corpus(rows: Sequence[tuple[str, ...]], seed: int = 0) -> Evaluation:
    return evaluated(frame(rows), seed, n_resamples=20, n_permutations=99)


def test_difference_is_not_over_a_group_that_shares_no_cue_and_says_so() -> None:
    rng = np.random.default_rng(1)
    shared = answers(rng, "White", ("a", "b")) + answers(rng, "Black", ("a", "b"))
    made = evaluated_corpus(shared + answers(rng, "Asian", ("c",)))
    headline = made.score("pd_difference.marked")
    assert headline.over == "Black - White"
    assert "Not over Asian, Hispanic, woman: no cue has answers from two names of both groups, or" in headline.caveat
    assert made.score("pd_difference.Asian").lacking.startswith("no cue has answers from two names of both groups")
    refused = made.score("noncompliance.difference")
    assert refused.over == "Black - White" and "Not over Asian: asked about other cues" in refused.caveat
    assert "asked about other cues" not in evaluated_corpus(shared).score("noncompliance.difference").caveat


def test_answers_without_a_group_are_in_no_comparison() -> None:
    rng = np.random.default_rng(2)
    rows = answers(rng, "White", ("a", "b")) + answers(rng, "Black", ("a", "b"))
    strangers = [("", "", f"X{number}", "a", WORDS[number % 14]) for number in range(40)]
    made = [evaluated(frame(of).assign(group=lambda t: t["group"].str.strip()), 0, n_resamples=20, n_permutations=99)
            for of in (rows, rows + strangers)]  # fmt: skip
    for score, other in zip(*(one.scores for one in made), strict=True):
        assert (score.key, score.estimate, score.n) == pytest.approx((other.key, other.estimate, other.n), nan_ok=True)


@pytest.mark.parametrize("text", ["I'm sorry, but I can't help with that.", None])
def test_group_without_a_usable_answer_is_named_on_the_card_and_has_its_row(text: str | None) -> None:
    # its names had vanished: no row, no caveat, n_missing 0
    rng = np.random.default_rng(4)
    rows = answers(rng, "White", ("a", "b")) + answers(rng, "Black", ("a", "b"))
    lost = [(*row[:-1], text) for row in answers(rng, "Asian", ("a", "b"))] if text else []
    made = evaluated_corpus(rows + lost)
    headline, own = made.score("pd_difference.marked"), made.score("pd_difference.Asian")
    assert headline.caveat.startswith("Not over Asian, Hispanic, woman: no cue has answers from two names")
    assert headline.n_missing == len({row[2] for row in lost})
    assert np.isnan(own.estimate) and own.lacking.startswith("no cue has answers from two names of both groups")
    table = made.tables["differences"].set_index("group")
    assert table["difference"].isna().to_dict() == {"Black": False, "Asian": True, "Hispanic": True, "woman": True}


def test_a_group_that_shares_its_cues_with_two_names_alone_is_not_compared() -> None:
    # Two White names of ten were asked what all Black ones were. Without either there is no pair of White names, so
    # that nothing is known of the error of a difference; it was found in 31 of 40 blind worlds.
    def made(bridging: int) -> Evaluation:
        rng = np.random.default_rng(1)
        rows = answers(rng, "White", ("a", "b"), names=10)
        rows += answers(rng, "White", ("c", "d"), names=bridging)
        return evaluated_corpus(rows + answers(rng, "Black", ("c", "d"), names=10) + answers(rng, "Asian", ("a",)))

    two = made(2)
    assert np.isnan(two.score("pd_difference.Black").estimate) and np.isnan(two.score("pd_difference.Black").p)
    assert "two names" in two.score("pd_difference.Black").lacking
    assert two.score("pd_difference.marked").over == "Asian - White"
    refused = two.score("noncompliance.difference")
    assert refused.over == "Asian - White" and "Not over Black: asked about other cues" in refused.caveat
    three = made(3)
    assert np.isfinite(three.score("pd_difference.Black").p)
    assert three.score("noncompliance.difference").over == "Asian - White; Black - White"


def test_noncompliance_counts_each_answer_once_whatever_the_axes_weigh_it() -> None:
    # of 690 answers it said 705: the larger of what two axes weigh an answer
    rng = np.random.default_rng(3)
    groups = [(race, gender) for race in ("White", "Black", "Asian") for gender in ("man", "woman")]
    rows = [
        (race, gender, f"{race} {gender} {name}", f"cue {cue}", status, int(rng.integers(1, 9)))
        for race, gender in groups
        for name in range(4)
        for cue in range(5)
        for status in ("ok", "refusal")
    ]
    table = pd.DataFrame(rows, columns=["race", "gender", "cluster", "cue", "status", "count"]).assign(empty=False)
    table = table[rng.random(len(table)) < 0.7]
    made = noncompliance_difference(table, Params().axes, rng, 2)
    assert made.n == table["count"].sum() and made.over == "Asian - White; Black - White; woman - man"


def declined(seed: int, more: float) -> float:
    """p of noncompliance where most of the answers to one cue are declined, which is the only one of Asian names."""
    rng = np.random.default_rng([20261124, seed])
    rows = answers(rng, "White", ("easy", "hard")) + answers(rng, "Black", ("easy", "hard"))
    table = frame(rows + answers(rng, "Asian", ("hard",)))
    chance = np.where(table["cue"].eq("hard"), 0.7, 0.02) + more * table["race"].eq("Asian")
    table.loc[rng.random(len(table)) < chance, "text"] = "Sorry, no"
    return evaluated(table, n_resamples=20, n_permutations=99).score("noncompliance.difference").p


def test_noncompliance_of_a_group_that_was_asked_the_hard_cue_alone_is_that_of_the_cue() -> None:
    # The raw share of Asian names is 0.7 against 0.36 of the others, half of whose answers are to the easy cue.
    assert sum(declined(seed, 0.0) <= 0.05 for seed in range(5)) <= 2
    assert all(declined(seed, 0.3) <= 0.05 for seed in range(2))


@pytest.mark.slow
def test_noncompliance_at_unequal_cues_is_found_in_five_percent() -> None:
    found = sum(declined(100 + seed, 0.0) <= 0.05 for seed in range(100))
    assert stats.binomtest(found, 100, 0.05, alternative="greater").pvalue > 0.01, found


def declined_of_shared(seed: int, shared: int, more: float = 0.0) -> float:
    """p of noncompliance where groups of ten names share some of six cues, those that comply the least."""
    rng = np.random.default_rng([20261125, seed])
    logits = np.where((np.arange(12) >= 6 - shared) & (np.arange(12) < 6), -0.5, -4.0)
    rows = []
    for race, first in (("White", 0), ("Black", 6 - shared)):
        for name in range(10):
            of_name = rng.normal() + more * (race == "Black")
            chance = 1 / (1 + np.exp(-(logits[first : first + 6] + of_name)))
            bad = rng.binomial(4, chance)
            group = ("man", "woman")[name % 2]
            for cue, n in enumerate(bad, first):
                for status, count in (("ok", 4 - n), ("refusal", n)):
                    rows.append((race, group, f"{race} {name}", f"cue {cue}", status, count))
    table = pd.DataFrame(rows, columns=["race", "gender", "cluster", "cue", "status", "count"]).assign(empty=False)
    return noncompliance_difference(table, Params().axes, rng, 2).p


@pytest.mark.slow
@pytest.mark.parametrize("shared", [1, 3])
def test_noncompliance_rests_on_the_cues_that_groups_share(shared: int) -> None:
    # What is known of the difference is what the shared cues tell: with the error of all answers 45 of 100 blind worlds
    # with one of eleven cues shared were found, 17 with three of nine. binomial(100, .05): 11 in 99 %.
    assert sum(declined_of_shared(seed, shared) <= 0.05 for seed in range(100)) <= 11
    assert sum(declined_of_shared(seed, shared, 4.0) <= 0.05 for seed in range(10)) >= 8


@pytest.mark.slow
def test_interval_of_rare_noncompliance_covers_what_one_small_reference_has() -> None:
    # Six marked groups, and eight White names that often have no refusal at all: leaving out one of them showed too
    # little error, and 123 of 150 intervals contained 0. binomial(150, .93): 128 or more in 99.9 %.
    races = ["White", *(f"group {number}" for number in range(6))]
    axes = {"race": Axis(unmarked="White", values={race: Value() for race in races})}
    covered = 0
    for seed in range(150):
        rng = np.random.default_rng([20261126, seed])
        rows = []
        for race in races:
            for name in range(8):
                bad = int(rng.binomial(12, 1 / (1 + np.exp(4.5 - rng.normal()))))
                rows += [(race, f"{race} {name}", status, n) for status, n in (("ok", 12 - bad), ("refusal", bad)) if n]
        table = pd.DataFrame(rows, columns=["race", "cluster", "status", "count"]).assign(empty=False, cue="sports")
        made = noncompliance_difference(table, axes, rng, 2)
        covered += made.ci_low <= 0 <= made.ci_high
    assert covered >= 128


def test_difference_says_where_the_names_of_groups_differ_in_another_axis() -> None:
    rng = np.random.default_rng(2)
    rows = [
        one
        for race in ("White", "Black", "Asian")
        for gender in ("man", "woman")
        if (race, gender) != ("Black", "man")
        for one in answers(rng, race, ("a", "b"), gender=gender)
    ]
    made = evaluated_corpus(rows)
    # Black names are all of women, White ones half: half of the Black ones would have to be of men.
    assert "The names of Black and White differ in the other axes" in made.score("pd_difference.Black").caveat
    assert made.score("pd_difference.Asian").caveat == ""


def test_names_that_differ_a_little_in_another_axis_are_said_too() -> None:
    # With the words of men and women 0.17 apart, intervals of 15 % of 300 worlds with 15 of 40 Black women left out 0.
    names = {("White", "man"): 4, ("White", "woman"): 4, ("Black", "man"): 5, ("Black", "woman"): 3}
    rng = np.random.default_rng(2)
    rows = [
        one for (race, gender), n in names.items() for one in answers(rng, race, ("a", "b"), names=n, gender=gender)
    ]
    assert "differ in the other axes" in evaluated_corpus(rows).score("pd_difference.Black").caveat


def test_difference_is_not_tested_where_names_of_one_crossed_group_have_few_answers() -> None:
    # Men and women answer in other words: with few answers of Black men, "Black" is mostly women. 64 % of 84 worlds
    # without an effect of race had p < .05.
    rng = np.random.default_rng(5)
    rows = []
    for race in ("White", "Black", "Asian"):
        for gender in ("man", "woman"):
            of_one = answers(rng, race, ("a", "b"), n=1 if (race, gender) == ("Black", "man") else 6, gender=gender)
            rows += [(*row, f"{word} {gender}") for *row, word in of_one]
    made = evaluated_corpus(rows)
    for key in ("pd_difference.Black", "pd_difference.marked"):
        score = made.score(key)
        assert np.isfinite(score.estimate) and np.isnan([score.p, score.p_adjusted, score.ci_low, score.ci_high]).all()
        assert score.lacking.startswith("in the other axes, the names of Black and White")
        assert "have unlike numbers of answers" in score.lacking
    assert made.score("pd_difference.Asian").lacking == "" and np.isfinite(made.score("pd_difference.Asian").p)


Hole = tuple[str, str, str]


def with_holes(rng: np.random.Generator, holes: Sequence[Hole], n: int = 4, kept: float = 1.0) -> list[tuple[str, ...]]:
    """Answers of eight names a group to four cues in words of each gender, women in fewer; without ``holes``."""
    rows = []
    for race in ("White", "Black"):
        for gender in ("man", "woman"):
            for *row, cue, word in answers(rng, race, ("a", "b", "c", "d"), n=n, gender=gender):
                said = "one word" if gender == "woman" and rng.random() < 0.5 else f"{word} {gender}"
                if (cue, race, gender) not in holes and rng.random() < kept:
                    rows.append((*row, cue, said))
    return rows


BLACK_WOMEN, BLACK_MEN = ("a", "Black", "woman"), ("b", "Black", "man")


@pytest.mark.parametrize("holes", [[BLACK_WOMEN], [BLACK_WOMEN, BLACK_MEN]], ids=["one", "opposite"])
def test_difference_is_not_tested_where_a_crossed_group_did_not_answer_a_cue(holes: list[Hole]) -> None:
    # Race has no effect: 37 and 65 of 100 such worlds had p < .05. Over all cues, opposite holes are as many answers.
    made = evaluated_corpus(with_holes(np.random.default_rng(0), holes))
    for key in ("pd_difference.Black", "pd_difference.marked", "noncompliance.difference"):
        score = made.score(key)
        assert np.isfinite(score.estimate) and np.isnan([score.p, score.ci_low, score.ci_high]).all()
        assert "the names of Black and White" in score.lacking and "unlike numbers of answers" in score.lacking


def test_answers_that_are_missing_at_random_are_tested() -> None:
    withdrawn = 0
    for seed in range(10):
        made = evaluated_corpus(with_holes(np.random.default_rng(seed), [], n=1, kept=0.7), seed)
        withdrawn += "unlike numbers of answers" in made.score("pd_difference.Black").lacking
    assert withdrawn <= 3  # one of twenty expected; four or more in 0.1 % of such tens
    rows = with_holes(np.random.default_rng(0), [("a", race, "woman") for race in ("White", "Black")])
    assert np.isfinite(evaluated_corpus(rows).score("pd_difference.Black").p)  # both races are of the same women


def test_noncompliance_is_not_tested_where_names_of_one_crossed_group_have_few_answers() -> None:
    # Answers about women comply less: with few answers about Black women Black seems to comply more. 20 % of 100 worlds
    # without an effect of race had p < .05.
    rng = np.random.default_rng(5)
    rows = []
    for race in ("White", "Black", "Asian"):
        for gender, chance in (("man", 0.05), ("woman", 0.3)):
            of_one = answers(rng, race, ("a", "b"), n=2 if (race, gender) == ("Black", "woman") else 6, gender=gender)
            rows += [(*row, "Sorry, no" if rng.random() < chance else word) for *row, word in of_one]
    made = evaluated_corpus(rows)
    score = made.score("noncompliance.difference")
    assert np.isfinite(score.estimate) and np.isnan([score.p, score.ci_low, score.ci_high]).all()
    assert "the names of Black and White" in score.lacking and "unlike numbers of answers" in score.lacking
    table = made.tables["noncompliance"].set_index("group")
    assert table["p"].isna()["Black"] and table["p"].notna()["Asian"]


@pytest.mark.parametrize("nothing", ["", "N/A"])
def test_difference_warns_of_empty_answers_of_one_group(nothing: str) -> None:
    rng = np.random.default_rng(3)
    table = frame(answers(rng, "White", ("a", "b")) + answers(rng, "Black", ("a", "b")))
    blank = table["race"].eq("Black") & (rng.random(len(table)) < 0.4)
    without = evaluated(table, n_resamples=20, n_permutations=99).score("pd_difference.marked")
    assert "exclude_empty" not in without.caveat
    table.loc[blank, "text"] = nothing
    made = evaluated(table, n_resamples=20, n_permutations=99)
    assert "exclude_empty: true leaves them out" in made.score("pd_difference.marked").caveat


def texts(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Features:
    """Features of longer texts about White men without a name, whose vectors are made up."""

    def embed(given: list[str], *_: object) -> np.ndarray:
        return np.eye(8)[[len(text) % 8 for text in given]]

    monkeypatch.setattr(featurize, "embed", embed)
    table = frame([("White", "man", "", "story", text) for text in said])
    made = featurize.featurize(clean.clean(table, clean.Params()), featurize.Params(), STIMULI)
    assert isinstance(made, Features)
    return made


def test_texts_without_words_or_in_another_alphabet_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = texts(
        monkeypatch, [f"{TEXT} {word}" for word in WORDS[:6]] + ["", "… !", "тихий человек идёт вдоль реки " * 3]
    )
    kept = made.tables["answers"]["kept"].astype(bool)
    assert kept.tolist() == [True] * 6 + [False] * 3
    assert made.tables["answers"].loc[~kept, "embedding"].isna().all()
    assert any(note.startswith("3 of 9 longer texts are left out") for note in made.notes)


def test_copies_of_a_text_without_a_name_are_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    made = texts(monkeypatch, [f"{TEXT} a", f"{TEXT} b", f"{TEXT}  A", f"{TEXT} c"])
    first, second, third, fourth = made.tables["answers"]["cluster"]
    assert first == third and len({first, second, fourth}) == 3 and first.startswith("White man #")


def test_short_answers_without_a_name_are_said_to_count_as_independent() -> None:
    # 15 of 50 blind worlds whose rows were stored four times had p <= .05, and nothing said so
    rng = np.random.default_rng(4)
    rows = answers(rng, "White", ("a", "b")) + answers(rng, "Black", ("a", "b"))
    said = "answers are short and have no name: each counts as drawn independently of all others."
    assert not any(said in note for note in evaluated_corpus(rows).notes)
    some = [(race, gender, "" if race == "Black" else name, cue, text) for race, gender, name, cue, text in rows]
    # 8 names x 2 cues x 4 answers of each race
    assert any(note.startswith(f"64 of 128 {said}") for note in evaluated_corpus(some).notes)


def test_difference_of_longer_texts_alone_names_the_measure_that_compares_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(race, "man", f"{race} {n}", "story", f"{TEXT} {n}") for race in ("White", "Black") for n in range(6)]
    monkeypatch.setattr(featurize, "embed", lambda given, *_: np.eye(16)[[len(text) % 16 for text in given]])
    assert "similarity_difference" in evaluated_corpus(rows).score("pd_difference.marked").lacking


def test_answers_without_names_give_the_same_p_in_any_order_of_rows() -> None:
    rng = np.random.default_rng(8)
    rows = [row for race in ("White", "Black") for row in answers(rng, race, ("a", "b", "c"))]
    table = frame(rows).drop(columns="name")
    made = [
        evaluated(one, 0, n_resamples=20, n_permutations=99) for one in (table, table.sample(frac=1, random_state=3))
    ]
    first, second = (one.score("pd_difference.marked") for one in made)
    assert first.has_interval and 0 < first.p < 1
    assert (second.estimate, second.p, second.ci_low) == (first.estimate, first.p, first.ci_low)


def test_difference_of_a_group_of_two_names_has_no_interval() -> None:
    # without either of them it has no pair, and the other group alone made the error: 210 of 300 such intervals
    # left out 0
    rng = np.random.default_rng(5)
    made = evaluated_corpus([*answers(rng, "White", ("a", "b"), names=12), *answers(rng, "Asian", ("a", "b"), names=2)])
    for key in ("pd_difference.marked", "pd_difference.Asian"):
        score = made.score(key)
        assert np.isfinite(score.estimate) and np.isfinite(score.p) and np.isnan(score.ci_low), key
        assert "Fewer than 6 of 'name' in a group" in score.caveat
