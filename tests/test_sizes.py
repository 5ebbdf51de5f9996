"""Sizes: they fill in what a generate block leaves out, and nothing else; quick is the study of before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from markedness import audits, generation, params
from markedness.audits.base import OWN
from markedness.cli import app
from markedness.params import Params, ParamsError
from markedness.records import Completion, Prompt
from markedness.store import Store

ROOT = Path(__file__).parents[1]
SHIPPED = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
# The generate blocks of the default study before there were sizes.
BEFORE = yaml.safe_load("""
personas:
  prompts: [imagine_yourself, first_person]
  samples: 8
  temperature: 0.8
  top_p: 0.95
  max_tokens: 80
  stop: ["\\n"]
homogeneity:
  cues: [sports, preparing_food, working, grooming]
  names_per_group: 5
  samples: 4
  max_tokens: 8
  study: main
  temperature: 0.8
  top_p: 0.95
guise:
  pairs:
    habitual_be: {rule: habitual_be, sample: 12}
    am: {rule: am, sample: 8}
  tasks:
    traits: {prompts: [T1, T3, T7]}
    overt: {}
    occupations: {prompts: [O3, O7], sample: 8}
    conviction: {}
    death: {}
    iq: {prompts: [I1, I3]}
    perplexity: {}
knowledge:
  crawls: 6
  completions: 1
  rounds: 1
  draws: 1
  max_tokens: 16
  max_resamples: 2
  arms: [both, none]
  frame: few_shot
annotation:
  mode: single
  answer: probability
  answers: ["True", "False"]
  names: {tasks: [hireable, leader, aggressive, poor], iterations: 1, pairs: 40}
  dialect: {tasks: [professional_tone, educated_speaker, angry], pairs: 12}
""")


def load(folder: Path, content: dict[str, Any]) -> Params:
    folder.mkdir(exist_ok=True)
    path = folder / "params.yaml"
    content = {"models": {"m": {"backend": "scripted"}}, **content}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return params.load(path)


def generate(folder: Path, audit: str, block: dict[str, Any], **content: Any) -> dict[str, Any]:
    """The checked generate block of one audit."""
    made = load(folder, {**content, audit: {"generate": block}}).stage(audit, "generate")
    found: dict[str, Any] = made.model_dump(mode="json")
    return found


def asked(loaded: Params, audit: str) -> list[Prompt]:
    """Every prompt of a study whose model answers each alike."""
    rounds = generation.prompt_rounds(loaded, Store(loaded.root), audit)
    prompts = next(rounds)
    found = list(prompts)
    try:
        while True:
            prompts = rounds.send([[Completion(f"love {len(found)}")] * prompt.samples for prompt in prompts])
            found += prompts
    except StopIteration:
        return found


@pytest.mark.parametrize("audit", list(BEFORE))
def test_quick_asks_the_same_requests_as_the_default_study_before_there_were_sizes(audit: str, tmp_path: Path) -> None:
    shipped = {key: SHIPPED[key] for key in ("seed", "size")} | {audit: SHIPPED[audit]}
    before = {"seed": SHIPPED["seed"], audit: {"axes": SHIPPED[audit]["axes"], "generate": BEFORE[audit]}}
    now, then = load(tmp_path / "now", shipped), load(tmp_path / "then", before)
    assert now.sizes[audit].name == "quick" and not now.sizes[audit].but_for
    assert now.stage(audit, "generate").model_dump() == then.stage(audit, "generate").model_dump()
    requests = asked(now, audit)
    assert requests and requests == asked(then, audit)


@pytest.mark.parametrize("audit", OWN)
def test_every_size_of_every_audit_is_sound_and_asks_for_more_than_the_one_before(audit: str, tmp_path: Path) -> None:
    numbers = []
    for size in ("quick", "standard"):
        loaded = load(tmp_path / size, {"size": size, audit: SHIPPED[audit]})
        numbers.append(sum(prompt.samples for prompt in asked(loaded, audit)))
    assert numbers[0] < numbers[1]
    loaded = load(tmp_path / "paper", {"size": "paper", audit: SHIPPED[audit]})
    assert loaded.sizes[audit].name == "paper"


@pytest.mark.parametrize("audit", OWN)
def test_without_a_size_a_block_has_the_defaults_of_its_params(audit: str, tmp_path: Path) -> None:
    default = audits.spec(audit).params("generate")().model_dump(mode="json")
    assert generate(tmp_path, audit, {}) == default


def test_a_block_wins_over_its_size_key_by_key_and_null_is_what_the_size_says(tmp_path: Path) -> None:
    names = generate(tmp_path, "annotation", {"names": {"pairs": 7, "tasks": None}}, size="paper")["names"]
    assert (names["pairs"], names["iterations"], names["tasks"]) == (7, 100, None)
    names = generate(tmp_path, "annotation", {"names": {"pairs": 7, "tasks": None}}, size="quick")["names"]
    assert (names["pairs"], names["iterations"], len(names["tasks"])) == (7, 1, 4)
    assert generate(tmp_path, "personas", {"prompts": []}, size="quick")["prompts"] == []


def test_names_that_a_person_gives_are_all_that_is_asked(tmp_path: Path) -> None:
    block = {"pairs": {"mine": {"file": "mine.tsv"}, "am": {}}, "tasks": {"traits": {}, "iq": None}}
    made = generate(tmp_path, "guise", block, size="quick")
    assert list(made["pairs"]) == ["mine", "am"] and made["pairs"]["mine"]["sample"] is None
    assert (made["pairs"]["am"]["rule"], made["pairs"]["am"]["sample"]) == ("am", 8)
    assert list(made["tasks"]) == ["traits", "iq"]
    assert made["tasks"]["traits"]["prompts"] == ["T1", "T3", "T7"] and made["tasks"]["iq"]["prompts"] == ["I1", "I3"]


def test_the_size_of_an_audit_wins_over_the_one_above(tmp_path: Path) -> None:
    content = {"size": "paper", "personas": {"size": "quick"}, "homogeneity": {"size": None}}
    loaded = load(tmp_path, content)
    assert (loaded.sizes["personas"].name, loaded.sizes["homogeneity"].name) == ("quick", "paper")
    assert loaded.stage("personas", "generate").samples == 8
    assert loaded.stage("homogeneity", "generate").names_per_group == 15


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"size": "large"}, "params.yaml: size: Input should be 'quick', 'standard' or 'paper' (given: 'large')"),
        (
            {"personas": {"size": "large"}},
            "personas.size: 'large' is not a size; one of quick, standard, paper, or null",
        ),
        ({"personas": {"size": ["quick"]}}, "personas.size: '['quick']' is not a size; one of quick, standard"),
        ({"size": "quick", "personas": {"generate": {"sample": 3}}}, "personas.generate: unknown key 'sample'; known"),
        ({"size": "quick", "personas": {"generate": [3]}}, "personas.generate: expected a mapping"),
    ],
)
def test_a_size_that_is_none_is_refused_with_its_place(tmp_path: Path, content: dict[str, Any], expected: str) -> None:
    with pytest.raises(ParamsError) as error:
        load(tmp_path, content)
    assert expected in str(error.value)


def test_a_size_says_what_differs_from_it(tmp_path: Path) -> None:
    block = {"names": {"pairs": 7}, "dialect": {"pairs": 12}}
    loaded = load(tmp_path, {"size": "quick", "annotation": {"generate": block}})
    assert str(loaded.sizes["annotation"]) == "size quick but for names.pairs"
    assert str(load(tmp_path, {}).sizes["annotation"]) == "no size"
    loaded = load(tmp_path, {"size": "quick", "guise": {"generate": {"tasks": {"traits": {}}}}})
    assert str(loaded.sizes["guise"]) == "size quick but for tasks"


def test_params_check_prints_the_size_of_each_audit(tmp_path: Path) -> None:
    content = {"audits": ["personas", "guise"], "size": "standard", "personas": {"generate": {"samples": 3}}}
    load(tmp_path, content | {"guise": {"size": "quick"}})
    done = CliRunner().invoke(app, ["params", "check", "--params", str(tmp_path / "params.yaml")])
    assert done.exit_code == 0, done.output
    assert "personas: size standard but for samples\nguise: size quick\n" in done.output


def test_an_audit_without_sizes_refuses_one_of_its_own_and_is_left_alone_by_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits.AuditSpec, "sizes", {})
    loaded = load(tmp_path, {"size": "paper", "homogeneity": {"generate": {"samples": 2}}})
    assert str(loaded.sizes["homogeneity"]) == "no size" and loaded.stage("homogeneity", "generate").samples == 2
    expected = "homogeneity.size: the audit has no sizes; set null and say all in homogeneity.generate"
    with pytest.raises(ParamsError, match=expected):
        load(tmp_path, {"homogeneity": {"size": "quick"}})
