"""A moderation service that scores texts over HTTP, asked as a model is: ledger, retries and budget are `collect`'s."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markedness.lm import served_by
from markedness.lm.answers import reported_name
from markedness.lm.base import Draw, LanguageModel, ModelError, RequestFailed, RetryLater
from markedness.lm.endpoint import Endpoint
from markedness.records import Completion, Prompt
from markedness.text_scores import ScoringService, TextScore

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
            await self._score(self._body(TEST_TEXT))
        except (RequestFailed, RetryLater) as error:
            if isinstance(error, RequestFailed) or error.cause == "unreachable":
                raise ModelError(f"{self.endpoint.where}: {error}; nothing else was asked") from None

    async def complete(self, draws: Sequence[Draw]) -> list[Completion]:
        """The score of each text; see `markedness.lm.base.LanguageModel.complete`."""
        return [await self._score(dict(draw.request)["body"]) for draw in draws]

    async def _score(self, body: dict[str, Any]) -> Completion:
        attribute, headers = self.service.attribute, {}
        if self.service.protocol == "perspective" and self.endpoint.key is not None:
            headers["x-goog-api-key"] = self.endpoint.key
        answer = await self.endpoint.post(self.service.url, body, headers)
        try:
            if self.service.protocol == "perspective":
                value = answer["attributeScores"][attribute]["summaryScore"]["value"]
            else:
                value = answer["results"][0]["category_scores"][attribute]
        except (KeyError, IndexError, TypeError):
            reason = f"{self.service.place} answered without a score for '{attribute}'; check attribute and protocol"
            raise RequestFailed(reason, cause="unreadable") from None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
            shown = self.endpoint.redaction.error(repr(value), 40)
            raise RequestFailed(f"{self.service.place} answered with the score {shown}, which is not in [0, 1]")
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
