"""How often `markedness gate` passes, fails and is inconclusive on models of known truth.

    python scripts/simulate_gate.py --worlds 200

Models are drawn from the worlds of homogeneity (names that vary) and, for missing answers, of annotation. The size is
the one that the gate names as deciding, from the mean variance of the difference over pilots of six names a group.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from markedness import audits
from markedness.audits.annotation import worlds as annotation
from markedness.audits.homogeneity import worlds as homogeneity
from markedness.compare import Comparison
from markedness.gate.cases import Decision
from markedness.gate.rules import POWER, decide, whole
from markedness.gate.run import pairs_of
from markedness.records import FeatureTables
from markedness.results import Score
from markedness.stats.inference import ALPHA, detectable

Draw = Callable[[np.random.Generator], FeatureTables]
SEED = 2026
KEY = "pd_difference.marked"
EQUAL = homogeneity.Dependence(names=6, cues=6, samples=8)
WORSE = 0.3
"""Strength of the planted model; half of its effect is the margin."""


def gate(audit: str, candidate: Draw, baseline: Draw, margins: dict[str, float], world: int) -> list[Decision]:
    """The decisions on one world."""
    rng = np.random.default_rng([SEED, world])
    spec = audits.spec(audit)
    settings = spec.params("evaluate")()

    def scores(tables: FeatureTables) -> list[Score]:
        assert spec.scores is not None
        return list(spec.scores(tables, settings, rng))

    tables = {"candidate": candidate(rng), "baseline": baseline(rng)}
    compared = Comparison(audit, tables, scores, spec.table, spec.cluster, spec.headline)
    return decide(pairs_of(compared, "candidate", "baseline", margins)[0])


def shares(audit: str, candidate: Draw, baseline: Draw, margins: dict[str, float], worlds: int) -> str:
    """Of the whole gate, and of the Scores that have a margin."""
    made = [gate(audit, candidate, baseline, margins, world) for world in range(worlds)]
    of_all = Counter(str(whole(one)) for one in made)
    text = "all: " + ", ".join(f"{name} {n / worlds:.1%}" for name, n in sorted(of_all.items()))
    for key in margins:
        own = Counter(str(d.outcome) for one in made for d in one if d.pair.key == key)
        text += f"; {key}: " + ", ".join(f"{name} {n / worlds:.1%}" for name, n in sorted(own.items()))
    return text


def effect(dependence: homogeneity.Dependence, worlds: int) -> float:
    """Mean of the Score over worlds."""
    spec = audits.spec("homogeneity")
    assert spec.scores is not None
    found = []
    for world in range(worlds):
        rng = np.random.default_rng([SEED, 1, world])
        made = spec.scores(homogeneity.draw(dependence, rng), spec.params("evaluate")(), rng)
        found.append(next(score.estimate for score in made if score.key == KEY))
    return float(np.mean(found))


def main() -> None:
    """Print one line a setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    worlds = parser.parse_args().worlds
    margin = effect(replace(EQUAL, marked=WORSE, names=20), 2 * worlds) / 2
    pilot, equal = partial(homogeneity.draw, EQUAL), {KEY: margin}
    needed = []
    for world in range(min(worlds, 40)):
        made = gate("homogeneity", pilot, pilot, equal, world + 10_000)
        one = next(d for d in made if d.pair.key == KEY)
        needed.append((detectable(one.standard_error, one.df, 2 * ALPHA / len(made), POWER) / margin) ** 2)
    names = math.ceil(EQUAL.names * float(np.mean(needed)))
    print(f"margin {margin:.3f}; {names} names a group needed", flush=True)
    planned = replace(EQUAL, names=names)
    same, worse = partial(homogeneity.draw, planned), partial(homogeneity.draw, replace(planned, marked=WORSE))
    half = partial(homogeneity.draw, replace(planned, marked=WORSE / 2))
    refused = partial(homogeneity.draw, replace(planned, refused=(0.02, 0.4)))
    for name, candidate in (("two draws", same), ("twice the margin", worse), ("half of that strength", half),
                            ("40 % of marked groups refused, no bounds", refused)):  # fmt: skip
        print(f"homogeneity, {name}: {shares('homogeneity', candidate, same, equal, worlds)}", flush=True)
    print(f"homogeneity, two draws, no margin: {shares('homogeneity', same, same, {}, worlds)}", flush=True)
    setting = annotation.Setting(pairs=600, names=40)
    lost = partial(annotation._draw, replace(setting, missing=(0.3, 0.05)))
    whole_answers = partial(annotation._draw, setting)
    for limit in (0.2, 2.0):
        margins = dict.fromkeys(("gap.positive", "gap.negative"), limit)
        text = shares("annotation", lost, whole_answers, margins, max(2, worlds // 4))
        print(f"annotation, 30 % of marked and 5 % of unmarked missing, margin {limit}: {text}", flush=True)


if __name__ == "__main__":
    main()
