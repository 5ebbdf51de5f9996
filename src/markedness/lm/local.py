"""Models that run here through transformers: causal, masked and encoder-decoder; text and token probabilities.

Nothing heavy is imported before the first draw, so that a run whose ledger is complete needs neither torch nor the
model.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from markedness.lm.base import Draw, LanguageModel, ModelError, RequestFailed
from markedness.lm.config import TransformersModel
from markedness.lm.weights import LocalWeights
from markedness.records import UNSUPPORTED, Completion, Message, Prompt

if TYPE_CHECKING:
    from markedness.lm.scoring import Scorer

CONTEXT = 4
"""Tokens of the prompt decoded before a continuation, to see whether it begins with a space."""

AT_ONCE = 2
"""Batches on a processor at a time, each with its share of the cores: threads that share one small matrix wait for one
another, and all of them for a core that another program has taken."""

SCORED = 4
"""Batches of prompts handed over together where they are scored: more of them have the same length."""


class _Cores:
    """The cores of this process, lent in shares."""

    def __init__(self) -> None:
        import torch

        self.n = torch.get_num_threads()  # by the machine and its environment, before a thread has been given fewer
        self._turn = threading.Lock()
        self._shares = threading.Semaphore(AT_ONCE)

    @contextlib.contextmanager
    def lent(self, alone: bool) -> Iterator[None]:
        """Within the block the calling thread computes with one share, or with all cores and no other beside it."""
        import torch

        wanted = AT_ONCE if alone or self.n < AT_ONCE else 1
        with self._turn:  # who waits for all shares is not overtaken, nor meets another who holds one and waits
            for _ in range(wanted):
                self._shares.acquire()
        try:
            torch.set_num_threads(self.n if wanted > 1 else self.n // AT_ONCE)
            yield
        finally:
            self._shares.release(wanted)


_cores = functools.cache(_Cores)
_counting = threading.Lock()
"""Held while the cores are counted: two threads that count at a time would each lend all of them."""


class LocalModel(LocalWeights, LanguageModel):
    """One model of params.yaml with backend "transformers".

    Text is drawn in ``dtype_text``, token probabilities are read in ``dtype_scores``; each is loaded when first needed.

    Parameters
    ----------
    config
        The model's block.
    root
        The folder of params.yaml.
    seed
        The study's seed: another seed is another draw of every text.
    """

    def __init__(self, config: TransformersModel, root: Path, seed: int) -> None:
        super().__init__(config, root)
        self.seed = seed
        self.batch_size = config.batch_size
        self.scored_batch_size = SCORED * config.batch_size
        self.workers = config.workers
        if config.device == "cpu":
            self.concurrency = self.min_concurrency = AT_ONCE

    def unsupported(self, prompt: Prompt) -> str | None:
        """A masked model writes no text; a base model continues no messages."""
        if prompt.candidates or prompt.perplexity:
            return None if prompt.completion is not None else "the prompt has no text whose tokens could be scored"
        if self.kind == "masked":
            return self._writes_no_text
        if not self.config.chat and prompt.completion is None:
            return f"{self.config.path} continues texts, and the prompt has messages only; set chat: true"
        return None

    @property
    def _writes_no_text(self) -> str:
        return f"{self.config.path} is a masked model and writes no text; use a causal or encoder-decoder model"

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """What fixes the answer: the model, the text, and how it is drawn or read."""
        model = {"model": self.config.path, "revision": self.config.revision}
        if prompt.candidates or prompt.perplexity:
            scored = {"dtype": self.config.dtype_scores, "overflow": self.config.overflow, "cut": prompt.cut}
            what = {"perplexity": True} if prompt.perplexity else {"candidates": list(prompt.candidates)}
            # only where they are set: what was answered before they were options keeps its key in the ledger
            options = {
                "multi_token": prompt.multi_token, "scored_turn": self.config.scored_turn,
                "whole_words": self.config.whole_words and prompt.perplexity,
            }  # fmt: skip
            chosen = {name: value for name, value in options.items() if value not in (None, False)}
            return model | scored | {"text": prompt.completion} | what | chosen
        sampling = {
            "temperature": prompt.sampling.temperature,
            "top_p": prompt.sampling.top_p,
            "max_tokens": prompt.sampling.max_tokens,
            "stop": list(() if self.config.chat else prompt.sampling.stop),
        }
        asked = {"messages": self._messages(prompt)} if self.config.chat else {"text": prompt.completion}
        return model | asked | sampling | {"dtype": self.config.dtype_text, "seed": self.seed}

    def _messages(self, prompt: Prompt) -> list[dict[str, str]]:
        if not prompt.messages:
            return [{"role": "user", "content": prompt.completion or ""}]
        return [{"role": message.role, "content": message.content} for message in prompt.messages]

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """Draw or score, in a thread of its own so that progress is shown meanwhile."""
        return await asyncio.to_thread(self._beside_others, draws)

    def _beside_others(self, draws: Sequence[Draw]) -> list[Completion]:
        """Answer; on a processor beside another batch, where the model's modules keep nothing of a batch meanwhile."""
        if self.config.device != "cpu":
            return self.answer(draws)
        with self._loading:
            _ = self.tokenizer  # read once, not by each thread
        with _counting:
            cores = _cores()
        scored = any(draw.prompt.candidates or draw.prompt.perplexity for draw in draws)
        with cores.lent(alone=scored or self._keeps_state):
            return self.answer(draws)

    @functools.cached_property
    def _keeps_state(self) -> bool:
        """Code of its own, or rotary positions that are set anew by the length of a batch."""
        from markedness.lm.decoders import sets_positions_anew

        return self.config.trust_remote_code or sets_positions_anew(self.load(self.config.dtype_text))

    def answer(self, draws: Sequence[Draw]) -> list[Completion]:
        """Answer the draws, in their order."""
        asked: dict[Callable[[list[Draw]], list[Completion]], list[int]] = {}
        for place, draw in enumerate(draws):
            asked.setdefault(self._way(draw.prompt), []).append(place)
        answers: list[Completion] = [Completion()] * len(draws)
        try:
            for how, places in asked.items():
                for place, answer in zip(places, how([draws[place] for place in places]), strict=True):
                    answers[place] = answer
        except (MemoryError, RuntimeError) as error:  # torch has its own error for each device
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            raise RequestFailed(
                f"{self.config.path}: out of memory; lower batch_size (now {self.config.batch_size})"
            ) from error
        self.refuse_other_weights(draws[0].served_by if draws else "")
        return answers

    def _way(self, prompt: Prompt) -> Callable[[list[Draw]], list[Completion]]:
        if prompt.candidates:
            return self._score
        return self._perplexity if prompt.perplexity else self._draw

    def _scorer(self) -> Scorer:
        from markedness.lm.scoring import Scorer

        config, model, kind = self.config, self.load(self.config.dtype_scores), self._known_kind()
        before = ""
        if config.whole_words and kind != "masked":
            raise ModelError(f"{config.path}: whole_words is for masked models; this one is {kind}: leave it out")
        if config.scored_turn is not None:
            if kind != "causal" or not self.tokenizer.chat_template:
                lacking = "has no chat template" if kind == "causal" else f"is {kind}"
                raise ModelError(f"{config.path}: scored_turn is for chat models; this one {lacking}: leave it out")
            before = self._templated(Prompt("", "", (Message("user", config.scored_turn),)))
        return Scorer(
            model, self.tokenizer, kind, config.batch_size, config.overflow, before=before,
            whole_words=config.whole_words,
        )  # fmt: skip

    def _score(self, draws: list[Draw]) -> list[Completion]:
        return self._scorer().score([draw.prompt for draw in draws])

    def _perplexity(self, draws: list[Draw]) -> list[Completion]:
        return self._scorer().perplexity([draw.prompt for draw in draws])

    def _draw(self, draws: list[Draw]) -> list[Completion]:
        model = self.load(self.config.dtype_text)
        if self._known_kind() == "masked":  # a hub model that was not here yet when `unsupported` was asked
            return [Completion(finish_reason=UNSUPPORTED, error=self._writes_no_text)] * len(draws)
        from markedness.lm import local_text
        from markedness.lm.cloze import context_length
        from markedness.lm.decoders import NoCache

        limit = context_length(model, self.tokenizer)
        ends = self._ends(model)
        answers: list[Completion] = [Completion()] * len(draws)
        jobs: dict[int, local_text.Job] = {}
        for place, draw in enumerate(draws):
            ids = self._prompt_ids(draw.prompt)
            room = draw.prompt.sampling.max_tokens
            if self._known_kind() == "causal" and limit is not None:
                room = min(room, limit - len(ids))
            if room < 1 or (limit is not None and len(ids) > limit):
                answers[place] = Completion(
                    error=f"the prompt has {len(ids)} tokens and the model reads {limit}; shorten the prompt"
                )
                continue
            seed = int.from_bytes(hashlib.sha256(draw.stream.encode()).digest()[:8], "big")
            jobs[place] = local_text.Job(
                prompt=ids,
                uniforms=np.random.default_rng(seed).random(room),
                sampling=draw.prompt.sampling,
                stop=() if self.config.chat else draw.prompt.sampling.stop,
                context=ids[-CONTEXT:] if self._known_kind() == "causal" else (),
            )
        order = sorted(jobs, key=lambda place: len(jobs[place].prompt))
        for start in range(0, len(order), self.config.batch_size):
            batch = order[start : start + self.config.batch_size]
            try:
                local_text.draw(model, self.tokenizer, [jobs[place] for place in batch], ends)
            except ValueError as error:
                raise RequestFailed(f"{self.config.path}: {error}; set dtype_text: float32") from error
            except NoCache:
                reason = (
                    f"{self.config.path} keeps no cache of keys and values; ask it through a server (backend: openai)"
                )
                return [Completion(finish_reason=UNSUPPORTED, error=reason)] * len(draws)
        for place, job in jobs.items():
            answers[place] = Completion(
                text=local_text.text_of(job, self.tokenizer), finish_reason=job.finish_reason, model=self.config.path,
                prompt_tokens=len(job.prompt), completion_tokens=len(job.tokens),
            )  # fmt: skip
        return answers

    def _prompt_ids(self, prompt: Prompt) -> tuple[int, ...]:
        """Token ids of a prompt: through the chat template, or with the tokenizer's own special tokens in front."""
        if self.config.chat:
            if not self.tokenizer.chat_template:
                raise ModelError(f"{self.config.path}: its tokenizer has no chat template; set chat: false")
            return tuple(self.tokenizer(self._templated(prompt), add_special_tokens=False)["input_ids"])
        ids = list(self.tokenizer(prompt.completion)["input_ids"])
        causal = self._known_kind() == "causal"
        if causal and ids and ids[-1] == self.tokenizer.eos_token_id:
            ids.pop()
        if not ids:
            start = self.tokenizer.bos_token_id
            ids = [self.tokenizer.eos_token_id if start is None else start]
        return tuple(ids)

    def _templated(self, prompt: Prompt) -> str:
        """The messages in the chat template, which must have their words; ModelError says what is wrong with it."""
        messages = self._messages(prompt)
        try:
            text = str(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        except Exception as error:  # a template is a program: whatever it raises
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(
                f"{self.config.path}: its chat template cannot be filled in ({reason}); set chat: false, or ask the "
                "model through a server"
            ) from error
        for words in (message["content"].split() for message in messages):
            if sum(word in text for word in words) < len(words) / 2:
                raise ModelError(
                    f"{self.config.path}: its chat template leaves out the text of the messages (it may want them in "
                    "parts, as templates for images do); set chat: false, or ask the model through a server"
                )
        return text

    def _ends(self, model: Any) -> frozenset[int]:
        """Token ids that end a text."""
        ends = model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends}
        return frozenset((ends | {self.tokenizer.eos_token_id}) - {None})

    async def close(self) -> None:
        """Free the memory."""
        self.unload()
