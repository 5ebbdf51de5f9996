"""What was found wrong with the inference of an earlier version, measured there and here on the same worlds.

    git worktree add ../before c40e62c --detach
    python benchmarks/before_after.py --old ../before --keep /tmp/before-after
    python benchmarks/before_after.py --old ../before --keep /tmp/before-after --only annotation.names --worlds 10

Each world is drawn from a seed that was fixed before the first run, written as the CSV file of a corpus and measured by
the earlier code and by this one; where a CSV file cannot carry what is needed (regard and topics of triples), the
features are given. No world is from `markedness calibrate`. Without --old nothing is measured. Finished parts are kept
in --keep, so that a run can be stopped and continued; the table that is printed stands in docs/calibration-findings.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

SEED = 20261123
"""Fixed before the first run."""
HERE = Path(__file__).resolve().parent.parent
Floats = NDArray[np.float64]
Row = dict[str, float]


@dataclass
class Study:
    """What is measured: corpora of one audit, or its features."""

    audit: str
    corpora: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Model -> its file."""
    block: Mapping[str, Any] = field(default_factory=dict)
    """The audit's block in params.yaml."""
    compare: bool = False
    features: pd.DataFrame | None = None
    """In place of a corpus."""
    truth: Mapping[str, float] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    """Scripted models beside the corpora."""


class Ran:
    """Results of one study under one version."""

    def __init__(self, study: Study, root: Path) -> None:
        self.study, self.root = study, root

    def metrics(self, model: str = "m") -> dict[str, float]:
        """The headline of a model."""
        path = self.root / "results" / self.study.audit / model / "metrics.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        return {key: math.nan if value is None else float(value) for key, value in found.items()}

    def table(self, name: str, model: str = "m") -> pd.DataFrame:
        """A table of a model."""
        return pd.read_csv(self.root / "results" / self.study.audit / model / "tables" / f"{name}.csv")

    def score(self, key: str, column: str = "p", model: str = "m") -> float:
        """One column of a Score; NaN where there is none."""
        table = pd.read_csv(self.root / "results" / self.study.audit / model / "scores.csv").set_index("key")
        return number(table, key, column) if key in table.index else math.nan

    def compared(self, name: str = "differences") -> pd.DataFrame:
        """A table of compare."""
        return pd.read_csv(self.root / "results" / "compare" / f"{name}.csv")


def number(table: pd.DataFrame, row: Any, column: str) -> float:
    """One cell."""
    return float(str(table.loc[row, column]))


def at_most(p: float, level: float = 0.05) -> float:
    """1 where p is at most the level, 0 where it is above, NaN without a p."""
    return math.nan if math.isnan(p) else float(p <= level)


def inside(low: float, high: float, truth: float) -> float:
    """1 where the interval holds the truth; NaN without an interval."""
    return math.nan if math.isnan(low) or math.isnan(high) else float(low <= truth <= high)


# ---------------------------------------------------------------- annotation

TASKS = {"hireable": 0.6, "leader": 0.45, "aggressive": 0.35, "poor": 0.4}
"""Task -> share of yes."""


def names_world(
    rng: np.random.Generator,
    pairs: int = 240,
    names: int = 5,
    sd: float = 0.1,
    rates: Mapping[str, float] = TASKS,
    text_sd: float = 0.1,
) -> pd.DataFrame:
    """Judgments of pairs of names: ``names`` of each group and gender, whose shifts have this sd; no group differs."""
    groups = ("Arab", "Asian", "Black", "Hispanic")
    shifts: dict[str, Floats] = {}
    texts = rng.normal(0, text_sd, (24, len(rates)))
    rows = []
    for pair in range(pairs):
        gender = "female" if pair // len(groups) % 2 else "male"
        vignette = int(rng.integers(len(texts)))
        for group in (groups[pair % len(groups)], "White"):
            name = f"{group}-{gender}-{rng.integers(names)}"
            own = shifts.setdefault(name, rng.normal(0, sd) + rng.normal(0, sd / 2, len(rates)))
            said = rng.random(len(rates)) < np.array(list(rates.values())) + texts[vignette] + own
            rows += [
                (task, int(y), pair, f"v{vignette}", name, gender, group) for task, y in zip(rates, said, strict=True)
            ]
    columns = ["task", "y", "pair", "vignette", "name", "gender", "group"]
    return pd.DataFrame(rows, columns=columns).assign(paradigm="names")


def annotation_names(rng: np.random.Generator) -> Study:
    return Study("annotation", {"m": names_world(rng)})


def old_annotation_names(ran: Ran) -> Row:
    gaps = ran.table("gaps")
    return {
        "gap_size p <= .05": at_most(ran.metrics()["gap_size_p.names"]),
        "a significant cell": float(gaps["significant"].any()),
        "cells with p <= .05, clustered": float(
            np.nanmean(np.maximum(gaps["p_vignette"], gaps["p_name_pair"]) <= 0.05)
        ),
    }


def new_annotation_names(ran: Ran) -> Row:
    gaps = ran.table("gaps")
    return {
        "gap_size p <= .05": at_most(ran.score("gap_size.excess")),
        "a significant cell": float(gaps["significant"].any()),
        "cells with p <= .05, clustered": float((gaps["p"] <= 0.05).mean()),
    }


def noisier(rng: np.random.Generator) -> Study:
    """Two models without any effect, one of which answers yes to half of the texts and one to 4 % of them."""
    quiet = dict.fromkeys(TASKS, 0.04)
    frames = {"m": names_world(rng, 160, 20, sd=0.0), "quiet": names_world(rng, 160, 20, 0.0, quiet, text_sd=0.01)}
    return Study("annotation", frames, compare=True)


def either_noisier(ran: Ran) -> Row:
    table = ran.compared()
    own = table[table["score"].str.startswith("gap_size") & table["score"].str.contains("names|excess")].iloc[0]
    return {"gap_size of the two differs, p <= .05": at_most(float(own["p"]))}


def judged_twice(rng: np.random.Generator) -> Study:
    """The same judgments asked for twice: names have shifts of their own."""
    first = names_world(rng, 160, 5)
    share = first.groupby(["task", "name"])["y"].transform("mean").clip(0.05, 0.95)
    frames = {name: first.assign(y=(rng.random(len(first)) < share).astype(int)) for name in ("m", "again")}
    return Study("annotation", frames, compare=True)


def sparse_cells(rng: np.random.Generator) -> Study:
    """Three tasks: two with the same answer throughout, one in which 4 of 30 pairs differ, all the same way."""
    rows = []
    for pair in range(30):
        for group in ("Black", "White"):
            said = {"hireable": 1, "leader": 0, "poor": int(pair < 4 and group == "Black")}
            rows += [(task, y, pair, f"v{pair}", f"{group}{pair}", "male", group) for task, y in said.items()]
    columns = ["task", "y", "pair", "vignette", "name", "gender", "group"]
    return Study("annotation", {"m": pd.DataFrame(rows, columns=columns).assign(paradigm="names")})


def either_sparse_cells(ran: Ran) -> Row:
    gaps = ran.table("gaps").set_index("task")
    return {
        "cells in the family": float(gaps["p_adjusted"].notna().sum()),
        "significant at an exact p of .125": float(bool(gaps.loc["poor", "significant"])),
    }


def with_control(rng: np.random.Generator) -> Study:
    """Three blind models whose names do not differ, and the planted control."""
    corpora = {f"m{place}": names_world(rng, pairs=160, names=20, sd=0.0) for place in range(3)}
    control = {"backend": "scripted", "rule": "planted", "strength": 1.5}
    block = {
        "generate": {
            "mode": "single", "answer": "probability", "paradigms": ["names"],
            "names": {"tasks": list(TASKS), "iterations": 1, "pairs": 160},
        }
    }  # fmt: skip
    return Study("annotation", corpora, block, compare=True, models={"planted": control})


def old_with_control(ran: Ran) -> Row:
    cells = ran.compared("annotation_gaps")
    return _accused(cells, cells["q"])


def new_with_control(ran: Ran) -> Row:
    cells = ran.compared("annotation_gaps")
    return _accused(cells, cells["p_adjusted_models"])


def _accused(cells: pd.DataFrame, adjusted: pd.Series) -> Row:
    blind = cells["model"].str.startswith("m") & cells["paradigm"].eq("names")
    return {"a cell of a blind model below .05": float((adjusted[blind] < 0.05).any())}


# ---------------------------------------------------------------- homogeneity

RACES = ("White", "Black", "Asian", "Hispanic")


def answers_world(
    rng: np.random.Generator, names: int = 5, cues: int = 18, samples: int = 4, silent: float = 0.0,
    marked: float = 0.0, name_sd: float = 0.8, shared: float = 0.0, weights: Floats | None = None, women: float = 1.0,
) -> pd.DataFrame:  # fmt: skip
    """Answers of one word. ``marked`` raises the exponent of marked groups, ``silent`` cells have no answer."""
    ranks = np.log(np.arange(1, 13))
    rows = []
    place = 0
    for race in RACES:
        for gender in ("man", "woman"):
            slope = 1 + marked * ((race != "White") + women * (gender == "woman"))
            for name in range(names):
                lean = shared * rng.normal()
                for cue in range(cues):
                    own = name_sd * rng.normal(size=len(ranks)) if weights is None else weights[place, cue]
                    share = np.exp(-(slope + lean) * ranks + own)
                    gone = rng.random() < silent
                    said = rng.choice(len(ranks), samples, p=share / share.sum())
                    rows += [
                        ("Sorry, I can't say." if gone else f"word{word}", f"cue {cue:02d}", f"{race} {gender} {name}",
                         race, gender) for word in said
                    ]  # fmt: skip
                place += 1
    return pd.DataFrame(rows, columns=["text", "cue", "name", "race", "gender"])


def homogeneity_silent(share: float, rng: np.random.Generator) -> Study:
    return Study("homogeneity", {"m": answers_world(rng, silent=share, marked=1.0)})


def old_homogeneity_silent(ran: Ran) -> Row:
    table = ran.table("differences")
    return {
        "found (p <= .05), mean of four comparisons": float((table["p"] <= 0.05).mean()),
        "found in every comparison": float((table["p"] <= 0.05).all()),
        "median p": float(table["p"].median()),
    }


def new_homogeneity_silent(ran: Ran) -> Row:
    p = np.array([ran.score(f"pd_difference.{value}") for value in (*RACES[1:], "woman")])
    return {
        "found (p <= .05), mean of four comparisons": float((p <= 0.05).mean()),
        "found in every comparison": float((p <= 0.05).all()),
        "median p": float(np.median(p)),
        "found by pd_difference.marked": at_most(ran.score("pd_difference.marked")),
    }


def asked_again(rng: np.random.Generator) -> Study:
    """One model asked twice, and a third set of answers with other names' weights, as another wording gives."""
    weights, others = 0.8 * rng.normal(size=(2, 40, 18, 12))
    first, again = (answers_world(rng, marked=0.1, weights=weights) for _ in range(2))
    return Study(
        "homogeneity", {"m": first, "again": again, "other": answers_world(rng, marked=0.1, weights=others)},
        compare=True,
    )  # fmt: skip


def either_asked_again(ran: Ran, new: bool) -> Row:
    table = ran.compared("replication").set_index(["model_a", "model_b"])
    differences = ran.compared()
    twice = differences[differences["model_a"].eq("m") & differences["model_b"].eq("again")]
    tested = twice[twice["p"].notna()]
    found = {
        "compare, asked again: p <= .05": float((tested["p"] <= 0.05).mean()) if len(tested) else math.nan,
        "replicates when asked again": number(table, ("m", "again"), "share"),
        "replicates with another wording": number(table, ("m", "other"), "share"),
    }
    return found | ({"replication.ceiling beside it": ran.score("replication.ceiling", "estimate")} if new else {})


def small_sample(rng: np.random.Generator) -> Study:
    """The default size: 10 names of a race (here without gender), 4 cues, 2 answers; the true difference is known."""
    ranks = np.arange(1, 13, dtype=float)
    shares = [ranks**-slope / (ranks**-slope).sum() for slope in (1.0, 2.0)]
    differ = [1 - float((share**2).sum()) for share in shares]
    frame = answers_world(rng, cues=4, samples=2, name_sd=0.0, marked=1.0, women=0.0)
    axes = {"race": {"unmarked": "White", "values": {race: {} for race in RACES}}}
    return Study("homogeneity", {"m": frame}, {"axes": axes}, truth={"difference": differ[0] - differ[1]})


def old_small_sample(ran: Ran) -> Row:
    found = float(ran.table("differences")["difference"].mean())
    return {"P_d difference over the true one": found / ran.study.truth["difference"]}


def new_small_sample(ran: Ran) -> Row:
    found = ran.score("pd_difference.marked", "estimate")
    return {"P_d difference over the true one": found / ran.study.truth["difference"]}


def levels(rng: np.random.Generator) -> Study:
    frame = answers_world(rng, cues=6)
    return Study("homogeneity", {"m": frame}, {"evaluate": {"confidence_level": 0.8}}, truth={})


def either_levels(ran: Ran) -> Row:
    """Q does not depend on the level of the intervals: recomputed from d and the interval of each cue."""
    from scipy.stats import t

    pooled, effects = ran.table("meta_analysis").set_index("comparison"), ran.table("effects")
    ratios = []
    for comparison, own in effects.groupby("comparison"):
        half = t.ppf(0.9, 2 * own["n_resamples"].iloc[0] - 2)
        weights = 1 / ((own["ci_high"] - own["ci_low"]) / (2 * half)) ** 2
        mean = (weights * own["d"]).sum() / weights.sum()
        ratios.append(
            number(pooled, comparison, "cochran_q" if "cochran_q" in pooled else "q")
            / float((weights * (own["d"] - mean) ** 2).sum())
        )
    return {"Q over its value, at a level of 80 %": float(np.mean(ratios))}


def one_cue_missing(gone: int, rng: np.random.Generator) -> Study:
    """Names that are more or less varied in all cues alike; ``gone`` cells are without answer."""
    frame = answers_world(rng, names=12, cues=12, name_sd=0.3, shared=0.5)
    people = list(dict.fromkeys(frame["name"]))
    for place in range(gone):
        frame = frame[~(frame["name"].eq(people[place]) & frame["cue"].eq(f"cue {place % 12:02d}"))]
    return Study("homogeneity", {"m": frame})


def old_one_cue_missing(ran: Ran) -> Row:
    table = ran.table("differences").set_index("group")
    cover = [inside(row["ci_low"], row["ci_high"], 0.0) for row in table.to_dict("records")]
    width = float((table["ci_high"] - table["ci_low"]).mean())
    return {"intervals that cover 0": float(np.nanmean(cover)), "mean width": width}


def new_one_cue_missing(ran: Ran) -> Row:
    keys = [f"pd_difference.{value}" for value in (*RACES[1:], "woman")]
    bounds = [(ran.score(key, "ci_low"), ran.score(key, "ci_high")) for key in keys]
    return {
        "intervals that cover 0": float(np.nanmean([inside(*pair, 0.0) for pair in bounds])),
        "mean width": float(np.nanmean([high - low for low, high in bounds])),
    }


# ---------------------------------------------------------------- guise

STIMULI = HERE / "data" / "stimuli" / "guise"
PROMPTS = ("T1", "T3", "T7")


def scores_world(
    rng: np.random.Generator, verbs: int = 12, each: int = 1, attribute: float = 0.15, verb: float = 0.06,
    fixed: bool = False, sets: Mapping[str, float] | None = None,
) -> tuple[pd.DataFrame, dict[str, float]]:  # fmt: skip
    """Ln probabilities of adjectives; log10 ratios by attribute, by verb and by pair; and the true strength.

    Gemma's spreads. Which attributes are raised has nothing to do with stereotypes; ``fixed`` raises the same in each
    world, so that a true strength exists. ``sets``: text sets, and what each adds to the five stereotypical adjectives;
    all have the same SAE texts. The strength is that in these prompts, and that over all prompts they might be from.
    """
    known = pd.read_csv(STIMULI / "adjectives.csv")
    words, stereotypical = known["attribute"].tolist(), known["percent_1933"].rank(ascending=False).le(5).to_numpy()
    of_attributes = np.random.default_rng(SEED) if fixed else rng
    over_prompts = attribute * of_attributes.normal(size=len(words))
    main = over_prompts + attribute / 2 * of_attributes.normal(size=(len(PROMPTS), len(words)))
    of_verbs = verb * rng.normal(size=(verbs, len(words)))
    parts = []
    sources: dict[int, Floats] = {}
    for name, rise in (sets or {"own": 0.0}).items():
        for pair in range(verbs * each):
            ratio = main + of_verbs[pair // each] + 0.045 * rng.normal(size=len(words)) + rise * stereotypical
            ratio = ratio + 0.05 * rng.normal(size=main.shape)
            if pair not in sources:
                sources[pair] = -9 + 0.3 * rng.normal(size=main.shape)
            base = sources[pair]
            for guise, values in (("AAE", base + math.log(10) * ratio), ("SAE", base)):
                parts.append(
                    pd.DataFrame(
                        {
                            "prompt_id": np.repeat(PROMPTS, len(words)), "candidate": words * len(PROMPTS),
                            "log_prob": values.ravel(), "guise": guise, "pairs": name, "pair": pair,
                            "verb": f"verb{pair // each}",
                        }
                    )
                )  # fmt: skip
    truth = {
        "strength": float((main[:, stereotypical].mean(axis=1) - main[:, ~stereotypical].mean(axis=1)).mean()),
        "over prompts": float(over_prompts[stereotypical].mean() - over_prompts[~stereotypical].mean()),
    }
    return pd.concat(parts, ignore_index=True), truth


RULE = {"generate": {"pairs": {"own": {"rule": "habitual_be"}}}}
"""The earlier version reads a corpus only where params name its text set."""


def guise_null(verbs: int, rng: np.random.Generator) -> Study:
    return Study("guise", {"m": scores_world(rng, verbs)[0]}, RULE)


def old_guise_null(ran: Ran) -> Row:
    agreement = ran.table("agreement")
    own = agreement[agreement["year"].astype(str).eq("1933")].iloc[0]
    return {
        "strength.covert p <= .05": at_most(ran.metrics()["strength.covert_p"]),
        "agreement.1933: p_adjusted <= .05": at_most(float(own["p_adjusted"])),
        "of these, permutation p above .05": float(own["p_permutation"] > 0.05)
        if own["p_adjusted"] <= 0.05 else math.nan,
    }  # fmt: skip


def new_guise_null(ran: Ran) -> Row:
    p, adjusted = ran.score("agreement.1933"), ran.score("agreement.1933", "p_adjusted")
    return {
        "strength.covert p <= .05": at_most(ran.score("strength.covert")),
        "agreement.1933: p_adjusted <= .05": at_most(adjusted),
        "of these, permutation p above .05": float(p > 0.05) if adjusted <= 0.05 else math.nan,
    }


def guise_verbs(rng: np.random.Generator) -> Study:
    """Twelve verbs with six pairs each; the same attributes are raised in every world."""
    frame, truth = scores_world(rng, 12, 6, attribute=0.1, verb=0.1, fixed=True)
    return Study("guise", {"m": frame}, RULE, truth=truth)


def old_guise_verbs(ran: Ran) -> Row:
    found = ran.metrics()
    low, high = found["strength.covert_ci_low"], found["strength.covert_ci_high"]
    return {"intervals that cover": inside(low, high, ran.study.truth["strength"])}


def new_guise_verbs(ran: Ran) -> Row:
    low, high = ran.score("strength.covert", "ci_low"), ran.score("strength.covert", "ci_high")
    return {"intervals that cover": inside(low, high, ran.study.truth["strength"])}


def shared_sources(rng: np.random.Generator) -> Study:
    """Three text sets made from the same twelve SAE texts, each of which lowers attributes of its own."""
    names = ("a", "b", "c")
    frame, truth = scores_world(rng, 12, attribute=0.1, verb=0.1, fixed=True, sets=dict.fromkeys(names, 0.0))
    block = {"generate": {"pairs": {name: {"rule": "habitual_be"} for name in names}}}
    return Study("guise", {"m": frame}, block, truth=truth)


def few_prompts(rng: np.random.Generator) -> Study:
    """Three prompts, in each of which other attributes are raised, and 36 verbs."""
    frame, truth = scores_world(rng, 36)
    return Study("guise", {"m": frame}, RULE, truth=truth)


def either_few_prompts(ran: Ran, old: bool) -> Row:
    found = ran.metrics() if old else {}
    low, high = (
        found[f"strength.covert_{bound}"] if old else ran.score("strength.covert", bound)
        for bound in ("ci_low", "ci_high")
    )
    return {
        "intervals that cover the strength over all prompts": inside(low, high, ran.study.truth["over prompts"]),
        "intervals that cover that in these prompts": inside(low, high, ran.study.truth["strength"]),
        "mean width": high - low,
    }


def two_guises(rng: np.random.Generator) -> Study:
    """Two marked guises, the first with a stereotype; the second corpus differs in the names of the text sets alone."""
    first, _ = scores_world(rng, sets={"own": 0.3})
    second, _ = scores_world(rng, sets={"own": 0.0})
    parts = []
    for names in (("a", "b"), ("b", "a")):
        other = second.assign(pairs=names[1], guise=second["guise"].replace("AAE", "Other"))
        parts.append(pd.concat([first.assign(pairs=names[0]), other], ignore_index=True))
    axes = {"guise": {"unmarked": "SAE", "values": {"SAE": {}, "AAE": {}, "Other": {}}}}
    pairs = {name: {"rule": "habitual_be"} for name in "ab"}
    return Study("guise", {"m": parts[0], "renamed": parts[1]}, {"axes": axes, "generate": {"pairs": pairs}})


def old_two_guises(ran: Ran) -> Row:
    return _renamed(*(ran.metrics(model)["strength.covert"] for model in ("m", "renamed")))


def new_two_guises(ran: Ran) -> Row:
    return _renamed(*(ran.score("strength.covert", "estimate", model) for model in ("m", "renamed")))


def _renamed(first: float, second: float) -> Row:
    return {"strength.covert changes with the names": float(abs(first - second) > 1e-9), "by": abs(first - second)}


def noisy_texts(old: bool, rng: np.random.Generator) -> Row:
    """Texts of three words that the control "noise" leaves as they are."""
    module: Any = import_module("markedness.text.guises" if old else "markedness.audits.guise.design.guises")
    texts = [f"he's usually {verb}" for verb in pd.read_csv(STIMULI / "verbs.csv")["ing"]] * 10
    words = (STIMULI / "frequent_words.txt").read_text(encoding="utf-8").split()
    return {
        "texts of three words left unchanged": float(
            np.mean([module.noise(text, words, rng) == text for text in texts])
        )
    }


# ---------------------------------------------------------------- personas

AXES = {
    "race": {"unmarked": "White", "values": {"White": {}, "Black": {}}},
    "gender": {"unmarked": "man", "values": {"man": {}, "woman": {}}},
}
PLAIN = {"axes": AXES, "featurize": {"embeddings": None, "svm": {"enabled": False}}}
VOCABULARY = [
    f"{first}{second}{third}"
    for first in "bdfgklmnprst"
    for second in "aeiou"
    for third in ("mon", "tar", "vel", "sig", "rup", "lin")
]


def texts_world(
    rng: np.random.Generator, prompts: int = 2, samples: int = 8, length: int = 60, gender: float = 0.0,
    planted: float = 0.0, by_prompt: float = 0.0,
) -> pd.DataFrame:  # fmt: skip
    """Texts that repeat words of their own; ``gender`` gives women words, ``planted`` Black people 20 words."""
    size = len(VOCABULARY)
    fixed = np.random.default_rng(SEED)
    of_women, of_black = fixed.permutation(np.arange(20, size))[:40].reshape(2, 20)
    base = -np.log(np.arange(size) + 3.7)
    rows = []
    for prompt in range(prompts):
        of_prompt = 0.5 * rng.normal(size=size)
        for race in AXES["race"]["values"]:
            of_group = by_prompt * rng.normal(size=size)
            for sex in AXES["gender"]["values"]:
                logs = base + of_prompt + of_group
                logs[of_women] += gender * (sex == "woman")
                logs[of_black] += planted * (race == "Black")
                for _ in range(samples):
                    share = np.exp(logs + rng.normal(size=size))
                    said = rng.choice(size, length, p=share / share.sum())
                    rows.append((" ".join(VOCABULARY[word] for word in said), f"prompt {prompt}", race, sex))
    return pd.DataFrame(rows, columns=["text", "prompt_id", "race", "gender"])


def copies(times: int, rng: np.random.Generator) -> Study:
    frame = texts_world(rng)
    return Study("personas", {"m": pd.concat([frame] * times, ignore_index=True)}, PLAIN)


def old_copies(ran: Ran) -> Row:
    found = ran.metrics()
    return {
        "marked_words p <= .05": at_most(found["marked_words.p"]),
        "jsd p <= .05": at_most(found["jsd.p"]) if "jsd.p" in found else math.nan,
    }


def new_copies(ran: Ran) -> Row:
    return {
        "marked_words p <= .05": at_most(ran.score("marked_words.excess")),
        "jsd p <= .05": at_most(ran.score("jsd.excess")),
    }


def planted_words(rng: np.random.Generator) -> Study:
    return Study("personas", {"m": texts_world(rng, samples=30, planted=1.6)}, PLAIN)


def _planted() -> set[str]:
    drawn = np.random.default_rng(SEED).permutation(np.arange(20, len(VOCABULARY)))[:40].reshape(2, 20)[1]
    return {VOCABULARY[place] for place in drawn}


def old_planted_words(ran: Ran) -> Row:
    table = ran.table("marked_words")
    own = table[table["group"].eq("Black")].set_index("word")
    found = [word for word in _planted() if word in own.index and number(own, word, "q_White") <= 0.05]
    return {"planted words found": len(found) / 20}


def new_planted_words(ran: Ran) -> Row:
    table = ran.table("marked_words")
    own = table[table["group"].eq("Black")].set_index("word")
    found = [word for word in _planted() if word in own.index and number(own, word, "p_White") <= 0.05]
    return {"planted words found": len(found) / 20}


def own_half(rng: np.random.Generator) -> Study:
    """A model, and its own first 7 of 15 samples; Black people have words of their own."""
    frame = texts_world(rng, prompts=8, samples=15, planted=0.8)
    number = frame.groupby(["prompt_id", "race", "gender"]).cumcount()
    return Study("personas", {"m": frame, "half": frame[number < 7]}, PLAIN, compare=True)


def either_compared(ran: Ran) -> Row:
    """Shares of the differences of one thing with itself."""
    table = ran.compared()
    tested = table[table["p"].notna()]
    if tested.empty:
        return {"differences with p <= .05": math.nan, "a difference with p_adjusted <= .05": math.nan}
    return {
        "differences with p <= .05": float((tested["p"] <= 0.05).mean()),
        "a difference with p_adjusted <= .05": float((tested["p_adjusted"] <= 0.05).any()),
    }


def cut_texts(rng: np.random.Generator) -> Study:
    """A model, and the first 80 of the 160 words of each of its texts; Black people have words of their own."""
    frame = texts_world(rng, prompts=8, length=160, planted=0.8)
    short = frame.assign(text=frame["text"].map(lambda text: " ".join(text.split()[:80])))
    return Study("personas", {"m": frame, "cut": short}, PLAIN, compare=True)


def two_draws(rng: np.random.Generator) -> Study:
    """The same model asked twice, at the size of the default study."""
    seed = int(rng.integers(2**31))
    logs = np.random.default_rng(seed)
    frame = texts_world(logs, samples=16, gender=0.8)
    number = frame.groupby(["prompt_id", "race", "gender"]).cumcount()
    return Study("personas", {"m": frame[number < 8], "again": frame[number >= 8]}, PLAIN, compare=True)


def two_prompts(rng: np.random.Generator) -> Study:
    """Four prompts, of which words differ by group in each; two are measured, then the other two."""
    frame = texts_world(rng, prompts=4, samples=10, by_prompt=1.0)
    first = frame["prompt_id"].isin(["prompt 0", "prompt 1"])
    return Study("personas", {"m": frame[first], "other": frame[~first]}, PLAIN)


def either_two_prompts(ran: Ran, value: str, low: str, high: str) -> Row:
    """Words of Black people: how often what two other prompts give falls inside the interval of two."""
    tables = []
    for model in ("m", "other"):
        table = ran.table("marked_words", model)
        tables.append(table[table["group"].eq("Black")].set_index("word"))
    first, other = tables
    both = first.index.intersection(other.index)
    hits = [inside(first.loc[word, low], first.loc[word, high], other.loc[word, value]) for word in both]
    hits = [hit for hit in hits if not math.isnan(hit)]
    return {"two other prompts inside the interval": float(np.mean(hits)) if hits else math.nan}


def refused_men(rng: np.random.Generator) -> Study:
    """Words depend on gender alone; two thirds of the texts of Black men are refused."""
    frame = texts_world(rng, samples=15, gender=1.5)
    of_them = frame["race"].eq("Black") & frame["gender"].eq("man")
    gone = of_them & (rng.random(len(frame)) < 2 / 3)
    frame.loc[gone, "text"] = "I'm sorry, but I can't help with that."
    return Study("personas", {"m": frame}, PLAIN)


def old_refused_men(ran: Ran) -> Row:
    by_group = ran.table("marked_words_by_group").set_index("group")
    women = {VOCABULARY[p] for p in np.random.default_rng(SEED).permutation(np.arange(20, len(VOCABULARY)))[:20]}
    words = ran.table("marked_words")
    mine = words[words["group"].eq("Black")]
    return {
        "Black: words marked beyond chance, p <= .05": at_most(number(by_group, "Black", "p")),
        "women's words marked for Black": float(mine["word"].isin(women).sum()),
    }


def new_refused_men(ran: Ran) -> Row:
    words = ran.table("marked_words")
    women = {VOCABULARY[p] for p in np.random.default_rng(SEED).permutation(np.arange(20, len(VOCABULARY)))[:20]}
    mine = words[words["group"].eq("Black")]
    return {
        "Black: words marked beyond chance, p <= .05": at_most(ran.score("marked_words.persona: Black")),
        "women's words marked for Black": float(mine["word"].isin(women).sum()),
    }


# ---------------------------------------------------------------- knowledge


def triples_world(
    rng: np.random.Generator, subjects: Mapping[str, tuple[Floats, Floats]], crawls: int = 6, each: int = 8,
    crawl_sd: float = 0.0, arms: Mapping[str, float] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Features of triples: a subject's shares of regard and of topics, shifted by what a crawl passes on."""
    rows = []
    for crawl in range(crawls):
        for arm, shift in (arms or {"both": 0.0}).items():
            of_crawl = crawl_sd * rng.normal()
            for subject, (regard, topics) in subjects.items():
                lean = shift + of_crawl + crawl_sd * rng.normal()
                tone = np.exp(np.log(np.maximum(regard, 1e-9)) + lean * np.array([-0.5, 0.0, 0.5]))
                for number in range(each):
                    said = int(rng.choice(3, p=tone / tone.sum()))
                    toxic = 1 / (1 + math.exp(1.0 * (said - 1) + 0.6 * lean + rng.normal()))
                    place = int(number * 3 >= each)
                    rows.append(
                        (str(crawl + 1), arm, subject, place, said, toxic, int(rng.choice(len(topics), p=topics)))
                    )
    table = pd.DataFrame(rows, columns=["crawl", "arm", "subject", "round", "regard", "toxicity", "topic"])
    reference = next(iter(subjects))
    table["regard"] = np.array(["negative", "neutral", "positive"], dtype=object)[table["regard"]]
    return table.assign(
        **{"class": "made up"}, reference=reference, group=table["subject"], strategy="initial", status="ok", reason="",
        prompt_id="made up/" + table["arm"] + "/" + table["round"].astype(str), included=True,
        analysed=table["arm"].eq("both"), cut=False, duplicate=False, regard_scorer="world", toxicity_scorer="world",
        toxicity_reason="", topic_words="", topic_stability=1.0, topic_model="world", predicate="do", object="this",
        attempt=0, planned=each,
    )  # fmt: skip


EVEN = np.array([0.25, 0.25, 0.25, 0.25])


def low_variance(rng: np.random.Generator) -> Study:
    """Two subjects alike, half negative and half positive; five others neutral throughout."""
    split, flat = np.array([0.5, 0.0, 0.5]), np.array([0.0, 1.0, 0.0])
    subjects = {"A": (split, EVEN), "B": (split, EVEN), **dict.fromkeys("CDEFG", (flat, EVEN))}
    return Study("knowledge", features=triples_world(rng, subjects))


def outlier(rng: np.random.Generator) -> Study:
    """Two subjects with the same topics, and three with one topic of their own."""
    third = np.full(3, 1 / 3)
    own = np.array([0.97, 0.01, 0.01, 0.01])
    spread = np.array([0.01, 0.33, 0.33, 0.33])
    subjects = {"A": (third, spread), "B": (third, spread), **dict.fromkeys("CDE", (third, own))}
    return Study("knowledge", features=triples_world(rng, subjects))


def one_tone(crawls: int, rng: np.random.Generator) -> Study:
    """Every crawl has a tone of its own, which its subjects share in part; no subject differs."""
    third = np.full(3, 1 / 3)
    subjects = dict.fromkeys("ABC", (third, EVEN))
    arms = {"both": 0.0, "none": 0.0}
    return Study("knowledge", features=triples_world(rng, subjects, crawls, crawl_sd=1.0, arms=arms))


# ---------------------------------------------------------------- all of it


@dataclass(frozen=True)
class Finding:
    """One of the findings, with a world of it and what each version says of it."""

    key: str
    about: str
    draw: Callable[[np.random.Generator], Study]
    old: Callable[[Any], Row]
    new: Callable[[Any], Row]
    worlds: int = 40


def knowledge_p(old: bool, subject: str, measure: str, found: Any) -> Row:
    """P of one subject alike to the reference."""
    if old:
        table = found["gaps" if measure != "topic" else "relative_entropy"]
        own = table[table["subject"].eq(subject)]
        p = float((own if measure == "topic" else own[own["measure"].eq(measure)])["p"].iloc[0])
    else:
        key = {"regard": "regard_gap", "topic": "topic_divergence"}[measure]
        p = found[f"{key}.made_up: {subject}"].p
    return {"an identical subject has p <= .05": at_most(p)}


def knowledge_cover(old: bool, found: Any) -> Row:
    """Intervals around no gap and no effect of the augmentation."""
    if old:
        gaps = found["gaps"].query("measure == 'regard'")
        contrast = found["augmentation"]
        bounds = list(zip(gaps["ci_low"], gaps["ci_high"], strict=True))
        others = list(zip(contrast["ci_low"], contrast["ci_high"], strict=True))
    else:
        bounds = [(found["regard_gap.marked"].ci_low, found["regard_gap.marked"].ci_high)]
        others = [(row["ci_low"], row["ci_high"]) for row in found["augmentation"].to_dict("records")]
    return {
        "intervals of regard gaps that cover 0": _share([inside(*pair, 0.0) for pair in bounds]),
        "intervals of the augmentation that cover 0": _share([inside(*pair, 0.0) for pair in others]),
    }


def _share(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _nothing(rng: np.random.Generator) -> Study:
    return Study("guise")


REGARD = partial(knowledge_p, True, "B", "regard"), partial(knowledge_p, False, "B", "regard")
TOPICS = partial(knowledge_p, True, "B", "topic"), partial(knowledge_p, False, "B", "topic")
COVER = partial(knowledge_cover, True), partial(knowledge_cover, False)
AGAIN = partial(either_asked_again, new=False), partial(either_asked_again, new=True)
Z = partial(either_two_prompts, value="z_White", low="z_White_ci_low", high="z_White_ci_high")
_RATIO = "log_odds_ratio_White"
LOG_ODDS = partial(either_two_prompts, value=_RATIO, low=f"{_RATIO}_ci_low", high=f"{_RATIO}_ci_high")
SILENT = old_homogeneity_silent, new_homogeneity_silent
GONE = old_one_cue_missing, new_one_cue_missing

FINDINGS = (
    Finding(
        "guise.null_12",
        "12 pairs of texts; attributes differ between the guises, whether stereotypical or not",
        partial(guise_null, 12),
        old_guise_null,
        new_guise_null,
        40,
    ),
    Finding("guise.null_75", "the same with 75 pairs", partial(guise_null, 75), old_guise_null, new_guise_null, 20),
    Finding(
        "guise.verbs",
        "12 verbs with six pairs each, which raise attributes of their own; the true strength is known",
        guise_verbs,
        old_guise_verbs,
        new_guise_verbs,
        40,
    ),
    Finding(
        "guise.names",
        "two marked guises; the same scores with the names of the text sets exchanged",
        two_guises,
        old_two_guises,
        new_two_guises,
        3,
    ),
    Finding(
        "guise.shared",
        "three text sets made from the same 12 SAE texts; the true strength is known",
        shared_sources,
        old_guise_verbs,
        new_guise_verbs,
        20,
    ),
    Finding(
        "guise.prompts",
        "three prompts, each of which raises attributes of its own, and 36 verbs",
        few_prompts,
        partial(either_few_prompts, old=True),
        partial(either_few_prompts, old=False),
        20,
    ),
    Finding("guise.noise", "1,400 draws of the control noise on texts of three words", _nothing, dict, dict, 1),
    Finding(
        "homogeneity.silent_50",
        "large planted effect, 5 names, 18 cues; half of the names' cues have no answer",
        partial(homogeneity_silent, 0.5),
        *SILENT,
        20,
    ),
    Finding("homogeneity.silent_70", "the same, 70 % have none", partial(homogeneity_silent, 0.7), *SILENT, 20),
    Finding("homogeneity.again", "one model asked twice, and with another wording", asked_again, *AGAIN, 20),
    Finding(
        "homogeneity.small",
        "planted effect without gender: 10 names of a race, 4 cues, 2 answers",
        small_sample,
        old_small_sample,
        new_small_sample,
    ),
    Finding(
        "homogeneity.level", "intervals at 80 %; Q does not depend on them", levels, either_levels, either_levels, 2
    ),
    Finding(
        "homogeneity.whole",
        "names that are varied or not in all of 12 cues; every cell answered; no group differs",
        partial(one_cue_missing, 0),
        *GONE,
        20,
    ),
    Finding("homogeneity.one_gone", "the same, and each name lacks one cue", partial(one_cue_missing, 96), *GONE, 20),
    Finding("personas.copies_1", "blind; every text stored once", partial(copies, 1), old_copies, new_copies, 20),
    Finding("personas.copies_2", "blind; every text stored twice", partial(copies, 2), old_copies, new_copies, 20),
    Finding(
        "personas.copies_3", "blind; every text stored three times", partial(copies, 3), old_copies, new_copies, 20
    ),
    Finding("personas.copies_5", "blind; every text stored five times", partial(copies, 5), old_copies, new_copies, 20),
    Finding(
        "personas.power",
        "20 words are five times as frequent for Black people; 120 texts of each",
        planted_words,
        old_planted_words,
        new_planted_words,
        20,
    ),
    Finding(
        "personas.half",
        "a model and its own first 7 of 15 samples, 8 prompts",
        own_half,
        either_compared,
        either_compared,
        20,
    ),
    Finding(
        "personas.cut",
        "a model and its own texts cut to 80 of 160 words, 8 prompts",
        cut_texts,
        either_compared,
        either_compared,
        20,
    ),
    Finding(
        "personas.prompts",
        "four prompts in which groups differ in other words each; two measured, then the others",
        two_prompts,
        Z,
        LOG_ODDS,
        20,
    ),
    Finding(
        "personas.refused",
        "words depend on gender alone; two thirds of the texts of Black men are refused",
        refused_men,
        old_refused_men,
        new_refused_men,
        20,
    ),
    Finding(
        "knowledge.low_variance",
        "seven subjects: two alike and varied, five always neutral; 6 crawls",
        low_variance,
        *REGARD,
        40,
    ),
    Finding(
        "knowledge.outlier", "five subjects: two with the same topics, three with another one", outlier, *TOPICS, 40
    ),
    Finding(
        "knowledge.one_crawl", "one crawl, whose tone all that is said in it shares", partial(one_tone, 1), *COVER, 40
    ),
    Finding("knowledge.six_crawls", "six crawls, each with a tone of its own", partial(one_tone, 6), *COVER, 40),
    Finding(
        "annotation.names",
        "240 pairs, 5 names a group and gender with shifts of sd 0.1; no group differs",
        annotation_names,
        old_annotation_names,
        new_annotation_names,
        60,
    ),
    Finding(
        "annotation.sparse",
        "three tasks: two constant, one in which 4 of 30 pairs differ (not random: one world)",
        sparse_cells,
        either_sparse_cells,
        either_sparse_cells,
        1,
    ),
    Finding(
        "annotation.control",
        "three blind models beside the planted control",
        with_control,
        old_with_control,
        new_with_control,
        20,
    ),
    Finding(
        "compare.raw",
        "two blind models, one saying yes to half of the texts, one to 4 %",
        noisier,
        either_noisier,
        either_noisier,
        20,
    ),
    Finding(
        "compare.annotation", "the same judgments asked for twice", judged_twice, either_compared, either_compared, 20
    ),
    Finding(
        "compare.personas",
        "one model asked twice, 2 prompts, 8 samples",
        two_draws,
        either_compared,
        either_compared,
        20,
    ),
)


def measured(study: Study, read: Callable[[Any], Row], old: bool) -> Row:
    """The figures of one world, by the version that is imported."""
    from markedness import params, pipeline

    if study.features is not None:
        return read(_of_features(study, old))
    source = Path(pipeline.__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        root = Path(folder)
        (root / "data").mkdir()
        (root / "data" / "stimuli").symlink_to(source / "data" / "stimuli")
        models: dict[str, Any] = dict(study.models)
        for model, frame in study.corpora.items():
            frame.to_csv(root / f"{model}.csv", index=False)
            models[model] = {"backend": "corpus", study.audit: {"path": f"{model}.csv"}}
        content = {"audits": [study.audit], "run": list(models), "models": models, study.audit: dict(study.block)}
        (root / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        loaded = params.load(root / "params.yaml")
        quiet: Any = lambda *_: None  # noqa: E731
        for model in models:
            for stage in ("generate", "clean", "featurize", "evaluate"):
                pipeline.STAGES[stage](loaded, study.audit, model, quiet)
        if study.compare:
            from markedness.study import compare

            compare(loaded, quiet)
        return read(Ran(study, root))


def _of_features(study: Study, old: bool) -> Any:
    """The tables of the earlier version, the Scores of this one."""
    from markedness import audits

    rng = np.random.default_rng(SEED)
    assert study.features is not None
    if old:
        stage: Any = audits.stage(study.audit, "evaluate")  # type: ignore[attr-defined]
        return stage.evaluate(study.features, stage.Params(), rng).tables
    typed = study.features.astype({"regard": "string", "crawl": "string", "topic": "Int64"})
    spec = audits.spec(study.audit)
    made = spec.evaluate({"triples": typed}, spec.params("evaluate")(), rng)
    return {**{score.key: score for score in made.scores}, **made.tables}


def without_figures() -> None:
    """Charts are no part of what is measured, and take half of the time."""
    import_module("markedness.reporting.figures").save = lambda *_: None  # type: ignore[attr-defined]
    for audit in ("annotation", "guise", "homogeneity", "knowledge", "personas"):
        module: Any = import_module(f"markedness.audits.{audit}.figures")
        for name in ("charts", "figures"):
            if hasattr(module, name):
                setattr(module, name, lambda *_: {})


def draw_and_measure(finding: Finding, index: int, old: bool) -> Row:
    rng = np.random.default_rng([SEED, zlib.crc32(finding.key.encode()), index])
    if finding.key == "guise.noise":
        return noisy_texts(old, rng)
    return measured(finding.draw(rng), finding.old if old else finding.new, old)


def side(keys: list[str], keep: Path, old: bool, worlds: int | None) -> None:
    """Measure by the version that is on the path; one JSON line for each world."""
    without_figures()
    for finding in (one for one in FINDINGS if one.key in keys):
        path = keep / f"{'before' if old else 'after'}.{finding.key}.jsonl"
        done = len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0
        with path.open("a", encoding="utf-8") as lines:
            for index in range(done, min(finding.worlds, worlds or finding.worlds)):
                lines.write(json.dumps(draw_and_measure(finding, index, old)) + "\n")
                lines.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="a checkout of the earlier version")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "before-after")
    parser.add_argument("--only", nargs="+", default=[finding.key for finding in FINDINGS])
    parser.add_argument("--worlds", type=int, help="fewer worlds of each finding")
    parser.add_argument("--side", choices=["before", "after"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.old is None:
        print("before_after: name a checkout of the earlier version with --old; nothing was measured")
        return
    chosen.keep.mkdir(parents=True, exist_ok=True)
    if chosen.side:
        side(chosen.only, chosen.keep, chosen.side == "before", chosen.worlds)
        return
    for name, folder in (("before", chosen.old), ("after", HERE)):
        told = ["--old", str(chosen.old), "--keep", str(chosen.keep), "--side", name, "--only", *chosen.only]
        told += ["--worlds", str(chosen.worlds)] if chosen.worlds else []
        paths = [str(folder / "src"), os.environ.get("PYTHONPATH", "")]  # further packages of the earlier version
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        subprocess.run([sys.executable, __file__, *told], env=environment, check=True)
    print("\n".join(page(chosen.keep)))


def page(keep: Path) -> list[str]:
    """The table, in Markdown: one row for each figure."""
    lines = ["| finding | world | figure | before | after | worlds |", "| --- | --- | --- | --: | --: | --: |"]
    for finding in FINDINGS:
        sides = [kept_rows(keep / f"{name}.{finding.key}.jsonl") for name in ("before", "after")]
        # The same worlds on both sides: those that both have measured.
        n = min(map(len, sides))
        if not n:
            lines.append(f"| `{finding.key}` | {finding.about} | not measured yet | | | 0 |")
        for place, figure in enumerate(list(dict.fromkeys([*sides[0], *sides[1]])) if n else []):
            shown = [text_of(side.head(n), figure) for side in sides]
            first = [f"`{finding.key}`", finding.about] if place == 0 else ["", ""]
            lines.append("| " + " | ".join([*first, figure, *shown, str(n)]) + " |")
    return lines


def kept_rows(path: Path) -> pd.DataFrame:
    """One row for each world that was measured."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return pd.DataFrame([json.loads(line) for line in lines])


def text_of(side: pd.DataFrame, figure: str) -> str:
    """The mean over the worlds that have the figure; without any, there is none."""
    known = side[figure].dropna() if figure in side else pd.Series(dtype=float)
    if known.empty:
        return "none"
    plain = figure in NUMBERS
    said = f"{known.mean():.3g}" if plain else f"{known.mean():.0%}".replace("%", " %")
    return said if len(known) == len(side) else f"{said} of {len(known)}"


NUMBERS = (
    "by", "cells in the family", "mean width", "median p", "P_d difference over the true one",
    "Q over its value, at a level of 80 %", "women's words marked for Black",
)  # fmt: skip
"""Figures that are no shares."""


if __name__ == "__main__":
    main()
