"""The Scores of one paradigm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation.estimators.cells import (
    REASONS,
    Codes,
    cells,
    codes,
    exchangeable_units,
    mean,
    name_pairs,
)
from markedness.audits.annotation.estimators.paired import published_paired_tests, sign_flip_sizes
from markedness.results import NAN, Score
from markedness.stats.resampling import multinomial_weights, percentile_interval


class Draws(NamedTuple):
    """How often, and at which level."""

    confidence_level: float
    n_resamples: int
    n_permutations: int
    rng: np.random.Generator


def paradigm_scores(pairs: pd.DataFrame, gaps: pd.DataFrame, paradigm: str, draws: Draws) -> list[Score]:
    """The Scores of one paradigm, and for names the favorable gap of each group.

    Parameters
    ----------
    pairs
        Matched pairs of the paradigm, rows of featurize.
    gaps
        Its table of gaps.
    paradigm
        "names" or "dialect": the second part of the keys.
    draws
        Levels and numbers of draws.
    """
    code, table = cells(pairs)
    n_permutations, rng = draws.n_permutations, draws.rng
    size, null = sign_flip_sizes(pairs["delta"], code, exchangeable_units(pairs), len(table), n_permutations, rng)
    reached = int((null >= size - 1e-12).sum())
    means, resampled = _resampled_means(pairs, code, len(table), draws)
    answered = pairs[["n", "n_reference"]].to_numpy().sum()
    asked = answered + pairs[[f"{reason}{side}" for reason in REASONS for side in ("", "_reference")]].to_numpy().sum()
    n = int(pairs["delta"].notna().sum())
    counted = Score("", NAN, n=n, n_missing=len(pairs) - n, unit="pairs", comparable=True)
    valence = _valences(table)
    found = [
        replace(
            counted, key=f"gap_size.{paradigm}", estimate=size, null_mean=mean(null),
            p=NAN if np.isnan(size) else (1 + reached) / (1 + len(null)),
            positive="labels depend on the group that a text suggests",
            method="marked and unmarked swapped within pairs, all tasks of a pair together",
        ),
        _favorable(counted, f"favorable_gap.{paradigm}", means, resampled, valence, draws.confidence_level),
        Score(
            f"significant_share.{paradigm}", float(gaps["significant"].mean()) if len(gaps) else NAN, n=len(gaps),
            unit="cells", method="as published", positive="some labels depend significantly on the group",
        ),
        Score(
            f"missing_share.{paradigm}", float(1 - answered / asked) if asked else NAN, n=int(asked),
            unit="judgments", positive="some judgments are missing",
        ),
    ]  # fmt: skip
    for group in table["group"].unique() if paradigm == "names" else ():
        own = pairs["group"].astype(object) == group
        n = int(pairs.loc[own, "delta"].notna().sum())
        reference = str(table.loc[table["group"] == group, "reference"].iloc[0])
        about = replace(counted, n=n, n_missing=int(own.sum()) - n, group=str(group), reference=reference)
        of_group = np.where(table["group"] == group, valence, 0)
        found.append(_favorable(about, f"favorable_gap.{group}", means, resampled, of_group, draws.confidence_level))
    return found


def point_scores(pairs: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """Mean absolute and favorable gap of each paradigm: key -> estimate; pairs may be repeated."""
    found: dict[str, float] = {}
    for paradigm, part in pairs.items():
        code, table = cells(part)
        means = published_paired_tests(part["delta"], code, len(table))["gap"].to_numpy()
        found[f"gap_size.{paradigm}"] = mean(np.abs(means))
        found[f"favorable_gap.{paradigm}"] = _favorable_mean(means, _valences(table))
    return found


def _favorable(
    about: Score,
    key: str,
    means: NDArray[np.float64],
    resampled: NDArray[np.float64],
    valence: NDArray[np.float64],
    confidence_level: float,
) -> Score:
    """Mean of valence x gap over cells, with an interval from resampled vignettes."""
    low, high = percentile_interval([_favorable_mean(row, valence) for row in resampled], confidence_level)
    return replace(
        about, key=key, estimate=_favorable_mean(means, valence), ci_low=low, ci_high=high,
        method="vignettes resampled", positive="favorable labels are given more often to the marked group",
    )  # fmt: skip


def _resampled_means(
    pairs: pd.DataFrame, code: Codes, n_cells: int, draws: Draws
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean difference of each cell, and the same with vignettes resampled: shape (n_resamples, n_cells)."""
    means = published_paired_tests(pairs["delta"], code, n_cells)["gap"].to_numpy()
    cluster = codes(pairs, "vignette") if "vignette" in pairs else name_pairs(pairs)
    delta = pairs["delta"].to_numpy(dtype=float)
    there = ~np.isnan(delta) & (cluster >= 0)
    labels, names = pd.factorize(cluster[there])
    if len(names) < 2:
        return means, np.full((draws.n_resamples, n_cells), np.nan)
    place, size = labels * n_cells + code[there], len(names) * n_cells
    sums = np.bincount(place, weights=delta[there], minlength=size).reshape(len(names), n_cells)
    n = np.bincount(place, minlength=size).reshape(len(names), n_cells)
    weights = multinomial_weights(len(names), draws.n_resamples, draws.rng).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return means, (weights @ sums) / (weights @ n)


def _favorable_mean(means: NDArray[np.float64], valence: NDArray[np.float64]) -> float:
    """Mean of valence x gap over the cells whose task has a valence."""
    return mean((means * valence)[valence != 0])


def _valences(table: pd.DataFrame) -> NDArray[np.float64]:
    return table["valence"].to_numpy(dtype=float) if "valence" in table else np.zeros(len(table))
