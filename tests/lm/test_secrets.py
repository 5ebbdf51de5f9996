"""A planted key and a planted home reach no file, log line, ledger, report or MLflow record of a whole run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import yaml
from openai_server import Server

from markedness import params as params_file
from markedness import pipeline, study

KEY = "sk-planted-0123456789"


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
