"""The Batch endpoint: requests handed over in files, answered within a day, at a lower price.

What is known of a batch stands in the ledger, line by line as it comes to be known: its requests' keys before
anything is sent, its id as soon as there is one, that it was merged. A killed run finds its batches again by
these lines, or by the name that each carries as metadata where it was killed before it could write the id.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
import orjson

from markedness.lm.base import Draw, ModelError, RequestFailed, RetryLater
from markedness.lm.collect import Run
from markedness.lm.openai_api import OpenAIServer
from markedness.records import Completion

T = TypeVar("T")
MOST_BYTES = 150_000_000
"""Of one file; the endpoint takes 200 MB."""
TRANSFER_TIMEOUT = 600.0
"""Seconds for one file to go up or down."""
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
NOT_NOW = frozenset({"token_limit_exceeded", "rate_limit_exceeded"})
"""Why a batch is refused whose requests may be handed over again later."""


class BatchRun(Run):
    """The asking of one plan through the Batch endpoint."""

    async def ask(self, missing: np.ndarray) -> None:
        """Merge the batches of earlier runs, hand over the rest, and again what came back unanswered."""
        assert isinstance(self.model, OpenAIServer)
        self.server: OpenAIServer = self.model
        self.ledger = self.plan.ledger
        self.waiting = {self.plan.draw(int(distinct)).key: int(distinct) for distinct in missing}
        """Key -> distinct draw, of all that is neither answered nor failed."""
        self.planned = frozenset(self.waiting)
        self.tried: set[str] = set()
        """Names of batches whose making was begun."""
        self.reasons: dict[str, str] = {}
        """Key -> why it came back unanswered."""
        self.asked_here: set[str] = set()
        pending = [name for name, facts in self.ledger.batches.items() if not facts.get("merged")]
        pending = [name for name in pending if await self._known(name)]
        left = 0
        for _ in range(self.patience.max_attempts):
            held = {key for name in pending for key in self.ledger.batches[name]["keys"]}
            pending += [name async for name in self._submitted(key for key in self.waiting if key not in held)]
            left = sum(key not in held and key not in self.asked_here for key in self.waiting)
            while pending:
                pending = [name for name in pending if not await self._merged(name)]
                self.show()
                if pending:
                    await asyncio.sleep(self.server.config.batch_poll)
            if not self.waiting or left:
                break
        if left:
            raise self.stopped(left)
        for key in list(self.waiting):
            reason = f"{self.reasons.get(key, 'no answer')} ({self.patience.max_attempts} batches)"
            self._end(key, Completion(error=reason))

    # ---------------------------------------------------------------- handing over

    async def _submitted(self, keys: Iterable[str]) -> AsyncIterator[str]:
        """Hand these requests over, in as many batches as they need; yields each batch's name."""
        for content, names in self._files(keys):
            name = uuid.uuid4().hex
            self.ledger.note_batch(name, keys=names, at=datetime.now(UTC).isoformat(timespec="seconds"))
            upload = (f"{name}.jsonl", content, "application/jsonl")
            file = await self._call(partial(self.server.client.files.create, file=upload, purpose="batch"))
            self.ledger.note_batch(name, id=await self._call(partial(self._make, name, file.id)))
            yield name

    async def _make(self, name: str, file: str) -> str:
        """Make the batch and return its id; one that was made although its answer got lost is found by its name."""
        if name in self.tried and (found := await self._find(name)):
            return found
        self.tried.add(name)
        batch = await self.server.client.batches.create(
            input_file_id=file,
            endpoint="/v1/chat/completions" if self.server.config.chat else "/v1/completions",
            completion_window="24h",
            metadata={"markedness": name},
        )
        return batch.id

    def _files(self, keys: Iterable[str]) -> Iterator[tuple[bytes, list[str]]]:
        """Files of requests within the endpoint's limits and the budget, and the keys in each."""
        content, names = bytearray(), list[str]()
        for key in keys:
            draw = self.plan.draw(self.waiting[key])
            first_time = key not in self.asked_here
            if first_time and not self.meter.allows([draw.prompt]):
                break
            if first_time:
                self.meter.ask(draw.prompt)
                self.asked_here.add(key)
            line = orjson.dumps(
                {
                    "custom_id": key,
                    "method": "POST",
                    "url": f"/v1{self.server.path}",
                    "body": self.server.body(draw),
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
            if names and (len(names) >= self.server.config.batch_requests or len(content) + len(line) > MOST_BYTES):
                yield bytes(content), names
                content, names = bytearray(), []
            content += line
            names.append(key)
        if names:
            yield bytes(content), names

    # ---------------------------------------------------------------- finding again, and merging

    async def _known(self, name: str) -> bool:
        """Whether a batch of an earlier run exists; one without an id is looked for by its name."""
        if "id" in self.ledger.batches[name]:
            return True

        identity = await self._call(partial(self._find, name))
        if identity is None:
            self.ledger.note_batch(name, merged=True)  # killed before it was made
            return False
        self.ledger.note_batch(name, id=identity)
        return True

    async def _find(self, name: str) -> str | None:
        """The id of the batch that carries this name."""
        async for batch in self.server.client.batches.list(limit=100):
            if (batch.metadata or {}).get("markedness") == name:
                return batch.id
        return None

    async def _merged(self, name: str) -> bool:
        """Whether the batch has ended; what it brought is then in the ledger or among the failures."""
        facts = self.ledger.batches[name]
        batch = await self._call(partial(self.server.client.batches.retrieve, facts["id"]))
        if batch.status not in ENDED:
            return False
        for file in (batch.output_file_id, batch.error_file_id):
            if file:
                content = await self._call(partial(self.server.client.files.content, file))
                for line in content.content.splitlines():
                    self._read(line)
        if batch.status == "failed":
            errors = (batch.errors and batch.errors.data) or []
            later = any(error.code in NOT_NOW for error in errors)
            reason = "; ".join(str(error.message or error.code) for error in errors) or "no reason given"
            for key in facts["keys"]:
                if key in self.waiting:
                    refused = f"the batch was refused: {self.server.redact(reason)}"
                    self.reasons[key] = refused
                    if not later:
                        self._end(key, Completion(error=refused))
        # A batch with requests of other params than today's stays open, for the run that asks for them again.
        if all(key in self.planned or self.ledger.get(key) is not None for key in facts["keys"]):
            self.ledger.note_batch(name, merged=True)
        return True

    def _read(self, line: bytes) -> None:
        """One line of an output or error file."""
        try:
            row = orjson.loads(line)
            key, response, error = row["custom_id"], row.get("response") or {}, row.get("error") or {}
        except (orjson.JSONDecodeError, TypeError, KeyError):
            return  # its request stays unanswered
        distinct = self.waiting.get(key)
        if distinct is None:
            return
        draw = self.plan.draw(distinct)
        try:
            self._end(key, self._completion(draw, response, error))
        except RequestFailed as failed:
            self._end(key, Completion(finish_reason=failed.finish_reason, error=str(failed)))
        except RetryLater as later:
            self.reasons[key] = str(later)

    def _completion(self, draw: Draw, response: Any, error: Any) -> Completion:
        status = response.get("status_code")
        if status is None:
            raise RetryLater(self.server.redact(f"{error.get('code')}: {error.get('message')}"))
        body = response.get("body")
        if status == 200:
            return self.server.read(body, draw.prompt)
        refusal = (body.get("error") if isinstance(body, dict) else None) or {}
        detail, code = str(refusal.get("message", "no reason given")), refusal.get("code")
        raise self.server.refusal(int(status), detail, code, scored=bool(draw.prompt.candidates))

    def _end(self, key: str, answer: Completion) -> None:
        """Record how a request ended."""
        distinct = self.waiting.pop(key)
        draw = self.plan.draw(distinct)
        if key in self.asked_here:
            self.meter.settle(draw.prompt, answer)
        self.plan.record(distinct, draw, answer, datetime.now(UTC), self.counts)

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        """One call of the endpoint, retried while the server says later."""
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self.server.attempt(TRANSFER_TIMEOUT):
                    return await call()
            except RequestFailed as failed:
                raise ModelError(f"{self.server.config.model}: the Batch endpoint refused: {failed}") from None
            except RetryLater as later:
                if attempt >= self.patience.max_attempts:
                    raise ModelError(
                        f"{self.server.config.model}: the Batch endpoint does not answer ({later}); run again to go on"
                    ) from None
                await asyncio.sleep(self.wait(attempt, later.retry_after))
