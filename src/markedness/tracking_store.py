"""Where MLflow keeps its runs: the address, how it is spoken to, and the study's own file, made whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import requests

_SQLITE = "sqlite:///"
_TIMES = 10
"""A request, its second attempts included, may last so many times MLFLOW_HTTP_REQUEST_TIMEOUT."""
_LARGEST = 1 << 27
"""Bytes of an answer of the tracking server."""
_STORES = ("s3", "r2", "b2", "gs", "wasbs", "abfss", "hdfs", "viewfs")
"""Schemes of object stores."""
_SERVED = ("http", "https")
_SECRET = re.compile("auth|token|key|secret|cookie", re.IGNORECASE)
"""In the name of a header that carries one."""


def address(root: Path) -> str:
    """MLFLOW_TRACKING_URI, or the SQLite file of the study; a relative SQLite file is the study's, too."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    scheme, separator, path = uri.partition(":///")
    if scheme.startswith("sqlite") and separator and not path.startswith("/"):
        return f"{scheme}:///{(root / path).resolve()}"
    return uri


def unfit(root: Path) -> str:
    """Why MLflow cannot keep its runs in the study's own file: a sentence; "" where it can, or keeps them elsewhere.

    Of "?" and "%" in a path it makes another path, beside the study; a "'" ends a text in its SQL.
    """
    own = address(root).startswith(_SQLITE) and not os.environ.get("MLFLOW_TRACKING_URI", "").startswith("sqlite:////")
    sign = next((sign for sign in "?%'" if sign in str(root.resolve())), "")
    if not (own and sign):
        return ""
    return (
        f"the folder of the study has a {sign} in its path, which MLflow's SQLite address does not take; rename the "
        "folder, or set MLFLOW_TRACKING_URI to a server"
    )


def set_manners() -> None:
    """What MLflow reads from the environment; before it is imported."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # it prints the address with its password
    # A redirect would carry texts to a host that nobody named.
    os.environ.setdefault("MLFLOW_ALLOW_HTTP_REDIRECTS", "false")
    # A server would say where the parts of a large file go: another host.
    os.environ.setdefault("MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD", "false")
    # A server that is down should say so in seconds; MLflow's own defaults wait for minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER", "false")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    # Notes on building a new store are not for our readers.
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


class PlaceError(ValueError):
    """A server would have something sent or kept where nobody asked for."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"it would have artifacts kept at {place}, a folder of this machine or another host; let it keep them "
            "itself: mlflow server --serve-artifacts"
        )


class Guard:
    """Between MLflow and a tracking server: MLflow takes no session of ours, and believes what it is answered.

    Raises
    ------
    ValueError
        Where the address cannot be read.
    """

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._own = _origin(uri) if parts.scheme in _SERVED else None
        password = uri[: uri.rfind("@")].rpartition(":")[2] if parts.username is not None else ""
        self._secrets = {password, unquote(password)}
        self._in_store = False
        self._sending: set[int] = set()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Within it no request lasts for ever, and no answer fills memory or disk or chooses where anything goes.

        An object store is taken: what is sent there has credentials of its own.

        Raises
        ------
        PlaceError
            Where a server (http, https) would have something sent to another host, or kept in a folder of this machine.
        ValueError
            Where an answer is larger than 128 MiB.
        requests.exceptions.Timeout
            After ten times MLFLOW_HTTP_REQUEST_TIMEOUT; not on Windows, nor in a thread.
        """
        import requests
        from mlflow.store.artifact.artifact_repository_registry import ArtifactRepositoryRegistry as Registry

        send, repository = requests.Session.send, Registry.get_artifact_repository

        def sent(session: requests.Session, request: requests.PreparedRequest, **options: Any) -> requests.Response:
            return self._send(partial(send, session), request, options)

        def checked(registry: Registry, artifact_uri: str, *rest: Any, **more: Any) -> Any:
            self._check(str(artifact_uri))
            return repository(registry, artifact_uri, *rest, **more)

        requests.Session.send = sent  # type: ignore[method-assign, assignment]  # every request goes through it
        Registry.get_artifact_repository = checked  # every artifact goes through it
        try:
            yield
        finally:
            requests.Session.send = send  # type: ignore[method-assign]
            Registry.get_artifact_repository = repository

    def without_secrets(self, text: str) -> str:
        """The text with ``[key]`` in place of what the address holds and of what was sent, encoded or not."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "[key]") if len(secret) > 2 else text
        return text

    def _send(
        self, send: Callable[..., requests.Response], request: requests.PreparedRequest, options: Mapping[str, Any]
    ) -> requests.Response:
        """Send to the server alone, and read the answer whole, whatever MLflow does with it."""
        for name, value in request.headers.items():
            if _SECRET.search(name):
                self._secrets |= _forms(value)
        if threading.get_ident() in self._sending:  # a redirect that the user lets through
            return send(request, **options)
        if self._own not in (None, _origin(str(request.url))) and not self._in_store:
            raise PlaceError("{}://{}:{}".format(*_origin(str(request.url))))
        self._sending.add(threading.get_ident())
        try:
            with _ended_after(_TIMES * float(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"])):
                response = send(request, **{**options, "stream": True})
                if response.is_redirect:
                    raise ValueError("a redirect, which is not followed: name the address it leads to yourself")
                content = bytearray()
                for chunk in response.iter_content(1 << 16):
                    content += chunk
                    if len(content) > _LARGEST:
                        response.close()
                        raise ValueError(f"an answer of more than {_LARGEST:,} bytes")
                response._content = bytes(content)  # what requests sets where it reads an answer itself
                return response
        finally:
            self._sending.discard(threading.get_ident())

    def _check(self, place: str) -> None:
        """Where it is another host, `_send` says so: it sees what is really asked."""
        parts = urlsplit(place)
        self._in_store = parts.scheme in _STORES
        if self._own is not None and parts.scheme not in (*_STORES, *_SERVED, "mlflow-artifacts"):
            raise PlaceError(f"{parts.scheme}:{parts.netloc or parts.path}" if parts.scheme else parts.path)


def _origin(url: str) -> tuple[str | None, str | None, int | None]:
    """Scheme, host and port, as they are read where a request is sent."""
    from urllib3.util import parse_url

    read = parse_url(url)
    return read.scheme, read.host, read.port or {"http": 80, "https": 443}.get(read.scheme or "")


def _forms(header: str | bytes) -> set[str]:
    """The secret of a header, as it is sent, and the password in it."""
    value = header.decode("latin-1") if isinstance(header, bytes) else header
    kind, _, secret = value.rpartition(" ")
    forms = {secret}
    for encoding in ("utf-8", "latin-1") if kind.lower() == "basic" else ():
        with contextlib.suppress(ValueError):
            forms.add(b64decode(secret).decode(encoding).partition(":")[2])
    return forms


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
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
