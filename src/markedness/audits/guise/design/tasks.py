"""The tasks of a study: what is asked with each text, with its prompt templates and attributes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from markedness.records import AuditError, Message, Prompt, Scalar, Stimuli, Strict
from markedness.templates import check_template, fill, read_stimuli, twice

FILE = "tasks.yaml"
MISSING = ("", "nan", "none", "null", "na", "n/a")
"""What a number is where there is none, whatever the case."""
RATINGS = ("favorability", "percent_", "prestige")
"""How the names of columns with ratings begin."""


class Task(Strict):
    """What is asked with the texts; fields that are not given are taken from tasks.yaml."""

    kind: Literal["association", "decision", "perplexity"] | None = None
    prompts: tuple[str, ...] | dict[str, str] | None = None
    """Ids of templates in tasks.yaml, or own templates by id, with {t} or {r} and optionally {a}."""
    attributes: str | tuple[str, ...] | None = None
    """A table with a column "attribute", or the attributes themselves."""
    detrimental: tuple[str, ...] | None = None
    """The attributes of a decision that are to the person's detriment."""
    words: dict[str, tuple[str, ...]] | None = None
    """Instead of texts: words for each group, in pairs, for {r}."""
    sample: int | None = Field(default=None, ge=1)
    """How many pairs of each set this task uses; all unless given. Of a set of one's own the texts decide which, of as
    many unmarked texts as there are; where texts are not matched, so many of each guise."""

    @field_validator("prompts", "attributes", "detrimental")
    @classmethod
    def _named_once(cls, named: object) -> object:
        if isinstance(named, tuple) and (again := twice([word.strip() for word in named])):
            raise ValueError(f"names '{again}' twice; name it once")
        return named


class TaskFile(Strict):
    """The content of tasks.yaml."""

    templates: dict[str, str]
    tasks: dict[str, Task]


@dataclass(frozen=True)
class Question:
    """A task whose stimuli have been read."""

    kind: str
    templates: Mapping[str, str]
    candidate_columns: Mapping[str, Mapping[str, Scalar]]
    """Attribute -> ``detrimental`` (decisions); ``ratings_table``, the table with its ratings, which featurize joins;
    and ``stereotype``, see `_stereotype`."""
    words: Mapping[str, tuple[str, ...]]
    """Guise -> words that replace the texts; empty where texts are asked."""
    sample: int | None

    def prompts(self, group: str, text: str, columns: Mapping[str, Scalar]) -> Iterator[Prompt]:
        """One text in every template; a template with an article once for "a" and once for "an"."""
        columns = {**columns, "kind": self.kind, "utterance": text}
        if self.kind == "perplexity":
            yield Prompt("perplexity", group, _chat(text), text, perplexity=True, cut=text, columns=columns)
            return
        slot = "r" if self.words else "t"
        for key, template in self.templates.items():
            for article, attributes in _by_article(template, list(self.candidate_columns)).items():
                filled = fill(template, {"a": article, slot: text})
                yield Prompt(
                    key, group, _chat(filled), filled, candidates=tuple(attributes), cut="" if self.words else text,
                    columns=columns, candidate_columns={word: self.candidate_columns[word] for word in attributes},
                )  # fmt: skip


def _chat(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def _by_article(template: str, words: Sequence[str]) -> dict[str, list[str]]:
    """Article -> the words that take it, by their first letter; one group where the template has no article."""
    if "{a}" not in template:
        return {"": list(words)}
    groups: dict[str, list[str]] = {"a": [], "an": []}
    for word in words:
        groups["an" if word[:1].lower() in "aeiou" else "a"].append(word)
    return {article: chosen for article, chosen in groups.items() if chosen}


def questions(tasks: Mapping[str, Task], stimuli: Stimuli) -> dict[str, Question]:
    """The tasks, completed from tasks.yaml, with their templates and attributes.

    Raises
    ------
    AuditError
        For a task that cannot be asked, with the place and the remedy.
    """
    shipped = read_stimuli(TaskFile, stimuli, FILE, "guise")
    made = {}
    for name, given in tasks.items():
        known = shipped.tasks.get(name, Task())
        task = Task.model_validate(known.model_dump(exclude_none=True) | given.model_dump(exclude_none=True))
        where = f"guise.generate.tasks.{name}"
        if task.kind is None:
            raise AuditError(
                f"{where}: there is no task of that name; give it kind, prompts and attributes, or use one of "
                f"{', '.join(shipped.tasks)}"
            )
        if task.kind != "perplexity" and not (task.prompts and task.attributes):
            raise AuditError(f"{where}: a task of kind {task.kind} needs prompts and attributes")
        made[name] = Question(
            kind=task.kind,
            templates=_templates(task, shipped.templates, where),
            candidate_columns=_candidates(task, stimuli, where),
            words=task.words or {},
            sample=task.sample,
        )
    return made


def _templates(task: Task, shipped: Mapping[str, str], where: str) -> dict[str, str]:
    """Template id -> template."""
    if task.kind == "perplexity":
        return {"perplexity": "{t}"}
    templates = task.prompts if isinstance(task.prompts, dict) else {}
    for key in () if isinstance(task.prompts, dict) else task.prompts or ():
        if key not in shipped:
            raise AuditError(f"{where}.prompts: prompt '{key}' is not in tasks.yaml; known: {', '.join(shipped)}")
        templates[key] = shipped[key]
    slot = "r" if task.words else "t"
    for key, template in templates.items():
        if template.count(f"{{{slot}}}") != 1:
            raise AuditError(f"{where}.prompts.{key}: write {{{slot}}} once, where the text belongs: '{template}'")
        check_template(template, f"{where}.prompts.{key}", (slot, "a"), (slot,))
    return templates


def _candidates(task: Task, stimuli: Stimuli, where: str) -> dict[str, dict[str, Scalar]]:
    """Attribute -> the columns of its rows."""
    if isinstance(task.attributes, str):
        rated = ratings(task.attributes, stimuli).to_dict("index")
        words: dict[str, dict[str, Scalar]] = {
            str(word): {"ratings_table": task.attributes, "stereotype": _stereotype(row)} for word, row in rated.items()
        }
    else:
        words = {word.strip(): {} for word in task.attributes or ()}
    if task.kind != "decision":
        return words
    detrimental = task.detrimental or ()
    if not (detrimental and set(detrimental) < set(words)):
        raise AuditError(f"{where}.detrimental: name some, but not all, of the attributes {', '.join(words)}")
    return {word: columns | {"detrimental": word in detrimental} for word, columns in words.items()}


def ratings(name: str, stimuli: Stimuli) -> pd.DataFrame:
    """Attribute -> the columns of a table of attributes that hold numbers alone; NaN where an attribute is not rated.

    Raises
    ------
    AuditError
        For a cell that is no number in a column whose name says that it holds ratings (`RATINGS`), and for an attribute
        with several ratings.
    """
    table = stimuli.table(name, ["attribute"])
    table = table[table["attribute"].ne("")].drop_duplicates().set_index("attribute")
    if table.index.has_duplicates:
        raise AuditError(f"{name}: '{table.index[table.index.duplicated()][0]}' stands in several rows; keep one")
    found = {}
    for column, cells in table.items():
        numbers, blank = pd.to_numeric(cells, errors="coerce"), cells.str.casefold().isin(MISSING)
        strange = cells[~np.isfinite(numbers) & ~blank]
        if len(strange):
            if not str(column).startswith(RATINGS):
                continue  # a column of notes or codes
            raise AuditError(
                f"{name}: {column} of '{strange.index[0]}' is '{strange.iloc[0]:.40}', which is no number; write '.' "
                "before the decimals and no sign of a unit, and leave the cell empty where there is no rating"
            )
        if numbers.notna().any():
            found[str(column)] = numbers
    return pd.DataFrame(found, table.index)


def _stereotype(rating: Mapping[Hashable, float]) -> float:
    """How strongly people attach an attribute to the marked guise, in [-1, 1]; 0 where the table does not say.

    1 for an attribute that at least 20 % of the participants named in 1933; otherwise the lower the prestige of an
    occupation (1 to 9), the higher: (5.3 - prestige) / 2, clipped. The planted control follows it.
    """
    named, prestige = (rating.get(key, np.nan) for key in ("percent_1933", "prestige"))
    if named >= 20:
        return 1.0
    return 0.0 if np.isnan(prestige) else float(np.clip((5.3 - prestige) / 2, -1, 1))
