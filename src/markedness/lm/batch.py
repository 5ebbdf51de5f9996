"""The Batch endpoint: requests handed over in files, answered within a day, at a lower price.

What is known of a batch is in the ledger as soon as it is known: its requests' keys before anything is sent, and its
id as soon as there is one, until it is merged. A killed run finds its batches again by them, or by the name that each
carries as metadata where it was killed before it could write the id.
"""

from __future__ import annotations

import asyncio
import codecs
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import numpy as np
import orjson

from markedness.lm.base import Draw, ModelError, RequestFailed, RetryLater
from markedness.lm.batch_answers import Batch, Batches, File, named_batch, read_as, row_of
from markedness.lm.openai_api import OpenAIServer
from markedness.lm.redaction import is_random
from markedness.lm.run import Run
from markedness.records import Completion

T = TypeVar("T")
MOST_BYTES = 150_000_000
"""Of one file; the endpoint takes 200 MB."""
TRANSFER_TIMEOUT = 600.0
"""Seconds for one file to go up or down."""
ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
NOT_NOW = frozenset({"token_limit_exceeded", "rate_limit_exceeded"})
"""Why a batch is refused whose requests may be handed over again later."""
LOST = (
    "its batch has ended, but has no line for it that can be read, so that it may have been paid for; the next run "
    "looks there once more, and then asks for it again"
)
"""Why a request is not handed over again by the run that finds this."""


class _GoneError(ModelError):
    """The endpoint no longer has what was asked for."""


class BatchRun(Run):
    """The asking of one plan through the Batch endpoint."""

    async def ask(self, missing: np.ndarray) -> None:
        """Merge the batches of earlier runs, hand over the rest, and again what came back unanswered."""
        pending = await self._earlier(missing)
        left = 0
        for _ in range(self.retry.max_attempts):
            held = {key for name in pending for key in self.batches[name]["keys"]}
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
            reason = f"{self.reasons.get(key, 'no answer')} ({self.retry.max_attempts} batches)"
            self._end(key, Completion(error=reason))

    async def merge_earlier(self, missing: np.ndarray) -> np.ndarray:
        """Merge what earlier runs handed over; what is still to be asked. ModelError where some are under way."""
        try:
            under_way = [name for name in await self._earlier(missing) if not await self._merged(name)]
        except _GoneError as error:  # no answer can come from there any more
            if self.progress is not None:
                self.progress.say(f"{self.progress.title}: {error}; what was handed over to it is asked for again")
            under_way = []
        held = self.planned.intersection(key for name in under_way for key in self.batches[name]["keys"])
        if held:
            raise ModelError(
                f"{self.server.config.model}: {len(held):,} of the requests were handed over to the Batch endpoint "
                f"and are under way there ({', '.join(self.batches[name]['id'] for name in under_way)}), so that "
                "asking for them now would pay twice; set batch_api: true to wait for them, or cancel them there and "
                "run again"
            )
        return missing[np.isin(missing, list(self.waiting.values()))]

    async def _earlier(self, missing: np.ndarray) -> list[str]:
        """Set out to ask for these; the names of the batches of earlier runs that have any of them."""
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
        self.renamed = {self.plan.draw(distinct).stream: key for key, distinct in self.waiting.items()}
        """Key of version 0.1 -> key, for batches that were handed over by it."""
        self.batches = self.ledger.batches()
        for facts in self.batches.values():
            facts["keys"] = [self.renamed.get(key, key) for key in facts.get("keys", ())]
        # Batches without any of these keys are those of other params, or of another process that waits for them.
        pending = [name for name, facts in self.batches.items() if not self.planned.isdisjoint(facts["keys"])]
        return [name for name in pending if await self._known(name)]

    # ---------------------------------------------------------------- handing over

    async def _submitted(self, keys: Iterable[str]) -> AsyncIterator[str]:
        """Hand these requests over, in as many batches as they need; yields each batch's name."""
        for content, names in self._files(keys):
            name = uuid.uuid4().hex
            self._note(name, keys=names, at=datetime.now(UTC).isoformat(timespec="seconds"))
            upload = (f"{name}.jsonl", content, "application/jsonl")
            file = await self._call(partial(self._upload, upload))
            self._note(name, file=file)
            self._note(name, id=await self._call(partial(self._make, name, file)))
            yield name

    def _note(self, name: str, **facts: Any) -> None:
        self.ledger.note_batch(name, **facts)
        self.batches.setdefault(name, {}).update(facts)

    async def _upload(self, upload: tuple[str, bytes, str]) -> str:
        """The id of the file."""
        raw = await self.server.endpoint.client.files.with_raw_response.create(file=upload, purpose="batch")
        return self._named(read_as(File, raw.content).id)

    async def _make(self, name: str, file: str) -> str:
        """Make the batch and return its id; one that was made although its answer got lost is found by its name."""
        if name in self.tried and (found := await self._find(name)):
            return found
        self.tried.add(name)
        raw = await self.server.endpoint.client.batches.with_raw_response.create(
            input_file_id=file,
            endpoint="/v1/chat/completions" if self.server.config.chat else "/v1/completions",
            completion_window="24h",
            metadata={"markedness": name},
        )
        return self._named(read_as(Batch, raw.content).id)

    def _named(self, identity: str) -> str:
        """An id that the endpoint gave, which is kept and shown; RequestFailed where it holds the key."""
        key = self.server.endpoint.key
        if key and is_random(key) and key.casefold() in identity.casefold():
            raise RequestFailed("its answer cannot be read (an id holds the key)")
        return identity

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
        if "id" in self.batches[name]:
            return True
        identity = await self._call(partial(self._find, name))
        if identity is None:
            self.ledger.drop_batch(name)  # killed before it was made
            return False
        self._note(name, id=identity)
        return True

    async def _find(self, name: str) -> str | None:
        """The id of the batch that carries this name; None where the list has none."""
        from openai import Omit

        async def page(after: str | None) -> Batches:
            listed = self.server.endpoint.client.batches.with_raw_response.list
            return read_as(Batches, (await listed(limit=100, after=after or Omit())).content)

        found = await named_batch(name, self.batches[name].get("file"), page)
        return None if found is None else self._named(found)

    async def _retrieve(self, identity: str) -> Batch:
        raw = await self.server.endpoint.client.batches.with_raw_response.retrieve(identity)
        return read_as(Batch, raw.content)

    async def _merged(self, name: str) -> bool:
        """Whether the batch has ended; what it brought is then in the ledger or among the failures."""
        facts = self.batches[name]
        try:
            batch = await self._call(partial(self._retrieve, facts["id"]))
        except _GoneError:
            if name in self.tried:
                raise  # made a moment ago: the next run looks again
            return await self._forgotten(name)
        if batch.status not in ENDED:
            return False
        said: set[str | None] = set()
        refusals: dict[str, RequestFailed] = {}
        doubted, output = batch.status == "completed" or batch.answered is None, 0
        for file in (batch.output_file_id, batch.error_file_id):
            if file:
                lines = await self._lines(file)
                rows = [(self.renamed.get(key, key), row) for key, row in map(row_of, lines or ())]
                said.update([self._read(key, row, refusals) for key, row in rows])
                keys = {key for key, _ in rows}
                output += len(keys.intersection(facts["keys"])) if file == batch.output_file_id else 0
                doubted |= lines is None or not keys.issubset(facts["keys"])
        doubted |= output < (batch.answered or 0)
        for key, failed in refusals.items():
            if key in self.waiting:
                self._end(key, Completion(finish_reason=failed.finish_reason, error=str(failed)))
        lost = [key for key in facts["keys"] if key in self.waiting and key not in said]
        if batch.status != "failed" and doubted and lost and "empty" not in facts:
            for key in lost:
                self._end(key, Completion(error=LOST))
            self._note(name, empty=True)
            return True  # the next run looks once more, should files come late or be cut off, and hands over the rest
        if batch.status == "failed":
            errors = (batch.errors and batch.errors.data) or []
            later = any(error.code in NOT_NOW for error in errors)
            reason = "; ".join(str(error.message or error.code) for error in errors) or "no reason given"
            for key in facts["keys"]:
                if key in self.waiting:
                    refused = self.server.endpoint.redaction.error(f"the batch was refused: {reason}")
                    self.reasons[key] = refused
                    if not later:
                        self._end(key, Completion(error=refused))
        # A batch with requests of other params than today's stays open, for the run that asks for them again.
        if all(key in self.planned or self.ledger.get(key) is not None for key in facts["keys"]):
            self.ledger.drop_batch(name)
        return True

    async def _forgotten(self, name: str) -> bool:
        """Whether the endpoint's list lacks this batch of an earlier run too; its requests are then asked again."""
        identity = await self._call(partial(self._find, name))
        if identity is not None:
            self._note(name, id=identity)
            return False
        facts = self.batches[name]
        self.ledger.drop_batch(name)
        if self.progress is not None:
            self.progress.say(
                f"{self.progress.title}: the Batch endpoint no longer has the batch {facts['id']}; its "
                f"{len(facts['keys']):,} requests are asked again where they are needed, and may be paid for twice"
            )
        return True

    async def _lines(self, file: str) -> list[bytes] | None:
        """The lines of an output or error file; None where it is gone."""
        try:
            content = await self._call(partial(self.server.endpoint.client.files.content, file))
        except _GoneError:
            return None
        return content.content.removeprefix(codecs.BOM_UTF8).splitlines()

    def _read(self, key: str, row: dict[str, Any], refusals: dict[str, RequestFailed]) -> str | None:
        """The key of a line that has been read, of which nothing is taken for granted.

        A refusal is put into ``refusals``: where another line has an answer to the same request, that one counts.
        """
        if key not in self.waiting:
            return None
        draw = self.plan.draw(self.waiting[key])
        try:
            self._end(key, self._completion(draw, row))
        except RequestFailed as failed:
            if key in self.asked_here:
                self.meter.bill(failed.usage)
            refusals.setdefault(key, failed)
        except RetryLater as later:
            self.reasons[key] = str(later)
        return key

    def _completion(self, draw: Draw, row: dict[str, Any]) -> Completion:
        endpoint = self.server.endpoint
        response, error = (row.get(name) or {} for name in ("response", "error"))
        if not isinstance(response, dict) or not isinstance(error, dict):
            raise RequestFailed("its line in the batch's output cannot be read")
        status, body = response.get("status_code"), response.get("body")
        if status is None:
            raise RetryLater(endpoint.redaction.error(f"{error.get('code')}: {error.get('message')}"))
        if type(status) is not int or not 100 <= status <= 599:
            raise RequestFailed("its line in the batch's output has no HTTP status")
        if status == 200:
            return self.server.read(body, draw.prompt)
        failed = endpoint.refusal(status, body)
        if isinstance(failed, RequestFailed) and (draw.prompt.candidates or draw.prompt.perplexity):
            raise self.server.unscored(failed)
        raise failed

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
                async with self.server.endpoint.attempt(TRANSFER_TIMEOUT):
                    return await call()
            except RequestFailed as failed:
                kind = _GoneError if failed.status == 404 else ModelError
                raise kind(f"{self.server.config.model}: the Batch endpoint refused: {failed}") from None
            except RetryLater as later:
                if attempt >= self.retry.max_attempts:
                    raise ModelError(
                        f"{self.server.config.model}: the Batch endpoint does not answer ({later}); run again to go on"
                    ) from None
                await asyncio.sleep(self.wait(attempt, later.retry_after))
