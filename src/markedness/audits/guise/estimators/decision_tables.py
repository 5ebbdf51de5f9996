"""The table of detrimental decisions: both guises, both calibration rules, overall, by prompt and by setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.decisions import (
    Rule,
    Verdicts,
    count,
    published_chi_square,
    two_by_two,
    verdicts,
)
from markedness.audits.guise.estimators.differences import decision_score
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.stereotypes import imputed, main_rows, ratings
from markedness.audits.guise.estimators.tables import Row
from markedness.audits.guise.estimators.text_sets import text_sets
from markedness.results import NAN, Score

RULES: tuple[Rule, ...] = ("ratio", "difference")


def decided(rows: pd.DataFrame, attributes: pd.DataFrame, task: str, rule: Rule) -> list[Verdicts]:
    """The decisions of one task and one marked guise, one item per text set.

    None where the data have no word of the task that is detrimental to the person, or no other one, or where a word is
    imputed after some text: which of them is then decided hangs on the other tokens.
    """
    chosen = rows[rows["task"].eq(task)]
    if chosen.empty or not_shown(chosen):
        return []
    sets = text_sets(chosen)
    detrimental = ratings(attributes, task)["detrimental"].reindex(list(sets[0].attributes)).eq(True).to_numpy()
    if detrimental.all() or not detrimental.any():
        return []
    group, reference = (str(chosen[side].iloc[0]) for side in ("group", "reference"))
    return [replace(verdicts(one, detrimental, rule), group=group, reference=reference) for one in sets]


def not_shown(rows: pd.DataFrame) -> str:
    """Why the words of a decision cannot be compared: a server did not show them after each text; "" where it did."""
    hidden = rows[imputed(rows)]
    if hidden.empty:
        return ""
    words = ", ".join(f"'{word}'" for word in sorted(hidden["attribute"].astype(str).unique()))
    n, n_all = (len(part[["text_set", "prompt_id", "pair"]].drop_duplicates()) for part in (hidden, rows))
    return (
        f"in {n:,} of {n_all:,} pairs of texts and prompts the probability of {words} is none that the server showed, "
        "or the data do not say that it is; ask for more tokens (top_logprobs), or a model with exact probabilities"
    )


def decision_rows(rows: pd.DataFrame, attributes: pd.DataFrame, params: Params, rng: np.random.Generator) -> list[Row]:
    """Rates of detrimental decisions about one marked guise and its reference.

    Parameters
    ----------
    rows
        Scores of one marked guise.
    attributes
        Task and attribute -> whether it is detrimental.
    params
        Text sets, confidence level.
    rng
        Seeded generator.
    """
    scored = main_rows(rows[rows["kind"].eq("decision")], params)
    made: list[Row] = []
    for task in scored["task"].unique():
        named = {"task": task, "group": str(scored["group"].iloc[0]), "reference": str(scored["reference"].iloc[0])}
        for rule in RULES:
            for level, item, chosen in _parts(decided(scored, attributes, task, rule)):
                row = _row(chosen, decision_score(str(task), chosen, rng, 1, params.confidence_level))
                made.append(row | named | {"rule": rule, "level": level, "item": item})
    return made


def _parts(found: list[Verdicts]) -> Iterator[tuple[str, str, list[Verdicts]]]:
    """Level, item and decisions of each row."""
    if not found:
        return
    yield "all", "all", found
    for place, prompt in enumerate(found[0].prompts):
        yield "prompt", prompt, [one.only(place) for one in found]
    for setting in dict.fromkeys(one.setting for one in found):
        yield "setting", setting, [one for one in found if one.setting == setting]


def published_increases(chosen: list[Verdicts]) -> Row:
    """Relative increase a / b - 1 of each text set and prompt: mean and standard error (ddof 1) over these cells.

    A cell without a detrimental decision about one of the two guises has none and is counted. Cells share texts and
    prompts, so that this error is no sampling error. Source: SI figures 9, 10, 14 and 15.
    """
    cells = [count([one.only(place)]) for one in chosen for place in range(len(one.prompts))]
    known = np.array([c.count / c.count_reference - 1 for c in cells if c.count and c.count_reference])
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else NAN
    return {
        "increase_mean": float(known.mean()) if len(known) else NAN, "increase_error_published": error,
        "increase_cells": len(known), "increase_undefined": len(cells) - len(known),
    }  # fmt: skip


def _row(chosen: list[Verdicts], found: Score) -> Row:
    """Rates, tests and margins of one row."""
    c = count(chosen)
    a, n_a, b, n_b = c.count, c.n, c.count_reference, c.n_reference
    fair, equal = two_by_two(a, n_a, b, n_b), published_chi_square(a, b)
    margins = np.concatenate([np.r_[one.margin.ravel(), one.margin_reference.ravel()] for one in chosen])
    return {
        "rate": a / n_a if n_a else NAN, "rate_reference": b / n_b if n_b else NAN, "difference": found.estimate,
        "ci_low": found.ci_low, "ci_high": found.ci_high, "p": found.p,
        "increase": a / b - 1 if a and b else NAN, **published_increases(chosen), "count": a, "count_reference": b,
        "n": n_a,
        "n_reference": n_b, "chi2": equal.statistic, "p_published": equal.p,
        "chi2_2x2": fair.statistic, "p_2x2": fair.p, "ties": int((margins == 0).sum()),
        "smallest_margin": float(np.nanmin(np.abs(margins))) if np.isfinite(margins).any() else NAN,
        "missing": int(np.isnan(margins).sum()),
    }  # fmt: skip
