"""MLflow gets one run per model, one child per audit and one logged model, once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
import requests

from markedness import tracking, tracking_store
from markedness.provenance import flat, key_of, public, shown_address
from markedness.tracked import AuditRun, DataSet, ModelRun
from markedness.tracking import TrackingError, track

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

pytestmark = pytest.mark.slow

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
    return ModelRun(model, settings, {"git.commit": "abc", "git.dirty": "false"}, [audit], report)


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
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)  # of a test of another file
        patch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
        track([model_run(root)], root, "audits")
    return root


def client(uri: str) -> MlflowClient:
    import mlflow

    return mlflow.MlflowClient(tracking_uri=uri)


def in_a_process(script: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a script that may kill itself."""
    root = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    return subprocess.run([sys.executable, "-c", script, *map(str, arguments)], env=env, capture_output=True)


def runs(uri: str, query: str = "") -> list[Run]:
    there = client(uri)
    experiment = there.get_experiment_by_name("audits")
    return list(there.search_runs([experiment.experiment_id], query))


def test_track_logs_a_parent_with_the_headline_scores_and_a_child_with_all(store: Path) -> None:
    uri = tracking_store.address(store)
    (parent,) = runs(uri, "tags.kind = 'model' and tags.model = 'tiny'")[-1:]
    assert parent.data.metrics == {"personas/share.Black": 0.4, "personas/share.Black_ci_low": 0.3}
    assert parent.data.params["models.tiny.base_url"] == "https://host.example/v1"
    (child,) = runs(uri, f"tags.mlflow.parentRunId = '{parent.info.run_id}'")
    # The apostrophe (U+0027) is no sign of an MLflow name; what is NaN is not logged.
    assert child.data.metrics == {
        "share.Black": 0.4, "share.Black_ci_low": 0.3, "share.Baha:27:is": 0.1, "other.x": 2.0,
    }  # fmt: skip
    assert child.data.tags["model"] == "tiny"
    assert child.data.tags["git.commit"] == "abc"
    assert child.data.tags["dataset.personas-generations"] == "0" * 32
    assert child.inputs.dataset_inputs[0].dataset.digest == "0" * 32
    assert {f.path for f in client(uri).list_artifacts(child.info.run_id, "tables")} == {"tables/share.csv"}
    assert {f.path for f in client(uri).list_artifacts(parent.info.run_id, "report")} == {"report/tiny.html"}


def test_track_attaches_the_scores_to_an_external_logged_model(store: Path) -> None:
    uri = tracking_store.address(store)
    experiment = client(uri).get_experiment_by_name("audits")
    (model,) = client(uri).search_logged_models([experiment.experiment_id])[-1:]
    assert model.name == "tiny"
    assert {metric.key: metric.value for metric in model.metrics}["personas/share.Black"] == 0.4


def test_track_logs_what_changed_with_the_parent_and_names_the_version_by_it(store: Path) -> None:
    run = replace(model_run(store, "bigger"), name="bigger: a.samples=9", changed={"personas.generate.samples": "9"})
    assert track([run], store, "audits") == ["bigger"]
    uri = tracking_store.address(store)
    (parent,) = runs(uri, "tags.kind = 'model' and tags.model = 'bigger'")
    assert parent.data.params["personas.generate.samples"] == "9" and parent.data.params["seed"] == "1"
    experiment = client(uri).get_experiment_by_name("audits")
    (model,) = client(uri).search_logged_models([experiment.experiment_id], "tags.model = 'bigger'")
    assert model.name == "bigger a samples=9"  # MLflow takes neither colon nor full stop
    assert track([replace(run, name="bigger", changed={})], store, "audits") == []  # the same results


def test_track_logs_the_texts_that_are_asked_for_as_a_table_and_reads_nothing_back(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    run = model_run(store, "said")
    texts = pd.DataFrame({"group": ["Black", "White"], "text": ["<b>x</b>", "y"]})
    run = replace(run, audits=[replace(run.audits[0], samples=texts)])
    with monkeypatch.context() as patch:
        for read in ("list_artifacts", "download_artifacts"):  # a server would choose what comes, and how much
            patch.setattr(mlflow.MlflowClient, read, None)
        assert track([run], store, "audits") == ["said"]
    uri = tracking_store.address(store)
    (child,) = runs(uri, "tags.kind = 'audit' and tags.model = 'said'")
    assert json.loads(child.data.tags["mlflow.loggedArtifacts"]) == [{"path": "samples.json", "type": "table"}]
    (artifact,) = [f.path for f in client(uri).list_artifacts(child.info.run_id) if f.path == "samples.json"]
    place = Path(child.info.artifact_uri.removeprefix("file://")) / artifact
    assert json.loads(place.read_text(encoding="utf-8"))["data"] == texts.to_numpy().tolist()


def test_track_with_nothing_changed_logs_nothing_and_with_a_new_score_logs_again(store: Path, tmp_path: Path) -> None:
    before = len(runs(tracking_store.address(store)))
    assert track([model_run(store)], store, "audits") == []
    assert len(runs(tracking_store.address(store))) == before
    (store / "results" / "personas" / "tiny" / "metrics.json").write_text('{"share.Black": 0.5}', encoding="utf-8")
    assert track([model_run(store, metrics={"share.Black": 0.5})], store, "audits") == ["tiny"]
    assert len(runs(tracking_store.address(store))) == before + 2


@pytest.mark.parametrize("point", ["log_artifacts", "log_inputs", "log_outputs", "log_batch"])
def test_track_cut_short_leaves_no_run_running_and_logs_again(
    store: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    import mlflow

    run = model_run(store, f"cut-{point}")

    def fails(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(mlflow.MlflowClient, point, fails)
        with pytest.raises(TrackingError, match="OSError: no space left"):
            track([run], store, "audits")
    uri = tracking_store.address(store)
    assert {r.info.status for r in runs(uri, f"tags.model = 'cut-{point}'")} == {"FAILED"}
    assert track([run], store, "audits") == [f"cut-{point}"]
    experiment = client(uri).get_experiment_by_name("audits")
    models = client(uri).search_logged_models([experiment.experiment_id], f"tags.model = 'cut-{point}'")
    assert len(models) == 1  # that of the run that was cut short is gone


def test_track_after_a_kill_ends_its_runs_and_logs_each_model_once(store: Path) -> None:
    """The process ends itself before each of its requests in turn, and is not asked to clean up."""
    script = (
        "import os, signal, sys, mlflow\n"
        "from pathlib import Path\n"
        "from tests.test_tracking import model_run\n"
        "from markedness.tracking import track\n"
        "left = int(sys.argv[2])\n"
        "def counted(function):\n"
        "    def inner(*given, **named):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if left < 0:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return function(*given, **named)\n"
        "    return inner\n"
        "for name in ('create_run', 'log_batch', 'log_inputs', 'log_artifacts', 'log_artifact', 'log_outputs',\n"
        "             'set_terminated', 'set_experiment_tag'):\n"
        "    setattr(mlflow.MlflowClient, name, counted(getattr(mlflow.MlflowClient, name)))\n"
        "root = Path(sys.argv[1])\n"
        "track([model_run(root, 'killed')], root, 'audits')\n"
    )
    killed = 0
    for point in (1, 4, 8, 11, 12):
        done = in_a_process(script, store, point)
        assert done.returncode in (0, -9), done.stderr.decode()
        killed += done.returncode == -9
    assert killed >= 4
    track([model_run(store, "killed")], store, "audits")
    uri = tracking_store.address(store)
    parents = runs(uri, "tags.model = 'killed' and tags.kind = 'model'")
    assert sorted(run.info.status for run in parents).count("FINISHED") == 1
    assert not runs(uri, "attributes.status = 'RUNNING'")
    experiment = client(uri).get_experiment_by_name("audits")
    assert len(client(uri).search_logged_models([experiment.experiment_id], "tags.model = 'killed'")) == 1


def test_track_of_which_answers_are_lost_on_the_way_leaves_one_run_and_one_model(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's client asks again after a lost answer, and the server makes each run and model a second time."""
    import mlflow

    make_run, make_model = mlflow.MlflowClient.create_run, mlflow.create_external_model
    monkeypatch.setattr(mlflow.MlflowClient, "create_run", lambda *a, **k: (make_run(*a, **k), make_run(*a, **k))[1])
    monkeypatch.setattr(mlflow, "create_external_model", lambda **k: (make_model(**k), make_model(**k))[1])
    assert track([model_run(store, "lost")], store, "audits") == ["lost"]
    uri = tracking_store.address(store)
    states = sorted(run.info.status for run in runs(uri, "tags.model = 'lost'"))
    assert states == ["FINISHED", "FINISHED", "KILLED", "KILLED"]  # parent and child, each made twice
    experiment = client(uri).get_experiment_by_name("audits")
    (model,) = client(uri).search_logged_models([experiment.experiment_id], "tags.model = 'lost'")
    assert {metric.key: metric.value for metric in model.metrics}["personas/share.Black"] == 0.4


def test_track_with_names_in_any_script_and_symbols_keeps_them_apart(store: Path) -> None:
    """Two axes that differ only in signs that MLflow refuses, or in a dot, have params and metrics of their own."""
    axes = {"a/b": 1, "a:b": 2, "a.b": 3, "a": {"b": 4}, "Ñandú": 5, "عرق": 6, "種族": 7, "..": 8, "": 9, "🙂": 10}
    run = model_run(store, "names", metrics={f"share.{axis}": float(n) for n, axis in enumerate(axes)})
    audit = run.audits[0]
    audit = AuditRun("personas", audit.metrics, (), {"axes": axes, "long": {"x" * 400: 1, "x" * 401: 2}}, audit.folder)
    assert track([ModelRun("names", {}, {}, [audit])], store, "audits") == ["names"]
    (child,) = runs(tracking_store.address(store), "tags.model = 'names' and tags.kind = 'audit'")
    assert len(child.data.metrics) == len(axes)
    assert {key_of(name) for name in child.data.metrics} == {f"share.{axis}" for axis in axes}
    assert sorted(int(value) for name, value in child.data.params.items() if name.startswith("axes")) == [*range(1, 11)]
    assert child.data.params["axes.種族"] == "7"
    assert len([name for name in child.data.params if name.startswith("long.")]) == 2


def test_track_refused_by_the_store_says_what_was_refused_not_that_it_is_down(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = model_run(store, "refused")
    monkeypatch.setattr(tracking, "mlflow_name", lambda key: "?")
    with pytest.raises(TrackingError, match="refused \\(MlflowException: Invalid value"):
        track([run], store, "audits")


def test_track_to_a_deleted_experiment_says_how_to_restore_it(store: Path) -> None:
    uri = tracking_store.address(store)
    assert track([model_run(store)], store, "once") == ["tiny"]
    number = client(uri).get_experiment_by_name("once").experiment_id
    client(uri).delete_experiment(number)
    with pytest.raises(TrackingError, match=rf"'once' is deleted.*mlflow experiments restore --experiment-id {number}"):
        track([model_run(store)], store, "once")
    client(uri).restore_experiment(number)
    assert track([model_run(store)], store, "once") == []


def test_track_in_an_experiment_logs_unchanged_models_under_its_name_and_no_second_version(store: Path) -> None:
    def named(model: str, score: float, name: str) -> ModelRun:
        run = model_run(store, model, metrics={"share.Black": score})
        tables = run.audits[0].folder / "tables" / "share.csv"
        tables.write_text(f"group,share\nBlack,{score}\n", encoding="utf-8")
        return ModelRun(model, run.params, {"dvc.exp.name": name}, run.audits, name=f"{model} {name}: samples=9")

    track([named("changed", 0.1, ""), named("control", 0.2, "")], store, "audits")
    both = [named("changed", 0.3, "cold-dusk"), named("control", 0.2, "cold-dusk")]
    assert sorted(track(both, store, "audits")) == ["changed", "control"]
    assert track(both, store, "audits") == []
    # applied to the workspace and tracked again: the same results, in no experiment
    assert track([named("changed", 0.3, ""), named("control", 0.2, "")], store, "audits") == []
    uri = tracking_store.address(store)
    found = runs(uri, "tags.`dvc.exp.name` = 'cold-dusk' and tags.kind = 'model'")
    assert {run.info.run_name for run in found} == {
        "changed cold-dusk: samples=9", "control cold-dusk: samples=9",
    }  # fmt: skip
    experiment = client(uri).get_experiment_by_name("audits")
    assert len(client(uri).search_logged_models([experiment.experiment_id], "tags.model = 'control'")) == 1
    assert len(client(uri).search_logged_models([experiment.experiment_id], "tags.model = 'changed'")) == 2


def test_address_of_a_relative_sqlite_file_is_the_studys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///runs/my.db")
    assert tracking_store.address(tmp_path) == f"sqlite:///{tmp_path}/runs/my.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////elsewhere/my.db")
    assert tracking_store.address(tmp_path) == "sqlite:////elsewhere/my.db"


@pytest.mark.parametrize("name", ["what is it?", "my%20study", "Ömer's"])
def test_track_below_a_folder_that_an_address_does_not_take_is_a_sentence_and_writes_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / name / "study"
    root.mkdir(parents=True)
    run = model_run(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TrackingError, match=r"the folder of the study has a [?%'] in its path.*all results are safe"):
        track([run], root, "audits")
    assert sorted(tmp_path.rglob("*")) == before
    assert not tracking_store.unfit(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert not tracking_store.unfit(root)


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


EXPERIMENT = {"experiment": {"experiment_id": "1", "name": "audits", "lifecycle_stage": "active"}}
INFO = {
    "run_id": "r",
    "run_uuid": "r",
    "status": "FINISHED",
    "experiment_id": "1",
    "artifact_uri": "x",
    "start_time": 1,
}
ODD: dict[str, dict[str, Any]] = {
    "experiment of another type": {"experiments/get-by-name": {"experiment": 5}},
    "experiment_id of another type": {"experiments/get-by-name": {"experiment": {"experiment_id": {"a": 1}}}},
    "list": {"experiments/get-by-name": [1]},
    "runs without anything": {"runs/search": {"runs": [{"info": {}}]}},
    "foreign runs": {"runs/search": {"runs": [{"info": INFO, "data": {}}]}},
    "created run of another type": {"runs/create": {"run": "x"}},
    "created run that is none": {"runs/create": {}},
}  # fmt: skip


@contextlib.contextmanager
def answering(answers: Mapping[str, Any], status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A server that has these answers, and what was asked."""
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            place = self.path.split("?")[0].split("/mlflow/")[-1]
            asked.append(place)
            given = answers.get(place, answers.get("", {}))
            content = json.dumps(given(self.headers) if callable(given) else given).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            if status == 302:
                self.send_header("Location", "/again")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *words: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{there.server_port}", asked
        there.shutdown()


@pytest.mark.parametrize("case", ODD)
def test_track_to_a_server_that_answers_nonsense_is_one_sentence_and_touches_no_foreign_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    answers: dict[str, Any] = {"experiments/get-by-name": EXPERIMENT, **ODD[case]}
    with answering(answers) as (uri, asked):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(
            TrackingError, match=r"MLflow at .* (gave an answer that cannot be used|refused) .* are safe"
        ):
            track([model_run(tmp_path)], tmp_path, "audits")
    if not case.startswith("created"):
        assert set(asked) <= {"experiments/get-by-name", "runs/search"}


@pytest.mark.parametrize(("status", "said"), [(302, "a redirect, which is not followed"), (400, "Response")])
def test_track_to_a_server_that_answers_but_not_as_mlflow_does_not_say_that_it_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    with answering({}, status) as (uri, _):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(TrackingError, match=rf"MLflow at .* refused .*{said}.* are safe"):
            track([model_run(tmp_path)], tmp_path, "audits")


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


def test_track_with_a_password_in_the_address_prints_none_and_follows_no_redirect(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.replace("http://", "http://me:planted@"))
    assert track([model_run(tmp_path)], tmp_path, "audits") == ["tiny"]
    assert "planted" not in "".join(capfd.readouterr())
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{here.server_port}/again{self.path}")
            self.end_headers()

        do_POST = do_PUT = do_GET  # noqa: N815

    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as here:
        threading.Thread(target=here.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{here.server_port}")
        with pytest.raises(TrackingError):
            track([model_run(tmp_path)], tmp_path, "audits")
        here.shutdown()
    assert asked and not any(path.startswith("/again") for path in asked)


RUN = {"info": {**INFO, "status": "RUNNING"}, "data": {}}


@pytest.mark.parametrize(
    "place",
    [
        "file://{folder}/.ssh",
        "{folder}/.ssh",
        "{other}/steal",
        "mlflow-artifacts://{host}/x",
        "{other}\\@{own}/x",  # of two ways to read it, one has the server's own host
        "mlflow-artifacts://{host}\\@{own}/x",
        "https://{own}/x",
        "runs:/r/x",
        "models:/m-1",
    ],
)
def test_track_to_a_server_that_names_a_folder_or_another_host_for_artifacts_sends_nothing_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"
    study.mkdir()
    with answering({}) as (other, sent):

        def run(headers: Any) -> dict[str, Any]:
            named = place.format(folder=tmp_path, other=other, host=other.removeprefix("http://"), own=headers["Host"])
            return {"run": {**RUN, "info": {**RUN["info"], "artifact_uri": named}}}

        known = {"experiments/get-by-name": EXPERIMENT, "runs/create": run, "runs/get": run}
        with answering(known) as (uri, _):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("http://", "http://bob:hunter2pw@"))
            with pytest.raises(
                TrackingError, match=r"a folder of this machine or another host.*serve-artifacts.*"
            ) as raised:
                track([model_run(study)], study, "audits")
    assert sent == [] and not (tmp_path / ".ssh").exists() and "hunter2pw" not in str(raised.value)


TOLD = {"hunt/er2pw", "hunter3pw", "tok-4711", "hunter4pw", "hunter5pw"}


def test_track_never_repeats_a_password_or_token_that_the_server_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(headers: Any) -> dict[str, str]:
        return {
            "error_code": "PERMISSION_DENIED",
            "message": f"http://bob:hunt%2Fer2pw@[x/ {' '.join(TOLD)} {headers['Authorization']} no",
        }

    (tmp_path / ".mlflow").mkdir()
    (tmp_path / ".mlflow" / "credentials").write_text(
        "[mlflow]\nmlflow_tracking_username = bob\nmlflow_tracking_password = hunter4pw\n"
    )
    with answering({"": told}, 403) as (uri, _):
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login bob password hunter5pw\n")
        for variables in (
            {"MLFLOW_TRACKING_URI": uri.replace("http://", "http://bob:hunt%2Fer2pw@")},
            {"MLFLOW_TRACKING_URI": uri.replace("http://127.0.0.1", "HTTP://bob:hunt%2Fer2pw@LocalHost")},
            {"MLFLOW_TRACKING_URI": uri, "MLFLOW_TRACKING_USERNAME": "bob", "MLFLOW_TRACKING_PASSWORD": "hunter3pw"},
            {"MLFLOW_TRACKING_URI": uri, "MLFLOW_TRACKING_TOKEN": "tok-4711"},
            {"MLFLOW_TRACKING_URI": uri, "HOME": str(tmp_path)},
            {"MLFLOW_TRACKING_URI": uri, "NETRC": str(tmp_path / "netrc")},
        ):
            with monkeypatch.context() as patch:
                for name, value in variables.items():
                    patch.setenv(name, value)
                with pytest.raises(TrackingError) as raised:
                    track([model_run(tmp_path)], tmp_path, "audits")
            secrets = TOLD & set(str(raised.value).split())
            assert len(secrets) == len(TOLD) - 1 and "no" in str(raised.value).split("(")[1], raised.value
            assert "hunt%2Fer2pw" not in str(raised.value), raised.value
            assert not re.search(r"Basic (?!\[key\])|Bearer (?!\[key\])", str(raised.value)), raised.value


@pytest.mark.parametrize("password", ["hunt/er2pw", "hunt#er2pw", "hunt?er2pw", "hunt@er2pw"])
def test_address_with_a_password_that_is_not_encoded_is_shown_without_it(password: str) -> None:
    assert shown_address(f"http://bob:{password}@127.0.0.1:1/x") == "http://127.0.0.1:1/x"
    assert shown_address("sqlite:////home/me@here/mlflow.db") == "sqlite:////home/me@here/mlflow.db"


def test_track_to_a_store_whose_driver_is_not_installed_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mssql+pyodbc://bob:hunter2pw@127.0.0.1:1/db")
    with pytest.raises(
        TrackingError, match=r"No module named 'pyodbc'; all results are safe.* install the driver"
    ) as raised:
        track([model_run(tmp_path)], tmp_path, "audits")
    assert "hunter2pw" not in str(raised.value)


class Endless(BaseHTTPRequestHandler):
    """A server that never comes to an end, in the way that its class is made for."""

    way = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.way == "redirects" and "again" not in self.path:
            self.send_response(302)
            self.send_header("Location", f"{self.path}&again=1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.way == "later":
            self.send_response(429)
            self.send_header("Retry-After", "100000")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000000000000")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b" " * (1 << 20 if self.way == "flood" else 1))
                time.sleep(0 if self.way == "flood" else 0.05)

    def log_message(self, *words: object) -> None: ...


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("later", "cannot be reached"),
        ("drops", "cannot be reached"),
        ("redirects", "cannot be reached"),
        ("flood", "more than 134,217,728 bytes"),
    ],
)
def test_track_to_a_server_that_never_ends_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, said: str
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "30" if way in ("later", "flood") else "1")
    monkeypatch.setenv("MLFLOW_ALLOW_HTTP_REDIRECTS", "true")
    monkeypatch.delenv("MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER", raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Way", (Endless,), {"way": way})) as there:
        there.daemon_threads = True
        there.block_on_close = False
        threading.Thread(target=there.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{there.server_port}")
        with pytest.raises(TrackingError, match=rf"MLflow at .*{said}.* are safe on disk"):
            track([model_run(tmp_path)], tmp_path, "audits")
        if way in ("drops", "flood"):  # nor does what MLflow asks to read piece by piece
            guard = tracking_store.Guard(os.environ["MLFLOW_TRACKING_URI"])
            with (
                guard.active(),
                pytest.raises((ValueError, OSError), match=r"an answer of|no whole"),
            ):
                requests.get(os.environ["MLFLOW_TRACKING_URI"], stream=True, timeout=30)
        there.shutdown()


def test_track_killed_while_it_makes_its_store_makes_it_anew(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "import sqlalchemy\n"
        "from pathlib import Path\n"
        "from tests.test_tracking import model_run\n"
        "from markedness.tracking import track\n"
        "@sqlalchemy.event.listens_for(sqlalchemy.Engine, 'before_cursor_execute')\n"
        "def end(connection, cursor, statement, *rest):\n"
        "    if 'CREATE TABLE runs' in statement:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "root = Path(sys.argv[1])\n"
        "track([model_run(root)], root, 'audits')\n"
    )
    done = in_a_process(script, tmp_path)
    assert done.returncode == -9, done.stderr.decode()
    assert not (tmp_path / "mlflow.db").exists()
    assert track([model_run(tmp_path)], tmp_path, "audits") == ["tiny"]
    assert not list(tmp_path.glob(".mlflow.db.part*"))


def test_track_sends_tables_in_which_a_spreadsheet_executes_nothing(tmp_path: Path) -> None:
    run = model_run(tmp_path)
    (run.audits[0].folder / "tables" / "words.csv").write_text("word,z\n=1+1,-2.5\n@SUM(1),3\n", encoding="utf-8")
    track([run], tmp_path, "audits")
    (logged,) = (tmp_path / "mlartifacts").rglob("words.csv")
    assert logged.read_text(encoding="utf-8") == "word,z\n'=1+1,-2.5\n'@SUM(1),3\n"


def test_flat_params_are_dotted_and_lists_are_json() -> None:
    assert flat({"a": {"b": 1, "c": [1, "x"]}, "d": None}) == {"a.b": "1", "a.c": '[1, "x"]', "d": ""}


def test_public_hides_home_folders_and_credentials() -> None:
    assert public(f"{Path.home()}/models/x") == "~/models/x"
    assert public("postgresql://me:pw@db.example:5432/mlflow?sslkey=k") == "postgresql://db.example:5432/mlflow"
    assert public("a plain sentence") == "a plain sentence"
    assert public("http://bob:[key]@LocalHost:1/x") == "http://LocalHost:1/x"  # a host in brackets is none
    assert flat({"label": "see://[here]"}) == {"label": "see://[here]"}
