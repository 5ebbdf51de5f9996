"""The documentation builds without a warning, from the code as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
    import yaml

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
        assert page in written or page.split("/")[0] in ("audits", "reference"), page
    assert "audits/{name}.md" in hooks
