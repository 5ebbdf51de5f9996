"""The persons that prompts are about: people with first names, or one person per group with a group label."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from markedness.audits.homogeneity.design.study import StimuliError
from markedness.axes import Axes, as_values, as_written, group_name
from markedness.records import Stimuli
from markedness.templates import given_phrase
from markedness.text.languages import GROUPS, words_of_group


class Person(NamedTuple):
    """Whom a prompt is about."""

    values: dict[str, str]
    """Axis -> value."""
    words: dict[str, str]
    """Field of a signal's template -> text: the name, or the label in its forms."""


def named_persons(axes: Axes, stimuli: Stimuli, file: str, per_group: int | None) -> Iterator[Person]:
    """Each name of each crossed group, in the order of the file; at most ``per_group`` a group, None: all."""
    names = stimuli.table(file, ["name", *axes])
    names = names.assign(**{axis: as_values(names[axis], axes[axis], f"{file}: {axis}") for axis in axes})
    for values in _crossed(axes):
        own = names.loc[(names[list(axes)] == list(values.values())).all(axis=1), "name"]
        if own.empty:
            raise StimuliError(
                f"{file} has no name for the group '{group_name(values, axes)}'; add one, or remove one of its values "
                "from homogeneity.axes"
            )
        if (again := own.duplicated() | own.eq("")).any():
            name = own[again].iloc[0]
            fault = f"the name {name} twice" if name else "an empty name"
            raise StimuliError(f"{file}: {group_name(values, axes)} has {fault}; remove it")
        yield from (Person(values, {"name": name}) for name in own.iloc[:per_group])


def labelled_persons(axes: Axes, stimuli: Stimuli) -> Iterator[Person]:
    """One person for each crossed group; in another language than English its words are those of groups.yaml."""
    groups = stimuli.data(GROUPS) or {} if stimuli.has(GROUPS) else None
    for values in _crossed(axes):
        try:
            own = None if groups is None else words_of_group(groups, values.values())
        except LookupError as error:
            raise StimuliError(f"homogeneity: {error.args[0]}") from error
        yield Person(values, own or label_words(values, axes))


def label_words(values: dict[str, str], axes: Axes) -> dict[str, str]:
    """Label and phrase of the axes without a noun ("Asian", "an Asian"), noun of the axis that has one ("man").

    ``person`` is the phrase that the axes give for the whole group, else phrase and noun ("an Asian man").
    Capitalised fields begin a sentence.
    """
    words = {axis: axes[axis].values[values[axis]] for axis in as_written(axes)}
    nouns = [word.noun for word in words.values() if word.noun]
    adjectives = {axis: word for axis, word in words.items() if not word.noun}
    label = " ".join(
        next((word.forms[values[other]] for other in words if values[other] in word.forms), word.label or values[axis])
        for axis, word in adjectives.items()
    )
    phrase = next(iter(adjectives.values())).phrase if len(adjectives) == 1 else None
    phrase = phrase or (f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}" if label else "an")
    noun = nouns[0] if nouns else "person"
    person = given_phrase(values, axes) or f"{phrase} {noun}"
    return {
        "label": label, "phrase": phrase, "Phrase": phrase[:1].upper() + phrase[1:], "noun": noun,
        "person": person, "Person": person[:1].upper() + person[1:],
    }  # fmt: skip


def _crossed(axes: Axes) -> Iterator[dict[str, str]]:
    """Axis -> value of every crossed group."""
    return (dict(zip(axes, values, strict=True)) for values in product(*(axis.values for axis in axes.values())))
