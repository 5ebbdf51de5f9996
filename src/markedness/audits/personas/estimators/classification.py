"""How well yes/no classifiers do on texts that they were not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.units import Units
from markedness.stats.inference import (
    MIN_CLUSTERS,
    Draws,
    Exchange,
    Floats,
    Spread,
    effective,
    influence_spread,
)


class HeldOut(NamedTuple):
    """The test texts of one labeling."""

    labeling: str
    texts: NDArray[np.int64]
    """Number of each text, (n_texts,)."""
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
        drawn = drawn[drawn >= 0]
        truth, predicted = truth[drawn], predicted[drawn]
        known = truth.any(axis=0) | predicted.any(axis=0)
        names = [str(group) for group in np.asarray(groups)[known]]
        found.append(HeldOut(str(labeling), numbers.to_numpy()[drawn], names, truth[:, known], predicted[:, known]))
    return found


@dataclass(frozen=True)
class Tested:
    """The test splits of all labelings, by unit."""

    splits: Sequence[HeldOut]
    units: Units
    texts: NDArray[np.int64]
    """Number of each text, (n,), in the order of ``units.of_text``."""

    @cached_property
    def _of_split(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Unit and class (column of the truth, -1 for none) of each test text."""
        unit = dict(zip(self.texts.tolist(), self.units.of_text.tolist(), strict=True))
        found = []
        for split in self.splits:
            codes = np.array([unit[text] for text in split.texts.tolist()], dtype=np.int64)
            found.append((codes, np.where(split.truth.any(axis=1), split.truth.argmax(axis=1), -1)))
        return found

    @cached_property
    def exchange(self) -> Exchange:
        """Combinations exchanged among the units of one prompt that are in the test splits of the same labelings."""
        inside = np.zeros((len(self.units), len(self.splits)), dtype=bool)
        for place, (codes, _) in enumerate(self._of_split):
            inside[codes, place] = True
        pattern = inside @ (1 << np.arange(len(self.splits)))
        used = np.flatnonzero(pattern)
        made = Exchange.of(self.units.combination[used], self.units.block[used], pattern[used])
        labels, blocks = np.zeros(len(self.units), dtype=np.intp), np.full(len(self.units), -1, dtype=np.intp)
        labels[used] = np.unique(self.units.combination[used])[made.labels] if len(used) else made.labels
        blocks[used] = made.blocks
        return Exchange(labels, blocks)

    def known(self, corpus: pd.DataFrame, axes: list[str]) -> str:
        """That test texts have a copy, or a text of their cluster, among the training texts; "" where none has.

        ``corpus``: columns text, cluster and the axes, of all texts that could be in a split.
        """
        for split in self.splits:
            named = axes if split.labeling == "intersection" else [split.labeling]
            labelled = (corpus[named].fillna("") != "").all(axis=1)
            tested, cluster = corpus["text"].isin(split.texts.tolist()), corpus["cluster"]
            known = tested & cluster.isin(cluster[labelled & ~tested])
            if known.any():
                return (
                    f"{known.sum()} of {tested.sum()} test texts have a copy or a text of their cluster among the "
                    "training texts (personas.featurize.svm.duplicates: allow): the classifiers knew them, so that "
                    "their accuracy proves nothing"
                )
        return ""

    @cached_property
    def observed(self) -> Floats:
        """What `draws` gives of the labels as they are, (1 + labelings,)."""
        return np.asarray(self._statistics(self.exchange.labels[None, :])[0])

    def draws(self, rng: np.random.Generator) -> Draws:
        """Mean balanced accuracy of all classifiers, then of each labeling's, (draws, 1 + labelings)."""
        return Draws(lambda n: self._statistics(self.exchange.draw(n, rng)))

    @cached_property
    def _of_combination(self) -> list[NDArray[np.int64]]:
        """Class of each combination in each labeling."""
        n_combinations = int(self.units.combination.max(initial=-1)) + 1
        of_combination = []
        for codes, classes in self._of_split:
            label = np.full(n_combinations, -1, dtype=np.int64)
            label[self.units.combination[codes]] = classes
            of_combination.append(label)
        return of_combination

    def _statistics(self, drawn: NDArray[np.intp]) -> Floats:
        rows, values = [], []
        for (codes, _), label, split in zip(self._of_split, self._of_combination, self.splits, strict=True):
            values.append(_balanced(label[drawn[:, codes]], split.predicted))
            rows.append(_mean(values[-1]))
        return np.column_stack([_mean(np.concatenate(values, axis=1)), *rows])

    def influences(self) -> Floats:
        """What each unit contributes to the mean balanced accuracy of each labeling's classifiers, (u, labelings).

        Distances from the share of right predictions in the text's class, so that they are around 0 in each class;
        times the root of 1 + test texts / training texts, since other texts would train other classifiers (Nadeau &
        Bengio 2003, Machine Learning 52:239-281).
        """
        found = np.zeros((len(self.units), len(self.splits)))
        for place, ((codes, _), split) in enumerate(zip(self._of_split, self.splits, strict=True)):
            parts = []
            for truth, predicted in zip(split.truth.T, split.predicted.T, strict=True):
                right = (truth == predicted).astype(float)
                part = np.zeros(len(truth))
                for side in (truth, ~truth):
                    n = int(side.sum())
                    if n:
                        part[side] = (right[side] - right[side].mean()) / n / 2 * np.sqrt(n / max(n - 1, 1))
                if truth.any() and not truth.all():
                    parts.append(part)
            if parts:
                n_train = max(1, len(self.texts) - len(codes))
                np.add.at(found[:, place], codes, np.mean(parts, axis=0) * np.sqrt(1 + len(codes) / n_train))
        return found

    def spread(self, influences: Floats, places: Sequence[int]) -> Spread:
        """Sampling error of a mean over the labelings at these places, from the influence of each unit, (u,).

        Only clusters with test texts were sampled. There is none where these are fewer than six, by the harmonic mean
        of the effective ones of each class and half the number of classes: two classes need six each.
        """
        factor, clusters = self.units.factor, self.units.clusters
        if not factor:
            return self.units.spread(influences)
        codes = np.concatenate([self._of_split[place][0] for place in places])
        fewest = min(self._effective(place) for place in places)
        if fewest < MIN_CLUSTERS - 1e-9:
            return Spread(fixed=(factor,), fewest={factor: fewest})
        used = np.unique(clusters.of_unit[codes])
        found = influence_spread(
            factor, [clusters.names[one] for one in used], self.units.clustered(influences[:, None])[used, 0],
            np.zeros(len(used)),
        )  # fmt: skip
        return found if factor == "prompt" else replace(found, fixed=(*found.fixed, "prompt"))

    def _effective(self, place: int) -> float:
        codes, classes = self._of_split[place]
        cluster = self.units.clusters.of_unit[codes]
        sizes = [effective(np.bincount(cluster[classes == one])) for one in np.unique(classes[classes >= 0])]
        return len(sizes) ** 2 / sum(1 / size for size in sizes) / 2 if sizes else 0.0


def _balanced(classes: NDArray[np.int64], predicted: NDArray[np.bool_]) -> Floats:
    """Balanced accuracy of each classifier, (draws, classifiers), where the texts have these classes, (draws, n)."""
    n_draws, n_texts = classes.shape
    n_classes = predicted.shape[1]
    step = max(1, 4_000_000 // max(1, n_texts * n_classes))
    parts = []
    for start in range(0, n_draws, step):
        truth = classes[start : start + step, :, None] == np.arange(n_classes)
        hits, yes = (truth & predicted).sum(axis=1), truth.sum(axis=1)
        rejections = n_texts - yes - predicted.sum(axis=0) + hits
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((hits / yes + rejections / (n_texts - yes)) / 2)
    return np.concatenate(parts)


def _mean(values: Floats) -> Floats:
    """Along the classifiers, those without a value left out."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1))
