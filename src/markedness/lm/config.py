"""The models of params.yaml: one block per backend."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from markedness.credentials import carries_a_secret, is_key_like, key_name_fault, looks_like_a_secret, url_fault
from markedness.records import Strict

DEFAULT_URL = "https://api.openai.com/v1"
"""Where a model without ``base_url`` is asked."""
DEFAULT_KEY = "OPENAI_API_KEY"
"""The environment variable with the key of `DEFAULT_URL`; no other server is sent it unless params name it."""
LONGEST_TIME = 86_400.0
"""Seconds; a longer timeout is a mistake."""
SHORTEST_KEY = 8
"""Letters of a text that could be a key."""
LARGEST_SEED = 2**63 - 1
_CREDENTIALS = frozenset(
    ("apikey", "authorization", "bearer", "bearertoken", "accesstoken", "authtoken", "credentials", "headers",
     "extraheaders", "defaultheaders", "password", "secret", "clientsecret", "xapikey", "xgoogapikey")
)  # fmt: skip
_CREDENTIAL = "looks like a credential; put it into an environment variable and name that in api_key_env"
_OWN_FIELDS = {
    "model": "models.<name>.model", "messages": "the audit's prompts", "prompt": "the audit's prompts",
    "candidates": "the audit's prompts", "n": "<audit>.generate.samples", "stream": "nothing: answers come whole",
    "seed": "models.<name>.seed: true", "temperature": "<audit>.generate", "top_p": "<audit>.generate",
    "stop": "the audit's prompts", "best_of": "nothing: each request has one answer",
    **dict.fromkeys(("logprobs", "top_logprobs"), "models.<name>.top_logprobs"),
    **dict.fromkeys(("echo", "prompt_logprobs", "return_token_ids"), "models.<name>.prompt_logprobs"),
    "perplexity": "the audit's prompts", "multi_token": "guise.generate.multi_token",
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict"), "<audit>.generate"),
}  # fmt: skip
"""Field of a request -> where it is set."""


def body_faults(body: dict[str, Any], where: str = "extra_body") -> Iterator[str]:
    """What may not be a further field of a request: keys, fields that are set elsewhere, values that JSON has not."""
    for name in body:
        if name in _OWN_FIELDS:
            yield f"{where}.{name}: cannot be set here; it is set by {_OWN_FIELDS[name]}"
    yield from _value_faults(body, where, 0)


def _names_a_credential(name: str, value: Any) -> bool:
    """Whether a field is called like a key, or ends so and holds a text long enough, or of the form, to be one."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    text = value if isinstance(value, str) else ""
    named = plain.endswith(("apikey", "token", "auth", "secret", "password", "passwd", "credential", "credentials"))
    formed = plain.endswith(("key", "signature", "sig", "pass", "pwd", "pat")) and is_key_like(text)
    return plain in _CREDENTIALS or (named and len(text) >= SHORTEST_KEY) or formed


def _value_faults(value: Any, where: str, depth: int) -> Iterator[str]:
    if depth > 20:
        yield f"{where}: is nested too deep; at most 20 levels"
    elif isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                yield f"{where}: the key {name!r} is not text; put it in quotes"
            elif _names_a_credential(name, inner):
                yield f"{where}.{name}: {_CREDENTIAL}"
            else:
                yield from _value_faults(inner, f"{where}.{name}", depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _value_faults(inner, f"{where}[{index}]", depth + 1)
    elif isinstance(value, str):
        if looks_like_a_secret(value):
            yield f"{where}: {_CREDENTIAL}"
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield f"{where}: is beyond 64 bits; JSON readers of servers take no such number"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{where}: is not a finite number; JSON has none such"
    elif not isinstance(value, int | float | None):
        yield f"{where}: is {type(value).__name__}, which JSON has not; put it in quotes"


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a request is tried."""

    max_attempts: int = 8
    """Attempts for one request, the first included."""
    max_wait: float = 120.0
    """Longest wait between two attempts, seconds, whatever the server asks for."""


@dataclass(frozen=True)
class Limits:
    """Limits of one stage run; see `Budget` and `OpenAIModel`."""

    max_requests: int | None = None
    max_cost: float | None = None
    retry: RetryPolicy = RetryPolicy()


class ModelConfig(Strict):
    """What the blocks of all backends hold: a model may be a version of a family, compared by size."""

    backend: str
    family: str | None = None
    """Name of the family."""
    n_parameters: float | None = Field(default=None, gt=0)
    """Size of this version."""
    generate: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Audit -> keys of its generate block that are others for this model: {homogeneity: {study: individual_prompt}}."""

    @property
    def limits(self) -> Limits:
        """See `Limits`."""
        return Limits()

    @property
    def priced_as(self) -> str | None:
        """The name that ``prices`` has this model under; None: asking it costs nothing."""
        return None

    def own(self, audit: str) -> str:
        """The keys of an audit's generate block that are others for this model, to follow its size; "" without any."""
        keys = ", ".join(self.generate.get(audit, ()))
        return f", with {keys} of its own" if keys else ""

    def source(self, audit: str) -> CorpusSource | None:
        """The texts of one audit that exist already."""
        return None


class Budget(ModelConfig):
    """Limits at which a run stops cleanly; what was answered stays in the ledger."""

    max_requests: int | None = Field(default=None, ge=0)
    """Requests of one stage run."""
    max_cost: float | None = Field(default=None, ge=0)
    """In the currency of ``prices``."""

    @property
    def limits(self) -> Limits:
        """Those of this block."""
        return Limits(self.max_requests, self.max_cost)


class TransformersModel(Budget):
    """A local or hub model: causal, masked or encoder-decoder."""

    backend: Literal["transformers"]
    path: str
    """Folder relative to params.yaml, or a hub id."""
    revision: str | None = None
    """Commit or tag of a hub model: pins it. A label for a folder, whose answers in the ledger are found by the hash
    of its files."""
    gguf_package: str | None = None
    """Installed package whose files are the weights as GGUF; read, not executed, and converted once into ``path``."""
    chat: bool = False
    """Send messages through the tokenizer's chat template instead of continuing a text."""
    trust_remote_code: bool = False
    dtype_text: Literal["float32", "bfloat16", "float16", "float64"] = "bfloat16"
    """bfloat16 is faster than float32 on a GPU and on a CPU that has it, and slower on others; a text may change with
    the batch it is drawn in."""
    dtype_scores: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    scored_turn: str | None = None
    """Score texts in the tokenizer's chat template: this is the user's turn ("Continue this text."), and the text
    begins the model's own. None: the text alone, as for a base model."""
    whole_words: bool = False
    """Perplexity of a masked model: mask the rest of a word with each of its tokens (PLL-word-l2r)."""
    device: str = Field(default="cpu", pattern=r"^(cpu|mps|(cuda|xpu)(:\d{1,3})?)$")
    """cpu, cuda, cuda:1, ...; xpu and mps were not tried."""
    batch_size: int = Field(default=64, ge=1)
    """Sequences generated or scored together; texts are drawn on a processor two batches at a time."""
    overflow: Literal["error", "cut"] = "error"
    """A prompt longer than the context: record it as failed, or cut the text on the right."""
    workers: int = Field(default=1, ge=1)
    """More than one: Ray workers, one model each (extra ``cluster``)."""


class ServerModel(Budget):
    """A model behind a server; the blocks of backends of other packages that ask one derive from it, too."""

    model: str
    """The name the server knows it by."""
    base_url: str | None = None
    """Where the server is, without query and credentials."""
    served_by: str | None = Field(default=None, min_length=1)
    """Who answers, as a part of the ledger's keys; None: ``base_url``. Set it where another port or gateway serves the
    same model, so that what was answered there is not asked again."""
    api_key_env: str | None = None
    """Name of the environment variable with the key; the key itself is never written to disk. None: no key is sent."""
    concurrency: int = Field(default=16, ge=1)
    """Most requests in flight; fewer while the server slows down or pushes back."""
    min_concurrency: int = Field(default=1, ge=1)
    """Fewest requests in flight, whatever the server does."""
    timeout: float = Field(default=60.0, gt=0, le=LONGEST_TIME)
    """Seconds for one attempt."""
    max_attempts: int = Field(default=8, ge=1)
    """Attempts for one request, the first included."""
    max_wait: float = Field(default=120.0, ge=0, le=LONGEST_TIME)
    """Longest wait before another attempt, seconds, whatever the server asks for."""

    @model_validator(mode="after")
    def _asked_safely(self) -> Self:
        faults = list(self.faults())
        if self.base_url is not None and (fault := url_fault(self.base_url)):
            faults.append(f"base_url: {fault}")
        if self.served_by is not None and (carries_a_secret(self.served_by)):
            faults.append(
                "served_by: looks like a credential; it stands in every key of the ledger: name the server plainly"
            )
        if self.api_key_env is not None and (fault := key_name_fault(self.api_key_env)):
            faults.append(f"api_key_env: {fault}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def faults(self) -> Iterator[str]:
        """What else is wrong with the block, each as "key: sentence"."""
        yield from ()

    @property
    def limits(self) -> Limits:
        """Those of this block."""
        retry = RetryPolicy(self.max_attempts, self.max_wait)
        return Limits(self.max_requests, self.max_cost, retry)

    @property
    def priced_as(self) -> str:
        """The name that the server knows the model by."""
        return self.model

    @property
    def url(self) -> str:
        """Where requests go; "" where the block does not say it."""
        return (self.base_url or "").rstrip("/")

    @property
    def key_variable(self) -> str | None:
        """The environment variable whose content is sent as the key; None: no key is sent."""
        return self.api_key_env


class OpenAIModel(ServerModel):
    """Any OpenAI-compatible server."""

    backend: Literal["openai"]
    base_url: str | None = None
    """None: https://api.openai.com/v1. Without query and credentials."""
    api_key_env: str | None = None
    """Name of the environment variable with the key; the key itself is never written to disk. None: OPENAI_API_KEY
    where there is no ``base_url``, and no key for any other server."""
    chat: bool = True
    """Chat completions; false: plain completions."""
    top_logprobs: int = Field(default=0, ge=0, le=20)
    """Alternatives asked for where tokens are scored; 0: the server serves none."""
    prompt_logprobs: Literal["echo", "vllm"] | None = None
    """How the server gives the probabilities of its prompts' own tokens, from which scores and perplexities are exact:
    echo: echo with logprobs; vllm: vLLM's prompt_logprobs (untried against a real server). It takes chat: false."""
    seed: bool = False
    """Send a seed per sample, for servers that honour it."""
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request that this server knows: {top_k: 40}."""
    batch_api: bool = False
    """Use the Batch endpoint: cheaper, slower, resumed by its id."""
    batch_requests: int = Field(default=50_000, ge=1)
    """Most requests of one batch."""
    batch_poll: float = Field(default=30.0, gt=0, le=LONGEST_TIME)
    """Seconds between two polls of the open batches."""

    def faults(self) -> Iterator[str]:
        """See `body_faults`."""
        yield from body_faults(self.extra_body)
        if self.prompt_logprobs is not None and self.chat:
            yield "prompt_logprobs: is read from plain completions; set chat: false, or leave it out"

    @property
    def url(self) -> str:
        """Where requests go."""
        return (self.base_url or DEFAULT_URL).rstrip("/")

    @property
    def key_variable(self) -> str | None:
        """The environment variable whose content is sent as the key; None: no key is sent."""
        return self.api_key_env or (DEFAULT_KEY if self.url == DEFAULT_URL else None)


class CorpusSource(Strict):
    """Texts of one audit that exist already."""

    path: str
    """CSV, TSV, JSONL or Parquet, or a log, relative to params.yaml; a pattern (*.csv) reads several files."""
    format: Literal["inspect", "lm_eval", "edsl", "openai_batch"] | None = None
    """The tool whose log it is; None: a table."""
    requests: str | None = None
    """openai_batch: the file of requests that the batch was made of, which has what the answers were asked with."""
    columns: dict[str, str | None] = Field(default_factory=dict)
    """Our column -> theirs, or the path to it in a nested one (metadata.race, choices.0.text); columns of the same name
    need no entry. null: none, such as an axis that the texts do not vary."""
    values: dict[str, dict[Any, str]] = Field(default_factory=dict)
    """Our column -> their code -> our value."""
    constants: dict[str, str] = Field(default_factory=dict)
    """Our column -> one value for all rows, where their file has no such column."""

    @model_validator(mode="after")
    def _requests_of_a_batch(self) -> CorpusSource:
        if self.requests is not None and self.format != "openai_batch":
            raise ValueError("requests: is read for format openai_batch alone; remove it")
        return self


class CorpusModel(ModelConfig):
    """Texts that exist already: published data, human writing, generations made elsewhere."""

    backend: Literal["corpus"]
    personas: CorpusSource | None = None
    homogeneity: CorpusSource | None = None
    guise: CorpusSource | None = None
    knowledge: CorpusSource | None = None
    annotation: CorpusSource | None = None

    def source(self, audit: str) -> CorpusSource | None:
        """The texts of one audit."""
        found: CorpusSource | None = dict(self).get(audit)
        return found


class ScriptedModel(ModelConfig):
    """Answers from a rule of the audit's ``controls`` module: what nothing, and what something look like."""

    backend: Literal["scripted"]
    rule: Literal["none", "planted"] = "none"
    """none: answers vary, but are blind to the group; planted: a known stereotype."""
    seed: int = Field(default=0, ge=-LARGEST_SEED, le=LARGEST_SEED)
    """Another seed is other answers of the same names, vignettes, cues and texts; another ``seed`` of the study is
    another control, in which these differ too."""
    strength: float = Field(default=1.0, ge=0)
    """Scales the planted effect; 0 is no effect."""


class Price(Strict):
    """What a million tokens cost."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
