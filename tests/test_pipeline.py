"""The stages as a person runs them: bad input gets one sentence, and nothing half-written stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from markedness import generation, params, pipeline, stale
from markedness.audits import STAGES
from markedness.files import StoreError
from markedness.lm.base import Draw, ModelError, RequestFailed
from markedness.lm.scripted import ScriptedModel as Scripted
from markedness.records import Completion

AXES = {
    "race": {"unmarked": "White", "values": {"White": {}, "Black": {}}},
    "gender": {"unmarked": "man", "values": {"man": {}, "woman": {}}},
}
WORDS = ["I", "like", "rivers", "and", "books", "my", "garden", "is", "small"]


def write_study(folder: Path, **source: Any) -> Path:
    """A study of one corpus."""
    content = {
        "audits": ["personas"],
        "models": {"texts": {"backend": "corpus", "personas": {"path": "texts.csv"} | source}},
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


@pytest.mark.slow
def test_featurize_says_how_many_answers_there_are_not_how_many_different_ones(tmp_path: Path) -> None:
    rows = [
        {"text": answer, "race": race, "gender": "man", "name": f"{race} {name}", "cue": "food"}
        for race in ("White", "Black")
        for name in range(3)
        for answer in ("tea", "tea", "bread", "tea")
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "answers.csv", index=False)
    source = {"backend": "corpus", "homogeneity": {"path": "answers.csv"}}
    content = {"audits": ["homogeneity"], "models": {"m": source}, "homogeneity": {"axes": AXES}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    loaded, said = params.load(tmp_path / "params.yaml"), list[str]()
    for stage in ("generate", "clean", "featurize"):
        pipeline.STAGES[stage](loaded, "homogeneity", "m", say=said.append)
    assert said[-1].startswith("homogeneity m: 24 answers"), said


@pytest.mark.slow
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


# ---------------------------------------------------------------- results are replaced only by results


def results(folder: Path) -> dict[str, bytes]:
    """Every file that a run leaves, but for the ledger."""
    places = [folder / "data", folder / "results", folder / "models"]
    files = [path for place in places for path in place.rglob("*") if path.is_file() and path.suffix != ".jsonl"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_run_whose_requests_all_failed_leaves_the_earlier_results(tmp_path: Path) -> None:
    model: dict[str, Any] = {"backend": "scripted", "rule": "planted"}
    content: dict[str, Any] = {
        "audits": ["homogeneity"],
        "models": {"m": model},
        "homogeneity": {
            "axes": {"gender": {"unmarked": "man", "values": {"man": {"noun": "man"}, "woman": {"noun": "woman"}}}},
            "generate": {"study": "group_labels", "cues": ["sports", "music"], "samples": 8},
            "evaluate": {"n_resamples": 20, "n_permutations": 20},
        },
    }
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert command(tmp_path, "run", "homogeneity", "--model", "m").returncode == 0
    before = results(tmp_path)
    assert "results/homogeneity/m/metrics.json" in before
    content["models"]["m"] = {
        "backend": "openai", "model": "x", "base_url": "http://127.0.0.1:9/v1", "max_attempts": 1, "max_wait": 0,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    for words in (("run",), ("generate", "--tolerate", "1")):
        done = command(tmp_path, *words, "homogeneity", "--model", "m")
        assert done.returncode == 1, done.stdout
        assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
        assert results(tmp_path) == before


def test_generate_whose_requests_all_failed_names_their_number_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: Scripted, draws: Sequence[Draw]) -> list[Completion]:
        raise RequestFailed("HTTP 401: no such key")

    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"models": {"m": {"backend": "scripted"}}}), encoding="utf-8")
    loaded = params.load(tmp_path / "params.yaml")
    monkeypatch.setattr(Scripted, "complete", refuse)
    with pytest.raises(generation.StageError, match=r"all [\d,]+ requests failed, so that nothing was written"):
        generation.generate(loaded, "guise", "m", say=lambda _: None)
    assert outputs(tmp_path) == []


def test_run_that_measures_nothing_puts_the_earlier_files_back_and_says_so(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    loaded = params.load(path)
    assert pipeline.run(loaded, "personas", "texts", say=lambda _: None)
    before = results(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("    personas:", "    guise:"), encoding="utf-8")
    with pytest.raises(
        generation.StageError, match=r"names no texts for personas.*the earlier results stay in results/p"
    ):
        pipeline.run(params.load(path), "personas", "texts", say=lambda _: None)
    assert results(tmp_path) == before


def test_run_that_breaks_in_a_late_stage_puts_the_earlier_files_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    loaded = params.load(path)
    pipeline.run(loaded, "personas", "texts", say=lambda _: None)
    before = results(tmp_path)
    write_texts(tmp_path, text="quite another text")

    def broken(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "evaluate", broken)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(loaded, "personas", "texts", say=lambda _: None)
    assert results(tmp_path) == before


@pytest.mark.slow
def test_run_with_no_room_for_the_earlier_files_is_one_sentence_and_changes_nothing(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    run(path)
    before = results(tmp_path)
    # a limit on the size of files stands for a full disk: the first thing that is written are the copies
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "limited", sys.executable, "-m", "markedness", "run", "personas"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*limited, "--model", "texts"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "File too large" in done.stderr and "free some space" in done.stderr
    assert results(tmp_path) == before


@pytest.mark.slow
def test_featurize_over_files_that_it_did_not_write_refuses_and_keeps_them(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    run(path)
    run(path)  # what it wrote itself is replaced
    weights = tmp_path / "models" / "personas" / "texts" / "model.safetensors"
    weights.write_bytes(b"weights")
    with pytest.raises(generation.StageError, match=r"model\.safetensors: is not a file that featurize wrote"):
        pipeline.featurize(params.load(path), "personas", "texts", say=lambda _: None)
    assert weights.read_bytes() == b"weights"


def test_read_of_a_truncated_table_names_the_stage_that_makes_it(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    write_texts(tmp_path)
    run(path)
    table = tmp_path / "data" / "responses" / "personas" / "texts.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(StoreError, match=r"texts\.parquet: cannot be read .*; run 'markedness clean personas"):
        pipeline.featurize(params.load(path), "personas", "texts", say=lambda _: None)


def test_run_says_the_groups_found_before_anything_is_computed(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_texts(tmp_path)
    said: list[str] = []
    generation.generate(params.load(tmp_path / "params.yaml"), "personas", "texts", said.append)
    assert said[0] == (
        "personas texts: 32 rows of 1 file(s), 4 groups: Black man 8, Black woman 8, White man 8, White woman 8"
    )


@pytest.mark.parametrize("place", ["texts.csv", "te*.csv", "data/corpora/own/texts.csv"])
def test_generate_within_dvc_names_texts_that_it_does_not_watch_and_results_are_older_than_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("DVC_STAGE", "generate")
    folder = (tmp_path / place).parent
    folder.mkdir(parents=True, exist_ok=True)
    write_texts(folder)
    loaded = params.load(write_study(tmp_path, path=place))
    said: list[str] = []
    generation.generate(loaded, "personas", "texts", said.append)
    force, watched = "dvc repro --force generate@personas-texts", folder != tmp_path
    expected = [
        f"personas texts: DVC does not watch {place}; after a change of it run '{force}', or keep it under "
        "data/corpora/own"
    ]
    assert [one for one in said if "watch" in one] == ([] if watched else expected)
    one = ("personas", "texts")
    assert not stale.stale(loaded, [one])
    write_texts(folder, text="Other words.")
    why = f"texts.csv, which DVC does not watch: first run '{force}'"
    assert stale.stale(loaded, [one]) == ({} if watched else {one: why})
    generation.generate(loaded, "personas", "texts", said.append)
    assert not stale.stale(loaded, [one])
    if "*" in place:
        (folder / "texts.csv").rename(folder / "texts2.csv")
        assert "texts2.csv, which DVC does not watch" in stale.stale(loaded, [one])[one]


@pytest.mark.slow
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
