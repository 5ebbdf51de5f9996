"""The installation goes on where a pinned version was withdrawn from the registry."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from markedness import __version__

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "offered_pins.py"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `kept` 1.0 and `withdrawn` 2.0, and nothing else that pip could see."""
    for name, version in (("kept", "1.0"), ("withdrawn", "2.0")):
        with zipfile.ZipFile(tmp_path / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            folder = f"{name}-{version}.dist-info"
            wheel.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{folder}/RECORD", "")
    for name, value in (("CONFIG_FILE", "/dev/null"), ("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path))):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_QUIET", raising=False)
    return tmp_path


def run(pins: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), str(pins)], capture_output=True, text=True, check=False)


def test_pins_that_are_offered_no_more_are_named_and_left_out(registry: Path) -> None:
    pins = registry / "constraints.txt"
    pins.write_text("# a set\nwithdrawn==1.0\nkept==1.0\ngone==3.1\n")
    found = run(pins)
    assert found.returncode == 0 and found.stdout == "kept==1.0\n"
    assert [line.split()[0] for line in found.stderr.splitlines()] == ["withdrawn==1.0", "gone==3.1"]


def test_another_failure_is_what_pip_said(registry: Path) -> None:
    pins = registry / "constraints.txt"
    pins.write_text("kept==1.0\nkept==1.5\n")
    found = run(pins)
    assert found.returncode == 1 and "ResolutionImpossible" in found.stderr and not found.stdout


def test_lowest_versions_are_those_of_the_floors() -> None:
    root = ROOT
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (root / "constraints-min.txt").read_text(encoding="utf-8").splitlines()
    lowest = dict(line.split("==") for line in lines if not line.startswith("#"))
    wanted = [*project["dependencies"], *(one for extra in ("local", "embedded", "text", "test", "inspect")
                                          for one in project["optional-dependencies"][extra])]  # fmt: skip
    for one in map(Requirement, wanted):
        if one.name == "markedness":
            continue
        pinned = Version(lowest[canonicalize_name(one.name)])
        assert one.specifier.contains(pinned), f"{one}: {pinned}"
        floors = [Version(each.version) for each in one.specifier if each.operator == ">="]
        assert one.name == "torch" or all(pinned.major == floor.major for floor in floors), f"{one}: {pinned}"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """What the wheel of this tree says of itself."""
    builder = pytest.importorskip("hatchling.builders.wheel", reason="skipped: hatchling is not installed")
    (wheel,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("dist")))
    with zipfile.ZipFile(wheel) as archive:
        assert "markedness/py.typed" in archive.namelist()
        (place,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(place))


@pytest.mark.slow
def test_metadata_of_the_wheel_is_read_by_every_tool_that_uploads_and_names_each_licence_once(
    metadata: Message,
) -> None:
    assert metadata["Metadata-Version"] == "2.4"  # twine 6, which many publishing actions have, refuses 2.5
    named = metadata.get_all("Classifier", [])
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [one for one in named if one.startswith("License ::")]  # PEP 639: not beside an expression
    known = pytest.importorskip("trove_classifiers", reason="skipped: trove-classifiers is not installed")
    assert set(named) <= known.classifiers and "Typing :: Typed" in named


@pytest.mark.slow
def test_version_is_the_same_in_package_citation_and_wheel_and_each_named_python_is_tried_in_ci(
    metadata: Message,
) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert metadata["Version"] == __version__ == citation["version"]
    assert citation["license"] == metadata["License-Expression"]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    named = {one.rpartition(" ")[2] for one in metadata.get_all("Classifier", []) if "Python :: 3." in one}
    assert named == set(jobs["package"]["strategy"]["matrix"]["python"])
