"""What headline Scores find at a size: from the audit's smallest_effects.csv, else by drawing its planted world."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd

from markedness import audits
from markedness.results import NAN, Score
from markedness.stats.inference import draws_needed

SEED = 2026
PLANTED = "planted"
"""Name of the world that has what the size asks for, with the paper's effects; without it nothing can be planned."""
N_DRAWS = 20
"""Worlds that are drawn where an audit has no smallest_effects.csv (scripts/smallest_effects.py writes it)."""


@dataclass(frozen=True)
class Typical:
    """What a headline Score can find in a study of a size, over draws of the planted world."""

    key: str
    draws: int
    detectable: float
    """Root mean square of the Scores' own: the typical error, not one that a lucky draw shows."""
    df: float
    """Median; 0 where the Scores have none."""
    family: int
    clusters: str
    """As "factor n, factor n"."""
    n: int
    first: float
    """``detectable`` in the first draw, NaN included: a change of it says that the file is out of date."""
    smallest_p: float = NAN
    """Median of the Scores' own, which is that of their arrangements and draws; NaN: no bound."""
    simulated: float = NAN
    """Mean in worlds in which it is found in `POWER`, in place of ``detectable``; infinite where no strength of these
    worlds is found so often, NaN where this was not drawn (scripts/simulate_plan.py --write)."""

    @property
    def smallest(self) -> float:
        """The effect that is found with `POWER`: simulated, or from the typical error; NaN where none is."""
        if math.isinf(self.simulated):
            return NAN
        return self.simulated if math.isfinite(self.simulated) else self.detectable


@cache
def typical(audit: str, size: str) -> dict[str, Typical]:
    """Headline key -> what it finds at a size: from the audit's smallest_effects.csv, else by drawing its worlds."""
    spec = audits.spec(audit)
    try:
        text = (resources.files(spec.package) / "smallest_effects.csv").read_text(encoding="utf-8")
    except OSError:
        return {one.key: one for one in draw_typical(audit, size, N_DRAWS)}
    table = pd.read_csv(io.StringIO(text))
    table["clusters"] = table["clusters"].fillna("")
    names = [field.name for field in fields(Typical)]
    rows = table[table["size"].eq(size)].reindex(columns=names)  # an earlier file has no smallest_p
    made = (Typical(*row) for row in rows.itertuples(index=False))
    return {one.key: one for one in made}


def draw_typical(audit: str, size: str, draws: int) -> list[Typical]:
    """By drawing the planted world; none where an audit has no such world or no Score in it that can be found."""
    spec = audits.spec(audit)
    if spec.worlds is None or spec.scores is None or not size:
        return []
    world = next((one for one in spec.worlds(size) if one.name == PLANTED), None)
    if world is None:
        return []
    found: dict[str, list[Score]] = {key: [] for key in spec.headline}
    settings = spec.params("evaluate")(**world.params)
    for draw in range(draws):
        rng = np.random.default_rng([SEED, zlib.crc32(f"{audit}/{size}".encode()), draw])
        for score in spec.scores(world.draw(rng), settings, rng):
            if score.key in found:
                found[score.key].append(score)
    few = world.params.get("n_permutations")
    return [_typical(key, scores, few) for key, scores in found.items() if any(s.detectable > 0 for s in scores)]


def _typical(key: str, scores: Sequence[Score], few: int | None = None) -> Typical:
    """Of one key; ``few``: draws to which the world, to be fast, limits a test that a study does not."""
    known = [score for score in scores if score.detectable > 0]
    middle = float(np.median([score.df if score.df > 0 else 0.0 for score in known]))
    usual = known[len(known) // 2]
    return Typical(
        key, len(known), float(np.sqrt(np.mean([score.detectable**2 for score in known]))), middle, usual.family,
        ", ".join(f"{factor} {n}" for factor, n in usual.clusters.items()), usual.n, scores[0].detectable,
        float(np.median([_smallest_p(score, few) for score in known])),
    )  # fmt: skip


def _smallest_p(score: Score, few: int | None) -> float:
    of_few = few is not None and math.isclose(score.smallest_p, 1 / (1 + few))
    return 1 / (1 + draws_needed(score.family)) if of_few else score.smallest_p
