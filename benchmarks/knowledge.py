"""Seconds of the knowledge audit on 20 subjects with 100 triples each, topics included; at most 120 on 2 cores.

    python benchmarks/knowledge.py

The paper's nationality class, asked of the planted control: clean, score and topics (three seeds), evaluate,
charts. A fresh process: imports and compilation count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from markedness.audits.knowledge import clean, controls, evaluate, featurize, generate
from markedness.axes import Axis, Value
from markedness.records import Completion
from markedness.store import Store

ROOT = Path(__file__).parents[1]
T = TypeVar("T")


def crawl() -> pd.DataFrame:
    """2,000 triples of the control with a planted stereotype."""
    stimuli = Store(ROOT).stimuli("knowledge")
    table = stimuli.table("subjects.csv").query("`class` == 'nationality'")
    axis = Axis(unmarked="American people", values={subject: Value() for subject in table["subject"]})
    rng, rule = np.random.default_rng(0), controls.rule("planted", 1.0)
    rounds = generate.prompts(stimuli, generate.Params(axes={"nationality": axis}), rng)
    rows: list[dict[str, object]] = []
    batch = next(rounds, None)
    while batch is not None:
        answers = [[Completion(rule(prompt, rng), "stop")] for prompt in batch]
        rows += [
            {
                "prompt_id": p.prompt_id,
                "group": p.group,
                "text": a.text,
                "finish_reason": "stop",
                "error": None,
                **p.columns,
            }
            for p, (a,) in zip(batch, answers, strict=True)
        ]
        try:
            batch = rounds.send(answers)
        except StopIteration:
            batch = None
    return pd.DataFrame(rows)


def main() -> None:
    generations = crawl()
    total = [0.0, 0.0]

    def timed(name: str, work: Callable[[], T]) -> T:
        wall, cpu = time.perf_counter(), time.process_time()
        made = work()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        total[0], total[1] = total[0] + spent[0], total[1] + spent[1]
        print(f"{name:10} {spent[0]:6.1f} s, {spent[1]:6.1f} s of CPU")
        return made

    responses = timed("clean", lambda: clean.clean(generations, clean.Params()))
    features = timed(
        "featurize", lambda: featurize.featurize(responses, featurize.Params(), Store(ROOT).stimuli("knowledge")).tables
    )
    made = timed("evaluate", lambda: evaluate.evaluate(features, evaluate.Params(), np.random.default_rng(0)))
    entropy = made.tables["relative_entropy"]
    print(
        f"{len(features['triples'])} triples of {entropy['subject'].nunique()} subjects, "
        f"{entropy['topics'].iloc[0]} topics"
    )
    print(f"{'all':10} {total[0]:6.1f} s, {total[1]:6.1f} s of CPU; the aim is 120 s")


if __name__ == "__main__":
    main()
