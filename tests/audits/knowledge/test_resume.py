"""A crawl that was killed goes on with the same choices, and asks only for what is missing."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import yaml

from markedness import params, pipeline
from markedness.store import Store

STUDY = {
    "audits": ["knowledge"],
    "models": {"m": {"backend": "scripted", "rule": "planted"}},
    "knowledge": {
        "axes": {"trade": {"unmarked": "Bakers", "values": {"Bakers": {}, "Sailors": {}, "Millers": {}}}},
        "generate": {"completions": 2, "rounds": 3, "draws": 3},
    },
}


def test_crawl_killed_at_any_point_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(STUDY), encoding="utf-8")
    study, store = params.load(tmp_path / "params.yaml"), Store(tmp_path)
    whole = pipeline.generate(study, "knowledge", "m", say=lambda _: None)
    first = store.read_table("generations", "knowledge", "m")
    assert whole.requested == len(first) == 3 * (4 * 2 + 3 * 2 * 3)
    lines = store.ledger_path("knowledge", "m").read_bytes().splitlines(keepends=True)
    for kept in (5, 30, 60):
        store.ledger_path("knowledge", "m").write_bytes(b"".join(lines[:kept]) + lines[kept][:20])
        counts = pipeline.generate(study, "knowledge", "m", say=lambda _: None)
        assert counts.from_ledger == kept
        pd.testing.assert_frame_equal(store.read_table("generations", "knowledge", "m"), first)
