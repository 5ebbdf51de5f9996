"""The stages that see all models: compare, report and track."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from markedness import audits
from markedness.asked import Asked
from markedness.audits.base import AuditSpec
from markedness.audits.homogeneity.replication import Replication, replication, single_axis
from markedness.compare import DIFFERENCE_COLUMNS, Comparison
from markedness.compared_tables import replicated_effects, replications, stacked, word_overlap
from markedness.examples import examples, samples
from markedness.gate.outputs import tags
from markedness.lm.config import CorpusModel, ServerModel
from markedness.lm.ledger import summary
from markedness.lm.progress import tell
from markedness.lm.served_by import reported
from markedness.params import Params
from markedness.records import FeatureTables, Strict, Unsupported
from markedness.reporting.results import Result, read
from markedness.results import Score
from markedness.stale import noted, older, scores_digest, stale
from markedness.store import Store
from markedness.tracked import AuditRun, DataSet, ModelRun
from markedness.verdicts import answers, counted, headline_estimates, headline_table, verdict_table
from markedness.working_tree import main_tree

Report = Callable[[str], None]
MADE_FROM = "made_from.json"
"""In results/compare: what the comparison is made of, for the report."""


def compare(params: Params, say: Report = tell) -> pd.DataFrame:
    """results/compare: every pair of the models to run, on every audit; returns the differences."""
    store = Store(params.root)
    folder = store.compared()
    with store.renewed(folder, ("figures",)) as new:
        differences, n_models = _compare(params, store, new, say)
    say(f"compare: {len(differences)} differences between {n_models} models in {folder.relative_to(params.root)}")
    return differences


def _compare(params: Params, store: Store, folder: Path, say: Report) -> tuple[pd.DataFrame, int]:
    """Fill ``folder``; return the differences and the number of models that have features."""
    features = {
        audit: {
            model: features_or_reason(store, audit, model)
            for model in params.run
            if store.features_path(audit, model).exists()
        }
        for audit in params.audits
    }
    differences = differences_of(params, features)
    results = {(a, m): r for a in params.audits for m in params.run if (r := read(store, a, m, audits.spec(a).card))}
    scores = _headlines(results)
    overlap = word_overlap(_tables(results, "marked_words"), _tables(results, "marked_words_by_group"))
    replication = replications(_tables(results, "effects"))
    effects = replicated_effects(_tables(results, "effects"))
    tables = {
        "differences": differences, "word_overlap": overlap, "replication": replication,
        "replicated_effects": effects, "headline": headline_table(scores), "verdicts": verdict_table(scores),
    }  # fmt: skip
    tables |= _across(params, features) | {"pooled_effects": stacked(_tables(results, "meta_analysis"))}
    for name, table in tables.items():
        store.write_csv(folder / f"{name}.csv", table)
    from markedness.reporting.comparisons import charts, gap_charts, sentences
    from markedness.reporting.figures import save

    made = charts(differences, overlap, replication, effects)
    if "annotation_gaps" in tables:
        made |= gap_charts(tables["annotation_gaps"], params.controls, tables["annotation_marginal"])
    for name, chart in made.items():
        save(chart, folder / "figures" / name)
    known = {*results, *((audit, model) for audit, by_model in features.items() for model in by_model)}
    warnings = [f"{audit}: {older(model, why)}." for (audit, model), why in stale(params, known).items()]
    others = {one: reported_otherwise(params, *one) for one in sorted(known)}
    warnings += [f"{audit} {model}: {said}" for (audit, model), said in others.items() if said]
    for sentence in warnings:
        say(f"compare: {sentence}")
    store.write_json(folder / "notes.json", [*warnings, *sentences(differences)])
    store.write_json(folder / MADE_FROM, _made_from(params, store))
    store.write_json(store.headline(), headline_estimates(scores))
    return differences, len({model for by_model in features.values() for model in by_model})


def _made_from(params: Params, store: Store) -> dict[str, str]:
    """What a comparison is made of: its block of the params, and digests of the Scores of each result."""
    results = [(audit, model) for model in params.run for audit in params.audits]
    scores = {"/".join(one): digest for one in results if (digest := scores_digest(store.root, *one))}
    return {"compare": params.compare.model_dump_json(), "run": ", ".join(params.run)} | scores


def _old_comparison(params: Params, store: Store) -> str:
    """The sentence on a comparison that is not of the results and params of now; "" where it is, or there is none."""
    path = store.compared() / MADE_FROM
    if not path.exists():
        return ""
    now, then = _made_from(params, store), json.loads(path.read_text(encoding="utf-8"))
    differ = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
    if not differ:
        return ""
    named = ", ".join(differ[:3]) + (f" and {len(differ) - 3} more" if len(differ) > 3 else "")
    return f"The comparisons are older than results or params ({named}): run 'markedness compare'."


def reported_otherwise(params: Params, audit: str, model: str) -> str:
    """A sentence where a server says that another model than was asked answered an audit, or several; else ""."""
    config, known = params.model(model), summary(Store(params.root).ledger_path(audit, model))
    return reported(config.model, known.models) if known and isinstance(config, ServerModel) else ""


def features_or_reason(store: Store, audit: str, model: str) -> FeatureTables | Unsupported:
    """The feature tables of one audit of one model, or why there are none."""
    found = store.read_features(audit, model)
    return found if isinstance(found, Unsupported) else found.tables


def _headlines(results: dict[tuple[str, str], Result]) -> dict[str, dict[str, list[Score]]]:
    """Model -> audit -> its headline Scores."""
    found: dict[str, dict[str, list[Score]]] = {}
    for (audit, model), result in results.items():
        found.setdefault(model, {})[audit] = result.headline()
    return found


def _tables(results: dict[tuple[str, str], Result], stem: str) -> dict[str, pd.DataFrame]:
    """Model -> table of this name, of the audits that write one."""
    return {model: result.table(stem) for (_, model), result in results.items() if stem in result.tables}


def differences_of(
    params: Params, features: dict[str, dict[str, FeatureTables | Unsupported]],
    asked: Mapping[str, Mapping[str, Asked]] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """The differences of all audits; ``asked``: audit -> name -> what was asked, where the names are no models."""
    found = [
        comparison(params, audit, tables, None if asked is None else asked.get(audit, {})).differences()
        for audit, tables in features.items()
        if len(tables) > 1
    ]
    empty = pd.DataFrame(columns=list(DIFFERENCE_COLUMNS))
    return pd.concat(found, ignore_index=True) if found else empty


def comparison(
    params: Params, audit: str, tables: Mapping[str, FeatureTables | Unsupported],
    asked: Mapping[str, Asked] | None = None,
) -> Comparison:  # fmt: skip
    """Models on one audit; other models and audits beside two of them change no number."""
    spec, settings = audits.spec(audit), params.compare
    if asked is None:
        asked = {name: asked_now(params, audit, name) for name in tables if name in params.models}
    scored = partial(_scores, spec, params.stage(audit, "evaluate"), (params.seed, zlib.crc32(audit.encode())))
    return Comparison(
        audit, tables, scored, spec.table, spec.cluster, spec.headline, params.controls, settings.correction,
        settings.confidence_level, spec.question, spec.comparable, spec.answered, spec.missing_key,
        spec.compared_on, spec.sides, asked, spec.counts,
    )  # fmt: skip


def asked_now(params: Params, audit: str, model: str) -> Asked:
    """What a model is asked by these params."""
    generate = params.stage(audit, "generate", model).model_dump(mode="json")
    return Asked.of(audits.spec(audit), generate, params.model(model))


def _scores(spec: AuditSpec, params: Strict, seed: Sequence[int], tables: FeatureTables) -> Sequence[Score]:
    """The Scores alone where the audit can make them so, else those of its whole evaluation."""
    rng = np.random.default_rng([*seed])
    if spec.scores is not None:
        return spec.scores(tables, params, rng)
    return spec.evaluate(tables, params, rng).scores


def _measured(features: Mapping[str, FeatureTables | Unsupported]) -> dict[str, FeatureTables]:
    return {model: tables for model, tables in features.items() if not isinstance(tables, Unsupported)}


def _across(params: Params, features: dict[str, dict[str, FeatureTables | Unsupported]]) -> dict[str, pd.DataFrame]:
    """Tables over the versions of a model family, of the audits that make some."""
    configs = {model: params.model(model) for model in params.run}
    versions = pd.DataFrame(
        [(name, one.family, one.n_parameters, name in params.controls) for name, one in configs.items()],
        columns=["model", "family", "n_parameters", "scripted"],
    )
    made: dict[str, pd.DataFrame] = {}
    for audit, tables in features.items():
        if (across := audits.spec(audit).across) is not None:
            made |= across(_measured(tables), versions, params.stage(audit, "evaluate"))
    return made


def report(params: Params, say: Report = tell) -> None:
    """reports/index.html and a stereotype card per model."""
    from markedness.reporting.pages import Pages
    from markedness.reporting.report import write

    pages = Pages(
        Store(params.root), params.audits, {name: params.model(name) for name in params.run},
        {audit: audits.spec(audit).card for audit in params.audits}, params.report.table_rows,
        params.report.examples, params.levels,
        {audit: str(size) for audit, size in params.sizes.items() if size.name}, partial(examples, params),
        old_comparison=_old_comparison(params, Store(params.root)),
    )  # fmt: skip
    if pages.old_comparison:
        say(f"report: {pages.old_comparison}")
    for (audit, _), sentence in noted(params, pages.results).items():
        say(f"report: {audit}: {sentence}")
    for path in write(pages):
        if path.name == "index.html":
            say(f"report: {len(pages.results)} results of {len(params.run)} models, open {path}")


def export(params: Params, folder: Path, say: Report = tell) -> None:
    """Every table as LaTeX and Markdown, every figure as PDF and SVG, under one folder."""
    from markedness.reporting.export import export as write

    store = Store(params.root)
    found = {(a, m): r for a in params.audits for m in params.run if (r := read(store, a, m, audits.spec(a).card))}
    for (audit, model), why in stale(params, found).items():
        del found[audit, model]
        say(f"export: {audit}: left out: {older(model, why)}")
    made, undrawn = write(store, list(found.values()), folder)
    for sentence in undrawn:
        say(f"export: {sentence}")
    say(f"export: {made} files in {folder}")


def track(params: Params, say: Report = tell) -> None:
    """Tell MLflow what came out; nothing changed, nothing logged."""
    from markedness import provenance, tracking
    from markedness.tracking_store import address

    state, link = provenance.state(params.root), provenance.origin(params.root)
    store = Store(params.root)
    found = {(a, m): r for m in params.run for a in params.audits if (r := read(store, a, m, audits.spec(a).card))}
    for (audit, model), why in stale(params, found).items():
        del found[audit, model]
        say(f"track: {audit}: not logged: {older(model, why)}")
    of_now = ({a: result for (a, of), result in found.items() if of == model} for model in params.run)
    runs = [_model_run(params, m, own, state, link) for m, own in zip(params.run, of_now, strict=True) if own]
    gated = tags(store, {run.model: [audit.audit for audit in run.audits] for run in runs})
    runs = [replace(run, gate=gated.get(run.model, "")) for run in runs]
    main = main_tree(params.root)
    with Store(main).locked("track", say):
        logged = tracking.track(runs, main, params.track.experiment)
    where = f"{', '.join(logged)} logged to {provenance.shown_address(address(main))}"
    say(f"track: {where if logged else 'nothing changed, nothing logged'}")


def _model_run(
    params: Params, model: str, results: Mapping[str, Result], state: dict[str, str], link: dict[str, str]
) -> ModelRun:
    """The run of one model, of its results by audit."""
    from markedness import provenance

    store = Store(params.root)
    runs, headlines = [], {}
    for audit, result in results.items():
        headlines[audit] = result.headline()
        settings = {
            name: params.stage(audit, name, model).model_dump(mode="json", exclude={"axes"})
            for name in audits.STAGES
            if (audit, name) in params.stages
        }
        axes = (params.raw.get(audit) or {}).get("axes") or {}
        outputs = {f"output.{path.name}": provenance.md5(path) for path in sorted(result.folder.iterdir())}
        runs.append(
            AuditRun(
                audit, result.metrics, tuple(result.card.headline),
                {audit: {**settings, "axes": axes}}, result.folder, _datasets(params, audit, model, link), outputs,
                samples(params, audit, model),
            )
        )  # fmt: skip
    judges = {one for audit in results for one in audits.spec(audit).judges(params.stage(audit, "featurize"))}
    asked = [model, *sorted(judges - {model})]
    changed = provenance.changes(params.root, params.path.name, params.raw, asked)
    tags = {
        **state,
        "answer": counted(answers(headlines)),
        "changed": "\n".join(f"{key}: {old} -> {new}" for key, (old, new) in changed.items()),
    }
    return ModelRun(
        model, {"seed": params.seed, "models": {one: params.raw["models"][one] for one in asked}}, tags, runs,
        store.reports() / f"{model}.html", provenance.run_name(model, changed),
        {key: now for key, (_, now) in changed.items()},
    )  # fmt: skip


def _datasets(params: Params, audit: str, model: str, link: dict[str, str]) -> list[DataSet]:
    """The generations, and the stimuli or the corpus that they come from, with DVC's hash."""
    from markedness import provenance

    store = Store(params.root)
    places = {f"{audit}-{kind}": store.table_path(kind, audit, model) for kind in ("generations", "responses")}
    places[f"{audit}-stimuli"] = store.stimuli_folder(audit)
    config = params.model(model)
    source = config.source(audit) if isinstance(config, CorpusModel) else None
    if source is not None:
        found = params.root.glob(source.path) if not Path(source.path).is_absolute() else ()
        places |= {f"{audit}-corpus-{path.stem}"[:200]: path for path in sorted(found)[:20]}
    return [
        DataSet(name, digest, path.relative_to(params.root).as_posix(), link)
        for name, path in places.items()
        if (digest := provenance.md5(path))
    ]


def replicate(params: Params, first: str, second: str, say: Report = tell) -> Replication:
    """How many effects of one study or model another one replicates, in homogeneity's effects of single axes."""
    store = Store(params.root)
    folders = [store.results("homogeneity", model) for model in (first, second)]
    a, b = (single_axis(store.read_csv(folder / "tables" / "effects.csv")) for folder in folders)
    ceiling = (
        store.read_csv(folders[0] / "scores.csv").set_index("key")["estimate"].get("replication.ceiling", float("nan"))
    )
    made = replication(a, b, params.compare.confidence_level)
    if not made.n:
        say(f"{first} and {second} have no effect in common; they need the same groups and cues")
        return made
    say(
        f"{made.hits} of {made.n} effects of {first} ({made.share:.1%}, interval {made.share_ci_low:.1%} to "
        f"{made.share_ci_high:.1%}) replicate in {second}; equal effects, not chance, would give {made.expected:.1%} "
        f"(chi-square {made.chi2:.1f}, p = {made.p:.2g})"
    )
    most = "" if pd.isna(ceiling) else f"; halves of {first} replicate {ceiling:.1%} of each other's effects"
    say(f"same direction: {made.same_sign:.1%}; inside the interval over names: {made.sampling_share:.1%}{most}")
    return made
