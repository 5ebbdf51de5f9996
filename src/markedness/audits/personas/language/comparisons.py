"""The words of each group against those of its unmarked groups, as tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.audits.personas.language.contrasts import LogOddsPrior, contrast_log_odds, divergence
from markedness.audits.personas.language.groups import Grouping
from markedness.audits.personas.language.word_counts import WordCounts

COMPARISON_COLUMNS = {
    "kind": "category", "group": "category", "reference": "category", "marked": "bool", "jsd": "float64",
    "prior": "category", "prior_scale": "float64",
}  # fmt: skip
WORD_COLUMNS = {
    "kind": "category", "group": "category", "reference": "category", "word": "category", "count_target": "int64",
    "count_reference": "int64", "log_odds_ratio": "float64", "z": "float64", "jsd_contribution": "float64",
    "jsd_share": "float64", "jsd_side": "float64",
}  # fmt: skip


def compare_words(
    counts: WordCounts, grouping: Grouping, kind: str, prior: LogOddsPrior
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Every word of one kind of text in every comparison.

    Parameters
    ----------
    counts
        Of n texts.
    grouping
        Of the same texts.
    kind
        "persona" or "story".
    prior
        Of the log-odds.

    Returns
    -------
    comparisons : DataFrame
        `COMPARISON_COLUMNS`, one row per group and reference. ``marked``: whether all values of the group are marked.
        ``jsd``: divergence in bits of the group's texts from those of all its references together, the same in each
        row of the group.
    words : DataFrame
        `WORD_COLUMNS`, one row per comparison and word of the vocabulary. ``log_odds_ratio``, ``z``: positive where
        the word is more typical of the group. ``jsd_*``: the word's part in the ``jsd`` of the group; side 1 where the
        word is relatively more frequent in the group's texts. NaN where one side has no words.
    """
    if not grouping.compared or not (counts.words != "").any():
        return pd.DataFrame(columns=list(COMPARISON_COLUMNS)), pd.DataFrame(columns=list(WORD_COLUMNS))
    contrasts = grouping.contrasts
    pooled = counts.pooled(grouping.combination, grouping.n_combinations)
    log_ratio, z = contrast_log_odds(pooled, contrasts, prior)
    total, contribution, share, side = (values[contrasts.group] for values in divergence(pooled, contrasts))
    pairs = [(group, reference) for group in grouping.compared for reference, _ in group.references]
    comparisons = pd.DataFrame(
        {
            "kind": kind, "group": [group.name for group, _ in pairs], "reference": [name for _, name in pairs],
            "marked": [group.marked for group, _ in pairs], "jsd": total, "prior": prior.prior,
            "prior_scale": prior.scale,
        }
    )  # fmt: skip
    n_contrasts, n_words = z.shape
    words = comparisons.loc[np.repeat(np.arange(n_contrasts), n_words), ["kind", "group", "reference"]]
    columns = {
        "count_target": contrasts.targets @ pooled, "count_reference": contrasts.references @ pooled,
        "log_odds_ratio": log_ratio, "z": z, "jsd_contribution": contribution, "jsd_share": share, "jsd_side": side,
    }  # fmt: skip
    words = words.reset_index(drop=True).astype("category").assign(word=np.tile(counts.words, n_contrasts))
    return comparisons, words.assign(**{name: values.ravel() for name, values in columns.items()})
