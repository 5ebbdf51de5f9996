"""Whether an effect that `markedness plan` says is found with 80 % probability is found in 80 % of simulated studies.

    python scripts/simulate_plan.py --worlds 400

For headline Scores of every audit: the smallest effect of the plan at a size, the strength of the planted world at
which the mean of the Score is that effect, and the share of new worlds of that strength in which it is found at the
plan's correction. With --write the strength is first sought at which it is found in 80 % of other worlds, and the mean
there becomes the smallest effect of the plan (column simulated of the audit's smallest_effects.csv).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness import audits
from markedness.audits.annotation import worlds as annotation
from markedness.audits.guise import worlds as guise
from markedness.audits.homogeneity import worlds as homogeneity
from markedness.audits.knowledge import worlds as knowledge
from markedness.audits.personas import worlds as personas
from markedness.records import FeatureTables
from markedness.stats.inference import ALPHA, POWER
from markedness.typical import typical

SEED = 2026
AUDITS = Path(__file__).resolve().parents[1] / "src" / "markedness" / "audits"
Floats = NDArray[np.float64]
Draw = Callable[[float, np.random.Generator], FeatureTables]


@dataclass(frozen=True)
class Dial:
    """A Score of an audit and a scripted model that has as much of it as is asked."""

    audit: str
    key: str
    draw: Draw
    highest: float
    """Strength beyond any that is needed."""


def _planted(audit: str, size: str) -> Any:
    """What draws the planted world of a size."""
    worlds = audits.spec(audit).worlds
    assert worlds is not None
    return next(world for world in worlds(size) if world.name == "planted").draw


def _homogeneity(size: str, strength: float, rng: np.random.Generator) -> FeatureTables:
    (dependence,) = _planted("homogeneity", size).args
    return homogeneity.draw(replace(dependence, marked=strength), rng)


def _annotation(size: str, sign: int, strength: float, rng: np.random.Generator) -> FeatureTables:
    (setting,) = _planted("annotation", size).args
    gaps = {(group, task): strength for group in annotation.GROUPS for task, valence in annotation.TASKS.items()
            if valence == sign}  # fmt: skip
    return annotation._draw(replace(setting, gaps=gaps), rng)


def _knowledge(size: str, strength: float, rng: np.random.Generator) -> FeatureTables:
    study: knowledge._Study = _planted("knowledge", size).__self__
    return replace(study, harsh=strength).draw(rng)


def _guise(size: str, effect: str, strength: float, rng: np.random.Generator) -> FeatureTables:
    model: guise.Model = replace(_planted("guise", size).__self__, **{effect: strength})
    return model.draw(rng)


def _personas(size: str, strength: float, rng: np.random.Generator) -> FeatureTables:
    (study,) = _planted("personas", size).args
    return personas.draw(replace(study, planted=strength), rng)


def dials(size: str) -> list[Dial]:
    """One of every audit, and one of guise that no strength brings to the planned effect."""
    return [
        Dial("homogeneity", "pd_difference.marked", partial(_homogeneity, size), 2.0),
        Dial("annotation", "gap.negative", partial(_annotation, size, -1), 0.6),
        Dial("annotation", "gap.positive", partial(_annotation, size, 1), 0.6),
        Dial("knowledge", "regard_gap.marked", partial(_knowledge, size), 8.0),
        Dial("guise", "strength.covert", partial(_guise, size, "stereotype"), 1.0),
        Dial("guise", "prestige.slope", partial(_guise, size, "prestige"), 0.06),
        Dial("guise", "decision.conviction", partial(_guise, size, "guilt"), 3.0),
        Dial("personas", "similarity.difference", partial(_personas, size), 4.0),
    ]


def score(dial: Dial, strength: float, part: int, world: int) -> tuple[float, float]:
    """Estimate and p in one world."""
    spec = audits.spec(dial.audit)
    assert spec.scores is not None and spec.worlds is not None
    rng = np.random.default_rng([SEED, part, world])
    params = next(one for one in spec.worlds("quick") if one.name == "planted").params
    settings = spec.params("evaluate")(**params)
    found = next(one for one in spec.scores(dial.draw(strength, rng), settings, rng) if one.key == dial.key)
    return found.estimate, found.p


def _sought(reached: Callable[[float], float], wanted: float, dial: Dial) -> float:
    """The strength at which this much is reached; the same worlds each time, so that it rises with the strength."""
    low, high = 0.0, dial.highest
    for _ in range(7):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < wanted else (low, middle)
    return (low + high) / 2


def _write(dial: Dial, size: str, effect: float) -> None:
    path = AUDITS / dial.audit / "smallest_effects.csv"
    table = pd.read_csv(path)
    table.loc[table["size"].eq(size) & table["key"].eq(dial.key), "simulated"] = effect
    table.to_csv(path, index=False)


def simulated(dial: Dial, size: str, worlds: int, write: bool, pool: ProcessPoolExecutor) -> str:
    """One line: what is planned, and in how many new worlds it is found."""

    def drawn(strength: float, part: int, n: int = worlds) -> tuple[Floats, Floats]:
        made = list(pool.map(partial(score, dial, strength, part), range(n), chunksize=5))
        return np.array([one[0] for one in made]), np.array([one[1] for one in made])

    planned = typical(dial.audit, size)[dial.key]
    level, few = ALPHA / planned.family, max(20, worlds // 2)
    base = float(np.mean(drawn(0.0, 1, few)[0]))
    if write:
        strength = _sought(lambda at: float(np.mean(drawn(at, 3)[1] <= level)), POWER, dial)
        effect = abs(float(np.mean(drawn(strength, 3)[0])) - base)
        _write(dial, size, effect)
    else:
        effect = planned.smallest
        strength = _sought(lambda at: abs(float(np.mean(drawn(at, 1, few)[0])) - base), effect, dial)
    estimates, p = drawn(strength, 2)
    return (
        f"{dial.audit}.{dial.key}, {size}: planned {effect:.4g}; at strength {strength:.3g} the mean is "
        f"{np.mean(estimates):.4g} and it is found in {np.mean(p <= level):.1%} of {worlds} worlds (sd "
        f"{np.std(estimates):.4g}; by the typical error {planned.detectable:.4g}, df {planned.df:.3g})"
    )


def main() -> None:
    """Print one line a Score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--size", default="quick")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--score", action="append", default=[], help="as annotation.gap.negative; by default all")
    asked = parser.parse_args()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for dial in dials(asked.size):
            if not asked.score or f"{dial.audit}.{dial.key}" in asked.score:
                print(simulated(dial, asked.size, asked.worlds, asked.write, pool), flush=True)


if __name__ == "__main__":
    main()
