"""Earlier results are replaced only by results, whenever a run is cut short, and never by two runs at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace as replaced
from pathlib import Path

import pandas as pd
import pytest
import yaml

from markedness import kept, params, pipeline
from markedness.files import StoreError, renewed
from markedness.records import Features
from markedness.store import Store
from markedness.study import compare

ROOT = Path(__file__).parents[1]


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """A file, a folder, and a place where nothing was before."""
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "old.csv").write_text("old")
    (tmp_path / "file.parquet").write_text("old")
    return {"file": tmp_path / "file.parquet", "folder": tmp_path / "folder", "absent": tmp_path / "absent"}


def replace(places: dict[str, Path]) -> None:
    """What a new run does before it fails: files are replaced whole."""
    places["file"].unlink()
    places["file"].write_text("new")
    places["folder"].rename(places["folder"].with_name("away"))
    places["folder"].mkdir()
    (places["folder"] / "new.csv").write_text("new")
    places["absent"].mkdir()


def state(places: dict[str, Path]) -> dict[str, str]:
    return {
        path.relative_to(place.parent).as_posix(): path.read_text()
        for place in places.values()
        for path in ([place] if place.is_file() else sorted(place.rglob("*")))
        if path.is_file()
    }


OLD = {"file.parquet": "old", "folder/inner/old.csv": "old"}


def test_kept_files_are_put_back_where_the_block_fails(tmp_path: Path, places: dict[str, Path]) -> None:
    with pytest.raises(KeyboardInterrupt), kept.earlier(tmp_path / "kept", places):
        replace(places)
        raise KeyboardInterrupt
    assert state(places) == OLD and not places["absent"].exists()
    assert not (tmp_path / "kept").exists()


def test_kept_files_are_given_up_where_the_block_ends_well(tmp_path: Path, places: dict[str, Path]) -> None:
    with kept.earlier(tmp_path / "kept", places):
        replace(places)
    assert state(places) == {"file.parquet": "new", "folder/new.csv": "new"}
    assert places["absent"].exists() and not (tmp_path / "kept").exists()


@pytest.mark.parametrize("cut", range(1, 6))
def test_putting_back_cut_short_at_any_renaming_is_finished_by_the_next(
    tmp_path: Path, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    rename, calls = Path.rename, 0

    def interrupted(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == cut:
            raise KeyboardInterrupt
        return rename(self, target)

    with pytest.raises(KeyboardInterrupt), kept.earlier(tmp_path / "kept", places):
        replace(places)
        monkeypatch.setattr(Path, "rename", interrupted)
        raise ValueError("the run failed")
    monkeypatch.setattr(Path, "rename", rename)
    assert kept.left_over(tmp_path / "kept")
    kept.put_back(tmp_path / "kept", places)
    assert state(places) == OLD and not places["absent"].exists()


def study(folder: Path) -> params.Params:
    content = {
        "audits": ["homogeneity"], "models": {"m": {"backend": "scripted"}}, "run": ["m"],
        "homogeneity": {"generate": {"cues": ["sports"], "names_per_group": 2, "samples": 2}},
    }  # fmt: skip
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return params.load(folder / "params.yaml")


def test_stage_after_a_killed_run_first_puts_back_what_was_kept(tmp_path: Path) -> None:
    loaded = study(tmp_path)
    store = Store(tmp_path)
    assert pipeline.run(loaded, "homogeneity", "m", lambda _: None)
    table = store.table_path("generations", "homogeneity", "m")
    before = table.read_bytes()
    block = kept.earlier(store.kept("homogeneity", "m"), {"generations": table})
    block.__enter__()  # as by a run that was killed: the block never ends
    table.unlink()
    said: list[str] = []
    pipeline.stage("clean", loaded, "homogeneity", "m", said.append)
    assert table.read_bytes() == before and "the files of the one before are back" in said[0]


def test_compare_after_a_killed_run_first_puts_back_what_was_kept(tmp_path: Path) -> None:
    loaded = study(tmp_path)
    store = Store(tmp_path)
    assert pipeline.run(loaded, "homogeneity", "m", lambda _: None)
    table = store.table_path("generations", "homogeneity", "m")
    before = table.read_bytes()
    block = kept.earlier(store.kept("homogeneity", "m"), {"generations": table})
    block.__enter__()  # as by a run that was killed: the block never ends
    table.unlink()
    table.write_bytes(b"of the run that was killed")
    done = subprocess.run(
        [sys.executable, "-m", "markedness", "compare"], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert table.read_bytes() == before and not kept.left_over(store.kept("homogeneity", "m"))


def test_run_beside_another_of_the_same_audit_and_model_ends_in_a_sentence_and_touches_nothing(tmp_path: Path) -> None:
    store = Store(study(tmp_path).root)
    theirs = store.table_path("generations", "homogeneity", "m")
    theirs.parent.mkdir(parents=True)
    theirs.write_text("the other run's")
    with store.locked("homogeneity m"):
        command = [sys.executable, "-m", "markedness", "run", "homogeneity", "--model", "m"]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 1 and "homogeneity m: another run is writing it" in done.stderr
    assert theirs.read_text() == "the other run's"


def test_features_are_not_written_through_a_link_nor_over_files_of_others(tmp_path: Path) -> None:
    store, elsewhere = Store(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("mine")
    folder = store.features_path("homogeneity", "m")
    folder.parent.mkdir(parents=True)
    folder.symlink_to(elsewhere)
    made = Features({"answers": pd.DataFrame({"n": [1]})})
    with pytest.raises(StoreError, match="is a symbolic link"):
        store.write_features("homogeneity", "m", made, {})
    folder.unlink()
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"thesis\.txt: was not written by featurize"):
        store.write_features("homogeneity", "m", made, {})
    assert (elsewhere / "thesis.txt").read_text() == (folder / "thesis.txt").read_text() == "mine"


def test_folder_that_is_a_link_is_refused_and_written_once_the_link_is_gone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "results"
    folder.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(StoreError, match="is a symbolic link"), renewed(folder):
            pass
    folder.unlink()
    with renewed(folder) as new:
        (new / "a.csv").write_text("a")
    assert (folder / "a.csv").read_text() == "a" and not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("link", ["results", "data", "data/features/homogeneity", "models"])
def test_run_through_a_folder_that_leads_out_of_the_study_is_refused_and_touches_nothing(
    tmp_path: Path, link: str
) -> None:
    (tmp_path / "study").mkdir()
    loaded, elsewhere = study(tmp_path / "study"), tmp_path / "elsewhere"
    theirs = elsewhere / "homogeneity" / "m" / "thesis.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    (loaded.root / link).parent.mkdir(parents=True, exist_ok=True)
    (loaded.root / link).symlink_to(elsewhere)
    said = rf"{link}: is a symbolic link to {elsewhere}, outside of the study, and outputs are neither written nor"
    with pytest.raises(StoreError, match=said):
        pipeline.run(loaded, "homogeneity", "m", lambda _: None)
    for name in pipeline.STAGES:
        with pytest.raises(StoreError, match=said):
            pipeline.stage(name, loaded, "homogeneity", "m", lambda _: None)
    if link == "results":
        with pytest.raises(StoreError, match=said):
            compare(loaded, lambda _: None)
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == [theirs] and theirs.read_text() == "mine"


def test_run_of_a_study_behind_a_link_writes_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "disk" / "inner").mkdir(parents=True)
    study(tmp_path / "disk")
    (tmp_path / "study").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "results").symlink_to("inner")  # leads to a folder of the study
    loaded = params.load(tmp_path / "study" / "params.yaml")
    assert pipeline.run(replaced(loaded, root=tmp_path / "study"), "homogeneity", "m", lambda _: None)
    assert (tmp_path / "disk" / "inner" / "homogeneity" / "m" / "metrics.json").exists()


@pytest.mark.slow
def test_run_over_links_into_the_cache_of_dvc_replaces_the_links_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With cache.type symlink DVC makes links of files, and folders of such links; the cache stays as it was."""
    from dvc.repo import Repo

    monkeypatch.chdir(tmp_path)
    loaded, store = study(tmp_path), Store(tmp_path)
    assert pipeline.run(loaded, "homogeneity", "m", lambda _: None)
    made = [place for place in store.written("homogeneity", "m") if place.exists()]
    cache = tmp_path / ".dvc" / "cache"
    with Repo.init(str(tmp_path), no_scm=True) as repo, repo.config.edit() as config:
        config["cache"]["type"] = ["symlink"]
    with Repo(str(tmp_path)) as repo:
        repo.add([str(place) for place in made])
    files_of = [path for place in made for path in ([place] if place.is_file() else place.rglob("*.*"))]
    assert sum(path.is_symlink() for path in files_of) > 5 and not any(
        path.is_symlink() for path in made if path.is_dir()
    )
    kept_by_dvc = {path: path.read_bytes() for path in cache.rglob("*") if path.is_file()}
    for name in pipeline.STAGES:
        pipeline.stage(name, loaded, "homogeneity", "m", lambda _: None)
    with Repo(str(tmp_path)) as repo:
        repo.checkout(force=True, relink=True)
    assert pipeline.run(loaded, "homogeneity", "m", lambda _: None)
    assert [path.name for path in files_of if path.is_symlink()] == ["m.judge.jsonl"]  # empty before and after
    assert {path: path.read_bytes() for path in kept_by_dvc} == kept_by_dvc
    with Repo(str(tmp_path)) as repo:
        repo.checkout(force=True, relink=True)
    with pytest.raises(ZeroDivisionError), kept.earlier(store.kept("homogeneity", "m"), {"table": files_of[0]}):
        assert files_of[0].is_symlink()
        files_of[0].unlink()
        _ = 1 / 0
    assert files_of[0].is_symlink() and {path: path.read_bytes() for path in kept_by_dvc} == kept_by_dvc
