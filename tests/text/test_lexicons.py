import math

import numpy as np
import pytest

from markedness.text.lexicons import lexicon_percent, sentiment, word_sentiments


def test_lexicon_percent_by_tokens_counts_whole_words() -> None:
    # "tall" and "family-oriented" of six words; "tallest" is no lexicon word.
    percent = lexicon_percent(["The tall, family-oriented and tallest man"], ["tall", "family-oriented"])
    assert percent.tolist() == pytest.approx([100 * 2 / 6])


def test_lexicon_percent_by_substrings_counts_inside_words_over_single_spaces() -> None:
    # "rich" stands in "rich" and "enriched"; the double space makes a fourth, empty piece.
    assert lexicon_percent(["rich, enriched  soil"], ["rich"], "substrings").tolist() == pytest.approx([50.0])


def test_lexicon_percent_by_substrings_never_finds_a_hyphen() -> None:
    assert lexicon_percent(["a dark-skinned man"], ["dark-skinned"], "substrings").tolist() == [0.0]


def test_lexicon_percent_of_missing_text_is_nan() -> None:
    assert np.isnan(lexicon_percent([None, ""], ["a"])).all()
    assert np.isnan(lexicon_percent([None, ""], ["a"], "substrings")).all()


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
