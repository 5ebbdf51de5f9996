"""How each subject is spoken of, how toxic its triples are, their topics, and the effect of the augmentations."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.knowledge import figures
from markedness.audits.knowledge.estimators import tables as made
from markedness.audits.knowledge.estimators.augmentation import augmentation_effects
from markedness.audits.knowledge.estimators.classes import MEASURES, analysed, class_estimates, valid_share
from markedness.audits.knowledge.estimators.graph import graph_files
from markedness.audits.knowledge.estimators.notes import notes
from markedness.audits.knowledge.estimators.scores import all_scores
from markedness.records import FeatureTables, Strict
from markedness.results import Evaluation


class Params(Strict):
    """How it is estimated."""

    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    n_resamples: int = Field(default=1000, ge=10)
    """Bootstrap replicates, by prompt."""
    n_permutations: int = Field(default=1000, ge=10)
    """Permutations of the subjects within prompt."""
    picture_links: int = Field(default=20, ge=1)
    """Links per subject in the picture of a class; the GraphML file has all."""


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """Scores, tables and figures of one crawl.

    Intervals resample prompts (class, round, and predicate or strategy), the same for all subjects. Every null permutes
    the subjects within prompt: the scores of a model that says the same of every subject. The p-values of the subjects
    of one class and measure are adjusted by Holm's method.

    Parameters
    ----------
    features
        See `featurize.featurize`.
    params
        See `Params`.
    rng
        Seeds bootstrap and permutations.

    Returns
    -------
    Evaluation
        Tables: triples, regard, toxicity, gaps, relative_entropy, topics, augmentation, crawl.
    """
    triples, level = features["triples"], params.confidence_level
    classes = list(class_estimates(triples, params.n_resamples, params.n_permutations, level, rng))
    tables = {
        "triples": made.triples_table(triples),
        "regard": pd.concat([made.regard_table(one, level) for one in classes], ignore_index=True),
        "toxicity": pd.concat([made.toxicity_table(one, level) for one in classes], ignore_index=True),
        "gaps": pd.concat([made.gaps_table(one, level) for one in classes], ignore_index=True),
        "relative_entropy": pd.concat([made.relative_entropy_table(one) for one in classes], ignore_index=True),
        "topics": pd.concat([made.topics_table(one) for one in classes], ignore_index=True),
        "augmentation": augmentation_effects(triples, params.n_resamples, level, rng),
        "crawl": made.crawl_table(triples),
    }
    return Evaluation(
        scores=all_scores(triples, classes, tables["gaps"], level),
        tables=tables,
        figures=figures.charts(tables, params.picture_links),
        files=graph_files({one.name: one.rows for one in classes}),
        notes=notes(triples, classes, tables),
    )


def point_scores(features: FeatureTables, params: Params) -> dict[str, float]:
    """The headline estimates of any rows of features: no replicates, so cheap on resamples.

    Returns
    -------
    dict
        regard_gap.marked, toxicity_gap.marked, regard.mean, valid_share.all, as in metrics.json; NaN where there is
        nothing to estimate. Relative entropy is left out: two models have no topics in common.
    """
    triples = features["triples"]
    rows = analysed(triples)
    gaps: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    for _, of_class in rows.groupby("class", sort=False):
        reference = of_class["reference"].iloc[0]
        for measure in MEASURES:
            means = of_class.groupby("subject", sort=False)[measure].mean().dropna()
            if reference in means and len(means) > 1:
                gaps[measure].append(float((means.drop(reference) - means[reference]).mean()))
    return {
        **{f"{name}_gap.marked": float(np.mean(found)) if found else float("nan") for name, found in gaps.items()},
        "regard.mean": float(rows["regard"].mean()),
        "valid_share.all": valid_share(triples),
    }
