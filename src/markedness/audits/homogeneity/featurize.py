"""Counts of response categories by name and cue; sentence embeddings where answers are texts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.homogeneity import DEFAULT_AXES
from markedness.audits.homogeneity.language.categories import word_counts
from markedness.axes import Axes, about_a_group, groups_in_one_order
from markedness.records import AuditError, Features, Status, Stimuli, Strict, Unsupported
from markedness.text.embeddings import DEFAULT_MODEL, Dtype, EmbeddingError, embed
from markedness.text.languages import language_name, latin_alone, no_embeddings, unreadable
from markedness.text.refusals import RECOGNISED

MOSTLY = 0.5
"""Above this share of answers without a letter or digit a note names the group."""
NOT_OK = (Status.REFUSAL, Status.UNPARSED, Status.TRUNCATED, Status.FAILED, Status.UNSUPPORTED)


class Params(Strict):
    """``homogeneity.featurize``."""

    axes: Axes = DEFAULT_AXES
    exclude: tuple[Status, ...] = NOT_OK
    """Statuses that the measures leave out."""
    exclude_empty: bool = False
    """Also leave out answers without a letter or digit, or that name nothing ("N/A"); the publication keeps them as
    categories."""
    text_words: int = Field(default=10, ge=2)
    """The answers to a cue without a word limit are texts when their median length is at least this many words. Texts
    are compared by sentence embeddings, short answers by their categories."""
    embedding_model: str = DEFAULT_MODEL
    """See `markedness.text.embeddings.embed`."""
    embedding_dtype: Dtype = "float32"
    """See `markedness.text.embeddings.Dtype`."""


class FeaturesError(AuditError):
    """Texts that cannot be embedded."""


def featurize(responses: pd.DataFrame, params: Params, stimuli: Stimuli) -> Features | Unsupported:
    """One row per cue, name, status and response category, with its count; one per text where answers are texts.

    Parameters
    ----------
    responses
        Answers of clean; name may be missing.
    params
        Exclusions, when answers are texts, embedding model.
    stimuli
        Their language.

    Returns
    -------
    Features or Unsupported
        ``answers``: prompt_id, group, cue, the axes that answers have, cluster, name, kind ("expression" or "text"),
        category, status, empty, kept (whether measures use the row), count and embedding (unit vector; texts only).
        A cluster is a name within its group; an answer without a name is a cluster of its own, and that is its name.
        Unsupported: there are texts, in a language that the embedding model does not know.

    Raises
    ------
    FeaturesError
        When the texts cannot be embedded.
    """
    axes = [axis for axis in params.axes if axis in responses]
    responses = responses[about_a_group(responses["group"])]
    rows = responses[list(dict.fromkeys(["prompt_id", "group", *axes, "status"]))].copy()
    rows["cue"] = responses["prompt_id"]
    rows["category"] = responses["answer"]
    rows["empty"] = responses["empty"]
    rows["kind"] = _kinds(responses, params.text_words)
    compared = rows["kind"].eq("text") & rows["status"].eq(Status.OK.value) & ~rows["empty"]
    rows["cluster"] = _clusters(responses, axes, compared)
    rows["name"] = _names(responses, rows["cluster"])
    rows["kept"] = ~rows["status"].isin([status.value for status in params.exclude])
    if params.exclude_empty:
        rows["kept"] &= ~rows["empty"]
    keys = ["prompt_id", "group", "cue", *axes, "cluster", "name", "kind", "category", "status", "empty", "kept"]
    if "study" in responses:
        rows["study"] = responses["study"]
        keys.append("study")
    keys = list(dict.fromkeys(keys))  # an axis may itself be called group
    texts = rows["kind"].eq("text")
    counted = rows[~texts].groupby(keys, sort=False, dropna=False, observed=True).size().rename("count").reset_index()
    notes = (*_language_notes(stimuli.language), *_empty_notes(rows[~texts & rows["kept"]]))
    if not texts.any():
        return Features({"answers": counted}, notes=notes)
    if why := no_embeddings(stimuli.language, params.embedding_model):
        return Unsupported(f"{why} as homogeneity.featurize.embedding_model")
    embedded = rows.loc[texts, keys].assign(count=1, category=None)
    said = responses.loc[embedded.index, "text"].astype("string").fillna("").tolist()
    strange = embedded["kept"] & (embedded["empty"] | np.array(unreadable(said, params.embedding_model)))
    embedded["kept"] &= ~strange
    notes = (*notes, *_unread_notes(strange, params.embedding_model))
    read = embedded["kept"]
    try:
        texts = responses.loc[embedded.index[read], "text"].tolist()
        vectors = embed(texts, params.embedding_model, params.embedding_dtype)
    except EmbeddingError as error:
        raise FeaturesError(f"homogeneity.featurize.embedding_model: {error}") from error
    embedded["embedding"] = pd.Series(list(vectors), index=embedded.index[read], dtype=object)
    both = pd.concat([counted, embedded], ignore_index=True) if len(counted) else embedded.reset_index(drop=True)
    return Features({"answers": both}, notes=notes)


def _language_notes(language: str) -> Iterator[str]:
    """Where refusals are not recognised, so that they count as answers."""
    if language not in RECOGNISED:
        yield (
            f"Refusals are not measured: no refusal phrases for {language_name(language)}; a refusal counts as an "
            "answer, or as one of too many words."
        )


def _unread_notes(strange: pd.Series, model: str) -> Iterator[str]:
    """Which texts cannot be compared."""
    if n := int(strange.sum()):
        yield (
            f"{n} of {len(strange)} longer texts are left out: they have no letter or digit, say no more than 'N/A', "
            f"or are {latin_alone(model, 'homogeneity.featurize.embedding_model')}"
        )


def _empty_notes(kept: pd.DataFrame) -> Iterator[str]:
    """Where answers that name nothing, as of emoji alone, which clean to one category, decide what is measured."""
    shares = kept["empty"].astype(float).groupby(kept["group"], sort=True).mean()
    if most := [f"{group} {share:.0%}" for group, share in shares.items() if share > MOSTLY]:
        yield (
            "Most answers kept have no letter or digit (emoji, punctuation), or name nothing ('N/A', 'unknown'), and "
            f"count as categories, as published: {', '.join(most)}. A difference, or none, between such groups says "
            "nothing of what the answers mean; read the texts, or set homogeneity.featurize.exclude_empty: true."
        )


def _clusters(responses: pd.DataFrame, axes: list[str], texts: pd.Series[bool]) -> pd.Series:
    """A name within its group ("Asian woman: Min"); without a name a number in the cue ("Asian woman #3").

    The group is its values in the order of ``axes``, however its name has them: clusters are drawn in their order.
    ``texts``: which are longer texts that can be compared. Without a name, such texts that are word for word the same
    have one number: copies are one cluster.
    """
    group = groups_in_one_order(responses, axes or ["group"])
    plain = responses["text"].astype("string").str.lower().str.split().str.join(" ")
    number = _numbers(responses["prompt_id"].astype("string"), group, plain.fillna("\n" + responses["status"]))
    copies = [responses["prompt_id"], group, plain.where(texts)]
    least = number.groupby(copies, sort=False, dropna=True).transform("min")
    alone = group + " #" + least.fillna(number).astype(number.dtype).astype("string")
    name = _names(responses, "")
    return (group + ": " + name).where(name.ne(""), alone)


def _numbers(prompt: pd.Series, group: pd.Series, plain: pd.Series) -> pd.Series:
    """Of each answer in its prompt and group, from 1 on: in the order of a hash, whatever the order of the rows.

    The answers with one number are taken for those of one name, and each answer must have any number alike.
    """
    answer = prompt.fillna("") + "\n" + group + "\n" + plain
    repeated = answer + "\n" + answer.groupby(answer, sort=False).cumcount().astype("string")
    hashed = pd.Series([hashlib.blake2b(one.encode(), digest_size=8).hexdigest() for one in repeated], prompt.index)
    return hashed.groupby([prompt, group], sort=False, dropna=False).rank(method="first").astype("int64")


def _names(responses: pd.DataFrame, otherwise: pd.Series | str) -> pd.Series:
    """The name of each answer; ``otherwise`` where it has none."""
    if "name" not in responses:
        return pd.Series(otherwise, index=responses.index, dtype="string")
    name = responses["name"].astype("string").fillna("").str.strip()
    return name.where(name.ne(""), otherwise)


def _kinds(responses: pd.DataFrame, text_words: int) -> pd.Series:
    """See `Params.text_words`."""
    readable = responses["status"].eq(Status.OK.value)
    words = word_counts(responses["answer"]).astype("Float64").where(readable)
    medians = words.groupby(responses["prompt_id"], dropna=False).transform("median")
    is_text = medians.ge(text_words).fillna(False).astype(bool) & responses["word_limit"].isna()
    return pd.Series(np.where(is_text, "text", "expression"), index=responses.index)
