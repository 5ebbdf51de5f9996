"""The unfinished rows of a batch of texts and what the model remembers of them.

Equal prompts are read once, and so is the beginning that all prompts share: examples in front of the question are most
of a prompt. The memory has room for the tokens to come, so that a step copies its own keys and values alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Protocol

import torch
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

ROOM = 64
"""Tokens that a row's memory has room for beyond those it holds, when it is copied to a larger place."""


class NoCache(Exception):  # noqa: N818
    """The model keeps no cache of keys and values whose rows could be chosen: a state-space model, for one."""


class Decoder(Protocol):
    """The unfinished rows of a batch: they are fed tokens and dropped as they finish."""

    def start(self) -> torch.Tensor:
        """Read the prompts; logits (rows, vocabulary) of each row's first token."""
        ...

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Feed one token per row; logits (rows, vocabulary) of the next."""
        ...

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows only."""
        ...


class Roomy(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, (rows, heads, tokens, size), with room for more tokens."""

    keys: torch.Tensor
    values: torch.Tensor
    _places: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append in place."""
        before, after = self.keys.shape[-2], self.keys.shape[-2] + key_states.shape[-2]
        if self._places is None or not self._in_place() or after > self._places[0].shape[-2]:
            self._places = (_roomier(self.keys, after + ROOM), _roomier(self.values, after + ROOM))
        for place, states in zip(self._places, (key_states, value_states), strict=True):
            place[..., before:after, :] = states
        self.keys, self.values = (place[..., :after, :] for place in self._places)
        return self.keys, self.values

    def _in_place(self) -> bool:
        """Whether the rows are still those of the roomy place: selecting rows makes new tensors."""
        return self._places is not None and self.keys.data_ptr() == self._places[0].data_ptr()


class RoomyWindow(Roomy, DynamicSlidingWindowLayer):  # type: ignore[misc]
    """The same for a layer that attends to the last tokens only; beyond its window it forgets as transformers does."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append in place while all tokens are within the window."""
        if self.cumulative_length + key_states.shape[-2] >= self.sliding_window:
            return DynamicSlidingWindowLayer.update(self, key_states, value_states)  # type: ignore[no-any-return]
        self.cumulative_length += key_states.shape[-2]
        return super().update(key_states, value_states)


ROOMY = {DynamicLayer: Roomy, DynamicSlidingWindowLayer: RoomyWindow}


def _roomier(states: torch.Tensor, tokens: int) -> torch.Tensor:
    place = states.new_empty((*states.shape[:-2], tokens, states.shape[-1]))
    place[..., : states.shape[-2], :] = states
    return place


class Causal:
    """A causal model: prompts are padded on the left, with the positions that padding shifts."""

    def __init__(self, model: Any, prompts: Sequence[tuple[int, ...]], pad: int) -> None:
        self.model = model
        self.distinct = list(dict.fromkeys(prompts))
        width = max(map(len, self.distinct))
        device = model.device
        self.ids = torch.tensor([[pad] * (width - len(ids)) + list(ids) for ids in self.distinct], device=device)
        self.mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in self.distinct], device=device)
        place = {ids: row for row, ids in enumerate(self.distinct)}
        self.rows = torch.tensor([place[ids] for ids in prompts], device=device)
        self.past: Any = None
        known = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in known
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}

    def start(self) -> torch.Tensor:
        """Read the prompts."""
        read = self._read_beginning()
        positions = (self.mask.cumsum(-1) - 1).clamp(min=0)
        logits = self._forward(self.ids[:, read:], positions[:, read:], self.mask)
        self._make_room()
        self.select(self.rows)
        return logits[self.rows]

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Feed one token per row."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        return self._forward(tokens[:, None], self.mask.sum(-1, keepdim=True) - 1, self.mask)

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows only."""
        self.mask = self.mask[rows]
        self.past.reorder_cache(rows)

    def _read_beginning(self) -> int:
        """Read what all prompts begin with, for one row, and hand it to all; the number of columns that are read.

        A row with padding holds it further to the right, so that the columns are those of a whole prompt.
        """
        shortest = min(map(len, self.distinct))
        columns_alike = (len(set(tokens)) == 1 for tokens in zip(*self.distinct, strict=False))
        shared = min(len(list(takewhile(bool, columns_alike))), shortest - 1)
        if shared < 1 or len(self.distinct) == 1 or not self.takes_positions or sets_positions_anew(self.model):
            return 0
        beginning = torch.tensor([self.distinct[0][:shared]], device=self.model.device)
        self._forward(beginning, torch.arange(shared, device=beginning.device)[None], torch.ones_like(beginning))
        layers = self.past.layers if hasattr(self.past, "layers") else []
        if not layers or any(type(layer) not in ROOMY or _tokens(layer) != shared for layer in layers):
            self.past = None
            return 0
        padding = (self.mask == 0).sum(-1, keepdim=True)
        columns = (torch.arange(shared, device=beginning.device) - padding).clamp(min=0)
        for layer in layers:
            layer.keys, layer.values = (held[0][:, columns].transpose(0, 1) for held in (layer.keys, layer.values))
        return shared

    def _make_room(self) -> None:
        """Give each layer whose kind is known a place in which tokens can be appended."""
        for number, layer in enumerate(self.past.layers if hasattr(self.past, "layers") else ()):
            if type(layer) in ROOMY and _tokens(layer):
                roomy = ROOMY[type(layer)].__new__(ROOMY[type(layer)])
                roomy.__dict__.update(layer.__dict__)
                self.past.layers[number] = roomy

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        more = {"position_ids": positions} if self.takes_positions else {}
        out = self.model(
            input_ids=ids, attention_mask=mask, past_key_values=self.past, use_cache=True, **more, **self.last_only
        )
        self.past = getattr(out, "past_key_values", None)
        if self.past is None:
            raise NoCache
        return out.logits[:, -1]


def _tokens(layer: DynamicLayer) -> int:
    """How many tokens the layer holds; 0 where it shares those of another."""
    return layer.keys.shape[-2] if layer.is_initialized and layer.keys.numel() else 0


def sets_positions_anew(model: Any) -> bool:
    """Whether its rotary positions depend on the length of what is read at once."""
    kinds = {str(getattr(module, "rope_type", "")) for module in model.modules()}
    return any("dynamic" in kind or "longrope" in kind for kind in kinds)


class EncoderDecoder:
    """An encoder-decoder model: equal prompts are encoded once, padded on the right."""

    def __init__(self, model: Any, prompts: Sequence[tuple[int, ...]], pad: int) -> None:
        self.model = model
        distinct = list(dict.fromkeys(prompts))
        width = max(map(len, distinct))
        self.ids = torch.tensor([list(ids) + [pad] * (width - len(ids)) for ids in distinct], device=model.device)
        self.mask = torch.tensor(
            [[1] * len(ids) + [0] * (width - len(ids)) for ids in distinct], device=model.device
        )  # fmt: skip
        place = {ids: row for row, ids in enumerate(distinct)}
        self.rows = torch.tensor([place[ids] for ids in prompts], device=model.device)
        self.past: Any = None

    def start(self) -> torch.Tensor:
        """Read the prompts."""
        self.encoded = self.model.get_encoder()(input_ids=self.ids, attention_mask=self.mask)
        self.encoded.last_hidden_state = self.encoded.last_hidden_state[self.rows]
        self.mask = self.mask[self.rows]
        first = self.model.generation_config.decoder_start_token_id
        first = self.model.config.decoder_start_token_id if first is None else first
        return self.step(torch.full((len(self.rows),), first, device=self.model.device))

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Feed one token per row."""
        out = self.model(
            encoder_outputs=self.encoded, attention_mask=self.mask, decoder_input_ids=tokens[:, None],
            past_key_values=self.past, use_cache=True,
        )  # fmt: skip
        self.past = out.past_key_values
        return out.logits[:, -1]

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows only."""
        self.mask = self.mask[rows]
        self.encoded.last_hidden_state = self.encoded.last_hidden_state[rows]
        self.past.reorder_cache(rows)
