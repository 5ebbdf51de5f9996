"""What a notebook is given: the Scores and tables of an audit, and the results of a study that has been run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from markedness import audits, params
from markedness.cards import Card, label
from markedness.records import AuditError
from markedness.reporting.answers import answered, first_screen
from markedness.reporting.pages import Pages
from markedness.reporting.render import fragment
from markedness.reporting.results import Result
from markedness.results import Score, headline, not_estimated, score_table, verdict
from markedness.stale import noted
from markedness.store import Store


class NotebookError(AuditError):
    """A frame or a study that cannot be read: one sentence with the remedy."""


class Tables(Mapping[str, pd.DataFrame]):
    """Name -> table, each read when it is asked for."""

    def __init__(self, readers: Mapping[str, Callable[[], pd.DataFrame]]) -> None:
        self._readers = dict(readers)

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._readers:
            raise NotebookError(f"there is no table '{name}'; known: {', '.join(self._readers) or 'none'}")
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __repr__(self) -> str:
        return f"Tables({', '.join(self)})"


@dataclass(frozen=True, repr=False)
class AuditResult:
    """What one audit says of one model or frame; a notebook shows its verdicts first, as the card does."""

    audit: str
    model: str
    card: Card
    """What the audit measures, and how."""
    scores: tuple[Score, ...]
    """Every claim, the headline of the card first."""
    tables: Mapping[str, pd.DataFrame]
    """Name -> table, as in results/<audit>/<model>/tables."""
    notes: tuple[str, ...]
    """Sentences that a reader must see."""

    @property
    def headline(self) -> list[Score]:
        """The Scores to look at first; NaN for one that could not be estimated."""
        return headline(self.scores, self.card.headline)

    @property
    def frame(self) -> pd.DataFrame:
        """Every Score with its verdict, one a row, as in scores.csv."""
        return score_table(self.scores, self.card.headline)

    def score(self, key: str) -> Score:
        """The Score of this key; NaN where it was not estimated."""
        return next((score for score in self.scores if score.key == key), not_estimated(key))

    def __repr__(self) -> str:
        return _plain(f"{self.audit} {self.model}", answered({self.audit: self.scores}, {self.audit: self.card}))

    def _repr_html_(self) -> str:
        rows = [(label(score.key, self.card), score, verdict(score).kind) for score in self.headline]
        return fragment(
            "notebook.html.j2", title=self.model, first=answered({self.audit: self.scores}, {self.audit: self.card}),
            question=self.card.question, notes=self.notes, rows=rows, tables=list(self.tables), page="",
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class ModelCard:
    """The answers of all audits of one model, as its stereotype card begins."""

    model: str
    first: Mapping[str, Any]
    """Shown, not shown, cannot say."""
    page: Path | None
    """The whole card, reports/<model>.html; None where it was not written."""

    def __repr__(self) -> str:
        return _plain(self.model, self.first)

    def _repr_html_(self) -> str:
        return fragment(
            "notebook.html.j2", title=self.model, first=self.first, question="", notes=(), rows=(), tables=(),
            page=str(self.page or ""),
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class Study:
    """The results of a study that has been run."""

    root: Path
    results: Mapping[tuple[str, str], AuditResult]
    """(audit, model) -> its result, those that have been run."""
    cards: Mapping[str, ModelCard]
    """Model -> its card."""

    @property
    def audits(self) -> list[str]:
        """The audits that have a result."""
        return list(dict.fromkeys(audit for audit, _ in self.results))

    @property
    def models(self) -> list[str]:
        """The models that have a result."""
        return list(self.cards)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Every Score of every model with its verdict, one a row; the first columns are audit and model."""
        return _stacked({key: result.frame for key, result in self.results.items()})

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Name -> the tables of this name of all results, one below the other; first audit and model."""
        names = dict.fromkeys(name for result in self.results.values() for name in result.tables)
        return Tables({name: partial(self._table, name) for name in names})

    def _table(self, name: str) -> pd.DataFrame:
        return _stacked({key: result.tables[name] for key, result in self.results.items() if name in result.tables})

    def __repr__(self) -> str:
        return f"Study(models: {', '.join(self.models)}; audits: {', '.join(self.audits)})"


def load_study(path: str | Path = ".") -> Study:
    """The results of a study: models, audits, scores, tables and cards; nothing is computed or written.

    Parameters
    ----------
    path
        Folder of the study, or its params file.
    """
    file = Path(path)
    loaded = params.load(file / "params.yaml" if file.is_dir() else file)
    store = Store(loaded.root)
    pages = Pages(
        store, loaded.audits, {name: loaded.model(name) for name in loaded.run},
        {audit: audits.spec(audit).card for audit in loaded.audits}, levels=loaded.levels,
    )  # fmt: skip
    noted(loaded, pages.results)
    found = {key: result_of(result) for key, result in pages.results.items()}
    if not found:
        raise NotebookError(
            f"{path}: no audit of this study has results yet; run 'dvc repro' or 'markedness run' first"
        )
    cards = {}
    for model in dict.fromkeys(model for model in loaded.run if any(model == of for _, of in found)):
        page = store.reports() / f"{model}.html"
        cards[model] = ModelCard(model, first_screen(pages, model), page if page.exists() else None)
    return Study(loaded.root, found, cards)


def result_of(
    found: Result, tables: Mapping[str, pd.DataFrame] | None = None, notes: Sequence[str] | None = None
) -> AuditResult:
    """A result as it was read from its folder; without ``tables`` they are read when they are asked for."""
    read_later = Tables({name: partial(found.table, name) for name in found.tables})
    return AuditResult(
        found.audit, found.model, found.card, tuple(found.scores), read_later if tables is None else tables,
        tuple(found.notes if notes is None else notes),
    )  # fmt: skip


def _plain(title: str, first: Mapping[str, Any]) -> str:
    """The answers as lines of text."""
    lines = [f"{title}: {first['count']}"]
    for name, _, sentences, _ in first["parts"]:
        lines += [f"{name}: {one['text']} {one['caveat']}".rstrip() for one in sentences]
    return "\n".join(lines)


def _stacked(found: Mapping[tuple[str, str], pd.DataFrame]) -> pd.DataFrame:
    """Tables one below the other, with the audit and model of each as the first columns."""
    tables = []
    for (audit, model), table in found.items():
        kept = table.drop(columns=["audit", "model"], errors="ignore")
        kept.insert(0, "audit", audit)
        kept.insert(1, "model", model)
        tables.append(kept)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
