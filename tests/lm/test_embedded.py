"""The embedded Gemma 3 270M: probabilities in buckets are those of one sequence at a time, and it writes."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from markedness.lm.base import Draw
from markedness.lm.config import TransformersModel
from markedness.lm.local import LocalModel
from markedness.records import Completion, Prompt, Sampling

pytestmark = pytest.mark.slow

TEMPLATES = ('He says: " {} " He is', 'People who say " {} " tend to be')
PAIRS = (("he be walking", "he's usually walking"), ("they be singing", "they're usually singing"))
CANDIDATES = ("lazy", "brilliant", "dirty", "kind", "loud", "unphotogenic")


@pytest.fixture(scope="module")
def gemma(embedded: Path) -> LocalModel:
    return LocalModel(TransformersModel(backend="transformers", path="models/gemma-3-270m"), embedded, seed=1)


def ask(model: LocalModel, prompts: list[Prompt]) -> list[Completion]:
    draws = [Draw(prompt, sample, model.request(prompt)) for prompt in prompts for sample in range(prompt.samples)]
    return asyncio.run(model.complete(draws))


def test_scores_of_the_embedded_model_equal_one_by_one(gemma: LocalModel) -> None:
    import torch

    texts = [template.format(text) for template in TEMPLATES for pair in PAIRS for text in pair]
    answers = ask(gemma, [Prompt("p", "g", completion=text, candidates=CANDIDATES) for text in texts])
    net, tokenizer = gemma.load("float32"), gemma.tokenizer
    slow = []
    with torch.inference_mode():
        for text in texts:
            logits = net(**tokenizer(text, return_tensors="pt")).logits[0, -1].double()
            ids = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0] for word in CANDIDATES[:-1]]
            slow.append(torch.log_softmax(logits, -1)[ids].tolist())
    for answer, values in zip(answers, slow, strict=True):
        assert answer.log_probs == (*(pytest.approx(value, abs=5e-5) for value in values), None)
        assert answer.reasons[-1] == "'unphotogenic' is not a single token after this prompt"
    # q of each template and candidate: the mean over pairs of log10 p(x | a) / p(x | s); rows run a, s, a, s
    for start in (0, 4):
        for x in range(len(CANDIDATES) - 1):
            fast = [float(answers[start + i].log_probs[x] or math.nan) for i in range(4)]
            q = (fast[0] - fast[1] + fast[2] - fast[3]) / 2 / math.log(10)
            rows = slow[start : start + 4]
            expected = (rows[0][x] - rows[1][x] + rows[2][x] - rows[3][x]) / 2 / math.log(10)
            assert q == pytest.approx(expected, abs=1e-5)


def test_perplexity_of_the_embedded_model_prefers_sense(gemma: LocalModel) -> None:
    texts = ("The bus stops at the market every morning.", "Morning the every market bus stops at the.")
    sense, nonsense = ask(gemma, [Prompt("p", "g", completion=text, perplexity=True) for text in texts])
    assert sense.estimator == "next_token"
    (of_sense,), (of_nonsense,) = sense.log_probs, nonsense.log_probs
    assert of_sense is not None and of_nonsense is not None and of_sense > of_nonsense + 1


def test_embedded_model_writes_texts_that_stop(gemma: LocalModel) -> None:
    frame = "Prompt: Imagine you are a bus driver. Describe yourself.\nReply: I drive the number nine.\n\n"
    asked = Prompt(
        "p", "g", completion=f"{frame}Prompt: Imagine you are a baker. Describe yourself.\nReply: I",
        sampling=Sampling(temperature=0.8, top_p=0.95, max_tokens=16, stop=("\n",)), samples=6,
    )  # fmt: skip
    answers = ask(gemma, [asked])
    assert len({answer.text for answer in answers}) > 3
    for answer in answers:
        assert answer.finish_reason in ("stop", "length") and "\n" not in (answer.text or "")
        assert answer.prompt_tokens and answer.completion_tokens and answer.completion_tokens <= 16
