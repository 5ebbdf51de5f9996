"""Any OpenAI-compatible server: chat or plain completions, and token probabilities where it serves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markedness.lm import served_by
from markedness.lm.answers import read_completion, reported_usage
from markedness.lm.base import Draw, LanguageModel, RequestFailed
from markedness.lm.config import OpenAIModel
from markedness.lm.endpoint import Endpoint
from markedness.lm.probe import probe_server
from markedness.lm.prompt_log_probs import read_scored, scoring_request, texts
from markedness.records import UNSUPPORTED, Completion, Prompt

_OURS = frozenset(("candidates", "perplexity", "multi_token"))
"""Fields of a request that say what is read, and are not sent."""


class OpenAIServer(LanguageModel):
    """Chat or plain completions; token probabilities where the server serves ``top_logprobs``, or its prompts' own.

    Parameters
    ----------
    config
        The model's block in params.yaml.
    seed
        The study's seed; sent, plus the sample's index, where the config says ``seed: true``.
    """

    def __init__(self, config: OpenAIModel, seed: int = 0) -> None:
        self.config = config
        self.seed = seed
        self.concurrency = config.concurrency
        self.min_concurrency = config.min_concurrency
        self.batch_api = config.batch_api
        self.sends_candidates = config.prompt_logprobs is not None
        self.served_by = config.served_by or served_by.server(config.url)
        self.path = "/chat/completions" if config.chat else "/completions"
        self.endpoint = Endpoint(f"model {config.model}", config.url, config.key_variable, config.timeout)
        self._unscored: str | None = None
        self._scored = False
        self._probed = False

    def unsupported(self, prompt: Prompt) -> str | None:
        """Without token probabilities no candidate is scored; without a text nothing is continued."""
        exact = self.config.prompt_logprobs is not None
        if prompt.candidates and not (exact or self.config.top_logprobs):
            return (
                f"{self.config.model} is asked without token probabilities; "
                "set top_logprobs (1 to 20) if its server serves them, or prompt_logprobs"
            )
        if prompt.candidates and prompt.multi_token and not exact:
            return (
                f"{self.config.model} is asked for the likeliest single tokens (top_logprobs), from which no word of "
                "several tokens has a score; set prompt_logprobs if its server serves them, or multi_token: false"
            )
        if prompt.perplexity and not exact:
            return (
                f"{self.config.model} is behind a server that is not asked for the probabilities of a prompt's own "
                "tokens; set prompt_logprobs if it serves them"
            )
        if (prompt.candidates or prompt.perplexity) and exact and not prompt.completion:
            return "the prompt has no text whose tokens could be scored"
        if not self.config.chat and prompt.completion is None:
            return f"{self.config.model} continues texts (chat: false) and this prompt is a conversation"
        return None

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """What is sent, but for two things: ``candidates`` stay here, and the sample's index is added to ``seed``."""
        config, sampling = self.config, prompt.sampling
        request: dict[str, Any] = {"model": config.model}
        if config.prompt_logprobs and (prompt.candidates or prompt.perplexity):
            request |= scoring_request(prompt, config.prompt_logprobs, config.max_tokens_parameter)
            return request | ({"seed": self.seed} if config.seed else {}) | config.extra_body
        if config.chat:
            turns = [(turn.role, turn.content) for turn in prompt.messages] or [("user", prompt.completion or "")]
            request["messages"] = [{"role": role, "content": content} for role, content in turns]
        else:
            request["prompt"] = prompt.completion
        if prompt.candidates:
            request |= {"temperature": 1.0, "top_p": 1.0, config.max_tokens_parameter: 1}
            request |= (
                {"logprobs": True, "top_logprobs": config.top_logprobs}
                if config.chat
                else {"logprobs": config.top_logprobs}
            )
            request["candidates"] = list(prompt.candidates)
        else:
            request |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
            request[config.max_tokens_parameter] = sampling.max_tokens
            if sampling.stop and not config.chat:
                request["stop"] = list(sampling.stop)
        if config.seed:
            request["seed"] = self.seed
        return request | config.extra_body

    def body(self, draw: Draw) -> dict[str, Any]:
        """The JSON body of one draw."""
        body = {name: value for name, value in draw.request.items() if name not in _OURS}
        if self.config.prompt_logprobs and (draw.prompt.candidates or draw.prompt.perplexity):
            body["prompt"] = texts(draw.prompt.completion or "", draw.prompt.candidates)
        if "seed" in body:
            body["seed"] += draw.sample
        return body

    async def probe(self, prompt: Prompt) -> None:
        """One test request, once; see `markedness.lm.probe.probe_server`."""
        if not self._probed:
            self._probed = True
            await probe_server(self, self.endpoint, prompt.sampling)

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """Ask for each draw; see `markedness.lm.base.LanguageModel.complete`."""
        return [await self._ask(draw) for draw in draws]

    async def _ask(self, draw: Draw) -> Completion:
        scored = bool(draw.prompt.candidates or draw.prompt.perplexity)
        if scored and self._unscored:
            return Completion(finish_reason=UNSUPPORTED, error=self._unscored)
        try:
            answer = await self.endpoint.post(self.path, self.body(draw))
        except RequestFailed as failed:
            raise self.unscored(failed) if scored else failed from None
        completion = self.read(answer, draw.prompt)
        if completion.finish_reason == UNSUPPORTED and self._scored:  # a proxy or a filter spoke, not the model
            raise RequestFailed(f"{completion.error}, though to others with them")
        if completion.finish_reason == UNSUPPORTED:
            self._unscored = completion.error
        elif completion.log_probs:
            self._scored, self._unscored = True, None
        return completion

    def unscored(self, failed: RequestFailed) -> RequestFailed:
        """Of a scored prompt: a refusal of the very parameter says that this server serves no token probabilities."""
        named = any(name in str(failed).lower() for name in ("logprob", "echo"))
        if failed.status not in (400, 422) or not named:
            return failed
        self._unscored = f"the server of {self.config.model} serves no token probabilities ({failed})"
        return RequestFailed(self._unscored, finish_reason=UNSUPPORTED)

    def read(self, answer: Any, prompt: Prompt) -> Completion:
        """A decoded 2xx body as a completion; RequestFailed says what of it cannot be read."""
        try:
            if self.config.prompt_logprobs and (prompt.candidates or prompt.perplexity):
                return read_scored(answer, prompt, self.config.prompt_logprobs, self.endpoint.redaction)
            return read_completion(answer, prompt, self.config.chat, self.endpoint.redaction)
        except Exception as error:  # what nobody foresaw ends this request alone, not those that are paid for beside it
            if not isinstance(error, RequestFailed):
                error = RequestFailed(
                    f"the answer cannot be read ({type(error).__name__}: {error})", cause="unreadable"
                )
            error.args = (self.endpoint.redaction.error(str(error)),)  # it may name what the server said
            error.usage = reported_usage(answer)
            raise error from None

    async def close(self) -> None:
        """Close the connections."""
        await self.endpoint.close()
