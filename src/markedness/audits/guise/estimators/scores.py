"""The Scores of the audit, made by the one inference engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from markedness.audits.guise import SPEC
from markedness.audits.guise.estimators.claims import FAMILY, ITEMS, claims
from markedness.audits.guise.estimators.decision_tables import decided, not_shown
from markedness.audits.guise.estimators.dialects import contrast_scores, dialect_scores
from markedness.audits.guise.estimators.differences import decision_score, missing_score
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotypes import association_tasks, main_rows, marked_groups
from markedness.records import FeatureTables
from markedness.results import Score, not_estimated
from markedness.stats.inference import adjusted, adjusted_apart


def headline(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """The Scores of the headline alone; equal to those of `scores`."""
    scored, attributes = features["scores"], features["attributes"]
    made: list[Score] = []
    for group in marked_groups(scored, params)[:1]:
        found = _of_guise(main_rows(scored[scored["group"].eq(group)], params), attributes, params, rng)
        made = [make() for key, make in found if key in SPEC.headline]
    return adjusted(_complete(made, scored), SPEC.headline)


def scores(features: FeatureTables, params: Params, rng: np.random.Generator) -> list[Score]:
    """The headline Scores and those of further years, decisions and guises; nothing but what the engine makes.

    Parameters
    ----------
    features
        See `featurize`.
    params
        Text sets, the guise of the headline, stereotypes, calibration rule.
    rng
        Seeded generator of the exchanges.

    Returns
    -------
    list of Score
        Of the guise of the headline first; keys of other guises end in ": <guise>", those of two guises or text sets
        against each other in ": <first> - <second>". ``p_adjusted`` by Holm over the headline, and separately over what
        is asked alike of another guise, over the further Scores of a guise, the pairs of guises and the contrasts of
        text sets. Scores from estimated probabilities that need the whole ranking
        are NaN.
    """
    scored, attributes = features["scores"], features["attributes"]
    made: list[Score] = []
    for group in marked_groups(scored, params):
        of_group, suffix = scored[scored["group"].eq(group)], f": {group}" if made else ""
        found = [make() for _, make in _of_guise(main_rows(of_group, params), attributes, params, rng)]
        found += contrast_scores(of_group, attributes, params, rng)
        made += [replace(score, key=score.key + suffix) for score in found]
    made = _complete([*made, *dialect_scores(features, params, rng)], scored)
    return [*adjusted_apart(adjusted(made, SPEC.headline), _family), missing_share(scored)]


def _of_guise(
    own: pd.DataFrame, attributes: pd.DataFrame, params: Params, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], Score]]]:
    """The keys of one guise against its reference, and what makes each Score, with draws of its own."""
    tasks, level = association_tasks(own, attributes, params), params.confidence_level
    for one in claims(tasks):
        yield one.key, partial(one.made, rng.spawn(1)[0])
    for task in tasks:
        if task.task in ITEMS and not task.exact:
            key = f"strength.{ITEMS[task.task]}"
            why = "imputed" if task.imputed else "shares of the words that the server showed"
            yield key, partial(not_estimated, key, f"the probabilities are {why}")
    decisions = own[own["kind"].eq("decision")]
    for name in decisions["task"].unique():
        answers, key = decided(decisions, attributes, str(name), params.rule), f"decision.{name}"
        if not answers:
            why = not_shown(decisions[decisions["task"].eq(name)]) or _one_sided(str(name))
            yield key, partial(not_estimated, key, why)
            continue
        yield key, partial(decision_score, key, answers, rng.spawn(1)[0], FAMILY, level)
    yield "missing.difference", partial(missing_score, own, rng.spawn(1)[0], FAMILY, level)


def _complete(made: Sequence[Score], scored: pd.DataFrame) -> list[Score]:
    """With a Score of each key of the headline, which says why it could not be made."""
    there = {score.key for score in made}
    return [*made, *(not_estimated(key, _why(key, scored)) for key in SPEC.headline if key not in there)]


def _family(score: Score) -> tuple[str, bool]:
    """Of a Score beside the headline: the guise that its key ends in, and whether it asks what the headline asks."""
    asked, _, guise = score.key.partition(": ")
    return guise, asked in SPEC.headline


def _why(key: str, scored: pd.DataFrame) -> str:
    """Why a headline Score could not be made."""
    measure, _, item = key.partition(".")
    task = {"prestige": "occupations", "decision": item}.get(measure, "overt" if item == "overt" else "traits")
    rows = scored[scored["task"].astype(str).eq(task)]
    if rows.empty:
        return f"the study has no scores of the task {task}"
    if not (rows["log_prob"].notna() & rows["log_prob_reference"].notna()).any():
        return f"no score of the task {task} has a value on both sides"
    return f"the attributes of the task {task} lack the ratings, or the probabilities are not the model's own"


def _one_sided(task: str) -> str:
    return f"the data have only detrimental words of the task {task}, or none, and a decision is between both"


def missing_share(scored: pd.DataFrame) -> Score:
    """Share of scores without a value on both sides."""
    return Score("missing.share", float(scored["missing"].notna().mean()), n=len(scored), unit="scores")
