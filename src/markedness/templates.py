"""Templates of stimuli, which a user may edit: checked before anything is asked, filled in one pass."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from pydantic import ValidationError

from markedness.records import AuditError, Prompt, Stimuli, Strict

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_JSON = re.compile(r'\{\s*"[^{}]*\}')
"""An object of JSON that a prompt shows as an example."""
T = TypeVar("T", bound=Strict)


def read_stimuli(kind: type[T], stimuli: Stimuli, file: str, audit: str) -> T:
    """A YAML file of stimuli; AuditError names the first entry that is missing or wrong."""
    try:
        return kind.model_validate(stimuli.data(file))
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "model_type":
            named = ", ".join(field.alias or name for name, field in kind.model_fields.items() if field.is_required())
            raise AuditError(f"{audit}: {file} is no mapping; write the entries {named} in it") from error
        said = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise AuditError(f"{audit}: {file}: {said}; correct this entry") from error


def check_template(
    template: object, place: str, allowed: Collection[str] = (), required: Collection[str] | None = None
) -> str:
    """A template whose placeholders are those that will be filled.

    Parameters
    ----------
    template
        What the user wrote.
    place
        File and key, for messages.
    allowed
        Names of placeholders, without braces. Other braces are refused, but for those of an object of JSON.
    required
        Those that must be in it; None: all.

    Raises
    ------
    AuditError
        With the place and the remedy.
    """
    if not isinstance(template, str):
        raise AuditError(f"{place} is {type(template).__name__}, not a text; write it as one, in quotes")
    found = placeholders(template)
    known = ", ".join(f"{{{name}}}" for name in allowed) or "none"
    if strange := next((name for name in found if name not in allowed), None):
        raise AuditError(f"{place}: {{{strange}}} would be asked as it stands; placeholders here: {known}; correct it")
    if "{" in (rest := _JSON.sub("", _PLACEHOLDER.sub("", template))) or "}" in rest:
        raise AuditError(f"{place}: a brace is of no placeholder; placeholders here: {known}; correct or remove it")
    if missing := next((name for name in (allowed if required is None else required) if name not in found), None):
        raise AuditError(f"{place}: {{{missing}}} is missing, without which all would be asked the same; write it in")
    return template


def placeholders(template: str) -> list[str]:
    """Names in braces, in their order."""
    return _PLACEHOLDER.findall(template)


def fill(template: str, words: Mapping[str, str]) -> str:
    """The template with these placeholders filled; what a word holds is never filled again."""
    return _PLACEHOLDER.sub(lambda found: words.get(found[1], found[0]), template)


def check_different(prompts: Iterable[Prompt], place: str) -> None:
    """Refuse prompts of one template that ask the same of two groups; ``place``: where templates stand."""
    seen: dict[tuple[object, ...], str] = {}
    for prompt in prompts:
        for asked in (prompt.messages, prompt.completion):
            first = seen.setdefault((prompt.prompt_id, asked), prompt.group)
            if first != prompt.group and asked:
                raise AuditError(
                    f"{place}: '{prompt.prompt_id}' asks the same of '{first}' and '{prompt.group}', so that nothing "
                    "could differ between them; write a placeholder in it that names the group"
                )
