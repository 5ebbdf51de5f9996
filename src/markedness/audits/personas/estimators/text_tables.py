"""Tables on whole texts: lexicons, sentiment, refusals, similarity, classifiers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

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
    crossing,
    difference,
    equal_shares,
    influence_spread,
)
from markedness.stats.similarity import EFFECT_COLUMNS
from markedness.stats.similarity import similarity_effects as of_cells
from markedness.stats.similarity_cells import similarity_cells

_MISSING = (Status.FAILED.value, Status.UNPARSED.value, Status.TRUNCATED.value, Status.UNSUPPORTED.value)


def lexicon(corpus: Corpus, within_values: Mapping[str, Collection[str]], confidence_level: float) -> pd.DataFrame:
    """Mean percent of lexicon words with its interval, and its standard error (population sd over root n) as published.

    ``within_values``: axis -> values; only texts that have them. No entry: all texts.
    """
    rows = []
    for (name, group), (percents, here) in _rated(corpus, within_values).items():
        part, left_out = percents[here], next(texts.left_out for texts in corpus.sets if texts.name == group)
        error = part.std() / np.sqrt(len(part)) if len(part) > 1 else np.nan
        rate = _rate(corpus, (name, group), percents, here.astype(float), confidence_level)
        rows.append((corpus.kind, name, group, part.mean(), error, rate.ci_low, rate.ci_high, len(part), left_out))
    columns = ["kind", "lexicon", "group", "mean_percent", "standard_error", "ci_low", "ci_high", "n", "left_out"]
    return pd.DataFrame(rows, columns=columns)


def _rated(
    corpus: Corpus, within_values: Mapping[str, Collection[str]]
) -> dict[tuple[str, str], tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """(Lexicon, group) -> percent of each used text, and which texts are counted; only where one is."""
    within = np.ones(len(corpus.used), dtype=bool)
    for axis, values in within_values.items():
        within &= corpus.used[axis].isin(values).to_numpy()
    found = {}
    for column in [str(name) for name in corpus.used if str(name).startswith("lexicon: ")]:
        percents = corpus.used[column].to_numpy(float)
        for texts in corpus.sets:
            here = texts.mask & within & ~np.isnan(percents)
            if here.any():
                found[column.removeprefix("lexicon: "), texts.name] = percents, here
    return found


def _rate(
    corpus: Corpus,
    of: tuple[str, str],
    percents: NDArray[np.float64],
    weights: NDArray[np.float64],
    confidence_level: float,
) -> Score:
    """The weighted mean of the texts of a (lexicon, group), with the sampling error of the clusters.

    There is no test, since a rate of 0 is no question.
    """
    units, here = corpus.units, weights > 0
    mean = np.average(percents[here], weights=weights[here])
    share = weights[here] / weights.sum()
    influences = np.bincount(units.of_text[here], share * (percents[here] - mean), len(units))
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
        f"lexicon.{corpus.kind}: {of[0]}: {of[1]}", float(mean), found, Null(), confidence_level=confidence_level,
        method=units.method("no test of a rate"), missing_column=units.missing_column, n=int(here.sum()), unit="texts",
        positive="the texts have words of the lexicon",
    )  # fmt: skip
    return made if units.missing_column else replace(made, lacking="")


def lexicon_differences(
    models: Mapping[str, Sequence[Corpus]], within_values: Mapping[str, Collection[str]], confidence_level: float
) -> pd.DataFrame:
    """Rates of every two models, human texts among them, by kind, lexicon and group.

    Parameters
    ----------
    models
        Model -> its texts, by kind.
    within_values
        As of `lexicon`.
    confidence_level
        Of the intervals.

    Returns
    -------
    DataFrame
        model_a, model_b, kind, lexicon, group, a, b, difference (a - b, percent), ci_low, ci_high, p (t over clusters,
        those that both were asked paired), p_adjusted (Benjamini-Hochberg over all rows), method. Where the texts of
        the two are of prompts or groups in unlike shares, rates and difference are of those that both have, at equal
        shares, and the method says so, or that they have none in common. Exploratory.
    """
    rows = []
    for a, b in combinations(models, 2):
        for first, second in product(models[a], models[b]):
            if first.kind == second.kind:
                compared = _compared_rates(first, second, within_values, confidence_level)
                rows += [(a, b, first.kind, *row) for row in compared]
    columns = ["model_a", "model_b", "kind", "lexicon", "group", "a", "b", "difference", "ci_low", "ci_high", "p"]
    table = pd.DataFrame(rows, columns=[*columns, "method"])
    table.insert(len(columns), "p_adjusted", benjamini_hochberg(table["p"]))
    return table


def _compared_rates(
    first: Corpus, second: Corpus, within_values: Mapping[str, Collection[str]], confidence_level: float
) -> Iterator[tuple[str | float, ...]]:
    """Lexicon, group, both rates, their difference, its bounds and p, and the method."""
    both = (first, second)
    asked = [one.used["prompt_id"].fillna("").str.cat(one.used["group"].fillna(""), "\0") for one in both]
    cells = np.split(crossing(pd.concat(asked)), [len(first.used)])
    rated = [_rated(one, within_values) for one in both]
    for of in [one for one in rated[0] if one in rated[1]]:
        counted = [of_model[of][1] for of_model in rated]
        side = np.repeat([0, 1], [mask.sum() for mask in counted])
        asked_with = np.concatenate([cell[mask] for cell, mask in zip(cells, counted, strict=True)])
        weights, said = equal_shares(side, asked_with), "; at equal shares of the prompts and groups that both have"
        if weights is None or not weights.any():
            said = "" if weights is None else "; the two have no prompt of a group in common: all texts"
            weights = np.ones(len(side))
        a, b = (
            _rate(both[i], of, rated[i][of][0], _spread_over(counted[i], weights[side == i]), confidence_level)
            for i in (0, 1)
        )
        made = difference(a, b, confidence_level)
        values = (a.estimate, b.estimate, made.estimate, made.ci_low, made.ci_high, made.p)
        yield *of, *values, f"{made.method}{said}"


def _spread_over(mask: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values where the mask is set, and 0 elsewhere."""
    made = np.zeros(len(mask))
    made[mask] = values
    return made


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
