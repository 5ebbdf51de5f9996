"""The stereotypes of a model: the scores of one association task, and the human ratings of its attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.guise.estimators.agreement import expected_agreement, human_top, mean_average_precision
from markedness.audits.guise.estimators.association import stereotype_strength
from markedness.audits.guise.estimators.favorability import favorabilities, slopes
from markedness.audits.guise.estimators.params import Params
from markedness.audits.guise.estimators.text_sets import Floats, TextSet, mean, mean_over_sets, text_sets
from markedness.records import NOT_SHOWN, SHOWN_IN_PART, AuditError

YEAR = "percent_"
"""Prefix of the columns with the percentage of people who assigned an adjective, before the year."""


@dataclass(frozen=True)
class AssociationTask:
    """One association task of one marked guise: its scores and the ratings of its attributes."""

    task: str
    group: str
    reference: str
    sets: list[TextSet]
    ratings: pd.DataFrame
    """Attribute -> ratings and percentages, in the order of the sets' attributes."""
    params: Params
    shown: pd.Series | None = None
    """Attribute -> share of its scores whose probabilities a server showed in both guises; None: of all 1."""

    @cached_property
    def log_ratio(self) -> Floats:
        """Log ratios (n_prompts, n_attributes): mean over sets within a setting, then over settings."""
        return self._log_ratio(self.sets)

    @cached_property
    def log_ratio_by_setting(self) -> dict[str, Floats]:
        """Setting -> log ratios (n_prompts, n_attributes)."""
        settings = dict.fromkeys(one.setting for one in self.sets)
        return {setting: self._log_ratio([one for one in self.sets if one.setting == setting]) for setting in settings}

    def _log_ratio(self, sets: list[TextSet]) -> Floats:
        return mean_over_sets(sets, [one.log_ratio(self.params.base) for one in sets])

    @property
    def exact(self) -> bool:
        """Whether the whole ranking is meaningful: not if only the most likely attributes were served."""
        return all(one.exact for one in self.sets)

    @property
    def imputed(self) -> bool:
        """Whether a probability of any attribute is imputed: all others are divided by a sum that it is in."""
        return self.shown is not None and bool(self.shown.lt(1).any())

    def share_shown(self, attribute: str) -> float:
        """Share of the scores of an attribute in which no probability is imputed, in [0, 1]."""
        return 1.0 if self.shown is None else float(self.shown.get(attribute, 1.0))

    @property
    def n_pairs(self) -> int:
        """Pairs of all sets."""
        return sum(one.n_pairs for one in self.sets)

    @property
    def counts(self) -> tuple[int, int]:
        """Scores that are there on both sides, and scores that are not."""
        there = sum(int((np.isfinite(one.log_p) & np.isfinite(one.log_p_reference)).sum()) for one in self.sets)
        return there, sum(one.log_p.size for one in self.sets) - there

    @property
    def prompts(self) -> list[str]:
        """In the order of the log ratios."""
        return list(self.sets[0].prompts)

    @property
    def attributes(self) -> list[str]:
        """In alphabetical order."""
        return list(self.sets[0].attributes)

    @cached_property
    def mean_log_ratio(self) -> pd.Series:
        """Mean over prompts by attribute, without attributes that have none."""
        return pd.Series(mean(self.log_ratio), index=self.attributes).dropna()

    def rating(self, column: str) -> pd.Series:
        """One column of the ratings; NaN if it does not exist or the attribute has no score."""
        values = self.ratings[column] if column in self.ratings else pd.Series(np.nan, index=self.ratings.index)
        return values.where(values.index.isin(self.mean_log_ratio.index))

    @property
    def tokens(self) -> dict[str, float]:
        """Attribute -> its tokens; those of several are scored by the chain rule. Empty where the data do not say."""
        known = self.rating("attribute_tokens").dropna()
        return {str(name): float(n) for name, n in known.items()}

    @property
    def human_rank(self) -> pd.Series:
        """Rank of each attribute by the percentages of the latest year, 1 for the highest; unnamed ones come last."""
        latest = max(self.years, default=None)
        if latest is None:
            return pd.Series(dtype=float)
        percent = self.rating(YEAR + latest).fillna(0.0)
        return percent[percent.index.isin(self.mean_log_ratio.index)].rank(ascending=False, method="first")

    @property
    def prestige(self) -> pd.Series:
        """Prestige by attribute."""
        return self.rating(self.params.prestige)

    @property
    def occupational_groups(self) -> NDArray[np.object_] | None:
        """Shape (attributes,): the group of each occupation, itself where it has none; None without such ratings."""
        if (groups := self.ratings.get("soc_major_group")) is None or groups.isna().all():
            return None
        known = groups.notna()
        return np.where(known, "group " + groups.fillna(0).astype(int).astype(str), groups.index.astype(str))

    @cached_property
    def years(self) -> dict[str, list[str]]:
        """Year -> the human top attributes among those scored."""
        found = {
            str(column).removeprefix(YEAR): human_top(self.rating(str(column)).dropna(), self.params.top)
            for column in self.ratings
            if str(column).startswith(YEAR)
        }
        return {year: words for year, words in found.items() if words}

    @cached_property
    def stereotypical(self) -> NDArray[np.bool_]:
        """Which attributes are stereotypical."""
        words = self.params.stereotypes or self.years.get(self.params.stereotype_year, [])
        return np.isin(self.attributes, list(words))

    def only(self, chosen: pd.Series) -> AssociationTask:
        """The task with some attributes."""
        kept = chosen.reindex(self.attributes).to_numpy(dtype=bool)
        return replace(self, sets=[one.only(kept) for one in self.sets], ratings=self.ratings[kept])

    # ---- scores of log ratios (..., n_prompts, n_attributes), averaged over prompts

    def strength(self, log_ratio: Floats) -> Floats:
        """Stereotype strength."""
        return mean(stereotype_strength(log_ratio, self.stereotypical), -1)

    def agreement(self, year: str, log_ratio: Floats) -> Floats:
        """Agreement with the human stereotypes of a year."""
        return mean(mean_average_precision(log_ratio, self.attributes, self.years[year]), -1)

    def chance(self, year: str) -> float:
        """Agreement of a random order with the human stereotypes of a year."""
        return expected_agreement(len(self.mean_log_ratio), len(self.years[year]))

    def favorability(self, log_ratio: Floats) -> Floats:
        """Weighted favourability of the top attributes of the mean over prompts."""
        return favorabilities(mean(log_ratio, -2), self.rating("favorability"), self.params.top)[0]

    def slope(self, log_ratio: Floats) -> Floats:
        """Slope of prestige on the mean over prompts."""
        return slopes(mean(log_ratio, -2), self.prestige)

    def slope_of_association(self, log_ratio: Floats) -> Floats:
        """Slope of the mean over prompts on prestige, in units of `slope`: both have the covariance as numerator.

        Its denominator does not depend on the verbs, so that it is a mean over them and its error that of a mean.
        """
        observed = mean(self.log_ratio, -2)
        used = np.isfinite(observed) & np.isfinite(self.prestige)
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.var(np.asarray(self.prestige, dtype=float)[used]) / np.var(observed[used])
        return np.asarray(slopes(np.asarray(self.prestige, dtype=float), mean(log_ratio, -2)) * scale)

    def attribute(self, name: str, log_ratio: Floats) -> Floats:
        """Log ratio of one attribute."""
        return mean(log_ratio[..., self.attributes.index(name)], -1)


def marked_groups(scored: pd.DataFrame, params: Params) -> list[str]:
    """The marked guises: that of the headline first, then in the order in which they were asked."""
    groups = scored["group"].cat.categories if isinstance(scored["group"].dtype, pd.CategoricalDtype) else ()
    there = set(scored["group"].unique())
    ordered = [str(group) for group in (*groups, *scored["group"].unique()) if group and group in there]
    if params.marked and params.marked not in ordered:
        raise AuditError(
            f"guise.evaluate.marked: '{params.marked}' is not a marked guise of the study; known: {', '.join(ordered)}"
        )
    return list(dict.fromkeys([params.marked, *ordered] if params.marked else ordered))


def main_rows(rows: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Rows of the text sets that the main analyses read, and the words for the groups."""
    if params.main:
        return rows[rows["text_set"].isin([*params.main, "overt"])]
    return rows[~rows["control"].astype(bool)]


def imputed(rows: pd.DataFrame) -> pd.Series[bool]:
    """Which rows have a value that no server showed."""
    return rows["estimator"].isin((NOT_SHOWN, SHOWN_IN_PART))


def scored_or_imputed(rows: pd.DataFrame) -> pd.Series[bool]:
    """Which rows have a value, or none because the tokens that a server shows leave nothing for the word."""
    return rows[["log_prob", "log_prob_reference"]].notna().any(axis=1) | rows["estimator"].eq(NOT_SHOWN)


def ratings(attributes: pd.DataFrame, task: str) -> pd.DataFrame:
    """The ratings of one task, indexed by attribute."""
    return attributes[attributes["task"].eq(task)].drop(columns="task").set_index("attribute")


def association_tasks(rows: pd.DataFrame, attributes: pd.DataFrame, params: Params) -> list[AssociationTask]:
    """The association tasks of one marked guise, traits first.

    Parameters
    ----------
    rows
        Scores of this guise, of the text sets that are to be analysed.
    attributes
        Task and attribute -> ratings.
    params
        As of evaluate.
    """
    made = []
    of_tasks = rows[rows["kind"].eq("association")]
    for task, part in of_tasks.groupby("task", sort=False, observed=True):
        sets = text_sets(part)
        rated = ratings(attributes, str(task)).reindex(list(sets[0].attributes))
        group, reference = str(part["group"].iloc[0]), str(part["reference"].iloc[0])
        there = part[scored_or_imputed(part)]
        shown = (~imputed(there)).groupby(there["attribute"].astype(str)).mean()
        made.append(AssociationTask(str(task), group, reference, sets, rated, params, shown))
    return sorted(made, key=lambda one: {"traits": 0, "overt": 1}.get(one.task, 2))
