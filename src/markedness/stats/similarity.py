"""Within-group similarity of texts: mean pairwise cosine of sentence embeddings, and differences between groups.

Texts of one name (or author) resemble each other, so that pairs of one name say nothing of the group: pairs are those
of different names, as in the differences in P_d. Names and prompts are the sample.

Source: Lee, Montgomery & Lai 2024, Large Language Models Portray Socially Subordinate Groups as More
Homogeneous, Consistent with a Bias Observed in Humans, FAccT '24, 1321-1340. The more alike the texts of a
group, the higher the mean; an encoder may itself draw some groups together, so this measures model and
encoder at once (Lee & Lai, Probability of Differentiation, section 1.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.stats.inference import Floats, benjamini_hochberg, claim, spread
from markedness.stats.similarity_cells import SimilarityCells, contrast

PROMPT = "prompt"
EFFECT_COLUMNS = (
    "factor", "group", "reference", "difference", "ci_low", "ci_high", "p", "caveat", "n_prompts",
    "standard_error_published", "ci_low_published", "ci_high_published", "z_published", "p_published",
)  # fmt: skip
SIMPLE_COLUMNS = (
    "factor", "group", "reference", "within", "difference", "ci_low", "ci_high", "p", "p_adjusted", "interaction",
    "interaction_ci_low", "interaction_ci_high", "interaction_p", "interaction_p_adjusted", "caveat", "n_prompts",
)  # fmt: skip


def within_group_similarity(cells: SimilarityCells, confidence_level: float = 0.95) -> pd.DataFrame:
    """Each group's mean over prompts of the mean cosine of pairs of texts of different names, with its interval.

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
        group, mean_cosine, ci_low, ci_high, caveat, n (texts), n_prompts (with a pair), mean_cosine_published.
        Interval: t by leaving out names and prompts; a factor of fewer than six is fixed, and ``caveat`` says so. NaN
        where a group has no pair. mean_cosine_published: over all pairs, those of one name among them.
    """
    published = cells.published.groupby("group")["mean_cosine"].mean()
    rows = []
    for group in cells.groups:
        own = cells.only([group])
        found = _Tested.of(own, np.ones((1, 1)), np.zeros(len(own.n)), None, confidence_level)
        numbers = int(own.n.sum()), found.n_prompts, published.get(group, np.nan)
        rows.append((group, found.estimate, *found.bounds, found.caveat, *numbers))
    columns = ["group", "mean_cosine", "ci_low", "ci_high", "caveat", "n", "n_prompts", "mean_cosine_published"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class _Tested:
    """A contrast of cells with its interval and p."""

    estimate: float = np.nan
    bounds: tuple[float, float] = (np.nan, np.nan)
    p: float = np.nan
    caveat: str = ""
    n_prompts: int = 0

    @classmethod
    def of(
        cls, cells: SimilarityCells, terms: Floats, sides: ArrayLike, strata: ArrayLike | None, confidence_level: float
    ) -> _Tested:
        """Of cells that hold the groups of ``terms``, (T, G), alone; ``sides`` and ``strata`` as in `spread`."""
        means = cells.means[None]
        estimate = float(contrast(means, terms)[0])
        by_prompt = [contrast(means[:, :, [place]], terms)[0] for place in range(len(cells.prompts))]
        factors = {cells.factor: cells.name, PROMPT: np.asarray(cells.prompts, dtype=object)[cells.prompt]}
        found = spread(cells.without(terms), factors, sides, strata, cells.n)
        made = claim("similarity", estimate, found, confidence_level=confidence_level, method="")
        n_prompts = int(np.isfinite(by_prompt).sum())
        return cls(estimate, (made.ci_low, made.ci_high), made.p, made.lacking or made.caveat, n_prompts)

    @classmethod
    def between(
        cls, cells: SimilarityCells, terms: Sequence[Mapping[str, float]], side: Mapping[str, str], level: float
    ) -> _Tested:
        """The mean of ``terms``, weights of groups; ``side``: group -> value whose clusters are counted."""
        groups = list(dict.fromkeys(group for term in terms for group in term))
        if not groups or any(group not in cells.groups for group in groups):
            return cls()
        own = cells.only(groups)
        weights = np.array([[term.get(group, 0.0) for group in groups] for term in terms])
        labels = np.array([side[group] for group in groups], dtype=object)[own.group]
        return cls.of(own, weights, labels, own.group, level)


@dataclass(frozen=True)
class _Crossed:
    """The crossed groups by the values of one factor and of the others."""

    factor: str
    reference: str
    cells: SimilarityCells
    value: Mapping[str, str]
    """Group -> its value of the factor."""
    others: Mapping[str, str]
    """Group -> its values of the other factors."""

    @classmethod
    def each(cls, cells: SimilarityCells, factors: pd.DataFrame, unmarked: Mapping[str, str]) -> Iterator[_Crossed]:
        """The factors with two values or more, of groups with a pair of texts."""
        there = [group for group, row in zip(cells.groups, np.isfinite(cells.means), strict=True) if row.any()]
        known = factors.reindex([group for group in there if group in factors.index]).astype(str)
        used = [factor for factor in unmarked if factor in known and known[factor].nunique() > 1]
        for factor in used:
            rest = known[[other for other in used if other != factor]].to_numpy(dtype=object).tolist()
            others = {str(group): " ".join(map(str, values)) for group, values in zip(known.index, rest, strict=True)}
            value = {str(group): str(one) for group, one in known[factor].items()}
            yield cls(factor, unmarked[factor], cells, value, others)

    @property
    def marked(self) -> list[str]:
        """The marked values, sorted; none without the reference."""
        values = set(self.value.values())
        return sorted(values - {self.reference}) if self.reference in values else []

    def group(self, value: str, others: str) -> str | None:
        """The group with these values, if there is one."""
        return next((g for g, v in self.value.items() if v == value and self.others[g] == others), None)

    def term(self, value: str, others: str) -> dict[str, float]:
        """Weights of value minus reference within values of the others; {} if one of them is not there."""
        pair = self.group(value, others), self.group(self.reference, others)
        return {str(group): sign for group, sign in zip(pair, (1.0, -1.0), strict=True)} if all(pair) else {}

    def effect(self, value: str, level: float) -> _Tested:
        """The mean difference within the values of the other factors that have both."""
        every = sorted({self.others[g] for g, v in self.value.items() if v in (value, self.reference)})
        shared = [others for others in every if self.term(value, others)]
        if not shared:
            return _Tested(caveat="not estimated: no value of the other axes has texts of both groups")
        found = _Tested.between(self.cells, [self.term(value, others) for others in shared], self.value, level)
        if len(shared) == len(every):
            return found
        alone = f"Within {', '.join(shared)} alone: the others have texts of one of the two groups."
        return _Tested(found.estimate, found.bounds, found.p, f"{alone} {found.caveat}".strip(), found.n_prompts)


def similarity_effects(
    cells: SimilarityCells,
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
        alike than the reference's. The difference is averaged over the values of the other factors that have texts of
        both; ``caveat`` says where some do not. ci_low, ci_high and p: t by leaving out names and prompts; a factor of
        fewer than six is fixed, and ``caveat`` says so. The model's columns end in _published; they are NaN with fewer
        than two prompts or when it cannot be fitted.
    """
    data = cells.published.join(factors, on="group")
    used = [factor for factor in unmarked if factor in data and data[factor].nunique() > 1]
    fitted = _fit(data, used, unmarked) if data["prompt"].nunique() > 1 and used else None
    rows = []
    for one in _Crossed.each(cells, factors, unmarked):
        for value in one.marked:
            found = one.effect(value, confidence_level)
            model = _coefficient(fitted, one.factor, value, confidence_level)
            tested = (*found.bounds, found.p, found.caveat, found.n_prompts)
            rows.append((one.factor, value, one.reference, found.estimate, *tested, *model))
    return pd.DataFrame(rows, columns=list(EFFECT_COLUMNS))


def similarity_simple_effects(
    cells: SimilarityCells, factors: pd.DataFrame, unmarked: Mapping[str, str], confidence_level: float = 0.95
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
        in a balanced design the coefficient of a mixed model with race, gender and their product. Intervals, p and
        ``caveat`` as in `similarity_effects`; p_adjusted: Benjamini-Hochberg over the rows. Empty without two factors.
    """
    crossed = list(_Crossed.each(cells, factors, unmarked))
    rows = []
    for one, other in (crossed, crossed[::-1]) if len(crossed) == 2 else ():
        base = other.reference
        for value in one.marked:
            for place in (base, *other.marked):
                side, plain = one.term(value, place), one.term(value, base)
                found = _Tested.between(cells, [side] if side else [], one.value, confidence_level)
                both = side | {group: -weight for group, weight in plain.items()} if place != base and plain else {}
                differs = _Tested.between(cells, [both] if both and side else [], one.value, confidence_level)
                rows.append((
                    one.factor, value, one.reference, place, found.estimate, *found.bounds, found.p, np.nan,
                    differs.estimate, *differs.bounds, differs.p, np.nan, found.caveat, found.n_prompts,
                ))  # fmt: skip
    made = pd.DataFrame(rows, columns=list(SIMPLE_COLUMNS))
    return made.assign(
        p_adjusted=benjamini_hochberg(made["p"]),
        interaction_p_adjusted=_of_tested(made["interaction_p"]),
    )


def _of_tested(p: pd.Series) -> NDArray[np.float64]:
    """Benjamini-Hochberg over the rows that have a test by design."""
    tested = p.notna().to_numpy(dtype=bool)
    made = np.full(len(p), np.nan)
    made[tested] = benjamini_hochberg(p[tested])
    return made


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
