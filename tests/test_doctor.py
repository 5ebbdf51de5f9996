"""`markedness doctor` and `params check`: what they find, and what they ask."""

from __future__ import annotations

import shutil
from collections import namedtuple
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.servers.openai_server import Server
from typer.testing import CliRunner

from markedness import doctor
from markedness import params as params_file
from markedness.cli import app
from markedness.lm import gguf
from markedness.params import ParamsError

KEY = "sk-planted-0123456789"
PERSONAS = {"generate": {"prompts": ["imagine_yourself"], "samples": 2}}


def study(folder: Path, models: dict[str, Any], **top: Any) -> Path:
    content = {"audits": ["personas"], "run": list(models), "models": models, "personas": PERSONAS, **top}
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def lines(path: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words, "--params", str(path)])
    assert done.exception is None or isinstance(done.exception, SystemExit | ParamsError), done.exception
    return (2 if isinstance(done.exception, ParamsError) else done.exit_code), f"{done.output}{done.exception or ''}"


def toy(url: str, **more: Any) -> dict[str, Any]:
    return {"toy": {"backend": "openai", "model": "toy", "base_url": url, **more}}


def test_doctor_sound_study_sends_one_request_and_exits_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with Server() as server:
        path = study(tmp_path, toy(server.url, api_key_env="MY_KEY", top_logprobs=5))
        code, output = lines(path, "doctor", "--model", "toy")
        assert server.probes == 1 and server.connections == 1
    assert code == 0, output
    assert f"ok       models.toy: {server.url} answers in" in output and "with the key in MY_KEY" in output
    assert "token probabilities are served" in output and "15 groups, 15 prompts" in output.replace(
        "1 prompts", "15 prompts"
    )
    assert "planted" not in output and {path.name for path in tmp_path.iterdir()} == {"params.yaml"}


FAULTS = {
    "401": "HTTP 401",
    "model-not-found": "does not exist",
    "redirect": "redirects are not followed",
    "list": "no choices",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_doctor_server_that_refuses_is_a_fault_with_its_url_and_exits_2(tmp_path: Path, fault: str) -> None:
    with Server() as server:
        server.always, server.redirect_to = fault, "http://elsewhere"
        code, output = lines(study(tmp_path, toy(server.url)), "doctor")
        assert server.probes == 1
    assert code == 2 and FAULTS[fault] in output and "fault    models.toy: " in output


def test_doctor_dead_port_and_missing_key_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server() as server:
        pass
    code, output = lines(study(tmp_path, toy(server.url)), "doctor")
    assert code == 2 and f"{server.url}: connection refused" in output
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    code, output = lines(study(tmp_path, toy(server.url, api_key_env="NO_SUCH_KEY")), "doctor")
    assert code == 2 and "set the environment variable NO_SUCH_KEY" in output


@pytest.mark.parametrize(("fault", "sentence"), [("503", "HTTP 503"), ("empty-paid", "the test answer has no text")])
def test_doctor_busy_or_reasoning_server_is_a_warning_and_exits_1(tmp_path: Path, fault: str, sentence: str) -> None:
    with Server() as server:
        server.always = fault
        code, output = lines(study(tmp_path, toy(server.url)), "doctor")
    assert (code == 1 and f"warning  models.toy: {sentence}" in output) or sentence in output


def test_doctor_server_without_log_probabilities_is_a_warning(tmp_path: Path) -> None:
    with Server() as server:
        server.top_logprobs = None
        code, output = lines(study(tmp_path, toy(server.url, top_logprobs=5)), "doctor")
        assert code == 1 and "warning  models.toy.top_logprobs: the server answered without token prob" in output
        code, output = lines(study(tmp_path, toy(server.url), audits=["personas", "guise"]), "doctor")
    assert code == 1 and "guise audit is unsupported; set it (1 to 20)" in output


def test_params_check_max_cost_without_a_price_is_a_fault_with_the_line_to_add(tmp_path: Path) -> None:
    path = study(tmp_path, toy("http://127.0.0.1:9/v1", max_cost=5))
    code, output = lines(path, "params", "check")
    assert code == 2 and "models.toy.max_cost: the price of toy is unknown" in output
    assert "add 'prices: {toy: {input: ..., output: ...}}'" in output
    path = study(tmp_path, toy("http://127.0.0.1:9/v1", max_cost=5), prices={"toy": {"input": 1, "output": 2}})
    code, output = lines(path, "params", "check")
    assert code == 0 and "no faults" in output


def test_params_check_unknown_prompt_id_is_a_fault(tmp_path: Path) -> None:
    path = study(tmp_path, {"none": {"backend": "scripted"}}, personas={"generate": {"prompts": ["no_such_prompt"]}})
    code, output = lines(path, "params", "check")
    assert code == 2 and "no_such_prompt" in output


def test_params_check_reads_corpora_and_says_what_is_missing(tmp_path: Path) -> None:
    source = {"path": "texts.csv", "columns": {"text": "answer"}}
    path = study(tmp_path, {"mine": {"backend": "corpus", "personas": source}})
    code, output = lines(path, "params", "check")
    assert code == 2 and "models.mine.personas: path: no file matches 'texts.csv'" in output
    (tmp_path / "texts.csv").write_text("text,race,gender,prompt\nhello,White,woman,p\n", encoding="utf-8")
    code, output = lines(path, "params", "check")
    assert code == 2 and "has no column 'answer'" in output


def test_doctor_corpus_says_groups_and_that_texts_are_not_english(tmp_path: Path) -> None:
    german = "Ich bin eine Frau und arbeite seit vielen Jahren als Lehrerin in einer kleinen Stadt am Fluss"
    rows = "".join(f"{german},{race},woman,p\n" for race in ("White", "Black", "Black"))
    (tmp_path / "texts.csv").write_text("text,race,gender,prompt\n" + rows, encoding="utf-8")
    path = study(tmp_path, {"mine": {"backend": "corpus", "personas": {"path": "texts.csv"}}})
    code, output = lines(path, "doctor")
    assert code == 1 and "3 texts: Black woman 2, White woman 1" in output
    assert "an English dictionary knows only" in output
    (tmp_path / "texts.csv").write_text(
        "text,race,gender,prompt\n"
        + "I am a woman and have worked as a teacher in a small town for many years,White,woman,p\n" * 4,
        encoding="utf-8",
    )
    code, output = lines(path, "doctor")
    assert code == 0 and "dictionary" not in output


def test_doctor_full_disk_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = params_file.load(study(tmp_path, {"none": {"backend": "scripted"}}))
    usage = namedtuple("usage", "total used free")
    for free, level in ((10**7, "fault"), (10**9, "warning"), (10**11, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: usage(1, 1, free))
        assert doctor.disk(params).level == level


def test_doctor_says_which_package_converted_weights_are_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models" / "toy"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "source.json").write_text('{"package": "weights_a", "version": "1.0"}')
    installed = gguf.Weights("weights_a", "2.0", "a.gguf", (), None)
    monkeypatch.setattr(gguf, "find", {"weights_a": installed}.get)
    names = {"a": "weights_a", "b": "weights_b"}
    models = {key: {"backend": "transformers", "path": "models/toy", "gguf_package": n} for key, n in names.items()}
    code, output = lines(study(tmp_path, models), "doctor")
    assert code == 2 and "fault    models.b: toy holds the weights of weights_a, not of weights_b;" in output
    assert "warning  models.a: weights in models/toy are of weights_a 1.0, and 2.0 is installed;" in output


@pytest.mark.parametrize("cached", [True, False])
def test_doctor_says_whether_a_hub_model_is_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    pytest.importorskip("torch", reason="skipped: torch is not installed (pip install 'markedness[local]')")
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / commit
    if cached:
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    path = study(tmp_path, {"toy": {"backend": "transformers", "path": "org/name", "revision": commit}})
    code, output = lines(path, "doctor", "--model", "toy")
    download = "warning  models.toy: org/name is not a folder here; the first run downloads it from the hub"
    assert ("ok       models.toy: org/name is in the cache of the hub" if cached else download) in output, output
    assert cached or code == 1


FOR_DVC: dict[str, Any] = {
    "seed": 3, "tolerated_failures": 0.1, "compare": {}, "report": {}, "track": {},
    "personas": {**PERSONAS, "axes": None, "clean": {}, "featurize": {}, "evaluate": {}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("left_out", "default"),
    [
        ("tolerated_failures", "tolerated_failures: 0.0"), ("seed", "seed: 0"), ("run", "run: [m, n]"),
        ("track", "track: {}"), ("personas.clean", "clean: null"), ("personas.axes", "axes: null"),
    ],
)  # fmt: skip
def test_params_check_says_what_dvc_needs_and_params_leave_out(tmp_path: Path, left_out: str, default: str) -> None:
    models = {name: {"backend": "scripted"} for name in "mn"}
    path = study(tmp_path, models, **deepcopy(FOR_DVC))
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    block, _, key = left_out.rpartition(".")
    del (content[block] if block else content)[key]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert lines(path, "params", "check")[0] == 0  # without DVC all of them have defaults
    shutil.copyfile(Path(__file__).parents[1] / "dvc.yaml", tmp_path / "dvc.yaml")
    code, output = lines(path, "params", "check")
    said = f"params.yaml: {left_out}: is left out, and 'dvc repro' stops without it (dvc.yaml: "
    assert code == 2 and output.count("is left out") == 1 and said in output and output.strip().endswith(default)
    path.write_text(yaml.safe_dump({**content, **FOR_DVC, "run": ["m", "n"]}), encoding="utf-8")
    assert lines(path, "params", "check")[0] == 0
