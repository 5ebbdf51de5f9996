"""Which scorer the params name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field, model_validator

from markedness.audits.knowledge.language.scorers import (
    MASK,
    ModelRegard,
    ModelToxicity,
    OfflineRegard,
    OfflineToxicity,
    ProfanityCheck,
    Scorer,
    ScorerError,
)
from markedness.credentials import key_name_fault, url_fault
from markedness.records import Strict
from markedness.text.languages import ENGLISH, language_name
from markedness.text_scores import ScoringService, TextScore, TextScorer

SEVERAL_MODELS = "several models: "
"""In the name of a service that said for some texts that another model scored them than for others."""


class RegardParams(Strict):
    """Who says how a triple speaks of its subject."""

    scorer: Literal["offline", "transformers", "judge"] = "offline"
    """offline: kernel logistic regression on sentence embeddings; transformers: a text-classification model; judge: a
    language model, see ``model``."""
    model: str = ""
    """judge: the key, under ``models``, of the model that is asked about every triple; empty: the audited model itself,
    asked at the end of the crawl (``generate.judge: true``), whose judgments of itself are not compared."""
    path: str = ""
    """transformers: local folder or hub id."""
    revision: str | None = None
    labels: dict[str, Literal["negative", "neutral", "positive"]] | None = None
    """transformers: the model's label -> ours."""
    mask_subject: bool = False
    """transformers, and a judge of ``model``: read "They" in place of the subject; the offline scorer always does."""

    @model_validator(mode="after")
    def _complete(self) -> RegardParams:
        if self.model and self.scorer != "judge":
            raise ValueError(f"model: is read for scorer 'judge', not for '{self.scorer}'; remove it")
        if self.scorer == "transformers" and not self.path:
            raise ValueError("scorer 'transformers' needs path: a local folder or a hub id")
        return self


class ToxicityParams(Strict):
    """Who says how toxic a triple is."""

    scorer: Literal["offline", "profanity_check", "transformers", "http", "judge"] = "offline"
    """offline: kernel logistic regression on sentence embeddings; profanity_check: alt-profanity-check; transformers:
    a text-classification model; http: a moderation service; judge: a language model, which rates from 0 to 4."""
    model: str = ""
    """judge: the key, under ``models``, of the model that is asked about every triple."""
    path: str = ""
    """transformers: local folder or hub id."""
    revision: str | None = None
    label: str = "identity_attack"
    """transformers: the label whose probability is read."""
    url: str = ""
    """http: the URL that requests go to, without query and credentials."""
    protocol: Literal["perspective", "openai"] = "perspective"
    attribute: str = "IDENTITY_ATTACK"
    """http: the attribute or category whose score is read."""
    api_key_env: str = ""
    """http: name of the environment variable with the key."""
    concurrency: int = Field(default=4, ge=1)
    timeout: float = Field(default=30.0, gt=0, le=3600)
    """http: seconds for one attempt."""
    max_requests: int | None = Field(default=None, ge=0)
    """http: most requests of one run; the ledger keeps what was answered."""
    mask_subject: bool = False
    """transformers, http, judge: read "They" in place of the subject; the offline scorers always do."""

    @model_validator(mode="after")
    def _complete(self) -> ToxicityParams:
        if bool(self.model) != (self.scorer == "judge"):
            raise ValueError("model: scorer 'judge' needs it, a key of models, and no other scorer does")
        if self.scorer == "transformers" and not self.path:
            raise ValueError("scorer 'transformers' needs path: a local folder or a hub id")
        if self.scorer == "http" and not self.url:
            raise ValueError("scorer 'http' needs url")
        if self.url and (fault := url_fault(self.url)):
            raise ValueError(f"url: {fault}")
        if self.api_key_env and (fault := key_name_fault(self.api_key_env)):
            raise ValueError(f"api_key_env: {fault}")
        return self


def no_scorer(measure: str, params: RegardParams | ToxicityParams, language: str) -> str:
    """Why a measure cannot be scored in a language; "" where it can, as far as is known."""
    if language == ENGLISH:
        return ""
    name = language_name(language)
    if params.scorer in ("offline", "profanity_check"):
        remedy = "a model of that language (transformers) or judge"
        return f"no {measure} scorer for {name}: '{params.scorer}' knows English; name {remedy} as {measure}.scorer"
    if params.scorer == "http" and isinstance(params, ToxicityParams) and params.protocol == "perspective":
        return f"no {measure} scorer for {name}: the service is asked about English texts by the protocol 'perspective'"
    if params.mask_subject:
        return f"no mask for {name}: {measure}.mask_subject puts the English '{MASK}' for the subject; set it to false"
    return ""


def regard_scorer(params: RegardParams) -> Scorer:
    """The scorer of these params; the judge is none: its answers are part of the crawl."""
    if params.scorer == "transformers":
        return ModelRegard(params.path, params.revision, params.labels, params.mask_subject)
    return OfflineRegard()


def toxicity_scorer(params: ToxicityParams) -> Scorer:
    """The scorer of these params; a service over HTTP is none: see `service_scores`."""
    match params.scorer:
        case "transformers":
            return ModelToxicity(params.path, params.label, params.revision, params.mask_subject)
        case "profanity_check":
            return ProfanityCheck()
        case _:
            return OfflineToxicity()


def scoring_service(params: ToxicityParams) -> ScoringService:
    """The service that the params name."""
    return ScoringService(
        params.url, params.protocol, params.attribute, params.api_key_env, params.concurrency, params.timeout,
        params.max_requests,
    )  # fmt: skip


def service_scores(
    params: ToxicityParams, texts: list[str], score_texts: TextScorer | None
) -> tuple[str, list[TextScore]]:
    """Name of the service and one score per text; ScorerError where it scored none of them."""
    service = scoring_service(params)
    if score_texts is None:
        raise ScorerError("toxicity by 'http' is asked by the featurize stage alone: markedness featurize knowledge")
    found = score_texts(service, texts)
    if found and all(one.reason is not None for one in found):
        raise ScorerError(f"{service.place} gave no score for any of {len(found):,} texts: {found[0].reason}")
    models = answering([one.model for one in found])
    return f"{service.place}: {service.attribute}{within([models, *masked(params)])}", found


def answering(models: Iterable[str | None]) -> str:
    """The model that says it answered; of several, how often each."""
    counts = Counter(filter(None, models))
    listed = ", ".join(f"{name} {times:,} times" for name, times in sorted(counts.items()))
    return f"{SEVERAL_MODELS}{listed}" if len(counts) > 1 else next(iter(counts), "")


def masked(params: RegardParams | ToxicityParams) -> list[str]:
    """That "They" is read in place of the subject, for the name of a scorer."""
    return ["subject masked"] if params.mask_subject else []


def within(about: Sequence[str]) -> str:
    """What a scorer's name says in brackets."""
    return f" ({'; '.join(filter(None, about))})" if any(about) else ""
