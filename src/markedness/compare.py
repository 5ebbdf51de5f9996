"""Models side by side: differences of headline scores, overlap of marked words, replication of effects.

Works on tables alone; `markedness.study` reads and writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from markedness.asked import Asked, Unlike, unlike
from markedness.cards import count
from markedness.records import FeatureTables, Unsupported
from markedness.results import JUDGE, Score
from markedness.stats import inference
from markedness.text.languages import language_name, language_of

Scores = Callable[[FeatureTables], Sequence[Score]]
"""features -> Scores with the influences of their clusters."""

DIFFERENCE_COLUMNS = (
    "audit", "score", "model_a", "model_b", "a", "b", "difference", "ci_low", "ci_high", "p", "p_adjusted",
    "detectable", "n_clusters", "method", "correction", "note",
)  # fmt: skip
OVERLAP_COLUMNS = ("kind", "group", "model_a", "model_b", "n_a", "n_b", "n_shared", "jaccard", "shared")
REPLICATION_COLUMNS = (
    "model_a", "model_b", "n", "hits", "share", "share_ci_low", "share_ci_high", "expected", "chi2", "p", "same_sign",
    "sampling_share",
)  # fmt: skip
CORRECTIONS = {"holm": "Holm", "fdr_bh": "Benjamini-Hochberg"}


@dataclass(frozen=True)
class Paired:
    """The Scores of two models on the clusters that both were asked."""

    first: Mapping[str, Score]
    """By key."""
    second: Mapping[str, Score]
    unlike: Mapping[str, str]
    """Headline key -> why the two Scores are not about the same."""
    n_shared: int
    """Clusters that both were asked."""


@dataclass
class Comparison:
    """One audit's features of every model, and how to score them."""

    audit: str
    features: Mapping[str, FeatureTables | Unsupported]
    scores: Scores
    table: str
    """The table whose clusters are shared or not."""
    cluster: str
    headline: Sequence[str]
    controls: Collection[str] = ()
    """Scripted models: their differences are a family of their own."""
    correction: str = "holm"
    confidence_level: float = 0.95
    question: str = ""
    """The column of that table that says what was asked; without it, all rows ask the same."""
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """Model -> what it was asked; of one that is not named it is not known."""
    _made: dict[tuple[str, tuple[Any, ...], tuple[Any, ...]], dict[str, Score]] = field(default_factory=dict)

    def differences(self) -> pd.DataFrame:
        """A row per pair of models and comparable headline Score, `DIFFERENCE_COLUMNS`: ``a - b``.

        Both Scores are made on the clusters and questions that both models were asked, and must be about the same
        groups and references, else the row says why it has no test; each model is scored once for each such set, so
        that the cost grows with the models. The test is of equal Scores: the difference over its standard error,
        clusters paired. p is corrected over all pairs and Scores of the audit, scripted controls apart.
        """
        rows = [row for a, b in combinations(self.features, 2) for row in self._pair(a, b)]
        table = pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS))
        return corrected(table, self.correction, self.controls)

    def paired(self, a: str, b: str) -> Paired | Unsupported:
        """The Scores of two models on the clusters that both were asked; or why there are none."""
        for name in (a, b):
            if reason := self._reason(name):
                return Unsupported(f"{name} has nothing to compare ({reason})")
        spoken = [language_name(language_of(self._rows(name))) for name in (a, b)]
        if spoken[0] != spoken[1]:
            return Unsupported(f"{a} was asked in {spoken[0]}, {b} in {spoken[1]}: what differs may be the language")
        asked = self._shared(self._values(a, self.question), self._values(b, self.question))
        if not asked and self.question:
            return Unsupported(f"no {self.question} in common; give one that both were asked one name")
        shared = self._shared(self._values(a, self.cluster, asked), self._values(b, self.cluster, asked))
        if not shared:
            return Unsupported(f"no {self.cluster} in common")
        first, second = self._scored(a, shared, asked), self._scored(b, shared, asked)
        whole = {name: self._scored(name, self._values(name, self.cluster, asked), asked) for name in (a, b)}
        reasons = {
            key: self._unlike(key, (a, b), (first[key], second[key]), whole)
            for key in self.headline
            if key in first and key in second
        }
        return Paired(first, second, {key: reason for key, reason in reasons.items() if reason}, len(shared))

    def asked_unlike(self, a: str, b: str) -> Unlike:
        """How two models were asked unlike."""
        known = a in self.asked and b in self.asked
        return unlike(self.asked[a], self.asked[b], (a, b)) if known else Unlike()

    def _pair(self, a: str, b: str) -> list[dict[str, Any]]:
        base = {"audit": self.audit, "model_a": a, "model_b": b, "method": "none", "note": "", "n_clusters": 0}
        scored = self.paired(a, b)
        if isinstance(scored, Unsupported):
            return [{**base, "score": "", "note": scored.reason}]
        first, second, asked = scored.first, scored.second, str(self.asked_unlike(a, b))
        rows = []
        for key in self.headline:
            if key not in first or key not in second or not (first[key].comparable and second[key].comparable):
                continue
            if reason := scored.unlike.get(key):
                rows.append({**base, "score": key, "a": first[key].estimate, "b": second[key].estimate, "note": reason})
                continue
            made = inference.difference(first[key], second[key], self.confidence_level)
            say = self._caveats if math.isfinite(made.p) else self._why
            rows.append(
                {
                    **base, "score": key, "a": first[key].estimate, "b": second[key].estimate,
                    "difference": made.estimate, "ci_low": made.ci_low, "ci_high": made.ci_high, "p": made.p,
                    "detectable": made.detectable, "n_clusters": max(made.clusters.values(), default=scored.n_shared),
                    "method": made.method, "note": ". ".join(filter(None, (say(first[key], second[key]), asked))),
                }
            )  # fmt: skip
        return rows

    @staticmethod
    def _caveats(first: Score, second: Score) -> str:
        """What a reader must see at the Scores themselves, and so at their difference."""
        return " ".join(dict.fromkeys(filter(None, (first.caveat, second.caveat))))

    @staticmethod
    def _why(first: Score, second: Score) -> str:
        """Why a difference has no test."""
        for score in (first, second):
            if score.missing:
                return "not measured in one of the two"
            if not score.has_interval:
                return f"too few clusters: {score.method}"
        return "the same whatever is left out: no interval"

    def _unlike(
        self, key: str, models: tuple[str, str], scores: tuple[Score, Score], whole: Mapping[str, Mapping[str, Score]]
    ) -> str:
        """Why two Scores of a key are not about the same groups and references; "" where they are.

        On the shared clusters a Score must be about the groups that it is about on all of them: else what is left is
        another question than that of the key.
        """
        for model, score in zip(models, scores, strict=True):
            own = whole[model].get(key, score)
            if not score.missing and about(score) != about(own):
                return (
                    f"the {self.cluster}s in common do not have the groups of {model}: {about(score) or 'none'} in "
                    f"place of {about(own)}"
                )
        read_by = [score.scorer for score in scores]
        if JUDGE in read_by:
            return f"read by {JUDGE}: a model may be kinder to its own words, and what differs may be the judges"
        if read_by[0] != read_by[1] and not any(score.missing for score in scores):
            return f"not read alike: by {read_by[0]} in {models[0]}, by {read_by[1]} in {models[1]}"
        first, second = (about(score) for score in scores)
        if not any(score.missing for score in scores) and first != second:
            return f"not about the same groups: {first or 'none'} in {models[0]}, {second or 'none'} in {models[1]}"
        return ""

    @staticmethod
    def _shared(first: Sequence[Any], second: Sequence[Any]) -> tuple[Any, ...]:
        known = set(second)
        return tuple(value for value in first if value in known)

    def _values(self, model: str, column: str, asked: Sequence[Any] = ()) -> tuple[Any, ...]:
        """All values of a column of a model, in one order; of these questions where some are given."""
        rows = self._rows(model)
        if column not in rows:
            return ()
        kept = rows[rows[self.question].isin(asked)] if asked else rows
        return tuple(sorted(set(kept[column].dropna()), key=str))

    def _tables(self, model: str) -> FeatureTables:
        found = self.features[model]
        return {} if isinstance(found, Unsupported) else found

    def _rows(self, model: str) -> pd.DataFrame:
        """The rows whose clusters are compared."""
        return self._tables(model).get(self.table, pd.DataFrame())

    def _reason(self, model: str) -> str:
        """Why a model cannot be compared; "" where it can."""
        found = self.features[model]
        if isinstance(found, Unsupported):
            return found.reason
        lacking = [name for name in (self.cluster, self.question) if name and name not in self._rows(model)]
        return f"no {lacking[0]}" if lacking else ""

    def _scored(self, model: str, shared: tuple[Any, ...], asked: tuple[Any, ...]) -> dict[str, Score]:
        """Scores on the shared clusters and questions."""
        key = (model, shared, asked)
        if key not in self._made:
            table = self._rows(model)
            which = table[self.cluster].isin(shared)
            if asked:
                which &= table[self.question].isin(asked)
            kept = {**self._tables(model), self.table: table[which].reset_index(drop=True)}
            self._made[key] = {score.key: score for score in self.scores(kept)}
        return self._made[key]


def about(score: Score) -> str:
    """The groups that a Score is about, with their references."""
    return score.over or (f"{score.group} - {score.reference}" if score.group or score.reference else "")


MODELS = "pairs of models"
FAMILY = "all {} and scores of this audit"
"""What a correction is over, of which pairs."""


def corrected(table: pd.DataFrame, correction: str, controls: Collection[str] = ()) -> pd.DataFrame:
    """Fill p_adjusted and correction.

    Holm over the tests that were made, Benjamini-Hochberg with the others at p = 1. Pairs with a scripted control are a
    family of their own: what scripts do must not change what is said of models.
    """
    table["p_adjusted"], table["correction"] = np.nan, ""
    scripted = table[["model_a", "model_b"]].isin(list(controls)).any(axis=1)
    for family, which in ((scripted, "pairs with a scripted control"), (~scripted, MODELS)):
        tests = f"{CORRECTIONS[correction]} over {count(int(table.loc[family, 'p'].notna().sum()), 'test')}"
        adjust = inference.holm if correction == "holm" else inference.benjamini_hochberg
        table.loc[family, "p_adjusted"] = adjust(table.loc[family, "p"].astype(float))
        table.loc[family & table["p"].isna(), "p_adjusted"] = np.nan
        table.loc[family, "correction"] = f"{tests}: {FAMILY.format(which)}"
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
