"""A study of nothing in particular, with as many requests as a test needs, run through the real generate stage.

Run as a program it is a study to be killed: a process that has imported everything forks one run after another
and kills each with SIGKILL at a random moment, as often as told, then lets one run end.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Generator, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from markedness import audits, generation
from markedness import params as params_file
from markedness.audits.base import Answers, AuditSpec, Prompts
from markedness.records import CorpusColumns, Prompt, Sampling, Stimuli, Strict
from markedness.store import Store


@dataclasses.dataclass(frozen=True)
class Toy(AuditSpec):
    """An audit that asks these rounds of prompts, whatever the params."""

    rounds: tuple[list[Prompt], ...] = ()

    @property
    def prompts(self) -> Prompts:
        def given(
            stimuli: Stimuli, params: Strict, rng: np.random.Generator
        ) -> Generator[list[Prompt], Answers | None, None]:
            yield from (prompts for prompts in self.rounds)  # a generator, since answers are sent to it

        return given


def install(rounds: Iterable[list[Prompt]]) -> None:
    """Put an audit that asks these rounds in place of every audit."""
    toy = Toy("toy", __name__, CorpusColumns(required=()), "answers", "prompt_id", (), rounds=tuple(rounds))

    @cache
    def spec(audit: str) -> AuditSpec:
        return toy

    audits.spec = spec


def study(folder: Path, url: str | None, texts: list[str], samples: int = 1, rounds: int = 1, **config: Any) -> Any:
    """Params of a study that asks ``samples`` of each text, ``rounds`` times over; installs its audit "toy"."""
    folder.mkdir(parents=True, exist_ok=True)
    prices = config.pop("prices", {})
    candidates = tuple(config.pop("candidates", ()))
    model = {"backend": "openai", "model": "toy-model", "base_url": url, "chat": False, **config}
    (folder / "params.yaml").write_text(yaml.safe_dump({"models": {"toy": model}, "prices": prices}))
    loaded = params_file.load(folder / "params.yaml")

    install(
        [
            Prompt(
                f"t{i}", f"group {i % 3}", completion=text if rounds == 1 else f"{text} {number}",
                samples=samples, sampling=Sampling(max_tokens=9), columns={"number": i, "round": number},
                candidates=candidates,
            )
            for i, text in enumerate(texts)
        ]
        for number in range(rounds)
    )  # fmt: skip
    return dataclasses.replace(loaded, stages={("toy", "generate"): None})


def answers(params: Any) -> int:
    """Answers in the ledger of the model, as another process sees them."""
    database = Store(params.root).ledger_database("toy")
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as base:
        try:
            return int(base.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()[0])
        except sqlite3.OperationalError as error:  # the tables are not made yet
            assert "no such table" in str(error) or "locked" in str(error), error
            return 0


def run_and_die(params: Any, audit: str, growth: int, delay: float) -> bool:
    """Fork a run and kill it ``delay`` seconds after its ledger has so many more answers; whether it ended first."""
    end = answers(params) + growth
    child = os.fork()
    if not child:
        try:
            generation.generate(params, audit, "toy", say=lambda line: None)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(3)
        os._exit(0)
    while not os.waitpid(child, os.WNOHANG)[0]:
        if not growth or answers(params) >= end:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
            return not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        time.sleep(0.001)
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("--audit", default="toy", help="toy, or one whose params.yaml stands in the folder")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--kills", type=int)
    options = parser.parse_args()
    if options.audit == "toy":
        params = study(options.folder, options.url, [f"text {i}" for i in range(options.requests)], concurrency=16)
    else:
        params = params_file.load(options.folder / "params.yaml")
    rng = random.Random(7)
    most = max(2, options.requests // options.kills)
    kills = sum(
        not run_and_die(params, options.audit, rng.choice((0, 1, 1, 1)) * rng.randrange(most), rng.uniform(0, 0.01))
        for _ in range(options.kills)
    )
    counts = generation.generate(params, options.audit, "toy", say=lambda line: None)
    print(kills, counts.requested, counts.answered, counts.failed, counts.from_ledger)


if __name__ == "__main__":
    import openai

    openai.DefaultAioHttpClient()  # imports all it needs before the forks, which then start at once
    main()
