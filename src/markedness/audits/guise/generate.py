"""Ask for the probability of attributes after texts in two guises.

A text stands in a prompt template; the model scores which attribute comes next. A sample record: prompt_id
"T3", group "AAE", prompt 'A person who says " he be singing " is', candidate "lazy", log_prob -9.1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator, model_validator

from markedness.records import (
    AuditError,
    Axes,
    Axis,
    Completion,
    CorpusColumns,
    Message,
    Prompt,
    Scalar,
    Stimuli,
    Strict,
    Value,
)
from markedness.text.guises import RULES, noise, pairs, read_pairs

CORPUS = CorpusColumns(
    required=("prompt_id", "candidate", "log_prob"),
    optional=("task", "setting", "pairs", "pair", "utterance", "estimator", "coverage"),
)
"""Scores that exist already: natural logarithms of probabilities, one candidate a row."""

DEFAULT_AXES: Axes = {
    "guise": Axis(
        unmarked="SAE",
        values={
            "SAE": Value(label="Standardized American English"),
            "AAE": Value(label="African American English"),
        },
    )
}


class GuiseError(AuditError):
    """A text set, task or stimulus that cannot be used."""


class PairSet(Strict):
    """Texts in the guises: by a rule, from a file, or given here."""

    rule: str | None = None
    """A key of `markedness.text.guises.RULES`, or "noise"."""
    file: str | None = None
    """UTF-8, one pair a line, the guises separated by a tab, no header."""
    texts: tuple[tuple[str, ...], ...] | None = None
    """The pairs themselves."""
    guises: tuple[str, ...] | None = None
    """The guise of each column; the marked ones in the order of the axis, then the unmarked one, unless given."""
    matched: bool = True
    """Whether the texts of one pair mean the same; else each column is a set of its own."""
    sample: int | None = Field(default=None, ge=1)
    """How many pairs are drawn; all unless given."""
    tasks: tuple[str, ...] | None = None
    """The tasks that use these texts; unless given, all, and of a control only associations."""
    control: bool | None = None
    """Whether this is a deviation that is no feature of the guise; the rule says so unless given."""
    of: str | None = None
    """For noise: the set whose unmarked texts are damaged."""
    rate: float = Field(default=0.25, ge=0, le=1)
    """For noise: the share of words that are modified."""

    @model_validator(mode="after")
    def _one_source(self) -> PairSet:
        if sum(source is not None for source in (self.rule, self.file, self.texts)) != 1:
            raise ValueError("give one of rule, file and texts")
        if self.rule is not None and self.rule != "noise" and self.rule not in RULES:
            raise ValueError(f"rule: '{self.rule}' is not known; known: {', '.join(RULES)}, noise")
        if (self.rule == "noise") != (self.of is not None):
            raise ValueError("'of' names the set that the rule noise damages, and belongs to that rule only")
        return self

    @property
    def is_control(self) -> bool:
        """What ``control`` says, else what the rule is."""
        if self.control is not None:
            return self.control
        return self.rule == "noise" or (self.rule is not None and RULES[self.rule].control)


class Task(Strict):
    """What is asked with the texts; what is not given is taken from tasks.yaml."""

    kind: Literal["association", "decision", "perplexity"] | None = None
    prompts: tuple[str, ...] | dict[str, str] | None = None
    """Ids of templates in tasks.yaml, or templates of one's own by id, with {t} or {r} and perhaps {a}."""
    attributes: str | tuple[str, ...] | None = None
    """A table with a column "attribute", or the attributes themselves."""
    detrimental: tuple[str, ...] | None = None
    """The attributes of a decision that are to the person's detriment."""
    words: dict[str, tuple[str, ...]] | None = None
    """Instead of texts: words for each group, in pairs, for {r}."""
    sample: int | None = Field(default=None, ge=1)
    """How many pairs of each set this task uses; all unless given."""


@dataclass(frozen=True)
class Question:
    """A task with its stimuli read."""

    kind: str
    templates: Mapping[str, str]
    known: Mapping[str, Mapping[str, Scalar]]
    """Attribute -> what is known of it: ratings, and for a decision whether it is detrimental."""
    words: Mapping[str, tuple[str, ...]]
    """Guise -> words that stand for the texts; empty where texts are asked."""
    sample: int | None


class Params(Strict):
    """``guise.generate``."""

    axes: Axes = DEFAULT_AXES
    pairs: dict[str, PairSet] = Field(default={"habitual_be": PairSet(rule="habitual_be", sample=40)}, min_length=1)
    tasks: dict[str, Task] = Field(
        default={name: Task() for name in ("traits", "overt", "occupations", "conviction", "death", "iq")}, min_length=1
    )
    verbs: str = "verbs.csv"
    """Table with the columns verb, ing, third, as far as the rules need them."""
    words: str = "frequent_words.txt"
    """Words that noise inserts, one a line."""

    @field_validator("axes")
    @classmethod
    def _one_axis(cls, axes: Axes) -> Axes:
        if len(axes) != 1:
            raise ValueError(f"guises differ on one axis; given: {', '.join(axes) or 'none'}")
        return axes

    @model_validator(mode="after")
    def _sets(self) -> Params:
        for name, chosen in self.pairs.items():
            if chosen.of is not None and (chosen.of not in self.pairs or self.pairs[chosen.of].rule == "noise"):
                raise ValueError(f"pairs.{name}.of: '{chosen.of}' is no set of texts; known: {', '.join(self.pairs)}")
            strange = [guise for guise in chosen.guises or () if guise not in self.axis.values]
            if strange:
                raise ValueError(
                    f"pairs.{name}.guises: '{strange[0]}' is no guise; known: {', '.join(self.axis.values)}"
                )
            unknown = [task for task in chosen.tasks or () if task not in self.tasks]
            if unknown:
                raise ValueError(f"pairs.{name}.tasks: '{unknown[0]}' is not asked; tasks: {', '.join(self.tasks)}")
        return self

    @property
    def axis(self) -> Axis:
        """The guises."""
        return next(iter(self.axes.values()))

    @property
    def axis_name(self) -> str:
        """The column that holds the guise."""
        return next(iter(self.axes))


def prompts(
    stimuli: Stimuli, params: Params, rng: np.random.Generator
) -> Generator[list[Prompt], list[list[Completion]], None]:
    """All prompts of the study, in one round.

    Each text, and for decisions the empty text, stands in each template of each task. Texts are stripped of
    outer white space; nothing else about them is changed.

    Raises
    ------
    GuiseError
        For texts, tasks or attributes that cannot be used, with the place and the remedy.
    """
    seed = int(rng.integers(2**63))
    texts = {name: _texts(name, chosen, stimuli, params, seed) for name, chosen in params.pairs.items()}
    asked: list[Prompt] = []
    for name, question in _questions(stimuli, params).items():
        if question.words:
            asked += _overt(name, question, params)
            continue
        sets = {key: chosen for key, chosen in params.pairs.items() if _uses(chosen, name, question)}
        for key, chosen in sets.items():
            columns: dict[str, Scalar] = {
                "task": name,
                "kind": question.kind,
                "setting": "matched" if chosen.matched else "unmatched",
                "pairs": key,
                "control": chosen.is_control,
            }
            for pair, row in texts[key][: question.sample]:
                for guise, text in row.items():
                    marks = columns | {"pair": pair, "marked": guise != params.axis.unmarked, "utterance": text}
                    asked += _prompts(question, guise, text, marks | {params.axis_name: guise})
        if question.kind == "decision" and sets:
            neutral: dict[str, Scalar] = {
                "task": name,
                "kind": "decision",
                "pair": "",
                "marked": False,
                "utterance": "",
            }
            asked += _prompts(question, "", "", neutral | {params.axis_name: None})
    if not asked:
        raise GuiseError("guise.generate: no task uses any of the texts; correct pairs.<set>.tasks or tasks")
    yield asked


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Give stored scores the columns of the audit: task and kind by prompt id, what is known of the attributes.

    Rows of a guise with a ``pair`` are meaning-matched unless ``setting`` says otherwise; without, they are
    numbered and taken as independent sets. A row without guise is the neutral context of a decision.
    """
    tasks = _questions(stimuli, params)
    of_prompt = {key: name for name, task in tasks.items() for key in task.templates}
    rows = rows.copy()
    if "task" not in rows:
        rows["task"] = rows["prompt_id"].map(of_prompt)
    strange = rows.loc[~rows["task"].isin(list(tasks)), "prompt_id"]
    if len(strange):
        raise GuiseError(
            f"prompt_id '{strange.iloc[0]}' belongs to no task of guise.generate.tasks ({', '.join(tasks)}); "
            "give the corpus a column task, or map prompt_id in values"
        )
    rows["kind"] = rows["task"].map({name: task.kind for name, task in tasks.items()})
    rows["log_prob"] = pd.to_numeric(rows["log_prob"], errors="coerce")
    guise = rows[params.axis_name] if params.axis_name in rows else pd.Series(pd.NA, index=rows.index)
    if guise.isna().all():
        raise GuiseError(f"the corpus has no column {params.axis_name}; name theirs in columns.{params.axis_name}")
    rows["marked"] = guise.notna() & guise.ne("") & guise.ne(params.axis.unmarked)
    paired = "pair" in rows
    if not paired:
        cell = ["task", "prompt_id", "group", "candidate"]
        rows["pair"] = (rows.groupby(cell, dropna=False).cumcount() + 1).astype("string")
    overt = rows["task"].map({name: bool(task.words) for name, task in tasks.items()})
    if "setting" not in rows:
        rows["setting"] = np.where(overt, "overt", "matched" if paired else "unmatched")
    if "pairs" not in rows:
        rows["pairs"] = np.where(overt, "overt", "corpus")
    chosen = {name: value.is_control for name, value in params.pairs.items()}
    rows["control"] = rows["pairs"].map(chosen).eq(True)
    rows["pair"] = rows["pairs"].astype("string") + "/" + rows["pair"].astype("string")
    details = [
        dict(tasks[task].known.get(candidate, {}))
        for task, candidate in zip(rows["task"], rows["candidate"], strict=True)
    ]
    return rows.join(pd.DataFrame(details, index=rows.index))


# ---------------------------------------------------------------- texts


def _texts(name: str, chosen: PairSet, stimuli: Stimuli, params: Params, seed: int) -> list[tuple[str, dict[str, str]]]:
    """(pair id, guise -> text) of one set, sampled, in the order of their source."""
    rng = np.random.default_rng([seed, *name.encode()])
    if chosen.of is not None:
        words = stimuli.text(params.words).split()
        return [
            (pair, {_first_marked(params, chosen): noise(text, words, rng, chosen.rate), params.axis.unmarked: text})
            for pair, text in _sources(name, chosen, stimuli, params, seed)
        ]
    guises = chosen.guises or (*params.axis.marked, params.axis.unmarked)
    where = f"guise.generate.pairs.{name}"
    if chosen.rule is not None and len(guises) != 2:
        raise GuiseError(f"{where}: a rule writes two guises; name them with guises: [MARKED, UNMARKED]")
    try:
        rows: Sequence[tuple[str, ...]]
        if chosen.rule is not None:
            verbs = stimuli.table(params.verbs, RULES[chosen.rule].needs).to_dict("records")
            rows = pairs(chosen.rule, [{str(key): str(value) for key, value in verb.items()} for verb in verbs])
        elif chosen.file is not None:
            rows = read_pairs(stimuli.text(chosen.file), len(guises), chosen.matched, chosen.file)
        else:
            content = "\n".join("\t".join(row) for row in chosen.texts or ())
            rows = read_pairs(content, len(guises), chosen.matched, where)
    except ValueError as error:
        raise GuiseError(f"{where}: {error}") from error
    numbered = [
        (f"{name}/{number:05d}", {guise: text for guise, text in zip(guises, row, strict=True) if text})
        for number, row in enumerate(rows, start=1)
    ]
    if chosen.sample is None or chosen.sample >= len(numbered):
        return numbered
    drawn = rng.choice(len(numbered), chosen.sample, replace=False)
    return [numbered[place] for place in sorted(drawn)]


def _sources(name: str, chosen: PairSet, stimuli: Stimuli, params: Params, seed: int) -> Iterator[tuple[str, str]]:
    """Id and unmarked text of what noise damages: each text once."""
    seen: set[str] = set()
    source = params.pairs[str(chosen.of)]
    for pair, row in _texts(str(chosen.of), source, stimuli, params, seed):
        text = row.get(params.axis.unmarked)
        if text and text not in seen and len(seen) < (chosen.sample or len(seen) + 1):
            seen.add(text)
            yield f"{name}/{pair.rpartition('/')[2]}", text


def _first_marked(params: Params, chosen: PairSet) -> str:
    return chosen.guises[0] if chosen.guises else params.axis.marked[0]


# ---------------------------------------------------------------- tasks


def _questions(stimuli: Stimuli, params: Params) -> dict[str, Question]:
    """The tasks that are asked, completed from tasks.yaml, with their templates and attributes."""
    content = stimuli.data("tasks.yaml")
    known_tasks, known_templates = content["tasks"], content["templates"]
    made = {}
    for name, given in params.tasks.items():
        task = Task.model_validate(known_tasks.get(name, {}) | given.model_dump(exclude_none=True))
        where = f"guise.generate.tasks.{name}"
        if task.kind is None:
            raise GuiseError(
                f"{where}: no task of that name; give it kind, prompts and attributes, or use one of "
                f"{', '.join(known_tasks)}"
            )
        if task.kind != "perplexity" and not (task.prompts and task.attributes):
            raise GuiseError(f"{where}: a task of kind {task.kind} needs prompts and attributes")
        known = _attributes(task, stimuli)
        if task.kind == "decision" and not (task.detrimental and set(task.detrimental) < set(known)):
            raise GuiseError(f"{where}.detrimental: name some, but not all, of the attributes {', '.join(known)}")
        made[name] = Question(task.kind, _templates(task, known_templates, where), known, task.words or {}, task.sample)
    return made


def _uses(chosen: PairSet, name: str, question: Question) -> bool:
    """Whether a task is asked with a set of texts."""
    if chosen.tasks is not None:
        return name in chosen.tasks
    return not chosen.is_control or name == "traits" or question.kind == "perplexity"


def _templates(task: Task, known: Mapping[str, str], where: str) -> dict[str, str]:
    """Template id -> template."""
    if task.kind == "perplexity":
        return {"perplexity": "{t}"}
    templates = task.prompts if isinstance(task.prompts, dict) else {}
    for key in () if isinstance(task.prompts, dict) else task.prompts or ():
        if key not in known:
            raise GuiseError(f"{where}.prompts: prompt '{key}' is not in tasks.yaml; known: {', '.join(known)}")
        templates[key] = known[key]
    slot = "{r}" if task.words else "{t}"
    for key, template in templates.items():
        if template.count(slot) != 1:
            raise GuiseError(f"{where}.prompts.{key}: write {slot} once, where the text belongs: '{template}'")
    return templates


def _attributes(task: Task, stimuli: Stimuli) -> dict[str, dict[str, Scalar]]:
    """Attribute -> what is known of it, in numbers."""
    if isinstance(task.attributes, str):
        table = stimuli.table(task.attributes, ["attribute"])
        details = table.drop(columns="attribute").apply(pd.to_numeric, errors="coerce")
        details = details.dropna(axis="columns", how="all")
        known: dict[str, dict[str, Scalar]] = {
            word.strip(): {str(key): float(value) for key, value in row.items()}
            for word, row in zip(table["attribute"], details.to_dict("records"), strict=True)
            if word.strip()
        }
    else:
        known = {word.strip(): {} for word in task.attributes or ()}
    if task.kind == "decision":
        known = {word: row | {"detrimental": float(word in (task.detrimental or ()))} for word, row in known.items()}
    return known


def _prompts(question: Question, group: str, text: str, columns: Mapping[str, Scalar]) -> Iterator[Prompt]:
    """One text in every template of a task; a template with an article once for "a" and once for "an"."""
    if question.kind == "perplexity":
        yield Prompt("perplexity", group, _chat(text), text, perplexity=True, cut=text, columns=columns)
        return
    slot = "{r}" if question.words else "{t}"
    for key, template in question.templates.items():
        for article, words in _by_article(template, list(question.known)).items():
            # the article first: a text may hold braces of its own
            filled = template.replace("{a}", article).replace(slot, text)
            yield Prompt(
                key, group, _chat(filled), filled, candidates=tuple(words), cut="" if question.words else text,
                columns=columns, candidate_columns={word: question.known[word] for word in words},
            )  # fmt: skip


def _by_article(template: str, words: Sequence[str]) -> dict[str, list[str]]:
    """Article -> the words that take it, by their first letter; one group where the template has no article."""
    if "{a}" not in template:
        return {"": list(words)}
    groups: dict[str, list[str]] = {"a": [], "an": []}
    for word in words:
        groups["an" if word[:1].lower() in "aeiou" else "a"].append(word)
    return {article: chosen for article, chosen in groups.items() if chosen}


def _chat(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def _overt(name: str, question: Question, params: Params) -> Iterator[Prompt]:
    """The groups named outright, by pairs of words."""
    words, guises = question.words, list(params.axis.values)
    if not all(words.get(guise) for guise in guises) or len({len(words[guise]) for guise in guises}) != 1:
        raise GuiseError(
            f"guise.generate.tasks.{name}.words: give as many words for every guise ({', '.join(guises)}), in pairs, "
            "or leave the task out"
        )
    for guise in guises:
        for number, word in enumerate(words[guise], start=1):
            columns: dict[str, Scalar] = {
                "task": name, "kind": question.kind, "setting": "overt", "pairs": "overt", "control": False,
                "pair": f"overt/{number:05d}", "marked": guise != params.axis.unmarked, "utterance": word,
                params.axis_name: guise,
            }  # fmt: skip
            yield from _prompts(question, guise, word, columns)
