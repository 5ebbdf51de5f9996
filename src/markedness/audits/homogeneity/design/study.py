"""A study of studies.yaml: its cues, how its prompts signal a group, and their wording."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from pydantic import Field

from markedness.axes import meant
from markedness.records import AuditError, Stimuli, Strict
from markedness.templates import check_template, fill, placeholders, read_stimuli

FILE = "studies.yaml"


class StimuliError(AuditError):
    """A study, signal, cue or name that the stimuli do not have."""


class Entry(Strict):
    """One study in studies.yaml."""

    cues: str
    signal: str
    samples: int = Field(ge=1)
    system: str = ""
    wording: dict[str, str] | None = None


class StudyFile(Strict):
    """The content of studies.yaml."""

    studies: dict[str, Entry] = Field(min_length=1)
    signals: dict[str, dict[str, str]]
    completion_frame: str | None = None


class Cue(NamedTuple):
    """One row of a file of cues."""

    cue: str
    instruction: str
    prompt: str
    completion: str
    """What a base model continues."""
    word_limit: int | None


class Study(NamedTuple):
    """One entry of studies.yaml."""

    cues: str
    """The file of cues."""
    signal: str
    """Name of the signal; "names" takes the persons from the table of names."""
    marks: Mapping[str, str]
    """Mark in a prompt -> template of what replaces it, in this order."""
    samples: int
    system: str
    wording: Mapping[str, str]
    """Word of the prompts -> word that replaces it."""
    frame: str
    """What a base model reads before the completion."""

    def check_words(self, fields: Collection[str]) -> None:
        """Refuse a signal without a person's words, or with others; ``fields``: those of all persons."""
        for part, text in (("system", self.system), ("completion_frame", self.frame)):
            check_template(text, f"homogeneity: {FILE}: {part}")
        for mark, text in self.marks.items():
            place = f"homogeneity: {FILE}: '{mark}' of the signal {self.signal}"
            check_template(text, place, fields, () if placeholders(text) else fields)

    def check(self, cue: Cue) -> None:
        """Refuse a cue without a person, of whom all groups would be asked the same, or with a placeholder."""
        for part in ("instruction", "prompt", "completion"):
            check_template(getattr(cue, part), f"homogeneity: {self.cues}: the {part} of the cue '{cue.cue}'")
        for part, template in (("prompt", cue.prompt), ("completion", cue.completion)):
            if not any(mark in template for mark in self.marks):
                raise StimuliError(
                    f"{self.cues}: the {part} of the cue '{cue.cue}' names no person, so that all groups would be "
                    f"asked the same; write one of {', '.join(self.marks)} in it"
                )

            for written in set(re.findall(r"\[\w{1,40}\]", template)) - {*self.marks}:
                if near := meant(written, self.marks):
                    raise StimuliError(
                        f"{self.cues}: the {part} of the cue '{cue.cue}' has '{written}', which would be asked as it "
                        f"stands; write '{near}'"
                    )

    def fill(self, template: str, words: Mapping[str, str]) -> str:
        """The template with its marks replaced by a person's words, in the wording of the study."""
        template = fill(template, {})
        for mark, text in self.marks.items():
            template = template.replace(mark, fill(text, words))
        for old, new in self.wording.items():
            template = re.sub(rf"\b{re.escape(old)}\b", new, template)
        return " ".join(template.split())


def read_study(stimuli: Stimuli, name: str) -> Study:
    """The study of this name; StimuliError when studies.yaml does not have it or does not define its signal."""
    settings = read_stimuli(StudyFile, stimuli, FILE, "homogeneity")
    studies, signals = settings.studies, settings.signals
    if name not in studies:
        raise StimuliError(f"homogeneity.generate.study: '{name}' is not in {FILE}; it has {', '.join(studies)}")
    study = studies[name]
    signal = study.signal
    if signal not in signals:
        raise StimuliError(f"{FILE}: signal '{signal}' of {name} is not defined; it has {', '.join(signals)}")
    return Study(
        study.cues, signal, signals[signal], study.samples, study.system, study.wording or {},
        settings.completion_frame or "",
    )  # fmt: skip


def read_cues(stimuli: Stimuli, file: str) -> list[Cue]:
    """All cues of a file, in its order; StimuliError for one that stands twice, or a word limit that is no number."""
    cues: dict[str, Cue] = {}
    for row in stimuli.table(file, Cue._fields).to_dict("records"):
        name, limit = row["cue"], row["word_limit"].removesuffix(".0")
        if name in cues or not name:
            raise StimuliError(f"{file}: {f'the cue {name} stands twice' if name else 'a cue has no name'}; correct it")
        if limit and not (limit.isdecimal() and int(limit)):
            raise StimuliError(f"{file}: word_limit of {name} is '{limit:.40}'; write a whole number, or nothing")
        cues[name] = Cue(name, row["instruction"], row["prompt"], row["completion"], int(limit) if limit else None)
    return list(cues.values())


def chosen_cues(stimuli: Stimuli, file: str, names: tuple[str, ...] | None) -> list[Cue]:
    """The cues of these names, in their order; all cues of the file where ``names`` is None."""
    cues = read_cues(stimuli, file)
    known = [cue.cue for cue in cues]
    if names is None:
        return cues
    if unknown := [name for name in names if name not in known]:
        raise StimuliError(f"homogeneity.generate.cues: '{unknown[0]}' is not in {file}; it has {', '.join(known)}")
    return [cue for name in names for cue in cues if cue.cue == name]


def word_limits(stimuli: Stimuli, first: str) -> dict[str, int | None]:
    """Cue -> word limit, over all studies; where two have a cue, the study ``first`` decides, then their order."""
    studies = read_stimuli(StudyFile, stimuli, FILE, "homogeneity").studies
    files = dict.fromkeys(studies[name].cues for name in (first, *studies) if name in studies)
    limits: dict[str, int | None] = {}
    for file in files:
        for cue in read_cues(stimuli, file):
            limits.setdefault(cue.cue, cue.word_limit)
    return limits
