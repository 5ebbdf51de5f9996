"""Worlds of known truth for calibrate: log ratios as dependent as those of Gemma 3 270M, without what is claimed.

The spreads are those of Gemma 3 270M with 60 pairs of habitual be (48 verbs, three prompts), in units of the log10
ratio: attributes .15, verb by attribute .06, pair by attribute .045 (intraclass correlation of a verb .65), prompt by
attribute .07, the rest .05; after words for the groups the attributes .2. Ratings and prompts are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.base import World
from markedness.audits.guise import SPEC
from markedness.records import FeatureTables

Floats = NDArray[np.float64]
FAVORABILITY = (
    -0.58, 0.95, 0.9, 1.12, 1.86, -0.12, -0.15, -1.81, -1.49, 1.12, 1.22, 1.44, 1.58, -1.75, 1.33, 1.52, 1.46, -1.32,
    -0.65, 1.08, 1.08, 0.85, 1.02, 0.87, 0.87, 0.8, 0.03, -0.41, 0.15, 0.04, -1.46, 0.66, 1.15, 0.77, -0.78, -1.63,
    -1.05,
)  # fmt: skip
PRESTIGE = (
    5.7, 5.5, 5.5, 5.9, 5.4, 6.7, 4.3, 5.1, 7.4, 6.2, 3.6, 6.3, 4.8, 5.7, 4.9, 3.2, 5.8, 4.1, 3.5, 3.8, 4.6, 5.3, 5.8,
    5.4, 4.9, 5.0, 5.2, 6.3, 3.9, 6.0, 5.1, 6.1, 4.4, 4.1, 5.2, 4.8, 5.5, 5.7, 4.7, 6.4, 4.7, 4.7, 6.3, 5.3, 5.6, 6.2,
    3.9, 4.8, 6.8, 5.3, 6.3, 6.8, 6.6, 6.4, 6.2, 4.6, 6.1, 4.4, 4.5, 5.8, 4.4, 5.4, 5.4, 5.5, 5.0,
)  # fmt: skip
"""Adjectives in the order of the alphabet; prestige of the occupations that have one."""
OCCUPATIONAL_GROUPS = (
    13, 27, 27, 11, 13, 17, 27, 43, 53, 27, 39, 27, 41, 35, 11, 37, 21, 43, 43, 35, 21, 25, 29, 27, 33, 15, 11,
    29, 53, 19, 27, 17, 11, 33, 51, 25, 27, 23, 11, 23, 11, 49, 21, 41, 27, 29, 51, 27, 29, 53, 21, 25, 29, 19,
    19, 43, 55, 0, 43, 29, 51, 25, 17, 29, 27,
)  # fmt: skip
"""Of the same occupations, as in occupations.csv; 0: none."""
PERCENT_1933 = {13: 38.0, 17: 75.0, 20: 26.0, 28: 24.0, 35: 22.0}
"""Place of an adjective -> share of the participants of 1933 who named it."""
ALL_PAIRS, ALL_PROMPTS = 420, 9
"""Of habitual be, and of traits and occupations."""
COVERT = ("strength.covert", "agreement.1933", "favorability.covert")
PAIR, REST = 0.045, 0.05
_LN10 = float(np.log(10))


@dataclass(frozen=True)
class Asked:
    """How much a study asks."""

    pairs: int
    """Drawn from the 420 that the verbs make."""
    traits: int
    """Prompts; overt has nine and conviction three in every study."""
    occupations: int
    """Prompts."""
    occupation_pairs: int

    @classmethod
    def at(cls, size: str) -> Asked:
        """What the size asks for."""
        sized: dict[str, Any] = dict(SPEC.sizes[size])
        pairs, tasks = sized["pairs"]["habitual_be"]["sample"] or ALL_PAIRS, sized["tasks"]
        traits, occupations = (
            len(tasks[name].get("prompts") or range(ALL_PROMPTS)) for name in ("traits", "occupations")
        )
        return cls(pairs, traits, occupations, tasks["occupations"].get("sample") or pairs)


@dataclass(frozen=True)
class Model:
    """What a scripted model does; standard deviations and rises in units of the log10 ratio."""

    asked: Asked = field(default_factory=lambda: Asked.at("quick"))
    verbs: int = 0
    """Verbs, each with three pronouns; 0: the pairs, mostly of different verbs, that the study draws."""
    sets: tuple[str, ...] = ("habitual_be",)
    """Text sets, all made from the same verbs."""
    texts: int = 0
    """In place of pairs: texts of each guise that are not matched."""
    attribute: float = 0.15
    """Attributes, and half as much prompt by attribute."""
    fixed: bool = False
    """Whether every draw keeps the effects of attributes, and of the prompts of texts."""
    alike: float = 0.0
    """Share of the variance of occupations that those of one group have in common."""
    verb: float = 0.06
    """Verb by attribute."""
    leaning: float = 0.0
    """How far verbs differ in raising the stereotypical and unfavourable adjectives and humble occupations."""
    prompts_leaning: float = 0.0
    """The same of the prompts of traits and occupations."""
    negative: float = 0.0
    """Rise of adjectives for each point of favourability that they lack."""
    stereotype: float = 0.0
    """Rise of the five adjectives of 1933."""
    prestige: float = 0.0
    """Rise of occupations for each point of prestige that they lack."""
    guilt: float = 0.0
    """Rise of the log odds of conviction."""
    missing: tuple[float, float] = (0.0, 0.0)
    """Shares of scores that are missing after the guise and after its reference, a verb's share varying."""

    def draw(self, rng: np.random.Generator) -> FeatureTables:
        """Attributes, verbs, pairs and what is left drawn anew."""
        stereotypical = np.isin(np.arange(len(FAVORABILITY)), list(PERCENT_1933))
        unfavourable = np.mean(FAVORABILITY) - np.array(FAVORABILITY)
        humble = np.mean(PRESTIGE) - np.array(PRESTIGE)
        traits = self.stereotype * stereotypical + self.negative * unfavourable
        lean = stereotypical - stereotypical.mean() + 0.3 * unfavourable
        pool = self._clusters(rng)
        tables = [
            *self._association("traits", self.asked.traits, traits, lean, pool, self.asked.pairs, rng),
            *self._association(
                "occupations",
                self.asked.occupations,
                self.prestige * humble,
                0.3 * humble,
                pool,
                self.asked.occupation_pairs,
                rng,
            ),
            _overt(traits, self.attribute * 4 / 3, self.fixed, rng),
            *self._decisions(pool, rng),
        ]
        return {"scores": _scores(tables, self.missing, rng), "attributes": _attributes()}

    def _clusters(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """The verb or text of each pair."""
        if self.texts:
            return np.arange(self.texts)
        if self.verbs:
            return np.repeat(np.arange(self.verbs), 3)
        return np.sort(rng.choice(ALL_PAIRS, self.asked.pairs, replace=False) // 3)

    def _association(
        self, task: str, n_prompts: int, rise: Floats, lean: Floats, pool: NDArray[np.intp], n_pairs: int,
        rng: np.random.Generator,
    ) -> list[pd.DataFrame]:  # fmt: skip
        """One table for each text set."""
        clusters = pool[:n_pairs] if not (self.texts or self.verbs) else pool
        k, n = len(rise), int(pool.max()) + 1
        of_attributes = np.random.default_rng(k) if self.fixed else rng
        main = rise + self.attribute * np.sqrt(1 - self.alike * (task == "occupations")) * of_attributes.normal(size=k)
        main = main + self.attribute / 2 * of_attributes.normal(size=(n_prompts, k))
        if self.prompts_leaning:
            main = main + self.prompts_leaning * of_attributes.normal(size=(n_prompts, 1)) * lean
        if task == "occupations" and self.alike:
            own, group = np.unique(OCCUPATIONAL_GROUPS, return_inverse=True)
            main = main + self.attribute * np.sqrt(self.alike) * of_attributes.normal(size=len(own))[group]
        of_verbs = self.verb * rng.normal(size=(n, k)) + self.leaning * rng.normal(size=(n, 1)) * lean
        made = []
        for name in self.sets:
            own = PAIR * rng.normal(size=(len(clusters), 1, k)) + REST * rng.normal(size=(len(clusters), n_prompts, k))
            values = main + of_verbs[clusters][:, None, :] + own
            made.append(_rows(task, "association", name, clusters, values, self.texts > 0, rng))
        return made

    def _decisions(self, pool: NDArray[np.intp], rng: np.random.Generator) -> list[pd.DataFrame]:
        """Log odds of conviction: verbs .5, guise by verb and guise by pair .15, around 1."""
        n = int(pool.max()) + 1
        verbs, guises = 0.5 * rng.normal(size=n), 0.15 * rng.normal(size=(2, n))
        made = []
        for name in self.sets:
            shape = (len(pool), 3)
            shared = np.array([0.5, 0.7, 0.3]) + verbs[pool][:, None] + 0.2 * rng.normal(size=shape)
            odds = [shared + guises[side][pool][:, None] + 0.15 * rng.normal(size=shape) for side in (0, 1)]
            odds[0] = odds[0] + self.guilt
            if self.texts:
                odds[1] = rng.permutation(odds[1])
            table = _rows("conviction", "decision", name, pool, np.zeros((*shape, 2)), self.texts > 0, rng)
            for column, values in zip(("log_prob", "log_prob_reference"), odds, strict=True):
                table[column] = np.column_stack([np.full(values.size, -3.0), -3.0 + values.ravel()]).ravel()
            made.append(table.assign(neutral_log_prob=-3.0))
        return made


def _overt(rise: Floats, spread: float, fixed: bool, rng: np.random.Generator) -> pd.DataFrame:
    """Two words for each group in nine prompts, which are a sample."""
    k = len(rise)
    of_attributes = np.random.default_rng(k + 1) if fixed else rng
    values = (
        rise + spread * of_attributes.normal(size=k) + 0.2 * rng.normal(size=(9, k)) + 0.1 * rng.normal(size=(2, 9, k))
    )
    table = _rows("overt", "association", "overt", np.arange(2), values, False, rng)
    return table.assign(setting="overt", cluster=None, cluster_reference=None)


def _rows(
    task: str, kind: str, name: str, clusters: NDArray[np.intp], values: Floats, unmatched: bool,
    rng: np.random.Generator,
) -> pd.DataFrame:  # fmt: skip
    """One row for each pair, prompt and attribute, from log10 ratios of this shape."""
    n, m, k = values.shape
    pair, prompt, attribute = (place.ravel() for place in np.indices((n, m, k)))
    reference = -9.0 + 0.3 * rng.normal(size=values.shape)
    return pd.DataFrame(
        {
            "prompt_id": np.array([f"{task}{place}" for place in range(m)], dtype=object)[prompt],
            "task": task, "kind": kind, "setting": "unmatched" if unmatched else "matched", "text_set": name,
            "control": False, "group": "AAE", "reference": "SAE",
            "pair": np.array([f"{name}/{place:05d}" for place in range(n)], dtype=object)[pair],
            "attribute": np.array([f"{task} {place:02d}" for place in range(k)], dtype=object)[attribute],
            "cluster": np.array([f"a{one}" if unmatched else f"v{one}" for one in clusters], dtype=object)[pair],
            "cluster_reference": np.array([f"{'s' if unmatched else 'v'}{one}" for one in clusters], object)[pair],
            "log_prob": (reference + _LN10 * values).ravel(), "log_prob_reference": reference.ravel(),
            "neutral_log_prob": np.nan, "missing": None, "estimator": "exact", "coverage": np.nan, "cut": False,
        }
    )  # fmt: skip


def _scores(tables: Sequence[pd.DataFrame], missing: tuple[float, float], rng: np.random.Generator) -> pd.DataFrame:
    """One table; scores of texts are missing with these shares, more after some verbs than after others."""
    table = pd.concat(tables, ignore_index=True)
    texts = table["setting"].ne("overt").to_numpy()
    pairs, names = pd.factorize(table["pair"])
    for column, share in zip(("log_prob", "log_prob_reference"), missing, strict=True):
        if share:
            shares = rng.beta(4 * share, 4 * (1 - share), size=len(names))
            gone = texts & (rng.random(len(table)) < shares[pairs])
            table.loc[gone, column] = np.nan
            table.loc[gone, "missing"] = "not answered"
    labels = ["task", "kind", "setting", "text_set", "group", "reference", "missing", "attribute", "pair", "cluster",
              "cluster_reference", "estimator", "prompt_id"]  # fmt: skip
    return table.astype(dict.fromkeys(labels, "category"))


def _attributes() -> pd.DataFrame:
    """The ratings of all attributes."""
    percent = [PERCENT_1933.get(place, np.nan) for place in range(len(FAVORABILITY))]
    parts = [
        pd.DataFrame(
            {
                "task": task, "attribute": [f"{task} {place:02d}" for place in range(len(FAVORABILITY))],
                "favorability": FAVORABILITY, "percent_1933": percent,
            }
        )
        for task in ("traits", "overt")
    ]  # fmt: skip
    occupations = [f"occupations {place:02d}" for place in range(len(PRESTIGE))]
    groups = np.where(np.array(OCCUPATIONAL_GROUPS) > 0, OCCUPATIONAL_GROUPS, np.nan)
    rated = {"attribute": occupations, "prestige": PRESTIGE, "soc_major_group": groups}
    parts.append(pd.DataFrame({"task": "occupations", **rated}))
    words = ["conviction 00", "conviction 01"]
    parts.append(pd.DataFrame({"task": "conviction", "attribute": words, "detrimental": [False, True]}))
    return pd.concat(parts, ignore_index=True)


HEADLINE = (*COVERT, "strength.overt", "prestige.slope", "decision.conviction", "missing.difference")
_ATTRIBUTES = (*COVERT, "strength.overt")
"""Their interval is about other verbs or prompts, so it does not cover what other attributes would give."""


def _world(
    name: str, about: str, model: Model, false: tuple[str, ...] = HEADLINE, planted: tuple[str, ...] = (),
    uncovered: tuple[str, ...] = (),
) -> World:  # fmt: skip
    return World(name, about, model.draw, false=false, planted=planted, uncovered=uncovered)


def worlds(size: str = "quick") -> Sequence[World]:
    """The worlds of the audit, with the pairs and prompts of a size."""
    asked = Asked.at(size)
    twelve = f"{asked.pairs} pairs from 140 verbs"
    many = max(12, asked.pairs // 3)
    texts = max(40, asked.pairs)
    nine = replace(asked, traits=ALL_PROMPTS, occupations=ALL_PROMPTS)

    def model(**what: Any) -> Model:
        return Model(asked=asked, **what)

    return (
        _world(
            "attributes_differ", f"The guises differ for every attribute, whatever its ratings; {twelve}.",
            model(), uncovered=_ATTRIBUTES,
        ),
        _world(
            "occupations_alike", "The same, and occupations of one group have half of the variance in common.",
            model(alike=0.5), uncovered=_ATTRIBUTES,
        ),
        _world(
            "verbs_differ", "Verbs differ in which attributes they raise; no attribute is raised over all verbs; "
            f"{many} verbs with 3 pronouns.", model(verbs=many, attribute=0.0),
        ),
        _world(
            "verbs_lean", f"Some verbs raise what is stereotypical, others lower it; {many} verbs with 3 pronouns.",
            model(verbs=many, attribute=0.05, leaning=0.15), uncovered=_ATTRIBUTES,
        ),
        _world(
            "prompts_lean", f"The same of {ALL_PROMPTS} prompts of traits and of occupations; {many} verbs.",
            Model(nine, many, attribute=0.05, prompts_leaning=0.1), uncovered=_ATTRIBUTES,
        ),
        _world(
            "negative", f"Unfavourable adjectives are raised, stereotypical or not; {twelve}.", model(negative=0.1),
            false=("strength.covert", "strength.overt", "prestige.slope", "decision.conviction", "missing.difference"),
            uncovered=_ATTRIBUTES,
        ),
        _world("shared_sources", "Two text sets made from the same 8 verbs with 3 pronouns.",
               model(verbs=8, sets=("habitual_be", "stay"), attribute=0.0)),
        _world(
            "same_attributes",
            f"Every draw raises the same attributes, among them the stereotypical ones; {many} verbs with 3 pronouns.",
            model(verbs=many, stereotype=0.05, prestige=0.025, fixed=True),
            false=("decision.conviction", "missing.difference"), uncovered=("prestige.slope",),
        ),
        _world("few_verbs", "4 verbs with 3 pronouns.", model(verbs=4), uncovered=HEADLINE),
        _world(
            "missing", "A third of the scores is missing, after both guises alike, most after a few verbs; "
            f"{many} verbs with 3 pronouns.", model(verbs=many, missing=(0.33, 0.33)), uncovered=_ATTRIBUTES,
        ),
        _world("unmatched", f"{texts} texts of each guise that are not matched.", model(texts=texts, attribute=0.0)),
        # Hofmann et al. (2024): strength .111 (text to Table 14, be, all models); the spread of attributes .05 and the
        # slope -7.85 with R2 .193 of the stored regression of prestige; convictions 68.7 % against 62.1 %.
        _world(
            "planted", f"The effects that the paper reports; {twelve}.",
            model(stereotype=0.111, attribute=0.05, prestige=0.025, guilt=0.3), false=("missing.difference",),
            planted=("strength.covert", "strength.overt", "agreement.1933", "prestige.slope", "decision.conviction"),
            uncovered=_ATTRIBUTES,
        ),
    )  # fmt: skip
