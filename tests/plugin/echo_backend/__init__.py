"""A backend in a package of its own: it repeats the end of the prompt."""

from collections.abc import Sequence
from typing import Any, Literal

from markedness.lm.backends import Backend, Setting
from markedness.lm.base import Draw, LanguageModel
from markedness.lm.config import ModelConfig
from markedness.records import Completion, Prompt


class EchoConfig(ModelConfig):
    """Its block in params.yaml."""

    backend: Literal["echo"]
    words: int = 1


class Echo(LanguageModel):
    """Says the last words of the prompt."""

    served_by = "echo"

    def __init__(self, config: EchoConfig, setting: Setting) -> None:
        self.words = config.words

    def request(self, prompt: Prompt) -> dict[str, Any]:
        return {"text": prompt.text, "words": self.words}

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        if not self.words:
            raise KeyError("words")  # a fault of the package: no exception of the interface
        return [Completion(text=" ".join(draw.prompt.text.split()[-self.words :])) for draw in draws]


BACKEND = Backend("echo", EchoConfig, Echo)
