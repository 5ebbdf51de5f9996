"""Pinned data: found by checksum, refused when it is not the pinned version, and every way out is said."""

from __future__ import annotations

import hashlib
import http.server
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from markedness import corpora

CONTENT = b"text\nhello\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A loopback server of a folder with the file and a changed version of it."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "right.csv").write_bytes(CONTENT)
    (folder / "changed.csv").write_bytes(b"text\nother\n")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()


def pin(root: Path, name: str, url: str) -> Path:
    folder = root / "data" / "corpora" / "study"
    folder.mkdir(parents=True, exist_ok=True)
    md5 = hashlib.md5(CONTENT).hexdigest()
    text = f"frozen: true\ndeps:\n- path: {url}\n  hash: md5\nouts:\n- md5: {md5}\n  size: {len(CONTENT)}\n"
    (folder / f"{name}.dvc").write_text(text + f"  hash: md5\n  path: {name}\n", encoding="utf-8")
    return folder / name


def test_get_of_a_missing_file_downloads_it_once(tmp_path: Path, server: str) -> None:
    path = pin(tmp_path, "a.csv", f"{server}/right.csv")
    said: list[str] = []
    assert corpora.get(tmp_path, say=said.append) == []
    assert path.read_bytes() == CONTENT
    assert said == ["data/corpora/study/a.csv: downloaded"]
    assert corpora.get(tmp_path, say=said.append) == []
    assert len(said) == 1


def test_get_of_a_changed_download_refuses_it_and_goes_on(tmp_path: Path, server: str) -> None:
    changed = pin(tmp_path, "a.csv", f"{server}/changed.csv")
    right = pin(tmp_path, "b.csv", f"{server}/right.csv")
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    assert "not the pinned" in str(error)
    assert not changed.exists()
    assert right.exists()


def test_get_without_the_network_names_the_file_and_two_ways_out(tmp_path: Path) -> None:
    path = pin(tmp_path, "a.csv", "http://127.0.0.1:9/a.csv")
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    for part in (str(path), "put the file there yourself", "dvc pull a.csv.dvc"):
        assert part in str(error)


def test_get_from_a_folder_recognises_copies_by_checksum(tmp_path: Path) -> None:
    path = pin(tmp_path, "a.csv", "http://127.0.0.1:9/a.csv")
    copies = tmp_path / "copies"
    copies.mkdir()
    (copies / "another name.bin").write_bytes(CONTENT)
    assert corpora.get(tmp_path, source=copies, say=lambda _: None) == []
    assert path.read_bytes() == CONTENT


def test_get_replaces_a_file_that_is_not_the_pinned_one(tmp_path: Path, server: str) -> None:
    path = pin(tmp_path, "a.csv", f"{server}/right.csv")
    path.write_bytes(b"text\nhullo\n")
    assert corpora.get(tmp_path, say=lambda _: None) == []
    assert path.read_bytes() == CONTENT


def test_pins_of_an_unknown_prefix_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(corpora.CorpusError, match="no pinned data sets"):
        corpora.pins(tmp_path, "nothing")


def test_every_shipped_pin_is_the_file_of_the_studies(shared: Path) -> None:
    root = Path(__file__).parents[1]
    files = [path for kind in ("csv", "txt") for path in (shared / "corpora").rglob(f"*.{kind}")]
    known = {hashlib.md5(path.read_bytes()).hexdigest() for path in files}
    assert {pin.md5 for pin in corpora.pins(root)} <= known


BREAKS = {
    "reset": b"",
    "half a header": b"HTTP/1.1 200 OK\r\nConte",
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\ntext\nhe",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n400\r\ntext\nhe",
    "503": b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
}
WHOLE = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + CONTENT


class BreakingServer:
    """Answers the first requests with one of `BREAKS` and a closed connection, later ones with the file."""

    def __init__(self, broken: bytes, times: int) -> None:
        self.broken, self.left, self.requests = broken, times, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/a.csv"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                self.requests += 1
                self.left -= 1
                connection.sendall(self.broken if self.left >= 0 else WHOLE)
                if self.left >= 0:  # close with RST
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.shutdown(socket.SHUT_WR) if self.broken else None


class EndlessServer(BreakingServer):
    """Answers with bytes for as long as the other side takes them."""

    def serve(self) -> None:
        connection, _ = self.socket.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            try:
                while self.left > 0:
                    connection.sendall(b"x" * 65536)
                    self.left -= 1
            except OSError:
                self.broken = b"the other side left"


def test_get_of_an_endless_download_stops_beyond_the_pinned_size_and_says_so(tmp_path: Path) -> None:
    server = EndlessServer(b"", times=16_000)  # 1 GB, unless the other side leaves
    path = pin(tmp_path, "a.csv", server.url)
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    assert "more than the pinned 11 bytes came" in str(error)
    assert not path.exists() and list(path.parent.iterdir()) == [path.with_name("a.csv.dvc")]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait between attempts."""
    monkeypatch.setattr(corpora, "WAITS", (0.0, 0.0))


@pytest.mark.parametrize("kind", BREAKS)
def test_get_after_a_download_that_broke_tries_again(tmp_path: Path, at_once: None, kind: str) -> None:
    server = BreakingServer(BREAKS[kind], times=2)
    path = pin(tmp_path, "a.csv", server.url)
    assert corpora.get(tmp_path, say=lambda _: None) == []
    assert path.read_bytes() == CONTENT
    assert server.requests == 3
    server.socket.close()


@pytest.mark.parametrize("kind", BREAKS)
def test_get_of_a_download_that_stays_broken_says_what_happened_and_goes_on(
    tmp_path: Path, at_once: None, server: str, kind: str
) -> None:
    breaking = BreakingServer(BREAKS[kind], times=99)
    broken, right = pin(tmp_path, "a.csv", breaking.url), pin(tmp_path, "b.csv", f"{server}/right.csv")
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    reason = "HTTP 503" if kind == "503" else "the connection"
    assert f"could not be downloaded from {breaking.url} ({reason}" in str(error)
    assert "tried 3 times); put the file there yourself" in str(error)
    assert not broken.exists() and right.read_bytes() == CONTENT
    assert breaking.requests == 3
    breaking.socket.close()


def test_get_of_a_file_that_is_not_there_is_asked_for_once(tmp_path: Path, at_once: None, server: str) -> None:
    pin(tmp_path, "a.csv", f"{server}/gone.csv")
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    assert "(HTTP 404); put the file there yourself" in str(error)


def test_get_of_a_file_address_is_refused_and_the_others_are_fetched(tmp_path: Path, server: str) -> None:
    (tmp_path / "here.csv").write_bytes(CONTENT)
    local, right = (
        pin(tmp_path, "a.csv", (tmp_path / "here.csv").as_uri()),
        pin(tmp_path, "b.csv", f"{server}/right.csv"),
    )
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    assert "neither an http nor an https address" in str(error)
    assert right.exists() and not local.exists()


def test_get_of_a_pin_that_dvc_add_made_says_that_it_has_no_address_and_fetches_the_others(
    tmp_path: Path, server: str
) -> None:
    own, right = pin(tmp_path, "a.csv", "http://127.0.0.1:9/a.csv"), pin(tmp_path, "b.csv", f"{server}/right.csv")
    text = own.with_suffix(".csv.dvc").read_text(encoding="utf-8")
    own.with_suffix(".csv.dvc").write_text(text[text.index("outs:") :], encoding="utf-8")
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    assert str(error).startswith(f"{own}: its pin has no address") and right.exists()
    own.write_bytes(CONTENT)
    assert corpora.get(tmp_path, say=lambda _: None) == []


@pytest.mark.parametrize("content", ["", "outs: []", "outs:\n- path: a.csv\n", "[1", "- 1"])
def test_pin_that_says_nothing_of_one_file_is_a_sentence_with_its_path(content: str, tmp_path: Path) -> None:
    path = pin(tmp_path, "a.csv", "http://127.0.0.1:9/a.csv").with_suffix(".csv.dvc")
    path.write_text(content, encoding="utf-8")
    with pytest.raises(corpora.CorpusError, match=r"a\.csv\.dvc: does not say md5 and size of one file"):
        corpora.pins(tmp_path)


def test_get_where_one_folder_cannot_be_written_fetches_the_others(tmp_path: Path, server: str) -> None:
    path = pin(tmp_path, "a.csv", f"{server}/right.csv")
    right = pin(tmp_path, "b.csv", f"{server}/right.csv")
    path.mkdir()  # a folder in the place of the file
    (error,) = corpora.get(tmp_path, say=lambda _: None)
    assert "a.csv: cannot be written" in str(error)
    assert right.read_bytes() == CONTENT


def dvc(folder: Path, *arguments: str) -> str:
    """The output of a command of DVC, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("copied", [False, True])
def test_get_in_a_dvc_project_enters_the_file_in_the_cache_so_that_another_clone_pulls_it(
    tmp_path: Path, server: str, copied: bool
) -> None:
    project, remote = tmp_path / "project", tmp_path / "remote"
    path = pin(project, "a.csv", f"{server}/right.csv")
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)
    dvc(project, "init", "--quiet")
    dvc(project, "config", "core.autostage", "true")
    dvc(project, "remote", "add", "--default", "here", str(remote))
    (project / "data" / "corpora" / "study" / ".gitignore").write_text("/a.csv\n", encoding="utf-8")
    subprocess.run(["git", "add", "."], cwd=project, check=True)
    before, listed = path.with_name("a.csv.dvc").read_bytes(), git_status(project)
    source = tmp_path / "served" if copied else None
    said: list[str] = []
    assert corpora.get(project, source=source, say=said.append) == []
    assert said == [f"data/corpora/study/a.csv: {'copied' if copied else 'downloaded'}"]
    assert path.with_name("a.csv.dvc").read_bytes() == before  # the pin stays as it is
    assert git_status(project) == listed  # nothing is left over, nothing is staged
    path.write_bytes(path.read_bytes() + b"a row of mine\n")  # no link into the cache
    dvc(project, "push")
    path.unlink()
    shutil.rmtree(project / ".dvc" / "cache")
    assert corpora.get(project, say=said.append) == []
    assert said[1:] == ["data/corpora/study/a.csv: pulled"] and path.read_bytes() == CONTENT


def git_status(project: Path) -> str:
    return subprocess.run(["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_get_where_the_dvc_project_is_broken_places_the_file_and_says_what_lacks(tmp_path: Path, server: str) -> None:
    path = pin(tmp_path, "a.csv", f"{server}/right.csv")
    dvc(tmp_path, "init", "--no-scm", "--quiet")
    (tmp_path / "dvc.yaml").write_text("stages: [no, mapping]\n", encoding="utf-8")
    said: list[str] = []
    assert corpora.get(tmp_path, say=said.append) == []
    assert path.read_bytes() == CONTENT
    assert said[0] == "data/corpora/study/a.csv: downloaded" and "not entered in DVC's cache (" in said[1]
    assert "'dvc push' does not share these files yet" in said[1] and len(said) == 2
