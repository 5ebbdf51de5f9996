"""Text-classification models through transformers: a local folder or a hub id."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ClassifierError(RuntimeError):
    """A classification model that cannot be loaded, with the remedy."""


def class_probabilities(
    texts: Sequence[str], path: str, revision: str | None = None, batch_size: int = 64
) -> tuple[list[str], NDArray[np.float64]]:
    """Probabilities of a model's labels for each text.

    Parameters
    ----------
    texts
        n texts; cut at the model's limit. Texts that occur twice are classified once.
    path
        Local folder or hub id of a model for sequence classification.
    revision
        Commit or tag of a hub model.
    batch_size
        Texts classified together.

    Returns
    -------
    labels
        The model's k label names.
    float array, shape (n, k)
        Rows sum to 1, or each label has a probability of its own where the model says multi-label or has one label.

    Raises
    ------
    ClassifierError
        When the model or the packages that run it are missing.
    """
    tokenizer, model = _loaded(path, revision)
    import torch

    labels = [model.config.id2label[place] for place in range(model.config.num_labels)]
    if not len(texts):
        return labels, np.empty((0, len(labels)))
    unique, places = np.unique(np.asarray(texts, dtype=object).astype(str), return_inverse=True)
    order = sorted(range(len(unique)), key=lambda place: len(unique[place]))
    own = model.config.problem_type == "multi_label_classification" or len(labels) == 1
    probabilities = np.empty((len(unique), len(labels)))
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            inputs = tokenizer(
                [unique[place] for place in batch], return_tensors="pt", padding=True, truncation=True, max_length=512
            )
            logits = model(**inputs).logits.double()
            probabilities[batch] = (logits.sigmoid() if own else logits.softmax(dim=-1)).numpy()
    return labels, probabilities[places]


@lru_cache(maxsize=2)
def _loaded(path: str, revision: str | None) -> tuple[Any, Any]:
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise ClassifierError(
            "classification models need the extra 'local': pip install 'markedness[local]'"
        ) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
        model = AutoModelForSequenceClassification.from_pretrained(path, revision=revision)
    except (OSError, ValueError) as error:
        raise ClassifierError(
            f"classification model '{path}' is neither a folder nor on the hub within reach; name the folder of a "
            "model for sequence classification with its tokenizer, or an option that needs no such model"
        ) from error
    return tokenizer, model.eval()
