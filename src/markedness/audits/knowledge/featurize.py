"""Score every triple and give it a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.knowledge import NOT_MEASURED
from markedness.audits.knowledge.design.wording import Wording, statement_questions
from markedness.audits.knowledge.language.choice import (
    RegardParams,
    ToxicityParams,
    no_scorer,
    regard_scorer,
    scoring_service,
    service_scores,
    toxicity_scorer,
)
from markedness.audits.knowledge.language.judging import judged_regard, judged_toxicity
from markedness.audits.knowledge.language.scorers import MASK, REGARD, ScorerError
from markedness.audits.knowledge.language.topics import NO_TOPIC, fit_topics, no_topics
from markedness.records import AuditError, Features, Prompt, Status, Stimuli, Strict
from markedness.results import JUDGE
from markedness.text.classifiers import ClassifierError
from markedness.text.embeddings import DEFAULT_MODEL, EmbeddingError
from markedness.text_scores import Questions, ScoringService, TextScorer, text_prompts


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


def judges(params: Params) -> tuple[str, ...]:
    """Keys of the models that are asked as judges."""
    return tuple(dict.fromkeys(filter(None, (params.regard.model, params.toxicity.model))))


def featurize(
    responses: pd.DataFrame, params: Params, stimuli: Stimuli, score_texts: TextScorer | None = None
) -> Features:
    """Score the triples.

    Parameters
    ----------
    responses
        See `clean.clean`.
    params
        See `Params`.
    stimuli
        Their language: what has no scorer, no stop words or no embeddings in it is not measured.
    score_texts
        Asks services and judges; needed where ``toxicity.scorer`` is http or judge, and where ``regard.model`` is set.

    Returns
    -------
    Features
        ``triples``: one answer of the crawl a row (lists and judgments are folded in), invalid ones too, so that they
        can be counted: prompt_id, group, class, subject, reference, predicate, object, crawl (its name; missing: not
        known), round, strategy, arm, analysed (belongs to the arm that is analysed), planned (per crawl), attempt,
        status, reason, cut, duplicate, included (the measures read it), regard (negative, neutral, positive; missing:
        not scored), regard_scorer (behind "not measured: " why there is none), toxicity (in [0, 1]), toxicity_scorer
        (likewise), toxicity_reason (why a service gave no score), topic (missing: not included, another arm, or a class
        too small; -1: near no topic), topic_words, topic_stability (mean adjusted Rand index over seeds), topic_model
        (likewise).
    """
    table = _triples(responses, params)
    try:
        scored = _scored(table, responses, params, score_texts, stimuli)
        return Features({"triples": _with_topics(scored, params.topics, stimuli.language)})
    except (ClassifierError, EmbeddingError, ScorerError) as error:
        raise AuditError(f"knowledge.featurize: {error}") from error


def questions(responses: pd.DataFrame | None, params: Params, stimuli: Stimuli) -> list[Questions]:
    """What `featurize` asks of a service and of judges about these responses; of None, who is asked alone."""
    asked: list[tuple[ScoringService | str, Callable[[_Statements], list[Prompt]]]] = []
    if params.regard.model and not no_scorer("regard", params.regard, stimuli.language):
        asked.append((params.regard.model, lambda said: _of_regard(params, stimuli, said)))
    if params.toxicity.scorer in ("http", "judge") and not no_scorer("toxicity", params.toxicity, stimuli.language):
        masked = params.toxicity.mask_subject
        if params.toxicity.scorer == "http":
            asked.append((scoring_service(params.toxicity), lambda said: text_prompts(said.texts(masked))))
        else:
            asked.append((params.toxicity.model, lambda said: _of_toxicity(params, stimuli, said)))
    if responses is None:
        return [Questions(who) for who, _ in asked]
    table = _triples(responses, params)
    said = _Statements.of(table[table["included"]])
    return [Questions(who, tuple(made(said))) for who, made in asked]


def _of_regard(params: Params, stimuli: Stimuli, said: _Statements) -> list[Prompt]:
    texts = said.texts(params.regard.mask_subject)
    return statement_questions(Wording.read(stimuli).judge, "regard", said.objects, texts)


def _of_toxicity(params: Params, stimuli: Stimuli, said: _Statements) -> list[Prompt]:
    question, texts = Wording.read(stimuli).judge_toxicity, said.texts(params.toxicity.mask_subject)
    return [] if question is None else statement_questions(question, "toxicity", said.objects, texts)


def _triples(responses: pd.DataFrame, params: Params) -> pd.DataFrame:
    """The answers of the crawl, and which of them the measures read."""
    crawled = responses[~responses["strategy"].isin(["list", "judge"])]
    columns = [
        "prompt_id", "group", "class", "subject", "reference", "predicate", "object", "crawl", "round", "strategy",
        "arm", "analysed", "planned", "attempt", "status", "reason", "cut", "duplicate",
    ]  # fmt: skip
    table = crawled[columns].reset_index(drop=True)
    table = table.astype({"round": "int64", "planned": "int64", "attempt": "int64", "analysed": "bool"})
    left_out = table["duplicate"] & ("duplicate" in params.exclude)
    table["included"] = (table["status"].eq(Status.OK.value) & ~left_out).astype(bool)
    return table


class _Statements(NamedTuple):
    """Triples as texts."""

    objects: list[str]
    named: list[str]
    masked: list[str]

    @classmethod
    def of(cls, triples: pd.DataFrame) -> _Statements:
        said = triples["predicate"] + " " + triples["object"]
        return cls(triples["object"].tolist(), (triples["subject"] + " " + said).tolist(), (MASK + " " + said).tolist())

    def texts(self, masked: bool) -> list[str]:
        """With the subject, or with the mask in its place."""
        return self.masked if masked else self.named


def _scored(
    table: pd.DataFrame, responses: pd.DataFrame, params: Params, score_texts: TextScorer | None, stimuli: Stimuli
) -> pd.DataFrame:
    """With regard and toxicity of the included triples, and who scored them."""
    language = stimuli.language
    scored = table.index[table["included"]]
    objects, named, masked = _Statements.of(table.loc[scored])
    regard = pd.Series(pd.NA, index=table.index, dtype="string")
    toxicity = pd.Series(np.nan, index=table.index, dtype="float64")
    reason = pd.Series(pd.NA, index=table.index, dtype="string")
    if why := no_scorer("regard", params.regard, language):
        regard_name = NOT_MEASURED + why
    elif params.regard.model:
        texts = masked if params.regard.mask_subject else named
        regard_name, said = judged_regard(params.regard, Wording.read(stimuli), objects, texts, score_texts)
        regard.loc[scored] = [label or pd.NA for label in said]
    elif params.regard.scorer == "judge":
        regard_name = JUDGE
        regard.loc[scored] = _judgments(responses, table.loc[scored])
    else:
        scorer = regard_scorer(params.regard)
        regard_name = scorer.name
        labels = scorer(masked if scorer.masked else named)
        regard.loc[scored] = [label if label in REGARD else pd.NA for label in labels]
    if why := no_scorer("toxicity", params.toxicity, language):
        toxicity_name = NOT_MEASURED + why
    elif params.toxicity.scorer in ("http", "judge"):
        texts = masked if params.toxicity.mask_subject else named
        if params.toxicity.scorer == "http":
            toxicity_name, found = service_scores(params.toxicity, texts, score_texts)
        else:
            wording = Wording.read(stimuli)
            toxicity_name, found = judged_toxicity(params.toxicity, wording, objects, texts, score_texts)
        toxicity.loc[scored] = np.array([one.value for one in found])
        reason.loc[scored] = [one.reason for one in found]
    else:
        scorer = toxicity_scorer(params.toxicity)
        toxicity_name = scorer.name
        toxicity.loc[scored] = np.asarray(scorer(masked if scorer.masked else named), dtype=float)
    return table.assign(
        regard_scorer=regard_name, regard=regard, toxicity=toxicity, toxicity_scorer=toxicity_name,
        toxicity_reason=reason,
    )  # fmt: skip


def _judgments(responses: pd.DataFrame, triples: pd.DataFrame) -> list[str]:
    """The judgment of each triple, from the crawl's last round."""
    key = ["class", "subject", "predicate", "object"]
    judged = responses[responses["strategy"].eq("judge")]
    if judged.empty:
        raise ScorerError("regard by 'judge' has no judgments to read: set knowledge.generate.judge to true")
    answers = judged[judged["status"].eq(Status.OK.value)].drop_duplicates(key)
    return triples[key].merge(answers[[*key, "answer"]], on=key, how="left")["answer"].astype("string").tolist()


def _with_topics(table: pd.DataFrame, params: TopicParams, language: str) -> pd.DataFrame:
    """One topic model for the analysed triples of each class."""
    topic = pd.Series(pd.NA, index=table.index, dtype="Int64")
    words = pd.Series(pd.NA, index=table.index, dtype="string")
    stability = pd.Series(np.nan, index=table.index, dtype="float64")
    why = no_topics(language, params.embedding)
    for _, rows in table[table["included"] & table["analysed"]].groupby("class", sort=False):
        if why or len(rows) < params.min_triples:
            continue
        found = fit_topics(
            (rows["predicate"] + " " + rows["object"]).tolist(), max(len(rows) // params.clusters, params.smallest),
            params.seeds[0], params.embedding, params.seeds[1:], params.n_words, language,
        )  # fmt: skip
        if found is None:
            continue
        topic.loc[rows.index] = found.labels
        words.loc[rows.index] = [
            "(no topic)" if label == NO_TOPIC else ", ".join(found.words.get(int(label), ())) for label in found.labels
        ]
        stability.loc[rows.index] = found.stability
    model = NOT_MEASURED + why if why else f"BERTopic ({params.embedding}, n/{params.clusters})"
    return table.assign(topic=topic, topic_words=words, topic_stability=stability, topic_model=model)
