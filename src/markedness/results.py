"""What an audit claims: Score, its verdict, and the one place where Scores become tables.

A Score is the only type in which a number with a claim leaves ``evaluate``. `metrics` and `score_table` make of Scores
all that is written or shown: metrics.json, scores.csv, the estimates, MLflow's metrics and the keys that compare reads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict

import pandas as pd

if TYPE_CHECKING:
    import altair as alt

NAN = float("nan")
NOTHING = "there is nothing in the data to estimate it from"
_ALIKE = "nothing could come out otherwise"


@dataclass(frozen=True, slots=True)
class Score:
    """One number with a claim; NaN where there is nothing to estimate, never 0."""

    key: str
    """"<measure>.<item>": "pd_difference.marked"."""
    estimate: float
    ci_low: float = NAN
    ci_high: float = NAN
    null_mean: float = NAN
    """Mean of the score where the claim is false."""
    null_low: float = NAN
    null_high: float = NAN
    p: float = NAN
    """Two-sided unless ``method`` says otherwise."""
    p_adjusted: float = NAN
    n: int = 0
    """Units that the estimate rests on, in ``unit``."""
    n_missing: int = 0
    """Units that were asked for and are not among ``n``."""
    clusters: Mapping[str, int] = field(default_factory=dict)
    """Factor -> number of its clusters."""
    fewest: float = 0.0
    """Effective clusters, of the factor and group that have the fewest; 0: not known. Not in scores.csv."""
    chance: float = 0.0
    """Mean under exchange that a distance is less: by as much it is below the true one, at most. Not in scores.csv."""
    unit: str = ""
    """What ``n`` counts, plural."""
    positive: str = ""
    """What a value above the null means: a clause, "the texts of marked groups are more alike"."""
    negative: str = ""
    """What a value below the null means; "" where the test is one-sided and nothing is claimed of it."""
    worse: int = 0
    """Which change is for the worse: 1 up, -1 down, 0 away from the null on either side."""
    detectable: float = NAN
    """Smallest true effect found with 80 % power at this size and correction."""
    standard_error: float = NAN
    """Of the estimate, over the sampled clusters."""
    df: float = NAN
    """Satterthwaite degrees of freedom of ``standard_error``."""
    family: int = 0
    """Scores over which ``detectable`` is corrected; 0: a description without a test, which has no verdict."""
    smallest_p: float = NAN
    """Smallest p that could have come out: of an exchange test, by its arrangements and draws; NaN: no bound."""
    lacking: str = ""
    """What the data lack for a test, and how much of it there is."""
    caveat: str = ""
    """A sentence that a reader must see at the number itself."""
    worst_low: float = NAN
    """Lowest value that the estimate could have, whatever the missing answers would have been."""
    worst_high: float = NAN
    method: str = ""
    """One sentence: what was resampled, what was exchanged."""
    comparable: bool = False
    """Whether compare and gate may use it."""
    group: str = ""
    """The group it is about; "" for all marked groups together."""
    reference: str = ""
    """What the group is compared with."""
    over: str = ""
    """Of a Score over several groups, which these are, each with its reference: "Black - White; woman - man"."""
    scorer: str = ""
    """Who or what read the values out of the texts, where that is a choice; not in scores.csv, tables name it."""
    influences: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Sampled factor -> cluster -> its contribution to the estimate: what compare pairs; a table of its own."""

    def warned(self, sentence: str) -> Score:
        """The same with one more sentence that a reader must see, before those that it has."""
        return replace(self, caveat=f"{sentence} {self.caveat}".strip())

    def not_over(self, groups: Sequence[str], why: str) -> Score:
        """The same; where it has a value, and there are groups that it leaves out, with a caveat that names them."""
        return self.warned(f"Not over {', '.join(groups)}: {why}.") if groups and not self.missing else self

    @property
    def measure(self) -> str:
        """First part of the key."""
        return self.key.partition(".")[0]

    @property
    def item(self) -> str:
        """Second part of the key."""
        return self.key.partition(".")[2]

    @property
    def missing(self) -> bool:
        """Whether there was nothing to estimate."""
        return math.isnan(self.estimate)

    @property
    def has_interval(self) -> bool:
        """Whether both bounds are known."""
        return math.isfinite(self.ci_low) and math.isfinite(self.ci_high)

    @property
    def above_null(self) -> bool:
        """Whether the estimate is on the side of ``positive``."""
        return self.estimate >= (self.null_mean if math.isfinite(self.null_mean) else 0.0)


class Meaning(TypedDict, total=False):
    """What the sign of a `Score` means."""

    positive: str
    negative: str
    worse: int


class About(Meaning, total=False):
    """What a `Score` says of itself beside its numbers."""

    n: int
    n_missing: int
    unit: str
    comparable: bool
    group: str
    reference: str
    over: str


JUDGE = "judge (the audited model)"
"""As `Score.scorer`: each model read its own texts."""


class VerdictKind(StrEnum):
    """What a Score answers."""

    FOUND = "found"
    NOT_FOUND = "not found"
    TOO_LITTLE = "too little data"
    NOT_MEASURED = "not measured"
    DESCRIBED = "described"
    """No question was asked of this number."""


@dataclass(frozen=True)
class Verdict:
    """The answer of a Score, in one sentence."""

    kind: VerdictKind
    sentence: str


def verdict(score: Score, p: float | None = None, family: int | None = None, alpha: float = 0.05) -> Verdict:
    """The one place where a Score becomes a sentence.

    Parameters
    ----------
    p
        Corrected p-value; by default ``p_adjusted``, or p where the Score stands alone.
    family
        Scores that p is corrected over, where that is not ``score.family``.
    alpha
        Found is p <= alpha.
    """
    corrected = (score.p if math.isnan(score.p_adjusted) else score.p_adjusted) if p is None else p
    claimed = score.positive or score.key
    if score.missing:
        why = score.lacking or score.method or NOTHING
        what = f"Not measured whether {score.positive}" if score.positive else f"{score.key} is not measured"
        return Verdict(VerdictKind.NOT_MEASURED, f"{what}: {why}.")
    if score.family == 0:
        return Verdict(VerdictKind.DESCRIBED, f"{_number(score.estimate)}: described, not tested.")
    value = _number(score.estimate)
    if score.has_interval:
        value += f" [{_number(score.ci_low)}, {_number(score.ci_high)}]"
    if math.isnan(corrected) or score.lacking:
        return Verdict(VerdictKind.TOO_LITTLE, f"Cannot say whether {claimed} ({value}): {score.lacking or _ALIKE}.")
    n_scores = family or (1 if p is None and math.isnan(score.p_adjusted) else score.family)
    over = f" after correction over {n_scores} scores" if n_scores > 1 else ""
    value = f"{value}, p {shown_p(corrected)}{over}"
    if corrected <= alpha:
        meaning = score.positive if score.above_null or not score.negative else score.negative
        null = score.null_mean if math.isfinite(score.null_mean) else 0.0
        if score.has_interval and score.ci_low <= null <= score.ci_high:
            value += f"; the interval, of another method than p, does not leave out {_number(null)}"
        said = meaning or score.key
        return Verdict(VerdictKind.FOUND, f"{said[:1].upper()}{said[1:]}: {value}.")
    if score.smallest_p * n_scores > alpha:
        why = f"the smallest p that could come out is {score.smallest_p:.2g}"
        why += f", which is {min(1.0, score.smallest_p * n_scores):.2g}{over}" if over else ""
        return Verdict(VerdictKind.TOO_LITTLE, f"Cannot say whether {claimed} ({value}): {why}.")
    other = ", nor the opposite" if score.negative else ""
    named = f"an effect of {_number(score.detectable)} or more would have been found with 80 % probability"
    smallest = named if math.isfinite(score.detectable) else "the data do not tell which effect would have been found"
    return Verdict(VerdictKind.NOT_FOUND, f"Not shown that {claimed}{other} ({value}); {smallest}.")


def with_missing(scores: Sequence[Score], key: str) -> list[Score]:
    """The Scores, with a caveat where the Score ``key`` finds that what is missing differs by group."""
    lost = next((score for score in scores if score.key == key), not_estimated(key))
    if verdict(lost).kind is not VerdictKind.FOUND:
        return list(scores)
    found = f"What is missing is not the same for all groups, and may be what this shows: {verdict(lost).sentence}"
    return [
        score if score.key == key or not score.family else replace(score, caveat=f"{score.caveat} {found}".strip())
        for score in scores
    ]


def shown_p(value: float) -> str:
    """A p-value behind "p": "= .003"."""
    return "< .001" if value < 0.001 else f"= {value:.3f}".replace("0.", ".", 1)


def _number(value: float) -> str:
    of_rounding = abs(value) < 1e-12  # what is left of a difference of equal means
    return "0" if of_rounding else f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def named_contrasts(pairs: Iterable[tuple[str, str]]) -> str:
    """`Score.over` of pairs of a group and its reference, in one order; each once."""
    return "; ".join(sorted({f"{group} - {reference}" for group, reference in pairs}))


def not_estimated(key: str, why: str = NOTHING) -> Score:
    """The Score of a headline key for which there was nothing to estimate, with the reason."""
    return Score(key, NAN, lacking=why, method=f"not estimated: {why}")


@dataclass(frozen=True)
class Evaluation:
    """What evaluate returns: everything a reader of one audit of one model sees."""

    scores: Sequence[Score]
    """Every claim; the headline of the card first."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """File stem -> table, written to results/<audit>/<model>/tables/<stem>.csv."""
    figures: Mapping[str, alt.TopLevelMixin] = field(default_factory=dict)
    """File stem -> altair chart, written to figures/ as Vega-Lite JSON."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """File name -> content of further downloads, written to tables/ (GraphML, LaTeX)."""
    notes: Sequence[str] = ()
    """Sentences a reader must see: exclusions, small n, what was not estimated and why."""

    def score(self, key: str) -> Score:
        """The Score of this key; NaN where it was not estimated."""
        return next((score for score in self.scores if score.key == key), not_estimated(key))


_PARTS = ("ci_low", "ci_high", "null_mean", "p", "p_adjusted")
SCORE_COLUMNS = (
    "key", "metric", "item", "group", "reference", "over", "estimate", "ci_low", "ci_high", "null_mean", "null_low",
    "null_high", "p", "p_adjusted", "verdict", "sentence", "n", "n_missing", "clusters", "unit", "positive", "negative",
    "worse", "detectable", "standard_error", "df", "family", "smallest_p", "lacking", "caveat", "worst_low",
    "worst_high", "method", "comparable", "headline",
)  # fmt: skip
"""Columns of scores.csv and of the estimates table: one Score a row."""
_WRITTEN = [one for one in fields(Score) if one.name in SCORE_COLUMNS]


def headline(scores: Iterable[Score], keys: Sequence[str]) -> list[Score]:
    """The Scores of these keys, in their order; NaN for one that this run could not estimate."""
    by_key = {score.key: score for score in scores}
    return [by_key.get(key) or not_estimated(key) for key in keys]


def metrics(scores: Iterable[Score], keys: Sequence[str]) -> dict[str, float]:
    """metrics.json: each headline key, and its interval, null and p where they exist."""
    found: dict[str, float] = {}
    for score in headline(scores, keys):
        parts = {part: float(getattr(score, part)) for part in _PARTS}
        found[score.key] = score.estimate
        found |= {f"{score.key}_{part}": value for part, value in parts.items() if math.isfinite(value)}
    return found


def _with_reason(score: Score) -> Score:
    """A Score that was not estimated says so, if only that."""
    known = not score.missing or score.method or score.lacking
    return score if known else replace(score, method=not_estimated(score.key).method)


def score_table(scores: Sequence[Score], keys: Sequence[str]) -> pd.DataFrame:
    """scores.csv and the estimates table: one Score a row, `SCORE_COLUMNS`; the headline, ``keys``, first.

    Raises
    ------
    ValueError
        When two Scores have one key.
    """
    ordered = [*headline(scores, keys), *(score for score in scores if score.key not in keys)]
    counted = Counter(score.key for score in scores)
    if twice := next((key for key, times in counted.items() if times > 1), None):
        raise ValueError(f"two Scores have the key '{twice}'")
    rows = []
    for place, score in enumerate(map(_with_reason, ordered)):
        row = {one.name: getattr(score, one.name) for one in _WRITTEN}
        clusters = "; ".join(f"{factor} {number}" for factor, number in score.clusters.items())
        answer = verdict(score)
        named = {
            "metric": score.measure, "item": score.item, "clusters": clusters, "headline": place < len(keys),
            "verdict": str(answer.kind), "sentence": answer.sentence,
        }  # fmt: skip
        rows.append(row | named)
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def read_scores(table: pd.DataFrame) -> list[Score]:
    """The Scores of a `score_table`, as read back from scores.csv or Parquet.

    Raises
    ------
    ValueError
        When a column is missing or a cell is not of its kind.
    """
    if missing := [column for column in SCORE_COLUMNS if column not in table]:
        raise ValueError(f"the column '{missing[0]}' is missing")
    found = []
    for row in table.to_dict("records"):
        values: dict[str, Any] = {}
        for one in _WRITTEN:
            value = row[one.name]
            if one.type in ("float", "int"):
                values[one.name] = NAN if value is None or value == "" else float(value)
            elif one.type == "bool":
                values[one.name] = str(value).lower() == "true"
            else:
                values[one.name] = "" if pd.isna(value) else str(value)
        counted = [factor.rpartition(" ") for factor in values.pop("clusters").split("; ") if factor]
        values |= {name: int(values[name]) for name in ("n", "n_missing", "worse", "family")}
        found.append(Score(**values, clusters={name: int(number) for name, _, number in counted}))
    return found
