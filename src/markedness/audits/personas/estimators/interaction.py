"""Words of a crossed group that its values one by one do not explain: "Black woman" beyond Black plus woman.

Shapes: u units, C combinations, G crossed groups, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.marked_words import of_axis
from markedness.audits.personas.estimators.units import Units
from markedness.audits.personas.language.groups import Group, Grouping
from markedness.stats.inference import ALPHA, Draws, Exchange, Floats, Null, draws_needed, exchange_test

_MIN_UNITS = 5
"""Texts that a word must occur in."""
_MAX_WORDS = 2000
"""The most frequent words are tested."""
_LEAST_ASKED = 0.75
"""Share of the combinations that have texts for the prompt of a unit, on average. Where prompts are each about some
groups only, the additive model fits the words of a cell nearly whole, and what its fit leaves is no measure of chance:
with 8 of 15 groups to a prompt 16 % of 304 blind worlds were found, with 4 of 15 85 %, with 12 of 15 none of 60."""
_TOP = 3
"""Largest statistics of a draw that are kept."""


@dataclass(frozen=True)
class Interactions:
    """How far the words of crossed groups depart from an additive model of their log-odds."""

    groups: Sequence[Group]
    words: NDArray[np.int64]
    """Places in the vocabulary, (V,)."""
    counts: Floats
    """Occurrences, (G, V)."""
    expected: Floats
    """Occurrences that prompt and single values let expect, (G, V)."""
    z: Floats
    """Signed roots, about N(0, 1) where the model holds, (G, V)."""
    null: Null
    """Of the largest z."""
    p: Floats
    """Of each word, corrected over all words and groups by max-T, (G, V)."""
    n_words: float
    """Words and groups with p <= 0.05."""
    n_by_chance: float
    """Their mean under the null."""


def untested(units: Units) -> str:
    """Why crossed groups cannot be tested; "" where they can."""
    if fixed_by := units.fixed_by:
        return f"no {fixed_by} has texts of two groups"
    asked = np.zeros((int(units.prompt.max()) + 1, int(units.combination.max()) + 1), dtype=bool)
    asked[units.prompt, units.combination] = True
    if asked[:, asked.any(axis=0)].mean(axis=1)[units.prompt].mean() < _LEAST_ASKED:
        return "most prompts (or what authors answer together) have texts of some groups only; ask each about all"
    return ""


def interactions(corpus: Corpus, n_draws: int, family: int, rng: np.random.Generator) -> Interactions | None:
    """Score tests of each word in each crossed group of marked values; None where there is nothing to test.

    Notes
    -----
    Under the null the log-odds of a word are a sum over prompt and axes. The model is fitted by iterative
    proportional fitting; z is the signed root 2 (sqrt(c/f + 3/8) - sqrt(m/f + 3/8)) / sqrt(g) of the count c against
    the fitted m, with f the variance of the units' residuals over their mean (texts repeat their words) and g the
    share of the variance that fitting leaves. Its largest value is compared with those of standardised residuals
    exchanged among the units of a prompt, over the root of the share of their variance that fitting leaves: with 30
    authors of six groups 12 % of 296 blind worlds were found without it. Where the texts of a combination repeat
    their words more than others, f is larger there, and residuals are exchanged over its root. Only words that a group
    has more of than expected count. Source: Freedman & Lane 1983, Journal of Business & Economic Statistics
    1(4):292-298.
    """
    groups = of_axis(corpus.grouping, None)
    units = corpus.units
    counts = (scipy.sparse.diags_array(1 / corpus.copies) @ corpus.even_counts).tocsr()  # each different text once
    in_units = np.bincount(counts.indices, minlength=counts.shape[1])
    words = np.flatnonzero((in_units >= _MIN_UNITS) & (corpus.counts.words != ""))
    if not groups or not len(words) or n_draws < 1:
        return None
    words = np.sort(words[np.argsort(-in_units[words], kind="stable")[:_MAX_WORDS]])
    x = np.asarray(counts[:, words].todense(), dtype=np.float64)
    lengths = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    rate = _additive(corpus.grouping, units.combination, units.prompt, x, lengths)
    residual = x - rate
    fits = np.array([corpus.grouping.fits(group.fixed) for group in groups])
    mean_by_combination = _summed(rate, units.combination, corpus.grouping.n_combinations)
    slope = _unexplained(corpus.grouping, fits, mean_by_combination)
    observed, expected = (fits @ _summed(part, units.combination, fits.shape[1]) for part in (x, rate))
    with np.errstate(divide="ignore", invalid="ignore"):
        dispersion = np.square(residual).sum(axis=0) / rate.sum(axis=0)
        relative = _relative_dispersion(np.square(residual) / dispersion, rate, units.combination, fits.shape[1])
        left = np.einsum("vgc,cv,c->gv", np.square(slope), mean_by_combination, relative) / expected
    z = _signed_root(observed - expected, expected, dispersion, left)
    z = np.where(np.isfinite(z) & (left > 1e-9), z, np.nan)
    if not np.isfinite(z).any():
        return None
    draws = _largest(_Residuals.of(corpus, rate, residual, lengths, relative), slope, (expected, dispersion, left), rng)
    most = min(n_draws, draws_needed(family))
    null = exchange_test(
        float(np.nanmax(z)), draws.reader(lambda made: made[:, 0]), most, False, units.exchange().smallest_p
    )
    made = draws.first(null.n)
    largest = np.sort(made[:, 0])
    p = (1 + len(largest) - np.searchsorted(largest, z)) / (1 + len(largest))
    p = np.where(np.isnan(z), np.nan, p)
    chance = (made > np.quantile(largest, 1 - ALPHA)).sum(axis=1).mean()
    return Interactions(groups, words, observed, expected, z, null, p, float((p <= ALPHA).sum()), float(chance))


def _relative_dispersion(squares: Floats, rate: Floats, combination: NDArray[np.int64], n: int) -> Floats:
    """How much more than on average the words of a combination's texts vary, (C,); 1 on average over occurrences.

    ``squares``: squared residuals over the dispersion of their word, (u, V). Texts of one group may repeat their words
    more than those of another: then the same departure is less surprising there.
    """
    varied, expected = (np.bincount(combination, np.nan_to_num(part).sum(axis=1), n) for part in (squares, rate))
    made = np.divide(varied, expected, out=np.ones(n), where=(expected > 0) & (varied > 0))
    return np.asarray(made * expected.sum() / max(float(made @ expected), 1e-12))


def _signed_root(departure: Floats, expected: Floats, dispersion: Floats, left: Floats) -> Floats:
    """2 (sqrt(c/f + 3/8) - sqrt(m/f + 3/8)) / sqrt(g), c = m + departure."""
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.sqrt(np.maximum(expected + departure, 0) / dispersion + 0.375)
        return np.asarray((count - np.sqrt(expected / dispersion + 0.375)) * (2 / np.sqrt(left)))


def _summed(values: Floats, code: NDArray[np.int64], n: int) -> Floats:
    indicator = scipy.sparse.csr_matrix((np.ones(len(code)), (code, np.arange(len(code)))), (n, len(code)))
    return np.asarray(indicator @ values)


def _additive(
    grouping: Grouping, combination: NDArray[np.int64], prompt: NDArray[np.int64], x: Floats, lengths: Floats
) -> Floats:
    """Fitted mean count of each unit, (u, V): length x prompt x values, by iterative proportional fitting."""
    codes, cells = np.unique(np.column_stack([prompt, combination]), axis=0, return_inverse=True)
    cells = cells.reshape(-1)
    observed = _summed(x, cells, len(codes))
    weight = np.bincount(cells, lengths, len(codes))
    levels = [np.unique(codes[:, 0], return_inverse=True)[1].reshape(-1)]
    levels += [grouping.split(axis)[0][codes[:, 1]] for axis in grouping.axes]
    fitted = weight[:, None] * (observed.sum(axis=0) / max(weight.sum(), 1e-9))
    margins = [_summed(observed, level, int(level.max()) + 1) for level in levels]
    for _ in range(50):
        before = fitted
        for level, margin in zip(levels, margins, strict=True):
            now = _summed(fitted, level, len(margin))
            fitted = fitted * np.divide(margin, now, out=np.zeros_like(margin), where=now > 0)[level]
        if np.abs(fitted - before).max() < 1e-6 * max(1.0, float(fitted.max())):
            break
    share = np.divide(lengths, weight[cells], out=np.zeros_like(lengths), where=weight[cells] > 0)
    return np.asarray(fitted[cells] * share[:, None])


def _unexplained(grouping: Grouping, fits: Floats, means: Floats) -> Floats:
    """R (I - W A (A' W A)^-1 A'), (V, G, C): what a residual of a combination adds to a group's departure.

    A: dummies of the values, W: fitted means of the combinations, R: the combinations of each group.
    """
    columns = [np.ones(fits.shape[1])]
    for axis in grouping.axes:
        value = grouping.split(axis)[0]
        columns += [(value == level).astype(float) for level in range(1, int(value.max()) + 1)]
    dummies = np.column_stack(columns)
    weights = means.T  # (V, C)
    inner = np.einsum("ca,vc,cb->vab", dummies, weights, dummies, optimize=True)
    ridge = 1e-8 * np.maximum(np.trace(inner, axis1=1, axis2=2), 1e-9)
    inner += ridge[:, None, None] * np.eye(dummies.shape[1])
    weighted = np.einsum("gc,vc,ca->vga", fits, weights, dummies, optimize=True)
    return np.asarray(fits - np.linalg.solve(inner, weighted.transpose(0, 2, 1)).transpose(0, 2, 1) @ dummies.T)


@dataclass(frozen=True)
class _Residuals:
    """Standardised residuals of the units, exchanged within prompt."""

    exchange: Exchange
    """The labels are the units themselves."""
    cells: NDArray[np.int64]
    """Prompt x combination of each unit, (u,)."""
    combination: NDArray[np.int64]
    """Of each cell."""
    values: NDArray[np.float32]
    """(x - m) / sqrt(m r), (u, V), by u over the degrees of freedom left; r: relative dispersion of the combination."""
    root_rate: NDArray[np.float32]
    """Square root of the fitted rate of each cell times r, (cells, V)."""
    root_length: NDArray[np.float32]
    """(u,)."""

    @classmethod
    def of(cls, corpus: Corpus, rate: Floats, residual: Floats, lengths: Floats, relative: Floats) -> _Residuals:
        units = corpus.units
        keys, cells = np.unique(np.column_stack([units.prompt, units.combination]), axis=0, return_inverse=True)
        cells = cells.reshape(-1)
        weight = np.bincount(cells, lengths, len(keys))
        root_rate = np.sqrt(_summed(rate, cells, len(keys)) / np.maximum(weight, 1e-9)[:, None])
        root_rate *= np.sqrt(relative)[keys[:, 1]][:, None]
        values = np.divide(residual, np.sqrt(rate), out=np.zeros_like(residual), where=rate > 1e-12)
        values /= np.sqrt(relative)[units.combination][:, None]
        fitted = [np.unique(units.prompt), *(np.unique(corpus.grouping.split(a)[0])[1:] for a in corpus.grouping.axes)]
        values *= np.sqrt(len(units) / max(1, len(units) - sum(map(len, fitted))))
        everyone = np.arange(len(units))
        return cls(
            Exchange(everyone, units.block), cells, keys[:, 1], values.astype(np.float32),
            root_rate.astype(np.float32), np.sqrt(lengths).astype(np.float32),
        )  # fmt: skip

    def draw(self, rng: np.random.Generator, n_combinations: int) -> Floats:
        """Sums of exchanged residuals, put back to the size of their new cell, (combinations, V)."""
        moved = self.exchange.draw(1, rng)[0]
        n = len(self.cells)
        indicator = scipy.sparse.csr_matrix((self.root_length, (self.cells, moved)), (len(self.combination), n))
        return _summed(np.asarray(indicator @ self.values) * self.root_rate, self.combination, n_combinations)


def _largest(
    residuals: _Residuals, slope: Floats, model: tuple[Floats, Floats, Floats], rng: np.random.Generator
) -> Draws:
    """The `_TOP` largest signed roots of each exchange of residuals within prompt, in falling order.

    ``model``: expected counts, dispersion and share of variance left, as `_signed_root` takes them.
    """
    n_words, n_groups, n_combinations = slope.shape
    kept = min(_TOP, n_words * n_groups)

    def make(n: int) -> Floats:
        rows = []
        for _ in range(n):
            sums = residuals.draw(rng, n_combinations)
            z = np.nan_to_num(_signed_root(np.einsum("vgc,cv->gv", slope, sums), *model), nan=-np.inf).ravel()
            rows.append(-np.sort(-np.partition(z, -kept)[-kept:]))
        return np.array(rows)

    return Draws(make)
