"""CPU seconds of the homogeneity audit on the size of the published Main study.

    python benchmarks/homogeneity.py                          made-up answers: 18 cues, 120 names, 50 answers each
    python benchmarks/homogeneity.py --corpus PATTERN.csv     the released answers (columns name, race, gender, text)

From cleaned rows to P_d, effects and meta-analysis with 1,000 replicates, charts apart; at most 3 s. The loop over
resamples in pandas, as the released analysis has it, is timed on 20 replicates of one cue and scaled up.
"""

from __future__ import annotations

import argparse
import glob
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from ratios import held

from markedness.audits.homogeneity import clean, controls, evaluate, featurize, figures, generate
from markedness.records import Features
from markedness.store import Store

ROOT = Path(__file__).parents[1]
N_RESAMPLES = 1000


def made_up() -> pd.DataFrame:
    """The Main study asked of the control that ignores the group."""
    rng, rule = np.random.default_rng(0), controls.rule("none")
    rows = [
        {
            "prompt_id": p.prompt_id,
            "group": p.group,
            "text": rule(p, rng),
            "finish_reason": "stop",
            "error": None,
            **p.columns,
        }
        for p in next(generate.prompts(Store(ROOT).stimuli("homogeneity"), generate.Params(), rng))
        for _ in range(p.samples)
    ]
    return pd.DataFrame(rows)


def released(pattern: str) -> pd.DataFrame:
    """Released answers as generations; codes of race and gender as in the files."""
    parts = []
    for path in sorted(glob.glob(pattern)):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        parts.append(table.assign(cue=Path(path).stem))
    rows = pd.concat(parts, ignore_index=True)
    rows["race"] = rows["race"].str.capitalize()
    rows["gender"] = rows["gender"].replace({"M": "man", "F": "woman"})
    rows = rows.assign(group=rows["race"] + " " + rows["gender"], prompt_id="", finish_reason=None, error=None)
    return generate.complete_corpus(rows, Store(ROOT).stimuli("homogeneity"), generate.Params())


def pandas_loop(responses: pd.DataFrame, n_resamples: int = 20) -> float:
    """CPU seconds of the loop for all cues and six groups, from a few replicates of one cue and group."""
    rng = np.random.default_rng(0)
    cue = responses[responses["cue"].eq(responses["cue"].iloc[0]) & responses["race"].eq("White")]
    names = cue["name"].unique()
    start = time.process_time()
    for _ in range(n_resamples):
        drawn = pd.concat([cue[cue["name"].eq(name)] for name in rng.choice(names, len(names))])
        _ = 1 - drawn["answer"].value_counts(normalize=True).pow(2).sum()
    return (time.process_time() - start) / n_resamples * N_RESAMPLES * responses["cue"].nunique() * 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="pattern of CSV files, the stem is the cue")
    generations = released(pattern) if (pattern := parser.parse_args().corpus) else made_up()
    start = time.process_time()
    responses = clean.clean(generations, clean.Params())
    cleaned = time.process_time()
    features = featurize.featurize(responses, featurize.Params(), Store(ROOT).stimuli("homogeneity"))
    assert isinstance(features, Features)
    with patch.object(figures, "figures", return_value={}):
        made = evaluate.evaluate(features.tables, evaluate.Params(n_resamples=N_RESAMPLES), np.random.default_rng(0))
    done = time.process_time()
    cells = len(made.tables["probability_of_differentiation"])
    print(
        f"{len(responses):,} answers, {cells} cells x {N_RESAMPLES:,} replicates, {len(made.tables['effects'])} effects"
    )
    print(f"clean {cleaned - start:.2f} s, cleaned rows to effects and meta-analysis {done - cleaned:.2f} s of CPU")
    loop = pandas_loop(responses)
    print(f"loop over resamples, 18 x 6 cells alone: about {loop:.0f} s of CPU")
    held("homogeneity", loop / (done - cleaned))


if __name__ == "__main__":
    main()
