"""Text annotation (Törnberg 2026): printed totals, tables and sentences checked against each other.

No answers of the study are pinned, so that its gaps cannot be recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from markedness.literature.agreement import Agreement, as_cells, published
from markedness.store import Store

PAPER = "Törnberg 2026"
MODELS, TASKS, GROUPS = 19, 39, 4
COMPLETE, HALF = 16, 3
"""Models with 100 and with 50 iterations."""
PAIRS, DIALECT_TASKS, DIALECT_TEXTS = 30, 16, 10
STARRED_BELOW = 12
COUNTED = ("same_direction", "cross_model_mean", "n_significant")
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


def statements(root: Path) -> Iterator[Agreement]:
    """What the sentences say of one group and task, against table 3; of what it does not list, against each other."""
    known = {
        (row["group"], row["task"]): row
        for row in published(root, "annotation_effects.csv").astype(str).to_dict("records")
    }
    for place, own in published(root, "annotation_statements.csv").astype(str).groupby("place", sort=False):
        rows: list[tuple[str, object, object, bool]] = []
        for row in own.to_dict("records"):
            listed = known.setdefault((row["group"], row["task"]), row)  # a first sentence has nothing to meet
            rows += [
                (f"{row['group']} {row['task']}: {name.replace('_', ' ')}", row[name], listed[name],
                 _same(str(row[name]), str(listed[name])))
                for name in COUNTED
                if listed is not row and row[name] and listed[name]
            ]  # fmt: skip
        yield Agreement(PAPER, str(place), "printed inputs", "the number of table 3, else of the text", as_cells(rows))


def _same(first: str, second: str) -> bool:
    """Whether two printed numbers may be one: equal, or as far apart as rounding to other digits leaves them."""
    digits = [len(number.partition(".")[2]) for number in (first, second)]
    left = 0.0 if digits[0] == digits[1] else sum(0.5 * 10.0**-n for n in digits)
    return abs(float(first) - float(second)) <= left + 1e-9


def completion(root: Path) -> Iterator[Agreement]:
    """Table 1: completion of all models from that of each; table 2: how many names it lists."""
    table = published(root, "annotation_models.csv")
    asked, names, dialect = (
        table[name].astype(float) for name in ("iterations", "completion_names", "completion_dialect")
    )
    whole = asked.eq(asked.max())
    found = {
        "models": (19, len(table)), "models with all iterations": (16, int(whole.sum())),
        "completion, names, weighted by iterations": (97.8, round(float((names * asked).sum() / asked.sum()), 1)),
        "completion, dialect": (95.0, round(float(dialect.mean()), 1)),
        "completion of those models, names": (97.8, round(float(names[whole].mean()), 1)),
        "lowest of those models, names": (98.5, float(names[whole].min())),
    }  # fmt: skip
    rows = [(name, printed, value, printed == value) for name, (printed, value) in found.items()]
    yield Agreement(PAPER, "1", "printed inputs", "the same number", as_cells(rows))
    people = Store(root).stimuli("annotation").table("names.csv", ("group", "gender"))
    lists = (people["group"] + " " + people["gender"]).value_counts(sort=False)
    counts = [(str(name), 20, int(n), bool(n == 20)) for name, n in lists.items()]
    counts.append(("all names", 200, len(people), len(people) == 200))
    yield Agreement(PAPER, "2", "printed inputs", "the same number", as_cells(counts))


RULES = (design, completion, effects, statements)
