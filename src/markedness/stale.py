"""Whether results are those of the params and data of now: DVC knows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

STALE = "modified"
"""What DVC says of a file or param that the stage did not read or write so; what is not here may be in a remote."""


def stale(root: Path, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Which results a `dvc repro` would make anew, and what changed since.

    Parameters
    ----------
    root
        Folder of the study.
    known
        (audit, model) of the results.

    Returns
    -------
    dict
        (audit, model) -> the stage and what differs; nothing for results that no stage of DVC made, and nothing within
        a stage, as DVC makes results before what shows them.
    """
    if "DVC_STAGE" in os.environ:
        return {}
    ran = _stages_that_ran(root)
    targets = {name: one for one in known if (name := f"evaluate@{'-'.join(one)}") in ran}
    if not targets:
        return {}
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(root)) as repo:
            status = {name: _changes(repo, f"{root / 'dvc.yaml'}:{name}") for name in targets}
    except DvcException as error:
        return dict.fromkeys(targets.values(), f"DVC cannot tell: {' '.join(str(error).split())}")
    return {targets[name]: changed[0] for name, changed in status.items() if changed}


def older(model: str, why: str) -> str:
    """The sentence on results that are not of now."""
    return f"the results of {model} are older than params, data or code ({why}); run 'dvc repro'"


def _changes(repo: Any, target: str) -> list[str]:
    status = repo.status(targets=[target], with_deps=True)
    found = [(stage, what) for stage, entries in status.items() for what in _changed(entries)]
    return [f"{stage.rpartition(':')[2]}: {what}" for stage, what in sorted(found)]


def _stages_that_ran(root: Path) -> Collection[str]:
    try:
        lock = yaml.safe_load((root / "dvc.lock").read_text(encoding="utf-8"))
        return lock["stages"] or {}
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return {}


def _changed(entries: Collection[Any]) -> Iterator[str]:
    """What differs of one stage, from what DVC says of it."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for changes in entry.values():
            yield from _differing(changes)


def _differing(changes: Mapping[str, Any]) -> Iterator[str]:
    for name, said in changes.items():
        if isinstance(said, Mapping):
            yield from (f"{name} {key}" for key, how in said.items() if how == STALE)
        elif said == STALE:
            yield name
