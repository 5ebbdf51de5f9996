"""Check every score: is it there, is it a probability, does it rest on enough of the distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.records import Status, Strict, answerless_status


class Params(Strict):
    """``guise.clean``."""

    min_coverage: float = Field(default=0.0, ge=0, le=1)
    """Below this share of probability mass on the attributes that a server returned, its scores are missing."""


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Add ``answer``, the ln probability where it can be used, and ``status``.

    Status is unsupported for a candidate that the model has no single token for, and unparsed for a value that
    is no ln probability or rests on a coverage below the limit; ``reason`` says which. No row is dropped.
    """
    rows = generations.copy()
    score = pd.to_numeric(rows["log_prob"], errors="coerce") if "log_prob" in rows else pd.Series(np.nan, rows.index)
    reason = rows["reason"].astype("string") if "reason" in rows else pd.Series(pd.NA, rows.index, dtype="string")
    coverage = pd.to_numeric(rows["coverage"], errors="coerce") if "coverage" in rows else pd.Series(np.nan, rows.index)
    status = answerless_status(rows)
    open_rows = status.isna()
    missing = open_rows & score.isna()
    status[missing] = Status.UNSUPPORTED.value
    reason = reason.mask(missing & reason.isna(), "no log-probability was given")
    thin = open_rows & ~missing & coverage.lt(params.min_coverage)
    status[thin] = Status.UNPARSED.value
    reason = reason.mask(thin, f"the attributes returned cover less than {params.min_coverage:g} of the probability")
    # a rounding error above ln 1 is let pass
    wrong = open_rows & ~missing & ~thin & (score.gt(1e-6) | ~np.isfinite(score))
    status[wrong] = Status.UNPARSED.value
    reason = reason.mask(wrong, "not a ln probability: it must be finite and not above 0")
    reason = reason.mask(reason.isna() & rows["error"].notna(), rows["error"].astype("string"))
    rows["status"] = status.fillna(Status.OK.value)
    rows["answer"] = score.where(rows["status"].eq(Status.OK.value))
    rows["reason"] = reason
    return rows
