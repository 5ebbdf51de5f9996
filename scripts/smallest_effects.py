"""Write the smallest_effects.csv of each audit, which plan reads, from draws of the planted world of each size.

    python scripts/smallest_effects.py --audit homogeneity --draws 100

To be run again when an audit's estimators or worlds change; tests/test_planning.py says when the file is out of date.
Its column simulated is then empty: scripts/simulate_plan.py --write fills it.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

from markedness import audits
from markedness.typical import draw_typical

AUDITS = Path(__file__).resolve().parents[1] / "src" / "markedness" / "audits"


def rows(audit: str, size: str, draws: int) -> list[dict[str, object]]:
    """Of one size, in the order of the headline."""
    return [{"size": size, **asdict(one)} for one in draw_typical(audit, size, draws)]


def main() -> None:
    """Draw the sizes of each audit side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audit", action="append", default=[])
    parser.add_argument("--draws", type=int, default=100)
    asked = parser.parse_args()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for audit in asked.audit or audits.AUDITS:
            sizes = list(audits.spec(audit).sizes)
            made = pool.map(rows, [audit] * len(sizes), sizes, [asked.draws] * len(sizes))
            table = pd.DataFrame([row for of_size in made for row in of_size])
            table.to_csv(AUDITS / audit / "smallest_effects.csv", index=False)
            print(f"{audit}: {len(table)} rows", flush=True)


if __name__ == "__main__":
    main()
