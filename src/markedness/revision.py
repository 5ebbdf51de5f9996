"""The files of another git revision or DVC experiment, and how what it holds was made."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from hashlib import md5, sha256
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from markedness import reads
from markedness.asked import Asked
from markedness.audits.base import AuditSpec
from markedness.lm.backends import backend
from markedness.plugins import SpecError
from markedness.records import AuditError, Features, Strict, Unsupported
from markedness.sizes import filled, sized
from markedness.stale import differing
from markedness.store import READS_FILE, Store, features_of
from markedness.unwatched import place_of
from markedness.working_tree import dvc_repo

CODE = "markedness.yaml"
"""Of a study that was made by init: a hash of the code of each stage."""
OWN = (Store(Path()).corpora() / "own").as_posix()
"""Texts of one's own, of which git may have some, all or none."""
WORKSPACE = "workspace"
"""The revision that is none: the files as they are here."""
MEASURING = ("clean", "featurize")
"""Stages whose params say how features were made."""


class RevisionError(AuditError):
    """A revision that does not exist, or a study that is not under DVC."""


def _absent() -> tuple[type[Exception], ...]:
    """What DVC raises for a file that is not in a revision, or in neither the cache nor a remote that answers."""
    from dvc.exceptions import DvcException
    from dvc_data.index import DataIndexError

    return OSError, DvcException, DataIndexError


def _check_commit(scm: Any, revision: str) -> None:
    """SCMError where git knows the revision as a file or folder: DVC reads its commit without a look."""
    from scmrepo.exceptions import SCMError

    try:
        scm.resolve_commit(revision)
    except AttributeError as error:
        raise SCMError("no commit") from error


class Revision:
    """The files of one revision, read through DVC: from git, or from the cache and remotes."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self._folder = Path()
        self._commit = ""

    @cached_property
    def _files(self) -> Any:
        from dvc.api import DVCFileSystem
        from dvc.exceptions import DvcException
        from dvc.scm import resolve_rev
        from scmrepo.exceptions import SCMError

        try:
            with dvc_repo(self.root) as repo:
                revision = None if self.name == WORKSPACE else resolve_rev(repo.scm, self.name)
                if revision:
                    _check_commit(repo.scm, revision)
                self._commit = str(revision or "")
                base = repo.scm.root_dir if revision else repo.root_dir  # a study may be a folder of a repository
                self._folder = self.root.resolve().relative_to(Path(base).resolve())
                return DVCFileSystem(repo.root_dir, rev=revision, subrepos=base != repo.root_dir)
        except (DvcException, SCMError) as error:
            raise RevisionError(
                f"'{self.name}' is neither a git revision nor a DVC experiment of this study; see 'git log' and "
                "'dvc exp show'"
            ) from error

    @property
    def label(self) -> str:
        """The name with the commit that it stands for, "main (1a2b3c4)"; RevisionError where there is none."""
        _ = self._files
        short = self._commit[:7]
        return self.name if not short or self._commit.startswith(self.name) else f"{self.name} ({short})"

    def metrics(self, audit: str, model: str) -> dict[str, float] | None:
        """metrics.json; None where the revision has none."""
        content = self._read((Store(Path()).results(audit, model) / "metrics.json").as_posix())
        if content is None:
            return None
        try:
            return {key: math.nan if value is None else float(value) for key, value in json.loads(content).items()}
        except (ValueError, TypeError, AttributeError) as error:
            place = f"metrics.json of {audit} {model} at '{self.name}'"
            raise RevisionError(
                f"{place} is no mapping of names to numbers; the results of that revision are damaged"
            ) from error

    def features(self, audit: str, model: str) -> Features | Unsupported | None:
        """The features; None where the revision or the cache has none."""
        folder = Store(Path()).features_path(audit, model).as_posix()
        names = self._list(folder)
        files = {name: content for name in names if (content := self._read(f"{folder}/{name}")) is not None}
        return features_of(files, f"{self.name}: {folder}") if names and len(files) == len(names) else None

    def section(self, file: str, *path: str) -> dict[str, Any]:
        """A mapping in a YAML file, by its path; {} where a key of the path is left out or null.

        Raises
        ------
        RevisionError
            Where the file, or what stands at a key of the path, is something else, or the revision has no such params.
        """
        content = self._parsed(file)
        for depth, key in enumerate(path, start=1):
            content = {} if content.get(key) is None else content[key]
            if not isinstance(content, dict):
                place = f"{'.'.join(path[:depth])} of {file} at '{self.name}'"
                raise RevisionError(f"{place} is no mapping, so that what was made with it cannot be compared")
        return content

    def _parsed(self, file: str) -> dict[str, Any]:
        held = self._read(file)
        if held is None and file != CODE:  # which only a study that was made by init has
            raise RevisionError(f"'{self.name}' has no {file}, so that it is not known how its models were asked")
        try:
            content = yaml.safe_load(held or b"{}")
        except (yaml.YAMLError, ValueError):  # ValueError: a date that no calendar has
            content = None
        if not isinstance(content, dict):
            raise RevisionError(
                f"{file} of '{self.name}' is no mapping in YAML, so that nothing can be compared with it"
            )
        return content

    def stimuli(self, audit: str) -> dict[str, str]:
        """File of data/stimuli/<audit> -> digest of its content; empty where the study has none of its own.

        RevisionError where it has some that are not to be had.
        """
        folder = Store(Path()).stimuli_folder(audit).as_posix()
        place = (self._folder / folder).as_posix()
        try:
            paths = sorted(str(path) for path in self._files.find(place))
            return {path.removeprefix(f"{place}/"): sha256(self._files.read_bytes(path)).hexdigest() for path in paths}
        except FileNotFoundError:
            return {}
        except _absent() as error:
            raise RevisionError(f"{folder} of '{self.name}' is not to be had; run 'dvc fetch --all-commits'") from error

    def asked(self, spec: AuditSpec, file: str, model: str) -> Asked:
        """What a model was asked, by the settings that the run read and the params; see `_generate`.

        As they stand where another version wrote them.

        RevisionError where that file cannot be read; see `section`.
        """
        kind, generate = spec.params("generate"), self._generate(spec, file)
        config = self.section(file, "models", model)
        if own := self.section(file, "models", model, "generate", spec.name):
            generate = filled_as_known(kind, filled(own, generate, kind))
        try:
            return Asked.of(spec, generate, backend(str(config.get("backend"))).config.model_validate(config))
        except (ValidationError, SpecError):
            return Asked.of(spec, generate, config)

    def digest(self, audit: str, model: str) -> str:
        """Of the files of the features, whatever the revision is called; of nothing where there are none."""
        folder, found = Store(Path()).features_path(audit, model).as_posix(), sha256()
        for name in sorted({*self._list(folder)} - {READS_FILE}):
            found.update(sha256(self._read(f"{folder}/{name}") or b"").digest())
        return found.hexdigest()

    @contextmanager
    def _stages(self) -> Iterator[dict[str, Any]]:
        """The stages of the study by name, as its dvc.yaml and dvc.lock have them; they hang on this revision."""
        from dvc.repo.brancher import switch
        from dvc.stage import PipelineStage

        _ = self._files
        with dvc_repo(self.root) as repo, switch(repo, self._commit):
            file = (self.root.resolve().relative_to(Path(repo.scm.root_dir).resolve()) / "dvc.yaml").as_posix()
            named = (stage for stage in repo.index.stages if isinstance(stage, PipelineStage))
            yield {stage.name: stage for stage in named if Path(stage.path).relative_to("/").as_posix() == file}

    def older(self, spec: AuditSpec, file: str, model: str) -> str:
        """Why the features of a model are not those of what else the revision holds; "" where they are.

        Params, stimuli or code may be committed without what a run makes of them: dvc.lock has those of the run.
        """
        from dvc.exceptions import DvcException

        found = []
        try:
            with self._stages() as stages:
                for name in (f"{stage}@{spec.name}-{model}" for stage in ("generate", *MEASURING)):
                    dependencies = stages[name].deps if name in stages else ()
                    found += [f"{name}: {what}" for dep in dependencies for what in self._differing(spec, dep)]
                found = found or list(self._unwatched(spec, model))
                if not found and not self._settled_as_now(stages, spec, file):
                    found = [f"{file} {spec.name}"]
        except RevisionError as error:
            return str(error)
        except DvcException:  # a dvc.yaml or dvc.lock that DVC cannot read
            return (
                f"dvc.lock or dvc.yaml of '{self.name}' cannot be read, so that it is not known what its results are of"
            )
        if not found:
            return ""
        return (
            f"the results of {model} at '{self.name}' are older than params, data or code there ({found[0]}); commit "
            "what 'dvc repro' makes of them, dvc.lock included"
        )

    def _differing(self, spec: AuditSpec, dependency: Any) -> Iterator[str]:
        """What a dependency is otherwise than when its stage ran; of texts of one's own only where git has them all."""
        if dependency.def_path == OWN and self._in_part(OWN, dependency.meta.nfiles or 0):
            return
        yield from differing(dependency.status())
        settled = self._read(dependency.def_path) if dependency.def_path == self._settings(spec) else None
        if settled is not None and dependency.hash_info.value != md5(settled, usedforsecurity=False).hexdigest():
            yield dependency.def_path  # git does not have it

    def _unwatched(self, spec: AuditSpec, model: str) -> Iterator[str]:
        """Files that DVC does not watch and git has otherwise than they were read."""
        for stage in ("generate", "featurize"):
            for name, digest in self.read_there(spec.name, model, stage).items():
                content = self._read(name)
                if content is not None and sha256(content).hexdigest() != digest:
                    yield f"{stage}@{spec.name}-{model}: {name}"

    def read_there(self, audit: str, model: str, stage: str) -> reads.Reads:
        """What generate or featurize read where DVC does not watch; nothing where the revision does not say it."""
        place = place_of(Store(Path()), stage, audit, model)
        try:
            with self._files.open((self._folder / place).as_posix(), "rb") as file:
                return reads.of_file(file, place.name) or {}
        except _absent():  # not in this revision, or not in the cache
            return {}

    def _in_part(self, folder: str, read: int) -> bool:
        """Whether the revision lacks files of a folder of which the run read so many, and they are here beside git."""
        path, place = self.root / folder, f"{(self._folder / folder).as_posix()}/"
        try:
            there = {str(file).removeprefix(place) for file in self._files.find(place)}
        except _absent():
            there = set()
        beside = {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir()} - there
        return len(beside) >= read - len(there) > 0

    def _settings(self, spec: AuditSpec) -> str:
        """The file, made by DVC, of what an audit asks once its size has filled in what the params leave out."""
        return (Store(Path()).settings() / f"{spec.name}.yaml").as_posix()

    def _settled(self, spec: AuditSpec) -> dict[str, Any]:
        """What the settings hold; {} where they are not to be had, RevisionError where they are damaged."""
        settled = self._parsed(self._settings(spec)) if self._read(self._settings(spec)) is not None else {}
        return settled if isinstance(settled.get("generate"), dict) else {}

    def _settled_as_now(self, stages: Mapping[str, Any], spec: AuditSpec, file: str) -> bool:
        """Whether the settings are those of the params, which hold sizes, languages and judges outside of any stage."""
        edited = "settings" in stages and any(
            dep.def_path == file and any(differing(dep.status())) for dep in stages["settings"].deps
        )
        if not edited or not (settled := self._settled(spec)):
            return True
        language = self.section(file, spec.name).get("language") or "en"
        judges = {name: _config(self.section(file, "models", name)) for name in settled.get("judges") or {}}
        return (
            settled.get("language") == language
            and (settled.get("judges") or {}) == judges
            and filled_as_known(spec.params("generate"), settled["generate"]) == self._of_params(spec, file)
        )

    def _generate(self, spec: AuditSpec, file: str) -> dict[str, Any]:
        """The filled generate block as the run read it; as the params have it where that is not to be had.

        In the workspace as the params have it: `markedness run` makes no settings, and results of other params are
        older than these.
        """
        if self.name != WORKSPACE and (settled := self._settled(spec)):
            return filled_as_known(spec.params("generate"), settled["generate"])
        return self._of_params(spec, file)

    def _of_params(self, spec: AuditSpec, file: str) -> dict[str, Any]:
        """The generate block of the params, with what its size sets and the axes."""
        kind = spec.params("generate")
        audit = {**self.section(file, spec.name), "generate": self.section(file, spec.name, "generate")}
        block, _, _ = sized(spec.name, audit, self.section(file).get("size"), spec)
        axes = {"axes": block["axes"]} if block.get("axes") and "axes" in kind.model_fields else {}
        return filled_as_known(kind, {**block["generate"], **axes})

    def _list(self, folder: str) -> list[str]:
        files = self._files
        try:
            return [Path(path).name for path in files.ls((self._folder / folder).as_posix(), detail=False)]
        except _absent():  # not in this revision; or its dvc.lock cannot be read
            return []

    def _read(self, path: str) -> bytes | None:
        files = self._files
        try:
            return bytes(files.read_bytes((self._folder / path).as_posix()))
        except _absent():  # not in this revision, or not in the cache
            return None


def _config(block: Mapping[str, Any]) -> dict[str, Any]:
    """A model's block with its defaults; as it stands where another version wrote it."""
    try:
        made: dict[str, Any] = backend(str(block.get("backend"))).config.model_validate(block).model_dump(mode="json")
    except (ValidationError, SpecError):
        return dict(block)
    return made


def filled_as_known(kind: type[Strict], block: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a stage with their defaults; as they stand where another version wrote them."""
    try:
        return kind.model_validate(block).model_dump(mode="json")
    except ValidationError as error:
        unknown = {str(one["loc"][0]) for one in error.errors() if one["type"] == "extra_forbidden" and one["loc"]}
    if not unknown:
        return dict(block)
    known = {key: value for key, value in block.items() if key not in unknown}
    return filled_as_known(kind, known) | {key: block[key] for key in unknown & block.keys()}
