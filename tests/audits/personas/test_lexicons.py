import math

import numpy as np
import pytest

from markedness.audits.personas.language.lexicons import Counting, lexicon_percents, sentiment, word_sentiments


def percents(texts: list[str | None], words: list[str], counting: Counting = "tokens") -> list[float]:
    return [float(percent) for percent in lexicon_percents(texts, {"only": words}, counting)["only"]]


def test_lexicon_percents_by_tokens_count_whole_words() -> None:
    # "tall" and "family-oriented" of six words; "tallest" is no lexicon word.
    found = percents(["The tall, family-oriented and tallest man"], ["tall", "family-oriented", "tall"])
    assert found == pytest.approx([100 * 2 / 6])


def test_lexicon_percents_of_two_lexicons_share_words() -> None:
    found = lexicon_percents(["tall rich man", "rich"], {"a": ["tall", "rich"], "b": ["rich"], "none": []})
    assert found["a"].tolist() == pytest.approx([200 / 3, 100])
    assert found["b"].tolist() == pytest.approx([100 / 3, 100])
    assert found["none"].tolist() == [0, 0]


def test_lexicon_percents_by_substrings_count_inside_words_over_single_spaces() -> None:
    # "rich" stands in "rich" and "enriched"; the double space makes a fourth, empty piece.
    assert percents(["rich, enriched  soil"], ["rich"], "substrings") == pytest.approx([50.0])


def test_lexicon_percents_by_substrings_never_find_a_hyphen() -> None:
    assert percents(["a dark-skinned man"], ["dark-skinned"], "substrings") == [0.0]


def test_lexicon_percents_of_missing_text_are_nan() -> None:
    assert np.isnan(percents([None, ""], ["a"])).all()
    assert np.isnan(percents([None, ""], ["a"], "substrings")).all()


def test_sentiment_of_good_and_bad_text_has_their_sign_and_missing_is_nan() -> None:
    good, bad, missing = sentiment(["She is kind and wonderful.", "He is cruel and horrible.", None])
    assert good > 0.5
    assert bad < -0.5
    assert math.isnan(missing)


def test_sentiment_follows_nltk_where_packages_differ() -> None:
    # NLTK lets "no" (-1.2) and "good" (+1.9) both count: 0.7 / sqrt(0.7^2 + 15) = 0.1779. The vaderSentiment
    # package turns "good" round after "no" and says -0.3412.
    assert sentiment(["no good"])[0] == pytest.approx(0.1779, abs=5e-5)


def test_word_sentiments_holds_only_words_of_the_list() -> None:
    scores = word_sentiments(["beautiful", "almondshaped"])
    assert set(scores) == {"beautiful"}
    assert scores["beautiful"] > 0
