from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cells import row

from markedness.audits.personas import SPEC, clean, featurize
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.estimators.scores import scores
from markedness.audits.personas.language.classifiers import SvmParams
from markedness.audits.personas.language.sampling import every_nth
from markedness.records import Features
from markedness.store import FolderStimuli, Store
from markedness.text.embeddings import EmbeddingError

from .conftest import PLAIN, STIMULI, features, generations, tabled, written


def test_clean_labels_refusals_empty_and_missing_texts_and_copies() -> None:
    table = generations(
        [
            ("Black", "man", " I am tall. "),
            ("Black", "man", "I am tall."),
            ("White", "man", "I am tall."),
            ("Black", "man", "I'm sorry, but I can't help with that."),
            ("Black", "man", "  "),
            ("Black", "man", None),
            ("Black", "man", "N/A"),
            ("Black", "man", "..."),
        ]
    )
    responses = clean.clean(table, clean.Params())
    assert responses["status"].tolist() == ["ok", "ok", "ok", "refusal", "unparsed", "failed", "unparsed", "unparsed"]
    assert responses["answer"].iloc[0] == "I am tall."
    assert responses["duplicate"].tolist() == [False, True, *[False] * 6]


def test_clean_reads_the_answer_after_reasoning_in_one_form() -> None:
    texts = ["<think>Let me see.</think> A cafe\u0301", "A café", "Let me see.</think>A ca\u00adfé", "<think>Let"]
    columns = {"prompt": "p", "prompt_id": "p", "group": "Black", "finish_reason": "stop", "error": pd.NA}
    made = clean.clean(pd.DataFrame({"text": texts, **columns}), clean.Params())
    assert made["answer"].fillna("").tolist() == ["A café"] * 3 + [""]
    assert made["duplicate"].tolist() == [False, True, True, False]
    assert made["status"].tolist() == ["ok"] * 3 + ["unparsed"]


def test_featurize_leaves_out_what_is_excluded_and_keeps_the_row() -> None:
    table = generations([("Black", "man", "I am tall."), ("White", "man", "I cannot describe a person by race.")])
    assert features(table)["included"].tolist() == [True, False]
    assert tabled(table).tables["bag_of_words"]["text"].unique().tolist() == [0]
    everything = featurize.Params(exclude=(), embeddings=None, svm=PLAIN.svm)
    assert features(table, everything)["included"].tolist() == [True, True]


def test_featurize_drops_copies_only_when_told() -> None:
    table = generations([("Black", "man", "I am tall.")] * 3)
    assert features(table)["included"].sum() == 3
    responses = clean.clean(table, clean.Params(drop_duplicates=True))
    assert len(responses) == 3
    assert featurize.featurize(responses, PLAIN, STIMULI).tables["texts"]["included"].tolist() == [True, False, False]


def test_featurize_counts_lexicon_words_of_the_stimuli(stimuli: FolderStimuli) -> None:
    made = features(generations([("Black", "man", "A tall, athletic man")]), stimuli=stimuli)
    # "tall" and "athletic" are two of four words
    assert made["lexicon: Black"].tolist() == [50.0]


def test_featurize_without_embedding_package_notes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise EmbeddingError("sentence embeddings need the extra 'text'")

    monkeypatch.setattr(featurize, "embed", missing)
    made = tabled(generations([("Black", "man", "x")]), featurize.Params(svm=PLAIN.svm))
    assert not len(made.tables["embeddings"])
    assert "No similarity of texts: sentence embeddings need the extra 'text'." in made.notes


def with_copies() -> pd.DataFrame:
    """120 texts of the planted control, 40 of them once more."""
    table = written("planted")
    return pd.concat([table, table.sample(40, random_state=1)], ignore_index=True)


def sides(table: pd.DataFrame, made: Features) -> pd.Series:
    """Text -> on how many sides of the race split it stands."""
    predictions = made.tables["svm_predictions"]
    tested = pd.Series(range(len(table))).isin(predictions.loc[predictions["labeling"] == "race", "text"])
    return tested.groupby(table["text"].to_numpy()).nunique()


def test_classifiers_keep_copies_on_one_side_by_default() -> None:
    table = with_copies()
    made = tabled(table, featurize.Params(embeddings=None))
    assert sides(table, made).max() == 1
    assert "40 texts are copies of another; the classifiers keep all copies on one side" in " ".join(made.notes)


def test_classifiers_keep_near_copies_and_clusters_on_one_side() -> None:
    table = written("planted")
    again = table.assign(text=table["text"].str.capitalize().str.replace(" ", "  ", n=1))
    both = pd.concat([table, again], ignore_index=True)
    made = tabled(both, featurize.Params(embeddings=None))
    assert sides(both.assign(text=both["text"].str.lower().str.split().str.join(" ")), made).max() == 1
    assert f"{len(table)} texts are copies of another" in " ".join(made.notes)
    # An author of one group has four texts.
    authors = table.assign(
        cluster=table["group"] + " " + (table.groupby("group").cumcount() // 4).astype(str).to_numpy()
    )
    made = tabled(authors, featurize.Params(embeddings=None))
    assert len(made.tables["svm_predictions"])
    assert sides(authors.assign(text=authors["cluster"]), made).max() == 1


def test_classifiers_keep_authors_who_write_about_all_groups_on_one_side() -> None:
    table = written("planted")
    # As a file may have them: each author's texts about one group come first.
    table = table.sort_values("group", kind="stable").reset_index(drop=True)
    authors = table.assign(cluster="author " + (table.groupby("group").cumcount() % 8).astype(str))
    authors = pd.concat([authors, authors.assign(text=authors["text"] + " again", cluster=authors["cluster"] + "b")])
    authors = authors.reset_index(drop=True)
    made = tabled(authors, featurize.Params(embeddings=None))
    assert len(made.tables["svm_predictions"])
    assert sides(authors.assign(text=authors["cluster"]), made).max() == 1


def test_interval_of_classifiers_counts_the_authors_of_test_texts_alone() -> None:
    table = written("planted")
    params = Params(n_permutations=99)
    for n_texts, there in ((1, True), (12, False)):  # many authors of each group, or so few that five are tested
        named = table["group"] + " " + (table.groupby("group").cumcount() // n_texts).astype(str)
        made = tabled(table.assign(cluster=named), featurize.Params(embeddings=None))
        found = {one.key: one for one in scores(made.tables, params, np.random.default_rng(0))}
        assert found["svm.balanced_accuracy"].has_interval == there, found["svm.balanced_accuracy"]


def test_some_texts_without_a_cluster_are_a_note() -> None:
    table = written("planted")
    half = table.assign(cluster=table["group"].where(table.index % 2 == 0))
    note = f"{len(table) // 2} texts of {len(table)} have no cluster: each different one counts as a cluster of its own"
    assert note in " ".join(tabled(half, featurize.Params(embeddings=None, svm=PLAIN.svm)).notes)
    assert "have no cluster" not in " ".join(tabled(table, featurize.Params(embeddings=None, svm=PLAIN.svm)).notes)


def test_classifiers_with_copies_allowed_or_refused() -> None:
    table = with_copies()
    allowed = tabled(table, featurize.Params(embeddings=None, svm=SvmParams(duplicates="allow")))
    assert sides(table, allowed).max() == 2
    made = {one.key: one for one in scores(allowed.tables, Params(n_permutations=99), np.random.default_rng(0))}
    accuracy = made["svm.balanced_accuracy"]
    assert accuracy.estimate > 0.5 and np.isnan(accuracy.p) and not accuracy.has_interval
    assert "among the training texts" in accuracy.lacking
    refused = tabled(table, featurize.Params(embeddings=None, svm=SvmParams(duplicates="refuse")))
    assert not len(refused.tables["svm_predictions"])
    assert "no classifiers, since a copy could stand on both sides" in " ".join(refused.notes)


def test_classifiers_with_too_few_texts_note_it() -> None:
    made = tabled(generations([("Black", "man", "x"), ("White", "man", "y")]), featurize.Params(embeddings=None))
    assert not len(made.tables["svm_predictions"])
    assert "No classifiers for persona race: " in " ".join(made.notes)


def test_every_nth_text_is_taken_above_the_limit() -> None:
    assert every_nth(np.arange(10), 4).tolist() == [0, 3, 6, 9]


def test_bag_of_words_holds_each_word_of_each_text_with_its_count() -> None:
    table = generations([("Black", "man", "Tall and - tall."), ("White", "man", None), ("White", "man", "and")])
    bag = tabled(table).tables["bag_of_words"]
    # "-" has no letter: an empty word, which counts in totals
    expected = [(0, "tall", 2), (0, "and", 1), (0, "", 1), (2, "and", 1)]
    assert list(bag.itertuples(index=False, name=None)) == expected


def test_words_hold_log_odds_and_divergence_of_every_comparison() -> None:
    table = generations([("Black", "man", "x x y"), ("White", "man", "y y y"), ("White", "woman", "y")])
    made = tabled(table, PLAIN.model_copy(update={"prior": "compared"})).tables
    words = (
        made["words"].astype({"group": str, "reference": str, "word": str}).set_index(["group", "reference", "word"])
    )
    # Black v. White: y1 = (2, 1), y2 = (0, 4), a = (2, 5), a0 = 7. Word x: l1 = (2+2)/(3+7-4) = 2/3,
    # l2 = (0+2)/(4+7-2) = 2/9, log_odds_ratio = ln 3, z = ln 3 / sqrt(1/4 + 1/2).
    black = row(words, ("Black", "White", "x"))
    assert black[["count_target", "count_reference"]].tolist() == [2, 0]
    assert black["log_odds_ratio"] == pytest.approx(np.log(3))
    assert black["z"] == pytest.approx(np.log(3) / np.sqrt(0.75))
    # p = (2/3, 1/3), q = (0, 1), m = (1/3, 2/3): x contributes 1/3 log2(2) = 1/3 bit, y 1/6 log2(1/2) + 1/2 log2(3/2).
    assert black["jsd_contribution"] == pytest.approx(1 / 3)
    total = 1 / 3 - 1 / 6 + np.log2(1.5) / 2
    assert black["jsd_share"] == pytest.approx(1 / 3 / total)
    assert words.xs("Black")["jsd_side"].tolist() == [1, -1]
    comparisons = made["comparisons"].set_index(["group", "reference"])
    assert comparisons.loc[("Black", "White"), "jsd"] == pytest.approx(total)
    assert comparisons["prior"].unique().tolist() == ["compared"]
    assert set(comparisons.index) == {("Black", "White"), ("White", "Black"), ("man", "woman"), ("woman", "man")}


def test_words_of_one_group_alone_are_compared_with_nothing() -> None:
    made = tabled(generations([("Black", "man", "x x y")])).tables
    assert not len(made["words"]) and not len(made["comparisons"])


def test_features_are_the_same_after_they_were_written_and_read(tmp_path: Path) -> None:
    made = tabled(written("planted"), featurize.Params(embeddings=None))
    store = Store(tmp_path)
    store.write_features("personas", "m", made, SPEC.features)
    read = store.read_features("personas", "m")
    assert isinstance(read, Features)
    for name, table in made.tables.items():
        pd.testing.assert_frame_equal(read.tables[name], table, check_categorical=False)
