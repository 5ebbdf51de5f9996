"""What is asked, what comes back, what a stage hands on; nothing here reads a file, asks a model or knows an audit."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from markedness.param_numbers import number_fault

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Scalar = str | int | float | bool | None


class Status(StrEnum):
    """What became of one row; ``clean`` writes it, no stage drops a row for it."""

    OK = "ok"
    """Parsed: ``answer`` holds what the measure reads."""
    REFUSAL = "refusal"
    """The model declined."""
    UNPARSED = "unparsed"
    """There is a text, but not of the form the measure reads."""
    TRUNCATED = "truncated"
    """Cut off by the token limit before the measure could read it."""
    FAILED = "failed"
    """No answer: the request failed for good (``error`` says why)."""
    UNSUPPORTED = "unsupported"
    """The backend cannot serve this audit (``error`` says what is missing)."""


class AuditError(Exception):
    """A fault that the user can correct: one sentence with the place and the remedy."""


# ---------------------------------------------------------------- params shared by audits


FIELD_FAULT = "field_fault"
"""Type of an error that names its field itself, as ``field``, and what was given, as ``given``."""


class Strict(BaseModel):
    """Base of every params block: frozen; an unknown key is an error.

    So are a number that is not finite, true or false in place of a number, and an absurd number of replicates.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, given: object) -> object:
        for name, value in given.items() if isinstance(given, dict) else ():
            if name in cls.model_fields and (reason := number_fault(name, value, cls.model_fields[name].annotation)):
                raise PydanticCustomError(FIELD_FAULT, "{reason}", {"field": name, "reason": reason, "given": value})
        return given


def composed(text: str) -> str:
    """A text in Unicode's composed form (NFC), in which names and values are compared, however they were typed."""
    return unicodedata.normalize("NFC", text)


class Stimuli(Protocol):
    """The stimuli of one audit: data/stimuli/<audit>/ of the study, then beside params.yaml, then of the package."""

    @property
    def language(self) -> str:
        """Of the stimuli; another one than English has the folder data/stimuli/<audit>/<language>."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        ...

    def table(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """A CSV or TSV file with a header, all cells as text, "" where empty; ``columns`` must be there."""
        ...

    def data(self, name: str) -> Any:
        """A YAML or JSON file."""
        ...

    def text(self, name: str) -> str:
        """A UTF-8 text file."""
        ...


# ---------------------------------------------------------------- asking


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a completion is drawn."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    """Texts at which a completion model stops; chat models end their turn themselves."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a model, for one group: a chat model is sent ``messages``, a base model continues ``completion``.

    With ``candidates`` it is not asked for text: it scores each candidate as the continuation of ``completion``.
    """

    prompt_id: str
    """The template this is an instance of: the cluster that resampling draws."""
    group: str
    """Name of the group, see `group_name`."""
    messages: tuple[Message, ...] = ()
    completion: str | None = None
    sampling: Sampling = Sampling()
    samples: int = 1
    """How many completions are drawn."""
    first_sample: int = 0
    """Index of the first of them: a prompt that is asked again later goes on counting, so that its draws are new."""
    candidates: tuple[str, ...] = ()
    """Continuations to be scored, without a leading space; empty: text is generated."""
    perplexity: bool = False
    """Score ``completion`` itself: one ln probability, the mean over its tokens; no candidates are given."""
    multi_token: bool = False
    """Score candidates of several tokens too, by the chain rule."""
    cut: str = ""
    """The part of ``completion`` that may lose words on its right where the context is too short; "": none may."""
    columns: Mapping[str, Scalar] = field(default_factory=dict)
    """Further columns of the rows of this prompt: axis values, cue, name, ..."""
    candidate_columns: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    """Candidate -> further columns of its row: known before it is scored, such as a rating."""

    @property
    def text(self) -> str:
        """The prompt as a reader sees it: the last turn, or what is continued."""
        return self.messages[-1].content if self.messages else (self.completion or "")


TOP_LOGPROBS = "top_logprobs_renormalised"
"""``estimator``: from the alternatives that a server shows at the first token."""
ABSENT = "not among the served alternatives"
"""``reason`` of a candidate without a ln probability, behind which the tokens that a server shows leave nothing."""
SHOWN, IMPUTED, MAYBE_IMPUTED = "shown", "imputed", "perhaps imputed"
"""``reason`` beside a ln probability of this estimator: a server showed the token; it showed others alone, whose
remainder is shared; the data do not say, as they are of an older version or of somebody else."""
NOT_SHOWN, SHOWN_IN_PART = "not shown", "shown in part"
"""``estimator`` of what rests on such probabilities alone, or in part, in the tables of an audit."""
UNSUPPORTED, FILTERED, UNSCORED = "unsupported", "content_filter", "unscored"
"""``finish_reason``: the backend cannot serve it; the server's filter withheld it; a service gave the text no score."""
WITHHELD = "content filter: the server withheld the answer"
"""``error`` of what is `FILTERED`, where the server says no more."""
ENDED, REFUSED = frozenset(("stop", "length")), "refusal"
"""``finish_reason`` of an answer that the model ended, or that is as long as was asked for; that it refused."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer to one sample of a prompt, or the reason there is none."""

    text: str | None = None
    finish_reason: str | None = None
    """"stop", "length", "content_filter", ... as the server says; `UNSUPPORTED`; None when it failed."""
    error: str | None = None
    """Why there is no answer; None when there is one."""
    log_probs: tuple[float | None, ...] = ()
    """ln P(candidate | prompt), nats, in the order of the candidates; None: not served."""
    reasons: tuple[str | None, ...] = ()
    """Why a log probability is None ("not a single token"), and of `TOP_LOGPROBS` whether it is `SHOWN` or `IMPUTED`,
    in the order of the candidates; () if all are the model's own."""
    estimator: str | None = None
    """Of ``log_probs``: "exact", "top_logprobs_renormalised"; of a perplexity "next_token", "masked_token", ..."""
    candidate_tokens: tuple[int | None, ...] = ()
    """How many tokens each candidate is, in their order, where `Prompt.multi_token` was asked; else ()."""
    coverage: float | None = None
    """Probability mass that the served candidates cover, in [0, 1]; None for "exact"."""
    model: str | None = None
    """The model name that the server reports."""
    fingerprint: str | None = None
    """The fingerprint that the server reports."""
    cut_tokens: int | None = None
    """Tokens that ``Prompt.cut`` lost to the context; None: nothing was cut."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def empty(self) -> bool:
        """The draw stands, without a text: billed where reasoning used up ``max_tokens``, or withheld.

        To ask until one passes would select what is measured. Where a server counts no tokens, what the model ended
        stands; where it counts 0, nothing was drawn.
        """
        ended = self.completion_tokens is None and self.finish_reason in ENDED
        stands = ended or bool(self.completion_tokens) or self.finish_reason in (FILTERED, REFUSED, UNSCORED)
        return self.error is not None and self.text is None and stands


def answerless_status(generations: pd.DataFrame) -> pd.Series:
    """FAILED or UNSUPPORTED for each row without an answer, <NA> for the others: where every clean starts."""
    status = pd.Series(pd.NA, index=generations.index, dtype="string", name="status")
    status[generations["error"].notna()] = Status.FAILED.value
    status[generations["finish_reason"].eq(UNSUPPORTED).fillna(False)] = Status.UNSUPPORTED.value
    return status


@dataclass(frozen=True)
class CorpusColumns:
    """The columns that an audit reads from texts that exist already, beside its axes."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    axes: Literal["all", "any", "none"] = "all"
    """Which axes must have a column: every one, at least one, or none, where another column names the group."""
    written: tuple[str, ...] = ()
    """Further columns that the audit's stages write, "{axis}" for one per axis: no axis may have their names."""
    may_be_axis: tuple[str, ...] = ()
    """Columns of every table that are an axis of this audit all the same."""
    without_group: str = "they are in no comparison"
    """What becomes of rows without a group."""


# ---------------------------------------------------------------- stage results

Kind = Literal["text", "whole", "number", "flag", "vector"]
"""What a column holds; whole: whole numbers, flag: true or false, vector: a list of numbers in each row."""
Columns = Mapping[str, Kind]
"""Column -> what it holds: the schema of a Parquet table, checked when it is written."""


def columns(text: str = "", whole: str = "", number: str = "", flag: str = "", vector: str = "") -> Columns:
    """A schema: the names of the columns of each kind, separated by spaces."""
    kinds: dict[Kind, str] = {"text": text, "whole": whole, "number": number, "flag": flag, "vector": vector}
    return {name: kind for kind, names in kinds.items() for name in names.split()}


GENERATION_COLUMNS = ("prompt_id", "group", "sample", "prompt", "text", "finish_reason", "error")
"""Columns of every generations table; scored rows add candidate, log_prob, reason, estimator, coverage, cut_tokens."""

FILE_ROW = "file_row"
"""Column of generations that came from a corpus: the place of the row in its files, for what was published by it."""

FeatureTables = Mapping[str, pd.DataFrame]
"""Table name -> one unit of analysis a row: data/features/<audit>/<model>/<name>.parquet."""


@dataclass(frozen=True)
class Unsupported:
    """There is nothing to measure, and why: one sentence with the remedy."""

    reason: str


@dataclass(frozen=True)
class Features:
    """What featurize returns."""

    tables: FeatureTables
    """Named for their rows, the audit's main table first."""
    models: Mapping[str, BaseEstimator] = field(default_factory=dict)
    """Name -> fitted scikit-learn estimator, saved with skops under models/<audit>/<model>/."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """File name -> content of what has a format of its own (GraphML, safetensors, JSON)."""
    notes: Sequence[str] = ()
    """Sentences a reader of the results must see."""
