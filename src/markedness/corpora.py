"""Published data, pinned by data/corpora/**/*.dvc: found, fetched and checked against their checksums.

A pin is a DVC import: the address with its commit, and the checksum. A file is looked for in its place, in
a folder the user names, in DVC's cache and remotes, and at its address, in this order; whatever comes from
outside is moved into place only when its checksum is the pinned one.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import yaml

from markedness.records import AuditError
from markedness.store import atomic

_CHUNK = 1 << 20
_TIMEOUT = 30.0


class CorpusError(AuditError):
    """A pinned file that is not to be had, or is not the pinned one."""


@dataclass(frozen=True)
class Pin:
    """One pinned file."""

    path: Path
    """Where the file belongs."""
    url: str
    md5: str
    size: int

    @property
    def present(self) -> bool:
        """Whether the file lies in its place with the pinned checksum."""
        return self.path.is_file() and self.path.stat().st_size == self.size and _md5(self.path) == self.md5


def pins(root: Path, prefix: str = "") -> list[Pin]:
    """The pins under data/corpora/<prefix>, by path; CorpusError when there are none."""
    folder = root / "data" / "corpora"
    found = []
    for file in sorted(folder.rglob("*.dvc")):
        path = file.with_suffix("")
        if not path.relative_to(folder).as_posix().startswith(prefix):
            continue
        pin = yaml.safe_load(file.read_text(encoding="utf-8"))
        out = pin["outs"][0]
        found.append(Pin(path, str(pin["deps"][0]["path"]).strip(), out["md5"], out["size"]))
    if not found:
        raise CorpusError(f"{folder}/{prefix}*: no pinned data sets; see data/README.md for their names")
    return found


def get(
    root: Path, prefix: str = "", source: Path | None = None, say: Callable[[str], None] = print
) -> list[CorpusError]:
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
    pulled = _pull(root, [pin for pin in missing if pin.md5 not in copies])
    errors = []
    for pin in missing:
        try:
            if pin.md5 in copies:
                with copies[pin.md5].open("rb") as content:
                    _place(pin, content, str(copies[pin.md5]))
                say(f"{pin.path.relative_to(root)}: copied")
            elif pin.path in pulled:
                say(f"{pin.path.relative_to(root)}: pulled")
            else:
                _download(pin)
                say(f"{pin.path.relative_to(root)}: downloaded")
        except CorpusError as error:
            errors.append(error)
    _cache(root, [pin for pin in missing if pin.present])
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


def _pull(root: Path, missing: Iterable[Pin]) -> set[Path]:
    """What DVC's cache or remotes had; nothing where DVC is not set up here."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    targets = [str(pin.path) + ".dvc" for pin in missing]
    if not targets:
        return set()
    logging.getLogger("dvc").setLevel(logging.ERROR)  # what no remote has is said once, by us
    try:
        with Repo(str(root)) as repo:
            repo.pull(targets=targets, allow_missing=True)
    except DvcException:
        pass  # no repository or no remote with it: the address is next
    return {pin.path for pin in missing if pin.present}


def _download(pin: Pin) -> None:
    try:
        with urllib.request.urlopen(pin.url, timeout=_TIMEOUT) as response:
            _place(pin, response, pin.url)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise CorpusError(
            f"{pin.path}: could not be downloaded from {pin.url} ({reason}); put the file there yourself "
            f"(md5 {pin.md5}), or pull it from a DVC remote that has it (dvc pull {pin.path.name}.dvc)"
        ) from error


def _place(pin: Pin, content: IO[bytes], origin: str) -> None:
    """Move into place what has the pinned checksum."""
    with atomic(pin.path) as part:
        with part.open("wb") as file:
            shutil.copyfileobj(content, file, _CHUNK)
        found = _md5(part)
        if found != pin.md5:
            raise CorpusError(
                f"{pin.path}: {origin} has md5 {found}, not the pinned {pin.md5}; it has changed since the study: "
                "get the pinned version, or pin the new one on purpose"
            )


def _cache(root: Path, present: Iterable[Pin]) -> None:
    """Enter the files in DVC's cache, so that `dvc push` shares them."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            for pin in present:
                repo.stage.load_one(str(pin.path) + ".dvc").outs[0].commit()
    except DvcException:
        return  # not a DVC repository: the files lie in their places all the same
