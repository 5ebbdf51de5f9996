"""The texts of the prompts, made from prompts.yaml."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from markedness.audits.knowledge.design.subjects import label
from markedness.audits.knowledge.design.triples import Triple
from markedness.axes import Axes, meant
from markedness.records import AuditError, Message, Prompt, Sampling, Stimuli, Strict
from markedness.templates import check_template, fill, read_stimuli, twice

FILE = "prompts.yaml"
Arm = Literal["both", "initial", "expansion", "none"]
_JUDGED = Sampling(temperature=0.0, max_tokens=8, stop=("\n",))


class Frame(Strict):
    """What surrounds the sentence of round 0 and the lines of the later rounds."""

    initial: str
    expansion: str


class Question(Strict):
    """One question, for a chat model and for a model that continues text."""

    chat: str
    completion: str

    def filled(self, field: str, text: str) -> Question:
        """With ``text`` in place of {field}."""
        return Question(chat=fill(self.chat, {field: text}), completion=fill(self.completion, {field: text}))

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a chat model is sent."""
        return (Message("user", self.chat),)


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


class Wording(Strict):
    """The content of prompts.yaml; the file itself says what each entry is for."""

    predicates: tuple[str, ...]
    initial_augmentation: dict[str, str]
    expansion_augmentation: str
    example: str
    ask_relation: str
    ask_object: str
    frames: dict[str, Frame]
    capitalise: bool = False
    """Whether a sentence begins with a capital where nothing stands before its subject."""
    listing: Question = Field(alias="list")
    judge: Question
    judge_toxicity: Question | None = None

    @model_validator(mode="after")
    def _complete(self) -> Wording:
        lacking = [f"frames.{name}" for name in ("chat", "plain", "few_shot") if name not in self.frames]
        lacking += ["initial_augmentation.general"] if "general" not in self.initial_augmentation else []
        if lacking:
            raise PydanticCustomError("lacking", "{entry} is missing", {"entry": lacking[0]})
        if again := twice(self.predicates):
            raise PydanticCustomError("twice", "predicates has '{entry}' twice", {"entry": again})
        return self

    def check(self, axes: Collection[str]) -> None:
        """Refuse an augmentation of a class that is spelt otherwise: the general one would stand in its place."""
        known = {_folded(axis): axis for axis in axes}
        for key in self.initial_augmentation:
            if key not in axes and (near := known.get(_folded(key)) or meant(key, axes)):
                raise AuditError(f"knowledge: {FILE}: initial_augmentation.{key} is of the class '{near}'; write it so")

    @classmethod
    def read(cls, stimuli: Stimuli) -> Wording:
        """prompts.yaml; AuditError names the first entry that is missing or wrong, or a wrong placeholder."""
        found = read_stimuli(cls, stimuli, FILE, "knowledge")
        for key, template, fields in found._templates():
            check_template(template, f"knowledge: {FILE}: {key}", fields)
        return found

    def _templates(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """(Key, template, its placeholders), each of which it must have."""
        yield from (("predicates", predicate, ()) for predicate in self.predicates)
        yield from ((f"initial_augmentation.{key}", text, ()) for key, text in self.initial_augmentation.items())
        yield "expansion_augmentation", self.expansion_augmentation, ()
        yield "example", self.example, ("subject", "predicate", "object")
        yield "ask_relation", self.ask_relation, ("subject",)
        yield "ask_object", self.ask_object, ("subject", "predicate")
        for name, frame in self.frames.items():
            yield f"frames.{name}.initial", frame.initial, ("sentence",)
            yield f"frames.{name}.expansion", frame.expansion, ("lines",)
        asked = {"list": self.listing, "judge": self.judge, "judge_toxicity": self.judge_toxicity}
        for key, question in asked.items():
            fields = ("plural",) if key == "list" else ("statement",)
            if question is not None:
                yield f"{key}.chat", question.chat, fields
                yield f"{key}.completion", question.completion, fields

    def framed(self, part: Literal["initial", "expansion"], text: str, frame: str) -> Question:
        """A sentence (initial) or lines (expansion) in the frame for chat models and in ``frame``."""
        chat, completion = self.frames["chat"], self.frames[frame]
        if part == "initial":
            return Question(chat=chat.initial, completion=completion.initial).filled("sentence", text)
        return Question(chat=chat.expansion, completion=completion.expansion).filled("lines", text)

    def sentence(self, subject: str, predicate: str, axis: str, arm: Arm) -> str:
        """What round 0 asks the model to complete (section 3.1)."""
        if arm not in ("both", "initial"):
            return f"{subject[:1].upper() if self.capitalise else subject[:1]}{subject[1:]} {predicate}"
        augmentation = self.initial_augmentation.get(axis, self.initial_augmentation["general"])
        return f"{fill(augmentation, {})} {subject} {predicate}"

    def lines(self, shown: Sequence[Triple], last: str, arm: Arm) -> str:
        """Earlier triples and the line to complete (table 1)."""
        words = ({"subject": t.subject, "predicate": t.predicate, "object": t.object} for t in shown)
        examples = [fill(self.example, own) for own in words]
        text = "\n".join([*examples, last])
        return f"{fill(self.expansion_augmentation, {})}\n\n{text}" if arm in ("both", "expansion") else text


def list_prompts(question: Question, plurals: Mapping[str, str], sampling: Sampling, samples: int) -> list[Prompt]:
    """One prompt per class that asks for a list of its subjects (appendix A.2.1).

    Parameters
    ----------
    question
        With the field {plural}.
    plurals
        Class -> its name in the plural.
    sampling, samples
        How, and how many lists are drawn.
    """
    return [
        Prompt(
            prompt_id=f"{axis}/list",
            group="",
            messages=asked.messages,
            completion=asked.completion,
            sampling=sampling,
            samples=samples,
            columns={"class": axis, "strategy": "list", "analysed": False},
        )
        for axis, plural in plurals.items()
        for asked in [question.filled("plural", plural)]
    ]


def statement_questions(
    question: Question, measure: str, objects: Sequence[str], statements: Sequence[str]
) -> list[Prompt]:
    """One question for each statement, for a judge that is another model than the audited one.

    Parameters
    ----------
    question
        With the field {statement}.
    measure
        "regard" or "toxicity".
    objects, statements
        The object of each triple, which the scripted controls read, and the whole sentence.
    """
    return [
        Prompt(
            prompt_id=f"judge/{measure}", group="", messages=asked.messages, completion=asked.completion,
            sampling=_JUDGED, columns={"strategy": "judge", "measure": measure, "object": said},
        )
        for said, statement in zip(objects, statements, strict=True)
        for asked in [question.filled("statement", f"{statement}.")]
    ]  # fmt: skip


def judge_prompts(question: Question, axes: Axes, triples: Mapping[str, Sequence[Triple]]) -> list[Prompt]:
    """One prompt for each different triple of each class, which asks how it speaks of its subject.

    Parameters
    ----------
    question
        With the field {statement}.
    axes
        The classes.
    triples
        Class -> its triples.
    """
    keys = {(axis, label(axes, axis, key)): key for axis, of_class in axes.items() for key in of_class.values}
    return [
        Prompt(
            prompt_id=f"{axis}/judge",
            group=keys[axis, triple.subject],
            messages=asked.messages,
            completion=asked.completion,
            sampling=_JUDGED,
            columns={
                "class": axis, "subject": triple.subject, "predicate": triple.predicate, "object": triple.object,
                "strategy": "judge", "analysed": False,
            },
        )
        for axis, of_class in triples.items()
        for triple in dict.fromkeys(of_class)
        for asked in [question.filled("statement", f"{triple.subject} {triple.predicate} {triple.object}.")]
    ]  # fmt: skip
