"""Associations, agreement with human stereotypes, favourability, employability, decisions, features."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from markedness.audits.guise import figures
from markedness.audits.guise.estimators import stereotype_tables as stereotype
from markedness.audits.guise.estimators import text_set_tables as text_set
from markedness.audits.guise.estimators.comparable import comparable
from markedness.audits.guise.estimators.decision_tables import decision_rows
from markedness.audits.guise.estimators.dialects import dialect_rows
from markedness.audits.guise.estimators.notes import notes
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.scores import scores
from markedness.audits.guise.estimators.stereotypes import association_tasks, main_rows, marked_groups
from markedness.audits.guise.estimators.tables import Row, frames
from markedness.audits.guise.estimators.text_tables import text_feature_rows, topic_rows
from markedness.audits.guise.estimators.versions import across
from markedness.records import FeatureTables
from markedness.results import Evaluation

__all__ = ["Params", "across", "comparable", "evaluate"]


def evaluate(features: FeatureTables, params: Params, rng: np.random.Generator) -> Evaluation:
    """All analyses of the paper that the tasks and text sets of the study allow.

    Parameters
    ----------
    features
        ``scores``: one text pair, prompt and attribute a row; ``attributes``: their ratings; ``texts``: what is counted
        in each text, if the data hold the texts; see featurize.
    params
        Base, text sets of the main analyses, calibration rule, the guise of the headline.
    rng
        Seeded generator of exchanges and random orders.

    Returns
    -------
    Evaluation
        Tables associations, stereotypes, agreement, agreement_prompts, favorability, favorability_ranks, employability,
        employability_tests, decisions, features, dialects, contrasts, correlations, perplexity, text_features,
        text_topics; NaN where nothing is left to estimate.
    """
    scored, attributes = features["scores"], features["attributes"]
    made = scores(features, params, rng)
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for group in marked_groups(scored, params):
        own = scored[scored["group"].eq(group)]
        with_controls = association_tasks(own, attributes, params)
        for task in with_controls:
            rows["associations"] += text_set.association_rows(task)
        for task in association_tasks(main_rows(own, params), attributes, params):
            rows["stereotypes"] += stereotype.stereotype_rows(task)
            rows["agreement"] += stereotype.agreement_rows(task, rng)
            rows["agreement_prompts"] += stereotype.agreement_prompt_rows(task)
            rows["contrasts"] += stereotype.agreement_contrasts(task)
            rows["favorability"] += stereotype.favorability_rows(task, rng)
            rows["favorability_ranks"] += stereotype.favorability_rank_rows(task)
            rows["employability"] += stereotype.employability_rows(task)
            rows["employability_tests"] += stereotype.employability_test_rows(task)
            rows["correlations"] += stereotype.correlation_rows(task)
        rows["decisions"] += decision_rows(own, attributes, params, rng)
        for task in with_controls:
            if task.task == "traits":
                rows["features"] += text_set.feature_rows(task, rng)
                rows["contrasts"] += text_set.strength_contrasts(task, made)
    rows["dialects"] = dialect_rows(features, params, made)
    rows["contrasts"] += text_set.perplexity_contrasts(scored, params)
    rows["perplexity"] = text_set.perplexity_rows(scored)
    if "texts" in features and len(features["texts"]):
        rows["text_features"] = text_feature_rows(features["texts"], rng)
        rows["text_topics"] = topic_rows(features["texts"], rng)
    tables = frames(rows)
    return Evaluation(
        scores=made,
        tables=tables,
        figures=figures.charts(tables, params.confidence_level),
        notes=notes(scored, params, tables),
    )
