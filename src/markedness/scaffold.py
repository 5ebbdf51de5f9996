"""A package for an audit or a backend of one's own, from the templates that come with markedness."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from importlib import resources
from importlib.resources.abc import Traversable
from keyword import iskeyword
from pathlib import Path

import yaml

from markedness.audits import AUDITS
from markedness.files import write_file
from markedness.lm import backends
from markedness.params import Params, ParamsError

KEYS = {"size", *(field.name for field in fields(Params))}
"""Keys of params.yaml, which has a block of the audit's name beside them."""
RESULTS = ("compare", "gate", "headline", "literature")
"""Names under results/ that are no audit's."""
LONGEST = 40
"""Characters of a name, which becomes a module; that of an audit a folder and a column of tables, too."""


class ScaffoldError(ParamsError):
    """A name or a folder that an audit, a backend or a study cannot have."""


def new_audit(name: str, folder: Path) -> list[Path]:
    """Write the package of an audit, with a spec, a card, four stages, controls and tests; returns its files.

    Parameters
    ----------
    name
        Of the audit: lower-case letters, digits and "_".
    folder
        Of the package; it must be empty or not there.
    """
    if name in KEYS:
        raise ScaffoldError(f"'{name}' is a key of params.yaml; choose another name")
    if name in RESULTS:
        raise ScaffoldError(f"'{name}' is a folder of results/; choose another name")
    return _new_package("audit", name, folder, AUDITS)


def new_backend(name: str, folder: Path) -> list[Path]:
    """Write the package of a backend, with its params block, a model, a server for tests and tests; returns its files.

    Parameters
    ----------
    name
        Of the backend, the value of ``backend`` in params.yaml: lower-case letters, digits and "_".
    folder
        Of the package; it must be empty or not there.
    """
    return _new_package("backend", name, folder, backends.names())


def _new_package(kind: str, name: str, folder: Path, installed: Collection[str]) -> list[Path]:
    """Write the template of this kind under a name that no installed one has."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or len(name) > LONGEST:
        raise ScaffoldError(
            f"'{name}' cannot name {'an' if kind == 'audit' else 'a'} {kind}: use lower-case letters, digits and "
            f"single '_', a letter first, at most {LONGEST} characters"
        )
    if name in installed:
        raise ScaffoldError(f"'{name}' is an installed {kind}; choose another name")
    if iskeyword(name) or yaml.safe_load(name) != name:
        raise ScaffoldError(f"'{name}' is a word of Python or YAML; choose another name")
    refuse_used(folder)
    written = []
    for place, text in template(kind):
        path = folder / place.replace("NAME", name)
        write_file(path, text.replace("NAME", name))
        written.append(path)
    return sorted(written)


def refuse_used(folder: Path) -> None:
    """Refuse a folder that has anything in it, and a path that can be none."""
    try:
        used = folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir())))
    except (OSError, ValueError) as error:
        raise ScaffoldError(f"{str(folder)[:200]}: cannot be a folder ({error}); name another") from error
    if used:
        raise ScaffoldError(f"{folder}: is there already and not empty; name another folder, or remove it")


def template(name: str) -> Iterator[tuple[str, str]]:
    """Path and text of every file of a template."""
    return _files(resources.files("markedness") / "templates" / name, "")


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    """Path and text of every file of the template; their ending .txt keeps tools from taking them for code."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name.removesuffix('.txt')}", entry.read_text(encoding="utf-8")
