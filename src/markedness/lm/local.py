"""Models that run here through transformers: causal, masked and encoder-decoder; text and token probabilities.

Nothing heavy is imported before the first draw, so that a run whose ledger is complete needs neither torch nor the
model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from markedness.lm import gguf, served_by
from markedness.lm.base import Draw, LanguageModel, ModelError, RequestFailed
from markedness.lm.config import TransformersModel
from markedness.lm.progress import tell
from markedness.records import UNSUPPORTED, Completion, Prompt

if TYPE_CHECKING:
    from markedness.lm.scoring import Kind, Scorer

CONTEXT = 4
"""Tokens of the prompt decoded before a continuation, to see whether it begins with a space."""

SCORED = 4
"""Batches of prompts handed over together where they are scored: more of them have the same length."""


class LocalModel(LanguageModel):
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
        self.config = config
        self.seed = seed
        self.batch_size = config.batch_size
        self.scored_batch_size = SCORED * config.batch_size
        self.workers = config.workers
        self.root = root
        self.folder = root / config.path
        self._models: dict[str, Any] = {}
        self._served_by: str | None = None

    # ---------------------------------------------------------------- without the model

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
            return model | scored | {"text": prompt.completion} | what
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

    @cached_property
    def kind(self) -> Kind | None:
        """What the model's config.json says it is, read without torch; None when there is no such file here yet."""
        if self.config.gguf_package and not gguf.is_converted(self.folder):
            return "causal"
        try:
            config = json.loads(self._config_file().read_text(encoding="utf-8"))
        except (OSError, ValueError, ImportError):
            return None
        architecture = (config.get("architectures") or [""])[0]
        if config.get("is_encoder_decoder") or config.get("model_type") in ("t5", "mt5", "umt5", "byt5"):
            return "encoder-decoder"
        if architecture.endswith(("ForMaskedLM", "ForPreTraining")):
            return "masked"
        return "causal" if architecture else None

    def _config_file(self) -> Path:
        if self.folder.is_dir():
            return self.folder / "config.json"
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.config.path, "config.json", revision=self.config.revision)
        return Path(found if isinstance(found, str) else "")  # a folder's path where there is none: not readable

    @property
    def served_by(self) -> str:
        """Hash of the weights in the folder, or the hub's commit; "" while neither is here."""
        if self._served_by is None:
            self._served_by = self._found()
        return self._served_by

    @served_by.setter
    def served_by(self, who: str) -> None:
        self._served_by = who

    def _found(self) -> str:
        if self.folder.is_dir():
            return served_by.weights(self.folder, self.root / ".markedness" / "weights.json")
        if self.config.gguf_package:
            return ""
        return served_by.hub(self.config.path, self._commit) if self._commit else ""

    @property
    def _commit(self) -> str:
        """The commit of a hub model that is in the hub's cache; "" where none is."""
        try:
            snapshot = self._config_file().parent
        except (ImportError, ValueError):  # no such package, or a path that is no hub id
            return ""
        return snapshot.name if snapshot.parent.name == "snapshots" else ""

    # ---------------------------------------------------------------- loading

    def prepare(self, say: Callable[[str], None] = tell) -> None:
        """Convert the weights of a package if that is still to be done."""
        if self.config.gguf_package:
            gguf.convert(self.config.gguf_package, self.folder, say)

    def fetch(self, say: Callable[[str], None] = tell) -> None:
        """Have the weights here, so that ``served_by`` is known; a hub model is fetched at one commit."""
        self.prepare(say)
        if not self.folder.is_dir() and not self._commit:
            self.load(self.config.dtype_text)
        self._served_by = None

    def check(self, say: Callable[[str], None] = tell) -> str:
        """Have everything in place that asking needs, and describe the model in a line."""
        converted = self.config.gguf_package and gguf.is_converted(self.folder)
        self.prepare(say)
        kind = self._known_kind()
        if not converted:
            self.load(self.config.dtype_text)
            self._models.clear()
        return f"a {kind} model of {len(self.tokenizer):,} tokens in {self.config.path}"

    def load(self, dtype: str) -> Any:
        """The model in one precision, in evaluation mode.

        Raises
        ------
        ModelError
            When packages or files are missing, or the files hold no language model.
        """
        if dtype in self._models:
            return self._models[dtype]
        self.prepare()
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ModelError(
                f"the package '{error.name}' that local models need is not installed; "
                "install it with: pip install 'markedness[local]'"
            ) from error
        transformers.utils.logging.disable_progress_bar()
        auto = {
            "causal": transformers.AutoModelForCausalLM,
            "masked": transformers.AutoModelForMaskedLM,
            "encoder-decoder": transformers.AutoModelForSeq2SeqLM,
        }[self._known_kind()]
        try:
            model, loading = auto.from_pretrained(
                self._source(), dtype=getattr(torch, dtype), output_loading_info=True, **self._pins()
            )
            model = model.to(self.config.device).eval()
        except (OSError, ValueError, ImportError, RuntimeError) as error:
            raise self._unusable(error) from error
        if loading["missing_keys"]:
            missing = sorted(loading["missing_keys"])[0]
            raise ModelError(f"{self.config.path}: its files lack '{missing}': it holds no language model to be asked")
        self._models[dtype] = model
        return model

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        self.prepare()
        import transformers

        try:
            return transformers.AutoTokenizer.from_pretrained(self._source(), **self._pins())
        except (OSError, ValueError, ImportError) as error:
            raise self._unusable(error) from error

    def _known_kind(self) -> Kind:
        if self.kind is not None:
            return self.kind
        from transformers import AutoConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

        try:
            config = AutoConfig.from_pretrained(self._source(), **self._pins())
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        if config.is_encoder_decoder:
            return "encoder-decoder"
        masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
        return "masked" if masked else "causal"

    def _source(self) -> str:
        """The folder where there is one, else the hub id."""
        return str(self.folder) if self.folder.is_dir() else self.config.path

    def _pins(self) -> dict[str, Any]:
        pins: dict[str, Any] = {"trust_remote_code": self.config.trust_remote_code}
        return pins if self.folder.is_dir() else pins | {"revision": self._commit or self.config.revision}

    def _unusable(self, error: Exception) -> ModelError:
        reason = " ".join(str(error).split())[:300]
        return ModelError(f"{self.config.path}: cannot be loaded as a folder beside params.yaml or a hub id: {reason}")

    # ---------------------------------------------------------------- asking

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """Draw or score, in a thread of its own so that progress is shown meanwhile."""
        return await asyncio.to_thread(self.answer, draws)

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
        return answers

    def _way(self, prompt: Prompt) -> Callable[[list[Draw]], list[Completion]]:
        if prompt.candidates:
            return self._score
        return self._perplexity if prompt.perplexity else self._draw

    def _scorer(self) -> Scorer:
        from markedness.lm.scoring import Scorer

        model = self.load(self.config.dtype_scores)
        return Scorer(model, self.tokenizer, self._known_kind(), self.config.batch_size, self.config.overflow)

    def _score(self, draws: list[Draw]) -> list[Completion]:
        return self._scorer().score([draw.prompt for draw in draws])

    def _perplexity(self, draws: list[Draw]) -> list[Completion]:
        return self._scorer().perplexity([draw.prompt for draw in draws])

    def _draw(self, draws: list[Draw]) -> list[Completion]:
        model = self.load(self.config.dtype_text)
        if self._known_kind() == "masked":  # a hub model that was not here yet when `unsupported` was asked
            return [Completion(finish_reason=UNSUPPORTED, error=self._writes_no_text)] * len(draws)
        from markedness.lm import local_text
        from markedness.lm.scoring import context_length

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
            except local_text.NoCache:
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
            text = self.tokenizer.apply_chat_template(
                self._messages(prompt), add_generation_prompt=True, tokenize=False
            )
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = list(self.tokenizer(prompt.completion)["input_ids"])
        causal = self._known_kind() == "causal"
        if causal and ids and ids[-1] == self.tokenizer.eos_token_id:
            ids.pop()
        if not ids:
            start = self.tokenizer.bos_token_id
            ids = [self.tokenizer.eos_token_id if start is None else start]
        return tuple(ids)

    def _ends(self, model: Any) -> frozenset[int]:
        """Token ids that end a text."""
        ends = model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends}
        return frozenset((ends | {self.tokenizer.eos_token_id}) - {None})

    async def close(self) -> None:
        """Give back the memory."""
        self._models.clear()
