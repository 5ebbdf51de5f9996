"""Texts that exist already: read as they are, and every fault of a file said in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from markedness.lm import corpus
from markedness.lm.base import ModelError
from markedness.lm.config import CorpusSource
from markedness.records import Axes, Axis, Value

AXES: Axes = {
    "race": Axis(unmarked="White", values={"White": Value(), "Black": Value()}),
    "gender": Axis(unmarked="man", values={"man": Value(), "woman": Value()}),
}


def read(folder: Path, path: str = "texts.csv", **source: Any) -> pd.DataFrame:
    return corpus.read_corpus(
        CorpusSource(path=path, **source), folder, "models.m.personas", AXES, ["text"], ["prompt"]
    )


def test_read_corpus_with_odd_columns_and_codes_gives_generations(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text(
        ',Unnamed: 0,words,r,g,prompt_num\n0,7,hello,a Black,W,\n1,8,"two\nlines",a White,M,\n', encoding="utf-8"
    )
    rows = read(
        tmp_path,
        columns={"text": "words", "race": "r", "gender": "g"},
        values={"race": {"a Black": "Black", "a White": "White"}, "gender": {"W": "woman", "M": "man"}},
    )
    assert rows["group"].tolist() == ["Black woman", "White man"]
    assert rows["text"].tolist() == ["hello", "two\nlines"]
    assert rows["prompt_id"].tolist() == ["", ""]


def test_read_corpus_with_one_axis_or_empty_cells_fixes_fewer_axes(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,race\na,Black\nb,\nNA,White\n", encoding="utf-8")
    rows = read(tmp_path)
    assert rows["group"].tolist() == ["Black", "", "White"]
    assert rows["text"].tolist() == ["a", "b", "NA"]


def test_read_corpus_with_missing_values_of_parquet_and_json_reads_them(tmp_path: Path) -> None:
    table = pd.DataFrame({"text": ["a", None], "race": ["Black", None], "gender": [None, "man"]})
    table.to_parquet(tmp_path / "texts.parquet")
    table.to_json(tmp_path / "texts.jsonl", orient="records", lines=True)
    for path in ("texts.parquet", "texts.jsonl"):
        rows = read(tmp_path, path)
        assert rows["group"].tolist() == ["Black", "man"]
        assert rows["text"].isna().tolist() == [False, True]


def test_read_corpus_of_several_files_counts_rows_in_each(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,race\nx,Black\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("text,race\nx,Black\ny,Martian\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"values\.race: b\.csv row 2 has 'Martian'.*map it to one of White, Black"):
        read(tmp_path, "*.csv")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"path: .*texts\.csv is empty; name a file with texts"),
        (b"text,race\n", r"path: texts\.csv holds no rows; name a file with texts"),
        (b"words,race\nx,Black\n", r"columns\.text: .*has no column 'text'; it has words, race"),
        (b"words;race\nx;Black\n", r"it has words;race; save it with commas between the columns"),
        (b"text,race\n\xff\xfe broken,Black\n", r"texts\.csv is not UTF-8 \(byte \d+\); save it as UTF-8"),
        (b"text,race\nx,Black\ny,Black,one,too,many\n", r"texts\.csv cannot be read as \.csv: .*line 3"),
        (b"text,race\n" + b"x" * 10_000_000 + b",Black\n", r"row 1 has 10,000,000 characters in the column 'text'"),
    ],
    ids=["empty", "header only", "missing column", "semicolons", "invalid UTF-8", "ragged", "10 MB"],
)
def test_read_corpus_of_a_bad_file_says_what_is_wrong(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "texts.csv").write_bytes(content)
    with pytest.raises(ModelError, match=sentence) as caught:
        read(tmp_path)
    assert str(caught.value).startswith("models.m.personas.")
    assert "\n" not in str(caught.value)


def test_read_corpus_without_a_file_names_the_pattern(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"path: no file matches 'gone/\*\.csv'; get the data or correct the path"):
        read(tmp_path, "gone/*.csv")


def test_read_corpus_with_other_spellings_and_number_codes_finds_the_values(tmp_path: Path) -> None:
    pd.DataFrame({"text": ["a", "b", "c"], "race": [1.0, None, 2.0], "gender": ["WOMAN", "F", "man"]}).to_parquet(
        tmp_path / "texts.parquet"
    )
    axes = AXES | {"gender": Axis(unmarked="man", values={"man": Value(), "woman": Value(aliases=("F",))})}
    source = CorpusSource(path="texts.parquet", values={"race": {1: "White", 2: "Black"}})
    rows = corpus.read_corpus(source, tmp_path, "models.m.personas", axes, ["text"])
    assert rows["group"].tolist() == ["White woman", "woman", "Black man"]


def test_read_corpus_with_a_spelling_of_two_values_asks_for_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,race\nx,light\n", encoding="utf-8")
    axes = {"race": Axis(unmarked="W", values={"W": Value(aliases=("light",)), "A": Value(label="Light")})}
    with pytest.raises(ModelError, match=r"row 1 has 'light', no value of the axis; map it to one of W, A"):
        corpus.read_corpus(CorpusSource(path="texts.csv"), tmp_path, "models.m.personas", axes, ["text"])
