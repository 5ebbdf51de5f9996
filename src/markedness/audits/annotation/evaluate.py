"""Matched pairs -> gaps per group and task, dialect gaps, missing rates, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from markedness.audits.annotation import figures
from markedness.records import ESTIMATE_COLUMNS, Evaluation, Strict
from markedness.stats.paired import (
    benjamini_hochberg,
    clustered_intervals,
    cohens_h,
    directional_consistency,
    paired_tests,
    sign_flip_sizes,
    welch_from_counts,
)
from markedness.stats.resampling import multinomial_weights, percentile_interval

PARADIGMS = ("names", "dialect")
REASONS = ("refusal", "unparsed", "truncated", "failed")
CONSTANT = 0.95
"""Above this mean share of the more frequent answer to a task, the labels hardly depend on the text."""
YES_TO_ALL, NO_TO_ALL = 0.65, 0.1
"""Yes-rates above (below) this on favorable and unfavorable tasks alike: the model answers alike whatever is asked."""
FEW_PAIRS = 30
"""Below this many pairs the t-test of answers 0 and 1 is rough."""
MAX_METRICS = 30


class Params(Strict):
    """``annotation.evaluate``."""

    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    """Of all intervals; 1 minus it is the level of the tests."""
    n_resamples: int = Field(default=1000, ge=10)
    """Resamples of vignettes for the interval of ``favorable_gap``."""
    n_permutations: int = Field(default=500, ge=10)
    """Sign flips for the null of ``gap_size``."""


def evaluate(features: pd.DataFrame, params: Params, rng: np.random.Generator) -> Evaluation:
    """Estimate every gap of one model.

    Parameters
    ----------
    features
        Matched pairs, rows of featurize.
    params
        Levels and numbers of draws.
    rng
        Seeded generator of resamples and sign flips.

    Returns
    -------
    Evaluation
        Tables ``gaps``, ``dialect_gaps``, ``missing`` and ``significant``; estimates with cluster-robust intervals:
        by vignette or by pair of names, whichever is wider.
    """
    parts = {paradigm: _part(features, paradigm) for paradigm in PARADIGMS}
    gaps = _gaps(parts["names"], params.confidence_level)
    dialect_gaps = _dialect_gaps(parts["dialect"], params.confidence_level)
    missing = _missing(features, params.confidence_level)
    found = gaps[gaps["significant"]].sort_values("gap", key=np.abs, ascending=False, ignore_index=True)
    tables = {"gaps": gaps, "dialect_gaps": dialect_gaps, "missing": missing, "significant": found}
    metrics: dict[str, float] = {}
    by_group: dict[str, float] = {}
    for paradigm, table in (("names", gaps), ("dialect", dialect_gaps)):
        of_paradigm, of_group = _metrics(parts[paradigm], table, paradigm, params, rng)
        metrics |= of_paradigm
        by_group |= of_group if paradigm == "names" else {}
    room = MAX_METRICS - len(metrics)
    metrics |= dict(list(by_group.items())[: room - room % 3])
    return Evaluation(
        estimates=_estimates(gaps, dialect_gaps), tables=tables, metrics=metrics,
        figures=figures.figures(gaps, dialect_gaps, missing),
        notes=_notes(gaps, dialect_gaps, missing, 1 - params.confidence_level) + _ungrouped(features),
    )  # fmt: skip


def scores(features: pd.DataFrame, params: Params) -> dict[str, float]:
    """The headline scores of any pairs, repeated ones included: mean absolute and favorable gap per paradigm."""
    found: dict[str, float] = {}
    for paradigm in PARADIGMS:
        part = _part(features, paradigm)
        code, cells = _cells(part)
        means = paired_tests(part["delta"], code, len(cells))["gap"].to_numpy()
        found[f"gap_size.{paradigm}"] = _mean(np.abs(means))
        found[f"favorable_gap.{paradigm}"] = _favorable(means, _valence(cells))
    return found


def across(features: Mapping[str, pd.DataFrame], versions: pd.DataFrame, params: Params) -> dict[str, pd.DataFrame]:
    """What only several models show: one family of all their cells, and the direction they share.

    Parameters
    ----------
    features
        Model -> its features; scripted controls among them count as models.
    versions
        Not used: every model takes part.
    params
        As of `evaluate`.

    Returns
    -------
    dict
        ``annotation_gaps``: the cells of all models with ``model`` and ``q``: Benjamini-Hochberg over models x tasks x
        groups for names, within a model for dialect, the families of the paper. ``annotation_direction``: per group and
        task (dialect: group is the dialect) mean gap, sd over models, models with its sign, consistency, and
        ``n_significant``, models with q below 1 - confidence level. Empty with fewer than two models.
    """
    measured = {model: table for model, table in features.items() if "paradigm" in table}
    if len(measured) < 2:
        return {}
    made = []
    for paradigm, tabulate in (("names", _gaps), ("dialect", _dialect_gaps)):
        tables = [
            tabulate(_part(table, paradigm), params.confidence_level).assign(model=model, paradigm=paradigm)
            for model, table in measured.items()
        ]
        columns = ["model", "paradigm", "group", "task", "gap", "ci_low", "ci_high", "p", "p_adjusted"]
        cells = pd.concat([table[columns] for table in tables if len(table)] or [tables[0][columns]], ignore_index=True)
        cells["q"] = benjamini_hochberg(cells["p"]) if paradigm == "names" else cells["p_adjusted"]
        made.append(cells)
    gaps = pd.concat([cells for cells in made if len(cells)] or made, ignore_index=True)
    direction = directional_consistency(gaps, ["paradigm", "group", "task"])
    found = gaps[gaps["q"] < 1 - params.confidence_level].groupby(["paradigm", "group", "task"]).size()
    direction = direction.merge(found.rename("n_significant").reset_index(), how="left")
    direction["n_significant"] = direction["n_significant"].fillna(0).astype(int)
    return {"annotation_gaps": gaps, "annotation_direction": direction}


# ---------------------------------------------------------------- tables


def _part(features: pd.DataFrame, paradigm: str) -> pd.DataFrame:
    of_paradigm = (features["paradigm"].astype(object) == paradigm).to_numpy(dtype=bool)
    return features[of_paradigm].reset_index(drop=True)


def _cells(part: pd.DataFrame) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Cell of each pair, and group, task and what is known of them per cell, in order of group and first task."""
    (group, groups), (task, tasks) = (pd.factorize(part[name], use_na_sentinel=False) for name in ("group", "task"))
    order = np.argsort(np.argsort(np.asarray(groups, dtype=str)))  # rank of each group's name
    code, cells = pd.factorize(order[group] * len(tasks) + task, sort=True)
    first = np.zeros(len(cells), dtype=np.int64)
    first[code[::-1]] = np.arange(len(part))[::-1]
    names = [name for name in ("group", "reference", "task", "domain", "valence") if name in part]
    return code, part.loc[first, names].astype(dict.fromkeys(names[:3], object)).reset_index(drop=True)


def _gaps(part: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """One row per marked group and task of the names paradigm."""
    code, cells = _cells(part)
    n = len(cells)
    tests = paired_tests(part["delta"], code, n, confidence_level)
    adjusted = {f"{p}_adjusted": benjamini_hochberg(tests[p]) for p in ("p", "p_exact")}
    table = cells.join(tests.drop(columns="se")).assign(**adjusted)
    table["significant"] = _significant(table, confidence_level)
    table["missing"] = np.bincount(code, minlength=n) - table["n_pairs"]
    table["yes_rate"] = _rate(part["yes"], part["n"], code, n)
    table["yes_rate_reference"] = _rate(part["yes_reference"], part["n_reference"], code, n)
    clusters = {"vignette": _known(part, "vignette"), "name_pair": _name_pairs(part)}
    for name, cluster in clusters.items():
        robust = clustered_intervals(part["delta"], code, cluster, n, confidence_level).drop(columns="se")
        table = table.join(robust.rename(columns={"n_clusters": "n"}).add_suffix(f"_{name}"))
    shift = part["margin"] - part["margin_reference"] if "margin" in part else pd.Series(np.nan, index=part.index)
    margin = paired_tests(shift, code, n, confidence_level)
    table["margin_gap"], table["margin_p"] = margin["gap"], margin["p"]
    first = ["group", "task", "gap", "ci_low", "ci_high", "t", "p", "p_adjusted", "n_pairs", "missing"]
    return table[[*first, *(name for name in table if name not in first)]]


def _dialect_gaps(part: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """One row per task (and marked dialect): the paired test over texts, Welch's over answers, Cohen's h."""
    code, cells = _cells(part)
    n = len(cells)
    tests = paired_tests(part["delta"], code, n, confidence_level).rename(
        columns={"gap": "paired_gap", "n_pairs": "n_texts"}
    )
    sums = {
        name: np.bincount(code, weights=part[name], minlength=n)
        for name in ("yes", "n", "yes_reference", "n_reference")
    }
    table = cells.join(tests.drop(columns=["se", "n_up", "n_down"]))
    with np.errstate(invalid="ignore", divide="ignore"):
        table["yes_rate"] = sums["yes"] / sums["n"]
        table["yes_rate_reference"] = sums["yes_reference"] / sums["n_reference"]
    table["gap"] = table["yes_rate"] - table["yes_rate_reference"]
    table["p_adjusted"] = benjamini_hochberg(table["p"])
    table["p_exact_adjusted"] = benjamini_hochberg(table["p_exact"])
    table["significant"] = _significant(table, confidence_level)
    table["welch_t"], table["welch_p"] = welch_from_counts(
        sums["yes"], sums["n"], sums["yes_reference"], sums["n_reference"]
    )
    table["cohens_h"] = cohens_h(table["yes_rate"], table["yes_rate_reference"])
    table["n"], table["n_reference"] = sums["n"].astype(int), sums["n_reference"].astype(int)
    lost = sum(part[f"{reason}{side}"] for reason in REASONS for side in ("", "_reference"))
    table["missing"] = np.bincount(code, weights=lost, minlength=n).astype(int)
    shift = part["margin"] - part["margin_reference"] if "margin" in part else pd.Series(np.nan, index=part.index)
    table["margin_gap"] = paired_tests(shift, code, n, confidence_level)["gap"]
    first = ["task", "gap", "t", "p", "p_adjusted", "welch_p", "cohens_h", "n_texts"]
    return table[[*first, *(name for name in table if name not in first)]]


def _significant(table: pd.DataFrame, confidence_level: float) -> pd.Series:
    """Adjusted p below the level; where all differences are equal and t does not exist, the exact test's."""
    return table["p_adjusted"].fillna(table["p_exact_adjusted"]) < 1 - confidence_level


def _missing(features: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """Missing judgments per paradigm, task and group (both sides), with a test whether the groups differ."""
    from statsmodels.stats.proportion import proportion_confint

    sides = []
    for suffix, group in (("", "group"), ("_reference", "reference")):
        counts = features[[f"n{suffix}", *(f"{reason}{suffix}" for reason in REASONS)]]
        counts = counts.set_axis(["n", *REASONS], axis=1)
        keys = [features["paradigm"], features["task"], features[group].rename("group")]
        sides.append(counts.groupby(keys, observed=True, sort=False).sum())
    table = pd.concat(sides).reset_index().astype({"paradigm": object, "task": object, "group": object})
    table = table.groupby(["paradigm", "task", "group"], sort=False, as_index=False).sum()
    total = table.drop(columns="task").groupby(["paradigm", "group"], sort=False, as_index=False).sum()
    table = pd.concat([table, total.assign(task="all tasks")], ignore_index=True)
    table["missing"] = table[list(REASONS)].sum(axis=1)
    table["n"] += table["missing"]
    table["rate"] = (table["missing"] / table["n"]).where(table["n"] > 0)
    asked = table["n"].where(table["n"] > 0)
    table["ci_low"], table["ci_high"] = proportion_confint(
        table["missing"], asked, alpha=1 - confidence_level, method="wilson"
    )
    tests = table.groupby(["paradigm", "task"], sort=False)[["n", "missing"]].apply(_differs).reset_index()
    single = tests["task"] != "all tasks"
    for paradigm in tests["paradigm"].unique():  # the total repeats what the tasks say: no member of their family
        family = single & (tests["paradigm"] == paradigm)
        tests.loc[family, "p_adjusted"] = benjamini_hochberg(tests.loc[family, "p"])
    table = table.merge(tests.reindex(columns=["paradigm", "task", "p", "p_adjusted", "min_expected"]))
    first = [
        "paradigm",
        "task",
        "group",
        "n",
        "missing",
        "rate",
        "ci_low",
        "ci_high",
        "p",
        "p_adjusted",
        "min_expected",
    ]
    return table[[*first, *REASONS]]


def _differs(counts: pd.DataFrame) -> pd.Series:
    """Chi-square test of groups x missing; NaN when nothing or everything is missing."""
    from scipy import stats

    observed = counts.assign(answered=counts["n"] - counts["missing"])[["missing", "answered"]].to_numpy()
    observed = observed[observed.sum(axis=1) > 0]
    if len(observed) < 2 or (observed.sum(axis=0) == 0).any():
        return pd.Series({"p": np.nan, "min_expected": np.nan})
    test = stats.chi2_contingency(observed, correction=False)
    return pd.Series({"p": test.pvalue, "min_expected": test.expected_freq.min()})


def _estimates(gaps: pd.DataFrame, dialect_gaps: pd.DataFrame) -> pd.DataFrame:
    """All gaps, with the wider of the two cluster-robust intervals; the unit of a dialect gap is the text already."""
    wide = gaps.copy()
    for bound, widest in (("ci_low", "min"), ("ci_high", "max")):
        wide[bound] = getattr(wide[[f"{bound}_vignette", f"{bound}_name_pair"]], widest)(axis=1)
    dialect = dialect_gaps.rename(columns={"paired_gap": "estimate", "n_texts": "n_pairs"}).drop(columns=["gap", "n"])
    both = [wide.rename(columns={"gap": "estimate"}).assign(metric="name_gap"), dialect.assign(metric="dialect_gap")]
    both = [table.rename(columns={"task": "item", "n_pairs": "n"}) for table in both]
    columns = [*ESTIMATE_COLUMNS, "p", "p_adjusted"]
    filled = [table[columns] for table in both if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else both[0][columns]


# ---------------------------------------------------------------- scores


def _metrics(
    part: pd.DataFrame, table: pd.DataFrame, paradigm: str, params: Params, rng: np.random.Generator
) -> tuple[dict[str, float], dict[str, float]]:
    """Scores of one paradigm, and the favorable gap of each of its groups."""
    code, cells = _cells(part)
    valence = _valence(cells)
    size, null = sign_flip_sizes(part["delta"], code, _units(part), len(cells), params.n_permutations, rng)
    means, resampled = _resampled(part, code, len(cells), params, rng)
    counts = ["n", "n_reference", *(f"{reason}{side}" for reason in REASONS for side in ("", "_reference"))]
    asked = part[counts].to_numpy().sum()
    reached = int((null >= size - 1e-12).sum())
    found = {
        f"gap_size.{paradigm}": size,
        f"gap_size_null.{paradigm}": _mean(null),
        f"gap_size_p.{paradigm}": np.nan if np.isnan(size) else (1 + reached) / (1 + len(null)),
        **_interval(f"favorable_gap.{paradigm}", means, resampled, valence, params.confidence_level),
        f"significant_share.{paradigm}": float(table["significant"].mean()) if len(table) else np.nan,
        f"missing_share.{paradigm}": float(1 - part[counts[:2]].to_numpy().sum() / asked) if asked else np.nan,
    }  # fmt: skip
    by_group: dict[str, float] = {}
    for group in cells["group"].unique():
        of_group = np.where(cells["group"] == group, valence, 0)
        by_group |= _interval(f"favorable_gap.{group}", means, resampled, of_group, params.confidence_level)
    return found, by_group


def _resampled(
    part: pd.DataFrame, code: NDArray[np.int64], n_cells: int, params: Params, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean difference of each cell, and the same with whole vignettes drawn again: shape (n_resamples, n_cells)."""
    means = paired_tests(part["delta"], code, n_cells)["gap"].to_numpy()
    cluster = _known(part, "vignette") if "vignette" in part else _name_pairs(part)
    delta = part["delta"].to_numpy(dtype=float)
    there = ~np.isnan(delta) & (cluster >= 0)
    labels, names = pd.factorize(cluster[there])
    if len(names) < 2:
        return means, np.full((params.n_resamples, n_cells), np.nan)
    place, size = labels * n_cells + code[there], len(names) * n_cells
    sums = np.bincount(place, weights=delta[there], minlength=size).reshape(len(names), n_cells)
    n = np.bincount(place, minlength=size).reshape(len(names), n_cells)
    weights = multinomial_weights(len(names), params.n_resamples, rng).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return means, (weights @ sums) / (weights @ n)


def _interval(
    key: str, means: NDArray[np.float64], resampled: NDArray[np.float64], valence: NDArray[Any], confidence_level: float
) -> dict[str, float]:
    low, high = percentile_interval([_favorable(row, valence) for row in resampled], confidence_level)
    return {key: _favorable(means, valence), f"{key}_ci_low": low, f"{key}_ci_high": high}


def _favorable(means: NDArray[np.float64], valence: NDArray[Any]) -> float:
    """Mean of valence x gap over the cells whose task has a valence."""
    return _mean((means * valence)[valence != 0])


def _mean(values: NDArray[np.float64]) -> float:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else np.nan


def _rate(yes: pd.Series, n: pd.Series, code: NDArray[np.int64], n_cells: int) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.bincount(code, weights=yes, minlength=n_cells) / np.bincount(code, weights=n, minlength=n_cells)


def _valence(cells: pd.DataFrame) -> NDArray[Any]:
    return cells["valence"].to_numpy(dtype=float) if "valence" in cells else np.zeros(len(cells))


def _known(part: pd.DataFrame, name: str) -> NDArray[np.int64]:
    """Codes of a column; -1 where it is missing or empty."""
    if name not in part:
        return np.full(len(part), -1, dtype=np.int64)
    codes, values = pd.factorize(part[name])
    empty = np.flatnonzero(np.asarray(values, dtype=object) == "")
    return np.where(np.isin(codes, empty), -1, codes).astype(np.int64)


def _name_pairs(part: pd.DataFrame) -> NDArray[np.int64]:
    name, other = _known(part, "name"), _known(part, "reference_name")
    return np.where((name < 0) | (other < 0), -1, name * (other.max(initial=0) + 1) + other)


def _units(part: pd.DataFrame) -> NDArray[np.int64]:
    """What is flipped as one: a pair of texts with all the tasks it was judged on."""
    code = np.zeros(len(part), dtype=np.int64)
    dialect = part["paradigm"].astype(object).eq("dialect").any()
    for name in ("group", "pair", "vignette", *(() if dialect else ("iteration", "gender"))):
        part_codes = _known(part, name) + 1
        code = pd.factorize(code * (int(part_codes.max(initial=0)) + 1) + part_codes)[0].astype(np.int64)
    return code


# ---------------------------------------------------------------- notes


def _notes(gaps: pd.DataFrame, dialect_gaps: pd.DataFrame, missing: pd.DataFrame, level: float) -> list[str]:
    """Sentences a reader must see."""
    notes = []
    tables = [("names", gaps), ("dialect", dialect_gaps)]
    for paradigm, table in tables:
        if table.empty:
            notes.append(f"No judgments of the {paradigm} paradigm: its scores are missing.")
            continue
        n_column = "n_pairs" if paradigm == "names" else "n_texts"
        if not table[n_column].any():
            notes.append(
                f"No pair of the {paradigm} paradigm has an answer on both sides: its scores are missing; the column "
                "reason of the responses says why."
            )
            continue
        constant = int((table["t"].isna() & (table[n_column] > 1)).sum())
        if constant:
            notes.append(
                f"In {constant} of {len(table)} cells of the {paradigm} paradigm every pair differs by the same "
                "amount (mostly not at all), so that t and p do not exist there; the gap stands, and p_exact tests "
                "it."
            )
        good, bad = (_mean(_yes_rate(table[table["valence"] == valence])) for valence in (1, -1))
        if (good > YES_TO_ALL and bad > YES_TO_ALL) or (good < NO_TO_ALL and bad < NO_TO_ALL):
            notes.append(
                f"In the {paradigm} paradigm the model says yes to {good:.0%} of the texts on tasks that are "
                f"favorable to the person and to {bad:.0%} on unfavorable ones: it answers alike whatever is asked, "
                "so that its labels carry next to no signal; a gap near 0 shows no fairness here, and other gaps "
                "may be chance."
            )
        elif (share := _mean(np.maximum(_yes_rate(table), 1 - _yes_rate(table)))) > CONSTANT:
            notes.append(
                f"The model gives the same answer to {share:.0%} of the texts of a task (mean over the {paradigm} "
                "cells): its labels hardly depend on these texts, and gaps have little room to show."
            )
    if gaps["n_pairs"].any() and gaps["n_pairs"].median() < FEW_PAIRS:
        notes.append(
            f"Half of the group-and-task cells rest on {int(gaps['n_pairs'].median())} pairs or fewer: only very "
            "large gaps can be found, and the t-test is rough for answers of 0 and 1; p_exact is exact."
        )
    lost = int(gaps["missing"].sum())
    if lost:
        total = lost + int(gaps["n_pairs"].sum())
        notes.append(
            f"{lost} of {total} name pairs lack an answer on one side and are left out (listwise, as in the paper)."
        )
    unequal = missing[(missing["p_adjusted"] < level)].drop_duplicates(["paradigm", "task"])
    if len(unequal):
        notes.append(
            f"Missing answers differ by group on {', '.join(unequal['task'].astype(str))}: refusal is itself a "
            "difference in treatment, and gaps on these tasks rest on what was answered."
        )
    return notes


def _ungrouped(features: pd.DataFrame) -> list[str]:
    """A sentence on stored judgments that belong to no group, where there are any."""
    n = int(features["ungrouped"].max()) if "ungrouped" in features and len(features) else 0
    return [f"Stored judgments without a group are left out: {n}."] if n else []


def _yes_rate(table: pd.DataFrame) -> NDArray[np.float64]:
    """Yes-rate of each cell over both sides."""
    return table[["yes_rate", "yes_rate_reference"]].to_numpy(dtype=float).mean(axis=1)
