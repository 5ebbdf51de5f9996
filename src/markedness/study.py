"""The stages that see all models: compare, report and track."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import yaml

from markedness import audits
from markedness.compare import DIFFERENCE_COLUMNS, Comparison, replicated_effects, replications, word_overlap
from markedness.params import Params
from markedness.reporting.results import Result, git, headline_keys, read
from markedness.stats.replication import Replication, replication, single_axis
from markedness.store import Store, StoreError
from markedness.tracking import AuditRun, DataSet, ModelRun, public

Report = Callable[[str], None]


def compare(params: Params, say: Report = print) -> pd.DataFrame:
    """results/compare: every pair of the models to run, on every audit; returns the differences."""
    store = Store(params.root)
    features = {
        audit: {
            model: store.read_table("features", audit, model)
            for model in params.run
            if store.table_path("features", audit, model).exists()
        }
        for audit in params.audits
    }
    differences = _differences(params, features)
    results = {(a, m): r for a in params.audits for m in params.run if (r := read(store, a, m, audits.card(a)))}
    overlap = word_overlap(_tables(results, "marked_words"))
    replication = replications(_tables(results, "effects"))
    effects = replicated_effects(_tables(results, "effects"))
    folder = store.compared()
    store.clear(folder, ("figures",))
    tables = {
        "differences": differences, "word_overlap": overlap, "replication": replication,
        "replicated_effects": effects, "headline": headline(results),
    }  # fmt: skip
    tables |= _across(params, features)
    for name, table in tables.items():
        store.write_csv(folder / f"{name}.csv", table)
    from markedness.reporting.comparisons import charts, gap_charts, sentences
    from markedness.reporting.figures import save

    made = charts(differences, overlap, replication, effects)
    if "annotation_gaps" in tables:
        made |= gap_charts(tables["annotation_gaps"])
    for name, chart in made.items():
        save(chart, folder / "figures" / name)
    store.write_json(folder / "notes.json", sentences(differences))
    n_models = len({model for by_model in features.values() for model in by_model})
    say(f"compare: {len(differences)} differences between {n_models} models in {folder.relative_to(params.root)}")
    return differences


def headline(results: dict[tuple[str, str], Result]) -> pd.DataFrame:
    """Every headline score of every model, a row each, with its interval and null."""
    rows = [
        (audit, score.key, f"{audit}: {score.label}", model, score.estimate, score.low, score.high, score.null)
        for (audit, model), result in results.items()
        for score in result.headline()
    ]
    columns = ["audit", "score", "label", "model", "estimate", "ci_low", "ci_high", "null"]
    return pd.DataFrame(rows, columns=columns)


def _tables(results: dict[tuple[str, str], Result], stem: str) -> dict[str, pd.DataFrame]:
    """Model -> table of this name, of the audits that write one."""
    return {model: result.table(stem) for (_, model), result in results.items() if stem in result.tables}


def _differences(params: Params, features: dict[str, dict[str, pd.DataFrame]]) -> pd.DataFrame:
    settings = params.compare
    found = []
    for place, (audit, tables) in enumerate(features.items()):
        if len(tables) < 2:
            continue
        evaluate, stage_params = audits.stage(audit, "evaluate"), params.stage(audit, "evaluate")
        if hasattr(evaluate, "comparable"):
            tables = evaluate.comparable(tables)
        comparison = Comparison(
            audit, tables, partial(evaluate.scores, params=stage_params), audits.card(audit).cluster,
            **settings.model_dump(), seed=(params.seed, place),
        )  # fmt: skip
        found.append(comparison.differences())
    empty = pd.DataFrame(columns=list(DIFFERENCE_COLUMNS))
    return pd.concat(found, ignore_index=True) if found else empty


def _across(params: Params, features: dict[str, dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Tables over the versions of a model family, of the audits that make some."""
    configs = {model: params.model(model) for model in params.run}
    versions = pd.DataFrame(
        [(model, config.family, config.n_parameters) for model, config in configs.items()],
        columns=["model", "family", "n_parameters"],
    )
    made: dict[str, pd.DataFrame] = {}
    for audit, tables in features.items():
        evaluate = audits.stage(audit, "evaluate")
        if hasattr(evaluate, "across"):
            made |= evaluate.across(tables, versions, params.stage(audit, "evaluate"))
    return made


def compare_revisions(
    params: Params, first: str, second: str, to: Path | None = None, say: Report = print
) -> pd.DataFrame:
    """The same models at two git revisions or DVC experiments, printed, and written as CSV where asked.

    Features are read from DVC's cache and scored by the code and params of now. Where the cache lacks them, the
    metrics of the two revisions stand side by side without an interval.
    """
    from markedness.revisions import Revision

    sides = {name: Revision(params.root, name) for name in (first, second)}
    frames = []
    for model in params.run:
        features: dict[str, dict[str, pd.DataFrame]] = {}
        for audit in params.audits:
            tables = {name: side.features(audit, model) for name, side in sides.items()}
            known = {name: table for name, table in tables.items() if table is not None}
            if len(known) == 2:
                features[audit] = known
            else:
                frames.append(_plain(audit, model, {name: side.metrics(audit, model) for name, side in sides.items()}))
        frames.append(_differences(params, features).assign(model=model))
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        raise StoreError(f"neither {first} nor {second} holds results of the models to run; see 'dvc exp show'")
    table = pd.concat(frames, ignore_index=True)
    table = table[["model", *(column for column in table if column != "model")]]
    say(table_text(table))
    if to is not None:
        Store(params.root).write_csv(to, table)
        say(f"compare: {len(table)} differences in {to}")
    return table


def _plain(audit: str, model: str, metrics: dict[str, dict[str, float] | None]) -> pd.DataFrame:
    """Headline metrics of two revisions, a minus b, without an interval."""
    (first, a), (second, b) = metrics.items()
    if a is None or b is None:
        return pd.DataFrame()
    keys = [key for key in headline_keys(audits.card(audit), a) if key in a and key in b]
    rows = [
        {"audit": audit, "score": key, "model_a": first, "model_b": second, "a": a[key], "b": b[key],
         "difference": a[key] - b[key], "method": "none", "note": "features are not in the cache: run 'dvc fetch'"}
        for key in keys
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS)).assign(model=model)


def table_text(table: pd.DataFrame) -> str:
    """Differences for a terminal."""
    columns = ["model", "audit", "score", "a", "b", "difference", "ci_low", "ci_high", "p_adjusted"]
    return table[columns].to_string(index=False, float_format=lambda value: f"{value:.3g}", na_rep="")


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


def export(params: Params, folder: Path, say: Report = print) -> None:
    """Every table as LaTeX and Markdown, every figure as PDF and SVG, under one folder."""
    from markedness.reporting.export import export as write

    store = Store(params.root)
    found = [r for a in params.audits for m in params.run if (r := read(store, a, m, audits.card(a)))]
    say(f"export: {write(store, found, folder)} files in {folder}")


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
                audit, result.metrics, tuple(headline_keys(result.card, result.metrics)),
                {audit: {**settings, "axes": axes}}, result.folder, _datasets(params, audit, model, hashes),
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


def replicate(params: Params, first: str, second: str, say: Report = print) -> Replication:
    """How many effects of one study or model another one replicates, in homogeneity's effects of single axes."""
    store = Store(params.root)
    tables = (
        store.read_csv(store.results("homogeneity", model) / "tables" / "effects.csv") for model in (first, second)
    )
    a, b = (single_axis(effects) for effects in tables)
    made = replication(a, b, params.compare.confidence_level)
    if not made.n:
        say(f"{first} and {second} have no effect in common; they need the same groups and cues")
        return made
    say(
        f"{made.hits} of {made.n} effects of {first} ({made.share:.1%}, interval {made.share_ci_low:.1%} to "
        f"{made.share_ci_high:.1%}) replicate in {second}; expected {made.expected:.1%} (chi-square {made.chi2:.1f}, "
        f"p = {made.p:.2g})"
    )
    say(f"same direction: {made.same_sign:.1%}; inside the bootstrap interval: {made.sampling_share:.1%}")
    return made
