"""params.yaml is checked whole, and every fault is named by its path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from markedness import params
from markedness.params import ParamsError

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


@pytest.mark.parametrize("audit", ["personas", "homogeneity", "annotation"])
def test_load_of_an_axis_without_unmarked_value_is_a_fault(tmp_path: Path, audit: str) -> None:
    text = MODELS + f"{audit}: {{axes: {{race: {{values: {{A: {{}}, B: {{}}}}}}}}}}"
    assert f"params.yaml: {audit}.axes.race.unmarked: Field required" in faults(tmp_path, text)


def test_load_of_an_unknown_unmarked_value_names_the_values(tmp_path: Path) -> None:
    text = MODELS + "personas: {axes: {race: {unmarked: C, values: {A: {}, B: {}}}}}"
    assert "'C' is not one of the values; values: A, B" in faults(tmp_path, text)


def test_load_reports_every_fault_at_once(tmp_path: Path) -> None:
    message = faults(tmp_path, MODELS + "seed: x\nsed: 1\nrun: [other]\n")
    assert len(message.splitlines()) >= 2


def test_load_of_a_missing_file_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="no such file"):
        params.load(tmp_path / "params.yaml")


def test_shipped_pipeline_names_only_keys_of_the_shipped_params() -> None:
    root = Path(__file__).parents[1]
    content = yaml.safe_load((root / "params.yaml").read_text(encoding="utf-8"))
    used = set(re.findall(r"\$\{(?!item\.)([a-z_]+)\}", (root / "dvc.yaml").read_text(encoding="utf-8")))
    assert used == {"audits", "run", "tolerated_failures"}
    assert used <= set(content)


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
