"""Whether an effect that `markedness plan` says is found with 80 % probability is found in 80 % of simulated studies.

    python scripts/simulate_plan.py --worlds 400

For headline Scores of every audit: the smallest effect of the plan at a size, the strength of the planted world at
which the mean of the Score is that effect, and the share of new worlds of that strength in which it is found at the
plan's correction.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from markedness import audits
from markedness.audits.annotation import worlds as annotation
from markedness.audits.guise import worlds as guise
from markedness.audits.homogeneity import worlds as homogeneity
from markedness.audits.knowledge import worlds as knowledge
from markedness.audits.personas import worlds as personas
from markedness.planning import typical
from markedness.records import FeatureTables
from markedness.stats.inference import ALPHA

SEED = 2026
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


def main() -> None:
    """Print one line an audit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--size", default="quick")
    parser.add_argument("--score", action="append", default=[], help="as annotation.gap.negative; by default all")
    asked = parser.parse_args()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for dial in dials(asked.size):
            if asked.score and f"{dial.audit}.{dial.key}" not in asked.score:
                continue

            def drawn(strength: float, part: int, n: int, dial: Dial = dial) -> tuple[Floats, Floats]:
                made = list(pool.map(partial(score, dial, strength, part), range(n), chunksize=5))
                return np.array([one[0] for one in made]), np.array([one[1] for one in made])

            planned = typical(dial.audit, asked.size)[dial.key]
            effect = planned.detectable
            low, high, few = 0.0, dial.highest, max(20, asked.worlds // 2)
            base = float(np.mean(drawn(0.0, 1, few)[0]))
            for _ in range(7):  # the same worlds each time, so that the mean rises smoothly with the strength
                middle = (low + high) / 2
                reached = abs(float(np.mean(drawn(middle, 1, few)[0])) - base)
                low, high = (middle, high) if reached < effect else (low, middle)
            estimates, p = drawn((low + high) / 2, 2, asked.worlds)
            found = float(np.mean(p <= ALPHA / planned.family))
            print(
                f"{dial.audit}.{dial.key}, {asked.size}: planned {effect:.4g}; at strength {(low + high) / 2:.3g} the "
                f"mean is {np.mean(estimates):.4g} and it is found in {found:.1%} of {asked.worlds} worlds "
                f"(sd {np.std(estimates):.4g}; planned with {planned.draws} draws, df {planned.df:.3g})",
                flush=True,
            )


if __name__ == "__main__":
    main()
