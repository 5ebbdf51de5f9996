"""Parse the answers: one judgment per row, 0, 1 or missing with its reason.

A row of a batch becomes one row per numbered text, so that there are never fewer rows than there were; of a
scored text, which has a row per candidate, one row is the judgment (``judgment`` is true) and both are kept.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.annotation.design.texts import texts_of_batches
from markedness.audits.annotation.language.judgments import Judgment, binary, read_numbered, read_one
from markedness.records import ABSENT, IMPUTED, MAYBE_IMPUTED, SHOWN, Status, Strict, answerless_status
from markedness.text.answers import answers, not_log_probs
from markedness.text.refusals import is_refusal


class Params(Strict):
    """``annotation.clean``."""

    min_margin: float = Field(default=0.0, ge=0)
    """Scored answers closer than this, in nats, are missing; 0: only an exact tie is."""
    min_coverage: float = Field(default=0.5, ge=0, le=1)
    """Below this share of probability mass on the two answers that a server shows, as of one that refuses or explains,
    the judgment is missing."""


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Read every judgment.

    Parameters
    ----------
    generations
        Rows of batches (``n_texts``, and for each text ``group_1``, ``pair_1``, ...), of single answers, of scored
        candidates (``candidate``, ``log_prob``), or stored judgments (``y``).
    params
        When a score is a tie.

    Returns
    -------
    DataFrame
        The rows, those of a batch once per text with its ``group``, ``position`` in the request and other columns, and
        ``answer``: 0, 1 or <NA>; ``status``; ``reason``, why it is missing; ``margin``: ln P(yes) - ln P(no) in
        nats, NaN where it was not scored; ``imputed``: whether a server did not show one of these (of scored answers
        alone); ``judgment``: whether this row is the one that counts; ``duplicate``:
        whether an earlier row judges the same text of the same pair on the same task.
    """
    rows = generations.reset_index(drop=True)
    if rows.empty:
        return _labelled(rows, np.zeros(0, dtype="int8"), pd.Series(dtype=object))
    made = _batches(rows) if "n_texts" in rows else _singles(rows, params)
    made["duplicate"] = _duplicates(made)
    return made.astype(dict.fromkeys(made.select_dtypes(["object", "string"]), "category"))


def _batches(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per numbered text."""
    judgments: list[Judgment] = []
    for text, finish, size in zip(rows["text"], rows["finish_reason"], rows["n_texts"], strict=True):
        if isinstance(text, str):
            judgments += read_numbered(text, size, cut=isinstance(finish, str) and finish == "length")
        else:
            judgments += [Judgment(None, None)] * size
    rows, texts = texts_of_batches(rows)
    # a prompt and a completion are repeated for each text: as categories they need little memory
    names = [name for name in ("prompt", "text") if name in rows]
    rows = rows.astype(dict.fromkeys(names, "category"))
    made = rows.loc[rows.index.repeat(rows["n_texts"])].reset_index(drop=True)
    made = pd.concat([made.drop(columns=[name for name in texts if name in made]), texts], axis=1)
    y = np.array([-1 if judgment.y is None else judgment.y for judgment in judgments], dtype="int8")
    return _labelled(made, y, pd.Series([judgment.reason for judgment in judgments], dtype=object))


def _singles(rows: pd.DataFrame, params: Params) -> pd.DataFrame:
    """One text a row: stored, scored or written."""
    if "candidate" in rows and rows["candidate"].notna().any():
        return _scored(rows, params)
    if "y" in rows:
        codes, values = pd.factorize(rows["y"])
        known = np.array([-1 if (y := binary(value)) is None else y for value in values] + [-1], dtype="int8")
        reasons = np.array(
            [None if y >= 0 else "neither 0 nor 1" for y in known[:-1]] + ["no judgment stored"], dtype=object
        )
        reasons[:-1][[isinstance(value, str) and not value.strip() for value in values]] = "no judgment stored"
    else:
        codes, values = pd.factorize(rows["text"])
        read = [read_one(str(value)) for value in values] + [Judgment(None, None)]
        known = np.array([-1 if judgment.y is None else judgment.y for judgment in read], dtype="int8")
        reasons = np.array([judgment.reason for judgment in read], dtype=object)
    return _labelled(rows, known[codes], pd.Series(pd.Categorical.from_codes(*_codes(reasons, codes))))


def _codes(values: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, pd.Index]:
    """Codes and categories of ``values[codes]``, without building it."""
    of_value, categories = pd.factorize(values)
    return of_value[codes], pd.Index(categories, dtype=object)


def _scored(rows: pd.DataFrame, params: Params) -> pd.DataFrame:
    """The more probable answer of each text; both candidates' rows are kept."""
    keys = [
        name
        for name in ("prompt_id", "group", "sample", "paradigm", "task", "pair", "iteration", "name")
        if name in rows
    ]
    text = rows.groupby(keys, sort=False, dropna=False, observed=True).ngroup().to_numpy()
    n = int(text.max()) + 1
    given = pd.to_numeric(rows["log_prob"], errors="coerce").astype("float64")
    wrong = not_log_probs(given)
    coverage = pd.to_numeric(rows.reindex(columns=["coverage"])["coverage"], errors="coerce")
    thin = coverage.lt(params.min_coverage).fillna(False) & given.notna()
    wrong = wrong.mask(thin, f"the two answers cover less than {params.min_coverage:g} of the probability")
    given_reason = rows["reason"].astype("string") if "reason" in rows else pd.Series(pd.NA, rows.index, "string")
    nothing_left = given_reason.eq(ABSENT).fillna(False) & coverage.ge(params.min_coverage).fillna(False)
    log_prob = given.where(wrong.isna()).mask(nothing_left, -np.inf).to_numpy(dtype=float)
    is_yes = (rows["candidate"] == rows["yes"]).to_numpy(dtype=bool)
    yes, no = np.full(n, np.nan), np.full(n, np.nan)
    yes[text[is_yes]], no[text[~is_yes]] = log_prob[is_yes], log_prob[~is_yes]
    with np.errstate(invalid="ignore"):
        margin = yes - no
        y = np.where(np.abs(margin) > params.min_margin, margin > 0, -1)
    y = np.where(np.isnan(margin), -1, y).astype("int8")
    reason = pd.Series(
        np.where(np.isnan(margin), "no probability for an answer", "the two answers are equally probable")
    )
    imputed = (given_reason.isin((IMPUTED, MAYBE_IMPUTED)) & ~thin) | nothing_left
    said = wrong.fillna(given_reason.mask(given_reason.isin((SHOWN, IMPUTED, MAYBE_IMPUTED)))).groupby(text).first()
    reason = said.astype(object).where(said.notna(), reason)
    rows, missing = rows.drop(columns="reason", errors="ignore"), reason.where(y < 0)[text].reset_index(drop=True)
    made = _labelled(rows, y[text], missing, scored=True)
    made["margin"] = np.where(np.isfinite(margin), margin, np.nan)[text]
    made["imputed"] = imputed.groupby(text).transform("any").to_numpy(dtype=bool)
    made["judgment"] = ~pd.Series(text).duplicated().to_numpy()
    return made


def _labelled(rows: pd.DataFrame, y: np.ndarray, reason: pd.Series, scored: bool = False) -> pd.DataFrame:
    """Add answer, status, reason, margin and judgment. ``scored``: no text was asked, which a limit could cut."""
    known = y >= 0
    status = answerless_status(rows).where(~known, Status.OK.value)
    failed = status.notna().to_numpy() & ~known
    reason = reason.astype(object) if failed.any() else reason
    if failed.any():
        reason[failed] = rows.loc[failed, "error"].to_numpy()
    open_rows = status.isna()
    if open_rows.any():
        texts = rows.loc[open_rows, "text"]
        said = texts.drop_duplicates().dropna()
        declined = texts.isin(set(said[is_refusal(answers(said))]))
        cut = rows.loc[open_rows, "finish_reason"].eq("length").fillna(False) & (not scored)
        status[open_rows] = np.where(declined, Status.REFUSAL, np.where(cut, Status.TRUNCATED, Status.UNPARSED))
    return rows.assign(
        answer=pd.arrays.IntegerArray(np.where(known, y, 1).astype("int8"), ~known),
        status=status.astype("category"), reason=reason, margin=np.nan, judgment=True,
    )  # fmt: skip


def _duplicates(rows: pd.DataFrame) -> np.ndarray:
    """Judgments that an earlier row has too; texts of the dialect paradigm are repeated on purpose."""
    if "pair" not in rows or "paradigm" not in rows:
        return np.zeros(len(rows), dtype=bool)
    counted = (rows["judgment"] & rows["paradigm"].eq("names") & rows["pair"].notna()).to_numpy(dtype=bool)
    keys = [name for name in ("task", "iteration", "pair", "group", "name") if name in rows]
    code = np.zeros(int(counted.sum()), dtype="int64")
    for name in keys:
        codes, values = pd.factorize(rows.loc[counted, name], use_na_sentinel=False)
        code = code * len(values) + codes
    found = np.zeros(len(rows), dtype=bool)
    found[counted] = pd.Series(code).duplicated().to_numpy()
    return found
