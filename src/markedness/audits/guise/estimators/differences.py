"""Scores that compare rates of the two guises: detrimental decisions, missing scores. Texts are the units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Unpack

import numpy as np
import pandas as pd

from markedness.audits.guise.estimators.decisions import Verdicts
from markedness.audits.guise.estimators.sampling import PROMPT, VERB
from markedness.audits.guise.estimators.text_sets import Floats
from markedness.results import About, Score
from markedness.stats.inference import (
    MIN_CLUSTERS,
    NO_SPREAD,
    Codes,
    LeaveOut,
    Null,
    alike_variance,
    claim,
    crossing,
    equal_shares,
    group_difference_score,
    holds_for,
    spread,
    within_clusters,
)

_METHOD = (
    "guises exchanged between texts of one verb or source (texts that are not matched: within their set), "
    "studentised; interval by leaving out verbs or sources; prompts and shared sources weigh alike on both sides"
)


def decision_score(
    key: str, decided: Sequence[Verdicts], rng: np.random.Generator, family: int, confidence_level: float = 0.95
) -> Score:
    """Rate of detrimental decisions about the guise minus that of its reference, paired by text."""
    first = decided[0]
    missing = sum(_missing(one) + _missing(one, reference=True) for one in decided)
    named = all(one.clusters is not None and one.clusters_reference is not None for one in decided)
    return _difference(
        key, pd.concat(map(_cells, decided)), rng, family, confidence_level, "" if named else "verb",
        n_missing=missing, unit="decisions",
        positive=f"speakers of {first.group} get more detrimental decisions than those of {first.reference}",
        negative=f"speakers of {first.group} get fewer detrimental decisions than those of {first.reference}",
        worse=1, comparable=True, group=first.group, reference=first.reference,
    )  # fmt: skip


def decision_contrast(
    key: str, first: Sequence[Verdicts], second: Sequence[Verdicts], rng: np.random.Generator, family: int = 1,
    confidence_level: float = 0.95,
) -> Score:  # fmt: skip
    """Rate of detrimental decisions about one marked guise minus that of another.

    Parameters
    ----------
    first, second
        The decisions of each guise and its reference. Of sets that are matched only the verbs or source texts that
        both guises have are compared, of others only sets that have both.
    rng
        Seeded generator of the exchanges.
    family
        Scores over which p is corrected.

    Returns
    -------
    Score
        Where the guises share no set, and fewer than six sources or sources whose reference texts get other decisions,
        as in files of their own that number their texts from 1, texts differ in what they say too: each rate is then
        taken against that of the reference in the same sets, and p is of t over verbs or texts.
    """
    cells = pd.concat(
        [_cells(one).assign(side=side) for side, decided in ((True, first), (False, second)) for one in decided]
    )
    named = all(one.clusters is not None for one in (*first, *second))
    names = first[0].group, second[0].group
    about = About(
        unit="decisions", worse=1, comparable=True, group=names[0], reference=names[1],
        n_missing=sum(map(_missing, (*first, *second))),
        positive=f"speakers of {names[0]} get more detrimental decisions than those of {names[1]}",
        negative=f"speakers of {names[0]} get fewer detrimental decisions than those of {names[1]}",
    )  # fmt: skip
    marked = cells[cells["marked"]].assign(marked=lambda table: table["side"])
    keys = pd.MultiIndex.from_arrays([marked["set"], marked["cluster"].where(marked["set"].eq(""), "")])
    shared = keys.isin(keys[marked["side"]]) & keys.isin(keys[~marked["side"]])
    if not named:
        return _difference(key, marked, rng, family, confidence_level, "verb", **about)
    together = keys[shared].unique()
    own_sets = not together.get_level_values(0).any()
    few = len(together) < MIN_CLUSTERS and not shared.all()
    own_files = {one.name for one in first}.isdisjoint(one.name for one in second)
    unlike = few or (own_files and not _same_references(cells))
    if own_sets and unlike and cells.groupby("side")["marked"].nunique().eq(2).sum() == 2:
        known = all(one.clusters_reference is not None for one in (*first, *second))
        why = f"fewer than {MIN_CLUSTERS} sources have both guises" if few else "the guises have other reference texts"
        return _difference_of_differences(key, cells, why, "" if known else "verb", family, confidence_level, about)
    made = _difference(key, marked[shared], rng, family, confidence_level, "", **about)
    left = "; texts that have no counterpart in the other guise are left out"
    return made if shared.all() else replace(made, method=made.method + left)


def _missing(one: Verdicts, reference: bool = False) -> int:
    """Decisions about one guise that were asked for and have no probability.

    A text that is not matched may have none beside it: of that, which has no source either, nothing was asked.
    """
    values, names = (one.margin, one.clusters) if not reference else (one.margin_reference, one.clusters_reference)
    asked = np.ones(len(values), dtype=bool) if one.setting != "unmatched" or names is None else names != ""
    return int(np.isnan(values[asked]).sum())


def _cells(one: Verdicts) -> pd.DataFrame:
    """The decisions of one set: hit, total, marked, cluster, prompt, set ("" where matched)."""
    parts = []
    sides = ((one.detrimental, one.clusters, True), (one.detrimental_reference, one.clusters_reference, False))
    for values, names, marked in sides:
        there = np.isfinite(values)
        prompts = np.broadcast_to(np.asarray(one.prompts, dtype=object), values.shape)
        clusters = np.broadcast_to("" if names is None else names[:, None], values.shape)
        parts.append(
            pd.DataFrame(
                {
                    "hit": values[there], "total": 1.0, "marked": marked, "cluster": clusters[there],
                    "prompt": prompts[there], "set": "" if one.setting != "unmatched" else one.name,
                }
            )
        )  # fmt: skip
    return pd.concat(parts)


def _same_references(cells: pd.DataFrame) -> bool:
    """Whether the references of both sides get the same decisions wherever both have a source and prompt."""
    references = cells[~cells["marked"].astype(bool)]
    rates = references.groupby(["cluster", "prompt", "side"])["hit"].mean().unstack().dropna()
    return rates.shape[1] < 2 or bool(np.ptp(rates.to_numpy(dtype=float), axis=1).max(initial=0.0) < 1e-9)


def _difference_of_differences(
    key: str, cells: pd.DataFrame, why: str, missing_column: str, family: int, confidence_level: float, about: About
) -> Score:
    """Two guises, each against the reference in its own sets; cells: hit, marked, side, cluster, prompt."""
    names = about["group"], about["reference"]
    about["positive"], about["negative"] = (
        f"against the reference of their own texts, speakers of {names[0]} get {word} detrimental decisions than those "
        f"of {names[1]}"
        for word in ("more", "fewer")
    )
    whole, cells = cells, at_equal_shares(cells.assign(set=""), ["side", "marked"])
    if cells.empty:
        return _told(claim(key, np.nan, method="", **about), whole, cells)
    part = np.asarray(2 * cells["side"].astype(int) + cells["marked"].astype(int), dtype=np.intp)
    sums = cells.groupby(["side", "marked"])[["hit", "total"]].sum()
    rates = sums["hit"] / sums["total"]
    rate = {key: float(rates.get(key, np.nan)) for key in product((True, False), repeat=2)}
    estimate = rate[True, True] - rate[True, False] - rate[False, True] + rate[False, False]
    factors = {VERB: cells["cluster"].astype(str), PROMPT: cells["prompt"].astype(str)}
    found = spread(_leave_out(cells, part, (1, -1, -1, 1)), factors, part)
    found = found.at_least(_alike(cells, part), found.df)
    if VERB in found.fixed:  # prompts alone would not show the error
        found = replace(NO_SPREAD, fixed=(VERB,), fewest=found.fewest)
    about["n"] = len(cells)
    sampled = "verbs or texts" if PROMPT in found.fixed else "verbs or texts crossed with prompts"
    method = f"{why}: each rate minus that of the reference in its own sets; t over {sampled}, each left out in turn"
    made = claim(
        key, estimate, found, family=family, confidence_level=confidence_level, method=method,
        missing_column=missing_column, **about,
    )  # fmt: skip
    return _told(made, whole, cells)


def _alike(cells: pd.DataFrame, part: Codes) -> float:
    """Standard error of the signed sum of rates if the clusters of all parts varied alike, as in `contrast_score`.

    0 where most of each part is compared within clusters.
    """
    units = cells.assign(part=part).groupby(["part", "cluster"])[["hit", "total"]].sum().reset_index()
    totals, of_part = units["total"].to_numpy(dtype=float), units["part"].to_numpy(dtype=np.intp)
    if within_clusters(units["cluster"], of_part, totals):
        return 0.0
    shares = units["hit"].to_numpy(dtype=float) / totals
    return float(np.sqrt(alike_variance(shares, totals, of_part, np.ones(of_part.max() + 1), of_part)))


def missing_score(rows: pd.DataFrame, rng: np.random.Generator, family: int, confidence_level: float = 0.95) -> Score:
    """Share of missing scores of texts in the guise minus that of its reference.

    A score that is absent without a reason was not asked for: sets that are not matched may differ in size. Nor was one
    beside a text that is not matched and has no source, where the text of the other guise has one: there is no text.
    """
    asked = rows[rows["kind"].ne("perplexity") & rows["setting"].ne("overt")]
    group, reference = (str(rows[name].iloc[0]) for name in ("group", "reference"))
    why, parts = asked["missing"].notna(), []
    named = asked["cluster"].notna() | asked["cluster_reference"].notna()
    alone = asked["setting"].eq("unmatched") & named
    for value, cluster, marked in (("log_prob", "cluster", True), ("log_prob_reference", "cluster_reference", False)):
        side = pd.DataFrame(
            {
                "hit": (asked[value].isna() & why).astype(float), "total": 1.0, "marked": marked,
                "cluster": asked[cluster].astype(object), "prompt": asked["prompt_id"].astype(object),
                "set": asked["text_set"].astype(object).where(asked["setting"].eq("unmatched"), ""),
            }
        )  # fmt: skip
        parts.append(side[asked[value].notna() | (why & ~(alone & asked[cluster].isna()))])
    both = pd.concat(parts)
    return _difference(
        "missing.difference", both, rng, family, confidence_level,
        "verb" if both["cluster"].isna().any() else "",
        unit="scores", n_missing=int(both["hit"].sum()), comparable=True, group=group, reference=reference,
        positive=f"more scores are missing after texts in {group} than after {reference}",
        negative=f"fewer scores are missing after texts in {group} than after {reference}",
    )  # fmt: skip


def _difference(
    key: str, cells: pd.DataFrame, rng: np.random.Generator, family: int, confidence_level: float, missing_column: str,
    **about: Unpack[About],
) -> Score:  # fmt: skip
    """Difference of two rates, from cells: hit, total, marked, cluster, prompt, set ("" where matched).

    At equal shares; of sources, too, where guises are mostly compared within them.
    """
    paired = not cells.empty and within_clusters(
        cells["set"].astype(str) + "/" + cells["cluster"].astype(str), cells["marked"].to_numpy(dtype=np.intp),
        cells["total"].to_numpy(dtype=float),
    )  # fmt: skip
    equal = at_equal_shares(cells, ["marked"], by_cluster=paired)
    made = _difference_of_equal(
        key, equal, rng, family, confidence_level, missing_column, cells["hit"].nunique() <= 1,
        paired and equal is not cells, **about,
    )  # fmt: skip
    return _told(made, cells, equal)


def _told(made: Score, cells: pd.DataFrame, equal: pd.DataFrame) -> Score:
    """The Score, which says how many cells, and which prompts, are in none of `at_equal_shares`."""
    if equal.empty and not cells.empty:
        why = "no prompt has answers about texts of both guises"
        return replace(made, lacking=why, method=f"not estimated: {why}")
    if (left := len(cells) - len(equal)) and not made.missing:
        what = f"{left:,} of {len(cells):,} have no counterpart in the other guise and are left out"
        made = replace(made, method=f"{made.method}; {what}")
    alone = sorted({*cells["prompt"].astype(str)} - {*equal["prompt"].astype(str)})
    return made.not_over(alone, "texts of one guise alone have an answer")


def _difference_of_equal(
    key: str, cells: pd.DataFrame, rng: np.random.Generator, family: int, confidence_level: float, missing_column: str,
    constant: bool, within: bool, **about: Unpack[About],
) -> Score:  # fmt: skip
    """`_difference` of the cells of `at_equal_shares`.

    ``constant``: all cells have or lack a hit; ``within``: guises are exchanged within sources in all sets.
    """
    if missing_column or cells.empty:
        sums = cells.groupby("marked")[["hit", "total"]].sum()
        rates = sums["hit"] / sums["total"]
        estimate = float(rates.get(True, np.nan) - rates.get(False, np.nan))
        about["n"] = len(cells)
        return claim(key, estimate, method="there are no answers", missing_column=missing_column, **about)
    units = cells.groupby(["set", "cluster", "marked"], sort=True, observed=True)[["hit", "total"]].sum().reset_index()
    block = units["set"].astype(str) + "/" + units["cluster"].astype(str).where(units["set"].eq("") | within, "")
    made = group_difference_score(
        key, units["hit"], units["total"], units["marked"], [True], False, rng, cluster=VERB,
        clusters=units["cluster"].astype(str), blocks=[block], family=family, confidence_level=confidence_level,
        method=_METHOD, **about,
    )  # fmt: skip
    if np.isnan(made.p):
        return made
    n_verbs = made.fewest
    if cells["prompt"].nunique() < MIN_CLUSTERS:
        return _at_least_found(made.warned(holds_for(f"'{PROMPT}'")), n_verbs)
    if np.isnan(made.standard_error):
        return made  # with too few verbs, prompts alone would not show the error
    crossed = spread(
        _leave_out(cells, cells["marked"].to_numpy(dtype=np.intp), (-1, 1)),
        {VERB: cells["cluster"].astype(str), PROMPT: cells["prompt"].astype(str)}, cells["marked"],
    )  # fmt: skip
    crossed = crossed.at_least(made.standard_error, made.df)
    about["n"] = made.n
    method = "t over verbs or texts crossed with prompts, each left out in turn"
    null = Null(p=1.0) if constant else None
    made = claim(
        key, made.estimate, crossed, null, family=family, confidence_level=confidence_level, method=method, **about
    )
    return _at_least_found(made, n_verbs)


def _at_least_found(made: Score, n: float) -> Score:
    """With ``detectable`` no less than if the answers about all texts of a verb or source changed at once.

    Where few answers differ between the guises the error is small, and grows with the effect: of ``n`` verbs a share x
    changes with the variance x (1 - x) / n, and x is k sqrt(x (1 - x) / n) for an effect of k errors.
    """
    if not (n > 0 and made.standard_error > 0):
        return made
    square = (made.detectable / made.standard_error) ** 2 / n
    return replace(made, detectable=max(made.detectable, square / (1 + square)))


def at_equal_shares(cells: pd.DataFrame, sides: list[str], by_cluster: bool = False) -> pd.DataFrame:
    """The cells as they are where prompts and sets have the same shares on all sides; else weighed alike.

    A guise with more answers to the prompts that get hits whoever speaks would seem to get more of them. ``hit`` is
    then what a cell has beyond the rate of all sides in its prompt and set (``by_cluster``: and verb or source), and
    both count by the weight of Mantel & Haenszel (1959), the inverse sum of the inverse numbers of the sides: ratios of
    sums differ by the weighted mean of the differences within prompts. What one of the sides lacks is left out.
    """
    side = crossing(*(cells[name].astype(str) for name in sides))
    of = ["set", "prompt", *(["cluster"] if by_cluster else [])]
    stratum = crossing(*(cells[name].astype(str) for name in of))
    weights = equal_shares(side, stratum)
    if weights is None:
        return cells
    hit = cells["hit"].to_numpy(dtype=float)
    rate = np.bincount(stratum, hit) / np.bincount(stratum)
    made = cells.assign(hit=weights * (hit - rate[stratum]), total=weights)
    return pd.DataFrame(made[weights > 0])


def _leave_out(cells: pd.DataFrame, part: Codes, signs: Sequence[float]) -> LeaveOut:
    """The signed sum of the rates of the parts of the cells, without each cluster; ``part``: of each cell."""
    hit, total = (cells[name].to_numpy(dtype=float) for name in ("hit", "total"))

    def without(codes: Codes, n_clusters: int) -> Floats:
        found = np.zeros(n_clusters)
        for place, sign in enumerate(signs):
            own = part == place
            top, below = (one[own].sum() - np.bincount(codes[own], one[own], n_clusters) for one in (hit, total))
            with np.errstate(invalid="ignore", divide="ignore"):
                found += sign * top / np.where(below > 1e-9, below, 0.0)
        return found

    return without
