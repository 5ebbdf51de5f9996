"""Models side by side: differences of headline scores.

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
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype
from pandas.util import hash_pandas_object

from markedness.asked import Asked, Unlike, first_asked, unlike, unlike_shares
from markedness.audits.base import Comparable
from markedness.cards import count
from markedness.in_common import ASKED, asked_alike, chosen, in_common, left_out, sentences
from markedness.records import FeatureTables, Unsupported
from markedness.results import JUDGE, Score, not_estimated
from markedness.stats import inference
from markedness.text.languages import language_name, language_of

Scores = Callable[[FeatureTables], Sequence[Score]]
"""features -> Scores with the influences of their clusters."""

DIFFERENCE_COLUMNS = (
    "audit", "score", "model_a", "model_b", "a", "b", "difference", "ci_low", "ci_high", "p", "p_adjusted",
    "detectable", "n_clusters", "method", "correction", "note",
)  # fmt: skip
ONE = "not measured in one of the two"
APART = "not measured on what both were asked and answered"
"""Why a Score is not compared that a model has on all that it was asked."""
OTHER_SHARES = "what the two answered is of prompts, groups or names in other shares, which may be what differs"
ALIKE = "the same whatever is left out: no interval"
CORRECTIONS = {"holm": "Holm", "fdr_bh": "Benjamini-Hochberg"}


@dataclass(frozen=True)
class Paired:
    """The Scores of two models on the clusters that both were asked and answered."""

    first: Mapping[str, Score]
    """By key."""
    second: Mapping[str, Score]
    unlike: Mapping[str, str]
    """Headline key -> why the two Scores are not about the same."""
    n_shared: int
    """Clusters that both were asked and answered."""
    left_out: str = ""
    """What one was asked alone, or answered alone, so that it does not count: a sentence without a full stop."""


@dataclass(frozen=True)
class _Shared:
    """Model -> its tables, of the questions of both, of the clusters and questions of both, and of those answered."""

    questions: Mapping[str, FeatureTables]
    asked: Mapping[str, FeatureTables]
    answered: Mapping[str, FeatureTables]
    columns: Sequence[str]
    why: str = ""
    """Why there is nothing that both answered, so that ``answered`` is what both were asked."""


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
    comparable: Comparable | None = None
    """What keeps two models to what both answered, before clusters and questions do."""
    answered: Sequence[str] = ()
    """The columns of that table of which one is set, or a number, where a row has an answer that counts."""
    missing_key: str = ""
    """The Score that asks what is missing: it is made on what both were asked, the others on what both answered."""
    compared_on: Sequence[str] = ()
    """Further columns of that table that say what was asked, where both models have them and share a value."""
    sides: Sequence[Sequence[str]] = ()
    """Columns of that table that count what was asked about each text of a row: it was asked where each has some."""
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """Model -> what it was asked; of one that is not named it is not known."""
    counts: str = ""
    """The column of that table that counts the answers of each row; without it a row is one."""
    _made: dict[tuple[str, bytes], dict[str, Score]] = field(default_factory=dict)

    def differences(self) -> pd.DataFrame:
        """A row per pair of models and comparable headline Score, `DIFFERENCE_COLUMNS`: ``a - b``.

        Both Scores are made on the rows that both models were asked and answered, alike in question, cluster and
        ``compared_on``, and must be about the same groups and references, else the row says why it has no test. Each
        model is scored once for each such set. The test is of equal Scores: the difference over its standard error,
        clusters paired. p is corrected over all pairs and Scores of the audit, scripted controls apart.
        """
        rows = [row for a, b in combinations(self.features, 2) for row in self._pair(a, b)]
        table = pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS))
        return corrected(table, self.correction, self.controls)

    def paired(self, a: str, b: str) -> Paired | Unsupported:
        """The Scores of two models on what both were asked and answered; or why there are none."""
        for name in (a, b):
            if reason := self._reason(name):
                return Unsupported(f"{name} has nothing to compare ({reason})")
        spoken = [language_name(language_of(self._rows(name))) for name in (a, b)]
        if spoken[0] != spoken[1]:
            return Unsupported(f"{a} was asked in {spoken[0]}, {b} in {spoken[1]}: what differs may be the language")
        shared = self._of_both(a, b)
        if isinstance(shared, Unsupported):
            return shared
        first, second = (self._of(name, shared) for name in (a, b))
        whole = {name: self._scored(name, shared.questions[name]) for name in (a, b)}
        reasons = {
            key: self._unlike(key, (a, b), (first[key], second[key]), whole)
            for key in self.headline
            if key in first and key in second
        }
        reasons |= {key: shared.why for key in self.headline if shared.why and key != self.missing_key}
        shares = {asked: self._unlike_shares(shared, asked) for asked in (True, False)}
        reasons |= {key: OTHER_SHARES for key in self.headline if shares[key == self.missing_key] > inference.NO_TEST}
        found = {key: reason for key, reason in reasons.items() if reason}
        for key in self.headline:
            if key not in found and not any(_measured(one.get(key)) for one in (first, second)):
                apart = [self._scored(name, self._tables(name)).get(key) for name in (a, b)]
                found |= {key: APART} if any(map(_measured, apart)) else {}
        columns = [name for name in dict.fromkeys((*self.compared_on, self.question, self.cluster)) if name]
        out = left_out({name: (self._rows(name), *self._parted(name, shared)) for name in (a, b)}, columns)
        out = sentences(filter(None, (out, OTHER_SHARES if max(shares.values()) > inference.UNLIKE else "")))
        return Paired(first, second, found, shared.answered[a][self.table][self.cluster].nunique(), out)

    def asked_unlike(self, a: str, b: str) -> Unlike:
        """How two models were asked unlike."""
        known = a in self.asked and b in self.asked
        return unlike(self.asked[a], self.asked[b], (a, b)) if known else Unlike()

    def _pair(self, a: str, b: str) -> list[dict[str, Any]]:
        base = {"audit": self.audit, "model_a": a, "model_b": b, "method": "none", "note": "", "n_clusters": 0}
        scored = self.paired(a, b)
        if isinstance(scored, Unsupported):
            return [{**base, "score": "", "note": scored.reason}]
        unlike = self.asked_unlike(a, b)
        rows = []
        for key in self.headline:
            first, second = (one.get(key, not_estimated(key)) for one in (scored.first, scored.second))
            row = {**base, "score": key, "a": first.estimate, "b": second.estimate}
            reason = scored.unlike.get(key) or _alone(first, second)
            if not (first.comparable or second.comparable or reason == APART):
                continue
            if reason or not (first.comparable and second.comparable):
                rows.append({**row, "note": reason or "not comparable in one of the two"})
                continue
            made = inference.difference(first, second, self.confidence_level)
            why = "" if math.isfinite(made.p) else self._why(first, second, made)
            said = filter(None, (why, made.caveat, unlike.otherwise, unlike.more, scored.left_out))
            rows.append(
                {
                    **row, "difference": made.estimate, "ci_low": made.ci_low, "ci_high": made.ci_high, "p": made.p,
                    "detectable": made.detectable, "n_clusters": max(made.clusters.values(), default=scored.n_shared),
                    "method": made.method, "note": sentences(said),
                }
            )  # fmt: skip
        return rows

    @staticmethod
    def _why(first: Score, second: Score, difference: Score) -> str:
        """Why a difference has no test."""
        if first.missing or second.missing:
            return ONE
        if difference.method.startswith(inference.NO_INTERVAL):
            return difference.method
        bare = next((score for score in (first, second) if not score.has_interval), None)
        return f"too few clusters: {bare.method}" if bare else ALIKE

    def _unlike(
        self, key: str, models: tuple[str, str], scores: tuple[Score, Score], whole: Mapping[str, Mapping[str, Score]]
    ) -> str:
        """Why two Scores of a key are not about the same groups and references; "" where they are.

        On the shared clusters a Score must be about the groups that it is about on all of them: else what is left is
        another question than that of the key.
        """
        for model, score in zip(models, scores, strict=True):
            own = whole[model].get(key, score)
            if not (score.missing or own.missing) and about(score) != about(own):
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
        known = key != self.missing_key or (first and second)  # where all is missing, its groups may not be known
        if known and not any(score.missing for score in scores) and first != second:
            return f"not about the same groups: {first or 'none'} in {models[0]}, {second or 'none'} in {models[1]}"
        return ""

    def _unlike_shares(self, shared: _Shared, asked: bool) -> float:
        """How unlike the shares are in which two models have what both were asked; 0 where each row has its like."""
        tables = [of_model[self.table] for of_model in (shared.asked if asked else shared.answered).values()]
        tables = [rows[first_asked(rows) if asked else self._there(rows)] for rows in tables]
        return 0.0 if self.comparable else unlike_shares(tables, shared.columns, self.counts)

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

    def _of_both(self, a: str, b: str) -> _Shared | Unsupported:
        """The rows of two models that ask the same."""
        tables = {name: self._tables(name) for name in (a, b)}
        tables = self.comparable(tables) if self.comparable else tables
        rows = [of_model.get(ASKED, of_model[self.table]) for of_model in tables.values()]
        rows = [of_model[of_model[self.cluster].notna()] for of_model in rows]
        for side in self.sides:
            rows = [of_model[of_model[list(side)].gt(0).any(axis=1)] for of_model in rows]
        columns = [column for column in (self.question, self.cluster) if column]
        if self.question:
            rows = chosen(rows, in_common(rows, columns[:1]))
            if rows[0].empty:
                return Unsupported(f"no {self.question} in common; give one that both were asked one name")
        asked = chosen(rows, in_common(rows, columns))
        if asked[0].empty:
            return Unsupported(f"no {self.cluster} in common")
        columns = asked_alike(asked, columns, self.compared_on, self.cluster)
        asked = chosen(asked, in_common(asked, columns))
        answered = [of_model[self.table] for of_model in tables.values()] if self.comparable else asked
        if self.answered and not self.comparable:
            there = [of_model[self._there(of_model)] for of_model in asked]
            answered = chosen(asked, in_common(asked, columns, there))
        why = f"no {self.cluster} that both answered" if any(of_model.empty for of_model in answered) else ""
        if why and not self.missing_key:
            return Unsupported(why)
        answered = asked if why else answered
        found = [
            {name: {**tables[name], self.table: of_model} for name, of_model in zip(tables, part, strict=True)}
            for part in (rows, asked, answered)
        ]
        return _Shared(found[0], found[1], found[2], columns, why)

    def _there(self, rows: pd.DataFrame) -> NDArray[np.bool_]:
        """Which rows have an answer that counts."""
        found = np.zeros(len(rows), dtype=bool)
        for values in (rows[name] for name in self.answered):
            found |= (values.eq(True).fillna(False) if is_bool_dtype(values) else values.notna()).to_numpy(dtype=bool)
        return found if self.answered else ~found

    def _values(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Which values of its answer each row has."""
        return rows.reindex(columns=list(self.answered)).notna()

    def _parted(self, model: str, shared: _Shared) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rows of a model that are left out, and those that are compared.

        Left out is what it was asked alone, and what it answered, or a part of it, where the other did not.
        """
        rows, kept = self._rows(model), shared.answered[model][self.table]
        asked = rows.index.isin(shared.asked[model][self.table].index)
        lost = self._values(rows) & ~self._values(kept).reindex(rows.index, fill_value=False)
        compared = rows.index.isin(kept.index)
        out = ~asked | (self._there(rows) & (~compared | lost.any(axis=1).to_numpy()))
        return rows[out], rows[compared & ~out]

    def _of(self, model: str, shared: _Shared) -> dict[str, Score]:
        """Scores on what both answered; whether answers are missing, on what both were asked."""
        missing = self._scored(model, shared.asked[model]).get(self.missing_key) if self.missing_key else None
        made = self._scored(model, shared.answered[model])
        return made if missing is None else {**made, self.missing_key: missing}

    def _scored(self, model: str, tables: FeatureTables) -> dict[str, Score]:
        """Scores of these rows of a model's table, which keep their index."""
        table, all_rows = tables[self.table], self._rows(model)
        content = hash_pandas_object(table).to_numpy().tobytes()
        whole = len(table) == len(all_rows) and content == hash_pandas_object(all_rows).to_numpy().tobytes()
        key = model, b"" if whole else content
        if key not in self._made:
            kept = {**self._tables(model), self.table: all_rows if whole else table.reset_index(drop=True)}
            self._made[key] = {score.key: score for score in self.scores(kept)}
        return self._made[key]


def _measured(score: Score | None) -> bool:
    """Whether there is such a Score, and models are compared by it."""
    return score is not None and score.comparable and not score.missing


def _alone(first: Score, second: Score) -> str:
    """Why a Score that one of two models lacks is not compared; "" where both or none have it."""
    return ONE if _measured(first) != _measured(second) and (first.missing or second.missing) else ""


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
        family = family & table["score"].ne("")  # a pair with nothing to compare is no score
        known = table.loc[family, "p"].notna()
        tests = f"{CORRECTIONS[correction]} over {count(int(known.sum()), 'test')}"
        if correction != "holm" and not known.all():
            tests += f" and {int((~known).sum()):,} that could not be made, at p = 1"
        adjust = inference.holm if correction == "holm" else inference.benjamini_hochberg
        table.loc[family, "p_adjusted"] = adjust(table.loc[family, "p"].astype(float))
        table.loc[family, "correction"] = f"{tests}: {FAMILY.format(which)}"
    return table
