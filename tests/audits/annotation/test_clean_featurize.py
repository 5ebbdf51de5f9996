"""Answers read, and judgments matched."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cells import number, row

from markedness.audits.annotation import clean, evaluate, featurize, generate
from markedness.audits.annotation.design.pairs import MatchError
from markedness.records import ABSENT, IMPUTED, SHOWN, TOP_LOGPROBS, Completion, Prompt

from .conftest import DIALECT, STIMULI, TWO_TASKS, ask, stored, tabled, units


def test_clean_gives_one_row_per_numbered_text_and_never_fewer() -> None:
    answers = iter(
        [Completion(text='{"i": 1, "y": 1}', finish_reason="stop"), Completion(error="the server was gone"),
         Completion(text="I'm sorry, but I can't judge people by their names.", finish_reason="stop")]
        + [Completion(text='{"i": 1, "y": 0}\n{"i": 2', finish_reason="length")] * 50
    )  # fmt: skip
    generations = ask(generate.Params(names=TWO_TASKS, dialect=DIALECT), lambda prompt, rng: next(answers))
    responses = clean.clean(generations, clean.Params())
    sizes = generations["n_texts"].astype(int).to_list()
    assert len(responses) == sum(sizes) == 2 * 16 + 4 * 10
    assert set(responses["group"]) == {"Arab", "Asian", "Black", "Hispanic", "White", "AAVE", "SAE"}
    by_request = [part for _, part in responses.groupby(np.repeat(np.arange(len(sizes)), sizes))]
    assert by_request[0]["status"].to_list() == ["ok"] + ["unparsed"] * 15
    assert set(by_request[1]["status"]) == {"failed"} and set(by_request[1]["reason"]) == {"the server was gone"}
    assert set(by_request[2]["status"]) == {"refusal"}
    assert by_request[3]["status"].to_list() == ["ok"] + ["truncated"] * 9
    assert (responses["reason"].isna() == (responses["status"] == "ok")).all()
    assert (responses["answer"].isna() == (responses["status"] != "ok")).all()
    assert by_request[0]["position"].to_list() == list(range(1, 17))


def test_clean_takes_the_more_probable_answer_and_keeps_both_candidates() -> None:
    params = generate.Params(mode="single", answer="probability", paradigms=("names",), names=TWO_TASKS)
    scored = iter([(-0.1, -2.0), (-3.0, -0.2), (-1.0, -1.0), (None, -1.0)])
    generations = ask(params, lambda prompt, rng: Completion(log_probs=next(scored, (-0.5, -0.9)), estimator="exact"))
    responses = clean.clean(generations, clean.Params())
    assert len(responses) == len(generations) == 64 and responses["judgment"].sum() == 32
    first = responses[responses["judgment"]].head(4)
    assert first["answer"].fillna(-1).to_list() == [1, 0, -1, -1]
    assert first["margin"].to_list() == pytest.approx([1.9, -2.8, 0, np.nan], nan_ok=True)
    assert first["reason"].to_list()[2:] == ["the two answers are equally probable", "no probability for an answer"]


def test_margins_of_a_task_in_which_the_server_did_not_show_an_answer_are_not_measured_and_its_labels_are() -> None:
    # The tail of other tokens is 3 times as likely after Black names: the imputed "no" is, too.
    params = generate.Params(mode="single", answer="probability", paradigms=("names",), names=TWO_TASKS)
    hidden: list[str] = []

    def answer(prompt: Prompt, rng: np.random.Generator) -> Completion:
        task = str(prompt.columns["task"])
        hidden.extend([task] if not hidden else [])
        floor = -9.0 + 1.1 * (prompt.group == "Black") + rng.normal(0, 0.1)
        reasons = (SHOWN, IMPUTED if task == hidden[0] else SHOWN)
        return Completion(log_probs=(-0.1, floor), reasons=reasons, estimator=TOP_LOGPROBS, coverage=0.9)

    responses = clean.clean(ask(params, answer), clean.Params())
    assert responses["status"].eq("ok").all() and responses["answer"].eq(1).all() and responses["reason"].isna().all()
    made = featurize.featurize(responses, featurize.Params(), STIMULI)
    (note,) = made.notes
    assert note.startswith("In 16 of 32 judgments the probability of one of the two answers is none that the server")
    assert note.endswith(f"not measured of the tasks {hidden[0]}.")
    by_task = made.tables["pairs"].assign(known=lambda pairs: pairs["margin"].notna()).groupby("task", observed=True)
    assert by_task["known"].mean().to_dict() == {task: float(task != hidden[0]) for task in by_task.groups}


def test_answer_with_all_the_probability_is_a_label_without_a_margin_and_one_with_hardly_any_is_missing() -> None:
    params = generate.Params(mode="single", answer="probability", paradigms=("names",), names=TWO_TASKS)
    # all mass shown is on "yes"; "I" of "I'm sorry" has the rest, by the least a server shows of "yes"
    served = iter([((0.0, None), (SHOWN, ABSENT), 1.0), ((-0.1, -2.4), (SHOWN, SHOWN), 1e-5)])
    usual = ((-0.5, -0.9), (SHOWN, SHOWN), 0.9)

    def answer(prompt: Prompt, rng: np.random.Generator) -> Completion:
        log_probs, reasons, coverage = next(served, usual)
        return Completion(
            log_probs=log_probs, reasons=reasons, estimator=TOP_LOGPROBS, coverage=coverage, finish_reason="length"
        )

    responses = clean.clean(ask(params, answer), clean.Params()).query("judgment").reset_index(drop=True)
    assert responses["answer"].fillna(-1).to_list()[:3] == [1, -1, 1]
    assert responses["margin"].to_list()[:3] == pytest.approx([np.nan, np.nan, 0.4], nan_ok=True)
    assert responses["imputed"].to_list()[:3] == [True, False, False]
    assert (responses["status"][1], responses["reason"][1]) == (
        "unparsed", "the two answers cover less than 0.5 of the probability"
    )  # fmt: skip


def test_clean_of_a_score_that_is_no_ln_probability_is_a_missing_judgment() -> None:
    params = generate.Params(mode="single", answer="probability", paradigms=("names",), names=TWO_TASKS)
    scored = iter([(-0.1, -9999.0), (0.5, -0.2), (-1.0, -float("inf"))])
    generations = ask(params, lambda prompt, rng: Completion(log_probs=next(scored, (-0.5, -0.9)), estimator="exact"))
    first = clean.clean(generations, clean.Params()).query("judgment").head(4)
    assert first["answer"].isna().to_list() == [True, True, True, False] and first["margin"].isna().sum() == 3
    reasons = first["reason"].astype("string")
    assert reasons.str.contains("too unlikely to be given").to_list()[0]
    assert reasons.str.contains("must be finite and not above 0").to_list()[1:3] == [True, True]


def test_clean_reads_single_answers_in_text() -> None:
    texts = iter(["1", "Answer: 0", "It depends", None, "I cannot answer that question."])
    params = generate.Params(mode="single", paradigms=("names",), names=TWO_TASKS)
    generations = ask(
        params,
        lambda p, rng: Completion(text=t) if (t := next(texts, "0")) is not None else Completion(error="timeout"),
    )
    responses = clean.clean(generations, clean.Params())
    assert responses["answer"].fillna(-1).to_list()[:5] == [1, 0, -1, -1, -1]
    assert responses["status"].to_list()[:5] == ["ok", "ok", "unparsed", "failed", "refusal"]


def test_stored_labels_that_were_not_read_are_named() -> None:
    rows = stored(group=["Black", "White"] * 3, pair=list("aabbcc"), y=["1", "2", "2", "1", "", "no way"])
    (note,) = featurize.featurize(clean.clean(rows, clean.Params()), featurize.Params(), STIMULI).notes
    assert note.startswith("3 stored labels are neither 0 nor 1 and count as missing: '2' 2, 'no way' 1. Say")


def test_stored_judgments_are_read_as_they_stand() -> None:
    rows = stored(
        group=["Black", "White", "AAVE", "SAE", "Black", "White"], pair=["a", "a", "t", "t", "a", "b"],
        y=["1", "0.0", "yes", "", "maybe", None],
    )  # fmt: skip
    responses = clean.clean(rows, clean.Params())
    assert responses["answer"].fillna(-1).to_list() == [1, 0, 1, -1, -1, -1]
    assert responses["paradigm"].to_list() == ["names"] * 2 + ["dialect"] * 2 + ["names"] * 2
    assert responses["reason"].astype(object).fillna("").to_list()[3:] == [
        "no judgment stored",
        "neither 0 nor 1",
        "no judgment stored",
    ]
    assert responses["duplicate"].to_list() == [False] * 4 + [True, False]
    assert set(responses["valence"]) == {1}


def test_pairs_count_when_both_answers_are_there() -> None:
    rows = stored(
        group=["Black", "White", "Asian", "White", "Arab"], pair=["1", "1", "2", "2", "3"], y=["1", "0", "0", "", "1"],
        name=["Ebony", "Jane", "Mei", "Jane", "Amal"],
    )  # fmt: skip
    table = units(rows).set_index("group")
    assert table["delta"].to_dict() == pytest.approx({"Black": 1, "Asian": np.nan, "Arab": np.nan}, nan_ok=True)
    assert row(table, "Asian")[["n", "n_reference", "unparsed_reference"]].to_list() == [1, 0, 1]
    assert row(table, "Black")[["name", "reference_name"]].to_list() == ["Ebony", "Jane"]
    assert number(table, "Arab", "n_reference") == 0 and table["reference_name"].isna()["Arab"]


def test_without_pairs_texts_match_by_vignette_and_share_the_unmarked_one() -> None:
    # vignette v, women: White 1 and 0 (mean 0.5); Black 1 -> 0.5; Asian 0 -> -0.5.  men: White 1, Black 1 -> 0
    rows = stored(
        group=["White", "White", "Black", "Asian", "White", "Black"], vignette=["v"] * 6, gender=list("ffffmm"),
        y=list("101011"),
    )  # fmt: skip
    table = units(rows)
    assert table["group"].to_list() == ["Black", "Asian", "Black"] and table["delta"].to_list() == [0.5, -0.5, 0.0]


def test_judgments_of_one_text_that_differ_are_counted_in_a_note() -> None:
    # Black a: 1, 1, 0 (two repeat the first, and they differ); White a: 0, 0 (one repeats, alike); Asian b: once
    columns = {"group": ["Black"] * 3 + ["White"] * 2 + ["Asian"], "pair": list("aaaaab"), "y": list("110001")}
    (note,) = featurize.featurize(clean.clean(stored(**columns), clean.Params()), featurize.Params(), STIMULI).notes
    assert note.startswith("3 judgments of names are of a text that is judged already on the same task and iteration;")
    assert "; 1 text got different answers, and such a text counts as its share of yes." in note
    apart = stored(**columns, iteration=list("012010"))
    assert not featurize.featurize(clean.clean(apart, clean.Params()), featurize.Params(), STIMULI).notes


def test_pairs_numbered_anew_in_each_iteration_stay_apart() -> None:
    rows = stored(group=["Black", "White"] * 2, pair=["1"] * 4, iteration=["0", "0", "1", "1"], y=list("1001"))
    assert units(rows)["delta"].to_list() == [1.0, -1.0]


def test_dialect_texts_gather_over_iterations() -> None:
    # AAVE 1, 1, 0 and SAE 0, 1: 2/3 - 1/2
    rows = stored(
        group=["AAVE"] * 3 + ["SAE"] * 2, pair=["t"] * 5, iteration=list("01201"), y=list("11001"), task=["angry"] * 5
    )
    table = units(rows)
    assert table["delta"].to_list() == pytest.approx([1 / 6])
    assert table[["n", "yes", "n_reference", "yes_reference"]].iloc[0].to_list() == [3, 2, 2, 1]


def test_pairs_of_names_of_two_genders_are_left_out_unless_there_are_no_others() -> None:
    # The model favors women, marked names are mostly men: 58 % of 60 worlds without an effect of group had p < .05.
    pairs = ["1", "1", "2", "2", "3", "3"]
    genders = ["male", "female", "male", " Male", "female", ""]
    rows = stored(group=["Black", "White"] * 3, pair=pairs, gender=genders, y=list("011010"))
    made = tabled(rows)
    assert made["pairs"]["pair"].to_list() == ["2", "3"] and "other_gender" not in made["pairs"]
    kept = stored(group=["Black", "White"] * 2, pair=pairs[:4], gender=["male", "female"] * 2, y=list("0110"))
    assert units(kept)["other_gender"].to_list() == [1, 1]
    score = evaluate.evaluate(tabled(kept), evaluate.Params(), np.random.default_rng(0)).score("missing.difference")
    assert "Each name of Black stands beside a name of another gender" in score.caveat
    notes = featurize.featurize(clean.clean(rows, clean.Params()), featurize.Params(), STIMULI).notes
    assert any(note.startswith("1 pair of names and tasks is left out of 3: the gender") for note in notes)


def test_judgments_that_nothing_matches_are_refused() -> None:
    with pytest.raises(MatchError, match="2 judgments have neither pair nor vignette"):
        units(stored(group=["Black", "White"], pair=["", None], y=["1", "0"]))


def test_judgments_without_a_group_are_left_out_and_counted() -> None:
    rows = stored(group=["Black", "White", "", "Black"], pair=["1", "1", "1", "2"], y=list("1011"))
    tables = tabled(rows)
    table = tables["pairs"]
    assert table["group"].to_list() == ["Black", "Black"] and set(table["ungrouped"]) == {1}
    made = evaluate.evaluate(tables, evaluate.Params(), np.random.default_rng(0))
    assert made.notes[-1] == "Stored judgments without a group are left out: 1."
    assert set(made.tables["gaps"]["group"]) == {"Black"}
    with pytest.raises(MatchError, match="no judgment has a group"):
        units(stored(group=["", ""], pair=["1", "1"], y=["1", "0"]))
