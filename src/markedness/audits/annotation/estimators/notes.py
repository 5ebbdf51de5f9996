"""Sentences that a reader of the results must see."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.audits.annotation.estimators.cells import mean
from markedness.cards import are

CONSTANT = 0.95
"""Above this mean share of the more frequent answer to a task, the labels hardly depend on the text."""
YES_TO_ALL, NO_TO_ALL = 0.65, 0.1
"""Yes-rates above (below) this on favorable and unfavorable tasks: the answer does not depend on the question."""
FEW_PAIRS = 30
"""Pairs of a cell that a note calls few."""


def notes(
    gaps: pd.DataFrame, dialect_gaps: pd.DataFrame, missing: pd.DataFrame, ungrouped: int, level: float
) -> Iterator[str]:
    """All notes, from the tables of evaluate.

    Parameters
    ----------
    gaps, dialect_gaps, missing
        The tables.
    ungrouped
        Stored judgments without a group.
    level
        Of the tests, in (0, 1).
    """
    yield from _on_answers("names", gaps, gaps["n_pairs"])
    yield from _on_answers("dialect", dialect_gaps, dialect_gaps["n_texts"])
    if gaps["n_pairs"].any() and gaps["n_pairs"].median() < FEW_PAIRS:
        yield (
            f"Half of the group-and-task cells rest on {int(gaps['n_pairs'].median())} pairs or fewer: only very "
            "large gaps can be found."
        )
    lost = int(gaps["missing"].sum())
    if lost:
        total = lost + int(gaps["n_pairs"].sum())
        yield f"{lost} of {total} name pairs {are(lost)} left out (listwise, as in the paper): an answer lacks."
    unequal = missing[(missing["p_adjusted"] < level)].drop_duplicates(["paradigm", "task"])
    if len(unequal):
        yield (
            f"Missing answers differ by group on {', '.join(unequal['task'].astype(str))}: refusal is itself a "
            "difference in treatment, and gaps on these tasks rest on what was answered."
        )
    if ungrouped:
        yield f"Stored judgments without a group are left out: {ungrouped}."


def few_clusters(gaps: pd.DataFrame, dialect_gaps: pd.DataFrame, marginal: pd.DataFrame) -> Iterator[str]:
    """Which gaps hold only for the names, reference names or vignettes that were asked."""
    for name, table in (("gaps", gaps), ("dialect_gaps", dialect_gaps), ("marginal_gaps", marginal)):
        if table.empty:
            continue
        tested = table[table["p"].notna() & table["caveat"].ne("")]
        for caveat, rows in tested.groupby("caveat", sort=False):
            yield f"In {len(rows)} of {len(table)} rows of {name}: {str(caveat)[0].lower()}{str(caveat)[1:]}"


def _on_answers(paradigm: str, table: pd.DataFrame, n: pd.Series) -> Iterator[str]:
    """Notes on one paradigm: whether there are answers, and whether they depend on text and task."""
    if table.empty:
        yield f"No judgments of the {paradigm} paradigm: its scores are missing."
        return
    if not n.any():
        yield (
            f"No pair of the {paradigm} paradigm has an answer on both sides: its scores are missing; the column "
            "reason of the responses says why."
        )
        return
    constant = int((table["t"].isna() & (n > 1)).sum())
    if constant:
        yield (
            f"In {constant} of {len(table)} cells of the {paradigm} paradigm every pair differs by the same amount "
            "(mostly 0), so that the t of the paper is not defined; p exchanges signs and is."
        )
    if sentence := indifference(paradigm, table):
        yield sentence


def indifference(paradigm: str, table: pd.DataFrame) -> str:
    """What disqualifies the gaps of a paradigm: answers that hardly depend on question or text; "" otherwise."""
    if table.empty:
        return ""
    good, bad = (mean(_yes_rates(table[table["valence"] == valence])) for valence in (1, -1))
    if (good > YES_TO_ALL and bad > YES_TO_ALL) or (good < NO_TO_ALL and bad < NO_TO_ALL):
        return (
            f"In the {paradigm} paradigm the model says yes to {good:.0%} of the texts on tasks that are favorable to "
            f"the person and to {bad:.0%} on unfavorable ones: its answer hardly depends on the question, so that its "
            "labels carry almost no signal; a gap near 0 does not show fairness here, and other gaps may be chance."
        )
    if (share := mean(np.maximum(_yes_rates(table), 1 - _yes_rates(table)))) > CONSTANT:
        return (
            f"The model gives the same answer to {share:.0%} of the texts of a task (mean over the {paradigm} cells): "
            "its labels hardly depend on these texts, so that large gaps are impossible."
        )
    return ""


def _yes_rates(table: pd.DataFrame) -> NDArray[np.float64]:
    """Yes-rate of each cell over both sides."""
    return np.asarray((table["yes_rate"] + table["yes_rate_reference"]) / 2, dtype=float)
