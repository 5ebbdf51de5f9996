"""Were two sides asked alike?"""

from __future__ import annotations

from typing import Any

import pytest

from markedness import audits
from markedness.asked import NOT_ASKED, Asked, unlike
from markedness.lm.backends import backend
from markedness.lm.config import CorpusModel, ModelConfig, OpenAIModel, ScriptedModel
from markedness.sizes import filled

SCRIPTED = ScriptedModel(backend="scripted")


def asked(audit: str, generate: dict[str, Any], config: ModelConfig = SCRIPTED) -> Asked:
    spec = audits.spec(audit)
    kind = spec.params("generate")
    made = kind.model_validate(filled(generate, spec.sizes["quick"], kind))
    return Asked.of(spec, made.model_dump(mode="json"), config)


@pytest.mark.parametrize(
    ("audit", "one", "other", "named"),
    [
        ("knowledge", {}, {"arms": ["none"]}, 'knowledge.generate.arms is ["both"] in a, ["none"] in b'),
        ("personas", {}, {"temperature": 0.2}, "personas.generate.temperature is 1.0 in a, 0.2 in b"),
        ("homogeneity", {}, {"max_tokens": 9}, "homogeneity.generate.max_tokens is 8 in a, 9 in b"),
        ("homogeneity", {}, {"study": "pilot"}, 'homogeneity.generate.study is "main" in a, "pilot" in b'),
        ("annotation", {}, {"counterbalance": True, "names": {"iterations": 2}, "dialect": {"iterations": 2}},
         "annotation.generate.counterbalance is false in a, true in b"),
        ("guise", {}, {"pairs": {"habitual_be": {"sample": 12, "min_words": 2}, "am": {}}},
         "guise.generate.pairs.habitual_be.min_words is 3 in a, 2 in b"),
    ],
)  # fmt: skip
def test_another_question_or_way_of_drawing_is_asked_otherwise(
    audit: str, one: dict[str, Any], other: dict[str, Any], named: str
) -> None:
    found = unlike(asked(audit, one), asked(audit, other), ("a", "b"))
    said = "asked otherwise, so that what differs may be the asking: "
    assert found.otherwise == f"{said}{named}; ask both alike"


@pytest.mark.parametrize(
    ("audit", "other", "named"),
    [
        ("knowledge", {"crawls": 8}, "knowledge.generate.crawls is 6 in a, 8 in b"),
        ("personas", {"samples": 9}, "personas.generate.samples is 8 in a, 9 in b"),
        ("annotation", {"names": {"iterations": 2}}, "annotation.generate.names.iterations is 1 in a, 2 in b"),
        ("guise", {"pairs": {"am": {}, "habitual_be": {}, "mine": {"rule": "am"}}},
         "guise.generate.pairs.mine is not there in a, there in b"),
    ],
)  # fmt: skip
def test_more_of_the_same_is_not_asked_otherwise(audit: str, other: dict[str, Any], named: str) -> None:
    found = unlike(asked(audit, {}), asked(audit, other), ("a", "b"))
    assert not found.otherwise
    assert found.more == f"not asked the same amount: {named}; what both were asked is compared"


def test_the_same_questions_are_asked_alike() -> None:
    assert str(unlike(asked("knowledge", {}), asked("knowledge", {"crawls": 6}), ("a", "b"))) == ""


def test_a_setting_of_the_model_is_asked_otherwise_and_who_answers_is_not() -> None:
    one = OpenAIModel(backend="openai", model="m-1", extra_body={"top_k": 40}, concurrency=2)
    other = OpenAIModel(backend="openai", model="m-2", base_url="http://127.0.0.1:8000/v1")
    sides = [asked("personas", {}, config) for config in (one, other, other.model_copy(update={"chat": False}))]
    assert (
        "extra_body.top_k of the model is 40 in a, not there in b" in unlike(sides[0], sides[1], ("a", "b")).otherwise
    )
    assert "chat of the model is true in a, false in b" in unlike(sides[1], sides[2], ("a", "b")).otherwise
    plain = asked("personas", {}, one.model_copy(update={"extra_body": {}}))
    assert str(unlike(plain, sides[1], ("a", "b"))) == ""


VALUES = {"unmarked": "a", "values": {"a": {}, "b": {}}}
NOUNS = {"unmarked": "man", "values": {"man": {"noun": "man"}, "woman": {"noun": "woman"}}}


@pytest.mark.parametrize("audit", ["personas", "homogeneity"])
def test_another_order_of_axes_is_asked_otherwise_where_it_words_persons(audit: str) -> None:
    one = {"age": VALUES, "race": {**VALUES, "values": {"a": {"label": "A"}, "b": {}}}, "gender": NOUNS}
    first = asked(audit, {"axes": one})
    other = asked(audit, {"axes": {name: one[name] for name in ("race", "gender", "age")}})
    said = f"{audit}.axes word persons in the order age, race in a and race, age in b"
    assert said in unlike(first, other, ("a", "b")).otherwise
    noun_first = asked(audit, {"axes": {name: one[name] for name in ("gender", "age", "race")}})
    assert str(unlike(first, noun_first, ("a", "b"))) == ""  # the noun stands last


def test_texts_that_exist_already_were_not_drawn_by_the_params() -> None:
    corpus = CorpusModel.model_validate({"backend": "corpus", "personas": {"path": "texts.csv"}})
    one, other = asked("personas", {}, corpus), asked("personas", {"temperature": 0.2, "stop": ["."]}, corpus)
    assert str(unlike(one, other, ("a", "b"))) == ""


def test_every_field_of_a_models_block_is_known_to_change_what_is_asked_or_not() -> None:
    asking = {
        "transformers": {"chat", "scored_turn", "whole_words", "overflow"},
        "openai": {"chat", "top_logprobs", "prompt_logprobs", "extra_body"}, "scripted": set(),
    }  # fmt: skip
    for name, fields in asking.items():
        assert backend(name).config.model_fields.keys() - NOT_ASKED == fields, "name a new field in NOT_ASKED, or here"
