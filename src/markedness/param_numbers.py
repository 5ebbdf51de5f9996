"""Numbers in a params block that convert to what nobody means: true as 1, a billion resamples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args, get_origin

MOST_REPLICATES = 1_000_000
"""Largest integer of a field ``n_...``: resamples, permutations, orders."""


def number_fault(name: str, value: object, annotation: object) -> str | None:
    """What is wrong with a value of a field before it is converted; None: nothing, or the field holds no numbers.

    Parameters
    ----------
    name
        Of the field; ``n_...`` is a number of replicates.
    value
        As it was given: a number, or a list or mapping of numbers.
    annotation
        Type of the field.
    """
    kinds = set(_scalar_types(annotation))
    cells = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
    if kinds & {int, float} and bool not in kinds and any(isinstance(cell, bool) for cell in cells):
        return "expected a number, not true or false"
    if name.startswith("n_") and int in kinds and isinstance(value, int) and value > MOST_REPLICATES:
        return f"is more than {MOST_REPLICATES:,}, which takes days and changes no digit that is shown"
    return None


def _scalar_types(annotation: object) -> Iterator[object]:
    """The types that an annotation is made of."""
    inner = () if get_origin(annotation) is Literal else get_args(annotation)
    if not inner:
        yield annotation
    for one in inner:
        yield from _scalar_types(one)
