"""Imports point down, heavy packages stay in their rooms, and dvc.yaml names what a stage imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from markedness.audits import AUDITS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "markedness"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each room may import of ours. Rooms that are not named may import anything below the command line.
ALLOWED = {
    "text": {"text"},
    "stats": {"stats", "results"},
    "param_numbers": set(),
    "records": {"param_numbers"},
    "credentials": set(),
    "plugins": {"records"},
    "audits": {"audits", "text", "stats", "plugins", "records", "results", "credentials"},
    "results": set(),
    "lm": {"lm", "plugins", "records", "credentials"},
    "naming": {"records", "results"},
    "params": {"audits", "lm", "naming", "records", "strict_yaml", "credentials"},
    "strict_yaml": {"records", "credentials"},
    "files": {"records"},
    "store": {"files", "records", "working_tree"},
    "working_tree": {"files"},
}
# Packages that only some modules may import.
CONFINED = {
    "torch": {
        "lm/local.py",
        "lm/local_text.py",
        "lm/scoring.py",
        "lm/gguf.py",
        "lm/cluster.py",
        "lm/weights.py",
        "text/embeddings.py",
        "audits/knowledge/language/classifiers.py",
    },
    "transformers": {
        "lm/scoring.py",
        "lm/gguf.py",
        "lm/cluster.py",
        "lm/weights.py",
        "audits/knowledge/language/classifiers.py",
        "text/embeddings.py",
    },
    "mlflow": {"dataset_source.py", "tracking.py"},
    "openai": {"lm/endpoint.py", "lm/transport.py", "lm/batch.py"},
    "pickle": set(),
    "joblib": set(),
}

# Modules that ask objects of other packages what they can do, where those packages have no type that says it.
FOREIGN = {
    "files.py": "renameat2 of the C library",
    "lm/database.py": "sqlite_errorcode of errors that SQLite did not raise",
    "lm/weights.py": "configurations of transformers",
    "lm/local_text.py": "models of transformers",
    "lm/scoring.py": "models of transformers",
    "lm/served_by.py": "the source file of a rule",
    "strict_yaml.py": "the place of a YAML error",
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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_never_find_out_what_an_object_can_do(path: Path) -> None:
    found = {name for name, _ in imports(path) if name == "inspect"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
            found.add(node.func.id)
    assert bool(found) == (path.relative_to(PACKAGE).as_posix() in FOREIGN), found


def ours(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a module imports, inside functions as well."""
    return {name for name, _ in imports(path) if name in known} - {module_name(path)}


def module_name(path: Path) -> str:
    return ".".join(("markedness", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def test_imports_of_all_modules_have_no_circle() -> None:
    known = {module_name(path): path for path in MODULES}
    left = {name: ours(path, known) - {"markedness"} for name, path in known.items()}
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"import each other: {sorted(left)}"


@pytest.mark.parametrize("audit", AUDITS)
def test_audits_do_not_import_each_other(audit: str) -> None:
    for path in (PACKAGE / "audits" / audit).rglob("*.py"):
        for name, _ in imports(path):
            parts = name.split(".")
            if parts[:2] == ["markedness", "audits"] and len(parts) > 2:
                assert parts[2] in (audit, "base"), f"{path} imports {name}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """scripts/stage_dependencies.py."""
    spec = spec_from_file_location("stage_dependencies", ROOT / "scripts" / "stage_dependencies.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_dvc_stages_depend_on_exactly_the_code_they_import(script: ModuleType) -> None:
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert script.written(text) == text, "run 'python scripts/stage_dependencies.py'"


def code(script: ModuleType, stage: str) -> set[str]:
    return {path.removeprefix("src/markedness/") for path in script.dependencies(stage)}


def test_estimators_of_an_audit_are_a_dependency_of_its_evaluate_alone(script: ModuleType) -> None:
    estimators = "audits/${item.audit}/estimators"
    assert estimators in code(script, "evaluate")
    assert estimators not in code(script, "generate") | code(script, "clean") | code(script, "featurize")
    assert not [path for path in code(script, "featurize") if path.startswith("stats/")]


def test_stages_depend_on_the_cards_and_files_that_they_read(script: ModuleType) -> None:
    cards = {f"audits/{audit}/__init__.py" for audit in AUDITS}
    assert cards <= code(script, "report") and cards <= code(script, "compare") and cards <= code(script, "track")
    assert "reporting/templates" in code(script, "report")
    assert "audits/${item.audit}/language" in code(script, "featurize")
    assert "tracking.py" in code(script, "track") and "tracking.py" not in code(script, "report")


def test_stage_dependencies_follow_imports_inside_functions(script: ModuleType) -> None:
    # generation.load_model and pipeline.evaluate import these only when they run
    assert {"lm/local.py", "lm/openai_api.py", "lm/scripted.py"} <= code(script, "generate")
    assert "reporting/figures.py" in code(script, "evaluate")
