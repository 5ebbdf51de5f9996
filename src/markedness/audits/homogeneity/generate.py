"""Ask for one word or expression about a person of each group, in each situation cue.

A study (studies.yaml) sets the cues, how prompts signal a group (first names, or group labels) and the wording; to
name another study is an ablation.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import product

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.base import Answers
from markedness.audits.homogeneity import DEFAULT_AXES
from markedness.audits.homogeneity.design.persons import Person, labelled_persons, named_persons
from markedness.audits.homogeneity.design.study import FILE, Cue, Study, chosen_cues, read_study, word_limits
from markedness.axes import Axes, check_filled, group_name
from markedness.records import Message, Prompt, Sampling, Stimuli, Strict
from markedness.templates import check_different, check_phrases, fill


class Params(Strict):
    """``homogeneity.generate``."""

    axes: Axes = DEFAULT_AXES
    study: str = "main"
    """Entry of studies.yaml: main, group_labels, individual_prompt, general_prompts, pilot or one of yours."""
    cues: tuple[str, ...] | None = None
    """Some cues of the study; null: all."""
    names: str = "names.csv"
    """Table of names: a column ``name`` and one per axis."""
    names_per_group: int | None = Field(default=None, ge=1)
    """The first so many names of each group; null: all."""
    samples: int | None = Field(default=None, ge=1)
    """Completions per name and cue (per label and cue); null: as in the study."""
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=24, ge=1)
    stop: tuple[str, ...] = ("\n", ".", ",", ";", "!", "?")
    """Where a base model's first expression ends."""


def prompts(
    stimuli: Stimuli, params: Params, rng: np.random.Generator
) -> Generator[list[Prompt], Answers | None, None]:
    """All prompts in one round: cue x group x name, or cue x group where labels signal the group.

    Parameters
    ----------
    stimuli
        studies.yaml, the cues of the study, the names.
    params
        Study, cues, names, sampling.
    rng
        Not used: there is nothing random in the prompts.

    Yields
    ------
    list of Prompt
        prompt_id is the cue; columns: cue, name ("" with labels), the axes, word_limit, study and marked, the number
        of axes on which the group is marked.

    Raises
    ------
    StimuliError
        For an unknown study, cue or signal, or a group without a name.
    """
    check_phrases(params.axes, "homogeneity")
    study = read_study(stimuli, params.study)
    cues = chosen_cues(stimuli, study.cues, params.cues)
    if study.signal == "names":
        persons = list(named_persons(params.axes, stimuli, params.names, params.names_per_group))
    else:
        persons = list(labelled_persons(params.axes, stimuli))
    study.check_words(dict.fromkeys(field for person in persons for field in person.words))
    for cue in cues:
        study.check(cue)
    made = [_prompt(cue, person, study, params) for cue, person in product(cues, persons)]
    if study.signal != "names":  # a name may be one of two groups
        check_different(made, f"homogeneity: {FILE}: signals.{study.signal}")
    yield made


def _prompt(cue: Cue, person: Person, study: Study, params: Params) -> Prompt:
    marked = sum(value != params.axes[axis].unmarked for axis, value in person.values.items())
    system = " ".join(filter(None, (study.system, cue.instruction)))
    return Prompt(
        prompt_id=cue.cue,
        group=group_name(person.values, params.axes),
        messages=(Message("system", fill(system, {})), Message("user", study.fill(cue.prompt, person.words))),
        completion=fill(study.frame, {}) + study.fill(cue.completion, person.words),
        sampling=Sampling(params.temperature, params.top_p, params.max_tokens, params.stop),
        samples=params.samples or study.samples,
        columns={
            "cue": cue.cue, "name": person.words.get("name", ""), **person.values, "word_limit": cue.word_limit,
            "study": params.study, "marked": marked,
        },
    )  # fmt: skip


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Add prompt_id (the cue), word_limit and sample to the rows of a corpus.

    The word limit of a cue is that of the params' study, else of any study that has the cue; other cues have none
    (NaN). A column format, the prompt format of longer texts, replaces the cue. AuditError where it is blank in part.
    """
    name = "format" if "format" in rows else "cue"
    check_filled(rows, name, "homogeneity")
    cue = rows[name]
    limits = cue.map(word_limits(stimuli, params.study)).astype(float)
    rows = rows.assign(cue=cue, prompt_id=cue, word_limit=limits)
    return rows.assign(sample=rows.groupby(["prompt_id", "group"], sort=False, dropna=False).cumcount())
