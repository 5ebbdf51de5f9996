"""Rows of logs of other tools, and several logs as the answers of one model, each of which is counted once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pandas as pd

from markedness.lm.answers import end_of, ending
from markedness.lm.base import ModelError
from markedness.lm.corpus_files import as_table
from markedness.lm.redaction import Redaction
from markedness.lm.served_by import is_other_model
from markedness.records import FILTERED, WITHHELD

Row = dict[str, Any]
OURS = ("text", "prompt", "finish_reason", "error")
"""Columns that every format fills; lm_eval has candidate and log_prob in place of text where candidates were scored."""
SAME, MODEL, ANSWERED, FAILED = "\0same", "\0model", "\0answered", "\0failed"
"""Cells of a row that `Answers` takes out of it; no log has such a column."""
NAMED = 5
"""Models that a message names."""


class Answers:
    """The rows of one log, and what its reader must know of it as a whole."""

    def __init__(self, rows: Iterable[Row], notes: Iterable[str] = (), asked: str | None = None) -> None:
        made = list(rows)
        self.same: list[Hashable] = [row.pop(SAME, None) for row in made]
        """Of each row what no other answer has, however many logs hold it; None: not known."""
        self.answered: list[Hashable] = [row.pop(ANSWERED, None) for row in made]
        """Of each answer what was asked; None: not known."""
        self.failed: list[Hashable] = [row.pop(FAILED, None) for row in made]
        """Of each row without any answer what was asked, which another row may answer; None: not known."""
        self.models = [row.pop(MODEL, None) for row in made]
        """Of each row the model that the log says gave it; None: not known."""
        self.asked = asked
        """The model that the log says was asked, which a router may answer for; None: not known."""
        self.table = as_table(made)
        self.notes = tuple(notes)
        """Sentences, such as how many samples an interrupted run lacks."""


def answer(text: object, prompt: object, finish_reason: object = None, error: object = None) -> Row:
    """Our columns of one answer; an answer that a filter withheld, and none at all, are failures with a reason."""
    reason = ending(finish_reason) or finish_reason
    if reason == FILTERED:
        text, error = None, error or WITHHELD
    elif text is None and not error:
        error = f"the log has no answer (finish reason {reason})"
    return dict(zip(OURS, (None if error else text, prompt, reason, error), strict=True))


def ended(table: pd.DataFrame, column: str) -> pd.Series:
    """Column finish_reason or error of a log, kept as what a server says: see `markedness.lm.redaction`.

    Strings, <NA> where the log says nothing; "unknown" for what no server calls an end.
    """
    cells = [None if missing else str(cell) for cell, missing in zip(table[column], table[column].isna(), strict=True)]
    said, known = Redaction(), dict[str | None, str | None]({None: None, "": None})
    for cell in filter(None, set(cells)):  # half of a surrogate pair, too, which no column of strings may hold
        known[cell] = end_of(cell, said) if column == "finish_reason" else said.error(cell) or "no reason given"
    return pd.Series([known[cell] for cell in cells], index=table.index, dtype="string")


def mapping(cell: object) -> Row:
    """A mapping of a log; an empty one where it has something else."""
    return cell if isinstance(cell, dict) else {}


def items(cell: object) -> list[Any]:
    """A list of a log; an empty one where it has something else."""
    return cell if isinstance(cell, list) else []


def digest(cell: object) -> str:
    """Of what a line of JSON holds."""
    return hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------- several logs


def together(logs: Sequence[Answers], where: str) -> tuple[list[pd.DataFrame], list[str]]:
    """The table of each log without what stands in another line or log as well, and notes for the reader.

    A failure of what another row answers (a retry) is left out, too.

    Parameters
    ----------
    logs
        In the order of their files: of several copies of an answer the first is kept.
    where
        Path of the source in params.yaml, for messages.

    Raises
    ------
    ModelError
        When the logs name different models.
    """
    notes = [*(note for log in logs for note in log.notes), *_models(logs, where)]
    cells = [{"log": n, "same": log.same, "answered": log.answered, "failed": log.failed} for n, log in enumerate(logs)]
    rows = pd.concat([pd.DataFrame(of_log, dtype=object) for of_log in cells], ignore_index=True)
    twice = rows["same"].notna() & rows["same"].duplicated()
    later = rows["failed"].notna() & rows["failed"].isin(set(rows["answered"].dropna())) & ~twice
    if twice.any():
        notes.append(f"{twice.sum():,} answers stand in the log more than once; each is counted once")
    if later.any():
        notes.append(f"failures that were answered in another line or log ({later.sum():,}) are left out")
    kept = ~twice & ~later
    return [log.table[kept[rows["log"].eq(number)].to_numpy()] for number, log in enumerate(logs)], notes


def _models(logs: Sequence[Answers], where: str) -> list[str]:
    """A note on several names of one model; ModelError where there are several models."""
    notes: list[str] = []
    for names in ([name for log in logs for name in log.models], [log.asked for log in logs]):
        counts = Counter(str(name) for name in names if name)
        if len(counts) < 2:
            continue
        named = ", ".join(f"{Redaction().error(name)} {times:,}" for name, times in counts.most_common(NAMED))
        first = next(iter(counts))
        if any(is_other_model(first, other) for other in counts):
            raise ModelError(
                f"{where}.path: the answers are of {len(counts)} models ({named}), and a model of params.yaml is one; "
                "name a log of one model, or export the answers of one"
            )
        notes.append(f"the log reports {len(counts)} names of the model: {named}")
    return notes[:1]
