"""What ran: the commit, the DVC experiment, the params and what changed in them, and the hashes of files."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from markedness.credentials import hide
from markedness.reporting.results import git
from markedness.working_tree import dvc_repo, main_tree

NAME_LIMIT = 250
"""Letters of a name in MLflow."""
_WRITTEN_BY_DVC = {"dvc.lock", ".gitignore"}
_PATHS_NAMED = 20
_CHANGES_NAMED = 3
_IRRELEVANT = {"run", "audits", "prices", "report", "track", "gate", "tolerated_failures"}
"""Blocks of params.yaml that change no result of a model."""


def state(root: Path) -> dict[str, str]:
    """Tags that name the version of code and data.

    ``git.commit`` is the commit that holds what ran; where ``git.dirty`` is "true", the commit that it is based on, and
    ``git.changed`` names files that differ from it. What DVC writes does not make a tree dirty:
    outputs of stages, dvc.lock, .gitignore. Of a DVC experiment, its name and the commit of its baseline.
    """
    tags = {}
    if commit := git(root, "rev-parse", "HEAD"):
        changed = changed_files(root)
        tags = {"mlflow.source.git.commit": commit, "git.commit": commit, "git.dirty": str(bool(changed)).lower()}
        if changed:
            more = f" and {len(changed) - _PATHS_NAMED} more" if len(changed) > _PATHS_NAMED else ""
            tags["git.changed"] = ", ".join(changed[:_PATHS_NAMED]) + more
    if name := experiment():
        tags["dvc.exp.name"] = name
    if baseline := os.environ.get("DVC_EXP_BASELINE_REV"):
        tags["dvc.exp.baseline"] = baseline
    return tags


def experiment() -> str:
    """The name of the DVC experiment that runs this; "" outside of one."""
    return os.environ.get("DVC_EXP_NAME", "")


def origin(root: Path) -> dict[str, str]:
    """Where a copy of the study can be fetched: ``url`` of the Git remote, without credentials, and ``rev``."""
    found = {"url": public(git(main_tree(root), "remote", "get-url", "origin")), "rev": git(root, "rev-parse", "HEAD")}
    return {key: value for key, value in found.items() if value}


def changed_files(root: Path) -> list[str]:
    """What differs from HEAD and is an input: tracked files, and untracked ones that a stage depends on."""
    top = git(root, "rev-parse", "--show-toplevel")
    entries = iter(git(root, "status", "--porcelain=v2", "-z", "--untracked-files=all").split("\0"))
    outputs, inputs = _dvc_paths(root)
    found = []
    for entry in entries:
        fields_before_path = {"1": 8, "2": 9, "u": 10, "?": 1}.get(entry[:1])
        if fields_before_path is None:
            continue
        name = entry.split(" ", fields_before_path)[-1]
        if entry[0] == "2":
            next(entries, None)  # the old name of a renamed file
        path = Path(top, name)
        if path.name in _WRITTEN_BY_DVC or _inside(path, outputs) or (entry[0] == "?" and not _inside(path, inputs)):
            continue
        found.append(name)
    return found


def _inside(path: Path, places: set[Path]) -> bool:
    return any(place in places for place in (path, *path.parents))


def _dvc_paths(root: Path) -> tuple[set[Path], set[Path]]:
    """Outputs of the stages, and what they depend on; empty outside DVC."""
    from dvc.exceptions import DvcException

    try:
        with dvc_repo(root) as repo:
            stages = [stage for stage in repo.index.stages if not stage.is_data_source]
            outputs = {Path(out.fs_path) for stage in stages for out in stage.outs}
            return outputs, {Path(dep.fs_path) for stage in stages for dep in stage.deps} - outputs
    except DvcException:
        return set(), set()


# ---------------------------------------------------------------- params


def changes(
    root: Path, params_file: str, params: Mapping[str, Any], models: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Dotted key -> (value at the baseline, value now) of the params of these models that differ: one and its judges.

    The baseline is the experiment's, or HEAD; where HEAD has the params of now, the commit before it, so that what was
    committed before it ran is named, too. None of them where the file is not in git.
    """
    baseline = os.environ.get("DVC_EXP_BASELINE_REV")
    found = _since(baseline or "HEAD", root, params_file, params, models)
    return found if found or baseline else _since("HEAD^", root, params_file, params, models)


def _since(
    revision: str, root: Path, params_file: str, params: Mapping[str, Any], names: Collection[str]
) -> dict[str, tuple[str, str]]:
    text = git(root, "show", f"{revision}:./{params_file}")
    try:
        baseline = yaml.safe_load(text)
    except yaml.YAMLError:
        baseline = None  # what is in that commit is no params file; this one was checked
    if not isinstance(baseline, dict):
        return {}
    before, now = (flat(_relevant(content, names)) for content in (baseline, params))
    keys = [*now, *(key for key in before if key not in now)]
    return {key: (before.get(key, ""), now.get(key, "")) for key in keys if before.get(key) != now.get(key)}


def _relevant(params: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    kept = {key: value for key, value in params.items() if key not in _IRRELEVANT and key != "models"}
    models = params.get("models")
    own = {name: models[name] for name in names if name in models} if isinstance(models, Mapping) else {}
    return {**kept, "models": own} if own else kept


def run_name(model: str, changed: Mapping[str, tuple[str, str]]) -> str:
    """The model, DVC's name of the experiment and what differs from its baseline: "tiny cold-dusk: samples=9"."""
    last = Counter(key.rpartition(".")[2] for key in changed)
    named = []
    for key, (_, value) in list(changed.items())[:_CHANGES_NAMED]:
        end = key.rpartition(".")[2]
        shown = value if len(value) <= 24 else f"{value[:23]}…"
        named.append(f"{end if last[end] == 1 else key}={shown}")
    if len(changed) > _CHANGES_NAMED:
        named.append(f"and {len(changed) - _CHANGES_NAMED} more")
    name = f"{model} {experiment()}".rstrip()
    return (f"{name}: {', '.join(named)}" if named else name)[:NAME_LIMIT]


# ---------------------------------------------------------------- hashes


def md5(path: Path) -> str:
    """DVC's hash of a file or, with ".dir" after it, of a folder; "" where there is none."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if not path.is_dir():
        return ""
    files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
    listed = [{"md5": md5(file), "relpath": name} for name, file in files]
    content = json.dumps(listed, sort_keys=True).encode("utf-8")
    return hashlib.md5(content, usedforsecurity=False).hexdigest() + ".dir"


# ---------------------------------------------------------------- params as MLflow takes them


def flat(params: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested params as dotted keys and public texts; lists as JSON. Keys are MLflow's names, no two alike."""
    return dict(_leaves(params, prefix))


def _leaves(content: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            name = mlflow_name(str(key), keep="")
            yield from _leaves(value, f"{prefix}.{name}" if prefix else name)
    elif isinstance(content, list | tuple):
        yield prefix, public(json.dumps(content, ensure_ascii=False, default=str))
    else:
        yield prefix, public("" if content is None else str(content))


def public(text: str) -> str:
    """A text without the home folder and without what an address carries in front of its host or behind its path."""
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|$|\")", "~", text)
    if "://" not in text or any(sign.isspace() for sign in text):
        return text
    try:
        parts = urlsplit(text)
    except ValueError:  # no URL, but it may hold one
        return re.sub(r"(?<=://).*@", "", text)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", "")) if host else text


def shown_address(uri: str) -> str:
    """An address as a message may show it: without user name, password, query and keys."""
    scheme, separator, rest = uri.partition("://")
    if not scheme.startswith("sqlite"):
        uri = scheme + separator + rest.rpartition("@")[2]  # a password with a "/" or "#" ends no host
    try:
        return hide(public(uri.replace(" ", "%20")))
    except ValueError:  # no URL
        return "MLFLOW_TRACKING_URI"


def mlflow_name(key: str, keep: str = ".") -> str:
    """A key with only the signs that MLflow takes in names, any other as its code point: "a/b" as "a:2f:b".

    Letters of every script stay. No two keys have the same name: `key_of` gives the key back.

    Parameters
    ----------
    key
        Any text.
    keep
        Signs that have a meaning in this name, of "./:".
    """
    return re.sub(rf"[^\w\- {re.escape(keep)}]", lambda sign: f":{ord(sign.group()):x}:", key)


def key_of(name: str) -> str:
    """The key of a name of MLflow's; see `_name`."""
    return re.sub(r":([0-9a-f]+):", lambda code: chr(int(code.group(1), 16)), name)


def short_name(name: str) -> str:
    """A name that is not too long: its beginning and a hash."""
    return (
        name
        if len(name) <= NAME_LIMIT
        else f"{name[: NAME_LIMIT - 18]}..{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    )
