"""What several models were asked alike and all scored: models are compared on these prompts, texts and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.in_common import ASKED, linked, row_codes
from markedness.records import FeatureTables

VALUES = ("log_prob", "log_prob_reference", "neutral_log_prob")
PROMPTS = ("group", "task", "text_set", "prompt_id")
TEXTS = (*PROMPTS, "pair")
TEXT = ("task", "group", "text_set", "pair")
CLUSTERS = ("cluster", "cluster_reference")
_Codes = dict[str, NDArray[np.int64]]
_Kept = dict[str, NDArray[np.bool_]]


def comparable(features: Mapping[str, FeatureTables]) -> dict[str, FeatureTables]:
    """The features of several models, kept to what all of them were asked and scored.

    Parameters
    ----------
    features
        Model -> its features.

    Returns
    -------
    dict
        ``scores``: of each task the rows (guise, text set, prompt, pair, word) that every model was asked, NaN in each
        value that one of them lacks, without the prompts and words that one of them never scored in a text set; of
        decisions, without the prompts that lack a word: a decision is between all its words. A task that a model was
        not asked, or never scored, takes nothing from the others. ``asked``: what was asked, scored or not, of the
        tasks of all, with all values. Of both a text has one cluster in all models. Rows keep their index.

    Notes
    -----
    The paper keeps an attribute only if it is a single token for all models, which reduced 84 trait words to 37: their
    scores would be about different words otherwise.
    """
    tables = _of_one_cluster({model: of_model["scores"] for model, of_model in features.items()})
    decided = {model: table["kind"].eq("decision").to_numpy() for model, table in tables.items()}
    words = _words(tables, decided)
    every = {model: np.ones(len(table), dtype=bool) for model, table in tables.items()}
    asked = _in_all(_codes(tables, TEXTS, words), _codes(tables, ("task",)), every)
    asks = {model: table[asked[model]] for model, table in tables.items()}
    words = {model: of_model[asked[model]] for model, of_model in words.items()}
    tasks = _codes(asks, ("task",))
    common = _masked(asks, tasks)
    has = _scored(common, {model: of_model[asked[model]] for model, of_model in decided.items()})
    scored = _in_all(_codes(asks, PROMPTS, words), tasks, has)
    of_all = set.intersection(*(set(codes.tolist()) for codes in tasks.values()))
    kept = {model: np.isin(codes, list(of_all)) for model, codes in tasks.items()}
    return {
        model: {**features[model], "scores": common[model][scored[model]], ASKED: asks[model][kept[model]]}
        for model in features
    }


def _of_one_cluster(tables: Mapping[str, pd.DataFrame]) -> Mapping[str, pd.DataFrame]:
    """The tables with the same cluster of each text in all models.

    Clusters that share a text or a pair are named for one of them, and which one hangs on what else a model was asked.
    """
    texts = []
    for model, table in tables.items():
        for column in CLUSTERS:
            text = table[[*TEXT, column]].drop_duplicates().dropna(subset=column).astype(str)
            if column != CLUSTERS[0]:
                text["group"] = ""  # a text of the reference stands beside those of all groups
            texts.append(text.rename(columns={column: "cluster"}).assign(model=model))
    every = pd.concat(texts, ignore_index=True).drop_duplicates()
    if every.groupby(list(TEXT))["cluster"].nunique().le(1).all():
        return tables
    labels = every["model"] + "\n" + every["cluster"]
    known = dict(zip(labels, linked(labels, every[list(TEXT)].agg("\n".join, axis=1)), strict=True))

    def named(model: str, clusters: pd.Series) -> pd.Series:
        found = clusters.astype(object).map(lambda name: known[f"{model}\n{name}"], na_action="ignore")
        return found.astype("category")

    return {
        model: table.assign(**{column: named(model, table[column]) for column in CLUSTERS})
        for model, table in tables.items()
    }


def _words(tables: Mapping[str, pd.DataFrame], decided: Mapping[str, NDArray[np.bool_]]) -> dict[str, pd.Series]:
    """Of each row its word; of a decision all the words that it is between."""
    found = {}
    for model, table in tables.items():
        own = table["attribute"].astype(object)
        rows = table[decided[model]]
        between = {
            task: " ".join(sorted(map(str, part.unique())))
            for task, part in rows.groupby("task", observed=True)["attribute"]
        }
        found[model] = own.where(~decided[model], table["task"].astype(object).map(between))
    return found


def _codes(
    tables: Mapping[str, pd.DataFrame], columns: Sequence[str], words: Mapping[str, pd.Series] | None = None
) -> _Codes:
    """Number of these values of each row, and of its word where words are given."""
    values = [[table[column] for table in tables.values()] for column in columns]
    return dict(zip(tables, row_codes([*values, [words[model] for model in tables]] if words else values), strict=True))


def _in_all(codes: _Codes, tasks: _Codes, counts: _Kept) -> _Kept:
    """The rows whose code every model that has the task has, in rows that count."""
    size, n_tasks = (max((int(one.max(initial=-1)) for one in of.values()), default=-1) + 1 for of in (codes, tasks))
    found, needed = np.zeros(size, dtype=np.int64), np.zeros(n_tasks, dtype=np.int64)
    for model, which in counts.items():
        found[np.unique(codes[model][which])] += 1
        needed[np.unique(tasks[model][which])] += 1
    return {model: found[codes[model]] >= needed[tasks[model]] for model in codes}


def _masked(tables: Mapping[str, pd.DataFrame], tasks: _Codes) -> dict[str, pd.DataFrame]:
    """The same rows, without the values that one of the models lacks which scored the task."""
    cells = _codes(tables, (*TEXTS, "attribute"))
    there = {
        column: _in_all(cells, tasks, {model: table[column].notna().to_numpy() for model, table in tables.items()})
        for column in VALUES
    }
    return {
        model: table.assign(**{column: table[column].where(there[column][model]) for column in VALUES})
        for model, table in tables.items()
    }


def _scored(tables: Mapping[str, pd.DataFrame], decided: Mapping[str, NDArray[np.bool_]]) -> _Kept:
    """The rows of prompts and words that a model scored in a text set, on both sides; of decisions, in all words."""
    found: _Kept = {}
    for model, table in tables.items():
        cells = table.groupby([*PROMPTS, "attribute"], observed=True, sort=False, dropna=False).ngroup().to_numpy()
        there = np.ones(len(table), dtype=bool)
        for column in VALUES:
            n = np.bincount(cells, table[column].notna()) if len(table) else np.zeros(0)
            there &= (n[cells] > 0) | (~decided[model] if column.startswith("neutral") else False)
        prompts = table.groupby(list(PROMPTS), observed=True, sort=False, dropna=False).ngroup().to_numpy()
        lacking = np.bincount(prompts, ~there & decided[model]) if len(table) else np.zeros(0)
        found[model] = there & (lacking[prompts] == 0)
    return found
