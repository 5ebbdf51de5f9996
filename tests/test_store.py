"""Files are written whole or not at all, and a stimulus is found where the docs say."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from markedness.store import Store, StoreError, atomic


def test_atomic_when_the_block_fails_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError), atomic(path) as part:
        part.write_text("half", encoding="utf-8")
        raise RuntimeError
    assert path.read_text(encoding="utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


def test_atomic_where_a_folder_cannot_be_made_says_so(tmp_path: Path) -> None:
    blocker = tmp_path / "data"
    blocker.write_text("a file, no folder", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"), atomic(blocker / "x.csv"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_atomic_in_an_unwritable_folder_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot be written"), atomic(tmp_path / "x.csv"):
        pass


def test_read_table_before_its_stage_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="markedness clean personas --model m"):
        Store(tmp_path).read_table("responses", "personas", "m")


def test_write_json_writes_missing_numbers_as_null(tmp_path: Path) -> None:
    Store(tmp_path).write_json(tmp_path / "m.json", {"a": float("nan"), "b": 1.5})
    assert (tmp_path / "m.json").read_text(encoding="utf-8") == '{\n  "a": null,\n  "b": 1.5\n}\n'


def test_write_csv_keeps_numbers_unrounded(tmp_path: Path) -> None:
    Store(tmp_path).write_csv(tmp_path / "t.csv", pd.DataFrame({"x": [0.1 + 0.2, float("nan")]}))
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == 'x\n0.30000000000000004\n""\n'


def test_stimuli_of_the_study_win_over_the_packaged_ones(tmp_path: Path) -> None:
    own = tmp_path / "data" / "stimuli" / "personas" / "prompts.csv"
    own.parent.mkdir(parents=True)
    own.write_text("prompt_id,text\np,Hello\n", encoding="utf-8")
    assert Store(tmp_path).stimuli("personas").table("prompts.csv")["text"].tolist() == ["Hello"]


def test_stimuli_without_a_needed_column_names_it(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(StoreError, match="column 'name' is missing; it has a, b"):
        Store(tmp_path).stimuli("annotation").table("names.csv", ["name"])


def test_stimuli_that_do_not_exist_name_every_place(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"neither in data/stimuli/guise/ nor beside params.yaml"):
        Store(tmp_path).stimuli("guise").text("nothing.txt")


def test_stimuli_that_are_not_utf8_name_the_byte(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_bytes(b"ab\xff")
    with pytest.raises(StoreError, match="not UTF-8 at byte 2"):
        Store(tmp_path).stimuli("guise").text("pairs.txt")


def test_clear_of_what_is_no_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file, no folder", encoding="utf-8")
    with pytest.raises(StoreError, match=r"results/personas/m: cannot be written \(Not a directory\)"):
        Store(tmp_path).clear(tmp_path / "results" / "personas" / "m", ("tables",))
