"""Every interval of every audit is at the confidence level of the params."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from markedness import audits, params, pipeline
from markedness.store import Store

FEW: dict[str, dict[str, Any]] = {
    "personas": {"generate": {"samples": 8}, "featurize": {"embeddings": None}},
    "homogeneity": {"generate": {"samples": 4}},
    "guise": {},
    "knowledge": {},
    "annotation": {},
}
DRAWS = {
    "personas": {"n_permutations": 50, "n_resamples": 50},
    "homogeneity": {"n_permutations": 50, "n_resamples": 50},
}
SHIPPED = "scorer_error"
"""A table that no study makes: at 95 %, as its card says."""


def intervals(folder: Path, audit: str, level: float) -> dict[tuple[str, str, int], float]:
    """(file, column, row) -> width of its interval, where that is not 0."""
    content = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    content[audit]["evaluate"] = {**DRAWS.get(audit, {}), "confidence_level": level}
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    pipeline.STAGES["evaluate"](params.load(folder / "params.yaml"), audit, "planted", say=lambda _: None)
    results = Store(folder).results(audit, "planted")
    found = {}
    for path in [results / "scores.csv", *sorted(results.glob("tables/*.csv"))]:
        table = pd.read_csv(path)
        for low in [name for name in map(str, table.columns) if "ci_low" in name and path.stem != SHIPPED]:
            widths = (table[low.replace("ci_low", "ci_high")] - table[low]).tolist()
            names = table["key"].astype(str).tolist() if path.name == "scores.csv" else [low] * len(table)
            for row, (name, width) in enumerate(zip(names, widths, strict=True)):
                if width > 1e-9:
                    found[path.stem, name, row] = width
    return found


@pytest.mark.slow
@pytest.mark.parametrize("audit", sorted(FEW))
def test_every_interval_is_at_the_confidence_level_of_the_params(audit: str, tmp_path: Path) -> None:
    models = {"planted": {"backend": "scripted", "rule": "planted"}}
    content = {"audits": [audit], "run": ["planted"], "models": models, audit: FEW[audit], "size": "quick"}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    study = params.load(tmp_path / "params.yaml")
    for stage in audits.STAGES[:3]:
        pipeline.STAGES[stage](study, audit, "planted", say=lambda _: None)
    wide, narrow = (intervals(tmp_path, audit, level) for level in (0.95, 0.5))
    assert len(wide) > 3
    same = sorted(
        {(file, name) for file, name, row in wide if narrow.get((file, name, row), 0) >= wide[file, name, row]}
    )
    assert not same
