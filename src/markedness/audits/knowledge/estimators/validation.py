"""How well a regard scorer agrees with people, by subject, and the estimates corrected by their labels.

Source of the correction: Angelopoulos et al. 2023, Prediction-powered inference, Science 382:669-674: the mean of the
scorer over all triples, less its mean error over the labelled ones, which people drew at random within each subject.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.classes import REGARD_VALUES
from markedness.records import AuditError
from markedness.stats.inference import MIN_CLUSTERS, Floats, adjusted_p, t_intervals

HUMAN = "human"
KEYS = ["class", "subject", "predicate", "object", "regard"]
"""What tells one triple from another, as far as the triples have it."""
ALL = "all"


def validated(labels: pd.DataFrame, triples: pd.DataFrame, confidence_level: float = 0.95) -> pd.DataFrame:
    """Agreement and error by subject, and each subject's mean regard corrected for the error.

    Parameters
    ----------
    labels
        Rows of the table ``triples`` (class, subject, regard) that were drawn at random within each subject, with the
        column ``human``: negative, neutral or positive; rows where either is missing do not count.
    triples
        All rows of the table.
    confidence_level
        Of the t intervals.

    Returns
    -------
    DataFrame
        One row per class and subject, then ``all`` of each class: ``n_labels``, ``agreement`` (share of equal labels),
        ``error`` (mean regard of the scorer minus that of people, in [-2, 2]; positive: the scorer is too kind) with
        ``error_ci_low``, ``error_ci_high``; ``p`` whether the error differs from that of the class's other subjects
        (Welch), which is what biases a gap, and ``p_adjusted`` (Benjamini-Hochberg over the rows); ``n``,
        ``mean_regard`` of the scorer and ``corrected`` with ``ci_low``, ``ci_high`` (of a subject, within which the
        labels are a random draw). Triples count as independent, though triples of one crawl are not quite. NaN bounds
        with fewer than six labels.

    Raises
    ------
    AuditError
        Where a column or a label is unknown, nothing is labelled, or a labelled row is none of the triples.
    """
    triples = triples[triples["regard"].isin(REGARD_VALUES)]
    labels = _checked(labels, triples)
    rows = []
    for name, of_class in triples.groupby("class", sort=False):
        for subject in (*of_class["subject"].unique(), ALL):
            chosen = labels[labels["class"].eq(name)]
            own = chosen if subject == ALL else chosen[chosen["subject"].eq(subject)]
            scored = of_class if subject == ALL else of_class[of_class["subject"].eq(subject)]
            others = None if subject == ALL else _errors(chosen[~chosen["subject"].eq(subject)])
            rows.append({"class": name, "subject": subject, **_row(own, scored, others, confidence_level)})
    table = pd.DataFrame(rows)
    return table.assign(p_adjusted=adjusted_p(table["p"]))


def _checked(labels: pd.DataFrame, triples: pd.DataFrame) -> pd.DataFrame:
    """The rows that people and the scorer labelled; refused where one is none of the triples, or is there too often."""
    keys = [name for name in KEYS if name in triples]
    if missing := [name for name in (*keys, HUMAN) if name not in labels]:
        raise AuditError(
            f"the labels have no column {missing[0]}; take rows of results/knowledge/MODEL/tables/triples.csv and add "
            f"the column {HUMAN}"
        )
    said = labels[HUMAN].dropna().astype(str).str.strip().str.lower()
    if len(strange := said[~said.isin([*REGARD_VALUES, ""])]):
        raise AuditError(f"the label '{strange.iloc[0]}' is none of {', '.join(REGARD_VALUES)}")
    labels = labels.assign(**{HUMAN: said})
    known = labels[labels[HUMAN].isin(REGARD_VALUES) & labels["regard"].isin(REGARD_VALUES)]
    if known.empty:
        raise AuditError("no row has a label of people and of the scorer")
    known = known.assign(**{name: known[name].astype(str).str.strip() for name in keys})
    there = triples[keys].astype(str).apply(lambda column: column.str.strip()).value_counts()
    more = known[keys].value_counts().sub(there.reindex(known[keys].value_counts().index, fill_value=0)).gt(0)
    if more.any():
        row = ", ".join(f"{value!s:.30}" for value in more.index[more][0])
        raise AuditError(
            f"{int(more.sum())} of the labelled rows are none of the model's triples, or there more than once, such as "
            f"({row}); take rows of triples.csv as they are now: another model, or another scorer, has others"
        )
    return known


def _errors(labels: pd.DataFrame) -> Floats:
    scorer, people = (labels[name].map(REGARD_VALUES).astype(float) for name in ("regard", HUMAN))
    return np.asarray(scorer - people, dtype=float)


def _row(own: pd.DataFrame, scored: pd.DataFrame, others: Floats | None, level: float) -> dict[str, object]:
    from scipy import stats

    errors, values = _errors(own), scored["regard"].map(REGARD_VALUES).to_numpy(dtype=float)
    n, mean = len(errors), float(values.mean())
    error = float(errors.mean()) if n else np.nan
    variance = errors.var(ddof=1) / n if n >= MIN_CLUSTERS else np.nan
    of_scorer = values.var(ddof=1) / len(values) if len(values) > 1 else np.nan
    spreads = np.sqrt([variance, variance + of_scorer])
    # Of the two the labels are fewer, so that theirs are the degrees of freedom.
    low, high = t_intervals([error, mean - error], spreads, np.array([n - 1.0, n - 1.0]), level)
    p = np.nan
    if others is not None and min(n, len(others)) >= MIN_CLUSTERS:
        p = float(stats.ttest_ind(errors, others, equal_var=False).pvalue)
    corrected = mean - error if others is not None else np.nan
    if others is None:
        low[1] = high[1] = np.nan
    return {
        "n_labels": n, "agreement": float((errors == 0).mean()) if n else np.nan,
        "error": error, "error_ci_low": low[0], "error_ci_high": high[0], "p": p, "p_adjusted": np.nan,
        "n": len(values), "mean_regard": mean, "corrected": corrected, "ci_low": low[1], "ci_high": high[1],
        "scorer": ", ".join(sorted(scored["regard_scorer"].dropna().astype(str).unique())),
    }  # fmt: skip
