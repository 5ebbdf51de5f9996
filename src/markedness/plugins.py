"""Audits and backends register themselves under entry points, our own and those of other packages alike."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from markedness.records import AuditError

T = TypeVar("T")


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
