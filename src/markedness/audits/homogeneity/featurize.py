"""Counts of response categories by name and cue; sentence embeddings where answers are texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.homogeneity import DEFAULT_AXES
from markedness.records import AuditError, Axes, Status, Strict
from markedness.text.categories import word_counts
from markedness.text.embeddings import DEFAULT_MODEL, EmbeddingError, embed

_NOT_OK = (Status.REFUSAL, Status.UNPARSED, Status.TRUNCATED, Status.FAILED, Status.UNSUPPORTED)


class Params(Strict):
    """``homogeneity.featurize``."""

    axes: Axes = DEFAULT_AXES
    exclude: tuple[Status, ...] = _NOT_OK
    """Statuses that the measures leave out."""
    exclude_empty: bool = False
    """Leave out answers without a letter or digit, too; the publication keeps them as a category."""
    text_words: int = Field(default=10, ge=2)
    """A cue without a word limit whose median answer has so many words holds texts: these are compared by
    sentence embeddings, short answers by their categories."""
    embedding_model: str = DEFAULT_MODEL
    """See `markedness.text.embeddings.embed`."""


class FeaturesError(AuditError):
    """Texts that cannot be embedded."""


def featurize(responses: pd.DataFrame, params: Params) -> pd.DataFrame:
    """One row per cue, name, status and response category, with its count; one per text where answers are texts.

    Parameters
    ----------
    responses
        Cleaned answers; name may be missing.
    params
        Exclusions, when answers are texts, embedding model.

    Returns
    -------
    DataFrame
        prompt_id, group, cue, the axes that the answers have, cluster, kind ("expression" or "text"), category,
        status, empty, kept (whether measures use the row), count and embedding (unit vector; texts only).
        A cluster is a name within its group; an answer without a name is a cluster of its own.
    """
    axes = [axis for axis in params.axes if axis in responses]
    rows = responses[list(dict.fromkeys(["prompt_id", "group", *axes, "status"]))].copy()
    rows["cue"] = responses["prompt_id"]
    rows["category"] = responses["answer"]
    rows["empty"] = responses.get("empty", pd.Series(False, index=responses.index))
    rows["cluster"] = _clusters(responses)
    rows["kind"] = _kinds(responses, params.text_words)
    rows["kept"] = ~rows["status"].isin([status.value for status in params.exclude])
    if params.exclude_empty:
        rows["kept"] &= ~rows["empty"]
    keys = ["prompt_id", "group", "cue", *axes, "cluster", "kind", "category", "status", "empty", "kept"]
    keys = list(dict.fromkeys(keys))  # an axis may itself be called group
    texts = rows["kind"].eq("text")
    counted = rows[~texts].groupby(keys, sort=False, dropna=False, observed=True).size().rename("count").reset_index()
    if not texts.any():
        return counted
    embedded = rows.loc[texts, keys].assign(count=1, category=None)
    read = embedded["kept"]
    try:
        vectors = embed(responses.loc[embedded.index[read], "text"].tolist(), params.embedding_model)
    except EmbeddingError as error:
        raise FeaturesError(f"homogeneity.featurize.embedding_model: {error}") from error
    embedded["embedding"] = pd.Series(list(vectors), index=embedded.index[read], dtype=object)
    return pd.concat([counted, embedded], ignore_index=True) if len(counted) else embedded.reset_index(drop=True)


def _clusters(responses: pd.DataFrame) -> pd.Series:
    """A name within its group ("Asian woman: Min"); without one the place in the cue ("Asian woman #3")."""
    group = responses["group"].astype("string").fillna("")
    number = responses.groupby([responses["prompt_id"], group], sort=False, dropna=False).cumcount() + 1
    alone = group + " #" + number.astype("string")
    if "name" not in responses:
        return alone
    name = responses["name"].astype("string").fillna("").str.strip()
    return (group + ": " + name).where(name.ne(""), alone)


def _kinds(responses: pd.DataFrame, text_words: int) -> pd.Series:
    """Text for cues without a word limit whose median readable answer is long, else expression."""
    readable = responses["status"].eq(Status.OK.value)
    words = word_counts(responses["answer"]).astype("Float64").where(readable)
    medians = words.groupby(responses["prompt_id"], dropna=False).transform("median")
    unlimited = responses["word_limit"].isna() if "word_limit" in responses else True
    is_text = medians.ge(text_words).fillna(False).astype(bool) & unlimited
    return pd.Series(np.where(is_text, "text", "expression"), index=responses.index)
