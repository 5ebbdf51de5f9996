"""Judgments -> matched pairs: the marked text's answers beside the unmarked text's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from markedness.audits.annotation.design.pairs import (
    Codes,
    MatchError,
    codes,
    first_rows,
    genders,
    of_one_gender,
    pair_codes,
)
from markedness.cards import are, count
from markedness.in_common import linked, told_links
from markedness.records import Features, Status, Stimuli, Strict

REASONS = {
    "refusal": (Status.REFUSAL,),
    "unparsed": (Status.UNPARSED,),
    "truncated": (Status.TRUNCATED,),
    "failed": (Status.FAILED, Status.UNSUPPORTED),
}
"""Column -> statuses of a missing judgment, counted on each side."""
SAME_JUDGMENT = ("task", "iteration", "pair", "vignette", "gender", "group", "name")
"""Columns that say which judgment of the names paradigm a row is."""
NAMED = 5
"""Labels that a note names."""
_ABOUT = (
    "paradigm", "prompt_id", "group", "reference", "task", "domain", "valence", "iteration", "pair", "vignette",
    "gender", "answer_order",
)  # fmt: skip


class Params(Strict):
    """``annotation.featurize``."""

    duplicates: bool = True
    """Count every judgment of a text that was judged several times (a retry in stored data); false: one of them."""


def featurize(responses: pd.DataFrame, params: Params, stimuli: Stimuli) -> Features:
    """Match marked with unmarked judgments of the same task.

    Texts of the names paradigm match by ``pair`` within ``iteration``, or, where there is no pair, by vignette, gender
    and iteration; several marked groups may share one unmarked text. Texts of the dialect paradigm match by ``pair``
    (or ``vignette``) over all iterations.

    Parameters
    ----------
    responses
        Rows of clean.
    params
        Whether repeated judgments count.
    stimuli
        Not read.

    Returns
    -------
    Features
        ``pairs``: one row per task, pair and marked group: what the pair is; ``name``, ``reference_name``;
        ``vignette`` of the marked text, else of the unmarked one, whose own is ``vignette_reference``; ``n``, ``yes``
        (judgments and yes-answers of the marked text), ``n_reference``, ``yes_reference``; ``delta`` = yes / n
        - yes_reference / n_reference, in [-1, 1], positive: the marked text gets yes more often, NaN when a side is
        missing; ``margin``, ``margin_reference``: mean ln P(yes) - ln P(no), nats, NaN where not scored; for each
        reason the missing judgments of either side (``refusal``, ``refusal_reference``, ...); where several texts were
        one request, ``position`` and ``position_reference`` (mean place in it, from 1) and ``together`` (1: both texts
        in one); where requests held several texts of one side only, ``one_sided`` (1: those of both texts did);
        where all names of a group stand beside one of another gender, ``other_gender`` (1: this pair's do);
        ``ungrouped``: stored judgments without a group, which are left out, of the whole table.

    Raises
    ------
    MatchError
        When a column is missing, no judgment has a group, or one has nothing to match it by.
    """
    rows, ungrouped = _counted(responses, params)
    pair, n_pairs = pair_codes(rows)
    group, groups = codes(rows, "group")
    unmarked = rows["group"].astype(object).to_numpy() == rows["reference"].astype(object).to_numpy()
    unit, units = pd.factorize(pair[~unmarked] * len(groups) + group[~unmarked])
    of_unit = units // len(groups)
    first = first_rows(unit, len(units), np.flatnonzero(~unmarked))
    first_reference = first_rows(pair[unmarked], n_pairs, np.flatnonzero(unmarked))[of_unit]

    made = rows[[name for name in (*_ABOUT, "name") if name in rows]].iloc[first].reset_index(drop=True)
    if "name" in rows:
        other = rows["name"].iloc[np.maximum(first_reference, 0)].reset_index(drop=True)
        made["reference_name"] = other.where(first_reference >= 0)
    if "reference_name" in rows:  # a corpus may name it beside the marked name
        stored = rows["reference_name"].iloc[first].reset_index(drop=True)
        known = pd.Series(codes(rows, "reference_name")[0][first] >= 0)
        made["reference_name"] = stored.astype(object).where(known, made.get("reference_name"))
    joined, blank = 0, 0
    if "vignette" in rows:
        own, made["vignette_reference"] = (_vignettes(rows, place) for place in (first, first_reference))
        made["vignette"] = own.where(own.notna(), made["vignette_reference"])
        of_paradigm = made.groupby(made["paradigm"].astype(object), sort=False)
        joined = sum(
            part["vignette"].nunique() - linked(part["vignette"], part["vignette_reference"]).nunique()
            for _, part in of_paradigm
        )
        lacking = made["paradigm"].astype(object).eq("dialect") & made["vignette"].isna()
        blank = int(pd.unique(of_unit[lacking]).size) if made["vignette"].notna().any() else 0
    for name, sums in _sums(rows, ~unmarked, unit, len(units)).items():
        made[name] = sums
    for name, sums in _sums(rows, unmarked, pair[unmarked], n_pairs).items():
        made[f"{name}_reference"] = sums[of_unit]
    if "position" in rows:  # several texts in one request
        made["together"] = _same_request(rows["prompt_id"], first, first_reference)
    if (alone := _one_sided(rows, unmarked)).any():
        made["one_sided"] = (alone[first] & ((first_reference < 0) | alone[first_reference])).astype("int8")
    for name in {"together", "answer_order"} & {*made}:  # a pair of dialect texts is in many requests
        made[name] = made[name].where(made["paradigm"].astype(object) == "names")
    made["delta"] = _ratio(made["yes"], made["n"]) - _ratio(made["yes_reference"], made["n_reference"])
    made["ungrouped"] = np.int32(ungrouped)
    made, of_genders = of_one_gender(made, *(genders(rows, place) for place in (first, first_reference)))
    dialect = rows["paradigm"].astype(object).eq("dialect").to_numpy(dtype=bool)
    unpaired = {
        "unmarked": ~np.isin(pair[unmarked], pair[~unmarked]),
        "marked": ~np.isin(pair[~unmarked & dialect], pair[unmarked]),  # of names the evaluation counts pairs
    }
    of_vignettes = (*told_links(joined, "vignettes", "the marked texts"), *_without_vignette(blank))
    notes = (
        *_unread(responses),
        *_not_shown(rows),
        *_judged_again(rows),
        *_alone(unpaired),
        *of_vignettes,
        *of_genders,
    )
    return Features({"pairs": made}, notes=notes)


def _vignettes(rows: pd.DataFrame, places: Codes) -> pd.Series:
    """The vignette of each of these rows; missing where it is blank, or the place is -1."""
    found = rows["vignette"].astype(object).iloc[np.maximum(places, 0)].reset_index(drop=True)
    return found.where((places >= 0) & found.notna() & found.ne(""))


def _alone(alone: Mapping[str, NDArray[np.bool_]]) -> Iterator[str]:
    """Judgments of texts that stand beside no other."""
    for side, other in (("unmarked", "marked"), ("marked", "unmarked")):
        if n := int(alone[side].sum()):
            yield (
                f"{count(n, 'judgment')} of {len(alone[side]):,} of {side} texts {are(n)} left out: the data have no "
                f"{other} text beside them."
            )


def _without_vignette(blank: int) -> Iterator[str]:
    """Pairs of texts that name no vignette, where others do."""
    if blank:
        yield f"{count(blank, 'pair')} of texts and tasks {are(blank)} without a vignette; each pair counts as its own."


def _unread(responses: pd.DataFrame) -> Iterator[str]:
    """Stored labels that count as missing because they are neither 0 nor 1."""
    if "y" not in responses:
        return
    labels = responses.loc[responses["status"].eq(Status.UNPARSED.value), "y"].astype("string").str.strip()
    counts = labels[labels.fillna("").ne("")].value_counts()
    if len(counts):
        shown = ", ".join(f"'{label:.40}' {n:,}" for label, n in counts.head(NAMED).items())
        more = f" and {len(counts) - NAMED} more" if len(counts) > NAMED else ""
        yield (
            f"{counts.sum():,} stored labels are neither 0 nor 1 and count as missing: {shown}{more}. Say what they "
            "mean in models.<model>.annotation.values.y."
        )


def _not_shown(rows: pd.DataFrame) -> Iterator[str]:
    """Tasks whose margins are not measured, since a server did not show both answers after each text."""
    if "imputed" in rows and rows["imputed"].any():
        tasks = sorted(rows.loc[rows["imputed"], "task"].astype(str).unique())
        n = int(rows["imputed"].sum())
        yield (
            f"In {n:,} of {len(rows):,} judgments the probability of one of the two answers is none that the server "
            "showed, or the data do not say that it is. The answer is the one that it showed; ln P(yes) - ln P(no) is "
            f"not measured of the tasks {', '.join(tasks[:NAMED])}"
            f"{f' and {len(tasks) - NAMED} more' if len(tasks) > NAMED else ''}."
        )


def _judged_again(rows: pd.DataFrame) -> Iterator[str]:
    """Judgments of names that repeat one of the same text, task and iteration, and how many texts got both answers."""
    names = rows[rows["paradigm"].astype(object).eq("names") & rows["answer"].notna()]
    keys = [name for name in SAME_JUDGMENT if name in names]
    again = int(names.duplicated(keys).sum())
    if not again:
        return
    several = names.groupby(keys, sort=False, observed=True, dropna=False)["answer"].nunique().gt(1).sum()
    yield (
        f"{count(again, 'judgment')} of names {are(again)} of a text that is judged already on the same task and "
        f"iteration; {count(int(several), 'text')} got different answers, and such a text counts as its share of yes. "
        "Name a column of iterations where they are draws of their own; annotation.featurize.duplicates: false counts "
        "the first judgment of each text of a pair alone."
    )


def _counted(responses: pd.DataFrame, params: Params) -> tuple[pd.DataFrame, int]:
    """The judgments that count, and how many more have no group."""
    for name in ("task", "paradigm", "group", "reference"):
        if name not in responses:
            raise MatchError(
                f"annotation.featurize: the responses have no column '{name}'; run generate and clean again"
            )
    counted = responses["judgment"].to_numpy(dtype=bool) if "judgment" in responses else np.ones(len(responses), bool)
    if not params.duplicates:
        counted = counted & ~responses["duplicate"].to_numpy(dtype=bool)
    grouped = codes(responses, "group")[0] >= 0
    if not (counted & grouped).any():
        raise MatchError(
            "annotation.featurize: no judgment has a group; for stored judgments name the column of the group or the "
            "dialect in models.<model>.annotation.columns"
        )
    kept = counted & grouped
    return responses if kept.all() else responses[kept], int((counted & ~grouped).sum())


def _sums(rows: pd.DataFrame, side: NDArray[np.bool_], code: Codes, size: int) -> dict[str, NDArray[np.generic]]:
    """Judgments, yes-answers, missing judgments by reason, and the mean margin, of one side by code."""
    answer = rows["answer"].fillna(-1).to_numpy(dtype="int8")[side]
    counts = {"n": answer >= 0, "yes": answer == 1}
    for reason, statuses in REASONS.items():
        counts[reason] = rows["status"].isin([s.value for s in statuses]).to_numpy(dtype=bool)[side] & (answer < 0)
    found: dict[str, NDArray[np.generic]] = {
        name: np.bincount(code[which], minlength=size).astype("int32") for name, which in counts.items()
    }
    margin = _margins(rows)[side]
    scored = ~np.isnan(margin)
    sums = np.bincount(code[scored], weights=margin[scored], minlength=size)
    found["margin"] = _ratio(sums, np.bincount(code[scored], minlength=size))
    if "position" in rows:
        place = rows["position"].to_numpy(dtype=float)[side]
        there = ~np.isnan(place)
        sums = np.bincount(code[there], weights=place[there], minlength=size)
        found["position"] = _ratio(sums, np.bincount(code[there], minlength=size))
    return found


def _margins(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Ln P(yes) - ln P(no), nats; NaN in a task of a paradigm where one of the two is imputed after some text.

    Where it is depends on the other tokens, so that the rest would be a choice by them.
    """
    if "margin" not in rows:
        return np.full(len(rows), np.nan)
    margin = rows["margin"].to_numpy(dtype=float)
    if "imputed" not in rows:
        return margin
    by = [rows["paradigm"].astype(str), rows["task"].astype(str)]
    return np.where(rows["imputed"].astype(bool).groupby(by).transform("any"), np.nan, margin)


def _same_request(prompt_id: pd.Series, first: Codes, reference: Codes) -> NDArray[np.float64]:
    """1 where the first judgments of the two texts are of one request, 0 where not, NaN without one of them."""
    codes = pd.factorize(prompt_id)[0]
    same = (codes[np.maximum(first, 0)] == codes[np.maximum(reference, 0)]).astype(float)
    return np.asarray(np.where((first >= 0) & (reference >= 0), same, np.nan))


def _one_sided(rows: pd.DataFrame, unmarked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows of requests, known by task and prompt_id, that held several texts, all marked or all unmarked."""
    prompt, _ = codes(rows, "prompt_id")
    task, tasks = codes(rows, "task")
    request, known = pd.factorize(prompt * (len(tasks) + 1) + task)
    if len(known) == len(rows):
        return np.zeros(len(rows), dtype=bool)
    marked, size = np.bincount(request, ~unmarked, len(known)), np.bincount(request)
    alone = (prompt >= 0) & (size > 1)[request] & ((marked == 0) | (marked == size))[request]
    here = np.flatnonzero(alone)
    text = np.zeros(len(here), dtype=np.int64)
    for name in ("pair", "vignette", "group", "name"):
        code, values = codes(rows, name)
        text = pd.factorize(text * (len(values) + 1) + code[here] + 1)[0].astype(np.int64)
    texts = np.unique(np.column_stack([request[here], text]), axis=0)[:, 0]
    alone[here] = np.bincount(texts, minlength=len(known))[request[here]] > 1
    return np.asarray(alone)


def _ratio(sums: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Quotient; NaN where ``n`` is 0."""
    n = np.asarray(n, dtype=float)
    ratio = np.full(len(n), np.nan)
    np.divide(np.asarray(sums, dtype=float), n, out=ratio, where=n > 0)
    return ratio
