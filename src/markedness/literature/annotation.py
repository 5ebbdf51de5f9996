"""Text annotation (Törnberg 2026): the printed totals and table 3 checked against each other.

No answers of the study are pinned, so that its gaps cannot be recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from markedness.literature.agreement import Agreement, as_cells, published

PAPER = "Törnberg 2026"
MODELS, TASKS, GROUPS = 19, 39, 4
COMPLETE, HALF = 16, 3
"""Models with 100 and with 50 iterations."""
PAIRS, DIALECT_TASKS, DIALECT_TEXTS = 30, 16, 10
STARRED_BELOW = 12
SIGNIFICANT = {"Arab": 37, "Asian": 31, "Black": 30, "Hispanic": 18}


def design(_: Path) -> Iterator[Agreement]:
    """Numbers of tests and answers, from the printed design."""
    asked = (COMPLETE * 100 + HALF * 50) * TASKS * 2 * PAIRS
    dialect = MODELS * 50 * DIALECT_TASKS * DIALECT_TEXTS
    found = {
        "tests of names": (2964, MODELS * TASKS * GROUPS), "answers planned, names": (4_095_000, asked),
        "answers obtained, names, %": (97.8, round(100 * 4_009_521 / asked, 1)),
        "tests of dialect": (304, MODELS * DIALECT_TASKS), "answers planned, dialect": (152_000, dialect),
        "answers obtained, dialect, %": (95.0, round(100 * 144_402 / dialect, 1)),
    }  # fmt: skip
    rows = [(name, printed, value, printed == value) for name, (printed, value) in found.items()]
    yield Agreement(PAPER, "design", "printed inputs", "the same number", as_cells(rows))


def effects(root: Path) -> Iterator[Agreement]:
    """Table 3: significant effects by group, and the star of effects whose direction few models share."""
    table = published(root, "annotation_effects.csv")
    counted = table.groupby("group")["n_significant"].sum()
    rows: list[tuple[str, object, object, bool]] = [
        (f"{group}: significant effects", printed, int(counted[group]), printed == counted[group])
        for group, printed in SIGNIFICANT.items()
    ]
    for row in table.to_dict("records"):
        due = "yes" if row["same_direction"] < STARRED_BELOW else "no"
        rows.append((f"{row['group']} {row['task']}: starred", row["starred"], due, row["starred"] == due))
    yield Agreement(PAPER, "3", "printed inputs", "the same number, the star where it is due", as_cells(rows))


RULES = (design, effects)
