"""Differences in P_d averaged over cues, with an interval by resampled names and a null by permuted labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.homogeneity.estimators.differentiation import CategoryCounts
from markedness.audits.homogeneity.estimators.groups import Bootstrap, compared
from markedness.records import Axes
from markedness.results import NAN
from markedness.stats.multiplicity import benjamini_hochberg
from markedness.stats.resampling import percentile_interval


@dataclass(frozen=True)
class GroupDifference:
    """A marked value against the unmarked value of its axis, or the mean of several."""

    axis: str
    group: str
    reference: str
    estimate: float
    """P_d of the unmarked minus P_d of the marked group; positive: the marked group has less variety."""
    replicates: NDArray[np.float64]
    """The difference in each resample of names; empty where a group has a single name."""
    null: NDArray[np.float64]
    """The difference after each permutation of the names' labels; empty as above."""
    n_names: int
    n_cues: int

    def bounds(self, confidence_level: float) -> dict[str, float]:
        """ci_low, ci_high, null_low, null_high (percentiles) and p; NaN without replicates or null.

        p is the two-sided permutation p-value (1 + #{abs(null) >= abs(estimate)}) / (1 + n).
        """
        low, high = percentile_interval(self.replicates, confidence_level)
        null_low, null_high = percentile_interval(self.null, confidence_level)
        extreme = (np.abs(self.null) >= abs(self.estimate) - 1e-12).sum()
        p = float((1 + extreme) / (1 + len(self.null))) if len(self.null) else NAN
        return {"ci_low": low, "ci_high": high, "null_low": null_low, "null_high": null_high, "p": p}


def group_differences(
    counts: CategoryCounts,
    clusters: pd.DataFrame,
    bootstrap: Bootstrap,
    axes: Axes,
    n_permutations: int,
    rng: np.random.Generator,
) -> list[GroupDifference]:
    """Each marked value against the unmarked one, averaged over the cues that both have.

    Parameters
    ----------
    counts, clusters
        Answers by name; the axes of each name, in the order of ``counts.clusters``.
    bootstrap
        Replicates of all groups.
    axes
        Axes that ``clusters`` has. Labels of one axis are permuted among names that share their other values.
    n_permutations, rng
        Permutations; seeded generator.
    """
    found = []
    for axis, words in axes.items():
        pairs = {
            value: [(a, b) for group, _, a, b in compared(bootstrap) if (group.axis, group.name) == (axis, value)]
            for value in words.marked
        }
        marked = [value for value in words.marked if pairs[value]]
        if not marked:
            continue
        strata = clusters[[other for other in axes if other != axis]].astype(str).agg(" ".join, axis=1)
        nulls = counts.permuted_differences(clusters[axis], strata, words.unmarked, marked, n_permutations, rng)
        for value in marked:
            several = [a.drawn - b.drawn for a, b in pairs[value] if min(a.n_clusters, b.n_clusters) > 1]
            found.append(
                GroupDifference(
                    axis,
                    value,
                    words.unmarked,
                    estimate=float(np.mean([a.sample - b.sample for a, b in pairs[value]])),
                    replicates=np.mean(several, axis=0) if several else np.empty(0),
                    # A single name cannot be swapped with names that answer more often: it has no null.
                    null=nulls[value][np.isfinite(nulls[value])] if several else np.empty(0),
                    n_names=int(clusters[axis].isin([value, words.unmarked]).sum()),
                    n_cues=len(pairs[value]),
                )
            )
    return found


def mean_difference(differences: Sequence[GroupDifference]) -> GroupDifference:
    """Mean over marked values, draw by draw; names and cues are those of the largest."""
    return GroupDifference(
        "", "", "",
        estimate=float(np.mean([one.estimate for one in differences])),
        replicates=_mean_draws([one.replicates for one in differences]),
        null=_mean_draws([one.null for one in differences]),
        n_names=max(one.n_names for one in differences),
        n_cues=max(one.n_cues for one in differences),
    )  # fmt: skip


def _mean_draws(draws: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Empty where one of them has no draws."""
    n = min(map(len, draws))
    return np.mean([values[:n] for values in draws], axis=0) if n else np.empty(0)


def difference_table(differences: Sequence[GroupDifference], confidence_level: float) -> pd.DataFrame:
    """One row per difference: comparison, axis, group, reference, difference, bounds, n_cues, p_adjusted.

    p_adjusted is p after Benjamini-Hochberg over all rows.
    """
    rows = [
        {
            "comparison": f"{one.reference} v. {one.group}", "axis": one.axis, "group": one.group,
            "reference": one.reference, "difference": one.estimate, **one.bounds(confidence_level),
            "n_cues": one.n_cues,
        }
        for one in differences
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    return table.assign(p_adjusted=benjamini_hochberg(table["p"])) if len(table) else table
