"""Files are written whole or not at all, and a stimulus is found where the docs say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from markedness.files import StoreError, atomic
from markedness.records import Features, columns
from markedness.store import Store
from markedness.tables import TableError


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; run the tests as another user")
def test_atomic_in_an_unwritable_folder_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot be written"), atomic(tmp_path / "x.csv"):
        pass


def test_read_table_before_its_stage_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="markedness clean personas --model m"):
        Store(tmp_path).read_table("responses", "personas", "m")


@pytest.mark.parametrize("damage", ["cut", "metadata"])
def test_read_table_of_a_damaged_file_is_one_sentence_with_the_command(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    path = store.table_path("responses", "guise", "m")
    path.parent.mkdir(parents=True)
    # what pandas reads first, without the field that it takes for granted
    pandas = {"index_columns": ["k"], "columns": [{}], "column_indexes": []}
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"cannot be read .*; run 'markedness clean guise --model m' again"):
        store.read_table("responses", "guise", "m")


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


def test_stimuli_are_read_without_blanks_at_the_ends_of_cells(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("group ,name,x\nBlack , Ann\u00a0,1\nWhite,Eve\n", encoding="utf-8")
    found = Store(tmp_path).stimuli("annotation").table("names.csv", ["group", "name"])
    assert found["group"].tolist() == ["Black", "White"] and found["name"].tolist() == ["Ann", "Eve"]
    assert found["x"].tolist() == ["1", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # pandas takes the first column for an index, and a task was "or unfriendly."
        ("group,name\nBlack,Ann,or Anna\n", "rows have more cells than the header; put cells with a comma in quotes"),
        ("group,name\nBlack,Ann,\n", "more cells than the header"),
        ("group,name,name \nBlack,Ann,Eve\n", "two columns are named 'name'; rename one"),
    ],
)
def test_stimuli_whose_columns_would_be_taken_otherwise_are_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        Store(tmp_path).stimuli("annotation").table("names.csv")


def test_stimuli_with_a_key_twice_name_it(tmp_path: Path) -> None:
    (tmp_path / "frames.yaml").write_text("single: {message: a}\nsingle: {message: b}\n", encoding="utf-8")
    with pytest.raises(
        StoreError, match=r"frames\.yaml: line 2: the key 'single' is already in line 1"
    ):  # the last won
        Store(tmp_path).stimuli("annotation").data("frames.yaml")


def test_stimuli_that_do_not_exist_name_every_place(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"neither in data/stimuli/guise/ nor beside params.yaml"):
        Store(tmp_path).stimuli("guise").text("nothing.txt")


def test_stimuli_that_are_not_utf8_name_the_byte(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_bytes(b"ab\xff")
    with pytest.raises(StoreError, match="not UTF-8 at byte 2"):
        Store(tmp_path).stimuli("guise").text("pairs.txt")


def test_atomic_removes_what_a_killed_run_left_and_nothing_else(tmp_path: Path) -> None:
    left, swap = tmp_path / ".b.csv.part-abcd1234.csv", tmp_path / ".a.csv.swp"
    left.write_text("half", encoding="utf-8")
    swap.write_text("an editor's", encoding="utf-8")
    with atomic(tmp_path / "a.csv") as part:
        part.write_text("whole", encoding="utf-8")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".a.csv.swp", "a.csv"]


def test_atomic_leaves_the_unfinished_file_of_a_live_run(tmp_path: Path) -> None:
    with atomic(tmp_path / "a.csv") as first:
        first.write_text("first", encoding="utf-8")
        with atomic(tmp_path / "b.csv") as second:
            second.write_text("second", encoding="utf-8")
        assert first.exists()
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "first"


def test_renewed_when_the_block_fails_keeps_the_old_folder(tmp_path: Path) -> None:
    store, folder = Store(tmp_path), tmp_path / "results" / "compare"
    store.write_csv(folder / "old.csv", pd.DataFrame({"x": [1]}))
    with pytest.raises(RuntimeError), store.renewed(folder) as new:
        store.write_csv(new / "new.csv", pd.DataFrame({"x": [2]}))
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["old.csv"]
    assert [path.name for path in folder.parent.iterdir()] == ["compare"]


@pytest.mark.parametrize("in_one_step", [True, False])
def test_renewed_replaces_the_whole_folder_and_what_a_killed_run_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    store, folder = Store(tmp_path), tmp_path / "results" / "compare"
    store.write_csv(folder / "old.csv", pd.DataFrame({"x": [1]}))
    (folder.parent / ".compare.new" / "half").mkdir(parents=True)
    if not in_one_step:
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # a system without renameat2
    with store.renewed(folder, ("figures",)) as new:
        store.write_csv(new / "new.csv", pd.DataFrame({"x": [2]}))
        assert (folder / "old.csv").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "new.csv"]
    assert [path.name for path in folder.parent.iterdir()] == ["compare"]


def test_renewed_after_a_kill_between_two_steps_restores_the_old_folder(tmp_path: Path) -> None:
    store, folder = Store(tmp_path), tmp_path / "results" / "compare"
    store.write_csv(folder.parent / ".compare.new.old" / "old.csv", pd.DataFrame({"x": [1]}))
    with pytest.raises(RuntimeError), store.renewed(folder):
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["old.csv"]


def test_renewed_while_another_run_writes_is_one_sentence(tmp_path: Path) -> None:
    store, folder = Store(tmp_path), tmp_path / "results" / "compare"
    with (
        store.renewed(folder) as new,
        pytest.raises(StoreError, match="results/compare: another run is writing it; wait"),
        store.renewed(folder),
    ):
        pass
    assert not new.exists()
    assert folder.is_dir()


def test_renewed_of_what_is_no_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file, no folder", encoding="utf-8")
    with (
        pytest.raises(StoreError, match=r"results/compare: cannot be written \(Not a directory\)"),
        Store(tmp_path).renewed(tmp_path / "results" / "compare"),
    ):
        pass


def test_locked_folder_is_ignored_by_git(tmp_path: Path) -> None:
    with Store(tmp_path).locked("track"):
        assert (tmp_path / ".markedness" / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_write_csv_with_nul_and_carriage_returns_gives_every_row_back(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    Store(tmp_path).write_csv(path, pd.DataFrame({"word": ["a\0b", None, "c\rd", "e\r\nf"], "n": [1, 2, 3, 4]}))
    table = pd.read_csv(path, keep_default_na=False)
    assert table["word"].tolist() == ["a\ufffdb", "", "c\nd", "e\nf"]
    assert table["n"].tolist() == [1, 2, 3, 4]


def test_estimator_bytes_of_two_equal_fits_are_equal_and_load(tmp_path: Path) -> None:
    """In two processes: in one, the same objects could have the same addresses."""
    script = (
        "import sys, numpy as np\n"
        "from scipy.sparse import csr_array\n"
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import MaxAbsScaler\n"
        "from sklearn.svm import LinearSVC\n"
        "from markedness.files import estimator_bytes\n"
        "waste = [object() for _ in range(int(sys.argv[2]))]\n"
        "x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2\n"
        "made = make_pipeline(MaxAbsScaler(), LinearSVC(random_state=0)).fit(x, y)\n"
        "made.words_ = {'kept': csr_array(x), 'same': x, 'again': x}\n"
        "open(sys.argv[1], 'wb').write(estimator_bytes(made))\n"
    )
    files = [tmp_path / "a.skops", tmp_path / "b.skops"]
    for file, waste in zip(files, ("7", "70001"), strict=True):
        subprocess.run([sys.executable, "-c", script, str(file), waste], check=True)
    assert files[0].read_bytes() == files[1].read_bytes()
    import skops.io

    loaded = skops.io.load(files[0], trusted=skops.io.get_untrusted_types(file=files[0]))
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert (loaded.predict(x) == loaded[-1].predict(loaded[0].transform(x))).all()
    assert loaded.words_["same"] is loaded.words_["again"]
    assert (loaded.words_["kept"].toarray() == x).all()


def generations(**columns: object) -> pd.DataFrame:
    row = {
        "prompt_id": "p",
        "group": "g",
        "sample": 0,
        "prompt": "?",
        "text": "a",
        "finish_reason": "stop",
        "error": None,
    }
    return pd.DataFrame([row | columns])


def test_table_with_a_missing_or_wrong_column_is_not_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(TableError, match=r"data/generations/a/m\.parquet: the column 'group' is missing"):
        store.write_table("generations", "a", "m", generations().drop(columns="group"))
    with pytest.raises(TableError, match="the column 'sample' holds str, not whole"):
        store.write_table("generations", "a", "m", generations(sample="first"))
    with pytest.raises(TableError, match="the column 'text' holds int64, not text"):
        store.write_table("generations", "a", "m", generations(text=3))
    assert not (tmp_path / "data").exists()
    store.write_table("generations", "a", "m", generations(race="Black"))
    assert store.read_table("generations", "a", "m")["race"].tolist() == ["Black"]


def test_features_of_another_kind_than_the_spec_declares_are_not_written(tmp_path: Path) -> None:
    store, schemas = Store(tmp_path), {"words": columns(text="word", whole="count", flag="kept", vector="embedding")}
    good = pd.DataFrame({"word": ["a", None], "count": [1, None], "kept": [True, None], "embedding": [[0.5], None]})
    with pytest.raises(TableError, match="the table 'other' is not declared"):
        store.write_features("a", "m", Features({"other": good}), schemas)
    wrong: dict[str, Any] = {"word": 1, "count": 0.5, "kept": "yes", "embedding": "x"}
    for name, value in wrong.items():
        with pytest.raises(TableError, match=rf"data/features/a/m/words: the column '{name}' holds"):
            store.write_features("a", "m", Features({"words": good.assign(**{name: value})}), schemas)
    store.write_features("a", "m", Features({"words": good}), schemas)
    assert isinstance(store.read_features("a", "m"), Features)
