"""How much is asked: a size fills in what the generate block of an audit leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import BaseModel

from markedness.audits.base import SIZES, AuditSpec


@dataclass(frozen=True)
class AuditSize:
    """The size of one audit."""

    name: str = ""
    """quick, standard or paper; "" without a size."""
    but_for: tuple[str, ...] = ()
    """Keys of the generate block that say something else than the size."""

    def __str__(self) -> str:
        if not self.name:
            return "no size"
        return f"size {self.name}" + (f" but for {', '.join(self.but_for)}" if self.but_for else "")


def sized(audit: str, block: dict[str, Any], of_all: object, spec: AuditSpec) -> tuple[dict[str, Any], AuditSize, str]:
    """An audit's block with its generate filled in by its size; that size; what is wrong with it, or ""."""
    own, known = block.get("size"), spec.sizes
    if own is not None and own not in SIZES:
        return block, AuditSize(), f"{audit}.size: '{own}' is not a size; one of {', '.join(SIZES)}, or null"
    if own is not None and not known:
        return block, AuditSize(), f"{audit}.size: the audit has no sizes; set null and say all in {audit}.generate"
    size = of_all if own is None else own
    given = {} if block.get("generate") is None else block["generate"]
    if not isinstance(size, str) or size not in known or not isinstance(given, dict):
        return block, AuditSize(), ""
    made = filled(given, known[size], spec.params("generate"))
    return {**block, "generate": made}, AuditSize(size, tuple(differences(made, known[size]))), ""


def filled(block: Mapping[str, object], sized: Mapping[str, object], kind: type[BaseModel]) -> dict[str, object]:
    """A generate block in which the size says what was left out or is null.

    Blocks inside are filled in key by key. Where the keys are names that a person gives (text sets, tasks), those in
    the block are all that is asked, and the size fills in what it knows of them.

    Parameters
    ----------
    block
        As params.yaml has it.
    sized
        The same keys, as the size sets them.
    kind
        The class that checks the block.
    """
    made = dict(block)
    for key, value in sized.items():
        own = made.get(key)
        if own is None:
            made[key] = value
        elif isinstance(own, dict) and isinstance(value, dict) and key in kind.model_fields:
            annotation = kind.model_fields[key].annotation
            if _is_block(annotation):
                made[key] = filled(own, value, annotation)
            elif (entry := _entry(annotation)) is not None:
                made[key] = {name: _filled_entry(given, value.get(name), entry) for name, given in own.items()}
    return made


def _filled_entry(given: object, sized: object, kind: type[BaseModel]) -> object:
    if not isinstance(sized, dict):
        return given
    return filled(given, sized, kind) if isinstance(given, dict) else sized if given is None else given


def _is_block(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _entry(annotation: object) -> type[BaseModel] | None:
    """The class of the values of a mapping from names to blocks."""
    inner = get_args(annotation)[-1] if get_origin(annotation) is dict else None
    return inner if _is_block(inner) else None


def differences(made: Mapping[str, object], sized: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """The keys of a size whose value in a filled block is another, dotted."""
    for key, value in sized.items():
        own = made.get(key)
        if isinstance(own, Mapping) and isinstance(value, Mapping) and own.keys() >= value.keys():
            yield from differences(own, value, f"{prefix}{key}.")
        elif own != value:
            yield f"{prefix}{key}"
