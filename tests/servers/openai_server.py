"""A loopback OpenAI-compatible server whose answers, delays and faults are the test's.

Run as a program it prints its port and serves until it is stopped; `Server` runs it in a thread. The prompt
says what goes wrong: "fault:NAME" always, "fault:NAME*2" the first two times that this body is seen.
GET /stats tells how often each body was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import hashlib
import json
import random
import re
import socket
import struct
import threading
import time
import urllib.parse
from email.utils import formatdate
from typing import Any

PROBE = "This is a connection test."
FAULT = re.compile(r"fault:([\w-]+)(?:\*(\d+))?")
WORDS = ["river", "stone", "lamp", "bread", "window", "garden", "letter", "winter", "copper", "paper", "meadow"]


class Server:
    """The server: ``latency`` in seconds (``jitter`` adds up to as much again), ``capacity`` requests at once."""

    def __init__(self, latency: float = 0.0, jitter: float = 0.0, capacity: int | None = None, echo: str = "") -> None:
        self.latency = latency
        self.jitter = jitter
        self.capacity = capacity
        self.echo = echo
        self.answered: dict[str, int] = {}
        """Hash of a body -> how often it was answered in full."""
        self.seen: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.hold_after: int | None = None
        """Answers after which every request is held until `release`, or until the server stops."""
        self.holding = threading.Event()
        """Set when a request is held."""
        self.held = 0
        """Requests that are held now."""
        self.log: list[Server] = []
        """Which server was asked, a line a request; several servers may share one."""
        self.prefix = ""
        """Begins every text."""
        self.root = ""
        """Paths that do not begin so are 404."""
        self.redirect_to = ""
        """Where the fault "redirect" points."""
        self.always = ""
        """A fault of every answer, the test request's included."""
        self.probes = 0
        """Test requests, which count nowhere else."""
        self.heads: list[dict[str, str]] = []
        """Headers of every completion request."""
        self.batch_heads: list[dict[str, str]] = []
        """The same of the Batch endpoint."""
        self.connections = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.count = True
        self.served_model = ""
        self.prompt_form = "echo"
        """How the probabilities of a prompt's own tokens are served: echo, vllm, vllm-no-ids; "": they are not."""
        self.top_logprobs: list[tuple[str, float]] | None = [(" lamp", -0.5), ("river", -1.5), (" the", -2.0)]
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.batch_plan: list[str] = []
        """What becomes of the next batches: completed, expired, failed; completed when it runs out."""
        self.batch_answer: bytes | None = None
        """In place of every batch."""
        self.batch_page, self.batch_more = 100, "said"
        """How many batches a page of the list has, and whether it says that others follow: said, unsaid, always."""
        self.batch_names = True
        """Batches keep their metadata."""
        self.no_batches = False
        """The server has no Batch endpoint (any more)."""
        self.lost_outputs = 0
        """So many output files are gone when they are asked for."""
        self.cut_outputs = 0
        """So many output files are cut off in the middle when they are asked for."""
        self.batch_facts: dict[str, Any] = {}
        """What batches say of themselves, whatever is true."""
        self.damaged_line = b""
        """Stands in the place of the first line of every output file."""
        self.before_output = b""
        """Begins every output file."""
        self.batch_polls = 1
        """Polls until a batch ends."""

    # ---- life

    def __enter__(self) -> Server:
        ready = threading.Event()

        async def serve() -> None:
            self.loop, self.stopping, self.released = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
            await self.start()
            ready.set()
            await self.stopping.wait()
            self.released.set()
            self.server.close()

        self.thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self.thread.start()
        ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self.loop.call_soon_threadsafe(self.stopping.set)
        self.thread.join()

    def release(self) -> None:
        """Let the requests that are held go on, and hold no more."""
        self.hold_after = None
        self.loop.call_soon_threadsafe(self.released.set)

    async def start(self, port: int = 0) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", port, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    # ---- HTTP

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with (
            contextlib.closing(writer),
            contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError),
        ):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, *headers = head.decode("latin-1").split("\r\n")
                method, path, _ = line.split(" ", 2)
                fields = {key.strip().lower(): value.strip() for key, _, value in (h.partition(":") for h in headers)}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                if not await self.answer(method, path, fields, body, writer):
                    break

    async def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        """One request; whether the connection stays open."""
        if path == "/stats":
            return await self.send(writer, 200, self.stats())
        if "/files" in path or "/batches" in path:
            self.batch_heads.append(headers)
            return await self.send(writer, *self.batch_api(method, path, headers, body))
        if not path.startswith(self.root):
            return await self.send(writer, 404, b"<html>Not Found</html>")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self.complete(path, headers, body, writer)
        finally:
            self.in_flight -= 1

    async def complete(self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
        request = json.loads(body)
        key = hashlib.sha256(body).hexdigest()
        prompt = request["messages"][-1]["content"] if "messages" in request else request["prompt"]
        prompt = prompt[0] if isinstance(prompt, list) else prompt
        probe = PROBE in prompt
        self.probes += probe
        if self.count and not probe:
            self.seen[key] = self.seen.get(key, 0) + 1
            self.log.append(self)
        if self.count:
            self.heads.append(headers)
        if self.capacity is not None and self.in_flight > self.capacity:
            self.faults["capacity"] = self.faults.get("capacity", 0) + 1
            return await self.send(writer, 429, error("too many requests at once"))
        wanted = FAULT.search(prompt)
        fault = wanted[1] if wanted and (wanted[2] is None or self.seen[key] <= int(wanted[2])) else None
        fault = fault or self.always or None
        if fault:
            self.faults[fault] = self.faults.get(fault, 0) + 1
        if self.hold_after is not None and sum(self.answered.values()) >= self.hold_after:
            self.holding.set()
            self.held += 1
            await self.released.wait()
            self.held -= 1
        if self.latency:
            await asyncio.sleep(self.latency + random.uniform(0, self.jitter))
        match fault:
            case "429":
                return await self.send(writer, 429, error("slow down"))
            case "429-retry-after":
                return await self.send(writer, 429, error("slow down"), {"Retry-After": "1"})
            case "429-date":
                return await self.send(writer, 429, error("slow down"), {"Retry-After": formatdate(time.time() + 1)})
            case "408" | "409" | "500" | "502" | "503":
                return await self.send(writer, int(fault), error("try again"))
            case "400" | "404" | "422":
                return await self.send(writer, int(fault), error("no such thing"))
            case "400-filter":
                return await self.send(writer, 400, error("the prompt was filtered", code="content_filter"))
            case "400-inspection":
                said = "Output data may contain inappropriate content."
                return await self.send(writer, 400, error(said, code="data_inspection_failed"))
            case "400-list" | "400-detail" | "403-flagged":
                return await self.send(writer, int(fault[:3]), OTHER_ERRORS[fault])
            case "200-filter":
                return await self.send(writer, 200, error("Output blocked by content filtering policy"))
            case "401":
                return await self.send(writer, 401, error(f"bad key {headers.get('authorization')}"))
            case "key-parts":
                key = str(headers.get("authorization")).removeprefix("Bearer ")
                parts = f"bad key ending {key[1:]} / upper {key.upper()} / end {key[-9:]}"
                return await self.send(writer, 400, error(parts))
            case "context":
                too_long = error("This model's maximum context length is 8 tokens", code="context_length_exceeded")
                return await self.send(writer, 400, too_long)
            case "model-not-found":
                return await self.send(writer, 404, error(f"The model {request['model']} does not exist"))
            case "redirect" | "redirect-307":
                there = {"Location": f"{self.redirect_to}{path}?moved=1"}
                return await self.send(writer, 307 if fault == "redirect-307" else 302, b"", there)
            case "429-absurd-zone":
                return await self.send(
                    writer, 429, error("slow"), {"Retry-After": "Wed, 21 Oct 2015 07:28:00 +99999999"}
                )
            case "429-absurd-year":
                return await self.send(writer, 429, error("slow"), {"Retry-After": "Wed, 21 Oct 99999 07:28:00 GMT"})
            case "quota":
                return await self.send(writer, 429, error("You exceeded your quota", code="insufficient_quota"))
            case "long-error":
                return await self.send(writer, 400, error("x" * 470 + " " + str(headers.get("authorization")) * 9000))
            case "terminal-error":
                return await self.send(writer, 400, error("\x1b[2J\x1b]0;owned\x07 gone\u202e\r\nsecond line"))
            case "gzip-bomb":
                bomb = gzip.compress(b"a" * 50_000_000)
                writer.write(head_of(200, len(bomb), {"Content-Encoding": "gzip"}) + bomb)
                await writer.drain()
                return True
            case "too-large":
                return await self.send(writer, 200, b" " * 9_000_000)
            case "header-too-large":
                return await self.send(writer, 200, b"{}", {"X-Large": "y" * 100_000})
            case "slow-headers":
                await asyncio.sleep(30)
            case "reset":
                return self.reset(writer)
        answer = self.reply(path, request, prompt, fault, headers)
        content = json.dumps(answer).encode()
        match fault:
            case "invalid-json":
                content = b"<html>welcome to the proxy</html>"
            case "events":
                content = b"data: " + content + b"\n\ndata: [DONE]\n\n"
            case "truncated-json":
                content = content[: len(content) // 2]
            case "schema":
                content = b'{"result": "a text that is no completion"}'
            case "error-in-200":
                content = json.dumps(error("the provider is away")).encode()
            case "list":
                content = b"[1, 2]"
            case "not-utf8":
                content = content.replace(b"river", b"\xff\xfe")
            case "slow-body" | "reset-body":
                writer.write(head_of(200, len(content)) + content[: len(content) // 2])
                await writer.drain()
                if fault == "reset-body":
                    return self.reset(writer)
                await asyncio.sleep(30)
        if self.count and not probe:
            self.answered[key] = self.answered.get(key, 0) + 1
        cookies = {"Set-Cookie": "session=\xe9\u4f60; Path=/"} if fault == "cookie" else None
        answered = head_of(200, len(content), cookies) + content
        writer.write(answered * 2 if fault == "twice" else answered)
        await writer.drain()
        return True

    @staticmethod
    def reset(writer: asyncio.StreamWriter) -> bool:
        """Close with a RST, not a FIN."""
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        return False

    async def send(
        self, writer: asyncio.StreamWriter, status: int, content: Any, headers: dict[str, str] | None = None
    ) -> bool:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        writer.write(head_of(status, len(body), headers) + body)
        await writer.drain()
        return True

    # ---- answers

    def reply(
        self, path: str, request: dict[str, Any], prompt: str, fault: str | None, headers: dict[str, str]
    ) -> dict[str, Any]:
        """A completion whose words depend on the body alone."""
        rng = random.Random(json.dumps(request, sort_keys=True))
        text: Any = self.prefix + " ".join(["river", *rng.choices(WORDS, k=8)])
        if "single word" in json.dumps(request):
            text = rng.choice(WORDS)
        if self.echo == "key":
            text += f" {headers.get('authorization')}"
        finish = {"content-filter": "content_filter", "length": "length", "empty-paid": "length",
                  "broken-off": "error", "finish-own": "unsupported",
                  "finish-key-alone": str(headers.get("authorization")).removeprefix("Bearer "),
                  "finish-key": f"stop {headers.get('authorization')}"}.get(fault or "", "stop")  # fmt: skip
        if fault == "too-long":
            text = "river " * 100_000
        if fault == "terminal":
            text += " \x1b[2J\x1b]0;owned\x07"
        text = {"empty": "", "empty-paid": "", "null": None, "number": 7, "content-filter": None, "html": "<b>&"}.get(
            fault or "", text
        )
        chat = path.endswith("/chat/completions")
        if isinstance(request.get("prompt"), list):
            return self.scored(request, headers)
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        if self.top_logprobs and request.get("logprobs"):
            pairs = self.top_logprobs
            if chat or self.echo == "llama.cpp":
                top = [{"token": token, "logprob": value, "bytes": None} for token, value in pairs]
                shown: Any = 7 if fault == "alternatives-number" else top
                choice["logprobs"] = {"content": [{**top[0], "top_logprobs": shown}]}
            else:
                choice["logprobs"] = {"top_logprobs": [dict(pairs)], "tokens": [pairs[0][0]]}
        if fault == "schema-billed":
            choice = {"index": 0}
        if fault == "filter-alone":
            choice = {"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}
        if fault == "no-content":
            choice["message"] = {"role": "assistant", "reasoning_content": "They want a word for it"}
        given, made = len(prompt.split()), {"empty": 0, "null": 0, "empty-paid": 600}.get(fault or "", 9)
        return {
            "id": "cmpl-1", "object": "chat.completion" if chat else "text_completion", "created": 1,
            "model": self.served_model or f"{request['model']}-served",
            "system_fingerprint": "fp_two" if fault == "fingerprint" else "fp_one",
            "choices": [] if fault == "no-choices" else [choice],
            "usage": {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made},
        }  # fmt: skip

    def scored(self, request: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        """One choice for each text that was sent, the last first; ``prompt_form`` says what is in it."""
        choices: list[dict[str, Any]] = []
        for index, text in enumerate(request["prompt"]):
            tokens = tokenized(text)
            values = [None, *(token_log_prob(tokens[:place], tokens[place]) for place in range(1, len(tokens)))]
            choice: dict[str, Any] = {"index": index, "finish_reason": "length", "text": " river"}
            if self.prompt_form == "echo" and request.get("echo"):
                starts = [sum(map(len, tokens[:place])) for place in range(len(tokens))]
                choice |= {"text": text + " river"}
                choice["logprobs"] = {
                    "tokens": [*tokens, " river"], "token_logprobs": [*values, -0.5],
                    "text_offset": [*starts, len(text)], "top_logprobs": None,
                }  # fmt: skip
            elif self.prompt_form.startswith("vllm") and request.get("prompt_logprobs"):
                entries: list[Any] = [None]
                for token, value in list(zip(tokens, values, strict=True))[1:]:
                    best = {"1": {"logprob": -0.1, "rank": 1, "decoded_token": " the"}}
                    own = {str(token_id(token)): {"logprob": value, "rank": 7, "decoded_token": token}}
                    entries.append(best | own)
                choice["prompt_logprobs"] = entries
                if self.prompt_form == "vllm":
                    choice["prompt_token_ids"] = [token_id(token) for token in tokens]
            choices.insert(0, choice)
        n = sum(len(tokenized(text)) for text in request["prompt"])
        usage = {"prompt_tokens": n, "completion_tokens": len(choices), "total_tokens": n + len(choices)}
        model = self.served_model or f"{request['model']}-served"
        return {"id": "cmpl-2", "object": "text_completion", "model": model, "choices": choices, "usage": usage}

    def stats(self) -> dict[str, Any]:
        repeated = sum(times > 1 for times in self.answered.values())
        return {
            "answered": sum(self.answered.values()), "bodies": len(self.answered), "repeated": repeated,
            "faults": self.faults, "connections": self.connections, "most_in_flight": self.most_in_flight,
        }  # fmt: skip

    # ---- the Batch endpoint

    def batch_api(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        steps = path.split("?")[0].strip("/").split("/")[1:]
        if steps[0] == "files" and method == "POST":
            name = f"file-{len(self.files) + 1}"
            self.files[name] = multipart_file(headers["content-type"], body)
            return 200, {"id": name, "object": "file", "bytes": len(body), "created_at": 1, "filename": "in.jsonl",
                         "purpose": "batch", "status": "processed"}  # fmt: skip
        if self.no_batches:
            return 404, error("Not Found")
        if steps[0] == "batches" and self.batch_answer is not None:
            return 200, self.batch_answer
        if steps[0] == "files" and steps[-1] == "content" and self.lost_outputs:
            self.lost_outputs -= 1
            return 404, error("No such File object")
        if steps[0] == "files" and steps[-1] == "content" and self.cut_outputs:
            self.cut_outputs -= 1
            return 200, self.files[steps[1]][: len(self.files[steps[1]]) // 2]
        if steps[0] == "files" and steps[-1] == "content":
            return (200, self.files[steps[1]]) if steps[1] in self.files else (404, error("no such file"))
        if method == "POST":
            request = json.loads(body)
            batch = {
                "id": f"batch-{len(self.batches) + 1}", "object": "batch", "endpoint": request["endpoint"],
                "input_file_id": request["input_file_id"], "completion_window": "24h", "created_at": 1,
                "status": "in_progress", "metadata": request.get("metadata") if self.batch_names else None, "polls": 0,
                "plan": self.batch_plan.pop(0) if self.batch_plan else "completed",
            }  # fmt: skip
            self.batches[batch["id"]] = batch
            return 200, batch
        if len(steps) == 1:
            return 200, self.page_of_batches(path)
        if steps[1] not in self.batches:
            return 404, error(f"No batch found with id '{steps[1]}'.")
        batch = self.batches[steps[1]]
        batch["polls"] += 1
        if batch["status"] == "in_progress" and batch["polls"] >= self.batch_polls:
            self.end_batch(batch)
        return 200, batch

    def page_of_batches(self, path: str) -> dict[str, Any]:
        """The newest first, `batch_page` at a time."""
        after = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query).get("after", [""])[0]
        names = list(reversed(self.batches))
        names = names[names.index(after) + 1 if after in self.batches and self.batch_more != "always" else 0 :]
        more = self.batch_more == "always" or len(names) > self.batch_page
        said = {} if self.batch_more == "unsaid" else {"has_more": more}
        return {"object": "list", "data": [self.batches[name] for name in names[: self.batch_page]], **said}

    def end_batch(self, batch: dict[str, Any]) -> None:
        batch["status"] = batch["plan"]
        if batch["plan"] == "failed":
            batch["errors"] = {"object": "list", "data": [{"code": "invalid", "message": "the file is not liked"}]}
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        done = lines[: len(lines) // 2] if batch["plan"] == "expired" else lines
        output, errors = [], []
        for line in done:
            request = line["body"]
            prompt = request["messages"][-1]["content"] if "messages" in request else request["prompt"]
            wanted = FAULT.search(prompt)
            key = hashlib.sha256(json.dumps(request).encode()).hexdigest()
            self.seen[key] = self.seen.get(key, 0) + 1
            fault = wanted[1] if wanted and (wanted[2] is None or self.seen[key] <= int(wanted[2])) else None
            row = {"id": "r", "custom_id": line["custom_id"], "error": None}
            if fault and fault.startswith("line-"):
                output.append(malformed(fault, row))
                continue
            if fault == "200-filter":
                row["response"] = {"status_code": 200, "request_id": "q", "body": error("blocked by content filtering")}
                output.append(row)
                continue
            if fault == "400-inspection":
                said = error("no", code="data_inspection_failed")
                row["response"] = {"status_code": 400, "request_id": "q", "body": said}
                errors.append(row)
                continue
            if fault in OTHER_ERRORS:
                row["response"] = {"status_code": int(fault[:3]), "request_id": "q", "body": OTHER_ERRORS[fault]}
                errors.append(row)
                continue
            if fault == "400-filter":
                row["response"] = {"status_code": 400, "request_id": "q", "body": error("no", code="content_filter")}
                errors.append(row)
                continue
            if fault in ("400", "429", "500"):
                row["response"] = {"status_code": int(fault), "request_id": "q", "body": error("no")}
                errors.append(row)
                continue
            self.answered[key] = self.answered.get(key, 0) + 1
            reply = self.reply(batch["endpoint"], request, prompt, fault, {})
            output.append({**row, "response": {"status_code": 200, "request_id": "q", "body": reply}})
            if fault == "refused-too":  # stands before its answer: the file is in reverse
                output.append({**row, "response": {"status_code": 500, "request_id": "q", "body": error("no")}})
                output.append({**row, "response": {"status_code": 400, "request_id": "q", "body": error("no")}})
        for line in lines[len(done) :]:
            expired = {"code": "batch_expired", "message": "This request could not be executed in time."}
            errors.append({"id": "r", "custom_id": line["custom_id"], "response": None, "error": expired})
        batch["request_counts"] = {"total": len(lines), "completed": len(output), "failed": len(errors)}
        for field, rows in (("output_file_id", output), ("error_file_id", errors)):
            if rows:
                name = f"file-{len(self.files) + 1}"
                lines_out = "".join(json.dumps(row) + "\n" for row in reversed(rows))
                if self.damaged_line and field == "output_file_id":
                    lines_out = "\n".join(lines_out.splitlines()[1:]) + "\n"
                self.files[name] = self.before_output + self.damaged_line + lines_out.encode()
                batch[field] = name
        batch |= self.batch_facts


def tokenized(text: str) -> list[str]:
    """Words with the space before them; what a word has beyond six letters is a token of its own."""
    return re.findall(r" ?[^ ]{1,6}| ", text)


def token_id(token: str) -> int:
    return 10 + int(hashlib.sha256(token.encode()).hexdigest()[:6], 16)


def token_log_prob(before: list[str], token: str) -> float:
    """Depends on the token and on all before it."""
    return -1 - int(hashlib.sha256("|".join([*before, token]).encode()).hexdigest()[:4], 16) / 10_000


def malformed(fault: str, row: dict[str, Any]) -> Any:
    """A line of a batch's output that is not as documented."""
    return {
        "line-response-text": {**row, "response": "done"},
        "line-response-list": {**row, "response": [200]},
        "line-status-text": {**row, "response": {"status_code": "all well", "body": {}}},
        "line-status-huge": {**row, "response": {"status_code": 10**30, "body": {}}},
        "line-error-text": {**row, "response": None, "error": "no"},
        "line-body-error-text": {**row, "response": {"status_code": 400, "body": {"error": "no"}}},
        "line-code-list": {**row, "response": {"status_code": 400, "body": {"error": {"code": ["x"], "message": 3}}}},
        "line-body-list": {**row, "response": {"status_code": 200, "body": [1]}},
        "line-id-list": {**row, "custom_id": [row["custom_id"]]},
        "line-list": [row["custom_id"]],
    }[fault]


def multipart_file(content_type: str, body: bytes) -> bytes:
    """The part named "file"."""
    boundary = content_type.split("boundary=")[1].strip('"').encode()
    for part in body.split(b"--" + boundary):
        head, _, content = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            return content.removesuffix(b"\r\n")
    raise ValueError("no file in the form")


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


OTHER_ERRORS: dict[str, Any] = {
    "400-list": [error("The prompt was blocked by a safety filter.", code="400")],
    "400-detail": {"detail": "Blocked by the content policy"},
    "403-flagged": {"error": {"message": "The input was flagged for violence.", "code": 403}},
}
"""Bodies of filters as a compatible endpoint of Gemini, one written in FastAPI and OpenRouter send them."""


def head_of(status: int, length: int, headers: dict[str, str] | None = None) -> bytes:
    more = "".join(f"{key}: {value}\r\n" for key, value in (headers or {}).items())
    return (f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n").encode()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--jitter", type=float, default=0.0)
    parser.add_argument("--capacity", type=int)
    parser.add_argument("--no-count", action="store_true", help="keep no record of bodies")
    options = parser.parse_args()
    server = Server(options.latency, options.jitter, options.capacity)
    server.count = not options.no_count
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
