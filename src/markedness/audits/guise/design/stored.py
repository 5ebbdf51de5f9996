"""Which text a stored score is of: its pair, text set and cluster."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from markedness.audits.guise.design.texts import digest
from markedness.cards import are, count
from markedness.in_common import linked
from markedness.records import IMPUTED, MAYBE_IMPUTED, SHOWN, TOP_LOGPROBS, AuditError

UNMATCHED = " (unmatched)"
"""Ending of the text set of the rows without a pair, where others of the set have one."""


def with_pairs(rows: pd.DataFrame, of_guise: pd.Series[bool], overt: pd.Series[bool]) -> pd.DataFrame:
    """Add ``pair``, ``setting``, ``pairs`` (the text set) and ``cluster``.

    A row of a guise with an empty ``pair``, or all where there is no such column, are of texts that are not matched. A
    text is known by its ``utterance`` and its ``cluster`` or ``verb``; several scores of one prompt and candidate
    beyond that are numbered in the order of the rows. Its pair is made of that name, so that it is the same text of a
    guise in all prompts and candidates, whatever the order of the rows, and in another model's file.
    Clusters that have copies of one text are one, see `_with_copies`.

    Parameters
    ----------
    rows
        task, kind, prompt_id, group, candidate, marked; optional: pair, setting, pairs, cluster, verb, utterance, text.
    of_guise
        Whether a row is of a guise; the others, of the neutral context, have no text.
    overt
        Whether a row's texts are words for the groups.

    Raises
    ------
    AuditError
        When a score of a decision names a text and no guise; when unmatched scores of a decision do not say which text
        they are of; when one pair has texts of two clusters, or two texts of one guise; when a row of the setting
        matched has no pair.
    """
    _check_neutral(rows[~of_guise & rows["kind"].eq("decision")])
    rows = rows.copy()
    named = [rows[column].astype("string") for column in ("cluster", "verb") if column in rows]
    rows["cluster"] = named[0].mask(named[0].eq("")) if named else pd.Series(pd.NA, rows.index, "string")
    given = (rows["pair"] if "pair" in rows else pd.Series("", rows.index)).astype("string").fillna("")
    lacking = of_guise & given.eq("")
    if "setting" not in rows:
        rows["setting"] = np.where(overt, "overt", np.where(lacking, "unmatched", "matched"))
    elif (wrong := lacking & rows["setting"].eq("matched")).any():
        raise AuditError(
            f"guise: {int(wrong.sum())} rows of the setting matched have no pair, so that nothing matches their texts; "
            "fill the column pair or leave out the column setting"
        )
    if "pairs" not in rows:
        rows["pairs"] = np.where(overt, "overt", "corpus")
    mixed = rows["pairs"].isin(rows.loc[of_guise & ~lacking, "pairs"]) & lacking & ~overt
    rows["pairs"] = rows["pairs"].astype("string").mask(mixed, rows["pairs"].astype("string") + UNMATCHED)
    given = given.mask(lacking, _named(rows[lacking]))
    rows["pair"] = rows["pairs"] + "/" + given
    clusters = rows[of_guise].groupby(["task", "pair", "group"])["cluster"].nunique()
    if (clusters > 1).any():
        _, pair, group = clusters.index[clusters > 1][0]
        raise AuditError(
            f"guise: the pair '{pair.partition('/')[2]}' has texts of several verbs or clusters for {group}; give "
            "every pair of the corpus an id of its own"
        )
    _one_text_a_pair(rows[of_guise & ~lacking])
    return _with_copies(rows, of_guise & ~overt)


def reasons(rows: pd.DataFrame) -> pd.Series:
    """``reason`` with `MAYBE_IMPUTED` where nothing says whether a probability of the likeliest tokens is imputed."""
    reason = rows["reason"] if "reason" in rows else pd.Series(pd.NA, rows.index)
    reason = reason.astype("string").mask(reason.eq(""))
    estimated = rows["estimator"].eq(TOP_LOGPROBS) & rows["log_prob"].notna()
    strange = reason[estimated & reason.notna() & ~reason.isin((SHOWN, IMPUTED, MAYBE_IMPUTED))]
    if len(strange):
        raise AuditError(
            f"reason: '{strange.iloc[0]:.40}' beside a probability of {TOP_LOGPROBS}; write '{SHOWN}' or '{IMPUTED}'"
        )
    return reason.mask(rows["log_prob"].notna() & ~estimated).mask(estimated & reason.isna(), MAYBE_IMPUTED)


def _check_neutral(rows: pd.DataFrame) -> None:
    """Refuse a decision without a guise that is of a text: it would count as the neutral context of all of them."""
    for column in ("pair", "utterance", "verb", "cluster", "text"):
        if column in rows and len(named := rows.loc[rows[column].fillna("").ne(""), column]):
            raise AuditError(
                f"guise: {count(len(named), 'score')} of decisions {are(len(named))} of no guise and yet of a text, "
                f"such as that of {column} '{named.iloc[0]!s:.40}', and without a guise a row is the neutral context: "
                f"fill its guise or leave it out; where it is the neutral context, empty its {column}"
            )


def _with_copies(rows: pd.DataFrame, of_text: pd.Series[bool]) -> pd.DataFrame:
    """Join the clusters that have copies of one text, as of a message that several authors posted.

    Texts that are the same, case and white space apart, are copies, as in text sets of one's own. Texts that share a
    text or a cluster, directly or through others, are then one cluster, named for the first of its clusters by the
    alphabet; ``copied`` says which rows are of texts with copies in several clusters. Of a matched pair the cluster is
    that of its marked guise. Texts stand in the column text, else utterance, which for texts that are not matched may
    be numbers that each guise has anew. Where there is no text or no cluster, and without copies, nothing changes.
    """
    of_unit = ["task", "pair", "side"]
    text = _texts(rows)
    there = rows.loc[of_text, ["task", "pair", "group", "marked", "cluster"]]
    there = there.assign(side=rows["group"].where(rows["setting"].eq("unmatched"), ""), text=text)
    there = there.drop_duplicates()
    named = there.dropna(subset="cluster")
    named = named[named["marked"] | ~named.groupby(of_unit)["marked"].transform("any").astype(bool)]
    links = there.dropna(subset="text")[[*of_unit, "text"]].merge(named[[*of_unit, "group", "cluster"]], on=of_unit)
    by_guise = links["group"].where(links["side"].eq(""), "")  # the guises of a matched pair may name clusters apart
    copied = links[links.groupby(["text", "task", by_guise])["cluster"].transform("nunique").gt(1)]["text"].unique()
    links = links[links["text"].isin(copied)]
    if links.empty:
        return rows
    joined = dict(zip(links["cluster"], linked(links["cluster"], links["text"]), strict=True))
    rows["copied"] = text.isin(copied) & of_text
    rows["cluster"] = rows["cluster"].map(lambda name: joined.get(name, name), na_action="ignore").astype("string")
    return rows


def _texts(rows: pd.DataFrame) -> pd.Series:
    """A name of the text of each row, the same for copies; missing where it is not known."""
    found = pd.Series(pd.NA, rows.index, "string")
    for column in ("utterance", "text"):
        if column in rows:
            text = rows[column].astype("string")
            text = text.mask(text.str.strip().eq(""))
            names = text.map({one: digest(one) for one in text.dropna().unique()}).astype("string")
            if column == "utterance":
                names += rows["group"].astype("string").where(rows["setting"].eq("unmatched"), "").radd(" ")
            found = names.fillna(found)
    return found


def _one_text_a_pair(rows: pd.DataFrame) -> None:
    """Refuse a pair with several texts of one guise: their scores would be averaged to those of one text."""
    if "utterance" not in rows or rows.empty:
        return
    texts = rows["utterance"].astype("string")
    texts = texts.mask(texts.eq(""))
    several = texts.groupby([rows["task"], rows["pair"], rows["group"]]).nunique().gt(1)
    if several.any():
        _, pair, group = several.index[several][0]
        raise AuditError(
            f"guise: the pair '{pair.partition('/')[2]}' has several texts for {group}; give every pair of the corpus "
            "an id of its own"
        )


def _named(rows: pd.DataFrame) -> pd.Series:
    """A name of the text of each row, the same in other files; texts of two guises that are named alike share it."""
    if rows.empty:
        return pd.Series([], index=rows.index, dtype="string")
    text = (rows["utterance"] if "utterance" in rows else pd.Series("", rows.index)).astype("string").fillna("")
    text = text + "\n" + rows["cluster"].fillna("")  # the same words of two authors are two texts
    of_set = ["task", "pairs", "group"]
    again = rows.assign(text=text).groupby([*of_set, "prompt_id", "candidate", "text"], dropna=False).cumcount()
    unclear = rows["kind"].eq("decision") & again.gt(0)
    if unclear.any():
        raise AuditError(
            f"guise: several scores of the prompt '{rows.loc[unclear, 'prompt_id'].iloc[0]}' and of one word are of "
            "texts that nothing tells apart, and a decision compares words after one text; give the corpus a column "
            "pair or utterance"
        )
    names = text + "\n" + again.astype("string").str.zfill(9)
    exact = {name: hashlib.sha256(name.encode()).hexdigest()[:12] for name in names.unique()}  # "So" is not "so"
    return names.map(exact).astype("string")
