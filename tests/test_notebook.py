"""A frame gives what the same data give as a corpus, bad ones are refused in a sentence, and the notebooks run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import markedness
from markedness import params, pipeline, study
from markedness.audits import spec
from markedness.cli import app
from markedness.notebook import AuditResult, NotebookError
from markedness.results import Score

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"
QUICK = {"n_permutations": 20, "n_resamples": 50}
RACE = {"unmarked": "White", "values": {"White": {}, "Black": {}}}


@dataclass(frozen=True)
class Same:
    """One function on a file of the notebook, and the block and columns of params.yaml that say the same."""

    audit: str
    measure: Callable[[pd.DataFrame], AuditResult]
    columns: Mapping[str, str]
    block: Mapping[str, Any]


PERSONAS: dict[str, dict[str, Any]] = {"featurize": {"embeddings": None}, "evaluate": QUICK}
SAME = [
    Same(
        "personas",
        lambda df: markedness.marked_words(df, "answer", "race", "White", prompt="question", settings=PERSONAS),
        {"text": "answer", "prompt": "question"}, {"axes": {"race": RACE}, **PERSONAS},
    ),
    Same(
        "homogeneity",
        lambda df: markedness.probability_of_differentiation(
            df, "answer", "race", "White", cue="situation", name="name", settings={"evaluate": QUICK}
        ),
        {"text": "answer", "cue": "situation"}, {"axes": {"race": RACE}, "evaluate": QUICK},
    ),
    Same(
        "guise",
        lambda df: markedness.matched_guise(
            df, "log_prob", "guise", "SAE", candidate="word", prompt="prompt", pair="pair", verb="verb"
        ),
        {"prompt_id": "prompt", "candidate": "word"},
        {"axes": {"guise": {"unmarked": "SAE", "values": {"SAE": {}, "AAE": {}}}}},
    ),
    Same(
        "annotation",
        lambda df: markedness.paired_gaps(
            df, "label", "race", "White", task="task", pair="pair", vignette="vignette", name="name"
        ),
        {"y": "label", "group": "race"}, {"axes": {"group": RACE}},
    ),
]  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("same", SAME, ids=lambda same: same.audit)
def test_a_frame_gives_what_its_csv_gives_as_a_corpus_and_writes_nothing_here(
    same: Same, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(NOTEBOOKS / f"{same.audit}.csv", tmp_path / "theirs.csv")
    source = {"path": "theirs.csv", "columns": dict(same.columns)}
    content = {"audits": [same.audit], "models": {"mine": {"backend": "corpus", same.audit: source}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({**content, same.audit: same.block}), encoding="utf-8")
    app(["run", same.audit, "--model", "mine", "--params", str(tmp_path / "params.yaml")], standalone_mode=False)
    before = files(tmp_path)
    monkeypatch.chdir(tmp_path)
    theirs = markedness.load_study(".").results[same.audit, "mine"]
    made = same.measure(pd.read_csv("theirs.csv"))
    assert files(tmp_path) == before
    pd.testing.assert_frame_equal(made.frame, theirs.frame)
    assert str(made.scores) == str(theirs.scores)  # as text: NaN equals nothing
    assert any(not score.missing for score in made.headline)
    assert list(made.tables) == list(theirs.tables)
    for name, table in made.tables.items():
        pd.testing.assert_frame_equal(table, theirs.tables[name])
    assert set(theirs.notes) <= set(made.notes)


def answers(**columns: object) -> pd.DataFrame:
    """Eight short answers of two groups."""
    base = {"answer": list("abcdabcd"), "race": ["White", "Black"] * 4, "name": [f"n{n}" for n in range(8)]}
    return pd.DataFrame({**base, **columns})


def variety(df: pd.DataFrame, **given: Any) -> AuditResult:
    chosen = {"text": "answer", "groups": "race", "unmarked": "White", "name": "name", "settings": {"evaluate": QUICK}}
    return markedness.probability_of_differentiation(df, **{**chosen, **given})


BAD: list[tuple[pd.DataFrame, dict[str, Any], str]] = [
    (answers(), {"text": "said"}, "text: the frame has no column 'said'; it has answer, race, name"),
    (answers(), {"cue": "situation"}, "cue: the frame has no column 'situation'; it has answer, race, name"),
    (answers().head(0), {}, "the frame has no rows; give it one row a text"),
    (answers(race=["a/b", "White"] * 4), {}, "; rename it in the frame, for example with df.replace"),
    (answers(race="White"), {}, "groups: the column 'race' has one group only (White); a comparison needs two"),
    (answers(race=None), {}, "groups: the column 'race' has one group only (none); a comparison needs two"),
    (answers(answer=[["a"], *"bcdabcd"]), {}, "text: row 1 of the column 'answer' holds a list; write one text a cell"),
    (answers(name=[*"abcdefg", {}]), {}, "name: row 8 of the column 'name' holds a dict; write one text a cell"),
    (
        answers(answer=["a", None, *"cdabcd"]),
        {},
        "text: 1 of 8 cells of the column 'answer' are missing (first: row 2)",
    ),
    (answers(), {"unmarked": "white"}, "unmarked: 'white' is no value of the column 'race', which has Black, White"),
    (
        answers(),
        {"groups": ["race", "name"]},
        "unmarked: say which value of each column: {'race': VALUE, 'name': VALUE}",
    ),
    (answers(), {"groups": ["race", "race"]}, "groups: name one column, or several different ones"),
    (answers(race=["White", "a/b"] * 4), {}, "groups: 'race'.values.'a/b': a value's key has no '/'"),
    (
        answers(answer=["a\0", *"bcdabcd"]),
        {},
        "texts.parquet row 1 has a NUL character in the column 'text'; remove it",
    ),
    (
        answers(answer=pd.Series(["\ud800", *"bcdabcd"], dtype=object)),
        {},
        "text: the column 'answer' has half of a surrogate pair, which is no character; remove it",
    ),
    (
        answers(),
        {"settings": {"evaluate": {"resamples": 9}}},
        "settings: homogeneity.evaluate: unknown key 'resamples'",
    ),
    (answers(), {"settings": {"evalute": {}}}, "settings: homogeneity: unknown key 'evalute'; known: "),
]


@pytest.mark.parametrize(("df", "given", "sentence"), BAD, ids=[sentence[:50] for _, _, sentence in BAD])
def test_a_bad_frame_is_refused_in_one_sentence_that_names_no_folder(
    df: pd.DataFrame, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(NotebookError) as raised:
        variety(df, **given)
    said = str(raised.value)
    assert sentence in said and "\n" not in said and "/tmp" not in said, said


def test_a_missing_text_is_refused_with_what_an_empty_one_becomes_in_this_audit() -> None:
    df = answers(answer=["a", None, *"cdabcd"])
    with pytest.raises(NotebookError, match=r"which is an answer: all empty ones are one category, as published$"):
        variety(df)
    with pytest.raises(NotebookError, match=r"which is counted as missing by group$"):
        markedness.marked_words(df, "answer", "race", "White")


def test_a_missing_score_is_refused_in_words_of_scores() -> None:
    df = pd.DataFrame({"lp": [-1.0, None], "w": "kind", "g": ["SAE", "AAE"], "p": "T1"})
    with pytest.raises(NotebookError, match=r"or write '' for a missing score, which is counted as such$"):
        markedness.matched_guise(df, "lp", "g", "SAE", candidate="w", prompt="p")


@pytest.mark.parametrize(
    ("cell", "remedy"),
    [(b"a", "df['answer'].str.decode('utf-8')"), ({"a": 1}, "pandas.json_normalize"), (["a"], "df.explode('answer')")],
)
def test_a_cell_that_is_no_text_is_refused_with_the_remedy_of_its_type(cell: object, remedy: str) -> None:
    with pytest.raises(NotebookError, match=re.escape(remedy)):
        variety(answers(answer=[cell, *"bcdabcd"]))


@pytest.mark.parametrize("given", [{"groups": "answer", "unmarked": "a"}, {"name": "answer"}, {"cue": "answer"}])
def test_a_column_that_is_measured_and_named_for_something_else_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(NotebookError, match=r"^text: the column 'answer' is named for something else as well"):
        variety(answers(), **given)


def test_a_cue_that_is_none_is_refused_and_not_taken_for_names() -> None:
    labels = pd.DataFrame({"y": [0, 1], "race": ["White", "Black"], "task": "hireable", "pair": "1"})
    with pytest.raises(NotebookError, match=r"^cue: 'accent' is none; write names or dialect$"):
        markedness.paired_gaps(labels, "y", "race", "White", task="task", pair="pair", cue="accent")  # type: ignore[arg-type]


def test_what_is_no_frame_and_twice_named_columns_are_refused() -> None:
    with pytest.raises(NotebookError, match=r"^list is no DataFrame; make one with pandas\.DataFrame"):
        variety([{"answer": "a"}])  # type: ignore[arg-type]
    with pytest.raises(NotebookError, match="several columns 'answer'; rename all but one"):
        variety(pd.concat([answers(), answers()[["answer"]]], axis=1))
    with pytest.raises(NotebookError, match=r"^groups: name one column$"):
        markedness.matched_guise(answers(), "answer", ["race", "name"], "White", candidate="name", prompt="name")  # type: ignore[arg-type]


def test_a_name_of_both_axes_is_refused_so_that_no_gap_is_turned_round() -> None:
    labels = pd.DataFrame({"y": [0, 1], "variety": ["SAE", "AAVE"], "task": "hireable", "pair": "1"})
    with pytest.raises(NotebookError, match="'AAVE' is a value of group and of dialect"):
        markedness.paired_gaps(labels, "y", "variety", "AAVE", task="task", pair="pair")


@pytest.mark.slow
@pytest.mark.parametrize("label", [-1, 2, 0.7, "hireable"])
def test_label_that_is_neither_0_nor_1_is_refused_and_not_missing(label: object) -> None:
    df = pd.DataFrame({"y": [0, label], "race": ["White", "Black"], "task": "hireable", "pair": "1"})
    with pytest.raises(
        NotebookError, match=rf"^label: row 2 of the column 'y' has '{label}'; a label is 1, 0 or empty"
    ):
        markedness.paired_gaps(df, "y", "race", "White", task="task", pair="pair")


def test_labels_of_texts_in_two_dialects_are_compared_with_the_unmarked_one() -> None:
    pairs = [(pair, variety) for pair in range(8) for variety in ("SAE", "AAVE")]
    labels = pd.DataFrame({"y": [int(variety == "AAVE") for _, variety in pairs], "task": "angry"})
    labels = labels.assign(pair=[pair for pair, _ in pairs], variety=[variety for _, variety in pairs])
    made = markedness.paired_gaps(labels, "y", "variety", "SAE", task="task", pair="pair", cue="dialect")
    assert made.tables["dialect_gaps"]["gap"].tolist() == [1.0]  # every text in AAVE is angry, none in SAE
    assert made.score("dialect_gap.negative").estimate == 1.0 and made.score("gap.negative").missing


@pytest.mark.slow
def test_a_column_named_like_one_of_the_tables_can_be_the_groups() -> None:
    made = variety(answers().rename(columns={"race": "group"}), groups="group")
    assert made.score("pd_difference.marked").estimate == variety(answers()).score("pd_difference.marked").estimate
    assert set(made.tables["probability_of_differentiation"]["group"]) == {"White", "Black"}


@pytest.mark.slow
def test_a_row_without_a_group_is_left_out_and_said_so() -> None:
    made = variety(answers(race=["White", "Black", None, *["White", "Black"] * 2, "White"]))
    assert any("1 of 8 rows have no group" in note for note in made.notes), made.notes


@pytest.mark.slow
def test_shown_result_has_the_verdicts_first_and_escapes_what_the_frame_says() -> None:
    evil = "<script>alert(1)"
    made = variety(answers(race=["White", evil] * 4))
    made = AuditResult(made.audit, "<b>", made.card, made.scores, made.tables, (*made.notes, evil))
    shown = made._repr_html_()
    assert "<script" not in shown and "<b>" not in shown
    assert "&lt;script&gt;alert(1)" in shown and "&lt;b&gt;" in shown
    assert shown.index("tested scores found") < shown.index("Not shown") < shown.index("Notes") < shown.index("Tables:")
    assert repr(made).startswith("homogeneity <b>: ") and "Cannot say: " in repr(made)


@pytest.mark.slow
def test_import_of_the_package_loads_nothing_heavy_and_names_what_there_is() -> None:
    code = (
        "import markedness, sys; assert not {'pandas', 'numpy', 'pydantic', 'yaml'} & set(sys.modules); "
        "assert 'marked_words' in dir(markedness) and callable(markedness.load_study) and 'pandas' in sys.modules; "
        "assert not hasattr(markedness, 'nothing'); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A study of both controls, one audit of which was run, with its pages."""
    folder = tmp_path_factory.mktemp("study")
    content = {
        "audits": ["homogeneity", "guise"], "run": ["control-none", "control-planted"],
        "models": {f"control-{rule}": {"backend": "scripted", "rule": rule} for rule in ("none", "planted")},
        "homogeneity": {
            "axes": {"race": RACE}, "evaluate": QUICK,
            "generate": {"cues": ["sports", "music"], "names_per_group": 8, "samples": 3},
        },
    }  # fmt: skip
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    loaded = params.load(folder / "params.yaml")
    for model in loaded.run:
        pipeline.run(loaded, "homogeneity", model, lambda _: None)
    study.report(loaded, lambda _: None)
    yield folder


@pytest.mark.slow
def test_finished_study_has_its_models_scores_tables_and_cards(finished: Path) -> None:
    before = files(finished)
    made = markedness.load_study(finished)
    assert made.models == ["control-none", "control-planted"] and made.audits == ["homogeneity"]
    written = pd.read_csv(finished / "results" / "homogeneity" / "control-planted" / "scores.csv")
    planted = made.scores[made.scores["model"].eq("control-planted")].reset_index(drop=True)
    assert list(made.scores)[:2] == ["audit", "model"] and planted["estimate"].equals(written["estimate"])
    assert planted["sentence"].tolist() == written["sentence"].tolist()
    table = made.tables["probability_of_differentiation"]
    assert set(table["model"]) == set(made.models) and "probability_of_differentiation" in made.tables
    with pytest.raises(NotebookError, match="no table 'marked_word'; known: "):
        made.tables["marked_word"]
    card = made.cards["control-planted"]
    page = (finished / "reports" / "control-planted.html").read_text(encoding="utf-8")
    first = made.results["homogeneity", "control-planted"].headline[0]
    assert isinstance(first, Score) and "vary less" in repr(card) and "vary less" in page
    assert "Guise: not run yet (markedness run guise --model control-planted)." in card._repr_html_()
    assert card.page == finished / "reports" / "control-planted.html"
    assert files(finished) == before


def test_study_without_results_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("models: {m: {backend: scripted}}\naudits: [guise]\n", encoding="utf-8")
    with pytest.raises(NotebookError, match="has results yet; run 'dvc repro' or 'markedness run' first"):
        markedness.load_study(tmp_path)
    with pytest.raises(params.ParamsError, match="no such file"):
        markedness.load_study(tmp_path / "elsewhere")


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_of_the_documentation_runs_and_shows_an_answer_below_each_section(
    notebook: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "study"
    shutil.copytree(finished, folder)
    for path in NOTEBOOKS.iterdir():
        shutil.copy(path, folder / path.name)
    before = files(folder)
    content = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in content.cells), "clear its outputs: they are made where it is read"
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(content, timeout=300, kernel_name="python3", resources=where).execute()
    shown = [json.dumps(cell.outputs) for cell in content.cells if cell.cell_type == "code"]
    assert sum("tested scores found" in outputs for outputs in shown) == 5
    assert sum('class=\\"markedness\\"' in outputs for outputs in shown) == 5
    assert not any('"stderr"' in outputs and "Error" in outputs for outputs in shown)
    assert files(folder) == before


@pytest.mark.slow
def test_the_card_of_every_measured_audit_is_that_of_its_spec() -> None:
    assert variety(answers()).card == spec("homogeneity").card


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([1], "^settings: write stage -> its params"),
        ({"axes": {}}, "^settings: axes are made of groups and unmarked; leave them out$"),
        ({"evaluate": 3}, "^settings: evaluate is 3; write its params as a dict"),
        ({"evaluate": {"z_threshold": {1}, "word_share": object()}}, "^settings: .* is no value of params.yaml"),
    ],
)
def test_marked_words_with_settings_that_are_none_is_one_sentence(settings: Any, said: str) -> None:
    frame = pd.DataFrame({"text": ["a b", "b c"], "race": ["White", "Black"]})
    with pytest.raises(NotebookError, match=said):
        markedness.marked_words(frame, "text", "race", "White", settings=settings)


def test_marked_words_takes_columns_of_any_name_and_a_seed_of_numpy() -> None:
    settings: Any = {"featurize": {"embeddings": None, "svm": {"enabled": False}}}
    words = ["calm bright kind", "loud tall kind"] * 8
    frame = pd.DataFrame({"said": words, "groups 1": ["x", "x", "y", "y"] * 4, "text": ["White", "Black"] * 8})
    two: Any = {"groups 1": "x", "text": "White"}
    found = markedness.marked_words(frame, "said", ["text", "groups 1"], two, settings=settings)
    assert {"Black", "y"} <= set(found.tables["marked_words_by_group"]["group"])
    frame.columns = pd.Index(["said", "other", 3])
    seed: Any = np.int64(2)
    one: Any = 3
    alone = markedness.marked_words(frame, "said", one, "White", settings=settings, seed=seed)
    assert "Black" in set(alone.tables["marked_words_by_group"]["group"])
