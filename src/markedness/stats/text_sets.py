"""Texts in two guises under one task: ln p by pair, prompt and attribute, resampled by pair and by prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.stats.association import association, log_mean_exp
from markedness.stats.resampling import multinomial_weights

Floats = NDArray[np.float64]
MIN_PAIRS = 5
"""Fewest pairs for a null of exchanged guises: 2^5 ways."""


@dataclass(frozen=True)
class TextSet:
    """One set of text pairs: ln p after the marked guise and after its reference."""

    name: str
    setting: str
    """matched, unmatched or overt."""
    control: bool
    prompts: Sequence[str]
    attributes: Sequence[str]
    """In alphabetical order."""
    log_p: Floats
    """Shape (n_pairs, n_prompts, n_attributes), nats; NaN where missing."""
    log_p_reference: Floats
    """The same of the reference guise."""
    prior: Floats
    """ln p in the neutral context, of the same shape; NaN where none was asked for."""
    exact: bool = True
    """Whether the probabilities are the model's own; else they are estimated from the likeliest tokens."""

    @property
    def matched(self) -> bool:
        """Whether scores are taken pair by pair; estimated probabilities are pooled, as the paper does for GPT-4."""
        return self.setting != "unmatched" and self.exact

    @property
    def n_pairs(self) -> int:
        """Pairs, or the texts of the larger of two sets."""
        return len(self.log_p)

    def q(self, base: float = 10.0, weights: ArrayLike | None = None) -> Floats:
        """Association scores (n_prompts, n_attributes); with weights (n, n_pairs) one set of them per row."""
        return association(self.log_p, self.log_p_reference, self.matched, base, weights)

    def q_swapped(self, flips: NDArray[np.bool_], base: float = 10.0) -> Floats:
        """Association scores with the guises of flagged pairs exchanged: what they are without any difference.

        Parameters
        ----------
        flips : (n_draws, n_pairs) array of bool
            A pair is exchanged as a whole, in all prompts and for all attributes, because these share its texts.

        Returns
        -------
        ndarray, shape (n_draws, n_prompts, n_attributes)
        """
        moved = flips.astype(float)
        if not self.matched:
            both = np.concatenate([self.log_p, self.log_p_reference])
            first, second = np.hstack([1 - moved, moved]), np.hstack([moved, 1 - moved])
            return (log_mean_exp(both, first) - log_mean_exp(both, second)) / np.log(base)
        difference = self.log_p - self.log_p_reference
        there = np.isfinite(difference)
        total = np.tensordot(1 - 2 * moved, np.where(there, difference, 0.0), axes=1)
        count = there.sum(axis=0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan) / np.log(base)


def text_sets(rows: pd.DataFrame) -> list[TextSet]:
    """The text sets of one task and one marked guise, in order of appearance.

    Parameters
    ----------
    rows
        Features: setting, pairs, control, prompt_id, pair, attribute, log_prob, log_prob_reference, prior. A pair
        that stands there twice, as in a resample, counts twice.
    """
    prompt_codes, prompts = pd.factorize(rows["prompt_id"])
    attribute_codes, attributes = pd.factorize(rows["attribute"].astype(str), sort=True)
    made = []
    for name in rows["pairs"].unique():
        chosen = rows["pairs"].eq(name).to_numpy()
        part = rows[chosen]
        pair_codes, pair_names = pd.factorize(part["pair"])
        shape = (len(pair_names), len(prompts), len(attributes))
        cell = np.ravel_multi_index((pair_codes, prompt_codes[chosen], attribute_codes[chosen]), shape)
        copy = _copies(cell)
        n_copies = int(copy.max(initial=0)) + 1
        arrays = []
        for column in ("log_prob", "log_prob_reference", "prior"):
            values = np.full((n_copies, int(np.prod(shape))), np.nan)
            values[copy, cell] = pd.to_numeric(part[column]).to_numpy(dtype=float, na_value=np.nan)
            arrays.append(values.reshape(n_copies * shape[0], *shape[1:]))
        if n_copies > 1:  # pairs that are there less often than the most frequent one leave empty rows
            filled = np.isfinite(arrays[0]).any(axis=(1, 2)) | np.isfinite(arrays[1]).any(axis=(1, 2))
            arrays = [values[filled] for values in arrays]
        first = part.iloc[0]
        exact = "estimator" not in part or part["estimator"].dropna().eq("exact").all()
        made.append(
            TextSet(
                name=str(name),
                setting=str(first["setting"]),
                control=bool(first["control"]),
                prompts=list(prompts),
                attributes=list(attributes),
                log_p=arrays[0],
                log_p_reference=arrays[1],
                prior=arrays[2],
                exact=bool(exact),
            )
        )
    return made


def _copies(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each cell has come before."""
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(cells) else np.array([], dtype=int)
    counts = np.arange(len(cells)) - np.repeat(starts, np.diff(np.r_[starts, len(cells)]))
    copies = np.empty(len(cells), dtype=np.int64)
    copies[order] = counts
    return copies


def mean_over_sets(sets: Sequence[TextSet], scores: Sequence[Floats]) -> Floats:
    """Mean over the sets of a setting, then over settings: a setting counts once however many texts it has."""
    by_setting = {
        setting: mean([score for one, score in zip(sets, scores, strict=True) if one.setting == setting])
        for setting in dict.fromkeys(one.setting for one in sets)
    }
    return mean(list(by_setting.values()))


def mean(values: Sequence[Floats] | Floats, axis: int = 0, weights: ArrayLike | None = None) -> Floats:
    """Mean that leaves NaN out, perhaps weighted along ``axis``; NaN where nothing is left."""
    numbers = np.asarray(values, dtype=float)
    there = np.isfinite(numbers)
    if weights is not None:
        shape = np.asarray(weights, dtype=float)
        there = there * shape.reshape(shape.shape + (1,) * (numbers.ndim - shape.ndim))
    count = there.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(count > 0, np.where(there > 0, numbers * there, 0.0).sum(axis=axis) / count, np.nan)


@dataclass(frozen=True)
class Draws:
    """Resamples and null draws of the association scores of one task."""

    prompts: Floats
    """How often each prompt is drawn, shape (n_resamples, n_prompts)."""
    resampled: Floats
    """Scores of resampled pairs, shape (n_resamples, n_prompts, n_attributes)."""
    swapped: Floats
    """Scores with guises exchanged at random, shape (n_permutations, n_prompts, n_attributes); NaN with fewer than
    `MIN_PAIRS` pairs, which have too few ways to be exchanged."""


def draw(
    sets: Sequence[TextSet], base: float, n_resamples: int, n_permutations: int, rng: np.random.Generator
) -> Draws:
    """Resample text pairs and prompts (crossed clusters), and exchange guises within pairs.

    Words for the groups (setting overt) are not a sample of anything: there only prompts are drawn.
    """
    resampled, swapped = [], []
    for one in sets:
        if one.setting == "overt" or one.n_pairs < 2:
            weights = np.ones((n_resamples, one.n_pairs), dtype=np.int64)
        else:
            weights = multinomial_weights(one.n_pairs, n_resamples, rng)
        resampled.append(one.q(base, weights))
        exchanged = one.q_swapped(rng.random((n_permutations, one.n_pairs)) < 0.5, base)
        swapped.append(exchanged if one.n_pairs >= MIN_PAIRS else exchanged * np.nan)
    n_prompts = len(sets[0].prompts)
    prompts = multinomial_weights(n_prompts, n_resamples, rng).astype(float)
    return Draws(prompts, mean_over_sets(sets, resampled), mean_over_sets(sets, swapped))


@dataclass(frozen=True)
class Spread:
    """What a score is over resamples and without any difference between the guises."""

    low: float
    high: float
    null_mean: float
    null_low: float
    null_high: float
    p: float
    """Two-sided, from the null draws: how often they are as far from their mean as the score is."""


def spread(
    score: Callable[[Floats, Floats | None], Floats],
    estimate: float,
    draws: Draws,
    confidence_level: float = 0.95,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Spread:
    """Interval and null of one score.

    The interval is the basic bootstrap's, 2 estimate - quantiles of the replicates: a resample has more noise than
    the sample, which pulls agreement towards chance and slopes towards 0, and the percentile interval with them.

    Parameters
    ----------
    score
        (..., n_prompts, n_attributes) scores and prompt weights (..., n_prompts) or None -> (...).
    estimate
        The score itself.
    draws
        See `draw`.
    confidence_level
        Of the interval, and of the range of the null.
    bounds
        Range of the score, to which the interval is held.
    """
    tail = (1 - confidence_level) / 2
    null = score(draws.swapped, None)
    null = null[np.isfinite(null)]
    replicates = score(draws.resampled, draws.prompts)
    replicates = replicates[np.isfinite(replicates)]
    # all alike: there was nothing to draw
    if len(replicates) and np.ptp(replicates) > 0:
        high, low = np.clip(2 * estimate - np.quantile(replicates, [tail, 1 - tail]), *bounds)
    else:
        low = high = np.nan
    if not len(null) or not np.isfinite(estimate):
        nan = float("nan")
        return Spread(float(low), float(high), nan, nan, nan, nan)
    centre = float(null.mean())
    extreme = np.sum(np.abs(null - centre) >= abs(estimate - centre) - 1e-12)
    null_low, null_high = np.quantile(null, [tail, 1 - tail])
    p = float((1 + extreme) / (1 + len(null)))
    return Spread(float(low), float(high), centre, float(null_low), float(null_high), p)
