"""Scorers against labels of people: a planted error is found and corrected, a fair scorer is not accused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from markedness.audits.knowledge.estimators.validation import validated
from markedness.cli import app
from markedness.records import AuditError
from markedness.store import Store

REGARD = np.array(["negative", "neutral", "positive"])
TRUE = 0.2 * -1 + 0.3 * 0 + 0.5 * 1


def world(seed: int, harsh: float = 0.0, n: int = 300, labelled: int = 80) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Triples of two subjects with the same regard; the scorer errs in a fifth, and is harsh about one in a share."""
    rng = np.random.default_rng(seed)
    parts = []
    for subject, harshness in (("Jains", harsh), ("Sikhs", 0.0)):
        human = rng.choice(3, n, p=[0.2, 0.3, 0.5])
        scorer = np.where(rng.random(n) < 0.2, rng.integers(0, 3, n), human)
        scorer = np.where(rng.random(n) < harshness, 0, scorer)
        parts.append(pd.DataFrame({"subject": subject, "regard": REGARD[scorer], "human": REGARD[human]}))
    whole = pd.concat(parts, ignore_index=True)
    whole = whole.assign(**{"class": "religion", "regard_scorer": "a scorer"})
    drawn = whole.groupby("subject").sample(labelled, random_state=seed)
    return drawn, whole.drop(columns="human")


def test_a_fair_scorer_is_not_accused_and_its_correction_holds_the_truth() -> None:
    found = [validated(*world(seed)).set_index("subject") for seed in range(100)]
    accused = sum(float(one["p"].astype(float)["Jains"]) <= 0.05 for one in found)
    assert stats.binomtest(accused, 100, 0.05, alternative="greater").pvalue > 0.01, accused
    held = sum(one["ci_low"].astype(float)["Jains"] <= TRUE <= one["ci_high"].astype(float)["Jains"] for one in found)
    assert stats.binomtest(held, 100, 0.93, alternative="less").pvalue > 0.01, held


def test_a_scorer_that_is_harsh_about_one_subject_is_found_and_corrected() -> None:
    found = [validated(*world(seed, harsh=0.4)).set_index("subject") for seed in range(40)]
    assert sum(float(one["p_adjusted"].astype(float)["Jains"]) <= 0.05 for one in found) >= 36
    assert all(float(one["error"].astype(float)["Jains"]) < 0 for one in found)
    held = sum(one["ci_low"].astype(float)["Jains"] <= TRUE <= one["ci_high"].astype(float)["Jains"] for one in found)
    assert stats.binomtest(held, 40, 0.93, alternative="less").pvalue > 0.01, held
    assert np.mean([one["mean_regard"].astype(float)["Jains"] for one in found]) < TRUE - 0.3


def test_labels_worked_example() -> None:
    labels = pd.DataFrame({
        "class": "c", "subject": ["a"] * 3 + ["b"], "regard": ["positive", "neutral", "negative", "neutral"],
        "human": ["positive", " Negative", "", "neutral"],
    })  # fmt: skip
    triples = pd.DataFrame({"class": "c", "subject": ["a", "a", "b"], "regard": ["positive", "neutral", "neutral"]})
    made = validated(labels, triples.assign(regard_scorer="s")).set_index("subject")
    # a: two labels, one right; the scorer says 1 and 0, people 1 and -1: error 0.5; mean 0.5, corrected 0
    own = made[["n_labels", "agreement", "error", "mean_regard", "corrected"]].astype(float).to_dict("index")["a"]
    assert list(own.values()) == [2, 0.5, 0.5, 0.5, 0]
    assert made["ci_low"].isna().all() and np.isnan(made["corrected"].astype(float)["all"])


def of_toxicity(seed: int, harsh: float = 0.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Triples of two subjects, a fifth of them insults; the scorer is noisy, and higher by ``harsh`` about one."""
    rng = np.random.default_rng(seed)
    parts = []
    for subject, more in (("Jains", harsh), ("Sikhs", 0.0)):
        human = (rng.random(300) < 0.2).astype(float)
        scorer = 0.1 + 0.5 * human + rng.uniform(0, 0.2, 300) + more
        parts.append(pd.DataFrame({"subject": subject, "toxicity": scorer, "human": human}))
    whole = pd.concat(parts, ignore_index=True).assign(**{"class": "religion", "toxicity_scorer": "a scorer"})
    whole["object"] = [f"o{place}" for place in range(len(whole))]
    return whole.groupby("subject").sample(80, random_state=seed), whole.drop(columns="human")


@pytest.mark.parametrize(("harsh", "found"), [(0.0, False), (0.15, True)])
def test_toxicity_of_a_scorer_that_is_harsh_about_one_subject_is_found_and_corrected(harsh: float, found: bool) -> None:
    made = [validated(*of_toxicity(seed, harsh), measure="toxicity").set_index("subject") for seed in range(100)]
    accused = sum(float(one["p"].astype(float)["Jains"]) <= 0.05 for one in made)
    assert accused >= 95 if found else stats.binomtest(accused, 100, 0.05, alternative="greater").pvalue > 0.01
    held = sum(one["ci_low"].astype(float)["Jains"] <= 0.2 <= one["ci_high"].astype(float)["Jains"] for one in made)
    assert stats.binomtest(held, 100, 0.93, alternative="less").pvalue > 0.01, held


def test_toxicity_labels_worked_example() -> None:
    triples = pd.DataFrame(
        {"class": "c", "subject": ["a", "a", "b"], "toxicity": [0.9, 0.6, 0.1], "object": list("xyz")}
    )
    labels = triples.assign(human=["1", "0.2", ""])
    made = validated(labels, triples.assign(toxicity_scorer="s"), measure="toxicity").set_index("subject")
    # a: 0.9 and 1 agree, 0.6 and 0.2 do not; errors -0.1 and 0.4: mean 0.15; mean of the scorer 0.75, corrected 0.6
    own = made[["n_labels", "agreement", "error", "mean_toxicity", "corrected"]].astype(float).to_dict("index")["a"]
    assert list(own.values()) == pytest.approx([2, 0.5, 0.15, 0.75, 0.6])
    with pytest.raises(AuditError, match=r"the label '7' is none of 0 \(no insult\) to 1"):
        validated(labels.assign(human="7"), triples, measure="toxicity")


def test_labels_that_cannot_be_read_are_one_sentence() -> None:
    labels, triples = world(0)
    for table, said in (
        (labels.drop(columns="human"), "no column human"), (labels.assign(human="nice"), "'nice' is none of"),
        (labels.assign(human=""), "no row has a label"),
    ):  # fmt: skip
        with pytest.raises(AuditError, match=said):
            validated(table, triples)


def test_labels_of_other_triples_are_refused_and_labels_of_some_subjects_are_not() -> None:
    triples = pd.DataFrame({
        "class": ["c"] * 14 + ["d"] * 2, "subject": ["a"] * 7 + ["b"] * 7 + ["e", "f"], "predicate": "are",
        "object": [f"o{place}" for place in range(16)], "regard": ["neutral", "positive"] * 8, "regard_scorer": "s",
    })  # fmt: skip
    labels = triples.assign(human="neutral")
    for changed in (
        labels.assign(object="something else"), labels.assign(regard="negative"), pd.concat([labels] * 2),
        labels.assign(subject=labels["subject"].str.upper()),
    ):  # fmt: skip
        with pytest.raises(AuditError, match=r"\A[^\n]*are none of the model's triples[^\n]*\Z"):
            validated(changed, triples)
    with pytest.raises(AuditError, match="no column object"):
        validated(labels.drop(columns="object"), triples)
    some = validated(labels[labels["subject"].eq("a")], triples).set_index(["class", "subject"])
    assert some["n_labels"].to_dict() == {
        ("c", "a"): 7, ("c", "b"): 0, ("c", "all"): 7, ("d", "e"): 0, ("d", "f"): 0, ("d", "all"): 0,
    }  # fmt: skip
    assert some["corrected"].notna().sum() == 1


def test_command_prints_the_table_and_writes_it(tmp_path: Path) -> None:
    labels, triples = world(1)
    store = Store(tmp_path)
    store.write_csv(store.results("knowledge", "m") / "tables" / "triples.csv", triples)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "params.yaml").write_text("models: {m: {backend: scripted}}\n", encoding="utf-8")
    where = ["--params", str(tmp_path / "params.yaml")]
    arguments = ["scorers", "validate", str(tmp_path / "labels.csv"), "--model", "m", "--output"]
    done = CliRunner().invoke(app, [*arguments, str(tmp_path / "out.csv"), *where])
    assert done.exit_code == 0 and "Jains" in done.output
    assert len(pd.read_csv(tmp_path / "out.csv")) == 3
    labels, triples = of_toxicity(1)
    store.write_csv(store.results("knowledge", "m") / "tables" / "triples.csv", triples)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    done = CliRunner().invoke(app, [*arguments, str(tmp_path / "out.csv"), "--measure", "toxicity", *where])
    assert done.exit_code == 0 and "mean_toxicity" in done.output
    missing = CliRunner().invoke(app, ["scorers", "validate", "nothing.csv", "--model", "other", *where])
    assert missing.exit_code != 0


def test_command_finds_the_labels_of_subjects_that_look_like_numbers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    labels, triples = (table.assign(subject=table["subject"].map({"Jains": "1950", "Sikhs": "01"}), predicate="nan")
                       for table in world(1))  # fmt: skip
    store.write_csv(store.results("knowledge", "m") / "tables" / "triples.csv", triples)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "params.yaml").write_text("models: {m: {backend: scripted}}\n", encoding="utf-8")
    arguments = ["scorers", "validate", str(tmp_path / "labels.csv"), "--model", "m"]
    more = ["--params", str(tmp_path / "params.yaml"), "--output", str(tmp_path / "out.csv")]
    done = CliRunner().invoke(app, [*arguments, *more])
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "out.csv", dtype={"subject": str})
    assert dict(zip(found["subject"], found["n_labels"], strict=True)) == {"1950": 80, "01": 80, "all": 160}
