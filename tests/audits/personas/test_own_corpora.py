"""Texts of one's own: shared by groups, without vectors, in another alphabet, of unequal spread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
from scipy import stats
from tests.audits.personas.conftest import PLAIN, generations, tabled

from markedness.audits.personas import AXES, featurize, generate
from markedness.audits.personas.design.corpus_prompts import complete_corpus
from markedness.audits.personas.estimators.corpus import Corpus
from markedness.audits.personas.estimators.interaction import interactions
from markedness.audits.personas.estimators.params import Params
from markedness.audits.personas.estimators.scores import scores
from markedness.audits.personas.language.classifiers import SvmParams
from markedness.audits.personas.language.word_counts import WordCounts
from markedness.axes import group_name
from markedness.records import AuditError
from markedness.results import Score
from markedness.store import FolderStimuli, Store

WORDS = [
    "lamp",
    "river",
    "stone",
    "garden",
    "window",
    "market",
    "letter",
    "winter",
    "silver",
    "bridge",
    "candle",
    "forest",
]
FEW = Params(n_permutations=99, n_resamples=99)


def said(rng: np.random.Generator) -> str:
    return " ".join(str(word) for word in rng.choice(WORDS, 12))


def scored(table: pd.DataFrame, params: featurize.Params = PLAIN) -> dict[str, Score]:
    found = scores(tabled(table, params).tables, FEW, np.random.default_rng(0))
    return {score.key: score for score in found}


def test_texts_that_two_groups_share_are_said_and_kept_together_by_a_cluster() -> None:
    rng = np.random.default_rng(1)
    shared = [said(rng) for _ in range(15)]
    rows = [(race, "man", text) for race in ("White", "Black") for text in [*shared, *(said(rng) for _ in range(10))]]
    table = generations(rows)
    alone = scored(table)["jsd.excess"]
    assert "30 of 50 different texts of a group are word for word those of another group" in alone.caveat
    # Ten texts a group are exchanged in place of 25: the divergence by chance falls to that of the texts that differ.
    named = table.assign(cluster=table["text"].where(table["text"].isin(shared), ""))
    together = scored(named)["jsd.excess"]
    assert "word for word" not in together.caveat
    assert abs(together.estimate) < abs(alone.estimate)
    assert (
        "word for word" not in scored(generations([(race, "man", said(rng)) for race, *_ in rows]))["jsd.excess"].caveat
    )


def test_texts_without_a_group_are_in_no_comparison() -> None:
    rng, refusal = np.random.default_rng(3), "I'm sorry, but I cannot help with that."
    groups = [(race, gender) for race in ("White", "Black") for gender in ("man", "woman")]
    rows = [(race, gender, refusal if one == 0 else said(rng)) for race, gender in groups for one in range(12)]
    alone, nobody, half = generations(rows), [("", "", None)] * 40, [("White", "", None)] * 40
    found = scored(alone)
    with_rows = scored(generations([*rows, *nobody, *[("", "", said(rng)) for _ in range(40)]]))
    for key, score in found.items():
        same = with_rows[key]
        assert (same.estimate, same.p, same.n) == pytest.approx((score.estimate, score.p, score.n), nan_ok=True), key
    # Of whom one axis alone is known: of the groups of that axis, and of no combination.
    for key, score in scored(generations([*rows, *half])).items():
        if key.startswith("refusals.persona: ") and score.reference == "the other groups":
            assert (score.estimate, score.n) == (found[key].estimate, found[key].n) == (0, 48)


def test_authors_whose_ids_begin_with_a_hash_are_authors_as_any_others() -> None:
    rng = np.random.default_rng(4)
    refusal = "I'm sorry, but I cannot help with that."
    of = [(race, author) for race in ("White", "Black") for author in range(8) for _ in range(4)]
    table = generations(
        (race, "man", refusal if author < (1 if race == "White" else 4) else said(rng)) for race, author in of
    )
    found = [scored(table.assign(cluster=[f"{mark}{race}{author}" for race, author in of])) for mark in ("", "#")]
    assert found[0]["refusals.difference"].p < 1
    for key, score in found[0].items():
        assert score.p == pytest.approx(found[1][key].p, nan_ok=True), key


def test_similarity_that_is_not_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    table = generations([(race, "man", said(rng)) for race in ("White", "Black") for _ in range(8)])
    assert scored(table)["similarity.difference"].lacking == (
        "no text has a sentence embedding (personas.featurize.embeddings)"
    )
    monkeypatch.setattr(featurize, "embed", lambda texts, *_: np.eye(4)[[len(text) % 4 for text in texts]])
    embedded = featurize.Params(svm=SvmParams(enabled=False))
    made = tabled(generations([("White", "man", "тихая река"), ("Black", "man", "quiet river")]), embedded)
    assert made.tables["embeddings"]["text"].tolist() == [1]
    assert any(note.startswith("1 of 2 texts have no sentence embedding") for note in made.notes)
    found = {score.key: score for score in scores(made.tables, FEW, np.random.default_rng(0))}
    assert found["similarity.difference"].lacking == (
        "no prompt has two different texts of a marked and two of an unmarked group"
    )


def test_group_of_one_text_again_and_again_is_named_where_nothing_is_measured_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # similarity and classifiers are of Asian and White alone; they were said to be over Black too
    rng = np.random.default_rng(6)
    rows = [(race, "man", "lamp river lamp" if race == "Black" else said(rng)) for race in RACES for _ in range(20)]
    monkeypatch.setattr(featurize, "embed", lambda texts, *_: np.eye(4)[[len(text) % 4 for text in texts]])
    found = scored(generations(rows), featurize.Params(svm=SvmParams(enabled=True)))
    similarity, svm = found["similarity.difference"], found["svm.balanced_accuracy"]
    assert np.isfinite(similarity.estimate) and np.isfinite(svm.estimate)
    assert (similarity.over, svm.over) == ("Asian - White", "Asian - White")
    assert "Not over Black: no prompt has two different texts of them" in similarity.caveat
    assert "Not over Black: they, or what they are compared with, have no classifier." in svm.caveat


RACES = ("White", "Black", "Asian")
GROUPS = [(race, gender) for race in ("White", "Black", "Asian") for gender in ("man", "woman")]


def crossed(seed: int, repeats: float, own: float = 0.0) -> Corpus:
    """Words of prompt, race and gender; texts about Black women repeat their words more; ``own``: words of theirs."""
    rng, n_words = np.random.default_rng([20261124, seed]), 200
    logs = -np.log(np.arange(n_words) + 3.0)
    fixed = np.random.default_rng(3)
    of_value = {value: np.log(4) * (fixed.random(n_words) < 0.05) for value in ("Black", "Asian", "woman")}
    rows, counts = [], []
    for prompt in range(2):
        of_prompt = rng.normal(0, 0.7, n_words)
        for race, gender in GROUPS:
            black_woman = (race, gender) == ("Black", "woman")
            shift = sum((of_value[value] for value in (race, gender) if value in of_value), np.zeros(n_words))
            plain = np.exp(logs + of_prompt)
            share = 0.4 * plain / plain.sum() * np.exp(shift + own * black_woman * (np.arange(n_words) % 40 == 10))
            # The rest is a word without letters, which is not tested: shares of the others are exact products.
            share[0] = 1 - share[1:].sum()
            for _ in range(12):
                drawn = rng.gamma(np.maximum(share * (repeats if black_woman else 60.0), 1e-6)) + 1e-300
                counts.append(rng.multinomial(60, drawn / drawn.sum()))
                rows.append((f"prompt {prompt}", race, gender, group_name({"race": race, "gender": gender}, AXES)))
    texts = pd.DataFrame(rows, columns=["prompt_id", "race", "gender", "group"]).assign(
        text=np.arange(len(rows)), kind="persona", status="ok", included=True, duplicate=False,
        sample=np.arange(len(rows)), cluster=[f"#{number}" for number in range(len(rows))],
    )  # fmt: skip
    words = np.array(["", *(f"w{place:03d}" for place in range(1, n_words))], dtype=object)
    bag = WordCounts(words, scipy.sparse.csr_matrix(np.array(counts, dtype=np.int32))).table()
    unread = pd.DataFrame(columns=["kind", "measure", "reason"], dtype="str")
    return Corpus({"texts": texts, "bag_of_words": bag, "unread": unread}, AXES, "persona")


def departs(seed: int, repeats: float, own: float = 0.0) -> bool:
    """Whether some word of a crossed group departs from race plus gender."""
    found = interactions(crossed(seed, repeats, own), 199, 1, np.random.default_rng(seed))
    assert found is not None
    return bool(np.nanmin(found.p) <= 0.05)


@pytest.mark.slow
def test_words_of_a_group_whose_texts_repeat_themselves_are_no_words_beyond_race_and_gender() -> None:
    # With one dispersion for all groups, 9 of 100 such worlds of 15 groups were found, 5 of them in this group alone.
    found = sum(departs(seed, 6.0) for seed in range(150))
    assert stats.binomtest(found, 150, 0.05, alternative="greater").pvalue > 0.01, found
    assert sum(departs(seed, 60.0, 2.5) for seed in range(10)) >= 9


@pytest.mark.parametrize(("column", "cells"), [("prompt", ["", "Draw a Black man", ""]), ("kind", ["story", "", None])])
def test_prompt_or_kind_that_is_blank_in_part_is_refused(column: str, cells: list[str | None]) -> None:
    prompts = ["Draw a White man", "Draw a Black man", "Draw an Asian man"]
    rows = generations([(race, "man", "A tall man.") for race in ("White", "Black", "Asian")])
    rows = rows.assign(prompt=prompts, kind="story").assign(**{column: pd.Series(cells, dtype="string")})
    stimuli = Store(Path(generate.__file__).parents[4]).stimuli("personas")
    with pytest.raises(AuditError, match=r"personas: the column '(prompt|kind)' of the corpus is blank in 2 rows"):
        complete_corpus(rows.assign(prompt_id=rows["prompt"]), stimuli, generate.Params())
    rows = rows.assign(**{column: ""})
    filled = complete_corpus(rows.assign(prompt_id=rows["prompt"]), stimuli, generate.Params())
    assert set(filled["kind"]) == {"persona" if column == "kind" else "story"}


def test_prompts_that_groups_share_are_no_template_which_would_fit(stimuli: FolderStimuli) -> None:
    # "Describe {group}." fits both, and made them one prompt: 20 of 20 worlds whose texts hang on it were found.
    prompts = ["Describe your work.", "Describe your home.", "Describe a Black man.", "Describe yourself."]
    cells = [
        (prompt, race) for prompt in prompts for race in ("White", "Black") if race in prompt or " a " not in prompt
    ]
    rows = pd.DataFrame([(*cell, "man", "a text") for cell in cells], columns=["prompt", "race", "gender", "text"])
    rows = rows.assign(group=rows["race"] + " man", prompt_id=rows["prompt"])
    made = complete_corpus(rows, stimuli, generate.Params()).set_index("prompt")["prompt_id"]
    assert made["Describe your work."].eq("Describe your work.").all()
    assert made["Describe your home."].eq("Describe your home.").all()
    assert made["Describe a Black man."] == "describe"
