"""Tables of several models side by side: overlap of marked words, replication of effects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import pandas as pd

OVERLAP_COLUMNS = ("kind", "group", "model_a", "model_b", "n_a", "n_b", "n_shared", "jaccard", "shared")
REPLICATION_COLUMNS = (
    "model_a", "model_b", "n", "hits", "share", "share_ci_low", "share_ci_high", "expected", "chi2", "p", "same_sign",
    "sampling_share",
)  # fmt: skip


def word_overlap(marked: Mapping[str, pd.DataFrame], by_group: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Marked words that two models share, per kind of text and group that both compare: `OVERLAP_COLUMNS`.

    Parameters
    ----------
    marked
        Model -> its marked_words table; a word is in it when it is significant. Jaccard: shared / in either; NaN
        where neither model marks a word.
    by_group
        Model -> its marked_words_by_group table: the kinds and groups that it compares.
    """
    compares = {model: set(_lists(table.assign(word=""))) for model, table in by_group.items()}
    lists = {model: _lists(table) for model, table in marked.items()}
    rows = []
    for a, b in combinations(lists, 2):
        for key in sorted((lists[a].keys() | lists[b].keys()) & compares.get(a, set()) & compares.get(b, set())):
            first, second = lists[a].get(key, []), lists[b].get(key, [])
            both = [word for word in first if word in set(second)]
            either = len(set(first) | set(second))
            jaccard = len(both) / either if either else math.nan
            rows.append((*key, a, b, len(first), len(second), len(both), jaccard, " ".join(both)))
    return pd.DataFrame(rows, columns=list(OVERLAP_COLUMNS))


def _lists(table: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """(kind, group) -> words in their order."""
    if not {"group", "word"} <= set(table.columns):
        return {}
    kind = table["kind"].astype(str) if "kind" in table else pd.Series("", index=table.index)
    named = table.assign(kind=kind, word=table["word"].astype(str))
    return {(str(k), str(g)): list(dict.fromkeys(rows["word"])) for (k, g), rows in named.groupby(["kind", "group"])}


def stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One table of several models, the column ``model`` first: the pooled effects make table 2 of homogeneity."""
    parts = [table.assign(model=model) for model, table in tables.items()]
    made = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["model"])
    return made[["model", *(name for name in made if name != "model")]]


def replications(effects: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Share of one model's single-axis effects that lie in another's intervals, both ways: `REPLICATION_COLUMNS`.

    Parameters
    ----------
    effects
        Model -> its effects table (comparison, cue, d, n_resamples).
    """
    from markedness.audits.homogeneity.replication import replication

    usable = _usable(effects)
    rows = []
    for a in usable:
        for b in usable:
            if a != b:
                found = replication(usable[a], usable[b])._asdict()
                rows.append({"model_a": a, "model_b": b, **{k: v for k, v in found.items() if k != "table"}})
    return pd.DataFrame(rows, columns=list(REPLICATION_COLUMNS))


def replicated_effects(effects: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Single-axis effects of each pair of models side by side: model_a, model_b and the columns of a replication."""
    from markedness.audits.homogeneity.replication import replication

    usable = _usable(effects)
    tables = [replication(usable[a], usable[b]).table.assign(model_a=a, model_b=b) for a, b in combinations(usable, 2)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["model_a", "model_b"])


def _usable(effects: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    from markedness.audits.homogeneity.replication import single_axis

    needed = {"comparison", "cue", "d", "n_resamples"}
    return {
        model: single_axis(table) for model, table in effects.items() if needed <= set(table.columns) and len(table)
    }
