"""Linear layers of a model on the processor, their weights in the order in which oneDNN multiplies.

PyTorch multiplies float32 matrices with MKL and brings bfloat16 weights into oneDNN's order at every call; here it is
done once. The products are the same up to rounding.

The operators are those that PyTorch's own compiler writes for frozen models. They are no part of its documented
interface, so that they are used only where they are found and give what the layer gave before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

ROWS = 64
"""Rows of a batch for which the order is chosen; other numbers of rows give the same products."""


class PackedLinear(nn.Module):  # type: ignore[misc]
    """A linear layer whose weights are packed.

    Parameters
    ----------
    layer
        What it replaces. Unless another part of the model shares its weights, they are freed.
    shared
        Whether another part does, as embeddings that are also the output layer.
    """

    def __init__(self, layer: nn.Linear, shared: bool) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), ROWS)
        if not shared:  # models ask a layer's dtype and device by its weight
            layer.weight.data = layer.weight.data.new_empty(0)
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, rows: torch.Tensor) -> Any:
        """The product, of shape (..., out_features)."""
        return torch.ops.mkldnn._linear_pointwise(rows, self.packed, self.bias, "none", [], "")


@torch.no_grad()  # type: ignore[untyped-decorator]
def pack(model: Any) -> None:
    """Replace the model's linear layers in place; a model that runs elsewhere, or in float64, stays as it is.

    Subclasses of ``torch.nn.Linear`` stay too: they may do something else with their weights.
    """
    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    replaced: dict[int, PackedLinear] = {}
    for path, layer in list(model.named_modules(remove_duplicate=False)):  # a layer may have two places
        if type(layer) is nn.Linear and can_pack(layer):
            if id(layer) not in replaced:
                replaced[id(layer)] = PackedLinear(layer, shared=owners[id(layer.weight)] > 1)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, replaced[id(layer)])


def can_pack(layer: nn.Linear) -> bool:
    """Whether the operators are here for its dtype and device."""
    weight = layer.weight
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise") or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return bool(weight.dtype == torch.float32)
