"""The stages that see all models: compare, report and track."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import yaml

from markedness import audits
from markedness.params import Params
from markedness.reporting.results import git, read
from markedness.store import Store
from markedness.tracking import AuditRun, DataSet, ModelRun, public

Report = Callable[[str], None]


def report(params: Params, say: Report = print) -> None:
    """reports/index.html and a stereotype card per model."""
    from markedness.reporting.report import Pages, write

    pages = Pages(
        Store(params.root), params.audits, {name: params.model(name) for name in params.run}, audits.card,
        params.report.table_rows, params.report.examples, params.compare.confidence_level,
    )  # fmt: skip
    for path in write(pages):
        if path.name == "index.html":
            say(f"report: {len(pages.results)} results of {len(params.run)} models, open {path}")


def track(params: Params, say: Report = print) -> None:
    """Tell MLflow what came out; nothing changed, nothing logged."""
    from markedness import tracking

    runs = [run for model in params.run if (run := _model_run(params, model)).audits]
    logged = tracking.track(runs, params.root, params.track.experiment)
    say(
        f"track: {', '.join(logged)} logged to {tracking.public(tracking.address(params.root))}"
        if logged
        else "track: nothing changed, nothing logged"
    )


def _model_run(params: Params, model: str) -> ModelRun:
    store = Store(params.root)
    hashes = dvc_hashes(params.root)
    runs = []
    for audit in params.audits:
        result = read(store, audit, model, audits.card(audit))
        if result is None:
            continue
        settings = {
            name: params.stage(audit, name).model_dump(mode="json", exclude={"axes"})
            for name in audits.STAGES
            if (audit, name) in params.stages
        }
        axes = (params.raw.get(audit) or {}).get("axes") or {}
        runs.append(
            AuditRun(
                audit, result.metrics, tuple(result.card.headline), {audit: {**settings, "axes": axes}}, result.folder,
                _datasets(params, audit, model, hashes),
            )
        )  # fmt: skip
    own = params.raw["models"][model]
    return ModelRun(
        model, {"seed": params.seed, "models": {model: own}}, _state(params.root), runs,
        store.reports() / f"{model}.html",
    )  # fmt: skip


def _datasets(params: Params, audit: str, model: str, hashes: dict[str, str]) -> list[DataSet]:
    """The generations, and the stimuli or the corpus that they come from, with DVC's hash."""
    store = Store(params.root)
    found = []
    for kind in ("generations", "responses"):
        path = store.table_path(kind, audit, model)
        name = path.relative_to(params.root).as_posix()
        if digest := hashes.get(name) or (file_md5(path) if path.exists() else ""):
            found.append(DataSet(f"{audit}-{kind}", digest, name))
    stimuli = f"data/stimuli/{audit}"
    if stimuli in hashes:
        found.append(DataSet(f"{audit}-stimuli", hashes[stimuli], stimuli))
    source = getattr(params.model(model), audit, None) if params.model(model).backend == "corpus" else None
    if source is not None:
        found += [
            DataSet(f"{audit}-corpus-{path.stem}"[:200], file_md5(path), public(str(source.path)))
            for path in sorted(params.root.glob(source.path) if not Path(source.path).is_absolute() else ())[:20]
        ]
    return found


def dvc_hashes(root: Path) -> dict[str, str]:
    """Path -> MD5 of everything in dvc.lock; empty where there is none."""
    path = root / "dvc.lock"
    if not path.exists():
        return {}
    stages = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("stages") or {}
    entries = [entry for stage in stages.values() for part in ("deps", "outs") for entry in stage.get(part) or ()]
    return {entry["path"]: entry["md5"] for entry in entries if "md5" in entry}


def file_md5(path: Path) -> str:
    """DVC's hash of one file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _state(root: Path) -> dict[str, str]:
    """Tags that name the version of code and data: git commit, whether it is dirty, hash of dvc.lock."""
    tags = {}
    if commit := git(root, "rev-parse", "HEAD"):
        tags["mlflow.source.git.commit"] = tags["git.commit"] = commit
        tags["git.dirty"] = str(bool(git(root, "status", "--porcelain", "--untracked-files=no"))).lower()
    lock = root / "dvc.lock"
    if lock.exists():
        tags["dvc.lock"] = file_md5(lock)
    return tags
