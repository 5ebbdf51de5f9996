"""Scripted worlds of known truth: answers of names to cues, drawn as counts without asking anyone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from markedness.audits.base import World
from markedness.audits.homogeneity import SPEC
from markedness.records import FeatureTables, Status

RACES = ("White", "Black", "Asian", "Hispanic")
GENDERS = ("man", "woman")
CATEGORIES = 12
CUES = 18
"""All of the study, where a size names none."""
STUDY_SAMPLES = 50
"""Of the study, where a size gives none."""
PLANTED = 0.3
"""Added to the exponent of the answers' weights for each marked axis: the mean difference becomes 0.06, as over the
four marked values in the study of group labels (Lee & Lai, tables A9 and A10: 0.13, 0.09, -0.01 and 0.02)."""
EQUAL = ("pd_difference.marked", "noncompliance.difference")


@dataclass(frozen=True)
class Dependence:
    """How the answers of a world depend on what is not the race or gender that a score asks about."""

    name_sd: float = 0.8
    """Standard deviation of a name's own log weight of each answer in each cue."""
    marked: float = 0.0
    """See `PLANTED`."""
    gender: float = 0.0
    """The same for women alone."""
    refused: tuple[float, float] = (0.02, 0.02)
    """Mean share of answers that do not comply: unmarked on every axis, others."""
    refusal_sd: float = 1.0
    """Standard deviation of a name's log odds of not complying."""
    missing_cells: float = 0.0
    """Share of names' cues without any compliant answer."""
    surnames: bool = False
    """Whether men and women of a race have the same names, with the same answers."""
    names: int = 5
    """Names for each race and gender."""
    cues: int = 4
    samples: int = 4


def draw(world: Dependence, rng: np.random.Generator) -> FeatureTables:
    """The table ``answers`` of new names in the same cues; see featurize."""
    fixed = np.random.default_rng(7)  # the cues are the same in every draw
    by_cue = 1.0 + 0.3 * fixed.normal(size=world.cues)
    ranks = np.log(np.arange(1, CATEGORIES + 1))
    rows = []
    for race in RACES:
        for gender in GENDERS:
            n_marked = (race != "White") + (gender == "woman")
            slope = 1 + world.marked * n_marked + world.gender * (gender == "woman")
            weights = -slope * by_cue[None, :, None] * ranks
            if not world.surnames or gender == GENDERS[0]:
                of_names = world.name_sd * rng.normal(size=(world.names, world.cues, CATEGORIES))
                refusing = world.refusal_sd * rng.normal(size=world.names)
            weights = weights + of_names
            shares = np.exp(weights) / np.exp(weights).sum(axis=2, keepdims=True)
            odds = np.log(world.refused[int(n_marked > 0)] / (1 - world.refused[int(n_marked > 0)]))
            refused = 1 / (1 + np.exp(-(odds + refusing)))
            bad = rng.binomial(world.samples, np.broadcast_to(refused[:, None], (world.names, world.cues)))
            bad[rng.random(bad.shape) < world.missing_cells] = world.samples
            counts = rng.multinomial(world.samples - bad, shares)
            group = f"{race} {gender}"
            for name, cue, category in zip(*np.nonzero(counts), strict=True):
                rows.append((group, race, gender, f"{group}: {name}", cue, category, "ok", counts[name, cue, category]))
            for name, cue in zip(*np.nonzero(bad), strict=True):
                rows.append((group, race, gender, f"{group}: {name}", cue, -1, Status.REFUSAL.value, bad[name, cue]))
    columns = ["group", "race", "gender", "cluster", "cue", "category", "status", "count"]
    table = pd.DataFrame(rows, columns=columns)
    table["cue"] = "cue " + table["cue"].astype(str)
    table["category"] = ("word " + table["category"].astype(str)).where(table["category"] >= 0)
    table["name"] = table["cluster"].str.replace(r" \w+: ", ": ", regex=True) if world.surnames else table["cluster"]
    answers = table.assign(prompt_id=table["cue"], kind="expression", empty=False, kept=table["status"].eq("ok"))
    return {"answers": answers}


def worlds(size: str = "quick") -> Sequence[World]:
    """Worlds in which names, other axes and refusals make what is not a difference in variety; and a planted one."""

    def world(
        name: str, about: str, dependence: Dependence, false: tuple[str, ...] = EQUAL, planted: tuple[str, ...] = ()
    ) -> World:
        return World(
            name, about, partial(draw, replace(dependence, names=names, cues=cues, samples=samples)), false, planted
        )

    races = tuple(f"pd_difference.{race}" for race in RACES[1:])
    names, cues, samples = _numbers(size)
    asked = f"{names} names a group, {cues} cues, {samples} answers"
    variety, refusals = EQUAL[:1], EQUAL[1:]
    return (
        world("names_vary", f"Every name has answers of its own; no group differs. {asked}.", Dependence()),
        world("names_vary_a_lot", "As names_vary, with names twice as different.", Dependence(name_sd=1.6)),
        world(
            "surnames", "As names_vary; men and women of a race have the same names.", Dependence(surnames=True),
        ),
        world(
            "women_vary_less", "Answers about women vary less, of whatever race.", Dependence(gender=PLANTED),
            (*races, *refusals),
        ),
        world(
            "half_missing", "Half of the names' cues have no compliant answer; no group differs.",
            Dependence(missing_cells=0.5, refusal_sd=0.0),
        ),
        world(
            "unequal_refusals", "Marked groups are refused in 40 % of answers, others in 2 %; the rest vary alike.",
            Dependence(refused=(0.02, 0.4)), variety, refusals,
        ),
        world(
            "planted", f"Marked groups vary less, as in the paper: {asked}.", Dependence(marked=PLANTED), refusals,
            variety,
        ),
    )  # fmt: skip


def _numbers(size: str) -> tuple[int, int, int]:
    """Names, cues and answers that the size asks for."""
    sized: dict[str, Any] = dict(SPEC.sizes[size])
    cues = CUES if sized["cues"] is None else len(sized["cues"])
    return sized["names_per_group"], cues, sized["samples"] or STUDY_SAMPLES
