"""Every audit on small data: shuffled rows and values give the same Scores, and a Score that is missing says why."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from markedness import audits, params, pipeline
from markedness.axes import as_written
from markedness.records import AuditError
from markedness.store import Store

RACES = ("White", "Black")
AXES = {"race": {"unmarked": "White", "values": {"White": {}, "Black": {}}}}


def personas(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    words = ["river", "book", "garden", "small", "music", "bread", "coffee", "walk", "brother", "window"]
    rows = [
        {"text": " ".join(rng.choice(words, 12)), "race": race, "prompt": f"p{prompt}"}
        for race, prompt, _ in product(RACES, range(2), range(10))
    ]
    block = {"axes": AXES, "featurize": {"embeddings": None}, "evaluate": {"n_permutations": 99, "n_resamples": 99}}
    return pd.DataFrame(rows), block


def homogeneity(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    rows = [
        {"text": str(rng.choice(["tea", "rum", "milk"])), "cue": cue, "race": race, "name": name and f"{race}{name}"}
        for cue, race, name, _ in product(("sports", "exam"), RACES, ("", *"abcdefgh"), range(3))
    ]  # fmt: skip
    return pd.DataFrame(rows), {"axes": AXES, "evaluate": {"n_resamples": 99, "n_permutations": 99}}


def guise(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    words = ("aggressive", "brilliant", "dirty", "lazy", "intelligent", "loud", "stupid", "kind", "rude", "musical")
    rows = [
        {"prompt_id": prompt, "candidate": word, "guise": side, "verb": f"{side} {verb}",
         "log_prob": round(rng.normal(-8, 1), 3)}
        for prompt, word, side, verb, _ in product(("T1", "T3"), words, ("AAE", "SAE"), range(6), range(2))
    ]  # fmt: skip
    return pd.DataFrame(rows), {}


def knowledge(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    objects = ["kind people", "terrible criminals", "good neighbours", "lazy and stupid", "wonderful cooks"]
    rows = [
        {"subject": subject, "predicate": "are", "object": str(rng.choice(objects)), "arm": arm, "crawl": f"c{crawl}"}
        for subject, arm, crawl, _ in product(("Bakers", "Sailors"), ("both", "none"), range(7), range(2))
    ]
    axes = {"trade": {"unmarked": "Bakers", "values": {"Bakers": {}, "Sailors": {}}}}
    return pd.DataFrame(rows), {"axes": axes}


def annotation(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    rows = [
        {"race": race, "task": task, "vignette": f"v{vignette}", "name": f"{race}{name}",
         "pair": f"{vignette}/{name}", "y": int(rng.integers(2))}
        for race, task, vignette, name in product(RACES, ("hireable", "criminal"), range(7), range(7))
    ]  # fmt: skip
    return pd.DataFrame(rows), {"axes": AXES}


CORPORA = {"personas": personas, "homogeneity": homogeneity, "guise": guise, "knowledge": knowledge,
           "annotation": annotation}  # fmt: skip


def scored(folder: Path, audit: str, block: dict[str, Any], tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Model -> its scores.csv, for one corpus a model."""
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return run(folder, audit, block, {name: {"backend": "corpus", audit: {"path": f"{name}.csv"}} for name in tables})


def run(folder: Path, audit: str, block: dict[str, Any], models: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Model -> its scores.csv."""
    content = {"audits": [audit], "run": list(models), "seed": 1, "models": models, audit: block, "size": "quick"}
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    study = params.load(folder / "params.yaml")
    for model, stage in product(models, audits.STAGES):
        pipeline.STAGES[stage](study, audit, model, say=lambda _: None)
    store = Store(folder)
    return {model: pd.read_csv(store.results(audit, model) / "scores.csv", keep_default_na=True) for model in models}


@pytest.mark.parametrize("audit", sorted(CORPORA))
def test_scores_of_shuffled_rows_are_the_same(audit: str, tmp_path: Path) -> None:
    table, block = CORPORA[audit](np.random.default_rng(3))
    made = scored(tmp_path, audit, block, {"file": table, "shuffled": table.sample(frac=1, random_state=1)})
    pd.testing.assert_frame_equal(made["file"], made["shuffled"])
    assert made["file"]["p"].notna().any()


@pytest.mark.parametrize("audit", sorted(CORPORA))
def test_values_of_an_axis_in_another_order_give_the_same_scores(audit: str, tmp_path: Path) -> None:
    block = {
        "homogeneity": {"evaluate": {"n_resamples": 99}},
        "knowledge": CORPORA["knowledge"](np.random.default_rng(3))[1],
    }
    model = {"model": {"backend": "scripted", "rule": "none"}}
    first = run(tmp_path, audit, block.get(audit, {}), model)["model"]
    axes = params.load(tmp_path / "params.yaml").axes(audit)
    turned = {
        name: {**axis.model_dump(), "values": {key: axis.values[key].model_dump() for key in reversed(axis.values)}}
        for name, axis in axes.items()
    }
    second = run(tmp_path, audit, {**block.get(audit, {}), "axes": turned}, model)["model"]
    pd.testing.assert_frame_equal(first, second)
    assert first["p"].notna().any()


def _dumped(axes: dict[str, Any], order: list[str]) -> dict[str, Any]:
    return {name: axes[name].model_dump() for name in order}


def test_text_sets_in_another_order_give_the_same_tables(tmp_path: Path) -> None:
    model, tables = {"model": {"backend": "scripted", "rule": "none"}}, []
    run(tmp_path, "guise", {}, model)
    pairs = params.load(tmp_path / "params.yaml").stage("guise", "generate").pairs
    assert len(pairs) > 1
    for order in (list(pairs), list(pairs)[::-1]):
        run(tmp_path, "guise", {"generate": {"pairs": {name: pairs[name].model_dump() for name in order}}}, model)
        files = sorted(Store(tmp_path).results("guise", "model").rglob("*.csv"))
        tables.append({path.name: pd.read_csv(path) for path in files})
    for name, table in tables[1].items():
        pd.testing.assert_frame_equal(_sorted(table), _sorted(tables[0][name]), obj=name)


CROSSED = {"personas": ["kind", "prompt"], "homogeneity": ["cue", "name"]}
"""Audits that cross axes -> columns of a corpus beside text and axes."""


@pytest.mark.parametrize("audit", CROSSED)
def test_axes_in_another_order_give_the_same_tables_but_for_the_names_of_groups(audit: str, tmp_path: Path) -> None:
    block = {"homogeneity": {"evaluate": {"n_resamples": 99}}}.get(audit, {})
    run(tmp_path, audit, block, {"model": {"backend": "scripted", "rule": "none"}})
    axes, store = params.load(tmp_path / "params.yaml").axes(audit), Store(tmp_path)
    first, second = as_written(axes), as_written(axes)[::-1]
    rows = store.read_table("generations", audit, "model")
    rows.to_csv(tmp_path / "texts.csv", columns=["text", *first, *CROSSED[audit]], index=False)
    tables = []
    for order in (first, second):
        written = {"axes": {name: axes[name].model_dump() for name in order}}
        run(tmp_path, audit, block | written, {"texts": {"backend": "corpus", audit: {"path": "texts.csv"}}})
        files = sorted(store.results(audit, "texts").rglob("*.csv"))
        tables.append({path.name: pd.read_csv(path) for path in files})
    names = {" x ".join(second): " x ".join(first)}
    names |= {" ".join(keys[::-1]): " ".join(keys) for keys in product(*(axes[name].values for name in first))}
    assert set(names) & {cell for table in tables[1].values() for cell in table.to_numpy().ravel()}
    assert list(tables[0]) == list(tables[1])
    for name, table in tables[1].items():
        keys = table.replace({rf"\b{re.escape(ours)}\b": theirs for ours, theirs in names.items()}, regex=True)
        pd.testing.assert_frame_equal(_sorted(keys), _sorted(tables[0][name]), obj=name)
    assert tables[0]["scores.csv"]["p"].notna().any()
    file = tmp_path / "params.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    content[audit]["axes"] = {name: content[audit]["axes"][name] for name in first}
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    if audit == "personas":  # words are by the names of groups
        with pytest.raises(AuditError, match="made by other axes; run clean and featurize again"):
            pipeline.evaluate(params.load(file), audit, "texts", lambda _: None)
    else:
        pipeline.evaluate(params.load(file), audit, "texts", lambda _: None)


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Rows by what is no number; what a Score is over by name."""
    if "over" in table:
        table = table.assign(over=table["over"].map(lambda over: sorted(str(over).split("; "))))
    keys = list(table.select_dtypes(exclude="number").columns)
    return table.sort_values(keys, key=lambda column: column.astype(str), ignore_index=True) if keys else table


GROUP = {"guise": "guise", "knowledge": "subject"}
"""Audit -> the column of the group, where it is not race."""


@pytest.mark.parametrize("audit", sorted(CORPORA))
def test_scores_that_are_missing_say_why(audit: str, tmp_path: Path) -> None:
    table, block = CORPORA[audit](np.random.default_rng(3))
    column = GROUP.get(audit, "race")
    tables = {"whole": table, "few": table.groupby(column).head(3)}
    if audit != "guise":  # which refuses a corpus of one guise
        tables["one"] = table[table[column].eq(table[column].max())]
    for name, made in scored(tmp_path, audit, block, tables).items():
        unmeasured = made[made["estimate"].isna()]
        assert unmeasured[["lacking", "method"]].notna().any(axis=1).all(), (name, unmeasured["key"].tolist())
        untested = made[made["family"].gt(0) & made["estimate"].notna() & made["p"].isna()]
        assert untested["lacking"].notna().all(), (name, untested["key"].tolist())
        assert made.loc[made["headline"], "key"].tolist() == list(audits.spec(audit).headline)
