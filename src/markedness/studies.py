"""A study outside of the repository: its files, the code that its stages depend on, and its upgrade.

dvc.yaml of the repository depends on paths below src. Elsewhere the stages depend on markedness.yaml, which has a hash
of the code of each stage in the installed package: an upgrade reruns the stages whose hash is another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import ValidationError

from markedness import __version__, stage_code
from markedness.audits import AUDITS, STAGES
from markedness.audits.base import OWN
from markedness.files import write_file
from markedness.lm.progress import Report, tell
from markedness.records import AuditError, Strict
from markedness.reporting.results import git
from markedness.scaffold import ScaffoldError, refuse_used, template
from markedness.store import SHIPPED, Store

FILE = "markedness.yaml"
TEMPLATES = ("embedded", "api", "texts")
_ABOUT_FILE = """\
# Written by 'markedness init' and 'markedness upgrade'; do not edit. version: of markedness; stages: a hash of the code
# of each stage in that version, on which dvc.yaml depends; files: hashes of the files that came with that version;
# seal: a hash of the installed code and of these stages, by which a stage sees at once that nothing has changed.
"""
_ABOUT_PIPELINE = """\
# params.yaml, data/stimuli -> generate -> clean -> featurize -> evaluate -> compare, report, track
# One instance of the first four stages per (audit, model); a change reruns only what depends on it. The code of a stage
# is its key in markedness.yaml, which 'markedness upgrade' writes.
# ${item} is --audit and --model, quoted by DVC: no text of params.yaml reaches a shell unquoted.
"""
_NO_STIMULI = "Stimuli that the audit reads in place of those of its package, if any.\n"


class Recorded(Strict):
    """What markedness.yaml has."""

    version: str
    stages: dict[str, str | dict[str, str]]
    files: dict[str, str]
    seal: str = ""
    """Of the stages, see `stage_code.seal`; "": none was written, and the code of a stage is always read."""


@dataclass(frozen=True)
class Upgrade:
    """What an upgrade changes."""

    before: str
    """The version that the study was at."""
    reruns: dict[str, list[str]] = field(default_factory=dict)
    """Stage -> the audits whose code, stimuli or definition is another; none for a stage over all audits."""
    replaced: list[str] = field(default_factory=list)
    """Files that came with the package and are refreshed."""
    kept: list[str] = field(default_factory=list)
    """Files that are edited here and have changed in the package."""
    dropped: list[str] = field(default_factory=list)
    """Files that came with the package of before, and that of now has no more."""

    def sentences(self, dry_run: bool) -> Iterator[str]:
        """What a person is told."""
        yield f"{FILE}: markedness {self.before} -> {__version__}" + (", not written" if dry_run else "")
        for name in self.replaced:
            yield f"{name}: {'would be' if dry_run else 'is'} the one of markedness {__version__}"
        for name in self.kept:
            yield (
                f"{name}: edited here and changed in markedness {__version__}, so it stays; to take the package's, "
                "remove it and run 'markedness upgrade' again"
            )
        for name in self.dropped:
            yield f"{name}: is no longer part of markedness {__version__}; it stays, and is yours now"
        for stage, audits in self.reruns.items():
            yield f"reruns: {stage}" + (f" of {', '.join(audits)}" if audits else "")
        if self.reruns:
            yield "and what follows where its results change; 'dvc repro' runs them"
        else:
            yield "nothing reruns"


def new_study(folder: Path, name: str = "embedded") -> tuple[list[Path], bool]:
    """Write the files of a new study.

    Parameters
    ----------
    folder
        Of the study; it must be empty or not there.
    name
        One of `TEMPLATES`.

    Returns
    -------
    tuple
        The files, and whether the folder is in a Git repository: one is made where there is none.
    """
    if name not in TEMPLATES:
        raise ScaffoldError(f"'{name}' is not a template; one of {', '.join(TEMPLATES)}")
    refuse_used(folder)
    ours = _ours()
    own = Store(SHIPPED).corpora() / "own"
    theirs = [SHIPPED / ".gitignore", SHIPPED / ".dvcignore", own / "README.md", own / "example.csv"]
    contents = ours | {_relative(path): path.read_bytes() for path in theirs}
    contents |= {place: text.encode() for place, text in template("study")}
    contents["params.yaml"] = _params(name)
    recorded = Recorded(version=__version__, stages=stage_code.hashes(), files=_hashed(ours))
    for place, content in contents.items():
        write_file(folder / place, content)
    _record(folder, recorded)
    if not git(folder, "rev-parse", "--show-toplevel"):
        git(folder, "init", "--quiet")
    return [folder / place for place in (*sorted(contents), FILE)], bool(git(folder, "rev-parse", "--show-toplevel"))


def _params(name: str) -> bytes:
    if name == "embedded":
        return (SHIPPED / "params.yaml").read_bytes()
    return next(text for place, text in template("params") if place == f"{name}.yaml").encode()


def _ours() -> dict[str, bytes]:
    """The files that an upgrade refreshes where nobody edited them: path -> content."""
    shipped = Store(SHIPPED)
    paths = [path for audit in OWN for path in sorted(shipped.stimuli_folder(audit).rglob("*")) if path.is_file()]
    paths += sorted((SHIPPED / ".dvc" / "plots").glob("*.json"))
    made = {_relative(path): path.read_bytes() for path in paths}
    made |= {
        _relative(shipped.stimuli_folder(audit) / "README.md"): _NO_STIMULI.encode()
        for audit in AUDITS
        if audit not in OWN
    }
    return made | {"dvc.yaml": pipeline((SHIPPED / "dvc.yaml").read_text(encoding="utf-8")).encode()}


def pipeline(text: str) -> str:
    """The dvc.yaml of a study, from that of the repository: a hash of markedness.yaml in place of paths below src."""
    lines: list[str] = []
    stage, has_params = "", False
    for line in text[text.index("stages:\n") :].splitlines():
        if heading := re.match(r"  (\w+):", line):
            stage, has_params = heading[1], False
        if line.strip().startswith("- src/"):
            continue
        key = f"stages.{stage}" + (".${item.audit}" if stage in STAGES else "")
        if line == "    params:" or (line == "    outs:" and not has_params):
            lines += ["    params:", f"      - {FILE}:", f"          - {key}"]
            has_params = True
        if line != "    params:":
            lines.append(line)
    return _ABOUT_PIPELINE + "\n".join(lines) + "\n"


def check_code(root: Path, stage: str, audit: str = "", say: Report = tell) -> None:
    """Refuse to run a stage whose installed code is not the one that the study names; the repository names none.

    A stage that is the same in another version runs, and says so.
    """
    if not (root / FILE).is_file():
        return
    recorded = _read(root)
    named = recorded.stages.get(stage)
    named = named.get(audit) if isinstance(named, dict) else named
    what = f"stage {stage}" + (f" of {audit}" if stage in STAGES else "")
    sealed = bool(named) and recorded.seal == stage_code.seal(recorded.stages)
    if not sealed and named != stage_code.code_hash(stage, audit if stage in STAGES else ""):
        raise AuditError(
            f"{FILE} is of markedness {recorded.version}, and the code of {what} in the installed {__version__} is not "
            f"the one it names; run 'markedness upgrade', or install markedness=={recorded.version} again"
        )
    if recorded.version != __version__:
        say(
            f"{FILE} is of markedness {recorded.version}, installed is {__version__}; {what} is the same in both; "
            "'markedness upgrade' takes the study to the new version"
        )


def upgrade(root: Path, audits: Sequence[str], write: bool = True) -> Upgrade:
    """Take a study to the installed version: markedness.yaml, and the files of the package that nobody edited.

    Parameters
    ----------
    root
        Folder of the study.
    audits
        Those that the study runs.
    write
        False: only find out.
    """
    recorded, ours = _read(root), _ours()
    made = Upgrade(recorded.version)
    made.dropped.extend(sorted(place for place in recorded.files if place not in ours and (root / place).is_file()))
    hashes, stages = _hashed(ours), stage_code.hashes()
    for place, content in ours.items():
        there = (root / place).read_bytes() if (root / place).is_file() else None
        known = recorded.files.get(place)
        if there == content:
            continue
        if there is None or hashlib.sha256(there).hexdigest() == known:
            made.replaced.append(place)
        else:
            if known != hashes[place]:
                made.kept.append(place)
            hashes[place] = known or ""
    made.reruns.update(_reruns(root, recorded, stages, made.replaced, audits))
    if write:
        for place in made.replaced:
            write_file(root / place, ours[place])
        _record(root, Recorded(version=__version__, stages=stages, files=hashes))
    return made


def _reruns(
    root: Path, recorded: Recorded, now: dict[str, str | dict[str, str]], replaced: Sequence[str], audits: Sequence[str]
) -> dict[str, list[str]]:
    """See `Upgrade.reruns`."""
    defined = _redefined(root) if "dvc.yaml" in replaced else set()
    found: dict[str, list[str]] = {}
    for stage, code in now.items():
        before = recorded.stages.get(stage)
        if isinstance(code, str):
            if code != before or stage in defined:
                found[stage] = []
            continue
        known = before if isinstance(before, dict) else {}
        asked = {audit for audit in audits if stage in ("generate", "featurize") and _stimuli_in(replaced, audit)}
        changed = [a for a in audits if code.get(a) != known.get(a) or stage in defined or a in asked]
        if changed:
            found[stage] = changed
    return found


def _redefined(root: Path) -> set[str]:
    """The stages that dvc.yaml here and that of the package define in another way."""
    new = yaml.safe_load(_ours()["dvc.yaml"])["stages"]
    try:
        content = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
        old = content["stages"]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return set(new)
    return {stage for stage, content in new.items() if _unordered(content) != _unordered(old.get(stage))}


def _unordered(content: object) -> object:
    """A stage as DVC compares it: the order of its lists is no difference."""
    if isinstance(content, dict):
        return {str(key): _unordered(value) for key, value in content.items()}
    return sorted(map(repr, map(_unordered, content))) if isinstance(content, list) else content


def _stimuli_in(places: Sequence[str], audit: str) -> bool:
    folder = _relative(Store(SHIPPED).stimuli_folder(audit))
    return any(place.startswith(f"{folder}/") for place in places)


def _read(root: Path) -> Recorded:
    """markedness.yaml of a study."""
    try:
        return Recorded.model_validate(yaml.safe_load((root / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ScaffoldError(
            f"{root / FILE}: not there; only a study that 'markedness init' made has one, and the stages of a clone "
            "depend on its source"
        ) from error
    except (OSError, ValueError, yaml.YAMLError, ValidationError) as error:
        raise ScaffoldError(
            f"{root / FILE}: cannot be read as 'markedness init' wrote it; restore it, for example with 'git checkout "
            f"{FILE}'"
        ) from error


def _record(root: Path, recorded: Recorded) -> None:
    content = recorded.model_dump() | {"seal": stage_code.seal(recorded.stages)}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    write_file(root / FILE, _ABOUT_FILE + text)


def _hashed(contents: dict[str, bytes]) -> dict[str, str]:
    return {place: hashlib.sha256(content).hexdigest() for place, content in contents.items()}


def _relative(path: Path) -> str:
    return path.relative_to(SHIPPED).as_posix()
