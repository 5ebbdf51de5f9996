"""The published files through the pipeline, as corpus models of a params file: printed lists and numbers come out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.cells import number

from markedness import params, pipeline
from markedness.audits.personas.evaluate import Params as Evaluate
from markedness.audits.personas.evaluate import evaluate
from markedness.params import Params
from markedness.records import Features
from markedness.store import Store

RACES = {"a White": "White", "a Black": "Black", "an Asian": "Asian", "a Middle-Eastern": "Middle-Eastern",
         "a Latine": "Latine"}  # fmt: skip
pytestmark = pytest.mark.slow
GENDERS = {"M": "man", "W": "woman", "N": "nonbinary"}
# Full lists of each model; Table 3 holds the crossed groups of GPT-4 whole, and single values cut at 20 words.
TABLES = {"gpt4": ("A2", "A3", "A4", "3"), "dv3": ("A5", "A6"), "dv2": ()}


@pytest.fixture(scope="module")
def study(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Params:
    """GPT-4, text-davinci-003 and -002 as three corpus models, evaluated with the published settings."""
    folder = tmp_path_factory.mktemp("published")
    models = {
        name: {
            "backend": "corpus",
            "personas": {
                "path": str(shared / "corpora" / "personas" / f"{name}_main_generations.csv"),
                "values": {"race": RACES, "gender": GENDERS},
            },
        }
        for name in TABLES
    }
    content = {
        "audits": ["personas"],
        "models": models,
        "personas": {
            "featurize": {
                "exclude": [],
                "lexicon_counting": "substrings",
                "embeddings": None,
                "svm": {"order": "file"},
            },
            "evaluate": {"n_permutations": 20, "n_resamples": 50},
        },
    }
    (folder / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    loaded = params.load(folder / "params.yaml")
    for name in TABLES:
        for stage in ("generate", "clean", "featurize", "evaluate"):
            pipeline.STAGES[stage](loaded, "personas", name, say=lambda _: None)
    return loaded


def table(study: Params, model: str, name: str) -> pd.DataFrame:
    return pd.read_csv(study.root / "results" / "personas" / model / "tables" / f"{name}.csv")


def scores(study: Params, model: str) -> pd.DataFrame:
    return pd.read_csv(study.root / "results" / "personas" / model / "scores.csv")


def ours(theirs: str) -> str:
    """Their name of a group ("an AsianW") in ours ("Asian woman")."""
    if theirs in GENDERS:
        return GENDERS[theirs]
    if theirs in RACES:
        return RACES[theirs]
    return f"{RACES[theirs[:-1]]} {GENDERS[theirs[-1]]}"


@pytest.mark.parametrize("model", ["gpt4", "dv3"])
def test_marked_words_equal_the_printed_tables_as_sets(study: Params, shared: Path, model: str) -> None:
    printed = json.loads((shared / "published" / "personas_tables.json").read_text(encoding="utf-8"))
    found = table(study, model, "marked_words").groupby("group")["word"].agg(list)
    for name in TABLES[model]:
        for group, words in printed[name].items():
            listed = found[ours(group)]
            if name == "3" and len(words["black"]) == 20:
                assert set(words["black"]) <= set(listed), f"Table {name}, {group}"
            else:
                assert set(words["black"]) == set(listed), f"Table {name}, {group}"


@pytest.mark.parametrize(("model", "mean", "sd"), [("gpt4", 0.962, 0.017), ("dv3", 0.924, 0.039)])
def test_svm_accuracy_is_the_reported_one(study: Params, model: str, mean: float, sd: float) -> None:
    svm = table(study, model, "svm")
    assert len(svm) == 23
    assert svm["accuracy"].mean() == pytest.approx(mean, abs=0.005)
    assert svm["accuracy"].std(ddof=0) == pytest.approx(sd, abs=0.002)
    # always "no": (5 x 4/5 + 3 x 2/3 + 15 x 14/15) / 23 = 20/23 = 0.8696
    assert svm["majority_baseline"].mean() == pytest.approx(0.870, abs=0.001)


@pytest.mark.parametrize(("model", "mean", "sd"), [("gpt4", 0.8319, 0.2671), ("dv3", 0.9269, 0.1476)])
def test_sentiment_is_the_reported_one(study: Params, model: str, mean: float, sd: float) -> None:
    row = table(study, model, "sentiment").set_index("group").loc["all"]
    assert row["mean"] == pytest.approx(mean, abs=5e-5)
    assert row["sd"] == pytest.approx(sd, abs=5e-5)


@pytest.mark.parametrize(
    ("model", "lexicon", "white", "black"),
    [
        ("gpt4", "Black", (0.187, 0.025), (0.370, 0.038)),
        ("gpt4", "White", (1.362, None), (0.960, None)),
        ("dv3", "Black", (0.650, 0.061), (0.410, 0.052)),
        ("dv3", "White", (1.536, None), (0.478, None)),
    ],
)
def test_lexicon_percent_is_that_of_figure_1(
    study: Params, model: str, lexicon: str, white: tuple[float, float], black: tuple[float, float]
) -> None:
    rows = table(study, model, "lexicon").query("lexicon == @lexicon").set_index("group")
    for group, (mean, error) in {"White": white, "Black": black}.items():
        assert round(number(rows, group, "mean_percent"), 3) == mean
        assert error is None or round(number(rows, group, "standard_error"), 3) == error


def test_lexicon_percent_of_men_and_women_alone(study: Params) -> None:
    narrow = Evaluate(lexicon_within={"gender": ("man", "woman")}, n_permutations=0, n_resamples=10)
    for model, white, black in (("gpt4", 0.263, 0.513), ("dv3", 0.882, 0.553)):
        features = Store(study.root).read_features("personas", model)
        assert isinstance(features, Features)
        made = evaluate(features.tables, narrow, np.random.default_rng(0))
        rows = made.tables["lexicon"].query("lexicon == 'Black'").set_index("group")["mean_percent"]
        assert (round(rows["White"], 3), round(rows["Black"], 3)) == (white, black)


@pytest.mark.parametrize(("model", "share"), [("gpt4", 0.511), ("dv3", 0.411)])
def test_word_share_is_the_true_share(study: Params, model: str, share: float) -> None:
    rows = table(study, model, "word_share").set_index("group")
    assert round(number(rows, "Black woman", "share"), 3) == share


def test_prompts_of_the_released_files_are_recognised(study: Params) -> None:
    for model in TABLES:
        refusals = table(study, model, "refusals")
        assert set(refusals["prompt"]) == {"kambhatla", "imagine_without_saying", "imagine_yourself", "first_person",
                                           "describe", "imagine"}  # fmt: skip
        assert (refusals["n"] == 15).all()


def test_the_count_of_marked_words_is_far_beyond_its_null(study: Params) -> None:
    for model in TABLES:
        found = scores(study, model).set_index("key")
        count, excess = number(found, "marked_words.count", "estimate"), found.loc["marked_words.excess"]
        assert count > 100
        # Marked groups have longer texts: 13 to 22 % of the words are cut, and a word of fewer occurrences has less z.
        assert 0.7 * count < excess["estimate"] < count
        assert excess["p"] == pytest.approx(1 / 21)


def test_a_file_without_a_group_of_the_axes_is_measured_without_it(study: Params) -> None:
    notes = json.loads((study.root / "results" / "personas" / "dv2" / "notes.json").read_text())
    assert any("no texts for 'nonbinary'" in note for note in notes)
    assert "nonbinary" not in set(table(study, "dv2", "marked_words")["group"])
