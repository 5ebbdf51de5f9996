"""MLflow gets one run per model, one child per audit and one logged model, once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from markedness import tracking
from markedness.tracking import AuditRun, DataSet, ModelRun, TrackingError, flat, public, track

SCORES = {"share.Black": 0.4, "share.Black_ci_low": 0.3, "share.Baha'is": 0.1, "other.x": 2.0, "none": float("nan")}


def model_run(root: Path, model: str = "tiny", metrics: dict[str, float] | None = None) -> ModelRun:
    folder = root / "results" / "personas" / model
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "share.csv").write_text("group,share\nBlack,0.4\n", encoding="utf-8")
    report = root / "reports" / f"{model}.html"
    report.parent.mkdir(exist_ok=True)
    report.write_text("<!doctype html>", encoding="utf-8")
    data = DataSet("personas-generations", "0" * 32, f"data/generations/personas/{model}.parquet")
    audit = AuditRun("personas", metrics or SCORES, ("share.Black",), {"personas": {"samples": 3}}, folder, [data])
    settings = {"seed": 1, "models": {model: {"backend": "openai", "base_url": "https://me:key@host.example/v1?t=1"}}}
    return ModelRun(model, settings, {"git.commit": "abc", "git.dirty": "false", "dvc.lock": "d"}, [audit], report)


@pytest.fixture(autouse=True)
def _keep_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """track sets MLflow's switches; a test leaves none behind."""
    before = dict(os.environ)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose mlflow.db exists, so that the schema is built once for the module."""
    root = tmp_path_factory.mktemp("study")
    track([model_run(root)], root, "audits")
    return root


def client(uri: str):  # type: ignore[no-untyped-def]
    import mlflow

    return mlflow.MlflowClient(tracking_uri=uri)


def runs(uri: str, query: str = "") -> list:  # type: ignore[type-arg]
    there = client(uri)
    experiment = there.get_experiment_by_name("audits")
    return list(there.search_runs([experiment.experiment_id], query))


def test_track_logs_a_parent_with_the_headline_scores_and_a_child_with_all(store: Path) -> None:
    uri = tracking.address(store)
    (parent,) = runs(uri, "tags.kind = 'model' and tags.model = 'tiny'")[-1:]
    assert parent.data.metrics == {"personas/share.Black": 0.4, "personas/share.Black_ci_low": 0.3}
    assert parent.data.params["models.tiny.base_url"] == "https://host.example/v1"
    (child,) = runs(uri, f"tags.mlflow.parentRunId = '{parent.info.run_id}'")
    # The apostrophe is no sign of an MLflow name; what is NaN is not logged.
    assert child.data.metrics == {"share.Black": 0.4, "share.Black_ci_low": 0.3, "share.Baha_is": 0.1, "other.x": 2.0}
    assert child.data.tags["model"] == "tiny"
    assert child.data.tags["git.commit"] == "abc"
    assert child.data.tags["dataset.personas-generations"] == "0" * 32
    assert child.inputs.dataset_inputs[0].dataset.digest == "0" * 32
    assert {f.path for f in client(uri).list_artifacts(child.info.run_id, "tables")} == {"tables/share.csv"}
    assert {f.path for f in client(uri).list_artifacts(parent.info.run_id, "report")} == {"report/tiny.html"}


def test_track_attaches_the_scores_to_an_external_logged_model(store: Path) -> None:
    uri = tracking.address(store)
    experiment = client(uri).get_experiment_by_name("audits")
    (model,) = client(uri).search_logged_models([experiment.experiment_id])[-1:]
    assert model.name == "tiny"
    assert {metric.key: metric.value for metric in model.metrics}["personas/share.Black"] == 0.4


def test_track_with_nothing_changed_logs_nothing_and_with_a_new_score_logs_again(store: Path, tmp_path: Path) -> None:
    before = len(runs(tracking.address(store)))
    assert track([model_run(store)], store, "audits") == []
    assert len(runs(tracking.address(store))) == before
    (store / "results" / "personas" / "tiny" / "metrics.json").write_text('{"share.Black": 0.5}', encoding="utf-8")
    assert track([model_run(store, metrics={"share.Black": 0.5})], store, "audits") == ["tiny"]
    assert len(runs(tracking.address(store))) == before + 2


def test_track_cut_short_is_marked_failed_and_logged_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = model_run(store, "cut")

    def fails(*_: object) -> str:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(tracking, "_log_model", fails)
        with pytest.raises(TrackingError):
            track([run], store, "audits")
    assert {r.info.status for r in runs(tracking.address(store), "tags.model = 'cut'")} == {"FAILED"}
    assert track([run], store, "audits") == ["cut"]


def test_track_with_a_server_that_is_down_is_one_sentence_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://user:secret@127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError) as raised:
        track([model_run(tmp_path)], tmp_path, "audits")
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert "all results are safe on disk" in str(raised.value)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """An MLflow server with a store and an artifact folder of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "server"
    home.mkdir()
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{home / 'server.db'}", "--artifacts-destination", str(home / "artifacts"),
    ]  # fmt: skip
    log = (home / "log").open("wb")
    process = subprocess.Popen(
        command,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=home,
        start_new_session=True,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(180):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=2)
                break
            except OSError:
                time.sleep(0.5)
        else:
            pytest.fail((home / "log").read_text(encoding="utf-8")[-2000:])
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)
        log.close()


def test_track_to_a_remote_server_uploads_artifacts_and_leaves_no_local_store(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"
    study.mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    assert track([model_run(study)], study, "audits") == ["tiny"]
    assert track([model_run(study)], study, "audits") == []
    (child,) = runs(server, "tags.kind = 'audit'")
    assert child.info.artifact_uri.startswith("mlflow-artifacts:/")
    copy = Path(client(server).download_artifacts(child.info.run_id, "tables/share.csv", str(tmp_path)))
    assert copy.read_text(encoding="utf-8") == "group,share\nBlack,0.4\n"
    assert list((tmp_path / "server" / "artifacts").rglob("share.csv"))
    assert not (study / "mlflow.db").exists()


def test_flat_params_are_dotted_and_lists_are_json() -> None:
    assert flat({"a": {"b": 1, "c": [1, "x"]}, "d": None}) == {"a.b": "1", "a.c": '[1, "x"]', "d": ""}


def test_public_hides_home_folders_and_credentials() -> None:
    assert public(f"{Path.home()}/models/x") == "~/models/x"
    assert public("postgresql://me:pw@db.example:5432/mlflow?sslkey=k") == "postgresql://db.example:5432/mlflow"
    assert public("a plain sentence") == "a plain sentence"
