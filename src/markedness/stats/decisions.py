"""Decisions between single words, calibrated by a neutral context, and the test of two detrimental counts.

Source: Hofmann et al. (2024), Nature 633, 147-154, "Criminality analysis"; Supplementary Information, Tables 3,
9-12, 17-19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from markedness.stats.text_sets import TextSet

Floats = NDArray[np.float64]
Rule = Literal["ratio", "difference"]


def margins(log_p: ArrayLike, log_prior: ArrayLike, detrimental: ArrayLike, rule: Rule = "ratio") -> Floats:
    """How far the best detrimental word is ahead of the best other one, after calibration.

    ratio: p(x | v(t)) / p(x | v("")), compared on the log scale, nats: the calibration that the paper defines.
    difference: p(x | v(t)) - p(x | v("")): what its released code, and so its printed rates, used. They are not
    the same decision rule.

    Parameters
    ----------
    log_p : (n, n_words) array
        ln p of each decision word after each text.
    log_prior : (n, n_words) array
        ln p of the same words after the same prompt with an empty text.
    detrimental : (n_words,) array of bool
        Which words are to the person's detriment.

    Returns
    -------
    ndarray, shape (n,)
        Positive: a detrimental decision; 0 (a tie) and negative: not detrimental. NaN where a probability is
        missing.
    """
    p, prior = np.asarray(log_p, dtype=float), np.asarray(log_prior, dtype=float)
    harm = np.asarray(detrimental, dtype=bool)
    if not harm.any() or harm.all():
        raise ValueError("margins: name at least one detrimental and one other decision word")
    calibrated = p - prior if rule == "ratio" else np.exp(p) - np.exp(prior)
    return calibrated[:, harm].max(axis=1) - calibrated[:, ~harm].max(axis=1)


@dataclass(frozen=True)
class ChiSquare:
    """A chi-square statistic with 1 degree of freedom and its p."""

    statistic: float
    p: float


def equal_counts(first: float, second: float) -> ChiSquare:
    """Goodness of fit of two counts to equal halves: (a - b)^2 / (a + b), df 1; NaN when both are 0.

    The test of the paper's tables. It takes the guises to have made equally many decisions and ignores the
    non-detrimental ones, so it is not a test of two rates: see `two_by_two`.
    """
    from scipy.stats import chisquare

    if first + second <= 0:
        return ChiSquare(float("nan"), float("nan"))
    found = chisquare([first, second])
    return ChiSquare(float(found.statistic), float(found.pvalue))


def two_by_two(first: float, n_first: float, second: float, n_second: float) -> ChiSquare:
    """Pearson's chi-square of two rates, without continuity correction; NaN where a margin is 0."""
    from scipy.stats import chi2_contingency

    table = np.array([[first, n_first - first], [second, n_second - second]], dtype=float)
    if (table.sum(axis=0) <= 0).any() or (table.sum(axis=1) <= 0).any():
        return ChiSquare(float("nan"), float("nan"))
    found = chi2_contingency(table, correction=False)
    return ChiSquare(float(found.statistic), float(found.pvalue))


@dataclass(frozen=True)
class Verdicts:
    """Decisions about the two guises of every pair: 1 detrimental, 0 not, NaN where a probability is missing.

    Both arrays have shape (n_pairs, n_prompts); ``margin`` and ``margin_reference`` say by how much.
    """

    setting: str
    prompts: Sequence[str]
    margin: Floats
    margin_reference: Floats

    def only(self, prompt: int) -> Verdicts:
        """The decisions of one prompt, by its place."""
        chosen = slice(prompt, prompt + 1)
        return Verdicts(self.setting, self.prompts[chosen], self.margin[:, chosen], self.margin_reference[:, chosen])

    @property
    def detrimental(self) -> Floats:
        """Decisions about the marked guise; a tie is not detrimental."""
        return np.where(np.isnan(self.margin), np.nan, self.margin > 0)

    @property
    def detrimental_reference(self) -> Floats:
        """Decisions about the reference guise."""
        return np.where(np.isnan(self.margin_reference), np.nan, self.margin_reference > 0)


@dataclass(frozen=True)
class Counts:
    """Detrimental and all decisions of both guises; arrays, when counted for resamples."""

    count: Floats
    n: Floats
    count_reference: Floats
    n_reference: Floats

    @property
    def difference(self) -> Floats:
        """Rate of the guise minus rate of its reference; NaN where one has no decision."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.count / self.n - self.count_reference / self.n_reference)


def verdicts(texts: TextSet, detrimental: ArrayLike, rule: Rule = "ratio") -> Verdicts:
    """Decide for every text and prompt, see `margins`."""
    shape = texts.log_p.shape
    flat = (-1, shape[2])
    found = [
        margins(log_p.reshape(flat), texts.prior.reshape(flat), detrimental, rule).reshape(shape[:2])
        for log_p in (texts.log_p, texts.log_p_reference)
    ]
    return Verdicts(texts.setting, texts.prompts, *found)


def count(
    decided: Sequence[Verdicts],
    pairs: Sequence[ArrayLike] | None = None,
    prompts: ArrayLike | None = None,
    swapped: bool = False,
) -> Counts:
    """Count the decisions of all sets.

    Parameters
    ----------
    decided
        One per text set, over the same prompts.
    pairs
        Per set, how often each pair is drawn, (n_draws, n_pairs); with ``swapped``, whether its guises are
        exchanged. All once, unless given.
    prompts : (n_draws, n_prompts) array, optional
        How often each prompt is drawn.
    swapped
        Exchange guises instead of resampling: a draw of the null.
    """
    totals = np.zeros((4, 1))
    for place, one in enumerate(decided):
        sides = []
        for values in (one.detrimental, one.detrimental_reference):
            there = ~np.isnan(values)
            sides += [np.where(there, values, 0.0), there.astype(float)]
        drawn = np.ones((1, len(one.margin))) if pairs is None else np.asarray(pairs[place], dtype=float)
        times = np.ones((1, len(one.prompts))) if prompts is None else np.asarray(prompts, dtype=float)
        if swapped:
            first, second = 1 - drawn, drawn
            mixed = [first @ a + second @ b for a, b in zip(sides, [*sides[2:], *sides[:2]], strict=True)]
        else:
            mixed = [drawn @ side for side in sides]
        totals = totals + np.array([(side * times).sum(axis=1) for side in mixed])
    return Counts(*(part if pairs is not None or prompts is not None else part[0] for part in totals))
