"""A YAML file written by a person: one mapping, every key once, of a size and depth that a person writes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from markedness.credentials import hide
from markedness.records import AuditError

LARGEST = 10_000_000
"""Bytes of a file."""
DEEPEST = 40
"""Levels of nesting."""
MOST_NODES = 200_000
"""Keys, values and lists of a file, aliases written out."""


class YamlFileError(AuditError):
    """A file that cannot be used; one line per fault, each with file and place."""


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; {} of an empty one.

    Raises
    ------
    YamlFileError
        As `load`, when it is no mapping, and when one of its mappings has keys that are texts and others that are not:
        DVC, which sorts them, ends without a place.
    """
    content = load(path)
    if content is not None and not isinstance(content, dict):
        raise YamlFileError(f"{path}: expected a mapping (key: value)")
    if faults := [f"{path.name}: {fault}" for fault in _mixed_keys(content, ())]:
        raise YamlFileError(hide("\n".join(faults)))
    return dict(content or {})


def load(path: Path) -> Any:
    """The content of a YAML file; None of an empty one.

    Raises
    ------
    YamlFileError
        When it is no file, not UTF-8 or no YAML, is too large or nested too deep, or has a key twice, a number beyond
        64 bits or a control character.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise YamlFileError(f"{path}: has more than {LARGEST:,} bytes; is it the right file?")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise YamlFileError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except IsADirectoryError as error:
        raise YamlFileError(f"{path}: is a folder; name the file in it") from error
    except OSError as error:
        raise YamlFileError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        place = f"line {text.count(chr(10), 0, error.position) + 1}"
        raise YamlFileError(f"{path}: {place}: no YAML file may have the character U+{error.character:04X}") from None
    try:
        node = loader.get_single_node()
        faults = list(_node_faults(node, loader.construct_object)) if node is not None else []
        content = loader.construct_document(node) if node is not None and not faults else None
    except RecursionError as error:
        raise YamlFileError(f"{path}: is nested too deep; use at most {DEEPEST} levels") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or number that there is not
        raise YamlFileError(f"{path}: not a YAML file: {hide(_reason(error))[:300]}") from None  # it shows lines
    finally:
        loader.dispose()
    if faults := [*faults, *_value_faults(content, ())]:
        raise YamlFileError(hide("\n".join(f"{path.name}: {fault}" for fault in faults)))
    return content


def _reason(error: Exception) -> str:
    """What is wrong and where, without the lines of the file that PyYAML shows: they may hold a key."""
    mark = getattr(error, "problem_mark", None)
    if not isinstance(error, yaml.MarkedYAMLError) or mark is None:
        return " ".join(str(error).split())
    facts = " ".join(part for part in (error.context, error.problem) if part)
    return f"line {mark.line + 1}, column {mark.column + 1}: {facts}"


def _node_faults(node: yaml.Node, built: Callable[[yaml.Node], Any]) -> Iterator[str]:
    """Keys that stand twice in one mapping, as 1 and true do; what is too deep, too large or contains itself."""
    sizes: dict[int, int] = {}
    repeated: list[str] = []

    def size(node: yaml.Node, above: tuple[int, ...]) -> int:
        if id(node) in above:
            raise ValueError(f"line {node.start_mark.line + 1}: contains itself through an alias (*)")
        if len(above) > DEEPEST:
            raise RecursionError
        if id(node) in sizes:
            return sizes[id(node)]
        inner = (*above, id(node))
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(size(child, inner) for child in node.value)
        elif isinstance(node, yaml.MappingNode):
            first: dict[Any, tuple[str, int]] = {}
            for key, content in node.value:
                total += size(key, inner) + size(content, inner)
                if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                    continue
                line = key.start_mark.line + 1
                if (value := built(key)) in first:
                    same, earlier = first[value]
                    as_what = "" if same == key.value else f" as '{same}'"
                    repeated.append(
                        f"line {line}: the key '{key.value}' is already in line {earlier}{as_what}; keep one of them"
                    )
                first.setdefault(value, (key.value, line))
        sizes[id(node)] = total
        return total

    if size(node, ()) > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES:,} entries, aliases written out")
    yield from repeated


def _mixed_keys(content: Any, steps: tuple[str, ...]) -> Iterator[str]:
    """Mappings whose keys cannot be sorted."""
    if isinstance(content, dict):
        others = [key for key in content if not isinstance(key, str)]
        if 0 < len(others) < len(content):
            where = "".join(f"{step}." for step in steps)
            yield f"{where}{others[0]}: other keys beside it are texts; write '{others[0]}' in quotes"
    below = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in below:
        yield from _mixed_keys(value, (*steps, str(key)))


def _value_faults(content: Any, steps: tuple[str, ...]) -> Iterator[str]:
    """Numbers beyond 64 bits, and characters that no text of a person holds."""
    where = ".".join(steps)
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _value_faults(key, (*steps, ascii(key)))
            yield from _value_faults(value, (*steps, str(key)))
    elif isinstance(content, list):
        for place, value in enumerate(content):
            yield from _value_faults(value, (*steps, str(place)))
    elif isinstance(content, int) and not -(2**63) <= content < 2**64:
        yield f"{where}: the number is beyond 64 bits; write a smaller one"
    elif isinstance(content, str):
        strange = next((c for c in content if c not in "\n\r\t" and unicodedata.category(c) in ("Cc", "Cs")), None)
        if strange is not None:
            yield f"{where}: has the control character U+{ord(strange):04X}; remove it"
