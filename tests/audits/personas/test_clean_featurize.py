import numpy as np
import pandas as pd
import pytest

from markedness.audits.personas import clean, featurize
from markedness.store import FolderStimuli
from markedness.text.embeddings import EmbeddingError

from .conftest import PLAIN, features, generations, written


def test_clean_labels_refusals_empty_and_missing_texts_and_copies() -> None:
    table = generations(
        [
            ("Black", "man", " I am tall. "),
            ("Black", "man", "I am tall."),
            ("White", "man", "I am tall."),
            ("Black", "man", "I'm sorry, but I can't help with that."),
            ("Black", "man", "  "),
            ("Black", "man", None),
        ]
    )
    responses = clean.clean(table, clean.Params())
    assert responses["status"].tolist() == ["ok", "ok", "ok", "refusal", "unparsed", "failed"]
    assert responses["answer"].iloc[0] == "I am tall."
    assert responses["duplicate"].tolist() == [False, True, False, False, False, False]


def test_featurize_leaves_out_what_is_excluded_and_keeps_the_row() -> None:
    table = generations([("Black", "man", "I am tall."), ("White", "man", "I cannot describe a person by race.")])
    assert features(table)["included"].tolist() == [True, False]
    assert features(table)["tokens"].isna().tolist() == [False, True]
    everything = featurize.Params(exclude=(), embeddings=None, svm=PLAIN.svm)
    assert features(table, everything)["included"].tolist() == [True, True]


def test_featurize_drops_copies_only_when_told() -> None:
    table = generations([("Black", "man", "I am tall.")] * 3)
    assert features(table)["included"].sum() == 3
    responses = clean.clean(table, clean.Params(drop_duplicates=True))
    assert len(responses) == 3
    assert featurize.featurize(responses, PLAIN).table["included"].tolist() == [True, False, False]


def test_featurize_counts_lexicon_words_of_the_stimuli(stimuli: FolderStimuli) -> None:
    made = features(generations([("Black", "man", "A tall, athletic man")]), stimuli=stimuli)
    # "tall" and "athletic" are two of four words
    assert made["lexicon: Black"].tolist() == [50.0]


def test_featurize_without_embedding_package_notes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise EmbeddingError("sentence embeddings need the extra 'text'")

    monkeypatch.setattr(featurize, "embed", missing)
    made = features(generations([("Black", "man", "x")]), featurize.Params(svm=PLAIN.svm))
    assert made["embedding"].isna().all()
    assert "No similarity of texts: sentence embeddings need the extra 'text'." in made.attrs["corpus"]


def with_copies() -> pd.DataFrame:
    """120 texts of the planted control, 40 of them once more."""
    table = written("planted")
    return pd.concat([table, table.sample(40, random_state=1)], ignore_index=True)


def sides(table: pd.DataFrame, made: pd.DataFrame) -> pd.Series:
    """Text -> on how many sides of the race split it stands."""
    tested = made["svm_race"].notna()
    return tested.groupby(table["text"].to_numpy()).nunique()


def test_classifiers_keep_copies_on_one_side_by_default() -> None:
    table = with_copies()
    made = features(table, featurize.Params(embeddings=None))
    assert sides(table, made).max() == 1
    assert "40 texts are copies of another; the classifiers keep all copies on one side" in made.attrs["corpus"]


def test_classifiers_with_copies_allowed_or_refused() -> None:
    table = with_copies()
    allowed = features(table, featurize.Params(embeddings=None, svm=featurize.SvmParams(duplicates="allow")))
    assert sides(table, allowed).max() == 2
    refused = features(table, featurize.Params(embeddings=None, svm=featurize.SvmParams(duplicates="refuse")))
    assert "svm_race" not in refused
    assert "no classifiers, since a copy could stand on both sides" in refused.attrs["corpus"]


def test_classifiers_with_too_few_texts_note_it() -> None:
    made = features(generations([("Black", "man", "x"), ("White", "man", "y")]), featurize.Params(embeddings=None))
    assert not [column for column in made if str(column).startswith("svm_")]
    assert "No classifiers for persona race: " in made.attrs["corpus"]


def test_every_nth_text_is_taken_above_the_limit() -> None:
    assert featurize._every_nth(np.arange(10), 4).tolist() == [0, 3, 6, 9]
