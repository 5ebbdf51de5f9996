"""Which code each stage computes with, from the import statements, and one hash of it per stage.

A stage's code is the audit's own modules for it, what the pipeline joins in for that stage alone, everything that these
import, at module level or inside functions, and the data files beside them that they name. The modules of `CARRIERS`
only move tables between files and stages and are left out. `scripts/stage_dependencies.py` writes the paths into the
dvc.yaml of the repository; a study elsewhere depends on the hashes, which its markedness.yaml holds.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from markedness.audits import AUDITS
from markedness.audits.base import GROUP, OWN
from markedness.audits.base import STAGES as BY_AUDIT
from markedness.lm import backends
from markedness.plugins import registered

PACKAGE = Path(__file__).parent
NAME = "markedness"
COMPILED = "__pycache__"
"""A folder that Python writes beside the sources, other on each machine."""

# stage -> the function that runs it, and the modules of an audit that it calls by name
STAGES = {
    "settings": ("sizes:filled", ("generate",)),
    "generate": ("generation:generate", ("generate", "controls")),
    "clean": ("pipeline:clean", ("clean",)),
    "featurize": ("pipeline:featurize", ("featurize",)),
    "evaluate": ("pipeline:evaluate", ("evaluate", "figures")),
    "compare": ("study:compare", ("__init__", "evaluate")),
    "report": ("study:report", ("__init__", "examples")),
    "track": ("study:track", ("__init__", "examples")),
}
ROOMS = ("design", "language", "estimators")
"""Folders that every audit has, named whole: the audits differ in the modules inside."""
CARRIERS = {
    "pipeline", "generation", "store", "files", "working_tree", "params", "plugins", "cli", "audits", "audits.base",
}  # fmt: skip
"""Modules below the package that bring stages, files and params together and compute nothing that is measured."""

SETTINGS = ("pipeline", "params", "lm.config")
"""What writes data/settings besides, carriers too: where another version writes the same, nothing else runs again."""


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def module_file(name: str) -> Path | None:
    """The file of a module such as `text.tokens`; None where there is none."""
    place = PACKAGE.joinpath(*filter(None, name.split(".")))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(local name, module of ours) of every import below a node."""
    for statement in ast.walk(node):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name.startswith(f"{NAME}."):
                    yield alias.asname or NAME, alias.name.removeprefix(f"{NAME}.")
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == NAME:
            base = (statement.module or "").removeprefix(NAME).removeprefix(".")
            for alias in statement.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield alias.asname or alias.name, inner if module_file(inner) else base


def used(module: str, function: str) -> set[str]:
    """The modules that one function of a module needs, by way of the module's other functions, classes and names."""
    file = module_file(module)
    if file is None:
        raise LookupError(f"{module}:{function}: there is no module {NAME}/{module}.py; correct STAGES")
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree(file).body:
        for name in _bound(statement):
            defined.setdefault(name, []).append(statement)
    if function not in defined:
        raise LookupError(f"{module}:{function}: there is no such function; correct STAGES")
    found, seen, waiting = {module}, set(), [function]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for statement in defined.get(name, ()):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                found |= {target for local, target in imported(statement) if local == name}
                continue
            found |= {target for _, target in imported(statement)}
            waiting += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return found


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at module level defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    else:
        yield from (
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def closure(modules: Iterable[str]) -> set[Path]:
    """The files of the modules and of everything they import, carriers left out, with the data files they name."""
    files: set[Path] = set()
    waiting = list(modules)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        file = module_file(name)
        if name in seen or name in CARRIERS or file is None:
            continue
        seen.add(name)
        files |= {file, *data_files(file)}
        waiting += targets(file)
    return files


@cache
def targets(file: Path) -> tuple[str, ...]:
    """The modules of ours that a file imports."""
    return tuple(target for _, target in imported(tree(file)))


@cache
def data_files(file: Path) -> tuple[Path, ...]:
    """Files and folders beside a module that it names in a string; folders of code are imported, not read."""
    found = []
    for node in ast.walk(tree(file)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if not node.value or len(node.value) > 80 or not node.value.replace("/", "").replace(".", "").isidentifier():
            continue
        place = file.parent / node.value
        if place.suffix == ".py" or place.name == COMPILED or (place.is_dir() and any(place.rglob("*.py"))):
            continue
        if place.exists():
            found.append(place)
    return tuple(found)


def own_code(stage: str, audit: str) -> set[Path]:
    """The files of an audit of ours that a stage computes with, and what they import."""
    names = STAGES[stage][1]
    files = closure(f"audits.{audit}" if name == "__init__" else f"audits.{audit}.{name}" for name in names)
    if stage == "report":  # the only stage that reads the prose
        files |= set((PACKAGE / "audits" / audit).glob("card.yaml"))
    if stage == "settings":  # read through the AuditSpec
        files |= set((PACKAGE / "audits" / audit).glob("sizes.yaml"))
    return files


def shared_code(stage: str) -> set[Path]:
    """The files that a stage computes with whatever the audit."""
    module, function = STAGES[stage][0].split(":")
    files = closure(used(module, function) - {module})
    if stage == "settings":
        files |= {file for name in SETTINGS if (file := module_file(name))}
    return files if module in CARRIERS else {*files, PACKAGE / f"{module}.py"}


# ---------------------------------------------------------------- hashes


def hashes() -> dict[str, str | dict[str, str]]:
    """Stage -> the hash of its code in the installed package; of the four stages of an audit, audit -> hash.

    The code of an audit or a backend of another package is all of that package.
    """
    return {stage: _by_audit(stage) if stage in BY_AUDIT else code_hash(stage) for stage in STAGES}


def seal(stages: dict[str, str | dict[str, str]]) -> str:
    """The hash of every installed file that `hashes` could read, and of the hashes made from them.

    It needs no syntax tree: where it is the one that was recorded with ``stages``, these are what `hashes` makes now.
    """
    files = {NAME: PACKAGE}
    for group, own, names in ((GROUP, OWN, AUDITS), (backends.GROUP, backends.OWN, backends.names())):
        for name in set(names) - set(own):
            files |= _foreign(group, name)
    lines = sorted(f"{place} {digest}" for top, path in files.items() for place, digest in _digests(top, path))
    named = sorted([*map(str, AUDITS), *backends.names()])
    content = json.dumps([lines, named, stages], sort_keys=True)
    return hashlib.sha256(content.encode("utf-8")).hexdigest()[:32]


def _by_audit(stage: str) -> dict[str, str]:
    return {audit: code_hash(stage, audit) for audit in AUDITS}


@cache
def code_hash(stage: str, audit: str = "") -> str:
    """The hash of the code of one stage, of one audit where each audit has a stage of its own."""
    files = {_place(path): path for path in shared_code(stage)}
    for name in (audit,) if audit else AUDITS:
        found = {_place(path): path for path in own_code(stage, name)} if name in OWN else _foreign(GROUP, name)
        files |= found
    if stage == "generate":
        for name in backends.names():
            files |= {} if name in backends.OWN else _foreign(backends.GROUP, name)
    lines = sorted(f"{place} {digest}" for top, path in files.items() for place, digest in _digests(top, path))
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()[:32]


def _place(path: Path) -> str:
    """A file of ours as its hash names it: the same wherever the package is installed."""
    return f"{NAME}/{path.relative_to(PACKAGE).as_posix()}"


def _foreign(group: str, name: str) -> dict[str, Path]:
    """The code of another package that registers an audit or a backend."""
    own = backends.OWN if group == backends.GROUP else OWN
    module = registered(group, own)[name].value.split(":")[0].split(".")[0]
    found = find_spec(module)
    if found is None or found.origin is None:
        return {}  # cannot be loaded: the stage itself says why
    return {module: Path(found.origin).parent if found.submodule_search_locations else Path(found.origin)}


@cache
def _digests(place: str, path: Path) -> tuple[tuple[str, str], ...]:
    """(name, hash) of a file, or of every file of a folder."""
    if path.is_dir():
        inside = [file for file in path.rglob("*") if file.is_file() and COMPILED not in file.parts]
        return tuple(pair for file in inside for pair in _digests(f"{place}/{file.relative_to(path).as_posix()}", file))
    return ((place, hashlib.sha256(path.read_bytes()).hexdigest()),)
