"""Strength, perplexity and agreement over the versions of a model family."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.association import scaling, stereotype_strength
from markedness.audits.guise.estimators.comparable import comparable
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotype_tables import published_correlations
from markedness.audits.guise.estimators.stereotypes import AssociationTask, association_tasks, main_rows, marked_groups
from markedness.records import FeatureTables
from markedness.stats.inference import holm
from markedness.stats.t_tests import one_sample_t

MEASURES = {"traits": "strength.covert", "overt": "strength.overt"}


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
        over prompts) and perplexity (over texts of the marked guise) by family and size class. guise_families: strength
        over versions, prompts and settings with the paper's t test. guise_versions: Pearson's r of the
        attributes' scores between versions of a family, Holm over all pairs of a task.
    """
    known = versions.dropna(subset=["family", "n_parameters"])
    several = known.groupby("family")["model"].transform("size").gt(1)
    known = known[several & known["model"].isin(list(features))]
    if known.empty:
        return {}
    tables = comparable({model: features[model] for model in known["model"]})
    cells, means = [], []
    for version in known.to_dict("records"):
        row = {str(key): value for key, value in version.items()}
        table = tables[row["model"]]
        for task in _tasks(table, params):
            means.append(task.mean_log_ratio.rename(row["model"]).to_frame().T.assign(task=task.task, **row))
            if measure := MEASURES.get(task.task):
                ratios = np.concatenate(list(task.log_ratio_by_setting.values()))
                strength = stereotype_strength(ratios, task.stereotypical)
                cells += [{"measure": measure, "score": score, **row} for score in strength]
        cells += [{"measure": "perplexity", "score": score, **row} for score in _perplexities(table, params)]
    if not cells:
        return {}
    pairs = []
    grouped = pd.concat(means).groupby(["family", "task"], sort=False) if means else ()
    for (family, name), part in grouped:
        scored = part.drop(columns=["task", "model", "family", "n_parameters"]).astype(float).T
        pairs.append(published_correlations(scored).assign(family=str(family), task=str(name)))
    by = ("measure", "family", "size")
    strengths = pd.DataFrame(cells)
    return {
        "guise_scaling": scaling(strengths, by),
        "guise_families": published_families(strengths),
        "guise_versions": pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(),
    }


def _main(table: FeatureTables, params: Params) -> pd.DataFrame:
    """The rows of the main text sets in the guise of the headline."""
    rows = main_rows(table["scores"], params)
    return rows[rows["group"].isin(marked_groups(table["scores"], params)[:1])]


def _tasks(table: FeatureTables, params: Params) -> list[AssociationTask]:
    """The association tasks of the guise of the headline whose probabilities are the model's own."""
    tasks = association_tasks(_main(table, params), table["attributes"], params)
    return [task for task in tasks if task.exact]


def published_families(cells: pd.DataFrame) -> pd.DataFrame:
    """One-sample one-sided t of strength over versions, prompts and settings; Holm over the families of a measure."""
    rows = []
    for (measure, family), part in cells[cells["measure"].ne("perplexity")].groupby(["measure", "family"], sort=False):
        test = one_sample_t(part["score"].to_numpy(dtype=float), "greater")
        rows.append({
            "measure": measure, "family": family, "mean": test.mean, "sd": test.sd, "n": test.n, "t": test.t,
            "df": test.df, "p_published": test.p,
        })  # fmt: skip
    table = pd.DataFrame(rows, columns=["measure", "family", "mean", "sd", "n", "t", "df", "p_published"])
    return table.assign(p_adjusted_published=table.groupby("measure")["p_published"].transform(holm))


def _perplexities(table: FeatureTables, params: Params) -> list[float]:
    """Perplexity of each text in the guise of the headline, without controls and missing ones."""
    own = _main(table, params)
    values = np.exp(-own.loc[own["kind"].eq("perplexity"), "log_prob"].to_numpy(dtype=float))
    return [float(value) for value in values[np.isfinite(values)]]
