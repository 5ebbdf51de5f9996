"""Ask for the probability of attributes after texts in two guises.

A text is inserted into a prompt template; the model scores which attribute comes next. A sample record: prompt_id
"T3", group "AAE", prompt 'A person who says " he be singing " is', candidate "lazy", log_prob -9.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from pydantic import Field, field_validator, model_validator

from markedness.audits.guise.design.guises import RULES
from markedness.audits.guise.design.stored import reasons, with_pairs
from markedness.audits.guise.design.tasks import MISSING, Question, Task, questions
from markedness.audits.guise.design.texts import TextReader, TextSource
from markedness.axes import Axes, Axis, Value
from markedness.records import AuditError, Completion, Prompt, Scalar, Stimuli, Strict

DEFAULT_AXES: Axes = {
    "guise": Axis(
        unmarked="SAE",
        values={
            "SAE": Value(label="Standardized American English"),
            "AAE": Value(label="African American English"),
        },
    )
}


class Params(Strict):
    """``guise.generate``."""

    axes: Axes = DEFAULT_AXES
    pairs: dict[str, TextSource] = Field(
        default={"habitual_be": TextSource(rule="habitual_be", sample=40)}, min_length=1
    )
    """The text sets; one that has the name of a rule, and no source of its own, is made by that rule."""
    tasks: dict[str, Task] = Field(
        default={name: Task() for name in ("traits", "overt", "occupations", "conviction", "death", "iq")}, min_length=1
    )
    verbs: str = "verbs.csv"
    """Table with the columns verb, ing and third, as far as the rules need them."""
    multi_token: bool = False
    """Score attributes of several tokens too, by the chain rule. The paper leaves them out; ratios of attributes of
    different numbers of tokens are not comparable in level."""
    words: str = "frequent_words.txt"
    """Words that noise inserts, one a line."""

    @field_validator("pairs", mode="before")
    @classmethod
    def _named_rules(cls, pairs: object) -> object:
        if not isinstance(pairs, dict):
            return pairs
        return {
            name: {"rule": name, **given}
            if name in RULES and isinstance(given, dict) and not {"rule", "file", "texts"} & given.keys()
            else given
            for name, given in pairs.items()
        }

    @field_validator("axes")
    @classmethod
    def _one_axis(cls, axes: Axes) -> Axes:
        if len(axes) != 1:
            raise ValueError(f"guises need exactly one axis; given: {', '.join(axes) or 'none'}")
        return axes

    @model_validator(mode="after")
    def _names_exist(self) -> Params:
        for name, source in self.pairs.items():
            if source.of is not None and (source.of not in self.pairs or self.pairs[source.of].rule == "noise"):
                raise ValueError(f"pairs.{name}.of: '{source.of}' is not a text set; known: {', '.join(self.pairs)}")
            guises, tasks = set(source.guises or ()), set(source.tasks or ())
            if unknown := sorted(guises - set(self.axis.values)):
                raise ValueError(
                    f"pairs.{name}.guises: '{unknown[0]}' is not a guise; known: {', '.join(self.axis.values)}"
                )
            if unknown := sorted(tasks - set(self.tasks)):
                raise ValueError(f"pairs.{name}.tasks: '{unknown[0]}' is not a task; known: {', '.join(self.tasks)}")
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

    Each text is inserted into each template of each task, and for decisions the empty text too. Outer white space of
    a text is stripped; nothing else about it is changed.

    Raises
    ------
    AuditError
        For texts, tasks or attributes that cannot be used, with the place and the remedy.
    """
    seed = int(rng.integers(2**63))
    reader = TextReader(params.pairs, params.axis, stimuli, params.verbs, params.words, seed)
    texts = {name: reader.read(name) for name in params.pairs}
    asked: list[Prompt] = []
    for task, question in questions(params.tasks, stimuli).items():
        if question.words:
            asked += _overt(task, question, params)
            continue
        used = {name: source for name, source in params.pairs.items() if source.used_by(task, question.kind)}
        for name, source in used.items():
            columns: dict[str, Scalar] = {
                "task": task,
                "setting": "matched" if source.matched else "unmatched",
                "pairs": name,
                "control": source.is_control,
            }
            of_guise = Counter(guise for pair in texts[name] for guise in pair.texts)
            for pair in reader.part(name, texts[name], question.sample):
                for guise, text in pair.texts.items():
                    own: dict[str, Scalar] = {
                        "pair": pair.id,
                        "cluster": pair.cluster(guise),
                        "set_texts": of_guise[guise],
                        "marked": guise != params.axis.unmarked,
                        params.axis_name: guise,
                    }
                    asked += question.prompts(guise, text, columns | own)
        if question.kind == "decision" and used:
            neutral: dict[str, Scalar] = {"task": task, "pair": "", "marked": False, params.axis_name: None}
            asked += question.prompts("", "", neutral)
    if not asked:
        raise AuditError("guise.generate: no task uses any of the texts; correct pairs.<set>.tasks or tasks")
    if params.multi_token:
        asked = [replace(prompt, multi_token=True) if prompt.candidates else prompt for prompt in asked]
    yield asked


def _overt(task: str, question: Question, params: Params) -> Iterator[Prompt]:
    """The groups named explicitly, by pairs of words."""
    words, guises = question.words, list(params.axis.values)
    if not all(words.get(guise) for guise in guises) or len({len(words[guise]) for guise in guises}) != 1:
        raise AuditError(
            f"guise.generate.tasks.{task}.words: give the same number of words for every guise "
            f"({', '.join(guises)}), in pairs, or remove the task"
        )
    for guise in guises:
        for number, word in enumerate(words[guise], start=1):
            columns: dict[str, Scalar] = {
                "task": task, "setting": "overt", "pairs": "overt", "control": False, "pair": f"overt/{number:05d}",
                "marked": guise != params.axis.unmarked, params.axis_name: guise,
            }  # fmt: skip
            yield from question.prompts(guise, word, columns)


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Add the columns of the audit to stored scores: task and kind by prompt id, and which attribute is detrimental.

    Rows of a guise with a ``pair`` are meaning-matched unless ``setting`` says otherwise; rows without one are
    numbered and treated as independent sets, see `markedness.audits.guise.design.stored.with_pairs`. A row without a
    guise is the neutral context of a decision. ``cluster`` or ``verb`` says which texts belong together; those
    with copies of one ``text`` do too. ``reason`` says of those of
    ``estimator`` top_logprobs_renormalised whether a server showed them ("shown") or they are "imputed".

    Raises
    ------
    AuditError
        For a prompt id of no task, a corpus without two guises, scores that are no numbers, words that are none of
        their task, or rows that do not say which text they are of.
    """
    tasks = questions(params.tasks, stimuli)
    task_of_prompt = {key: name for name, task in tasks.items() for key in task.templates}
    rows = rows.copy()
    if "task" not in rows:
        rows["task"] = rows["prompt_id"].map(task_of_prompt)
    strange = rows.loc[~rows["task"].isin(list(tasks)), "prompt_id"]
    if len(strange):
        raise AuditError(
            f"prompt_id '{strange.iloc[0]}' belongs to no task of guise.generate.tasks ({', '.join(tasks)}); "
            "give the corpus a column task, or map prompt_id in values"
        )
    rows["kind"] = rows["task"].map({name: task.kind for name, task in tasks.items()})
    for name in ("log_prob", "coverage", "candidate_tokens"):
        if name in rows:
            rows[name] = _numbers(rows[name])
    if "estimator" in rows:
        rows["reason"] = reasons(rows)
    rows["candidate"] = rows["candidate"].astype("string").str.strip()
    _check_words(rows, tasks)
    guise = rows[params.axis_name] if params.axis_name in rows else pd.Series(pd.NA, index=rows.index)
    if guise.isna().all():
        raise AuditError(f"the corpus has no column {params.axis_name}; name theirs in columns.{params.axis_name}")
    rows["marked"] = guise.notna() & guise.ne("") & guise.ne(params.axis.unmarked)
    of_guise = guise.fillna("").ne("")
    if not (rows["marked"].any() and (of_guise & ~rows["marked"]).any()):
        raise AuditError(
            f"the corpus has no scores of {params.axis.unmarked} to compare with those of another guise; it has "
            f"{', '.join(sorted(guise[of_guise].unique()))}"
        )
    overt = rows["task"].map({name: bool(task.words) for name, task in tasks.items()}).astype(bool)
    rows = with_pairs(rows, of_guise, overt)
    controls = {name: source.is_control for name, source in params.pairs.items()}
    rows["control"] = [controls.get(name, False) for name in rows["pairs"]]
    named = zip(rows["task"], rows["candidate"], strict=True)
    columns = pd.DataFrame([tasks[task].candidate_columns.get(word, {}) for task, word in named], rows.index)
    return rows.join(columns.reindex(columns=["ratings_table", "detrimental"]))


def _numbers(cells: pd.Series) -> pd.Series:
    """Stored numbers; AuditError for a cell that is neither a number nor empty, or a share above 1."""
    numbers = pd.to_numeric(cells, errors="coerce")
    text = cells.astype("string").fillna("").str.strip()
    strange = text[numbers.isna() & ~text.str.casefold().isin(MISSING)]
    if len(strange):
        raise AuditError(
            f"{cells.name}: '{strange.iloc[0]:.40}' is no number; write '.' before the decimals, and leave the cell of "
            "a missing score empty"
        )
    if cells.name == "coverage" and numbers.gt(1 + 1e-6).any():
        raise AuditError(f"coverage: {numbers.max():g} is no share; write it between 0 and 1, not in percent")
    return numbers


def _check_words(rows: pd.DataFrame, tasks: Mapping[str, Question]) -> None:
    """Refuse a corpus of which no word is one of its task: a list of another spelling has no ratings."""
    for name, own in rows.groupby("task"):
        known, words = tasks[str(name)].candidate_columns, own["candidate"].dropna().unique()
        if known and len(words) and not known.keys() & set(words):
            raise AuditError(
                f"none of the words of the task {name} in the corpus, such as '{words[0]:.40}', is one of its "
                f"attributes ({', '.join(list(known)[:5])}, ...); write them alike, or name yours in "
                f"guise.generate.tasks.{name}.attributes"
            )
