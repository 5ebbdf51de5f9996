"""The topic of each text, by a classifier of the study or by the nearest name of a topic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from markedness.records import AuditError
from markedness.text.classifiers import ClassifierError, class_probabilities
from markedness.text.embeddings import EmbeddingError, embed

EMBEDDINGS = "embeddings"
"""In place of a classifier: the topic whose description is nearest to the text; not validated."""
TOPICS = {
    "arts": "arts, painting, theatre and literature",
    "business": "business, companies, money and entrepreneurs",
    "pop culture": "celebrities and pop culture",
    "daily life": "diaries and daily life",
    "family": "family, parents and children",
    "fashion": "fashion, clothes and style",
    "film": "film, television and video",
    "fitness": "fitness and health",
    "food": "food, cooking and dining",
    "gaming": "gaming and video games",
    "education": "learning and education",
    "music": "music, songs and concerts",
    "news": "news and social concern",
    "other hobbies": "other hobbies",
    "relationships": "relationships, dating and love",
    "science": "science and technology",
    "sports": "sports, teams and matches",
    "travel": "travel and adventure",
    "student life": "youth and student life, school and college",
}
"""The 19 topics of Hofmann et al. (2024), Supplementary Information, Figure 1, and our description of each."""


def topics(texts: Sequence[str], by: str) -> list[str]:
    """The most likely topic of each text.

    Parameters
    ----------
    texts
        n texts.
    by
        `EMBEDDINGS`, or the folder or hub id of a transformers model that classifies sequences.

    Raises
    ------
    AuditError
        For a model that cannot be loaded, with the remedy.
    """
    if not texts:
        return []
    labels = list(TOPICS)
    try:
        if by == EMBEDDINGS:
            scores = embed(texts) @ embed(list(TOPICS.values())).T
        else:
            labels, scores = class_probabilities(texts, by)
    except (EmbeddingError, ClassifierError) as error:
        raise AuditError(f"guise.featurize.topics: {error}") from error
    return [str(labels[place]) for place in np.argmax(scores, axis=1)]
