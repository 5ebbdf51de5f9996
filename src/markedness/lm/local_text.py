"""Text from a local model: batched sampling in which a draw depends on its own seed, not on its neighbours.

transformers' ``generate`` draws a whole batch from one generator, so a text would change with the batch it is in; it
also computes finished rows to the end. Here every draw brings its uniforms, equal prompts are read once, and finished
rows leave the batch.

Rounding depends on the shape of a batch. In float64 that does not reach the text in practice, in float32 seldom
(``benchmarks/generation.py`` prints the share of equal texts). In bfloat16 it does: the same run gives the same texts,
but a draw that comes into a batch of another size (another batch_size, a run resumed after a kill) gives another text
of the same distribution. ``dtype_text: float32`` where that matters, float64 where not one text may differ.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import torch

from markedness.lm.decoders import Causal, Decoder, EncoderDecoder
from markedness.records import Sampling

NUCLEUS = (256, 8192)
"""Most probable tokens among which the nucleus is looked for first: sorting 262,144 costs more than the model."""
TAIL = 8
"""Tokens decoded before the newest ones, beyond the stop text's length, to see a stop that spans tokens."""

_REASONING = re.compile("think|thought|reason|reflection|scratchpad|channel|message", re.IGNORECASE)
"""What the special tokens speak of that set reasoning apart from the answer, as ``<|channel|>`` and ``[THINK]``."""


@dataclass
class Job:
    """One text to be drawn."""

    prompt: tuple[int, ...]
    """Token ids, special tokens included."""
    uniforms: np.ndarray
    """One number in [0, 1) for each token that may be drawn; its length is the most tokens there will be."""
    sampling: Sampling
    stop: tuple[str, ...] = ()
    context: tuple[int, ...] = ()
    """The prompt's last tokens where the text continues them; none where it is an answer."""
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None


def choose(logits: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Draw one token per row by inverting the cumulative distribution of its nucleus.

    Parameters
    ----------
    logits
        (rows, vocabulary).
    temperature
        (rows,); 0 takes the most probable token.
    top_p
        (rows,); the nucleus is the fewest most probable tokens whose probabilities sum to at least this.
    uniform
        (rows,), in [0, 1).

    Returns
    -------
    torch.Tensor
        (rows,) token ids.
    """
    vocabulary = logits.shape[-1]
    rows = (temperature > 0).nonzero()[:, 0]
    if not len(rows):
        return logits.argmax(-1)
    tokens = logits.argmax(-1) if len(rows) < len(logits) else torch.zeros_like(rows)
    heat = torch.where(temperature > 0, temperature, 1.0)[:, None]
    log_total = _log_partition(logits, heat)
    for size in (*NUCLEUS, vocabulary):
        if not len(rows):
            break
        here = logits if len(rows) == len(logits) else logits[rows]
        top, ids = here.topk(min(size, vocabulary), dim=-1)
        probabilities = (top.float() / heat[rows] - log_total[rows]).double().exp()
        places, found = _invert(probabilities, top_p[rows], uniform[rows])
        if size >= vocabulary:
            found = torch.ones_like(found)
        tokens[rows[found]] = ids[found].gather(1, places[found, None])[:, 0]
        rows = rows[~found]
    return tokens


def _log_partition(logits: torch.Tensor, heat: torch.Tensor) -> torch.Tensor:
    """Logarithm of the partition sum of each row, shape (rows, 1): a row at a time stays in a processor's cache."""
    if logits.device.type != "cpu":
        return (logits.float() / heat).logsumexp(-1, keepdim=True)
    highest = logits.amax(-1, keepdim=True).float()
    place = torch.empty_like(logits[0], dtype=torch.float32)
    sums = [
        place.copy_(row).sub_(row_highest).div_(row_heat).exp_().sum()
        for row, row_highest, row_heat in zip(logits, highest, heat, strict=True)
    ]
    return highest / heat + torch.stack(sums).log()[:, None]


def _invert(
    probabilities: torch.Tensor, top_p: torch.Tensor, uniform: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Place per row where the cumulative sum of the nucleus exceeds uniform times its mass, and whether it is in here.

    ``probabilities`` are the largest of each row, in descending order; a nucleus of everything has mass 1.
    """
    everything = top_p >= 1
    cumulative = probabilities.cumsum(-1)
    size = torch.searchsorted(cumulative, top_p[:, None])[:, 0]  # places before the one that reaches top_p
    last = torch.where(everything, probabilities.shape[-1] - 1, size.clamp(max=probabilities.shape[-1] - 1))
    mass = torch.where(everything, 1.0, cumulative.gather(1, last[:, None])[:, 0])
    places = torch.searchsorted(cumulative, (uniform * mass)[:, None], right=True)[:, 0]
    found = torch.where(everything, places <= last, size <= last)
    return torch.minimum(places, last), found


@torch.inference_mode()  # type: ignore[untyped-decorator]
def draw(model: Any, tokenizer: Any, jobs: Sequence[Job], ends: frozenset[int]) -> None:
    """Fill in ``tokens`` and ``finish_reason`` of each job.

    Parameters
    ----------
    model, tokenizer
        Causal or encoder-decoder.
    jobs
        Drawn together, as one batch.
    ends
        Token ids that end a text.

    Raises
    ------
    NoCache
        When the model has no cache that rows can leave.
    ValueError
        When the logits are not finite: the model overflows in its dtype.
    """
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    kind = EncoderDecoder if model.config.is_encoder_decoder else Causal
    decoder: Decoder = kind(model, [job.prompt for job in jobs], pad)
    rows = list(jobs)
    logits = decoder.start()
    while True:
        if not bool(torch.isfinite(logits.amax(-1)).all()):
            raise ValueError(f"logits are not finite in {str(logits.dtype).removeprefix('torch.')}")
        tokens = choose(logits, *_settings(rows, logits.device))
        for job, token in zip(rows, tokens.tolist(), strict=True):
            if job.finish_reason is None:
                _take(job, token, tokenizer, ends)
        going = [row for row, job in enumerate(rows) if job.finish_reason is None]
        if not going:
            return
        if len(rows) - len(going) >= max(1, len(rows) // 8):  # thinning out copies the cache: not for every row
            kept = torch.tensor(going, device=logits.device)
            decoder.select(kept)
            tokens, rows = tokens[kept], [rows[row] for row in going]
        logits = decoder.step(tokens)


def _settings(rows: Sequence[Job], device: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Temperature, top-p and this step's uniform of each row; a finished row's uniform is not used."""
    temperature = [job.sampling.temperature for job in rows]
    top_p = [job.sampling.top_p for job in rows]
    uniform = [job.uniforms[min(len(job.tokens), len(job.uniforms) - 1)] for job in rows]
    return (
        torch.tensor(temperature, dtype=torch.float32, device=device),
        torch.tensor(top_p, dtype=torch.float64, device=device),
        torch.tensor(uniform, dtype=torch.float64, device=device),
    )


def _take(job: Job, token: int, tokenizer: Any, ends: frozenset[int]) -> None:
    """Append one token and see whether the text ends with it."""
    if token in ends:
        job.finish_reason = "stop"
        return
    job.tokens.append(token)
    if job.stop:
        tail = job.tokens[-(max(map(len, job.stop)) + TAIL) :]
        newest = tokenizer.decode(tail, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if any(stop in newest for stop in job.stop):
            job.finish_reason = "stop"
            return
    if len(job.tokens) == len(job.uniforms):
        job.finish_reason = "length"


@functools.lru_cache(maxsize=2)
def _marks(tokenizer: Any) -> dict[int, str]:
    """The special tokens that set reasoning apart from the answer."""
    special = {number: token.content for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {number: content for number, content in special.items() if _REASONING.search(content)}


def text_of(job: Job, tokenizer: Any) -> str:
    """The drawn text up to its stop, which is left out; its leading space, if any, is kept.

    Special tokens are no part of it, but for those that set reasoning apart: what follows it could not be told without.
    Some tokenizers drop the space before the first token they decode, so the prompt's last tokens are decoded with it.
    """
    marks = _marks(tokenizer)

    def plain(tokens: list[int]) -> str:
        return str(tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def decode(tokens: list[int]) -> str:
        runs = groupby(tokens, marks.__contains__)
        return "".join("".join(marks[token] for token in run) if marked else plain(list(run)) for marked, run in runs)

    context = list(job.context)
    text = decode(context + job.tokens)[len(decode(context)) :]
    places = [place for stop in job.stop if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text
