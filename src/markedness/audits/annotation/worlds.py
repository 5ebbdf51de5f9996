"""Scripted models at the level of matched pairs, whose truth is known: what calibrate draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation import SPEC
from markedness.audits.base import World
from markedness.records import FeatureTables

Floats = NDArray[np.float64]
GROUPS = ("Arab", "Asian", "Black", "Hispanic")
TASKS = {"hireable": 1, "leader": 1, "aggressive": -1, "poor": -1}
"""Task -> valence, of the default study."""
RATES = {"hireable": 0.6, "leader": 0.45, "aggressive": 0.35, "poor": 0.4}
DIALECT_TASKS = {
    "professional_tone": ("introduction", 1),
    "educated_speaker": ("introduction", 1),
    "angry": ("message", -1),
}
OF_NAMES = ("gap.positive", "gap.negative", "gap_size.excess", "gap_size.specific")
OF_DIALECT = ("dialect_gap.positive", "dialect_gap.negative", "dialect_gap_size.excess")
MISSING = "missing.difference"
ALL_TEXTS = 15
"""Where a size names no number of pairs: the introductions; there are 20 messages."""
# Törnberg (2026), SI, Table 3: mean gap of the models in which it is significant.
NAME_GAPS = {
    ("Arab", "hireable"): 0.085, ("Arab", "aggressive"): 0.031, ("Arab", "poor"): 0.066,
    ("Asian", "hireable"): 0.055, ("Asian", "leader"): -0.121, ("Asian", "poor"): 0.033,
    ("Black", "aggressive"): 0.057, ("Black", "poor"): 0.048,
    ("Hispanic", "leader"): -0.055, ("Hispanic", "poor"): 0.038,
}  # fmt: skip
# Törnberg (2026), Figure 2: means over the models.
DIALECT_GAPS = {"professional_tone": -0.774, "educated_speaker": -0.688, "angry": 0.153}


@dataclass(frozen=True)
class Setting:
    """Sizes and spreads of one world; the default study unless said otherwise."""

    pairs: int = 40
    names: int = 20
    """Of each group and gender."""
    vignettes: int = 211
    phrases: int = 20
    """Of each of the two pools that vignettes are composed of; 0: they are not."""
    phrase: float = 0.0
    """Standard deviation of a phrase's shift for marked names on single tasks."""
    rates: Mapping[str, float] = field(default_factory=lambda: RATES)
    name: float = 0.1
    """Standard deviation of a name's shift on all tasks."""
    name_task: float = 0.05
    """Of its shift on single tasks."""
    vignette: float = 0.1
    """Of a text's shift, whatever the name."""
    side: float = 0.0
    """Of a text's shift for marked names alone: a phrase that fits some names better."""
    yes_bias: float = 0.0
    """Shift of all marked names on all tasks."""
    gaps: Mapping[tuple[str, str], float] = field(default_factory=dict)
    missing: tuple[float, float] = (0.0, 0.0)
    """Share of missing judgments of marked and unmarked texts, on average."""
    missing_name: float = 0.0
    """Standard deviation of a name's share."""
    texts: int = 12
    """Pairs of texts of each kind."""
    text: float = 0.1
    """Standard deviation of a text's shift in one of its dialects."""
    dialect_gaps: Mapping[str, float] = field(default_factory=dict)


def worlds(size: str = "quick") -> Sequence[World]:
    """Worlds without an effect of group or dialect but with dependence, and two with the paper's effects.

    They have the pairs of the size, and more where a world of size quick is about many.
    """
    every = (*OF_NAMES, *OF_DIALECT, MISSING)
    asked, texts = _pairs(size)

    def setting(pairs: int = 0, **other: Any) -> Setting:
        return Setting(**{"pairs": max(pairs, asked), "texts": texts, **other})

    crossed = setting(300)
    study = "The default study" if size == "quick" else f"{asked:,} pairs of names and {texts} of each kind of text"
    planted: dict[str, Any] = {"gaps": NAME_GAPS, "name": 0.03, "name_task": 0.03, "dialect_gaps": DIALECT_GAPS}
    found = ("gap_size.excess", "gap_size.specific", "dialect_gap.positive", "dialect_gap_size.excess")
    # A small study has little of the power that the paper's own size has, so both are drawn.
    of_the_paper = [
        _world(
            "planted_3000_pairs", "The same gaps, with the paper's 3,000 pairs of names and all pairs of texts.",
            setting(**planted, pairs=3000, texts=20), (MISSING,), found,
        )
    ] if size == "quick" else []  # fmt: skip
    return [
        _world("blind", f"{study}: texts, names and tasks differ, groups do not.", setting(), every),
        _world(
            "constant", "As blind, with the same answer to 96 % of the texts: few pairs differ.",
            setting(rates=dict.fromkeys(TASKS, 0.04), name=0.0, name_task=0.0, vignette=0.0), every,
        ),
        _world(
            "names_shared",
            f"{crossed.pairs:,} pairs from 160 marked and 40 unmarked names: names of sd 0.1 come back in many pairs.",
            crossed, every,
        ),
        _world(
            "few_names",
            f"{max(240, asked):,} pairs from 10 names a group and 24 vignettes, of which some fit marked names better.",
            setting(240, names=5, vignettes=24, phrases=0, name_task=0.1, side=0.1), every,
        ),
        _world(
            "phrases_fit",
            f"{max(600, asked):,} pairs; each of 2 x 20 phrases of the vignettes fits marked names more or less.",
            setting(600, phrase=0.07), every,
        ),
        _world(
            "yes_bias", "Marked names get yes 0.15 more often on every task: a shift, no stereotype.",
            setting(300, yes_bias=0.15), ("gap_size.specific", *OF_DIALECT, MISSING),
        ),
        _world(
            "missing_by_name", "A quarter of the judgments is missing, of some names more than of others.",
            setting(120, missing=(0.25, 0.25), missing_name=0.15), every,
        ),
        _world(
            "missing_by_group", "Marked texts lack 40 % of the judgments, unmarked ones 10 %; answers do not differ.",
            setting(120, missing=(0.4, 0.1), missing_name=0.05), (*OF_NAMES, *OF_DIALECT),
        ),
        _world("planted", f"The paper's significant gaps. {study}.", setting(**planted), (MISSING,), found),
        *of_the_paper,
    ]  # fmt: skip


def _pairs(size: str) -> tuple[int, int]:
    """Pairs of names over all iterations, and pairs of texts of each kind."""
    sized: dict[str, Any] = dict(SPEC.sizes[size])
    return sized["names"]["iterations"] * sized["names"]["pairs"], sized["dialect"]["pairs"] or ALL_TEXTS


def _world(name: str, about: str, setting: Setting, false: tuple[str, ...], planted: tuple[str, ...] = ()) -> World:
    return World(name, about, partial(_draw, setting), false, planted)


def _draw(setting: Setting, rng: np.random.Generator) -> FeatureTables:
    pairs = pd.concat([_names(setting, rng), _dialects(setting, rng)], ignore_index=True)
    return {"pairs": pairs.assign(ungrouped=np.int32(0))}


def _names(setting: Setting, rng: np.random.Generator) -> pd.DataFrame:
    """Pairs of names: groups take turns, names and vignettes come from shuffled decks."""
    n, tasks = setting.pairs, list(TASKS)
    group = np.arange(n) % len(GROUPS)
    gender = np.arange(n) // len(GROUPS) % 2
    vignette = _deck(setting.vignettes, n, rng)
    # Names are numbered by group (the unmarked one last), gender and place.
    name, reference = np.empty(n, dtype=np.intp), np.empty(n, dtype=np.intp)
    for of_gender in (0, 1):
        rows = np.flatnonzero(gender == of_gender)
        reference[rows] = (len(GROUPS) * 2 + of_gender) * setting.names + _deck(setting.names, len(rows), rng)
        for of in range(len(GROUPS)):
            own = rows[group[rows] == of]
            name[own] = (of * 2 + of_gender) * setting.names + _deck(setting.names, len(own), rng)
    n_names = (len(GROUPS) + 1) * 2 * setting.names
    shift = rng.normal(0, setting.name, (n_names, 1)) + rng.normal(0, setting.name_task, (n_names, len(tasks)))
    gaps = np.array([[setting.gaps.get((g, task), 0.0) + setting.yes_bias for task in tasks] for g in GROUPS])
    text = rng.normal(0, setting.vignette, (setting.vignettes, len(tasks)))[vignette]
    fits = rng.normal(0, setting.side, (setting.vignettes, len(tasks)))[vignette]
    composed, texts = _composed(setting)
    if setting.phrase:
        shifts = rng.normal(0, setting.phrase, (2, setting.phrases, len(tasks)))
        fits = fits + (shifts[0][composed[0]] + shifts[1][composed[1]])[vignette]
    rates = np.array([setting.rates[task] for task in tasks])
    lack = rng.normal(0, setting.missing_name, n_names)
    sides: dict[str, NDArray[np.int32]] = {}
    for suffix, own, more, missing in (
        ("", name, gaps[group] + fits, setting.missing[0]), ("_reference", reference, 0.0, setting.missing[1]),
    ):  # fmt: skip
        y = rng.random((n, len(tasks))) < rates + text + shift[own] + more
        lost = rng.random((n, len(tasks))) < (missing + lack[own])[:, None]
        sides |= _judged(y & ~lost, ~lost, suffix)
    about = {
        "paradigm": "names", "group": np.array(GROUPS)[group], "reference": "White", "iteration": np.arange(n) // 30,
        "pair": np.arange(n).astype(str), "vignette": texts[vignette],
        "gender": np.array(["female", "male"])[gender], "name": np.char.add("n", name.astype(str)),
        "reference_name": np.char.add("n", reference.astype(str)),
    }  # fmt: skip
    return _table(about, TASKS, sides)


def _composed(setting: Setting) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """The phrases of each vignette, (2, vignettes), the same in every world, and the names of the vignettes."""
    if not setting.phrases:
        return np.zeros((2, 0), dtype=np.intp), np.array([f"v{n}" for n in range(setting.vignettes)], dtype=object)
    drawn = np.random.default_rng(20261125).permutation(setting.phrases**2)[: setting.vignettes]
    of_pools = np.array(np.divmod(drawn, setting.phrases))
    return of_pools, np.array([f"a{a + 1}-b{b + 1}" for a, b in of_pools.T], dtype=object)


def _dialects(setting: Setting, rng: np.random.Generator) -> pd.DataFrame:
    """Pairs of texts, each asked once in each dialect."""
    n, made = setting.texts, []
    for kind in ("introduction", "message"):
        valences = {task: valence for task, (of, valence) in DIALECT_TASKS.items() if of == kind}
        content = rng.normal(0, setting.text, (n, 1))
        gap = np.array([setting.dialect_gaps.get(task, 0.0) for task in valences])
        # A planted gap lies around the middle, so that both rates are rates.
        sides: dict[str, NDArray[np.int32]] = {}
        for suffix, more in (("", gap / 2), ("_reference", -gap / 2)):
            y = rng.random((n, len(valences))) < 0.5 + content + rng.normal(0, setting.text, (n, 1)) + more
            sides |= _judged(y, np.ones_like(y), suffix)
        pair = np.array([f"{kind}-{place}" for place in range(n)])
        about = {
            "paradigm": "dialect",
            "group": "AAVE",
            "reference": "SAE",
            "iteration": 0,
            "pair": pair,
            "vignette": pair,
        }
        made.append(_table(about, valences, sides))
    return pd.concat(made, ignore_index=True)


def _judged(yes: NDArray[np.bool_], answered: NDArray[np.bool_], suffix: str) -> dict[str, NDArray[np.int32]]:
    """Counts of one side, as featurize makes them; what is missing is unparsed."""
    none = np.zeros(yes.size, dtype=np.int32)
    counts = {"n": answered, "yes": yes, "unparsed": ~answered}
    found = {f"{name}{suffix}": values.ravel().astype(np.int32) for name, values in counts.items()}
    return found | {f"{name}{suffix}": none for name in ("refusal", "truncated", "failed")}


def _table(
    about: Mapping[str, object], valences: Mapping[str, int], sides: Mapping[str, NDArray[np.int32]]
) -> pd.DataFrame:
    """One row per pair and task."""
    n = len(np.asarray(about["pair"]))
    repeated = {
        name: np.repeat(
            np.broadcast_to(np.asarray(values, dtype=object if isinstance(values, str) else None), n), len(valences)
        )
        for name, values in about.items()
    }
    table = pd.DataFrame({**repeated, **sides})
    table["task"] = np.tile(np.array(list(valences), dtype=object), n)
    table["valence"] = np.tile(list(valences.values()), n)
    with np.errstate(invalid="ignore"):
        table["delta"] = table["yes"] / table["n"] - table["yes_reference"] / table["n_reference"]
    return table.assign(margin=np.nan, margin_reference=np.nan)


def _deck(size: int, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """``n`` cards of a deck that is shuffled again each time all were dealt."""
    return np.concatenate([rng.permutation(size) for _ in range(-(-n // size) or 1)])[:n]
