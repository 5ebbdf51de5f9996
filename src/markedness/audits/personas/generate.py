"""Prompts: each persona or story prompt for each group that the axes cross to."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import product
from typing import Literal

import numpy as np
from pydantic import Field

from markedness import reads
from markedness.audits.personas import AXES
from markedness.audits.personas.design.wording import given_words, person
from markedness.audits.personas.language.lexicons import read_lexicons
from markedness.audits.personas.language.tokens import REMOVED, removal_lists
from markedness.axes import Axes, group_name
from markedness.records import AuditError, Completion, Message, Prompt, Sampling, Stimuli, Strict
from markedness.templates import check_different, check_phrases, check_template, fill, placeholders, read_stimuli
from markedness.text.languages import GROUPS

FILE = "prompts.yaml"
Kind = Literal["persona", "story", "like", "dislike"]


class Template(Strict):
    """One prompt of prompts.yaml."""

    id: str
    kind: Kind
    text: str
    """With words for the group in braces; without any it is asked once, and stands for no group."""
    reply: str
    """How the reply begins for a model that continues text."""
    source: str = ""
    default: bool = True


class PromptFile(Strict):
    """The content of prompts.yaml."""

    prompts: tuple[Template, ...] = Field(min_length=1)
    frame: str
    """What a model that continues text reads first."""
    turn: str = "Prompt: {text}\nReply: {reply}"
    """What it reads after the frame."""

    @classmethod
    def read(cls, stimuli: Stimuli) -> PromptFile:
        """prompts.yaml; AuditError names the first entry that is missing or wrong."""
        found = read_stimuli(cls, stimuli, FILE, "personas")
        known = [template.id for template in found.prompts]
        if twice := next((name for name in known if known.count(name) > 1), None):
            raise AuditError(f"personas: {FILE}: the id '{twice}' is given to two prompts; rename one")
        return found

    def check(self, fields: Sequence[str]) -> None:
        """Refuse a placeholder that is none of the fields of a group's words; AuditError."""
        check_template(self.frame, f"personas: {FILE}: frame")
        check_template(self.turn, f"personas: {FILE}: turn", ("text", "reply"), ("text",))
        for template in self.prompts:
            for part, text in (("text", template.text), ("reply", template.reply)):
                check_template(text, f"personas: {FILE}: {part} of '{template.id}'", fields, ())


class Params(Strict):
    """What is asked; the defaults are the paper's (section 4)."""

    axes: Axes = AXES
    prompts: tuple[str, ...] = ()
    """Ids of prompts.yaml; none: all that are not ``default: false`` there (six personas, two stories)."""
    samples: int = Field(default=15, ge=1)
    """Completions of each prompt for each group."""
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=256, ge=1)
    stop: tuple[str, ...] = ("\n",)
    """Where a model that continues text stops; chat models end their turn themselves."""


def prompts(
    stimuli: Stimuli, params: Params, rng: np.random.Generator
) -> Generator[list[Prompt], list[list[Completion]], None]:
    """All prompts in one round: each template for each group; one that names no group is asked once.

    Parameters
    ----------
    stimuli
        prompts.yaml.
    params
        See `Params`.
    rng
        Not used: nothing is drawn here.

    Yields
    ------
    list of Prompt
        Columns: kind, one per axis, and ``marked``, the marked values joined by ", ".

    Raises
    ------
    AuditError
        When params.prompts names a prompt that prompts.yaml lacks, or phrases are given for some groups only.
    """
    check_phrases(params.axes, "personas")
    with reads.recorded():  # featurize reads these two, not this stage: a fault is said before anything is asked
        read_lexicons(stimuli)
        if stimuli.has(REMOVED):
            removal_lists(stimuli)
    asked = PromptFile.read(stimuli)
    groups = stimuli.data(GROUPS) or {} if stimuli.has(GROUPS) else None
    words = {
        group_name(fixed, params.axes): person(fixed, params.axes) if groups is None else given_words(fixed, groups)
        for fixed in _groups(params.axes)
    }
    asked.check(list(dict.fromkeys(field for own in words.values() for field in own)))
    made = [
        _prompt(template, fixed, asked, params, words)
        for template in _chosen(asked.prompts, params.prompts)
        for fixed in (_groups(params.axes) if placeholders(template.text) else [dict.fromkeys(params.axes)])
    ]
    check_different(made, f"personas: {FILE}")
    yield made


def _groups(axes: Axes) -> list[dict[str, str | None]]:
    """Every crossing of one value per axis."""
    return [dict(zip(axes, values, strict=True)) for values in product(*(axis.values for axis in axes.values()))]


def _prompt(
    template: Template, fixed: Mapping[str, str | None], asked: PromptFile, params: Params,
    words: Mapping[str, Mapping[str, str]],
) -> Prompt:  # fmt: skip
    """One template for one group; ``words``: those of each group."""
    group = group_name(fixed, params.axes)
    own = words.get(group, {})
    fields = placeholders(template.text) + placeholders(template.reply)
    if lacking := [field for field in fields if field not in own]:
        raise AuditError(
            f"personas: the prompt '{template.id}' needs '{lacking[0]}' of '{group}', which {GROUPS} does not have; "
            "add it"
        )
    text, reply = fill(template.text, own), fill(template.reply, own)
    marked = [value for axis, value in fixed.items() if value and value != params.axes[axis].unmarked]
    return Prompt(
        prompt_id=template.id,
        group=group,
        messages=(Message("user", text),),
        completion=f"{fill(asked.frame, {}).rstrip()}\n\n{fill(asked.turn, {'text': text, 'reply': reply})}",
        sampling=Sampling(params.temperature, params.top_p, params.max_tokens, params.stop),
        samples=params.samples,
        columns={"kind": template.kind, **fixed, "marked": ", ".join(marked)},
    )


def _chosen(templates: Sequence[Template], wanted: Sequence[str]) -> list[Template]:
    """The templates to ask, in the order of prompts.yaml."""
    known = [template.id for template in templates]
    for name in wanted:
        if name not in known:
            raise AuditError(f"personas.generate.prompts: '{name}' is not in prompts.yaml; known: {', '.join(known)}")
    if wanted:
        return [template for template in templates if template.id in wanted]
    return [template for template in templates if template.default]
