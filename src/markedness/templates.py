"""Templates of stimuli, which a user may edit: checked before anything is asked, filled in one pass.

A placeholder is a name in braces, {group}. Other braces are asked as they are written where they are balanced and hold
more than a name, as in an object of JSON, nested or in single quotes. Doubled braces are asked as single ones, whatever
they hold, as in format strings of Python: {{group}} is asked as {group}, a lone {{ as {.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, product, zip_longest
from typing import Any, TypeVar

import pandas as pd
from pydantic import ValidationError

from markedness.axes import Axes, Value, as_written, group_name
from markedness.records import AuditError, Prompt, Stimuli, Strict

LONGEST_ARTICLE = 4
"""Letters: "eine"."""
_LITERAL = re.compile(r"""["':,;=\[\\]""")
"""What braces hold that are no placeholder, and no misspelled one either."""
T = TypeVar("T", bound=Strict)


@dataclass(frozen=True)
class _Parts:
    """A template, taken apart: texts with a placeholder after each but the last."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    strange: str = ""
    """The first braces that are neither a placeholder nor surely meant as they stand; "" where there are none."""
    unbalanced: bool = False


def read_stimuli(kind: type[T], stimuli: Stimuli, file: str, audit: str) -> T:
    """A YAML file of stimuli; AuditError names the first entry that is missing or wrong."""
    try:
        return kind.model_validate(stimuli.data(file))
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "model_type":
            named = ", ".join(field.alias or name for name, field in kind.model_fields.items() if field.is_required())
            raise AuditError(f"{audit}: {file} is no mapping; write the entries {named} in it") from error
        why = "is not read" if first["type"] == "extra_forbidden" else first["msg"]
        said = ": ".join(filter(None, (".".join(map(str, first["loc"])), why)))
        raise AuditError(f"{audit}: {file}: {said}; correct this entry") from error


def check_columns(columns: Iterable[object], optional: Collection[str], file: str) -> None:
    """Refuse a column that may be left out, and is there in other capitals: nothing would say that it is not read."""
    for column in map(str, columns):
        if column not in optional and column.casefold() in optional:
            raise AuditError(f"{file}: the column '{column}' is read as '{column.casefold()}'; write it so")


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
        Names of placeholders, without braces. Other names in braces are refused, and braces without a partner, where
        they are not doubled.
    required
        Those that must be in it; None: all.

    Raises
    ------
    AuditError
        With the place and the remedy.
    """
    if not isinstance(template, str):
        raise AuditError(f"{place} is {type(template).__name__}, not a text; write it as one, in quotes")
    parts = _parsed(template)
    known = ", ".join(f"{{{name}}}" for name in allowed) or "none"
    strange = next((f"{{{name}}}" for name in parts.names if name not in allowed), parts.strange)
    if strange:
        raise AuditError(
            f"{place}: {strange} would be asked as it stands; placeholders here: {known}; correct it, or double its "
            f"braces to have it asked so: {{{strange}}}"
        )
    if parts.unbalanced:
        raise AuditError(
            f"{place}: a brace is of no placeholder and has no partner; placeholders here: {known}; correct or remove "
            "it, or double it to have it asked"
        )
    required = allowed if required is None else required
    if missing := next((name for name in required if name not in parts.names), None):
        raise AuditError(f"{place}: {{{missing}}} is missing, without which all would be asked the same; write it in")
    return template


def placeholders(template: str) -> list[str]:
    """Names in braces, in their order; none of doubled braces."""
    return list(_parsed(template).names)


def twice(named: Sequence[str]) -> str:
    """The first that is named twice, and would weigh double; "" where none is."""
    return next((one for place, one in enumerate(named) if one in named[:place]), "")


def fill(template: str, words: Mapping[str, str]) -> str:
    """The template with these placeholders filled and doubled braces made single.

    What a word holds is never filled again; a placeholder that has no word stays.
    """
    parts = _parsed(template)
    filled = [words.get(name, f"{{{name}}}") for name in parts.names]
    return "".join(chain.from_iterable(zip_longest(parts.texts, filled, fillvalue="")))


@lru_cache(maxsize=1024)
def _parsed(template: str) -> _Parts:
    """A template, taken apart."""
    partner, lone = _matched(template)
    dropped: set[int] = set()
    for first, second in pairwise(lone):
        if second == first + 1 and template[first] == template[second] and first not in dropped:
            dropped.add(second)
    doubled = dropped | {place - 1 for place in dropped}
    inner: set[int] = set()
    names: list[tuple[int, int]] = []
    strange = ""
    for start in sorted(partner):
        end = partner[start]
        if start in inner:
            continue
        held = template[start + 1 : end]
        if partner.get(start + 1) == end - 1:  # doubled
            inner.add(start + 1)
            dropped |= {start + 1, end - 1}
        elif re.fullmatch(r"\w+", held):
            names.append((start, end))
        elif not _LITERAL.search(held):
            strange = strange or template[start : end + 1]
    texts, begin = [], 0
    for start, end in [*names, (len(template), 0)]:
        texts.append("".join(template[place] for place in range(begin, start) if place not in dropped))
        begin = end + 1
    found = tuple(template[start + 1 : end] for start, end in names)
    return _Parts(tuple(texts), found, strange, any(place not in doubled for place in lone))


def _matched(template: str) -> tuple[dict[int, int], list[int]]:
    """Place of each opening brace -> that of the brace which closes it; and the places of braces without a partner."""
    partner: dict[int, int] = {}
    left: list[int] = []
    lone: list[int] = []
    for found in re.finditer(r"[{}]", template):
        if found[0] == "{":
            left.append(found.start())
        elif left:
            partner[left.pop()] = found.start()
        else:
            lone.append(found.start())
    return partner, sorted(lone + left)


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


def given_phrase(values: Mapping[str, Any], axes: Axes) -> str | None:
    """The whole phrase of a group where its values give one (`Value.phrases`, or `Value.phrase` of a lone noun)."""
    given = {axis: values.get(axis) for axis in as_written(axes)}
    fixed = {axis: str(value) for axis, value in given.items() if not pd.isna(value) and value != ""}
    for axis, key in fixed.items():
        rest = group_name({other: value for other, value in fixed.items() if other != axis}, axes)
        value = axes[axis].values[key]
        if phrase := value.phrases.get(rest) or (value.phrase if value.noun and not rest else None):
            return phrase
    return None


def check_phrases(axes: Axes, audit: str) -> None:
    """Raise AuditError where words are given for groups that do not exist, or phrases for some crossings only."""
    groups = [dict(zip(axes, keys, strict=True)) for keys in product(*(axis.values for axis in axes.values()))]
    for name, axis in axes.items():
        rests = {group_name({a: v for a, v in group.items() if a != name}, axes) for group in groups}
        others = {key for other in axes if other != name for key in axes[other].values}
        for key, value in axis.values.items():
            if fault := _unheard(value, rests, others):
                raise AuditError(f"{audit}.axes.{name}.values.{key}.{fault}")
    if any(value.phrases for axis in axes.values() for value in axis.values.values()):
        lacking = [group_name(group, axes) for group in groups if given_phrase(group, axes) is None]
        if lacking:
            raise AuditError(
                f"{audit}.axes: phrases are given for some groups, but not for {', '.join(lacking)}; give all, because "
                "the others would get an English article"
            )


def _unheard(value: Value, rests: set[str], others: set[str]) -> str:
    """Words of a value that no prompt would hold as they are meant; "" where there are none.

    ``rests``: the groups of the other axes; ``others``: their values.
    """
    if unknown := [rest for rest in value.phrases if rest not in rests]:
        return f"phrases: '{unknown[0]}' is no group of the other axes; known: {', '.join(sorted(rests))}"
    if unknown := [form for form in value.forms if form not in others]:
        return f"forms: '{unknown[0]}' is no value of another axis; known: {', '.join(sorted(others))}"
    if value.forms and value.noun:
        return "forms: a value with a noun is worded by that; leave one of the two out"
    article, _, rest = (value.phrase or "").partition(" ")
    is_article = rest and article.islower() and len(article) <= LONGEST_ARTICLE
    if article and article.isascii() and not value.noun and not is_article:
        return f"phrase: '{value.phrase}' has no article before it, as 'an Asian' has; write one, or give label alone"
    return ""
