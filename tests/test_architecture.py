"""Imports point down, heavy packages stay in their rooms, and dvc.yaml names what a stage imports."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from markedness.audits import AUDITS
from markedness.stage_code import own_code

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "markedness"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each room may import of ours. Rooms that are not named may import anything below the command line.
ALLOWED = {
    "text": {"text"},
    "stats": {"stats", "results"},
    "param_numbers": set(),
    "records": {"param_numbers"},
    "axes": {"records"},
    "credentials": set(),
    "plugins": {"records"},
    "leanings": {"records"},
    "audits": {
        "audits",
        "axes",
        "text",
        "stats",
        "plugins",
        "records",
        "results",
        "cards",
        "charts",
        "credentials",
        "text_scores",
        "leanings",
        "templates",
        "in_common",
        "reads",
        "separated",
    },
    "in_common": set(),
    "charts": set(),
    "templates": {"axes", "records"},
    "results": set(),
    "cards": set(),
    "text_scores": {"records"},
    "lm": {"lm", "axes", "plugins", "records", "credentials", "text_scores", "leanings", "separated"},
    "separated": set(),
    "naming": {"axes", "records", "results"},
    "param_blocks": {"records"},
    "params": {
        "audits",
        "axes",
        "files",
        "lm",
        "naming",
        "param_blocks",
        "records",
        "sizes",
        "store",
        "strict_yaml",
        "credentials",
    },
    "sizes": {"audits"},
    "strict_yaml": {"records", "credentials"},
    "files": {"records"},
    "tables": {"records"},
    "store": {"files", "reads", "records", "separated", "strict_yaml", "tables", "working_tree"},
    "reads": set(),
    "working_tree": {"files", "records"},
}
# Packages that only some modules may import.
CONFINED = {
    "torch": {
        "lm/local.py",
        "lm/decoders.py",
        "lm/local_text.py",
        "lm/packed.py",
        "lm/cloze.py",
        "lm/scoring.py",
        "lm/gguf.py",
        "lm/cluster.py",
        "lm/weights.py",
        "text/embeddings.py",
        "text/classifiers.py",
    },
    "transformers": {
        "lm/decoders.py",
        "lm/scoring.py",
        "lm/gguf.py",
        "lm/cluster.py",
        "lm/weights.py",
        "text/classifiers.py",
        "text/embeddings.py",
    },
    "mlflow": {"dataset_source.py", "tracking.py", "tracking_store.py"},
    "openai": {"lm/endpoint.py", "lm/transport.py", "lm/batch.py"},
    "pickle": set(),
    "joblib": set(),
}

FOLDERS = {"data", "results", "reports", "models"}
# Modules that ask objects of other packages what they can do, where those packages have no type that says it.
FOREIGN = {
    "files.py": "renameat2 of the C library",
    "plugins.py": "the arguments of a rule of another package",
    "lm/database.py": "sqlite_errorcode of errors that SQLite did not raise",
    "lm/weights.py": "configurations of transformers",
    "lm/decoders.py": "models of transformers",
    "lm/packed.py": "operators of PyTorch",
    "lm/cloze.py": "models of transformers",
    "lm/served_by.py": "the source file of a rule",
    "strict_yaml.py": "the place of a YAML error",
}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The syntax tree of a module, flat."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports(path: Path) -> list[str]:
    """Every module that a module imports, inside functions as well."""
    found: list[str] = []
    for node in nodes(path):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found += names
    return found


def room(path: Path) -> str:
    """First step below the package: a folder, or a module's name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def place(path: Path) -> str:
    """A module's file, from the package."""
    return path.relative_to(PACKAGE).as_posix()


def test_imports_of_each_module_point_down() -> None:
    for path in MODULES:
        used = {name.split(".")[1] for name in imports(path) if name.startswith("markedness.")}
        assert room(path) not in ALLOWED or used <= ALLOWED[room(path)], place(path)


def test_confined_packages_stay_in_their_modules() -> None:
    for path in MODULES:
        for name in imports(path):
            assert place(path) in CONFINED.get(name.split(".")[0], {place(path)}), f"{place(path)} imports {name}"


def test_modules_never_find_out_what_an_object_can_do() -> None:
    for path in MODULES:
        calls = [node for node in nodes(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        asked = [call for call in calls if ast.unparse(call.func) == "hasattr"
                 or (ast.unparse(call.func) == "getattr" and len(call.args) == 3)]  # fmt: skip
        assert bool(asked or "inspect" in imports(path)) == (place(path) in FOREIGN), place(path)


def test_only_the_store_knows_the_folders_of_a_study() -> None:
    for path in set(MODULES) - {PACKAGE / "store.py"}:
        said = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}  # docstrings
        texts = [node.value for node in nodes(path) if isinstance(node, ast.Constant)
                 and isinstance(node.value, str) and id(node) not in said]  # fmt: skip
        joined = {node.right.value for node in nodes(path) if isinstance(node, ast.BinOp)
                  and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant)}  # fmt: skip
        assert not joined & FOLDERS, place(path)
        assert not [text for text in texts if text.startswith(tuple(f"{name}/" for name in FOLDERS))], place(path)


ENGINE = "stats/inference/"
STATISTICAL = ("audits/", "stats/", "gate/", "reporting/", "compare.py", "verdicts.py")
INFERENCE = {
    "multipletests", "false_discovery_control", "permuted", "permutation_test", "bootstrap", "multinomial",
}  # fmt: skip
DRAWN = ("worlds.py", "controls.py", "generate.py", "design", "language", "featurize.py")
"""Rooms that draw designs and scripted answers, or cut texts: no statistic is resampled there."""


def test_only_the_engine_resamples_permutes_and_corrects() -> None:
    for path in MODULES:
        if place(path).startswith(ENGINE) or not place(path).startswith(STATISTICAL):
            continue
        if any(part in DRAWN for part in path.relative_to(PACKAGE).parts):
            continue
        published = {
            id(inside)
            for node in nodes(path)
            if isinstance(node, ast.FunctionDef) and "published" in node.name
            for inside in ast.walk(node)
        }
        calls = [node for node in nodes(path) if isinstance(node, ast.Call) and id(node) not in published]
        named = {ast.unparse(node.func).rpartition(".")[2] for node in calls}
        assert not named & INFERENCE, (place(path), sorted(named & INFERENCE))


def test_a_score_is_made_by_the_engine_or_in_the_one_module_of_an_audit() -> None:
    for path in MODULES:
        calls = [ast.unparse(node.func) for node in nodes(path) if isinstance(node, ast.Call)]
        allowed = place(path) == "results.py" or place(path).startswith(ENGINE)
        allowed |= place(path).endswith("/estimators/scores.py")
        assert allowed or "Score" not in calls, place(path)


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    first, end = function.body[0], function.end_lineno or 0
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return end - function.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if said else 0)


def test_files_and_functions_are_short() -> None:
    for path in MODULES:
        most = 250 if path.name in ("evaluate.py", "generate.py") else 350
        assert len(path.read_text(encoding="utf-8").splitlines()) <= most, place(path)
        functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert not [one.name for one in functions if code_lines(one) > 60], place(path)


def module_name(path: Path) -> str:
    return ".".join(("markedness", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def test_imports_of_all_modules_have_no_circle() -> None:
    known = {module_name(path): path for path in MODULES}
    left = {name: set(imports(path)) & (known.keys() - {"markedness", name}) for name, path in known.items()}
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"import each other: {sorted(left)}"


@pytest.mark.parametrize("audit", AUDITS)
def test_audits_do_not_import_each_other(audit: str) -> None:
    for path in (PACKAGE / "audits" / audit).rglob("*.py"):
        for name in imports(path):
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


def test_modules_of_the_engine_are_dependencies_of_the_audits_that_compute_with_them() -> None:
    modules = set((PACKAGE / ENGINE).glob("*.py"))
    assert len(modules) > 5
    for audit in AUDITS:
        # only annotation has designs of paired differences
        used = modules if audit == "annotation" else modules - {PACKAGE / ENGINE / "crossed.py"}
        assert own_code("evaluate", audit) & modules == used, audit
        assert not own_code("featurize", audit) & modules, audit


def test_stages_depend_on_the_cards_and_files_that_they_read(script: ModuleType) -> None:
    cards = {f"audits/{audit}/__init__.py" for audit in AUDITS}
    assert cards <= code(script, "report") and cards <= code(script, "compare") and cards <= code(script, "track")
    assert "reporting/templates" in code(script, "report")
    assert "audits/${item.audit}/language" in code(script, "featurize")
    assert "tracking.py" in code(script, "track") and "tracking.py" not in code(script, "report")


def test_stage_that_uses_most_files_of_a_folder_depends_on_the_folder(script: ModuleType) -> None:
    here = "src/markedness/reporting/templates"
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / here).iterdir() if path.is_file())
    few, most = set(files[: len(files) // 3]), set(files[:-1])
    assert len(few) > 1 and script.whole_folders(few) == set()
    assert script.whole_folders(most) == {here}
    assert script.whole_folders({*files, "src/markedness/records.py"}) == {here}


def test_stage_dependencies_follow_imports_inside_functions(script: ModuleType) -> None:
    # generation.load_model and pipeline.evaluate import these only when they run
    files = {path.name for path in script.shared_code("generate")}
    assert {"local.py", "openai_api.py", "scripted.py"} <= files
    assert "lm" in code(script, "generate")
    assert "reporting/figures.py" in code(script, "evaluate")
