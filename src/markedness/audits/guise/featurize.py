"""Pair the scores of two guises, one row per pair of texts, prompt and attribute, and join the ratings."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from pydantic import Field, field_validator

from markedness.audits.guise.design.tasks import ratings
from markedness.audits.guise.language.features import counters
from markedness.audits.guise.language.texts import text_table
from markedness.cards import are, count
from markedness.in_common import linked, told_links
from markedness.records import NOT_SHOWN, SHOWN_IN_PART, AuditError, Features, Status, Stimuli, Strict

KEYS = ["task", "kind", "setting", "text_set", "control", "prompt_id", "pair", "attribute"]
PERPLEXITY = "mean ln P of a token"
"""The attribute of rows that hold a text's own probability."""
ABSENT = "the data have no score of this pair, prompt and word in"
"""Why a score of a matched pair is missing that stored data do not have at all; a guise follows."""
_LABELS = [*(key for key in KEYS if key != "control"), "group", "reference", "cluster", "cluster_reference", "missing",
           "estimator"]  # fmt: skip


class Params(Strict):
    """``guise.featurize``."""

    exclude: tuple[Status, ...] = (Status.FAILED, Status.UNSUPPORTED, Status.UNPARSED, Status.TRUNCATED, Status.REFUSAL)
    """Statuses whose scores count as missing; their rows stay, with NaN."""
    features: dict[str, str] = Field(default_factory=dict)
    """Further features that are counted in the texts: name -> regular expression."""

    @field_validator("features")
    @classmethod
    def _can_be_counted(cls, features: dict[str, str]) -> dict[str, str]:
        try:
            counters(features, ())
        except AuditError as error:
            raise ValueError(str(error)) from error
        return features

    topics: str = ""
    """What tells the topics of texts that are not matched: the folder or hub id of a transformers model that classifies
    texts, or "embeddings" for the nearest of the paper's 19 topics, which is not validated; "": not measured."""


def featurize(responses: pd.DataFrame, params: Params, stimuli: Stimuli) -> Features:
    """Put ln p after the marked guise beside ln p after the unmarked one.

    Parameters
    ----------
    responses
        One scored candidate a row.
    params
        Which statuses are missing.
    stimuli
        The tables with the ratings of the attributes.

    Returns
    -------
    Features
        ``scores``: one row per text pair, prompt, attribute and marked guise: ``group`` and ``reference`` (the guises),
        ``cluster`` and ``cluster_reference`` (the verb or text that the text of each guise was made from, missing where
        the data do not say), ``log_prob`` and ``log_prob_reference`` (nats, NaN where missing), ``neutral_log_prob``
        (the same in the neutral context, decisions only), ``missing`` (why a score is missing; of a matched pair also
        where the data have that of the other guise alone), ``estimator`` (`NOT_SHOWN` where no value
        but imputed ones is there, `SHOWN_IN_PART` where one of two is imputed), ``coverage``, ``cut``. Texts that are
        not matched are paired by their number only.
        ``attributes``: one row per task and attribute: ``detrimental`` (decisions only), ``attribute_tokens`` (of how
        many tokens it is; more than one: scored by the chain rule) and the numeric columns of the task's ratings table
        (NaN where not rated). ``texts``: one row per text, with what is counted in it, see
        `markedness.audits.guise.language.texts.text_table`; empty where the data do not hold the texts.
    """
    rows = responses.rename(columns={"pairs": "text_set"})
    rows["attribute"] = rows["candidate"].astype("string").fillna(PERPLEXITY)
    excluded = rows["status"].isin([status.value for status in params.exclude])
    rows["score"] = pd.to_numeric(rows["answer"], errors="coerce").mask(excluded)
    rows["why"] = rows["reason"].where(rows["score"].isna())
    rows["cut"] = rows["cut_tokens"].notna()
    rows["not_shown"] = rows["estimator"].eq(NOT_SHOWN).fillna(False).astype(bool)
    if "cluster" not in rows:
        rows["cluster"] = pd.NA
    neutral = rows["group"].fillna("").eq("")
    marked = rows["marked"].fillna(False).astype(bool)
    cell = ["task", "prompt_id", "attribute"]
    of_neutral = rows[neutral].drop_duplicates([*cell, "score"]).groupby(cell)
    neutral_scores = of_neutral.agg(
        neutral_log_prob=("score", "mean"), not_shown_neutral=("not_shown", "any")
    ).reset_index()
    table = _paired(rows[marked], rows[~neutral & ~marked]).merge(neutral_scores, "left", cell)
    table["estimator"] = _estimators(table)
    table["missing"] = table["why"].fillna(table["why_reference"])
    table["coverage"] = table[["coverage", "coverage_reference"]].min(axis=1)
    unmatched = table["setting"].eq("unmatched")  # paired by their number only
    of_pairs = [table[column].mask(unmatched) for column in ("cluster", "cluster_reference")]
    own = linked(*of_pairs)
    joined = of_pairs[0].nunique() - own.nunique()
    for column in ("cluster", "cluster_reference"):  # the texts of a matched pair are one cluster
        table[column] = table[column].where(unmatched, own)
    first = ["prompt_id", "group", "reference", *(key for key in KEYS if key != "prompt_id")]
    first += ["cluster", "cluster_reference"]
    first += ["log_prob", "log_prob_reference", "neutral_log_prob", "missing", "estimator", "coverage", "cut"]
    table = table[first].sort_values(["task", "text_set", "prompt_id", "pair"], kind="stable", ignore_index=True)
    # categorical: few distinct strings in many rows, which speeds up resampling by pair
    labels = {column: table[column].astype(object).astype("category") for column in _LABELS}
    asked = [group for group in rows["group"].dropna().unique() if group]  # the order of the axis, not of the alphabet
    for side in ("group", "reference"):
        labels[side] = labels[side].cat.set_categories([*asked, *(() if "" in asked else [""])])
    verbs = stimuli.table("verbs.csv", ["ing"])["ing"].tolist() if stimuli.has("verbs.csv") else []
    texts = text_table(rows, params.features, verbs, params.topics)
    tables = {"scores": table.assign(**labels), "attributes": _attributes(rows, stimuli), "texts": texts}
    links = told_links(joined, "clusters", "the texts of the marked guises")
    return Features(tables, notes=(*_parts(rows), *_given_again(rows), *_copies(rows), *links))


def _estimators(table: pd.DataFrame) -> pd.Series:
    """How the two values of each row were made, and that of the neutral context."""
    sides = [table[name].eq(True) for name in ("not_shown", "not_shown_reference")]
    shown = [table[name].notna() & ~side for name, side in zip(("log_prob", "log_prob_reference"), sides, strict=True)]
    imputed = sides[0] | sides[1] | table["not_shown_neutral"].eq(True)
    said = table["estimator"].fillna(table["estimator_reference"]).mask(imputed, NOT_SHOWN)
    return said.mask(imputed & (shown[0] | shown[1]), SHOWN_IN_PART)


def _parts(rows: pd.DataFrame) -> Iterator[str]:
    """Tasks that are asked with a part of a text set, because of their ``sample``."""
    if "set_texts" not in rows:
        return
    asked = rows.dropna(subset=["set_texts"]).groupby(["task", "text_set", "group"])
    parts = asked.agg(n=("pair", "nunique"), of=("set_texts", "first")).astype(int).reset_index().query("n < of")
    same = parts.groupby(["task", "text_set", "n", "of"], sort=False)["group"].agg(" and ".join).reset_index()
    for task, own in same.groupby("task"):
        counts = zip(*(own[column] for column in ("n", "of", "text_set", "group")), strict=True)
        said = ", ".join(f"{n:,} of {of:,} texts of {name} in {guises}" for n, of, name, guises in counts)
        yield f"The task {task} has a sample: it is asked with {said}."


def _copies(rows: pd.DataFrame) -> Iterator[str]:
    """Texts of stored data that are copies of texts of other clusters."""
    if "copied" not in rows:
        return
    texts = rows[rows["group"].fillna("").ne("") & rows["setting"].ne("overt")]
    texts = texts.drop_duplicates(["task", "text_set", "pair", "group"])
    n, clusters = int(texts["copied"].sum()), texts["cluster"].nunique()
    yield (
        f"{count(n, 'text')} of {len(texts):,} (each counted once a task) {are(n)} copies, case and white space apart, "
        f"of texts of other clusters. Texts that share a text or a cluster, directly or through others, are one "
        f"cluster: there are {clusters:,} in all."
    )


def _given_again(rows: pd.DataFrame) -> Iterator[str]:
    """Scores that stored data give several times with different values."""
    values = rows.assign(group=rows["group"].fillna("")).groupby([*KEYS, "group"], sort=False, dropna=False)["score"]
    several = values.nunique()
    if n := int(several.gt(1).sum()):
        first = dict(zip([*KEYS, "group"], several.index[several.gt(1)][0], strict=True))
        yield (
            f"{count(n, 'score')} of {len(several):,} {are(n)} given several times with different values, whose "
            f"mean counts (first: {first['attribute']}, prompt {first['prompt_id']}, pair {first['pair']}, "
            f"{first['group'] or 'neutral'}). Give every text a pair of its own where they are of different texts."
        )


def _paired(marked: pd.DataFrame, unmarked: pd.DataFrame) -> pd.DataFrame:
    """One row per key and marked guise, with the columns of the unmarked guise suffixed _reference."""
    reference = "" if unmarked.empty else str(unmarked["group"].iloc[0])
    tables = []
    for group in marked["group"].unique() if len(marked) else [""]:
        own = marked[marked["group"].eq(group)]
        elsewhere = set(marked["pair"]) - set(own["pair"])  # pairs of another marked guise alone
        of_others = unmarked["setting"].ne("unmatched") & unmarked["pair"].isin(elsewhere)
        others = unmarked[unmarked["text_set"].isin(own["text_set"].unique()) & ~of_others]
        both = _side(own).merge(_side(others), "outer", KEYS, suffixes=("", "_reference"), indicator=True)
        matched = both["setting"].ne("unmatched")
        for column, side, guise in (("why", "right_only", group), ("why_reference", "left_only", reference)):
            absent = matched & both["_merge"].eq(side)
            both[column] = both[column].astype(object).mask(absent, f"{ABSENT} {guise}")
        tables.append(both.drop(columns="_merge").assign(group=group, reference=reference))
    return pd.concat(tables, ignore_index=True)


def _side(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per key: the score of one guise; the mean of the values where a score was taken more than once."""
    rows = rows.drop_duplicates([*KEYS, "score"])
    made: pd.DataFrame = rows.groupby(KEYS, as_index=False, sort=False, dropna=False).agg(
        log_prob=("score", "mean"), why=("why", "first"), estimator=("estimator", "first"),
        coverage=("coverage", "min"), cut=("cut", "any"), not_shown=("not_shown", "any"), cluster=("cluster", "first"),
    )  # fmt: skip
    return made


def _attributes(rows: pd.DataFrame, stimuli: Stimuli) -> pd.DataFrame:
    """One row per task and attribute, with its ratings."""
    # a score without a count is of one token: several are scored only where they are counted
    tokens = pd.to_numeric(rows.reindex(columns=["candidate_tokens"])["candidate_tokens"]).fillna(1.0)
    counted = tokens.where(rows["score"].notna())
    rows = rows.reindex(columns=["task", "attribute", "ratings_table", "detrimental"]).assign(attribute_tokens=counted)
    by = rows.groupby(["task", "attribute"], as_index=False, sort=False)
    found = by.agg(ratings_table=("ratings_table", "first"), detrimental=("detrimental", "first"),
                   attribute_tokens=("attribute_tokens", "max"))  # fmt: skip
    tables = [
        ratings(str(name), stimuli).reset_index().assign(ratings_table=name)
        for name in found["ratings_table"].dropna().unique()
    ]
    if tables:
        found = found.merge(pd.concat(tables), "left", ["ratings_table", "attribute"])
    return found.drop(columns="ratings_table")
