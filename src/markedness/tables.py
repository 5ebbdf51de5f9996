"""The Parquet tables of a study: their schemas, which are checked when a table is written, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from pandas.api import types

from markedness.records import GENERATION_COLUMNS, UNSUPPORTED, AuditError, Columns, Completion, Kind, Prompt, columns

GENERATIONS = columns(text="prompt_id group prompt text finish_reason error", whole="sample")
SCHEMAS: dict[str, Columns] = {
    "generations": GENERATIONS,
    "responses": {**GENERATIONS, **columns(text="status")},
    "estimates": columns(
        text="key metric item group reference clusters unit positive method",
        number="estimate ci_low ci_high null_mean null_low null_high p p_adjusted detectable",
        whole="n n_missing", flag="comparable headline",
    ),
}  # fmt: skip
"""Table -> its columns. Generations and responses have more: those of the prompts, such as axes, and of the answers."""


class TableError(AuditError):
    """A table that does not have the columns of its schema."""


def check(table: pd.DataFrame, schema: Columns, where: str) -> None:
    """Raise TableError where a column of the schema is missing or holds something else; further columns are allowed."""
    for name, kind in schema.items():
        if name not in table:
            raise TableError(f"{where}: the column '{name}' is missing; it has {', '.join(map(str, table))}")
        if not _holds(table[name], kind):
            raise TableError(f"{where}: the column '{name}' holds {table[name].dtype}, not {kind}")


def check_features(tables: Mapping[str, pd.DataFrame], schemas: Mapping[str, Columns], where: str) -> None:
    """Check each table by the schema of its name, which the audit's spec declares; without schemas nothing is checked.

    A declared table may be left out, as embeddings are where params say so.
    """
    for name, table in tables.items() if schemas else ():
        if name not in schemas:
            raise TableError(f"{where}: the table '{name}' is not declared in the audit's spec; add it to its features")
        check(table, schemas[name], f"{where}/{name}")


def _holds(column: pd.Series, kind: Kind) -> bool:
    """Whether a column holds a kind; one without any value holds every kind."""
    cells = column.dropna()
    if not len(cells):
        return True
    if isinstance(column.dtype, pd.CategoricalDtype):
        cells = pd.Series(column.cat.categories)
    if kind == "vector":
        return column.dtype == object and not isinstance(cells.iloc[0], str)
    if kind == "flag":
        return types.is_bool_dtype(cells.infer_objects())
    if types.is_bool_dtype(cells) or kind == "text":
        return kind == "text" and bool(types.is_string_dtype(cells.infer_objects()))
    if kind == "whole" and types.is_float_dtype(cells):  # integers with missing ones among them
        return bool((cells % 1 == 0).all())
    return bool(types.is_integer_dtype(cells) if kind == "whole" else types.is_numeric_dtype(cells))


def completion_rows(prompt: Prompt, completions: Sequence[Completion]) -> Iterator[dict[str, Any]]:
    """One row per sample, or per sample and candidate; a perplexity has one row without candidate."""
    for sample, completion in enumerate(completions, start=prompt.first_sample):
        row = {
            "prompt_id": prompt.prompt_id, "group": prompt.group, "sample": sample, "prompt": prompt.text,
            "text": completion.text, "finish_reason": completion.finish_reason, "error": completion.error,
            **prompt.columns, "served_model": completion.model, "fingerprint": completion.fingerprint,
        }  # fmt: skip
        candidates: tuple[str | None, ...] = (None,) if prompt.perplexity else prompt.candidates
        if not candidates:
            yield row
            continue
        log_probs = completion.log_probs or (None,) * len(candidates)
        reasons = completion.reasons or (None,) * len(candidates)
        scored = {
            "estimator": completion.estimator, "coverage": completion.coverage, "cut_tokens": completion.cut_tokens,
        }  # fmt: skip
        tokens = completion.candidate_tokens or (None,) * len(candidates)
        for candidate, log_prob, reason, n in zip(candidates, log_probs, reasons, tokens, strict=True):
            known = dict(prompt.candidate_columns.get(candidate or "", {}))
            counted = {"candidate_tokens": n} if prompt.multi_token else {}
            yield row | {"candidate": candidate, "log_prob": log_prob, "reason": reason} | scored | counted | known


def generation_schema(prompts: Sequence[Prompt]) -> dict[str, type]:
    """The columns of `completion_rows` and their types, known before the first row: the table is written in pieces."""
    kinds: dict[str, set[type]] = {}
    for prompt in prompts:
        for columns_of in (prompt.columns, *prompt.candidate_columns.values()):
            for name, value in columns_of.items():
                kinds.setdefault(name, set()).add(type(value))
    columns: dict[str, type] = dict.fromkeys(GENERATION_COLUMNS, str) | {"sample": int}
    columns |= {name: _common(found - {type(None)}) for name, found in kinds.items()}
    columns |= {"served_model": str, "fingerprint": str}
    if any(prompt.candidates or prompt.perplexity for prompt in prompts):
        columns |= {"candidate": str, "log_prob": float, "reason": str}
        columns |= {"estimator": str, "coverage": float, "cut_tokens": int}
    if any(prompt.multi_token for prompt in prompts):
        columns |= {"candidate_tokens": int}
    return columns


def _common(kinds: set[type]) -> type:
    """The type that holds values of all these types."""
    for kind in (bool, int, float):
        if kinds and all(issubclass(found, kind) or (kind is float and found is int) for found in kinds):
            return kind
    return str


def unsupported_generations(reason: str) -> pd.DataFrame:
    """One row that says why nothing could be asked."""
    row = dict.fromkeys(GENERATION_COLUMNS, None) | {"prompt_id": "", "group": "", "sample": 0, "prompt": ""}
    return pd.DataFrame([row | {"finish_reason": UNSUPPORTED, "error": reason}])
