"""How well a scorer of regard or toxicity agrees with people, by subject, and the estimates corrected by their labels.

Source of the correction: Angelopoulos et al. 2023, Prediction-powered inference, Science 382:669-674: the mean of the
scorer over all triples, less its mean error over the labelled ones, which people drew at random within each subject.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from markedness.audits.knowledge.estimators.classes import REGARD_VALUES
from markedness.records import AuditError
from markedness.stats.inference import MIN_CLUSTERS, Floats, benjamini_hochberg, t_intervals

HUMAN = "human"
KEYS = ["class", "subject", "predicate", "object"]
"""What tells one triple from another beside its value, as far as the triples have it."""
Measure = Literal["regard", "toxicity"]
_KNOWN = {"regard": ", ".join(REGARD_VALUES), "toxicity": "0 (no insult) to 1 (an insult)"}
_TOXIC = 0.5
"""From this value on, a scorer and people say that it is an insult."""
ALL = "all"


def validated(
    labels: pd.DataFrame, triples: pd.DataFrame, confidence_level: float = 0.95, measure: Measure = "regard"
) -> pd.DataFrame:
    """Agreement and error by subject, and each subject's mean regard or toxicity corrected for the error.

    Parameters
    ----------
    labels
        Rows of the table ``triples`` (class, subject, and the measure) that were drawn at random within each subject,
        with the column ``human``: of regard negative, neutral or positive; of toxicity a number in [0, 1]. Rows where
        either is missing do not count.
    triples
        All rows of the table.
    confidence_level
        Of the t intervals.
    measure
        What people labelled.

    Returns
    -------
    DataFrame
        One row per class and subject, then ``all`` of each class: ``n_labels``, ``agreement`` (share of equal labels;
        of toxicity, of triples that both call an insult, from 0.5 on, or neither does), ``error`` (mean of the scorer
        minus that of people; of regard in [-2, 2], positive: the scorer is too kind; of toxicity in [-1, 1], positive:
        it is too harsh) with ``error_ci_low``, ``error_ci_high``; ``p`` whether the error differs from that of the
        class's other subjects (Welch), which is what biases a gap, and ``p_adjusted`` (Benjamini-Hochberg over the
        rows); ``n``, ``mean_regard`` or ``mean_toxicity`` of the scorer and ``corrected`` with ``ci_low``, ``ci_high``
        (of a subject, within which the labels are a random draw). Triples count as independent, though triples of one
        crawl are not quite. NaN bounds with fewer than six labels.

    Raises
    ------
    AuditError
        Where a column or a label is unknown, nothing is labelled, or a labelled row is none of the triples.
    """
    if measure not in triples:
        raise AuditError(f"the triples have no column {measure}; run evaluate again")
    triples = triples.assign(value=_values(triples[measure], measure)).dropna(subset=["value"])
    labels = _checked(labels, triples, measure)
    rows = []
    for name, of_class in triples.groupby("class", sort=False):
        for subject in (*of_class["subject"].unique(), ALL):
            chosen = labels[labels["class"].eq(name)]
            own = chosen if subject == ALL else chosen[chosen["subject"].eq(subject)]
            scored = of_class if subject == ALL else of_class[of_class["subject"].eq(subject)]
            others = None if subject == ALL else _errors(chosen[~chosen["subject"].eq(subject)])
            rows.append({"class": name, "subject": subject, **_row(own, scored, others, confidence_level, measure)})
    table = pd.DataFrame(rows)
    return table.assign(p_adjusted=benjamini_hochberg(table["p"]))


def _values(cells: pd.Series, measure: Measure) -> pd.Series:
    """Regard as -1, 0 or 1, toxicity as it is; NaN where a cell holds neither."""
    text = cells.astype("string").fillna("").str.strip().str.lower()
    if measure == "regard":
        return text.map(REGARD_VALUES).astype(float)
    numbers = pd.to_numeric(text, errors="coerce").astype(float)
    return numbers.where(numbers.between(0, 1))


def _checked(labels: pd.DataFrame, triples: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The rows that people and the scorer labelled; refused where one is none of the triples, or is there too often."""
    keys = [name for name in KEYS if name in triples]
    if missing := [name for name in (*keys, measure, HUMAN) if name not in labels]:
        raise AuditError(
            f"the labels have no column {missing[0]}; take rows of results/knowledge/MODEL/tables/triples.csv and add "
            f"the column {HUMAN}"
        )
    said = labels[HUMAN].astype("string").fillna("").str.strip()
    people = _values(said, measure)
    if len(strange := said[people.isna() & said.ne("")]):
        raise AuditError(f"the label '{strange.iloc[0]:.40}' is none of {_KNOWN[measure]}")
    known = labels.assign(people=people, value=_values(labels[measure], measure)).dropna(subset=["people", "value"])
    if known.empty:
        raise AuditError("no row has a label of people and of the scorer")
    known = known.assign(**{name: known[name].astype(str).str.strip() for name in keys})
    triples, keys = triples.assign(value=triples["value"].round(9)), [*keys, "value"]
    known = known.assign(value=known["value"].round(9).astype(str))
    there = triples[keys].astype(str).apply(lambda column: column.str.strip()).value_counts()
    more = known[keys].value_counts().sub(there.reindex(known[keys].value_counts().index, fill_value=0)).gt(0)
    if more.any():
        row = ", ".join(f"{value!s:.30}" for value in more.index[more][0])
        raise AuditError(
            f"{int(more.sum())} of the labelled rows are none of the model's triples, or there more than once, such as "
            f"({row}); take rows of triples.csv as they are now: another model, or another scorer, has others"
        )
    return known.assign(value=known["value"].astype(float))


def _errors(labels: pd.DataFrame) -> Floats:
    return np.asarray(labels["value"] - labels["people"], dtype=float)


def _agreement(own: pd.DataFrame, measure: Measure) -> float:
    """Share of labels on which scorer and people agree; NaN without any."""
    scorer, people = own["value"], own["people"]
    same = scorer.eq(people) if measure == "regard" else scorer.ge(_TOXIC).eq(people.ge(_TOXIC))
    return float(same.mean()) if len(own) else np.nan


def _row(
    own: pd.DataFrame, scored: pd.DataFrame, others: Floats | None, level: float, measure: Measure
) -> dict[str, object]:
    from scipy import stats

    errors, values = _errors(own), scored["value"].to_numpy(dtype=float)
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
        "n_labels": n, "agreement": _agreement(own, measure),
        "error": error, "error_ci_low": low[0], "error_ci_high": high[0], "p": p, "p_adjusted": np.nan,
        "n": len(values), f"mean_{measure}": mean, "corrected": corrected, "ci_low": low[1], "ci_high": high[1],
        "scorer": ", ".join(sorted(scored[f"{measure}_scorer"].dropna().astype(str).unique())),
    }  # fmt: skip
