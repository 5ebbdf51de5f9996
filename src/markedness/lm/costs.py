"""What requests cost: estimated before they are asked, counted from the reported usage after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from markedness.lm.base import ModelError
from markedness.lm.config import ModelConfig, Price
from markedness.records import Completion, Prompt

BYTES_PER_TOKEN = 4
"""Rule of thumb for the tokens of a prompt: its UTF-8 bytes by this."""


def expected_tokens(prompt: Prompt, sends_candidates: bool = False) -> tuple[int, int]:
    """Tokens of one draw: (input, about), (output, at most).

    ``sends_candidates``: the prompt is sent again with each of its candidates, see `LanguageModel.sends_candidates`.
    """
    turns = [turn.content for turn in prompt.messages] or [prompt.completion or ""]
    size = sum(len(turn.encode()) for turn in turns)
    times = 1 + len(prompt.candidates) if sends_candidates else 1
    size = times * size + (sum(len(one.encode()) + 1 for one in prompt.candidates) if sends_candidates else 0)
    scored = bool(prompt.candidates) or (prompt.perplexity and sends_candidates)
    return -(-size // BYTES_PER_TOKEN), times if scored else prompt.sampling.max_tokens


def cost(price: Price, input_tokens: float, output_tokens: float) -> float:
    """In the currency of ``prices``."""
    return (price.input * input_tokens + price.output * output_tokens) / 1_000_000


def price_of(config: ModelConfig, key: str, prices: Mapping[str, Price]) -> Price | None:
    """By the served model's name, or by the key in params.yaml; what has no price costs nothing."""
    name = config.priced_as
    return Price(input=0, output=0) if name is None else prices.get(name) or prices.get(key)


ROUNDING = 1e-9
"""Of max_cost: sums of prices are not exact, and exactly as many requests as it pays for are asked."""


@dataclass
class BudgetTracker:
    """What one run may ask and spend, and what it has."""

    price: Price | None = None
    """None: unknown."""
    max_requests: int | None = None
    max_cost: float | None = None
    sends_candidates: bool = False
    """See `expected_tokens`."""
    requests: int = 0
    spent: float = 0.0
    _held: float = 0.0
    """Highest cost that the in-flight requests can reach."""

    @classmethod
    def of(cls, config: ModelConfig, key: str, prices: Mapping[str, Price]) -> Self:
        """What a model's block, of this key in params.yaml, allows; ModelError where it limits an unknown cost."""
        limits, price = config.limits, price_of(config, key, prices)
        if limits.max_cost is not None and price is None:
            raise ModelError(f"models.{key}.max_cost: the price of {config.priced_as} is unknown; add it under prices")
        return cls(price, limits.max_requests, limits.max_cost)

    def allows(self, prompts: Sequence[Prompt]) -> bool:
        """Whether the limits allow these requests even if every in-flight request reaches its highest cost."""
        if self.max_requests is not None and self.requests + len(prompts) > self.max_requests:
            return False
        if self.max_cost is None:
            return True
        most = self.spent + self._held + sum(map(self._most, prompts))
        return most <= self.max_cost * (1 + ROUNDING)

    def ask(self, prompt: Prompt) -> None:
        """A request goes out."""
        self.requests += 1
        self._held += self._most(prompt)

    def settle(self, prompt: Prompt, answer: Completion) -> None:
        """It came back: the reported usage counts, and the estimate where an answer reports none."""
        self._held -= self._most(prompt)
        if self.price is not None and (answer.error is None or answer.prompt_tokens is not None):
            input_tokens, output_tokens = expected_tokens(prompt, self.sends_candidates)
            reported = answer.prompt_tokens, answer.completion_tokens
            input_tokens = input_tokens if reported[0] is None else reported[0]
            output_tokens = output_tokens if reported[1] is None else reported[1]
            self.spent += cost(self.price, input_tokens, output_tokens)

    def bill(self, usage: tuple[int | None, int | None]) -> None:
        """Count the reported tokens, input and output, of an answer that cannot be used; None: none reported."""
        if self.price is not None:
            self.spent += cost(self.price, usage[0] or 0, usage[1] or 0)

    def _most(self, prompt: Prompt) -> float:
        return 0.0 if self.price is None else cost(self.price, *expected_tokens(prompt, self.sends_candidates))

    @property
    def spent_text(self) -> str:
        """For the progress line."""
        return "cost unknown" if self.price is None else f"{self.spent:,.4f} spent"
