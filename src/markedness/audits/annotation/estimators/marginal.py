"""Marginal gaps: what a group, a task, a domain or a valence has in common, averaged over cells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation.estimators.cells import Matched
from markedness.stats.inference import Floats, benjamini_hochberg, claim

COLUMNS = (
    "paradigm", "by", "item", "measure", "estimate", "ci_low", "ci_high", "p", "p_adjusted", "n", "missing", "cells",
    "caveat",
)  # fmt: skip
FAMILY = ["paradigm", "by", "measure"]
"""Rows that are corrected together have one value in each."""
VALENCES = {1: "favorable", -1: "unfavorable", 0: "neither"}
SIGNED = ("all", "group", "domain")
"""Margins whose tasks may have both valences, so that the favorable gap is not the gap."""


def marginal_gaps(parts: Mapping[str, Matched], confidence_level: float) -> pd.DataFrame:
    """Means of the cells (group x task) by group, task, domain and valence.

    Parameters
    ----------
    parts
        Paradigm -> its pairs.
    confidence_level
        Of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        `COLUMNS`, one row per ``paradigm``, ``by`` (all, group, task, domain, valence, group x valence), ``item`` of it
        and ``measure``: ``gap``, mean over cells of the gap, in [-1, 1], positive: marked texts get yes more often;
        ``favorable_gap``, mean of valence x gap over tasks that are favorable (1) or unfavorable (-1), in [-1, 1],
        negative: marked groups are judged less favorably, where it is not the gap itself; ``margin_gap``, mean
        difference of ln P(yes) - ln P(no), nats, where answers were scored. Every cell weighs alike. Intervals and p
        over crossed names, reference names and vignettes (dialect: pairs of texts), where few differ p by exchanged
        signs; ``p_adjusted`` by Benjamini-Hochberg over the items of one margin, those that could not be tested as
        p = 1. ``n``: judgments of pairs with both answers (margin_gap: both scored); ``missing``: those without;
        ``cells``: cells averaged, those of three clusters or more; ``caveat``: factors of fewer than six clusters in
        a group, for which alone the row holds, or why it has no p. NaN where no cell has so many; no interval and p
        where the data do not name the clusters. A margin of one item is left out: it is the row "all".
    """
    rows = [
        (paradigm, by, item, measure, *_estimate(of.only(chosen), measure, confidence_level, len(items)))
        for paradigm, of in parts.items()
        if not of.empty
        for by, items in _margins(of.cells)
        for item, chosen in items.items()
        for measure in _measures(of, by)
    ]
    table = pd.DataFrame(rows, columns=[name for name in COLUMNS if name != "p_adjusted"])
    table["p_adjusted"] = np.nan
    for _, own in table.groupby(FAMILY, sort=False):
        table.loc[own.index, "p_adjusted"] = benjamini_hochberg(own["p"])
    return table[list(COLUMNS)]


def over_models(
    found: Mapping[str, Mapping[str, Matched]], controls: Collection[str], confidence_level: float
) -> pd.DataFrame:
    """`marginal_gaps` of several models, column ``model`` first.

    ``p_adjusted_models``: Benjamini-Hochberg over the models and items of one margin; scripted controls are in no
    family but their own, ``p_adjusted``.
    """
    tables = [marginal_gaps(parts, confidence_level).assign(model=model) for model, parts in found.items()]
    table = pd.concat([one for one in tables if len(one)] or tables[:1], ignore_index=True)
    table["p_adjusted_models"] = table["p_adjusted"]
    for _, own in table[~table["model"].isin(list(controls))].groupby(FAMILY, sort=False):
        table.loc[own.index, "p_adjusted_models"] = benjamini_hochberg(own["p"])
    return table[["model", *COLUMNS, "p_adjusted_models"]]


def _margins(cells: pd.DataFrame) -> Iterator[tuple[str, dict[str, NDArray[np.bool_]]]]:
    """Each margin and, of its items, the cells."""
    known = {
        "group": cells["group"].astype(str), "task": cells["task"].astype(str),
        "domain": cells["domain"].astype(str) if "domain" in cells else pd.Series("", index=cells.index),
        "valence": (cells["valence"] if "valence" in cells else pd.Series(0, index=cells.index)).map(VALENCES),
    }  # fmt: skip
    known["group x valence"] = known["group"] + ", " + known["valence"]
    yield "all", {"all": np.ones(len(cells), dtype=bool)}
    for by, labels in known.items():
        items = [item for item in dict.fromkeys(labels) if item and item != "nan"]
        single = by == "group x valence" and (known["group"].nunique() < 2 or known["valence"].nunique() < 2)
        if len(items) > 1 and not single:
            yield by, {item: labels.eq(item).to_numpy(dtype=bool) for item in items}


def _measures(of: Matched, by: str) -> Iterator[str]:
    yield "gap"
    if by in SIGNED and of.valence.any():
        yield "favorable_gap"
    if np.isfinite(of.margin).any():
        yield "margin_gap"


def _estimate(of: Matched, measure: str, confidence_level: float, family: int) -> tuple[float | str, ...]:
    """Estimate, bounds, p, n, missing, cells, caveat."""
    weights = of.valence if measure == "favorable_gap" else np.ones(len(of.cells))
    values: Floats = of.margin if measure == "margin_gap" else of.delta
    n = int(np.isfinite(values[:, weights != 0]).sum())
    missing = int(np.isfinite(of.lost[:, weights != 0]).sum()) - n
    crossed = of.crossed(values)
    used = np.intersect1d(np.flatnonzero(weights), crossed.usable())
    if not len(used):
        return np.nan, np.nan, np.nan, np.nan, n, missing, 0, "not tested: no cell has three clusters"
    found = crossed.weighted(weights / np.abs(weights).sum(), np.random.default_rng(0), family)
    made = claim(
        measure, found.estimate, found.spread, found.null, family=family, confidence_level=confidence_level, method="",
        missing_column=of.missing_column,
    )  # fmt: skip
    caveat = made.lacking or made.caveat
    return found.estimate, made.ci_low, made.ci_high, made.p, n, missing, len(used), caveat
