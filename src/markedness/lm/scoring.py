"""Token probabilities from a local model: ln p of single-token continuations, and perplexities.

The read-outs are those of Hofmann et al. (2024): the last position of a causal model, the mask of a masked one, the
second decoder position of an encoder-decoder that is fed its start token and the sentinel.

Sequences are batched in buckets of equal length, so there is no padding, and with it no attention mask and no shifted
position to get wrong: batched numbers are those of one sequence at a time. Logits are computed at the read-out
position only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from markedness.lm.cloze import Cloze, Unscorable, context_length, head_at
from markedness.records import UNSUPPORTED, Completion, Prompt

Kind = Literal["causal", "masked", "encoder-decoder"]

SENTINEL = "<extra_id_0>"
LOGITS_AT_ONCE = 2**27
"""Most logits computed together where every position is read: 512 MB in float32."""
ROWS_AT_ONCE = 2
"""Rows whose float64 partition sum is computed together: what fits the processor's cache."""
WHOLE_WORDS = "masked_token_of_word"
ESTIMATORS: dict[Kind, str] = {"causal": "next_token", "masked": "masked_token", "encoder-decoder": "sentinel_token"}


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
    before
        What stands before every text, special tokens written out: the chat template up to the model's own turn, which
        the text begins. Its tokens are no part of a perplexity.
    whole_words
        Perplexity of a masked model: with a token the later ones of its word are masked too (Kauf and Ivanova 2023,
        PLL-word-l2r), so that a word of several tokens is not told by its own rest.
    """

    def __init__(
        self, model: Any, tokenizer: Any, kind: Kind, batch_size: int = 64,
        overflow: Literal["error", "cut"] = "error", *, before: str = "", whole_words: bool = False,
    ) -> None:  # fmt: skip
        self.before = before
        self.start = len(tokenizer(before, add_special_tokens=False)["input_ids"]) if before else 1
        """Of a causal model: the place of the first token whose probability is read."""
        self.whole_words = whole_words
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

        A candidate that is not one token after the prompt has None and a reason, unless the prompt says ``multi_token``
        and the model is causal: then ln p is that of its tokens, by the chain rule. A prompt that cannot be scored has
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
        keys = [(prompt.completion, prompt.candidates, prompt.cut, prompt.multi_token) for prompt in prompts]
        distinct = dict(zip(keys, prompts, strict=True))
        answers = dict(zip(distinct, answer(list(distinct.values())), strict=True))
        return [answers[key] for key in keys]

    # ---------------------------------------------------------------- candidates

    def _score(self, prompts: list[Prompt]) -> list[Completion]:
        answers: list[Completion] = [Completion()] * len(prompts)
        clozes: list[Cloze] = []
        read: list[tuple[int, list[tuple[int, int]]]] = []
        """Of each cloze: the place of its prompt, and of each candidate that it scores a token of, the token."""
        sums: dict[int, list[float | None]] = {}
        for place, prompt in enumerate(prompts):
            try:
                text, cut_tokens = self._fit(prompt)
                cloze = self._cloze(text)
            except Unscorable as reason:
                answers[place] = Completion(error=str(reason))
                continue
            tokens, reasons = self._candidates(text, prompt, len(cloze.ids))
            answers[place] = Completion(
                finish_reason="stop", log_probs=(None,) * len(tokens), reasons=reasons if any(reasons) else (),
                candidate_tokens=tuple(len(ids) or None for ids in tokens) if prompt.multi_token else (),
                estimator="exact", cut_tokens=cut_tokens, prompt_tokens=len(cloze.ids),
            )  # fmt: skip
            sums[place] = [0.0 if ids else None for ids in tokens]
            clozes.append(cloze)
            read.append((place, [(index, ids[0]) for index, ids in enumerate(tokens) if ids]))
            for index, ids in enumerate(tokens):
                for n in range(1, len(ids)):
                    clozes.append(Cloze((*cloze.ids, *ids[:n]), len(cloze.ids) + n - 1))
                    read.append((place, [(index, ids[n])]))
        for bucket, logits, log_totals in self._read(clozes):
            for row, number in enumerate(bucket):
                place, scored = read[number]
                for index, token in scored:
                    known = sums[place][index] or 0.0
                    sums[place][index] = known + float(logits[row, token].double() - log_totals[row])
        for place, values in sums.items():
            answers[place] = replace(answers[place], log_probs=tuple(values))
        return answers

    def _candidates(
        self, text: str, prompt: Prompt, length: int
    ) -> tuple[list[tuple[int, ...]], tuple[str | None, ...]]:
        """Token ids of each candidate x, what tokens(text + " " + x) has beyond tokens(text); () with a reason."""
        whole = [f"{self.before}{text} {candidate}" for candidate in prompt.candidates]
        prefix, *continued = self.tokenizer([self.before + text, *whole], add_special_tokens=False)["input_ids"]
        found: list[tuple[int, ...]] = []
        reasons: list[str | None] = []
        for candidate, ids in zip(prompt.candidates, continued, strict=True):
            own, reason = tuple(ids[len(prefix) :]) if ids[: len(prefix)] == prefix else (), None
            if not own or (len(own) > 1 and not prompt.multi_token):
                reason = f"'{candidate}' is not a single token after this prompt"
            elif len(own) > 1 and self.kind != "causal":
                reason = f"'{candidate}' is not a single token, and several are scored with causal models alone"
            elif self.context is not None and length + len(own) - 1 > self.context:
                reason = f"with '{candidate}' the prompt is longer than the {self.context} tokens that the model reads"
            found.append(() if reason else own)
            reasons.append(reason)
        return found, tuple(reasons)

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
        if self.before:
            return list(self.tokenizer(self.before + text, add_special_tokens=False)["input_ids"])
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
                finish_reason="stop", estimator=WHOLE_WORDS if self.whole_words else ESTIMATORS[self.kind],
                cut_tokens=cut_tokens, prompt_tokens=len(ids), completion_tokens=scored,
            )  # fmt: skip
        means = self._next_token(texts) if self.kind == "causal" else self._each_token(prompts, texts)
        for place, mean in means.items():
            answers[place] = replace(answers[place], log_probs=(mean,))
        return answers

    def _scored_places(self, text: str, ids: list[int]) -> list[int]:
        """Places of the tokens whose probability is read."""
        if self.kind == "causal":
            return list(range(self.start, len(ids)))
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
                    predicted = logits[row, self.start - 1 : -1]
                    true = predicted.gather(1, ids[row, self.start :, None])[:, 0].double()
                    totals = torch.cat([part.double().logsumexp(-1) for part in predicted.split(ROWS_AT_ONCE)])
                    means[place] = float((true - totals).mean())
        return means

    def _each_token(self, prompts: list[Prompt], texts: dict[int, list[int]]) -> dict[int, float]:
        clozes: list[Cloze] = []
        truth: list[tuple[int, int]] = []
        blank = self._blank_id()
        for place, ids in texts.items():
            text = self._fit(prompts[place])[0]
            words = self._words(text) if self.whole_words else {}
            for position in self._scored_places(text, ids):
                hidden = {position, *(later for later in words.get(position, ()) if later > position)}
                masked = tuple(blank if one in hidden else token for one, token in enumerate(ids))
                clozes.append(Cloze(masked, position))  # type: ignore[arg-type]
                truth.append((place, ids[position]))
        sums: dict[int, list[float]] = defaultdict(list)
        for bucket, logits, log_totals in self._read(clozes):
            for row, index in enumerate(bucket):
                place, token = truth[index]
                sums[place].append(float(logits[row, token].double() - log_totals[row]))
        return {place: sum(values) / len(values) for place, values in sums.items()}

    def _words(self, text: str) -> dict[int, list[int]]:
        """Place of each token -> the places of the tokens of its word; words are parted by white space."""
        encoded = self.tokenizer(text, return_offsets_mapping=True)
        places: dict[int, list[int]] = defaultdict(list)
        word_of: dict[int, int] = {}
        ends = [match.end() for match in re.finditer(r"\S+", text)]
        for place, (start, end) in enumerate(encoded["offset_mapping"]):
            if end > start:
                word_of[place] = bisect_left(ends, end)
                places[word_of[place]].append(place)
        return {place: places[word] for place, word in word_of.items()}

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
            with head_at(self.model, positions):
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
