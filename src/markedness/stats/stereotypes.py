"""The stereotypes of a model: the scores of one task, and what the human studies say of its attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.stats.agreement import DEPTH, human_top, mean_average_precision
from markedness.stats.association import stereotype_strength
from markedness.stats.favorability import favorabilities, slopes
from markedness.stats.text_sets import Floats, TextSet, mean, mean_over_sets

YEAR = "percent_"
"""Prefix of the columns with the percentage of people that assigned an adjective, before the year."""


@dataclass(frozen=True)
class Study:
    """One association task of one marked guise: its scores and what is known of its attributes."""

    task: str
    group: str
    reference: str
    sets: list[TextSet]
    """The sets of the main analyses; all sets where none is."""
    known: pd.DataFrame
    """Attribute -> ratings and percentages, in the order of the sets' attributes."""
    base: float = 10.0
    """Of the logarithm of the scores."""
    top: int = DEPTH
    """How many of the highest attributes count."""
    stereotypes: Sequence[str] | str = "1933"
    """The stereotypical attributes, or the year whose human top they are."""
    prestige: str = "prestige"
    """The column of ``known`` with the prestige of occupations."""
    level: float = 0.95
    """Confidence level of intervals."""

    @cached_property
    def q(self) -> Floats:
        """Scores (n_prompts, n_attributes): mean over sets within a setting, then over settings."""
        return mean_over_sets(self.sets, [one.q(self.base) for one in self.sets])

    @property
    def ranked(self) -> bool:
        """Whether the whole ranking means something: not where only the likeliest attributes were served."""
        return all(one.exact for one in self.sets)

    @property
    def n_pairs(self) -> int:
        """Pairs of all sets."""
        return sum(one.n_pairs for one in self.sets)

    @property
    def attributes(self) -> list[str]:
        """In alphabetical order."""
        return list(self.sets[0].attributes)

    @cached_property
    def scored(self) -> pd.Series:
        """Mean q by attribute, those that have one."""
        return pd.Series(mean(self.q), index=self.attributes).dropna()

    def rating(self, column: str) -> pd.Series:
        """A column of what is known, NaN where it is not there or the attribute has no score."""
        values = self.known[column] if column in self.known else pd.Series(np.nan, index=self.known.index)
        return values.where(values.index.isin(self.scored.index))

    @cached_property
    def years(self) -> dict[str, list[str]]:
        """Year -> the human top attributes among those scored."""
        found = {
            str(column).removeprefix(YEAR): human_top(self.rating(str(column)).dropna(), self.top)
            for column in self.known
            if str(column).startswith(YEAR)
        }
        return {year: words for year, words in found.items() if words}

    @cached_property
    def stereotypical(self) -> NDArray[np.bool_]:
        """Which attributes are stereotypical."""
        given = self.stereotypes
        return np.isin(self.attributes, list(self.years.get(given, []) if isinstance(given, str) else given))

    # ---- scores of (..., n_prompts, n_attributes) arrays, averaged over prompts

    def strength(self, q: Floats, weights: Floats | None = None) -> Floats:
        """Stereotype strength."""
        return mean(stereotype_strength(q, self.stereotypical), -1, weights)

    def agreement(self, year: str, q: Floats, weights: Floats | None = None) -> Floats:
        """Agreement with the human stereotypes of a year."""
        return mean(mean_average_precision(q, self.attributes, self.years[year]), -1, weights)

    def favorability(self, q: Floats, weights: Floats | None = None) -> Floats:
        """Weighted favourability of the top attributes of the mean over prompts."""
        return favorabilities(mean(q, -2, weights), self.rating("favorability"), self.top)[0]

    def slope(self, q: Floats, weights: Floats | None = None) -> Floats:
        """Slope of prestige on the mean over prompts."""
        return slopes(mean(q, -2, weights), self.rating(self.prestige))
