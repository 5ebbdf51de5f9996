"""Set the two guises of a text side by side: one row per pair of texts, prompt and attribute."""

from __future__ import annotations

import pandas as pd

from markedness.records import Status, Strict

KEYS = ["task", "kind", "setting", "pairs", "control", "prompt_id", "pair", "attribute"]
PERPLEXITY = "mean ln P of a token"
"""The attribute of rows that hold a text's own probability."""
_OWN = {
    "prompt_id", "group", "sample", "prompt", "text", "finish_reason", "error", "served_model", "fingerprint", "task",
    "kind", "setting", "pairs", "pair", "control", "marked", "utterance", "candidate", "log_prob", "reason",
    "estimator", "coverage", "cut_tokens", "answer", "status",
}  # fmt: skip
"""Columns that are no property of an attribute."""
_LABELS = [*(key for key in KEYS if key != "control"), "group", "reference", "missing", "estimator"]


class Params(Strict):
    """``guise.featurize``."""

    exclude: tuple[Status, ...] = (Status.FAILED, Status.UNSUPPORTED, Status.UNPARSED, Status.TRUNCATED, Status.REFUSAL)
    """Statuses whose scores are missing; the rows stay, with NaN."""


def featurize(responses: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Put ln p after the marked guise beside ln p after the unmarked one.

    Parameters
    ----------
    responses
        One scored candidate a row.
    params
        Which statuses are missing.

    Returns
    -------
    DataFrame
        One row per text pair, prompt, attribute and marked guise: ``group`` and ``reference`` (the guises),
        ``log_prob`` and ``log_prob_reference`` (nats, NaN where missing), ``prior`` (ln p in the neutral
        context, decisions only), why a score is missing, estimator, coverage, and what is known of the
        attribute (numbers). Texts that are not matched stand side by side by their number only.
    """
    rows = responses.assign(attribute=responses["candidate"].astype("string").fillna(PERPLEXITY))
    rows["score"] = pd.to_numeric(rows["answer"], errors="coerce").mask(
        rows["status"].isin([status.value for status in params.exclude])
    )
    rows["why"] = rows["reason"].astype("string").where(rows["score"].isna())
    known = rows.select_dtypes("number").columns.difference([*_OWN, "score"]).tolist()
    neutral = rows["group"].fillna("").eq("")
    marked = rows["marked"].fillna(False).astype(bool)
    unmarked = rows[~neutral & ~marked]
    prior = rows[neutral].groupby(["task", "prompt_id", "attribute"])["score"].mean().rename("prior").reset_index()
    reference = "" if unmarked.empty else str(unmarked["group"].iloc[0])
    tables = []
    for group in rows.loc[marked, "group"].unique():
        side = _side(rows[marked & rows["group"].eq(group)])
        other = _side(unmarked[unmarked["pairs"].isin(side["pairs"].unique())])
        both = side.merge(other, "outer", KEYS, suffixes=("", "_reference"))
        tables.append(both.assign(group=group, reference=reference))
    if not tables:
        tables = [_side(unmarked).iloc[:0].assign(group="", reference="", log_prob_reference=0.0, why_reference="")]
    table = pd.concat(tables, ignore_index=True).merge(prior, "left", ["task", "prompt_id", "attribute"])
    if known:
        details = rows.groupby(["task", "attribute"], as_index=False)[known].first()
        table = table.merge(details, "left", ["task", "attribute"])
    table["missing"] = table["why"].fillna(table["why_reference"])
    coverage = [column for column in ("coverage", "coverage_reference") if column in table]
    table["coverage"] = table[coverage].min(axis=1)
    first = ["prompt_id", "group", "reference", *(key for key in KEYS if key != "prompt_id")]
    first += ["log_prob", "log_prob_reference", "prior", "missing", "estimator", "coverage", "cut"]
    table = table[[*first, *known]].sort_values(
        ["task", "pairs", "prompt_id", "pair"], kind="stable", ignore_index=True
    )
    # few texts, many rows: resampling by pair is several times faster so
    labels = {column: table[column].astype(object).astype("category") for column in _LABELS}
    return table.assign(**labels)


def _side(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per key: the score of one guise; a score that was taken more than once is averaged."""
    rows = rows.assign(
        coverage=pd.to_numeric(rows["coverage"], errors="coerce") if "coverage" in rows else float("nan"),
        cut=rows["cut_tokens"].notna() if "cut_tokens" in rows else False,
        estimator=rows["estimator"].astype("string") if "estimator" in rows else None,
    )
    made = rows.groupby(KEYS, as_index=False, sort=False, dropna=False).agg(
        log_prob=("score", "mean"), why=("why", "first"), estimator=("estimator", "first"),
        coverage=("coverage", "min"), cut=("cut", "any"),
    )  # fmt: skip
    return made
