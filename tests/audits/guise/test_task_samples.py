"""A task with a sample, such as occupations: which texts of a set it is asked with, and that it says so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.audits.guise.test_guise_stages import FAST, asked, generations

from markedness.audits.guise import clean, evaluate, featurize, generate
from markedness.audits.guise.design.tasks import Task
from markedness.audits.guise.design.texts import TextSource, digest
from markedness.records import Features, Prompt
from markedness.store import FolderStimuli

TASKS = {"occupations": Task(prompts=("O3", "O7"), sample=8), "conviction": Task()}
VERBS = ("sing", "cook", "walk", "read", "talk", "play", "work", "sleep", "write", "drive")
LINES = [f"{who} be {verb}ing {place}\t{who} is {verb}ing" for verb in VERBS
         for place in ("here", "there") for who in ("she", "he")]  # fmt: skip
"""Sorted by verb; two lines of each SAE text."""


def own(folder: Path, lines: list[str], **source: object) -> tuple[generate.Params, FolderStimuli]:
    folder.mkdir(exist_ok=True)
    (folder / "mine.tsv").write_text("\n".join(lines), encoding="utf-8")
    params = generate.Params(pairs={"mine": TextSource.model_validate({"file": "mine.tsv", **source})}, tasks=TASKS)
    return params, FolderStimuli("guise", folder)


def asked_of(study: tuple[generate.Params, FolderStimuli]) -> list[Prompt]:
    return asked(study[0], stimuli=study[1])


def shuffled(lines: list[str]) -> list[str]:
    return [lines[place] for place in np.random.default_rng(3).permutation(len(lines))]


def texts(prompts: list[Prompt], task: str = "occupations") -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"AAE": set(), "SAE": set()}
    for prompt in prompts:
        if prompt.columns["task"] == task and prompt.group:
            found[prompt.group].add(str(prompt.columns["utterance"]))
    return found


def by_content(prompt: Prompt, rng: np.random.Generator) -> list[float]:
    """A model to which nothing but the words counts."""
    marks = (int(digest(f"{prompt.completion} {word}"), 16) % 1000 for word in prompt.candidates)
    return [-2.0 - mark / 1000 for mark in marks]


def featurized(params: generate.Params, stimuli: FolderStimuli) -> Features:
    responses = clean.clean(generations(params, by_content, stimuli=stimuli), clean.Params())
    return featurize.featurize(responses, featurize.Params(), stimuli)


def test_sample_of_a_task_is_of_as_many_source_texts_of_an_own_set_as_there_are(tmp_path: Path) -> None:
    found = texts(asked_of(own(tmp_path, LINES)))
    assert len(found["AAE"]) == len(found["SAE"]) == 8
    assert len({text.split()[2] for text in found["SAE"]}) > 4  # the first eight lines are of two verbs
    more = TASKS["occupations"].model_copy(update={"sample": 25})
    params, stimuli = own(tmp_path, LINES)
    prompts = asked(params.model_copy(update={"tasks": {"occupations": more}}), stimuli=stimuli)
    pairs = {(prompt.columns["pair"], prompt.columns["cluster"]) for prompt in prompts}
    assert sorted(Counter(cluster for _, cluster in pairs).values()) == [1] * 15 + [2] * 5
    assert found["SAE"] <= texts(prompts)["SAE"]  # a smaller sample is part of a larger one


def test_order_of_lines_of_an_own_set_moves_no_question_and_no_score(tmp_path: Path) -> None:
    one, other = own(tmp_path / "one", LINES), own(tmp_path / "other", shuffled(LINES))
    said = [sorted((prompt.prompt_id, prompt.group, str(prompt.completion)) for prompt in asked_of(each))
            for each in (one, other)]  # fmt: skip
    assert said[0] == said[1]
    made = [evaluate.evaluate(featurized(*each).tables, FAST, np.random.default_rng(0)).scores for each in (one, other)]
    for field in ("estimate", "p"):
        values = [{score.key: getattr(score, field) for score in scores} for scores in made]
        assert "prestige.slope" in values[0]
        assert values[0] == pytest.approx(values[1], nan_ok=True), field


def test_sample_of_texts_that_are_not_matched_is_taken_in_each_guise(tmp_path: Path) -> None:
    lines = [f"marked {place}\t{f'plain {place}' if place < 10 else ''}" for place in range(40)]
    found = texts(asked_of(own(tmp_path, lines, matched=False)))
    assert {guise: len(those) for guise, those in found.items()} == {"AAE": 8, "SAE": 8}
    columns = list(zip(*(line.split("\t") for line in lines), strict=True))
    apart = ["\t".join(row) for row in zip(reversed(columns[0]), shuffled(list(columns[1])), strict=True)]
    assert texts(asked_of(own(tmp_path, apart, matched=False))) == found


def test_sample_of_drawn_pairs_of_a_rule_are_the_first_and_without_a_draw_of_many_verbs() -> None:
    drawn = generate.Params(pairs={"habitual_be": TextSource(rule="habitual_be", sample=12)}, tasks=TASKS)
    pairs = [list(dict.fromkeys(prompt.columns["pair"] for prompt in asked(drawn) if prompt.columns["task"] == task))
             for task in TASKS]  # fmt: skip
    assert pairs[0] == pairs[1][:8] and len(pairs[1]) == 13  # and the neutral context
    whole = generate.Params(pairs={"finna": TextSource(rule="finna")}, tasks=TASKS)
    assert len({prompt.columns["cluster"] for prompt in asked(whole) if prompt.columns["task"] == "occupations"}) == 8


def test_note_says_how_many_of_how_many_texts_a_task_is_asked_with(tmp_path: Path) -> None:
    (note,) = featurized(*own(tmp_path, LINES)).notes
    assert note == "The task occupations has a sample: it is asked with 8 of 40 texts of mine in AAE and SAE."
    lines = [f"marked {place}\t{f'plain {place}' if place < 10 else ''}" for place in range(40)]
    (note,) = featurized(*own(tmp_path, lines, matched=False)).notes
    assert note.endswith("with 8 of 40 texts of mine in AAE, 8 of 10 texts of mine in SAE.")
    assert featurized(*own(tmp_path, LINES[:8])).notes == ()
