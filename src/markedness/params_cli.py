"""``markedness params``: look at params.yaml."""

from __future__ import annotations

import typer

from markedness.lm.progress import tell
from markedness.options import DEFAULT, ParamsFile

params_app = typer.Typer(help="Look at params.yaml.", no_args_is_help=True)


@params_app.command("check")
def check(params: ParamsFile = DEFAULT) -> None:
    """Check params.yaml, and the prices, stimuli and corpus files it names: one line per fault, exit status 2."""
    from markedness import doctor
    from markedness.params import ParamsError, load

    loaded = load(params)
    findings = list(doctor.without_requests(loaded, loaded.run))
    if faults := [f"{loaded.path.name}: {one.subject}: {one.sentence}" for one in findings if one.level == "fault"]:
        raise ParamsError("\n".join(faults))
    for one in findings:
        if one.level == "warning":
            tell(str(one))
    for audit in loaded.audits:
        tell(f"{audit}: {loaded.sizes[audit]}")
    tell(f"{loaded.path}: {len(loaded.audits)} audits, {len(loaded.run)} models to run, no faults")


@params_app.command("resolve")
def resolve(params: ParamsFile = DEFAULT) -> None:
    """Write what each audit asks, once its size has filled in what its generate block leaves out: data/settings."""
    from markedness.params import load
    from markedness.pipeline import write_settings
    from markedness.stale import unedited
    from markedness.studies import check_code

    loaded = load(params)
    check_code(loaded.root, "settings")
    with unedited(loaded):
        write_settings(loaded)
