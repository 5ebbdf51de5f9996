"""Published data, pinned by data/corpora/**/*.dvc: found, fetched and checked against their checksums.

A pin is a DVC import: the address with its commit, and the checksum. A file is looked for in its place, in
a folder the user names, in DVC's cache and remotes, and at its address, in this order; whatever comes from
outside is moved into place only when its checksum is the pinned one.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from markedness.files import atomic
from markedness.lm.progress import tell
from markedness.records import AuditError
from markedness.store import Store
from markedness.working_tree import DVCStateError, dvc_repo

_CHUNK = 1 << 20
_TIMEOUT = 30.0
WAITS = (1.0, 4.0)
"""Seconds before each further attempt at a download that broke."""


class CorpusError(AuditError):
    """A pinned file that cannot be fetched, or differs from its pin."""


@dataclass(frozen=True)
class Pin:
    """One pinned file."""

    path: Path
    """Where the file belongs."""
    url: str
    """"" where 'dvc add' made the pin."""
    md5: str
    size: int

    @property
    def present(self) -> bool:
        """Whether the file lies in its place with the pinned checksum."""
        return self.path.is_file() and self.path.stat().st_size == self.size and _md5(self.path) == self.md5


def pins(root: Path, prefix: str = "") -> list[Pin]:
    """The pins under data/corpora/<prefix>, by path; CorpusError when there are none."""
    folder = Store(root).corpora()
    found = []
    for file in sorted(folder.rglob("[!.]*.dvc")):
        path = file.with_suffix("")
        if not path.relative_to(folder).as_posix().startswith(prefix):
            continue
        try:
            pin = yaml.safe_load(file.read_text(encoding="utf-8"))
            (out,) = pin["outs"]
            url = str(pin["deps"][0]["path"]).strip() if pin.get("deps") else ""
            found.append(Pin(path, url, str(out["md5"]), int(out["size"])))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
            raise CorpusError(
                f"{file}: does not say md5 and size of one file; make it again with 'dvc add {path.name}', or move it "
                "out of data/corpora"
            ) from error
    if not found:
        raise CorpusError(f"{folder}/{prefix}*: no pinned data sets; see data/README.md for their names")
    return found


def get(
    root: Path, prefix: str = "", source: Path | None = None, say: Callable[[str], None] = tell
) -> list[AuditError]:
    """Put every pinned file in its place; return one error per file that could not be had.

    Parameters
    ----------
    root
        Folder of params.yaml.
    prefix
        Start of the paths below data/corpora, "" for all.
    source
        A folder with copies under any name: files are recognised by their checksum.
    say
        Told of each file that came.
    """
    missing = [pin for pin in pins(root, prefix) if not pin.present]
    if not missing:
        return []
    copies = _copies(source, {pin.size for pin in missing}) if source else {}
    pulled = _pull([pin for pin in missing if pin.md5 not in copies])
    errors: list[AuditError] = []
    for pin in missing:
        try:
            if pin.md5 in copies:
                _place(pin, (copies[pin.md5].read_bytes(),), str(copies[pin.md5]))
                say(f"{pin.path.relative_to(root)}: copied")
            elif pin.path in pulled:
                say(f"{pin.path.relative_to(root)}: pulled")
            else:
                _download(pin)
                say(f"{pin.path.relative_to(root)}: downloaded")
        except AuditError as error:  # the other files are fetched all the same
            errors.append(error)
    _cache([pin for pin in missing if pin.present and pin.path not in pulled], say)
    return errors


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _copies(source: Path, sizes: set[int]) -> dict[str, Path]:
    """Checksum -> file, of the files under ``source`` with one of the sizes."""
    if not source.is_dir():
        raise CorpusError(f"--from {source}: no such folder; name the folder that holds the copies")
    files = (path for path in source.rglob("*") if path.is_file() and path.stat().st_size in sizes)
    return {_md5(path): path for path in files}


def _projects(pins: Iterable[Pin]) -> dict[Path, list[Pin]]:
    """The pins of each DVC project; none of those that are in no project."""
    from dvc.exceptions import NotDvcRepoError
    from dvc.scm import SCMError

    found: dict[Path, list[Pin]] = {}
    for folder, here in groupby(pins, lambda pin: pin.path.parent):
        try:
            with dvc_repo(folder) as repo:
                found.setdefault(Path(repo.root_dir), []).extend(here)
        except (NotDvcRepoError, SCMError):
            continue  # a study without DVC or git: the file is downloaded and checked all the same
    return found


def _pull(missing: Iterable[Pin]) -> set[Path]:
    """What DVC's cache or remotes had; nothing where DVC is not set up here."""
    from dvc.exceptions import DvcException

    missing = list(missing)
    logging.getLogger("dvc").setLevel(logging.ERROR)  # what no remote has is said once, by us
    for project, here in _projects(missing).items():
        try:
            with dvc_repo(project) as repo:
                repo.pull(targets=[f"{pin.path}.dvc" for pin in here], allow_missing=True)
        except (DvcException, DVCStateError):
            continue  # no remote, or none that has it or can be read: the address is next
    return {pin.path for pin in missing if pin.present}


class _BrokenError(Exception):
    """A download that did not end well."""

    def __init__(self, reason: object, again: bool) -> None:
        super().__init__(" ".join(str(reason).split()) or type(reason).__name__)
        self.again = again
        """Whether another attempt may end better."""


def _download(pin: Pin) -> None:
    if not pin.url:
        raise CorpusError(
            f"{pin.path}: its pin has no address, and no DVC remote that is set up here has it; put the file there "
            f"yourself (md5 {pin.md5}), or add the remote that it was pushed to ('dvc remote add')"
        )
    for attempt in range(1, len(WAITS) + 2):
        try:
            return _place(pin, _chunks(pin.url, pin.size), pin.url)
        except _BrokenError as error:
            if error.again and attempt <= len(WAITS):
                time.sleep(WAITS[attempt - 1])
                continue
            tried = f", tried {attempt} times" if attempt > 1 else ""
            raise CorpusError(
                f"{pin.path}: could not be downloaded from {pin.url} ({error}{tried}); put the file there yourself "
                f"(md5 {pin.md5}), or pull it from a DVC remote that has it (dvc pull {pin.path.name}.dvc)"
            ) from error


def _chunks(url: str, size: int) -> Iterator[bytes]:
    """The body behind a URL, at most ``size`` bytes and one chunk; _BrokenError where it is not whole or longer.

    Where the server does not say how long it is, it has to have ``size`` bytes.
    """
    received = 0
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            if not isinstance(response, http.client.HTTPResponse):
                raise _BrokenError("it is neither an http nor an https address", False)
            expected = 0 if response.chunked else size if response.length is None else response.length
            while chunk := response.read(_CHUNK):
                received += len(chunk)
                if received > size:
                    raise _BrokenError(f"more than the pinned {size:,} bytes came, so it is another file", False)
                yield chunk
    except urllib.error.HTTPError as error:
        raise _BrokenError(f"HTTP {error.code}", error.code in (408, 429) or error.code >= 500) from error
    except urllib.error.URLError as error:  # no connection: only a reset is worth another attempt
        raise _BrokenError(error.reason, isinstance(error.reason, ConnectionResetError)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(
            f"the connection broke after {received:,} bytes: {error or type(error).__name__}", True
        ) from error
    except ValueError as error:
        raise _BrokenError(error, False) from error
    if received < expected:
        raise _BrokenError(f"the connection ended after {received:,} of {expected:,} bytes", True)


def _place(pin: Pin, chunks: Iterable[bytes], origin: str) -> None:
    """Move into place what has the pinned checksum."""
    with atomic(pin.path) as part:
        with part.open("wb") as file:
            file.writelines(chunks)
        found = _md5(part)
        if found != pin.md5:
            raise CorpusError(
                f"{pin.path}: {origin} has md5 {found}, not the pinned {pin.md5}; it has changed since the study: "
                "get the pinned version, or pin the new one on purpose"
            )


def _cache(present: Iterable[Pin], say: Callable[[str], None]) -> None:
    """Enter the files in the cache of their DVC project, so that `dvc push` there shares them.

    A copy of each is added, since the cache knows files by their checksum: `dvc commit` of a pin would ask its address
    and write its answer into the pin.
    """
    from dvc.exceptions import DvcException

    for project, here in _projects(present).items():
        try:
            with (
                TemporaryDirectory(prefix=".corpora-", dir=project) as folder,
                dvc_repo(project, config={"core": {"autostage": False}}) as repo,
            ):
                repo.add([shutil.copyfile(pin.path, str(Path(folder, pin.md5))) for pin in here])
        except (DvcException, DVCStateError) as error:  # the files are in their places all the same
            reason = " ".join(str(error).split())[:300]
            say(f"{project}: not entered in DVC's cache ({reason}), so that 'dvc push' does not share these files yet")
