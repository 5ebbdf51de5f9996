"""Write the code that each stage of dvc.yaml computes with into its `deps`, from the import statements.

A stage's code is the audit's own modules for it, what the pipeline joins in for that stage alone, everything that these
import, at module level or inside functions, and the data files beside them that they name. The modules of `CARRIERS`
only move tables between files and stages and are left out. Data, params and outs of dvc.yaml are written by hand.

    python scripts/stage_dependencies.py            # rewrites dvc.yaml
    python scripts/stage_dependencies.py --check    # exit status 1 where dvc.yaml says something else
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "markedness"
AUDITS = tuple(sorted(path.parent.name for path in (ROOT / "src" / PACKAGE / "audits").glob("*/evaluate.py")))

# stage -> the function that runs it, and the modules of an audit that it calls by name
STAGES = {
    "settings": ("sizes:filled", ()),
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


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def module_file(name: str) -> Path | None:
    """The file of a module such as `text.tokens`; None where there is none."""
    place = ROOT.joinpath("src", PACKAGE, *filter(None, name.split(".")))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(local name, module of ours) of every import below a node."""
    for statement in ast.walk(node):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name.startswith(f"{PACKAGE}."):
                    yield alias.asname or PACKAGE, alias.name.removeprefix(f"{PACKAGE}.")
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == PACKAGE:
            base = (statement.module or "").removeprefix(PACKAGE).removeprefix(".")
            for alias in statement.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield alias.asname or alias.name, inner if module_file(inner) else base


def used(module: str, function: str) -> set[str]:
    """The modules that one function of a module needs, by way of the module's other functions, classes and names."""
    file = module_file(module)
    if file is None:
        raise SystemExit(f"{module}:{function}: there is no module src/{PACKAGE}/{module}.py; correct STAGES")
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree(file).body:
        for name in _bound(statement):
            defined.setdefault(name, []).append(statement)
    if function not in defined:
        raise SystemExit(f"{module}:{function}: there is no such function; correct STAGES")
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
        waiting += [target for _, target in imported(tree(file))]
    return files


def data_files(file: Path) -> Iterator[Path]:
    """Files and folders beside a module that it names in a string; folders of code are imported, not read."""
    for node in ast.walk(tree(file)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if not node.value or len(node.value) > 80 or not node.value.replace("/", "").replace(".", "").isidentifier():
            continue
        place = file.parent / node.value
        if place.suffix != ".py" and place.exists() and not (place.is_dir() and any(place.rglob("*.py"))):
            yield place


def dependencies(stage: str) -> list[str]:
    """The paths of code for the `deps` of a stage, sorted; what every audit has is written once for all."""
    entry, names = STAGES[stage]
    everywhere = closure(used(*entry.split(":")) - {entry.split(":")[0]})
    if entry.split(":")[0] not in CARRIERS:
        everywhere.add(ROOT / "src" / PACKAGE / f"{entry.split(':')[0]}.py")
    by_audit = stage in ("generate", "clean", "featurize", "evaluate")
    paths = set(map(relative, everywhere))
    own: dict[str, set[str]] = {}
    for audit in AUDITS:
        files = closure(_own_module(audit, name) for name in names)
        if stage == "report":  # the only stage that reads the prose
            files |= set((ROOT / "src" / PACKAGE / "audits" / audit).glob("card.yaml"))
        if stage == "settings":  # read through the AuditSpec
            files |= set((ROOT / "src" / PACKAGE / "audits" / audit).glob("sizes.yaml"))
        for path in map(relative, files):
            folder = f"src/{PACKAGE}/audits/{audit}/"
            if by_audit and path.startswith(folder):
                inside = path.removeprefix(folder)
                named = next((room for room in ROOMS if inside.startswith(f"{room}/")), inside)
                own.setdefault(f"src/{PACKAGE}/audits/${{item.audit}}/{named}", set()).add(path)
            else:
                paths.add(path)
    for pattern, literal in own.items():
        every = all((ROOT / pattern.replace("${item.audit}", audit)).exists() for audit in AUDITS)
        paths |= {pattern} if every else literal
    return sorted(paths)


def _own_module(audit: str, name: str) -> str:
    return f"audits.{audit}" if name == "__init__" else f"audits.{audit}.{name}"


def relative(path: Path) -> str:
    """A path as dvc.yaml has it."""
    return path.relative_to(ROOT).as_posix()


def written(text: str) -> str:
    """The text of dvc.yaml with the code of each stage's `deps` put right; all other lines stay."""
    lines: list[str] = []
    stage, in_deps = "", False
    for line in text.splitlines():
        if heading := re.match(r"  (\w+):", line):
            stage = heading[1]
        if in_deps and not line.startswith("      "):
            lines += [f"      - {path}" for path in dependencies(stage)]
            in_deps = False
        if in_deps and line.strip().startswith("- src/"):
            continue
        in_deps = in_deps or (line == "    deps:" and stage in STAGES)
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite dvc.yaml, or check it."""
    file = ROOT / "dvc.yaml"
    now = file.read_text(encoding="utf-8")
    right = written(now)
    if "--check" not in sys.argv[1:]:
        file.write_text(right, encoding="utf-8")
    elif now != right:
        sys.exit("dvc.yaml: the deps are not those of the code; run 'python scripts/stage_dependencies.py'")


if __name__ == "__main__":
    main()
