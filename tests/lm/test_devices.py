"""Local models on another device: the texts and probabilities of the processor, and sentences where it is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")

import torch
from tests.lm.tiny_models import MODELS
from tests.lm.tiny_models import TEXT as WORDS

from markedness.lm.base import Draw, ModelError, RequestFailed
from markedness.lm.config import TransformersModel
from markedness.lm.local import LocalModel
from markedness.records import Completion, Prompt, Sampling

TEXTS = [" ".join(WORDS.split()[start : start + length]) for start in range(0, 40, 5) for length in (4, 9)]
SAMPLING = Sampling(temperature=0.9, top_p=0.9, max_tokens=20)
ASKED = {
    "texts": [Prompt("p", "g", completion=text, sampling=SAMPLING, samples=4) for text in TEXTS],
    "candidates": [Prompt("p", "g", completion=text, candidates=("lazy", "brave", "kind", "zzz")) for text in TEXTS],
    "perplexity": [Prompt("p", "g", completion=text, perplexity=True) for text in TEXTS],
}
needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="skipped: no GPU here (run this file on a machine with one)"
)


def answers(root: Path, name: str, prompts: list[Prompt], **more: Any) -> list[Completion]:
    """Answers in float64, in which rounding reaches no text."""
    settings: dict[str, Any] = {"dtype_text": "float64", "dtype_scores": "float64", "batch_size": 16} | more
    model = LocalModel(TransformersModel(backend="transformers", path=name, **settings), root, seed=7)
    draws = [Draw(prompt, sample, model.request(prompt)) for prompt in prompts for sample in range(prompt.samples)]
    return asyncio.run(model.complete(draws))


PAIRS = [(name, what) for name in MODELS for what in ASKED if (name, what) != ("roberta", "texts")]
"""A masked model writes no text."""


@needs_gpu
@pytest.mark.parametrize(("name", "what"), PAIRS)
def test_a_gpu_gives_the_answers_of_the_processor(tmp_path: Path, name: str, what: str) -> None:
    apart = 1e-3 if name == "t5" else 1e-9  # transformers normalises T5's layers in float32 whatever the dtype is
    MODELS[name](tmp_path / name)
    here, there = (answers(tmp_path, name, ASKED[what], device=device) for device in ("cpu", "cuda"))
    assert [answer.text for answer in there] == [answer.text for answer in here]
    assert [answer.finish_reason for answer in there] == [answer.finish_reason for answer in here]
    for one, other in zip(here, there, strict=True):
        for a, b in zip(one.log_probs, other.log_probs, strict=True):
            assert a == b if a is None else b == pytest.approx(a, abs=apart)


@needs_gpu
def test_a_gpu_that_is_full_says_to_lower_the_batch_size(tmp_path: Path) -> None:
    MODELS["gpt2"](tmp_path / "gpt2")
    everything = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(2e6 / everything)
    try:
        with pytest.raises((RequestFailed, ModelError), match="memory"):
            answers(tmp_path, "gpt2", ASKED["texts"], device="cuda", batch_size=10_000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="skipped: a GPU is here (nothing is lacking)")
def test_a_device_that_is_not_here_is_a_sentence_with_the_remedy(tmp_path: Path) -> None:
    MODELS["gpt2"](tmp_path / "gpt2")
    with pytest.raises(ModelError, match=r"gpt2: does not get onto device 'cuda' .*; set device: cpu"):
        answers(tmp_path, "gpt2", ASKED["texts"], device="cuda")


@pytest.mark.parametrize("device", ["meta", "gpu", "cuda:x", "cpu; rm"])
def test_a_device_that_torch_has_not_is_refused_in_params(device: str) -> None:
    with pytest.raises(ValueError, match="device"):
        TransformersModel(backend="transformers", path="m", device=device)
