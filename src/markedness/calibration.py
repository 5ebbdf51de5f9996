"""Calibration: how often a Score is found where there is no effect, how often its interval holds, and its power.

Worlds of known truth (``worlds_ref`` of an audit) are drawn again and again and scored by the code that scores a
study. What a finished part has drawn is kept, so that a run can be stopped and continued. The seed was fixed
beforehand; nothing is drawn again because of what came out, but for one repetition of flagged cells, which counts.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

from markedness import audits
from markedness.audits.base import SIZES, World
from markedness.records import AuditError
from markedness.results import Score
from markedness.stats import inference

SEED = 2026
"""Fixed before the first run."""
WORLDS = 400
"""Worlds of a cell."""
AGAIN = 2000
"""New worlds of a flagged cell."""
ALPHA = 0.05
COVERAGE = 0.93
"""An interval of 95 % may fall short by so much that its coverage is still not below this."""
COLUMNS = ("audit", "world", "index", "claim", "key", "estimate", "ci_low", "ci_high", "p", "detectable")

KEYS = ["audit", "world", "claim", "key"]


@dataclass(frozen=True)
class Cell:
    """One world of one audit."""

    audit: str
    world: World
    size: str = "quick"

    @property
    def keys(self) -> set[str]:
        """Scores that are looked at."""
        return {*audits.spec(self.audit).headline, *self.world.false, *self.world.planted}

    def generator(self, index: int) -> np.random.Generator:
        """That of one world: draws its features, then what its Scores exchange."""
        label = f"{self.audit}/{self.world.name}" + ("" if self.size == "quick" else f"/{self.size}")
        return np.random.default_rng([SEED, zlib.crc32(label.encode()), index])


def cells(names: Sequence[str], size: str) -> list[Cell]:
    """The worlds of these audits at one size."""
    if size not in SIZES:
        raise AuditError(f"'{size}' is not a size; one of {', '.join(SIZES)}")
    found = []
    for name in names:
        worlds = audits.spec(name).worlds
        found += [Cell(name, world, size) for world in (worlds(size) if worlds else ())]
    return found


def draw(audit: str, world: str, size: str, pair: int) -> list[tuple[object, ...]]:
    """Rows, `COLUMNS`, of worlds 2 pair and 2 pair + 1, and of the comparison of the two."""
    spec = audits.spec(audit)
    if spec.worlds is None or spec.scores is None:
        raise ValueError(f"the audit '{audit}' has no worlds and scores to calibrate; see AuditSpec")
    cell = Cell(audit, next(one for one in spec.worlds(size) if one.name == world), size)
    params = spec.params("evaluate")(**cell.world.params)
    rows: list[tuple[object, ...]] = []
    both = []
    for index in (2 * pair, 2 * pair + 1):
        rng = cell.generator(index)
        scores = {score.key: score for score in spec.scores(cell.world.draw(rng), params, rng)}
        rows += [_row(audit, world, index, "score", scores[key]) for key in sorted(cell.keys & scores.keys())]
        both.append(scores)
    first, second = both
    for key in sorted(cell.keys & first.keys() & second.keys()):
        # Draws that differ in what such a Score is conditional on (other attributes) do not have equal Scores.
        same = key not in cell.world.uncovered
        if same and first[key].comparable and second[key].comparable:
            rows.append(_row(audit, world, pair, "compare", inference.difference(first[key], second[key])))
    return rows


def _row(audit: str, world: str, index: int, claim: str, score: Score) -> tuple[object, ...]:
    return (
        audit, world, index, claim, score.key, score.estimate, score.ci_low, score.ci_high, score.p, score.detectable,
    )  # fmt: skip


def run(
    cells: Iterable[Cell], worlds: int, folder: Path, first: int = 0, workers: int | None = None
) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Each cell with the rows of worlds ``first`` to ``first + worlds``, drawn where ``folder`` lacks them.

    One CSV file per cell; it is written after every fifty pairs of worlds, so that a stopped run loses at most these.
    """
    # One thread in each worker: linear algebra on all cores at once is slower than one world on each.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for cell in cells:
            path = folder / f"{cell.audit}.{cell.world.name}.csv"
            table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(COLUMNS))
            done = set(table.loc[table["claim"].eq("score"), "index"] // 2)
            wanted = [pair for pair in range(first // 2, (first + worlds) // 2) if pair not in done]
            for start in range(0, len(wanted), 50):
                part = wanted[start : start + 50]
                names = [[name] * len(part) for name in (cell.audit, cell.world.name, cell.size)]
                made = [row for rows in pool.map(draw, *names, part, chunksize=5) for row in rows]
                new = pd.DataFrame(made, columns=list(COLUMNS))
                table = pd.concat([table, new], ignore_index=True) if len(table) else new
                table = table.sort_values(["index", "claim", "key"]).reset_index(drop=True)
                table.to_csv(path.with_suffix(".new"), index=False)
                path.with_suffix(".new").replace(path)
            inside = np.where(table["claim"].eq("score"), table["index"] // 2, table["index"])
            yield cell, table[(inside >= first // 2) & (inside < (first + worlds) // 2)]


def judged(parts: Iterable[tuple[Cell, pd.DataFrame]]) -> pd.DataFrame:
    """One row per cell, claim and Score: how often it is found, how often its interval holds, and if that is allowed.

    Returns
    -------
    DataFrame
        audit, world, claim, key, truth ("no effect", "effect" or ""), worlds, tested (with a p), found (share of the
        tested with p <= .05), intervals (share with an interval), covered (share of these that contain the truth: the
        mean over all worlds, 0 for a difference of two draws), detectable (median), p_found and p_covered (exact
        binomial tests of too many findings without an effect and of too little coverage), flagged (either p, by Holm
        over all cells, at most .05).
    """
    rows = []
    for cell, table in parts:
        for (claim, key), own in table.groupby(["claim", "key"], sort=True):
            compared = claim == "compare"
            effect = not compared and key in cell.world.planted
            none = compared or key in cell.world.false
            tested, n_found = int(own["p"].notna().sum()), int((own["p"] <= ALPHA).sum())
            bounded = own[own["ci_low"].notna() & (key not in cell.world.uncovered)]
            truth = 0.0 if compared else float(own["estimate"].mean())
            n_covered = int(((bounded["ci_low"] <= truth) & (bounded["ci_high"] >= truth)).sum())
            rows.append(
                {
                    "audit": cell.audit, "world": cell.world.name, "claim": claim, "key": key,
                    "truth": "effect" if effect else "no effect" if none else "", "worlds": len(own), "tested": tested,
                    "found": n_found / tested if tested else math.nan, "intervals": len(bounded) / len(own),
                    "covered": n_covered / len(bounded) if len(bounded) else math.nan,
                    "detectable": float(own["detectable"].median()),
                    "p_found": _binomial(n_found, tested, ALPHA, "greater") if none else math.nan,
                    "p_covered": _binomial(n_covered, len(bounded), COVERAGE, "less"),
                }
            )  # fmt: skip
    table = pd.DataFrame(rows)
    if len(table):
        adjusted = inference.holm(np.concatenate([table["p_found"], table["p_covered"]]))
        table = table.assign(flagged=(adjusted.reshape(2, -1) <= ALPHA).any(axis=0).tolist())
    return table


def _binomial(hits: int, n: int, share: float, alternative: str) -> float:
    from scipy.stats import binomtest

    return float(binomtest(hits, n, share, alternative=alternative).pvalue) if n else math.nan


def calibrate(
    names: Sequence[str], size: str, folder: Path, worlds: int = WORLDS, new_worlds: int = AGAIN,
    workers: int | None = None,
) -> pd.DataFrame:  # fmt: skip
    """`judged` of all cells; flagged ones are drawn once more with ``new_worlds``, and that counts."""
    every = cells(names, size)
    table = judged(run(every, worlds, folder, workers=workers))
    if table.empty or not table["flagged"].any():
        return table.assign(again=False)
    again = table.loc[table["flagged"], KEYS]
    named = set(zip(again["audit"], again["world"], strict=True))
    repeated = [cell for cell in every if (cell.audit, cell.world.name) in named]
    second = judged(run(repeated, new_worlds, folder, first=worlds, workers=workers))
    both = [table[~table["flagged"]].assign(again=False), second.merge(again, on=KEYS).assign(again=True)]
    return pd.concat(both, ignore_index=True).sort_values(KEYS).reset_index(drop=True)


_INTRODUCTION = f"""Written by `markedness calibrate --size {{size}}`, seed {SEED}, fixed before the first run.

Each world is a scripted model of known truth: its features are drawn anew, with the dependence described, and scored by
the code that scores a study. *Found*: share of worlds with p <= .05; 5 % where there is no effect. *Covered*: share of
the 95 % intervals that contain the mean over all worlds. A cell is *held* unless an exact binomial test, by Holm over
all cells, rejects 5 % findings or {COVERAGE:.0%} coverage; a flagged cell is drawn once more with {AGAIN} new worlds,
and that counts. *compare* is the difference between two models drawn from the same world. Where each world draws anew
what a Score is conditional on (the attributes of guise, the trained classifiers of personas), its coverage is not
judged and its draws are not compared."""


def page(table: pd.DataFrame, about: dict[tuple[str, str], str], size: str) -> str:
    """docs/calibration.md: the table, in Markdown."""
    lines = ["# Calibration", "", _INTRODUCTION.format(size=size), ""]
    for audit, own in table.groupby("audit", sort=False):
        lines += [f"## {audit}", ""]
        for world, rows in own.groupby("world", sort=False):
            lines += [f"**{world}**: {about[str(audit), str(world)]}", ""]
            lines += [
                "| Score | truth | worlds | found | intervals | covered | detectable | |",
                "|---|---|--:|--:|--:|--:|--:|---|",
            ]
            lines += [_line(row) for row in rows.to_dict("records")]
            lines.append("")
    return "\n".join(lines)


def _line(row: Mapping[Hashable, object]) -> str:
    def share(name: str) -> str:
        value = float(str(row[name]))
        return "–" if math.isnan(value) else f"{value:.1%}"

    key = f"{row['key']}{' (compare)' if row['claim'] == 'compare' else ''}"
    smallest = float(str(row["detectable"]))
    verdict = "**not held**" if row["flagged"] else "held, 2,000 more worlds" if row["again"] else "held"
    if row["truth"] == "" and math.isnan(float(str(row["covered"]))):
        verdict = ""
    parts = (
        key, row["truth"], row["worlds"], share("found"), share("intervals"), share("covered"),
        "–" if math.isnan(smallest) else f"{smallest:.3g}", verdict,
    )  # fmt: skip
    return "| " + " | ".join(map(str, parts)) + " |"
