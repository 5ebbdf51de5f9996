"""Within-group similarity of texts: mean pairwise cosine of sentence embeddings, and differences between groups.

Source: Lee, Montgomery & Lai 2024, Large Language Models Portray Socially Subordinate Groups as More
Homogeneous, Consistent with a Bias Observed in Humans, FAccT '24, 1321-1340. The more alike the texts of a
group, the higher the mean; an encoder may itself draw some groups together, so this measures model and
encoder at once (Lee & Lai, Probability of Differentiation, section 1.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.stats.inference import MIN_CLUSTERS, Spread, adjusted_p, mean_leave_out, spread

CELL_COLUMNS = ("group", "prompt", "n", "mean_cosine", "standard_error")
EFFECT_COLUMNS = (
    "factor", "group", "reference", "difference", "ci_low", "ci_high", "p", "n_prompts", "standard_error_published",
    "ci_low_published", "ci_high_published", "z_published", "p_published",
)  # fmt: skip

SIMPLE_COLUMNS = (
    "factor", "group", "reference", "within", "difference", "ci_low", "ci_high", "p", "p_adjusted", "interaction",
    "interaction_ci_low", "interaction_ci_high", "interaction_p", "interaction_p_adjusted", "n_prompts",
)  # fmt: skip


def mean_pairwise_cosine(unit_vectors: ArrayLike) -> float:
    """Mean cosine over all pairs of different texts, without a pair matrix: (|sum u|^2 - n) / (n (n - 1)).

    Parameters
    ----------
    unit_vectors
        Shape (n, d), rows of length 1.

    Returns
    -------
    float
        In [-1/(n-1), 1]; 1: all texts alike. NaN for fewer than two texts.
    """
    vectors = np.asarray(unit_vectors, dtype=float)
    n = len(vectors)
    if n < 2:
        return float("nan")
    total = vectors.sum(axis=0)
    return float((total @ total - n) / (n * (n - 1)))


def jackknife_standard_error(unit_vectors: ArrayLike) -> float:
    """Standard error of `mean_pairwise_cosine` when texts are drawn: leave one text out.

    Without text i the mean is (|s|^2 - n - 2 (u_i s - 1)) / ((n-1)(n-2)), with s the sum of all vectors.
    NaN for fewer than three texts.
    """
    vectors = np.asarray(unit_vectors, dtype=float)
    n = len(vectors)
    if n < 3:
        return float("nan")
    total = vectors.sum(axis=0)
    left_out = (total @ total - n - 2 * (vectors @ total - 1)) / ((n - 1) * (n - 2))
    return float(np.sqrt((n - 1) * left_out.var()))


def similarity_cells(unit_vectors: ArrayLike, groups: ArrayLike, prompts: ArrayLike) -> pd.DataFrame:
    """Mean pairwise cosine of each group under each prompt: all that the functions below need.

    Parameters
    ----------
    unit_vectors
        Shape (n, d).
    groups, prompts
        Shape (n,). Pairs are formed within one group and one prompt only: two texts may be alike merely
        because they answer the same prompt.

    Returns
    -------
    DataFrame
        `CELL_COLUMNS`: one row per group and prompt that occur together; mean_cosine NaN for one text.
    """
    vectors = np.asarray(unit_vectors, dtype=np.float64)
    keys = pd.DataFrame({"group": np.asarray(groups), "prompt": np.asarray(prompts)})
    rows = []
    for key, texts in keys.groupby(["group", "prompt"], sort=True):
        cell = vectors[texts.index]
        rows.append((*key, len(cell), mean_pairwise_cosine(cell), jackknife_standard_error(cell)))
    return pd.DataFrame(rows, columns=list(CELL_COLUMNS))


def within_group_similarity(cells: pd.DataFrame, confidence_level: float = 0.95) -> pd.DataFrame:
    """Each group's mean over prompts of the mean pairwise cosine, with its interval.

    Prompts weigh alike, however many texts they have.

    Parameters
    ----------
    cells
        From `similarity_cells`.
    confidence_level
        In (0, 1).

    Returns
    -------
    DataFrame
        group, mean_cosine, ci_low, ci_high, n (texts), n_prompts; see `_sampling` for the interval. NaN where a group
        has no pair of texts.
    """
    rows = []
    for group, own in cells.groupby("group", sort=True):
        known = own.dropna(subset=["mean_cosine"])
        estimate = float(known["mean_cosine"].mean()) if len(known) else np.nan
        bounds = _sampling(known["mean_cosine"].to_numpy(), known).interval(estimate, confidence_level)
        rows.append((group, estimate, *bounds, int(own["n"].sum()), len(known)))
    return pd.DataFrame(rows, columns=["group", "mean_cosine", "ci_low", "ci_high", "n", "n_prompts"])


def _sampling(by_prompt: NDArray[np.float64], cells: pd.DataFrame) -> Spread:
    """Sampling error of a mean over prompts of sums of ``cells``: prompts are the sample, if there are six.

    With fewer it holds for these prompts alone, and the texts are the sample: the cells' jackknife variances.
    """
    if len(by_prompt) >= MIN_CLUSTERS:
        return spread(mean_leave_out(by_prompt), {"prompt": np.arange(len(by_prompt))})
    cells_of_prompt = len(cells) / max(len(by_prompt), 1)
    # A difference of two means over cells: each cell weighs 1 / (cells of its side and prompt).
    sides = 2 if cells_of_prompt > 1 else 1
    variance = float(np.square(cells["standard_error"] * sides).sum()) / max(len(cells), 1) ** 2
    return Spread(float(np.sqrt(variance)), float(cells["n"].sum() - len(cells)), fixed=("prompt",))


def similarity_effects(
    cells: pd.DataFrame,
    factors: pd.DataFrame,
    unmarked: Mapping[str, str],
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Differences between groups in similarity: over prompts, and as published by a mixed model over cells.

    The model is mean_cosine ~ factors + (1 | prompt) by REML. The publication fits it to all pairs of texts
    instead; in a balanced design the coefficients are the same, but pairs share texts, so that its standard
    errors are those of far more data than there are. Cells are one row each.

    Parameters
    ----------
    cells
        From `similarity_cells`, with the groups that cross all factors ("Black woman").
    factors
        Indexed by group: one column per factor, its value ("race": "Black").
    unmarked
        Factor -> its reference value.
    confidence_level
        In (0, 1).

    Returns
    -------
    DataFrame
        `EFFECT_COLUMNS`: one row per factor and marked value. Positive: the marked group's texts are more
        alike than the reference's. ci_low, ci_high and p: t over prompts, with fewer than six over texts. The model's
        columns end in _published; they are NaN with fewer than two prompts or when it cannot be fitted.
    """
    data = cells.dropna(subset=["mean_cosine"]).join(factors, on="group")
    used = [factor for factor in unmarked if factor in data and data[factor].nunique() > 1]
    n_prompts = data["prompt"].nunique()
    fitted = _fit(data, used, unmarked) if n_prompts > 1 and used else None
    rows = []
    for factor in used:
        by_value = data.groupby(["prompt", factor])["mean_cosine"].mean().unstack(factor)
        reference = unmarked[factor]
        if reference not in by_value:
            continue
        for value in [value for value in by_value if value != reference]:
            by_prompt = (by_value[value] - by_value[reference]).dropna()
            own = data[data[factor].isin([value, reference]) & data["prompt"].isin(by_prompt.index)]
            difference = float(by_prompt.mean()) if len(by_prompt) else np.nan
            sampled = _sampling(by_prompt.to_numpy(float), own)
            tested = (*sampled.interval(difference, confidence_level), sampled.p(difference))
            model = _coefficient(fitted, factor, str(value), confidence_level)
            rows.append((factor, value, reference, difference, *tested, len(by_prompt), *model))
    return pd.DataFrame(rows, columns=list(EFFECT_COLUMNS))


def similarity_simple_effects(
    cells: pd.DataFrame, factors: pd.DataFrame, unmarked: Mapping[str, str], confidence_level: float = 0.95
) -> pd.DataFrame:
    """The difference of each marked value within each value of the other factor, and how these differ: interactions.

    Parameters
    ----------
    cells, factors, unmarked, confidence_level
        As in `similarity_effects`; two factors.

    Returns
    -------
    DataFrame
        `SIMPLE_COLUMNS`: one row per factor, marked value and value of the other factor (``within``). ``difference``:
        mean over prompts of the group's mean cosine minus that of the reference, positive: the marked group's texts are
        more alike. ``interaction``: this difference minus that within the other factor's reference, NaN in the latter;
        in a balanced design the coefficient of a mixed model with race, gender and their product. Intervals and p: t
        over prompts, with fewer than six over texts; p_adjusted: Benjamini-Hochberg over the rows. Empty without two
        factors.
    """
    data = cells.dropna(subset=["mean_cosine"]).join(factors, on="group")
    used = [factor for factor in unmarked if factor in data and data[factor].nunique() > 1]
    rows = []
    for factor, other in (used, used[::-1]) if len(used) == 2 else ():
        table = data.pivot_table(index="prompt", columns=[other, factor], values=["mean_cosine", "standard_error", "n"])
        reference, within = unmarked[factor], [w for w in data[other].unique() if w != unmarked[other]]
        for value in [v for v in data[factor].unique() if v != reference]:
            for place in (unmarked[other], *within):
                simple = [((place, value), 1.0), ((place, reference), -1.0)]
                crossed = [*simple, ((unmarked[other], value), -1.0), ((unmarked[other], reference), 1.0)]
                found = _contrast(table, simple, confidence_level)
                differs = _contrast(table, crossed if place != unmarked[other] else [], confidence_level)
                rows.append((factor, value, reference, place, *found[:4], np.nan, *differs[:4], np.nan, found[4]))
    made = pd.DataFrame(rows, columns=list(SIMPLE_COLUMNS))
    return made.assign(
        p_adjusted=adjusted_p(made["p"]),
        interaction_p_adjusted=_of_tested(made["interaction_p"]),
    )


def _of_tested(p: pd.Series) -> NDArray[np.float64]:
    """Benjamini-Hochberg over the rows that have a test by design."""
    tested = p.notna().to_numpy(dtype=bool)
    made = np.full(len(p), np.nan)
    made[tested] = adjusted_p(p[tested])
    return made


def _contrast(
    table: pd.DataFrame, weights: Sequence[tuple[tuple[str, str], float]], confidence_level: float
) -> tuple[float, float, float, float, int]:
    """Mean over prompts of a weighted sum of cells, its interval and p, and the prompts that have all of them."""
    if not weights or any(("mean_cosine", *cell) not in table for cell, _ in weights):
        return np.nan, np.nan, np.nan, np.nan, 0
    own = table[[("mean_cosine", *cell) for cell, _ in weights]].dropna()
    by_prompt = own.to_numpy(dtype=float) @ np.array([weight for _, weight in weights])
    if not len(by_prompt):
        return np.nan, np.nan, np.nan, np.nan, 0
    estimate = float(by_prompt.mean())
    if len(by_prompt) >= MIN_CLUSTERS:
        sampled = spread(mean_leave_out(by_prompt), {"prompt": np.arange(len(by_prompt))})
    else:  # for these prompts alone: the texts are the sample
        errors, n = (table.loc[own.index, [(name, *cell) for cell, _ in weights]] for name in ("standard_error", "n"))
        variance = float(np.square(errors.to_numpy(dtype=float)).sum()) / len(own) ** 2
        sampled = Spread(float(np.sqrt(variance)), float(n.to_numpy().sum() - n.size), fixed=("prompt",))
    return estimate, *sampled.interval(estimate, confidence_level), sampled.p(estimate), len(own)


def _fit(data: pd.DataFrame, factors: Sequence[str], unmarked: Mapping[str, str]) -> Any:
    """The fitted mixed model, or None where it is singular; coefficients are named (factor, value)."""
    import warnings

    from statsmodels.regression.mixed_linear_model import MixedLM

    marked = [(f, v) for f in factors for v in sorted(set(data[f].dropna()) - {unmarked[f]})]
    design = np.column_stack([np.ones(len(data)), *(data[f].eq(v).to_numpy(float) for f, v in marked)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance at its boundary is a finding here, not a fault
        try:
            fitted = MixedLM(data["mean_cosine"].to_numpy(float), design, groups=data["prompt"].to_numpy()).fit()
        except (np.linalg.LinAlgError, ValueError):
            return None
    return (fitted, {term: place + 1 for place, term in enumerate(marked)})


def _coefficient(fitted: Any, factor: str, value: str, confidence_level: float) -> tuple[float, ...]:
    """standard_error, ci_low, ci_high, z, p of one marked value."""
    if fitted is None:
        return (np.nan,) * 5
    model, places = fitted
    place = places[factor, value]
    low, high = model.conf_int(alpha=1 - confidence_level)[place]
    return (model.bse_fe[place], low, high, model.tvalues[place], model.pvalues[place])
