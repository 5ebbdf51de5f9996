"""``markedness plan``: what a study would ask, cost and find, before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer

from markedness.options import DEFAULT, ParamsFile


def plan_command(
    audit: Annotated[list[str] | None, typer.Argument(help="Audits; all of params.yaml when left out.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A key of models; the first of run when left out.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option("--size", help="quick, standard or paper; again for several, all by default.")
    ] = None,
    detect: Annotated[
        list[str] | None,
        typer.Option("--detect", help="AUDIT.KEY=VALUE: the size, or number of clusters, that finds such an effect."),
    ] = None,
    power: Annotated[float, typer.Option("--power", help="Probability with which an effect is found.")] = 0.8,
    looks: Annotated[
        int, typer.Option("--looks", help="How often growing data will be looked at, as gate.looks: corrected for all.")
    ] = 1,
    params: ParamsFile = DEFAULT,
) -> None:
    """Requests, tokens, cost, time and the smallest effect that would be found, by audit and size; asks nothing."""
    from markedness.params import load
    from markedness.planning import plan

    loaded = load(params)
    name = model or loaded.run[0]
    loaded.model(name)
    plan(loaded, name, audit or (), size or (), detect or (), power, looks)
