"""Strength and decisions of two guises, or two text sets, against each other, each against its own reference.

A dialect that evokes stereotypes is one finding; that it evokes them more than another dialect is another. The paper
compares African American with Appalachian English by a t test over prompts (Supplementary Information, "Alternative
explanations"); here the difference is a Score of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.association import stereotype_strength
from markedness.audits.guise.estimators.claims import ITEMS, claims
from markedness.audits.guise.estimators.decision_tables import decided
from markedness.audits.guise.estimators.differences import decision_contrast
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotypes import (
    AssociationTask,
    association_tasks,
    main_rows,
    marked_groups,
    ratings,
)
from markedness.audits.guise.estimators.tables import Row, published_contrast
from markedness.audits.guise.estimators.text_sets import Floats, text_sets
from markedness.records import FeatureTables
from markedness.results import Score
from markedness.stats.inference import adjusted
from markedness.stats.t_tests import one_sample_t

_MARK = "\n"
"""Between the name of a text set and the side it is on, while two sides are read together."""


def difference_task(
    first: pd.DataFrame, second: pd.DataFrame, attributes: pd.DataFrame, params: Params, names: tuple[str, str]
) -> AssociationTask | None:
    """One task whose log ratios are those of the first rows minus those of the second; None without scores in both.

    Parameters
    ----------
    first, second
        Scores of one association task, each against its own reference guise.
    names
        What the two are called; the second is the reference.
    """
    if first.empty or second.empty:
        return None
    both = [
        rows.assign(text_set=rows["text_set"].astype(str) + _MARK + side, pair=rows["pair"].astype(str) + _MARK + side)
        for rows, side in ((first, "first"), (second, "second"))
    ]
    sets = [
        replace(one, name=one.name.partition(_MARK)[0], subtracted=one.name.endswith(_MARK + "second"))
        for one in text_sets(pd.concat(both, ignore_index=True))
    ]
    task = str(first["task"].iloc[0])
    rated = ratings(attributes, task).reindex(list(sets[0].attributes))
    return AssociationTask(task, names[0], names[1], sets, rated, params)


def _strength(task: AssociationTask | None, suffix: str, rng: np.random.Generator) -> Iterator[Score]:
    if task is None or not task.exact or np.isnan(task.log_ratio).all():
        return
    for claim in claims([task]):
        if claim.key.startswith("strength."):
            made = claim.made(rng)
            yield replace(made, key=f"{made.key}: {suffix}")


def dialect_scores(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """Every two marked guises against each other: strength and decisions.

    Parameters
    ----------
    features
        See `markedness.audits.guise.featurize`.
    params
        The text sets that are read.
    rng
        Seeded generator of the exchanges.

    Returns
    -------
    list of Score
        Keys end in ": <first> - <second>". Strength: positive, the first evokes the stereotypes more; which attributes
        are stereotypical is exchanged, and t over verbs or texts and prompts; p is the larger. Decisions: the rate of
        the first minus that of the second, in text sets that are matched only of texts that have both guises.
        ``p_adjusted`` by Holm over these Scores. Empty with one marked guise.
    """
    scored, attributes = main_rows(features["scores"], params), features["attributes"]
    made: list[Score] = []
    pairs = list(combinations(marked_groups(features["scores"], params), 2))
    family = len(pairs) * (len(ITEMS) + scored.loc[scored["kind"].eq("decision"), "task"].nunique())
    for first, second in pairs:
        own, other = (scored[scored["group"].eq(name)] for name in (first, second))
        for task in ITEMS:
            sides = (own[own["task"].eq(task)], other[other["task"].eq(task)])
            made += _strength(difference_task(*sides, attributes, params, (first, second)), f"{first} - {second}", rng)
        for task in dict.fromkeys(own.loc[own["kind"].eq("decision"), "task"].astype(str)):
            sides_decided = [
                decided(rows[rows["kind"].eq("decision")], attributes, task, params.rule) for rows in (own, other)
            ]
            if all(sides_decided):
                key, level = f"decision.{task}: {first} - {second}", params.confidence_level
                made.append(decision_contrast(key, sides_decided[0], sides_decided[1], rng, family, level))
    return adjusted(made, [score.key for score in made])


def contrast_scores(
    rows: pd.DataFrame, attributes: pd.DataFrame, params: Params, rng: np.random.Generator
) -> list[Score]:
    """Strength of the text sets of ``contrasts`` against each other, in one marked guise; see `dialect_scores`."""
    traits = rows[rows["task"].eq("traits")]
    made: list[Score] = []
    for first, second in params.contrasts:
        sides = (traits[traits["text_set"].eq(first)], traits[traits["text_set"].eq(second)])
        task = difference_task(*sides, attributes, params, (first, second))
        made += _strength(task, f"{first} - {second}", rng)
    return adjusted(made, [score.key for score in made])


def dialect_rows(features: FeatureTables, params: Params, made: Sequence[Score]) -> list[Row]:
    """Strength of each marked guise against its reference, and of every two against each other.

    Interval, ``p`` and ``p_adjusted`` are those of the Scores (``p_adjusted`` of a pair by Holm over all pairs and
    decisions); ``t``, ``df`` and ``p_published`` are the paper's: one-sided t over prompts of one guise, two-sided t
    with pooled variance over the prompts of two. Empty with one marked guise.
    """
    groups = marked_groups(features["scores"], params)
    if len(groups) < 2:
        return []
    scored, by_key = main_rows(features["scores"], params), {score.key: score for score in made}
    strengths: dict[str, dict[str, Floats]] = {}
    rows: list[Row] = []
    for group in groups:
        for task in association_tasks(scored[scored["group"].eq(group)], features["attributes"], params):
            if task.task not in ITEMS or not task.exact or not task.stereotypical.any():
                continue
            values = stereotype_strength(task.log_ratio, task.stereotypical)
            strengths.setdefault(task.task, {})[group] = values
            test, key = one_sample_t(values, "greater"), f"strength.{ITEMS[task.task]}"
            score = by_key.get(key if group == groups[0] else f"{key}: {group}")
            rows.append({
                "task": task.task, "first": group, "second": task.reference, "strength": test.mean, "t": test.t,
                "df": test.df, "p_published": test.p, "n_prompts": test.n, **_of_score(score),
            })  # fmt: skip
    for name, by_group in strengths.items():
        for first, second in combinations(by_group, 2):
            row = published_contrast(first, "", (first, by_group[first]), (second, by_group[second]))
            score = by_key.get(f"strength.{ITEMS[name]}: {first} - {second}")
            rows.append({
                "task": name, "first": first, "second": second, "strength": row["difference"], "t": row["t"],
                "df": row["df"], "p_published": row["p_published"], "n_prompts": len(by_group[first]),
                **_of_score(score),
            })  # fmt: skip
    return rows


def _of_score(score: Score | None) -> Row:
    if score is None:
        return {}
    return {"ci_low": score.ci_low, "ci_high": score.ci_high, "p": score.p, "p_adjusted": score.p_adjusted}
