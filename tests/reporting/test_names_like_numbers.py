"""Ages, codes and years as names of groups, cues and words: the same in every table, page and comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from markedness import audits, pipeline, study
from markedness import params as params_file
from markedness.reporting import results
from markedness.separated import NAMES
from markedness.store import Store

AGES = ("07", "25", "40")


def corpus(folder: Path, cues: tuple[str, ...]) -> None:
    """Answers about a cue, whose name is that of its file."""
    folder.mkdir()
    for cue in cues:
        rows = [
            {"text": f"{answer} {cue}", "name": f"n{age}{gender}{n}", "age": age, "gender": gender}
            for age in AGES
            for gender in ("m", "f")
            for n in range(7)
            for answer in ("soccer", f"golf {n}", f"chess {age if n % 2 else n}")
        ]
        pd.DataFrame(rows).to_csv(folder / f"{cue}.csv", index=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> params_file.Params:
    folder = tmp_path_factory.mktemp("study")
    axes = {
        "age": {"unmarked": "40", "values": {age: {"noun": f"{age}-year-old"} for age in AGES}},
        "gender": {"unmarked": "m", "values": {"m": {"noun": "man"}, "f": {"noun": "woman"}}},
    }
    corpus(folder / "one", ("01", "02"))
    corpus(folder / "two", ("01", "03"))
    few = {"n_permutations": 50, "n_resamples": 50}
    content: dict[str, Any] = {
        "audits": ["personas", "homogeneity"], "run": ["planted", "one", "two"],
        "models": {
            "planted": {"backend": "scripted", "rule": "planted"},
            **{name: {"backend": "corpus", "homogeneity": {"path": f"{name}/*.csv"}} for name in ("one", "two")},
        },
        "personas": {
            "axes": axes, "generate": {"samples": 12}, "evaluate": few,
            "featurize": {"embeddings": None, "svm": {"enabled": False}},
        },
        "homogeneity": {"axes": axes, "evaluate": few},
    }  # fmt: skip
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    params = params_file.load(folder / "params.yaml")
    for audit, model in (("personas", "planted"), ("homogeneity", "one"), ("homogeneity", "two")):
        for stage in audits.STAGES:
            pipeline.STAGES[stage](params, audit, model, say=lambda _: None)
    return params


def table(params: params_file.Params, audit: str, model: str, stem: str) -> pd.DataFrame:
    found = results.read(Store(params.root), audit, model, audits.spec(audit).card)
    assert found is not None
    return found.table(stem)


def test_names_like_numbers_are_read_as_they_are_written(done: params_file.Params) -> None:
    assert {"07", "25"} <= set(table(done, "personas", "planted", "marked_words")["group"])
    effects = table(done, "homogeneity", "one", "effects")
    assert set(effects["cue"]) == {"01", "02"}
    for path in sorted(done.root.glob("results/*/*/tables/*.csv")):
        written = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
        read = table(done, path.parts[-4], path.parts[-3], path.stem)
        for column in read.columns.intersection(list(NAMES)):
            assert read[column].dropna().tolist() == written[column].dropna().tolist(), (path, column)


def test_names_like_numbers_are_reported_compared_and_exported(done: params_file.Params) -> None:
    study.compare(done, say=lambda _: None)
    study.report(done, say=lambda _: None)
    study.export(done, done.root / "paper", say=lambda _: None)
    assert study.replicate(done, "one", "two", say=lambda _: None).n
    assert "| persona | 07 |" in (done.root / "paper/personas/planted/marked_words.md").read_text(encoding="utf-8")
    assert (done.root / "reports" / "planted.html").exists()
