"""Tables of the text sets: associations by prompt, stereotype strength, contrasts and perplexity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.association import stereotype_strength
from markedness.audits.guise.estimators.claims import claims
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotypes import AssociationTask
from markedness.audits.guise.estimators.tables import Row, published_contrast
from markedness.audits.guise.estimators.text_sets import Floats
from markedness.results import NAN, Score, not_estimated
from markedness.stats.t_tests import one_sample_t, pooled_t


def association_rows(task: AssociationTask) -> list[Row]:
    """One row per text set, prompt and attribute.

    ``tokens`` of the attribute, by the chain rule if more than one; ``shown`` as in the table stereotypes: the share
    of the attribute's scores in the whole task, in [0, 1], in which no probability is imputed.
    """
    rows: list[Row] = []
    tokens = task.tokens
    for one in task.sets:
        log_ratio = one.log_ratio(task.params.base)
        first, second = np.isfinite(one.log_p), np.isfinite(one.log_p_reference)
        there = (first & second).sum(axis=0) if one.matched else np.minimum(first.sum(axis=0), second.sum(axis=0))
        for m, prompt in enumerate(one.prompts):
            for k, attribute in enumerate(one.attributes):
                n = int(there[m, k])
                rows.append({
                    "setting": one.setting, "prompt": prompt, "attribute": attribute, "q": log_ratio[m, k],
                    "task": task.task, "text_set": one.name, "control": one.control, "group": task.group,
                    "reference": task.reference, "n": n, "missing": one.n_pairs - n,
                    "tokens": tokens.get(attribute, NAN), "shown": task.share_shown(attribute),
                })  # fmt: skip
    return rows


def feature_rows(task: AssociationTask, rng: np.random.Generator) -> list[Row]:
    """Stereotype strength of each text set, of probabilities that are the model's own; t as published."""
    params = task.params
    rows: list[Row] = []
    for one in task.sets if task.exact and task.stereotypical.any() else ():
        log_ratio = one.log_ratio(params.base)
        test = one_sample_t(stereotype_strength(log_ratio, task.stereotypical), "greater")
        found = next((claim.made(rng) for claim in claims([replace(task, sets=[one])])), not_estimated("strength"))
        rows.append({
            "text_set": one.name, "setting": one.setting, "control": one.control, "group": task.group,
            "strength": test.mean, "ci_low": found.ci_low, "ci_high": found.ci_high, "p": found.p, "sd": test.sd,
            "n_prompts": test.n, "n_pairs": one.n_pairs, "t": test.t, "df": test.df, "p_published": test.p,
        })  # fmt: skip
    return rows


def strength_contrasts(task: AssociationTask, made: Sequence[Score]) -> list[Row]:
    """Stereotype strength of the text sets of ``contrasts``: t over prompts, as published, and p of the Scores."""
    if not task.exact or not task.stereotypical.any():
        return []
    found = {score.key: score for score in made}
    log_ratios = {one.name: one.log_ratio(task.params.base) for one in task.sets}
    by_set = {name: stereotype_strength(values, task.stereotypical) for name, values in log_ratios.items()}
    rows = _contrasts(task.group, "strength", by_set, task.params)
    for row in rows:
        key = f"strength.covert: {row['first']} - {row['second']}"
        if score := found.get(key, found.get(f"{key}: {task.group}")):
            row |= {"ci_low": score.ci_low, "ci_high": score.ci_high, "p": score.p, "p_adjusted": score.p_adjusted}
    return rows


def _contrasts(group: str, measure: str, samples: Mapping[str, Floats], params: Params) -> list[Row]:
    there = [(a, b) for a, b in params.contrasts if a in samples and b in samples]
    return [published_contrast(group, measure, (a, samples[a]), (b, samples[b])) for a, b in there]


def perplexity_contrasts(rows: pd.DataFrame, params: Params) -> list[Row]:
    """Perplexity of the marked texts of the text sets of ``contrasts``, over texts."""
    made: list[Row] = []
    for group, own in rows[rows["kind"].eq("perplexity")].groupby("group", sort=False, observed=True):
        texts = {
            str(name): np.exp(-part["log_prob"].to_numpy()) for name, part in own.groupby("text_set", observed=True)
        }
        made += _contrasts(str(group), "perplexity", texts, params)
    return made


def perplexity_rows(rows: pd.DataFrame) -> list[Row]:
    """Perplexity of the texts of both guises, by text set."""
    made: list[Row] = []
    asked = rows[rows["kind"].eq("perplexity")]
    for (name, group), part in asked.groupby(["text_set", "group"], sort=False, observed=True):
        own, others = (np.exp(-part[side].to_numpy(dtype=float)) for side in ("log_prob", "log_prob_reference"))
        test, reference = pooled_t(own, others), str(part["reference"].iloc[0])
        for guise, other, values in ((str(group), reference, own), (reference, str(group), others)):
            there = values[np.isfinite(values)]
            made.append({
                "text_set": str(name), "setting": part["setting"].iloc[0], "guise": guise, "compared_with": other,
                "mean": float(there.mean()) if len(there) else NAN, "sd": float(there.std()) if len(there) else NAN,
                "n": len(there), "missing": len(values) - len(there), "estimator": part["estimator"].iloc[0],
                "t": test.t, "df": test.df, "p_published": test.p if other == reference else NAN,
            })  # fmt: skip
    return made
