"""`markedness fill`: several servers at a time, into the ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from markedness.options import DEFAULT, ParamsFile


def fill_command(
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A key of models; repeat for several. Default: all of run.")
    ] = None,
    audit: Annotated[
        list[str] | None, typer.Option("--audit", help="An audit; repeat for several. Default: all of audits.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report requests, tokens and cost; ask nothing.")] = False,
    params: ParamsFile = DEFAULT,
) -> None:
    """Ask several servers at a time for what the ledger lacks; dvc repro then asks nothing.

    Each server (host and port of base_url) is asked at its own pace, its models one after another. Only the ledger is
    written. Models of other backends, and services and judges that featurize asks for scores, are left to dvc repro;
    --dry-run reports what they would be asked too.
    """
    from markedness.audits import AUDITS
    from markedness.params import ParamsError, load
    from markedness.studies import check_code

    loaded = load(params)
    names, audits = list(dict.fromkeys(model or loaded.run)), list(dict.fromkeys(audit or loaded.audits))
    for name in names:
        loaded.model(name)
    for one in audits:
        if one not in AUDITS:
            raise ParamsError(f"'{one}' is not an audit; known: {', '.join(AUDITS)}")
        check_code(loaded.root, "generate", one)
    from markedness import fill

    if dry_run:
        fill.forecasts(loaded, names, audits)
    elif not fill.fill(loaded, names, audits):
        raise typer.Exit(1)
