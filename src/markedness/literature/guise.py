"""Matched guise probing (Hofmann et al. 2024): the printed statistics, recomputed from the printed inputs.

The scores of the retired models are not released. What is: means, standard deviations, rates and counts, from which t,
F, R2, chi-square and p follow; the ratings of people; the pairs of texts and the attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.guise.design.guises import pairs
from markedness.audits.guise.estimators.agreement import expected_agreement, human_top
from markedness.audits.guise.estimators.favorability import rank_correlation
from markedness.literature.agreement import Agreement, as_cells, published
from markedness.stats.inference import holm
from markedness.store import Store

PAPER = "Hofmann, Kalluri, Jurafsky, King 2024"
Rows = list[tuple[str, object, object, bool]]
Range = tuple[float, float]
RULE = "what rounding leaves open of the inputs and of print meets"
STORED = "stored outputs"
EXACT = 1e-9
"""Relative tolerance of numbers that are stored in full."""


def rounded(text: str) -> Range:
    """Lowest and highest number that is printed like this: half a unit of the last digit on either side."""
    value, digits = float(text), len(text.partition(".")[2].partition("e")[0])
    half = 0.0 if "." not in text else abs(value) * EXACT if digits > 8 else 0.5 * 10.0**-digits
    return value - half, value + half


def over(formula: Callable[..., float], *inputs: Range) -> Range:
    """Lowest and highest value of a formula at the ends of its inputs; it has to be monotone in each of them."""
    found = [formula(*corner) for corner in product(*(dict.fromkeys(given) for given in inputs))]
    return min(found), max(found)


def published_one_sample_t(mean: float, sd: float, n: int, ddof: int = 0) -> float:
    """T of a mean against 0; the printed standard deviations are those of the population (ddof 0)."""
    return mean / sd * float(np.sqrt(n - 1 + ddof))


def published_two_sample_t(n: tuple[int, int], first: float, first_sd: float, second: float, second_sd: float) -> float:
    """T with the pooled variance, from standard deviations with ddof 0."""
    variance = (n[0] * first_sd**2 + n[1] * second_sd**2) / (sum(n) - 2)
    return (first - second) / float(np.sqrt(variance * (1 / n[0] + 1 / n[1])))


def published_chi_square_range(first: Range, second: Range) -> Range:
    """(a - b)^2 / (a + b) where both counts are known within a range; 0 where the ranges meet."""
    low, high = over(lambda a, b: (a - b) ** 2 / (a + b), first, second)
    return (0.0, high) if first[0] <= second[1] and second[0] <= first[1] else (low, high)


def _statistic(row: dict[str, str]) -> Range:
    """The statistic that follows from the inputs of a row."""
    kind = row["test"]
    if kind == "counts":
        return published_chi_square_range(rounded(row["first"]), rounded(row["second"]))
    if kind == "rates, %":
        counts = [tuple(end * int(row["first_n"]) / 100 for end in rounded(row[side])) for side in ("first", "second")]
        return published_chi_square_range((counts[0][0], counts[0][1]), (counts[1][0], counts[1][1]))
    first, sd = rounded(row["first"]), rounded(row["first_sd"])
    if kind.startswith("one sample"):
        ddof = 1 if kind.endswith("ddof 1") else 0
        return over(lambda m, s: published_one_sample_t(m, s, int(row["first_n"]), ddof), first, sd)
    n = int(row["first_n"]), int(row["second_n"])
    return over(
        lambda *given: published_two_sample_t(n, *given), first, sd, rounded(row["second"]), rounded(row["second_sd"])
    )


def _p(row: dict[str, str]) -> Range:
    """Range of p of the printed statistic, before correction."""
    from scipy import stats

    low, high = rounded(row["statistic"])
    kind, ends = row["test"], np.array([high, low])
    if kind in ("counts", "rates, %"):
        found = stats.chi2.sf(np.maximum(ends, 0), 1)
    elif kind == "regression":
        found = stats.f.sf(ends, 1, int(row["first_n"]) - 2)
    else:
        df = (
            int(row["first_n"]) - 1 if kind.startswith("one sample") else int(row["first_n"]) + int(row["second_n"]) - 2
        )
        if kind.endswith("greater"):
            found = stats.t.sf(ends, df)
        else:
            nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
            found = 2 * stats.t.sf(np.array([max(abs(low), abs(high)), nearest]), df)
    return float(found[0]), float(found[1])


def _meets(found: Range, printed: str) -> bool:
    low, high = rounded(printed)
    slack = EXACT * max(abs(low), abs(high))
    return found[0] <= high + slack and low - slack <= found[1]


def _shown(found: Range) -> str:
    return f"{found[0]:.6g} to {found[1]:.6g}"


def statistics(root: Path) -> Iterator[Agreement]:
    """t, chi-square, R2 and p of each printed row; a number is a cell."""
    printed = published(root, "guise_tests.csv").astype(str)
    for table, part in printed.groupby("table", sort=False):
        records = [{str(key): str(value) for key, value in row.items()} for row in part.to_dict("records")]
        ends = _corrected(records)
        rows: Rows = []
        for row, p in zip(records, ends, strict=True):
            rows += _row(row, p)
        name = STORED if table == STORED else f"SI {table!s}" if table == "text" else f"SI table {table!s}"
        yield Agreement(PAPER, name, "printed inputs", RULE, as_cells(rows))


def _row(row: dict[str, str], p: Range) -> Rows:
    """The cells of one printed row."""
    if row["test"] == "mixture":
        return _mixture(row)
    cells: list[tuple[str, Range, str]] = []
    if row["test"] == "regression":
        df = int(row["first_n"]) - 2
        cells.append(("R2", over(lambda f: f / (f + df), rounded(row["statistic"])), row["first"]))
    else:
        cells.append(("statistic", _statistic(row), row["statistic"]))
    if row["p"]:
        cells.append(("p", p, row["p"]))
    return [(f"{row['row']}: {name}", text, _shown(found), _meets(found, text)) for name, found, text in cells]


def _corrected(records: Sequence[dict[str, str]]) -> list[Range]:
    """Range of each p, by Holm within its family; p grows with the p of each row."""
    ends: NDArray[np.float64] = np.array(
        [(np.nan, np.nan) if row["test"] == "mixture" else _p(row) for row in records], dtype=float
    )
    families = [row["holm_family"] for row in records]
    for family in dict.fromkeys(filter(None, families)):
        own = [place for place, name in enumerate(families) if name == family]
        for end in (0, 1):
            ends[own, end] = holm(ends[own, end])
    return [(float(low), float(high)) for low, high in ends]


def _mixture(row: dict[str, str]) -> Rows:
    """Mean and standard deviation over all model families, from those of each."""
    n = np.array(row["first_n"].split(), dtype=float)
    means, sds = ([rounded(text) for text in row[name].split()] for name in ("second", "second_sd"))
    mean = [float(n @ np.array([end[side] for end in means]) / n.sum()) for side in (0, 1)]
    middle = np.array([sum(end) / 2 for end in means])
    spread = n @ (middle - n @ middle / n.sum()) ** 2 / n.sum()
    half = (means[0][1] - means[0][0]) / 2  # moves the root of the spread by no more
    within = [float(np.sqrt(n @ np.array([end[side] ** 2 for end in sds]) / n.sum() + spread)) for side in (0, 1)]
    found = {"mean": (mean[0], mean[1]), "sd": (within[0] - half, within[1] + half)}
    printed = {"mean": row["first"], "sd": row["first_sd"]}
    return [
        (f"{row['row']}: {name}", printed[name], _shown(ends), _meets(ends, printed[name]))
        for name, ends in found.items()
    ]


def people(root: Path) -> Iterator[Agreement]:
    """What follows from the ratings of people: top adjectives, rank correlation, chance agreement, prestige."""
    stimuli = Store(root).stimuli("guise")
    adjectives = stimuli.table("adjectives.csv").set_index("attribute")
    numbers = adjectives.apply(pd.to_numeric, errors="coerce")
    prestige = pd.to_numeric(stimuli.table("occupations.csv")["prestige"], errors="coerce").dropna()
    rho, p, n = rank_correlation(numbers["percent_2012"].fillna(0.0), numbers["favorability"])
    values: dict[str, object] = {
        "rank correlation": rho, "rank correlation: p": p, "adjectives": n, "chance agreement": expected_agreement(n),
        "occupations with prestige": len(prestige),
        "prestige, sum of squares": float(((prestige - prestige.mean()) ** 2).sum()),
    }  # fmt: skip
    for year in ("1933", "1951", "1969", "2012"):
        percent = numbers[f"percent_{year}"].dropna()
        values[f"{year}: top five"] = " ".join(human_top(percent))
    for table, part in published(root, "guise_people.csv").groupby("table", sort=False):
        rows: Rows = []
        for row in part.astype(str).to_dict("records"):
            found = values[row["cell"]]
            same = (
                found == row["printed"]
                if isinstance(found, str)
                else _near(float(str(found)), row["printed"], row["tolerance"])
            )
            rows.append((row["cell"], row["printed"], found, same))
        yield Agreement(
            PAPER, str(table), "people's ratings", "within the tolerance in guise_people.csv", as_cells(rows)
        )


def _near(found: float, printed: str, tolerance: str) -> bool:
    return abs(found - float(printed)) <= float(tolerance)


def material(root: Path) -> Iterator[Agreement]:
    """The released pairs and attributes against the rule and the lists of this audit; a file is a cell."""
    folder = Store(root).corpora() / "dialect-prejudice"
    stimuli = Store(root).stimuli("guise")
    tasks = stimuli.data("tasks.yaml")["tasks"]
    lists = {
        "katz": set(stimuli.table("adjectives.csv")["attribute"]),
        "occupations": set(stimuli.table("occupations.csv")["attribute"]),
        "guilt": set(tasks["conviction"]["attributes"]), "penalty": set(tasks["death"]["attributes"]),
    }  # fmt: skip
    rows: Rows = []
    for name, ours in lists.items():
        path = folder / "attributes" / f"{name}.txt"
        if path.is_file():
            words = set(path.read_text(encoding="utf-8").split())
            rows.append((f"{name}.txt", f"{len(words)} words", f"{len(words & ours)} of {len(ours)}", words == ours))
    path = folder / "pairs" / "habitual.txt"
    if path.is_file():
        released = [tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").split("\n") if line]
        verbs = dict.fromkeys(marked.split(" ", 2)[2] for marked, _ in released)
        made = pairs("habitual_be", [{"ing": verb} for verb in verbs])
        same = sum(ours == theirs for ours, theirs in zip(made, released, strict=False))
        rows.append(("habitual.txt", f"{len(released)} pairs", f"{same} of {len(made)}", made == released))
    if rows:
        yield Agreement(PAPER, "released material", "dialect-prejudice", "the same words and pairs", as_cells(rows))


RULES = (statistics, people, material)
