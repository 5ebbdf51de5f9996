"""Packed linear layers: the products of the layers they replace, and nothing else of the model changed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")

import torch
from torch import nn

from markedness.lm.packed import PackedLinear, can_pack, pack


class Special(nn.Linear):  # type: ignore[misc]
    """A layer that may do something else with its weights."""


class Model(nn.Module):  # type: ignore[misc]
    """Embeddings that are the output layer too, two layers in between, one used twice, and a special one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(50, 16)
        self.up = nn.Linear(16, 24)
        self.again = self.up
        self.down = nn.Linear(24, 16, bias=False)
        self.special = Special(16, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.embed(ids)
        rows = self.special(self.down(torch.tanh(self.up(rows) + self.again(rows))))
        return self.head(rows[:, -2:, :])


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)], ids=str)
def test_pack_changes_no_product_beyond_rounding(dtype: torch.dtype, atol: float) -> None:
    """bfloat16 has 8 bits; where its operators are missing the layers stay, and the products are equal."""
    model = Model().to(dtype)
    ids = torch.arange(40).reshape(5, 8)
    with torch.no_grad():
        before = model(ids)
        pack(model)
        after = model(ids)
    torch.testing.assert_close(after, before, rtol=0, atol=atol)


def test_pack_replaces_linear_layers_and_frees_weights_that_no_other_part_shares() -> None:
    model = Model()
    pack(model)
    if not can_pack(nn.Linear(2, 2)):
        pytest.fail("PyTorch for this processor has no packed linear layers: local models are asked more slowly")
    assert isinstance(model.up, PackedLinear)
    assert model.again is model.up
    assert (model.up.weight.numel(), model.up.weight.dtype) == (0, torch.float32)
    assert isinstance(model.head, PackedLinear)
    assert model.embed.weight.shape == (50, 16)
    assert type(model.special) is Special


def test_pack_leaves_float64_as_it_is() -> None:
    model = Model().double()
    pack(model)
    assert type(model.up) is nn.Linear
