"""What the annotator answered -> one judgment a row: 0, 1, or missing with its reason.

A row of a batch becomes one row per numbered text, so that there are never fewer rows than there were; of a
scored text, which has a row per candidate, one row is the judgment (``judgment`` is true) and both are kept.
"""

from __future__ import annotations

import numpy as np
import orjson
import pandas as pd

from markedness.records import Status, Strict, answerless_status
from markedness.text.judgments import Judgment, binary, read_numbered, read_one
from markedness.text.refusals import is_refusal


class Params(Strict):
    """``annotation.clean``."""

    min_margin: float = 0.0
    """Scored answers closer than this, in nats, are missing; 0: only an exact tie is."""


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Read every judgment.

    Parameters
    ----------
    generations
        Rows of batches (column ``items``), of single answers, of scored candidates (``candidate``, ``log_prob``), or
        stored judgments (``y``).
    params
        When a score is a tie.

    Returns
    -------
    DataFrame
        The rows, those of a batch once per text with its ``group``, ``position`` in the request and other columns, and
        ``answer``: 0, 1 or <NA>; ``status``; ``reason``, why it is missing; ``margin``: ln P(yes) - ln P(no) in
        nats, NaN where it was not scored; ``judgment``: whether this row is the one that counts; ``duplicate``:
        whether a judgment of the same text of the same pair on the same task stands above it.
    """
    rows = generations.reset_index(drop=True)
    items = rows["items"] if "items" in rows else pd.Series(None, index=rows.index, dtype=object)
    batched = items.notna() & items.ne("").fillna(False)
    parts = [part for part in (_batches(rows[batched]), _singles(rows[~batched], params)) if len(part)]
    if not parts:
        return _labelled(rows, np.zeros(0, dtype="int8"), pd.Series(dtype=object))
    made = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0].reset_index(drop=True)
    made["duplicate"] = _duplicates(made)
    return made.astype(dict.fromkeys(made.select_dtypes(["object", "string"]), "category"))


def _batches(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per numbered text."""
    if rows.empty:
        return rows
    listed = [orjson.loads(items) for items in rows["items"]]
    sizes = np.array([len(items) for items in listed])
    judgments: list[Judgment] = []
    for text, finish, size in zip(rows["text"], rows["finish_reason"], sizes, strict=True):
        if isinstance(text, str):
            judgments += read_numbered(text, size, cut=isinstance(finish, str) and finish == "length")
        else:
            judgments += [Judgment(None, None)] * size
    # prompts and completions stand once per text: as categories they take no room
    names = [name for name in ("prompt", "text") if name in rows]
    rows = rows.drop(columns="items").astype(dict.fromkeys(names, "category"))
    made = rows.loc[rows.index.repeat(sizes)].reset_index(drop=True)
    texts = pd.DataFrame([item for items in listed for item in items])
    made = pd.concat([made.drop(columns=[name for name in texts if name in made]), texts], axis=1)
    made["position"] = np.concatenate([np.arange(1, size + 1) for size in sizes]).astype("int32")
    y = np.array([-1 if judgment.y is None else judgment.y for judgment in judgments], dtype="int8")
    return _labelled(made, y, pd.Series([judgment.reason for judgment in judgments], dtype=object))


def _singles(rows: pd.DataFrame, params: Params) -> pd.DataFrame:
    """One text a row: stored, scored or written."""
    if rows.empty:
        return rows
    rows = rows.drop(columns="items", errors="ignore").reset_index(drop=True)
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
    log_prob = pd.to_numeric(rows["log_prob"], errors="coerce").to_numpy(dtype=float)
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
    if "reason" in rows:
        said = rows.groupby(text)["reason"].first()
        reason = said.where(said.notna(), reason)
    made = _labelled(
        rows.drop(columns="reason", errors="ignore"), y[text], reason.where(y < 0)[text].reset_index(drop=True)
    )
    made["margin"] = margin[text]
    made["judgment"] = ~pd.Series(text).duplicated().to_numpy()
    return made


def _labelled(rows: pd.DataFrame, y: np.ndarray, reason: pd.Series) -> pd.DataFrame:
    """Add answer, status, reason, margin and judgment."""
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
        declined = texts.isin(set(said[is_refusal(said.astype("string"))]))
        cut = rows.loc[open_rows, "finish_reason"].eq("length").fillna(False)
        status[open_rows] = np.where(declined, Status.REFUSAL, np.where(cut, Status.TRUNCATED, Status.UNPARSED))
    return rows.assign(
        answer=pd.arrays.IntegerArray(np.where(known, y, 1).astype("int8"), ~known),
        status=status.astype("category"), reason=reason, margin=np.nan, judgment=True,
    )  # fmt: skip


def _duplicates(rows: pd.DataFrame) -> np.ndarray:
    """Judgments that were made before; texts of the dialect paradigm are drawn again on purpose."""
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
