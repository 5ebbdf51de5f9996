"""A study of published triples that a service or a judge scores: generate and clean are done, featurize is to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from markedness import params as params_file
from markedness import pipeline
from markedness.params import Params

ROWS = ("Bakers,love,bread", "Sailors,hate,tea", "Sailors,love,bread", "Bakers,hate,tea", "Bakers,love,bread")
"""Four different triples."""


def study(
    folder: Path, featurize: Mapping[str, Any], models: Mapping[str, Any] | None = None, rows: Sequence[str] = ROWS
) -> Params:
    """The corpus "m" of these rows; ``featurize``: knowledge.featurize; ``models``: further models."""
    folder.mkdir(exist_ok=True)
    (folder / "triples.csv").write_text("\n".join(["subject,predicate,object", *rows]), encoding="utf-8")
    content = {
        "audits": ["knowledge"],
        "run": ["m"],
        "models": {"m": {"backend": "corpus", "knowledge": {"path": "triples.csv"}}, **(models or {})},
        "knowledge": {
            "axes": {"trade": {"unmarked": "Bakers", "values": {"Bakers": {}, "Sailors": {}}}},
            "featurize": dict(featurize),
        },
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    params = params_file.load(folder / "params.yaml")
    for stage in ("generate", "clean"):
        pipeline.STAGES[stage](params, "knowledge", "m", say=lambda _: None)
    return params


def featurize(params: Params) -> tuple[pd.DataFrame, str]:
    """The scored triples, and what was said meanwhile."""
    said: list[str] = []
    pipeline.featurize(params, "knowledge", "m", said.append)
    return pd.read_parquet(params.root / "data/features/knowledge/m/triples.parquet"), "\n".join(said)
