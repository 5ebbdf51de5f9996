"""The stimulus files of the audit, read and checked: tasks, names, vignettes, dialect texts, frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pydantic import Field

from markedness.audits.annotation.design.texts import Text
from markedness.audits.annotation.design.vignettes import Vignette, compose, screen
from markedness.axes import Axis, as_values, meant
from markedness.records import AuditError, Stimuli, Strict
from markedness.templates import check_columns, check_template, placeholders, read_stimuli

Names = Mapping[str, Mapping[str, Sequence[str]]]
"""Group -> gender -> names."""
Frames = Mapping[str, Mapping[str, str]]
"""Mode ("single" or "batch") -> "message" or "completion" -> text with places to fill."""

REVERSED = "_reversed"
"""End of the name of a mode that names the answers in the other order."""


class StimuliError(AuditError):
    """A stimulus file that cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class Task:
    """One question about the author of a text, answered yes or no."""

    task: str
    description: str
    domain: str
    valence: int
    """1: yes is favorable to the person, -1: unfavorable, 0: neither."""
    names: bool
    """Whether the names paradigm asks it."""
    kind: str
    """Kind of dialect texts that it is asked about; "": none."""


class Pools(Strict):
    """The content of a vignette file."""

    pattern: str
    a: tuple[str, ...] = Field(min_length=1)
    b: tuple[str, ...] = Field(min_length=1)
    screen: dict[str, tuple[str, ...]] | None = None


class Frame(Strict):
    """How a judgment is asked for, of a chat model and of one that continues text."""

    message: str | None = None
    completion: str | None = None


class FrameFile(Strict):
    """The content of a file of frames."""

    single: Frame | None = None
    batch: Frame | None = None
    single_reversed: Frame | None = None
    batch_reversed: Frame | None = None


def read_tasks(stimuli: Stimuli, file: str) -> list[Task]:
    """All tasks of the task file."""
    tasks, table = [], stimuli.table(file, ("task", "description"))
    check_columns(table, ("domain", "valence", "names", "dialect"), file)
    for row in table.to_dict("records"):
        if not row["task"] or not row["description"].strip():
            raise StimuliError(f"{file}: the task '{row['task']}' has no name or no description; add it")
        valence = row.get("valence") or "0"
        if valence not in ("-1", "0", "1"):
            raise StimuliError(f"{file}: valence of '{row['task']}' is '{valence}'; use 1, 0 or -1")
        tasks.append(
            Task(row["task"], row["description"].strip(), row.get("domain", ""), int(valence),
                 _is_yes(row.get("names", "yes"), f"{file}: names of '{row['task']}'"), row.get("dialect", ""))
        )  # fmt: skip
    name, times = Counter(task.task for task in tasks).most_common(1)[0] if tasks else ("", 0)
    if times > 1:
        raise StimuliError(f"{file}: the task '{name}' is listed twice; keep one row")
    return tasks


def select_tasks(tasks: Sequence[Task], selected: Sequence[str] | None, paradigm: str, file: str) -> list[Task]:
    """The tasks of one paradigm, or those of them that the params select."""
    fit = {task.task: task for task in tasks if (task.names if paradigm == "names" else task.kind)}
    for name in selected or ():
        if name not in fit:
            where = f"annotation.generate.{paradigm}.tasks"
            raise StimuliError(f"{where}: {file} has no task '{name}' for {paradigm}; it has {', '.join(fit)}")
    return list(fit.values()) if selected is None else [fit[name] for name in selected]


def _one_spelling(cells: pd.Series) -> pd.Series:
    """Cells that differ in capitals alone, all as the first of them."""
    first = {cell.casefold(): cell for cell in reversed(cells.unique().tolist())}
    return cells.map(lambda cell: first[cell.casefold()])


def _is_yes(cell: str, where: str) -> bool:
    """A cell of yes or no, as spreadsheets write it; an empty one is no."""
    said = cell.strip().casefold()
    if said not in ("yes", "true", "1", "no", "false", "0", ""):
        raise StimuliError(f"{where} is '{cell:.40}'; write yes or no")
    return said in ("yes", "true", "1")


def read_names(stimuli: Stimuli, file: str, axis: Axis) -> Names:
    """Names by group and gender; without a column ``gender`` all names have the gender ""."""
    table = stimuli.table(file, ("group", "name"))
    check_columns(table, ("gender", "selected"), file)
    table = table.assign(group=as_values(table["group"], axis, f"{file}: group"))
    if "selected" in table:  # the table of `markedness names score`
        cells = zip(table["selected"], table["name"], strict=True)
        table = table[pd.Series([_is_yes(cell, f"{file}: selected of {name}") for cell, name in cells], table.index)]
    gender = _one_spelling(table["gender"]) if "gender" in table else pd.Series("", index=table.index)
    genders = list(dict.fromkeys(gender[gender.ne("") & table["group"].isin(list(axis.values))]))
    for place, of in enumerate(genders):
        if near := meant(of, genders[:place]):
            raise StimuliError(f"{file}: gender has '{of:.40}' and '{near:.40}'; write one, if they are one")
    found: dict[str, dict[str, list[str]]] = {}
    for group in axis.values:
        rows = table["group"] == group
        for name, of in zip(table.loc[rows, "name"], gender[rows], strict=True):
            names = found.setdefault(group, {}).setdefault(of, [])
            if not name or name in names:
                fault = f"the name {name} twice" if name else "an empty name"
                raise StimuliError(f"{file}: {group} has {fault}; remove it")
            names.append(name)
        if group not in found:
            raise StimuliError(f"{file}: no names for the group '{group}'; add some, or correct annotation.axes")
    for group in axis.marked:
        if not set(found[group]) & set(found[axis.unmarked]):
            raise StimuliError(f"{file}: {group} and {axis.unmarked} share no gender, so that no pair can be matched")
    return found


def read_vignettes(
    stimuli: Stimuli, file: str, n: int | None, screened: bool, rng: np.random.Generator
) -> list[Vignette]:
    """``n`` vignettes drawn from the phrases of the file, or all; screened: a word that touches a task is an error."""
    pools = read_stimuli(Pools, stimuli, file, "annotation")
    check_template(pools.pattern, f"annotation: {file}: pattern", ("NAME", "A", "B"))
    for key, phrases in (("a", pools.a), ("b", pools.b)):
        for number, phrase in enumerate(phrases, start=1):
            check_template(phrase, f"annotation: {file}: {key}, phrase {number}", ("NAME",), ())
        if again := [phrase for phrase, n in Counter(phrases).items() if n > 1]:
            raise StimuliError(f"{file}: {key} has '{again[0]}' twice; remove one")
    touches = screen([*pools.a, *pools.b], pools.screen or {}) if screened else []
    if touches:
        raise StimuliError(
            f"{file}: '{touches[0].phrase}' touches the tasks of {touches[0].domain} by '{touches[0].word}'; reword it"
        )
    try:
        return compose(pools.pattern, pools.a, pools.b, n, rng)
    except ValueError as error:
        raise StimuliError(f"{file}: {error}; add phrases or lower annotation.generate.names.vignettes") from error


def dialect_texts(table: pd.DataFrame, file: str, task: Task, axis: Axis, n_pairs: int | None) -> list[Text]:
    """The texts that one task is asked about, each content in every dialect."""
    kinds = table["kind"].str.casefold()
    if near := next((kind for kind in kinds.unique() if kind != task.kind.casefold() and meant(kind, [task.kind])), ""):
        raise StimuliError(
            f"{file}: kind has '{near:.40}', and the task '{task.task}' needs '{task.kind}'; write it so"
        )
    rows = table[kinds == task.kind.casefold()].head(n_pairs or len(table))
    if (again := rows["pair"].duplicated()).any():
        raise StimuliError(f"{file}: the pair '{rows.loc[again, 'pair'].iloc[0]}' stands twice; give each its own")
    if rows.empty:
        raise StimuliError(f"{file}: no pair has the kind '{task.kind}' that the task '{task.task}' needs; add one")
    texts = [
        Text(
            row[dialect],
            dialect,
            {"pair": row["pair"], "vignette": row["pair"], "marked": dialect != axis.unmarked},
        )
        for row in rows.to_dict("records")
        for dialect in axis.values
    ]
    if empty := [text for text in texts if not text.text.strip()]:
        raise StimuliError(f"{file}: pair '{empty[0].columns['pair']}' has no {empty[0].group} text; write one")
    return texts


def read_frames(stimuli: Stimuli, file: str, both_orders: bool = False) -> Frames:
    """The frames of both modes, and where asked those that name the answers in the other order."""
    frames = read_stimuli(FrameFile, stimuli, file, "annotation").model_dump()
    found: dict[str, dict[str, str]] = {}
    places = {"single": ("task", "text", "yes", "no"), "batch": ("task", "texts", "n")}
    places |= {f"{mode}{REVERSED}": place for mode, place in places.items()} if both_orders else {}
    for mode, place in places.items():
        for kind in ("message", "completion"):
            frame = (frames[mode] or {}).get(kind)
            where = f"annotation: {file}: {mode}.{kind}"
            found.setdefault(mode, {})[kind] = check_template(frame, where, place, place[:2])
            answers = [name for name in placeholders(found[mode][kind]) if name in ("yes", "no")]
            if answers and sorted(answers) != ["no", "yes"]:
                raise StimuliError(
                    f"{where} has {' and '.join(f'{{{name}}}' for name in answers)}; name each answer once"
                )
    return found
