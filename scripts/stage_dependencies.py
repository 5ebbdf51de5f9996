"""Write the code that each stage of dvc.yaml computes with into its `deps`, as `markedness.stage_code` finds it.

Data, params and outs of dvc.yaml are written by hand.

    python scripts/stage_dependencies.py            # rewrites dvc.yaml
    python scripts/stage_dependencies.py --check    # exit status 1 where dvc.yaml says something else
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from markedness.audits.base import STAGES as BY_AUDIT
from markedness.stage_code import NAME, PACKAGE, ROOMS, STAGES, own_code, shared_code

ROOT = Path(__file__).resolve().parents[1]
AUDITS = tuple(sorted(path.parent.name for path in (PACKAGE / "audits").glob("*/evaluate.py")))
MOST = 2 / 3
"""Share of a folder's files from which on a stage depends on the folder. DVC reads and writes dvc.lock anew for each
stage, which takes over a second of CPU at the end of a run whose stages name fifty files each."""


def dependencies(stage: str) -> list[str]:
    """The paths of code for the `deps` of a stage, sorted; what every audit has is written once for all."""
    paths = set(map(relative, shared_code(stage)))
    own: dict[str, set[str]] = {}
    for audit in AUDITS:
        files = own_code(stage, audit)
        for path in map(relative, files):
            folder = f"src/{NAME}/audits/{audit}/"
            if stage in BY_AUDIT and path.startswith(folder):
                inside = path.removeprefix(folder)
                named = next((room for room in ROOMS if inside.startswith(f"{room}/")), inside)
                own.setdefault(f"src/{NAME}/audits/${{item.audit}}/{named}", set()).add(path)
            else:
                paths.add(path)
    for pattern, literal in own.items():
        every = all((ROOT / pattern.replace("${item.audit}", audit)).exists() for audit in AUDITS)
        paths |= {pattern} if every else literal
    whole = whole_folders({path for path in paths if "$" not in path})
    return sorted({path for path in paths if not within(path, whole)} | whole)


def whole_folders(paths: set[str]) -> set[str]:
    """The outermost folders below the package of which these are `MOST` of the files."""
    found: list[str] = []
    for folder in sorted({parent for path in paths for parent in Path(path).parents}):
        name = folder.as_posix()
        inside = [file for file in (ROOT / folder).rglob("*") if file.is_file() and "__pycache__" not in file.parts]
        named = sum(path.startswith(f"{name}/") for path in paths)
        if len(folder.parts) > 2 and named > 1 and named >= MOST * len(inside) and not within(name, found):
            found.append(name)
    return set(found)


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is below one of the folders."""
    return any(path.startswith(f"{folder}/") for folder in folders)


def relative(path: Path) -> str:
    """A path as dvc.yaml has it."""
    return path.relative_to(ROOT).as_posix()


def written(text: str) -> str:
    """The text of dvc.yaml with the code of each stage's `deps` put right; all other lines stay."""
    lines: list[str] = []
    stage, in_deps = "", False
    for line in text.splitlines():
        if heading := re.match(r"  (\w+):", line):
            stage = heading[1]
        if in_deps and not line.startswith("      "):
            lines += [f"      - {path}" for path in dependencies(stage)]
            in_deps = False
        if in_deps and line.strip().startswith("- src/"):
            continue
        in_deps = in_deps or (line == "    deps:" and stage in STAGES)
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite dvc.yaml, or check it."""
    if PACKAGE != ROOT / "src" / NAME:
        sys.exit(f"this would read {PACKAGE}; set PYTHONPATH={ROOT / 'src'}, or install this clone")
    file = ROOT / "dvc.yaml"
    now = file.read_text(encoding="utf-8")
    right = written(now)
    if "--check" not in sys.argv[1:]:
        file.write_text(right, encoding="utf-8")
    elif now != right:
        sys.exit("dvc.yaml: the deps are not those of the code; run 'python scripts/stage_dependencies.py'")


if __name__ == "__main__":
    main()
