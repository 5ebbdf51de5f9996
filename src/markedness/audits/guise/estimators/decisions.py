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

from markedness.audits.guise.estimators.text_sets import TextSet

Floats = NDArray[np.float64]
Rule = Literal["ratio", "difference"]


def margins(log_p: ArrayLike, neutral_log_prob: ArrayLike, detrimental: ArrayLike, rule: Rule = "ratio") -> Floats:
    """Calibrated score of the best detrimental word minus that of the best other word.

    ratio: p(x | v(t)) / p(x | v("")), compared on the log scale, nats: the calibration that the paper defines.
    difference: p(x | v(t)) - p(x | v("")): the calibration of its released code, and therefore of its printed rates.
    The two rules can decide differently.

    Parameters
    ----------
    log_p : (n, n_words) array
        ln p of each decision word after each text.
    neutral_log_prob : (n, n_words) array
        ln p of the same words after the same prompt with an empty text.
    detrimental : (n_words,) array of bool
        Which words are detrimental to the person.

    Returns
    -------
    ndarray, shape (n,)
        Positive: a detrimental decision; 0 (a tie) and negative: not detrimental. NaN where a probability is
        missing.
    """
    p, neutral = np.asarray(log_p, dtype=float), np.asarray(neutral_log_prob, dtype=float)
    harm = np.asarray(detrimental, dtype=bool)
    if not harm.any() or harm.all():
        raise ValueError("margins: name at least one detrimental and one other decision word")
    calibrated: Floats = p - neutral if rule == "ratio" else np.exp(p) - np.exp(neutral)
    return np.asarray(calibrated[:, harm].max(axis=1) - calibrated[:, ~harm].max(axis=1))


@dataclass(frozen=True)
class ChiSquare:
    """A chi-square statistic with 1 degree of freedom and its p."""

    statistic: float
    p: float


def published_chi_square(first: float, second: float) -> ChiSquare:
    """Goodness of fit of two counts to equal halves: (a - b)^2 / (a + b), df 1; NaN when both are 0.

    The test of the paper's tables. It assumes equally many decisions for both guises and ignores the non-detrimental
    ones, so it is not a test of two rates: see `two_by_two`.
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
        margins(log_p.reshape(flat), texts.neutral_log_prob.reshape(flat), detrimental, rule).reshape(shape[:2])
        for log_p in (texts.log_p, texts.log_p_reference)
    ]
    return Verdicts(texts.setting, texts.prompts, *found)


def count(decided: Sequence[Verdicts]) -> Counts:
    """The decisions of all text sets, which have the same prompts; arrays of shape ()."""
    pairs = [np.ones((1, len(one.margin))) for one in decided]
    totals = _totals(decided, pairs, np.ones((1, len(decided[0].prompts))))
    return Counts(*(part[0] for part in totals))


def count_resampled(decided: Sequence[Verdicts], pairs: Sequence[ArrayLike], prompts: ArrayLike) -> Counts:
    """The decisions of resamples.

    Parameters
    ----------
    decided
        One per text set, over the same prompts.
    pairs
        Per text set, how often each pair is drawn, (n_draws, n_pairs).
    prompts : (n_draws, n_prompts) array
        How often each prompt is drawn.

    Returns
    -------
    Counts
        Arrays of shape (n_draws,).
    """
    return Counts(
        *_totals(decided, [np.asarray(drawn, dtype=float) for drawn in pairs], np.asarray(prompts, dtype=float))
    )


def count_swapped(decided: Sequence[Verdicts], flips: Sequence[ArrayLike]) -> Counts:
    """The decisions with the guises of the flagged pairs exchanged: draws of the null.

    Parameters
    ----------
    decided
        One per text set, over the same prompts.
    flips
        Per text set, whether the guises of each pair are exchanged, (n_draws, n_pairs).

    Returns
    -------
    Counts
        Arrays of shape (n_draws,).
    """
    moved = [np.asarray(flip, dtype=float) for flip in flips]
    prompts = np.ones((1, len(decided[0].prompts)))
    stay = _totals(decided, [1 - flip for flip in moved], prompts)
    exchanged = _totals(decided, moved, prompts)
    return Counts(*(stay + exchanged[[2, 3, 0, 1]]))


def _totals(decided: Sequence[Verdicts], pairs: Sequence[Floats], prompts: Floats) -> Floats:
    """Weighted counts (detrimental, all, and both of the reference) of shape (4, n_draws), over all text sets."""
    totals = np.zeros((4, 1))
    for one, drawn in zip(decided, pairs, strict=True):
        sides: list[Floats] = []
        for values in (one.detrimental, one.detrimental_reference):
            there = ~np.isnan(values)
            sides += [np.where(there, values, 0.0), there.astype(float)]
        totals = totals + np.array([((drawn @ side) * prompts).sum(axis=1) for side in sides])
    return totals
