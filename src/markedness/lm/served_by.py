"""Who answers a request: a part of every key of the ledger, so that no other server or weights answer in its place."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
SETTINGS = frozenset({".json", ".model", ".txt", ".jinja", ".tiktoken", ".py"})
"""Tokenizer, configuration and code: they change the answers as well."""
_NO_MATTER = "transformers_version"
"""Key of a configuration that says only who wrote it."""


def server(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme.lower()}://{place}{parts.path.rstrip('/')}"


_FILE = re.compile(r"^[/~.]|\\|\.(?:gguf|bin|safetensors|pt)$")
_VERSION = re.compile(r"v?\d[a-z0-9]*|latest|preview|exp|beta")


def is_other_model(asked: str, reported: str) -> bool:
    """Whether the model name that a server reports says that another model answered than was asked for.

    A version behind the name ("gpt-4o-2024-08-06"), folders before it and the path of a file, which some servers
    report, do not say so.
    """
    if _FILE.search(reported) or _FILE.search(asked):
        return False
    first, second = sorted((_words(asked), _words(reported)), key=len)
    more = second[len(first) :]
    return second[: len(first)] != first or not all(map(_VERSION.fullmatch, more))


def reported(asked: str, models: Mapping[str, int]) -> str:
    """A sentence where a server says that another model answered, or several; "" where not.

    ``asked``: "" where no name was asked for; ``models``: name that the server reported -> answers.
    """
    known = [name for name in models if name]
    others = [name for name in known if asked and is_other_model(asked, name)]
    named = ", ".join(f"{name:.80}" for name in (others or known)[:3])
    if others:
        n, of_all = sum(models[name] for name in others), sum(models.values())
        return f"{asked} was asked, but the server reports for {n:,} of {of_all:,} answers that {named} gave them."
    return f"The server reported several models ({named}): the answers may not be of one." if len(known) > 1 else ""


def _words(name: str) -> list[str]:
    """The words of a name, without folders and "latest" at its end."""
    words = [word for word in re.split(r"[^a-z0-9.]+", name.lower().rpartition("/")[2]) if word]
    return words[:-1] if words[1:] and words[-1] == "latest" else words


def weights(folder: Path, cache: Path) -> str:
    """Hash of the files of a local model; "" where the folder holds none.

    Parameters
    ----------
    folder
        Folder of the model.
    cache
        JSON file that remembers hashes by path, size and times; made where it is missing.
    """
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in WEIGHTS | SETTINGS and path.is_file()]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not any(path.suffix in WEIGHTS for path in files):
        return ""
    state = hashlib.sha256()
    for path in files:
        facts = path.stat()
        known = [path.relative_to(folder).as_posix(), facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
        state.update(orjson.dumps(known))
    place, signature = str(folder.resolve()), state.hexdigest()
    remembered = _read(cache)
    if remembered.get(place, {}).get("state") == signature:
        return str(remembered[place]["hash"])
    whole = hashlib.sha256()
    for path in files:
        whole.update(orjson.dumps([path.relative_to(folder).as_posix(), _digest(path)]))
    found = f"weights:{whole.hexdigest()[:32]}"
    remembered[place] = {"state": signature, "hash": found}
    _write(cache, remembered)
    return found


_PACKAGES = "packages"
"""In the cache beside the folders: hash of weights -> the package that they were converted from, and its version."""


def note_package(who: str, package: tuple[str, str], cache: Path) -> None:
    """Remember in the cache of `weights` of which package and version ``who`` is; nothing where there is none."""
    said = " ".join(package)
    if not said.strip():
        return
    remembered = _read(cache)
    if remembered.get(_PACKAGES, {}).get(who) != said:
        _write(cache, remembered | {_PACKAGES: remembered.get(_PACKAGES, {}) | {who: said}})


def package_of(who: str, cache: Path) -> tuple[str, str]:
    """Package and version that these weights are of; "" where that is not known here."""
    package, _, version = str(_read(cache).get(_PACKAGES, {}).get(who, "")).partition(" ")
    return package, version


def _digest(path: Path) -> str:
    """Hash of one file; of a configuration without what does not matter."""
    if path.suffix == ".json":
        with contextlib.suppress(ValueError):  # not JSON after all: its bytes are hashed
            content = orjson.loads(path.read_bytes())
            if isinstance(content, dict):
                content.pop(_NO_MATTER, None)
            return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(cache: Path) -> dict[str, Any]:
    try:
        content = orjson.loads(cache.read_bytes())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in content.items() if isinstance(v, dict)} if isinstance(content, dict) else {}


def _write(cache: Path, content: dict[str, Any]) -> None:
    part = cache.with_name(f".{cache.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # it only saves the time to hash again
        part.write_bytes(orjson.dumps(content))
        part.replace(cache)


def hub(path: str, commit: str) -> str:
    """A model of the hub at one commit."""
    return f"hub:{path}@{commit}"


def rule(answers: Callable[..., Any]) -> str:
    """Hash of the source file of a scripted rule: a changed rule is asked again."""
    try:
        source = inspect.getsourcefile(inspect.unwrap(answers))
        content = Path(source or "").read_bytes()
    except (OSError, TypeError):  # a rule made in an interpreter or a callable object has no file
        return "rule"
    return f"rule:{hashlib.sha256(content).hexdigest()[:32]}"
