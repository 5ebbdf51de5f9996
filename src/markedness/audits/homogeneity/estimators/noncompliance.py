"""Answers that do not comply with the prompt, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from markedness.audits.homogeneity.estimators.groups import (
    axis_labels,
    of_like_names,
    strata_of,
    units_of,
    unlike_answers,
)
from markedness.axes import Axes
from markedness.records import Status
from markedness.results import NAN, Score
from markedness.stats import inference
from markedness.stats.inference import Codes, Floats

NONCOMPLIANT = [Status.REFUSAL.value, Status.UNPARSED.value, Status.TRUNCATED.value]
UNANSWERED = [Status.FAILED.value, Status.UNSUPPORTED.value]
COLUMNS = (
    "axis", "group", "n", "noncompliant", "share", "ci_low", "ci_high", "empty", "missing", "p", "p_adjusted",
)  # fmt: skip
METHOD = (
    "labels of one axis exchanged among whole names that share their other values, studentised; interval by leaving "
    "out one name, where exchange explains the difference no narrower than that of exchange"
)


def noncompliance_difference(
    answers: pd.DataFrame, axes: Axes, rng: np.random.Generator, family: int, confidence_level: float = 0.95
) -> Score:
    """Share of answers that failed or do not comply, marked minus unmarked, as mean over the marked values of all axes.

    What failed counts, since a provider that withholds an answer lets its request fail. Which difference would have
    been found is not known: the error of a rare share grows with the share, and that of names with it (docs/sizes.md).
    """
    names = _names(answers, axes)
    at_cues = _AtEqualCues(answers, axes, names, ["bad", "failed"], ["answered", "failed"])
    of_axes = [at_cues.of(axis, words.unmarked, words.marked) for axis, words in axes.items()]
    bad, asked = merged([one[0] for one in of_axes], names, axes), merged([one[1] for one in of_axes], names, axes)
    left = [group for *_, groups in of_axes for group in groups]
    made = inference.contrast_score(
        "noncompliance.difference", bad, asked, contrasts(names, axes), rng,
        cluster="name", clusters=names["name"], family=family, confidence_level=confidence_level, method=METHOD,
        rare=True, unit="answers", comparable=True, n=at_cues.n,
        n_missing=int(names["failed"].sum()),
        positive="answers about the marked groups fail or do not comply with the prompt more often",
        negative="answers about the marked groups fail or do not comply with the prompt less often",
    )  # fmt: skip
    why = "asked about other cues than what they are compared with, or about the same ones by two names at most"
    labels = axis_labels(names, axes)
    values = {one for axis in labels for one in axis.values}
    made = of_like_names(replace(made, detectable=NAN), labels, values, at_cues.asked)
    return made.not_over(left, why)


def contrasts(names: pd.DataFrame, axes: Axes) -> list[inference.Contrast]:
    """The marked values of each axis against the unmarked one, within the values of the others; rows of `_names`."""
    return [
        inference.Contrast(names[axis].to_numpy(object), words.marked, words.unmarked, [strata_of(names, axis, axes)])
        for axis, words in axes.items()
    ]


def merged(values: Sequence[Floats], names: pd.DataFrame, axes: Axes) -> Floats:
    """Values of the rows of each axis, (axes, rows), summed over those of one name with one value of the axis.

    The sum is in the first of these rows; the others have 0.
    """
    found = np.zeros((len(axes), len(names)))
    for place, (axis, own) in enumerate(zip(axes, values, strict=True)):
        units = units_of(names, axis)
        found[place, np.unique(units, return_index=True)[1]] = np.bincount(units, own)
    return found


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
        fewer than six names), empty (answers that name nothing), missing (no answer), p (of a marked value
        against the unmarked one, at equal cues; NaN for that, and where names have unlike numbers of answers in the
        other axes, see `unlike_answers`), p_adjusted (Benjamini-Hochberg over all marked values of
        all axes).
    """
    names = _names(answers, axes)
    labels = axis_labels(names, axes)
    at_cues = _AtEqualCues(answers, axes, names, ["bad"], ["answered"])
    rows = []
    for axis, words in axes.items():
        strata = strata_of(names, axis, axes)
        for value in [value for value in words.values if names[axis].eq(value).any()]:
            own = names[names[axis].eq(value)]
            answered, bad, empty, unanswered, _ = (int(own[name].sum()) for name in COUNTED)
            share = bad / answered if answered else float("nan")
            p = float("nan")
            if value != words.unmarked and not unlike_answers(labels, {value}, at_cues.asked):
                hits, asked, _ = at_cues.of(axis, words.unmarked, [value])
                (hits,), (asked,) = (merged([one], names, {axis: words}) for one in (hits, asked))
                p = inference.group_difference_score(
                    "", hits, asked, names[axis], [value], words.unmarked, rng, cluster="name", blocks=[strata],
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
FEWEST = 3
"""Names of a group that must have been asked about the cues of what it is compared with; fewer where it has fewer."""


class _AtEqualCues:
    """Hits of each name beyond what its cues let expect, at the same mix of cues for a group and its reference.

    Cues differ in how many answers comply, so that a group that was asked about some of them alone would be accused for
    these. A marked group is compared with the unmarked one within each cue; cues weigh by n m / (n + m) of their n and
    m answers (Mantel & Haenszel 1959), and the unmarked group by the mean over its marked groups. Where all groups were
    asked about the same cues equally often, answers count as they are.

    Parameters
    ----------
    answers, axes, names
        See `noncompliance` and `_names`.
    hits, totals
        Columns of ``names`` that are summed: what is counted, and of how many answers.

    Attributes
    ----------
    asked
        Sum of ``totals`` of each name about each cue, shape (names, cues).
    """

    def __init__(
        self, answers: pd.DataFrame, axes: Axes, names: pd.DataFrame, hits: Sequence[str], totals: Sequence[str]
    ) -> None:
        self._names = names
        self._raw = [names[list(parts)].sum(axis=1).to_numpy(float) for parts in (hits, totals)]
        cells = _names(answers, axes, "cue")
        keys = pd.MultiIndex.from_frame(names[["cluster", *axes]].astype(str))
        of_name = keys.get_indexer(pd.MultiIndex.from_frame(cells[["cluster", *axes]].astype(str)))
        cue, cues = pd.factorize(cells["cue"])
        top, self.asked = np.zeros((2, len(names), len(cues)))
        np.add.at(top, (of_name, cue), cells[list(hits)].sum(axis=1).to_numpy(float))
        np.add.at(self.asked, (of_name, cue), cells[list(totals)].sum(axis=1).to_numpy(float))
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.nan_to_num(top.sum(axis=0) / self.asked.sum(axis=0))
        self._beyond = top - self.asked * share
        of_group = self._by(pd.factorize(names[list(axes)].astype(str).agg(" ".join, axis=1))[0])
        of_group = of_group[of_group.any(axis=1)]
        mix = of_group / of_group.sum(axis=1, keepdims=True)
        self._equal = not len(mix) or bool(np.ptp(mix, axis=0).max() < 1e-9)
        self._compared = np.full(self.asked.shape, self._equal)

    @property
    def n(self) -> int:
        """Answers that are compared on one of the axes that were asked for."""
        return int(self.asked[self._compared].sum())

    def of(self, axis: str, unmarked: str, marked: Sequence[str]) -> tuple[Floats, Floats, list[str]]:
        """Hits and totals of each name, shape (names,), and the marked groups that share no cues with the unmarked.

        Totals of a group sum to its answers about these cues; 0 for names that are not compared.
        """
        if self._equal:
            return self._raw[0], self._raw[1], []
        groups = [unmarked, *marked]
        code = pd.Index(groups, dtype=object).get_indexer(pd.Index(self._names[axis], dtype=object)).astype(np.intp)
        asked = self._by(code, len(groups))
        there = asked.sum(axis=1) > 0
        with np.errstate(invalid="ignore"):
            weights = np.nan_to_num(asked * asked[0] / (asked + asked[0]))
        weights[0] = 0.0
        for place in range(1, len(groups)):
            shared = self.asked[:, weights[place] > 0].sum(axis=1) > 0
            if any(shared[code == one].sum() < min(FEWEST, max(1, (code == one).sum())) for one in (0, place)):
                weights[place] = 0.0
        kept = weights.sum(axis=1) > 0
        weights[kept] /= weights[kept].sum(axis=1, keepdims=True)
        weights[0] = weights[kept].mean(axis=0) if kept.any() else 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            each = np.nan_to_num(weights / asked) * np.where(weights > 0, asked, 0.0).sum(axis=1, keepdims=True)
        of_name = np.where((code >= 0)[:, None], each[code], 0.0)
        self._compared |= of_name > 0
        left = [group for place, group in enumerate(groups) if place and there[place] and there[0] and not kept[place]]
        return (of_name * self._beyond).sum(axis=1), (of_name * self.asked).sum(axis=1), left

    def _by(self, code: Codes, n_groups: int = 0) -> Floats:
        """Answers by group and cue; names of code -1 are left out."""
        found = np.zeros((max(n_groups, int(code.max(initial=-1)) + 1), self.asked.shape[1]))
        np.add.at(found, code[code >= 0], self.asked[code >= 0])
        return found


def _names(answers: pd.DataFrame, axes: Axes, *further: str) -> pd.DataFrame:
    """One row per name, and per value of ``further`` columns: its axes, and how many of its answers are what."""
    status, count = answers["status"], answers["count"]
    missing = count.where(status.isin(UNANSWERED), 0)
    named = answers if "name" in answers else answers.assign(name=answers["cluster"])
    counts = named[["cluster", "name", *axes, *further]].assign(
        answered=count - missing,
        bad=count.where(status.isin(NONCOMPLIANT), 0),
        empty=count.where(answers["empty"].astype(bool), 0),
        missing=missing,
        failed=count.where(status.eq(Status.FAILED.value), 0),
    )
    keys: Sequence[str] = ["cluster", "name", *axes, *further]
    return counts.groupby(list(keys), sort=False, dropna=False)[list(COUNTED)].sum().reset_index()


def _interval(names: pd.DataFrame, share: float, confidence_level: float) -> tuple[float, float]:
    bad, answered = names["bad"].to_numpy(float), names["answered"].to_numpy(float)
    used = answered > 0
    without = inference.mean_leave_out(bad[used] / answered[used], answered[used])
    found = inference.spread(without, {"name": names["name"].to_numpy()[used]}, weights=answered[used])
    return found.interval(share, confidence_level)
