"""Whether an effect that `markedness plan` says is found with 80 % probability is found in 80 % of simulated studies.

    python scripts/simulate_plan.py --worlds 400

For each headline Score that the plan names an effect for: the smallest effect of the plan at a size, the strength of
the planted world at which the Score has about that effect (its mean distance from the mean of its null), and the share
of new worlds of that strength in which it is found at the plan's correction, beside what the plan predicts for the
effect that is there. Effects that do not touch one another are in the same worlds. With --write the strength is first
sought at which a Score is found in 80 % of other worlds, and its effect there becomes the smallest effect of the plan
(column simulated of the audit's smallest_effects.csv).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from markedness import audits
from markedness.audits.annotation import worlds as annotation
from markedness.audits.guise import worlds as guise
from markedness.audits.homogeneity import worlds as homogeneity
from markedness.audits.knowledge import worlds as knowledge
from markedness.audits.personas import worlds as personas
from markedness.records import FeatureTables
from markedness.stats.inference import ALPHA, POWER, detectable
from markedness.typical import Typical, typical

SEED = 2026
AUDITS = Path(__file__).resolve().parents[1] / "src" / "markedness" / "audits"
PERMUTATIONS = 500
"""In worlds that are drawn with fewer than a study has, for speed."""
Floats = NDArray[np.float64]
Draw = Callable[[Floats, np.random.Generator], FeatureTables]


@dataclass(frozen=True)
class Dials:
    """Scores of an audit, and scripted models that have as much of each as is asked."""

    audit: str
    highest: Mapping[str, float]
    """Key -> strength beyond any that is needed; the plan may name more than any strength gives."""
    draw: Draw

    @property
    def keys(self) -> list[str]:
        """In the order of the strengths."""
        return list(self.highest)


def _planted(audit: str, size: str) -> Any:
    """What draws the planted world of a size."""
    worlds = audits.spec(audit).worlds
    assert worlds is not None
    return next(world for world in worlds(size) if world.name == "planted").draw


def _homogeneity(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    (dependence,) = _planted("homogeneity", size).args
    return homogeneity.draw(replace(dependence, marked=strengths[0]), rng)


def _annotation(size: str, paradigm: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    """All groups, or both kinds of text, differ by one gap on the tasks of a valence."""
    (setting,) = _planted("annotation", size).args
    gap = {1: strengths[0], -1: strengths[1]}
    gaps = {(group, task): gap[sign] for group in annotation.GROUPS for task, sign in annotation.TASKS.items()}
    texts = {task: gap[sign] for task, (_, sign) in annotation.DIALECT_TASKS.items()}
    pairs = annotation._draw(replace(setting, gaps=gaps, dialect_gaps=texts), rng)["pairs"]
    return {"pairs": pairs[pairs["paradigm"].eq(paradigm)].reset_index(drop=True)}


def _annotation_size(size: str, paradigm: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    """Gaps up on tasks of one valence, down on those of the other: no shift over all tasks."""
    return _annotation(size, paradigm, np.array([strengths[0], -strengths[0]]), rng)


def _knowledge(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    study: knowledge.Study = _planted("knowledge", size).__self__
    harsh, own_topic = strengths
    return replace(study, harsh=harsh, own_topic=own_topic).draw(rng)


def _guise(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    stereotype, prestige, guilt, negative = strengths
    model: guise.Model = _planted("guise", size).__self__
    return replace(model, stereotype=stereotype, prestige=prestige, guilt=guilt, negative=negative).draw(rng)


def _guise_overt(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    """Words for the groups alone: no size has more of them than another."""
    model: guise.Model = _planted("guise", size).__self__
    asked = replace(model.asked, pairs=12, traits=1, occupations=1, occupation_pairs=12)
    tables = replace(model, asked=asked, stereotype=strengths[0]).draw(rng)
    return {**tables, "scores": tables["scores"].query("setting == 'overt'")}


def _personas(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    """Words, what the classifiers learn, and likeness of texts of marked groups, each of its own strength."""
    (study,) = _planted("personas", size).args
    seed = int(rng.integers(2**32))
    words, learned, alike = (
        personas.draw(replace(study, planted=strength), np.random.default_rng(seed)) for strength in strengths
    )
    return {**words, "svm_predictions": learned["svm_predictions"], "embeddings": alike["embeddings"]}


def _refusals(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    (study,) = _planted("personas", size).args
    return personas.draw(replace(study, refused=dict.fromkeys(study.refused, float(strengths[0]))), rng)


def _only(draw: Draw, place: int, of: int, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    """One of several strengths, the others 0."""
    every = np.zeros(of)
    every[place] = strengths[0]
    return draw(every, rng)


def dials(size: str) -> list[Dials]:
    """All Scores with an effect in the plan."""
    of_guise, of_personas = partial(_guise, size), partial(_personas, size)
    return [
        Dials("homogeneity", {"pd_difference.marked": 0.8}, partial(_homogeneity, size)),
        Dials("annotation", {"gap.positive": 0.6, "gap.negative": 0.6}, partial(_annotation, size, "names")),
        Dials("annotation", {"gap_size.excess": 1.0}, partial(_annotation_size, size, "names")),
        Dials("annotation", {"gap_size.specific": 1.0}, partial(_annotation_size, size, "names")),
        Dials("annotation", {"dialect_gap.positive": 0.9, "dialect_gap.negative": 1.4},
              partial(_annotation, size, "dialect")),
        Dials("annotation", {"dialect_gap_size.excess": 1.2}, partial(_annotation_size, size, "dialect")),
        Dials("knowledge", {"regard_gap.marked": 6.0, "topic_divergence.marked": 0.5},
              partial(_knowledge, size)),
        Dials("knowledge", {"toxicity_gap.marked": 16.0}, partial(_only, partial(_knowledge, size), 0, 2)),
        Dials("guise", {"strength.covert": 0.3, "prestige.slope": 0.08, "decision.conviction": 3.0},
              partial(_all_but_negative, size)),
        Dials("guise", {"strength.overt": 0.4}, partial(_guise_overt, size)),
        Dials("guise", {"agreement.1933": 0.4}, partial(_only, of_guise, 0, 4)),
        Dials("guise", {"favorability.covert": 0.3}, partial(_only, of_guise, 3, 4)),
        Dials("personas", {"jsd.excess": 1.5, "svm.balanced_accuracy": 2.0, "similarity.difference": 4.0}, of_personas),
        Dials("personas", {"marked_words.excess": 1.2}, partial(_only, of_personas, 0, 3)),
        Dials("personas", {"refusals.difference": 0.5}, partial(_refusals, size)),
    ]  # fmt: skip


def _all_but_negative(size: str, strengths: Floats, rng: np.random.Generator) -> FeatureTables:
    return _guise(size, np.append(strengths, 0.0), rng)


def measured(dials: Dials, strengths: Floats, part: int, world: int) -> list[tuple[float, float]]:
    """Effect (the estimate's distance from the mean of its null) and p of each Score in one world."""
    spec = audits.spec(dials.audit)
    assert spec.scores is not None and spec.worlds is not None
    rng = np.random.default_rng([SEED, part, world])
    params = dict(next(one for one in spec.worlds("quick") if one.name == "planted").params)
    if "n_permutations" in params:  # as few as calibrate draws, 100, find nothing at the corrected level
        params["n_permutations"] = PERMUTATIONS
    settings = spec.params("evaluate")(**params)
    scores = {one.key: one for one in spec.scores(dials.draw(strengths, rng), settings, rng)}
    found = [scores[key] for key in dials.keys]
    return [(one.estimate - (one.null_mean if math.isfinite(one.null_mean) else 0.0), one.p) for one in found]


def _sought(reached: Callable[[Floats], Floats], wanted: Floats, dials: Dials, steps: int) -> Floats:
    """The strengths at which this much is reached; the same worlds each time, so that it rises with the strengths."""
    low = np.zeros(len(wanted))
    high = np.array(list(dials.highest.values()))
    for _ in range(steps):
        middle = (low + high) / 2
        below = reached(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def predicted(effect: float, planned: Typical) -> float:
    """Probability with which the plan finds this effect: its smallest effect, by the noncentral t, is found in 80 %."""
    df, level = planned.df if planned.df > 0 else 1e6, ALPHA / planned.family
    shift = effect / planned.smallest * detectable(1.0, df, level)
    return float(stats.nct.sf(stats.t.isf(level / 2, df), df, shift))


def _write(audit: str, key: str, size: str, effect: float) -> None:
    path = AUDITS / audit / "smallest_effects.csv"
    table = pd.read_csv(path)
    table.loc[table["size"].eq(size) & table["key"].eq(key), "simulated"] = effect
    table.to_csv(path, index=False)


def simulated(dials: Dials, size: str, worlds: int, write: Sequence[str], pool: ProcessPoolExecutor) -> Iterator[str]:
    """One row of a Markdown table per Score: what is planned, and in how many new worlds it is found."""

    def drawn(strengths: Floats, part: int, n: int) -> tuple[Floats, Floats]:
        made = np.array(list(pool.map(partial(measured, dials, strengths, part), range(n), chunksize=5)))
        return made[:, :, 0], made[:, :, 1]

    planned = [typical(dials.audit, size)[key] for key in dials.keys]
    levels = np.array([ALPHA / one.family for one in planned])
    effects = np.array([one.smallest for one in planned])
    few = max(20, worlds // 16)
    if write:
        everywhere = np.full(len(planned), POWER)
        strengths = _sought(lambda at: (drawn(at, 3, worlds)[1] <= levels).mean(axis=0), everywhere, dials, 7)
        there, p = drawn(strengths, 3, worlds)
        effects = np.abs(there.mean(axis=0))
        for place in map(dials.keys.index, write):
            if (share := float((p[:, place] <= levels[place]).mean())) < POWER - 0.02:
                raise SystemExit(f"{dials.keys[place]}: found in {share:.0%} at most, so that nothing is written")
            _write(dials.audit, dials.keys[place], size, effects[place])
            planned[place] = replace(planned[place], simulated=effects[place])
    else:
        strengths = _sought(lambda at: np.abs(drawn(at, 1, few)[0].mean(axis=0)), effects, dials, 5)
    there, p = drawn(strengths, 2, worlds)
    for place, one in enumerate(planned):
        mean, n = abs(float(there[:, place].mean())), int((p[:, place] <= levels[place]).sum())
        low, high = proportion_confint(n, worlds, method="beta")
        yield (
            f"| {dials.audit} `{one.key}` | {one.smallest:.3g} | {strengths[place]:.3g} | {mean:.3g} | "
            f"{predicted(mean, one):.0%} | {n / worlds:.0%} ({low:.0%} to {high:.0%}) | {worlds} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--size", default="quick")
    parser.add_argument("--write", action="store_true", help="what is found in 80 %% becomes the smallest effect")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--score", action="append", default=[], help="annotation.gap.negative; by default all")
    asked = parser.parse_args()
    print("| score | planned effect | strength | effect there | predicted | found (95 % interval) | worlds |")
    print("| --- | --: | --: | --: | --: | --: | --: |", flush=True)
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        for one in dials(asked.size):
            own = [key for key in one.keys if not asked.score or f"{one.audit}.{key}" in asked.score]
            if own:
                rows = simulated(one, asked.size, asked.worlds, own if asked.write else [], pool)
                print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
