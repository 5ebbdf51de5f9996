"""Audits and backends register themselves under entry points, our own and those of other packages alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from markedness.records import AuditError

T = TypeVar("T")
R = TypeVar("R")


class SpecError(AuditError):
    """A plug-in that does not hold what its spec promises."""


@cache
def registered(group: str, own: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Name -> entry point of everything installed in a group: ``own`` first, in this order, then the others by name."""
    found = {point.name: point for point in entry_points(group=group)}
    return {name: found[name] for name in (*(n for n in own if n in found), *sorted(set(found) - set(own)))}


def loaded(kind: type[T], noun: str, name: str, points: dict[str, EntryPoint]) -> T:
    """What the entry point of this name names.

    Raises
    ------
    SpecError
        When no entry point has the name, or it names no object of this kind.
    """
    if name not in points:
        raise SpecError(f"'{name}' is not an installed {noun}; known: {', '.join(points)}")
    try:
        found = points[name].load()
    except (ImportError, AttributeError) as error:
        raise SpecError(f"{noun} '{name}': its entry point {points[name].value} cannot be loaded: {error}") from error
    if not isinstance(found, kind):
        raise SpecError(f"{noun} '{name}': {points[name].value} is not a {kind.__name__}")
    return found


def taking(function: Callable[..., R], arguments: Sequence[str], fewest: int, place: str) -> Callable[..., R]:
    """A function of another package as one of all these positional arguments; the last may be left out of it.

    Parameters
    ----------
    fewest
        With how many of the arguments it may do: an argument that a later version added is not passed to it.
    place
        What to call it where it takes neither.

    Raises
    ------
    SpecError
        When it can be called with none of these numbers of arguments.
    """
    signature = inspect.signature(function)
    for number in range(len(arguments), fewest - 1, -1):
        try:
            signature.bind(*arguments[:number])
        except TypeError:
            continue
        return function if number == len(arguments) else _of_first(function, number)
    called = f"({', '.join(arguments)})"
    raise SpecError(f"{place} takes {signature}, but is called with {called}; write these arguments")


def _of_first(function: Callable[..., R], number: int) -> Callable[..., R]:
    return lambda *given: function(*given[:number])
