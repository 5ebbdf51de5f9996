"""Models side by side: differences of headline scores, overlap of marked words, replication of effects.

Works on tables alone; `markedness.study` reads and writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from markedness.records import FeatureTables, Unsupported
from markedness.stats.resampling import multinomial_weights
from markedness.stats.score_difference import Difference, bootstrap_difference, jackknife_difference

Scores = Callable[[FeatureTables], Mapping[str, float]]
"""features -> the headline estimates; rows of a cluster drawn twice stand twice."""

DIFFERENCE_COLUMNS = (
    "audit", "score", "model_a", "model_b", "a", "b", "difference", "ci_low", "ci_high", "standard_error", "p",
    "p_adjusted", "n_clusters", "method", "correction", "note",
)  # fmt: skip
OVERLAP_COLUMNS = ("kind", "group", "model_a", "model_b", "n_a", "n_b", "n_shared", "jaccard", "shared")
REPLICATION_COLUMNS = (
    "model_a", "model_b", "n", "hits", "share", "share_ci_low", "share_ci_high", "expected", "chi2", "p", "same_sign",
    "sampling_share",
)  # fmt: skip
_BLOCKS = 10
CORRECTIONS = {"holm": "Holm", "fdr_bh": "Benjamini-Hochberg"}


@dataclass
class Comparison:
    """One audit's features of every model, and how to score them."""

    audit: str
    features: Mapping[str, FeatureTables | Unsupported]
    scores: Scores
    table: str
    """The table whose clusters are drawn."""
    cluster: str
    n_resamples: int = 200
    bootstrap_from: int = 30
    blocks_below: int = 5
    confidence_level: float = 0.95
    correction: str = "holm"
    seed: Sequence[int] = (0,)
    _replicates: dict[tuple[str, tuple[Any, ...]], pd.DataFrame] = field(default_factory=dict)

    def differences(self) -> pd.DataFrame:
        """A row per pair of models and score, `DIFFERENCE_COLUMNS`: ``a - b`` on the clusters that both have.

        With at least ``bootstrap_from`` shared clusters the standard error is that of a bootstrap that draws the
        same clusters for both models, else that of a jackknife; both with a t interval. Fewer than
        ``blocks_below`` clusters say nothing of other ones: then blocks of answers are left out, and the interval
        is one for these clusters asked again. p is corrected over all pairs and scores of the audit.
        """
        rows = [row for a, b in combinations(self.features, 2) for row in self._pair(a, b)]
        table = pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS))
        return corrected(table, self.correction)

    def _pair(self, a: str, b: str) -> list[dict[str, Any]]:
        base = {"audit": self.audit, "model_a": a, "model_b": b, "method": "none", "note": ""}
        for name in (a, b):
            if reason := self._reason(name):
                note = f"{name} has nothing to compare ({reason})"
                return [{**base, "score": "", "n_clusters": 0, "note": note}]
        known = set(self._rows(b)[self.cluster].dropna())
        shared = tuple(sorted({c for c in self._rows(a)[self.cluster].dropna() if c in known}, key=str))
        n = len(shared)
        if not n:
            return [{**base, "score": "", "n_clusters": 0, "note": f"no {self.cluster} in common"}]
        by_block = n < self.blocks_below and all("sample" in self._rows(name) for name in (a, b))
        first, second = self._scored(a, shared, by_block), self._scored(b, shared, by_block)
        rows = []
        for score in [name for name in first.columns if name in second.columns]:
            x, y = _same_length(first[score].to_numpy(float), second[score].to_numpy(float))
            found = self._interval(x - y, n)
            note = self._note(n, by_block)
            if np.isnan(found.p) and not np.isnan(found.standard_error):
                note = "; ".join(filter(None, (note, "the same whatever is left out: no interval")))
            rows.append(
                {
                    **base, "score": score, "a": x[0], "b": y[0], "difference": found.estimate, "ci_low": found.low,
                    "ci_high": found.high, "standard_error": found.standard_error, "p": found.p, "n_clusters": n,
                    "method": self._method(n, by_block), "note": note,
                }
            )  # fmt: skip
        return rows

    def _method(self, n: int, by_block: bool) -> str:
        if by_block:
            return "jackknife over blocks of answers, t interval"
        if n == 1:
            return "none"
        return "bootstrap over clusters, t interval" if self._bootstraps(n) else "jackknife over clusters, t interval"

    def _note(self, n: int, by_block: bool) -> str:
        if by_block:
            return f"only {n} {self.cluster} in common: the interval holds for asking these again, not for others"
        return "one cluster: no interval" if n == 1 else ""

    def _tables(self, model: str) -> FeatureTables:
        found = self.features[model]
        return {} if isinstance(found, Unsupported) else found

    def _rows(self, model: str) -> pd.DataFrame:
        """The rows whose clusters are drawn."""
        return self._tables(model).get(self.table, pd.DataFrame())

    def _reason(self, model: str) -> str:
        """Why a model cannot be compared; "" where it can."""
        found = self.features[model]
        if isinstance(found, Unsupported):
            return found.reason
        return "" if self.cluster in self._rows(model) else f"no {self.cluster}"

    def _bootstraps(self, n_clusters: int) -> bool:
        return n_clusters >= self.bootstrap_from

    def _interval(self, values: np.ndarray, n_clusters: int) -> Difference:
        if self._bootstraps(n_clusters):
            return bootstrap_difference(values[0], values[1:], n_clusters, self.confidence_level)
        return jackknife_difference(values[0], values[1:], self.confidence_level)

    def _scored(self, model: str, shared: tuple[Any, ...], by_block: bool) -> pd.DataFrame:
        """Scores on the shared clusters (row 0), then on each resample; the same resamples for every model."""
        key = (model, (*shared, by_block))
        if key not in self._replicates:
            table = self._rows(model)
            table = table[table[self.cluster].isin(shared)]
            # A block holds a tenth of the answers to each prompt for each group, by their number.
            units = table["sample"].mod(_BLOCKS) if by_block else table[self.cluster]
            order = range(_BLOCKS) if by_block else shared
            codes = units.map({unit: i for i, unit in enumerate(order)}).to_numpy(float)
            rows = [found for i in range(len(order)) if len(found := np.flatnonzero(codes == i)) or not by_block]
            weights = np.vstack([np.ones((1, len(rows)), dtype=int), self._weights(len(rows))])
            made = [self._score(model, table, rows, row) for row in weights]
            self._replicates[key] = pd.DataFrame(made)
        return self._replicates[key]

    def _weights(self, n: int) -> np.ndarray:
        """How often each cluster stands in each resample."""
        if self._bootstraps(n):
            return multinomial_weights(n, self.n_resamples, np.random.default_rng([*self.seed, n]))
        return 1 - np.eye(n, dtype=int) if n > 1 else np.empty((0, n), dtype=int)

    def _score(self, model: str, table: pd.DataFrame, rows: list[np.ndarray], weights: np.ndarray) -> dict[str, float]:
        places = np.concatenate([np.tile(rows[i], weights[i]) for i in np.flatnonzero(weights)])
        drawn = {**self._tables(model), self.table: table.iloc[places].reset_index(drop=True)}
        return {name: float(value) for name, value in self.scores(drawn).items()}


def _same_length(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks that only one model has, because it gave more answers, are left out of the spread."""
    n = min(len(x), len(y))
    return x[:n], y[:n]


def corrected(table: pd.DataFrame, correction: str) -> pd.DataFrame:
    """Fill p_adjusted and correction; tests that could not be made are no members of the family."""
    from statsmodels.stats.multitest import multipletests

    tested = table["p"].notna()
    n = int(tested.sum())
    table["p_adjusted"] = np.nan
    if n:
        table.loc[tested, "p_adjusted"] = multipletests(table.loc[tested, "p"].astype(float), method=correction)[1]
    table["correction"] = f"{CORRECTIONS[correction]} over {n} tests: all pairs of models and scores of this audit"
    return table


def word_overlap(marked: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Marked words that two models share, per kind of text and group: `OVERLAP_COLUMNS`.

    Parameters
    ----------
    marked
        Model -> its marked_words table; a word is in it when it is significant. Jaccard: shared / in either; NaN
        where neither model marks a word.
    """
    lists = {model: _lists(table) for model, table in marked.items()}
    rows = []
    for a, b in combinations(lists, 2):
        for key in sorted(lists[a].keys() | lists[b].keys()):
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
