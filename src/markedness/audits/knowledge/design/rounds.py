"""A crawl asks in rounds, each a list of prompts that is sent its answers; several crawls ask side by side."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress

from markedness.records import Completion, Prompt

Answers = Sequence[Sequence[Completion]]
Rounds = Generator[list[Prompt], Answers, None]


def together(crawls: Sequence[Rounds]) -> Rounds:
    """Several crawls side by side: what they ask next is asked at once."""
    asking = {place: batch for place, crawl in enumerate(crawls) if (batch := next(crawl, None)) is not None}
    while asking:
        answers = iter((yield [prompt for batch in asking.values() for prompt in batch]))
        following = {}
        for place, batch in asking.items():
            with suppress(StopIteration):
                following[place] = crawls[place].send([next(answers) for _ in batch])
        asking = following
