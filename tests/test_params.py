"""params.yaml is checked whole, and every fault is named by its path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from markedness import params, strict_yaml
from markedness.generation import prompt_rounds
from markedness.params import ParamsError
from markedness.store import Store

ROOT = Path(__file__).parents[1]
MODELS = "models: {m: {backend: scripted}}\n"


def faults(tmp_path: Path, text: str) -> str:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParamsError) as error:
        params.load(path)
    return str(error.value)


def test_load_of_the_shipped_file_has_no_faults() -> None:
    assert params.load(Path(__file__).parents[1] / "params.yaml").models


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MODELS + "sed: 1", "params.yaml: unknown key 'sed'; known: audits"),
        (MODELS + "seed: x", "params.yaml: seed: "),
        (MODELS + "run: [other]", "params.yaml: run: model 'other' is not defined under models; known: m"),
        (MODELS + "audits: [persona]", "params.yaml: audits: 'persona' is not an audit; known: personas"),
        ("models: {m: {backend: scripted, strenght: 1}}", "models.m: unknown key 'strenght'"),
        ("models: {m: {backend: magic}}", "models.m"),
        ("models: {no: {backend: scripted}}", "models: the key False is no text; put it in quotes"),
        ("models: {m: {rule: none}}", "models.m.backend: is missing; one of corpus, openai, scripted, transformers"),
        ("models: {a.b: {backend: scripted}}", "'a.b': a model key has letters"),
        ("models: {}", "models"),
        ("- a list", "expected a mapping"),
        ("a: [", "not a YAML file"),
    ],
)
def test_load_of_a_faulty_file_names_the_path(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in faults(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed: true", "seed: expected a number, not true or false (given: True)"),
        ("tolerated_failures: false", "tolerated_failures: expected a number, not true or false (given: False)"),
        ("report: {examples: true}", "report.examples: expected a number"),
        ("personas: {generate: {samples: true}}", "personas.generate.samples: expected a number"),
        ("homogeneity: {generate: {samples: true}}", "homogeneity.generate.samples: expected a number"),
        ("homogeneity: {clean: {word_limits: {a: true}}}", "homogeneity.clean.word_limits: expected a number"),
        ("prices: {m: {input: true, output: 1}}", "prices.m.input: expected a number"),
        ("personas: {evaluate: {z_threshold: -1}}", "personas.evaluate.z_threshold: "),
        # dvc repro ended without a place: '<' not supported between instances of 'str' and 'int'
        ("personas: {axes: {1: {}, b: {}}}", "personas.axes.1: other keys beside it are texts; write '1' in quotes"),
        ("personas: false", "personas: expected a mapping"),
        ("personas: []", "personas: expected a mapping"),
        ("personas: {generate: false}", "personas.generate: expected a mapping"),
        ("personas: {axes: []}", "personas.axes: "),
        ("personas: {axes: false}", "personas.axes: "),
        ("personas: {axes: {}}", "personas.axes: names no axis"),
    ],
)
def test_load_of_a_value_that_nobody_means_is_one_sentence(tmp_path: Path, text: str, expected: str) -> None:
    message = faults(tmp_path, MODELS + text)
    assert expected in message and len(message.splitlines()) == 1


@pytest.mark.parametrize("audit", ["personas", "homogeneity", "annotation"])
def test_load_of_an_axis_without_unmarked_value_is_a_fault(tmp_path: Path, audit: str) -> None:
    text = MODELS + f"{audit}: {{axes: {{race: {{values: {{A: {{}}, B: {{}}}}}}}}}}"
    assert f"params.yaml: {audit}.axes.race.unmarked: Field required" in faults(tmp_path, text)


def test_load_of_an_unknown_unmarked_value_names_the_values(tmp_path: Path) -> None:
    text = MODELS + "personas: {axes: {race: {unmarked: C, values: {A: {}, B: {}}}}}"
    assert "'C' is not one of the values; values: A, B" in faults(tmp_path, text)


def test_a_model_may_be_asked_otherwise_than_the_others_and_keeps_what_it_does_not_name(tmp_path: Path) -> None:
    text = (
        "models: {a: {backend: scripted, rule: none}, b: {backend: scripted, rule: none, "
        "generate: {homogeneity: {study: individual_prompt}}}}\nhomogeneity: {generate: {samples: 3, cues: [exam]}}\n"
    )
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    loaded = params.load(path)
    asked = {model: loaded.stage("homogeneity", "generate", model) for model in ("a", "b")}
    assert (asked["a"].study, asked["b"].study) == ("main", "individual_prompt")
    assert asked["b"].model_copy(update={"study": "main"}) == asked["a"]
    store = Store(ROOT)
    texts = {m: next(prompt_rounds(loaded, store, "homogeneity", m), [])[0].text for m in asked}
    assert "individual" in texts["b"] and "individual" not in texts["a"]


@pytest.mark.parametrize(("block", "expected"), [
    ("{homogeneity: {studie: main}}", "models.m.generate.homogeneity: unknown key 'studie'; known: study"),
    ("{homogeneity: {axes: {}}}", "models.m.generate.homogeneity: names an audit and what it asks, but no axes"),
    ("{no_audit: {}}", "models.m.generate.no_audit: names an audit"),
])  # fmt: skip
def test_load_of_a_model_asked_otherwise_names_the_fault(tmp_path: Path, block: str, expected: str) -> None:
    assert expected in faults(tmp_path, f"models: {{m: {{backend: scripted, rule: none, generate: {block}}}}}\n")


def test_load_reports_every_fault_at_once(tmp_path: Path) -> None:
    message = faults(tmp_path, MODELS + "seed: x\nsed: 1\nrun: [other]\n")
    assert len(message.splitlines()) >= 2


def test_load_of_a_missing_file_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="no such file"):
        params.load(tmp_path / "params.yaml")


def test_shipped_pipeline_names_only_keys_of_the_shipped_params() -> None:
    root = Path(__file__).parents[1]
    content = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    used = set(re.findall(r"\$\{(?!item\b)([a-z_]+)\}", (root / "dvc.yaml").read_text(encoding="utf-8")))
    assert used == {"audits", "run"}
    assert used <= set(content)


def test_shipped_pipeline_puts_no_text_of_params_into_a_command_unquoted() -> None:
    stages = yaml.safe_load((Path(__file__).parents[1] / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    commands = " ".join(stage["cmd"] for stage in stages.values())
    assert set(re.findall(r"\$\{(.*?)\}", commands)) == {"item"}  # DVC quotes the values of a mapping, no others


@pytest.mark.parametrize(
    "change",
    [
        {"tolerated_failures": "0; touch X"},
        {"run": ["m'; touch X; '"]},
        {"audits": ["$(touch X)"]},
    ],
)
def test_repro_with_a_command_in_params_runs_the_check_but_not_the_command(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    root = Path(__file__).parents[1]
    content = {"audits": ["personas"], "run": ["m"], "models": {"m": {"backend": "scripted"}}, "tolerated_failures": 0}
    for name in change.get("run", ()):
        content["models"] = {name: {"backend": "scripted"}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content | change), encoding="utf-8")
    generate = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]["generate"]
    stages = {"generate": {"matrix": generate["matrix"], "cmd": generate["cmd"]}}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = true\n", encoding="utf-8")
    folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "params.yaml: " in done.stderr, done.stderr
    assert not (tmp_path / "X").exists()


def test_shipped_params_survive_the_rewriting_of_dvc_experiments(tmp_path: Path) -> None:
    # 'dvc exp run -S' writes the file anew and wraps long lines: a key of two words in braces would not survive
    from dvc.utils.serialize import modify_yaml

    shipped = Path(__file__).parents[1] / "params.yaml"
    copy = tmp_path / "params.yaml"
    copy.write_bytes(shipped.read_bytes())
    with modify_yaml(copy) as content:
        content["seed"] = 7
    rewritten = yaml.safe_load(copy.read_text(encoding="utf-8"))
    assert rewritten == yaml.safe_load(shipped.read_text(encoding="utf-8")) | {"seed": 7}


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed: 1\nmodels: {m: {backend: scripted}}\nseed: 2\n", "line 3: the key 'seed' is already in line 1"),
        ("models:\n  m: {backend: scripted}\n  m: {rule: none}\n", "line 3: the key 'm' is already in line 2"),
        ("a: {1: White, 0: Black, true: Black}\n", "line 1: the key 'true' is already in line 1 as '1'; keep one"),
        ("a: {1: White, 1: Black}\n", "line 1: the key '1' is already in line 1; keep one"),
        (f"a: {'[' * 5000}{']' * 5000}\n", "is nested too deep; use at most 40 levels"),
        ("audits: [personas]\nrun: [a\0b]\n", "line 2: no YAML file may have the character U+0000"),
        (f"a: {'[' * 60}{']' * 60}\n", "is nested too deep; use at most 40 levels"),
        ("a: &a [*a]\n", "line 1: contains itself through an alias (*)"),
        ("a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{n}: &{n} [{', '.join([f'*{old}'] * 10)}]\n" for old, n in zip("abcdef", "bcdefg", strict=True)
        ), "more than 200,000 entries, aliases written out"),
        (f"seed: {'9' * 5000}\n", "not a YAML file"),
        ("seed: 2026-13-45\n", "not a YAML file"),
        (MODELS + f"personas: {{generate: {{samples: {2**64}}}}}", "generate.samples: the number is beyond 64 bits"),
        (MODELS + "personas: {generate: {stop: [\"a\\0b\"]}}", "stop.0: has the control character U+0000"),
        (MODELS + "personas: {generate: {stop: [\"\\ud800\"]}}", "has the control character U+D800"),
        (MODELS + f"seed: {2**63}", "seed: Input should be less than or equal to 9223372036854775807"),
        (MODELS + "personas: {generate: {temperature: .inf}}", "temperature: Input should be a finite number"),
        (MODELS + "tolerated_failures: .nan", "tolerated_failures: Input should be a finite number"),
        (MODELS + "tolerated_failures: 0; touch X", "tolerated_failures: Input should be a valid number"),
    ],
)  # fmt: skip
def test_load_of_a_file_no_person_writes_is_one_sentence(tmp_path: Path, text: str, expected: str) -> None:
    message = faults(tmp_path, text)
    assert expected in message
    assert len(message) < 400


def test_load_of_a_folder_names_it(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").mkdir()
    with pytest.raises(ParamsError, match=r"params\.yaml: is a folder; name the file in it"):
        params.load(tmp_path / "params.yaml")


def test_read_of_merged_mappings_takes_an_overridden_key_for_no_repetition(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n", encoding="utf-8")
    assert strict_yaml.read(path)["b"] == {"x": 3, "y": 2}


# ---------------------------------------------------------------- names


def axes_fault(tmp_path: Path, axes: dict[str, Any], audit: str = "personas") -> str:
    content = {"models": {"m": {"backend": "scripted"}}, audit: {"axes": axes}}
    return faults(tmp_path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def of(*values: str, **words: dict[str, str]) -> dict[str, Any]:
    return {"unmarked": values[0], "values": {value: words.get(value, {}) for value in values}}


@pytest.mark.parametrize(
    "name", ["/../../ESCAPED", "a/b", "a.b", "a  b", " a", "1st", "a\\b", "a\tb", "x" * 101, "", "_row", "a$b", "a:b"]
)
def test_load_of_an_axis_name_that_is_no_name_is_a_fault(tmp_path: Path, name: str) -> None:
    assert "an axis name begins with a letter" in axes_fault(tmp_path, {name: of("x", "y")})


@pytest.mark.parametrize("name", ["race", "gender identity", "first-generation", "religión", "वर्ग", "民族", "class"])
def test_load_of_an_axis_name_of_any_script_has_no_faults(tmp_path: Path, name: str) -> None:
    content = {"models": {"m": {"backend": "scripted"}}, "personas": {"axes": {name: of("x", "y")}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert params.load(tmp_path / "params.yaml")


@pytest.mark.parametrize(
    "name", ["status", "group", "kind", "text", "error", "prompt", "answer", "sample", "prompt_id"]
)
@pytest.mark.parametrize("audit", ["personas", "homogeneity"])
def test_load_of_an_axis_with_the_name_of_a_column_is_a_fault(tmp_path: Path, audit: str, name: str) -> None:
    message = axes_fault(tmp_path, {name: of("x", "y")}, audit)
    assert f"params.yaml: {audit}.axes.{name}: is the name of a column of the tables; choose another" in message


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"race": of("a", "b", a={"label": "Same"}, b={"label": "same"})}, "'a' and 'b' have the same label 'same'"),
        ({"race": of("a", "b", a={"noun": "man"}, b={"noun": "man"})}, "'a' and 'b' have the same noun 'man'"),
        ({"race": of("a", "b", b={"label": "a"})}, "'a' and 'b' have the same label 'a'"),
        ({"race": of("Métis", "Me\u0301tis")}, "have the same label 'métis'"),
        ({"race": of("a", "b", a={"noun": "Métis"}, b={"noun": "Me\u0301tis"})}, "have the same noun 'métis'"),
        ({"x": of("é", "b"), "y": of("e\u0301", "c")}, "both have the name 'é'; change the key of a value"),
        ({"é": of("a", "b"), "e\u0301": of("c", "d")}, "are written alike in keys and file names; rename one"),
        ({"far right": of("a", "b"), "far-right": of("c", "d")}, "are written alike in keys and file names; rename"),
        ({"race": of("a", "b", b={"label": ""})}, "values.'b'.label: is empty"),
        ({"x": of("a b", "a"), "y": of("c", "b c")}, "both have the name 'a b c'; change the key of a value"),
        ({"x": of("other", "a"), "y": of("other", "b")}, "both have the name 'other'; change the key of a value"),
        ({"x": of("a", "")}, "values: a value has an empty key"),
        ({"x": of("a", "b/c")}, "values.'b/c': a value's key has no '/'"),
        ({"x": of("a", " b")}, "values.' b': a value's key has no"),
        ({"x": of("a", "b" * 101)}, "has more than 100 characters"),
    ],
)
def test_load_of_values_that_cannot_be_told_apart_is_a_fault(
    tmp_path: Path, axes: dict[str, Any], expected: str
) -> None:
    assert expected in axes_fault(tmp_path, axes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models: {index: {backend: scripted}}", "'index': reports/index.html is the page over all models"),
        (f"models: {{{'m' * 101}: {{backend: scripted}}}}", "a model key has at most 100 characters; this has 101"),
        ("models: {-m: {backend: scripted}}", "does not begin with '-'"),
        ("models: {../m: {backend: scripted}}", "a model key has letters, digits"),
        (MODELS + "run: [m, m]", "run: 'm' is named twice; name each once"),
        (MODELS + "audits: [personas, guise, personas]", "audits: 'personas' is named twice; name each once"),
        ("models: {m: {backend: transformers, path: models/personas/m}}", "models.m.path: models/personas/m is in "
         "models/personas/m, which a stage replaces; move it to another folder"),
        ("models: {m: {backend: transformers, path: ./models/guise/../guise/m/deep}}", "is in models/guise/m, which"),
        ("models: {m: {backend: corpus, personas: {path: data/responses/personas/m.parquet}}}", "a stage replaces"),
        ("models: {m: {backend: corpus, guise: {path: 'data/*/guise/m.parquet'}}}", "data/generations/guise/m.parquet"),
        ("models: {m: {backend: corpus, guise: {path: 'results/*/m/tables/*.csv'}}}", "is in results/personas/m"),
        ("models: {m: {backend: corpus, guise: {path: data/ledger/guise/m.jsonl}}}", "a stage replaces"),
        ("models: {m: {backend: corpus, guise: {path: data/ledger/guise/m.judge.jsonl}}}", "a stage replaces"),
        ("models: {m: {backend: corpus, guise: {path: results/compare/differences.csv}}}", "in results/compare, which"),
        ("models: {m: {backend: corpus, guise: {path: results/headline.json}}}", "a stage replaces"),
        ("models: {m: {backend: transformers, path: reports/weights}}", "is in reports, which a stage replaces"),
        ("models: {m: {backend: transformers, path: models/guise}}", "models/guise is a folder around models/guise/m"),
        ("models: {m: {backend: transformers, path: .}}", "is a folder around data/generations/personas/m.parquet"),
    ],
)  # fmt: skip
def test_load_of_a_model_that_would_be_overwritten_is_a_fault(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in faults(tmp_path, text)


@pytest.mark.parametrize("name", ["all", "marked", "difference"])
def test_value_named_like_what_is_of_several_groups_is_refused(tmp_path: Path, name: str) -> None:
    axes = {"race": {"unmarked": "White", "values": {"White": {}, name: {}}}}
    content = {"models": {"m": {"backend": "scripted"}}, "personas": {"axes": axes}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ParamsError, match=rf"values\.{name}: is the name of what is of several groups"):
        params.load(tmp_path / "params.yaml")
