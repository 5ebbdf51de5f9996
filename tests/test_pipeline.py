"""The stages as a person runs them: bad input gets one sentence, and nothing half-written stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from markedness import params, pipeline
from markedness.audits import STAGES
from markedness.lm.base import ModelError
from markedness.store import StoreError

AXES = {
    "race": {"unmarked": "White", "values": {"White": {}, "Black": {}}},
    "gender": {"unmarked": "man", "values": {"man": {}, "woman": {}}},
}
WORDS = ["I", "like", "rivers", "and", "books", "my", "garden", "is", "small"]


def write_study(folder: Path, **source: Any) -> Path:
    """A study of one corpus."""
    content = {
        "audits": ["personas"],
        "models": {"texts": {"backend": "corpus", "personas": {"path": "texts.csv", **source}}},
        "personas": {"axes": AXES},
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder / "params.yaml"


def write_texts(folder: Path, **changes: Any) -> pd.DataFrame:
    """Eight texts of each of four groups."""
    rows = [
        {"text": f"{' '.join(WORDS[i % 5 :])} {gender} {race}", "race": race, "gender": gender, "prompt": f"p{i % 2}"}
        for race in ("White", "Black")
        for gender in ("man", "woman")
        for i in range(8)
    ]
    table = pd.DataFrame(rows).assign(**changes)
    table.to_csv(folder / "texts.csv", index=False)
    return table


def run(path: Path) -> None:
    loaded = params.load(path)
    for stage in STAGES:
        pipeline.STAGES[stage](loaded, "personas", "texts", say=lambda _: None)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line as a person calls it."""
    source = str(Path(__file__).parents[1] / "src")
    env = {**os.environ, "PYTHONPATH": source}
    return subprocess.run(
        [sys.executable, "-m", "markedness", *arguments], cwd=folder, env=env, capture_output=True, text=True
    )


def outputs(folder: Path) -> list[Path]:
    """What a run left behind."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix in (".parquet", ".json")]


def test_run_on_an_empty_file_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    for content in ("", "text,race,gender,prompt\n"):
        (tmp_path / "texts.csv").write_text(content, encoding="utf-8")
        with pytest.raises(ModelError, match=r"models\.texts\.personas\.path: .*texts\.csv") as error:
            run(path)
        assert "\n" not in str(error.value)
        assert outputs(tmp_path) == []


def test_run_without_a_needed_column_names_it_and_the_known_ones(tmp_path: Path) -> None:
    path = write_study(tmp_path, columns={"text": "answer"})
    write_texts(tmp_path)
    with pytest.raises(ModelError, match=r"has no column 'answer'; it has text, race, gender, prompt"):
        run(path)
    assert outputs(tmp_path) == []


def test_run_with_an_unknown_code_names_row_code_and_values(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    table = write_texts(tmp_path)
    table.loc[3, "race"] = "Blck"
    table.to_csv(tmp_path / "texts.csv", index=False)
    with pytest.raises(ModelError, match=r"'Blck'.*White, Black"):
        run(path)


def test_run_on_invalid_utf8_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    (tmp_path / "texts.csv").write_bytes((tmp_path / "texts.csv").read_bytes() + b"caf\xe9,White,man,p0\n")
    with pytest.raises(ModelError, match=r"texts\.csv is not UTF-8.*save it as UTF-8"):
        run(path)
    assert outputs(tmp_path) == []


def test_run_on_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no file matches"):
        run(write_study(tmp_path))


def test_run_with_a_text_of_ten_megabytes_names_its_row_and_leaves_nothing(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    table = write_texts(tmp_path)
    table.loc[2, "text"] = "river " * (10_000_000 // 6)
    table.to_csv(tmp_path / "texts.csv", index=False)
    with pytest.raises(ModelError, match="row 3") as error:
        run(path)
    assert len(str(error.value)) < 400
    assert outputs(tmp_path) == []


def test_run_without_texts_of_a_group_keeps_the_others_and_says_so(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    table = write_texts(tmp_path)
    table[~(table["race"].eq("Black") & table["gender"].eq("woman"))].to_csv(tmp_path / "texts.csv", index=False)
    run(path)
    folder = tmp_path / "results" / "personas" / "texts"
    words = pd.read_csv(folder / "tables" / "marked_words.csv")
    assert "Black woman" not in set(words["group"])
    assert "Black woman" in (folder / "notes.json").read_text(encoding="utf-8")


def test_run_where_a_folder_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    (tmp_path / "data").write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        run(path)


def test_command_with_bad_params_exits_2_with_a_line_per_fault(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    path.write_text(path.read_text(encoding="utf-8") + "sed: 1\nseed: x\n", encoding="utf-8")
    done = command(tmp_path, "params", "check")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 2
    assert "Traceback" not in done.stderr


def test_command_for_an_unknown_model_exits_2_and_names_the_known(tmp_path: Path) -> None:
    write_study(tmp_path)
    done = command(tmp_path, "run", "personas", "--model", "nobody")
    assert done.returncode == 2
    assert "'nobody' is not defined; known: texts" in done.stderr


def test_command_on_bad_data_exits_1_with_one_sentence(tmp_path: Path) -> None:
    write_study(tmp_path)
    done = command(tmp_path, "run", "personas", "--model", "texts")
    assert done.returncode == 1
    assert done.stderr.startswith("error: models.texts.personas.path: no file matches")
    assert len(done.stderr.strip().splitlines()) == 1


def test_command_from_another_folder_writes_beside_its_params_file(tmp_path: Path) -> None:
    study, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    study.mkdir()
    elsewhere.mkdir()
    path = write_study(study)
    write_texts(study)
    done = command(elsewhere, "run", "personas", "--model", "texts", "--params", str(path))
    assert done.returncode == 0, done.stderr
    assert (study / "results" / "personas" / "texts" / "metrics.json").is_file()
    assert outputs(elsewhere) == []
