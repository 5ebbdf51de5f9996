"""How each subject is spoken of, how toxic its triples are, their topics, and the effect of the augmentations."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.knowledge import figures
from markedness.audits.knowledge.estimators import tables as made
from markedness.audits.knowledge.estimators.augmentation import augmentation_distributions, augmentation_effects
from markedness.audits.knowledge.estimators.classes import counted_once, has_crawls, subject_classes
from markedness.audits.knowledge.estimators.gaps import Crawls
from markedness.audits.knowledge.estimators.graph import graph_files
from markedness.audits.knowledge.estimators.notes import notes
from markedness.audits.knowledge.estimators.scorer_error import errors_of
from markedness.audits.knowledge.estimators.scores import scores
from markedness.records import FeatureTables, Strict
from markedness.results import Evaluation


class Params(Strict):
    """How it is estimated."""

    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    picture_links: int = Field(default=20, ge=1)
    """Links per subject in the picture of a class; the GraphML file has all."""


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """Scores, tables and figures of one study.

    p and intervals rest on the crawls, see `markedness.audits.knowledge.estimators.scores.scores`: NaN where there are
    fewer than 6. Columns ``*_published`` hold what the paper tests.

    Parameters
    ----------
    features
        See `featurize.featurize`.
    params
        See `Params`.
    rng
        Seeds the exchange of subjects.

    Returns
    -------
    Evaluation
        Tables: triples, regard, toxicity, gaps, relative_entropy, topics, augmentation,
        augmentation_distributions, crawl, scorer_error.
    """
    (triples, copies), level = counted_once(features["triples"]), params.confidence_level
    classes = subject_classes(triples)
    crawls = Crawls(classes[0].crawls if classes else ["1"], has_crawls(triples), level)
    found = scores(features, params, rng)
    by_key = {score.key: score for score in found}
    tables = {
        "triples": made.triples_table(triples),
        "regard": pd.concat([made.regard_table(one, crawls) for one in classes], ignore_index=True),
        "toxicity": pd.concat([made.toxicity_table(one, crawls) for one in classes], ignore_index=True),
        "gaps": pd.concat([made.gaps_table(one, by_key) for one in classes], ignore_index=True),
        "relative_entropy": pd.concat([made.relative_entropy_table(one, by_key) for one in classes], ignore_index=True),
        "topics": pd.concat([made.topics_table(one) for one in classes], ignore_index=True),
        "augmentation": augmentation_effects(triples, level),
        "augmentation_distributions": augmentation_distributions(triples),
        "crawl": made.crawl_table(triples),
        "scorer_error": errors_of(triples),
    }
    return Evaluation(
        scores=found,
        tables=tables,
        figures=figures.charts(tables, params.picture_links),
        files=graph_files({one.name: one.rows for one in classes}),
        notes=notes(triples, classes, tables, copies),
    )
