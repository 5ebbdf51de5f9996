"""Lee, Lai 2024: tables of P_d, and effects that replicate; Lee, Montgomery, Lai 2024: statements on similarity."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from markedness.audits.homogeneity.replication import replication, single_axis
from markedness.literature.agreement import Agreement, as_cells, published, result, tables

PAPER = "Lee, Lai 2024"
SIMILARITY = "Lee, Montgomery, Lai 2024"


def differentiation(root: Path) -> Iterator[Agreement]:
    """P_d within 0.01 of print, its bounds within 0.02: a cell is one number."""
    tolerances = {"pd": 0.01, "ci_low": 0.02, "ci_high": 0.02}
    for (table, model), part in tables(root, "homogeneity_pd.csv"):
        found = result(root, "homogeneity", model, "probability_of_differentiation")
        if found is None:
            continue
        # one bound of A7 is printed as 0.0.73, which is no number and agrees with none
        printed = part.assign(**{f"{name}_number": pd.to_numeric(part[name], errors="coerce") for name in tolerances})
        rows = []
        for row in printed.merge(found, on=["cue", "group"], how="left", suffixes=("", "_found")).to_dict("records"):
            for column, tolerance in tolerances.items():
                # printed with two decimals: half a unit of rounding belongs to the tolerance
                agrees = abs(row[f"{column}_found"] - row[f"{column}_number"]) <= tolerance + 0.005
                rows.append((f"{row['cue']} {row['group']} {column}", row[column], row[f"{column}_found"], agrees))
        yield Agreement(PAPER, table, model, "P_d within 0.01, bounds within 0.02", as_cells(rows))


def effects(root: Path) -> Iterator[Agreement]:
    """Cohen's d and its bounds within four standard errors of d."""
    for (table, model), part in tables(root, "homogeneity_d.csv"):
        found = result(root, "homogeneity", model, "effects")
        if found is None:
            continue
        rows = []
        for row in part.to_dict("records"):
            name = _comparison(found, row["first"], row["second"])
            match = found[found["comparison"].eq(name) & found["cue"].eq(row["cue"])].to_dict("records")
            for column in ("d", "ci_low", "ci_high"):
                value = float(match[0][column]) if match else None
                error = (match[0]["ci_high"] - match[0]["ci_low"]) / 3.92 if match else float("nan")
                agrees = value is not None and abs(value - row[column]) <= 4 * error
                rows.append((f"{row['cue']} {row['first']} - {row['second']} {column}", row[column], value, agrees))
        yield Agreement(PAPER, f"{table} (d)", model, "within four standard errors of d", as_cells(rows))


def _comparison(found: pd.DataFrame, first: str, second: str) -> str:
    """The name under which the results hold this comparison, "" when they do not."""
    name = f"{first} v. {second}"
    return name if found["comparison"].eq(name).any() else ""


def situations(root: Path) -> Iterator[Agreement]:
    """In how many cues one group has more variety, less, or as much: what the intervals of d exclude 0 in."""
    for row in published(root, "homogeneity_situations.csv").to_dict("records"):
        found = result(root, "homogeneity", str(row["model"]), "effects")
        if found is None:
            continue
        own = found[found["comparison"].eq(f"{row['first']} v. {row['second']}")]
        more, less = int(own["ci_low"].gt(0).sum()), int(own["ci_high"].lt(0).sum())
        counts = {"more": more, "less": less, "tie": len(own) - more - less}
        rows = [
            (f"{row['first']} - {row['second']}: {how}", f"{row[f'{how}_low']} to {row[f'{how}_high']}", count,
             row[f"{how}_low"] <= count <= row[f"{how}_high"])
            for how, count in counts.items()
        ]  # fmt: skip
        yield Agreement(PAPER, str(row["table"]), str(row["model"]), "the same number of cues", as_cells(rows))


def replications(root: Path) -> Iterator[Agreement]:
    """How many of the 72 effects of the main study are inside the intervals of another."""
    main = result(root, "homogeneity", "pod-main", "effects")
    for row in published(root, "homogeneity_replication.csv").to_dict("records"):
        other = result(root, "homogeneity", str(row["model"]), "effects")
        if main is None or other is None:
            continue
        made = replication(single_axis(main), single_axis(other))
        tolerance = int(row["tolerance"])
        rows = [
            ("comparisons", row["n"], made.n, made.n == row["n"]),
            ("replicated", row["hits"], made.hits, abs(made.hits - row["hits"]) <= tolerance),
            ("expected, %", row["expected"], 100 * made.expected, abs(100 * made.expected - row["expected"]) <= 0.05),
            ("p below", row["p_below"], made.p, made.p < row["p_below"]),
        ]
        yield Agreement(PAPER, str(row["table"]), str(row["model"]), f"replicated within {tolerance}", as_cells(rows))


def similarities(root: Path) -> Iterator[Agreement]:
    """What the abstract says of the similarity of texts, against the intervals over prompts of the pinned texts.

    The printed numbers are of other encoders and of all four files of texts. An effect of gender within a race, which
    the abstract calls consistent or not over encoders, is consistent here where its interval is above 0.
    """
    effects = result(root, "homogeneity", "homogeneity-bias", "similarity_effects")
    simple = result(root, "homogeneity", "homogeneity-bias", "similarity_simple_effects")
    if effects is None or simple is None:
        return
    by_race = float(effects.loc[effects["axis"].eq("race"), "difference"].min())
    rows: list[tuple[str, object, object, bool]] = []
    for row in published(root, "similarity_statements.csv").to_dict("records"):
        table = simple[simple["within"].eq(row["within"])] if row["within"] else effects
        own = table[table["group"].eq(row["group"]) & table["reference"].eq(row["reference"])].to_dict("records")
        found = _found(own[0], str(row["said"]), by_race) if own else "not measured"
        where = f" within {row['within']}" if row["within"] else ""
        rows.append((f"{row['group']} - {row['reference']}{where}", row["said"], found, found == row["said"]))
    yield Agreement(SIMILARITY, "abstract", "homogeneity-bias", "the interval over prompts says so", as_cells(rows))


def _found(row: Mapping[Hashable, float], said: str, by_race: float) -> str:
    """The statement that the results make in place of ``said``."""
    if said == "smaller than by race":
        return said if abs(row["difference"]) < by_race else "not smaller than by race"
    above, below = row["ci_low"] > 0, row["ci_high"] < 0
    if "consistent" in said:
        return "consistent" if above else "not consistent"
    return "more alike" if above else "less alike" if below else "not told apart"


RULES = (differentiation, effects, situations, replications, similarities)
