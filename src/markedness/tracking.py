"""MLflow: one run per model and pipeline run, one child per audit, one logged model per model version.

Alone imports mlflow. What is logged is composed before the first request, from files that are already safely
on disk, so that a server that is down costs nothing but this stage.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from markedness.records import AuditError

if TYPE_CHECKING:
    from mlflow import MlflowClient

FINGERPRINT = "markedness.fingerprint"
VIEW = "headline"
"""Name of the saved view of the runs table: add ``?viewStateShareKey=headline`` to the experiment's address."""

_PARAM_BATCH, _METRIC_BATCH = 100, 1000  # MLflow's limits for one request
_VALUE_LIMIT = 5000


class TrackingError(AuditError):
    """The tracking server cannot be reached, or refused."""


@dataclass(frozen=True)
class DataSet:
    """One file that went into a run."""

    name: str
    digest: str
    """DVC's hash of it, an MD5 (".dir" after a folder's)."""
    path: str
    """Relative to the study."""


@dataclass(frozen=True)
class AuditRun:
    """One audit of one model: a child run."""

    audit: str
    metrics: Mapping[str, float]
    headline: Sequence[str]
    """Keys of ``metrics`` that stand in the runs table and on the Models page."""
    params: Mapping[str, Any]
    folder: Path
    """results/<audit>/<model>."""
    datasets: Sequence[DataSet] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelRun:
    """One model: a parent run and a logged model."""

    model: str
    params: Mapping[str, Any]
    tags: Mapping[str, str]
    audits: Sequence[AuditRun]
    report: Path | None = None
    """reports/<model>.html."""

    @property
    def fingerprint(self) -> str:
        """Hash of what was asked and of what came out; equal ones are logged once.

        The report and the commit are left out: they change without any result changing.
        """
        content = {
            "model": self.model,
            "params": flat(self.params),
            "audits": {
                audit.audit: {
                    "params": flat(audit.params),
                    "datasets": sorted((d.name, d.digest) for d in audit.datasets),
                    "results": {
                        path.relative_to(audit.folder).as_posix(): sha256(path.read_bytes()).hexdigest()
                        for path in sorted(audit.folder.rglob("*"))
                        if path.is_file()
                    },
                }
                for audit in self.audits
            },
        }
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def address(root: Path) -> str:
    """MLFLOW_TRACKING_URI, or the SQLite file of the study."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(root / 'mlflow.db').resolve()}"


def track(runs: Sequence[ModelRun], root: Path, experiment: str) -> list[str]:
    """Log every model whose results are not logged yet; return their names.

    Raises
    ------
    TrackingError
        One sentence, when the server is down or refuses; what is on disk is not touched.
    """
    uri = address(root)
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    # A server that is down should say so in seconds; MLflow's own defaults wait for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    _quiet()
    mlflow.set_tracking_uri(uri)
    logged = []
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        experiment_id = _experiment(client, experiment, root, uri)
        for run in runs:
            if not _is_logged(client, experiment_id, run.fingerprint):
                _log(client, experiment_id, run)
                logged.append(run.model)
        if logged:
            _save_view(client, experiment_id, runs)
    except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
        raise TrackingError(
            f"MLflow at {public(uri)} cannot be reached or refused ({type(error).__name__}); all results are safe on "
            "disk: start the server or mend MLFLOW_TRACKING_URI, then run 'markedness track'"
        ) from error
    return logged


def _quiet() -> None:
    """MLflow's and alembic's notes on building a new store are not for our readers."""
    import logging

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _experiment(client: MlflowClient, name: str, root: Path, uri: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    # Beside the store rather than in the folder the command was started from; a server has a place of its own.
    place = (root / "mlartifacts").resolve().as_uri() if uri.startswith("sqlite:") else None
    # The kind makes the user interface open on runs and models instead of traces.
    tags = {"mlflow.experimentKind": "custom_model_development"}
    return str(client.create_experiment(name, artifact_location=place, tags=tags))


def _is_logged(client: MlflowClient, experiment_id: str, fingerprint: str) -> bool:
    query = f"tags.`{FINGERPRINT}` = '{fingerprint}' and attributes.status = 'FINISHED'"
    return bool(client.search_runs([experiment_id], query, max_results=1))


def _log(client: MlflowClient, experiment_id: str, run: ModelRun) -> None:
    """The parent, its children and the logged model; FAILED when it is cut short, so that the next try starts anew."""
    common = {"model": run.model, **run.tags}
    parent = client.create_run(
        experiment_id, run_name=run.model, tags={**common, "kind": "model", FINGERPRINT: run.fingerprint}
    )
    opened = [parent.info.run_id]
    status = "FAILED"
    try:
        for audit in run.audits:
            opened.append(_log_audit(client, experiment_id, parent.info.run_id, audit, common))
        scores = {
            f"{audit.audit}/{key}": value
            for audit in run.audits
            for key, value in audit.metrics.items()
            if key in {*audit.headline, *(k + end for k in audit.headline for end in ("_ci_low", "_ci_high"))}
        }
        model_id = _log_model(client, experiment_id, parent.info.run_id, run, common)
        _log_params(client, parent.info.run_id, run.params)
        _log_metrics(client, parent.info.run_id, scores, model_id)
        if run.report is not None and run.report.exists():
            client.log_artifact(parent.info.run_id, str(run.report), "report")
        status = "FINISHED"
    finally:
        for run_id in reversed(opened):
            client.set_terminated(run_id, status)


def _log_audit(
    client: MlflowClient, experiment_id: str, parent: str, audit: AuditRun, common: Mapping[str, str]
) -> str:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    tags = {**common, **audit.tags, "audit": audit.audit, "kind": "audit", "mlflow.parentRunId": parent}
    for data in audit.datasets:
        tags[f"dataset.{data.name}"] = data.digest
    child = client.create_run(experiment_id, run_name=f"{common['model']} {audit.audit}", tags=tags).info.run_id
    _log_params(client, child, audit.params)
    _log_metrics(client, child, audit.metrics)
    inputs = [
        DatasetInput(
            Dataset(d.name, d.digest, "dvc", json.dumps({"path": d.path, "md5": d.digest})),
            [InputTag("mlflow.data.context", "audit")],
        )
        for d in audit.datasets
    ]
    if inputs:
        client.log_inputs(child, inputs)
    if audit.folder.is_dir():
        client.log_artifacts(child, str(audit.folder))
    return str(child)


def _log_model(client: MlflowClient, experiment_id: str, parent: str, run: ModelRun, common: Mapping[str, str]) -> str:
    """An external logged model: its weights are not MLflow's, its scores are."""
    import mlflow
    from mlflow.entities import LoggedModelOutput

    params = {key: value for key, value in flat(run.params).items() if key.startswith(f"models.{run.model}.")}
    # In place of MLflow's own tags: the path of the running script and the name of the user.
    tags = {**common, FINGERPRINT: run.fingerprint, "mlflow.source.name": "markedness", "mlflow.user": ""}
    model = mlflow.create_external_model(
        name=run.model, source_run_id=parent, tags=tags, params=params,
        model_type="language-model", experiment_id=experiment_id,
    )  # fmt: skip
    client.log_outputs(parent, [LoggedModelOutput(model.model_id, 0)])
    return str(model.model_id)


def _log_params(client: MlflowClient, run_id: str, params: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    entries = [Param(_name(key)[:250], value[:_VALUE_LIMIT]) for key, value in flat(params).items()]
    for start in range(0, len(entries), _PARAM_BATCH):
        client.log_batch(run_id, params=entries[start : start + _PARAM_BATCH])


def _log_metrics(client: MlflowClient, run_id: str, metrics: Mapping[str, float], model_id: str | None = None) -> None:
    """All metrics in one request a thousand; what was not estimated is not logged."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    names: dict[str, float] = {}
    for key, value in metrics.items():
        if not math.isfinite(value):
            continue
        name = _name(key)
        while name in names:  # two groups whose names differ only in signs MLflow does not take
            name += "_"
        names[name] = float(value)
    entries = [Metric(name, value, now, 0, model_id=model_id, run_id=run_id) for name, value in names.items()]
    for start in range(0, len(entries), _METRIC_BATCH):
        client.log_batch(run_id, metrics=entries[start : start + _METRIC_BATCH])


def _save_view(client: MlflowClient, experiment_id: str, runs: Sequence[ModelRun]) -> None:
    """The runs table with the headline scores as columns, as a shared view of the user interface."""
    headline = list(dict.fromkeys(_name(f"{a.audit}/{key}") for run in runs for a in run.audits for key in a.headline))
    columns = ["attributes.`Created`", "attributes.`Dataset`", *(f"metrics.`{name}`" for name in headline)]
    state = {
        "searchFilter": "tags.kind = 'model'", "orderByKey": "attributes.start_time", "orderByAsc": False,
        "startTime": "ALL", "lifecycleFilter": "Active", "datasetsFilter": [], "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
    }  # fmt: skip
    client.set_experiment_tag(experiment_id, f"mlflow.sharedViewState.{VIEW}", json.dumps(state))


# ---------------------------------------------------------------- plain data


def flat(params: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested params as dotted keys and public texts; lists as JSON."""
    return dict(_leaves(params, prefix))


def _leaves(content: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(content, list | tuple):
        yield prefix, public(json.dumps(content, ensure_ascii=False, default=str))
    else:
        yield prefix, public("" if content is None else str(content))


def public(text: str) -> str:
    """A text without the home folder and without what an address carries in front of its host or behind its path."""
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|$|\")", "~", text)
    if "://" not in text or any(sign.isspace() for sign in text):
        return text
    parts = urlsplit(text)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", "")) if host else text


def _name(key: str) -> str:
    """A key with only the signs that MLflow takes in names."""
    return re.sub(r"[^\w\-. /:]", "_", key, flags=re.ASCII)
