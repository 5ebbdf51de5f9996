"""Topics of short texts by BERTopic: pinned embeddings, UMAP, HDBSCAN, class-based TF-IDF words.

Grootendorst, M. (2022). BERTopic: Neural topic modeling with a class-based TF-IDF procedure. arXiv 2203.05794.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from markedness.text.embeddings import DEFAULT_MODEL, embed
from markedness.text.languages import ENGLISH, language_name, no_embeddings

_ELIDED = re.compile(r"\b(?:[cdjlmnst]|qu)['’]", re.IGNORECASE)
NO_TOPIC = -1
"""HDBSCAN's noise: texts near no topic."""


@dataclass(frozen=True)
class Topics:
    """A fitted topic model of n texts."""

    labels: NDArray[np.int64]
    """Shape (n,): 0, 1, ... by size, `NO_TOPIC` for noise."""
    words: dict[int, tuple[str, ...]]
    """Topic -> its most typical words, the first the most."""
    stability: float
    """Mean adjusted Rand index of the labels with those under other seeds, in [-1, 1]; 1 when all agree; NaN without
    other seeds."""


def fit_topics(
    texts: Sequence[str],
    min_cluster_size: int,
    seed: int = 0,
    embedding: str = DEFAULT_MODEL,
    other_seeds: Sequence[int] = (),
    n_words: int = 6,
    language: str = ENGLISH,
) -> Topics | None:
    """Cluster texts into topics.

    Parameters
    ----------
    texts
        n texts, in any case; reduced to content words first, see `content_words`. A text without content words has
        no topic.
    min_cluster_size
        Smallest topic, in texts (HDBSCAN).
    seed
        Of UMAP, the only random part.
    embedding
        See `markedness.text.embeddings.embed`.
    other_seeds
        Seeds of the further fits that ``stability`` compares with.
    n_words
        Words per topic.
    language
        Of the texts: whose lemmas and stop words.

    Returns
    -------
    Topics or None
        None where fewer than 16 different texts with content words leave nothing to cluster.
    """
    cleaned = [content_words(text, language) for text in texts]
    filled = np.array([bool(text) for text in cleaned])
    documents = [text for text in cleaned if text]
    if len(set(documents)) < 16:
        return None
    vectors = embed(documents, embedding)
    labels = np.full(len(cleaned), NO_TOPIC, dtype=np.int64)
    labels[filled], words = _fit(documents, vectors, max(2, min_cluster_size), seed, n_words)
    from sklearn.metrics import adjusted_rand_score

    agreement = [
        adjusted_rand_score(labels[filled], _clusters(vectors, max(2, min_cluster_size), other))
        for other in other_seeds
    ]
    return Topics(labels, words, float(np.mean(agreement)) if agreement else float("nan"))


def _fit(
    documents: list[str], vectors: NDArray[np.float32], min_cluster_size: int, seed: int, n_words: int
) -> tuple[NDArray[np.int64], dict[int, tuple[str, ...]]]:
    """One BERTopic model with seeded parts."""
    from bertopic import BERTopic
    from sklearn.feature_extraction.text import CountVectorizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BERTopic(
            embedding_model=None,
            umap_model=_umap(len(documents), seed),
            hdbscan_model=_hdbscan(min_cluster_size),
            vectorizer_model=CountVectorizer(token_pattern=r"\S+"),
            top_n_words=max(n_words, 2),
            calculate_probabilities=False,
            verbose=False,
        )
        topics, _ = model.fit_transform(documents, vectors)
    words = {
        int(topic): tuple(word for word, _ in pairs if word)[:n_words]
        for topic, pairs in model.get_topics().items()
        if topic != NO_TOPIC
    }
    return np.asarray(topics, dtype=np.int64), words


def _clusters(vectors: NDArray[np.float32], min_cluster_size: int, seed: int) -> NDArray[np.int64]:
    """The clusters alone, as BERTopic finds them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reduced = _umap(len(vectors), seed).fit_transform(vectors)
        return np.asarray(_hdbscan(min_cluster_size).fit_predict(reduced), dtype=np.int64)


def _umap(n_texts: int, seed: int) -> Any:
    """BERTopic's own settings, with a seed; spectral starts fail on repeated texts, principal components do not."""
    from umap import UMAP

    _keep_compiled()
    return UMAP(
        n_neighbors=min(15, n_texts - 1), n_components=5, min_dist=0.0, metric="cosine", init="pca", random_state=seed,
        n_jobs=1,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _keep_compiled() -> None:
    """Have Numba keep what it compiles of UMAP beside UMAP's files, as it does where a function asks for it.

    Without it each process compiles anew, which takes longer than all else that topics need.
    """
    from numba.core.dispatcher import Dispatcher

    found = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("umap", "pynndescent")]
    for function in (value for module in found for value in vars(module).values()):
        if isinstance(function, Dispatcher):
            function.enable_caching()


def _hdbscan(min_cluster_size: int) -> Any:
    from hdbscan import HDBSCAN

    return HDBSCAN(min_cluster_size=min_cluster_size, metric="euclidean", cluster_selection_method="eom")


def no_topics(language: str, embedding: str) -> str:
    """Why there are no topics of texts in a language; "" where there are."""
    if language not in (ENGLISH, *_other_stop_words()):
        return f"no stop words for {language_name(language)}"
    return no_embeddings(language, embedding)


def content_words(text: str, language: str = ENGLISH) -> str:
    """Lower-case lemmas without stop words, in their order: "drink too much" -> "drink".

    The English stop words are those of scikit-learn, the others our own.
    """
    import simplemma

    stop = _stop_words() if language == ENGLISH else _other_stop_words()[language]
    words = (word.strip("'’-") for word in _words(_ELIDED.sub(" ", text) if language == "fr" else text))
    return " ".join(
        lemma.lower()
        for word in words
        if word and word not in stop
        for lemma in [simplemma.lemmatize(word, lang=language)]
        if lemma.lower() not in stop
    )


def _words(text: str) -> list[str]:
    """Words with inner apostrophes and hyphens."""
    return re.findall(r"[^\W_]+(?:['-][^\W_]+)*", text.lower().replace("’", "'"))


@lru_cache(maxsize=1)
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    contracted = {"can't", "don't", "doesn't", "won't", "isn't", "aren't", "wasn't", "weren't", "didn't", "it's"}
    return frozenset(ENGLISH_STOP_WORDS) | contracted


@lru_cache(maxsize=1)
def _other_stop_words() -> dict[str, frozenset[str]]:
    """Language -> its stop words."""
    text = files("markedness.audits.knowledge.language").joinpath("stop_words.yaml").read_text(encoding="utf-8")
    return {language: frozenset(words.split()) for language, words in yaml.safe_load(text).items()}
