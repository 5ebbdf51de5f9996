"""Results and features of another git revision or DVC experiment, and the same models compared at two."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from pydantic import ValidationError

from markedness import audits
from markedness.asked import NOT_ASKED, WHO, Asked
from markedness.audits.base import AuditSpec
from markedness.compare import DIFFERENCE_COLUMNS, FAMILY, MODELS
from markedness.files import StoreError
from markedness.lm.backends import backend
from markedness.lm.progress import tell
from markedness.params import Params
from markedness.plugins import SpecError
from markedness.records import AuditError, Features, FeatureTables, Strict, Unsupported
from markedness.sizes import differences, filled, sized
from markedness.store import Store, features_of
from markedness.study import differences_of

CODE = "markedness.yaml"
"""Of a study that was made by init: a hash of the code of each stage."""
MEASURING = ("clean", "featurize")
"""Stages whose params say how features were made."""


class RevisionError(AuditError):
    """A revision that does not exist, or a study that is not under DVC."""


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
        from dvc.repo import Repo
        from dvc.scm import resolve_rev
        from scmrepo.exceptions import SCMError

        try:
            with Repo(str(self.root)) as repo:
                revision = None if self.name == "workspace" else resolve_rev(repo.scm, self.name)
                self._commit = str(revision or "")
                self._folder = self.root.resolve().relative_to(Path(repo.root_dir).resolve())
                return DVCFileSystem(repo.root_dir, rev=revision)
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
        """File of data/stimuli/<audit> -> digest of its content; empty where the study has none of its own."""
        folder = Store(Path()).stimuli_folder(audit).as_posix()
        place = (self._folder / folder).as_posix()
        try:
            paths = sorted(str(path) for path in self._files.find(place))
            return {path.removeprefix(f"{place}/"): sha256(self._files.read_bytes(path)).hexdigest() for path in paths}
        except OSError:
            return {}

    def asked(self, spec: AuditSpec, file: str, model: str) -> Asked:
        """What a model was asked, by the params file of the revision; as it stands where another version wrote it.

        RevisionError where that file cannot be read; see `section`.
        """
        audit = {**self.section(file, spec.name), "generate": self.section(file, spec.name, "generate")}
        block, _, _ = sized(spec.name, audit, self.section(file).get("size"), spec)
        kind = spec.params("generate")
        axes = {"axes": block["axes"]} if block.get("axes") and "axes" in kind.model_fields else {}
        generate = _filled(kind, {**block["generate"], **axes})
        config = self.section(file, "models", model)
        if own := self.section(file, "models", model, "generate", spec.name):
            generate = _filled(kind, filled(own, generate, kind))
        try:
            return Asked.of(spec, generate, backend(str(config.get("backend"))).config.model_validate(config))
        except (ValidationError, SpecError):
            return Asked.of(spec, generate, config)

    def digest(self, audit: str, model: str) -> str:
        """Of the files of the features, whatever the revision is called; of nothing where there are none."""
        folder, found = Store(Path()).features_path(audit, model).as_posix(), sha256()
        for name in sorted(self._list(folder)):
            found.update(sha256(self._read(f"{folder}/{name}") or b"").digest())
        return found.hexdigest()

    def _list(self, folder: str) -> list[str]:
        files = self._files
        try:
            return [Path(path).name for path in files.ls((self._folder / folder).as_posix(), detail=False)]
        except OSError:  # not in this revision
            return []

    def _read(self, path: str) -> bytes | None:
        files = self._files
        try:
            return bytes(files.read_bytes((self._folder / path).as_posix()))
        except OSError:  # not in this revision, or not in the cache
            return None


def asked_of(sides: Sequence[Revision], audit: str, file: str, model: str) -> tuple[dict[str, Asked], str]:
    """Name of a revision -> what the model was asked there; nothing, and why, where params cannot be read."""
    try:
        return {side.name: side.asked(audits.spec(audit), file, model) for side in sides}, ""
    except RevisionError as error:
        return {}, str(error)


def measured_otherwise(spec: AuditSpec, file: str, first: Revision, second: Revision) -> str:
    """Why the features of two revisions cannot be compared; "" where params, stimuli and code are read and alike."""
    try:
        return _measured_otherwise(spec, file, first, second)
    except RevisionError as error:
        return str(error)


def _measured_otherwise(spec: AuditSpec, file: str, first: Revision, second: Revision) -> str:
    between = f"differs between {first.name} and {second.name}"
    made = [
        {stage: _filled(spec.params(stage), side.section(file, spec.name, stage)) for stage in MEASURING}
        for side in (first, second)
    ]
    for stage in MEASURING:
        a, b = made[0][stage], made[1][stage]
        if key := next(chain(differences(a, b), differences(b, a)), ""):
            return f"measured otherwise: {spec.name}.{stage}.{key} {between}; make both by the same params"
    for judge in _judges(spec, made[0]["featurize"]):
        a, b = ({k: v for k, v in side.section(file, "models", judge).items() if k in WHO or k not in NOT_ASKED}
                for side in (first, second))  # fmt: skip
        if key := next(chain(differences(a, b), differences(b, a)), ""):
            return f"measured otherwise: models.{judge}.{key}, of the judge, {between}; make both by the same params"
    files, others = first.stimuli(spec.name), second.stimuli(spec.name)
    if files and others and (name := next((n for n in sorted({*files, *others}) if files.get(n) != others.get(n)), "")):
        return f"asked or measured otherwise: data/stimuli/{spec.name}/{name} {between}; make both by the same files"
    for stage in MEASURING:
        one, other = (side.section(CODE, "stages", stage).get(spec.name) for side in (first, second))
        if one and other and one != other:
            return f"measured otherwise: the code of {stage} {between} ({CODE}); make both by the same version"
    return ""


def _filled(kind: type[Strict], block: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a stage with their defaults; as they stand where another version wrote them."""
    try:
        return kind.model_validate(block).model_dump(mode="json")
    except ValidationError as error:
        unknown = {str(one["loc"][0]) for one in error.errors() if one["type"] == "extra_forbidden" and one["loc"]}
    if not unknown:
        return dict(block)
    known = {key: value for key, value in block.items() if key not in unknown}
    return _filled(kind, known) | {key: block[key] for key in unknown & block.keys()}


def _judges(spec: AuditSpec, featurize: dict[str, Any]) -> tuple[str, ...]:
    try:
        return spec.judges(spec.params("featurize").model_validate(featurize))
    except ValidationError:
        return ()


def compare(
    params: Params, first: str, second: str, to: Path | None = None, say: Callable[[str], None] = tell
) -> pd.DataFrame:
    """The same models at two git revisions or DVC experiments, printed, and written as CSV where asked.

    Features are read from DVC's cache and scored by the code and params of now. Where the cache lacks them, the
    metrics of the two revisions stand side by side without an interval.

    Raises
    ------
    StoreError
        When both names are the same, a revision holds no results of the models to run, or the two hold none of the
        same model and audit.
    """
    if first == second:
        raise StoreError(f"compare: both revisions are {first}; name two")
    sides = {name: Revision(params.root, name) for name in (first, second)}
    frames = []
    held: dict[str, set[tuple[str, str]]] = {name: set() for name in sides}
    file = params.path.name
    why_not = cache(lambda audit: measured_otherwise(audits.spec(audit), file, *sides.values()))
    for model in params.run:
        features: dict[str, dict[str, FeatureTables | Unsupported]] = {}
        asked: dict[str, dict[str, Asked]] = {}
        for audit in params.audits:
            tables = {name: side.features(audit, model) for name, side in sides.items()}
            known = {
                name: found if isinstance(found, Unsupported) else found.tables
                for name, found in tables.items()
                if found is not None
            }
            metrics = {name: side.metrics(audit, model) for name, side in sides.items()} if len(known) < 2 else {}
            for name in sides:
                if name in known or metrics[name] is not None:
                    held[name].add((audit, model))
            if len(known) == 2:
                asked[audit], unread = asked_of(list(sides.values()), audit, file, model)
                why = why_not(audit) or unread
                features[audit] = dict.fromkeys(known, Unsupported(why)) if why else known
            elif None not in metrics.values():
                frames.append(_plain(audit, model, metrics))
        frames.append(_of_model(differences_of(params, features, asked), model))
    if not (frames := [frame for frame in frames if len(frame)]):
        _refuse_nothing_held(held)
        say(f"compare: no headline score was measured in both {first} and {second}; see the notes of their results")
    table = pd.concat(frames or [pd.DataFrame(columns=["model", *DIFFERENCE_COLUMNS])], ignore_index=True)
    table = table[["model", *(column for column in table if column != "model")]]
    if frames:
        say(table_text(table))
        for note, rows in table[table["note"].ne("")].groupby("note", sort=False):
            places = dict.fromkeys(zip(rows["model"], rows["audit"], strict=True))
            say(f"compare: {', '.join(f'{model} {audit}' for model, audit in places)}: {note}")
    if to is not None:
        Store(params.root).write_csv(to, table)
        say(f"compare: {len(table)} differences in {to}")
    return table


def _of_model(differences: pd.DataFrame, model: str) -> pd.DataFrame:
    """The differences of one model, whose correction is over its scores alone."""
    pair = FAMILY.format(MODELS)  # the two revisions
    over = differences["correction"].astype(str).str.replace(pair, f"all scores of this audit of {model}", regex=False)
    return differences.assign(model=model, correction=over)


def _plain(audit: str, model: str, metrics: dict[str, dict[str, float] | None]) -> pd.DataFrame:
    """Headline metrics of two revisions, a minus b, without an interval."""
    (first, a), (second, b) = metrics.items()
    if a is None or b is None:
        return pd.DataFrame()
    keys = [key for key in audits.spec(audit).headline if key in a and key in b]
    note = "features are not in the cache: run 'dvc fetch'; whether both were asked and measured alike was not checked"
    rows = [
        {"audit": audit, "score": key, "model_a": first, "model_b": second, "a": a[key], "b": b[key],
         "difference": a[key] - b[key], "method": "none", "note": note}
        for key in keys
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS)).assign(model=model)


def table_text(table: pd.DataFrame) -> str:
    """Differences for a terminal."""
    columns = ["model", "audit", "score", "a", "b", "difference", "ci_low", "ci_high", "p_adjusted"]
    return table[columns].to_string(index=False, float_format=lambda value: f"{value:.3g}", na_rep="")


def _refuse_nothing_held(held: dict[str, set[tuple[str, str]]]) -> None:
    """Say which revision holds no results, or that two hold none of the same (audit, model)."""
    lacking = [name for name, found in held.items() if not found]
    if lacking:
        which = f"neither {' nor '.join(lacking)} holds" if len(lacking) == 2 else f"{lacking[0]} holds no"
        raise StoreError(f"{which} results of the models to run; see 'dvc exp show', or run 'dvc fetch'")
    if not set.intersection(*held.values()):
        raise StoreError(f"{' and '.join(held)} hold results of no audit and model in common; see 'dvc exp show'")
