"""What the pages are made of: the study's results, and what each page says of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from markedness.audits.base import Examples
from markedness.cards import Card, count
from markedness.files import read_parquet
from markedness.lm.config import CorpusModel, ModelConfig, OpenAIModel, ScriptedModel, ServerModel, TransformersModel
from markedness.lm.ledger import summary
from markedness.lm.served_by import reported
from markedness.reporting.embed import LONGEST_NAME, MOST_NAMES, shortened
from markedness.reporting.results import Result, git, read
from markedness.results import Score
from markedness.store import Store


@dataclass(frozen=True)
class Pages:
    """What the pages are made of."""

    store: Store
    audits: Sequence[str]
    models: Mapping[str, ModelConfig]
    """Name -> model config, the models to run in order."""
    cards: Mapping[str, Card]
    table_rows: int = 500
    """Rows of a table on a page; the CSV has all."""
    examples: int = 4
    """Example texts per group."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Audit -> confidence level of its intervals, where it has one."""
    sizes: Mapping[str, str] = field(default_factory=dict)
    """Audit -> how much is asked: "size quick but for samples"."""
    find_examples: Callable[[str, str], Examples | None] = lambda audit, model: None
    """Audit, model -> the texts that drive its leading score, where the audit can say which."""
    results: dict[tuple[str, str], Result] = field(default_factory=dict)
    old_comparison: str = ""
    """The sentence on a comparison that is not of these results."""

    def __post_init__(self) -> None:
        for audit in self.audits:
            for model in self.models:
                if found := read(self.store, audit, model, self.cards[audit]):
                    self.results[audit, model] = found

    @property
    def controls(self) -> list[str]:
        """The scripted models, shown beside every other."""
        return [name for name, config in self.models.items() if isinstance(config, ScriptedModel)]


def lead(pages: Pages, model: str) -> str:
    """One sentence: who this is."""
    config = pages.models[model]
    if isinstance(config, ScriptedModel):
        known = {
            "none": "its answers vary, but are blind to the group. It shows what nothing looks like.",
            "planted": "it follows a known stereotype. It shows what something looks like.",
        }
        return f"A control, not a language model: {known.get(config.rule, 'its answers follow a rule.')}"
    if isinstance(config, CorpusModel):
        return "Texts that existed already, measured like a model's answers."
    if isinstance(config, OpenAIModel):
        return f"{config.model}, asked over an OpenAI-compatible server, {_way(config.chat)}."
    if isinstance(config, TransformersModel):
        small = " A small base model: it shows the method at work, not the state of the art."
        name = Path(config.path).name
        return f"{name}, asked on this machine, {_way(config.chat)}.{small if config.gguf_package else ''}"
    name = config.model if isinstance(config, ServerModel) else model
    return f"{name}, asked through the backend {config.backend}."


def _way(chat: bool) -> str:
    return "as a chat" if chat else "by continuing a text"


def facts(pages: Pages, model: str) -> list[tuple[str, str]]:
    """What was asked of which model when."""
    config = pages.models[model]
    facts = [("Backend", config.backend)]
    if isinstance(config, TransformersModel) and (weights := config.revision or config.gguf_package):
        facts.append(("Weights", weights))
    sized = {} if isinstance(config, CorpusModel) else pages.sizes  # texts that exist already are as many as they are
    served, times = Counter[str](), []
    asked = []
    for audit in pages.audits:
        path = pages.store.table_path("generations", audit, model)
        if not path.exists():
            continue
        rows = columns_of(path, ("served_model", "error", "group", "prompt_id"))
        if "served_model" in rows:
            for name, times_served in rows["served_model"].value_counts().items():
                served[shortened(name, LONGEST_NAME)] += times_served
        if known := summary(pages.store.ledger_path(audit, model)):  # true after a pull, too; the files' times are not
            times += [moment for moment in (known.first, known.last) if moment]
        answered = int((rows["error"].isna()).sum()) if "error" in rows else len(rows)
        asked.append(
            f"{audit}: {count(answered, 'answer')}, {count(len(set(rows['group'].dropna()) - {''}), 'group')}, "
            f"{count(rows['prompt_id'].nunique(), 'prompt')}"
            + (f", {sized[audit]}{config.own(audit)}" if audit in sized else "")
        )
    if {*served} - {model}:
        more = f" and {len(served) - MOST_NAMES} more" if len(served) > MOST_NAMES else ""
        facts.append(("Reported name", ", ".join(sorted(served)[:MOST_NAMES]) + more))
    if said := reported(config.model if isinstance(config, ServerModel) else "", served):
        facts.append(("Warning", said.rstrip(".")))
    if times:
        first, last = min(times), max(times)
        facts.append(
            ("When", f"{first:%d %B %Y}" if first.date() == last.date() else f"{first:%d %b %Y} to {last:%d %b %Y}")
        )
    if others := answered_by(pages, model):
        facts.append(("Warning", others))
    if intervals := levels(pages):
        facts.append(("Intervals", intervals))
    facts += [("Asked", sentence) for sentence in asked] or [("Asked", "nothing yet")]
    return facts


def answered_by(pages: Pages, model: str) -> str:
    """A sentence where different weights or servers answered the audits of one model; "" where none did."""
    if isinstance(pages.models[model], CorpusModel | ScriptedModel):
        return ""
    by: dict[str, list[str]] = {}
    for audit in pages.audits:
        if known := summary(pages.store.ledger_path(audit, model)):
            for who in known.served_by:
                by.setdefault(who, []).append(audit)
    if len(by) < 2:
        return ""
    said = "; ".join(f"{', '.join(of)} by {shortened(who, LONGEST_NAME)}" for who, of in by.items())
    return (
        f"Different weights or servers answered as this one model: {said}. Run again what is older (dvc repro --force)."
    )


def levels(pages: Pages) -> str:
    """Confidence level of the intervals, of each audit where they are not the same; "" where none is known."""
    known = {audit: f"{100 * level:.4g}%" for audit, level in pages.levels.items()}
    if len(set(known.values())) < 2:
        return next(iter(known.values()), "")
    return ", ".join(f"{audit} {level}" for audit, level in known.items())


def score_of(pages: Pages, audit: str, model: str, key: str) -> Score | None:
    """One Score of one model; None where the audit was not run."""
    result = pages.results.get((audit, model))
    return result.score(key) if result else None


def commit_of(pages: Pages) -> str:
    """The commit of the study, short; "" outside git."""
    return git(pages.store.root, "rev-parse", "--short", "HEAD")


def columns_of(path: Path, wanted: Sequence[str]) -> pd.DataFrame:
    """Of a Parquet table, the wanted columns that it has."""
    return read_parquet(path, str(path), "run its stage again", wanted)
