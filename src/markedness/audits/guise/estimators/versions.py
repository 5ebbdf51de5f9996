"""Several models: what they have in common, and strength, perplexity and agreement over versions of a family."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.association import common_attributes, scaling, stereotype_strength
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotype_tables import published_correlations
from markedness.audits.guise.estimators.stereotypes import AssociationTask, association_tasks, main_rows, marked_groups
from markedness.records import FeatureTables

MEASURES = {"traits": "strength.covert", "overt": "strength.overt"}


def comparable(features: Mapping[str, FeatureTables]) -> dict[str, FeatureTables]:
    """The features of several models, restricted to the attributes that every one of them scored.

    The paper keeps an attribute only if it is a single token for all models; otherwise their scores would be
    about different words.
    """
    tables = {model: of_model["scores"] for model, of_model in features.items()}
    scored = [table.loc[table["log_prob"].notna(), ["task", "attribute"]] for table in tables.values()]
    named = [set(zip(rows["task"].astype(str), rows["attribute"].astype(str), strict=True)) for rows in scored]
    common = pd.MultiIndex.from_tuples(common_attributes(named), names=["task", "attribute"])
    kept: dict[str, FeatureTables] = {}
    for model, table in tables.items():
        own = pd.MultiIndex.from_arrays([table["task"].astype(str), table["attribute"].astype(str)])
        kept[model] = {**features[model], "scores": table[own.isin(common)].reset_index(drop=True)}
    return kept


def across(features: Mapping[str, FeatureTables], versions: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """Scaling and agreement over versions of one model family, if the run has several.

    Parameters
    ----------
    features
        Model -> its features.
    versions
        One model a row: model, family, n_parameters; a model without them is left out.
    params
        As of evaluate.

    Returns
    -------
    dict
        guise_scaling: mean and standard error of stereotype strength (covert: over prompts and settings, overt:
        over prompts) and perplexity (over texts) by family and size class. guise_versions: Pearson's r of the
        attributes' scores between versions of a family, Holm over all pairs of a task.
    """
    known = versions.dropna(subset=["family", "n_parameters"])
    several = known.groupby("family")["model"].transform("size").gt(1)
    known = known[several & known["model"].isin(list(features))]
    tables = comparable({model: features[model] for model in known["model"]})
    cells, means = [], []
    for version in known.to_dict("records"):
        row = {str(key): value for key, value in version.items()}
        table = tables[row["model"]]
        for task in _tasks(table, params):
            means.append(task.mean_log_ratio.rename(row["model"]).to_frame().T.assign(task=task.task, **row))
            if measure := MEASURES.get(task.task):
                ratios = np.concatenate([one.log_ratio(params.base) for one in task.sets])
                strength = stereotype_strength(ratios, task.stereotypical)
                cells += [{"measure": measure, "score": score, **row} for score in strength]
        cells += [{"measure": "perplexity", "score": score, **row} for score in _perplexities(table["scores"])]
    if not cells:
        return {}
    pairs = []
    for (family, name), part in pd.concat(means).groupby(["family", "task"], sort=False):
        scored = part.drop(columns=["task", "model", "family", "n_parameters"]).astype(float).T
        pairs.append(published_correlations(scored).assign(family=str(family), task=str(name)))
    by = ("measure", "family", "size")
    return {"guise_scaling": scaling(pd.DataFrame(cells), by), "guise_versions": pd.concat(pairs, ignore_index=True)}


def _tasks(table: FeatureTables, params: Params) -> list[AssociationTask]:
    """The association tasks of the first marked guise."""
    rows = main_rows(table["scores"], params)
    first = rows["group"].isin(marked_groups(table["scores"], params)[:1])
    return association_tasks(rows[first], table["attributes"], params)


def _perplexities(scored: pd.DataFrame) -> list[float]:
    """Perplexity of each text of both guises, without missing ones."""
    own = scored[scored["kind"].eq("perplexity")]
    values = np.exp(-own[["log_prob", "log_prob_reference"]].to_numpy(dtype=float)).ravel()
    return [float(value) for value in values[np.isfinite(values)]]
