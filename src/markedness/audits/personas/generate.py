"""Prompts: each persona or story prompt for each group that the axes cross to."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from pydantic import Field

from markedness.audits.personas import AXES
from markedness.audits.personas.design.wording import given_words, person
from markedness.records import (
    AuditError,
    Axes,
    Completion,
    Message,
    Prompt,
    Sampling,
    Stimuli,
    Strict,
    check_phrases,
    group_name,
)
from markedness.text.languages import GROUPS

_TURN = "Prompt: {text}\nReply: {reply}"
"""What a model that continues text reads after the frame; prompts.yaml may give another, as `turn`."""


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
    data = stimuli.data("prompts.yaml")
    frame = f"{str(data['frame']).rstrip()}\n\n{data.get('turn', _TURN)}"
    words = stimuli.data(GROUPS) or {} if stimuli.has(GROUPS) else None
    yield [
        _prompt(template, fixed, frame, params, words)
        for template in _chosen(data["prompts"], params.prompts)
        for fixed in (_groups(params.axes) if "{" in template["text"] else [dict.fromkeys(params.axes)])
    ]


def _groups(axes: Axes) -> list[dict[str, str | None]]:
    """Every crossing of one value per axis."""
    return [dict(zip(axes, values, strict=True)) for values in product(*(axis.values for axis in axes.values()))]


def _prompt(
    template: Mapping[str, Any], fixed: Mapping[str, str | None], frame: str, params: Params,
    groups: Mapping[str, Mapping[str, str]] | None,
) -> Prompt:  # fmt: skip
    """One template for one group; ``groups``: the words of the language, in place of those of the axes."""
    words = person(fixed, params.axes) if groups is None else given_words(fixed, groups)
    try:
        text, reply = template["text"].format(**words), template["reply"].format(**words)
    except KeyError as error:
        raise AuditError(
            f"personas: the prompt '{template['id']}' needs {error} of '{group_name(fixed, params.axes)}', which "
            f"{GROUPS} does not have; add it"
        ) from error
    marked = [value for axis, value in fixed.items() if value and value != params.axes[axis].unmarked]
    return Prompt(
        prompt_id=template["id"],
        group=group_name(fixed, params.axes),
        messages=(Message("user", text),),
        completion=frame.replace("{text}", text).replace("{reply}", reply),
        sampling=Sampling(params.temperature, params.top_p, params.max_tokens, params.stop),
        samples=params.samples,
        columns={"kind": template["kind"], **fixed, "marked": ", ".join(marked)},
    )


def _chosen(templates: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[Mapping[str, Any]]:
    """The templates to ask, in the order of prompts.yaml."""
    known = [template["id"] for template in templates]
    for name in wanted:
        if name not in known:
            raise AuditError(f"personas.generate.prompts: '{name}' is not in prompts.yaml; known: {', '.join(known)}")
    if wanted:
        return [template for template in templates if template["id"] in wanted]
    return [template for template in templates if template.get("default", True)]
