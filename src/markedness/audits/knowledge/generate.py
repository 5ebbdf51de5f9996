"""The crawl: round 0 completes "<subject> <predicate>"; later rounds show earlier triples and ask for more.

One study may crawl the same subjects several times: with and without the augmentations (``arms``; the first arm is
analysed, the others show their effect), and anew with other draws (``crawls``: what p and interval rest on).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from markedness.audits.knowledge.design.corpus import as_crawl
from markedness.audits.knowledge.design.examples import object_examples, relation_examples
from markedness.audits.knowledge.design.rounds import Rounds, together
from markedness.audits.knowledge.design.subjects import classes, label, with_listed, worded
from markedness.audits.knowledge.design.triples import Triple, outcomes
from markedness.audits.knowledge.design.wording import Arm, Question, Wording, judge_prompts, list_prompts
from markedness.axes import Axes
from markedness.records import Message, Prompt, Sampling, Scalar, Stimuli, Strict
from markedness.templates import fill, twice
from markedness.text.languages import COLUMN, ENGLISH

_SAMPLES = 1_000_000
"""Sample numbers of one crawl: the draws of a crawl stay the same however many others there are."""


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
    crawls: int = Field(default=1, ge=1)
    """Times that everything is crawled, each with other draws. The crawl is the unit of p and interval, which need 6;
    the paper has one."""
    arms: tuple[Arm, ...] = Field(default=("both",), min_length=1)
    """Augmented rounds of each crawl: both parts, only round 0, only the later rounds, none. The first is analysed."""
    frame: Literal["plain", "few_shot"] = "plain"
    """Form of round 0 for a model that continues text; chat models have a form of their own."""
    invalid_words: tuple[str, ...] = ()
    """Words that make an answer invalid, in this case; the paper's, for its one model: This."""
    dynamic_subjects: dict[str, str] = Field(default_factory=dict)
    """Class -> its name in the plural ("religions"): the model names the subjects of it."""
    listed: Literal["replace", "add"] = "replace"
    """They take the place of the class's subjects but for the reference, or join them."""
    lists: int = Field(default=5, ge=1)
    """Lists asked of the model for each dynamic class."""
    list_votes: int = Field(default=3, ge=1)
    """Lists that must name a subject."""
    judge: bool = False
    """Ask the model at the end how each triple speaks of its subject (``featurize.regard.scorer: judge``)."""

    @field_validator("predicates", "arms")
    @classmethod
    def _once(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        if again := twice(named):
            raise ValueError(f"{again} is named twice; name each once")
        return named


@dataclass(frozen=True)
class _Task:
    """One triple to be drawn."""

    arm: Arm
    axis: str
    subject: str
    strategy: Literal["initial", "relation", "object"]
    predicate: str = ""


def prompts(stimuli: Stimuli, params: Params, rng: np.random.Generator) -> Rounds:
    """Crawl all classes together: one list of prompts per round, and one per redraw of its invalid answers.

    Every choice of examples has its own random generator, seeded by crawl, round, task and attempt, so that a resumed
    crawl makes the same choices whatever the ledger contains, and further crawls ask only for their own answers. The
    crawl ends: each triple is drawn at most 1 + ``max_resamples`` times, and a request that failed for good is not
    repeated.

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
        its class), predicate (where given), crawl (from 1), round, strategy (initial, relation, object; list, judge),
        arm, analysed, attempt, planned (triples asked for per subject, arm and crawl), invalid_words.
    """
    wording = Wording.read(stimuli)
    seed = int(rng.integers(2**63))
    axes = worded(classes(stimuli, params.axes, params.dynamic_subjects), stimuli)
    wording.check([*axes, *params.dynamic_subjects])
    if params.dynamic_subjects:
        sampling = Sampling(params.temperature, params.top_p, 16 * params.max_tokens, ("\n\n",))
        answers = yield list_prompts(wording.listing, params.dynamic_subjects, sampling, params.lists)
        texts = [[completion.text or "" for completion in completions] for completions in answers]
        found = dict(zip(params.dynamic_subjects, texts, strict=True))
        axes = with_listed(axes, found, params.list_votes, params.listed == "replace")
    crawls = [_Crawl(axes, params, wording, seed, number, stimuli.language) for number in range(params.crawls)]
    yield from together([crawl.rounds() for crawl in crawls])
    if params.judge:
        analysed = {axis: [triple for one in crawls for triple in one.pools[params.arms[0], axis]] for axis in axes}
        if asking := judge_prompts(wording.judge, axes, analysed):
            yield asking


class _Crawl:
    """The state of a crawl: the triples so far, and how often each prompt was sent."""

    def __init__(
        self, axes: Axes, params: Params, wording: Wording, seed: int, number: int, language: str = ENGLISH
    ) -> None:
        self.axes = axes
        self.params = params
        self.wording = wording
        self.seed = seed
        self.language = language
        self.number = number
        """From 0."""
        self.predicates = params.predicates or wording.predicates
        self.pools: defaultdict[tuple[Arm, str], list[Triple]] = defaultdict(list)
        """(arm, class) -> its triples so far."""
        self.sent: Counter[tuple[str | None, tuple[Message, ...]]] = Counter()

    def rounds(self) -> Rounds:
        """The whole crawl."""
        for number in range(self.params.rounds + 1):
            yield from self.round(number)

    def round(self, number: int) -> Rounds:
        """Ask for the triples of one round, again where the answer was invalid, and add the valid ones."""
        tasks = [task for arm in self.params.arms for axis in self.axes for task in self.tasks(arm, axis, number)]
        found: dict[int, Triple] = {}
        of_crawl = [self.number] if self.number else []
        pending = list(range(len(tasks)))
        for attempt in range(self.params.max_resamples + 1):
            asking: dict[int, Prompt] = {}
            for place in pending:
                rng = np.random.default_rng([self.seed, number, place, attempt, *of_crawl])
                asked = self.question(tasks[place], rng)
                if asked is not None:
                    asking[place] = self.prompt(tasks[place], *asked, number, attempt)
            if not asking:
                break
            answers = yield list(asking.values())
            became = dict(zip(asking, outcomes(list(asking.values()), answers), strict=True))
            pending = [place for place, outcome in became.items() if outcome == "invalid"]
            found |= {place: outcome for place, outcome in became.items() if isinstance(outcome, Triple)}
        for place in sorted(found):
            self.pools[tasks[place].arm, tasks[place].axis].append(found[place])

    def tasks(self, arm: Arm, axis: str, number: int) -> list[_Task]:
        """The triples of one class in one round."""
        tasks = []
        for subject in self.axes[axis].values:
            if number == 0:
                given = [_Task(arm, axis, subject, "initial", predicate) for predicate in self.predicates]
                tasks += [task for task in given for _ in range(self.params.completions)]
            else:
                tasks += [_Task(arm, axis, subject, "relation")] * self.params.draws
                tasks += [_Task(arm, axis, subject, "object")] * self.params.draws
        return tasks

    def question(self, task: _Task, rng: np.random.Generator) -> tuple[Question, str] | None:
        """The question and the predicate that it gives ("": the model names it); None without examples to show."""
        subject, frame = label(self.axes, task.axis, task.subject), self.params.frame
        if task.strategy == "initial":
            sentence = self.wording.sentence(subject, task.predicate, task.axis, task.arm)
            return self.wording.framed("initial", sentence, frame), task.predicate
        pool = self.pools[task.arm, task.axis]
        others = [triple for triple in pool if triple.subject != subject]
        if not others:
            return None
        size = min(self.params.examples, len(self.axes[task.axis].values) - 1)
        if task.strategy == "relation":
            shown, predicate = relation_examples(others, size, rng), ""
            last = fill(self.wording.ask_relation, {"subject": subject})
        else:
            shown = object_examples(pool, subject, size, rng)
            predicate = shown[0].predicate
            last = fill(self.wording.ask_object, {"subject": subject, "predicate": predicate})
        return self.wording.framed("expansion", self.wording.lines(shown, last, task.arm), frame), predicate

    def prompt(self, task: _Task, question: Question, predicate: str, number: int, attempt: int) -> Prompt:
        """The prompt of one task; a repeated prompt gets the next ``first_sample``."""
        key = (question.completion, question.messages)
        self.sent[key] += 1
        of_class, params = self.axes[task.axis], self.params
        columns: dict[str, Scalar] = {
            "class": task.axis,
            "subject": label(self.axes, task.axis, task.subject),
            "reference": label(self.axes, task.axis, of_class.unmarked),
            "place": list(of_class.values).index(task.subject),
            "predicate": predicate or None,
            "crawl": str(self.number + 1),
            "round": number,
            "strategy": task.strategy,
            "arm": task.arm,
            "analysed": task.arm == params.arms[0],
            "attempt": attempt,
            "planned": len(self.predicates) * params.completions + 2 * params.rounds * params.draws,
            "invalid_words": " ".join(params.invalid_words), COLUMN: self.language,
        }  # fmt: skip
        slot = task.predicate if task.strategy == "initial" else task.strategy
        return Prompt(
            prompt_id="/".join((task.axis, task.arm, str(number), slot)),
            group=task.subject,
            messages=question.messages,
            completion=question.completion,
            sampling=Sampling(params.temperature, params.top_p, params.max_tokens, ("\n",)),
            first_sample=self.number * _SAMPLES + self.sent[key] - 1,
            columns=columns,
        )


def complete_corpus(rows: pd.DataFrame, stimuli: Stimuli, params: Params) -> pd.DataFrame:
    """Give published triples the columns of a crawl: class and reference by their subject, the first arm analysed."""
    return as_crawl(rows, worded(classes(stimuli, params.axes), stimuli), " ".join(params.invalid_words), params.arms)
