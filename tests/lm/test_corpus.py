"""Texts that exist already: read as they are, and every fault of a file said in one sentence."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cells import row

from markedness.axes import Axes, Axis, Value
from markedness.lm import corpus
from markedness.lm.base import ModelError
from markedness.lm.config import CorpusSource
from markedness.records import CorpusColumns

AXES: Axes = {
    "race": Axis(unmarked="White", values={"White": Value(), "Black": Value()}),
    "gender": Axis(unmarked="man", values={"man": Value(), "woman": Value()}),
}


def read(folder: Path, path: str = "texts.csv", **source: Any) -> pd.DataFrame:
    return read_with(folder, AXES, path, **source).rows


def read_with(folder: Path, axes: Axes, path: str = "texts.csv", **source: Any) -> corpus.Corpus:
    columns = CorpusColumns(required=("text",), optional=("prompt",))
    return corpus.read_corpus(CorpusSource(path=path, **source), folder, "models.m.personas", axes, columns)


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
    rows = read(tmp_path, columns={"gender": None})
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


def test_read_corpus_of_parquet_reads_columns_that_pandas_wrote_as_an_index(tmp_path: Path) -> None:
    table = pd.DataFrame({"text": ["a", "b"], "race": ["Black", "White"], "gender": "man", "prompt": ["p", "q"]})
    table.set_index(["race", "prompt"]).to_parquet(tmp_path / "texts.parquet")
    rows = read(tmp_path, "texts.parquet")
    assert rows["group"].tolist() == ["Black man", "White man"] and rows["prompt"].tolist() == ["p", "q"]


def test_read_corpus_of_several_files_counts_rows_in_each(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,race\nx,Black\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("text,race\nx,Black\ny,Martian\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"values\.race: b\.csv row 2 has 'Martian'.*map it to one of White, Black"):
        read(tmp_path, "*.csv", columns={"gender": None})


@pytest.mark.parametrize(
    "content",
    [b'race,text\n"Black","one\rtwo"\n', b"race,text\r\r\nBlack,one\r\r\n", b"race,text\rBlack,one\r"],
    ids=["in quotes", "Python on Windows", "old Macintosh"],
)
def test_read_corpus_with_other_line_ends(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "texts.csv").write_bytes(content)
    assert read(tmp_path, columns={"gender": None})["text"].str.split().str[0].tolist() == ["one"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"path: .*texts\.csv is empty; name a file with texts"),
        (b"text,race\n", r"path: texts\.csv holds no rows; name a file with texts"),
        (b"words,race\nx,Black\n", r"columns\.text: .*has no column 'text'; it has words, race"),
        (b"words;race\nx;Black\n", r"has the one column words;race; save it with commas between columns"),
        (b"race,text\nBlack,x,y\nWhite,z,w\n", r"more cells in its rows than in its header; correct the header"),
        (b"text,race,text\nx,Black,y\n", r"columns\.text: texts\.csv has several columns 'text'; rename all but one"),
        (b"text,race\nx,Black\nzu\x00verl,White\n", r"texts\.csv line 3 has a NUL character; remove it"),
        (b"text,race\n\xff\xfe broken,Black\n", r"texts\.csv is not UTF-8 \(byte \d+\); save it as UTF-8"),
        (b"text,race\nx,Black\ny,Black,one,too,many\n", r"texts\.csv cannot be read as \.csv: .*line 3"),
        (
            b'race,text\nBlack,a\nWhite,"I am\nBlack,lost\nWhite,said ""no"" and "no way\nBlack,b\n',
            r"the row that begins in line 3 has a quoted cell that does not end, or goes on after its end",
        ),
        (b"race,text\nBlack,one\rtwo\n", r"carriage return \(\\r\) after 'Black,one', which would end its row"),
        (b'text,race\n"x,Black\ny,White\n', r"line 2 has a quoted cell that does not end"),
        (b"text,race\n" + b"x" * 10_000_000 + b",Black\n", r"row 1 has 10,000,000 characters in the column 'text'"),
    ],
    ids=[
        "empty",
        "header only",
        "missing column",
        "semicolons",
        "shifted",
        "twice",
        "NUL",
        "invalid UTF-8",
        "ragged",
        "marks",
        "carriage return",
        "unclosed",
        "10 MB",
    ],
)
def test_read_corpus_of_a_bad_file_says_what_is_wrong(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "texts.csv").write_bytes(content)
    with pytest.raises(ModelError, match=sentence) as caught:
        read(tmp_path, columns={"gender": None})
    assert str(caught.value).startswith("models.m.personas.")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("codes", "sentence"),
    [
        ({1: "White", "1": "Black"}, r"values\.race: 1 is White and '1' is Black, but a cell may be both; keep one"),
        ({"1.0": "White", 1: "Black"}, r"values\.race: '1\.0' is White and 1 is Black"),
        ({"é": "White", "e\u0301": "Black"}, r"is White and .* is Black, but a cell may be both"),
    ],
)
def test_read_corpus_refuses_two_values_for_one_code(tmp_path: Path, codes: dict[object, str], sentence: str) -> None:
    (tmp_path / "texts.csv").write_text("text,race\nx,1\ny,é\n", encoding="utf-8")
    with pytest.raises(ModelError, match=sentence):
        read(tmp_path, columns={"gender": None}, values={"race": codes})


def test_read_corpus_of_tabs_is_read_by_them(tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text("text\trace\nx, y\tBlack\n", encoding="utf-8")
    assert read(tmp_path, "texts.tsv", columns={"gender": None})["text"].tolist() == ["x, y"]
    (tmp_path / "texts.tsv").write_text("text,race\nx,Black\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"has the one column text,race; save it with tabs between columns"):
        read(tmp_path, "texts.tsv", columns={"gender": None})


SPOKEN = ['"Hello" she says', '"She is kind.', 'as kind as ever."', 'a "tall" woman', "plain", "nine, 'ten'"]


def test_read_corpus_of_tabs_keeps_quotation_marks_of_the_text(tmp_path: Path) -> None:
    lines = ["text\trace", *(f"{text}\tBlack" for text in SPOKEN)]
    (tmp_path / "texts.tsv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    assert read(tmp_path, "texts.tsv", columns={"gender": None})["text"].tolist() == SPOKEN


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("more", [[], ['"Hello"'], ['"Hello"', "two\nlines\tand a tab", "x" * 200_000]])
def test_read_corpus_of_tabs_with_the_quotes_of_a_program_is_read_without_them(
    tmp_path: Path, quoting: Literal[0, 1, 2], more: list[str]
) -> None:
    texts = [*SPOKEN, *more]
    table = pd.DataFrame({"text": texts, "race": "Black", "id": range(len(texts))})
    table.to_csv(tmp_path / "texts.tsv", sep="\t", index=False, quoting=quoting)
    assert read(tmp_path, "texts.tsv", columns={"gender": None})["text"].tolist() == texts


@pytest.mark.parametrize(
    "texts", [['"Hello"', "plain"], ['"She is kind.', 'as kind as ever."', '"Hello"'], ['"a""b"', 'says "b"']]
)
def test_read_corpus_of_tabs_whose_quotation_marks_may_be_of_either_kind_is_refused(
    tmp_path: Path, texts: list[str]
) -> None:
    rows = "".join(f"{text}\tBlack\n" for text in texts)
    (tmp_path / "texts.tsv").write_text(f"text\trace\n{rows}", encoding="utf-8")
    with pytest.raises(ModelError, match=r"TSV does not say whether it belongs to the text; save the file as CSV"):
        read(tmp_path, "texts.tsv", columns={"gender": None})


def test_read_corpus_of_tabs_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text("text\trace\ttext\nx\tBlack\ty\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"columns\.text: texts\.tsv has several columns 'text'; rename all but one"):
        read(tmp_path, "texts.tsv", columns={"gender": None})


def test_read_corpus_without_a_file_names_the_pattern(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"path: no file matches 'gone/\*\.csv'; get the data or correct the path"):
        read(tmp_path, "gone/*.csv")


def test_read_corpus_with_other_spellings_and_number_codes_finds_the_values(tmp_path: Path) -> None:
    pd.DataFrame({"text": ["a", "b", "c"], "race": [1.0, None, 2.0], "gender": ["WOMAN", "F", "man"]}).to_parquet(
        tmp_path / "texts.parquet"
    )
    axes = AXES | {"gender": Axis(unmarked="man", values={"man": Value(), "woman": Value(aliases=("F",))})}
    rows = read_with(tmp_path, axes, "texts.parquet", values={"race": {1: "White", 2: "Black"}}).rows
    assert rows["group"].tolist() == ["White woman", "woman", "Black man"]


@pytest.mark.parametrize(("ours", "theirs"), [("Métis", "Me\u0301tis"), ("Me\u0301tis", "Métis")])
def test_read_corpus_with_the_other_normal_form_of_a_value_or_code_finds_it(
    tmp_path: Path, ours: str, theirs: str
) -> None:
    axes = {"race": Axis(unmarked="White", values={"White": Value(), ours: Value()})}
    (tmp_path / "texts.csv").write_text(f"text,race\nx,{theirs}\ny,White\nz,la {theirs}\n", encoding="utf-8")
    mapped = read_with(tmp_path, axes, values={"race": {f"la {ours}": theirs}})
    assert mapped.rows["race"].tolist() == [ours, "White", ours] and not mapped.unused


def test_read_corpus_composes_names_and_keeps_texts(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,race,name\nRene\u0301,White,Rene\u0301\n", encoding="utf-8")
    columns = CorpusColumns(required=("text",), optional=("name",))
    axes = {"race": AXES["race"]}
    rows = corpus.read_corpus(CorpusSource(path="texts.csv"), tmp_path, "models.m.homogeneity", axes, columns).rows
    assert row(rows, 0)[["text", "name"]].tolist() == ["Rene\u0301", "René"]


def test_read_corpus_with_a_spelling_of_two_values_asks_for_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,race\nx,light\n", encoding="utf-8")
    axes = {"race": Axis(unmarked="W", values={"W": Value(aliases=("light",)), "A": Value(label="Light")})}
    with pytest.raises(ModelError, match=r"row 1 has 'light', no value of the axis; map it to one of W, A"):
        read_with(tmp_path, axes)


# ---------------------------------------------------------------- every entry of the mapping is used

TWO_ROWS = "answer,origin,sex\nx,w,f\ny,b,m\n"
RIGHT: dict[str, Any] = {
    "columns": {"text": "answer", "race": "origin", "gender": "sex"},
    "values": {"race": {"w": "White", "b": "Black"}, "gender": {"f": "woman", "m": "man"}},
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"columns": {"txt": "answer"}}, r"columns\.txt: is not used; the columns of this audit are race, gender, "
         r"text, prompt, and texts\.csv has answer, origin, sex"),
        ({"columns": {"text": "answr"}}, r"columns\.text: .*texts\.csv has no column 'answr'; it has answer, origin"),
        ({"columns": {"text": None}}, r"columns\.text: null leaves a column out, and this one is needed; name theirs"),
        ({"values": {"rase": {"w": "White"}}}, r"values\.rase: is not used"),
        ({"values": {"prompt": {"1": "one"}}}, r"values\.prompt: is not used, as no column is read for prompt"),
        ({"values": {"text": {"q": "z"}}}, r"values\.text\.q: is not used, no row of texts\.csv has it; the column "
         r"has x, y; correct or remove it"),
        ({"values": {"gender": {False: "woman"}}}, r"values\.gender\.False: .*put it in quotes"),
        ({"constants": {"hair": "red"}}, r"constants\.hair: is not used"),
        ({"constants": {"race": "White"}}, r"constants\.race: texts\.csv has the column 'origin' too"),
    ],
)  # fmt: skip
def test_read_corpus_with_an_entry_that_is_not_used_names_it(tmp_path: Path, change: Any, sentence: str) -> None:
    (tmp_path / "texts.csv").write_text(TWO_ROWS, encoding="utf-8")
    assert read(tmp_path, **RIGHT)["group"].tolist() == ["White woman", "Black man"]
    source: dict[str, Any] = {**RIGHT, "constants": {}}
    for block, entries in change.items():
        old = source[block]
        new = {name: {**old.get(name, {}), **e} if isinstance(e, dict) else e for name, e in entries.items()}
        source[block] = {**old, **new}
    with pytest.raises(ModelError, match=sentence):
        read(tmp_path, **source)


def test_read_corpus_with_a_reversed_column_mapping_says_how_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text(TWO_ROWS, encoding="utf-8")
    source = {**RIGHT, "columns": {"answer": "text", "origin": "race", "sex": "gender"}}
    with pytest.raises(ModelError) as caught:
        read(tmp_path, **source)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert lines[0].endswith("columns.answer: is reversed; write text: answer (our name first, then that of the file)")


def test_read_corpus_with_a_reversed_value_mapping_says_how_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text(TWO_ROWS, encoding="utf-8")
    source = {**RIGHT, "values": {**RIGHT["values"], "race": {"White": "w", "Black": "b"}}}
    with pytest.raises(ModelError, match=r"values\.race\.White: .*the entry is reversed, write w: White \(the code"):
        read(tmp_path, **source)


def test_read_corpus_without_a_column_of_an_axis_names_three_remedies(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,race\nx,Black\n", encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"columns\.gender: .*has no column 'gender'; it has text, race; name theirs"
    ) as e:
        read(tmp_path)
    assert "constants: {gender: VALUE}" in str(e.value) and "columns: {gender: null}" in str(e.value)
    assert read(tmp_path, constants={"gender": "woman"})["group"].tolist() == ["Black woman"]
    assert read(tmp_path, columns={"gender": None})["group"].tolist() == ["Black"]
    with pytest.raises(ModelError, match=r"constants\.gender: 'wmn' is no value of the axis; write one of man, woman"):
        read(tmp_path, constants={"gender": "wmn"})


def test_read_corpus_where_one_file_lacks_a_column_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,race,gender\nx,Black,man\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("text,race\nx,Black\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"columns\.gender: .*b\.csv has no column 'gender'; it has text, race"):
        read(tmp_path, "*.csv")


@pytest.mark.parametrize(
    ("cell", "kind"), [(["a", "b"], "list"), ({"content": "a"}, "mapping"), ("a\0b", "NUL character")]
)
def test_read_corpus_with_a_cell_that_is_no_text_names_its_row(tmp_path: Path, cell: Any, kind: str) -> None:
    table = pd.DataFrame({"text": ["fine", cell], "race": "Black", "gender": "man"})
    table.to_json(tmp_path / "texts.jsonl", orient="records", lines=True)
    with pytest.raises(ModelError, match=rf"texts.jsonl row 2 has a {kind} in the column 'text'"):
        read(tmp_path, "texts.jsonl")


def test_read_corpus_of_parquet_with_lists_names_the_first(tmp_path: Path) -> None:
    table = pd.DataFrame({"text": [None, ["a", "b"], ["c"]], "race": "Black", "gender": "man"})
    table.to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(
        ModelError, match=r"texts\.parquet row 2 has a list in the column 'text'; write one text a cell"
    ):
        read(tmp_path, "texts.parquet")


def test_read_corpus_of_a_truncated_parquet_file_says_so(tmp_path: Path) -> None:
    pd.DataFrame({"text": ["x"] * 1000, "race": "Black", "gender": "man"}).to_parquet(tmp_path / "texts.parquet")
    whole = (tmp_path / "texts.parquet").read_bytes()
    for kept in (0, 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / "texts.parquet").write_bytes(whole[:kept])
        with pytest.raises(ModelError, match=r"texts\.parquet cannot be read as \.parquet: .*; get or export it again"):
            read(tmp_path, "texts.parquet")


def test_read_corpus_in_a_folder_with_brackets_finds_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "study [1]"
    folder.mkdir()
    (folder / "texts [a].csv").write_text("text,race,gender\nx,Black,man\n", encoding="utf-8")
    assert len(read(folder, "texts [a].csv")) == len(read(folder, "*.csv")) == 1


def test_summary_counts_groups_and_names_rows_and_values_without_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,race,gender\nx,Black,man\ny,Black,man\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("text,race,gender\nx,White,man\ny,,\n", encoding="utf-8")
    found = read_with(tmp_path, AXES, "*.csv")
    assert list(found.summary(found.rows["group"], AXES)) == [
        "4 rows of 2 file(s), 2 groups: Black man 2, White man 1",
        "note: 1 of 4 rows have no group (first: b.csv row 2); they are in no comparison",
        "note: no row has the gender woman",
    ]


def test_read_corpus_takes_no_blank_at_the_end_of_an_id_for_another_id(tmp_path: Path) -> None:
    # 8 crawls of which some had a blank behind their number were 16
    (tmp_path / "a.csv").write_text("text,race,gender,cluster\n x ,Black,man,1\ny,Black,man,1 \n", encoding="utf-8")
    columns = CorpusColumns(required=("text",), optional=("cluster",))
    found = corpus.read_corpus(CorpusSource(path="a.csv"), tmp_path, "models.m.personas", AXES, columns).rows
    assert set(found["cluster"]) == {"1"} and found["text"].tolist() == [" x ", "y"]


def test_read_corpus_with_codes_of_an_axis_that_others_use_says_so_in_a_note(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text(TWO_ROWS, encoding="utf-8")
    shared = {**RIGHT, "values": {**RIGHT["values"], "race": {"w": "White", "b": "Black", "q": "Black"}}}
    found = read_with(tmp_path, AXES, **shared)
    note = "note: values.race.q: is not used, no row of texts.csv has it; the column has b, w; correct or remove it"
    assert note in list(found.summary(found.rows["group"], AXES))
    none_used = {**RIGHT, "values": {**RIGHT["values"], "race": {"q": "White", "z": "Black"}}}
    with pytest.raises(ModelError, match=r"values\.race\.q: is not used.*\n.*values\.race\.z: is not used"):
        read_with(tmp_path, AXES, **none_used)


def test_summary_without_columns_of_axes_says_nothing_where_another_column_names_the_group(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\nx\n", encoding="utf-8")
    columns = CorpusColumns(required=("text",), axes="none")
    found = corpus.read_corpus(CorpusSource(path="texts.csv"), tmp_path, "models.m.knowledge", AXES, columns)
    assert not [line for line in found.summary(found.rows["group"], AXES) if "nothing is said" in line]


# ---------------------------------------------------------------- cells are text as the file has it

LONG = 1234567890123456000
"""Beside a missing cell, floats cannot tell this from the integers around it."""


def test_read_corpus_with_whole_numbers_beside_a_missing_cell_keeps_every_digit(tmp_path: Path) -> None:
    prompts = pd.array([LONG, LONG + 1, None], dtype="Int64")
    table = pd.DataFrame({"text": ["7", "b", "c"], "race": "Black", "gender": "man", "prompt": prompts})
    table.to_json(tmp_path / "texts.jsonl", orient="records", lines=True)
    plain = pa.table({name: pa.array([None if pd.isna(cell) else cell for cell in table[name]]) for name in table})
    pq.write_table(plain, tmp_path / "texts.parquet")  # no metadata of pandas
    for path in ("texts.jsonl", "texts.parquet"):
        found = read(tmp_path, path)["prompt"]
        assert found.fillna("").tolist() == [str(LONG), str(LONG + 1), ""], path


def test_read_corpus_of_files_with_and_without_missing_cells_joins_equal_numbers(tmp_path: Path) -> None:
    whole = pd.DataFrame({"text": ["a"], "race": "Black", "gender": "man", "prompt": [LONG + 1]})
    whole.to_parquet(tmp_path / "1.parquet")
    whole.assign(prompt=0.5).to_parquet(tmp_path / "2.parquet")
    assert read(tmp_path, "*.parquet")["prompt"].tolist() == [str(LONG + 1), "0.5"]


def test_read_corpus_of_json_lines_keeps_numbers_as_they_are_written(tmp_path: Path) -> None:
    numbers = ["1234567890123456789012", "1.50", "1e3", "-0"]
    lines = [f'{{"text": "x", "race": "Black", "gender": "man", "prompt": {number}}}' for number in numbers]
    (tmp_path / "texts.JSONL").write_text("\n\n".join(lines), encoding="utf-8-sig")
    assert read(tmp_path, "texts.JSONL")["prompt"].tolist() == numbers


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (r'{"text": "a\ud800b", "race": "Black"}', r"texts\.jsonl line 2 has half of a surrogate pair in 'text'"),
        ('{"text": "a", "text": "b", "race": "Black"}', r"line 2: the key 'text' is given twice"),
        ('["a", "Black"]', r"line 2 is no mapping"),
        ('{"text": "a", ', r"cannot be read as \.jsonl: line 2"),
    ],
)
def test_read_corpus_with_a_bad_line_of_json_names_it(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "texts.jsonl").write_text('{"text": "fine", "race": "Black"}\n' + line, encoding="utf-8")
    with pytest.raises(ModelError, match=sentence):
        read(tmp_path, "texts.jsonl", columns={"gender": None})


def test_read_corpus_of_json_asks_for_json_lines(tmp_path: Path) -> None:
    (tmp_path / "texts.json").write_text('[{"text": "a", "race": "Black"}]', encoding="utf-8")
    with pytest.raises(ModelError, match=r"texts\.json is JSON; save it as JSON Lines"):
        read(tmp_path, "texts.json")
