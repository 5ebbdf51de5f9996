"""Two marked guises, and two text sets, against each other: a planted difference is found, a blind one is not."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from tests.cells import number

import markedness
from markedness.audits.guise import SPEC, evaluate
from markedness.audits.guise.estimators.dialects import contrast_scores, dialect_scores
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.scores import scores
from markedness.audits.guise.worlds import FAVORABILITY, PERCENT_1933, REST, Model, _attributes, _rows
from markedness.records import FeatureTables
from markedness.results import Score, VerdictKind, verdict

N = 20
GUISES = "AAE - AppE"


def two(seed: int, first: Model, second: Model, column: str = "group", value: str = "AppE") -> FeatureTables:
    """The scores of two models of one study as those of two guises (or two text sets) of one model."""
    drawn = [model.draw(np.random.default_rng([seed, place])) for place, model in enumerate((first, second))]
    tables = [drawn[0]["scores"], drawn[1]["scores"].assign(**{column: value})]
    joined = pd.concat([table.astype({column: str}) for table in tables], ignore_index=True)
    if column == "text_set":
        joined["pair"] = joined["text_set"].astype(str) + joined["pair"].astype(str)
        joined = joined[joined["task"].ne("overt") | joined["text_set"].ne(value)]
    return {"scores": joined, "attributes": drawn[0]["attributes"]}


@dataclass(frozen=True)
class Together:
    """Two dialects (or text sets) on the same verbs and prompts, with what verbs, prompts and texts do to both.

    Standard deviations in units of the log10 ratio, as in `markedness.audits.guise.worlds`; of decisions in log odds.
    """

    verbs: int = 12
    prompts: int = 3
    shared: float = 0.06
    """Verb by attribute, alike in both."""
    own: float = 0.06
    """Verb by attribute, of each dialect."""
    text: float = 0.045
    """Text by attribute, alike in both."""
    lean: float = 0.0
    """How far the verbs of each dialect differ in raising the stereotypical adjectives."""
    attribute: float = 0.05
    """Attributes, of each dialect, and half as much prompt by attribute."""
    odds: float = 0.3
    """Verb, of each dialect, in decisions; 0.5 is alike in both and in the reference."""
    rises: tuple[float, float] = (0.0, 0.0)
    negative: float = 0.0
    """Rise of adjectives for each point of favourability that they lack, in the first dialect."""
    guilts: tuple[float, float] = (-0.8, -0.8)

    def draw(self, seed: int, column: str = "group") -> tuple[FeatureTables, float]:
        """The tables, and the difference of the strengths for these attributes (and prompts, if fewer than six)."""
        rng = np.random.default_rng([41_000, seed])
        k, texts = len(FAVORABILITY), np.repeat(np.arange(self.verbs), 3)
        chosen = np.isin(np.arange(k), list(PERCENT_1933))
        unfavourable = np.mean(FAVORABILITY) - np.array(FAVORABILITY)
        both = (self.shared * rng.normal(size=(self.verbs, k)))[texts] + self.text * rng.normal(size=(len(texts), k))
        base = 0.5 * rng.normal(size=self.verbs)[texts][:, None] + 0.2 * rng.normal(size=(len(texts), self.prompts))
        tables, strengths = [], []
        for place, rise in enumerate(self.rises):
            of_attributes = rise * chosen + self.attribute * rng.normal(size=k)
            of_attributes += self.negative * unfavourable * (place == 0)
            of_prompts = of_attributes + self.attribute / 2 * rng.normal(size=(self.prompts, k))
            lean = self.lean * rng.normal(size=(self.verbs, 1)) * (chosen - chosen.mean())
            of_verbs = both + (self.own * rng.normal(size=(self.verbs, k)) + lean)[texts]
            noise = REST * rng.normal(size=(len(texts), self.prompts, k))
            values = of_prompts + of_verbs[:, None] + noise
            made = [_rows("traits", "association", "habitual_be", texts, values, False, rng)]
            overt = of_attributes + 0.2 * rng.normal(size=(9, k)) + 0.1 * rng.normal(size=(2, 9, k))
            words = _rows("overt", "association", "overt", np.arange(2), overt, False, rng)
            made.append(words.assign(setting="overt", cluster=None, cluster_reference=None))
            sides = [
                base
                + self.odds * rng.normal(size=self.verbs)[texts][:, None]
                + guilt
                + 0.15 * rng.normal(size=base.shape)
                for guilt in (self.guilts[place], -0.8)
            ]
            table = _rows("conviction", "decision", "habitual_be", texts, np.zeros((*base.shape, 2)), False, rng)
            for name, odds in zip(("log_prob", "log_prob_reference"), sides, strict=True):
                table[name] = np.column_stack([np.full(odds.size, -3.0), -3.0 + odds.ravel()]).ravel()
            made.append(table.assign(neutral_log_prob=-3.0))
            part = pd.concat(made, ignore_index=True)
            tables.append(part if not place else part.assign(**{column: "AppE" if column == "group" else "low"}))
            fixed = of_prompts.mean(axis=0) if self.prompts < 6 else of_attributes
            strengths.append(float(fixed[chosen].mean() - fixed[~chosen].mean()))
        scored = pd.concat(tables, ignore_index=True)
        if column == "text_set":
            scored = scored[scored["task"].eq("traits")].assign(pair=scored["text_set"] + "/" + scored["pair"])
        return {"scores": scored, "attributes": _attributes()}, strengths[0] - strengths[1]


def found(tables: FeatureTables, seed: int) -> dict[str, Score]:
    made = dialect_scores(tables, Params(), np.random.default_rng([seed, 9]))
    return {score.key: score for score in made}


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", [Together(), Together(shared=0.0, own=0.12, prompts=9), Together(lean=0.15), Together(verbs=6)]
)
def test_dialects_on_the_same_verbs_and_prompts_are_not_told_apart(world: Together) -> None:
    # binomial(60, .05): at most 9 in 99.9 %; 93 % of the intervals and more, less three standard errors of .033
    drawn = [world.draw(seed) for seed in range(60)]
    made = [(found(tables, seed), truth) for seed, (tables, truth) in enumerate(drawn)]
    for key in (f"strength.covert: {GUISES}", f"strength.overt: {GUISES}", f"decision.conviction: {GUISES}"):
        assert sum(scores[key].p <= 0.05 for scores, _ in made) <= 9, key
    covert = [(scores[f"strength.covert: {GUISES}"], truth) for scores, truth in made]
    assert sum(one.ci_low <= truth <= one.ci_high for one, truth in covert) >= 50


@pytest.mark.slow
def test_decisions_of_many_dialects_can_be_found_after_correction() -> None:
    # Five guises are ten pairs of three Scores: p of 400 draws is 1/401 at least, .075 after correction over 30.
    tables, _ = Together(verbs=16, guilts=(1.5, -0.8)).draw(0)
    scored = tables["scores"].astype({"group": object})
    copies = [scored[scored["group"].eq("AppE")].assign(group=f"copy {place}") for place in range(3)]
    made = found({**tables, "scores": pd.concat([scored, *copies], ignore_index=True)}, 0)
    tested = [score for score in made.values() if np.isfinite(score.p)]
    assert len(tested) == 30 and {score.family for score in tested} == {30}
    decision = made["decision.conviction: AAE - copy 1"]
    assert decision.estimate > 0.3 and verdict(decision).kind is VerdictKind.FOUND


@pytest.mark.slow
@pytest.mark.parametrize("stereotype", [0.0, 0.3])
def test_dialects_that_evoke_stereotypes_alike_are_not_told_apart(stereotype: float) -> None:
    # attributes differ between the guises, whatever they mean; both guises are as stereotyped and as often convicted
    alike = Model(verbs=12, stereotype=stereotype, guilt=0.5, attribute=0.05)
    made = [found(two(seed, alike, alike), seed) for seed in range(N)]
    for key in (f"strength.covert: {GUISES}", f"strength.overt: {GUISES}", f"decision.conviction: {GUISES}"):
        assert sum(one[key].p <= 0.05 for one in made) <= binom.ppf(0.999, N, 0.05), key


@pytest.mark.slow
def test_dialects_of_which_one_evokes_stereotypes_more_are_told_apart() -> None:
    strong, weak = Model(verbs=12, stereotype=0.3, guilt=1.5, attribute=0.05), Model(verbs=12, attribute=0.05)
    made = [found(two(seed, strong, weak), seed) for seed in range(N)]
    covert = [one[f"strength.covert: {GUISES}"] for one in made]
    assert sum(one.p <= 0.05 for one in covert) >= N / 2
    # the truth is .3 - 0, whatever the attributes add: their own spread is .05, half as much by prompt
    assert np.mean([one.estimate for one in covert]) == pytest.approx(0.3, abs=0.05)
    decisions = [one[f"decision.conviction: {GUISES}"] for one in made]
    assert sum(one.p <= 0.05 for one in decisions) >= N / 2
    assert all(one.p_adjusted >= one.p for one in (*covert, *decisions))


@pytest.mark.slow
def test_dialects_leave_the_headline_as_it_is_and_have_a_table() -> None:
    one = Model(verbs=12, stereotype=0.3, attribute=0.05)
    tables = two(0, one, Model(verbs=12, attribute=0.05))
    made = scores(tables, Params(), np.random.default_rng(0))
    alone = {**tables, "scores": tables["scores"].query("group == 'AAE'")}
    before = scores(alone, Params(), np.random.default_rng(0))
    headline = {score.key: score.estimate for score in before if score.key in SPEC.headline}
    assert {score.key: score.estimate for score in made if score.key in SPEC.headline} == pytest.approx(
        headline, nan_ok=True
    )
    keys = [score.key for score in made]
    assert f"strength.covert: {GUISES}" in keys and "strength.covert: AppE" in keys
    assert not any(" - " in score.key for score in before)
    table = evaluate.evaluate(tables, Params(n_orders=100), np.random.default_rng(0)).tables["dialects"]
    shown = table[table["task"].eq("traits")].set_index(["first", "second"])["strength"]
    assert shown.index.tolist() == [("AAE", "SAE"), ("AppE", "SAE"), ("AAE", "AppE")]
    assert shown["AAE", "AppE"] == pytest.approx(shown["AAE", "SAE"] - shown["AppE", "SAE"])


def apart(tables: FeatureTables) -> FeatureTables:
    """The same with the texts of the second guise in a file of their own: no source has both."""
    scored = tables["scores"].copy()
    other = scored["group"].eq("AppE")
    for name in ("cluster", "cluster_reference", "text_set", "pair"):
        names = scored[name].astype(object)
        scored[name] = names.where(~other | names.isna(), "other " + names.astype(str))
    return {**tables, "scores": scored}


@pytest.mark.parametrize("texts", [0, 40])
def test_decisions_of_dialects_in_files_of_their_own_are_each_against_their_reference(texts: int) -> None:
    weak, strong = (Model(verbs=0 if texts else 12, texts=texts, guilt=guilt) for guilt in (-1.5, 0.0))
    tables = apart(two(0, weak, strong))
    score = found(tables, 0)[f"decision.conviction: {GUISES}"]
    rows = tables["scores"].query("kind == 'decision' and attribute == 'conviction 01'")
    # detrimental where the log odds, here of the word against another of ln p = -3, are above 0
    hits = {
        side: rows[side].gt(-3).astype(float).groupby(rows["group"]).mean()
        for side in ("log_prob", "log_prob_reference")
    }
    rises = hits["log_prob"] - hits["log_prob_reference"]
    assert score.estimate == pytest.approx(rises["AAE"] - rises["AppE"])
    assert score.ci_low < score.estimate < score.ci_high < 0 and score.p < 0.05
    assert "each rate minus that of the reference in its own sets" in score.method
    assert score.clusters["verb"] == (24 if not texts else 160)


def test_decisions_of_dialects_with_few_sources_of_their_own_say_what_is_missing() -> None:
    score = found(apart(two(0, Model(verbs=4), Model(verbs=4))), 0)[f"decision.conviction: {GUISES}"]
    assert np.isfinite(score.estimate) and np.isnan(score.p) and not score.has_interval
    assert score.lacking == "it takes 6 clusters in each group, the smallest has 4 of 'verb'"


@pytest.mark.slow
@pytest.mark.parametrize("texts", [0, 40])
def test_decisions_of_dialects_in_files_of_their_own_that_are_alike_are_not_told_apart(texts: int) -> None:
    one = Model(verbs=0 if texts else 12, texts=texts, guilt=0.5)
    made = []
    for seed in range(100):
        tables = apart(two(seed, one, one))
        decided = {**tables, "scores": tables["scores"].query("kind == 'decision'")}
        made.append(found(decided, seed)[f"decision.conviction: {GUISES}"])
    # binomial(100, .05): at most 11 in 99.6 %; 93 % of the intervals and more, less three standard errors of .026
    assert sum(score.p <= 0.05 for score in made) <= 11
    assert sum(score.ci_low <= 0 <= score.ci_high for score in made) >= 86


def test_decisions_of_dialects_in_files_that_number_their_texts_alike_are_each_against_their_reference() -> None:
    # Text 3 of one file is not text 3 of the other: paired by number, 48 of 200 worlds were found in which one file
    # says what is judged more harshly, whatever the guise.
    one, accused = Model(verbs=12, guilt=0.0), 0
    for seed in range(20):
        tables = two(seed, one, one)
        scored = tables["scores"].query("kind == 'decision'").reset_index(drop=True)
        other, word = scored["group"].eq("AppE"), scored["attribute"].eq("conviction 01")
        scored["text_set"] = scored["text_set"].astype(object).where(~other, "other")
        for name in ("log_prob", "log_prob_reference"):
            scored[name] -= np.where(other & word, 1.2, 0.0)
        score = found({**tables, "scores": scored}, seed)[f"decision.conviction: {GUISES}"]
        assert "the guises have other reference texts: each rate minus that of the reference" in score.method
        accused += score.p <= 0.05
    assert accused <= 4  # of 20 in 99.7 % at a rate of 5 %


def test_decisions_of_dialects_in_one_file_are_each_against_the_texts_of_their_own_pairs() -> None:
    # AppE and its SAE texts are about graver deeds. With the SAE texts of all pairs as the reference of both, which
    # cancels, 46 of 60 worlds without an effect of dialect were found.
    rng = np.random.default_rng(0)
    rows = [(prompt, word, -8.0, "", "", "") for prompt in "abcdefg" for word in ("acquitted", "convicted")]
    for guise, deed in (("AAE", 0.0), ("AppE", 1.2)):
        for verb in range(8):
            for prompt, own in product("abcdefg", (guise, "SAE")):
                of = (own, f"{guise} {verb}", f"{guise} {verb}")
                rows.append((prompt, "convicted", -8.5 + deed + rng.normal(), *of))
                rows.append((prompt, "acquitted", -8.0, *of))
    columns = ["prompt", "candidate", "log_prob", "guise", "pair", "verb"]
    made = markedness.matched_guise(
        pd.DataFrame(rows, columns=columns).assign(task="conviction"), log_prob="log_prob", groups="guise",
        unmarked="SAE", candidate="candidate", prompt="prompt", task="task", pair="pair", verb="verb",
    )  # fmt: skip
    first, second, both = (
        made.score(key)
        for key in ("decision.conviction", "decision.conviction: AppE", f"decision.conviction: {GUISES}")
    )
    assert both.estimate == pytest.approx(first.estimate - second.estimate) and both.n_missing == first.n_missing == 0
    assert "each rate minus that of the reference in its own sets" in both.method


@pytest.mark.slow
def test_contrast_of_text_sets_finds_a_denser_one_and_not_an_equal_one() -> None:
    params = Params(contrasts=(("habitual_be", "low"),))
    weak, strong = Model(verbs=12, stereotype=0.1, attribute=0.05), Model(verbs=12, stereotype=0.4, attribute=0.05)
    accused = found_in = 0
    for seed in range(N):
        for model in (weak, strong):
            tables = two(seed, model, weak, "text_set", "low")
            (one,) = contrast_scores(tables["scores"], tables["attributes"], params, np.random.default_rng(seed))
            assert one.key == "strength.covert: habitual_be - low"
            p = one.p
            accused += model is weak and p <= 0.05
            found_in += model is strong and p <= 0.05
    assert accused <= binom.ppf(0.999, N, 0.05)
    assert found_in >= N / 2


@pytest.mark.slow
def test_contrast_of_text_sets_has_p_and_interval_in_its_table() -> None:
    strong, weak = Model(verbs=12, stereotype=0.4, attribute=0.05), Model(verbs=12, attribute=0.05)
    tables = two(1, strong, weak, "text_set", "low")
    params = Params(contrasts=(("habitual_be", "low"),), n_orders=100)
    made = evaluate.evaluate(tables, params, np.random.default_rng(0))
    contrasts = made.tables["contrasts"].query("measure == 'strength'").set_index("first")
    assert number(contrasts, "habitual_be", "ci_low") < number(contrasts, "habitual_be", "difference")
    assert number(contrasts, "habitual_be", "difference") < number(contrasts, "habitual_be", "ci_high")
    assert number(contrasts, "habitual_be", "p") <= 0.05
