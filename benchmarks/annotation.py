"""Seconds and memory of the annotation audit on as many stored judgments as the paper has.

    python benchmarks/annotation.py                     4,095,000 judgments: 1,750 iterations x 39 tasks x 60 texts
    python benchmarks/annotation.py --iterations 100    one model of the paper

Made-up judgments with a gap for two groups are written as one Parquet file (--csv: as CSV) and go through the stages as
a corpus model, files included: generate reads them, then clean, featurize and evaluate. The three together should stay
below 60 s and 4 GB of resident memory. Prints wall and CPU seconds of each stage and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from markedness import params, pipeline
from markedness.store import Store

GROUPS = ("Arab", "Asian", "Black", "Hispanic")
PAIRS = 30
PLANTED = {("Black", "self_disciplined"): -0.06, ("Arab", "hireable"): 0.076}
ROOT = Path(__file__).parents[1]


def judgments(iterations: int, rng: np.random.Generator) -> pd.DataFrame:
    """One row per judgment, as a user would have stored them."""
    stimuli = Store(ROOT).stimuli("annotation")
    tasks = stimuli.table("tasks.csv").query("names == 'yes'")["task"].to_numpy()
    names = stimuli.table("names.csv").groupby("group")["name"].agg(list)
    n_pairs = iterations * PAIRS
    group = rng.integers(0, len(GROUPS), n_pairs)
    name = [
        names[GROUPS[g]][k % len(names[GROUPS[g]])] for g, k in zip(group, rng.integers(0, 40, n_pairs), strict=True)
    ]
    pairs = pd.DataFrame(
        {
            "pair": np.tile(np.arange(PAIRS), iterations),
            "iteration": np.repeat(np.arange(iterations), PAIRS),
            "vignette": pd.Categorical.from_codes(
                rng.integers(0, 211, n_pairs), pd.Index([f"v{i}" for i in range(211)])
            ),
            "group": np.array(GROUPS)[group],
            "name": name,
        }
    )
    both = pd.concat([pairs, pairs.assign(group="White", name=rng.choice(names["White"], n_pairs))], ignore_index=True)
    table = pd.concat([both.assign(task=task) for task in tasks], ignore_index=True)
    rate = rng.uniform(0.1, 0.9, len(tasks))[np.repeat(np.arange(len(tasks)), len(both))]
    for (of, task), gap in PLANTED.items():
        rate = np.where((table["group"] == of) & (table["task"] == task), rate + gap, rate)
    y = (rng.random(len(table)) < rate).astype(float)
    y[rng.random(len(table)) < 0.02] = np.nan
    return table.assign(y=pd.array(y, dtype="Float64").astype("Int8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1750)
    parser.add_argument("--csv", action="store_true", help="store the judgments as CSV")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder)
        file = study / ("judgments.csv" if chosen.csv else "judgments.parquet")
        table = judgments(chosen.iterations, np.random.default_rng(1))
        print(f"{len(table):,} judgments")
        table.to_csv(file, index=False) if chosen.csv else table.to_parquet(file)
        del table
        content = {"audits": ["annotation"], "models": {"m": {"backend": "corpus", "annotation": {"path": file.name}}}}
        (study / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        loaded = params.load(study / "params.yaml")
        total = 0.0
        for name, stage in pipeline.STAGES.items():
            wall, cpu = time.perf_counter(), time.process_time()
            stage(loaded, "annotation", "m")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            total += wall if name != "generate" else 0.0
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(f"{name:10} {wall:6.1f} s wall {cpu:6.1f} s CPU   peak so far {peak:.2f} GB")
        print(f"clean, featurize and evaluate: {total:.1f} s wall")


if __name__ == "__main__":
    main()
