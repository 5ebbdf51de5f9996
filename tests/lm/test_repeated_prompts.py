"""A prompt that is asked again later gets new draws, and a resumed run finds each of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from markedness.lm.collect import collect
from markedness.lm.ledger import Ledger
from markedness.lm.plan import Counts
from markedness.lm.scripted import ScriptedModel
from markedness.records import Prompt

MODEL = ScriptedModel("dice", lambda prompt, rng: str(rng.integers(10**9)))
FIRST = Prompt("p", "g", completion="Roll", samples=3)
AGAIN = Prompt("p", "g", completion="Roll", samples=2, first_sample=3)


def texts(prompts: list[Prompt], path: Path) -> tuple[list[str | None], Counts]:
    counts = Counts()
    with Ledger(path) as ledger:
        answers = list(asyncio.run(collect(MODEL, prompts, ledger, counts)))
    return [completion.text for completions in answers for completion in completions], counts


def test_prompt_asked_again_with_first_sample_draws_anew(tmp_path: Path) -> None:
    drawn, _ = texts([FIRST, AGAIN], tmp_path / "l.jsonl")
    assert len(set(drawn)) == 5


def test_prompt_asked_again_in_a_resumed_run_gets_the_same_draws(tmp_path: Path) -> None:
    before, _ = texts([FIRST, AGAIN], tmp_path / "l.jsonl")
    after, counts = texts([FIRST, AGAIN], tmp_path / "l.jsonl")
    assert after == before
    assert counts.from_ledger == 5
