"""Seconds and memory of comparing many models on annotation at the size of the paper.

    python benchmarks/compare.py                2, 10 and 20 models, each with 3,000 pairs of names x 39 tasks
    python benchmarks/compare.py --models 5 10

Judgments of one made-up model go through the stages; the other models have the same pairs with answers drawn anew.
Every pair of models is then compared on the headline scores, and the cells of all corrected together, as
`markedness compare` does. 20 models should take less than two minutes and 4 GB, and the time of a model should not
depend on how many there are: each is scored once, and a pair costs a subtraction. Prints wall and CPU seconds, CPU
seconds of a model, and peak memory.
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
from annotation import judgments

from markedness import audits, params, pipeline
from markedness.params import Params
from markedness.records import FeatureTables
from markedness.store import Store
from markedness.study import comparison, features_or_reason


def of_one_model(study: Path, iterations: int) -> tuple[Params, pd.DataFrame]:
    """The params of a study and the matched pairs of its model."""
    judgments(iterations, np.random.default_rng(1)).to_parquet(study / "judgments.parquet")
    model = {"backend": "corpus", "annotation": {"path": "judgments.parquet"}}
    (study / "params.yaml").write_text(yaml.safe_dump({"audits": ["annotation"], "models": {"m": model}}), "utf-8")
    loaded = params.load(study / "params.yaml")
    for stage in ("generate", "clean", "featurize"):
        pipeline.STAGES[stage](loaded, "annotation", "m")
    found = features_or_reason(Store(study), "annotation", "m")
    assert isinstance(found, dict)
    return loaded, found["pairs"]


def redrawn(pairs: pd.DataFrame, rng: np.random.Generator) -> FeatureTables:
    """The same pairs, their answers drawn anew with a yes-rate of each task."""
    codes, tasks = pd.factorize(pairs["task"])
    rate = rng.uniform(0.1, 0.9, len(tasks))[codes]
    yes, reference = (rng.binomial(pairs[n].to_numpy(), rate).astype("int32") for n in ("n", "n_reference"))
    with np.errstate(invalid="ignore", divide="ignore"):
        delta = yes / pairs["n"].to_numpy() - reference / pairs["n_reference"].to_numpy()
    return {"pairs": pairs.assign(yes=yes, yes_reference=reference, delta=delta)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[2, 10, 20])
    parser.add_argument("--iterations", type=int, default=100, help="of 30 pairs each")
    chosen = parser.parse_args()
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        loaded, pairs = of_one_model(Path(folder), chosen.iterations)
    print(f"{len(pairs):,} pairs of a model")
    spec, settings = audits.spec("annotation"), loaded.stage("annotation", "evaluate")
    assert spec.across is not None
    for many in chosen.models:
        tables = {f"m{place}": redrawn(pairs, rng) for place in range(many)}
        wall, cpu = time.perf_counter(), time.process_time()
        made = comparison(loaded, "annotation", tables).differences()
        spec.across(tables, pd.DataFrame({"model": list(tables), "scripted": False}), settings)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{many:3} models, {len(made):5,} differences {wall:6.1f} s wall {cpu:6.1f} s CPU, "
            f"{cpu / many:5.2f} s CPU a model   peak so far {peak:.2f} GB", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
