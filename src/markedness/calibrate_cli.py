"""``markedness calibrate``: worlds of known truth, drawn again and again, or measured by whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from markedness.audits import AUDITS
from markedness.lm.progress import tell
from markedness.records import AuditError


def calibrate_command(
    audit: Annotated[list[str] | None, typer.Option(help="Only this audit; may be repeated.")] = None,
    size: Annotated[str, typer.Option(help="Worlds of a study of this size: quick, standard or paper.")] = "quick",
    worlds: Annotated[int, typer.Option(min=2, help="Worlds of each cell.")] = 400,
    again: Annotated[int, typer.Option(min=2, help="New worlds of a cell that does not hold; these count.")] = 2000,
    whole_runs: Annotated[
        int,
        typer.Option(
            "--whole-runs", min=0,
            help="In place of the table: so many worlds of each audit as corpora, measured by all four stages.",
        ),
    ] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; all cores when left out.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page to write: docs/calibration.md, or docs/whole-runs.md.")
    ] = None,
    keep: Annotated[Path, typer.Option(help="Where drawn worlds are kept: a stopped run goes on.")] = Path(
        ".markedness/calibration"
    ),
) -> None:  # fmt: skip
    """Draw worlds of known truth; count effects found that are not there, and intervals that hold."""
    from markedness.audits import spec

    names = [spec(name).name for name in audit or AUDITS]
    if whole_runs:
        _whole_runs(names, size, whole_runs, workers, out or Path("docs/whole-runs.md"), keep)
    else:
        _table(names, size, (worlds, again), workers, out or Path("docs/calibration.md"), keep)


def _table(names: list[str], size: str, worlds: tuple[int, int], workers: int | None, out: Path, keep: Path) -> None:
    """Write docs/calibration.md."""
    from markedness import calibration
    from markedness.files import write_file

    table = calibration.calibrate(names, size, keep / size, *worlds, workers=workers)
    if table.empty:
        raise AuditError(f"none of {', '.join(names)} has worlds of size '{size}'")
    about = {(cell.audit, cell.world.name): cell.world.about for cell in calibration.cells(names, size)}
    write_file(out, calibration.page(table, about, size))
    table.to_csv(keep / f"{size}.csv", index=False)
    flagged = int(table["flagged"].sum())
    tell(f"calibrate: {len(table)} cells, {flagged} not held, in {out}")
    raise typer.Exit(1 if flagged else 0)


def _whole_runs(names: list[str], size: str, runs: int, workers: int | None, out: Path, keep: Path) -> None:
    """Write docs/whole-runs.md."""
    from markedness import whole_runs
    from markedness.files import write_file

    chosen = whole_runs.chosen(names, size, runs)
    if not chosen:
        raise AuditError(f"none of {', '.join(names)} writes its worlds of size '{size}' as a corpus")
    table = whole_runs.whole_runs(chosen, keep / size, workers)
    write_file(out, whole_runs.page(table, size))
    differing = int((table["differs"].ne("") & table["why"].eq("")).sum())
    tell(f"calibrate: {len(chosen)} whole runs, {differing} scores differ, in {out}")
    raise typer.Exit(1 if differing else 0)
