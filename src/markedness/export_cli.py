"""`markedness export`: tables and figures for a paper, questions for other runners."""

from __future__ import annotations

from enum import StrEnum, auto
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from markedness.options import DEFAULT, ParamsFile


class Relationship(StrEnum):
    """Of who ran a study to the developer of a model."""

    first_party = auto()
    third_party = auto()
    collaborative = auto()
    other = auto()


class _TablesUnlessNamed(TyperGroup):
    """`markedness export [FOLDER]` is `markedness export tables [FOLDER]`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        named = args and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else ["tables", *args])


export_app = typer.Typer(
    cls=_TablesUnlessNamed,
    help="Write tables and figures for a paper (the default), questions for other runners, or records of results.",
)


@export_app.command("tables")
def tables(
    folder: Annotated[Path, typer.Argument(help="Where to: <folder>/<audit>/<model>/.")] = Path("paper"),
    params: ParamsFile = DEFAULT,
) -> None:
    """Write tables as LaTeX and Markdown and figures as PDF and SVG, for a paper."""
    from markedness import pipeline, study
    from markedness.params import load

    loaded = load(params)
    pipeline.recover(loaded)
    study.export(loaded, folder)


@export_app.command("stimuli")
def stimuli(
    audit: Annotated[str, typer.Argument(help="The audit whose questions are written.")],
    folder: Annotated[Path, typer.Argument(help="Where to: <folder>/<audit>.jsonl.")] = Path("stimuli"),
    base: Annotated[bool, typer.Option("--base", help="For a base model: texts to continue, not turns.")] = False,
    params: ParamsFile = DEFAULT,
) -> None:
    """Write an audit's questions as JSON Lines and as a task of Inspect; asks nothing."""
    from markedness.audits import AUDITS
    from markedness.params import ParamsError, load
    from markedness.runners import export_stimuli

    loaded = load(params)
    if audit not in loaded.audits:
        remedy = "; add it to audits there" if audit in AUDITS else ""
        raise ParamsError(f"'{audit}' is none of the audits of {params}: {', '.join(loaded.audits)}{remedy}")
    export_stimuli(loaded, audit, folder, base)


@export_app.command("results")
def results(
    organization: Annotated[str, typer.Option("--organization", help="Who ran the study.")],
    folder: Annotated[Path, typer.Argument(help="Where to: <folder>/data/markedness-<audit>/<developer>/<model>/.")] = (
        Path("records")
    ),
    relationship: Annotated[
        Relationship, typer.Option("--relationship", help="Of that organization to the developers of the models.")
    ] = Relationship.other,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", help="MODEL=developer/name, where params.yaml names no developer; repeat for several."),
    ] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Write results as records of the Every Eval Ever schema; scripted controls are left out."""
    import time

    from markedness import pipeline
    from markedness.cards import count
    from markedness.lm.progress import tell
    from markedness.params import load
    from markedness.records import AuditError
    from markedness.reporting.records import Evaluator, write_records

    loaded = load(params)
    pipeline.recover(loaded)
    given = dict(one.partition("=")[::2] for one in ids or ())
    made, left_out = write_records(loaded, folder, Evaluator(organization, relationship.value, int(time.time())), given)
    for sentence in left_out:
        tell(f"export: {sentence}")
    if not made:
        asked = set(loaded.run) - set(loaded.controls)
        why = (
            "no model that is asked has results; run 'dvc repro' first"
            if asked
            else "run names scripted controls alone"
        )
        raise AuditError(f"nothing to export: {'see above' if left_out else why}")
    tell(f"export: {count(len(made), 'record')} in {folder}")
