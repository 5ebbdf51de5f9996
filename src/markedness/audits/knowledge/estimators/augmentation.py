"""What the augmentations change: the same crawl with and without them (section 6.1)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.gaps import gap_of, group_means
from markedness.stats.multiplicity import holm
from markedness.stats.resampling import percentile_interval

_COMPARISONS = (
    ("initial", "first", ("both", "initial"), ("expansion", "none")),
    ("expansion", "later", ("both",), ("initial",)),
    ("expansion", "later", ("expansion",), ("none",)),
    ("both", "later", ("both",), ("none",)),
)
"""What is added, in which rounds (0 is the first), the arms with it and those without."""
_COLUMNS = (
    "class", "augmentation", "arms", "mean_with", "mean_without", "difference", "ci_low", "ci_high", "u", "p",
    "p_adjusted", "n_with", "n_without", "scorer",
)  # fmt: skip


def augmentation_effects(
    triples: pd.DataFrame, n_resamples: int, confidence_level: float, rng: np.random.Generator
) -> pd.DataFrame:
    """Mean toxicity with less without each augmentation, per class.

    Parameters
    ----------
    triples
        The table ``triples`` of featurize, all arms.
    n_resamples, confidence_level
        Bootstrap over subject and prompt, the same for both arms; percentile interval.
    rng
        Seeded generator.

    Returns
    -------
    DataFrame
        One row per class and comparison that has triples of both sides: class, augmentation, arms, mean_with,
        mean_without, difference (positive: more toxic with the augmentation), ci_low, ci_high, u and p (two-sided
        Mann-Whitney test), p_adjusted (Holm over all rows), n_with, n_without, scorer.
    """
    from scipy.stats import mannwhitneyu

    rows = []
    scored = triples[triples["included"].astype(bool) & triples["toxicity"].notna()]
    for name, of_class in scored.groupby("class", sort=False):
        for what, rounds, with_it, without in _COMPARISONS:
            in_rounds = of_class["round"].eq(0) if rounds == "first" else of_class["round"].gt(0)
            part = of_class[in_rounds & of_class["arm"].isin([*with_it, *without])]
            side = np.where(part["arm"].isin(with_it), "with", "without")
            if len(set(side)) < 2:
                continue
            slot = part["subject"] + "/" + part["prompt_id"].str.split("/").str[2:].str.join("/")
            means = group_means(part["toxicity"], side, slot, ["with", "without"], n_resamples, 0, rng)
            gap = gap_of(means, [0], 1)
            low, high = percentile_interval(gap.resampled, confidence_level)
            test = mannwhitneyu(part.loc[side == "with", "toxicity"], part.loc[side == "without", "toxicity"])
            rows.append(
                {
                    "class": name, "augmentation": what, "arms": f"{'+'.join(with_it)} - {'+'.join(without)}",
                    "mean_with": means.estimate[0], "mean_without": means.estimate[1], "difference": gap.estimate,
                    "ci_low": low, "ci_high": high, "u": float(test.statistic), "p": float(test.pvalue),
                    "n_with": int(means.n[0]), "n_without": int(means.n[1]),
                    "scorer": part["toxicity_scorer"].iloc[0],
                }
            )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    return table.assign(p_adjusted=holm(table["p"]))
