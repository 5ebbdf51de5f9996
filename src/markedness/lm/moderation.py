"""A moderation service that scores texts over HTTP, asked as a model is: ledger, retries and budget are `collect`'s."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markedness.lm import served_by
from markedness.lm.answers import reported_name
from markedness.lm.base import Draw, LanguageModel, ModelError, RequestFailed, RetryLater
from markedness.lm.endpoint import Endpoint
from markedness.records import UNSCORED, Completion, Prompt
from markedness.text_scores import ScoringService, TextScore

REFUSED = frozenset((400, 413, 422))
"""Statuses by which a service refuses one text: its language, its length."""
ACCOUNT = ("key", "quota", "billing", "permission", "credential", "auth", "account", "project")
"""Words in a refusal that is not, or not only, about the text: another request may be answered, so nothing is kept."""
TEST_TEXT = "This is a connection test."


class ModerationServer(LanguageModel):
    """One attribute of one service; an answer's text is the score, a number in [0, 1]."""

    def __init__(self, service: ScoringService, where: str) -> None:
        self.service = service
        self.concurrency = service.concurrency
        bearer = service.protocol == "openai"
        self.endpoint = Endpoint(where, service.url, service.api_key_env or None, service.timeout, bearer=bearer)
        self.served_by = served_by.server(service.url)
        self._probed = False

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """What is sent, and which attribute is read."""
        return {"attribute": self.service.attribute, "body": self._body(prompt.text)}

    def _body(self, text: str) -> dict[str, Any]:
        if self.service.protocol == "openai":
            return {"input": text}
        return {
            "comment": {"text": text}, "requestedAttributes": {self.service.attribute: {}}, "languages": ["en"],
            "doNotStore": True,
        }  # fmt: skip

    async def probe(self, prompt: Prompt) -> None:
        """One test request, once; a busy service passes."""
        if self._probed:
            return
        self._probed = True
        try:
            answer = await self._score(self._body(TEST_TEXT))
        except RequestFailed as error:
            reason: str | None = str(error)
        except RetryLater as error:
            reason = str(error) if error.cause == "unreachable" else None
        else:
            reason = answer.error
        if reason is not None:
            raise ModelError(f"{self.endpoint.where}: {reason}; nothing else was asked")

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """The score of each text; see `markedness.lm.base.LanguageModel.complete`.

        A text that the service answered for without a score, or refused as it is, would get no other answer: it is
        recorded as not scored.
        """
        return [await self._score_or_refusal(dict(draw.request)["body"]) for draw in draws]

    async def _score_or_refusal(self, body: dict[str, Any]) -> Completion:
        try:
            return await self._score(body)
        except RequestFailed as error:
            of_account = any(word in str(error).lower() for word in ACCOUNT)
            if error.status in REFUSED and error.cause is None and error.finish_reason is None and not of_account:
                return Completion(error=str(error), finish_reason=UNSCORED)
            raise

    async def _score(self, body: dict[str, Any]) -> Completion:
        attribute, headers = self.service.attribute, {}
        if self.service.protocol == "perspective" and self.endpoint.key is not None:
            headers["x-goog-api-key"] = self.endpoint.key
        answer = await self.endpoint.post(self.service.url, body, headers)
        if isinstance(answer, dict) and answer.get("error"):
            shown = self.endpoint.redaction.error(repr(answer["error"]))
            raise RequestFailed(f"{self.service.place} answered with an error: {shown}")
        try:
            if self.service.protocol == "perspective":
                value = answer["attributeScores"][attribute]["summaryScore"]["value"]
            else:
                value = answer["results"][0]["category_scores"][attribute]
        except (KeyError, IndexError, TypeError):
            reason = f"{self.service.place} answered without a score for '{attribute}'; check attribute and protocol"
            return Completion(error=reason, finish_reason=UNSCORED)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            shown = self.endpoint.redaction.error(repr(value), 40)
            reason = f"{self.service.place} answered with the score {shown}, which is not in [0, 1]"
            return Completion(error=reason, finish_reason=UNSCORED)
        return Completion(text=repr(float(value)), model=reported_name(answer.get("model"), self.endpoint.redaction))

    async def close(self) -> None:
        """Close the connections."""
        await self.endpoint.close()


def read_score(answer: Completion) -> TextScore:
    """The score of a stored answer."""
    try:
        value = float(answer.text or "")
    except ValueError:
        return TextScore(math.nan, answer.error or "the ledger's answer is no number")
    if not 0 <= value <= 1:
        return TextScore(math.nan, "the ledger's answer is not in [0, 1]")
    return TextScore(value, model=answer.model)
