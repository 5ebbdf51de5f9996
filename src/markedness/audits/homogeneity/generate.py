"""Ask for one word or expression about a person of each group, in each situation cue.

A study (studies.yaml) sets the cues, how a group is signalled (first names, or group labels) and the
wording; naming another study is an ablation.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.homogeneity import DEFAULT_AXES
from markedness.records import (
    AuditError,
    Axes,
    Completion,
    CorpusColumns,
    Message,
    Prompt,
    Sampling,
    Stimuli,
    Strict,
    group_name,
)

CORPUS = CorpusColumns(required=("text",), optional=("cue", "name", "format"))
"""Without ``cue`` the file's stem is the cue; ``format`` is the prompt format of longer texts and stands for it."""

CUE_COLUMNS = ("cue", "instruction", "prompt", "completion", "word_limit")


class StimuliError(AuditError):
    """A study, cue or name that the stimuli do not hold."""


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
) -> Generator[list[Prompt], list[list[Completion]], None]:
    """All prompts in one round: cue x group x name, or cue x group where labels signal the group.

    Parameters
    ----------
    stimuli
        studies.yaml, the study's cues, the names.
    params
        Study, cues, names, sampling.
    rng
        Not used: every name is asked the same.

    Yields
    ------
    list of Prompt
        prompt_id is the cue; columns: cue, name ("" with labels), the axes, word_limit, study and marked,
        the number of axes on which the group is marked.

    Raises
    ------
    StimuliError
        For an unknown study, cue or signal, or a group without a name.
    """
    study, settings = _study(stimuli, params)
    cues = _cues(stimuli, study, params)
    people = list(_people(stimuli, study, params))
    sampling = Sampling(params.temperature, params.top_p, params.max_tokens, params.stop)
    signal = settings["signals"][study["signal"]]
    frame = settings.get("completion_frame") or ""
    asked = []
    for cue, (values, words) in product(cues.to_dict("records"), people):

        def fill(template: str, words: dict[str, str] = words) -> str:
            return _fill(template, words, signal, study.get("wording") or {})

        system = " ".join(part for part in (study.get("system", ""), cue["instruction"]) if part)
        asked.append(
            Prompt(
                prompt_id=cue["cue"],
                group=group_name(values, params.axes),
                messages=(Message("system", system), Message("user", fill(cue["prompt"]))),
                completion=frame + fill(cue["completion"]),
                sampling=sampling,
                samples=params.samples or int(study["samples"]),
                columns={
                    "cue": cue["cue"], "name": words.get("name", ""), **values, "word_limit": _limit(cue),
                    "study": params.study,
                    "marked": sum(value != params.axes[axis].unmarked for axis, value in values.items()),
                },
            )
        )  # fmt: skip
    yield asked


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Texts that exist already: the cue as prompt_id, and the word limits of the cues that the stimuli know.

    Cues of any published study are known by their id; the params' own study comes first. Other cues have no
    limit.
    """
    if "format" in rows:
        rows = rows.assign(cue=rows["format"])
    settings = stimuli.data("studies.yaml")
    limits: dict[str, float] = {}
    own = settings["studies"].get(params.study, {}).get("cues")
    for file in dict.fromkeys([own, *(study["cues"] for study in settings["studies"].values())]):
        if file is None:
            continue
        for cue in stimuli.table(file, CUE_COLUMNS).to_dict("records"):
            limits.setdefault(cue["cue"], _limit(cue) or np.nan)
    rows = rows.assign(prompt_id=rows["cue"], word_limit=rows["cue"].map(limits).astype(float))
    return rows.assign(sample=rows.groupby(["prompt_id", "group"], sort=False, dropna=False).cumcount())


def _study(stimuli: Stimuli, params: Params) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = stimuli.data("studies.yaml")
    studies = settings["studies"]
    if params.study not in studies:
        raise StimuliError(
            f"homogeneity.generate.study: '{params.study}' is not in studies.yaml; it has {', '.join(studies)}"
        )
    study = studies[params.study]
    if study.get("signal") not in settings["signals"]:
        raise StimuliError(
            f"studies.yaml: signal '{study.get('signal')}' of {params.study} is not defined; "
            f"it has {', '.join(settings['signals'])}"
        )
    return study, settings


def _cues(stimuli: Stimuli, study: dict[str, Any], params: Params) -> pd.DataFrame:
    cues = stimuli.table(study["cues"], CUE_COLUMNS)
    for name in params.cues or ():
        if name not in set(cues["cue"]):
            raise StimuliError(
                f"homogeneity.generate.cues: '{name}' is not in {study['cues']}; it has {', '.join(cues['cue'])}"
            )
    return cues if params.cues is None else cues.set_index("cue").loc[list(params.cues)].reset_index()


def _limit(cue: Mapping[Any, str]) -> int | None:
    return int(cue["word_limit"]) if cue["word_limit"] else None


def _people(stimuli: Stimuli, study: dict[str, Any], params: Params) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Axis values of each person, with the words that stand for the person."""
    names = None
    if study["signal"] == "names":
        names = stimuli.table(params.names, ["name", *params.axes])
    for combination in product(*(axis.values for axis in params.axes.values())):
        values = dict(zip(params.axes, combination, strict=True))
        if names is None:
            yield values, _label_words(values, params.axes)
            continue
        fitting = names[np.logical_and.reduce([names[axis].eq(value) for axis, value in values.items()])]
        if fitting.empty:
            raise StimuliError(
                f"{params.names} has no name for the group '{group_name(values, params.axes)}'; add one, or take "
                "its value out of homogeneity.axes"
            )
        for name in fitting["name"].iloc[: params.names_per_group]:
            yield values, {"name": name}


def _label_words(values: dict[str, str], axes: Axes) -> dict[str, str]:
    """Label and phrase of the axes without a noun ("Asian", "an Asian"), noun of the axis that has one ("man")."""
    words = {axis: axes[axis].values[value] for axis, value in values.items()}
    nouns = [word.noun for word in words.values() if word.noun]
    adjectives = [
        (word, next((word.forms[v] for v in values.values() if v in word.forms), word.label or values[axis]))
        for axis, word in words.items()
        if not word.noun
    ]
    label = " ".join(text for _, text in adjectives)
    phrase = adjectives[0][0].phrase if len(adjectives) == 1 else None
    phrase = phrase or (f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}" if label else "an")
    return {
        "label": label, "phrase": phrase, "Phrase": phrase[:1].upper() + phrase[1:],
        "noun": nouns[0] if nouns else "person",
    }  # fmt: skip


def _fill(template: str, words: dict[str, str], signal: dict[str, str], wording: dict[str, str]) -> str:
    """The person in place of the marks, then the study's wording."""
    for mark, text in signal.items():
        template = template.replace(mark, text.format_map(words))
    for old, new in wording.items():
        template = re.sub(rf"\b{re.escape(old)}\b", new, template)
    return " ".join(template.split())
