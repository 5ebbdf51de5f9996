"""Stimuli that a user edited: a template that cannot be filled is one sentence before anything is asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.test_doctor import lines, study, toy

from markedness import audits
from markedness.records import AuditError, Prompt
from markedness.store import SHIPPED, Store
from markedness.templates import check_template, fill, placeholders

AUDITS = ("personas", "homogeneity", "guise", "knowledge", "annotation")
LABELS = {"study": "group_labels"}


def asked(root: Path, audit: str, params: dict[str, Any] | None = None) -> list[Prompt]:
    """The first round of an audit with the stimuli of a study."""
    spec = audits.spec(audit)
    chosen = spec.params("generate").model_validate(params or {})
    return next(spec.prompts(Store(root).stimuli(audit), chosen, np.random.default_rng(0)), [])


def edited(root: Path, audit: str, file: str, *edits: tuple[str, str]) -> Path:
    """A study whose file differs from ours in these texts; the first of each is replaced."""
    content = Store(SHIPPED).stimuli(audit).text(file)
    for old, new in edits:
        assert old in content
        content = content.replace(old, new, 1)
    folder = Store(root).stimuli_folder(audit)
    folder.mkdir(parents=True)
    (folder / file).write_text(content, encoding="utf-8")
    return root


KNOWLEDGE, STUDIES, TASKS, PERSONAS = "prompts.yaml", "studies.yaml", "tasks.yaml", "prompts.yaml"


@pytest.mark.parametrize(
    ("audit", "file", "old", "new", "sentence"),
    [
        ("knowledge", KNOWLEDGE, "A: {object}", "A: {Object}", "example: {Object} would be asked as it stands"),
        ("knowledge", KNOWLEDGE, "A: {object}", "A: {object", "example: a brace is of no placeholder"),
        ("knowledge", KNOWLEDGE, " A: {object}", "", "example: {object} is missing"),
        ("knowledge", KNOWLEDGE, "\n    {statement}", "\n    {Statement}", "judge.chat: {Statement} would be asked"),
        ("knowledge", KNOWLEDGE, "Statement: {statement}", "Statement:", "judge.completion: {statement} is missing"),
        ("knowledge", KNOWLEDGE, 'initial: "{sentence}"', "initial: x", "frames.plain.initial: {sentence} is missing"),
        ("knowledge", KNOWLEDGE, 'expansion: "{lines}"', "expansion: x", "frames.plain.expansion: {lines} is missing"),
        ("knowledge", KNOWLEDGE, 'ask_object: "Q: {subject}', 'ask_object: "Q: ', "ask_object: {subject} is missing"),
        ("knowledge", KNOWLEDGE, "Provide a list of common {plural}", "List them", "list.chat: {plural} is missing"),
        ("knowledge", KNOWLEDGE, "[love,", "['{verb}',", "predicates: {verb} would be asked as it stands"),
        ("knowledge", KNOWLEDGE, "  few_shot:", "  few_shots:", "frames.few_shot is missing"),
        ("knowledge", KNOWLEDGE, '  general: "', '  others: "', "initial_augmentation.general is missing"),
        ("personas", PERSONAS, "Describe {group} from", "Describe {group from", "'first_person': a brace is of no"),
        ("personas", PERSONAS, "Describe {group} from", "Describe {Group} from", "{Group} would be asked as it stands"),
        ("personas", PERSONAS, "Describe {group} from", "The person {be} kind, from", "asks the same of "),
        ("personas", PERSONAS, "prompts:\n", 'turn: "Go: {reply}"\nprompts:\n', "turn: {text} is missing"),
        ("personas", PERSONAS, "Imagine you are a bus", "Imagine {group}, a bus", "frame: {group} would be asked"),
        ("personas", PERSONAS, "id: imagine\n", "id: describe\n", "the id 'describe' is given to two prompts"),
        ("personas", PERSONAS, "    reply: I\n", "", "reply: Field required; correct this entry"),
        ("homogeneity", STUDIES, '"{name}"', '"{Name}"', "'[name]' of the signal names: {Name} would be asked"),
        ("homogeneity", STUDIES, '"{name}"', '"{name"', "'[name]' of the signal names: a brace is of no placeholder"),
        ("homogeneity", STUDIES, '"{name}"', "somebody", "'[name]' of the signal names: {name} is missing"),
        ("homogeneity", STUDIES, "signals:", "signal:", "signals: Field required; correct this entry"),
        ("homogeneity", "situation_cues.csv", "[name]", "[name] {name}", "{name} would be asked as it stands"),
        ("guise", TASKS, '" {t} " The person is', '" {t} {T} " The person is', "T1: {T} would be asked as it stands"),
        ("guise", TASKS, '" {t} " The person is', '" {t} " } The person is', "T1: a brace is of no placeholder"),
        ("guise", TASKS, "    kind: association\n", "    kind: x\n", "tasks.traits.kind: Input should be"),
        ("annotation", "frames.yaml", "output {yes};", "output {Yes};", "single.message: {Yes} would be asked"),
        ("annotation", "frames.yaml", "\n    {texts}", "\n    {text}", "batch.message: {text} would be asked"),
        ("annotation", "frames.yaml", "0 or 1}. Output", "0 or 1. Output", "batch.message: a brace is of no"),
        ("annotation", "vignettes.yaml", "I'm {NAME}. {A}. {B}.\"\n", "{NAME}. {A}.\"\n", "pattern: {B} is missing"),
    ],
)  # fmt: skip
def test_prompts_of_an_edited_template_are_refused_with_file_key_and_remedy(
    tmp_path: Path, audit: str, file: str, old: str, new: str, sentence: str
) -> None:
    assert asked(SHIPPED, audit)  # ours are sound
    with pytest.raises(AuditError, match=re.escape(sentence)) as refused:
        asked(edited(tmp_path, audit, file, (old, new)), audit)
    assert file in str(refused.value) or f"{audit}.generate.tasks" in str(refused.value)


def test_prompts_of_labels_without_the_group_are_refused(tmp_path: Path) -> None:
    marks = ('"{Phrase} American {noun}"', '"{phrase} American {noun}"', "The {label} American {noun}")
    root = edited(tmp_path, "homogeneity", STUDIES, *((mark, "The {noun}") for mark in marks))
    assert asked(SHIPPED, "homogeneity", LABELS)
    with pytest.raises(AuditError, match=r"labels: '\w+' asks the same of 'White man' and 'Asian man'"):
        asked(root, "homogeneity", LABELS)


@pytest.mark.parametrize("content", ["", "[]", "- a\n", "text"])
@pytest.mark.parametrize(
    ("audit", "file"),
    [("knowledge", KNOWLEDGE), ("personas", PERSONAS), ("homogeneity", STUDIES), ("guise", TASKS)],
)
def test_prompts_of_a_file_that_is_no_mapping_name_what_belongs_there(
    tmp_path: Path, audit: str, file: str, content: str
) -> None:
    folder = Store(tmp_path).stimuli_folder(audit)
    folder.mkdir(parents=True)
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(AuditError, match=rf"{audit}: {re.escape(file)} is no mapping; write the entries \w+"):
        asked(tmp_path, audit)


def test_params_check_says_that_a_template_cannot_be_filled(tmp_path: Path) -> None:
    edited(tmp_path, "knowledge", KNOWLEDGE, ("A: {object}", "A: {object"))
    path = study(tmp_path, toy("http://localhost:9/v1"), audits=["knowledge"])
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"personas": {}}), encoding="utf-8")
    code, output = lines(path, "params", "check")
    assert code == 2 and "knowledge: prompts.yaml: example: a brace is of no placeholder" in output, output


@pytest.mark.parametrize(
    ("template", "asked_as"),
    [
        ('{"a": {"b": 1}, "t": "{t}"}', '{"a": {"b": 1}, "t": "A {t} {{t}}"}'),
        ("{'answer': '{t}'}", "{'answer': 'A {t} {{t}}'}"),
        ("{t}: {{x}}, {{t}}, {{}}", "A {t} {{t}}: {x}, {t}, {}"),
        ('{t} {{"a": {{"b": 1}}}}', 'A {t} {{t}} {"a": {"b": 1}}'),
        ("{{{t}}} {{{{t}}}}", "{A {t} {{t}}} {{t}}"),
        ("{t} :-}} and {{", "A {t} {{t}} :-} and {"),
        ("{t} \\\\frac{{a}}{{b}}", "A {t} {{t}} \\\\frac{a}{b}"),
        ('{"t": {t}}', '{"t": A {t} {{t}}}'),
    ],
)
def test_literal_braces_of_json_and_doubled_ones_are_asked(template: str, asked_as: str) -> None:
    """What a word holds, here "A {t} {{t}}", stays as it is."""
    assert check_template(template, "here", ("t",)) == template
    assert placeholders(template) == ["t"] and fill(template, {"t": "A {t} {{t}}"}) == asked_as


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{t} {x}", "here: {x} would be asked as it stands; placeholders here: {t}; correct it, or double its"),
        ("{t} { t }", "here: { t } would be asked as it stands"),
        ("{t} {t.name}", "here: {t.name} would be asked as it stands"),
        ("{t} {}", "here: {} would be asked as it stands"),
        ("{{t}", "here: a brace is of no placeholder and has no partner"),
        ("{t} }}}", "here: a brace is of no placeholder and has no partner"),
        ("{{t}} alone", "here: {t} is missing, without which all would be asked the same"),
    ],
)  # fmt: skip
def test_braces_that_may_be_a_mistake_are_refused(template: str, sentence: str) -> None:
    with pytest.raises(AuditError, match=f"^{re.escape(sentence)}"):
        check_template(template, "here", ("t",))


def test_doubled_braces_are_asked_as_single_ones_where_nothing_is_filled_too(tmp_path: Path) -> None:
    root = edited(tmp_path, "personas", PERSONAS, ("Imagine you are a bus", "Write {{x}} of a bus"))
    assert all("Write {x} of a bus" in str(prompt.completion) for prompt in asked(root, "personas"))
    root = edited(tmp_path, "homogeneity", "situation_cues.csv", ("[name]", "{{x}} [name]"))
    assert any("{x}" in prompt.messages[1].content for prompt in asked(root, "homogeneity"))
    assert not any("{{" in message.content for prompt in asked(root, "homogeneity") for message in prompt.messages)


def test_template_with_json_and_texts_with_braces_stay_as_they_are() -> None:
    template = 'Answer {"i": index, "y": 0 or 1} or {"text": "{text}"}: {text}, {n}'
    assert check_template(template, "here", ("text", "n")) == template
    filled = fill(template, {"text": "{n} {", "n": "2"})
    assert filled == 'Answer {"i": index, "y": 0 or 1} or {"text": "{n} {"}: {n} {, 2'
