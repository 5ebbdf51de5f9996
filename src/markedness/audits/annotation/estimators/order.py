"""What the place of a text in its request, its twin in the same one, and the order of the answers do to the gaps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from markedness.audits.annotation.estimators.cells import cells, factors
from markedness.stats.inference import Codes, Floats, LeaveOut, benjamini_hochberg, spread

COLUMNS = ("paradigm", "term", "estimate", "ci_low", "ci_high", "p", "p_adjusted", "n", "clusters")
PLACES = 10
"""The slope is that of so many places."""


def order_effects(pairs: pd.DataFrame, confidence_level: float) -> pd.DataFrame:
    """How the gap of a pair depends on the way it was asked; exploratory.

    Parameters
    ----------
    pairs
        Matched pairs of one paradigm, rows of featurize.
    confidence_level
        Of the intervals.

    Returns
    -------
    DataFrame
        `COLUMNS`, a row per term that varies. ``position``: change of the gap, cells apart, where the marked text
        stands ten places later than its twin. ``together``: gap of twins in one request minus that of twins in two;
        ``answer_order``: gap where the question names yes first minus that where it names no first; both over all
        tasks, unfavorable ones with the opposite sign, so that positive is more favorable. Intervals and p over crossed
        names, reference names and vignettes (dialect: pairs of texts); p_adjusted by Benjamini-Hochberg.
    """
    there = np.isfinite(pairs["delta"].to_numpy(dtype=float))
    pairs = pairs[there].reset_index(drop=True)
    rows = []
    if len(pairs):
        paradigm = str(pairs["paradigm"].iloc[0])
        known, missing = factors(pairs, paradigm == "dialect")
        for term, columns, estimator in _terms(pairs):
            used = np.isfinite(columns).all(axis=1)
            estimate = float(estimator(columns[used].sum(axis=0)[None])[0])
            found = None
            if not missing:
                own = {name: labels[used] for name, labels in known.items()}
                found = spread(_leave_out(columns[used], estimator), own)
            bounds = (np.nan, np.nan, np.nan)
            if found is not None:
                bounds = (*found.interval(estimate, confidence_level), found.p(estimate))
            named = "" if found is None else ", ".join(f"{n} {name}" for name, n in found.clusters.items())
            rows.append((paradigm, term, estimate, *bounds, np.nan, int(used.sum()), named))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(p_adjusted=benjamini_hochberg(table["p"]))


def _terms(pairs: pd.DataFrame) -> list[tuple[str, Floats, Callable[[Floats], Floats]]]:
    """Term, columns that are summed by cluster, and the estimate from their sums (draws, columns)."""
    found: list[tuple[str, Floats, Callable[[Floats], Floats]]] = []
    delta = pairs["delta"].to_numpy(dtype=float)
    if "position" in pairs:
        x = (pairs["position"] - pairs["position_reference"]).to_numpy(dtype=float) / PLACES
        code, table = cells(pairs)
        here = np.isfinite(x)
        sums = [np.bincount(code[here], values[here], len(table)) for values in (np.ones(len(x)), delta, x)]
        with np.errstate(invalid="ignore", divide="ignore"):
            y, z = delta - (sums[1] / sums[0])[code], x - (sums[2] / sums[0])[code]
        if here.any() and np.nanstd(z) > 0:
            found.append(("position", np.column_stack([z * y, z * z]), lambda sums: sums[:, 0] / sums[:, 1]))
    valence = pairs["valence"].to_numpy(dtype=float) if "valence" in pairs else np.zeros(len(pairs))
    for term, value in {"together": 1.0, "answer_order": "yes first"}.items():
        if term not in pairs:
            continue
        one = (pairs[term] == value).to_numpy(dtype=float)
        one = np.where(pairs[term].notna() & (valence != 0), one, np.nan)
        if np.nanmin(one, initial=1) == 0 and np.nanmax(one, initial=0) == 1:
            signed = delta * valence
            columns = np.column_stack([one * signed, one, (1 - one) * signed, 1 - one])
            found.append((term, columns, lambda sums: sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]))
    return found


def _leave_out(columns: Floats, estimator: Callable[[Floats], Floats]) -> LeaveOut:
    def without(codes: Codes, n_clusters: int) -> Floats:
        sums = np.column_stack([np.bincount(codes, column, n_clusters) for column in columns.T])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(estimator(columns.sum(axis=0) - sums))

    return without
