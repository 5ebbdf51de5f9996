"""Matched pairs -> gaps per group and task, dialect gaps, missing rates, and notes on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from markedness.audits.annotation import figures
from markedness.audits.annotation.estimators import scores
from markedness.audits.annotation.estimators.cells import matched, of_paradigm
from markedness.audits.annotation.estimators.marginal import marginal_gaps, over_models
from markedness.audits.annotation.estimators.notes import few_clusters, indifference, notes
from markedness.audits.annotation.estimators.order import order_effects
from markedness.audits.annotation.estimators.paired import published_directional_consistency
from markedness.audits.annotation.estimators.params import Params as Params
from markedness.audits.annotation.estimators.tables import answered, dialect_gaps, missing_judgments, name_gaps
from markedness.records import FeatureTables
from markedness.results import Evaluation, Score
from markedness.stats.inference import benjamini_hochberg

TABULATE = {"names": name_gaps, "dialect": dialect_gaps}
"""Paradigm -> its table of gaps."""
GAPS = {"gap": "names", "gap_size": "names", "dialect_gap": "dialect", "dialect_gap_size": "dialect"}
"""Measure of a Score -> its paradigm."""


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """Estimate every gap of one model.

    Parameters
    ----------
    features
        ``pairs``: matched pairs, rows of featurize.
    params
        The level.
    rng
        Seeded generator of exchanged signs.

    Returns
    -------
    Evaluation
        The Scores of `estimators.scores`; tables ``gaps``, ``dialect_gaps``, ``marginal_gaps``, ``missing``,
        ``significant``, and ``order`` where several texts were one request or answers were counterbalanced.
    """
    pairs = features["pairs"]
    level = params.confidence_level
    parts = {paradigm: of_paradigm(pairs, paradigm) for paradigm in TABULATE}
    gaps, of_dialect = (tabulate(parts[paradigm], level) for paradigm, tabulate in TABULATE.items())
    missing = missing_judgments(list(parts.values()), level)
    marginal = marginal_gaps({paradigm: matched(part) for paradigm, part in parts.items()}, level)
    order = pd.concat([order_effects(part, level) for part in parts.values()], ignore_index=True)
    significant = gaps[gaps["significant"]].sort_values("gap", key=np.abs, ascending=False, ignore_index=True)
    ungrouped = int(pairs["ungrouped"].max()) if len(pairs) else 0
    caveats = {"names": indifference("names", gaps), "dialect": indifference("dialect", of_dialect)}
    return Evaluation(
        scores=[_with_caveat(score, caveats) for score in scores.scores(features, params, rng)],
        tables={
            "gaps": gaps, "dialect_gaps": of_dialect, "marginal_gaps": marginal, "missing": missing,
            "significant": significant,
        } | ({"order": order} if len(order) else {}),
        figures=figures.figures(gaps, of_dialect, marginal, missing, level),
        notes=[*notes(gaps, of_dialect, missing, ungrouped, 1 - level), *few_clusters(gaps, of_dialect, marginal)],
    )  # fmt: skip


def _with_caveat(score: Score, caveats: Mapping[str, str]) -> Score:
    """A gap whose paradigm has no signal says so."""
    paradigm = GAPS.get(score.measure)
    return score.warned(caveats[paradigm]) if paradigm else score


def across(features: Mapping[str, FeatureTables], versions: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """Tables over several models: all cells corrected as one family, and the direction that models share.

    Parameters
    ----------
    features
        Model -> its features.
    versions
        Columns ``model`` and, where it is known, ``scripted``: scripted controls keep a family of their own.
    params
        As of `evaluate`.

    Returns
    -------
    dict
        ``annotation_gaps``: the cells of all models with ``model`` and ``p_adjusted_models``: Benjamini-Hochberg over
        models x tasks x groups for names, within a model for dialect, the families of the paper.
        ``annotation_direction``: per group and task (dialect: group is the dialect) mean gap, sd over models, models
        with its sign, consistency, ``n_tested``, models with a p, and ``n_significant``, those of them with
        p_adjusted_models below 1 - confidence level.
        ``annotation_models``: see `estimators.tables.answered`.
        ``annotation_marginal``: the marginal gaps of all models, see `estimators.marginal.over_models`.
        Empty with fewer than two models.
    """
    measured = {model: tables["pairs"] for model, tables in features.items()}
    if len(measured) < 2:
        return {}
    scripted = set(versions.loc[versions["scripted"], "model"]) if "scripted" in versions else set()
    controls = scripted if measured.keys() - scripted else set()
    gaps = _all_cells(measured, controls, params.confidence_level)
    counted = gaps[~gaps["model"].isin(controls)]
    direction = published_directional_consistency(counted, ["paradigm", "group", "task"])
    level = 1 - params.confidence_level
    cell = ["paradigm", "group", "task"]
    found = counted.assign(
        n_tested=counted["p_adjusted_models"].notna(), n_significant=counted["p_adjusted_models"] < level
    )
    direction = direction.merge(found.groupby(cell, as_index=False)[["n_tested", "n_significant"]].sum(), how="left")
    completion = [
        {"model": model, "paradigm": name, **answered(of_paradigm(measured[str(model)], str(name)), cells, level)}
        for (model, name), cells in gaps.groupby(["model", "paradigm"], sort=False)
    ]
    by_model = {
        model: {paradigm: matched(of_paradigm(table, paradigm)) for paradigm in TABULATE}
        for model, table in measured.items()
    }
    return {
        "annotation_gaps": gaps, "annotation_direction": direction, "annotation_models": pd.DataFrame(completion),
        "annotation_marginal": over_models(by_model, controls, params.confidence_level),
    }  # fmt: skip


def _all_cells(
    measured: Mapping[str, pd.DataFrame], controls: Collection[str], confidence_level: float
) -> pd.DataFrame:
    """The cells of all models, corrected over the models that are no control."""
    made = []
    for paradigm, tabulate in TABULATE.items():
        tables = [
            tabulate(of_paradigm(table, paradigm), confidence_level).assign(model=model, paradigm=paradigm)
            for model, table in measured.items()
        ]
        columns = ["model", "paradigm", "group", "task", "gap", "ci_low", "ci_high", "p", "p_adjusted"]
        cells = pd.concat([table[columns] for table in tables if len(table)] or [tables[0][columns]], ignore_index=True)
        cells["p_adjusted_models"] = cells["p_adjusted"]
        asked = ~cells["model"].isin(list(controls))
        if paradigm == "names":
            cells.loc[asked, "p_adjusted_models"] = benjamini_hochberg(cells.loc[asked, "p"])
        made.append(cells)
    return pd.concat([cells for cells in made if len(cells)] or made, ignore_index=True)
