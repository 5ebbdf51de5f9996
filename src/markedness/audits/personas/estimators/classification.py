"""How well yes/no classifiers do on texts that they were not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class HeldOut(NamedTuple):
    """The test texts of one labeling."""

    labeling: str
    groups: Sequence[str]
    truth: NDArray[np.bool_]
    """Whether each text is of each group, (n_texts, n_groups)."""
    predicted: NDArray[np.bool_]
    """What the classifier of each group predicted, (n_texts, n_groups)."""


class Agreement(NamedTuple):
    """What a classifier predicted against what is true; all in [0, 1]."""

    accuracy: float
    balanced_accuracy: float
    """Mean of the shares of right predictions among the yes and among the no; 0.5: no better than a constant."""
    f1: float
    """2 hits / (true yes + predicted yes)."""
    majority_baseline: float
    """Accuracy of always predicting the more frequent class."""


def agreement(truth: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> Agreement:
    """Scores of one classifier.

    Parameters
    ----------
    truth, predicted
        Bool, (n,).

    Returns
    -------
    Agreement
        NaN throughout without texts; balanced_accuracy NaN where one class is not among them.
    """
    if not len(truth):
        return Agreement(*[float("nan")] * 4)
    n_yes, n_no = int(truth.sum()), int((~truth).sum())
    hits, rejections = int((truth & predicted).sum()), int((~truth & ~predicted).sum())
    balanced = (hits / n_yes + rejections / n_no) / 2 if n_yes and n_no else float("nan")
    named = n_yes + int(predicted.sum())
    f1 = 2 * hits / named if named else float("nan")
    return Agreement((hits + rejections) / len(truth), balanced, f1, max(n_yes, n_no) / len(truth))


def held_out(predictions: pd.DataFrame, texts: NDArray[np.int64]) -> list[HeldOut]:
    """The test split of each labeling that some texts belong to.

    Parameters
    ----------
    predictions
        Columns text, labeling, group, is_group, predicted: one row per text and classifier.
    texts
        Numbers of the texts to look at, (n,); one that is named twice counts twice.
    """
    found = []
    for labeling, rows in predictions[predictions["text"].isin(texts)].groupby("labeling", sort=False):
        row, numbers = pd.factorize(rows["text"])
        column, groups = pd.factorize(rows["group"])
        truth, predicted = np.zeros((2, len(numbers), len(groups)), dtype=bool)
        truth[row, column], predicted[row, column] = rows["is_group"], rows["predicted"]
        drawn = pd.Index(numbers).get_indexer(texts)
        truth, predicted = truth[drawn[drawn >= 0]], predicted[drawn[drawn >= 0]]
        known = truth.any(axis=0) | predicted.any(axis=0)
        names = [str(group) for group in np.asarray(groups)[known]]
        found.append(HeldOut(str(labeling), names, truth[:, known], predicted[:, known]))
    return found


def shuffled_balanced_accuracy(splits: Sequence[HeldOut], n_draws: int, rng: np.random.Generator) -> float:
    """Mean balanced accuracy when the labels of the test texts are shuffled: 0.5 but for chance; NaN without texts."""
    values = []
    for split in splits:
        for _ in range(n_draws):
            truth = split.truth[rng.permutation(len(split.truth))]
            values += [agreement(truth[:, k], split.predicted[:, k]).balanced_accuracy for k in range(truth.shape[1])]
    numbers = np.array(values, dtype=float)
    return float(np.nanmean(numbers)) if np.isfinite(numbers).any() else float("nan")
