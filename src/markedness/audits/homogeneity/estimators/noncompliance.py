"""Answers that do not comply with the prompt, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from markedness.records import Axes, Status
from markedness.results import NAN, Score
from markedness.stats import inference

NONCOMPLIANT = [Status.REFUSAL.value, Status.UNPARSED.value, Status.TRUNCATED.value]
UNANSWERED = [Status.FAILED.value, Status.UNSUPPORTED.value]
COLUMNS = (
    "axis", "group", "n", "noncompliant", "share", "ci_low", "ci_high", "empty", "missing", "p", "p_adjusted",
)  # fmt: skip
METHOD = (
    "labels of one axis exchanged among whole names that share their other values, studentised; interval by leaving "
    "out one name"
)


def noncompliance_difference(answers: pd.DataFrame, axes: Axes, rng: np.random.Generator, family: int) -> Score:
    """Share of answers that failed or do not comply, marked minus unmarked, as mean over the marked values of all axes.

    What failed counts, since a provider that withholds an answer lets its request fail. Which difference would have
    been found is not known: the error of a rare share grows with the share, and that of names with it (docs/sizes.md).
    """
    names, contrasts = _names(answers, axes), []
    for axis, words in axes.items():
        others = [names[other].astype(str).to_numpy() for other in axes if other != axis]
        contrasts.append(inference.Contrast(names[axis].to_numpy(object), words.marked, words.unmarked, others))
    made = inference.contrast_score(
        "noncompliance.difference", names["bad"] + names["failed"], names["answered"] + names["failed"], contrasts, rng,
        cluster="name", clusters=names["cluster"], family=family, method=METHOD, unit="answers", comparable=True,
        n_missing=int(names["failed"].sum()),
        positive="answers about the marked groups fail or do not comply with the prompt more often",
        negative="answers about the marked groups fail or do not comply with the prompt less often",
    )  # fmt: skip
    return replace(made, detectable=NAN)


def noncompliance(answers: pd.DataFrame, axes: Axes, confidence_level: float, rng: np.random.Generator) -> pd.DataFrame:
    """Share of answers that do not comply, by group, and a test of each marked value against the unmarked one.

    Parameters
    ----------
    answers
        Counts of all answers, whether kept or not; see featurize.
    axes
        Axes that ``answers`` has.
    confidence_level, rng
        Of the intervals, by leaving out one name; seeded generator of the tests.

    Returns
    -------
    DataFrame
        `COLUMNS`: n (answers received), noncompliant, share in [0, 1] (NaN without answers) with its interval (NaN with
        fewer than six names), empty (answers without a letter or digit), missing (no answer), p (of a marked value
        against the unmarked one; NaN for that), p_adjusted (Benjamini-Hochberg over all marked values of all axes).
    """
    names = _names(answers, axes)
    rows = []
    for axis, words in axes.items():
        others = [names[other].astype(str).to_numpy() for other in axes if other != axis]
        for value in [value for value in words.values if names[axis].eq(value).any()]:
            own = names[names[axis].eq(value)]
            answered, bad, empty, unanswered, _ = (int(own[name].sum()) for name in COUNTED)
            share = bad / answered if answered else float("nan")
            p = float("nan")
            if value != words.unmarked:
                p = inference.group_difference_score(
                    "", names["bad"], names["answered"], names[axis], [value], words.unmarked, rng, cluster="name",
                    blocks=others,
                ).p  # fmt: skip
            rows.append(
                (axis, value, answered, bad, share, *_interval(own, share, confidence_level), empty, unanswered, p)
            )
    table = pd.DataFrame(rows, columns=list(COLUMNS[:-1]))
    marked = [words.unmarked != row.group for row in table.itertuples() for words in [axes[str(row.axis)]]]
    table["p_adjusted"] = np.nan
    table.loc[marked, "p_adjusted"] = inference.benjamini_hochberg(table.loc[marked, "p"])
    return table


def published_noncompliance_by_cue(answers: pd.DataFrame) -> pd.DataFrame:
    """Answers that do not comply, by cue (tables A1 and A16).

    Parameters
    ----------
    answers
        Counts of all answers, whether kept or not; see featurize.

    Returns
    -------
    DataFrame
        cue, n (answers received), noncompliant, share (NaN without answers), and of the noncompliant: refusal,
        unparsed (more words than the cue allows), truncated.
    """
    counts = answers.pivot_table(index="cue", columns="status", values="count", aggfunc="sum", fill_value=0, sort=False)
    found = counts.reindex(columns=NONCOMPLIANT, fill_value=0).astype(int)
    received = counts.drop(columns=UNANSWERED, errors="ignore").sum(axis=1).astype(int)
    bad = found.sum(axis=1)
    table = pd.DataFrame({"n": received, "noncompliant": bad, "share": bad / received.where(received.gt(0))})
    return table.join(found).rename_axis(columns=None).reset_index()


COUNTED = ("answered", "bad", "empty", "missing", "failed")


def _names(answers: pd.DataFrame, axes: Axes) -> pd.DataFrame:
    """One row per name: its axes, and how many of its answers are what."""
    status, count = answers["status"], answers["count"]
    missing = count.where(status.isin(UNANSWERED), 0)
    counts = answers[["cluster", *axes]].assign(
        answered=count - missing,
        bad=count.where(status.isin(NONCOMPLIANT), 0),
        empty=count.where(answers["empty"].astype(bool), 0),
        missing=missing,
        failed=count.where(status.eq(Status.FAILED.value), 0),
    )
    keys: Sequence[str] = ["cluster", *axes]
    return counts.groupby(list(keys), sort=False, dropna=False)[list(COUNTED)].sum().reset_index()


def _interval(names: pd.DataFrame, share: float, confidence_level: float) -> tuple[float, float]:
    bad, answered = names["bad"].to_numpy(float), names["answered"].to_numpy(float)
    used = answered > 0
    without = inference.mean_leave_out(bad[used] / answered[used], answered[used])
    found = inference.spread(without, {"name": names["cluster"].to_numpy()[used]}, weights=answered[used])
    return found.interval(share, confidence_level)
