"""`markedness gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from markedness.options import DEFAULT, ParamsFile


def gate(
    params: ParamsFile = DEFAULT,
    summary: Annotated[
        Path | None, typer.Option("--summary", help="Append the summary to this file, too: \"$GITHUB_STEP_SUMMARY\".")
    ] = None,
) -> None:  # fmt: skip
    """Decide whether a model may take the place of the baseline, as the block 'gate' of params.yaml says.

    Exit status 0 passed, 1 failed, 3 inconclusive, 2 wrong params. Writes results/gate: gate.csv, gate.xml (JUnit) and
    summary.md (for a pull request).
    """
    from markedness.gate import run
    from markedness.params import load

    if status := run.gate(load(params), summary).status:
        raise typer.Exit(status)
