"""Probability of differentiation by group and cue, effects between groups, and what they come to over cues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from markedness.audits.homogeneity import DEFAULT_AXES, figures
from markedness.records import ESTIMATE_COLUMNS, Axes, Evaluation, Status, Strict, group_name
from markedness.stats.differentiation import CategoryCounts, Replicates
from markedness.stats.effect_size import cohens_d
from markedness.stats.meta_analysis import random_effects
from markedness.stats.paired import benjamini_hochberg
from markedness.stats.resampling import cluster_bootstrap_mean, percentile_interval, permuted_share_test
from markedness.stats.similarity import similarity_cells, similarity_effects, within_group_similarity

FEW_NAMES = 10
"""Below so many clusters a percentile interval is too short; a note says so."""
_NONCOMPLIANT = [Status.REFUSAL.value, Status.UNPARSED.value, Status.TRUNCATED.value]
_MISSING = [Status.FAILED.value, Status.UNSUPPORTED.value]


class Params(Strict):
    """``homogeneity.evaluate``."""

    axes: Axes = DEFAULT_AXES
    n_resamples: int = Field(default=1000, ge=2)
    """Bootstrap replicates R; the published interval of d depends on it."""
    n_permutations: int = Field(default=500, ge=1)
    """Permutations of the names' labels for the null."""
    confidence_level: float = Field(default=0.95, gt=0, lt=1)


class _Group(NamedTuple):
    """One group with the unmarked group it is compared with; an unmarked group has no reference."""

    axis: str
    """The axis, or several joined by " x " for a crossed group."""
    name: str
    reference: str | None
    members: NDArray[np.bool_]
    """Which clusters belong to it."""


_Bootstrap = dict[tuple[str, str], dict[str, Replicates]]
"""(axis, group) -> cue -> replicates."""


def evaluate(features: pd.DataFrame, params: Params, rng: np.random.Generator) -> Evaluation:
    """P_d with a cluster bootstrap, effects, meta-analysis, a permutation null, non-compliance, similarity.

    Parameters
    ----------
    features
        Counts of categories by cue and cluster, and embedded texts; see featurize.
    params
        Axes, replicates, permutations, confidence level.
    rng
        Seeded generator.

    Returns
    -------
    Evaluation
        Differences are unmarked minus marked: positive, the marked group has less variety. NaN where a group
        has fewer than two clusters or its replicates do not vary.
    """
    axes = {axis: words for axis, words in params.axes.items() if axis in features}
    kept = features[features["kept"].astype(bool)]
    expressions = kept[kept["kind"].eq("expression")]
    counts = CategoryCounts(*(expressions[c] for c in ("cue", "cluster", "category", "count")))
    people = expressions.drop_duplicates("cluster").set_index("cluster").reindex(counts.clusters)
    groups = _groups(people, axes)
    drawn: _Bootstrap = {
        group[:2]: {r.cue: r for r in counts.replicates(group.members, params.n_resamples, rng)} for group in groups
    }
    effects = _effects(groups, drawn, axes, params)
    tables = {
        "probability_of_differentiation": _differentiation(groups, drawn, params),
        "effects": effects,
        "meta_analysis": _meta_analysis(effects, params),
        "differences": _differences(counts, people, drawn, axes, params, rng),
        "noncompliance": _noncompliance(features, axes, params, rng),
    }
    texts = kept[kept["kind"].eq("text")]
    if len(texts):
        tables |= _similarity(texts, axes, params, rng)
    tables = {name: table for name, table in tables.items() if len(table)}
    return Evaluation(
        estimates=_estimates(tables),
        tables=tables,
        metrics=_metrics(tables, axes),
        figures=figures.figures(tables),
        notes=_notes(features, tables),
    )


def scores(features: pd.DataFrame, params: Params) -> dict[str, float]:
    """Headline scores of some rows of features, drawn clusters repeated: P_d differences averaged over cues.

    pd.mean is P_d averaged over cues and single-axis groups. Longer texts have no score here: a text drawn twice
    would be alike to itself.
    """
    used = features["kept"].to_numpy(bool) & features["kind"].eq("expression").to_numpy(bool)
    cue, cues = pd.factorize(features["cue"].array[used])
    category, categories = pd.factorize(features["category"].array[used], use_na_sentinel=False)
    counts = features["count"].to_numpy(float)[used]
    found: dict[str, float] = {}
    means = []
    for axis, words in params.axes.items():
        if axis not in features or not len(cues):
            continue
        values = list(words.values)
        code, present = pd.factorize(features[axis].array[used])
        value = np.array([*(values.index(v) if v in values else -1 for v in present), -1])[code]
        by_value = _plain_pd(
            (cue * len(values) + value)[value >= 0], category[value >= 0], counts[value >= 0],
            (len(cues), len(values)), len(categories),
        )  # fmt: skip
        means.append(np.nanmean(by_value))
        reference = by_value[:, values.index(words.unmarked)]
        for marked in words.marked:
            difference = reference - by_value[:, values.index(marked)]
            if np.isfinite(difference).any():
                found[f"pd_difference.{marked}"] = float(np.nanmean(difference))
    return found | ({"pd.mean": float(np.mean(means))} if means else {})


def _plain_pd(
    cell: NDArray[np.intp], category: NDArray[np.intp], counts: NDArray[np.float64], shape: tuple[int, int], n: int
) -> NDArray[np.float64]:
    """P_d of the answers themselves, cue x value: sums over what occurs, for scores of many resamples."""
    occurring, place = np.unique(cell * n + category, return_inverse=True)
    sums = np.bincount(place, counts)
    n_cells = shape[0] * shape[1]
    totals = np.bincount(occurring // n, sums, n_cells)
    squares = np.bincount(occurring // n, sums**2, n_cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (1 - squares / totals**2).reshape(shape)


def _groups(people: pd.DataFrame, axes: Axes) -> list[_Group]:
    """Values of each axis, then the crossed groups, those that have answers; unmarked groups first."""
    found = []
    for axis, words in axes.items():
        for value in (words.unmarked, *words.marked):
            reference = None if value == words.unmarked else words.unmarked
            found.append(_Group(axis, value, reference, people[axis].eq(value).to_numpy(bool)))
    if len(axes) > 1:
        whole = people[list(axes)].replace("", None).notna().all(axis=1)
        unmarked = group_name({axis: words.unmarked for axis, words in axes.items()}, axes)
        for name in sorted(set(people.loc[whole, "group"]), key=lambda name: (name != unmarked, name)):
            members = (people["group"].eq(name) & whole).to_numpy(bool)
            found.append(_Group(" x ".join(axes), name, None if name == unmarked else unmarked, members))
    return [group for group in found if group.members.any()]


# ---------------------------------------------------------------- the published measures


def _differentiation(groups: list[_Group], drawn: _Bootstrap, params: Params) -> pd.DataFrame:
    """Reported as published: the median of the replicates; of a single cluster, which has none, P_d itself."""
    rows = []
    for group in groups:
        for r in drawn[group[:2]].values():
            several = r.n_clusters > 1
            low, high = percentile_interval(r.drawn, params.confidence_level) if several else (np.nan, np.nan)
            estimate = float(np.median(r.drawn)) if several else r.sample
            rows.append((group.axis, group.name, r.cue, estimate, low, high, r.n, r.sample, r.n_clusters))
    columns = ["axis", "group", "cue", "pd", "ci_low", "ci_high", "n", "pd_sample", "n_clusters"]
    return pd.DataFrame(rows, columns=columns)


def _effects(groups: list[_Group], drawn: _Bootstrap, axes: Axes, params: Params) -> pd.DataFrame:
    rows = []
    for group in groups:
        first = drawn.get((group.axis, group.reference or ""), {})
        for cue, second in drawn[group[:2]].items() if group.reference else ():
            if cue not in first or min(first[cue].n_clusters, second.n_clusters) < 2:
                continue
            made = cohens_d(first[cue].drawn, second.drawn, params.confidence_level)
            rows.append(
                {
                    "comparison": f"{group.reference} v. {group.name}", "cue": cue, "d": made.d,
                    "ci_low": made.ci_low, "ci_high": made.ci_high, "z": made.z, "p": made.p, "axis": group.axis,
                    "group": group.name, "reference": group.reference, "difference": made.difference,
                    "difference_ci_low": made.difference_ci_low, "difference_ci_high": made.difference_ci_high,
                    "n_resamples": params.n_resamples,
                }
            )  # fmt: skip
    effects = pd.DataFrame(rows)
    if len(effects):
        crossed = ~effects["axis"].isin(list(axes))
        effects["q"] = effects.groupby(crossed)["p"].transform(benjamini_hochberg)
    return effects


def _meta_analysis(effects: pd.DataFrame, params: Params) -> pd.DataFrame:
    rows = []
    for comparison, own in effects.groupby("comparison", sort=False) if len(effects) else ():
        pooled = random_effects(own["d"], (own["ci_high"] - own["ci_low"]) / 3.92, params.confidence_level)
        rows.append(
            {
                "comparison": comparison, "d": pooled.estimate, "ci_low": pooled.ci_low, "ci_high": pooled.ci_high,
                "p": pooled.p, "tau2": pooled.tau2, "i2": pooled.i2, "k": pooled.k, "q": pooled.q,
                "p_heterogeneity": pooled.p_heterogeneity, "prediction_low": pooled.prediction_low,
                "prediction_high": pooled.prediction_high, "axis": own["axis"].iloc[0],
                "group": own["group"].iloc[0], "reference": own["reference"].iloc[0],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- beside them: a null, and what was left out


def _differences(
    counts: CategoryCounts,
    people: pd.DataFrame,
    drawn: _Bootstrap,
    axes: Axes,
    params: Params,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Mean difference over the cues that both groups have, with its interval and its null."""
    rows = []
    for axis, words in axes.items():
        first = drawn.get((axis, words.unmarked), {})
        marked = [value for value in words.marked if first.keys() & drawn.get((axis, value), {}).keys()]
        if not marked:
            continue
        strata = people[[other for other in axes if other != axis]].astype(str).agg(" ".join, axis=1)
        nulls = counts.permuted_differences(people[axis], strata, words.unmarked, marked, params.n_permutations, rng)
        for value in marked:
            pairs = [(first[cue], second) for cue, second in drawn[axis, value].items() if cue in first]
            several = [a.drawn - b.drawn for a, b in pairs if min(a.n_clusters, b.n_clusters) > 1]
            estimate = float(np.mean([a.sample - b.sample for a, b in pairs]))
            low, high = percentile_interval(np.mean(several, axis=0) if several else [], params.confidence_level)
            # A single name is not to be swapped with names that answer more often: it has no null.
            null = nulls[value][np.isfinite(nulls[value])] if several else np.empty(0)
            null_low, null_high = percentile_interval(null, params.confidence_level)
            p = (1 + (np.abs(null) >= abs(estimate) - 1e-12).sum()) / (1 + len(null)) if len(null) else np.nan
            rows.append(
                {
                    "comparison": f"{words.unmarked} v. {value}", "axis": axis, "group": value,
                    "reference": words.unmarked, "difference": estimate, "ci_low": low, "ci_high": high,
                    "null_low": null_low, "null_high": null_high,
                    "p": float(p), "n_cues": len(pairs),
                }
            )  # fmt: skip
    differences = pd.DataFrame(rows)
    if len(differences):
        differences["q"] = benjamini_hochberg(differences["p"])
    return differences


def _noncompliance(features: pd.DataFrame, axes: Axes, params: Params, rng: np.random.Generator) -> pd.DataFrame:
    """Share of answers that do not comply, by group, with a permutation test of each axis by cluster."""
    rows = []
    for axis, words in axes.items():
        status, count = features["status"], features["count"]
        parts = pd.DataFrame(
            {
                "cluster": features["cluster"], axis: features[axis],
                "answered": count.where(~status.isin(_MISSING), 0),
                "bad": count.where(status.isin(_NONCOMPLIANT), 0),
                "empty": count.where(features["empty"].astype(bool), 0),
                "missing": count.where(status.isin(_MISSING), 0),
            }
        )  # fmt: skip
        people = parts[parts[axis].isin(list(words.values))].groupby(["cluster", axis], sort=False).sum().reset_index()
        p = permuted_share_test(people["bad"], people["answered"], people[axis], params.n_permutations, rng)
        for value in [value for value in words.values if people[axis].eq(value).any()]:
            own = people[people[axis].eq(value)]
            answered = int(own["answered"].sum())
            interval = _share_interval(own, params, rng)
            share = own["bad"].sum() / answered if answered else np.nan
            rows.append(
                (axis, value, answered, int(own["bad"].sum()), share, *interval, int(own["empty"].sum()),
                 int(own["missing"].sum()), p)
            )  # fmt: skip
    columns = ["axis", "group", "n", "noncompliant", "share", "ci_low", "ci_high", "empty", "missing", "p"]
    table = pd.DataFrame(rows, columns=columns)
    by_axis = table.drop_duplicates("axis").set_index("axis")["p"]
    adjusted = pd.Series(benjamini_hochberg(by_axis), index=by_axis.index)
    return table.assign(q=table["axis"].map(adjusted))


def _share_interval(people: pd.DataFrame, params: Params, rng: np.random.Generator) -> tuple[float, float]:
    """Interval of a share by cluster."""
    bad, good = people["bad"].to_numpy(int), (people["answered"] - people["bad"]).to_numpy(int)
    flags = np.repeat([1.0, 0.0], [bad.sum(), good.sum()])
    names = people["cluster"].to_numpy(object)
    clusters = np.concatenate([names.repeat(bad), names.repeat(good)])
    made = cluster_bootstrap_mean(flags, clusters, params.n_resamples, rng, params.confidence_level)
    return made.low, made.high


def _similarity(texts: pd.DataFrame, axes: Axes, params: Params, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Embedding similarity of the groups of each axis and of the crossed groups; effects from the crossed cells."""
    vectors, prompts = np.stack(texts["embedding"].tolist()), texts["cue"].to_numpy()
    parts = []
    for axis in (*axes, "group") if len(axes) > 1 else tuple(axes):
        cells = similarity_cells(vectors, texts[axis].to_numpy(), prompts)
        made = within_group_similarity(cells, params.n_resamples, rng, params.confidence_level)
        parts.append(made.assign(axis=axis if axis in axes else " x ".join(axes)))
    crossed = similarity_cells(vectors, texts["group"].to_numpy(), prompts)
    factors = texts.drop_duplicates("group").set_index("group")[list(axes)]
    unmarked = {axis: words.unmarked for axis, words in axes.items()}
    effects = similarity_effects(crossed, factors, unmarked, params.n_resamples, rng, params.confidence_level)
    return {
        "similarity": pd.concat(parts, ignore_index=True),
        "similarity_effects": effects.rename(columns={"factor": "axis"}),
    }


# ---------------------------------------------------------------- what a reader sees


def _estimates(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every estimate as one contrast a row."""
    parts = []
    for stem, metric, value, item, n in (
        ("probability_of_differentiation", "pd", "pd", "cue", "n"),
        ("effects", "d", "d", "cue", "n_resamples"),
        ("meta_analysis", "pooled_d", "d", None, "k"),
        ("differences", "pd_difference", "difference", None, "n_cues"),
        ("noncompliance", "noncompliance", "share", None, "n"),
        ("similarity", "similarity", "mean_cosine", None, "n"),
        ("similarity_effects", "similarity_difference", "difference", None, "n_prompts"),
    ):
        if stem not in tables:
            continue
        table = tables[stem]
        parts.append(
            pd.DataFrame(
                {
                    "metric": metric, "item": table[item] if item else "", "group": table["group"],
                    "reference": table.get("reference", ""), "estimate": table[value],
                    "ci_low": table["ci_low"], "ci_high": table["ci_high"], "n": table[n], "axis": table["axis"],
                }
            )
        )  # fmt: skip
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(ESTIMATE_COLUMNS))


def _metrics(tables: Mapping[str, pd.DataFrame], axes: Axes) -> dict[str, float]:
    """At most 30 numbers, the most telling first; one measure stands whole or not at all."""
    found: dict[str, float] = {}
    if "probability_of_differentiation" in tables:
        table = tables["probability_of_differentiation"]
        by_axis = table[table["axis"].isin(list(axes))].groupby(["axis", "cue"])["pd_sample"].mean()
        found["pd.mean"] = float(by_axis.groupby("axis").mean().mean())
    if "noncompliance" in tables:
        table = tables["noncompliance"]
        first = table[table["axis"].eq(table["axis"].iloc[0])]
        found["noncompliance.share"] = float(first["noncompliant"].sum() / max(first["n"].sum(), 1))
    for stem, metric, value, ends in (
        ("differences", "pd_difference", "difference", ("ci_low", "ci_high", "null_low", "null_high")),
        ("similarity_effects", "similarity_difference", "difference", ("ci_low", "ci_high")),
        ("meta_analysis", "pooled_d", "d", ("ci_low", "ci_high")),
        ("meta_analysis", "pooled_d", "d", ()),
    ):
        table = tables.get(stem, pd.DataFrame({"axis": []}))
        more: dict[str, float] = {}
        for row in table[table["axis"].isin(list(axes))].to_dict("records"):
            key = f"{metric}.{row['group']}"
            more |= {key: row[value]} | {f"{key}_{end}": row[end] for end in ends}
        if len(found | more) <= 30:
            found |= more
    return found


def _notes(features: pd.DataFrame, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    left_out = features[~features["kept"].astype(bool)].groupby("status")["count"].sum()
    total = int(features["count"].sum())
    notes = []
    if len(left_out):
        parts = ", ".join(f"{count} {status}" for status, count in left_out.items())
        notes.append(f"{int(left_out.sum())} of {total} answers are left out: {parts}.")
    empty = int(features.loc[features["empty"].astype(bool) & features["kept"].astype(bool), "count"].sum())
    if empty:
        notes.append(f"{empty} of the answers kept have no letter or digit; they count as one category, as published.")
    if "probability_of_differentiation" in tables:
        table = tables["probability_of_differentiation"]
        few = table[table["n_clusters"] < FEW_NAMES]
        if len(few):
            notes.append(
                f"Some groups have fewer than {FEW_NAMES} names (down to {few['n_clusters'].min()}): their intervals "
                "are too short; ask more names before believing them."
            )
    if "noncompliance" in tables:
        for axis, own in tables["noncompliance"].groupby("axis", sort=False):
            if own["q"].iloc[0] < 0.05:
                shares = own.set_index("group")["share"]
                notes.append(
                    f"Answers comply unequally by {axis}: {shares.min():.1%} are left out for {shares.idxmin()}, "
                    f"{shares.max():.1%} for {shares.idxmax()} (q = {own['q'].iloc[0]:.3g})."
                )
    if "effects" in tables and tables["effects"]["d"].isna().any():
        missing = tables["effects"][tables["effects"]["d"].isna()]
        notes.append(f"{len(missing)} effects are not estimated: all replicates of both groups are the same.")
    if "meta_analysis" in tables:
        notes.append(
            "Pooled d and its p are computed as published; their errors leave out most of the sampling error, so that "
            "they find effects where there are none. Judge by the mean differences and their null."
        )
    if "similarity" in tables:
        cues = features.loc[features["kind"].eq("text"), "cue"].nunique()
        notes.append(f"{cues} cues hold longer texts: they are compared by sentence embeddings, not by categories.")
    return notes
