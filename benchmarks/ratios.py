"""Hold a benchmark to the ratio that docs/performance.md has of it."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

MEASURED = Path(__file__).with_name("ratios.csv")
"""What the page shows: one row a benchmark."""
FALL = 1 / 3
"""Share of a ratio that noise may take; a fall beyond it is one of the code."""


def held(benchmark: str, ratio: float) -> None:
    """Print a ratio beside the one on the page, and end with exit status 1 where it fell by more than a third."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        before = {row["benchmark"]: float(row["ratio"]) for row in csv.DictReader(file)}[benchmark]
    print(f"ratio:     {ratio:.2f}, {before:.2f} when docs/performance.md was written", flush=True)
    if ratio < before * (1 - FALL):
        sys.exit(f"{benchmark}: the ratio fell by more than a third, from {before:.2f} to {ratio:.2f}")
