"""Intervals and null distributions of scores: pairs and prompts resampled, guises exchanged within pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from markedness.audits.guise.estimators.text_sets import Floats, TextSet, mean_over_sets
from markedness.stats.resampling import multinomial_weights

MIN_PAIRS = 5
"""Smallest number of pairs for a null of exchanged guises: 2^5 ways to exchange them."""
ScoreFunction = Callable[[Floats, Floats | None], Floats]
"""Log ratios (..., n_prompts, n_attributes) and prompt weights (..., n_prompts) or None -> scores (...)."""


@dataclass(frozen=True)
class Draws:
    """Resamples and null draws of the log ratios of one task."""

    prompts: Floats
    """How often each prompt is drawn, shape (n_resamples, n_prompts)."""
    resampled: Floats
    """Log ratios of resampled pairs, shape (n_resamples, n_prompts, n_attributes)."""
    swapped: Floats
    """Log ratios with guises exchanged at random, shape (n_permutations, n_prompts, n_attributes); NaN with fewer than
    `MIN_PAIRS` pairs."""


def draw(
    sets: Sequence[TextSet], base: float, n_resamples: int, n_permutations: int, rng: np.random.Generator
) -> Draws:
    """Resample text pairs and prompts (crossed clusters), and exchange guises within pairs.

    Words for the groups (setting overt) are not a sample: for them only prompts are drawn.
    """
    resampled, swapped = [], []
    for one in sets:
        if one.setting == "overt" or one.n_pairs < 2:
            weights = np.ones((n_resamples, one.n_pairs), dtype=np.int64)
        else:
            weights = multinomial_weights(one.n_pairs, n_resamples, rng)
        resampled.append(one.log_ratio(base, weights))
        exchanged = one.log_ratio_swapped(rng.random((n_permutations, one.n_pairs)) < 0.5, base)
        swapped.append(exchanged if one.n_pairs >= MIN_PAIRS else exchanged * np.nan)
    n_prompts = len(sets[0].prompts)
    prompts = multinomial_weights(n_prompts, n_resamples, rng).astype(float)
    return Draws(prompts, mean_over_sets(sets, resampled), mean_over_sets(sets, swapped))


@dataclass(frozen=True)
class Spread:
    """Interval of a score, and its null distribution: guises exchanged within pairs."""

    low: float
    high: float
    null_mean: float
    null_low: float
    null_high: float
    p: float
    """Two-sided: (1 + #{abs(null - mean) >= abs(score - mean)}) / (1 + n), n null draws; NaN if either is missing."""


NO_SPREAD = Spread(*[float("nan")] * 6)


def spread(
    score: ScoreFunction,
    estimate: float,
    draws: Draws,
    confidence_level: float = 0.95,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Spread:
    """Interval and null of one score.

    The interval is that of the basic bootstrap, 2 estimate - quantiles of the replicates. Resamples are noisier than
    the sample, which moves agreement towards chance and slopes towards 0; a percentile interval would move with them.

    Parameters
    ----------
    score
        See `ScoreFunction`.
    estimate
        The score of the whole sample.
    draws
        See `draw`.
    confidence_level
        Of the interval, and of the range of the null.
    bounds
        Range of the score, to which the interval is clipped.

    Returns
    -------
    Spread
        NaN bounds where all replicates are equal; NaN null with fewer than `MIN_PAIRS` pairs.
    """
    tail = (1 - confidence_level) / 2
    null = score(draws.swapped, None)
    null = null[np.isfinite(null)]
    replicates = score(draws.resampled, draws.prompts)
    replicates = replicates[np.isfinite(replicates)]
    # all equal: one pair and one prompt, so nothing was resampled
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
