"""Tables of the association tasks: attributes, agreement with people, favourability, occupations, correlations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.agreement import mean_average_precision, published_random_agreement
from markedness.audits.guise.estimators.claims import claims
from markedness.audits.guise.estimators.favorability import rank_correlation, regression, top_favorability
from markedness.audits.guise.estimators.sampling import PROMPT, VERB, Sample
from markedness.audits.guise.estimators.stereotypes import YEAR, AssociationTask
from markedness.audits.guise.estimators.tables import Row, published_contrast
from markedness.audits.guise.estimators.text_sets import Floats, mean
from markedness.results import NAN, Score, not_estimated
from markedness.stats.inference import Spread
from markedness.stats.t_tests import correlations, one_sample_t, pooled_t


def _spreads(task: AssociationTask) -> dict[str, Spread]:
    """Attribute -> sampling error of its mean log ratio, which is unknown where scores of the task are imputed."""
    sample = Sample(task.sets, task.params.base)
    factors = (PROMPT,) if task.task == "overt" else (VERB, PROMPT)
    names = map(str, task.mean_log_ratio.index)
    if task.imputed:
        return dict.fromkeys(names, Spread())
    return {name: sample.spread(partial(task.attribute, name), *factors) for name in names}


def stereotype_rows(task: AssociationTask) -> list[Row]:
    """Attributes from the most to the least associated, with intervals where no probability is imputed."""
    spreads = _spreads(task)
    favorability, human_rank = task.rating("favorability"), task.human_rank
    scored = task.mean_log_ratio.sort_index().sort_values(ascending=False, kind="stable")
    rows: list[Row] = []
    for rank, (attribute, value) in enumerate(scored.items(), start=1):
        found = spreads[str(attribute)]
        low, high = found.interval(float(value), task.params.confidence_level)
        rows.append({
            "task": task.task, "group": task.group, "reference": task.reference, "rank": rank,
            "attribute": str(attribute), "log_ratio": value, "ci_low": low, "ci_high": high, "p": found.p(float(value)),
            "shown": task.share_shown(str(attribute)),
            "favorability": favorability.get(attribute, NAN), "n_prompts": len(task.log_ratio),
            "n_pairs": task.n_pairs, "tokens": task.tokens.get(str(attribute), NAN),
            "human_rank": human_rank.get(attribute, NAN),
        })  # fmt: skip
    return rows


def _by_key(task: AssociationTask, rng: np.random.Generator, measure: str) -> dict[str, Score]:
    """Year or item -> the Score of one measure of this task alone."""
    own = (one for one in claims([task]) if one.key.partition(".")[0].partition("_")[0] == measure)
    made = (replace(one, power=None).made(rng) for one in own)  # the tables do not show ``detectable``
    return {score.item: score for score in made}


def agreement_rows(task: AssociationTask, rng: np.random.Generator) -> list[Row]:
    """Agreement with the human stereotypes of each year, over all settings and in each."""
    rows: list[Row] = []
    if not task.exact:
        return rows
    parts = {"all": task}
    if len(task.log_ratio_by_setting) > 1:
        settings = task.log_ratio_by_setting
        parts |= {name: replace(task, sets=[one for one in task.sets if one.setting == name]) for name in settings}
    n, n_orders = len(task.mean_log_ratio), task.params.n_orders
    found = {setting: _by_key(part, rng, "agreement") for setting, part in parts.items()}
    for year, human in task.years.items():
        chance = published_random_agreement(n, rng, n_orders, len(human))
        for setting, part in parts.items():
            scored, names = _scored(task, part.log_ratio)
            by_prompt = mean_average_precision(scored, names, human)
            test, estimate = pooled_t(by_prompt, chance, "greater"), float(mean(by_prompt))
            score = found[setting].get(year, not_estimated(year))
            rows.append({
                "task": task.task, "group": task.group, "reference": task.reference, "setting": setting, "year": year,
                "agreement": estimate, "ci_low": score.ci_low, "ci_high": score.ci_high, "p": score.p,
                "standard_error": published_standard_error(by_prompt), "n_prompts": int(np.isfinite(by_prompt).sum()),
                "chance": task.chance(year), "t": test.t, "df": test.df, "p_published": test.p, "attributes": n,
                "human": "; ".join(human),
            })  # fmt: skip
    return rows


def agreement_prompt_rows(task: AssociationTask) -> list[Row]:
    """Agreement of each prompt with the human stereotypes of each year, over all settings and in each."""
    if not task.exact:
        return []
    settings = task.log_ratio_by_setting
    parts = {"all": task.log_ratio, **(settings if len(settings) > 1 else {})}
    rows: list[Row] = []
    for year, human in task.years.items():
        for setting, log_ratio in parts.items():
            scored, names = _scored(task, log_ratio)
            for prompt, value in zip(task.prompts, mean_average_precision(scored, names, human), strict=True):
                rows.append({
                    "task": task.task, "group": task.group, "reference": task.reference, "setting": setting,
                    "year": year, "prompt": prompt, "agreement": float(value), "chance": task.chance(year),
                })  # fmt: skip
    return rows


def agreement_contrasts(task: AssociationTask) -> list[Row]:
    """Agreement over prompts with each year's stereotypes against the next year's, and setting against setting."""
    if not task.exact:
        return []
    scored, names = _scored(task, task.log_ratio)
    by_year = [(year, mean_average_precision(scored, names, human)) for year, human in task.years.items()]
    rows = [
        published_contrast(task.group, f"agreement.{task.task}", first, second) for first, second in pairwise(by_year)
    ]
    for year, human in task.years.items():
        by_setting = [
            (setting, mean_average_precision(_scored(task, log_ratio)[0], names, human))
            for setting, log_ratio in task.log_ratio_by_setting.items()
        ]
        rows += [
            published_contrast(task.group, f"agreement.{task.task}.{year}", first, second)
            for first, second in combinations(by_setting, 2)
        ]
    return rows


def _scored(task: AssociationTask, log_ratio: Floats) -> tuple[Floats, list[str]]:
    """The columns of the attributes that have a score, and their names."""
    names = list(task.mean_log_ratio.index)
    return log_ratio[:, np.isin(task.attributes, names)], names


def published_standard_error(values: Floats) -> float:
    """Standard error of the mean (ddof 1) without NaN, over prompts as published; NaN with fewer than 2 values."""
    there = values[np.isfinite(values)]
    return float(there.std(ddof=1) / np.sqrt(len(there))) if len(there) > 1 else NAN


def favorability_rows(task: AssociationTask, rng: np.random.Generator) -> list[Row]:
    """Favourability of the model's top attributes, and of the human ones of each year."""
    favorability = task.rating("favorability")
    if favorability.notna().sum() == 0:
        return []
    own = top_favorability(task.mean_log_ratio, favorability, task.params.top)
    nothing = not_estimated("favorability")
    score = next(iter(_by_key(task, rng, "favorability").values()), nothing)
    sources = {"model": own} | {
        year: top_favorability(task.rating(YEAR + year).dropna(), favorability, task.params.top) for year in task.years
    }
    rows: list[Row] = []
    for source, top in sources.items():
        shown = score if source == "model" else nothing
        rows.append({
            "task": task.task, "group": task.group, "source": source, "weighted": top.weighted,
            "unweighted": top.unweighted, "ci_low": shown.ci_low, "ci_high": shown.ci_high,
            "null_mean": shown.null_mean, "p": shown.p, "attributes": "; ".join(top.attributes),
            "n": len(top.attributes),
        })  # fmt: skip
    return rows


def favorability_rank_rows(task: AssociationTask) -> list[Row]:
    """Rank correlation of favourability with the model's scores, and with the percentages of the latest year."""
    favorability = task.rating("favorability")
    if favorability.notna().sum() == 0:
        return []
    ranked = {"model": task.mean_log_ratio} if task.exact else {}
    if latest := max(task.years, default=None):
        ranked[latest] = task.rating(YEAR + latest)
    rows: list[Row] = []
    for source, values in ranked.items():
        rho, p, n = rank_correlation(values, favorability)
        rows.append({"task": task.task, "group": task.group, "source": source, "rho": rho, "p_published": p, "n": n})
    return rows


def employability_rows(task: AssociationTask) -> list[Row]:
    """Occupations with their prestige."""
    if not task.prestige.notna().any():
        return []
    spreads = _spreads(task)
    prestige = task.prestige
    rows: list[Row] = []
    for occupation in map(str, task.mean_log_ratio.index):
        value = float(task.mean_log_ratio[occupation])
        low, high = spreads[occupation].interval(value, task.params.confidence_level)
        rows.append({
            "occupation": occupation, "log_ratio": value, "ci_low": low, "ci_high": high,
            "shown": task.share_shown(occupation), "prestige": prestige[occupation], "task": task.task,
            "group": task.group, "reference": task.reference,
        })  # fmt: skip
    return rows


def employability_test_rows(task: AssociationTask) -> list[Row]:
    """Published tests: association of occupations against 0, and regression of prestige on it; none if imputed."""
    prestige = task.prestige
    if not prestige.notna().any() or task.imputed:
        return []
    parts = {("all", "all"): mean(task.log_ratio)}
    parts |= {("prompt", prompt): row for prompt, row in zip(task.prompts, task.log_ratio, strict=True)}
    parts |= {("setting", setting): mean(values) for setting, values in task.log_ratio_by_setting.items()}
    rows: list[Row] = []
    for (level, item), values in parts.items():
        test, line = one_sample_t(values), regression(values, prestige if task.exact else prestige * NAN)
        rows.append({
            "task": task.task, "group": task.group, "level": level, "item": item, "mean_log_ratio": test.mean,
            "sd": test.sd * np.sqrt(test.n / (test.n - 1)) if test.n > 1 else NAN, "t": test.t, "df": test.df,
            "p_published": test.p, "n": test.n, "intercept": line.intercept, "slope": line.slope,
            "slope_error": line.slope_error, "r_squared": line.r_squared, "f": line.f, "p_slope_published": line.p,
            "n_prestige": line.n,
        })  # fmt: skip
    return rows


def published_correlations(columns: pd.DataFrame) -> pd.DataFrame:
    """Pearson's r of every pair of columns with Holm's correction over the pairs."""
    return correlations(columns).rename(columns={"p": "p_published", "p_adjusted": "p_adjusted_published"})


def correlation_rows(task: AssociationTask) -> list[Row]:
    """Pearson's r over attributes, between prompts, text sets and settings."""
    if not task.exact:
        return []
    by_set = [(one, one.log_ratio(task.params.base)) for one in task.sets]
    levels: dict[str, dict[str, Floats]] = {
        "prompt": dict(zip(task.prompts, task.log_ratio, strict=True)),
        "text_set": {one.name: mean(values) for one, values in by_set},
        "setting": {setting: mean(values) for setting, values in task.log_ratio_by_setting.items()},
    }
    named = {"task": task.task, "group": task.group}
    return [
        {**named, "level": level, **{str(key): value for key, value in row.items()}}
        for level, columns in levels.items()
        for row in published_correlations(pd.DataFrame(columns, index=task.attributes)).to_dict("records")
    ]
