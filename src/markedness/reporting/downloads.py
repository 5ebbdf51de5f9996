"""Tables for a spreadsheet program: no cell of text is executed as a formula."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from markedness.files import atomic

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell begins with that a spreadsheet program may execute."""
_CELL_LIMIT = 32_767
"""Letters that a cell of a spreadsheet holds."""


def spreadsheet_copy(source: Path, target: Path) -> None:
    """A copy of a CSV file of results; texts that begin like a formula get an apostrophe before them, numbers stay.

    results/ itself keeps every text as it is, because code reads it back.
    """
    csv.field_size_limit(sys.maxsize)
    with (
        source.open(encoding="utf-8", newline="") as read,
        atomic(target) as part,
        part.open("w", encoding="utf-8", newline="") as written,
    ):
        writer = csv.writer(written, lineterminator="\n")
        for row in csv.reader(read):
            writer.writerow([_harmless(cell) for cell in row])


@contextmanager
def spreadsheet_copies(folder: Path) -> Iterator[Path]:
    """A copy of a folder of results within the block, its CSV files by `spreadsheet_copy`."""

    def copied(source: str, target: str) -> None:
        if source.endswith(".csv"):
            spreadsheet_copy(Path(source), Path(target))
        else:
            shutil.copyfile(source, target)

    with tempfile.TemporaryDirectory() as place:
        yield Path(shutil.copytree(folder, Path(place) / folder.name, copy_function=copied))


def _harmless(cell: str) -> str:
    if cell.startswith(_FORMULA) and not _is_number(cell):
        cell = f"'{cell}"
    return cell[:_CELL_LIMIT]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return not cell[0].isspace() and "_" not in cell
