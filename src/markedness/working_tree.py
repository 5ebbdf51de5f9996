"""The working tree that a study is in: its local state, and the main tree that experiments and worktrees share."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from markedness.files import write_file
from markedness.records import AuditError


class DVCStateError(AuditError):
    """DVC cannot write, or read, what it keeps of a repository."""


@contextmanager
def dvc_repo(folder: Path, **options: Any) -> Iterator[Any]:
    """DVC's repository of a folder, open.

    Raises
    ------
    DVCStateError
        Where a disk is full or read-only, or a file damaged.
    DvcException
        Where DVC itself says what is wrong.
    """
    from dvc.repo import Repo

    try:
        with Repo(str(folder), **options) as repo:
            yield repo
    except (OSError, sqlite3.Error) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise DVCStateError(
            f"DVC stopped on the files that it keeps ({type(error).__name__}: {reason}); make room, give it rights, or "
            "remove what is damaged, in .dvc/tmp or where 'dvc config core.site_cache_dir' says (/var/tmp/dvc)"
        ) from error


def state_folder(root: Path) -> Path:
    """.markedness/ of a working tree: what is local to this machine, ignored by Git; made where it is missing."""
    folder = root / ".markedness"
    if not (folder / ".gitignore").exists():
        write_file(folder / ".gitignore", "*\n")
    return folder


def main_tree(root: Path) -> Path:
    """The folder of this study in the main working tree.

    ``root`` itself, unless it is in a temporary workspace of a DVC experiment or in a linked Git worktree, whose main
    working tree has the same folder.
    """
    root = root.resolve()
    for tree in (root, *root.parents):
        main: Path | None = None
        if (tree / ".dvc").is_dir():
            main = _dvc_main(tree)
        if main is None and (tree / ".git").is_file():
            main = _git_main(tree)
        if main is not None and (main / root.relative_to(tree)).is_dir():
            return main_tree(main / root.relative_to(tree))
    return root


def _dvc_main(tree: Path) -> Path | None:
    """Where DVC runs an experiment in a copy: the working tree that it is a copy of."""
    if tree.parts[-4:-1] == (".dvc", "tmp", "exps"):
        return tree.parents[3]
    named = os.environ.get("DVC_ROOT")  # DVC sets it for its stages
    main = Path(named).resolve() if named else tree
    return main if main != tree and (main / ".dvc").is_dir() and "DVC_EXP_BASELINE_REV" in os.environ else None


def _git_main(tree: Path) -> Path | None:
    """The main working tree of a linked worktree."""
    pointer = (tree / ".git").read_text(encoding="utf-8", errors="replace")
    folder = (tree / pointer.removeprefix("gitdir:").strip()).resolve()
    return folder.parents[2] if folder.parts[-3:-1] == (".git", "worktrees") else None
