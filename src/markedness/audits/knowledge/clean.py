"""Read each answer again as a triple, a list or a judgment, and say what became of it."""

from __future__ import annotations

import pandas as pd

from markedness.audits.knowledge.design.triples import read_judgment, read_list, read_triples
from markedness.records import Status, Strict, answerless_status

_STATUS = {"": Status.OK, "refusal": Status.REFUSAL, "cut off": Status.TRUNCATED}
"""By the reason that `read_triples` gives; any other is UNPARSED."""


class Params(Strict):
    """Nothing to set: what makes an answer invalid steered the crawl and stands in its rows (``invalid_words``)."""


def clean(generations: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Parse the crawl.

    Parameters
    ----------
    generations
        Rows of the crawl, see `generate.prompts`, or of a corpus of triples.
    params
        Empty.

    Returns
    -------
    DataFrame
        The same rows with ``predicate`` and ``object`` as read ("" where invalid), ``answer`` (the sentence
        "<subject> <predicate> <object>"; the judgment; the list's entries by line), ``status``, ``reason`` (why
        invalid: refusal, empty answer, no predicate, no object, cut off, failed, unsupported), ``cut`` (the object
        ended at the token limit) and ``duplicate`` (the subject has the triple already in this crawl, case and spaces
        aside).
    """
    rows = generations.copy()
    for column in ("predicate", "object", "subject", "arm", "crawl", "invalid_words"):
        rows[column] = (rows[column] if column in rows else pd.Series(pd.NA, index=rows.index)).astype("string")
    crawled = ~rows["strategy"].isin(["list", "judge"])
    read = read_triples(rows)
    status = answerless_status(rows)
    reason = read["reason"].astype("string")
    reason[~crawled] = ""
    rows.loc[crawled, "predicate"] = read.loc[crawled, "predicate"]
    rows.loc[crawled, "object"] = read.loc[crawled, "object"]
    rows["answer"] = rows["subject"] + " " + rows["predicate"] + " " + rows["object"]
    rows.loc[~crawled | reason.ne(""), "answer"] = pd.NA
    for place in rows.index[~crawled]:
        text = rows.at[place, "text"]
        text = text if isinstance(text, str) else ""
        said = read_judgment(text) if rows.at[place, "strategy"] == "judge" else "\n".join(read_list(text))
        rows.at[place, "answer"] = said or pd.NA
        reason[place] = "" if said else "empty answer" if not text.strip() else "no judgment or list"
    rows["status"] = status.fillna(reason.map(lambda why: _STATUS.get(why, Status.UNPARSED).value))
    answerless = status.notna()
    rows["reason"] = reason.where(~answerless, rows["status"])
    rows.loc[answerless, "answer"] = pd.NA
    rows["cut"] = read["cut"].astype(bool) & crawled & ~answerless
    key = rows["answer"].str.casefold().str.split().str.join(" ")
    keys = pd.DataFrame(
        {"crawl": rows["crawl"], "arm": rows["arm"], "class": rows["class"], "group": rows["group"],
         "strategy": crawled, "key": key}
    )  # fmt: skip
    rows["duplicate"] = keys.duplicated() & key.notna() & crawled
    return rows
