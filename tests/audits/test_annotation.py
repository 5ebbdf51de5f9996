"""The annotation audit from stimuli to gaps, with a scripted annotator whose gaps are known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from markedness.audits.annotation import clean, controls, evaluate, featurize, generate
from markedness.params import load
from markedness.pipeline import STAGES, _rows
from markedness.records import Axis, Completion, Prompt, Value
from markedness.store import Store

Answer = Callable[[Prompt, np.random.Generator], Completion]
STIMULI = Store(Path("/nowhere")).stimuli("annotation")  # the packaged ones
FAST = evaluate.Params(n_resamples=50, n_permutations=50)
TWO_TASKS = generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=8)
DIALECT = generate.Dialect(tasks=("angry",), iterations=4)


def prompts(params: generate.Params, seed: int = 1, stimuli: Any = STIMULI) -> list[Prompt]:
    (found,) = list(generate.prompts(stimuli, params, np.random.default_rng(seed)))
    return found


def ask(params: generate.Params, answer: Answer, seed: int = 0) -> pd.DataFrame:
    """The generations of a study, as the pipeline writes them."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame([row for prompt in prompts(params, seed) for row in _rows(prompt, [answer(prompt, rng)])])


def units(generations: pd.DataFrame) -> pd.DataFrame:
    return featurize.featurize(clean.clean(generations, clean.Params()), featurize.Params())


def annotator(gaps: dict[tuple[str, str], float], base: float = 0.5) -> Answer:
    """Says yes with probability ``base``, shifted by gaps[group, task] where there is one."""

    def answer(prompt: Prompt, rng: np.random.Generator) -> Completion:
        items = json.loads(str(prompt.columns["items"]))
        ps = [base + gaps.get((item["group"], prompt.columns["task"]), 0.0) for item in items]
        lines = [f'{{"i": {i}, "y": {int(rng.random() < p)}}}' for i, p in enumerate(ps, 1)]
        return Completion(text="\n".join(lines), finish_reason="stop")

    return answer


class Replaced:
    """The packaged stimuli with one file in other words."""

    def __init__(self, name: str, content: Any) -> None:
        self.name, self.content = name, content

    def table(self, name: str, columns: Any = ()) -> pd.DataFrame:
        return self.content if name == self.name else STIMULI.table(name, columns)

    def data(self, name: str) -> Any:
        return self.content if name == self.name else STIMULI.data(name)


# ---------------------------------------------------------------- stimuli


def test_stimuli_hold_what_the_study_needs():
    tasks = STIMULI.table("tasks.csv")
    assert (tasks["names"] == "yes").sum() == 39 and tasks.loc[tasks["names"] == "yes", "domain"].nunique() == 7
    assert Counter(tasks["dialect"])["introduction"] == 14 and Counter(tasks["dialect"])["message"] == 2
    names = STIMULI.table("names.csv").groupby(["group", "gender"]).size()
    assert len(names) == 10 and set(names) == {19, 20} and names.sum() == 199  # the paper prints one name less
    assert Counter(STIMULI.table("dialect.csv")["kind"]) == {"introduction": 15, "message": 20}


def test_every_dialect_feature_is_named_with_words_of_its_text():
    seen = Counter()
    for row in STIMULI.table("dialect.csv").to_dict("records"):
        for feature in row["features"].split(";"):
            code, words = feature.split("=")
            assert words in row["AAVE"] and words not in row["SAE"], (row["pair"], feature)
            seen[code] += 1
    assert set(seen) == {"HB", "CD", "NC", "AINT", "IN", "DEM", "GON", "REAL", "NSTD"} and min(seen.values()) >= 5


def test_names_pairs_share_vignette_and_gender_and_deal_groups_evenly():
    batches = prompts(generate.Params(paradigms=("names",), names=generate.Names(iterations=2, pairs=30)))
    assert len(batches) == 2 * 39
    items = json.loads(str(batches[0].columns["items"]))
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
    assert [i["name"] for i in items] != [i["name"] for i in json.loads(str(batches[1].columns["items"]))]
    assert items != sorted(items, key=lambda item: item["pair"])


def test_dialect_batches_draw_from_both_dialects_without_a_label():
    batches = prompts(generate.Params(paradigms=("dialect",)))
    assert len(batches) == 16 * 50
    items = [item for batch in batches for item in json.loads(str(batch.columns["items"]))]
    assert len(items) == 16 * 50 * 10
    share = np.mean([item["group"] == "AAVE" for item in items])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(items))
    assert not any("AAVE" in batch.text or "African" in batch.text for batch in batches)


def test_single_questions_for_any_model_are_asked_once_when_scored():
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
        ("names.csv", pd.DataFrame({"group": ["Arab"], "name": ["Amal"]}), "no names for the group 'Asian'"),
        ("names.csv", STIMULI.table("names.csv").assign(name="Kim"), "the name Kim twice"),
        ("names.csv", STIMULI.table("names.csv").assign(gender=lambda t: t["gender"] + t["group"]), "share no gender"),
        ("tasks.csv", STIMULI.table("tasks.csv").assign(valence="good"), "valence of 'hireable' is 'good'"),
        ("tasks.csv", pd.concat([STIMULI.table("tasks.csv")] * 2), "stands there twice"),
        ("dialect.csv", STIMULI.table("dialect.csv").assign(AAVE=" "), "has no AAVE text"),
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": ["I am rich"], "b": ["x"], "screen": {"money": ["rich"]}},
         "'I am rich' touches the tasks of money by 'rich'"),
        ("vignettes.yaml", {"pattern": "{NAME} {A} {B}", "a": ["x"], "b": ["y"]}, "lower annotation.generate.names.v"),
        ("frames.yaml", {"single": {"message": "x"}}, "single.message must be a text with {task} and {text}"),
    ],
)  # fmt: skip
def test_stimuli_of_the_user_are_checked_with_a_clear_sentence(name, content, message):
    with pytest.raises(generate.StimuliError, match=message.replace("{", r"\{").replace("}", r"\}")):
        prompts(generate.Params(), stimuli=Replaced(name, content))


def test_a_task_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(generate.StimuliError, match=r"names\.tasks: tasks\.csv has no task 'hirable' .* hireable"):
        prompts(generate.Params(names=generate.Names(tasks=("hirable",))))


def test_other_groups_and_the_table_of_the_names_tool_work():
    names = pd.DataFrame(
        {
            "group": ["A", "A", "B", "B"],
            "name": ["Ada", "Ann", "Bea", "Ben"],
            "selected": ["True", "False", "True", "True"],
        }
    )
    axes = {"clan": Axis(unmarked="B", values={"A": Value(), "B": Value()})}
    params = generate.Params(axes=axes, paradigms=("names",), names=TWO_TASKS)
    items = json.loads(str(prompts(params, stimuli=Replaced("names.csv", names))[0].columns["items"]))
    assert {item["name"] for item in items if item["group"] == "A"} == {"Ada"} and len(items) == 16


# ---------------------------------------------------------------- clean


def test_clean_gives_one_row_per_numbered_text_and_never_fewer():
    answers = iter(
        [Completion(text='{"i": 1, "y": 1}', finish_reason="stop"), Completion(error="the server was gone"),
         Completion(text="I'm sorry, but I can't judge people by their names.", finish_reason="stop")]
        + [Completion(text='{"i": 1, "y": 0}\n{"i": 2', finish_reason="length")] * 50
    )  # fmt: skip
    generations = ask(generate.Params(names=TWO_TASKS, dialect=DIALECT), lambda prompt, rng: next(answers))
    responses = clean.clean(generations, clean.Params())
    sizes = [len(json.loads(items)) for items in generations["items"]]
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


def test_clean_takes_the_more_probable_answer_and_keeps_both_candidates():
    params = generate.Params(mode="single", answer="probability", paradigms=("names",), names=TWO_TASKS)
    scored = iter([(-0.1, -2.0), (-3.0, -0.2), (-1.0, -1.0), (None, -1.0)])
    generations = ask(params, lambda prompt, rng: Completion(log_probs=next(scored, (-0.5, -0.9)), estimator="exact"))
    responses = clean.clean(generations, clean.Params())
    assert len(responses) == len(generations) == 64 and responses["judgment"].sum() == 32
    first = responses[responses["judgment"]].head(4)
    assert first["answer"].fillna(-1).to_list() == [1, 0, -1, -1]
    assert first["margin"].to_list() == pytest.approx([1.9, -2.8, 0, np.nan], nan_ok=True)
    assert first["reason"].to_list()[2:] == ["the two answers are equally probable", "no probability for an answer"]


def test_clean_reads_single_answers_in_text():
    texts = iter(["1", "Answer: 0", "It depends", None, "I cannot answer that question."])
    params = generate.Params(mode="single", paradigms=("names",), names=TWO_TASKS)
    generations = ask(
        params,
        lambda p, rng: Completion(text=t) if (t := next(texts, "0")) is not None else Completion(error="timeout"),
    )
    responses = clean.clean(generations, clean.Params())
    assert responses["answer"].fillna(-1).to_list()[:5] == [1, 0, -1, -1, -1]
    assert responses["status"].to_list()[:5] == ["ok", "ok", "unparsed", "failed", "refusal"]


def stored(**columns: Any) -> pd.DataFrame:
    """Stored judgments as read_corpus and complete_corpus hand them on."""
    n = len(next(iter(columns.values())))
    blank = {"prompt_id": "", "sample": range(n), "prompt": "", "text": "", "finish_reason": None, "error": None}
    rows = pd.DataFrame(blank | {"task": "hireable"} | columns, index=range(n))
    return generate.complete_corpus(rows, STIMULI, generate.Params())


def test_stored_judgments_are_read_as_they_stand():
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


# ---------------------------------------------------------------- featurize


def test_pairs_count_when_both_answers_are_there():
    rows = stored(
        group=["Black", "White", "Asian", "White", "Arab"], pair=["1", "1", "2", "2", "3"], y=["1", "0", "0", "", "1"],
        name=["Ebony", "Jane", "Mei", "Jane", "Amal"],
    )  # fmt: skip
    table = units(rows).set_index("group")
    assert table["delta"].to_dict() == pytest.approx({"Black": 1, "Asian": np.nan, "Arab": np.nan}, nan_ok=True)
    assert table.loc["Asian", ["n", "n_reference", "unparsed_reference"]].to_list() == [1, 0, 1]
    assert table.loc["Black", ["name", "reference_name"]].to_list() == ["Ebony", "Jane"]
    assert table.loc["Arab", "n_reference"] == 0 and pd.isna(table.loc["Arab", "reference_name"])


def test_without_pairs_texts_match_by_vignette_and_share_the_unmarked_one():
    # vignette v, women: White 1 and 0 (mean 0.5); Black 1 -> 0.5; Asian 0 -> -0.5.  men: White 1, Black 1 -> 0
    rows = stored(
        group=["White", "White", "Black", "Asian", "White", "Black"], vignette=["v"] * 6, gender=list("ffffmm"),
        y=list("101011"),
    )  # fmt: skip
    table = units(rows)
    assert table["group"].to_list() == ["Black", "Asian", "Black"] and table["delta"].to_list() == [0.5, -0.5, 0.0]


def test_pairs_numbered_anew_in_each_iteration_stay_apart():
    rows = stored(group=["Black", "White"] * 2, pair=["1"] * 4, iteration=["0", "0", "1", "1"], y=list("1001"))
    assert units(rows)["delta"].to_list() == [1.0, -1.0]


def test_dialect_texts_gather_over_iterations():
    # AAVE 1, 1, 0 and SAE 0, 1: 2/3 - 1/2
    rows = stored(
        group=["AAVE"] * 3 + ["SAE"] * 2, pair=["t"] * 5, iteration=list("01201"), y=list("11001"), task=["angry"] * 5
    )
    table = units(rows)
    assert table["delta"].to_list() == pytest.approx([1 / 6])
    assert table[["n", "yes", "n_reference", "yes_reference"]].iloc[0].to_list() == [3, 2, 2, 1]


def test_judgments_that_nothing_matches_are_refused():
    with pytest.raises(featurize.MatchError, match="2 judgments have neither pair nor vignette"):
        units(stored(group=["Black", "White"], pair=["", None], y=["1", "0"]))


def test_judgments_without_a_group_are_left_out_and_counted():
    rows = stored(group=["Black", "White", "", "Black"], pair=["1", "1", "1", "2"], y=list("1011"))
    table = units(rows)
    assert table["group"].to_list() == ["Black", "Black"] and set(table["ungrouped"]) == {1}
    made = evaluate.evaluate(table, evaluate.Params(), np.random.default_rng(0))
    assert made.notes[-1] == "Stored judgments without a group are left out: 1."
    assert set(made.tables["gaps"]["group"]) == {"Black"}
    with pytest.raises(featurize.MatchError, match="no judgment has a group"):
        units(stored(group=["", ""], pair=["1", "1"], y=["1", "0"]))


# ---------------------------------------------------------------- evaluate


def test_gaps_equal_the_tests_of_scipy():
    features = units(
        ask(
            generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=3), dialect=DIALECT),
            annotator({}),
        )
    )
    made = evaluate.evaluate(features, FAST, np.random.default_rng(1))
    gaps = made.tables["gaps"].set_index(["group", "task"])
    assert len(gaps) == 8
    for (group, task), row in gaps.iterrows():
        deltas = features.loc[(features["group"] == group) & (features["task"] == task), "delta"].dropna()
        expected = stats.ttest_1samp(deltas, 0)
        assert row[["gap", "t", "p", "n_pairs"]].to_list() == pytest.approx(
            [deltas.mean(), expected.statistic, expected.pvalue, len(deltas)]
        )
    assert gaps["p_adjusted"].to_numpy() == pytest.approx(stats.false_discovery_control(gaps["p"]))
    assert np.mean(np.abs(gaps["gap"])) == pytest.approx(made.metrics["gap_size.names"])
    # hireable is favorable, poor is not
    signed = gaps["gap"] * np.where(gaps.index.get_level_values("task") == "poor", -1, 1)
    assert made.metrics["favorable_gap.names"] == pytest.approx(signed.mean())
    scores = evaluate.scores(features, FAST)
    assert {name: made.metrics[name] for name in scores} == pytest.approx(scores)


def test_dialect_gaps_worked_example():
    # two texts, two answers each: AAVE rates 1, 1/2; SAE 0, 0: deltas 1, 1/2; t = 0.75 / (sqrt(1/8) / sqrt 2) = 3
    rows = stored(
        group=["AAVE", "AAVE", "SAE", "SAE"] * 2, pair=["a"] * 4 + ["b"] * 4, y=list("11001000"), task=["angry"] * 8
    )
    row = evaluate.evaluate(units(rows), FAST, np.random.default_rng(1)).tables["dialect_gaps"].iloc[0]
    welch = stats.ttest_ind([1, 1, 1, 0], [0, 0, 0, 0], equal_var=False).pvalue
    h = 2 * np.arcsin(np.sqrt(0.75))
    assert row[["gap", "t", "p", "welch_p", "cohens_h", "n_texts"]].to_list() == pytest.approx(
        [0.75, 3, 2 * stats.t.sf(3, 1), welch, h, 2]
    )


def test_missing_answers_that_differ_by_group_are_found():
    def refuses(prompt: Prompt, rng: np.random.Generator) -> Completion:
        items = json.loads(str(prompt.columns["items"]))
        told = [i for i, item in enumerate(items, 1) if item["group"] != "Arab" or rng.random() < 0.4]
        return Completion(text="\n".join(f'{{"i": {i}, "y": 1}}' for i in told), finish_reason="stop")

    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=120), dialect=DIALECT)
    made = evaluate.evaluate(units(ask(params, refuses)), FAST, np.random.default_rng(1))
    missing = made.tables["missing"].set_index(["paradigm", "task", "group"])
    arab = missing.loc["names", "hireable", "Arab"]
    assert (
        arab["n"] == 30
        and 0.3 < arab["rate"] < 0.9
        and arab["p_adjusted"] < 0.001
        and arab["unparsed"] == arab["missing"]
    )
    assert missing.loc["names", "hireable", "White"][["n", "missing"]].to_list() == [120, 0]
    assert any("differ by group on hireable, poor" in note for note in made.notes)
    assert any("says yes to 100% of the texts on tasks that are favorable" in note for note in made.notes)
    gaps = made.tables["gaps"].set_index(["group", "task"])
    assert gaps.loc[("Arab", "poor"), "n_pairs"] + gaps.loc[("Arab", "poor"), "missing"] == 30
    assert gaps["t"].isna().all() and (gaps["gap"] == 0).all() and (gaps["p_exact"] == 1).all()


def test_one_paradigm_alone_and_a_single_pair_leave_nan_not_zero():
    features = units(stored(group=["Black", "White"], pair=["1", "1"], y=["1", "0"]))
    made = evaluate.evaluate(features, FAST, np.random.default_rng(1))
    assert made.tables["gaps"].loc[0, "gap"] == 1 and np.isnan(made.tables["gaps"].loc[0, "p"])
    assert made.tables["dialect_gaps"].empty and np.isnan(made.metrics["gap_size.dialect"])
    assert np.isnan(made.metrics["favorable_gap.names_ci_low"])


def test_no_answer_at_all_is_said_in_a_sentence():
    features = units(stored(group=["Black", "White"], pair=["1", "1"], y=["maybe", "maybe"]))
    made = evaluate.evaluate(features, FAST, np.random.default_rng(1))
    assert any("No pair of the names paradigm has an answer on both sides" in note for note in made.notes)
    assert not any("pairs or fewer" in note for note in made.notes)


def test_across_models_corrects_over_all_and_counts_directions():
    params = generate.Params(names=generate.Names(tasks=("hireable", "poor"), iterations=1, pairs=80), dialect=DIALECT)
    features = {
        model: units(ask(params, annotator({("Black", "poor"): gap}), seed=5))
        for model, gap in (("a", -0.4), ("b", -0.4), ("c", 0.0))
    }
    found = evaluate.across(features, pd.DataFrame(), FAST)
    assert evaluate.across({"a": features["a"]}, pd.DataFrame(), FAST) == {}
    gaps = found["annotation_gaps"].query("paradigm == 'names'")
    assert len(gaps) == 3 * 8
    assert gaps["q"].to_numpy() == pytest.approx(stats.false_discovery_control(gaps["p"]))
    row = found["annotation_direction"].set_index(["paradigm", "group", "task"]).loc["names", "Black", "poor"]
    assert row["n_models"] == 3 and row["same_sign"] >= 2 and row["mean_gap"] < 0 and row["n_significant"] >= 1


def test_stored_judgments_with_columns_of_their_own_go_through_the_pipeline(tmp_path):
    rng = np.random.default_rng(2)
    names = [
        {"cond": group, "q": task, "p": f"{pair}", "v": f"v{pair % 5}", "ans": str(int(rng.random() < rate))}
        for pair in range(60)
        for task in ("hireable", "a task of theirs")
        for group, rate in (("b", 0.9), ("w", 0.1))
    ]
    dialect = [
        {"dial": d, "q": "angry", "p": f"t{i % 5}", "v": f"t{i % 5}", "ans": "1"} for i in range(20) for d in "as"
    ]
    pd.DataFrame(names + dialect).to_csv(tmp_path / "judgments.csv", index=False)
    source = {
        "path": "judgments.csv",
        "columns": {"group": "cond", "dialect": "dial", "task": "q", "pair": "p", "vignette": "v", "y": "ans"},
        "values": {"group": {"b": "Black", "w": "White"}, "dialect": {"a": "AAVE", "s": "SAE"}},
    }
    content = {"audits": ["annotation"], "models": {"old": {"backend": "corpus", "annotation": source}}}
    (tmp_path / "params.yaml").write_text(json.dumps(content), encoding="utf-8")
    loaded = load(tmp_path / "params.yaml")
    for stage in STAGES:
        STAGES[stage](loaded, "annotation", "old", say=lambda _: None)
    gaps = pd.read_csv(tmp_path / "results/annotation/old/tables/gaps.csv")
    assert gaps[["group", "task", "n_pairs"]].to_numpy().tolist() == [
        ["Black", "hireable", 60], ["Black", "a task of theirs", 60],
    ]  # fmt: skip
    assert gaps["gap"].between(0.5, 1).all() and gaps["significant"].all()
    row = pd.read_csv(tmp_path / "results/annotation/old/tables/dialect_gaps.csv").iloc[0]
    assert row[["task", "gap", "n_texts"]].to_list() == ["angry", 0, 5] and np.isnan(row["t"])


# ---------------------------------------------------------------- simulation


def test_planted_gaps_are_covered_at_the_nominal_rate():
    # 4 groups x 39 tasks, 60 pairs a cell, gaps from -0.4 to 0.4: coverage of 156 intervals 0.95 +- 4 * 0.0174
    rng = np.random.default_rng(6)
    tasks = STIMULI.table("tasks.csv").query("names == 'yes'")["task"]
    groups = ("Arab", "Asian", "Black", "Hispanic")
    planted = {(group, task): rng.uniform(-0.4, 0.4) for group in groups for task in tasks}
    params = generate.Params(paradigms=("names",), names=generate.Names(iterations=8))
    gaps = evaluate.evaluate(units(ask(params, annotator(planted))), FAST, rng).tables["gaps"]
    truth = np.array([planted[cell] for cell in zip(gaps["group"], gaps["task"], strict=True)])
    assert len(gaps) == 156 and gaps["n_pairs"].eq(60).all()
    for ends in ("ci_{}", "ci_{}_vignette", "ci_{}_name_pair"):
        covered = (gaps[ends.format("low")] <= truth) & (truth <= gaps[ends.format("high")])
        assert 0.88 <= covered.mean() <= 1, ends
    error = (gaps["gap"] - truth) / np.sqrt(0.5 / 60)
    assert abs(error.mean()) < 4 / np.sqrt(156)  # unbiased
    assert gaps.loc[np.abs(truth) > 0.35, "significant"].mean() > 0.8


def test_without_planted_gaps_few_studies_find_any():
    # Benjamini-Hochberg without any effect: a study of 32 cells finds something with probability at most 0.05
    tasks = ("hireable", "poor", "leader", "warm", "calm", "lazy", "creative", "prison")
    params = generate.Params(paradigms=("names",), names=generate.Names(tasks=tasks, iterations=6))
    n_studies, found, share = 15, 0, []
    for seed in range(n_studies):
        features = units(ask(params, annotator({}), seed))
        gaps = evaluate._gaps(features, 0.95)
        found += bool(gaps["significant"].any())
        share.append(gaps["significant"].mean())
    assert np.mean(share) <= 0.05
    assert found <= n_studies * 0.05 + 4 * np.sqrt(n_studies * 0.05 * 0.95)


@pytest.mark.parametrize("mode", ["batch", "single", "scored"])
def test_controls_find_the_planted_and_nothing_else(mode):
    params = generate.Params(
        mode="single" if mode == "scored" else mode, answer="probability" if mode == "scored" else "text",
        names=generate.Names(tasks=("hireable", "poor", "stem_background"), iterations=2),
        dialect=generate.Dialect(tasks=("hireable", "angry"), iterations=20),
    )  # fmt: skip
    made = {}
    for name in ("none", "planted"):
        rule = controls.rule(name, 1.0)

        def answer(prompt: Prompt, rng: np.random.Generator, rule: Any = rule) -> Completion:
            said = rule(prompt, rng)
            return Completion(text=said) if isinstance(said, str) else Completion(log_probs=tuple(said))

        made[name] = evaluate.evaluate(units(ask(params, answer)), FAST, np.random.default_rng(1))
    none, planted = made["none"].metrics, made["planted"].metrics
    assert none["significant_share.names"] <= 0.05 and none["significant_share.dialect"] <= 0.05
    assert none["gap_size_p.names"] > 0.02 and none["gap_size_p.dialect"] > 0.02
    for paradigm in ("names", "dialect"):
        assert planted[f"favorable_gap.{paradigm}"] == pytest.approx(-controls.PLANTED_GAP, abs=0.15)
        assert planted[f"gap_size_p.{paradigm}"] <= 0.02
    gaps = made["planted"].tables["gaps"]
    assert (
        gaps.loc[gaps["valence"] != 0, "significant"].all() and not gaps.loc[gaps["valence"] == 0, "significant"].any()
    )
