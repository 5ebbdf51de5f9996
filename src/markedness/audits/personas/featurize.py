"""One row per text: its words, its share of lexicon words, sentiment, embedding and what classifiers said of it.

Word counts themselves are not stored: the words of a text are one string, which evaluate counts in a second
for tens of thousands of texts and streams for a million.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.personas import AXES
from markedness.records import Axes, Features, Status, Stimuli, Strict
from markedness.text.embeddings import DEFAULT_MODEL, EmbeddingError, embed
from markedness.text.lexicons import Counting, lexicon_percents, sentiment, word_sentiments
from markedness.text.tokens import Rule, removal_lists, tokenize, without_strings


class SvmParams(Strict):
    """The classifiers; the defaults are the published ones."""

    enabled: bool = True
    test_share: float = Field(default=0.2, gt=0, lt=1)
    seed: int = 42
    """Of the one split that all classifiers of a labeling share."""
    cost: float = Field(default=1.0, gt=0)
    """C of the linear support vector machine."""
    min_df: float = Field(default=0.001, ge=0, lt=1)
    """Least share of the training texts that a word must stand in."""
    top_words: int = Field(default=10, ge=1)
    """Words of largest weight that are listed per classifier."""
    duplicates: Literal["together", "refuse", "allow"] = "together"
    """Copies of one text: keep them on one side of the split; compute nothing; or split rows as they come."""
    max_texts: int = Field(default=5000, ge=10)
    """Texts above which every n-th is taken: training time grows with the square."""


class Params(Strict):
    """What is measured of each text; the defaults are the published ones, but for lexicon counting."""

    axes: Axes = AXES
    exclude: tuple[Status, ...] = (Status.REFUSAL, Status.FAILED)
    """Statuses left out of all measures but the refusals; [] reproduces the published tables."""
    tokens: Rule = "published"
    """How texts are cut into words, see `markedness.text.tokens.tokenize`."""
    lexicon_counting: Counting = "tokens"
    """Whole words, or "substrings" as in the published figure."""
    embeddings: str | None = DEFAULT_MODEL
    """Sentence-embedding model; null: no similarity."""
    embeddings_max_texts: int = Field(default=20_000, ge=2)
    """Texts above which every n-th is embedded."""
    svm: SvmParams = SvmParams()


_OF_COPIES = {
    "together": "the classifiers keep all copies on one side of the split (svm.duplicates: together)",
    "refuse": "no classifiers, since a copy could stand on both sides of the split (svm.duplicates: refuse)",
    "allow": "they may stand on both sides of the classifiers' split and flatter the accuracy (svm.duplicates: allow)",
}


def featurize(responses: pd.DataFrame, params: Params, stimuli: Stimuli | None = None) -> Features:
    """Measure each text.

    Parameters
    ----------
    responses
        From clean: kind, prompt_id, group, one column per axis, answer, status, duplicate, dropped.
    params
        See `Params`.
    stimuli
        lexicon.csv (lexicon, word) and removed_strings.csv (stage, string); None: no lexicons, nothing removed.

    Returns
    -------
    Features
        Table, one row per response, with kind, prompt_id, group, the axes, sample, status, duplicate and

        - ``included``: whether the measures use the row; the columns below are missing where not.
        - ``tokens``: words joined by single spaces; an empty word stands between two spaces.
        - ``sentiment``: VADER compound, in [-1, 1].
        - ``lexicon: <name>``: percent of the words that are in that lexicon.
        - ``embedding``: unit vector.
        - ``svm_<labeling>``: for texts of the test split, the labels whose classifier said yes.

        ``attrs["corpus"]`` is JSON of what is not of one text: ``notes``, ``svm_words`` (rows kind, labeling, group,
        word, rank, weight) and ``word_sentiment`` (word -> VADER compound, where it is not neutral). One string,
        because pandas copies attrs at every step.
        Models: one pipeline per labeling.
    """
    columns = ["kind", "prompt_id", "group", *params.axes, "sample", "status", "duplicate"]
    table = responses.reindex(columns=columns).reset_index(drop=True)
    table["kind"] = table["kind"].fillna("persona")
    answers = responses["answer"].reset_index(drop=True)
    left_out = table["status"].isin([status.value for status in params.exclude]) | answers.isna()
    if "dropped" in responses:
        left_out |= responses["dropped"].reset_index(drop=True).astype(bool)
    table["included"] = ~left_out
    texts: list[str | None] = [None if out else str(text) for out, text in zip(left_out, answers, strict=True)]
    notes: list[str] = []
    table["tokens"] = pd.Series(tokenize(texts, params.tokens), dtype="str")
    table["sentiment"] = sentiment(texts)
    percents = lexicon_percents(texts, _lexicons(stimuli), params.lexicon_counting, params.tokens)
    table = table.assign(**{f"lexicon: {name}": values for name, values in percents.items()})
    table["embedding"] = _embeddings(texts, params, notes)
    models: dict[str, Any] = {}
    svm_words: list[list[Any]] = []
    if params.svm.enabled:
        removed = _removed(stimuli)
        for kind, rows in table.groupby("kind", sort=False):
            used = rows.index[rows["included"]]
            cut = without_strings([str(texts[place]) for place in used], *removed)
            corpus = table.loc[used].assign(_text=[texts[place] for place in used], _cut=cut)
            copies = int(corpus.duplicated("_text").sum())
            if copies:
                notes.append(f"{kind}: {copies} texts are copies of another; {_OF_COPIES[params.svm.duplicates]}.")
            for labeling, labels in _labelings(corpus, params.axes).items():
                made = _classify(corpus.loc[labels.index], labels, params.svm, f"{kind} {labeling}", notes)
                if made is None:
                    continue
                fitted, predicted = made
                column = f"svm_{labeling}"
                if column not in table:
                    table[column] = pd.Series(None, index=table.index, dtype=object)
                table[column] = predicted.reindex(table.index).where(table["kind"].eq(kind), table[column])
                models[f"svm_{kind}_{labeling}"] = fitted
                svm_words += [[kind, labeling, *row] for row in _top_words(fitted, params.svm.top_words)]
    vocabulary = {word for joined in table["tokens"].dropna() for word in joined.split(" ")}
    about = {"notes": notes, "svm_words": svm_words, "word_sentiment": word_sentiments(sorted(vocabulary))}
    table.attrs = {"corpus": json.dumps(about)}
    return Features(table, models=models)


def _lexicons(stimuli: Stimuli | None) -> dict[str, list[str]]:
    if stimuli is None:
        return {}
    table = stimuli.table("lexicon.csv", ["lexicon", "word"])
    return {str(name): rows["word"].tolist() for name, rows in table.groupby("lexicon", sort=False)}


def _removed(stimuli: Stimuli | None) -> list[list[str]]:
    if stimuli is None:
        return [[]]
    table = stimuli.table("removed_strings.csv", ["stage", "string"])
    return removal_lists(table["stage"], table["string"])


def _embeddings(texts: Sequence[str | None], params: Params, notes: list[str]) -> pd.Series:
    """Unit vectors of the texts; missing, with a note, where they cannot be had."""
    column = pd.Series(None, index=range(len(texts)), dtype=object)
    present = np.array([place for place, text in enumerate(texts) if text is not None], dtype=int)
    if params.embeddings is None or not len(present):
        return column
    chosen = _every_nth(present, params.embeddings_max_texts)
    if len(chosen) < len(present):
        notes.append(f"Similarity rests on {len(chosen):,} of {len(present):,} texts (embeddings_max_texts).")
    try:
        vectors = embed([str(texts[place]) for place in chosen], params.embeddings)
    except EmbeddingError as error:
        notes.append(f"No similarity of texts: {error}.")
        return column
    column[chosen] = pd.Series(list(vectors), index=chosen, dtype=object)
    return column


def _every_nth(places: np.ndarray, most: int) -> np.ndarray:
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).round().astype(int)]


def _labelings(corpus: pd.DataFrame, axes: Axes) -> dict[str, pd.Series]:
    """Labeling -> label of each text that has one: one per axis, and the groups that fix all axes."""
    fixed = {axis: corpus[axis].notna() & corpus[axis].ne("") for axis in axes}
    labelings = {axis: corpus.loc[has, axis].astype(str) for axis, has in fixed.items()}
    if len(axes) > 1:
        labelings["intersection"] = corpus.loc[np.logical_and.reduce(list(fixed.values())), "group"].astype(str)
    return {name: labels for name, labels in labelings.items() if len(labels)}


def _with_article(label: str) -> str:
    """Sort key "a White", "an Asian": the split depends on the order of the labels, and the release has this one."""
    return f"an {label}" if label[0].lower() in "aeiou" else f"a {label}"


def _classify(
    corpus: pd.DataFrame, labels: pd.Series, params: SvmParams, name: str, notes: list[str]
) -> tuple[Any, pd.Series] | None:
    """Fit one classifier per label on the training texts; None, with a note, where that makes no sense.

    Returns the fitted pipeline and, for each text of the test split, the labels whose classifier said yes.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.model_selection import train_test_split
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.svm import SVC

    copies = corpus.duplicated("_text")
    if copies.any() and params.duplicates == "refuse":
        return None
    split = ~copies if params.duplicates == "together" else pd.Series(True, index=corpus.index)
    places = _every_nth(np.flatnonzero(split.to_numpy()), params.max_texts)
    counts = labels.iloc[places].value_counts()
    places = places[labels.iloc[places].isin(counts.index[counts >= 2]).to_numpy()]
    classes = sorted(labels.iloc[places].unique())
    n_test = int(np.ceil(params.test_share * len(places)))
    if len(classes) < 2 or min(n_test, len(places) - n_test) < len(classes):
        notes.append(
            f"No classifiers for {name}: {len(places)} texts of {len(classes)} labels are too few for a split."
        )
        return None
    train, test = train_test_split(
        places, test_size=params.test_share, stratify=labels.iloc[places].map(_with_article), random_state=params.seed
    )
    if copies.any() and params.duplicates == "together" and len(places) == int(split.sum()):
        sides = dict.fromkeys(corpus["_text"].iloc[train], False) | dict.fromkeys(corpus["_text"].iloc[test], True)
        tested = corpus["_text"].map(sides)
        train, test = np.flatnonzero(tested.eq(False)), np.flatnonzero(tested.eq(True))
    fitted = Pipeline(
        [
            ("words", CountVectorizer(min_df=params.min_df)),
            ("one_v_rest", OneVsRestClassifier(SVC(kernel="linear", C=params.cost))),
        ]
    )
    is_label = labels.to_numpy()[:, None] == np.array(classes)
    try:
        fitted.fit(corpus["_cut"].iloc[train], is_label[train].astype(int))
    except ValueError as error:
        notes.append(f"No classifiers for {name}: {error}.")
        return None
    fitted.named_steps["one_v_rest"].label_names_ = classes
    said = fitted.predict(corpus["_cut"].iloc[test]).astype(bool)
    yes = [np.array(classes, dtype=object)[row].tolist() for row in said]
    return fitted, pd.Series(yes, index=corpus.index[test], dtype=object)


def _top_words(fitted: Any, most: int) -> list[list[Any]]:
    """Rows group, word, rank, weight: the words that speak most for each label."""
    words = fitted.named_steps["words"].get_feature_names_out()
    classifier = fitted.named_steps["one_v_rest"]
    rows = []
    for label, estimator in zip(classifier.label_names_, classifier.estimators_, strict=True):
        weights = np.asarray(estimator.coef_.todense()).ravel()
        best = np.lexsort((words, -weights))[:most]
        rows += [[label, str(words[i]), rank, float(weights[i])] for rank, i in enumerate(best, start=1)]
    return rows
