"""all-MiniLM-L6-v2 from its weights, in float32: the vectors of sentence-transformers without loading its packages.

Wang et al. (2020), MiniLM, arXiv 2002.10957; Reimers & Gurevych (2019), Sentence-BERT, arXiv 1908.10084: six layers of
BERT, the mean of the last layer over the word pieces, scaled to length 1. No text is padded to the length of another:
the pieces of a batch stand below each other, and attention is computed for texts of one length at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

DIMENSION = 384
LIMIT = 256
"""Word pieces of a text; what follows is cut, as sentence-transformers does with this model."""
_HEADS = 12
_LAYERS = 6
_EPSILON = 1e-12


@lru_cache(maxsize=1)
def load(folder: Path) -> MiniLM:
    """The model in a folder of sentence-transformers."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return MiniLM(tokenizer, load_file(str(folder / "model.safetensors")))


class MiniLM:
    """The encoder; its weights have the names of BERT."""

    def __init__(self, tokenizer: Tokenizer, weights: dict[str, Tensor]) -> None:
        self._tokenizer = tokenizer
        self._weights = weights

    def encode(self, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        """Unit vectors, shape (n, 384); an empty text has one as well, of the two pieces that frame every text."""
        import torch

        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        pieces = self._pieces(texts)
        order = np.argsort([len(one) for one in pieces], kind="stable")
        with torch.inference_mode():
            for start in range(0, len(order), batch_size):
                places = order[start : start + batch_size]
                means = self._means([torch.from_numpy(pieces[place]) for place in places])
                vectors[places] = torch.nn.functional.normalize(means, dim=1).numpy()
        return vectors

    def _pieces(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The word pieces of each text."""
        found: list[NDArray[np.int32]] = []
        for start in range(0, len(texts), 1000):
            made = self._tokenizer.encode_batch([text.strip() for text in texts[start : start + 1000]])
            found += [np.array(one.ids, dtype=np.int32) for one in made]
        return found

    def _means(self, texts: Sequence[Tensor]) -> Tensor:
        """The mean of the last layer over the pieces of each text; ``texts`` in the order of their lengths."""
        import torch

        w = self._weights
        lengths = [len(text) for text in texts]
        made = w["embeddings.word_embeddings.weight"][torch.cat([*texts])]
        positions = torch.cat([torch.arange(length) for length in lengths])
        made = made + w["embeddings.position_embeddings.weight"][positions]
        made = self._scaled(made + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
        runs = [(length, len([*same])) for length, same in groupby(lengths)]
        for layer in range(_LAYERS):
            made = self._layer(made, f"encoder.layer.{layer}", runs)
        return torch.cat([part.mean(dim=1) for part in _by_length(made, runs)])

    def _layer(self, made: Tensor, name: str, runs: Sequence[tuple[int, int]]) -> Tensor:
        """One layer; the pieces of all texts below each other, which attend only to those of their own text."""
        import torch
        from torch.nn.functional import gelu, scaled_dot_product_attention

        parts = [self._linear(made, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        seen = [
            scaled_dot_product_attention(*(part.unflatten(2, (_HEADS, -1)).transpose(1, 2) for part in same))
            .transpose(1, 2)
            .flatten(2)
            .flatten(0, 1)
            for same in zip(*(_by_length(part, runs) for part in parts), strict=True)
        ]
        made = self._scaled(
            made + self._linear(torch.cat(seen), f"{name}.attention.output.dense"), f"{name}.attention.output"
        )
        inner = gelu(self._linear(made, f"{name}.intermediate.dense"))
        return self._scaled(made + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, values: Tensor, name: str) -> Tensor:
        from torch.nn.functional import linear

        return linear(values, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _scaled(self, values: Tensor, name: str) -> Tensor:
        """Layer normalisation."""
        from torch.nn.functional import layer_norm

        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return layer_norm(values, (DIMENSION,), weight, bias, _EPSILON)


def _by_length(values: Tensor, runs: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Rows of pieces as (texts, pieces, width), one for each run of (length, texts)."""
    parts = values.split([length * n for length, n in runs])
    return [part.unflatten(0, (n, length)) for part, (length, n) in zip(parts, runs, strict=True)]
