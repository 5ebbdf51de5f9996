"""Axes of identity, their values in words, and how the groups that they cross are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pandas as pd
from pydantic import AfterValidator, Field, PrivateAttr, SerializerFunctionWrapHandler, WrapSerializer, model_validator

from markedness.records import AuditError, Strict, composed


class Value(Strict):
    """The words for one value of an axis; what is not given is derived from the key."""

    label: str | None = None
    """As a reader sees it, and as it is written in a prompt; the key unless given."""
    phrase: str | None = None
    """Adjective phrase with article: "an Asian"; derived from the label by its first letter. Of a value with a noun:
    the whole phrase, "une femme", where no other axis is fixed."""
    noun: str | None = None
    """The noun of the person: "woman", "nonbinary person"."""
    pronouns: tuple[str, str, str] | None = None
    """Subject, object, possessive: ("she", "her", "her")."""
    forms: dict[str, str] = Field(default_factory=dict)
    """Label beside a value of another axis: {"woman": "Latina"}."""
    phrases: dict[str, str] = Field(default_factory=dict)
    """Whole phrase of a crossing, article included, by the name of the rest of the group: {"woman": "une femme noire"}.
    For languages whose articles and adjectives English rules cannot make."""
    aliases: tuple[str, ...] = ()
    """How files of other people write this value ("F"); a corpus is read by them, and no prompt holds them."""


class Axis(Strict):
    """One axis of identity: its values, one of them unmarked."""

    unmarked: str
    """The value that the others are compared with."""
    values: dict[str, Value] = Field(min_length=2)
    """Value key -> words. The keys name groups in every table."""
    _place: int = PrivateAttr(default=0)
    """Place among the axes as params write them."""

    @model_validator(mode="after")
    def _unmarked_is_a_value(self) -> Axis:
        if self.unmarked not in self.values:
            raise ValueError(f"unmarked: '{self.unmarked}' is not one of the values; values: {', '.join(self.values)}")
        return self

    @property
    def marked(self) -> list[str]:
        """All values but the unmarked one, in order."""
        return [value for value in self.values if value != self.unmarked]


def respelt(column: pd.Series, axis: Axis) -> pd.Series:
    """Values of an axis by their key, where the file has a label, noun or alias, or other capitals."""
    keys: dict[str, set[str]] = {}
    for key, words in axis.values.items():
        for spelling in {key, words.label, words.phrase, words.noun, *words.aliases} - {None}:
            keys.setdefault(composed(str(spelling)).casefold(), set()).add(key)
    found = {
        text: keys[composed(text).casefold().strip()]
        for text in column.dropna().unique()
        if text not in axis.values and composed(text).casefold().strip() in keys
    }
    return column.replace({text: next(iter(named)) for text, named in found.items() if len(named) == 1})


def as_values(column: pd.Series, axis: Axis, where: str) -> pd.Series:
    """A column of a stimuli file by the keys of an axis, as `respelt`; other values, which are not asked about, stay.

    Raises
    ------
    AuditError
        For a value that is one of the axis but for a slip of typing ("Asain", "Blck"): its rows would be left out.
    """
    found = respelt(column, axis)
    for value in found[~found.isin([*axis.values, ""])].unique():
        if near := meant(value, axis.values):
            raise AuditError(
                f"{where} has '{value:.40}', no value of the axis; if it is '{near}', write it so, else remove its rows"
            )
    return found


def meant(word: str, known: Iterable[str]) -> str:
    """The first of ``known`` that a word, itself none of them, is but for capitals or a slip of typing; "" for none.

    Words of one or two letters ("Mr", "M") are taken as they stand.
    """
    return next((one for one in known if len(one) > 2 < len(word) and _slipped(word.casefold(), one.casefold())), "")


def _slipped(one: str, other: str) -> bool:
    """Whether two words differ by a letter more or less, by two neighbours that changed places, or in capitals alone.

    Of five letters and more, by another letter, too ("women", "woman").
    """
    short, long = sorted((one, other), key=len)
    if len(short) < len(long):
        return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
    places = [place for place, letters in enumerate(zip(one, other, strict=True)) if letters[0] != letters[1]]
    swapped = len(places) == 2 and places[1] == places[0] + 1 and sorted(one) == sorted(other)
    return not places or swapped or (len(places) == 1 and len(one) > 4)


def about_a_group(groups: pd.Series) -> pd.Series:
    """Which rows have a group, and are in a comparison; all where none has: such a corpus is measured, too."""
    named = groups.astype("string").fillna("").ne("").astype(bool)
    return named if named.any() else ~named


def check_filled(rows: pd.DataFrame, column: str, audit: str) -> None:
    """Refuse a column that is blank in some of the rows with a group: they would be pooled under no name."""
    named = about_a_group(rows["group"])
    blank = named & rows[column].astype("string").fillna("").eq("")
    if 0 < (n := int(blank.sum())) < int(named.sum()):
        raise AuditError(
            f"{audit}: the column '{column}' of the corpus is blank in {n:,} rows; fill it or leave them out"
        )


def as_written(axes: Mapping[str, Axis]) -> list[str]:
    """Names of the axes in the order of params, in which the values of a group are joined and worded."""
    return sorted(axes, key=lambda name: axes[name]._place)


def _in_one_order(axes: dict[str, Axis]) -> dict[str, Axis]:
    made: dict[str, Axis] = {}
    places = {name: place for place, name in enumerate(as_written(axes))}
    for name in sorted(axes, reverse=True):
        values = {key: axes[name].values[key] for key in (axes[name].unmarked, *sorted(axes[name].marked))}
        made[name] = axes[name].model_copy(update={"values": values})
        made[name]._place = places[name]
    return made


def _written(axes: dict[str, Axis], dump: SerializerFunctionWrapHandler) -> Any:
    return dump({name: axes[name] for name in as_written(axes)})


Axes = Annotated[dict[str, Axis], AfterValidator(_in_one_order), WrapSerializer(_written)]
"""The axes of params, in one order however they are written, so that this decides no draw: by name from z to a (race
before gender, as most corpora have them); of an axis the unmarked value first, then the others by name. The order
written names and words the groups ("Black woman"): `as_written`; it is kept when the block is dumped."""


def key_part(name: str) -> str:
    """A name as part of a key or file name: "_" for every character that is neither a letter nor a digit."""
    return "".join(character if character.isalnum() else "_" for character in composed(name))


def group_name(values: Mapping[str, Any], axes: Axes) -> str:
    """Name of the group that fixes these axis values: "Black woman".

    Parameters
    ----------
    values
        Axis -> value; axes that are absent or missing (None, NaN, "") are not fixed.
    axes
        The axes; values are joined in the order in which params write them.
    """
    fixed = (values.get(axis) for axis in as_written(axes))
    return " ".join(str(value) for value in fixed if not pd.isna(value) and value != "")


def groups_in_one_order(rows: pd.DataFrame, axes: Iterable[str]) -> pd.Series:
    """Group of each row with its values in the order of ``axes``, which its name need not have; "" where none is fixed.

    What is hashed or drawn by group goes by this, so that the order in which params write the axes decides nothing.
    """
    found = pd.Series("", index=rows.index, dtype="string")
    for axis in axes:
        values = rows[axis].astype("string").fillna("")
        found += (" " + values).where(values.ne(""), "")
    return found.str[1:]
