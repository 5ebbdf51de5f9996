"""Stimuli and prompts of the annotation audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from markedness.audits.annotation import generate
from markedness.audits.annotation.design.stimuli import StimuliError
from markedness.audits.annotation.design.texts import texts_of_prompt
from markedness.axes import Axis, Value
from markedness.records import AuditError

from .conftest import DIALECT, STIMULI, TWO_TASKS, Replaced, prompts, stored


def test_stimuli_hold_what_the_study_needs() -> None:
    tasks = STIMULI.table("tasks.csv")
    assert (tasks["names"] == "yes").sum() == 39 and tasks.loc[tasks["names"] == "yes", "domain"].nunique() == 7
    assert Counter(tasks["dialect"])["introduction"] == 14 and Counter(tasks["dialect"])["message"] == 2
    names = STIMULI.table("names.csv").groupby(["group", "gender"]).size()
    assert len(names) == 10 and set(names) == {19, 20} and names.sum() == 199  # the paper prints one name less
    assert Counter(STIMULI.table("dialect.csv")["kind"]) == {"introduction": 15, "message": 20}


def test_every_dialect_feature_is_named_with_words_of_its_text() -> None:
    seen: Counter[str] = Counter()
    for row in STIMULI.table("dialect.csv").to_dict("records"):
        for feature in row["features"].split(";"):
            code, words = feature.split("=")
            assert words in row["AAVE"] and words not in row["SAE"], (row["pair"], feature)
            seen[code] += 1
    assert set(seen) == {"HB", "CD", "NC", "AINT", "IN", "DEM", "GON", "REAL", "NSTD"} and min(seen.values()) >= 5


def test_names_pairs_share_vignette_and_gender_and_deal_groups_evenly() -> None:
    batches = prompts(generate.Params(paradigms=("names",), names=generate.Names(iterations=2, pairs=30)))
    assert len(batches) == 2 * 39
    items = texts_of_prompt(batches[0].columns)
    assert len(items) == 60
    pairs = pd.DataFrame(items).groupby("pair")
    assert (pairs["vignette"].nunique() == 1).all() and (pairs["gender"].nunique() == 1).all()
    assert (pairs["marked"].sum() == 1).all() and (pairs.size() == 2).all()
    marked = [item["group"] for item in items if item["marked"]]
    assert set(Counter(marked).values()) == {7, 8}  # 30 pairs over four groups
    assert {item["group"] for item in items if not item["marked"]} == {"White"}
    # the order is random, is that of the numbered texts, and differs by task
    text = batches[0].text.split("\n")
    for index, item in enumerate(items, 1):
        assert next(line for line in text if line.startswith(f"{index}. ")).startswith(
            f"{index}. Hi, I'm {item['name']}. "
        )
    assert [i["name"] for i in items] != [i["name"] for i in texts_of_prompt(batches[1].columns)]
    assert items != sorted(items, key=lambda item: str(item["pair"]))


def test_dialect_batches_draw_from_both_dialects_without_a_label() -> None:
    batches = prompts(generate.Params(paradigms=("dialect",)))
    assert len(batches) == 16 * 50
    items = [item for batch in batches for item in texts_of_prompt(batch.columns)]
    assert len(items) == 16 * 50 * 10
    share = np.mean([item["group"] == "AAVE" for item in items])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(items))
    assert not any("AAVE" in batch.text or "African" in batch.text for batch in batches)


def test_single_questions_for_any_model_are_asked_once_when_scored() -> None:
    params = generate.Params(
        mode="single", answer="probability", names=TWO_TASKS, dialect=generate.Dialect(tasks=("angry",), pairs=5)
    )
    asked = prompts(params)
    assert len(asked) == 8 * 2 * 2 + 5 * 2
    assert all(p.candidates == ("1", "0") and p.messages and p.completion and p.group for p in asked)
    assert "{" not in asked[0].text and "≥51%" in asked[0].text
    # the same question again, when it is answered in text, is another sample
    again = prompts(generate.Params(mode="single", paradigms=("dialect",), dialect=DIALECT))
    assert len({(p.text, p.first_sample) for p in again}) == len(again) == 40


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("names.csv", pd.DataFrame({"group": ["Arab"], "name": ["Amal"]}), "no names for the group 'White'"),
        ("names.csv", STIMULI.table("names.csv").assign(name="Kim"), "the name Kim twice"),
        ("names.csv", STIMULI.table("names.csv").assign(gender=lambda t: t["gender"] + t["group"]), "share no gender"),
        ("tasks.csv", STIMULI.table("tasks.csv").assign(valence="good"), "valence of 'hireable' is 'good'"),
        ("tasks.csv", STIMULI.table("tasks.csv").assign(names="y"), "names of 'hireable' is 'y'; write yes or no"),
        ("names.csv", STIMULI.table("names.csv").assign(selected="x"), "is 'x'; write yes or no"),
        # without genders a model that told "Mr" from "Mrs" favored a group, p = .003
        ("names.csv", STIMULI.table("names.csv").rename(columns={"gender": "Gender"}), "'Gender' is read as 'gender'"),
        ("names.csv", STIMULI.table("names.csv").assign(Selected="yes"), "column 'Selected' is read as 'selected'"),
        ("tasks.csv", STIMULI.table("tasks.csv").rename(columns={"names": "Names"}), "'Names' is read as 'names'"),
        ("names.csv", STIMULI.table("names.csv").assign(group="Blck"), "'Blck', no value of the axis; if it is"),
        ("dialect.csv", pd.concat([STIMULI.table("dialect.csv")] * 2), "the pair 'introduction-01' stands twice"),
        ("tasks.csv", pd.concat([STIMULI.table("tasks.csv")] * 2), "'hireable' is listed twice"),
        ("dialect.csv", STIMULI.table("dialect.csv").assign(AAVE=" "), "has no AAVE text"),
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": ["I am rich"], "b": ["x"], "screen": {"money": ["rich"]}},
         "'I am rich' touches the tasks of money by 'rich'"),
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": ["x"], "b": ["y"]}, "lower annotation.generate.names.v"),
        # a text was asked letter by letter, and a misspelt screen was none
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": "I walk", "b": ["y"]}, "vignettes.yaml: a: Input"),
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": ["x"], "b": ["y"], "screens": {}}, "screens: is not"),
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": ["x", "x"], "b": ["y"]}, "a has 'x' twice; remove one"),
        ("frames.yaml", {"singel": {"message": "x"}}, "frames.yaml: singel: is not read; correct"),
        ("frames.yaml", {"single": {"message": "x"}}, "single.message: {task} is missing"),
        ("frames.yaml", {"single": {"message": "{task} {text} {yes} or {yes}?"}}, "has {yes} and {yes}; name each"),
        ("names.csv", STIMULI.table("names.csv").replace({"gender": {"male": "femal"}}),
         "gender has 'femal' and 'female'; write one, if they are one"),
        ("dialect.csv", STIMULI.table("dialect.csv").assign(kind="introductions"),
         "kind has 'introductions', and the task"),
    ],
)  # fmt: skip
def test_stimuli_of_the_user_are_checked_with_a_clear_sentence(name: str, content: object, message: str) -> None:
    with pytest.raises(AuditError, match=message.replace("{", r"\{").replace("}", r"\}")):
        prompts(generate.Params(), stimuli=Replaced(name, content))


def test_names_and_dialect_pairs_in_other_capitals_are_asked() -> None:
    names, texts = STIMULI.table("names.csv"), STIMULI.table("dialect.csv")
    names.loc[::2, "group"] = names["group"].str.lower()
    names.loc[::3, "gender"] = names["gender"].str.title()
    texts.loc[::2, "kind"] = texts["kind"].str.title()
    for params, file, table in (
        (generate.Params(paradigms=("names",), names=TWO_TASKS), "names.csv", names),
        (generate.Params(paradigms=("dialect",)), "dialect.csv", texts),
    ):
        asked = [prompt.text for prompt in prompts(params, stimuli=Replaced(file, table))]
        assert asked == [prompt.text for prompt in prompts(params)]


def test_a_task_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(StimuliError, match=r"names\.tasks: tasks\.csv has no task 'hirable' .* hireable"):
        prompts(generate.Params(names=generate.Names(tasks=("hirable",))))


def test_other_groups_and_the_table_of_the_names_tool_work() -> None:
    names = pd.DataFrame(
        {
            "group": ["A", "A", "B", "B"],
            "name": ["Ada", "Ann", "Bea", "Ben"],
            "selected": ["True", "False", "True", "True"],
        }
    )
    axes = {"clan": Axis(unmarked="B", values={"A": Value(), "B": Value()})}
    params = generate.Params(axes=axes, paradigms=("names",), names=TWO_TASKS)
    items = texts_of_prompt(prompts(params, stimuli=Replaced("names.csv", names))[0].columns)
    assert {item["name"] for item in items if item["group"] == "A"} == {"Ada"} and len(items) == 16


@pytest.mark.parametrize("column", ["vignette", "name"])
def test_complete_corpus_with_one_pair_of_several_texts_says_so(column: str) -> None:
    of_pair: dict[str, Sequence[object]] = {
        "pair": ["0", "0", "1", "1"], "group": ["White", "Black"] * 2, "y": [1] * 4, column: list("aabb"),
    }  # fmt: skip
    assert len(stored(**of_pair)) == 4
    # rows without a group are left out, whatever their texts are
    assert len(stored(**of_pair | {"group": ["", None, "White", "Black"], column: list("abcc")})) == 4
    with pytest.raises(StimuliError, match=f"the pair '0' has texts of several values of {column}"):
        stored(**of_pair | {"pair": ["0"] * 4})


@pytest.mark.parametrize(
    ("valence", "fault"),
    [
        (["positive"] * 4, "the valence of a task is 1 .favorable., -1 or 0, and the corpus has 'positive'"),
        (["1", "1", "", "1"], "the corpus has ''"),
        (["2"] * 4, "the corpus has '2'"),
        (["0.5"] * 4, "the corpus has '0.5'"),
        (["1", "-1", "1", "-1"], "several valences of the task 'hireable'"),
    ],
)
def test_complete_corpus_with_a_valence_that_decides_nothing_says_so(valence: list[str], fault: str) -> None:
    of_pair: dict[str, Sequence[object]] = {"pair": list("0011"), "group": ["White", "Black"] * 2, "y": [1] * 4}
    assert stored(**of_pair, valence=["+1", "1", "1.0", "1"])["valence"].tolist() == [1] * 4
    with pytest.raises(StimuliError, match=fault):
        stored(**of_pair, valence=valence)


def test_complete_corpus_with_a_task_that_is_blank_in_part_says_so() -> None:
    # 30 pairs of four tasks became a fifth one: gap_size.excess .33 [.23, .43] in place of .45
    of_pair: dict[str, Sequence[object]] = {"pair": list("0011"), "group": ["White", "Black"] * 2, "y": [1] * 4}
    with pytest.raises(
        AuditError, match="the column 'task' of the corpus is blank in 2 rows; fill it or leave them out"
    ):
        stored(**of_pair, task=["hireable", "hireable", "", None])
    assert len(stored(**of_pair | {"group": ["White", "Black", "", ""]}, task=["hireable", "hireable", "", None])) == 4


def test_complete_corpus_with_a_row_of_a_group_and_a_dialect_says_so() -> None:
    of_pair: dict[str, Sequence[object]] = {"pair": list("0011"), "y": [1] * 4}
    assert len(stored(**of_pair, group=["White", "Black", "SAE", "AAVE"])) == 4
    with pytest.raises(StimuliError, match=r"rows of 'Black AAVE', both a name's group and a dialect.*blank"):
        stored(**of_pair, group=["White", "Black", "White", "Black AAVE"])


def test_complete_corpus_with_a_task_in_another_case_names_its_spelling() -> None:
    of_pair: dict[str, Sequence[object]] = {"pair": list("0011"), "group": ["White", "Black"] * 2, "y": [1] * 4}
    (known, *_) = STIMULI.table("tasks.csv")["task"]
    with pytest.raises(StimuliError, match=f"the task '{known.upper()}', which the tasks file spells '{known}'"):
        stored(**of_pair, task=[f"{known.upper()}"] * 4)
    assert stored(**of_pair, task=[known.upper()] * 4, valence=[1] * 4)["valence"].tolist() == [1] * 4
    assert stored(**of_pair, task=["a task of one's own"] * 4)["valence"].tolist() == [0] * 4


def test_complete_corpus_matched_by_vignette_with_several_names_of_a_group_asks_for_pairs() -> None:
    columns: dict[str, Sequence[object]] = {
        "vignette": ["v"] * 4, "group": ["White", "White", "Black", "Black"], "y": [1] * 4, "task": ["t"] * 4,
    }  # fmt: skip
    assert len(stored(**columns, name=["Ann", "Ann", "Bea", "Bea"])) == 4
    with pytest.raises(StimuliError, match="the vignette 'v' has texts of several names of one group"):
        stored(**columns, name=["Ann", "Eve", "Bea", "Bea"])
    assert len(stored(**columns, name=["Ann", "Eve", "Bea", "Ida"], pair=["1", "2", "1", "2"])) == 4
    # of 300 blind worlds with such a column, as a file of both paradigms has it, 85 had an interval without 0
    with pytest.raises(StimuliError, match="the vignette 'v' has texts of several names of one group"):
        stored(**columns, name=["Ann", "Eve", "Bea", "Ida"], pair=["", "", "", ""])
    with pytest.raises(StimuliError, match="the vignette 'v' has texts of several names of one group"):
        stored(**columns, name=["Ann", "Eve", "Bea", "Ida"], pair=["1", "", None, ""])


@pytest.mark.parametrize(("answers", "fine"), [(("yes", "no"), True), (("0", "1"), False), (("A", "B"), False)])
def test_answers_that_text_is_not_read_as_are_refused_and_scored_ones_are_not(
    answers: tuple[str, str], fine: bool
) -> None:
    # ["0", "1"] was asked for as written and read as 1 = yes: each gap had the other sign
    assert generate.Params(mode="single", answer="probability", answers=answers).answers == answers
    if fine:
        assert generate.Params(mode="single", answers=answers).answers == answers
    else:
        with pytest.raises(ValidationError, match="read from text, they are 1 and 0"):
            generate.Params(mode="single", answers=answers)
