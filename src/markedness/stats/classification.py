"""How well a yes/no classifier does on texts that it was not trained on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Agreement(NamedTuple):
    """What a classifier said against what is true; all in [0, 1]."""

    accuracy: float
    balanced_accuracy: float
    """Mean of the shares of right answers among the yes and among the no; 0.5: no better than a constant."""
    f1: float
    """2 hits / (true yes + said yes)."""
    majority_baseline: float
    """Accuracy of always saying the more frequent answer."""


def agreement(truth: np.ndarray, said: np.ndarray) -> Agreement:
    """Scores of one classifier.

    Parameters
    ----------
    truth, said
        Bool, (n,).

    Returns
    -------
    Agreement
        NaN throughout without texts; balanced_accuracy NaN where one class is not among them.
    """
    if not len(truth):
        return Agreement(*[float("nan")] * 4)
    n_yes, n_no = int(truth.sum()), int((~truth).sum())
    hits, rejections = int((truth & said).sum()), int((~truth & ~said).sum())
    balanced = (hits / n_yes + rejections / n_no) / 2 if n_yes and n_no else float("nan")
    named = n_yes + int(said.sum())
    f1 = 2 * hits / named if named else float("nan")
    return Agreement((hits + rejections) / len(truth), balanced, f1, max(n_yes, n_no) / len(truth))
