"""Backends: each is described by one `Backend`, which an entry point of the group ``markedness.backends`` names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, Union

import numpy as np
from pydantic import Field, GetPydanticSchema

from markedness.lm.base import LanguageModel, ModelError
from markedness.lm.config import CorpusModel, ModelConfig, OpenAIModel, ScriptedModel, TransformersModel
from markedness.plugins import SpecError, loaded, registered
from markedness.records import Completion, Prompt

GROUP = "markedness.backends"
OWN = ("transformers", "openai", "corpus", "scripted")
C = TypeVar("C", bound=ModelConfig)


@dataclass(frozen=True)
class Setting:
    """What a model is opened with, beside its block in params.yaml."""

    name: str
    """Its key under ``models``."""
    root: Path
    """The folder of params.yaml, which relative paths start from."""
    seed: int
    """The study's seed."""
    rule: Callable[[str, float, int], Callable[[Prompt, np.random.Generator], str | Sequence[float] | Completion]]
    """The scripted controls of the audit: (name, strength, seed) -> rule."""


@dataclass(frozen=True)
class Backend(Generic[C]):
    """One backend."""

    name: str
    """The value of ``backend`` in a model's block."""
    config: type[C]
    """The model's block; its field ``backend`` is ``Literal[name]``."""
    opener: Callable[[C, Setting], LanguageModel] | None = None
    """Opens a model without asking it anything; packages that are slow to import are imported only here. None: the
    texts exist already and nothing is asked."""

    def open(self, config: ModelConfig, setting: Setting) -> LanguageModel:
        """The model of this block."""
        if self.opener is None or not isinstance(config, self.config):
            raise ModelError(f"models.{setting.name}: a {config.backend} model answers no requests")
        return self.opener(config, setting)


def _transformers(config: TransformersModel, setting: Setting) -> LanguageModel:
    from markedness.lm.local import LocalModel

    return LocalModel(config, setting.root, setting.seed)


def _openai(config: OpenAIModel, setting: Setting) -> LanguageModel:
    from markedness.lm.openai_api import OpenAIServer

    return OpenAIServer(config, setting.seed)


def _scripted(config: ScriptedModel, setting: Setting) -> LanguageModel:
    from markedness.lm.scripted import ScriptedModel as Scripted

    # The study's seed is part of every request, so that answers of another seed are not read from the ledger.
    settings = {**config.model_dump(include={"rule", "strength"}, exclude_defaults=True), "study_seed": setting.seed}
    rule = setting.rule(config.rule, config.strength, setting.seed)
    return Scripted(setting.name, rule, config.seed, settings)


TRANSFORMERS = Backend("transformers", TransformersModel, _transformers)
OPENAI = Backend("openai", OpenAIModel, _openai)
CORPUS = Backend("corpus", CorpusModel)
SCRIPTED = Backend("scripted", ScriptedModel, _scripted)


def names() -> tuple[str, ...]:
    """Names of the installed backends."""
    return tuple(registered(GROUP, OWN))


@cache
def backend(name: str) -> Backend[Any]:
    """One installed backend; SpecError says what is wrong with it."""
    found: Backend[Any] = loaded(Backend, "backend", name, registered(GROUP, OWN))
    if found.name != name or not issubclass(found.config, ModelConfig):
        raise SpecError(f"backend '{name}': its Backend needs this name and a config derived from ModelConfig")
    return found


def _blocks() -> Any:
    """The type of a model's block: that of the backend which it names."""
    if not names():
        raise SpecError("no backend is registered: this installation is older than its code; install it again")
    return Annotated[Union[tuple(backend(name).config for name in names())], Field(discriminator="backend")]  # noqa: UP007


AnyModel = Annotated[ModelConfig, GetPydanticSchema(lambda source, handler: handler.generate_schema(_blocks()))]
"""A field that holds a model's block of any installed backend."""
