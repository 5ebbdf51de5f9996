"""What one audit of one model left on disk, read back without knowing the audit."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from markedness.cards import Card
from markedness.files import StoreError
from markedness.results import Score, headline, metrics, not_estimated, read_scores
from markedness.separated import read_results
from markedness.store import Store


@dataclass(frozen=True)
class Result:
    """results/<audit>/<model> and the counts behind it."""

    audit: str
    model: str
    card: Card
    folder: Path
    scores: list[Score]
    """As in scores.csv."""
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
            return read_results(path) if path else pd.DataFrame()
        except pd.errors.EmptyDataError:
            return pd.DataFrame()

    @property
    def metrics(self) -> dict[str, float]:
        """What metrics.json holds."""
        return metrics(self.scores, self.card.headline)

    @property
    def measured(self) -> bool:
        """Whether anything was estimated."""
        return not all(score.missing for score in self.scores)

    def score(self, key: str) -> Score:
        """One Score; NaN where this run could not estimate it."""
        return next((score for score in self.scores if score.key == key), not_estimated(key))

    def headline(self) -> list[Score]:
        """The Scores to look at first."""
        return headline(self.scores, self.card.headline)


def read(store: Store, audit: str, model: str, card: Card) -> Result | None:
    """Read one result; None when this audit of this model has not been run.

    Raises
    ------
    StoreError
        When scores.csv or notes.json is not what evaluate writes.
    """
    folder = store.results(audit, model)
    path = folder / "scores.csv"
    if not path.exists():
        return None
    try:
        scores = read_scores(read_results(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); run 'markedness evaluate' again") from error
    notes_path = folder / "notes.json"
    notes = [str(note) for note in _json(notes_path, list)] if notes_path.exists() else []
    return Result(audit, model, card, folder, scores, notes)


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


def git(root: Path, *command: str) -> str:
    """What git says in this folder; "" outside a repository."""
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
