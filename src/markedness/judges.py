"""Scores that featurize asks a service for: one ledger, one way of asking, one slice that DVC shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from markedness import ledgers
from markedness.lm.collect import collect
from markedness.lm.costs import BudgetTracker
from markedness.lm.moderation import ModerationServer, read_score
from markedness.lm.plan import Counts
from markedness.lm.progress import Progress, tell
from markedness.params import Params
from markedness.records import Prompt
from markedness.store import Store
from markedness.text_scores import ScoringService, TextScore

PART = "judge"
"""Of the slice's name: data/ledger/<audit>/<model>.judge.jsonl."""


class ServiceScores:
    """A `markedness.text_scores.TextScorer` of one audit of one model."""

    def __init__(self, params: Params, audit: str, model: str, say: Callable[[str], None] = tell) -> None:
        self.params = params
        self.audit = audit
        self.model = model
        self.say = say
        self.asked = False

    def forget(self) -> None:
        """Leave an empty slice where this run asked nothing; what an earlier one holds is entered into the ledger."""
        path = Store(self.params.root).ledger_path(self.audit, self.model, PART)
        if self.asked or (path.exists() and not path.stat().st_size):
            return
        if path.exists():
            with ledgers.opened(self.params, self.audit, self.model, self.say, part=PART):
                pass
        Store(self.params.root).write_bytes(path, b"")

    def __call__(self, service: ScoringService, texts: Sequence[str]) -> list[TextScore]:
        """Ask for what the ledger lacks; see `markedness.text_scores.TextScorer`."""
        self.asked = True
        different = list(dict.fromkeys(texts))
        prompts = [Prompt("score", "", completion=text) for text in different]
        server = ModerationServer(service, f"{self.audit}.featurize.toxicity")
        counts = Counts()
        with ledgers.opened(self.params, self.audit, self.model, self.say, part=PART) as ledger:

            async def ask() -> list[TextScore]:
                try:
                    with Progress(f"{self.audit} {self.model} scores", self.say) as progress:
                        meter = BudgetTracker(max_requests=service.max_requests)
                        answers = await collect(server, prompts, ledger, counts, meter=meter, progress=progress)
                finally:
                    await server.close()
                ledgers.write_slice(self.params, self.audit, self.model, ledger, [answers], part=PART)
                return [read_score(one) for (one,) in answers]

            scores = dict(zip(different, asyncio.run(ask()), strict=True))
        self.say(
            f"{self.audit} {self.model}: {counts.requested:,} texts to {service.place}: {counts.answered:,} scored "
            f"({counts.from_ledger:,} of them from the ledger), {counts.failed:,} missing"
        )
        for reason, times in counts.reasons.most_common(5):
            self.say(f"{self.audit} {self.model}: missing {times:,} times: {reason}")
        return [scores[text] for text in texts]
