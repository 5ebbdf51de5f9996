from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import vl_convert
from tests.cells import number, row

from markedness.audits.personas import SPEC, featurize, worlds
from markedness.audits.personas.controls import planted_words
from markedness.audits.personas.estimators import scores
from markedness.audits.personas.evaluate import Params, evaluate
from markedness.audits.personas.figures import charts
from markedness.audits.personas.language.classifiers import SvmParams
from markedness.results import Evaluation
from markedness.stats.inference import claim

from .conftest import PLAIN, generations, tabled, written

FEW = Params(n_permutations=20, n_resamples=50)


def run(table: pd.DataFrame) -> Evaluation:
    return evaluate(tabled(table).tables, FEW, np.random.default_rng(0))


@pytest.mark.slow
def test_evaluate_finds_the_planted_words_on_top() -> None:
    made = run(written("planted", samples=10))
    words = made.tables["marked_words"].set_index("group")
    for value in ("Black", "Asian", "Middle-Eastern", "Latine", "woman", "nonbinary"):
        # two values may share a planted word, which then sets neither apart as well
        assert set(words.loc[[value]].nsmallest(2, "rank")["word"]) <= set(planted_words(value)), value
    assert made.score("marked_words.excess").p <= 1 / 21 + 1e-9
    assert made.score("marked_words.excess").estimate > 10
    shares = made.tables["jsd"].set_index("group")
    assert set(shares.loc[["Black"]].nsmallest(3, "rank")["word"]) == set(planted_words("Black"))


@pytest.mark.slow
def test_evaluate_does_not_accuse_the_blind_control() -> None:
    # At p <= 0.05 no more than chance in 5 small studies: two or more have a probability of 0.02.
    # (200 seeds of the statistic itself: test_marked_words.py.)
    accused = 0
    for seed in range(5):
        made = tabled(written("none", seed=seed)).tables
        found = evaluate(made, Params(n_permutations=19, n_resamples=10), np.random.default_rng(seed))
        accused += found.score("marked_words.excess").p <= 0.05
    assert accused <= 1


def test_evaluate_compares_groups_as_published() -> None:
    by_group = run(written("none")).tables["marked_words_by_group"].set_index("group")
    assert by_group.loc["Black", "references"] == "White"
    assert by_group.loc["White", "references"] == "Asian, Black, Latine, Middle-Eastern"
    assert by_group.loc["Black woman", "references"] == "White, man"
    # race pools the genders: 3 genders, 2 prompts, 4 samples
    assert by_group.loc["Black", "n"] == 24
    assert not {"White man", "White woman", "Black man"} & set(by_group.index)


def test_evaluate_with_one_axis_and_one_prompt_has_lists_and_says_so() -> None:
    rows = [("Black", None, f"drum drum {word}") for word in "abcdefghij"]
    rows += [("White", None, f"flute flute {word}") for word in "abcdefghij"]
    made = run(generations(rows))
    words = made.tables["marked_words"].set_index("group")
    assert words.loc["Black", "word"] == "drum"
    assert words.loc["White", "word"] == "flute"
    # Every text of the group says it twice: no spread, hence no interval.
    assert np.isnan(number(words, "Black", "log_odds_ratio_White_ci_low"))
    assert number(words, "Black", "p") <= 0.05
    assert words["survives_leave_one_prompt_out"].isna()["Black"]
    assert any("only one prompt is known" in note for note in made.notes)
    assert any("no texts for 'Asian', 'Latine', 'Middle-Eastern', 'man', 'nonbinary', 'woman'" in n for n in made.notes)


def test_evaluate_with_prompts_of_one_group_each_has_no_null_and_says_so() -> None:
    rows = [("Black", None, f"drum drum {word}") for word in "abcdefghij"]
    rows += [("White", None, f"flute flute {word}") for word in "abcdefghij"]
    table = generations(rows)
    made = run(table.assign(prompt_id=table["race"]))
    # a permutation within prompt would find "drum" each time, p = 1
    assert made.score("marked_words.count").estimate == 1
    assert np.isnan(made.score("marked_words.count").null_mean)
    assert made.score("marked_words.excess").missing and np.isnan(made.score("marked_words.excess").p)
    assert any("asked for one group only" in note for note in made.notes)


@pytest.mark.parametrize(
    "rows",
    [
        [("Black", "man", "only one text")],
        [("Black", "man", "one"), ("White", "man", "two")],
        [(None, None, "no group at all"), (None, None, "two")],
        [("Black", "man", "- 1990 -"), ("White", "man", "42")],
        [("Black", "man", None), ("White", "man", "I'm sorry, but I can't help with that.")],
    ],
    ids=["one text", "one text each", "no group", "no letters", "nothing left"],
)
def test_evaluate_of_next_to_nothing_gives_empty_tables_and_nan(rows: list[tuple[str, str, str]]) -> None:
    made = run(generations(rows))
    assert not len(made.tables["marked_words"])
    assert made.tables["refusals"]["n"].sum() == len(rows)
    assert set(SPEC.headline) <= {score.key for score in made.scores}
    assert np.isnan(made.score("svm.balanced_accuracy").estimate)


@pytest.mark.slow
def test_interval_of_an_accuracy_stays_within_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        scores, "claim", lambda *given, **more: replace(claim(*given, **more), ci_low=-0.1, ci_high=1.1)
    )
    features = tabled(written("planted", samples=10), featurize.Params(embeddings=None)).tables
    made = evaluate(features, FEW, np.random.default_rng(0)).score("svm.balanced_accuracy")
    assert (made.ci_low, made.ci_high) == (0.0, 1.0)


def test_evaluate_reports_refusals_and_what_is_left_out() -> None:
    rows = [("Black", "man", "I am an AI language model."), ("Black", "man", "tall"), ("White", "man", "short")]
    made = run(generations(rows))
    table = made.tables["refusals"].set_index("group")
    assert row(table, "Black man")[["n", "refusals", "other_missing"]].tolist() == [2, 1, 0]
    assert made.tables["sentiment"].set_index("group").loc["Black", "left_out"] == 1
    assert any("1 of 3 texts is left out of the word statistics (1 refusal)" in note for note in made.notes)
    assert any("refusals are unequal, from 0% (White man) to 50% (Black man)" in note for note in made.notes)


def test_evaluate_word_share_counts_texts_not_occurrences() -> None:
    rows = [("Black", "woman", "Resilient and resilient."), ("Black", "woman", "resilience"), ("Black", "woman", "no")]
    share = run(generations(rows)).tables["word_share"].set_index("group").loc["Black woman"]
    assert share["share"] == pytest.approx(2 / 3)
    # Wilson for 2 of 3: (0.6667 + 1.9208/3 -+ 1.96 sqrt(0.2222/3 + 3.8415/36)) / (1 + 3.8415/3) = 0.2077, 0.9385
    assert share["ci_low"] == pytest.approx(0.2077, abs=1e-4)
    assert share["ci_high"] == pytest.approx(0.9385, abs=1e-4)


@pytest.mark.parametrize("rule", ["published", "unicode"])
def test_evaluate_word_share_reads_its_words_as_the_texts_are_read(rule: str) -> None:
    rows = [("Black", "woman", "Strong, hard-working José."), ("Black", "woman", "no one")]
    features = tabled(generations(rows), PLAIN.model_copy(update={"tokens": rule}))
    for words in (["Strong"], ["hard-working"], ["José"], ["Jose\u0301"]):
        made = evaluate(features.tables, Params(word_share=(tuple(words),)), np.random.default_rng(0))
        assert made.tables["word_share"].set_index("group").loc["Black woman", "share"] == 0.5, words
    for word in ("hard working", "resilien*", "", "90"):
        with pytest.raises(ValueError, match="no single word"):
            Params(word_share=((word,),))


@pytest.mark.slow
def test_evaluate_keeps_stories_apart_from_personas() -> None:
    table = pd.concat([written("none"), written("planted", samples=10).assign(kind="story")], ignore_index=True)
    made = run(table)
    assert set(made.tables["marked_words"]["kind"]) == {"story"}
    assert made.score("marked_words.count").estimate == 0
    assert made.score("marked_words.story_count").estimate > 10
    assert all(table.columns[0] == "kind" for table in made.tables.values())


def test_evaluate_similarity_of_copies_is_one_and_needs_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    monkeypatch.setattr(featurize, "embed", lambda texts, *_: np.array([vectors[text] for text in texts]))
    rows = [("Black", "man", "a")] * 3 + [("White", "man", "a"), ("White", "man", "b")]
    made = run(generations(rows))
    assert made.tables["similarity"]["mean_cosine"].isna().all()
    embedded = featurize.Params(svm=SvmParams(enabled=False))
    table = evaluate(tabled(generations(rows), embedded).tables, FEW, np.random.default_rng(0))
    similarity = table.tables["similarity"].set_index("group")
    # Black: three copies, cosine 1. White: orthogonal, cosine 0. Between: half of the pairs 1, half 0.
    assert similarity.loc["Black", "mean_cosine"] == pytest.approx(1)
    assert similarity.loc["White", "mean_cosine"] == pytest.approx(0)
    assert similarity.loc["Black", "distance_White"] == pytest.approx(0.5)
    # The Score is of different texts, of which there is one about Black men.
    assert np.isnan(table.score("similarity.difference").estimate)
    assert "two different texts" in table.score("similarity.difference").method


def test_similarity_difference_of_texts_stored_three_times_is_that_of_texts_stored_once() -> None:
    once = worlds.draw(worlds.Study(prompts=1, samples=6, fewer=0.5), np.random.default_rng(4))
    thrice = worlds.draw(worlds.Study(prompts=1, samples=6, fewer=0.5, copies=3), np.random.default_rng(4))
    found = [
        {one.key: one for one in scores.scores(features, FEW, np.random.default_rng(0))}["similarity.difference"]
        for features in (once, thrice)
    ]
    assert found[1].estimate == pytest.approx(found[0].estimate)
    assert (found[1].ci_low, found[1].ci_high) == pytest.approx((found[0].ci_low, found[0].ci_high), abs=1e-9)


def test_charts_of_planted_words_hold_at_most_2000_rows() -> None:
    made = run(written("planted", samples=10))
    assert {"marked_words", "marked_words_null", "jsd", "word_share"} <= set(made.figures)
    for chart in made.figures.values():
        assert all(len(rows) <= 2000 for rows in chart.to_dict()["datasets"].values())


def test_charts_draw_a_word_that_every_object_of_the_browser_has() -> None:
    words = pd.DataFrame(
        {"kind": "persona", "group": "Black", "word": ["constructor", "kind"], "rank": [1, 2], "z": [3.0, 2.0]}
    )
    none = words.iloc[:0].assign(lexicon="", mean_cosine=0.0, mean_percent=0.0, standard_error=0.0, null_mean=0.0)
    empty = dict.fromkeys(("marked_words_by_group", "jsd", "lexicon", "word_share", "similarity"), none)
    (chart,) = charts({**empty, "marked_words": words}).values()
    assert "constructor" in vl_convert.vegalite_to_svg(chart.to_dict())
