"""How a prompt words a person: article, label, noun, pronouns."""

from __future__ import annotations

from collections.abc import Mapping

from markedness.axes import Axes, as_written
from markedness.records import AuditError
from markedness.templates import given_phrase
from markedness.text.languages import words_of_group

_PLURAL = ("they", "we", "you")


def person(values: Mapping[str, str | None], axes: Axes) -> dict[str, str]:
    """The words for one person: group with article, subject, object, possessive, be.

    The noun is that of the last value that has one, else "person"; the other values' labels stand before it,
    in the order of params: "an Asian woman", "a Latine nonbinary person". A phrase that the axes give for the group
    ("une femme noire") stands in place of all this.
    """
    given = {axis: key for axis in as_written(axes) if (key := values.get(axis))}
    fixed = {axis: axes[axis].values[key] for axis, key in given.items()}
    noun_axis = next((axis for axis in reversed(fixed) if fixed[axis].noun), None)
    article, adjectives = "", []
    for axis, value in fixed.items():
        if axis == noun_axis:
            continue
        form = next((value.forms[key] for key in given.values() if key in value.forms), None)
        given_article, _, phrase = (value.phrase or "").partition(" ")
        adjectives.append(form or phrase or value.label or given[axis])
        if len(adjectives) == 1 and not form:
            article = given_article
    noun = fixed[noun_axis].noun if noun_axis else "person"
    described = " ".join([*adjectives, str(noun)])
    article = article or ("an" if described[0].lower() in "aeiou" else "a")
    pronouns = next((value.pronouns for value in fixed.values() if value.pronouns), ("they", "them", "their"))
    subject, object_, possessive = pronouns
    return {
        "group": given_phrase(values, axes) or f"{article} {described}",
        "subject": subject, "object": object_, "possessive": possessive,
        "be": "are" if subject in _PLURAL else "is",
    }  # fmt: skip


def given_words(values: Mapping[str, str | None], groups: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The words that the stimuli of a language have for one person; {} for nobody."""
    fixed = [value for value in values.values() if value]
    try:
        return words_of_group(groups, fixed) if fixed else {}
    except LookupError as error:
        raise AuditError(f"personas: {error.args[0]}") from error
