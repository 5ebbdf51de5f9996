"""What one audit of one model left on disk, read back without knowing the audit."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from markedness.records import Card
from markedness.store import Store, StoreError

# Where the null of the score "measure.item" stands: its mean under permuted labels, and the range it keeps in.
# What the measure says as a whole ("measure.null_mean") is the null of its first headline score.
_NULL = ("{key}_null_mean", "{key}_null", "{measure}_null.{item}", "{measure}_null_mean.{item}")
_NULL_OF_FIRST = ("{measure}.null_mean", "{measure}.null")
_NULL_RANGE = ("{key}_null_{end}", "{key}_null_ci_{end}", "{key}_null_mean_ci_{end}", "{measure}_null_{end}.{item}")
_NULL_RANGE_OF_FIRST = ("{measure}.null_{end}", "{measure}.null_mean_ci_{end}", "{measure}.null_ci_{end}")


@dataclass(frozen=True)
class Score:
    """One headline score with what a reader needs beside it; NaN where it was not estimated."""

    key: str
    label: str
    estimate: float
    low: float
    high: float
    null: float
    null_low: float
    null_high: float

    @property
    def missing(self) -> bool:
        """Whether there was nothing to estimate."""
        return math.isnan(self.estimate)


@dataclass(frozen=True)
class Result:
    """results/<audit>/<model> and the counts behind it."""

    audit: str
    model: str
    card: Card
    folder: Path
    metrics: dict[str, float]
    """As in metrics.json; null is NaN."""
    notes: list[str]

    @property
    def tables(self) -> dict[str, Path]:
        """Stem -> CSV file, in the order of the card's measures, then by name."""
        found = {path.stem: path for path in sorted((self.folder / "tables").glob("*.csv"))}
        order = [*self.card.measures, *found]
        return dict(sorted(found.items(), key=lambda item: order.index(item[0])))

    @property
    def downloads(self) -> list[Path]:
        """The further files beside the tables."""
        return sorted(path for path in (self.folder / "tables").glob("*") if path.is_file() and path.suffix != ".csv")

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        """Stem -> Vega-Lite specification."""
        found = sorted((self.folder / "figures").glob("*.json"))
        order = [*self.card.measures, *(path.stem for path in found)]
        found.sort(key=lambda path: order.index(path.stem))
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in found}

    def table(self, stem: str) -> pd.DataFrame:
        """One table; empty when the audit wrote none of this name."""
        path = self.tables.get(stem)
        try:
            return pd.read_csv(path, keep_default_na=False, na_values=[""]) if path else pd.DataFrame()
        except pd.errors.EmptyDataError:
            return pd.DataFrame()

    def score(self, key: str) -> Score:
        """One key of metrics.json with its interval and null."""
        measure, _, item = key.partition(".")
        first = next((k for k in self.card.headline if k.partition(".")[0] == measure), key) == key

        def value(patterns: Sequence[str], end: str = "") -> float:
            names = (pattern.format(key=key, measure=measure, item=item, end=end) for pattern in patterns)
            return next((self.metrics[name] for name in names if name in self.metrics), math.nan)

        low, high = (value(("{key}_ci_{end}", "{measure}_ci_{end}.{item}"), end) for end in ("low", "high"))
        null = value([*_NULL, *(_NULL_OF_FIRST if first else ())])
        ranges = [*_NULL_RANGE, *(_NULL_RANGE_OF_FIRST if first else ())]
        null_low, null_high = value(ranges, "low"), value(ranges, "high")
        if math.isnan(null) and item.startswith("excess"):  # over what chance gives, by construction
            null = 0.0
        return Score(key, label(key, self.card), self.metrics.get(key, math.nan), low, high, null, null_low, null_high)

    def headline(self) -> list[Score]:
        """The scores to look at first; those that the card names and this run could not estimate are NaN."""
        return [self.score(key) for key in headline_keys(self.card, self.metrics)]


def headline_keys(card: Card, metrics: Mapping[str, float]) -> list[str]:
    """The card's headline keys; those of groups that this study lacks give way to the study's own groups.

    A key that is not in metrics is replaced by the next score of its measure that no headline names, and goes when
    there is none left.
    """
    own: dict[str, list[str]] = {}
    for key in metrics:
        is_part = any(key.startswith(f"{other}_") for other in metrics if other != key)  # an interval, a null
        if key not in card.headline and not is_part:
            own.setdefault(key.partition(".")[0], []).append(key)
    replaced = {key.partition(".")[0] for key in card.headline if key not in metrics} & own.keys()
    keys = []
    for key in card.headline:
        measure = key.partition(".")[0]
        if key in metrics or measure not in replaced:
            keys.append(key)
        elif own[measure]:
            keys.append(own[measure].pop(0))
    return keys


def label(key: str, card: Card) -> str:
    """A metric as a reader sees it: "word_share.Black woman" -> "Word share: Black woman"."""
    measure, _, item = key.partition(".")
    known = card.measures.get(key) or card.measures.get(measure)
    title = known.title if known else words(measure)
    return f"{title}: {words(item, capital=False)}" if item else title


def words(name: str, capital: bool = True) -> str:
    """A column or key as words."""
    spaced = name.replace("_", " ").strip()
    return spaced[:1].upper() + spaced[1:] if capital else spaced


def read(store: Store, audit: str, model: str, card: Card) -> Result | None:
    """Read one result; None when this audit of this model has not been run.

    Raises
    ------
    StoreError
        When metrics.json or notes.json is not what evaluate writes.
    """
    folder = store.results(audit, model)
    path = folder / "metrics.json"
    if not path.exists():
        return None
    metrics = {key: math.nan if value is None else float(value) for key, value in _json(path, dict).items()}
    notes_path = folder / "notes.json"
    notes = [str(note) for note in _json(notes_path, list)] if notes_path.exists() else []
    return Result(audit, model, card, folder, metrics, notes)


def _json(path: Path, kind: type) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read as JSON; run 'markedness evaluate' again") from error
    if not isinstance(content, kind):
        raise StoreError(f"{path}: expected a JSON {kind.__name__}; run 'markedness evaluate' again")
    return content


def statuses(responses: pd.DataFrame) -> pd.DataFrame:
    """Rows per group (index) and status (columns), all statuses that occur."""
    if not {"group", "status"} <= set(responses.columns):
        return pd.DataFrame()
    counts = pd.crosstab(responses["group"].fillna(""), responses["status"].fillna("missing"))
    first = [status for status in ("ok", "refusal", "unparsed", "truncated", "failed") if status in counts]
    return counts[[*first, *(status for status in counts if status not in first)]]


def unequal(counts: pd.DataFrame, alpha: float = 0.05) -> Iterator[str]:
    """A sentence for each status whose share differs by group more than chance makes it.

    Chi-squared test of status against the rest over groups, from counts; where an expected count is below 5,
    its permutation p-value (999 tables with the same margins). Holm over the statuses.
    """
    from scipy import stats
    from statsmodels.stats.multitest import multipletests

    kinds = [status for status in counts if status not in ("ok", "unsupported") and counts[status].sum()]
    total = counts.sum(axis=1)
    kinds = [kind for kind in kinds if len(counts) > 1 and counts[kind].sum() < total.sum()]
    tests = []
    for kind in kinds:
        table = pd.DataFrame({"with": counts[kind], "without": total - counts[kind]})[total > 0].to_numpy()
        if stats.contingency.expected_freq(table).min() >= 5:
            tests.append(float(stats.chi2_contingency(table, correction=False).pvalue))
            continue
        tables = stats.random_table(table.sum(axis=1), table.sum(axis=0)).rvs(999, random_state=0)
        expected = stats.contingency.expected_freq(table)
        drawn = ((tables - expected) ** 2 / expected).sum(axis=(1, 2))
        observed = ((table - expected) ** 2 / expected).sum()
        tests.append((1 + int((drawn >= observed - 1e-9).sum())) / 1000)
    if not tests:
        return
    adjusted = multipletests(tests, method="holm")[1]
    for kind, p in zip(kinds, adjusted, strict=True):
        if p >= alpha:
            continue
        share = (counts[kind] / total).sort_values()
        yield (
            f"Answers with the status '{kind}' are unequally spread over groups (adjusted p {_p(p)}): "
            f"{share.index[-1]} {share.iloc[-1]:.1%}, {share.index[0]} {share.iloc[0]:.1%}; "
            "what is left out differs by group, so read the differences below with care."
        )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def git(root: Path, *command: str) -> str:
    """What git says in this folder; "" outside a repository."""
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
