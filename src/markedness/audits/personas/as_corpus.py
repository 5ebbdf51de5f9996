"""A world's word counts and vectors as texts and an embedding model: what a whole run of calibrate reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from markedness.audits.base import WorldCorpus
from markedness.audits.personas import AXES
from markedness.audits.personas.language.lexicons import rated_words
from markedness.records import FeatureTables
from markedness.text.embeddings import save_word_vectors

_REFUSAL = "I'm sorry, but I can't help with that."


def as_corpus(features: FeatureTables, root: Path) -> WorldCorpus:
    """One text a row, its words in the order of the alphabet.

    The words of the world are made up, and refusals are recognised in English alone: they become English words. The
    vectors of the world are those of a model of the study: a table of word vectors, such that the mean over the words
    of each text is the vector that the world has drawn for it.
    """
    features = _in_english(features)
    texts, bag = features["texts"], features["bag_of_words"]
    words = bag.loc[bag.index.repeat(bag["count"].to_numpy()), ["text", "word"]].astype({"word": "object"})
    said = words.groupby("text")["word"].agg(" ".join)
    rows = texts[["prompt_id", *AXES]].assign(text=texts["text"].map(said).fillna(_REFUSAL))
    _embedding(features, root / "world-vectors")
    return WorldCorpus(
        rows, features, {"featurize": {"embeddings": str(root / "world-vectors")}},
        {"svm.balanced_accuracy": "the run trains support vector machines, the worlds draw from a faster classifier"},
    )  # fmt: skip


def _in_english(features: FeatureTables) -> dict[str, pd.DataFrame]:
    """The features with a word of `_english` for each word of the world."""
    made = dict(features)
    known = sorted(features["bag_of_words"]["word"].astype(str).unique())
    names = dict(zip(known, _english()[: len(known)], strict=True))
    for table in ("bag_of_words", "words"):
        made[table] = features[table].assign(word=features[table]["word"].astype(str).map(names))
    return made


def _english() -> list[str]:
    """English words of the letters a to z that are no refusal, in the order of the alphabet."""
    return sorted(
        word for word in rated_words() if word.isascii() and word.isalpha() and word.islower() and len(word) > 3
    )


def _embedding(features: FeatureTables, folder: Path) -> None:
    """Solve counts / length @ word vectors = text vectors; exact while texts are fewer than words."""
    bag, embeddings = features["bag_of_words"], features["embeddings"].drop_duplicates("text")
    counts = bag.pivot_table(index="text", columns="word", values="count", fill_value=0, observed=True)
    counts = counts.loc[embeddings["text"]]
    shares = counts.to_numpy(dtype=float) / counts.to_numpy(dtype=float).sum(axis=1, keepdims=True)
    vectors = np.linalg.lstsq(shares, np.stack(embeddings["embedding"].tolist()), rcond=None)[0]
    save_word_vectors(folder, [str(word) for word in counts.columns], vectors)
