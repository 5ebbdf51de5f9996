"""The command line: what dvc.yaml calls, and what a person types."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from markedness.audits import AUDITS, STAGES
from markedness.calibrate_cli import calibrate_command
from markedness.export_cli import export_app
from markedness.fill_cli import fill_command
from markedness.gate_cli import gate
from markedness.init_cli import init, upgrade
from markedness.ledger_cli import ledger_app
from markedness.lm.progress import tell
from markedness.material_cli import corpora_app, downstream, model_app, names_app, scorers_app
from markedness.options import DEFAULT, ParamsFile
from markedness.params_cli import params_app
from markedness.plan_cli import plan_command
from markedness.records import AuditError

if TYPE_CHECKING:
    from markedness.params import Params

app = typer.Typer(
    help="""Measure stereotypes in language models with five published methods.

    Everything is set in params.yaml: the models to ask, the audits to run, their groups and samples.
    'dvc repro' runs it all; the commands below are its stages, one at a time.

    \b
    markedness params check                       is params.yaml sound?
    markedness doctor                             and the rest: servers, keys, files, disk?
    markedness run personas --model my-model      one audit of one model, without DVC
    markedness generate personas --model my-model --dry-run    what would it cost?
    markedness fill                               several servers at a time, before 'dvc repro'
    markedness report                             the pages under reports/
    """,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(params_app, name="params")
app.command()(gate)
app.command()(init)
app.command()(upgrade)
app.add_typer(export_app, name="export")
app.add_typer(corpora_app, name="corpora")
app.add_typer(model_app, name="model")
app.add_typer(names_app, name="names")
app.add_typer(scorers_app, name="scorers")
app.command("downstream")(downstream)
app.add_typer(ledger_app, name="ledger")
app.command("plan")(plan_command)
app.command("calibrate")(calibrate_command)
app.command("fill")(fill_command)

Audit = Annotated[str, typer.Argument(help=f"One of {', '.join(AUDITS)}.", show_default=False)]
NamedAudit = Annotated[str, typer.Option("--audit", help="The audit, named: as dvc.yaml calls it.", show_default=False)]
Model = Annotated[str, typer.Option("--model", help="A key of models in params.yaml.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report requests, tokens and cost; ask nothing.")]


def _version(shown: bool) -> None:
    if shown:
        from markedness import __version__

        print(f"markedness {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _load(path: Path, audit: str | None = None, model: str | None = None, stages: Sequence[str] = ()) -> Params:
    """The params; refuse to run stages whose code is not the one that the study names."""
    from markedness.params import ParamsError, load
    from markedness.studies import check_code

    loaded = load(path)
    if audit not in (None, *AUDITS):
        raise ParamsError(f"'{audit}' is not an audit; known: {', '.join(AUDITS)}")
    if model is not None:
        loaded.model(model)
    for stage in stages:
        check_code(loaded.root, stage, audit or "")
    return loaded


@contextmanager
def _stage(name: str, path: Path, audit: str = "", model: str = "") -> Iterator[Params]:
    """The params of one stage, which must be the same when it ends, as must its data."""
    from markedness.stale import unedited

    loaded = _load(path, audit or None, model or None, [name])
    with unedited(loaded, audit, model):
        yield loaded


def _run(name: str, audit: str, named: str, model: str, path: Path) -> Any:
    """One stage but generate."""
    audit = _one_audit(audit, named)
    with _stage(name, path, audit, model) as params:
        from markedness import pipeline

        return pipeline.stage(name, params, audit, model)


def _one_audit(given: str, named: str) -> str:
    """The audit, as an argument or as --audit."""
    if bool(given) == bool(named):
        raise typer.BadParameter(f"name one audit: {', '.join(AUDITS)}")
    return given or named


def _forecast(audit: str, model: str, path: Path) -> None:
    params = _load(path, audit, model)
    from markedness import judges
    from markedness.generation import forecast

    asked = forecast(params, audit, model)
    judges.forecast(params, audit, model, asked.known == asked.total)


@app.command()
def run(audit: Audit, model: Model, params: ParamsFile = DEFAULT, dry_run: DryRun = False) -> None:
    """Generate, clean, featurize and evaluate, without DVC; earlier results are replaced only by results."""
    if dry_run:
        return _forecast(audit, model, params)
    loaded = _load(params, audit, model, STAGES)
    from markedness import pipeline, stale

    made_of = stale.inputs(loaded, audit, model)
    complete = pipeline.run(loaded, audit, model)
    stale.remember(loaded.root, audit, model, made_of)
    raise typer.Exit(0 if complete else 1)


@app.command()
def generate(
    model: Model,
    audit: Audit = "",
    named: NamedAudit = "",
    params: ParamsFile = DEFAULT,
    dry_run: DryRun = False,
    tolerate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of requests that may fail without exit status 1, in place of "
                     "tolerated_failures in params.yaml.", show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Ask the model for what the ledger lacks."""
    audit = _one_audit(audit, named)
    if dry_run:
        return _forecast(audit, model, params)
    with _stage("generate", params, audit, model) as loaded:
        from markedness import pipeline

        counts = pipeline.stage("generate", loaded, audit, model)
    if not counts.tolerated(loaded.tolerated_failures if tolerate is None else tolerate):
        raise typer.Exit(1)


@app.command()
def clean(model: Model, audit: Audit = "", named: NamedAudit = "", params: ParamsFile = DEFAULT) -> None:
    """Parse and label what the model said."""
    _run("clean", audit, named, model, params)


@app.command()
def featurize(model: Model, audit: Audit = "", named: NamedAudit = "", params: ParamsFile = DEFAULT) -> None:
    """Turn responses into units of analysis."""
    if not _run("featurize", audit, named, model, params):
        raise typer.Exit(1)


@app.command()
def evaluate(model: Model, audit: Audit = "", named: NamedAudit = "", params: ParamsFile = DEFAULT) -> None:
    """Estimate, with intervals; write tables, metrics and figures."""
    _run("evaluate", audit, named, model, params)


@app.command()
def compare(
    first: Annotated[str | None, typer.Argument(help="A git revision or DVC experiment.")] = None,
    second: Annotated[str, typer.Argument(help="Another; workspace: the files as they are now.")] = "workspace",
    to: Annotated[Path | None, typer.Option("--to", help="With revisions: a CSV file for the differences.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Compare every pair of models; with revisions, the same models at one and at the other."""
    from markedness import pipeline, revisions, study

    if first is None:
        with _stage("compare", params) as loaded:
            pipeline.recover(loaded)
            study.compare(loaded)
        return
    loaded = _load(params)
    pipeline.recover(loaded)
    revisions.compare(loaded, first, second, to)


@app.command()
def report(params: ParamsFile = DEFAULT) -> None:
    """Write reports/index.html and a stereotype card per model; they open from disk, without a network."""
    with _stage("report", params) as loaded:
        from markedness import pipeline, study

        pipeline.recover(loaded)
        study.report(loaded)


@app.command()
def track(params: ParamsFile = DEFAULT) -> None:
    """Tell MLflow what is new: sqlite:///mlflow.db, or MLFLOW_TRACKING_URI."""
    with _stage("track", params) as loaded:
        from markedness import pipeline, study

        pipeline.recover(loaded)
        study.track(loaded)


@app.command()
def replicate(
    first: Annotated[str, typer.Option(help="The study or model whose effects are looked for.")],
    second: Annotated[str, typer.Option(help="The one they are looked for in.")],
    output: Annotated[Path | None, typer.Option(help="Write the effects side by side to this CSV file.")] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Count the homogeneity effects of one study or model that another replicates."""
    loaded = _load(params)
    for name in (first, second):
        loaded.model(name)
    from markedness import study
    from markedness.store import Store

    made = study.replicate(loaded, first, second)
    if output is not None:
        Store(loaded.root).write_csv(output, made.table)


@app.command("doctor")
def doctor_command(
    model: Annotated[
        str | None, typer.Option("--model", help="A key of models; all that are run when left out.")
    ] = None,
    params: ParamsFile = DEFAULT,
) -> None:
    """Say whether this study can be run: files, prompts, prices, disk, and one test request to each server.

    One line per check: ok, warning or fault, with the remedy. Exit status 0, 1 with warnings, 2 with faults.
    """
    loaded = _load(params, model=model)
    from markedness import doctor

    findings = []
    for finding in doctor.examine(loaded, model):
        tell(str(finding))
        findings.append(finding)
    if code := doctor.status(findings):
        raise typer.Exit(code)


@app.command()
def literature(
    params: ParamsFile = Path("literature.yaml"),
    page: Annotated[Path | None, typer.Option(help="Write the documentation's page on all analyses here.")] = None,
) -> None:
    """Audit the published studies' own data and count the printed cells that agree."""
    loaded = _load(params)
    from markedness import literature as lit
    from markedness import pipeline
    from markedness.lm.config import CorpusModel
    from markedness.store import Store

    failed = 0
    for model in loaded.run:
        for audit in loaded.audits:
            config = loaded.model(model)
            if not isinstance(config, CorpusModel) or config.source(audit) is None:
                continue
            try:
                for stage in STAGES:
                    pipeline.stage(stage, loaded, audit, model)
            except AuditError as error:
                tell(f"error: {error}", error=True)
                failed += 1
    made = lit.agreements(loaded.root)
    report = lit.write(Store(loaded.root), made)
    for a in made:
        place = f"table {a.table}" if any(letter.isdigit() for letter in a.table[:2]) else a.table
        tell(f"{a.publication}, {place} ({a.model}): {a.agreeing} of {a.n} cells agree ({a.rule})")
    for row in lit.per_paper(made).itertuples():
        tell(f"{row.publication}: {row.agree:,} of {row.cells:,} cells of {row.tables} tables and sections agree")
    tell(f"report: {report}")
    if page:
        Store(loaded.root).write_bytes(page, lit.page(loaded.root, made).encode("utf-8"))
    if failed:
        raise AuditError(f"{failed} studies could not be run; 'markedness corpora get' fetches their data")


def main() -> None:
    """Exit status: 0 done, 1 done with failures that the output names, 2 wrong use or params."""
    from markedness.credentials import hide
    from markedness.lm.redaction import printable
    from markedness.params import ParamsError

    if isinstance(sys.stdout, io.TextIOWrapper):  # of names that a terminal cannot show there are escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(standalone_mode=True)
    except AuditError as error:
        sentence = printable(hide(str(error)))
        print(sentence if "\n" in sentence else f"error: {sentence}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ParamsError) else 1)
