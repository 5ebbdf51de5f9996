"""The Parquet tables of a study: their rows, columns and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from markedness.records import GENERATION_COLUMNS, UNSUPPORTED, Completion, Prompt


def completion_rows(
    prompt: Prompt, completions: Sequence[Completion], min_coverage: float = 0.0
) -> Iterator[dict[str, Any]]:
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
        if completion.coverage is not None and completion.coverage < min_coverage:
            log_probs = (None,) * len(candidates)
            reasons = (f"coverage {completion.coverage:.3g} is below min_coverage {min_coverage:g}",) * len(candidates)
        scored = {
            "estimator": completion.estimator, "coverage": completion.coverage, "cut_tokens": completion.cut_tokens,
        }  # fmt: skip
        for candidate, log_prob, reason in zip(candidates, log_probs, reasons, strict=True):
            known = dict(prompt.candidate_columns.get(candidate or "", {}))
            yield row | {"candidate": candidate, "log_prob": log_prob, "reason": reason} | scored | known


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
