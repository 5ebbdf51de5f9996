"""What the place of a text in its request, its twin in the same one, and the order of the answers do to the gaps."""

from __future__ import annotations

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
        `COLUMNS`, a row per term that varies within a cell (group x task): the mean over the cells, weighted as by
        Mantel and Haenszel, so that tasks asked more often in one way make none. ``position``: change of the gap
        where the marked text stands ten places later than its twin. ``together``: gap of twins in one request minus
        that of twins in two; ``answer_order``: gap where the question names yes first minus that where it names no
        first; in both the gap of unfavorable tasks has the opposite sign, so that positive is more favorable, and tasks
        without valence do not count. Intervals and p over crossed names, reference names and vignettes (dialect: pairs
        of texts); p_adjusted by Benjamini-Hochberg.
    """
    there = np.isfinite(pairs["delta"].to_numpy(dtype=float))
    pairs = pairs[there].reset_index(drop=True)
    rows = []
    if len(pairs):
        paradigm = str(pairs["paradigm"].iloc[0])
        known, missing = factors(pairs, paradigm == "dialect")
        for term, columns in _terms(pairs):
            used = np.isfinite(columns).all(axis=1)
            estimate = float(_slope(columns[used].sum(axis=0)[None])[0])
            found = None
            if not missing:
                own = {name: labels[used] for name, labels in known.items()}
                found = spread(_leave_out(columns[used]), own)
            bounds = (np.nan, np.nan, np.nan)
            if found is not None:
                bounds = (*found.interval(estimate, confidence_level), found.p(estimate))
            named = "" if found is None else ", ".join(f"{n} {name}" for name, n in found.clusters.items())
            rows.append((paradigm, term, estimate, *bounds, np.nan, int(used.sum()), named))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(p_adjusted=benjamini_hochberg(table["p"]))


def _terms(pairs: pd.DataFrame) -> list[tuple[str, Floats]]:
    """Term, and z x gap and z^2 of each pair, where z is how it was asked less the mean of its cell; NaN: not used."""
    found: list[tuple[str, Floats]] = []
    delta = pairs["delta"].to_numpy(dtype=float)
    valence = pairs["valence"].to_numpy(dtype=float) if "valence" in pairs else np.zeros(len(pairs))
    cell, table = cells(pairs)
    for term, asked in _as_asked(pairs).items():
        values = delta if term == "position" else delta * valence
        here = np.isfinite(asked) & ((term == "position") | (valence != 0))
        n, x, y = (np.bincount(cell[here], of[here], len(table)) for of in (np.ones(len(pairs)), asked, values))
        with np.errstate(invalid="ignore", divide="ignore"):
            z = np.where(here, asked - (x / n)[cell], np.nan)
            gap = values - (y / n)[cell]
        if here.any() and np.nanstd(z) > 0:
            found.append((term, np.column_stack([z * gap, z * z])))
    return found


def _as_asked(pairs: pd.DataFrame) -> dict[str, Floats]:
    """How each pair was asked, by term: places between twins in units of `PLACES`, or 1 and 0; NaN where unknown."""
    found = {}
    if "position" in pairs:
        found["position"] = (pairs["position"] - pairs["position_reference"]).to_numpy(dtype=float) / PLACES
    for term, value in {"together": 1.0, "answer_order": "yes first"}.items():
        if term in pairs:
            found[term] = np.where(pairs[term].notna(), (pairs[term] == value).to_numpy(dtype=float), np.nan)
    return found


def _slope(sums: Floats) -> Floats:
    """Change of the gap by one unit from the sums (draws, 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1])


def _leave_out(columns: Floats) -> LeaveOut:
    def without(codes: Codes, n_clusters: int) -> Floats:
        return _slope(columns.sum(axis=0) - np.column_stack([np.bincount(codes, x, n_clusters) for x in columns.T]))

    return without
