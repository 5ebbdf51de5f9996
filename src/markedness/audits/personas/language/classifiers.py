"""Linear classifiers that tell the groups of a kind of text apart, one against the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from pydantic import Field

from markedness.audits.personas.language.sampling import every_nth
from markedness.audits.personas.language.tokens import without_strings
from markedness.axes import Axes, groups_in_one_order
from markedness.records import Strict

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

SVM_WORD_COLUMNS = {
    "kind": "str", "labeling": "str", "group": "str", "word": "str", "rank": "int64", "weight": "float64",
}  # fmt: skip
PREDICTION_COLUMNS = {"text": "int32", "labeling": "str", "group": "str", "is_group": "bool", "predicted": "bool"}
"""Columns and dtypes of the table of predictions: one row per text of a test split and classifier."""


class SvmParams(Strict):
    """The classifiers; the defaults are the published ones."""

    enabled: bool = True
    test_share: float = Field(default=0.2, gt=0, lt=1)
    seed: int = 42
    """Of the one split that all classifiers of a labeling share."""
    cost: float = Field(default=1.0, gt=0)
    """C of the linear support vector machine."""
    min_df: float = Field(default=0.001, ge=0, lt=1)
    """Least share of the training texts that contain a word."""
    top_words: int = Field(default=10, ge=1)
    """Words of largest weight that are listed per classifier."""
    duplicates: Literal["together", "refuse", "allow"] = "together"
    """Copies of one text, but for case and spaces: keep them on one side of the split; train nothing; or split rows as
    they come. The texts of one cluster of the corpus are on one side too, unless rows are split as they come."""
    order: Literal["content", "file"] = "content"
    """Order of the texts of a corpus, by which the split is drawn: one that their content decides, or that of the rows
    in the file, as published."""
    max_texts: int = Field(default=5000, ge=10)
    """Texts above which every n-th is taken: training time grows with the square."""


_OF_COPIES = {
    "together": "the classifiers keep all copies on one side of the split (svm.duplicates: together)",
    "refuse": "no classifiers, since a copy could stand on both sides of the split (svm.duplicates: refuse)",
    "allow": "they may stand on both sides of the classifiers' split and flatter the accuracy (svm.duplicates: allow)",
}


@dataclass(frozen=True)
class Classifiers:
    """The classifiers of one kind of text."""

    models: Mapping[str, Pipeline]
    """"svm_<kind>_<labeling>" -> fitted pipeline."""
    words: pd.DataFrame
    """`SVM_WORD_COLUMNS`."""
    predictions: pd.DataFrame
    """`PREDICTION_COLUMNS`."""
    notes: Sequence[str]


def classify(rows: pd.DataFrame, removed: Sequence[Sequence[str]], axes: Axes, params: SvmParams) -> Classifiers:
    """Fit one classifier per label on a split of the texts: for each axis, and for the groups that fix all axes.

    Parameters
    ----------
    rows
        Included texts of one kind: text (number), kind, group, one column per axis, answer.
    removed
        Strings that name groups, see `markedness.audits.personas.language.tokens.without_strings`.
    axes, params
        See there.

    Notes
    -----
    A labeling that has too few texts, or copies where ``duplicates`` is "refuse", has no classifiers, and a note.
    """
    kind = str(rows["kind"].iloc[0]) if len(rows) else ""
    corpus = rows.assign(cut=without_strings(rows["answer"], *removed))
    models: dict[str, Pipeline] = {}
    words, predictions, notes = [], [], []
    if copies := int(_plain(corpus).duplicated().sum()):
        notes.append(f"{kind}: {copies} texts are copies of another; {_OF_COPIES[params.duplicates]}.")
    for labeling, labels in _labelings(corpus, axes).items():
        labelled = corpus.loc[labels.index]
        split = _split(labelled, labels, params)
        if isinstance(split, str):
            notes += [f"No classifiers for {kind} {labeling}: {split}."] if split else []
            continue
        train, test = split
        first = labelled.iloc[[*train, *test]].drop_duplicates("answer" if params.duplicates == "together" else "text")
        groups = np.array(sorted(labels.loc[first.index].unique()), dtype=object)
        names = (
            labelled["group"].groupby(labels).first().loc[groups].to_numpy() if labeling == "intersection" else groups
        )
        is_group = labels.to_numpy()[:, None] == groups
        fitted = _untrained(params)
        try:
            fitted.fit(labelled["cut"].iloc[train], is_group[train].astype(int))
        except ValueError as error:
            notes.append(f"No classifiers for {kind} {labeling}: {error}.")
            continue
        fitted.named_steps["one_v_rest"].label_names_ = names.tolist()
        models[f"svm_{kind}_{labeling}"] = fitted
        top = _top_words(fitted, params.top_words)
        words.append(top.assign(kind=kind, labeling=labeling)[list(SVM_WORD_COLUMNS)])
        predicted = fitted.predict(labelled["cut"].iloc[test]).astype(bool)
        predictions.append(
            pd.DataFrame(
                {"text": np.repeat(labelled["text"].to_numpy()[test], len(groups)), "labeling": labeling,
                 "group": np.tile(names, len(test)), "is_group": is_group[test].ravel(),
                 "predicted": predicted.ravel()}
            )
        )  # fmt: skip
    return Classifiers(
        models, pd.concat(words) if words else pd.DataFrame(columns=list(SVM_WORD_COLUMNS)),
        pd.concat(predictions) if predictions else pd.DataFrame(columns=list(PREDICTION_COLUMNS)), notes,
    )  # fmt: skip


def _labelings(corpus: pd.DataFrame, axes: Axes) -> dict[str, pd.Series[str]]:
    """Labeling -> label of each text that has one: one per axis, and the groups that fix all axes.

    Splits and classifiers go by the order of the labels: that of a crossed group is no name that params order.
    """
    fixed = {axis: corpus[axis].notna() & corpus[axis].ne("") for axis in axes}
    labelings = {axis: corpus.loc[has, axis].astype(str) for axis, has in fixed.items()}
    if len(axes) > 1:
        whole = corpus[np.logical_and.reduce(list(fixed.values()))]
        labelings["intersection"] = groups_in_one_order(whole, axes).astype(str)
    return {name: labels for name, labels in labelings.items() if len(labels)}


def _split(
    corpus: pd.DataFrame, labels: pd.Series[str], params: SvmParams
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | str:
    """Places of the training and of the test texts, stratified by label; else why there is no split.

    "" where copies are refused, of which a note speaks already.
    """
    from sklearn.model_selection import train_test_split

    copies = _plain(corpus).duplicated().to_numpy()
    if copies.any() and params.duplicates == "refuse":
        return ""
    rows = np.arange(len(corpus))
    unit = rows if params.duplicates == "allow" else _inseparable(corpus)
    distinct = np.flatnonzero(~copies) if params.duplicates == "together" else rows
    places = every_nth(distinct, params.max_texts)
    first = places[~pd.Series(unit[places]).duplicated().to_numpy()]
    counts = labels.iloc[first].value_counts()
    first = first[labels.iloc[first].isin(counts.index[counts >= 2]).to_numpy()]
    crossed = labels.groupby(unit).nunique().gt(1).mean() > 0.5  # most write about several, so that none is of a label
    n_labels = labels.nunique() if crossed else labels.iloc[first].nunique()
    n_test = int(np.ceil(params.test_share * len(first)))
    if n_labels < 2 or min(n_test, len(first) - n_test) < n_labels:
        what = "texts" if len(first) == len(places) else "clusters of texts"
        return f"{len(first)} {what} of {n_labels} labels are too few for a split"
    train, test = train_test_split(
        first, test_size=params.test_share, random_state=params.seed,
        stratify=None if crossed else labels.iloc[first].map(_with_article),
    )  # fmt: skip
    used = rows if len(places) == len(distinct) else places
    if len(first) < len(used) and len(np.unique(unit[used])) < len(used):
        train, test = (own[np.isin(unit[own], unit[side])] for own, side in ((used, train), (rows, test)))
    return train, test


def _plain(corpus: pd.DataFrame) -> pd.Series[str]:
    """The answers in lower case with single spaces."""
    return corpus["answer"].str.lower().str.split().str.join(" ")


def _inseparable(corpus: pd.DataFrame) -> NDArray[np.int64]:
    """Code of the texts that no split may tear apart, (n,): the same but for case and spaces, or of one cluster."""
    code = pd.factorize(_plain(corpus))[0]
    if "cluster" not in corpus:
        return code.astype(np.int64)
    cluster = pd.factorize(corpus["cluster"])[0] + len(corpus)
    links = scipy.sparse.coo_matrix((np.ones(len(code)), (code, cluster)), (2 * len(corpus), 2 * len(corpus)))
    return np.asarray(scipy.sparse.csgraph.connected_components(links, directed=False)[1][code], dtype=np.int64)


def _with_article(label: str) -> str:
    """Sort key "a White", "an Asian": the split depends on the order of the labels, and the release has this one."""
    return f"an {label}" if label[0].lower() in "aeiou" else f"a {label}"


def _untrained(params: SvmParams) -> Pipeline:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.svm import SVC

    return Pipeline(
        [
            ("words", CountVectorizer(min_df=params.min_df)),
            ("one_v_rest", OneVsRestClassifier(SVC(kernel="linear", C=params.cost))),
        ]
    )


def _top_words(fitted: Pipeline, most: int) -> pd.DataFrame:
    """The words of largest weight for each label: group, word, rank, weight."""
    words = fitted.named_steps["words"].get_feature_names_out()
    classifier = fitted.named_steps["one_v_rest"]
    rows = []
    for label, estimator in zip(classifier.label_names_, classifier.estimators_, strict=True):
        weights = np.asarray(estimator.coef_.todense()).ravel()
        best = np.lexsort((words, -weights))[:most]
        rows += [(label, str(words[i]), rank, float(weights[i])) for rank, i in enumerate(best, start=1)]
    return pd.DataFrame(rows, columns=["group", "word", "rank", "weight"])
