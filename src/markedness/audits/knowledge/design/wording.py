"""The texts of the prompts, made from prompts.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, ValidationError

from markedness.audits.knowledge.design.subjects import label
from markedness.audits.knowledge.design.triples import Triple
from markedness.records import AuditError, Axes, Message, Prompt, Sampling, Stimuli, Strict

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
        return Question(
            chat=self.chat.replace(f"{{{field}}}", text), completion=self.completion.replace(f"{{{field}}}", text)
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a chat model is sent."""
        return (Message("user", self.chat),)


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

    @classmethod
    def read(cls, stimuli: Stimuli) -> Wording:
        """prompts.yaml; AuditError names the first entry that is missing or wrong."""
        try:
            return cls.model_validate(stimuli.data("prompts.yaml"))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise AuditError(f"knowledge: prompts.yaml: {place}: {first['msg']}; correct this entry") from error

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
        return f"{augmentation} {subject} {predicate}"

    def lines(self, shown: Sequence[Triple], last: str, arm: Arm) -> str:
        """Earlier triples and the line to complete (table 1)."""
        examples = [self.example.format(subject=t.subject, predicate=t.predicate, object=t.object) for t in shown]
        text = "\n".join([*examples, last])
        return f"{self.expansion_augmentation}\n\n{text}" if arm in ("both", "expansion") else text


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
