"""Tables on whole texts: lexicons, sentiment, refusals, similarity, classifiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.personas.estimators.classification import agreement
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.records import Status
from markedness.results import Score
from markedness.stats.inference import (
    MIN_CLUSTERS,
    Null,
    Spread,
    benjamini_hochberg,
    claim,
    difference,
    influence_spread,
)
from markedness.stats.similarity import EFFECT_COLUMNS
from markedness.stats.similarity import similarity_effects as of_cells
from markedness.stats.similarity_cells import similarity_cells

_MISSING = (Status.FAILED.value, Status.UNPARSED.value, Status.TRUNCATED.value, Status.UNSUPPORTED.value)


def lexicon(
    corpus: Corpus, within_values: Mapping[str, Collection[str]], confidence_level: float
) -> tuple[pd.DataFrame, list[Score]]:
    """Mean percent of lexicon words with its interval, and its standard error (population sd over root n) as published.

    ``within_values``: axis -> values; only texts that have them. No entry: all texts. Beside the table the same as
    Scores, a row each, that can be compared between models.
    """
    within = np.ones(len(corpus.used), dtype=bool)
    for axis, values in within_values.items():
        within &= corpus.used[axis].isin(values).to_numpy()
    rows, made = [], []
    for column in [str(name) for name in corpus.used if str(name).startswith("lexicon: ")]:
        percents = corpus.used[column].to_numpy(float)
        for texts in corpus.sets:
            here = texts.mask & within & ~np.isnan(percents)
            part = percents[here]
            if len(part):
                error = part.std() / np.sqrt(len(part)) if len(part) > 1 else np.nan
                name = column.removeprefix("lexicon: ")
                score = _rate(corpus, f"lexicon.{corpus.kind}: {name}: {texts.name}", percents, here, confidence_level)
                bounds = score.ci_low, score.ci_high
                rows.append((corpus.kind, name, texts.name, part.mean(), error, *bounds, len(part), texts.left_out))
                made.append(replace(score, group=texts.name, n_missing=texts.left_out))
    columns = ["kind", "lexicon", "group", "mean_percent", "standard_error", "ci_low", "ci_high", "n", "left_out"]
    return pd.DataFrame(rows, columns=columns), made


def _rate(
    corpus: Corpus, key: str, percents: NDArray[np.float64], here: NDArray[np.bool_], confidence_level: float
) -> Score:
    """The mean over some texts, with the sampling error of the clusters; no test, since a rate of 0 is no question."""
    units = corpus.units
    mean = percents[here].mean()
    influences = np.bincount(units.of_text[here], (percents[here] - mean) / here.sum(), len(units))
    inside = np.bincount(units.of_text[here], minlength=len(units)) > 0
    clustered = np.zeros(len(units.clusters.names))
    np.add.at(clustered, units.clusters.of_unit, influences)
    used = np.zeros(len(clustered), dtype=bool)
    used[units.clusters.of_unit[inside]] = True
    found = Spread(fixed=("text",))
    if units.factor and not units.missing_column and used.sum() >= MIN_CLUSTERS:
        names = [name for name, one in zip(units.clusters.names, used, strict=True) if one]
        found = influence_spread(units.factor, names, clustered[used], units.clusters.strata[used])
    made = claim(
        key, float(mean), found, Null(), confidence_level=confidence_level, method=units.method("no test of a rate"),
        missing_column=units.missing_column, n=int(here.sum()), unit="texts",
        positive="the texts have words of the lexicon",
    )  # fmt: skip
    return made if units.missing_column else replace(made, lacking="")


def lexicon_differences(scores: Mapping[str, Sequence[Score]], confidence_level: float) -> pd.DataFrame:
    """Rates of every two models, human texts among them, by kind, lexicon and group.

    Parameters
    ----------
    scores
        Model -> the Scores of `lexicon`.
    confidence_level
        Of the intervals.

    Returns
    -------
    DataFrame
        model_a, model_b, kind, lexicon, group, a, b, difference (a - b, percent), ci_low, ci_high, p (t over clusters,
        those that both were asked paired), p_adjusted (Benjamini-Hochberg over all rows), method. Exploratory.
    """
    rows = []
    for a, b in combinations(scores, 2):
        second = {score.key: score for score in scores[b]}
        for first in scores[a]:
            if first.key in second:
                made, other = difference(first, second[first.key], confidence_level), second[first.key]
                kind, name, group = first.key.removeprefix("lexicon.").split(": ", 2)
                values = (first.estimate, other.estimate, made.estimate, made.ci_low, made.ci_high, made.p)
                rows.append((a, b, kind, name, group, *values, made.method))
    columns = ["model_a", "model_b", "kind", "lexicon", "group", "a", "b", "difference", "ci_low", "ci_high", "p"]
    table = pd.DataFrame(rows, columns=[*columns, "method"])
    table.insert(len(columns), "p_adjusted", benjamini_hochberg(table["p"]))
    return table


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
    table["mean_cosine"] = np.array([one.estimate for one in found], dtype=float)
    if groups:
        influences = np.column_stack([one.influences for one in found])
        influences[:, [not units.supports(group) for group in groups]] = np.nan
        low, high = units.intervals(table["mean_cosine"].to_numpy(float), influences, confidence_level)
        table["ci_low"], table["ci_high"] = low, high
    known = corpus.similarity.known
    table["n"] = [int(corpus.grouping.mask(group.fixed)[known].sum()) for group in groups]
    table["left_out"] = [corpus.left_out(group.fixed) for group in groups]
    place = {group.name: number for number, group in enumerate(groups)}
    for (name, reference), distance in corpus.similarity.distances().items():
        table.loc[place[name], f"distance_{reference}"] = distance
    return table


def similarity_effects(corpus: Corpus, confidence_level: float) -> pd.DataFrame:
    """Differences in similarity by value of each axis, and as published by a mixed model over groups and prompts.

    Of the groups that fix all axes; see `markedness.stats.similarity.similarity_effects`: pairs of texts of different
    clusters, t by leaving out clusters and prompts. No rows without embeddings.
    """
    known = corpus.similarity.known
    texts = corpus.used[known].reset_index(drop=True)
    whole = texts[list(corpus.axes)].fillna("").ne("").all(axis=1)
    if not len(corpus.axes) or not whole.any():
        return pd.DataFrame(columns=["kind", *EFFECT_COLUMNS])
    texts, vectors = texts[whole], corpus.similarity.vectors[whole.to_numpy()]
    units = corpus.units
    sampled = units.sampled[units.of_text][known][whole.to_numpy()]
    prompts = texts["prompt_id"].fillna("").to_numpy()
    cells = similarity_cells(vectors, texts["group"].astype(str).to_numpy(), prompts, sampled, "cluster")
    factors = texts.assign(group=texts["group"].astype(str)).drop_duplicates("group").set_index("group")
    unmarked = {name: axis.unmarked for name, axis in corpus.axes.items()}
    made = of_cells(cells, factors[list(corpus.axes)].astype(str), unmarked, confidence_level)
    made.insert(0, "kind", corpus.kind)
    return made


def svm(corpus: Corpus) -> pd.DataFrame:
    """How well each one-v-rest classifier does on the texts it was not trained on."""
    rows = [
        (corpus.kind, group, split.labeling, *agreement(truth, predicted), len(truth))
        for split in corpus.held_out
        for group, truth, predicted in zip(split.groups, split.truth.T, split.predicted.T, strict=True)
    ]
    columns = ["kind", "group", "labeling", "accuracy", "balanced_accuracy", "f1", "majority_baseline", "n"]
    return pd.DataFrame(rows, columns=columns)
