"""Decisions between single words, calibrated by a neutral context, and the test of two detrimental counts.

Source: Hofmann et al. (2024), Nature 633, 147-154, "Criminality analysis"; Supplementary Information, Tables 3,
9-12, 17-19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from markedness.audits.guise.estimators.text_sets import Names, TextSet

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
    name: str = ""
    group: str = ""
    reference: str = ""
    clusters: Names | None = None
    """The verb or source text of each pair, of the guise; None where the data do not say."""
    clusters_reference: Names | None = None

    def only(self, prompt: int) -> Verdicts:
        """The decisions of one prompt, by its place."""
        chosen = slice(prompt, prompt + 1)
        margins = (self.margin[:, chosen], self.margin_reference[:, chosen])
        return replace(self, prompts=self.prompts[chosen], margin=margins[0], margin_reference=margins[1])

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
    """Detrimental and all decisions of both guises."""

    count: float
    n: float
    count_reference: float
    n_reference: float

    @property
    def difference(self) -> float:
        """Rate of the guise minus rate of its reference; NaN where one has no decision."""
        if not (self.n and self.n_reference):
            return float("nan")
        return self.count / self.n - self.count_reference / self.n_reference


def verdicts(texts: TextSet, detrimental: ArrayLike, rule: Rule = "ratio") -> Verdicts:
    """Decide for every text and prompt, see `margins`."""
    shape = texts.log_p.shape
    flat = (-1, shape[2])
    own, others = (
        margins(log_p.reshape(flat), texts.neutral_log_prob.reshape(flat), detrimental, rule).reshape(shape[:2])
        for log_p in (texts.log_p, texts.log_p_reference)
    )
    return Verdicts(
        texts.setting, texts.prompts, own, others, name=texts.name, clusters=texts.clusters,
        clusters_reference=texts.clusters_reference,
    )  # fmt: skip


def count(decided: Sequence[Verdicts]) -> Counts:
    """The decisions of all text sets."""
    totals = np.zeros(4)
    for one in decided:
        for side, values in enumerate((one.detrimental, one.detrimental_reference)):
            totals[2 * side : 2 * side + 2] += np.nansum(values), np.isfinite(values).sum()
    return Counts(*(float(total) for total in totals))
