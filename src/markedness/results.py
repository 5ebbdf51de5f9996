"""What an audit claims: Score, the card that explains it, and the one place where Scores become tables.

A Score is the only type in which a number with a claim leaves ``evaluate``. From the list of Scores `metrics`
and `score_table` make everything that is written or shown: metrics.json, scores.csv, the estimates table, the
headline of the report, MLflow's metrics and the keys that compare reads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import altair as alt

NAN = float("nan")


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
    unit: str = ""
    """What ``n`` counts, plural."""
    positive: str = ""
    """What a positive value means."""
    detectable: float = NAN
    """Smallest true effect found with 80 % power at this size and correction."""
    method: str = ""
    """One sentence: what was resampled, what was exchanged."""
    comparable: bool = False
    """Whether compare and gate may use it."""
    group: str = ""
    """The group it is about; "" for all marked groups together."""
    reference: str = ""
    """What the group is compared with."""
    influences: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Sampled factor -> cluster -> its contribution to the estimate: what compare pairs; a table of its own."""

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


def not_estimated(key: str) -> Score:
    """The Score of a headline key for which there was nothing to estimate."""
    return Score(key, NAN)


@dataclass(frozen=True)
class Measure:
    """How one table or score was measured: the box beside the number."""

    title: str
    formula: str
    """In words and signs, plain text."""
    n: str
    """What is counted."""
    correction: str
    """The family of tests and its correction, or "none"."""
    source: str
    """Publication, section or table."""


@dataclass(frozen=True)
class Card:
    """What an audit is: what its page in the report and in the docs says before any number."""

    audit: str
    title: str
    question: str
    paper: str
    """Full citation."""
    groups: str
    """Which groups, and where they are set."""
    unit: str
    """What one row of features is."""
    estimand: str
    """What is estimated, with sign and range."""
    limits: str
    """What the numbers do not say."""
    null: str
    """What the headline scores are without any stereotype, and how that is shown."""
    headline: Sequence[str]
    """The keys of the Scores to look at first; from the audit's spec."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """Table stem, figure stem or measure of a Score -> how it was measured."""

    @classmethod
    def read(cls, audit: str, content: Mapping[str, Any], headline: Sequence[str]) -> Card:
        """A card from the content of card.yaml.

        Raises
        ------
        ValueError
            Naming the first key that is missing or unknown.
        """
        known = {one.name for one in fields(cls)} - {"audit", "headline"}
        for key in [*known, *content]:
            if (key not in content and key != "measures") or key not in known:
                raise ValueError(f"'{key}' is {'missing' if key in known else 'unknown'}; a card has {sorted(known)}")
        parts = ("title", "formula", "n", "correction", "source")
        measures = {}
        for name, measure in (content.get("measures") or {}).items():
            if set(measure) != set(parts):
                raise ValueError(f"measures.{name}: expected exactly {', '.join(parts)}")
            measures[str(name)] = Measure(**{part: str(measure[part]) for part in parts})
        texts = {key: str(content[key]) for key in known - {"measures"}}
        return cls(audit=audit, headline=tuple(headline), measures=measures, **texts)


@dataclass(frozen=True)
class Evaluation:
    """What evaluate returns: everything a reader of one audit of one model sees."""

    scores: Sequence[Score]
    """Every claim; the headline of the card first."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """File stem -> table, written to results/<audit>/<model>/tables/<stem>.csv."""
    figures: Mapping[str, alt.TopLevelMixin] = field(default_factory=dict)
    """File stem -> altair chart, written to figures/ as Vega-Lite JSON and SVG."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """File name -> content of further downloads, written to tables/ (GraphML, LaTeX)."""
    notes: Sequence[str] = ()
    """Sentences a reader must see: exclusions, small n, what was not estimated and why."""

    def score(self, key: str) -> Score:
        """The Score of this key; NaN where it was not estimated."""
        return next((score for score in self.scores if score.key == key), not_estimated(key))


_PARTS = ("ci_low", "ci_high", "null_mean", "p", "p_adjusted")
SCORE_COLUMNS = (
    "key", "metric", "item", "group", "reference", "estimate", "ci_low", "ci_high", "null_mean", "null_low",
    "null_high", "p", "p_adjusted", "n", "n_missing", "clusters", "unit", "positive", "detectable", "method",
    "comparable", "headline",
)  # fmt: skip
"""Columns of scores.csv and of the estimates table: one Score a row."""


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


def score_table(scores: Sequence[Score], keys: Sequence[str]) -> pd.DataFrame:
    """scores.csv and the estimates table: one Score a row, `SCORE_COLUMNS`; the headline, ``keys``, first.

    Raises
    ------
    ValueError
        When two Scores have one key.
    """
    first = headline(scores, keys)
    rest = [score for score in scores if score.key not in keys]
    counted = Counter(score.key for score in [*first, *rest])
    if twice := next((key for key, times in counted.items() if times > 1), None):
        raise ValueError(f"two Scores have the key '{twice}'")
    rows = []
    for place, score in enumerate([*first, *rest]):
        row = {one.name: getattr(score, one.name) for one in fields(score) if one.name != "influences"}
        clusters = "; ".join(f"{factor} {number}" for factor, number in score.clusters.items())
        named = {"metric": score.measure, "item": score.item, "clusters": clusters, "headline": place < len(first)}
        rows.append(row | named)
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def read_scores(table: pd.DataFrame) -> list[Score]:
    """The Scores of a `score_table`, as read back from scores.csv or Parquet.

    Raises
    ------
    ValueError
        When a column is missing or a cell is not of its kind.
    """
    missing = [column for column in SCORE_COLUMNS if column not in table]
    if missing:
        raise ValueError(f"the column '{missing[0]}' is missing")
    found = []
    for row in table.to_dict("records"):
        values: dict[str, Any] = {}
        for one in fields(Score):
            if one.name == "influences":
                continue
            value = row[one.name]
            if one.type in ("float", "int"):
                values[one.name] = NAN if value is None or value == "" else float(value)
            elif one.type == "bool":
                values[one.name] = str(value).lower() == "true"
            else:
                values[one.name] = "" if pd.isna(value) else str(value)
        counted = (factor.rpartition(" ") for factor in values.pop("clusters").split("; ") if factor)
        clusters = {name: int(number) for name, _, number in counted}
        values |= {name: int(values[name]) for name in ("n", "n_missing")}
        found.append(Score(**values, clusters=clusters))
    return found


def label(key: str, card: Card) -> str:
    """A key as a reader sees it: "word_share.Black woman" -> "Word share: Black woman"."""
    measure, _, item = key.partition(".")
    known = card.measures.get(key) or card.measures.get(measure)
    title = known.title if known else words(measure)
    return f"{title}: {words(item, capital=False)}" if item else title


def words(name: str, capital: bool = True) -> str:
    """A column or key as words."""
    spaced = name.replace("_", " ").strip()
    return spaced[:1].upper() + spaced[1:] if capital else spaced
