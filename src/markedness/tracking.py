"""MLflow: one run per model and pipeline run, one child per audit, one logged model per model version.

What is logged is composed before the first request, from files that are already safely on disk, so that a server that
is down costs nothing but this stage. A parent is FINISHED only when all of it is logged: what was cut short is marked
FAILED, or KILLED by the next `track`, and logged again.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from markedness.credentials import hide
from markedness.provenance import NAME_LIMIT, flat, mlflow_name, public, short_name, shown_address
from markedness.records import AuditError
from markedness.reporting.downloads import spreadsheet_copies
from markedness.tracked import DataSet, ModelRun
from markedness.tracking_store import Guard, PlaceError, address, make_whole, set_manners, unfit

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run

FINGERPRINT = "markedness.fingerprint"
WRITER = "markedness.writer"
"""Tag of a run: which working tree logs it. One process at a time does, so that a RUNNING one of it was killed."""
EXPERIMENT = "dvc.exp.name"
"""Tag of a run: DVC's name of the experiment."""
GATE = "gate"
"""Tag of a parent run: what the gate said."""
SAMPLES = "samples.json"
"""Artifact of a child run: the texts that `track.samples` asks for."""
VIEW = "headline"
"""Name of the saved view of the runs table: add ``?viewStateShareKey=headline`` to the experiment's address."""

_PARAM_BATCH, _METRIC_BATCH = 100, 1000  # MLflow's limits for one request
_VALUE_LIMIT = 5000


class TrackingError(AuditError):
    """The tracking server cannot be reached, refused, or answered nonsense."""


class _ForeignError(ValueError):
    """A search brought what it did not ask for."""


def track(runs: Sequence[ModelRun], root: Path, experiment: str) -> list[str]:
    """Log every model whose results are not logged yet; return their names. Hold a lock: one process at a time.

    In a DVC experiment that changed the results of some models, the others are logged under its name, too.

    Raises
    ------
    TrackingError
        One sentence, when the server is down or refuses; what is on disk is not touched.
    """
    uri = address(root)
    if why := unfit(root):
        raise TrackingError(f"MLflow: {why}, then run 'markedness track'; all results are safe on disk")
    try:
        guard = Guard(uri)
    except ValueError as error:
        raise TrackingError(
            f"MLflow at {shown_address(uri)}: no address that can be read; all results are safe on disk: correct "
            "MLFLOW_TRACKING_URI (in a password, / ? # and @ are written %2F %3F %23 and %40), then run "
            "'markedness track'"
        ) from error
    set_manners()
    import mlflow
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    mlflow.set_tracking_uri(uri)
    writer = sha256(f"{socket.gethostname()}:{root.resolve()}".encode()).hexdigest()[:16]
    logged = []
    try:
        make_whole(uri)
        with guard.active():
            client = mlflow.MlflowClient(tracking_uri=uri)
            experiment_id = _experiment(client, experiment, root, uri)
            _end_killed(client, experiment_id, writer)
            for run in _unlogged(client, experiment_id, runs):
                _log(client, experiment_id, run, writer)
                logged.append(run.model)
            logged += [f"gate of {run.model}" for run in runs if run.gate and _tag_gate(client, experiment_id, run)]
            if logged:
                _end_killed(client, experiment_id, writer)  # made twice, where a server's answer was lost on the way
                _save_view(client, experiment_id, runs)
    except ImportError as error:
        raise TrackingError(
            f"MLflow at {shown_address(uri)}: {error}; all results are safe on disk: install the driver that this "
            "address needs, then run 'markedness track'"
        ) from error
    except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
        raise TrackingError(_sentence(error, uri, guard, "refused")) from error
    except AuditError:
        raise
    except Exception as error:  # MLflow reads an answer as if it could be no other
        raise TrackingError(_sentence(error, uri, guard, "gave an answer that cannot be used")) from error
    return logged


def _sentence(error: BaseException, uri: str, guard: Guard, what: str) -> str:
    """Whether the server cannot be reached, or what else it did."""
    from requests.exceptions import HTTPError, JSONDecodeError, RequestException

    shown = shown_address(uri)
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    error = next((cause for cause in causes if isinstance(cause, PlaceError)), error)
    lost = [cause for cause in causes if isinstance(cause, RequestException)]
    if lost and not isinstance(lost[0], (HTTPError, JSONDecodeError)):
        return (
            f"MLflow at {shown} cannot be reached ({type(error).__name__}); all results are safe on disk: start "
            "the server or correct MLFLOW_TRACKING_URI, then run 'markedness track'"
        )
    said = hide(guard.without_secrets(str(error).replace(uri, shown)))
    words = (public(word) for word in said.split())
    reason = "".join(sign for sign in " ".join(words) if sign.isprintable())[:300].rstrip(".")
    return (
        f"MLflow at {shown} {what} ({type(error).__name__}: {reason}); all results are safe on disk: remove the "
        "cause, then run 'markedness track'"
    )


def _experiment(client: MlflowClient, name: str, root: Path, uri: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage == "deleted":
        raise TrackingError(
            f"MLflow at {shown_address(uri)}: the experiment '{name}' is deleted; all results are safe on disk: "
            f"restore it ('mlflow experiments restore --experiment-id {found.experiment_id}') or name another in "
            "track.experiment, then run 'markedness track'"
        )
    if found is not None:
        return str(found.experiment_id)
    # Beside the store rather than in the folder the command was started from; a server has a place of its own.
    place = (root / "mlartifacts").resolve().as_uri() if uri.startswith("sqlite:") else None
    # The kind makes the user interface open on runs and models instead of traces.
    tags = {"mlflow.experimentKind": "custom_model_development"}
    return str(client.create_experiment(name, artifact_location=place, tags=tags))


def _unlogged(client: MlflowClient, experiment_id: str, runs: Sequence[ModelRun]) -> list[ModelRun]:
    """What is to be logged. Results that are new come last: while one is missing, all are looked at again."""
    new = [run for run in runs if not _is_logged(client, experiment_id, run.fingerprint)]
    others = [run for run in runs if new and run not in new and (name := run.tags.get(EXPERIMENT))
              and not _is_logged(client, experiment_id, run.fingerprint, name)]  # fmt: skip
    return [*others, *new]


def _is_logged(client: MlflowClient, experiment_id: str, fingerprint: str, name: str = "") -> bool:
    tags = {FINGERPRINT: fingerprint} | ({EXPERIMENT: name} if name else {})
    return bool(_found(client, experiment_id, "FINISHED", tags, 1))


def _found(client: MlflowClient, experiment_id: str, status: str, tags: Mapping[str, str], most: int) -> list[Run]:
    """The runs of this status with these tags, whatever else the server says that it found."""
    query = " and ".join([f"attributes.status = '{status}'", *(f"tags.`{key}` = '{tags[key]}'" for key in tags)])
    found = list(client.search_runs([experiment_id], query, max_results=most))
    for run in found:
        if run.info.status != status or any(run.data.tags.get(key) != value for key, value in tags.items()):
            raise _ForeignError("a search brought a run that it did not ask for")
    return found


def _end_killed(client: MlflowClient, experiment_id: str, writer: str) -> None:
    """Mark what a killed process of this working tree left RUNNING, and remove its logged models."""
    for run in _found(client, experiment_id, "RUNNING", {WRITER: writer}, 1000):
        _remove_models(client, experiment_id, run.info.run_id)
        client.set_terminated(run.info.run_id, "KILLED")


def _tag_gate(client: MlflowClient, experiment_id: str, run: ModelRun) -> bool:
    """What the gate said, as a tag of the parent runs of these results; whether it was not there yet."""
    query = f"tags.`{FINGERPRINT}` = '{run.fingerprint}' and tags.kind = 'model' and attributes.status = 'FINISHED'"
    found = client.search_runs([experiment_id], query, max_results=1000)
    untold = [one.info.run_id for one in found if one.data.tags.get(GATE) != run.gate[:_VALUE_LIMIT]]
    for run_id in untold:
        client.set_tag(run_id, GATE, run.gate[:_VALUE_LIMIT])
    return bool(untold)


def _remove_models(client: MlflowClient, experiment_id: str, run_id: str, but: str = "") -> None:
    for model in client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'"):
        if model.source_run_id != run_id:
            raise _ForeignError("a search brought a model of another run")
        if model.model_id != but:
            client.delete_logged_model(model.model_id)


@contextlib.contextmanager
def _opened(client: MlflowClient, experiment_id: str, name: str, tags: Mapping[str, str]) -> Iterator[str]:
    """A run that is ended whatever happens: FINISHED, or FAILED after an error."""
    tags = {mlflow_name(key): value[:_VALUE_LIMIT] for key, value in tags.items() if value}
    run_id = str(client.create_run(experiment_id, run_name=name[:NAME_LIMIT], tags=tags).info.run_id)
    try:
        yield run_id
    except BaseException as error:
        try:
            _remove_models(client, experiment_id, run_id)
            client.set_terminated(run_id, "FAILED")
        except Exception as again:  # the server is gone: the next track ends the run, and the first error is said
            error.add_note(f"run {run_id} was left RUNNING ({type(again).__name__})")
        raise
    client.set_terminated(run_id, "FINISHED")


def _log(client: MlflowClient, experiment_id: str, run: ModelRun, writer: str) -> None:
    """The parent, its children and the logged model; the parent ends last."""
    common = {**run.tags, "model": run.model, WRITER: writer}
    name = run.name or run.model
    datasets = {data.name: data for audit in run.audits for data in audit.datasets}
    tags = {**common, "kind": "model", FINGERPRINT: run.fingerprint}
    with contextlib.ExitStack() as stack:
        parent = stack.enter_context(_opened(client, experiment_id, name, tags))
        for audit in run.audits:
            tags = {**common, **audit.tags, "audit": audit.audit, "kind": "audit", "mlflow.parentRunId": parent}
            tags |= {f"dataset.{data.name}": data.digest for data in audit.datasets}
            child = stack.enter_context(_opened(client, experiment_id, f"{name} {audit.audit}", tags))
            _log_params(client, child, flat(audit.params))
            _log_metrics(client, child, {mlflow_name(key): value for key, value in audit.metrics.items()})
            _log_inputs(client, child, audit.datasets)
            if audit.folder.is_dir():
                with spreadsheet_copies(audit.folder) as folder:
                    client.log_artifacts(child, str(folder))
            if audit.samples is not None:
                _log_table(client, child, audit.samples, SAMPLES)
        scores = {
            f"{audit.audit}/{mlflow_name(key)}": value
            for audit in run.audits
            for key, value in audit.metrics.items()
            if key in {*audit.headline, *(k + end for k in audit.headline for end in ("_ci_low", "_ci_high"))}
        }
        _log_params(client, parent, {**run.changed, **flat(run.params)})
        _log_inputs(client, parent, list(datasets.values()))
        if run.report is not None and run.report.exists():
            client.log_artifact(parent, str(run.report), "report")
        model_id, is_new = _log_model(client, experiment_id, parent, run, common)
        _log_metrics(client, parent, scores, model_id if is_new else None)


def _log_table(client: MlflowClient, run_id: str, table: pd.DataFrame, name: str) -> None:
    """A table for MLflow's views. Its own log_table adds to a file of this name that the server says it has."""
    client.log_dict(run_id, table.astype(object).to_dict(orient="split", index=False), name)
    client.set_tag(run_id, "mlflow.loggedArtifacts", json.dumps([{"path": name, "type": "table"}]))


def _log_inputs(client: MlflowClient, run_id: str, datasets: Sequence[DataSet]) -> None:
    """What went into the run; `mlflow.data.get_source` of each can load it, see `markedness.dataset_source`."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    from markedness.dataset_source import DVCDatasetSource

    inputs = [
        DatasetInput(
            Dataset(data.name, data.digest, "dvc", DVCDatasetSource(data.path, data.digest, **data.origin).to_json()),
            [InputTag("mlflow.data.context", "audit")],
        )
        for data in datasets
    ]
    if inputs:
        client.log_inputs(run_id, inputs)


def _log_model(
    client: MlflowClient, experiment_id: str, parent: str, run: ModelRun, common: Mapping[str, str]
) -> tuple[str, bool]:
    """An external logged model: its weights are not MLflow's, its scores are. One per version: (id, whether new)."""
    import mlflow
    from mlflow.entities import LoggedModelOutput

    known = client.search_logged_models([experiment_id], f"tags.`{FINGERPRINT}` = '{run.fingerprint}'", max_results=1)
    if known:
        if known[0].tags.get(FINGERPRINT) != run.fingerprint:
            raise _ForeignError("a search brought a model that it did not ask for")
        client.log_outputs(parent, [LoggedModelOutput(known[0].model_id, 0)])
        return str(known[0].model_id), False
    params = {key: value for key, value in flat(run.params).items() if key.startswith(f"models.{run.model}.")}
    # In place of MLflow's own tags: the path of the running script and the name of the user.
    own = {FINGERPRINT: run.fingerprint, "mlflow.source.name": "markedness", "mlflow.user": ""}
    tags = {mlflow_name(key): value[:_VALUE_LIMIT] for key, value in {**common, **own}.items()}
    model = mlflow.create_external_model(
        name=_version(run), source_run_id=parent, tags=tags, params=_entries(params),
        model_type="language-model", experiment_id=experiment_id,
    )  # fmt: skip
    _remove_models(client, experiment_id, parent, but=model.model_id)
    client.log_outputs(parent, [LoggedModelOutput(model.model_id, 0)])
    return str(model.model_id), True


def _version(run: ModelRun) -> str:
    """The name of a model version, by what changed; MLflow takes no /:.% and quotes in it."""
    return re.sub(r"\s+", " ", re.sub("[/:.%\"']", " ", run.name or run.model)).strip() or "model"


def _entries(params: Mapping[str, str]) -> dict[str, str]:
    """Keys and values of a length that MLflow takes."""
    return {short_name(key): value[:_VALUE_LIMIT] for key, value in params.items()}


def _log_params(client: MlflowClient, run_id: str, params: Mapping[str, str]) -> None:
    """``params``: dotted key -> value, see `flat`."""
    from mlflow.entities import Param

    entries = [Param(key, value) for key, value in _entries(params).items()]
    for start in range(0, len(entries), _PARAM_BATCH):
        client.log_batch(run_id, params=entries[start : start + _PARAM_BATCH])


def _log_metrics(client: MlflowClient, run_id: str, metrics: Mapping[str, float], model_id: str | None = None) -> None:
    """All metrics in one request a thousand; what was not estimated is not logged."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    entries = [
        Metric(name, float(value), now, 0, model_id=model_id, run_id=run_id)
        for name, value in metrics.items()
        if math.isfinite(value)
    ]
    for start in range(0, len(entries), _METRIC_BATCH):
        client.log_batch(run_id, metrics=entries[start : start + _METRIC_BATCH])


def _save_view(client: MlflowClient, experiment_id: str, runs: Sequence[ModelRun]) -> None:
    """The runs table with the answer, what changed and the first score of each audit, as a shared view."""
    first = dict.fromkeys(f"{a.audit}/{mlflow_name(a.headline[0])}" for run in runs for a in run.audits if a.headline)
    columns = ["attributes.`Created`", "tags.`answer`", "tags.`changed`", *(f"metrics.`{name}`" for name in first)]
    state = {
        "searchFilter": "tags.kind = 'model'", "orderByKey": "attributes.start_time", "orderByAsc": False,
        "startTime": "ALL", "lifecycleFilter": "Active", "datasetsFilter": [], "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
    }  # fmt: skip
    client.set_experiment_tag(experiment_id, f"mlflow.sharedViewState.{VIEW}", json.dumps(state))
