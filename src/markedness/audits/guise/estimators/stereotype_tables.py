"""Tables of the association tasks: attributes, agreement with people, favourability, occupations, correlations."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.agreement import (
    BOUNDS,
    expected_agreement,
    mean_average_precision,
    permutation_p,
    random_agreement,
)
from markedness.audits.guise.estimators.favorability import BOUNDS as RATING_BOUNDS
from markedness.audits.guise.estimators.favorability import rank_correlation, regression, top_favorability
from markedness.audits.guise.estimators.spread import NO_SPREAD, Draws, spread
from markedness.audits.guise.estimators.stereotypes import YEAR, AssociationTask
from markedness.audits.guise.estimators.tables import Row, contrast
from markedness.audits.guise.estimators.text_sets import Floats, mean
from markedness.results import NAN
from markedness.stats.t_tests import correlations, one_sample_t, pooled_t


def stereotype_rows(task: AssociationTask, draws: Draws) -> list[Row]:
    """Attributes from the most to the least associated, with intervals."""
    favorability = task.rating("favorability")
    scored = task.mean_log_ratio.sort_index().sort_values(ascending=False, kind="stable")
    rows: list[Row] = []
    for rank, (attribute, value) in enumerate(scored.items(), start=1):
        found = spread(partial(task.attribute, str(attribute)), float(value), draws, task.params.confidence_level)
        rows.append({
            "task": task.task, "group": task.group, "reference": task.reference, "rank": rank,
            "attribute": str(attribute), "log_ratio": value, "ci_low": found.low, "ci_high": found.high, "p": found.p,
            "favorability": favorability.get(attribute, NAN), "n_prompts": len(task.log_ratio),
            "n_pairs": task.n_pairs,
        })  # fmt: skip
    return rows


def agreement_rows(task: AssociationTask, draws: Draws, rng: np.random.Generator) -> list[Row]:
    """Agreement with the human stereotypes of each year, over all settings and in each."""
    rows: list[Row] = []
    if not task.exact:
        return rows
    parts = {"all": task.log_ratio}
    if len(task.log_ratio_by_setting) > 1:
        parts |= task.log_ratio_by_setting
    n, n_orders = len(task.mean_log_ratio), task.params.n_orders
    for year, human in task.years.items():
        chance = random_agreement(n, rng, n_orders, len(human))
        for setting, log_ratio in parts.items():
            scored, names = _scored(task, log_ratio)
            by_prompt = mean_average_precision(scored, names, human)
            test, estimate, found = pooled_t(by_prompt, chance, "greater"), float(mean(by_prompt)), NO_SPREAD
            if setting == "all":
                level = task.params.confidence_level
                found = spread(partial(task.agreement, year), estimate, draws, level, BOUNDS)
            rows.append({
                "task": task.task, "group": task.group, "reference": task.reference, "setting": setting, "year": year,
                "agreement": estimate, "ci_low": found.low, "ci_high": found.high,
                "standard_error": published_standard_error(by_prompt), "n_prompts": int(np.isfinite(by_prompt).sum()),
                "chance": expected_agreement(n, len(human)), "t": test.t, "df": test.df, "p": test.p,
                "p_permutation": permutation_p(scored, names, human, rng, n_orders), "null_mean": found.null_mean,
                "p_swapped": found.p, "attributes": n, "human": "; ".join(human),
            })  # fmt: skip
    return rows


def agreement_contrasts(task: AssociationTask) -> list[Row]:
    """Agreement with each year's human stereotypes against that of the next year, over prompts."""
    if not task.exact:
        return []
    scored, names = _scored(task, task.log_ratio)
    by_year = [(year, mean_average_precision(scored, names, human)) for year, human in task.years.items()]
    return [contrast(task.group, f"agreement.{task.task}", first, second) for first, second in pairwise(by_year)]


def _scored(task: AssociationTask, log_ratio: Floats) -> tuple[Floats, list[str]]:
    """The columns of the attributes that have a score, and their names."""
    names = list(task.mean_log_ratio.index)
    return log_ratio[:, np.isin(task.attributes, names)], names


def published_standard_error(values: Floats) -> float:
    """Standard error of the mean (ddof 1) without NaN, over prompts as published; NaN with fewer than 2 values."""
    there = values[np.isfinite(values)]
    return float(there.std(ddof=1) / np.sqrt(len(there))) if len(there) > 1 else NAN


def favorability_rows(task: AssociationTask, draws: Draws) -> list[Row]:
    """Favourability of the model's top attributes, and of the human ones of each year."""
    favorability = task.rating("favorability")
    if favorability.notna().sum() == 0:
        return []
    own = top_favorability(task.mean_log_ratio, favorability, task.params.top)
    found = spread(task.favorability, own.weighted, draws, task.params.confidence_level, RATING_BOUNDS)
    sources = {"model": own} | {
        year: top_favorability(task.rating(YEAR + year).dropna(), favorability, task.params.top) for year in task.years
    }
    rows: list[Row] = []
    for source, top in sources.items():
        shown = found if source == "model" else NO_SPREAD
        rows.append({
            "task": task.task, "group": task.group, "source": source, "weighted": top.weighted,
            "unweighted": top.unweighted, "ci_low": shown.low, "ci_high": shown.high, "null_mean": shown.null_mean,
            "p_swapped": shown.p, "attributes": "; ".join(top.attributes), "n": len(top.attributes),
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
        rows.append({"task": task.task, "group": task.group, "source": source, "rho": rho, "p": p, "n": n})
    return rows


def employability_rows(task: AssociationTask, draws: Draws) -> list[Row]:
    """Occupations with their prestige."""
    prestige = task.prestige
    rows: list[Row] = []
    for occupation in map(str, task.mean_log_ratio.index if prestige.notna().any() else ()):
        value = float(task.mean_log_ratio[occupation])
        found = spread(partial(task.attribute, occupation), value, draws, task.params.confidence_level)
        rows.append({
            "occupation": occupation, "log_ratio": value, "ci_low": found.low, "ci_high": found.high,
            "prestige": prestige[occupation], "task": task.task, "group": task.group, "reference": task.reference,
        })  # fmt: skip
    return rows


def employability_test_rows(task: AssociationTask) -> list[Row]:
    """Published tests: association of occupations against 0, and regression of prestige on it."""
    prestige = task.prestige
    if not prestige.notna().any():
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
            "p": test.p, "n": test.n, "intercept": line.intercept, "slope": line.slope,
            "slope_error": line.slope_error, "r_squared": line.r_squared, "f": line.f, "p_slope": line.p,
            "n_prestige": line.n,
        })  # fmt: skip
    return rows


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
        for row in correlations(pd.DataFrame(columns, index=task.attributes)).to_dict("records")
    ]
