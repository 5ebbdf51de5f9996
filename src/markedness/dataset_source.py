"""The source of a dataset that DVC versions, for `mlflow.data.get_source`.

MLflow finds it by the entry point ``dvc`` of the group ``mlflow.dataset_source`` in pyproject.toml.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Any

from mlflow.data.dataset_source import DatasetSource

from markedness.records import AuditError


class DatasetError(AuditError):
    """A dataset that cannot be loaded."""


class DVCDatasetSource(DatasetSource):  # type: ignore[misc]
    """A file or folder of a study, named by DVC's hash of its content.

    Parameters
    ----------
    path
        Relative to the study.
    md5
        DVC's hash; ends with ".dir" for a folder.
    url, rev
        A Git repository with the study, and a commit; "" if none is known.
    """

    def __init__(self, path: str, md5: str, url: str = "", rev: str = "") -> None:
        self.path, self.md5, self.url, self.rev = path, md5, url, rev

    @staticmethod
    def _get_source_type() -> str:
        return "dvc"

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return False

    @classmethod
    def _resolve(cls, raw_source: Any) -> DVCDatasetSource:
        raise NotImplementedError("made by 'markedness track' alone")

    def to_dict(self) -> dict[str, str]:
        """What `from_dict` reads."""
        return {"path": self.path, "md5": self.md5, "url": self.url, "rev": self.rev}

    @classmethod
    def from_dict(cls, source_dict: dict[str, str]) -> DVCDatasetSource:
        """The source that `to_dict` described."""
        return cls(**{key: source_dict[key] for key in ("path", "md5", "url", "rev") if key in source_dict})

    def load(self, dst_path: str | None = None) -> str:
        """Fetch exactly this version from DVC's cache or remotes: of the study in the current folder, else of ``url``.

        Returns
        -------
        str
            Path of the file or folder, in ``dst_path`` or in a new temporary folder.

        Raises
        ------
        DatasetError
            When no cache or remote has it.
        """
        folder = Path(dst_path or tempfile.mkdtemp(prefix="markedness-"))
        place = folder / PurePosixPath(self.path).name
        reasons = []
        for repository in self._repositories():
            try:
                with repository as repo:
                    _fetch(repo, self.md5, place)
                return str(place)
            except Exception as error:  # DVC's, of Git and of every kind of remote
                reasons.append(" ".join(str(error).split())[:200] or type(error).__name__)
        raise DatasetError(
            f"{self.path} (MD5 {self.md5}) cannot be loaded: {'; '.join(reasons)}; run in a clone of the study whose "
            "DVC remote has it ('dvc remote list')"
        )

    def _repositories(self) -> Iterator[AbstractContextManager[Any]]:
        from dvc.exceptions import NotDvcRepoError
        from dvc.repo import Repo
        from dvc.repo.open_repo import open_repo

        try:
            yield Repo(Repo.find_root())
        except NotDvcRepoError:
            if not self.url:
                raise DatasetError(
                    f"{self.path} (MD5 {self.md5}) cannot be loaded: this is no DVC repository and no address of the "
                    "study is known; run in a clone of the study"
                ) from None
        if self.url:
            yield open_repo(self.url, rev=self.rev or None)


def _fetch(repo: Any, md5: str, place: Path) -> None:
    """Copy the object out of the cache, after a pull of what the cache lacks."""
    from dvc_data.hashfile.hash_info import HashInfo

    cache = repo.cache.local
    wanted = _present(repo, [HashInfo("md5", md5)])[0]
    files = {(): wanted}
    if wanted.isdir:
        from dvc_data.hashfile.tree import Tree

        files = {key: entry for key, _, entry in Tree.load(cache, wanted)}
        _present(repo, list(files.values()))
    for key, entry in files.items():
        target = place.joinpath(*key)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cache.oid_to_path(entry.value), target)


def _present(repo: Any, wanted: list[Any]) -> list[Any]:
    """See that the cache has these objects, undamaged."""
    from dvc_objects.errors import ObjectFormatError

    missing = []
    for info in wanted:
        try:
            repo.cache.local.check(info.value)
        except (FileNotFoundError, ObjectFormatError):
            missing.append(info)
    if missing:
        repo.cloud.pull(missing)
        for info in missing:
            repo.cache.local.check(info.value)
    return wanted
