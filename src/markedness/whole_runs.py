"""Whole runs: worlds of calibrate as a corpus that is read, cleaned, featurized and evaluated like any other.

The worlds of `markedness.calibration` start at features. Here the first ones of each kind are written as what a model
or corpus delivers, and all four stages measure them in a study of their own. Every headline Score has to be the one
that the features of the world give.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from markedness import audits, params, pipeline
from markedness.audits.base import WorldCorpus
from markedness.calibration import ALPHA, SEED, Cell, cells
from markedness.files import write_file
from markedness.results import Score, read_scores
from markedness.store import Store

EXACT = ("estimate", "ci_low", "ci_high", "n", "n_missing", "clusters")
"""What a whole run has to give exactly, but for rounding."""
TOLERANCE = 1e-6
"""Of numbers, relative or absolute: embeddings are stored in single precision."""
ERRORS = 4.0
"""Standard errors by which two draws of one exchange may differ."""
OTHERS = 20
"""Further exchanges of the features of a world, where its run differs."""
FEWEST = 200
"""Draws of the shortest exchange, unless the smallest p says that there were fewer."""
ENOUGH = 50
"""Extreme draws after which an exchange stops; see `markedness.stats.inference.exchange_test`."""
MODEL = "world"


@dataclass(frozen=True)
class Run:
    """One world of one kind, by its number in the calibration."""

    audit: str
    world: str
    size: str
    index: int


def chosen(names: Sequence[str], size: str, runs: int) -> list[Run]:
    """``runs`` of each audit: the first world of each kind, then the second of each, and so on."""
    found = []
    for name in names:
        if audits.spec(name).as_corpus is None:
            continue
        kinds = cells([name], size)
        found += [
            Run(name, kinds[n % len(kinds)].world.name, size, n // len(kinds)) for n in range(runs if kinds else 0)
        ]
    return found


def whole_runs(runs: Sequence[Run], folder: Path, workers: int | None = None) -> pd.DataFrame:
    """One row per run and headline Score, see `measured`; what is in ``folder`` is not run again."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"whole.{run.audit}.{run.world}.{run.index}.json" for run in runs]
    left = [(run, path) for run, path in zip(runs, paths, strict=True) if not path.exists()]
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for (_, path), rows in zip(left, pool.map(measured, [run for run, _ in left]), strict=True):
            write_file(path, json.dumps(rows))
    made = [row for path in paths for row in json.loads(path.read_text(encoding="utf-8"))]
    return pd.DataFrame(made)


def measured(run: Run) -> list[dict[str, Any]]:
    """The headline Scores of one world, from its features and from a whole run.

    Returns
    -------
    list of dict
        audit, world, index, key; truth ("no effect", "effect" or ""); ``why``, why it is not compared, else ""; each of
        `EXACT` and p, of the features, and with the ending ``_run`` of the run; ``drawn``, which of them are not equal
        because the exchanges are others; ``p_error``, see `p_error`; ``differs``, the names of what is not the same:
        by more than rounding, or, of what is drawn, by more than `ERRORS` standard errors.
    """
    spec = audits.spec(run.audit)
    cell = next(one for one in cells([run.audit], run.size) if one.world.name == run.world)
    if spec.as_corpus is None or spec.scores is None:
        raise ValueError(f"the audit '{run.audit}' has no corpus of its worlds; see AuditSpec.as_corpus_ref")
    rng = cell.generator(run.index)
    features = cell.world.draw(rng)
    with tempfile.TemporaryDirectory() as folder:
        delivered = spec.as_corpus(features, Path(folder))
        of_run = _of_run(cell, delivered, Path(folder))
    evaluated = spec.params("evaluate")(**cell.world.params)
    scored = spec.scores
    first = {one.key: one for one in scored(delivered.features, evaluated, rng)}
    compared_keys = [key for key in spec.headline if key in first and key not in delivered.not_compared]
    others: list[dict[str, Score]] = []
    if any(not _same(_value(first[key], name), _value(of_run[key], name)) for key in compared_keys for name in EXACT):
        others = [{one.key: one for one in scored(delivered.features, evaluated, rng)} for _ in range(OTHERS)]
    rows = []
    for key in (key for key in spec.headline if key in first):
        truth = "effect" if key in cell.world.planted else "no effect" if key in cell.world.false else ""
        about = {"audit": run.audit, "world": run.world, "index": run.index, "key": key, "truth": truth}
        why = delivered.not_compared.get(key, "")
        rows.append(about | {"why": why} | compared(first[key], [other[key] for other in others], of_run[key]))
    return rows


def _of_run(cell: Cell, delivered: WorldCorpus, root: Path) -> dict[str, Score]:
    """The Scores that the four stages write, as scores.csv has them."""
    delivered.rows.to_csv(root / f"{MODEL}.csv", index=False)
    block: dict[str, Any] = dict(delivered.block)
    block["evaluate"] = dict(cell.world.params)
    content = {
        "audits": [cell.audit], "run": [MODEL], "seed": SEED, cell.audit: block,
        "models": {MODEL: {"backend": "corpus", cell.audit: {"path": f"{MODEL}.csv"}}},
    }  # fmt: skip
    (root / "params.yaml").write_text(
        yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False), encoding="utf-8"
    )
    pipeline.run(params.load(root / "params.yaml"), cell.audit, MODEL, _silent)
    store = Store(root)
    table = store.read_csv(store.results(cell.audit, MODEL) / "scores.csv")
    return {score.key: score for score in read_scores(table)}


def _silent(sentence: str) -> None:
    """A run of calibrate says nothing of its stages."""


def compared(expected: Score, others: Sequence[Score], found: Score) -> dict[str, Any]:
    """See `measured`; ``others`` are ``expected`` with other exchanges."""
    row: dict[str, Any] = {}
    drawn, differs = [], []
    allowed = ERRORS * _drawn_error(expected)
    for name in EXACT:
        one, other = row[name], row[f"{name}_run"] = _value(expected, name), _value(found, name)
        if _same(one, other):
            continue
        values = [one, *(_value(score, name) for score in others)]
        if all(_same(one, value) for value in values):
            differs.append(name)  # no exchange changes it
        elif min(map(float, values)) - allowed <= float(other) <= max(map(float, values)) + allowed:
            drawn.append(name)
        else:
            differs.append(name)
    row["p"], row["p_run"], row["p_error"] = float(expected.p), float(found.p), p_error(expected, found)
    # An estimate that is equal but for rounding moves its t by so much, and p by less.
    error = expected.standard_error
    rounding = TOLERANCE * max(1.0, max(1.0, abs(expected.estimate)) / error) if error > 0 else TOLERANCE
    apart = abs(expected.p - found.p) > ERRORS * row["p_error"] + rounding
    if math.isnan(expected.p) != math.isnan(found.p) or apart:
        differs.append("p")
    return row | {"drawn": ", ".join(drawn), "differs": ", ".join(differs)}


def _value(score: Score, name: str) -> float | str:
    if name == "clusters":
        return "; ".join(f"{factor} {number}" for factor, number in sorted(score.clusters.items()))
    values: Mapping[str, float] = {
        "estimate": score.estimate, "ci_low": score.ci_low, "ci_high": score.ci_high, "n": score.n,
        "n_missing": score.n_missing, "p": score.p,
    }  # fmt: skip
    return float(values[name])


def _same(one: float | str, other: float | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(one) and math.isnan(other))


def _drawn_error(score: Score) -> float:
    """Monte Carlo standard error of the difference of two estimates or bounds that rest on a drawn null.

    With n draws its mean is known to sd / sqrt(n), and its sd, in which bounds are measured, to sd / sqrt(2 n).
    """
    n = min(FEWEST, 1 / score.smallest_p - 1) if score.smallest_p > 0 else FEWEST
    null, half = (score.null_high - score.null_low) / 4, (score.ci_high - score.ci_low) / 2
    return math.sqrt(2) * float(np.nanmax([null / math.sqrt(n), half / math.sqrt(2 * n), 0.0]))


def p_error(one: Score, other: Score) -> float:
    """Monte Carlo standard error of the difference of two p of the same exchange; 0 where neither is drawn.

    A p from at most n draws, of which no more than `ENOUGH` are extreme, has the variance of p (1 - p) / n or of
    p^2 (1 - p) / ENOUGH, whichever is larger.
    """
    smallest = max((score.smallest_p for score in (one, other) if score.smallest_p > 0), default=0.0)
    if not smallest or math.isnan(one.p) or math.isnan(other.p):
        return 0.0
    p = min(1.0, max((one.p + other.p) / 2, smallest))
    variance = max(p * (1 - p) * smallest, p**2 * (1 - p) / ENOUGH)
    return math.sqrt(2 * variance)


_INTRODUCTION = """Written by `markedness calibrate --size {size} --whole-runs {runs}`, seed {seed}.

The worlds of [the calibration table](calibration.md) start at features. Here {runs} of them per audit, the first of
each kind, then the second of each, and so on, are written as what a model or corpus delivers: judgments, answers, ln
probabilities, triples and texts in a CSV file with its cluster columns. A study of its own reads each
(`backend: corpus`), and generate, clean, featurize and evaluate run as in any study. The Scores in its `scores.csv` are
compared with those that the features of the world give. *Same*: runs in which estimate, interval, n, missing and
clusters are equal to {tolerance:g}, and p is equal but for that, or, where labels are exchanged, within {errors:g}
standard errors of two draws; an estimate or bound that other exchanges of the same features change lies among those of
{others} others, or as near to them. *Farthest p*: the largest distance of the two p in such standard errors. *Found*:
runs of worlds without an effect in which the whole run has p <= .05."""


def page(table: pd.DataFrame, size: str) -> str:
    """The page in Markdown: one row per Score, and whatever differs."""
    runs = int(table.groupby("audit")[["world", "index"]].apply(lambda own: len(own.drop_duplicates())).max())
    lines = ["# Whole runs", "", _INTRODUCTION.format(
        size=size, runs=runs, seed=SEED, tolerance=TOLERANCE, errors=ERRORS, others=OTHERS
    ), ""]  # fmt: skip
    for audit, own in table.groupby("audit", sort=False):
        kinds = own.groupby("world", sort=False)["index"].nunique()
        lines += [f"## {audit}", "", "Worlds: " + ", ".join(f"{world} {n}" for world, n in kinds.items()) + ".", ""]
        lines += ["| Score | runs | same | farthest p | found | |", "|---|--:|--:|--:|--:|---|"]
        lines += [_line(str(key), rows) for key, rows in own.groupby("key", sort=False)]
        without = [key for key in audits.spec(str(audit)).headline if key not in set(own["key"])]
        lines += [f"| {key} | – | – | – | – | not compared: features alone do not give it |" for key in without]
        lines += ["", *_differences(own)]
    return "\n".join(lines)


def _line(key: str, rows: pd.DataFrame) -> str:
    drawn = rows[rows["p_error"].gt(0)]
    far = ((drawn["p"] - drawn["p_run"]).abs() / drawn["p_error"]).max() if len(drawn) else math.nan
    none = rows[rows["truth"].eq("no effect") & rows["p_run"].notna()]
    found = f"{int(none['p_run'].le(ALPHA).sum())} of {len(none)}" if len(none) else "–"
    why = rows["why"].iloc[0]
    same = "–" if why else str(int(rows["differs"].eq("").sum()))
    farthest = "–" if why or math.isnan(far) else f"{far:.1f}"
    verdict = f"not compared: {why}" if why else "held" if rows["differs"].eq("").all() else "**not held**"
    return f"| {key} | {len(rows)} | {same} | {farthest} | {found} | {verdict} |"


def _differences(rows: pd.DataFrame) -> Iterator[str]:
    """What differs, run by run."""
    for row in rows[rows["differs"].ne("") & rows["why"].eq("")].to_dict("records"):
        values = "; ".join(
            f"{name} {row[name]} from features, {row[f'{name}_run']} from the run"
            for name in row["differs"].split(", ")
        )
        yield f"- {row['world']} {row['index']}, {row['key']}: {values}"
    yield ""
