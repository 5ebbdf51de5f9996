"""The documentation builds without a warning, from the code as it is, and the project's own files keep their word."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents import AXES, BLOCK, NOT_RUN, PAGES, Block, Study, blocks, merged, small
from tests.servers.openai_server import Server

from markedness.scaffold import new_audit, new_backend

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_documentation_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="skipped: mkdocs-material is not installed (pip install 'markedness[docs]')")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "audits" / "personas" / "index.html").read_text(encoding="utf-8")
    assert "How each number is measured" in page
    outside = [
        part for part in page.split('src="')[1:] + page.split('rel="stylesheet" href="')[1:] if part[:4] == "http"
    ]
    assert outside == []


def test_every_page_of_the_navigation_is_made_or_written() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(text)["nav"]
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    hooks = (ROOT / "docs" / "hooks.py").read_text(encoding="utf-8")

    def pages(entries: list[dict[str, object]]) -> list[str]:
        found: list[str] = []
        for entry in entries:
            for value in entry.values():
                found += pages(value) if isinstance(value, list) else [str(value)]
        return found

    for page in pages(nav):
        assert page in written or page.split("/")[0] in ("audits", "reference", "notebooks"), page
    assert "audits/{name}.md" in hooks


WORKFLOWS = [
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
    ROOT / "src" / "markedness" / "templates" / "study" / ".github" / "workflows" / "study.yml.txt",
]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_may_only_read_and_pins_every_action_by_commit(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    more = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert more == ({"publish": {"id-token": "write"}} if path.name == "release.yml" else {})
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used), used


def test_a_skipped_test_is_named_last_with_its_remedy(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "conftest.py")
    reason = "skipped: no lamp found (buy a lamp)"
    (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    _, _, end = done.stdout.partition("not tested here, and how to have it")
    assert "1 test: no lamp found (buy a lamp)" in end, done.stdout


def test_every_block_names_its_language_and_every_excluded_line_is_still_there() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    assert {block.language for block in found} <= {"sh", "yaml", "python", "text", "toml"}
    lines = {line.split("#")[0].strip() for block in found for line in block.text.splitlines()}
    assert set(NOT_RUN) <= lines


def test_entry_points_of_the_tutorials_are_those_of_the_generated_packages(tmp_path: Path) -> None:
    written = [block.text for page in PAGES for block in blocks(page) if block.language == "toml"]
    new_audit("coin", tmp_path / "coin")
    new_backend("vendor", tmp_path / "vendor")
    generated = [(tmp_path / name / "pyproject.toml").read_text(encoding="utf-8") for name in ("coin", "vendor")]
    in_tutorials, in_packages = (
        [tomllib.loads(text)["project"]["entry-points"] for text in texts] for texts in (written, generated)
    )
    assert sorted(in_tutorials, key=str) == sorted(in_packages, key=str)
    for page in PAGES:  # a block by indentation alone would not be run
        outside = BLOCK.sub("", page.read_text(encoding="utf-8"))
        assert not re.search(r"\n\n {4,}(markedness|dvc|git|make|models:)", outside), page


YAML_BLOCKS = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]


@pytest.mark.slow
@pytest.mark.parametrize("block", YAML_BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_params_of_a_page_are_sound_in_the_shipped_study(block: Block, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "data" / "corpora" / "own", tmp_path / "data" / "corpora" / "own")
    guise_files(tmp_path)
    params = merged(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8")), yaml.safe_load(block.text))
    file = tmp_path / "params.yaml"
    file.write_text(yaml.safe_dump(params, sort_keys=False, allow_unicode=True), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "markedness", "params", "check", "--params", str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def guise_files(folder: Path) -> None:
    """What the page on guises asks its reader to bring."""
    (folder / "mine.tsv").write_text("he be singing\the is singing\nshe be late\tshe is late\n", encoding="utf-8")
    (folder / "tweets.tsv").write_text("finna go\tabout to go\nwe been knew\t\n", encoding="utf-8")
    (folder / "three.tsv").write_text("he be there\the a-going there\the is there\n", encoding="utf-8")
    (folder / "low.tsv").write_text("we be going home today\twe are going home today\n", encoding="utf-8")
    (folder / "high.tsv").write_text("we ain't goin home\twe are not going home\n", encoding="utf-8")
    (folder / "moods.csv").write_text("attribute\nhappy\nsad\nangry\n", encoding="utf-8")
    own = folder / "data" / "corpora" / "own"
    own.mkdir(parents=True, exist_ok=True)
    scored = [(word, item, guise) for item in (1, 2) for guise in ("aa", "sa") for word in ("kind", "rude")]
    rows = "".join(f"T1,{word},-{item},{guise},{item}\n" for word, item, guise in scored)
    (own / "scores.csv").write_text("template,word,lp,dialect,item\n" + rows, encoding="utf-8")


SCRIPTED = {"backend": "scripted", "rule": "planted"}
OVERRIDES: dict[str, dict[str, Any]] = {
    "compare-versions.md": {"audits": ["homogeneity"], "run": ["my-model-1", "my-model-2"]},
    "gate-a-release.md": {
        "audits": ["homogeneity"],
        "run": ["my-model-1", "my-model-2"],
        "homogeneity": {
            "axes": AXES,
            "generate": {"cues": ["sports", "music"], "names_per_group": 16, "samples": 3},
        },
    },
    "probe-guises.md": {"models": {"my-model": SCRIPTED}, "audits": ["guise"]},
}
"""What makes a page's study small, beyond `tests.documents.SMALL`."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


WITH_COMMANDS = [page for page in PAGES if any(block.language in ("sh", "python") for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in WITH_COMMANDS if page.name != "share-a-study.md"], ids=lambda page: page.name
)
def test_commands_of_a_page_run_as_printed(page: Path, server: Server, tmp_path: Path) -> None:
    """Sharing has its own test: tests/test_sharing.py."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["models"]["my-model"] = {"backend": "openai", "model": "test-model"}
    more = OVERRIDES.get(page.name, {})
    study = Study.create(tmp_path / "study", small(params, server.url, more), {"OPENAI_API_KEY": "sk-of-the-reader"})
    guise_files(study.folder)
    shown = ""
    for block in blocks(page):
        if block.language == "yaml":
            given = yaml.safe_load(block.text)
            params = merged(params, given)
            axes = {key: {"axes": value["axes"]} for key, value in given.items() if "axes" in value}
            more = merged(more, axes)
            study.write(small(params, server.url, more))
        elif block.language == "sh":
            shown += study.sh(block.text)
        elif block.language == "python":
            study.sh(f"python - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK")
    tables = re.findall(r"(?:^ ─+ *$\n(?:.*\n)*?^ ─+ *$\n(?:.*\n)*?^ ─+ *$\n)", shown, re.MULTILINE)
    assert len(tables) == sum("dvc exp show" in block.text for block in blocks(page))
    assert all(len(line) <= 120 for table in tables for line in table.splitlines()), tables
    if page.name == "README.md":
        assert "Experiment" in shown and "ten-samples" in shown
        assert study.params["personas"]["generate"]["samples"] == 10


def test_ratios_on_the_page_are_those_that_the_benchmarks_are_held_to() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "benchmarks.yml").read_text(encoding="utf-8")
    held = [line.split(",") for line in (ROOT / "benchmarks" / "ratios.csv").read_text().splitlines()[1:]]
    assert {(name, ratio) for name, ratio in held} == set(re.findall(r"^\| `(\w+)\.py` \|.* ([\d.]+) \|$", page, re.M))
    assert f"for name in {' '.join(name for name, _ in held)};" in workflow
