from __future__ import annotations

import numpy as np
import pytest

from markedness.audits.knowledge.language.topics import NO_TOPIC, content_words, fit_topics


def test_content_words_are_lemmas_without_stop_words() -> None:
    assert content_words("Can't stop eating the Apples") == "stop eat apple"
    assert content_words("are the") == ""


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Three themes of 40 short texts."""
    rng = np.random.default_rng(0)
    themes = {
        "bake": ("fresh bread", "rye bread", "sweet cakes", "apple cakes", "warm rolls", "butter biscuits"),
        "sail": ("wooden boats", "stormy seas", "tall ships", "fishing boats", "the harbour", "the ocean"),
        "play": ("football matches", "football finals", "tennis matches", "the basketball cup", "volleyball", "golf"),
    }
    verbs = ("love", "hate", "enjoy", "prefer", "remember", "miss", "want")
    return [f"{rng.choice(verbs)} {rng.choice(objects)}" for objects in themes.values() for _ in range(40)]


@pytest.mark.slow
def test_fit_topics_finds_planted_themes_and_the_same_ones_again(texts: list[str]) -> None:
    found = fit_topics(texts, min_cluster_size=8, seed=1, other_seeds=(2,))
    again = fit_topics(texts, min_cluster_size=8, seed=1)
    assert found is not None and again is not None
    np.testing.assert_array_equal(found.labels, again.labels)
    assert 0.4 < found.stability <= 1
    theme = np.repeat([0, 1, 2], 40)
    for topic in found.words:
        counts = np.bincount(theme[found.labels == topic], minlength=3)
        assert counts.max() / counts.sum() > 0.8
    assert found.words and all(words for words in found.words.values())


def test_fit_topics_gives_a_text_without_content_words_no_topic(texts: list[str]) -> None:
    found = fit_topics([*texts, "are the", "海"], min_cluster_size=8)
    assert found is not None and found.labels[-2] == NO_TOPIC and len(found.labels) == len(texts) + 2


def test_fit_topics_of_one_text_again_and_again_is_nothing_to_cluster() -> None:
    assert fit_topics(["love rum"] * 200, min_cluster_size=5) is None


def test_what_umap_compiles_is_kept_for_the_next_process(texts: list[str]) -> None:
    assert fit_topics(texts, min_cluster_size=8) is not None
    from umap import umap_

    for function in (umap_.smooth_knn_dist, umap_.compute_membership_strengths, umap_.fast_knn_indices):
        assert function.stats.cache_path, function.__name__
