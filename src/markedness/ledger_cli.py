"""`markedness ledger`: what was paid for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from markedness.options import DEFAULT, ParamsFile

ledger_app = typer.Typer(
    help="Answers that were paid for: what is there, what comes from elsewhere, what is no longer used.",
    no_args_is_help=True,
)

Model = Annotated[str, typer.Option("--model", help="A key of models in params.yaml.")]


@ledger_app.command("status")
def status(params: ParamsFile = DEFAULT) -> None:
    """Say per model how many answers there are, by whom, from when, and which audits use them."""
    from markedness import ledgers
    from markedness.params import load

    ledgers.status(load(params))


@ledger_app.command("import")
def enter(
    file: Annotated[Path, typer.Argument(help="A slice, or a ledger of version 0.1: JSON Lines.")],
    model: Model,
    served_by: Annotated[str | None, typer.Option(help="Who answered, where the file does not say.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Enter answers into a model's ledger; exit status 1 where lines could not be read."""
    from markedness import ledgers
    from markedness.params import load

    if ledgers.enter(load(params), model, file, served_by):
        raise typer.Exit(1)


@ledger_app.command("prune")
def prune(
    model: Model,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; else only say how many they are.")] = False,
    empty: Annotated[
        bool, typer.Option("--empty", help="Those without a text instead, which are then asked for again.")
    ] = False,
    params: ParamsFile = DEFAULT,
) -> None:
    """Remove the answers that no slice under data/ledger uses and params do not ask for, or those that are empty."""
    from markedness import generation, judges, ledgers
    from markedness.params import load

    loaded = load(params)
    loaded.model(model)
    ledgers.prune(
        loaded, model, yes, empty=empty, needed=[partial(one.needed, loaded, model) for one in (generation, judges)]
    )
