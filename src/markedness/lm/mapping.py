"""Which column and code of a file is which of ours: ``columns``, ``values`` and ``constants`` of params, each used."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from markedness.axes import Axes
from markedness.lm.config import CorpusSource
from markedness.lm.corpus_files import WITHOUT_HEADER
from markedness.lm.paths import known
from markedness.records import CorpusColumns, composed
from markedness.separated import separator


class Sources:
    """Which column of the files each of ours is read from, and every entry of params that is not used."""

    def __init__(
        self,
        source: CorpusSource,
        axes: Axes,
        columns: CorpusColumns,
        files: tuple[Path, ...],
        tables: list[pd.DataFrame],
    ) -> None:
        self.source, self.axes, self.columns, self.files, self.tables = source, axes, columns, files, tables
        self.ours = list(dict.fromkeys((*axes, *columns.required, *columns.optional)))
        self.theirs: dict[str, str] = {}
        """Ours -> theirs."""
        self.absent: list[str] = []
        """Axes without a column."""
        self.faults: list[str] = []
        reversed_ = self._unknown()
        for name in self.ours:
            if name in source.constants:
                self._constant(name)
            elif name not in reversed_:
                self._find(name)
        given = [axis for axis in axes if axis in self.theirs or axis in source.constants]
        if columns.axes == "any" and axes and not given and not self.faults:
            self.faults.append(
                f"columns.{next(iter(axes))}: {self._lacks(' or '.join(axes))}; {self._remedy(next(iter(axes)))}"
            )
        for name in source.values:
            if name in self.ours and name not in self.theirs and name not in reversed_:
                self.faults.append(f"values.{name}: is not used, as no column is read for {name}; remove it")
        self.faults += (f"values.{name}: {why}" for name, codes in source.values.items() for why in _two_values(codes))

    def _has(self, theirs: str) -> list[bool]:
        return [theirs in table for table in self.tables]

    def _unknown(self) -> set[str]:
        """Keys that are no column of ours; returns ours that a reversed entry was meant for."""
        meant: set[str] = set()
        source = self.source
        blocks = (("columns", source.columns), ("values", source.values), ("constants", source.constants))
        for block, entries in blocks:
            for name, given in entries.items():
                if name in self.ours:
                    continue
                if block == "columns" and given in self.ours and any(self._has(name)):
                    self.faults.append(
                        f"columns.{name}: is reversed; write {given}: {name} (our name first, then that of the file)"
                    )
                    meant.add(given)
                else:
                    self.faults.append(
                        f"{block}.{name}: is not used; the columns of this audit are {', '.join(self.ours)}, and "
                        f"{self.files[0].name} has {known(self.tables[0])}"
                    )
        return meant

    def _constant(self, name: str) -> None:
        theirs = self.source.columns.get(name) or name
        if name in self.source.columns or any(self._has(theirs)):
            self.faults.append(
                f"constants.{name}: {self.files[0].name} has the column '{theirs}' too; remove constants.{name}, or "
                "the column from the file"
            )

    def _find(self, name: str) -> None:
        """The column of ours; a fault where it must be there and is not."""
        chosen = name in self.source.columns
        theirs = self.source.columns.get(name, name)
        axis, required = name in self.axes, name in self.columns.required
        if theirs is None:
            if required:
                self.faults.append(f"columns.{name}: null leaves a column out, and this one is needed; name theirs")
            elif axis:
                self.absent.append(name)
            return
        has = self._has(theirs)
        if all(has):
            self.theirs[name] = theirs
            if self.source.format is None and any(header(path).count(theirs) > 1 for path in self.files):
                self.faults.append(
                    f"columns.{name}: {self.files[0].name} has several columns '{theirs}'; rename all but one"
                )
        elif any(has) or chosen or required or (axis and self.columns.axes == "all"):
            fault = f"columns.{name}: {self._lacks(theirs)}"
            if chosen and theirs in self.ours and any(self._has(name)):
                fault += f"; the entry is reversed, write {theirs}: {name} (our name first, then that of the file)"
            elif axis and not chosen:
                fault += f"; {self._remedy(name)}"
            self.faults.append(fault)
        elif axis:
            self.absent.append(name)

    def _lacks(self, theirs: str) -> str:
        """Which file lacks a column, and what it has."""
        number = next((n for n, has in enumerate(self._has(theirs)) if not has), 0)
        return f"{self.files[number]} has no column '{theirs}'; it has {known(self.tables[number], theirs)}"

    @staticmethod
    def _remedy(axis: str) -> str:
        return (
            f"name theirs (columns: {{{axis}: THEIRS}}), give every row one value (constants: {{{axis}: VALUE}}), or "
            f"say that these texts have none (columns: {{{axis}: null}})"
        )


def header(path: Path) -> list[str]:
    """Column names in the header of a CSV or TSV file; none for another format."""
    if path.suffix.lower() in WITHOUT_HEADER:
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file, delimiter=separator(path)), [])


def spellings(code: object) -> set[str]:
    """A code as a cell in composed form (NFC); the code 1 is also "1.0", as a number becomes beside a missing one."""
    return {str(code), f"{code}.0"} if type(code) is int else {composed(str(code))}


def _two_values(codes: Mapping[object, str]) -> Iterator[str]:
    """Codes that the same cells have and that stand for different values of ours."""
    meant: dict[str, tuple[object, str]] = {}
    for code, ours in codes.items():
        for other, value in (meant.setdefault(spelling, (code, ours)) for spelling in sorted(spellings(code))):
            if value != ours:
                yield f"{other!r} is {value} and {code!r} is {ours}, but a cell may be both; keep one of them"
                break


def unused_codes(
    source: CorpusSource, found: Mapping[str, pd.Series], axes: Axes, file: Path
) -> Iterator[tuple[str, bool]]:
    """Codes of ``values`` that no cell has, with whether that is a fault.

    It is none where other codes of an axis are used: several corpora share one list of codes, and a cell that is no
    value of the axis is refused anyway.
    """
    for name, mapping in source.values.items():
        cells = [str(cell) for cell in found[name].dropna().unique()]
        used = [code for code in mapping if spellings(code).intersection(cells)]
        for code, ours in mapping.items():
            if code in used:
                continue
            known = ", ".join(sorted(cells)[:20]) + (", ..." if len(cells) > 20 else "")
            remedy, fault = "correct or remove it", not (used and name in axes)
            if ours in cells and (name not in axes or str(code) in axes[name].values):
                fault, remedy = (
                    True,
                    f"the entry is reversed, write {ours}: {code} (the code of the file, then our value)",
                )
            elif isinstance(code, bool):
                fault, remedy = True, "put it in quotes (YAML reads yes, no, on and off as true and false)"
            said = f"values.{name}.{code}: is not used, no row of {file.name} has it; the column has {known}; {remedy}"
            yield said, fault
