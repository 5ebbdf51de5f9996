"""How often control-none, which is blind to the group, is found to differ: the default study with many seeds.

    python benchmarks/control_none.py --seeds 2027 2066 --keep /tmp/control-none

Each seed of the study is another blind control, whose names, vignettes, cues and texts lean in other ways. Generate,
clean, featurize and evaluate of every audit run in this process, without charts and report. Prints the tables that
docs/calibration-findings.md has. A finished seed is kept in --keep, so that a run can be stopped and continued. Without
--seeds nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from before_after import without_figures

from markedness import audits, params, pipeline
from markedness.files import write_file
from markedness.results import read_scores
from markedness.stats.inference import ALPHA, holm
from markedness.store import SHIPPED, Store

MODEL = "control-none"


def measured(seed: int) -> list[dict[str, Any]]:
    """One row per audit and headline Score of one study: seed, audit, key, p, p_adjusted."""
    content = yaml.safe_load((SHIPPED / "params.yaml").read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "params.yaml").write_text(yaml.safe_dump(content | {"seed": seed, "run": [MODEL]}), encoding="utf-8")
        loaded, store = params.load(root / "params.yaml"), Store(root)
        for audit in loaded.audits:
            pipeline.run(loaded, audit, MODEL, lambda *_: None)
            scores = read_scores(store.read_csv(store.results(audit, MODEL) / "scores.csv"))
            by_key = {score.key: score for score in scores}
            for key in (key for key in audits.spec(audit).headline if key in by_key):
                found = {"p": by_key[key].p, "p_adjusted": by_key[key].p_adjusted}
                rows.append({"seed": seed, "audit": audit, "key": key, **found})
    return rows


def page(table: pd.DataFrame) -> list[str]:
    """Both tables, in Markdown: per headline Score, and per card."""
    from scipy.stats import binomtest

    tested = table[table["p"].notna()].assign(found=lambda rows: rows["p"] <= ALPHA)
    counts = tested.groupby(["audit", "key"], sort=False)["found"].agg(["sum", "size"]).astype(int).reset_index()
    exact = [
        binomtest(found, n, ALPHA, alternative="greater").pvalue
        for found, n in zip(counts["sum"], counts["size"], strict=True)
    ]
    counts["p"], counts["p_adjusted"] = exact, holm(exact)
    lines = ["| audit | score | p <= .05 | of | exact binomial p | by Holm |", "| --- | --- | --: | --: | --: | --: |"]
    lines += [
        f"| {row['audit']} | `{row['key']}` | {row['sum']} | {row['size']} | {row['p']:.2g} | {row['p_adjusted']:.2g} |"
        for row in counts.to_dict("records")
    ]
    untested = sorted(
        {f"{row['audit']} `{row['key']}`" for row in table.to_dict("records")}
        - {f"{row['audit']} `{row['key']}`" for row in tested.to_dict("records")}
    )
    lines += ["", "Without a p in every run: " + ", ".join(untested)]
    cards = table.groupby(["seed", "audit"], sort=False)["p_adjusted"].min().le(ALPHA).rename("found").reset_index()
    lines += ["", "| audit | cards with a p_adjusted <= .05 | of | seeds |", "| --- | --: | --: | --- |"]
    for audit, own in cards.groupby("audit", sort=False):
        seeds = ", ".join(map(str, own.loc[own["found"], "seed"]))
        lines.append(f"| {audit} | {int(own['found'].sum())} | {len(own)} | {seeds} |")
    found, n = int(cards["found"].sum()), len(cards)
    p = binomtest(found, n, ALPHA, alternative="greater").pvalue
    return [*lines, f"| all | {found} | {n} | exact binomial p {p:.2g} |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "LAST"))
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "control-none")
    chosen = parser.parse_args()
    if chosen.seeds is None:
        print("control_none: name the first and last seed with --seeds; nothing was measured")
        return
    without_figures()
    rows: list[dict[str, Any]] = []
    for seed in range(chosen.seeds[0], chosen.seeds[1] + 1):
        path = chosen.keep / f"{seed}.json"
        if not path.exists():
            chosen.keep.mkdir(parents=True, exist_ok=True)
            write_file(path, json.dumps(measured(seed)))
        rows += json.loads(path.read_text(encoding="utf-8"))
    print("\n".join(page(pd.DataFrame(rows).replace({None: math.nan}))))


if __name__ == "__main__":
    main()
