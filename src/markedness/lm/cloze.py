"""One sequence with the position that is read of it, and what limits its length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch


class Unscorable(Exception):  # noqa: N818
    """This prompt has no score; the message is the reason."""


@dataclass(frozen=True)
class Cloze:
    """One sequence with the position whose prediction is read."""

    ids: tuple[int, ...]
    position: int


def context_length(model: Any, tokenizer: Any) -> int | None:
    """Most tokens the model reads at once; None where nothing limits it."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < 10**9 else []
    config = model.config.get_text_config()
    if positions := getattr(config, "max_position_embeddings", None):
        limits.append(positions)
    table: Any = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if table is not None and table.padding_idx is not None:  # RoBERTa counts positions from padding_idx + 1
        limits.append(table.num_embeddings - table.padding_idx - 1)
    return min(limits, default=None)


@contextmanager
def head_at(model: Any, positions: torch.Tensor) -> Iterator[None]:
    """Within the block the output layer sees one position per row: logits have shape (rows, 1, vocabulary)."""
    head = model.get_output_embeddings()
    if head is None:
        yield
        return

    def gather(module: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = arguments[0]
        return (hidden[torch.arange(len(hidden)), positions][:, None], *arguments[1:])

    handle = head.register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()
