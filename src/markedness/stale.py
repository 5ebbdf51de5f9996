"""Whether results are those of the params and data of now: DVC knows, where the params stay as they are meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from stat import S_ISREG
from typing import Any

import yaml

from markedness import reads, strict_yaml, unwatched
from markedness.audits import spec
from markedness.files import write_file
from markedness.lm.base import ModelError
from markedness.lm.config import TransformersModel
from markedness.lm.ledger import summary
from markedness.lm.weights import LocalWeights
from markedness.params import Params
from markedness.pipeline import settings
from markedness.records import AuditError
from markedness.reporting.results import Result
from markedness.store import Store
from markedness.working_tree import DVCStateError, dvc_repo, state_folder

RAN = "ran.json"
"""In .markedness: audit/model -> digests of the `inputs` and of the scores of the last `markedness run`."""
SCORES = "scores"
ANSWERS = "answers"
FEATURES = "features"
SETTINGS = "settings"
"""The stage that any edit of the params makes DVC run again, mostly to the same end."""
STALE = "modified"
"""What DVC says of a file or param that the stage did not read or write so; what is not here may be in a remote."""
_LARGE = 64 << 20


def stale(params: Params, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Which results a `dvc repro` would make anew, and what changed since.

    Parameters
    ----------
    params
        As they are now.
    known
        (audit, model) of the results.

    Returns
    -------
    dict
        (audit, model) -> the stage and what differs; nothing for results of which neither DVC nor `remember` knows, and
        nothing but other weights and other files that DVC does not watch within a stage, as DVC makes results before
        what shows them.
    """
    weights = {one: what for one in sorted(known) if (what := _other_weights(params, *one))}
    return weights | (_unwatched(params, known) if "DVC_STAGE" in os.environ else _changed_inputs(params, known))


def _unwatched(params: Params, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    return {one: what for one in sorted(known) if (what := unwatched.changed(params, *one))}


def _changed_inputs(params: Params, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    changed = {one: _changed_since_run(params, *one) for one in sorted(known)}
    try:
        by_dvc = made_by_dvc(params.root, known)
    except DamagedLockError as error:
        return {one: what or f"DVC cannot tell: {error}" for one, what in changed.items() if what != ""}
    found = {one: what for one, what in changed.items() if what and one not in by_dvc}
    of_dvc = {one for one in by_dvc if changed[one] != ""}
    return found | _by_dvc(params, of_dvc) | _unwatched(params, of_dvc)


def inputs(params: Params, audit: str, model: str) -> dict[str, str]:
    """Digests of what the results of an audit of a model hang on, by what to call it: params, data and code.

    Weights are none of the data: answers stay those of their weights where these are not here; see `_other_weights`.
    """
    part = _part(params.raw, audit, model)
    judges = spec(audit).judges(params.stage(audit, "featurize"))
    if judges:
        part = [part, {name: params.raw["models"][name] for name in judges}]
    store = Store(params.root)
    asked = [params.model(name) for name in (model, *judges)]
    weights = {params.root / one.path for one in asked if isinstance(one, TransformersModel)}
    named = [path for text in reads.texts(part) for path in reads.named(params.root, text) if path not in weights]
    data = [store.stimuli_folder(audit), store.corpora() / "own", *named]
    packages = {Path(__file__).parent, Path(str(resources.files(spec(audit).package)))}
    return {
        params.path.name: sha256(json.dumps(part, default=str).encode()).hexdigest(),
        "data": _of_files(data),
        "code": _of_files(sorted(packages)),
    }


def _other_weights(params: Params, audit: str, model: str) -> str:
    """Where a local model that answered or judged now has other weights, which DVC does not watch; "" where not."""
    judges = spec(audit).judges(params.stage(audit, "featurize"))
    asked = [(model, "", "generate"), *((judge, "judge", "featurize") for judge in judges)]
    for name, part, stage in asked:
        config = params.model(name)
        used = summary(Store(params.root).ledger_path(audit, model, part))
        if not isinstance(config, TransformersModel) or used is None or not used.served_by:
            continue
        try:
            who = LocalWeights(config, params.root).served_by
        except ModelError as error:  # those of another package
            return str(error)
        if who and who not in used.served_by:
            return (
                f"{config.path} has other weights than answered, which DVC does not watch: first run 'dvc repro "
                f"--force {stage}@{audit}-{model}'"
            )
    return ""


def remember(root: Path, audit: str, model: str, of: Mapping[str, str]) -> None:
    """Keep from which `inputs` `markedness run` made these results: DVC keeps those of its own stages alone."""
    path, scores = state_folder(root) / RAN, scores_digest(root, audit, model)
    if scores:
        content = _ran(root) | {f"{audit}/{model}": {**of, SCORES: scores, **_made(root, audit, model)}}
        write_file(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def _changed_since_run(params: Params, audit: str, model: str) -> str | None:
    """What differs since `markedness run` made the results that are there; None where it did not, "" for nothing."""
    made = _ran(params.root).get(f"{audit}/{model}")
    if not isinstance(made, dict) or made.get(SCORES) != scores_digest(params.root, audit, model):
        return None
    differ = [name for name, digest in inputs(params, audit, model).items() if made.get(name) != digest]
    if "data" not in differ and unwatched.changed(params, audit, model):  # beside params.yaml, and not named in it
        differ.append("data")
    here = _made(params.root, audit, model)
    differ += [name for name, digest in here.items() if made.get(name) not in (None, digest)]
    return f"{', '.join(differ)} since 'markedness run'" if differ else ""


def _made(root: Path, audit: str, model: str) -> dict[str, str]:
    """Digests of the answers and features that are there: a stage that is run alone leaves the results behind."""
    store = Store(root)
    places = {ANSWERS: store.ledger_path(audit, model), FEATURES: store.features_path(audit, model)}
    return {name: _of_files([place]) for name, place in places.items() if place.exists()}


def _ran(root: Path) -> dict[str, Any]:
    try:
        content = json.loads((root / ".markedness" / RAN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def scores_digest(root: Path, audit: str, model: str) -> str:
    """The digest of the results that are there; "" where there are none."""
    path = Store(root).results(audit, model) / "scores.csv"
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _of_files(places: Iterable[Path]) -> str:
    """The digest of the content of files and folders; of size and time where a file is large."""
    found = sha256()
    for place in places:
        for path in reads.files_of(place):
            about = path.stat()
            large = about.st_size > _LARGE
            content = f"{about.st_size} {about.st_mtime_ns}".encode() if large else path.read_bytes()
            found.update(f"{path.name} {sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()


def _by_dvc(params: Params, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    if not (targets := {f"evaluate@{'-'.join(one)}": one for one in sorted(known)}):
        return {}
    from dvc.exceptions import DvcException

    try:
        with dvc_repo(params.root) as repo, repo.lock:
            graph = repo.index.graph
            named = {stage.addressing.rpartition(":")[2]: stage for stage in graph}
            entries = cache(lambda stage: stage.status())  # not `repo.status`, which reads dvc.yaml for each target
            status = {name: _changes(graph, named[name], entries) for name in targets if name in named}
    except (DvcException, DVCStateError) as error:
        return dict.fromkeys(targets.values(), f"DVC cannot tell: {' '.join(str(error).split())}")
    found = {targets[name]: changed[0] for name, changed in status.items() if changed}
    return {
        one: f"{params.path.name} {one[0]}" for one in targets.values() if not _asked_as_now(params, one[0])
    } | found


def _asked_as_now(params: Params, audit: str) -> bool:
    """Whether the stage settings, which depends on all of the params, would write the same for an audit."""
    path = Store(params.root).settings() / f"{audit}.yaml"
    return audit not in params.audits or not path.is_file() or path.read_bytes() == settings(params, audit)


def older(model: str, why: str) -> str:
    """The sentence on results that are not of now."""
    return f"the results of {model} are older than params, data or code ({why}); run 'dvc repro' or 'markedness run'"


def noted(params: Params, results: dict[tuple[str, str], Result]) -> dict[tuple[str, str], str]:
    """Put `older` first among the notes of the results that are not of now, in place; the sentences, by result."""
    found = {one: older(one[1], why) for one, why in stale(params, results).items()}
    for one, sentence in found.items():
        results[one] = replace(results[one], notes=[f"Of another study: {sentence}.", *results[one].notes])
    return found


def _changes(graph: Any, target: Any, entries: Callable[[Any], Mapping[str, Collection[Any]]]) -> list[str]:
    """What differs of a stage and of those that it depends on."""
    from networkx import descendants

    said = [item for stage in {target, *descendants(graph, target)} for item in entries(stage).items()]
    found = [(stage.rpartition(":")[2], what) for stage, of_stage in said for what in _changed(of_stage)]
    return [f"{stage}: {what}" for stage, what in sorted(found) if stage != SETTINGS]


def of_unknown_params(params: Params, known: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """The results of which neither DVC nor `remember` knows from what they were made.

    None where dvc.lock is damaged.
    """
    try:
        by_dvc = made_by_dvc(params.root, known)
    except DamagedLockError:  # `stale` says so of each
        return set()
    return {one for one in known if one not in by_dvc and _changed_since_run(params, *one) is None}


class DamagedLockError(Exception):
    """dvc.lock is there, and is not what DVC writes: a merge of two branches leaves its marks in it."""


def made_by_dvc(root: Path, known: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """The results, (audit, model), that dvc.lock knows.

    Raises
    ------
    DamagedLockError
        When the file is there and cannot be read.
    """
    path = root / "dvc.lock"
    if not path.exists():
        return set()
    try:
        stages = yaml.safe_load(path.read_text(encoding="utf-8"))["stages"]
        return {one for one in known if f"evaluate@{'-'.join(one)}" in stages}
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError) as error:
        raise DamagedLockError(
            "dvc.lock cannot be read; settle what a merge has left in it, or take it back with 'git checkout dvc.lock'"
        ) from error


def _changed(entries: Collection[Any]) -> Iterator[str]:
    """What differs of one stage, from what DVC says of it."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for changes in entry.values():
            yield from differing(changes)


def differing(changes: Mapping[str, Any]) -> Iterator[str]:
    """What a dependency is otherwise than when its stage ran, from its status in DVC."""
    for name, said in changes.items():
        if isinstance(said, Mapping):
            yield from (f"{name} {key}" for key, how in said.items() if how == STALE)
        elif said == STALE:
            yield name


@contextmanager
def unedited(params: Params, audit: str = "", model: str = "") -> Iterator[None]:
    """Refuse to end a stage whose params, stimuli or texts were edited while it ran.

    DVC reads them when a stage has ended, and would name the later ones as those of what came out.

    Parameters
    ----------
    params
        As they stood when the stage began.
    audit, model
        Of the stage; "" for a stage of the whole study, which reads all of the params.

    Raises
    ------
    AuditError
        When what the stage reads differs, or can no longer be read; under `dvc repro` also where data/settings, on
        which it depends, is of other params than it would read.
    """
    path = params.path
    if audit and "DVC_STAGE" in os.environ and not _asked_as_now(params, audit):
        raise AuditError(
            f"{path.name} was edited after data/settings/{audit}.yaml was made from it; run 'dvc repro' again, and "
            "where nobody edited it 'dvc repro --force settings' first"
        )
    before = _stamps(params.root, audit)
    yield
    try:
        same = _part(strict_yaml.read(path), audit, model) == _part(params.raw, audit, model)
    except (strict_yaml.YamlFileError, OSError):
        same = False
    changed = sorted(path.relative_to(params.root) for path, *_ in before ^ _stamps(params.root, audit))
    if not same or changed:
        what = path.name if not same else changed[0].as_posix()
        raise AuditError(
            f"{what} was edited while this stage ran, and what came out is by the earlier content; run it again: "
            "answers that were paid for are in the ledger"
        )


def _stamps(root: Path, audit: str) -> set[tuple[Path, int, int]]:
    """The files of the study's own stimuli and texts that a stage of an audit may read, with size and time."""
    places = [Store(root).stimuli_folder(audit), Store(root).corpora() / "own"] if audit else []
    found = set()
    for path in (path for place in places for path in place.rglob("*")):
        with suppress(OSError):
            about = path.stat()
            if S_ISREG(about.st_mode):
                found.add((path, about.st_size, about.st_mtime_ns))
    return found


def _part(raw: Mapping[str, Any], audit: str, model: str) -> object:
    """What a stage of one audit and model reads; all, where none is named."""
    if not audit:
        return raw
    models = raw.get("models")
    own = models.get(model) if isinstance(models, Mapping) else None
    return [raw.get(key) for key in ("seed", "size", "tolerated_failures", audit)], own
