"""Check every score: is it present, is it a probability, does it rest on enough of the distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.records import ABSENT, IMPUTED, MAYBE_IMPUTED, NOT_SHOWN, Status, Strict, answerless_status
from markedness.text.answers import not_log_probs

NUMBERS, TEXTS = ("log_prob", "coverage", "cut_tokens", "candidate_tokens"), ("reason", "estimator")
"""Columns that stored scores may lack; clean adds them, so that all responses have the same columns."""


class Params(Strict):
    """``guise.clean``."""

    min_coverage: float = Field(default=0.5, ge=0, le=1)
    """Below this share of probability mass on the attributes that a server returned, its scores are missing."""


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Add ``answer``, the ln probability if it is usable, and ``status``.

    Parameters
    ----------
    generations
        One scored candidate a row.
    params
        The smallest coverage.

    Returns
    -------
    DataFrame
        The same rows with ``answer`` (nats, at most 0; NaN where missing) and ``status``: unsupported for a candidate
        that is not a single token of the model, unparsed for a value that is not a ln probability, stands for one too
        small to be given, or has a coverage below the limit. ``reason`` says why an answer is missing. ``estimator``:
        `NOT_SHOWN` where a server showed other tokens alone, or may have.
    """
    rows = generations.assign(**{column: np.nan for column in (*NUMBERS, *TEXTS) if column not in generations})
    rows = rows.assign(**{column: pd.to_numeric(rows[column], errors="coerce") for column in NUMBERS})
    rows = rows.astype(dict.fromkeys(TEXTS, "string"))
    score, reason = rows["log_prob"], rows["reason"]
    status = answerless_status(rows)
    open_rows = status.isna()
    missing = open_rows & score.isna()
    status[missing] = Status.UNSUPPORTED.value
    reason = reason.mask(missing & reason.isna(), "no log-probability was given")
    thin = open_rows & ~missing & rows["coverage"].lt(params.min_coverage)
    status[thin] = Status.UNPARSED.value
    reason = reason.mask(thin, f"the attributes returned cover less than {params.min_coverage:g} of the probability")
    why = not_log_probs(score).where(open_rows & ~missing & ~thin)
    status[why.notna()] = Status.UNPARSED.value
    reason = why.fillna(reason)
    rows["reason"] = reason.mask(reason.isna() & rows["error"].notna(), rows["error"].astype("string"))
    rows["status"] = status.fillna(Status.OK.value)
    imputed = rows["reason"].isin((IMPUTED, MAYBE_IMPUTED)) & rows["status"].eq(Status.OK.value)
    nothing_left = rows["reason"].eq(ABSENT) & rows["coverage"].ge(params.min_coverage)
    rows["estimator"] = rows["estimator"].mask((imputed | nothing_left).fillna(False), NOT_SHOWN)
    rows["answer"] = score.where(rows["status"].eq(Status.OK.value))
    return rows
