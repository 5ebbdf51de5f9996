"""Scores from the tables of evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from markedness.audits.homogeneity.estimators.group_differences import (
    GroupDifference,
    difference_table,
    mean_difference,
)
from markedness.records import Axes
from markedness.results import NAN, Score

LESS_VARIETY = "the marked group is described with less variety"


def difference_scores(differences: Sequence[GroupDifference], confidence_level: float) -> list[Score]:
    """pd_difference: the mean over the marked values, then each of them."""
    if not differences:
        return []
    adjusted = [NAN, *difference_table(differences, confidence_level)["p_adjusted"]]
    every = [mean_difference(differences), *differences]
    return [_difference_score(one, p, confidence_level) for one, p in zip(every, adjusted, strict=True)]


def _difference_score(one: GroupDifference, p_adjusted: float, confidence_level: float) -> Score:
    bounds: dict[str, Any] = {**one.bounds(confidence_level)}
    return Score(
        f"pd_difference.{one.group or 'marked'}",
        one.estimate,
        **bounds,
        null_mean=float(one.null.mean()) if len(one.null) else NAN,
        p_adjusted=p_adjusted,
        n=one.n_names,
        clusters={"name": one.n_names, "cue": one.n_cues},
        unit="names",
        positive=LESS_VARIETY,
        method="names resampled with all their cues; labels permuted among names with the same other values",
        comparable=True,
        group=one.group,
        reference=one.reference,
    )


def other_scores(tables: Mapping[str, pd.DataFrame], axes: Axes) -> Iterator[Score]:
    """Mean P_d, share of noncompliance, similarity of longer texts, and the pooled effects as published."""
    if (table := tables.get("probability_of_differentiation")) is not None:
        single = table[table["axis"].isin(list(axes))]
        by_axis = single.groupby(["axis", "cue"])["pd_sample"].mean().groupby("axis").mean()
        n = int(single.groupby("axis")["n"].sum().max()) if len(single) else 0
        yield Score("pd.mean", float(by_axis.mean()), n=n, unit="answers", positive="answers vary")
    if (table := tables.get("noncompliance")) is not None:
        first = table[table["axis"].eq(table["axis"].iloc[0])]
        n = int(first["n"].sum())
        share = float(first["noncompliant"].sum() / max(n, 1))
        yield Score("noncompliance.share", share, n=n, unit="answers", positive="some answers do not comply")
    if (table := tables.get("similarity_effects")) is not None:
        about: dict[str, Any] = {
            "unit": "prompt formats", "positive": "the marked group's texts are more alike",
            "method": "mixed model, random intercept per prompt format",
        }  # fmt: skip
        yield from _effect_scores("similarity_difference", table, "difference", "n_prompts", about)
    if (table := tables.get("meta_analysis")) is not None:
        about = {"unit": "cues", "positive": LESS_VARIETY, "method": "as published"}
        yield from _effect_scores("pooled_d", table[table["axis"].isin(list(axes))], "d", "k", about)


def _effect_scores(measure: str, table: pd.DataFrame, value: str, n: str, about: Mapping[str, Any]) -> Iterator[Score]:
    """A Score per row of a table of effects; ``value`` and ``n`` name its columns."""
    for row in table.to_dict("records"):
        yield Score(
            f"{measure}.{row['group']}", row[value], row["ci_low"], row["ci_high"], n=int(row[n]), group=row["group"],
            reference=row["reference"], **about,
        )  # fmt: skip
