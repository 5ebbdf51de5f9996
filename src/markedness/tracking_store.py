"""Where MLflow keeps its runs: the address, how it is spoken to, and the study's own file, made whole or not at all."""

from __future__ import annotations

import logging
import os
from pathlib import Path

_SQLITE = "sqlite:///"


def address(root: Path) -> str:
    """MLFLOW_TRACKING_URI, or the SQLite file of the study; a relative SQLite file is the study's, too."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    scheme, separator, path = uri.partition(":///")
    if scheme.startswith("sqlite") and separator and not path.startswith("/"):
        return f"{scheme}:///{(root / path).resolve()}"
    return uri


def set_manners() -> None:
    """What MLflow reads from the environment; before it is imported."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # it prints the address with its password
    # A redirect would carry texts to a host that nobody named.
    os.environ.setdefault("MLFLOW_ALLOW_HTTP_REDIRECTS", "false")
    # A server that is down should say so in seconds; MLflow's own defaults wait for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    # Notes on building a new store are not for our readers.
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def make_whole(uri: str) -> None:
    """Make a SQLite file that is not there yet beside its place, and put it there when it is complete.

    MLflow makes its tables one after another, and takes no file in which a killed process has made some of them.
    """
    if not uri.startswith(_SQLITE) or "?" in uri:
        return
    path = Path(uri.removeprefix(_SQLITE))
    if path.exists():
        return
    import mlflow

    part = path.with_name(f".{path.name}.part")
    for left in (part, *path.parent.glob(f"{part.name}-*")):  # what a killed process has left
        left.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    mlflow.MlflowClient(tracking_uri=f"{_SQLITE}{part}").search_experiments(max_results=1)
    part.replace(path)
