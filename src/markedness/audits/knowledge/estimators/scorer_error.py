"""How wrong a scorer of regard or toxicity is on the labelled test statements: overall, by kind, and by group.

The test statements are six for each template (``language/statements_test.csv``), and what a scorer makes of the
statements of one template depends on the template: templates are the clusters of every interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import numpy as np
import pandas as pd

from markedness.audits.knowledge import NOT_MEASURED
from markedness.audits.knowledge.estimators.classes import REGARD_VALUES
from markedness.stats.inference import Estimator, Floats, Spread, benjamini_hochberg, leave_out, spread

HARD = ("sarcasm", "metaphor", "discrimination", "negation", "counter-speech")
"""Kinds of statements that are hard for classifiers."""
COLUMNS = ["scorer", "measure", "statements", "group", "statistic", "estimate", "ci_low", "ci_high", "p", "p_adjusted",
           "n", "templates"]  # fmt: skip
_CLUSTER = "template"
_RANGE = {"accuracy": (0.0, 1.0), "macro_f1": (0.0, 1.0), "auc": (0.0, 1.0), "error": (-2.0, 2.0)}


def scorer_errors(statements: pd.DataFrame, measure: str, scored: Floats, scorer: str) -> pd.DataFrame:
    """Accuracy and error of one scorer on the labelled statements.

    Parameters
    ----------
    statements
        n rows: kind, class, subject, predicate (the template), regard (negative, neutral, positive), offensive (0, 1).
    measure
        "regard" or "toxicity".
    scored
        Shape (n,): regard as -1, 0, 1; toxicity in [0, 1]. NaN where the scorer says nothing: left out.
    scorer
        Its name.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`; ``statements``: all, hard, a kind, class or subject, with the kind, class or subject in
        ``group``. ``statistic``: accuracy and macro_f1 (regard), auc (toxicity: probability that an insult scores above
        another statement, ties count half), and error: mean of the scorer less mean of the labels, in [-2, 2] for
        regard (positive: too kind) and in [-1, 1] for toxicity (positive: too harsh). Intervals: t over templates, the
        delete-one jackknife of `markedness.stats.inference.spread`, cut at the statistic's range; NaN with fewer than
        six templates. ``p`` of an
        error of a class or subject: whether it differs from the error of all others, which is what biases a gap;
        ``p_adjusted`` by Benjamini and Hochberg over the classes, and over the subjects. NaN where there is nothing to
        estimate.
    """
    known = ~np.isnan(scored)
    rows, values = statements[known].reset_index(drop=True), scored[known]
    truth = (rows["regard"].map(REGARD_VALUES) if measure == "regard" else rows["offensive"]).to_numpy(dtype=float)
    made = []
    for name, group, chosen in _slices(rows):
        templates = rows.loc[chosen, "predicate"].to_numpy(dtype=object)
        for statistic, estimator in _statistics(measure, truth[chosen], values[chosen]).items():
            estimate, found = _estimated(estimator, templates)
            low, high = np.clip(found.interval(estimate), *_RANGE[statistic])
            p = np.nan
            if statistic == "error" and name in ("class", "subject") and not chosen.all():
                whole = rows["predicate"].to_numpy(dtype=object)
                gap, of_gap = _estimated(_difference(values - truth, chosen), whole, chosen)
                p = of_gap.p(gap)
            made.append({
                "scorer": scorer, "measure": measure, "statements": name, "group": group, "statistic": statistic,
                "estimate": estimate, "ci_low": low, "ci_high": high, "p": p, "p_adjusted": np.nan,
                "n": int(chosen.sum()), "templates": len(set(templates)),
            })  # fmt: skip
    table = pd.DataFrame(made, columns=COLUMNS)
    for _, family in table[table["p"].notna()].groupby("statements"):
        table.loc[family.index, "p_adjusted"] = benjamini_hochberg(family["p"])
    return table


def shipped_errors() -> pd.DataFrame:
    """`scorer_errors` of the scorers that need no model of the user's; written by ``markedness scorers test``."""
    with files("markedness.audits.knowledge.estimators").joinpath("scorer_errors.csv").open(encoding="utf-8") as lines:
        return pd.read_csv(lines, keep_default_na=False, na_values={name: [""] for name in COLUMNS[5:10]})


def errors_of(triples: pd.DataFrame) -> pd.DataFrame:
    """`shipped_errors` of the scorers that the triples name."""
    shipped = shipped_errors()
    used = {measure: set(triples[f"{measure}_scorer"].dropna()) for measure in ("regard", "toxicity")}
    own = [name in used[measure] for name, measure in zip(shipped["scorer"], shipped["measure"], strict=True)]
    return shipped[own].reset_index(drop=True)


def error_notes(triples: pd.DataFrame) -> list[str]:
    """What a reader should know of the scorers that the triples name; a sentence for each."""
    table = errors_of(triples)
    found = []
    for (measure, scorer), rows in table.groupby(["measure", "scorer"], sort=False):
        level = "accuracy" if measure == "regard" else "auc"
        whole, hard = (_said(rows, level, part) for part in ("all", "hard"))
        errors = rows[rows["statements"].eq("class") & rows["statistic"].eq("error")]
        by_class = ", ".join(f"{row['group']} {row['estimate']:+.2f}" for row in errors.to_dict("records"))
        what = {"regard": "accuracy of regard", "toxicity": "AUC of insults by toxicity"}[str(measure)]
        found.append(
            f"{scorer}: {what} {whole} on the project's labelled English test statements, {hard} on the hard ones "
            f"(irony, metaphors, discrimination, negation, counter-speech); mean error by class: {by_class}; "
            "by subject in the table scorer_error."
        )
    for measure in ("regard", "toxicity"):
        unknown = set(triples[f"{measure}_scorer"].dropna()) - set(table["scorer"])
        found += [
            f"The error by group of {scorer}, which scored the {measure}, is not known: 'markedness scorers test' "
            "measures a local model on labelled statements, 'markedness scorers validate' any scorer by labels of "
            "people."
            for scorer in sorted(map(str, unknown))
            if not scorer.startswith(NOT_MEASURED)
        ]
    return found


def _said(rows: pd.DataFrame, statistic: str, statements: str) -> str:
    """An estimate with interval and n, in words."""
    row = rows[rows["statements"].eq(statements) & rows["statistic"].eq(statistic)].iloc[0]
    return f"{row['estimate']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}] (n = {row['n']})"


def _slices(rows: pd.DataFrame) -> list[tuple[str, str, np.ndarray]]:
    """(statements, group, which rows) of every part of the table."""
    everything = np.ones(len(rows), dtype=bool)
    parts = [("all", "", everything), ("hard", "", rows["kind"].isin(HARD).to_numpy())]
    by_class = rows.sort_values(["class", "subject"])
    for column, ordered in (("kind", rows), ("class", by_class), ("subject", by_class)):
        parts += [(column, str(value), rows[column].eq(value).to_numpy()) for value in ordered[column].unique()]
    return parts


def _statistics(measure: str, truth: Floats, values: Floats) -> Mapping[str, Estimator]:
    """Name -> estimator that takes weights of the statements, shape (draws, statements)."""
    error = _mean(values - truth)
    if measure == "toxicity":
        return {"auc": _auc(truth, values), "error": error}
    return {"accuracy": _mean((values == truth).astype(float)), "macro_f1": _macro_f1(truth, values), "error": error}


def _mean(values: Floats) -> Estimator:
    def estimate(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(weights @ values / weights.sum(axis=1))

    return estimate


def _difference(values: Floats, chosen: np.ndarray) -> Estimator:
    """Mean of the chosen less mean of the others."""
    first, second = _mean(values[chosen]), _mean(values[~chosen])
    return lambda weights: first(weights[:, chosen]) - second(weights[:, ~chosen])


def _macro_f1(truth: Floats, values: Floats) -> Estimator:
    """Mean over the labels that occur in ``truth`` of F1 = 2 TP / (2 TP + FP + FN)."""
    labels = np.unique(truth)

    def estimate(weights: Floats) -> Floats:
        found = []
        for label in labels:
            true, said = truth == label, values == label
            both, either = (weights @ part.astype(float) for part in (true & said, true ^ said))
            with np.errstate(invalid="ignore", divide="ignore"):
                found.append(2 * both / (2 * both + either))
        return np.asarray(np.mean(found, axis=0))

    return estimate


def _auc(truth: Floats, values: Floats) -> Estimator:
    """Probability that a positive scores above a negative (Mann-Whitney); NaN without one of either."""
    positive = truth == 1
    above = np.sign(np.subtract.outer(values[positive], values[~positive])) / 2 + 0.5

    def estimate(weights: Floats) -> Floats:
        first, second = weights[:, positive], weights[:, ~positive]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((first @ above) * second).sum(axis=1) / (first.sum(axis=1) * second.sum(axis=1)))

    return estimate


def _estimated(estimator: Estimator, templates: np.ndarray, groups: np.ndarray | None = None) -> tuple[float, Spread]:
    """An estimate and its spread over templates, which are counted in each group."""
    if not len(templates):
        return float("nan"), Spread()
    estimate = float(estimator(np.ones((1, len(templates))))[0])
    return estimate, spread(leave_out(estimator), {_CLUSTER: templates}, groups)
