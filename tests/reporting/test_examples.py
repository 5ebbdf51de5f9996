"""The texts that drive a score, in their order, and listed words in their texts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from markedness.audits.annotation import examples as annotation
from markedness.audits.base import CONTEXT_COLUMNS, Examples
from markedness.audits.guise import examples as guise
from markedness.audits.guise.estimators.params import Params as GuiseParams
from markedness.audits.homogeneity import examples as homogeneity
from markedness.audits.knowledge import examples as knowledge
from markedness.audits.personas import examples as personas
from markedness.audits.personas.estimators.params import Params as PersonasParams
from markedness.examples import MIDDLE, picked
from markedness.records import Strict
from markedness.reporting.examples import example_texts, snippet, word_rows

NOTHING = pd.DataFrame()


def no_table(stem: str) -> pd.DataFrame:
    """Of an audit that reads no table of its results."""
    raise AssertionError(stem)


def test_personas_sort_by_marked_words_without_those_of_the_prompt_and_pronouns() -> None:
    texts = pd.DataFrame(
        {
            "text": [0, 1, 2], "kind": "persona", "prompt_id": "p", "group": ["Black woman"] * 2 + ["White man"],
            "race": ["Black", "Black", "White"], "gender": ["woman", "woman", "man"], "included": True,
        }
    )  # fmt: skip
    bag = pd.DataFrame(
        [(0, "she"), (0, "black"), (0, "proud"), (1, "strong"), (1, "proud"), (2, "strong")], columns=["text", "word"]
    )
    marked = pd.DataFrame(
        [
            ("persona", "Black", "strong", 1, False, False), ("persona", "Black", "black", 2, True, False),
            ("persona", "woman", "she", 1, False, True), ("persona", "Black woman", "proud", 1, False, False),
        ],
        columns=["kind", "group", "word", "rank", "in_prompt", "pronoun"],
    )  # fmt: skip
    responses = pd.DataFrame({"prompt": "Describe.", "text": ["She, Black, proud", "strong proud", "strong"]})
    made = personas.examples(
        responses, {"texts": texts, "bag_of_words": bag}, lambda stem: marked, PersonasParams()
    )  # fmt: skip
    # text 1 has strong (Black) and proud (Black woman); text 0 proud alone; no word is marked for a White man
    assert made.rows["text"].tolist() == ["strong proud", "She, Black, proud", "strong"]
    assert made.rows["note"].tolist() == ["2 marked words", "1 marked word", "0 marked words"]
    assert made.highlight == {"Black woman": ["proud", "strong"]}
    found = made.contexts.set_index(["group", "word"])["text"]
    assert found["Black", "strong"] == "strong proud"  # not the text about a White man
    assert found["woman", "she"] == "She, Black, proud"


def test_homogeneity_sorts_answers_by_the_share_of_others_that_are_the_same() -> None:
    answers = pd.DataFrame(
        {
            "prompt_id": "sports", "group": "Black man", "kind": "expression", "category": ["tennis", "golf", "none"],
            "count": [1, 3, 9], "kept": [True, True, False],
        }
    )  # fmt: skip
    responses = pd.DataFrame(
        {"prompt_id": "sports", "group": "Black man", "answer": ["golf", "golf", "tennis"], "prompt": "plays",
         "text": ["Golf!", "golf", "Tennis"]}
    )  # fmt: skip
    made = homogeneity.examples(responses, {"answers": answers}, no_table, Strict())
    # golf: 2 of the 3 other answers; tennis: none of them; what is not kept is not there
    assert made.rows["text"].tolist() == ["Golf!", "Tennis"]
    assert made.rows["note"].iloc[0] == "3 of 4 answers of this group to this cue are the same"


def test_homogeneity_sorts_texts_by_similarity_to_the_others_of_the_group() -> None:
    vectors = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.8, 0.6])]
    answers = pd.DataFrame(
        {"prompt_id": "life", "group": "A", "kind": "text", "category": None, "count": 1, "kept": True,
         "embedding": vectors}
    )  # fmt: skip
    responses = pd.DataFrame(
        {"prompt_id": "life", "group": "A", "answer": "", "prompt": "p", "text": ["x", "y", "z"], "word_limit": np.nan}
    )
    made = homogeneity.examples(responses, {"answers": answers}, no_table, Strict())
    # cosines: x-y 0, x-z 0.8, y-z 0.6; means of the two others: x 0.4, y 0.3, z 0.7
    assert made.rows["text"].tolist() == ["z", "x", "y"]
    assert made.rows["note"].iloc[0].endswith("0.70")
    shorter = homogeneity.examples(responses.head(2), {"answers": answers}, no_table, Strict())
    assert shorter.rows.empty  # the responses are not those of the features: no text beside a wrong number


def test_guise_sorts_pairs_by_the_shift_towards_stereotypes() -> None:
    rows = [
        ("AAE", "SAE", "traits", "association", "matched", "be", pair, prompt, attribute, attribute == "lazy", shift)
        for pair, shift in (("1", 0.5), ("2", 1.0))
        for prompt in ("T1", "T2")
        for attribute in ("kind", "lazy")
    ]
    scores = pd.DataFrame(
        rows,
        columns=["group", "reference", "task", "kind", "setting", "text_set", "pair", "prompt_id", "attribute",
                 "stereotypical", "shift"],
    )  # fmt: skip
    scores["log_prob_reference"] = -5.0
    scores["log_prob"] = -5.0 + scores["stereotypical"] * scores["shift"] * np.log(10)
    scores = scores.drop(columns=["stereotypical", "shift"]).assign(
        control=False, cluster="v", cluster_reference="v", estimator="exact", cut=False, coverage=np.nan, missing=None,
        neutral_log_prob=np.nan,
    )  # fmt: skip
    attributes = pd.DataFrame({"task": "traits", "attribute": ["kind", "lazy"], "percent_1933": [np.nan, 60.0]})
    responses = pd.DataFrame(
        {"group": ["AAE", "AAE", "SAE"], "pairs": "be", "pair": ["1", "2", "2"], "prompt": "q",
         "utterance": ["he be", "they be", "they're"]}
    )  # fmt: skip
    params = GuiseParams(stereotypes=("lazy",))
    made = guise.examples(responses, {"scores": scores, "attributes": attributes}, no_table, params)
    assert made.rows["text"].tolist() == ["they be", "he be"]
    assert made.rows["prompt"].tolist()[0] == "In place of: they're"
    assert made.rows["prompt"].tolist()[1] == "In place of: (the other text is not in the data)"
    assert made.rows["note"].iloc[0] == "shift 1.00; probability of the stereotypes lazy × 10"


def test_knowledge_puts_negative_and_toxic_triples_first() -> None:
    triples = pd.DataFrame(
        {
            "group": "Women", "subject": "Women", "predicate": "are", "object": ["kind", "loud", "mean", "left out"],
            "included": [True, True, True, False], "analysed": True,
            "regard": ["positive", "negative", "negative", "negative"], "toxicity": [0.9, 0.2, 0.4, 1.0],
        }
    )  # fmt: skip
    responses = pd.DataFrame({"strategy": ["initial"] * 4 + ["list"], "prompt": ["a", "b", "c", "d", "e"]})
    made = knowledge.examples(responses, {"triples": triples}, no_table, Strict())
    assert made.rows["text"].tolist() == ["Women are mean", "Women are loud", "Women are kind"]
    assert made.rows["prompt"].tolist() == ["c", "b", "a"]
    assert made.rows["note"].iloc[0] == "regard: negative, toxicity 0.40"


@pytest.mark.parametrize("scored", [True, False])
def test_annotation_puts_the_widest_gap_between_twins_first(scored: bool) -> None:
    pairs = pd.DataFrame(
        {
            "paradigm": "names", "task": "poor", "group": "Black", "reference": "White", "prompt_id": "b",
            "pair": ["1", "2", "3"], "iteration": 0, "name": ["Aisha", "Ebony", "Kenya"], "reference_name": "Emily",
            "n": 1, "yes": [1, 0, 0], "n_reference": [1, 1, 0], "yes_reference": [1, 1, 0],
            "delta": [0.0, -1.0, np.nan],
            "margin": [2.0, -1.0, np.nan] if scored else np.nan,
            "margin_reference": [-2.0, 1.0, np.nan] if scored else np.nan,
        }
    )  # fmt: skip
    responses = pairs[["paradigm", "task", "group", "prompt_id", "pair", "iteration"]].assign(
        prompt="Which of these?\n1. Aisha called.\n2. Ebony wrote.\n12. No one.", position=[1, 2, 12], n_texts=12
    )
    made = annotation.examples(responses, {"pairs": pairs}, no_table, Strict())
    # gaps of ln P: 4 and 2; of labels: 0 and 1; the pair without a judgment has none
    assert made.rows["text"].tolist() == (
        ["Aisha called.", "Ebony wrote."] if scored else ["Ebony wrote.", "Aisha called."]
    )
    assert made.rows["prompt"].unique().tolist() == [
        f"Text {n} of a list of 12" for n in ((1, 2) if scored else (2, 1))
    ]
    assert "no for Ebony (Black)" in made.rows.loc[made.rows["text"].eq("Ebony wrote."), "note"].iloc[0]


def test_picked_takes_the_first_of_each_group_and_one_from_the_middle() -> None:
    rows = pd.DataFrame({"group": ["a"] * 9 + ["b"], "prompt": "", "text": [*"012345678", "x"], "note": ""})
    made = picked(rows, 3)
    assert made["text"].tolist() == ["0", "1", "4", "x"]
    assert made["place"].eq(MIDDLE).tolist() == [False, False, True, False]
    assert picked(rows.head(2), 4)["text"].tolist() == ["0", "1"]  # no text twice
    assert picked(rows.assign(text=" "), 3).empty


def test_snippet_finds_a_word_as_either_rule_cuts_it() -> None:
    assert snippet("I am strong-willed.", "strongwilled") == ("I am ", "strong-willed.", "")
    assert snippet("I am strong-willed.", "strong-willed") == ("I am ", "strong-willed.", "")
    assert snippet("Well, “José” it is", "josé") == ("Well, ", "“José”", " it is")
    assert snippet("armstrong", "strong") is None
    before, word, after = snippet("a b " * 200 + "here" + " c" * 200, "here") or ("", "", "")
    assert before.startswith("…") and len(before) < 80 and word == "here" and after.endswith("…")


def test_words_of_the_prompt_and_pronouns_are_labelled_and_words_open_their_texts() -> None:
    marked = pd.DataFrame(
        [("Black", "she", 1, 9.0, False, True), ("Black", "black", 2, 8.0, True, False),
         ("Black", "proud", 3, 7.0, False, False), ("White", "plain", 1, 3.0, np.nan, np.nan)],
        columns=["group", "word", "rank", "z", "in_prompt", "pronoun"],
    ).assign(kind="persona")  # fmt: skip
    contexts = pd.DataFrame([("persona", "Black", "proud", "A <b>proud</b> one")], columns=list(CONTEXT_COLUMNS))
    data: dict[str, str] = {}
    (part,) = word_rows(marked, Examples("place", NOTHING, contexts=contexts), "contexts-x", data)
    black, white = part["rows"]
    assert [chip["given"] for chip in black["words"]] == ["pronoun", "in the prompt", ""]
    assert (black["count"], white["count"]) == ("3 words", "1 word")
    assert [chip["texts"] for chip in black["words"]] == [None, None, None]  # "<b>proud</b>" is another word
    contexts["text"] = "A proud, <b>tall</b> one"
    (part,) = word_rows(marked, Examples("place", NOTHING, contexts=contexts), "contexts-x", data)
    assert [chip["texts"] for chip in part["rows"][0]["words"]] == [None, None, 0]
    assert "<" not in data["contexts-x"]
    assert json.loads(data["contexts-x"]) == [[["A ", "proud,", " <b>tall</b> one"]]]


def test_example_texts_say_what_they_are_sorted_by_and_are_escaped() -> None:
    rows = pd.DataFrame({"group": "a", "prompt": None, "text": ["<i>x</i>", "y", "z", "w"], "note": "n"})
    data: dict[str, str] = {}
    made = example_texts(Examples("how loud they are", rows), NOTHING, NOTHING, 2, "e", data)
    assert made is not None and made["text"].startswith("Sorted by how loud they are. The first of each group are")
    assert "<" not in data["e"]
    texts = json.loads(data["e"])["texts"]
    assert [(one["text"], one["middle"]) for one in texts] == [("<i>x</i>", False), ("z", True)]
