"""Throughput and memory of asking a server, the ledger included, beside a bare loop over the same client.

    python benchmarks/asking.py                 50,000 requests, 50 ms latency, 256 in flight: about three minutes
    python benchmarks/asking.py --requests 5000

The server runs on loopback in a process of its own. Both loops use AsyncOpenAI with its aiohttp transport; they
take turns in blocks, so that a machine whose speed wanders is no help to either. Prints requests a second and CPU
per request of both, their ratio, and the resident memory from request 5,000 on.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from openai import AsyncOpenAI, DefaultAioHttpClient
from ratios import held

from markedness.lm.collect import collect
from markedness.lm.config import OpenAIModel
from markedness.lm.ledger import Ledger
from markedness.lm.openai_api import OpenAIServer
from markedness.lm.plan import Counts
from markedness.records import Message, Prompt

SERVER = Path(__file__).parents[1] / "tests" / "servers" / "openai_server.py"
TEXT = "Imagine you are a lighthouse keeper. Describe yourself. "


def prompts(start: int, stop: int) -> list[Prompt]:
    return [Prompt("p", "g", messages=(Message("user", f"{TEXT}{i}"),)) for i in range(start, stop)]


async def bare(url: str, start: int, stop: int, in_flight: int) -> None:
    """The client in a loop, answers thrown away."""
    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=DefaultAioHttpClient())
    numbers = iter(range(start, stop))

    async def worker() -> None:
        for i in numbers:
            answer = await client.chat.completions.create(
                model="toy", messages=[{"role": "user", "content": f"{TEXT}{i}"}], max_tokens=256
            )
            assert answer.choices[0].message.content

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    await client.close()


async def asked(model: OpenAIServer, ledger: Ledger, start: int, stop: int) -> None:
    counts = Counts()
    await collect(model, prompts(start, stop), ledger, counts)
    await model.close()
    assert counts.answered == stop - start, counts


def timed(work: Any) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(work)
    return time.perf_counter() - wall, time.process_time() - cpu


def memory() -> float:
    return float(psutil.Process().memory_info().rss / 2**20)


async def whole_study(url: str, folder: Path, requests: int, in_flight: int) -> list[tuple[int, float]]:
    """One study of all requests; resident memory after every thousand answers, MiB."""
    model = OpenAIServer(OpenAIModel(backend="openai", model="toy", base_url=url, concurrency=in_flight))
    counts = Counts()
    samples: list[tuple[int, float]] = []

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.05)
            if counts.answered >= (samples[-1][0] if samples else 0) + 1000:
                samples.append((counts.answered, memory()))

    with Ledger(folder / "whole.jsonl") as ledger:
        watching = asyncio.create_task(watch())
        await collect(model, prompts(0, requests), ledger, counts)
        samples.append((counts.answered, memory()))
        watching.cancel()
    await model.close()
    assert counts.answered == requests, counts
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--latency", type=float, default=0.05)
    options = parser.parse_args()
    command = [sys.executable, str(SERVER), "--latency", str(options.latency), "--no-count"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        with tempfile.TemporaryDirectory() as folder:
            compare(url, Path(folder), options)
    finally:
        server.kill()
        server.wait()


def compare(url: str, folder: Path, options: argparse.Namespace) -> None:
    block = max(1, min(10_000, options.requests // 2))  # a study begins with 16 in flight, once, not every few seconds
    asyncio.run(bare(url, 0, 200, 16))  # imports and first connections
    bare_wall = bare_cpu = whole_wall = whole_cpu = 0.0
    samples: list[tuple[int, float]] = []
    done = 0
    config = OpenAIModel(backend="openai", model="toy", base_url=url, concurrency=options.in_flight)
    with Ledger(folder / "ledger.jsonl") as ledger:
        while done < options.requests:
            stop = min(done + block, options.requests)
            wall, cpu = timed(bare(url, done, stop, options.in_flight))
            bare_wall, bare_cpu = bare_wall + wall, bare_cpu + cpu
            wall, cpu = timed(asked(OpenAIServer(config), ledger, done, stop))
            whole_wall, whole_cpu = whole_wall + wall, whole_cpu + cpu
            done = stop
            print(f"{done:7,} {done / bare_wall:7.0f}/s bare {done / whole_wall:7.0f}/s asked with ledger", flush=True)
    print(f"bare loop: {done / bare_wall:.0f} requests/s, {1000 * bare_cpu / done:.2f} ms of CPU each")
    print(f"asked:     {done / whole_wall:.0f} requests/s, {1000 * whole_cpu / done:.2f} ms of CPU each")
    wall = time.perf_counter()
    samples = asyncio.run(whole_study(url, folder, options.requests, options.in_flight))
    wall = time.perf_counter() - wall
    late = [size for answers, size in samples if answers >= min(5_000, options.requests // 2)]
    print(f"one study: {options.requests / wall:.0f} requests/s")
    print(
        f"memory:    {late[0]:.1f} MiB at request {min(5_000, options.requests // 2):,}, {late[-1]:.1f} at the end, "
        f"{max(late):.1f} at most"
    )
    held("asking", bare_wall / whole_wall)


if __name__ == "__main__":
    main()
