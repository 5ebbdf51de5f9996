"""Token probabilities from a local model: ln p of single-token continuations, and perplexities.

The read-outs are those of Hofmann et al. (2024): the last position of a causal model, the mask of a masked one, the
second decoder position of an encoder-decoder that is fed its start token and the sentinel.

Sequences are batched in buckets of equal length, so there is no padding, and with it no attention mask and no shifted
position to get wrong: batched numbers are those of one sequence at a time. Logits are computed at the read-out
position only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from markedness.records import UNSUPPORTED, Completion, Prompt

Kind = Literal["causal", "masked", "encoder-decoder"]

SENTINEL = "<extra_id_0>"
LOGITS_AT_ONCE = 2**27
"""Most logits computed together where every position is read: 512 MB in float32."""
ROWS_AT_ONCE = 2
"""Rows whose float64 partition sum is computed together: what fits the processor's cache."""
ESTIMATORS: dict[Kind, str] = {"causal": "next_token", "masked": "masked_token", "encoder-decoder": "sentinel_token"}


class Unscorable(Exception):  # noqa: N818
    """This prompt has no score; the message is the reason."""


@dataclass(frozen=True)
class Cloze:
    """One sequence with the position whose prediction is read."""

    ids: tuple[int, ...]
    position: int


def context_length(model: Any, tokenizer: Any) -> int | None:
    """Most tokens the model reads at once; None where nothing limits it."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < 10**9 else []
    config = model.config.get_text_config()
    if positions := getattr(config, "max_position_embeddings", None):
        limits.append(positions)
    table: Any = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if table is not None and table.padding_idx is not None:  # RoBERTa counts positions from padding_idx + 1
        limits.append(table.num_embeddings - table.padding_idx - 1)
    return min(limits, default=None)


class Scorer:
    """Scores prompts with one loaded model.

    Parameters
    ----------
    model, tokenizer
        As transformers loads them; the model in evaluation mode.
    kind
        Which read-out.
    batch_size
        Sequences computed together.
    overflow
        "error": a prompt beyond the context has no score; "cut": ``Prompt.cut`` loses words on its right.
    """

    def __init__(
        self, model: Any, tokenizer: Any, kind: Kind, batch_size: int = 64, overflow: Literal["error", "cut"] = "error"
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.kind = kind
        self.batch_size = batch_size
        self.overflow = overflow
        self.context = context_length(model, tokenizer)
        self.blank = self._blank()

    def _blank(self) -> str:
        """What stands for the token that is read: nothing, the mask, or the sentinel."""
        if self.kind == "masked":
            return str(self.tokenizer.mask_token)
        return SENTINEL if self.kind == "encoder-decoder" else ""

    @property
    def unsupported(self) -> str | None:
        """What the tokenizer lacks for the read-out; None when it lacks nothing."""
        token = {"causal": None, "masked": self.tokenizer.mask_token, "encoder-decoder": SENTINEL}[self.kind]
        if self.kind == "masked" and token is None:
            return "its tokenizer has no mask token, so no token probability can be read"
        if self.kind == "encoder-decoder" and self._blank_id() in (None, self.tokenizer.unk_token_id):
            return f"its tokenizer has no {SENTINEL}, so no token probability can be read"
        return None

    def _blank_id(self) -> int | None:
        masked = self.kind == "masked"
        blank: int | None = self.tokenizer.mask_token_id if masked else self.tokenizer.convert_tokens_to_ids(SENTINEL)
        return blank

    # ---------------------------------------------------------------- what the backend calls

    def score(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """The ln probability of every candidate after its prompt, in nats; each distinct prompt is computed once.

        A candidate that is not one token after the prompt has None and a reason; a prompt that cannot be scored has
        ``error``.
        """
        return self._each_once(prompts, self._score)

    def perplexity(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Mean ln P per token of each prompt's text; exp of its negative is the (pseudo-)perplexity.

        Causal: tokens 2 to the last, given those before. Masked and encoder-decoder: each token in turn is replaced
        by the mask or the sentinel, special tokens excepted.
        """
        return self._each_once(prompts, self._perplexity)

    def _each_once(
        self, prompts: Sequence[Prompt], answer: Callable[[list[Prompt]], list[Completion]]
    ) -> list[Completion]:
        if self.unsupported:
            return [Completion(finish_reason=UNSUPPORTED, error=self.unsupported)] * len(prompts)
        distinct = {(prompt.completion, prompt.candidates, prompt.cut): prompt for prompt in prompts}
        answers = dict(zip(distinct, answer(list(distinct.values())), strict=True))
        return [answers[prompt.completion, prompt.candidates, prompt.cut] for prompt in prompts]

    # ---------------------------------------------------------------- candidates

    def _score(self, prompts: list[Prompt]) -> list[Completion]:
        answers: list[Completion] = [Completion()] * len(prompts)
        places: list[int] = []
        clozes: list[Cloze] = []
        tokens: list[list[int | None]] = []
        for place, prompt in enumerate(prompts):
            try:
                text, cut_tokens = self._fit(prompt)
                cloze = self._cloze(text)
            except Unscorable as reason:
                answers[place] = Completion(error=str(reason))
                continue
            ids = self._single_tokens(text, prompt.candidates)
            reasons = tuple(
                None if token is not None else f"'{candidate}' is not a single token after this prompt"
                for candidate, token in zip(prompt.candidates, ids, strict=True)
            )
            answers[place] = Completion(
                finish_reason="stop", log_probs=(None,) * len(ids), reasons=reasons if any(reasons) else (),
                estimator="exact", cut_tokens=cut_tokens, prompt_tokens=len(cloze.ids),
            )  # fmt: skip
            places.append(place)
            clozes.append(cloze)
            tokens.append(ids)
        for bucket, logits, log_totals in self._read(clozes):
            for row, index in enumerate(bucket):
                values = tuple(
                    None if token is None else float(logits[row, token].double() - log_totals[row])
                    for token in tokens[index]
                )
                answers[places[index]] = replace(answers[places[index]], log_probs=values)
        return answers

    def _single_tokens(self, text: str, candidates: Sequence[str]) -> list[int | None]:
        """Id of each candidate x if tokens(text + " " + x) is tokens(text) and one more, else None."""
        whole = [f"{text} {candidate}" for candidate in candidates]
        prefix, *continued = self.tokenizer([text, *whole], add_special_tokens=False)["input_ids"]
        return [ids[-1] if ids[:-1] == prefix and len(ids) == len(prefix) + 1 else None for ids in continued]

    def _cloze(self, text: str) -> Cloze:
        ids = self._ids(f"{text} {self.blank}" if self.blank else text)
        if self.kind == "causal":
            if not ids:
                raise Unscorable("an empty prompt has no token after which a probability could be read")
            return Cloze(tuple(ids), len(ids) - 1)
        found = [place for place, token in enumerate(ids) if token == self._blank_id()]
        if len(found) != 1:
            raise Unscorable(f"the text itself holds '{self.blank}', so the token to be read is not unique")
        return Cloze(tuple(ids), found[0])

    def _ids(self, text: str) -> list[int]:
        """Token ids with the special tokens that the tokenizer adds; none at the end of a causal prompt."""
        ids: list[int] = self.tokenizer(text)["input_ids"]
        if self.kind == "causal" and ids and ids[-1] == self.tokenizer.eos_token_id:
            bare = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            if not bare or bare[-1] != ids[-1]:
                return ids[:-1]
        return ids

    # ---------------------------------------------------------------- perplexity

    def _perplexity(self, prompts: list[Prompt]) -> list[Completion]:
        answers: list[Completion] = [Completion()] * len(prompts)
        texts: dict[int, list[int]] = {}
        for place, prompt in enumerate(prompts):
            try:
                text, cut_tokens = self._fit(prompt)
                ids = self._ids(text)
                scored = len(self._scored_places(text, ids))
                if scored == 0:
                    raise Unscorable(
                        "the text is too short for a perplexity: it has no token whose probability could be read"
                    )
            except Unscorable as reason:
                answers[place] = Completion(error=str(reason))
                continue
            texts[place] = ids
            answers[place] = Completion(
                finish_reason="stop", estimator=ESTIMATORS[self.kind], cut_tokens=cut_tokens,
                prompt_tokens=len(ids), completion_tokens=scored,
            )  # fmt: skip
        means = self._next_token(texts) if self.kind == "causal" else self._each_token(prompts, texts)
        for place, mean in means.items():
            answers[place] = replace(answers[place], log_probs=(mean,))
        return answers

    def _scored_places(self, text: str, ids: list[int]) -> list[int]:
        """Places of the tokens whose probability is read."""
        if self.kind == "causal":
            return list(range(1, len(ids)))
        special = self.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]
        return [place for place, flag in enumerate(special) if not flag]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _next_token(self, texts: dict[int, list[int]]) -> dict[int, float]:
        means = {}
        places = list(texts)
        vocabulary = self.model.config.get_text_config().vocab_size
        for bucket in self._buckets([len(texts[place]) for place in places]):
            length = len(texts[places[bucket[0]]])
            rows = max(1, min(len(bucket), LOGITS_AT_ONCE // (length * vocabulary)))
            for start in range(0, len(bucket), rows):
                part = [places[index] for index in bucket[start : start + rows]]
                ids = torch.tensor([texts[place] for place in part], device=self.model.device)
                logits = self.model(input_ids=ids, use_cache=False).logits
                for row, place in enumerate(part):
                    predicted = logits[row, :-1]
                    true = predicted.gather(1, ids[row, 1:, None])[:, 0].double()
                    totals = torch.cat([part.double().logsumexp(-1) for part in predicted.split(ROWS_AT_ONCE)])
                    means[place] = float((true - totals).mean())
        return means

    def _each_token(self, prompts: list[Prompt], texts: dict[int, list[int]]) -> dict[int, float]:
        clozes: list[Cloze] = []
        truth: list[tuple[int, int]] = []
        blank = self._blank_id()
        for place, ids in texts.items():
            for position in self._scored_places(self._fit(prompts[place])[0], ids):
                clozes.append(Cloze((*ids[:position], blank, *ids[position + 1 :]), position))  # type: ignore[arg-type]
                truth.append((place, ids[position]))
        sums: dict[int, list[float]] = defaultdict(list)
        for bucket, logits, log_totals in self._read(clozes):
            for row, index in enumerate(bucket):
                place, token = truth[index]
                sums[place].append(float(logits[row, token].double() - log_totals[row]))
        return {place: sum(values) / len(values) for place, values in sums.items()}

    # ---------------------------------------------------------------- reading the model

    def _buckets(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Indices of sequences of one length, at most ``batch_size`` together."""
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, length in enumerate(lengths):
            by_length[length].append(index)
        for _, indices in sorted(by_length.items()):
            for start in range(0, len(indices), self.batch_size):
                yield indices[start : start + self.batch_size]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def _read(self, clozes: Sequence[Cloze]) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
        """Buckets of indices; the logits (rows, vocabulary) at their positions; the float64 ln sums (rows,)."""
        for bucket in self._buckets([len(cloze.ids) for cloze in clozes]):
            ids = torch.tensor([clozes[index].ids for index in bucket], device=self.model.device)
            positions = torch.tensor([clozes[index].position for index in bucket], device=self.model.device)
            if self.kind == "encoder-decoder":
                start = self.model.config.decoder_start_token_id
                fed = torch.tensor([[start, self._blank_id()]] * len(bucket), device=self.model.device)
                positions = torch.ones_like(positions)
                inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": fed}
            else:
                inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            with _head_at(self.model, positions):
                logits = self.model(**inputs, **({} if self.kind == "masked" else {"use_cache": False})).logits
            if logits.shape[1] > 1:  # no head was found to read at one position
                logits = logits[torch.arange(len(bucket)), positions][:, None]
            logits = logits[:, 0]
            log_totals = torch.cat([part.double().logsumexp(-1) for part in logits.split(ROWS_AT_ONCE)])
            yield bucket, logits, log_totals

    # ---------------------------------------------------------------- texts beyond the context

    def _fit(self, prompt: Prompt) -> tuple[str, int | None]:
        """The text as it is scored, and how many tokens it lost; Unscorable when it does not fit."""
        text = prompt.completion or ""
        count = self._length(prompt, text)
        if self.context is None or count <= self.context:
            return text, None
        too_long = f"the prompt has {count} tokens and the model reads {self.context}"
        if self.overflow == "error":
            raise Unscorable(f"{too_long}; shorten the text, or set overflow: cut")
        before, found, after = text.partition(prompt.cut) if prompt.cut else (text, "", "")
        ends = [match.end() for match in re.finditer(r"\S+", found)]
        kept, beyond = 0, len(ends)
        while beyond - kept > 1:
            middle = (kept + beyond) // 2
            fits = self._length(prompt, before + found[: ends[middle - 1]] + after) <= self.context
            kept, beyond = (middle, beyond) if fits else (kept, middle)
        if kept == 0:
            raise Unscorable(f"{too_long}, also without the part that may be cut; shorten the template")
        shorter = before + found[: ends[kept - 1]] + after
        return shorter, count - self._length(prompt, shorter)

    def _length(self, prompt: Prompt, text: str) -> int:
        return len(self._ids(text if prompt.perplexity or not self.blank else f"{text} {self.blank}"))


@contextmanager
def _head_at(model: Any, positions: torch.Tensor) -> Iterator[None]:
    """Within the block the output layer sees one position per row: logits have shape (rows, 1, vocabulary)."""
    head = model.get_output_embeddings()
    if head is None:
        yield
        return

    def gather(module: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden = arguments[0]
        return (hidden[torch.arange(len(hidden)), positions][:, None], *arguments[1:])

    handle = head.register_forward_pre_hook(gather)
    try:
        yield
    finally:
        handle.remove()
