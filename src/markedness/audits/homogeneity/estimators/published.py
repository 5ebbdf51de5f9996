"""The tables of the publication, computed as published.

Source: Lee & Lai, Probability of Differentiation Reveals Brittleness of Homogeneity Bias in GPT-4, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.differentiation import published_interval
from markedness.audits.homogeneity.estimators.effect_size import cohens_d
from markedness.audits.homogeneity.estimators.group_differences import PairCounts, cue_differences
from markedness.audits.homogeneity.estimators.groups import Bootstrap, Group, compared
from markedness.audits.homogeneity.estimators.meta_analysis import random_effects
from markedness.axes import Axes
from markedness.stats.inference import benjamini_hochberg


def published_differentiation(bootstrap: Bootstrap, confidence_level: float) -> pd.DataFrame:
    """P_d of each group in each cue: the median of its replicates, between their quantiles (section 2.4).

    Returns
    -------
    DataFrame
        axis, group, cue, pd, ci_low, ci_high, n (answers), pd_sample (P_d of the answers themselves), n_clusters. A
        single cluster has no replicates: pd is pd_sample, and the bounds are NaN.
    """
    rows = []
    for group, by_cue in bootstrap.items():
        for r in by_cue.values():
            several = r.n_clusters > 1
            low, high = published_interval(r.drawn, confidence_level) if several else (np.nan, np.nan)
            estimate = float(np.median(r.drawn)) if several else r.sample
            rows.append((group.axis, group.name, r.cue, estimate, low, high, r.n, r.sample, r.n_clusters))
    columns = ["axis", "group", "cue", "pd", "ci_low", "ci_high", "n", "pd_sample", "n_clusters"]
    return pd.DataFrame(rows, columns=columns)


def published_closing_rows(differentiation: pd.DataFrame) -> pd.DataFrame:
    """The rows "Mean" and "Number of Max." that close tables A4 and A6 to A15.

    Parameters
    ----------
    differentiation
        See `published_differentiation`.

    Returns
    -------
    DataFrame
        axis, group, cues, mean_pd (mean of pd over the cues that the group has), n_max (cues in which the group alone
        has the largest pd of its axis; a cue that not all groups of the axis have is not counted).
    """
    rows: list[dict[str, object]] = []
    for axis, own in differentiation.groupby("axis", sort=False):
        by_cue = own.pivot(index="cue", columns="group", values="pd")[own["group"].unique().tolist()]
        whole = by_cue.dropna()
        largest = whole.eq(whole.max(axis=1), axis=0)
        alone = largest[largest.sum(axis=1) == 1]
        rows += [
            {"axis": axis, "group": group, "cues": int(by_cue[group].notna().sum()),
             "mean_pd": float(by_cue[group].mean()), "n_max": int(alone[group].sum())}
            for group in by_cue.columns
        ]  # fmt: skip
    return pd.DataFrame(rows, columns=["axis", "group", "cues", "mean_pd", "n_max"])


def published_effects(
    bootstrap: Bootstrap,
    axes: Axes,
    confidence_level: float,
    counts: PairCounts,
    members: Mapping[Group, NDArray[np.bool_]],
) -> pd.DataFrame:
    """Cohen's d of each marked group in each cue (section 2.5), and beside it the difference with its sampling error.

    Returns
    -------
    DataFrame
        comparison, cue, d, ci_low, ci_high, z (as published, see `cohens_d`), difference, difference_ci_low,
        difference_ci_high, p (see `cue_differences`), axis, group, reference, n_resamples, p_adjusted
        (Benjamini-Hochberg, untestable cells at p = 1; single axes and crossed groups are two families). Positive: the
        marked group has less variety. Groups with fewer than two clusters have no row.
    """
    rows = [
        {
            "comparison": f"{group.reference} v. {group.name}", "cue": cue,
            **cohens_d(reference.drawn, marked.drawn, confidence_level)._asdict(),
            "axis": group.axis, "group": group.name, "reference": group.reference, "n_resamples": len(marked.drawn),
        }
        for group, cue, reference, marked in compared(bootstrap)
        if min(reference.n_clusters, marked.n_clusters) > 1
    ]  # fmt: skip
    effects = pd.DataFrame(rows)
    if len(effects):
        tested = [
            cue_differences(counts, np.select([members[reference], own], [0, 1], -1), confidence_level).assign(
                comparison=f"{group.reference} v. {group.name}"
            )
            for group, own in members.items()
            if group.reference is not None and (reference := Group(group.axis, group.reference, None)) in members
        ]
        effects = effects.merge(pd.concat(tested), on=["comparison", "cue"], how="left", validate="one_to_one")
        crossed = ~effects["axis"].isin(list(axes))
        effects["p_adjusted"] = effects.groupby(crossed)["p"].transform(benjamini_hochberg)
    return effects


def published_meta_analysis(effects: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """Effects of each comparison pooled over cues (section 2.5, table 2).

    The standard error of d is the width of its published interval over 3.92; at another confidence level than 95 %,
    over what 3.92 is there, so that Cochran's Q does not depend on the level.

    Returns
    -------
    DataFrame
        comparison, d (the pooled effect), the other numbers of `Pooled`, axis, group, reference.
    """
    from scipy.stats import norm

    if effects.empty:
        return pd.DataFrame()
    width = 3.92 * norm.ppf((1 + confidence_level) / 2) / norm.ppf((1 + 0.95) / 2)
    rows = []
    for comparison, own in effects.groupby("comparison", sort=False):
        pooled = random_effects(own["d"], (own["ci_high"] - own["ci_low"]) / width, confidence_level)
        about = {name: own[name].iloc[0] for name in ("axis", "group", "reference")}
        rows.append({"comparison": comparison, **pooled._asdict(), **about})
    return pd.DataFrame(rows).rename(columns={"estimate": "d"}).drop(columns="standard_error")
