"""Student's tests as the matched guise paper reports them, and Holm's correction.

Source: Hofmann et al. (2024), Nature 633, 147-154; Supplementary Information, Tables 13-16: the printed standard
deviations are those of the population (ddof 0), the two-sample tests pool the variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.stats.inference import holm

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TTest:
    """A t test with what it compared."""

    mean: float
    sd: float
    """Population standard deviation (ddof 0), as the paper prints it."""
    n: int
    t: float
    df: float
    p: float


def one_sample_t(values: ArrayLike, alternative: str = "two-sided", mean: float = 0.0) -> TTest:
    """One-sample t test against ``mean``; NaN values are left out, and with fewer than 2 all is NaN.

    t = (m - mean) / s sqrt(n - 1) with the printed s (ddof 0), which is the usual t. Values that are all
    equal have no variance to test against: NaN.
    """
    from scipy.stats import ttest_1samp

    sample = _present(values)
    if len(sample) < 2 or _constant(sample):
        return TTest(*_moments(sample), float("nan"), len(sample) - 1, float("nan"))
    found = ttest_1samp(sample, mean, alternative=alternative)
    return TTest(*_moments(sample), float(found.statistic), len(sample) - 1, float(found.pvalue))


def pooled_t(values: ArrayLike, others: ArrayLike, alternative: str = "two-sided") -> TTest:
    """Two-sample t test with pooled variance; mean is the difference, sd the pooled one (ddof 0 each)."""
    from scipy.stats import ttest_ind_from_stats

    first, second = _present(values), _present(others)
    n, df = len(first) + len(second), len(first) + len(second) - 2
    if min(len(first), len(second)) < 1 or df < 1 or (_constant(first) and _constant(second)):
        return TTest(float("nan"), float("nan"), n, float("nan"), df, float("nan"))
    # one value has no variance of its own, and adds none to the pooled one
    spreads = [float(sample.std(ddof=1)) if len(sample) > 1 else 0.0 for sample in (first, second)]
    found = ttest_ind_from_stats(
        first.mean(), spreads[0], len(first), second.mean(), spreads[1], len(second), True, alternative
    )
    spread = float(np.sqrt((len(first) * first.var() + len(second) * second.var()) / n))
    return TTest(float(first.mean() - second.mean()), spread, n, float(found.statistic), df, float(found.pvalue))


def _present(values: ArrayLike) -> Floats:
    sample: Floats = np.asarray(values, dtype=float).ravel()
    present: Floats = sample[np.isfinite(sample)]
    return present


def _constant(sample: Floats) -> bool:
    """Whether all values are alike but for rounding."""
    return bool(np.ptp(sample) <= 1e-12 * np.abs(sample).max())


def _moments(sample: Floats) -> tuple[float, float, int]:
    if not len(sample):
        return float("nan"), float("nan"), 0
    return float(sample.mean()), float(sample.std()), len(sample)


def correlations(scores: pd.DataFrame) -> pd.DataFrame:
    """Pearson r of every pair of columns (prompts, settings or model versions) over attributes (rows).

    Returns
    -------
    DataFrame
        first, second, r, p, p_adjusted (Holm over all pairs of this table), n; NaN where fewer than 3
        attributes are scored in both, or one column is constant.
    """
    from scipy.stats import pearsonr

    rows = []
    for place, first in enumerate(scores.columns):
        for second in scores.columns[place + 1 :]:
            both = scores[[first, second]].dropna().to_numpy(dtype=float)
            r = p = float("nan")
            if len(both) >= 3 and (np.ptp(both, axis=0) > 0).all():
                r, p = (float(value) for value in pearsonr(both[:, 0], both[:, 1]))
            rows.append({"first": first, "second": second, "r": r, "p": p, "n": len(both)})
    table = pd.DataFrame(rows, columns=["first", "second", "r", "p", "n"])
    table.insert(4, "p_adjusted", holm(table["p"]))
    return table
