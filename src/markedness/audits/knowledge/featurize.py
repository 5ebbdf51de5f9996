"""Score every triple and give it a topic."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from markedness.records import AuditError, Status, Strict
from markedness.text.classifiers import ClassifierError
from markedness.text.embeddings import DEFAULT_MODEL, EmbeddingError
from markedness.text.scorers import (
    MASK,
    REGARD,
    ModelRegard,
    ModelToxicity,
    ModerationEndpoint,
    OfflineRegard,
    OfflineToxicity,
    ProfanityCheck,
    Scorer,
    ScorerError,
)
from markedness.text.topics import NO_TOPIC, fit_topics

JUDGE = "judge (the audited model)"
"""Name of the scorer whose judgments are part of the crawl."""


class RegardParams(Strict):
    """Who says how a triple speaks of its subject."""

    scorer: Literal["offline", "transformers", "judge"] = "offline"
    """offline: sentence embeddings and logistic regression; transformers: a text-classification model; judge: the
    audited model itself, asked at the end of the crawl (``generate.judge: true``)."""
    path: str = ""
    """transformers: local folder or hub id."""
    revision: str | None = None
    labels: dict[str, Literal["negative", "neutral", "positive"]] | None = None
    """transformers: the model's label -> ours."""
    mask_subject: bool = False
    """transformers: read "They" in place of the subject; the offline scorer always does."""

    @model_validator(mode="after")
    def _complete(self) -> RegardParams:
        if self.scorer == "transformers" and not self.path:
            raise ValueError("scorer 'transformers' needs path: a local folder or a hub id")
        return self


class ToxicityParams(Strict):
    """Who says how toxic a triple is."""

    scorer: Literal["offline", "profanity_check", "transformers", "http"] = "offline"
    """offline: sentence embeddings and logistic regression; profanity_check: alt-profanity-check; transformers: a
    text-classification model; http: a moderation service."""
    path: str = ""
    """transformers: local folder or hub id."""
    revision: str | None = None
    label: str = "identity_attack"
    """transformers: the label whose probability is read."""
    url: str = ""
    """http: the address requests go to."""
    protocol: Literal["perspective", "openai"] = "perspective"
    attribute: str = "IDENTITY_ATTACK"
    """http: the attribute or category whose score is read."""
    api_key_env: str = ""
    """http: name of the environment variable with the key."""
    concurrency: int = Field(default=4, ge=1)
    mask_subject: bool = False
    """transformers, http: read "They" in place of the subject; the offline scorers always do."""

    @model_validator(mode="after")
    def _complete(self) -> ToxicityParams:
        needed = {"transformers": "path", "http": "url"}.get(self.scorer)
        if needed and not getattr(self, needed):
            raise ValueError(f"scorer '{self.scorer}' needs {needed}")
        return self


class TopicParams(Strict):
    """BERTopic, one model per class."""

    embedding: str = DEFAULT_MODEL
    """Sentence embeddings: the default of the package, a local folder or a hub id; the paper's are GloVe
    (sentence-transformers/average_word_embeddings_glove.6B.300d)."""
    clusters: int = Field(default=40, ge=1)
    """HDBSCAN's min_cluster_size is the number of triples divided by this (section 5.4) ..."""
    smallest: int = Field(default=5, ge=2)
    """... but at least this: ours, for crawls of fewer than 200 triples; 2 is the paper's rule alone."""
    min_triples: int = Field(default=60, ge=16)
    """A class with fewer has no topics."""
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    """The first is used, the others show how stable it is."""
    n_words: int = Field(default=6, ge=2)


class Params(Strict):
    """What is scored, and by whom."""

    exclude: tuple[Literal["refusal", "unparsed", "truncated", "failed", "unsupported", "duplicate"], ...] = (
        "refusal", "unparsed", "truncated", "failed", "unsupported",
    )  # fmt: skip
    """Statuses, and flags, that the measures leave out; the paper keeps a triple that occurs twice."""
    regard: RegardParams = RegardParams()
    toxicity: ToxicityParams = ToxicityParams()
    topics: TopicParams = TopicParams()


def featurize(responses: pd.DataFrame, params: Params) -> pd.DataFrame:
    """Score the triples.

    Parameters
    ----------
    responses
        See `clean.clean`.
    params
        See `Params`.

    Returns
    -------
    DataFrame
        One answer of the crawl a row (lists and judgments are folded in), invalid ones too, so that they can be
        counted: prompt_id, group, class, subject, reference, predicate, object, round, strategy, arm, analysed (belongs
        to the arm that is analysed), planned, attempt, status, reason, cut, duplicate, included (the measures read
        it), regard (negative, neutral, positive; missing: not scored), regard_scorer, toxicity (in [0, 1]),
        toxicity_scorer, topic (missing: not included, another arm, or a class too small; -1: near no topic),
        topic_words, topic_stability (mean adjusted Rand index over seeds), topic_model.
    """
    crawled = responses[~responses["strategy"].isin(["list", "judge"])]
    columns = [
        "prompt_id", "group", "class", "subject", "reference", "predicate", "object", "round", "strategy", "arm",
        "analysed", "planned", "attempt", "status", "reason", "cut", "duplicate",
    ]  # fmt: skip
    table = crawled[columns].reset_index(drop=True)
    table = table.astype({"round": "int64", "planned": "int64", "attempt": "int64", "analysed": "bool"})
    left_out = table["duplicate"] & ("duplicate" in params.exclude)
    table["included"] = (table["status"].eq(Status.OK.value) & ~left_out).astype(bool)
    scored = table.index[table["included"]]
    named = (table["subject"] + " " + table["predicate"] + " " + table["object"]).loc[scored].tolist()
    masked = (MASK + " " + table["predicate"] + " " + table["object"]).loc[scored].tolist()
    regard = pd.Series(pd.NA, index=table.index, dtype="string")
    toxicity = pd.Series(np.nan, index=table.index, dtype="float64")
    try:
        if params.regard.scorer == "judge":
            regard.loc[scored] = _judgments(responses, table.loc[scored])
            table["regard_scorer"] = JUDGE
        else:
            scorer = _regard(params.regard)
            labels = scorer(masked if scorer.masked else named)
            regard.loc[scored] = [label if label in REGARD else pd.NA for label in labels]
            table["regard_scorer"] = scorer.name
        scorer = _toxicity(params.toxicity)
        toxicity.loc[scored] = np.asarray(scorer(masked if scorer.masked else named), dtype=float)
        table = table.assign(regard=regard, toxicity=toxicity, toxicity_scorer=scorer.name)
        return _with_topics(table, params.topics)
    except (ClassifierError, EmbeddingError, ScorerError) as error:
        raise AuditError(f"knowledge.featurize: {error}") from error


def _regard(params: RegardParams) -> Scorer:
    if params.scorer == "transformers":
        return ModelRegard(params.path, params.revision, params.labels, params.mask_subject)
    return OfflineRegard()


def _toxicity(params: ToxicityParams) -> Scorer:
    match params.scorer:
        case "transformers":
            return ModelToxicity(params.path, params.label, params.revision, params.mask_subject)
        case "http":
            return ModerationEndpoint(
                params.url, params.protocol, params.attribute, params.api_key_env, params.concurrency,
                masked=params.mask_subject,
            )  # fmt: skip
        case "profanity_check":
            return ProfanityCheck()
        case _:
            return OfflineToxicity()


def _judgments(responses: pd.DataFrame, triples: pd.DataFrame) -> Any:
    """The judgment of each triple, from the crawl's last round."""
    key = ["class", "subject", "predicate", "object"]
    judged = responses[responses["strategy"].eq("judge")]
    if judged.empty:
        raise ScorerError("regard by 'judge' has no judgments to read: set knowledge.generate.judge to true")
    answers = judged[judged["status"].eq(Status.OK.value)].drop_duplicates(key)
    return triples[key].merge(answers[[*key, "answer"]], on=key, how="left")["answer"].astype("string").to_numpy()


def _with_topics(table: pd.DataFrame, params: TopicParams) -> pd.DataFrame:
    """One topic model for the analysed triples of each class."""
    topic = pd.Series(pd.NA, index=table.index, dtype="Int64")
    words = pd.Series(pd.NA, index=table.index, dtype="string")
    stability = pd.Series(np.nan, index=table.index, dtype="float64")
    for _, rows in table[table["included"] & table["analysed"]].groupby("class", sort=False):
        if len(rows) < params.min_triples:
            continue
        found = fit_topics(
            (rows["predicate"] + " " + rows["object"]).tolist(), max(len(rows) // params.clusters, params.smallest),
            params.seeds[0], params.embedding, params.seeds[1:], params.n_words,
        )  # fmt: skip
        if found is None:
            continue
        topic.loc[rows.index] = found.labels
        words.loc[rows.index] = [
            "(no topic)" if label == NO_TOPIC else ", ".join(found.words.get(int(label), ())) for label in found.labels
        ]
        stability.loc[rows.index] = found.stability
    model = f"BERTopic ({params.embedding}, n/{params.clusters})"
    return table.assign(topic=topic, topic_words=words, topic_stability=stability, topic_model=model)
