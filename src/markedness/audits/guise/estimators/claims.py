"""What is claimed of association tasks, and how each claim is tested by the one inference engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from markedness.audits.guise import SPEC
from markedness.audits.guise.estimators import nulls
from markedness.audits.guise.estimators.sampling import (
    OCCUPATION,
    OCCUPATIONAL_GROUP,
    PROMPT,
    VERB,
    Sample,
    ScoreFunction,
)
from markedness.audits.guise.estimators.stereotypes import AssociationTask
from markedness.results import NAN, Score
from markedness.stats.inference import ALPHA, Null, Spread, claim, detectable

FAMILY = len(SPEC.headline)
ITEMS = {"traits": "covert", "overt": "overt"}
"""Association task -> item of its Scores."""


@dataclass(frozen=True)
class Claim:
    """A score of one association task, before its error is known."""

    key: str
    task: AssociationTask
    score: ScoreFunction
    null: Callable[[np.random.Generator, int], Null]
    positive: str
    """What a positive value means, after the name of the guise."""
    method: str
    """What was exchanged."""
    centre: float = 0.0
    """The score where the claim is false."""
    factors: tuple[str, ...] = (VERB, PROMPT)
    tails: int = 2
    negative: str = ""
    worse: int = 1
    jumps: bool = False
    """Whether the score follows ranks, so that leaving out one cluster does not tell its error."""
    sampled: ScoreFunction | None = None
    """The same number as ``score`` in a form whose error over the sampled units is that of a mean."""
    df: float | None = None
    """Degrees of freedom of the exchange; by default the attributes less two."""
    needs: str = ""
    """A factor without which there is no test and no interval: the exchange takes what lies in one cluster as free."""
    power: Callable[[int], float] | None = None
    """Headline Scores -> the smallest effect that the exchange finds, where the sd of its null does not tell it."""

    def spread(self, estimate: float) -> Spread:
        """Sampling error of the score."""
        sample = Sample(self.task.sets, self.task.params.base, self.task.occupational_groups)
        if self.jumps:
            return sample.half_sample_spread(self.score, estimate, *self.factors)
        return sample.spread(self.sampled or self.score, *self.factors)

    def against_interval(self, made: Score) -> str:
        """A sentence where the interval leaves out the centre and p does not reject it; "" elsewhere."""
        if not made.p > ALPHA or made.ci_low <= self.centre <= made.ci_high or not made.has_interval:
            return ""
        sampled = " and ".join(f"{name}s" for name in made.clusters)
        return (
            f"The interval, without {self.centre:.3g}, is about other {sampled} and these attributes; p asks whether "
            "attributes at random would do the same, and they would."
        )

    @property
    def tested(self) -> str:
        """What was exchanged and what was resampled."""
        sampled = " and ".join(f"{name}s" for name in self.factors)
        if self.jumps:
            return (
                f"{self.method}, t over {sampled}, and the share of halves of them on the other side of chance: "
                "p is the largest; interval by leaving out halves of them"
            )
        return f"{self.method}, and t over {sampled}: p is the largest; interval by leaving out each in turn"

    @property
    def untested(self) -> str:
        """Why there is no p and no interval where the factor that it needs has too few clusters."""
        return f"no p and no interval: {self.task.task} of one {self.needs} resemble each other, and these are few"

    def made(self, rng: np.random.Generator) -> Score:
        """The Score: its p the largest over what was exchanged and over what was sampled."""
        task, (n, n_missing) = self.task, self.task.counts
        estimate = float(self.score(task.log_ratio))
        found = self.spread(estimate)
        column = Sample(task.sets, task.params.base).missing_column if VERB in self.factors else ""
        untested = bool(self.needs) and self.needs in found.fixed
        if untested:
            found = Spread(fixed=(self.needs,), fewest=found.fewest)
        null = Null() if untested else self.null(rng, FAMILY)
        by_sample = found.p(estimate, self.centre)
        if self.tails == 1 and estimate > self.centre:
            by_sample /= 2
        elif self.tails == 1:
            by_sample = 1 - by_sample / 2
        null = replace(null, p=float(np.fmax(null.p, by_sample)) if np.isfinite(null.p) else NAN)
        made = claim(
            self.key, estimate, found, null, family=FAMILY, confidence_level=task.params.confidence_level,
            method=self.untested if untested else self.tested, missing_column=column,
            unit="scores", positive=f"{task.group} {self.positive} than {task.reference}",
            negative=f"{task.group} {self.negative} than {task.reference}" if self.negative else "", worse=self.worse,
            comparable=True, group=task.group, reference=task.reference, n=n, n_missing=n_missing,
        )  # fmt: skip
        if column:
            return made
        if self.jumps and null.low <= estimate <= null.high:
            # Chance explains the estimate, so its error is skewed: the interval is not narrower than chance, +- sd / 2.
            low, high = self.centre - null.sd / 2, self.centre + null.sd / 2
            made = replace(made, ci_low=min(made.ci_low, low), ci_high=max(made.ci_high, high))
        df = len(task.mean_log_ratio) - 2 if self.df is None else self.df
        by_sd = detectable(null.sd, df, 2 / self.tails * ALPHA / FAMILY)
        by_null = self.power(FAMILY) if self.power else by_sd
        caveat = f"{made.caveat} {self.against_interval(made)}".strip()
        return replace(made, detectable=float(np.fmax(by_null, made.detectable)), caveat=caveat)


def claims(tasks: Sequence[AssociationTask]) -> Iterator[Claim]:
    """What is claimed of association tasks whose probabilities are the model's own, the headline first."""
    for task in [task for task in tasks if task.exact]:
        if item := ITEMS.get(task.task):
            sampled, how = ((VERB, PROMPT), "") if item == "covert" else ((PROMPT,), "named outright ")
            if task.stereotypical.any() and not task.stereotypical.all():
                yield Claim(
                    f"strength.{item}", task, task.strength, partial(nulls.strength_null, task),
                    f"{how}makes stereotypical attributes more likely",
                    "which attributes are stereotypical exchanged among all and among those of like favourability",
                    factors=sampled, negative=f"{how}makes stereotypical attributes less likely",
                    df=nulls.strength_df(task),
                )  # fmt: skip
            if (ratings := task.rating("favorability")).notna().any():
                yield Claim(
                    f"favorability.{item}", task, task.favorability, partial(nulls.favorability_null, task),
                    f"{how}brings more favourable attributes to mind", "ratings exchanged among attributes",
                    centre=float(ratings.mean()), factors=sampled, jumps=True,
                    negative=f"{how}brings less favourable attributes to mind", worse=-1,
                )  # fmt: skip
            for year in task.years:
                yield Claim(
                    f"agreement.{year}" if item == "covert" else f"agreement_{item}.{year}", task,
                    partial(task.agreement, year), partial(nulls.agreement_null, task, year),
                    f"{how}calls up the attributes that people named in {year} more",
                    "names of attributes exchanged, one-sided",
                    centre=task.chance(year), factors=sampled, tails=1, jumps=True,
                    power=partial(nulls.agreement_detectable, task, year),
                )  # fmt: skip
        elif task.task == "occupations" and task.prestige.notna().any():
            rated = task.only(task.prestige.notna())
            of_occupations = OCCUPATION if rated.occupational_groups is None else OCCUPATIONAL_GROUP
            yield Claim(
                "prestige.slope", rated, rated.slope, partial(nulls.slope_null, rated),
                "is associated with occupations of higher prestige", "prestige exchanged among occupations",
                factors=(VERB, PROMPT, of_occupations), needs=OCCUPATIONAL_GROUP, sampled=rated.slope_of_association,
                negative="is associated with occupations of lower prestige", worse=-1,
            )  # fmt: skip
