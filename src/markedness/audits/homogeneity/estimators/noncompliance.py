"""Answers that do not comply with the prompt, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from markedness.records import Axes, Status
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
    "out one name"
)


def noncompliance_difference(answers: pd.DataFrame, axes: Axes, rng: np.random.Generator, family: int) -> Score:
    """Share of answers that failed or do not comply, marked minus unmarked, as mean over the marked values of all axes.

    What failed counts, since a provider that withholds an answer lets its request fail. Which difference would have
    been found is not known: the error of a rare share grows with the share, and that of names with it (docs/sizes.md).
    """
    names = _names(answers, axes)
    bad, asked, left = _of_equal_cues(answers, axes, names, ["bad", "failed"], ["answered", "failed"])
    made = inference.contrast_score(
        "noncompliance.difference", bad, asked, contrasts(names, axes), rng,
        cluster="name", clusters=names["cluster"], family=family, method=METHOD, unit="answers", comparable=True,
        n_missing=int(names["failed"].sum()),
        positive="answers about the marked groups fail or do not comply with the prompt more often",
        negative="answers about the marked groups fail or do not comply with the prompt less often",
    )  # fmt: skip
    made = replace(made, detectable=NAN)
    why = "asked about other cues than all else, or about the same ones by two names at most"
    return made.warned(f"Not over {', '.join(left)}: {why}.") if left else made


def contrasts(names: pd.DataFrame, axes: Axes) -> list[inference.Contrast]:
    """The marked values of each axis against the unmarked one, within the values of the others; one row a name."""
    return [
        inference.Contrast(
            names[axis].to_numpy(object), words.marked, words.unmarked,
            [names[other].astype(str).to_numpy() for other in axes if other != axis],
        )
        for axis, words in axes.items()
    ]  # fmt: skip


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
        against the unmarked one, at equal cues; NaN for that), p_adjusted (Benjamini-Hochberg over all marked values of
        all axes).
    """
    names = _names(answers, axes)
    hits, asked, _ = _of_equal_cues(answers, axes, names, ["bad"], ["answered"])
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
                    "", hits, asked, names[axis], [value], words.unmarked, rng, cluster="name",
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


def _of_equal_cues(
    answers: pd.DataFrame, axes: Axes, names: pd.DataFrame, hits: Sequence[str], totals: Sequence[str]
) -> tuple[Floats, Floats, list[str]]:
    """Hits of each name beyond what its cues let expect, its answers, and the groups that cannot be compared.

    Cues differ in how many answers comply, so that a group that was asked about some of them alone would be accused for
    these. The share of hits is a sum over group and cue, fitted by least squares with the answers as weights; the part
    of the cues is taken out. Nothing is taken out where all groups were asked about the same cues equally often.
    Without a chain of cues that groups share, they cannot be compared: all but the largest such set have no answers.
    Groups share cues where three names of each, or all, were asked about one of them: the sampling error takes the part
    of the cues as known, which that of one or two names is not.
    """
    from scipy.sparse.csgraph import connected_components

    top, below = (names[list(parts)].sum(axis=1).to_numpy(float) for parts in (hits, totals))
    cells = _names(answers, axes, "cue")
    cells = cells.assign(hits=cells[list(hits)].sum(axis=1), total=cells[list(totals)].sum(axis=1)).query("total > 0")
    labels = cells[list(axes)].astype(str).agg(" ".join, axis=1)
    group, known = pd.factorize(labels)
    cue, cues = pd.factorize(cells["cue"])
    asked = np.zeros((len(known), len(cues)))
    np.add.at(asked, (group, cue), cells["total"].to_numpy(float))
    if not len(cells) or np.ptp(asked / asked.sum(axis=1, keepdims=True), axis=0).max() < 1e-9:
        return top, below, []
    name = pd.factorize(cells["cluster"].astype(str) + " " + labels)[0]
    of_group = connected_components(_linked(group, cue, name, asked > 0), directed=False)[1]
    most = np.bincount(of_group, asked.sum(axis=1)).argmax()
    found = np.zeros_like(asked)
    np.add.at(found, (group, cue), cells["hits"].to_numpy(float))
    places = np.argwhere(asked > 0)
    root = np.sqrt(asked[asked > 0])
    design = np.zeros((len(places), len(known) + len(cues)))
    design[np.arange(len(places)), places[:, 0]] = root
    design[np.arange(len(places)), len(known) + places[:, 1]] = root
    effects = np.linalg.lstsq(design, found[asked > 0] / root, rcond=None)[0][len(known) :]
    expected = cells["total"].to_numpy(float) * effects[cue]
    keys = pd.MultiIndex.from_frame(names[["cluster", *axes]].astype(str))
    of_name = keys.get_indexer(pd.MultiIndex.from_frame(cells[["cluster", *axes]].astype(str)))
    top = top - np.bincount(of_name, expected, len(names))
    apart = np.bincount(of_name, of_group[group] != most, len(names)) > 0
    return top, np.where(apart, 0.0, below), [str(name) for name in known[of_group != most]]


def _linked(group: Codes, cue: Codes, name: Codes, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which groups share cues, (groups, groups); three arrays of shape (cells,), and ``asked``, (groups, cues)."""
    there = np.zeros((int(name.max()) + 1, asked.shape[1]), dtype=bool)
    there[name, cue] = True
    of_name = np.zeros(len(there), dtype=np.intp)
    of_name[name] = group
    n_names = np.bincount(of_name, minlength=len(asked))
    linked = np.zeros((len(asked), len(asked)), dtype=bool)
    for first, own in enumerate(asked):
        for second in np.flatnonzero((asked & own).any(axis=1)):
            shared = there[:, own & asked[second]].any(axis=1)
            n = np.bincount(of_name, shared, len(asked))
            linked[first, second] = all(n[one] >= min(3, n_names[one]) for one in (first, second))
    return linked


def _names(answers: pd.DataFrame, axes: Axes, *further: str) -> pd.DataFrame:
    """One row per name, and per value of ``further`` columns: its axes, and how many of its answers are what."""
    status, count = answers["status"], answers["count"]
    missing = count.where(status.isin(UNANSWERED), 0)
    counts = answers[["cluster", *axes, *further]].assign(
        answered=count - missing,
        bad=count.where(status.isin(NONCOMPLIANT), 0),
        empty=count.where(answers["empty"].astype(bool), 0),
        missing=missing,
        failed=count.where(status.eq(Status.FAILED.value), 0),
    )
    keys: Sequence[str] = ["cluster", *axes, *further]
    return counts.groupby(list(keys), sort=False, dropna=False)[list(COUNTED)].sum().reset_index()


def _interval(names: pd.DataFrame, share: float, confidence_level: float) -> tuple[float, float]:
    bad, answered = names["bad"].to_numpy(float), names["answered"].to_numpy(float)
    used = answered > 0
    without = inference.mean_leave_out(bad[used] / answered[used], answered[used])
    found = inference.spread(without, {"name": names["cluster"].to_numpy()[used]}, weights=answered[used])
    return found.interval(share, confidence_level)
