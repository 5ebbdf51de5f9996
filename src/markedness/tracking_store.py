"""Where MLflow keeps its runs: the address, how it is spoken to, and the study's own file, made whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

_SQLITE = "sqlite:///"
_TIMES = 10
"""A request, its second attempts included, may last so many times MLFLOW_HTTP_REQUEST_TIMEOUT."""
_LARGEST = 1 << 27
"""Bytes of an answer of the tracking server."""
_STORES = ("s3", "r2", "b2", "gs", "wasbs", "abfss", "dbfs", "hdfs", "viewfs", "runs", "models")
"""Schemes of object stores, and of what MLflow looks up before it comes to a place."""


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
    os.environ.setdefault("MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER", "false")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    # Notes on building a new store are not for our readers.
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Within it no request lasts for ever, and no answer fills the memory: MLflow bounds each read alone.

    Raises
    ------
    requests.exceptions.Timeout
        After ten times MLFLOW_HTTP_REQUEST_TIMEOUT; not on Windows, nor in a thread.
    ValueError
        Where an answer is larger than 128 MiB.
    """
    import requests

    send = requests.Session.send

    def sent(self: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        asked_whole = not options.get("stream")
        with _ended_after(_TIMES * float(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"])):
            response = send(self, request, **{**options, "stream": True})
            if asked_whole:
                content = bytearray()
                for chunk in response.iter_content(1 << 16):
                    content += chunk
                    if len(content) > _LARGEST:
                        response.close()
                        raise ValueError(f"an answer of more than {_LARGEST:,} bytes")
                response._content = bytes(content)  # what requests sets where it reads an answer itself
        return response

    requests.Session.send = sent  # type: ignore[method-assign]  # MLflow takes no session of ours
    try:
        yield
    finally:
        requests.Session.send = send  # type: ignore[method-assign]


class PlaceError(ValueError):
    """A server would have artifacts kept where nobody asked for."""


@contextlib.contextmanager
def at_its_places(uri: str) -> Iterator[None]:
    """Within it a server's answers choose no folder of this machine and no other host for artifacts.

    Raises
    ------
    PlaceError
        With the place and the remedy. An object store is taken: what is sent there has credentials of its own.
    """
    server = urlsplit(uri)
    if server.scheme not in ("http", "https"):
        yield
        return
    from mlflow.store.artifact.artifact_repository_registry import ArtifactRepositoryRegistry as Registry

    given = Registry.get_artifact_repository

    def checked(self: Registry, artifact_uri: str, *rest: Any, **more: Any) -> Any:
        place = urlsplit(str(artifact_uri))
        own = _host(place) == _host(server) or (place.scheme == "mlflow-artifacts" and not place.netloc)
        if place.scheme in _STORES or (place.scheme in ("http", "https", "mlflow-artifacts") and own):
            return given(self, artifact_uri, *rest, **more)
        raise PlaceError(
            f"it would have artifacts kept at {place.scheme or 'a folder'}:{place.netloc or place.path}, a folder of "
            "this machine or another host; let it keep them itself: mlflow server --serve-artifacts"
        )

    Registry.get_artifact_repository = checked  # every artifact goes through it
    try:
        yield
    finally:
        Registry.get_artifact_repository = given


def _host(address: SplitResult) -> tuple[str | None, int | None]:
    return address.hostname, address.port or {"http": 80, "https": 443}.get(address.scheme)


def without_credentials(text: str, uri: str) -> str:
    """The text with ``[key]`` in place of the password and token that MLflow sends, as they stand or encoded."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    users = [unquote(parts.username or ""), os.environ.get("MLFLOW_TRACKING_USERNAME", "")]
    passwords = [unquote(parts.password or ""), parts.password or "", os.environ.get("MLFLOW_TRACKING_PASSWORD", "")]
    basic = [b64encode(f"{user}:{one}".encode()).decode() for user in users for one in passwords if one]
    for secret in sorted({*passwords, *basic, os.environ.get("MLFLOW_TRACKING_TOKEN", "")}, key=len, reverse=True):
        text = text.replace(secret, "[key]") if len(secret) > 2 else text
    return text


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getitimer(signal.ITIMER_REAL)[0]:  # a redirect, which belongs to the request before
        yield
        return
    from requests.exceptions import Timeout

    def end(*_: object) -> None:
        raise Timeout(f"no whole answer in {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
