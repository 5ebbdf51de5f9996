"""The files of an earlier run, kept aside while a new one replaces them, and put back where that ends without results.

They are kept beside the study, on its own disk, until the new run has succeeded: a run that is killed, at whatever
moment, loses nothing, because the next one puts back what it finds kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from markedness.files import StoreError, refuse_link

_LIST = "kept.json"
"""Written last: without it the copies are not complete, and nothing was replaced yet."""


@contextlib.contextmanager
def earlier(folder: Path, places: Mapping[str, Path]) -> Iterator[None]:
    """Keep the files and folders at ``places`` in ``folder`` until the block has ended; put them back when it fails.

    Hold a lock: one run at a time, and put back first what is `left_over`.

    Parameters
    ----------
    folder
        Where they are kept; on the disk of the places.
    places
        Name -> file or folder, which may be missing; a place that was missing is removed when the block fails.

    Raises
    ------
    StoreError
        When they cannot be kept: before anything was replaced.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        there = {name: place for name, place in places.items() if place.exists() or place.is_symlink()}
        for name, place in there.items():
            _copy(place, folder / name)
        (folder / _LIST).write_text(json.dumps(sorted(there)), encoding="utf-8")
    except (OSError, shutil.Error) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreError(
            f"{folder}: the earlier files cannot be kept aside ({error.__class__.__name__}: {error}); free some space; "
            "nothing was changed"
        ) from error
    try:
        yield
    except BaseException:
        put_back(folder, places)
        raise
    (folder / _LIST).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def left_over(folder: Path) -> bool:
    """Whether a run that was killed left its kept files: `put_back` them before anything else."""
    return (folder / _LIST).exists()


def put_back(folder: Path, places: Mapping[str, Path]) -> None:
    """Put the kept files in their places, each by renaming; goes on where an earlier attempt was cut short.

    Raises
    ------
    StoreError
        When that is not possible: what is kept stays, and the sentence says where.
    """
    try:
        kept = set(json.loads((folder / _LIST).read_text(encoding="utf-8")))
        discarded = folder / "discarded"
        for name, place in places.items():
            if name in kept and not _there(folder / name):
                continue  # put back by an attempt that was cut short
            shutil.rmtree(discarded, ignore_errors=True)
            if _there(place):
                discarded.mkdir()
                place.rename(discarded / place.name)
            if name in kept:
                place.parent.mkdir(parents=True, exist_ok=True)
                (folder / name).rename(place)
        (folder / _LIST).unlink()
        shutil.rmtree(folder, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"the earlier files cannot be put back ({error}): they are in {folder}; the next run tries again"
        ) from error


def _there(place: Path) -> bool:
    return place.exists() or place.is_symlink()


def _copy(place: Path, copy: Path) -> None:
    """Links to the same content where the disk has them: every file is replaced whole, never written into."""
    if place.is_symlink() and not place.is_dir():  # into DVC's cache: what it leads to is left alone
        copy.symlink_to(place.readlink())
        return
    refuse_link(place)
    if place.is_dir():
        shutil.copytree(place, copy, symlinks=True, copy_function=_link)
    else:
        _link(place, copy)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
