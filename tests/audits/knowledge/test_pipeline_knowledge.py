"""The audit through the pipeline: a killed crawl goes on with the same choices; published triples are measured."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
import yaml

from markedness import generation, params, pipeline
from markedness.records import AuditError
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
    whole = generation.generate(study, "knowledge", "m", say=lambda _: None)
    first = store.read_table("generations", "knowledge", "m")
    assert whole.requested == len(first) == 3 * (4 * 2 + 3 * 2 * 3)
    base = store.ledger_database("m")
    for kept in (5, 30, 60):
        with contextlib.closing(sqlite3.connect(base)) as opened:
            opened.execute("DELETE FROM answers WHERE id > ?", (kept,))
            opened.commit()
        store.ledger_path("knowledge", "m").unlink()
        counts = generation.generate(study, "knowledge", "m", say=lambda _: None)
        assert counts.from_ledger == kept
        pd.testing.assert_frame_equal(store.read_table("generations", "knowledge", "m"), first)


def test_published_triples_are_measured_like_a_crawl(tmp_path: Path) -> None:
    rows = [f"{s},love,{o}" for s in ("Bakers", "Sailors") for o in ("bread", "lying about money", "the sea")]
    (tmp_path / "triples.csv").write_text("\n".join(["who,predicate,object", *rows]), encoding="utf-8")
    corpus = {"backend": "corpus", "knowledge": {"path": "triples.csv", "columns": {"subject": "who"}}}
    content = {**STUDY, "models": {"m": corpus}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    study = params.load(tmp_path / "params.yaml")
    for stage in ("generate", "clean", "featurize", "evaluate"):
        pipeline.STAGES[stage](study, "knowledge", "m", say=lambda _: None)
    triples = pd.read_csv(tmp_path / "results/knowledge/m/tables/triples.csv")
    assert len(triples) == 6
    assert triples["class"].eq("trade").all() and triples["regard"].notna().all()


def test_published_triples_of_an_unknown_subject_name_it(tmp_path: Path) -> None:
    (tmp_path / "triples.csv").write_text("subject,predicate,object\nPirates,love,rum\n", encoding="utf-8")
    content = {**STUDY, "models": {"m": {"backend": "corpus", "knowledge": {"path": "triples.csv"}}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(AuditError, match=r"the subject 'Pirates', which is no value of knowledge.axes"):
        generation.generate(params.load(tmp_path / "params.yaml"), "knowledge", "m", say=lambda _: None)
