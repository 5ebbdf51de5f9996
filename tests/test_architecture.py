"""Imports point down, heavy packages stay in their rooms, and dvc.yaml names what a stage imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from markedness.audits import AUDITS, STAGES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "markedness"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each room may import of ours. Rooms that are not named may import anything below the command line.
ALLOWED = {
    "text": {"text"},
    "stats": {"stats"},
    "records": set(),
    "audits": {"audits", "text", "stats", "records"},
    "lm": {"lm", "records"},
    "params": {"audits", "lm", "records"},
    "store": {"records"},
}
# Packages that only some modules may import.
CONFINED = {
    "torch": {
        "lm/local.py",
        "lm/local_text.py",
        "lm/scoring.py",
        "lm/gguf.py",
        "lm/cluster.py",
        "text/embeddings.py",
        "text/classifiers.py",
    },
    "transformers": {
        "lm/local.py",
        "lm/scoring.py",
        "lm/gguf.py",
        "lm/cluster.py",
        "text/classifiers.py",
        "text/embeddings.py",
    },
    "mlflow": {"tracking.py"},
    "openai": {"lm/openai_api.py", "lm/batch.py"},
    "pickle": set(),
    "joblib": set(),
}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module with whether it is imported when the module loads."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from ((name, id(node) not in inner) for name in names)


def room(path: Path) -> str:
    """First step below the package: a folder, or a module's name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_of_each_module_point_down(path: Path) -> None:
    allowed = ALLOWED.get(room(path))
    if allowed is None:
        return
    ours = {name.split(".")[1] for name, _ in imports(path) if name.startswith("markedness.")}
    assert ours <= allowed, f"{path.name} imports {sorted(ours - allowed)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_confined_packages_stay_in_their_modules(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    for name, _ in imports(path):
        assert place in CONFINED.get(name.split(".")[0], {place}), f"{place} imports {name}"


@pytest.mark.parametrize("audit", AUDITS)
def test_audits_do_not_import_each_other(audit: str) -> None:
    for path in (PACKAGE / "audits" / audit).glob("*.py"):
        for name, _ in imports(path):
            parts = name.split(".")
            if parts[:2] == ["markedness", "audits"] and len(parts) > 2:
                assert parts[2] == audit, f"{path} imports {name}"


@pytest.mark.parametrize("audit", AUDITS)
@pytest.mark.parametrize("stage", STAGES)
def test_dvc_stage_names_every_import_as_dependency(audit: str, stage: str) -> None:
    module = PACKAGE / "audits" / audit / f"{stage}.py"
    if not module.exists():
        pytest.skip(f"{audit} has no {stage} yet")
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    deps = [dep.replace("${item.audit}", audit).replace("${item.model}", "m") for dep in stages[stage]["deps"]]
    for name, _ in imports(module):
        if not name.startswith("markedness."):
            continue
        place = Path("src", *name.split("."))
        file = next(
            (p for p in (place.with_suffix(".py"), place.parent.with_suffix(".py")) if (ROOT / p).is_file()), None
        )
        if file is None or file.name == "__init__.py":
            continue
        assert any(file == Path(dep) or Path(dep) in file.parents for dep in deps), f"{stage} imports {file}: not a dep"
