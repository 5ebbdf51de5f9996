"""What every test may use: the shared folder with the papers' data, where it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ../shared beside the checkout; skips where it is missing."""
    folder = ROOT.parent / "shared"
    if not (folder / "corpora").is_dir():
        pytest.skip("skipped: corpora not found (../shared is not beside this checkout)")
    return folder
