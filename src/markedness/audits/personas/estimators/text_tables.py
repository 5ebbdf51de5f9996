"""Tables on whole texts: lexicons, sentiment, refusals, similarity, classifiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from markedness.audits.personas.estimators.classification import agreement
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.records import Status

_MISSING = (Status.FAILED.value, Status.UNPARSED.value, Status.TRUNCATED.value, Status.UNSUPPORTED.value)


def lexicon(corpus: Corpus, within_values: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """Mean percent of lexicon words and its standard error (population sd over root n, as published).

    ``within_values``: axis -> values; only texts that have them. No entry: all texts.
    """
    within = np.ones(len(corpus.used), dtype=bool)
    for axis, values in within_values.items():
        within &= corpus.used[axis].isin(values).to_numpy()
    rows = []
    for column in [str(name) for name in corpus.used if str(name).startswith("lexicon: ")]:
        percents = corpus.used[column].to_numpy(float)
        for texts in corpus.sets:
            part = percents[texts.mask & within & ~np.isnan(percents)]
            if len(part):
                error = part.std() / np.sqrt(len(part)) if len(part) > 1 else np.nan
                name = column.removeprefix("lexicon: ")
                rows.append((corpus.kind, name, texts.name, part.mean(), error, len(part), texts.left_out))
    columns = ["kind", "lexicon", "group", "mean_percent", "standard_error", "n", "left_out"]
    return pd.DataFrame(rows, columns=columns)


def sentiment(corpus: Corpus) -> pd.DataFrame:
    """VADER compound of whole texts: mean and population sd (ddof 0)."""
    compound, rows = corpus.used["sentiment"].to_numpy(float), []
    for texts in corpus.sets:
        part = compound[texts.mask & ~np.isnan(compound)]
        if len(part):
            rows.append((corpus.kind, texts.name, part.mean(), part.std(), len(part), texts.left_out))
    return pd.DataFrame(rows, columns=["kind", "group", "mean", "sd", "n", "left_out"])


def refusals(corpus: Corpus) -> pd.DataFrame:
    """Refusals and other texts that are not there, per prompt and group."""
    rows = corpus.rows.assign(
        prompt=corpus.rows["prompt_id"].fillna(""), group=corpus.rows["group"].fillna(""), refusals=corpus.refused,
        other_missing=corpus.rows["status"].isin(_MISSING),
        duplicates=corpus.rows["duplicate"].fillna(False).astype(bool), left_out=~corpus.rows["included"].astype(bool),
    )  # fmt: skip
    counted = ["refusals", "other_missing", "duplicates", "left_out"]
    grouped = rows.groupby(["prompt", "group"], sort=False)
    table = grouped.size().rename("n").to_frame().join(grouped[counted].sum()).reset_index()
    table.insert(0, "kind", corpus.kind)
    return table


def similarity(corpus: Corpus, confidence_level: float) -> pd.DataFrame:
    """Within-group similarity with its interval, and distance to each unmarked group."""
    groups, units = corpus.grouping.groups, corpus.units
    found = [corpus.similarity.within(group.fixed, units) for group in groups]
    table = pd.DataFrame({"kind": corpus.kind, "group": [group.name for group in groups]}, dtype="str")
    table["mean_cosine"] = np.array([value for value, _ in found], dtype=float)
    if groups:
        influences = np.column_stack([influence for _, influence in found])
        low, high = units.intervals(table["mean_cosine"].to_numpy(float), influences, confidence_level)
        table["ci_low"], table["ci_high"] = low, high
    known = corpus.similarity.known
    table["n"] = [int(corpus.grouping.mask(group.fixed)[known].sum()) for group in groups]
    table["left_out"] = [corpus.left_out(group.fixed) for group in groups]
    place = {group.name: number for number, group in enumerate(groups)}
    for (name, reference), distance in corpus.similarity.distances().items():
        table.loc[place[name], f"distance_{reference}"] = distance
    return table


def svm(corpus: Corpus) -> pd.DataFrame:
    """How well each one-v-rest classifier does on the texts it was not trained on."""
    rows = [
        (corpus.kind, group, split.labeling, *agreement(truth, predicted), len(truth))
        for split in corpus.held_out
        for group, truth, predicted in zip(split.groups, split.truth.T, split.predicted.T, strict=True)
    ]
    columns = ["kind", "group", "labeling", "accuracy", "balanced_accuracy", "f1", "majority_baseline", "n"]
    return pd.DataFrame(rows, columns=columns)
