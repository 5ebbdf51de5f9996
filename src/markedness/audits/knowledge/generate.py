"""The crawl: round 0 completes "<subject> <predicate>", later rounds show earlier triples and ask for more.

Rows of one study may hold several crawls of the same subjects (``arms``: with and without the augmentations);
the first arm is the one that is analysed, the others show what the augmentation does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from markedness.records import (
    UNSUPPORTED,
    AuditError,
    Axes,
    Axis,
    Completion,
    CorpusColumns,
    Message,
    Prompt,
    Sampling,
    Stimuli,
    Strict,
    Value,
)
from markedness.text.triples import fold, read_list, read_triples

Arm = Literal["both", "initial", "expansion", "none"]
Crawl = Generator[list[Prompt], list[list[Completion]], Any]

CORPUS = CorpusColumns(
    required=("subject", "predicate", "object"), optional=("class", "round", "strategy", "arm", "prompt_id")
)
"""Triples that exist already: one a row."""


class Params(Strict):
    """What is crawled; the defaults are the paper's (sections 5.2 and 5.3)."""

    axes: Axes = Field(default_factory=dict)
    """Protected class -> its subjects; none: subjects.csv."""
    predicates: tuple[str, ...] = ()
    """Of round 0; none: those of prompts.yaml."""
    completions: int = Field(default=5, ge=1)
    """Triples per subject and predicate in round 0."""
    rounds: int = Field(default=4, ge=0)
    """Rounds after round 0."""
    draws: int = Field(default=10, ge=1)
    """Triples per subject and strategy in each later round."""
    examples: int = Field(default=3, ge=1)
    """Triples shown in a prompt of the later rounds; at most the number of other subjects."""
    temperature: float = Field(default=0.8, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=32, ge=1)
    max_resamples: int = Field(default=3, ge=0)
    """How often one invalid triple is drawn again before it stays unanswered."""
    arms: tuple[Arm, ...] = Field(default=("both",), min_length=1)
    """Augmented rounds of each crawl: both parts, only round 0, only the later rounds, none. The first is analysed."""
    frame: Literal["plain", "few_shot"] = "plain"
    """Form of round 0 for a model that continues text; chat models have a form of their own."""
    invalid_words: tuple[str, ...] = ()
    """Words that make an answer invalid, in this case; the paper's, for its one model: This."""
    dynamic_subjects: dict[str, str] = Field(default_factory=dict)
    """Class -> its name in the plural ("religions"): the model names further subjects of it."""
    lists: int = Field(default=5, ge=1)
    """Lists asked of the model for each dynamic class."""
    list_votes: int = Field(default=3, ge=1)
    """Lists that must name a subject."""
    judge: bool = False
    """Ask the model at the end how each triple speaks of its subject (``featurize.regard.scorer: judge``)."""

    @field_validator("arms")
    @classmethod
    def _once(cls, arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
        if len(set(arms)) < len(arms):
            raise ValueError("an arm is named twice; name each once")
        return arms


@dataclass(frozen=True)
class _Task:
    """One triple to be drawn: who, how, in which crawl."""

    arm: Arm
    axis: str
    subject: str
    strategy: str
    predicate: str = ""


@dataclass(frozen=True)
class _Triple:
    subject: str
    predicate: str
    object: str


_Pools = dict[tuple[str, str], list[_Triple]]


def prompts(stimuli: Stimuli, params: Params, rng: np.random.Generator) -> Crawl:
    """Crawl all classes side by side, one list of prompts a round and one per redraw of what was invalid.

    Every choice has a generator of its own, seeded by round, place and attempt, so that a resumed crawl makes
    the same choices whatever the ledger holds. The crawl ends: each triple is drawn at most
    1 + ``max_resamples`` times, and a request that failed for good is not drawn again.

    Parameters
    ----------
    stimuli
        subjects.csv (class, subject, unmarked), prompts.yaml.
    params
        See `Params`.
    rng
        Seeds the choice of examples.

    Yields
    ------
    list of Prompt
        One sample each. Columns: class, subject, reference (the unmarked subject), place (of the subject in
        its class), predicate (where given), round, strategy (initial, relation, object; list, judge), arm,
        analysed, attempt, planned (triples asked for per subject and arm), invalid_words.
    """
    words = stimuli.data("prompts.yaml")
    seed = int(rng.integers(2**63))
    asked: Counter[tuple[str | None, tuple[Message, ...]]] = Counter()
    axes = yield from _with_dynamic(_axes(stimuli, params), params, words, asked)
    predicates = params.predicates or tuple(words["predicates"])
    pools: _Pools = defaultdict(list)
    for number in range(params.rounds + 1):
        tasks = _tasks(axes, params, predicates, number)
        found: dict[int, _Triple] = {}
        pending = list(range(len(tasks)))
        for attempt in range(params.max_resamples + 1):
            asking: list[tuple[int, Prompt]] = []
            for place in pending:
                choices = np.random.default_rng([seed, number, place, attempt])
                text = _text(tasks[place], axes, pools, params, words, choices)
                if text is not None:
                    columns = _columns(tasks[place], axes, params, predicates, number, attempt, text[1])
                    asking.append((place, _prompt(tasks[place], text, columns, params, words, asked)))
            if not asking:
                break
            answers = yield [prompt for _, prompt in asking]
            pending = []
            for (place, _), (kind, triple) in zip(asking, _read(asking, answers), strict=True):
                if kind == "invalid":
                    pending.append(place)
                elif triple is not None:
                    found[place] = triple
        for place in sorted(found):
            pools[tasks[place].arm, tasks[place].axis].append(found[place])
    if params.judge:
        yield from _judged(axes, pools, params, words)


def _axes(stimuli: Stimuli, params: Params) -> Axes:
    """The classes of params, or those of subjects.csv."""
    if params.axes or params.dynamic_subjects.keys() - set(_default_classes(stimuli)):
        return dict(params.axes)
    return _default_classes(stimuli)


def _default_classes(stimuli: Stimuli) -> Axes:
    table = stimuli.table("subjects.csv", ("class", "subject", "unmarked"))
    axes: Axes = {}
    for name, rows in table.groupby("class", sort=False):
        unmarked = rows.loc[rows["unmarked"].ne(""), "subject"]
        if len(unmarked) != 1 or len(rows) < 2:
            raise AuditError(
                f"subjects.csv: class '{name}' has {len(rows)} subjects and {len(unmarked)} unmarked; "
                "give it at least two subjects and mark one"
            )
        axes[str(name)] = Axis(unmarked=unmarked.iloc[0], values={subject: Value() for subject in rows["subject"]})
    return axes


def _label(axes: Axes, axis: str, key: str) -> str:
    return axes[axis].values[key].label or key


def _tasks(axes: Axes, params: Params, predicates: Sequence[str], number: int) -> list[_Task]:
    tasks = []
    for arm in params.arms:
        for axis, of_class in axes.items():
            for subject in of_class.values:
                if number == 0:
                    tasks += [
                        _Task(arm, axis, subject, "initial", predicate)
                        for predicate in predicates
                        for _ in range(params.completions)
                    ]
                else:
                    tasks += [_Task(arm, axis, subject, "relation")] * params.draws
                    tasks += [_Task(arm, axis, subject, "object")] * params.draws
    return tasks


def _text(
    task: _Task, axes: Axes, pools: _Pools, params: Params, words: Mapping[str, Any], rng: np.random.Generator
) -> tuple[str, str] | None:
    """What is asked, without its frame, and the predicate it gives; None when there is nothing to show."""
    subject = _label(axes, task.axis, task.subject)
    if task.strategy == "initial":
        sentence = f"{subject} {task.predicate}"
        if task.arm in ("both", "initial"):
            augmentation = words["initial_augmentation"]
            sentence = f"{augmentation.get(task.axis, augmentation['general'])} {sentence}"
        return sentence, task.predicate
    pool = [triple for triple in pools[task.arm, task.axis] if triple.subject != subject]
    size = min(params.examples, len(axes[task.axis].values) - 1)
    if not pool:
        return None
    if task.strategy == "relation":
        shown, predicate = relation_examples(pool, size, rng), ""
        last = words["ask_relation"].format(subject=subject)
    else:
        shown = object_examples(pools[task.arm, task.axis], subject, size, rng)
        predicate = shown[0].predicate
        last = words["ask_object"].format(subject=subject, predicate=predicate)
    lines = [words["example"].format(subject=t.subject, predicate=t.predicate, object=t.object) for t in shown]
    text = "\n".join([*lines, last])
    if task.arm in ("both", "expansion"):
        text = f"{words['expansion_augmentation']}\n\n{text}"
    return text, predicate


def relation_examples(pool: Sequence[_Triple], size: int, rng: np.random.Generator) -> list[_Triple]:
    """Up to ``size`` triples of pairwise different subject and predicate (section 3.2.1)."""
    shown: list[_Triple] = []
    for index in rng.permutation(len(pool)):
        triple = pool[index]
        if all(triple.subject != t.subject and fold(triple.predicate) != fold(t.predicate) for t in shown):
            shown.append(triple)
        if len(shown) == size:
            break
    return shown


def object_examples(pool: Sequence[_Triple], subject: str, size: int, rng: np.random.Generator) -> list[_Triple]:
    """Up to ``size`` triples of one predicate and pairwise different other subjects (section 3.2.2).

    The predicate is drawn with probability proportional to 1 / its frequency among all triples so far, of
    those predicates that another subject has.
    """
    frequency = Counter(fold(triple.predicate) for triple in pool)
    others = [triple for triple in pool if triple.subject != subject]
    names = list(dict.fromkeys(fold(triple.predicate) for triple in others))
    weights = np.array([1 / frequency[name] for name in names])
    chosen = names[int(rng.choice(len(names), p=weights / weights.sum()))]
    shown: list[_Triple] = []
    candidates = [triple for triple in others if fold(triple.predicate) == chosen]
    for index in rng.permutation(len(candidates)):
        if all(candidates[index].subject != triple.subject for triple in shown):
            shown.append(candidates[index])
        if len(shown) == size:
            break
    return shown


def _columns(
    task: _Task, axes: Axes, params: Params, predicates: Sequence[str], number: int, attempt: int, predicate: str
) -> dict[str, Any]:
    of_class = axes[task.axis]
    return {
        "class": task.axis,
        "subject": _label(axes, task.axis, task.subject),
        "reference": _label(axes, task.axis, of_class.unmarked),
        "place": list(of_class.values).index(task.subject),
        "predicate": predicate or None,
        "round": number,
        "strategy": task.strategy,
        "arm": task.arm,
        "analysed": task.arm == params.arms[0],
        "attempt": attempt,
        "planned": len(predicates) * params.completions + 2 * params.rounds * params.draws,
        "invalid_words": " ".join(params.invalid_words),
    }


def _prompt(
    task: _Task,
    text: tuple[str, str],
    columns: dict[str, Any],
    params: Params,
    words: Mapping[str, Any],
    asked: Counter[tuple[str | None, tuple[Message, ...]]],
) -> Prompt:
    """One prompt for both kinds of model; asked before, it counts on from its last sample."""
    part, key = ("initial", "sentence") if task.strategy == "initial" else ("expansion", "lines")
    completion = words["frames"][params.frame][part].replace(f"{{{key}}}", text[0])
    messages = (Message("user", words["frames"]["chat"][part].replace(f"{{{key}}}", text[0])),)
    asked[completion, messages] += 1
    slot = task.predicate if task.strategy == "initial" else task.strategy
    return Prompt(
        prompt_id="/".join((task.axis, task.arm, str(columns["round"]), slot)),
        group=task.subject,
        messages=messages,
        completion=completion,
        sampling=Sampling(params.temperature, params.top_p, params.max_tokens, ("\n",)),
        first_sample=asked[completion, messages] - 1,
        columns=columns,
    )


def _read(
    asking: Sequence[tuple[int, Prompt]], answers: Sequence[Sequence[Completion]]
) -> Iterator[tuple[Literal["valid", "invalid", "failed"], _Triple | None]]:
    """What became of each answer; "failed" answers are not worth asking again."""
    prompts = [prompt for _, prompt in asking]
    completions = [completion for (completion,) in answers]
    read = read_triples(
        pd.DataFrame(
            {
                "text": [completion.text for completion in completions],
                "finish_reason": [completion.finish_reason for completion in completions],
                "subject": [prompt.columns["subject"] for prompt in prompts],
                "predicate": [prompt.columns["predicate"] for prompt in prompts],
                "invalid_words": [prompt.columns["invalid_words"] for prompt in prompts],
            }
        )
    )
    for prompt, completion, row in zip(prompts, completions, read.itertuples(index=False), strict=True):
        if completion.error is not None or completion.finish_reason == UNSUPPORTED:
            yield "failed", None
        elif row.reason:
            yield "invalid", None
        else:
            yield "valid", _Triple(str(prompt.columns["subject"]), str(row.predicate), str(row.object))


# ---------------------------------------------------------------- dynamic subjects, judge


def _with_dynamic(
    axes: Axes,
    params: Params,
    words: Mapping[str, Any],
    asked: Counter[tuple[str | None, tuple[Message, ...]]],
) -> Generator[list[Prompt], list[list[Completion]], Axes]:
    """The axes with the subjects that enough of the model's own lists name (appendix A.2.1)."""
    if not params.dynamic_subjects:
        return axes
    asking = [
        Prompt(
            prompt_id=f"{axis}/list",
            group="",
            messages=(Message("user", words["list"]["chat"].format(plural=plural)),),
            completion=words["list"]["completion"].format(plural=plural),
            sampling=Sampling(params.temperature, params.top_p, 16 * params.max_tokens, ("\n\n",)),
            samples=params.lists,
            columns={"class": axis, "strategy": "list", "analysed": False},
        )
        for axis, plural in params.dynamic_subjects.items()
    ]
    answers = yield asking
    grown = dict(axes)
    for axis, completions in zip(params.dynamic_subjects, answers, strict=True):
        named = named_often([completion.text or "" for completion in completions], params.list_votes)
        values = dict(grown[axis].values) if axis in grown else {}
        known = {fold(key) for key in values} | {fold(value.label or key) for key, value in values.items()}
        values |= {name: Value() for name in named if fold(name) not in known}
        if len(values) < 2:
            raise AuditError(
                f"knowledge.generate.dynamic_subjects.{axis}: {len(named)} subjects were named in at least "
                f"{params.list_votes} of {params.lists} lists; give the class subjects of its own under knowledge.axes"
            )
        grown[axis] = Axis(unmarked=grown[axis].unmarked if axis in grown else next(iter(values)), values=values)
    return grown


def named_often(texts: Sequence[str], votes: int) -> list[str]:
    """Names that at least ``votes`` of the lists hold, case and plural folded, the most named first."""
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    lists: Counter[str] = Counter()
    for text in texts:
        entries = read_list(text)
        lists.update(list(dict.fromkeys(fold(entry) for entry in entries)))
        for entry in entries:
            forms[fold(entry)][entry] += 1
    return [forms[name].most_common(1)[0][0] for name, count in lists.most_common() if count >= votes]


def _judged(axes: Axes, pools: _Pools, params: Params, words: Mapping[str, Any]) -> Crawl:
    """One judgment of each different triple of the analysed crawl."""
    asking = []
    for axis, of_class in axes.items():
        keys = {_label(axes, axis, key): key for key in of_class.values}
        for triple in dict.fromkeys(pools[params.arms[0], axis]):
            statement = f"{triple.subject} {triple.predicate} {triple.object}."
            asking.append(
                Prompt(
                    prompt_id=f"{axis}/judge",
                    group=keys[triple.subject],
                    messages=(Message("user", words["judge"]["chat"].replace("{statement}", statement)),),
                    completion=words["judge"]["completion"].replace("{statement}", statement),
                    sampling=Sampling(temperature=0.0, max_tokens=8, stop=("\n",)),
                    columns={
                        "class": axis, "subject": triple.subject, "predicate": triple.predicate,
                        "object": triple.object, "strategy": "judge", "analysed": False,
                    },
                )
            )  # fmt: skip
    if asking:
        yield asking


# ---------------------------------------------------------------- triples that exist already


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Give published triples the columns of a crawl: class and reference by their subject."""
    axes = params.axes or _default_classes(stimuli)
    found: dict[tuple[str, str], tuple[str, str, str, str, int]] = {}
    for axis, of_class in axes.items():
        for place, key in enumerate(of_class.values):
            label, reference = _label(axes, axis, key), _label(axes, axis, of_class.unmarked)
            for name in (key, label):
                for where in (axis, ""):  # a corpus that names no class: the first that has the subject
                    found.setdefault((where, name), (axis, key, label, reference, place))
    given = rows["class"].fillna("").astype(str) if "class" in rows else pd.Series("", index=rows.index)
    keys = list(zip(given, rows["subject"].astype(str), strict=True))
    strange = next((key for key in keys if key not in found), None)
    if strange is not None:
        place_of = f" of the class '{strange[0]}'" if strange[0] else ""
        raise AuditError(
            f"knowledge: the corpus has the subject '{strange[1]}'{place_of}, which is no value of knowledge.axes; "
            "add it there or map it with values.subject"
        )
    places = [found[key] for key in keys]
    full = rows.assign(
        text=rows["object"], subject=[place[2] for place in places], group=[place[1] for place in places],
        reference=[place[3] for place in places], place=[place[4] for place in places],
        arm=rows.get("arm", "both"), attempt=0, invalid_words=" ".join(params.invalid_words),
    )  # fmt: skip
    full["class"] = [place[0] for place in places]
    full["round"] = pd.to_numeric(rows["round"], errors="coerce").fillna(0).astype(int) if "round" in rows else 0
    full["strategy"] = rows.get("strategy", "corpus")
    full["analysed"] = full["arm"].eq(full["arm"].iloc[0])
    full["planned"] = full.groupby(["class", "subject", "arm"])["text"].transform("size")
    full["prompt_id"] = [f"{row[0]}/{row[1]}/{row[2]}" for row in full[["class", "round", "strategy"]].to_numpy()]
    return full.drop(columns="object")
